/* Threads that launch kernels one after another.
 *
 *     launchers THREADS LAUNCHES
 *
 * Out: launches that returned 0, launches that reached the runtime, and the seconds they took.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cuda_runtime.h>

static int times;
static atomic_int passed;

static void kernel(void) {}

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void *work(void *unused) {
    (void)unused;
    const dim3 grid = {1, 1, 1}, block = {32, 1, 1};
    for (int i = 0; i < times; i++)
        if (cudaLaunchKernel((const void *)(uintptr_t)kernel, grid, block, NULL, 0, NULL) == cudaSuccess) passed++;
    return NULL;
}

int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 1;
    times = argc > 2 ? atoi(argv[2]) : 10;
    pthread_t threads[64];
    double start = now_s();
    for (int i = 0; i < count; i++) pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
    printf("%d %llu %.6f\n", passed, cudaSimLaunches(), now_s() - start);
    return 0;
}
