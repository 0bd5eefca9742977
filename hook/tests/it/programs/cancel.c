/* Cancels a thread that waits for its token. The thread may go on until it is done with the call;
 * the process must live.
 *
 * Out: `alive`.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cuda_runtime.h>

static void kernel(void) {}

static void *work(void *unused) {
    const dim3 one = {1, 1, 1};
    for (int i = 0; i < 1000; i++) {
        cudaLaunchKernel((const void *)(uintptr_t)kernel, one, one, NULL, 0, NULL);
        pthread_testcancel();
    }
    return unused;
}

int main(void) {
    pthread_t thread;
    void *result = NULL;
    pthread_create(&thread, NULL, work, NULL);
    usleep(100000);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    printf("%s\n", result == PTHREAD_CANCELED ? "cancelled" : "not cancelled");
    void *block;
    printf("%d\n", cudaMalloc(&block, 4096));
    return 0;
}
