/* A libcudart.so.13 that lacks most of what a runtime has: no __cudaLaunchKernel, no last error. */
#include <stddef.h>
#include <stdlib.h>

int cudaMalloc(void **ptr, size_t size);
int cudaFree(void *ptr);

int cudaMalloc(void **ptr, size_t size) {
    *ptr = malloc(size);
    return *ptr ? 0 : 2;
}

int cudaFree(void *ptr) {
    free(ptr);
    return 0;
}
