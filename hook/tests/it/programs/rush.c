/* Threads that all ask for memory at the same moment.
 *
 *     rush THREADS MB
 *
 * Out: how many were granted it.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <cuda_runtime.h>

static size_t size;
static atomic_int granted;
static pthread_barrier_t start;

static void *ask(void *unused) {
    (void)unused;
    void *block;
    pthread_barrier_wait(&start);
    if (cudaMalloc(&block, size) == cudaSuccess) granted++;
    return NULL;
}

int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 16;
    size = (size_t)(argc > 2 ? atoi(argv[2]) : 64) << 20;
    pthread_t threads[64];
    pthread_barrier_init(&start, NULL, (unsigned)count);
    for (int i = 0; i < count; i++) pthread_create(&threads[i], NULL, ask, NULL);
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
    printf("%d\n", granted);
    return 0;
}
