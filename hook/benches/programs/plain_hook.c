/* A launch hook in the course's way: a token bucket and one fprintf a line, to the file that COST_LOG names. The real
 * function is looked up once. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cuda_runtime.h>

typedef cudaError_t (*launch_fn)(const void *, dim3, dim3, void **, size_t, cudaStream_t);

static launch_fn real_launch;
static FILE *out;
static double rate, capacity, tokens, last;

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

__attribute__((constructor)) static void load(void) {
    const char *text;
    rate = (text = getenv("CUDA_CORE_RATE")) ? atof(text) : 1e12;
    capacity = tokens = (text = getenv("CUDA_CORE_CAPACITY")) ? atof(text) : 1e12;
    last = now_s();
    out = (text = getenv("COST_LOG")) ? fopen(text, "a") : stderr;
    /* As stderr is, so that the lines survive a crash. */
    if (out) setvbuf(out, NULL, _IONBF, 0);
}

cudaError_t cudaLaunchKernel(const void *func, dim3 grid, dim3 block, void **args, size_t shmem, cudaStream_t stream) {
    if (!real_launch) real_launch = (launch_fn)(uintptr_t)dlsym(RTLD_NEXT, "cudaLaunchKernel");
    double now = now_s();
    tokens += (now - last) * rate;
    if (tokens > capacity) tokens = capacity;
    last = now;
    if (tokens < 1.0) {
        fprintf(out, "[HOOK] cudaLaunchKernel(grid=%u,%u,%u block=%u,%u,%u) DENIED | tokens=%.1f\n", grid.x, grid.y,
                grid.z, block.x, block.y, block.z, tokens);
        return 4;
    }
    tokens -= 1.0;
    cudaError_t code = real_launch(func, grid, block, args, shmem, stream);
    fprintf(out, "[HOOK] cudaLaunchKernel(grid=%u,%u,%u block=%u,%u,%u) -> %d | tokens=%.1f\n", grid.x, grid.y, grid.z,
            block.x, block.y, block.z, code, tokens);
    return code;
}
