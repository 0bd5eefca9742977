/* Another library that is preloaded beside the hook and takes cudaMalloc for itself, the way such libraries do: it asks
 * for the next one behind it. A wrong answer makes it find itself, over and over. */
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

__attribute__((destructor)) static void tell(void) {
    printf("neighbour = %d\n", calls);
    fflush(stdout);
}
