/* Puts a process through what few programs do, while it launches.
 *
 *     ends inside HOW           launches, then allocates, which the stand-in is to take its time for; meanwhile a signal
 *                               handler says how many launches have returned and ends the process: exit, _exit or execv
 *     ends busy US              allocates and frees without end; after so long a signal handler calls exit
 *     ends together HOW         eight threads launch, then four of them call exit or quick_exit at the same moment
 *     ends copy                 a child made behind the C library's back calls exit
 *     ends fork-inside          forks in a signal handler, again and again; each child goes on launching from there
 *     ends limit LAUNCHES       launches, then 20 with little room in the event file, then 20 with enough
 *     ends descriptors          opens, closes all but the standard streams, opens again, and launches
 *     ends alone                the first thread leaves the others; an exit handler that takes much of a stack says
 *                               whether it can be interrupted
 *     ends cancelled            cancels a thread that allocates and frees a MB, which the stand-in is to take its time for;
 *                               then says what an allocation of a MB returns
 *
 * Out: what each says.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda_runtime.h>

static const char *how = "";
static volatile long returned;
static volatile int child, well, forks;

static void kernel(void) {}

static void launches(long count) {
    const dim3 one = {1, 1, 1}, many = {32, 1, 1};
    for (long i = 0; i < count; i++) {
        cudaLaunchKernel((const void *)(uintptr_t)kernel, one, many, NULL, 0, NULL);
        returned++;
    }
}

/* The handler is called once after so long, or again and again. */
static void with_timer(int which, int signal_number, void (*handler)(int), long us, long again) {
    signal(signal_number, handler);
    setitimer(which, &(struct itimerval){{0, again}, {0, us}}, NULL);
}

static void leave(int signal_number) {
    (void)signal_number;
    char text[32];
    int length = snprintf(text, sizeof text, "%ld\n", returned);
    if (write(1, text, (size_t)length) != length) _exit(90);
    if (!strcmp(how, "exit")) exit(0);
    if (!strcmp(how, "_exit")) _exit(0);
    char *const nothing[] = {"/bin/true", NULL};
    execv(nothing[0], nothing);
}

static void inside(void) {
    void *block;
    launches(3000);
    usleep(50000);
    with_timer(ITIMER_REAL, SIGALRM, leave, 1000, 0);
    launches(200);
    cudaMalloc(&block, 4096);
}

static void busy(long us) {
    how = "exit";
    with_timer(ITIMER_REAL, SIGALRM, leave, us, 0);
    for (void *block;; cudaFree(block)) cudaMalloc(&block, 4096);
}

static pthread_barrier_t all_have;

static void *thread(void *number) {
    launches(500);
    pthread_barrier_wait(&all_have);
    if ((intptr_t)number % 2) pause();
    if (!strcmp(how, "quick_exit")) quick_exit(0);
    exit(0);
}

static void together(void) {
    pthread_t threads[8];
    launches(2000);
    pthread_barrier_init(&all_have, NULL, 8);
    for (intptr_t i = 0; i < 8; i++) pthread_create(&threads[i], NULL, thread, (void *)i);
    pause();
}

static int waited_for(pid_t pid) {
    int status = 1;
    return waitpid(pid, &status, 0) == pid && status == 0;
}

static void copy(void) {
    launches(10);
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) exit(0);
    printf("%d\n", waited_for(pid));
    launches(10);
}

static void fork_now(int signal_number) {
    (void)signal_number;
    if (child || forks == 24) return;
    pid_t pid = fork();
    if (pid == 0) {
        child = 1;
        alarm(20); /* Against a child that hangs. */
    } else {
        forks++;
        well += waited_for(pid);
    }
}

static void fork_inside(void) {
    launches(3000);
    with_timer(ITIMER_VIRTUAL, SIGVTALRM, fork_now, 2000, 2000);
    while (forks < 24 && !child) launches(1);
    setitimer(ITIMER_VIRTUAL, &(struct itimerval){0}, NULL);
    if (child) {
        launches(6000); /* More than a ring holds. */
        _exit(0);
    }
    printf("%d\n", well);
}

static void limit(long count) {
    launches(count);
    usleep(100000);
    struct stat file;
    if (stat("hook.jsonl", &file)) exit(91);
    struct rlimit room = {0}, before;
    getrlimit(RLIMIT_FSIZE, &before);
    room.rlim_cur = (rlim_t)file.st_size + 1000;
    room.rlim_max = before.rlim_max;
    setrlimit(RLIMIT_FSIZE, &room);
    for (int i = 0; i < 20; i++) {
        launches(1);
        if (count > 1000) usleep(20000);
    }
    setrlimit(RLIMIT_FSIZE, &before);
    launches(20);
}

static void descriptors(void) {
    launches(2);
    printf("%d ", open("first", O_WRONLY | O_CREAT, 0666));
    for (int fd = 3; fd < 2000; fd++) close(fd);
    printf("%d\n", open("second", O_WRONLY | O_CREAT, 0666));
    launches(3);
}

static void goodbye(void) {
    volatile char much[1 << 20];
    for (size_t i = 0; i < sizeof much; i += 1024) much[i] = 1;
    sigset_t blocked;
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    printf("%d\n", !sigismember(&blocked, SIGINT));
}

static void *last(void *unused) {
    launches(500);
    return unused;
}

static void alone(void) {
    pthread_t others;
    atexit(goodbye);
    launches(3000);
    if (pthread_create(&others, NULL, last, NULL) == 0) pthread_exit(NULL);
}

static void *allocate(void *unused) {
    launches(500);
    for (void *block;; pthread_testcancel())
        if (cudaMalloc(&block, 1 << 20) || cudaFree(block)) exit(96);
    return unused;
}

static void cancelled(void) {
    pthread_t other;
    void *block;
    launches(3000);
    pthread_create(&other, NULL, allocate, NULL);
    usleep(50000);
    pthread_cancel(other);
    pthread_join(other, NULL);
    printf("%d\n", cudaMalloc(&block, 1 << 20));
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    how = argc > 2 ? argv[2] : "";
    long number = argc > 1 ? atol(argv[argc - 1]) : 0;
    if (!strcmp(what, "inside")) inside();
    if (!strcmp(what, "busy")) busy(number);
    if (!strcmp(what, "together")) together();
    if (!strcmp(what, "copy")) copy();
    if (!strcmp(what, "fork-inside")) fork_inside();
    if (!strcmp(what, "limit")) limit(number);
    if (!strcmp(what, "alone")) alone();
    if (!strcmp(what, "cancelled")) cancelled();
    if (!strcmp(what, "descriptors")) descriptors();
    return 0;
}
