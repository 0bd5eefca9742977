/* A shared object that gives its memory back when the process ends, as static objects of C++
 * libraries do. */
#include <stdio.h>

#include <cuda_runtime.h>

static void *block;

void hello(void);

void hello(void) { cudaMalloc(&block, 1 << 20); }

__attribute__((destructor)) static void goodbye(void) {
    if (block) printf("%d\n", cudaFree(block));
    fflush(stdout);
}
