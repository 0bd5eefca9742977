/* Forks while threads keep every lock of a hook busy; each child makes calls of its own.
 *
 *     forks THREADS FORKS
 *
 * Out: children that ended well. A child that inherits a lock in the locked state hangs.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda_runtime.h>

static atomic_bool stop;

static void kernel(void) {}

static int calls(void) {
    const dim3 one = {1, 1, 1};
    void *block;
    int failures = cudaMalloc(&block, 4096) != cudaSuccess;
    failures += cudaLaunchKernel((const void *)(uintptr_t)kernel, one, one, NULL, 0, NULL) != cudaSuccess;
    return failures + (cudaFree(block) != cudaSuccess);
}

static void *hammer(void *unused) {
    (void)unused;
    /* Not so fast that the event file is full before the last fork. */
    for (int i = 1; !stop; i++) {
        calls();
        if (i % 8 == 0) usleep(1000);
    }
    return NULL;
}

int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 8, forks = argc > 2 ? atoi(argv[2]) : 50, well = 0;
    pthread_t threads[64];
    for (int i = 0; i < count; i++) pthread_create(&threads[i], NULL, hammer, NULL);
    for (int i = 0; i < forks; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            int failures = calls();
            /* One half by way of the destructors, the other not. */
            if (i % 2 == 0) exit(failures);
            _exit(failures);
        }
        int status;
        if (waitpid(pid, &status, 0) == pid && status == 0) well++;
    }
    stop = true;
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
    printf("%d\n", well);
    return 0;
}
