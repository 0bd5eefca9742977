/* Times calls on the stand-in runtime.
 *
 *     cost launch BATCHES PER_BATCH PAUSE_US     launches, timed a batch at a time
 *     cost pairs LIVE PAIRS                      cudaMalloc + cudaFree while LIVE blocks are held
 *
 * Out: ns a call (or a pair), the median of the batches and the mean; then the calls that succeeded.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cuda_runtime.h>

static void kernel(void) {}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Waits as cudaDeviceSynchronize does: a processor that sleeps comes back slower than it went. */
static void spin(long us) {
    for (uint64_t until = now_ns() + (uint64_t)us * 1000; us && now_ns() < until;) {
    }
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void *must(void *memory) {
    if (!memory) exit(90);
    return memory;
}

static void print(double *each, long batches, long well) {
    double sum = 0;
    for (long i = 0; i < batches; i++) sum += each[i];
    qsort(each, (size_t)batches, sizeof *each, ascending);
    printf("%.2f %.2f %ld\n", each[batches / 2], sum / (double)batches, well);
}

static void launches(long batches, long per_batch, long pause_us) {
    const dim3 grid = {1, 1, 1}, block = {32, 1, 1};
    double *each = must(calloc((size_t)batches, sizeof *each));
    long well = 0;
    for (long b = 0; b < batches; b++) {
        uint64_t from = now_ns();
        for (long i = 0; i < per_batch; i++)
            well += cudaLaunchKernel((const void *)(uintptr_t)kernel, grid, block, NULL, 0, NULL) == cudaSuccess;
        each[b] = (double)(now_ns() - from) / (double)per_batch;
        spin(pause_us);
    }
    print(each, batches, well);
}

static void pairs(long live, long count) {
    enum { PER_BATCH = 500 };
    void **held = must(calloc((size_t)live, sizeof *held));
    long batches = count / PER_BATCH, well = 0;
    double *each = must(calloc((size_t)batches, sizeof *each));
    for (long i = 0; i < live; i++) well += cudaMalloc(&held[i], 512) == cudaSuccess;
    for (long b = 0; b < batches; b++) {
        uint64_t from = now_ns();
        for (long i = 0; i < PER_BATCH; i++) {
            void *block;
            well += cudaMalloc(&block, 512) == cudaSuccess && cudaFree(block) == cudaSuccess;
        }
        each[b] = (double)(now_ns() - from) / PER_BATCH;
        spin(8000);
    }
    print(each, batches, well);
}

int main(int argc, char **argv) {
    if (argc == 5 && !strcmp(argv[1], "launch"))
        launches(atol(argv[2]), atol(argv[3]), atol(argv[4]));
    else if (argc == 4 && !strcmp(argv[1], "pairs"))
        pairs(atol(argv[2]), atol(argv[3]));
    else
        return 99;
    return 0;
}
