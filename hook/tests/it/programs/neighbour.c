/* Another library that is preloaded beside the hook and takes functions for itself, in the two ways of such libraries:
 * cudaMalloc's next one it looks for behind itself, cuMemAlloc's in the driver. A wrong answer makes it find itself, over
 * and over. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include <cuda_runtime.h>

typedef cudaError_t (*malloc_fn)(void **, size_t);

static int calls;

cudaError_t cudaMalloc(void **ptr, size_t size) {
    malloc_fn next = (malloc_fn)dlsym(RTLD_NEXT, "cudaMalloc");
    if (next == NULL || next == cudaMalloc || ++calls > 100)
        abort();
    return next(ptr, size);
}

typedef int (*alloc_fn)(unsigned long long *, size_t);

int cuMemAlloc_v2(unsigned long long *ptr, size_t size) {
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY);
    alloc_fn next = driver ? (alloc_fn)dlsym(driver, "cuMemAlloc_v2") : NULL;
    if (next == NULL || ++calls > 100)
        abort();
    return next(ptr, size);
}

__attribute__((destructor)) static void tell(void) {
    printf("neighbour = %d\n", calls);
    fflush(stdout);
}
