/* Makes more calls a second than are written one by one, and then does something to the process.
 *
 *     batch mixed THREADS ROUNDS      threads that allocate, free and launch, some of it denied
 *     batch acknowledge PIPE          launches for ever; each returned call's number goes to that descriptor
 *     batch leave HOW LAUNCHES        launches, then leaves: return, exit, _exit, _Exit, quick_exit, exec…, vfork,
 *                                     handler (_exit in a signal handler with a small stack), alone (main ends before
 *                                     the last thread does)
 *     batch threads LAUNCHES          prints how many threads the process has afterwards
 *     batch fork LAUNCHES CHILDREN    forks between bursts; each child launches as well
 *     batch short THREADS LAUNCHES    threads one after another, each with a burst of its own; prints the launches, and
 *                                     the most address space that it took, MB
 *     batch sandboxed THREADS LAUNCHES  threads that launch at the same time, in a process that may not use tgkill
 *     batch times LAUNCHES            prints the clock before and after each launch
 *     batch idle                      a burst, half a second's sleep, one launch, a tenth of a second, and no goodbye
 *     batch cancel THREADS            cancels threads that launch and allocate
 *     batch names LAUNCHES            the same address as two kernels, one after another
 *
 * Out: what each says beside its name below.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cuda_runtime.h>

extern char **environ;

static const dim3 one = {1, 1, 1}, many = {32, 1, 1};
static atomic_long launched;

static void kernel(void) {}

static cudaError_t launch(void) {
    return cudaLaunchKernel((const void *)(uintptr_t)kernel, one, many, NULL, 0, NULL);
}

static void launches(long count) {
    for (long i = 0; i < count; i++) launched += launch() == cudaSuccess;
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void in_threads(long count, void *(*body)(void *), void *argument) {
    pthread_t *threads = calloc((size_t)count, sizeof *threads);
    for (long i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, body, argument)) exit(90);
    for (long i = 0; i < count; i++) pthread_join(threads[i], NULL);
    free(threads);
}

/* Bytes left live in the runtime. */
static void *mixed(void *rounds) {
    for (long i = 0; i < (long)(intptr_t)rounds; i++) {
        void *block = NULL;
        cudaError_t code = cudaMalloc(&block, (size_t)(1 + i % 7) << 20);
        launches(2);
        if (code == cudaSuccess) cudaFree(block);
    }
    return NULL;
}

static void acknowledge(int to) {
    for (uint64_t i = 1;; i++) {
        launch();
        uint64_t at[2] = {i, now_ns()};
        if (write(to, at, sizeof at) != sizeof at) exit(91);
        if (i > 2000 && i % 64) usleep(20);
    }
}

static void *be_last(void *count) {
    usleep(20000);
    launches((long)(intptr_t)count);
    return NULL;
}

static void in_handler(int signal) {
    (void)signal;
    _exit(0);
}

/* Nothing, or what `/bin/echo left` says. */
static void leave(const char *how, long count) {
    static char *const echo[] = {"/bin/echo", "left", NULL};
    if (strcmp(how, "alone")) launches(count);
    if (!strcmp(how, "exit")) exit(0);
    if (!strcmp(how, "_exit")) _exit(0);
    if (!strcmp(how, "_Exit")) _Exit(0);
    if (!strcmp(how, "quick_exit")) quick_exit(0);
    if (!strcmp(how, "execv")) execv(echo[0], echo);
    if (!strcmp(how, "execve")) execve(echo[0], echo, environ);
    if (!strcmp(how, "execvp")) execvp("echo", echo);
    if (!strcmp(how, "execvpe")) execvpe("echo", echo, environ);
    if (!strcmp(how, "execl")) execl(echo[0], "a", "left", "1", "2", "3", "4", "5", "6", NULL);
    if (!strcmp(how, "execlp")) execlp("echo", "a", "left", "1", "2", "3", "4", "5", "6", NULL);
    if (!strcmp(how, "execle")) execle(echo[0], "a", "left", "1", "2", "3", "4", "5", "6", NULL, environ);
    if (!strcmp(how, "fexecve")) fexecve(open(echo[0], O_RDONLY), echo, environ);
    if (!strcmp(how, "execveat")) execveat(AT_FDCWD, echo[0], echo, environ, 0);
    if (!strcmp(how, "handler")) {
        stack_t stack = {.ss_sp = malloc(8192), .ss_size = 8192};
        struct sigaction action = {.sa_handler = in_handler, .sa_flags = SA_ONSTACK};
        if (sigaltstack(&stack, NULL) || sigaction(SIGUSR1, &action, NULL)) exit(94);
        raise(SIGUSR1);
    }
    if (!strcmp(how, "vfork")) {
        pid_t pid = vfork();
        if (pid == 0) {
            execv("/nowhere/echo", echo);
            execv(echo[0], echo);
            _exit(92);
        }
        int status = 1;
        if (waitpid(pid, &status, 0) != pid || status) exit(93);
        launches(10);
        _exit(0);
    }
    if (!strcmp(how, "alone")) {
        pthread_t thread;
        launches(1200);
        if (pthread_create(&thread, NULL, be_last, (void *)(intptr_t)(count - 1200)) == 0) pthread_exit(NULL);
    }
}

/* Children that ended well. */
static void *in_background(void *unused) {
    for (long i = 0; launched >= 0; i++) {
        launch();
        if (i % 64 == 0) usleep(100);
    }
    return unused;
}

static void forks(long count, int children) {
    int well = 0;
    pthread_t thread;
    launches(count);
    pthread_create(&thread, NULL, in_background, NULL);
    for (int i = 0; i < children; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            launches(count);
            if (i % 2) _exit(0);
            exit(0);
        }
        int status = 1;
        well += waitpid(pid, &status, 0) == pid && status == 0;
        launches(count / 10);
    }
    launched = -1000000000;
    pthread_join(thread, NULL);
    printf("%d\n", well);
}

static void *burst(void *count) {
    launches((long)(intptr_t)count);
    return NULL;
}

static void sandboxed(long count, long each) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_tgkill, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) exit(95);
    launches(3000);
    in_threads(count, burst, (void *)(intptr_t)each);
}

static long threads(void) {
    DIR *tasks = opendir("/proc/self/task");
    long count = -2;
    while (tasks && readdir(tasks)) count++;
    return count;
}

/* MB of address space at most, so far. */
static long peak_mb(void) {
    char line[256];
    long kb = -1;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status)) sscanf(line, "VmPeak: %ld", &kb);
    return kb / 1024;
}

/* A line of two times for each launch. */
static void times(long count) {
    uint64_t(*at)[2] = calloc((size_t)count, sizeof *at);
    for (long i = 0; i < count; i++) {
        at[i][0] = now_ns();
        launch();
        at[i][1] = now_ns();
        if (i % 100 == 99) usleep(100);
    }
    for (long i = 0; i < count; i++) printf("%llu %llu\n", (unsigned long long)at[i][0], (unsigned long long)at[i][1]);
}

static void *until_cancelled(void *unused) {
    for (;;) {
        void *block;
        launch();
        if (cudaMalloc(&block, 4096) == cudaSuccess) cudaFree(block);
        pthread_testcancel();
    }
    return unused;
}

/* Threads that were cancelled. */
static void cancels(long count) {
    pthread_t *threads = calloc((size_t)count, sizeof *threads);
    long cancelled = 0;
    launches(3000);
    for (long i = 0; i < count; i++) pthread_create(&threads[i], NULL, until_cancelled, NULL);
    usleep(10000);
    for (long i = 0; i < count; i++) pthread_cancel(threads[i]);
    for (long i = 0; i < count; i++) {
        void *result = NULL;
        pthread_join(threads[i], &result);
        cancelled += result == PTHREAD_CANCELED;
    }
    launches(10);
    printf("%ld\n", cancelled);
}

static void call_it(const char *name, long count) {
    void **binary = __cudaRegisterFatBinary(NULL);
    char *text = strdup(name);
    __cudaRegisterFunction(binary, (const char *)(uintptr_t)kernel, NULL, text, -1, NULL, NULL, NULL, NULL, NULL);
    launches(count);
    __cudaUnregisterFatBinary(binary);
    memset(text, 'x', strlen(text));
    free(text);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    long a = argc > 2 ? atol(argv[2]) : 0, b = argc > 3 ? atol(argv[3]) : 0;
    if (!strcmp(what, "mixed")) {
        in_threads(a, mixed, (void *)(intptr_t)b);
        printf("%llu\n", cudaSimLiveBytes());
    } else if (!strcmp(what, "acknowledge")) {
        acknowledge((int)a);
    } else if (!strcmp(what, "leave")) {
        leave(argv[2], b);
    } else if (!strcmp(what, "fork")) {
        forks(a, (int)b);
    } else if (!strcmp(what, "short")) {
        for (long i = 0; i < a; i++) in_threads(1, burst, (void *)(intptr_t)b);
        printf("%ld %ld\n", launched, peak_mb());
    } else if (!strcmp(what, "sandboxed")) {
        sandboxed(a, b);
    } else if (!strcmp(what, "threads")) {
        launches(a);
        printf("%ld\n", threads());
    } else if (!strcmp(what, "times")) {
        times(a);
    } else if (!strcmp(what, "idle")) {
        launches(3000);
        usleep(500000);
        launch();
        usleep(100000);
        raise(9);
    } else if (!strcmp(what, "cancel")) {
        cancels(a);
    } else if (!strcmp(what, "names")) {
        call_it("_Z5firstv", a);
        call_it("_Z6secondv", a);
        launches(a);
    } else {
        return 99;
    }
    return 0;
}
