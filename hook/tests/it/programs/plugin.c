/* A shared object that is linked to libcudart and tells where its functions are, as seen from here. */
#include <stdint.h>
#include <string.h>

#include <cuda_runtime.h>

void *plugin_address(const char *name);

void *plugin_address(const char *name) {
    if (!strcmp(name, "cudaMalloc")) return (void *)(uintptr_t)cudaMalloc;
    if (!strcmp(name, "cudaFree")) return (void *)(uintptr_t)cudaFree;
    if (!strcmp(name, "cudaGetLastError")) return (void *)(uintptr_t)cudaGetLastError;
    return NULL;
}
