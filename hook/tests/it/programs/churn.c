/* Threads that allocate and free as fast as they can, so that addresses go from one to another.
 *
 *     churn THREADS ROUNDS
 *
 * Thread i takes blocks of 1 MB + i * 512 bytes, so a mixed-up block shows in the totals. Out: how
 * many bytes are left live in the runtime. Exit code 1 when a call failed.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cuda_runtime.h>

static int rounds;
static atomic_int failures;

static void *work(void *number) {
    size_t size = (1u << 20) + (size_t)(uintptr_t)number * 512;
    for (int i = 0; i < rounds; i++) {
        void *block;
        if (cudaMalloc(&block, size) != cudaSuccess || cudaFree(block) != cudaSuccess) failures++;
    }
    return NULL;
}

int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 8;
    rounds = argc > 2 ? atoi(argv[2]) : 100;
    pthread_t threads[64];
    for (int i = 0; i < count; i++) pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)i);
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
    printf("%llu\n", cudaSimLiveBytes());
    return failures != 0;
}
