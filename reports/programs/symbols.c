// Which of libcuda.so.1's functions are exported, and whether cuGetProcAddress_v2 answers with the same addresses:
//   symbols NAME...
// A line a name: whether dlsym finds it, then the CUDA versions, by kind of default stream, for which cuGetProcAddress_v2
// answers this very address to the name without its suffixes; where it never does, what it answers instead for the newest
// version. Exit: 2 without the library.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef int (*get_proc_address)(const char *name, void **function, int version, uint64_t flags, int *status);

static const int VERSIONS[] = {2000,  3020,  4000,  5000,  6050,  7000,  8000,  9000,  10000, 10010, 10020, 11000,
                               11010, 11020, 11030, 11040, 11060, 11070, 12000, 12030, 12040, 12050, 12080, 13000};
enum { VERSION_COUNT = sizeof VERSIONS / sizeof *VERSIONS };

// "cuMemAlloc" of "cuMemAlloc_v2", "cuLaunchKernel" of "cuLaunchKernel_ptsz".
static void without_suffixes(const char *name, char *base, size_t size) {
    snprintf(base, size, "%s", name);
    for (;;) {
        char *last = strrchr(base, '_');
        if (!last) return;
        int version = last[1] == 'v' && last[2] && strspn(last + 2, "0123456789") == strlen(last + 2);
        if (!version && strcmp(last, "_ptsz") != 0 && strcmp(last, "_ptds") != 0) return;
        *last = 0;
    }
}

// Prints the stretches of versions for which the answer is `exported`, and returns how many there are.
static int same(get_proc_address ask, const char *base, const void *exported, uint64_t flags, const char *kind) {
    int stretches = 0, first = -1;
    for (int v = 0; v <= VERSION_COUNT; ++v) {
        void *answer = NULL;
        int status = -1;
        int is = v < VERSION_COUNT && ask(base, &answer, VERSIONS[v], flags, &status) == 0 && answer == exported;
        if (is && first < 0) first = v;
        if (!is && first >= 0) {
            printf("%s %d-%d", stretches++ ? "," : kind, VERSIONS[first], VERSIONS[v - 1]);
            first = -1;
        }
    }
    return stretches;
}

int main(int argc, char **argv) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) {
        printf("%s\n", dlerror());
        return 2;
    }
    get_proc_address ask = (get_proc_address)dlsym(library, "cuGetProcAddress_v2");
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(library, "cuInit");
    printf("cuInit(0) = %d, cuGetProcAddress_v2 %s\n", init ? init(0) : -1, ask ? "is there" : "is missing");
    for (int i = 1; i < argc; ++i) {
        void *exported = dlsym(library, argv[i]);
        char base[128];
        without_suffixes(argv[i], base, sizeof base);
        printf("%-44s %s", argv[i], exported ? "exported" : "missing ");
        int found = 0;
        if (ask && exported) {
            found += same(ask, base, exported, 1, "  the same, legacy stream:");
            found += same(ask, base, exported, 2, "  the same, per-thread stream:");
        }
        if (ask && !found) {
            void *answer = NULL;
            int status = -1;
            int code = ask(base, &answer, VERSIONS[VERSION_COUNT - 1], 1, &status);
            Dl_info info = {0};
            const char *known = answer && dladdr(answer, &info) && info.dli_saddr == answer ? info.dli_sname : "no exported function";
            printf("  never the same; %s at 13000: code %d, status %d, %s", base, code, status, answer ? known : "null");
        }
        printf("\n");
    }
    return 0;
}
