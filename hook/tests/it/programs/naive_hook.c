/* A hook as the lab's text leads one to write it: a table of 256 blocks, one fprintf a line, no
 * locks, three functions. The tests run it to see that they can fail. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cuda_runtime.h>

typedef cudaError_t (*malloc_fn)(void **, size_t);
typedef cudaError_t (*free_fn)(void *);
typedef cudaError_t (*launch_fn)(const void *, dim3, dim3, void **, size_t, cudaStream_t);

static struct {
    void *ptr;
    size_t size;
} alloc_table[256];
static int alloc_count;
static size_t total, quota;
static double rate, capacity, tokens, last;

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

__attribute__((constructor)) static void load(void) {
    const char *text = getenv("CUDA_MEM_QUOTA_MB");
    quota = text ? (size_t)atoi(text) << 20 : 0;
    rate = (text = getenv("CUDA_CORE_RATE")) ? atof(text) : 0;
    capacity = tokens = (text = getenv("CUDA_CORE_CAPACITY")) ? atof(text) : 0;
    last = now_s();
}

cudaError_t cudaMalloc(void **ptr, size_t size) {
    malloc_fn real = (malloc_fn)(uintptr_t)dlsym(RTLD_NEXT, "cudaMalloc");
    if (quota > 0 && total + size > quota) {
        fprintf(stderr, "[HOOK] cudaMalloc(%zu) DENIED | total: %.1f / %.1f MB\n", size, (double)total / 1048576,
                (double)quota / 1048576);
        return cudaErrorMemoryAllocation;
    }
    cudaError_t code = real(ptr, size);
    if (code == cudaSuccess) {
        total += size;
        alloc_table[alloc_count].ptr = *ptr;
        alloc_table[alloc_count++].size = size;
        fprintf(stderr, "[HOOK] cudaMalloc(%zu) -> %p | total: %.1f MB\n", size, *ptr, (double)total / 1048576);
    }
    return code;
}

cudaError_t cudaFree(void *ptr) {
    free_fn real = (free_fn)(uintptr_t)dlsym(RTLD_NEXT, "cudaFree");
    size_t size = 0;
    for (int i = 0; i < alloc_count; i++)
        if (alloc_table[i].ptr == ptr) {
            size = alloc_table[i].size;
            alloc_table[i] = alloc_table[--alloc_count];
            break;
        }
    cudaError_t code = real(ptr);
    if (code == cudaSuccess) total -= size;
    fprintf(stderr, "[HOOK] cudaFree(%p) -> %d | freed: %zu bytes | total: %.1f MB\n", ptr, code, size,
            (double)total / 1048576);
    return code;
}

cudaError_t cudaLaunchKernel(const void *func, dim3 grid, dim3 block, void **args, size_t shmem, cudaStream_t stream) {
    launch_fn real = (launch_fn)(uintptr_t)dlsym(RTLD_NEXT, "cudaLaunchKernel");
    double now = now_s();
    tokens += (now - last) * rate;
    if (tokens > capacity) tokens = capacity;
    last = now;
    if (rate > 0 && tokens < 1.0) {
        fprintf(stderr, "[HOOK] cudaLaunchKernel(grid=%u,%u,%u block=%u,%u,%u) DENIED | tokens=%.1f\n", grid.x, grid.y,
                grid.z, block.x, block.y, block.z, tokens);
        return 4;
    }
    tokens -= 1.0;
    cudaError_t code = real(func, grid, block, args, shmem, stream);
    fprintf(stderr, "[HOOK] cudaLaunchKernel(grid=%u,%u,%u block=%u,%u,%u) -> %d | tokens=%.1f\n", grid.x, grid.y,
            grid.z, block.x, block.y, block.z, code, tokens);
    return code;
}
