/* Makes the CUDA calls that its arguments name, one an argument, and prints one line for each:
 *
 *     calls 'malloc a 64M' 'launch' 'last' 'free a'
 *
 *     malloc a 64M = 0
 *     launch = 0
 *     ...
 *
 * Out: `command = code`, followed by ` errno=N` where the call changed errno. A command may begin
 * with a count: `10x launch`. Sizes take K, M, G; `max-32M` is 32 MB less than the largest size.
 * Blocks are named a to z.
 *
 *     take SYMBOL NAME SIZE      an allocation by another function
 *     pitch NAME W,H     cube NAME W,H,D     free-async NAME [SYMBOL]
 *     host NAME SIZE   free-host NAME            pinned host memory
 *     reset   free-mb   total-mb (of cudaMemGetInfo)   launch-ex-null
 *     array NAME W,H   array3 NAME W,H,D   mip NAME W,H,LEVELS   free-array NAME   free-mip NAME
 *     graph [SYMBOL]                            a graph's launch
 *     register NAME   unregister                a kernel's name, as nvcc's host code gives it
 *     file-limit SIZE    RLIMIT_FSIZE from here on
 *     is-null NAME       1 when the block's pointer is null
 *     malloc NAME SIZE   malloc-null SIZE   free NAME   free-raw ADDRESS   launch [SYMBOL [G B]]
 *     last   peek   device N   hold N SIZE   drop   live   launches
 *     thread ... done    the commands between, on a thread of their own
 *     fork ... done      the commands between, in a child, which then exits
 *     spawn              the rest in a new process of this program
 *     exec               the rest in this process, begun anew
 *     sleep MS   chdir PATH   clearenv   open PATH   sigpipe   fill   _exit N   kill   pid
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cuda_runtime.h>

#define MARK 4242 /* no errno of anything */

typedef cudaError_t (*launch_fn)(const void *, dim3, dim3, void **, size_t, cudaStream_t);

static char **commands;
static int command_count;
static void *blocks[26];
static void **held;
static size_t held_count;
static void **binary;
static char *kernel_name;

static void kernel(void) {}
static void nothing(const void *func, dim3 grid, dim3 block, void **args) {
    (void)func, (void)grid, (void)block, (void)args;
}

static size_t size_of(const char *text) {
    size_t from_top = strncmp(text, "max-", 4) == 0;
    char *unit;
    size_t value = strtoull(from_top ? text + 4 : text, &unit, 0);
    value <<= *unit == 'K' ? 10 : *unit == 'M' ? 20 : *unit == 'G' ? 30 : 0;
    return from_top ? SIZE_MAX - value : value;
}

static int launch_ex(const char *symbol, dim3 g, dim3 b, const void *func) {
    typedef cudaError_t (*launch_ex_fn)(const cudaLaunchConfig_t *, const void *, void **);
    launch_ex_fn call = (launch_ex_fn)(uintptr_t)dlsym(RTLD_DEFAULT, symbol);
    cudaLaunchConfig_t config = {.gridDim = g, .blockDim = b, .dynamicSmemBytes = 16};
    errno = MARK;
    return call ? (int)call(&config, func, NULL) : -1;
}

static int launch(const char *symbol, const char *grid, const char *block) {
    dim3 g = {1, 1, 1}, b = {32, 1, 1};
    if (grid) sscanf(grid, "%u,%u,%u", &g.x, &g.y, &g.z);
    if (block) sscanf(block, "%u,%u,%u", &b.x, &b.y, &b.z);
    const void *func = (const void *)(uintptr_t)kernel;
    if (!symbol) {
        errno = MARK;
        return cudaLaunchKernel(func, g, b, NULL, 0, NULL);
    }
    if (strstr(symbol, "ExC")) return launch_ex(symbol, g, b, func);
    launch_fn call = (launch_fn)(uintptr_t)dlsym(RTLD_DEFAULT, symbol);
    if (!call) return -1;
    cudaKernel_t handle;
    if (symbol[0] == '_') {
        __cudaSimRegisterKernel(func, nothing);
        if (__cudaGetKernel(&handle, func) != cudaSuccess) return -2;
        func = handle;
    }
    errno = MARK;
    return call(func, g, b, NULL, 0, NULL);
}

static int take(const char *symbol, void **place, size_t size) {
    void *call = dlsym(RTLD_DEFAULT, symbol);
    if (!call) return -1;
    errno = MARK;
    if (strstr(symbol, "Managed"))
        return ((cudaError_t(*)(void **, size_t, unsigned))(uintptr_t)call)(place, size, cudaMemAttachGlobal);
    if (strstr(symbol, "Pool"))
        return ((cudaError_t(*)(void **, size_t, cudaMemPool_t, cudaStream_t))(uintptr_t)call)(place, size, NULL, NULL);
    if (strstr(symbol, "Async"))
        return ((cudaError_t(*)(void **, size_t, cudaStream_t))(uintptr_t)call)(place, size, NULL);
    return ((cudaError_t(*)(void **, size_t))(uintptr_t)call)(place, size);
}

static int cube(void **place, const char *text) {
    struct cudaPitchedPtr got = {.ptr = place, .pitch = 0};
    struct cudaExtent want = {0, 0, 0};
    sscanf(text, "%zu,%zu,%zu", &want.width, &want.height, &want.depth);
    errno = MARK;
    int code = cudaMalloc3D(&got, want);
    *place = got.ptr;
    return code;
}

static int pitch(void **place, const char *text) {
    size_t width = 0, height = 0, row = 0;
    sscanf(text, "%zu,%zu", &width, &height);
    errno = MARK;
    return cudaMallocPitch(place, &row, width, height);
}

static long long megabytes(int total) {
    size_t free_bytes = 0, total_bytes = 0;
    int code = cudaMemGetInfo(&free_bytes, &total_bytes);
    return code ? -code : (long long)((total ? total_bytes : free_bytes) >> 20);
}

static int hold(size_t count, size_t size) {
    held = realloc(held, (held_count + count) * sizeof *held);
    for (size_t i = 0; i < count; i++) {
        errno = MARK;
        int code = cudaMalloc(&held[held_count], size);
        if (code != cudaSuccess) return code;
        held_count++;
    }
    return 0;
}

static int drop(void) {
    int worst = 0;
    while (held_count > 0) {
        errno = MARK;
        int code = cudaFree(held[--held_count]);
        if (code != cudaSuccess) worst = code;
    }
    return worst;
}

/* Makes fd 2 a pipe that is full and doesn't block. Its reading end stays open. */
static int fill(void) {
    int ends[2];
    if (pipe2(ends, O_NONBLOCK) != 0) return -1;
    char page[4096] = {0};
    while (write(ends[1], page, sizeof page) > 0) {
    }
    return dup2(ends[1], 2) == 2 ? 0 : -1;
}

static long long run_one(char *word, char *a, char *b, char *c) {
    struct sigaction action;
    struct timespec pause;
    errno = MARK;
    if (!strcmp(word, "malloc")) return cudaMalloc(&blocks[*a - 'a'], size_of(b));
    if (!strcmp(word, "malloc-null")) return cudaMalloc(NULL, size_of(a));
    if (!strcmp(word, "take")) return take(a, &blocks[*b - 'a'], size_of(c));
    if (!strcmp(word, "host")) return cudaHostAlloc(&blocks[*a - 'a'], size_of(b), 0);
    if (!strcmp(word, "free-host")) return cudaFreeHost(blocks[*a - 'a']);
    if (!strcmp(word, "pitch")) return pitch(&blocks[*a - 'a'], b);
    if (!strcmp(word, "cube")) return cube(&blocks[*a - 'a'], b);
    if (!strcmp(word, "free-async"))
        return b ? ((cudaError_t(*)(void *, cudaStream_t))(uintptr_t)dlsym(RTLD_DEFAULT, b))(blocks[*a - 'a'], NULL)
                 : cudaFreeAsync(blocks[*a - 'a'], NULL);
    if (!strcmp(word, "reset")) return cudaDeviceReset();
    if (!strcmp(word, "free-mb")) return megabytes(0);
    if (!strcmp(word, "total-mb")) return megabytes(1);
    if (!strcmp(word, "launch-ex-null")) return cudaLaunchKernelExC(NULL, NULL, NULL);
    if (strstr(word, "array") || strstr(word, "mip")) {
        struct cudaChannelFormatDesc texel = {32, 32, 32, 32, cudaChannelFormatKindFloat};
        struct cudaExtent extent = {0, 0, 0};
        void **place = &blocks[*a - 'a'];
        if (!strcmp(word, "free-array")) return cudaFreeArray(*place);
        if (!strcmp(word, "free-mip")) return cudaFreeMipmappedArray(*place);
        sscanf(b, "%zu,%zu,%zu", &extent.width, &extent.height, &extent.depth);
        if (!strcmp(word, "array")) return cudaMallocArray((cudaArray_t *)place, &texel, extent.width, extent.height, 0);
        if (!strcmp(word, "array3")) return cudaMalloc3DArray((cudaArray_t *)place, &texel, extent, 0);
        unsigned levels = (unsigned)extent.depth;
        extent.depth = 0;
        return cudaMallocMipmappedArray((cudaMipmappedArray_t *)place, &texel, extent, levels, 0);
    }
    if (!strcmp(word, "graph")) {
        cudaGraphExec_t exec = (cudaGraphExec_t)(uintptr_t)0x55d0;
        return ((cudaError_t(*)(cudaGraphExec_t, cudaStream_t))(uintptr_t)dlsym(RTLD_DEFAULT, a ? a : "cudaGraphLaunch"))(exec, NULL);
    }
    if (!strcmp(word, "register")) {
        /* The name lies in memory that goes away with the registration, as a library's does. */
        binary = __cudaRegisterFatBinary(NULL);
        kernel_name = strdup(a);
        __cudaRegisterFunction(binary, (const char *)(uintptr_t)kernel, NULL, kernel_name, -1, NULL, NULL, NULL, NULL, NULL);
        return 0;
    }
    if (!strcmp(word, "unregister")) {
        __cudaUnregisterFatBinary(binary);
        memset(kernel_name, 'x', strlen(kernel_name));
        free(kernel_name);
        return 0;
    }
    if (!strcmp(word, "file-limit"))
        return setrlimit(RLIMIT_FSIZE, &(struct rlimit){size_of(a), RLIM_INFINITY});
    if (!strcmp(word, "is-null")) return blocks[*a - 'a'] == NULL;
    if (!strcmp(word, "free")) return cudaFree(blocks[*a - 'a']);
    if (!strcmp(word, "free-raw")) return cudaFree((void *)(uintptr_t)size_of(a));
    if (!strcmp(word, "launch")) return launch(a, b, c);
    if (!strcmp(word, "last")) return cudaGetLastError();
    if (!strcmp(word, "peek")) return cudaPeekAtLastError();
    if (!strcmp(word, "device")) return cudaSetDevice(atoi(a));
    if (!strcmp(word, "hold")) return hold(size_of(a), size_of(b));
    if (!strcmp(word, "drop")) return drop();
    if (!strcmp(word, "live")) return (long long)cudaSimLiveBytes();
    if (!strcmp(word, "launches")) return (long long)cudaSimLaunches();
    if (!strcmp(word, "sleep")) {
        long ms = atol(a);
        pause = (struct timespec){ms / 1000, ms % 1000 * 1000000};
        while (nanosleep(&pause, &pause) != 0) {
        }
        return 0;
    }
    if (!strcmp(word, "chdir")) return chdir(a);
    if (!strcmp(word, "clearenv")) return clearenv();
    if (!strcmp(word, "open")) return open(a, O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (!strcmp(word, "sigpipe")) return sigaction(SIGPIPE, NULL, &action), action.sa_handler == SIG_DFL;
    if (!strcmp(word, "fill")) return fill();
    if (!strcmp(word, "_exit")) _exit(atoi(a));
    if (!strcmp(word, "kill")) return raise(SIGKILL);
    if (!strcmp(word, "pid")) return getpid();
    fprintf(stderr, "calls: what is `%s`?\n", word);
    exit(99);
}

static void run_words(const char *command) {
    char copy[256], *words[5] = {NULL}, *rest = NULL;
    snprintf(copy, sizeof copy, "%s", command);
    for (int i = 0; i < 5; i++) words[i] = strtok_r(i ? NULL : copy, " ", &rest);
    long times = 1;
    int from = 0;
    if (words[0] && words[0][0] >= '1' && words[0][0] <= '9') {
        times = strtol(words[0], NULL, 10);
        from = 1;
    }
    while (times-- > 0) {
        long long code = run_one(words[from], words[from + 1], words[from + 2], words[from + 3]);
        int after = errno;
        printf("%s = %lld", command, code);
        if (after != MARK) printf(" errno=%d", after);
        printf("\n");
    }
}

static void run_range(int from, int to);

struct range {
    int from, to;
};

static void *run_thread(void *range) {
    struct range *r = range;
    run_range(r->from, r->to);
    return NULL;
}

static void run_range(int from, int to) {
    for (int i = from; i < to; i++) {
        const char *command = commands[i];
        bool child = !strcmp(command, "fork"), thread = !strcmp(command, "thread");
        if (child || thread) {
            struct range r = {i + 1, i + 1};
            while (r.to < to && strcmp(commands[r.to], "done")) r.to++;
            int status = 0;
            if (thread) {
                pthread_t id;
                if (pthread_create(&id, NULL, run_thread, &r) || pthread_join(id, NULL)) exit(98);
            } else {
                fflush(stdout);
                pid_t pid = fork();
                if (pid == 0) {
                    run_range(r.from, r.to);
                    exit(0);
                }
                if (waitpid(pid, &status, 0) != pid || status != 0) exit(97);
            }
            i = r.to;
        } else if (!strcmp(command, "spawn") || !strcmp(command, "exec")) {
            fflush(stdout);
            pid_t pid = *command == 's' ? fork() : 0;
            if (pid == 0) {
                commands[i] = commands[-1];
                execv("/proc/self/exe", &commands[i]);
                _exit(96);
            }
            int status = 0;
            if (waitpid(pid, &status, 0) != pid || status != 0) exit(95);
            return;
        } else {
            run_words(command);
        }
    }
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    commands = argv + 1;
    command_count = argc - 1;
    run_range(0, command_count);
    return 0;
}
