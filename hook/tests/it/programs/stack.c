/* Makes calls on a thread with a small stack. Out: their codes. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cuda_runtime.h>

static int codes[3];

static void kernel(void) {}

static void *work(void *unused) {
    const dim3 one = {1, 1, 1};
    void *block;
    codes[0] = cudaMalloc(&block, 4096);
    codes[1] = cudaLaunchKernel((const void *)(uintptr_t)kernel, one, one, NULL, 0, NULL);
    codes[2] = cudaFree(block);
    return unused;
}

int main(int argc, char **argv) {
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    if (pthread_attr_setstacksize(&attributes, (size_t)(argc > 1 ? atoi(argv[1]) : 64) << 10) != 0) return 1;
    if (pthread_create(&thread, &attributes, work, NULL) != 0) return 2;
    pthread_join(thread, NULL);
    printf("%d %d %d\n", codes[0], codes[1], codes[2]);
    return 0;
}
