/* Threads launch kernels while the first one forks: `fork_unload THREADS FORKS`. Each child unloads modules, as `exit`
 * does with the fat binaries of a program. Out: the longest time that a child took, ms. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cuda.h>

static CUcontext context;
static CUfunction function;

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* Another name each time: the hook asks the driver for it, under its lock. */
static void *launch(void *nothing) {
    CUmodule module;
    cuCtxSetCurrent(context);
    for (;;) {
        if (cuModuleLoadData(&module, "") != CUDA_SUCCESS) exit(91);
        if (cuModuleGetFunction(&function, module, "dummy_kernel") != CUDA_SUCCESS) exit(92);
        for (int i = 0; i < 20; i++) cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
        cuModuleUnload(module);
    }
    return nothing;
}

int main(int argc, char **argv) {
    if (argc != 3) return 99;
    double worst = 0;
    pthread_t thread;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context)) return 90;
    for (int i = atoi(argv[1]); i > 0; i--)
        if (pthread_create(&thread, NULL, launch, NULL)) return 93;
    for (int i = atoi(argv[2]); i > 0; i--) {
        const struct timespec pause = {0, 500000};
        int pipes[2], status = 0;
        double took = 0;
        nanosleep(&pause, NULL);
        if (pipe(pipes)) return 94;
        pid_t pid = fork();
        if (pid == 0) {
            double from = now_ms();
            for (int k = 0; k < 3; k++) cuModuleUnload(NULL);
            took = now_ms() - from;
            if (write(pipes[1], &took, sizeof took) != sizeof took) _exit(95);
            _exit(0);
        }
        if (read(pipes[0], &took, sizeof took) != sizeof took) return 96;
        if (waitpid(pid, &status, 0) != pid || status) return 97;
        close(pipes[0]);
        close(pipes[1]);
        if (took > worst) worst = took;
    }
    printf("%.0f\n", worst);
    fflush(stdout);
    _exit(0);
}
