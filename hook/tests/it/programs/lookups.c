/* Asks the dynamic linker this and that, and prints the answers: they are the same with the hook and without. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static void ask(const char *whom, void *handle, const char *name) {
    dlerror();
    errno = 77;
    void *found = dlsym(handle, name);
    int kept = errno == 77;
    const char *error = dlerror();
    Dl_info info;
    const char *where = found && dladdr(found, &info) ? strrchr(info.dli_fname, '/') : NULL;
    printf("%s %s: %s in %s, errno %s, %s\n", whom, name, found ? "found" : "nothing", where ? where : "?",
           kept ? "kept" : "changed", error ? error : "no error");
}

int main(void) {
    void *math = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
    void *self = dlopen(NULL, RTLD_NOW);
    const char *names[] = {"cos", "getpid", "no_such_function", "cuda_no_such_function", "cuMemAllocate", "cu", ""};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        ask("default", RTLD_DEFAULT, names[i]);
        ask("next", RTLD_NEXT, names[i]);
        ask("math", math, names[i]);
        ask("self", self, names[i]);
    }
    void *other = dlopen("libneighbour.so", RTLD_NOW | RTLD_LOCAL);
    ask("other", other, "cuMemAlloc_v2");
    ask("other", other, "cuLaunchGrid");
    ask("math", math, "cuMemAlloc_v2");
    ask("math", math, "cuGetProcAddress");
    ask("math", math, "dlsym");
    return 0;
}
