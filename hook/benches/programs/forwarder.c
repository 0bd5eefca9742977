/* A preloaded library that does nothing: what interposition alone costs. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>

#include <cuda_runtime.h>

typedef cudaError_t (*launch_fn)(const void *, dim3, dim3, void **, size_t, cudaStream_t);
typedef cudaError_t (*malloc_fn)(void **, size_t);
typedef cudaError_t (*free_fn)(void *);

static launch_fn real_launch;
static malloc_fn real_malloc;
static free_fn real_free;

cudaError_t cudaLaunchKernel(const void *func, dim3 grid, dim3 block, void **args, size_t shmem, cudaStream_t stream) {
    if (!real_launch) real_launch = (launch_fn)(uintptr_t)dlsym(RTLD_NEXT, "cudaLaunchKernel");
    return real_launch(func, grid, block, args, shmem, stream);
}

cudaError_t cudaMalloc(void **place, size_t size) {
    if (!real_malloc) real_malloc = (malloc_fn)(uintptr_t)dlsym(RTLD_NEXT, "cudaMalloc");
    return real_malloc(place, size);
}

cudaError_t cudaFree(void *block) {
    if (!real_free) real_free = (free_fn)(uintptr_t)dlsym(RTLD_NEXT, "cudaFree");
    return real_free(block);
}
