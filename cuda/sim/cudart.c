/* A stand-in for the CUDA runtime, for machines without a GPU: builds libcudart.so.13.
 *
 *     gcc -std=c11 -O2 -Wall -Wextra -Werror -fPIC -shared -pthread cuda/sim/cudart.c \
 *         -Wl,-soname,libcudart.so.13 -Wl,--version-script=cuda/sim/cudart.map \
 *         -o build/sim/libcudart.so.13
 *     ln -sf libcudart.so.13 build/sim/libcudart.so
 *
 * In: the calls of programs built by nvcc 13 with --cudart=shared, or by gcc with the header in
 * sim/include. Out: what the runtime would answer on a small GPU; kernels run on the CPU where the
 * header's template made them known (see cuda_runtime.h). Device memory is host memory. All
 * functions may be called from any thread; last error and current device are each thread's own.
 *
 * Settings, read once, at the first call that needs one (whole numbers; others are ignored with a
 * warning on stderr):
 *
 *     CUDA_SIM_MEM_MB=8192        memory of each device
 *     CUDA_SIM_DEVICES=1          number of devices, at most 16
 *     CUDA_SIM_MALLOC_DELAY_US=N  sleep in each device allocation, before it gets its address
 *     CUDA_SIM_FREE_DELAY_US=N    sleep in each device free, after its address went back: another
 *                                 thread can get it before this free returns
 *     CUDA_SIM_MALLOC_FAIL=N      the first N device allocations of more than 0 bytes return 2
 *     CUDA_SIM_FREE_FAIL=N        the first N device frees of non-null pointers return 700 and
 *                                 change nothing
 *     CUDA_SIM_LAUNCH_RET=N       launches return N and don't run
 *     CUDA_SIM_INVALID_LAUNCH=9   what a launch beyond the limits returns: 9 is documented, CUDA
 *                                 13.0 on driver 580 gives 1
 *
 * Unlike CUDA: a child process made by fork keeps working, on copies of the parent's allocations
 * (CUDA refuses with 3); device memory starts as zeros; no error is sticky; memory is not lost in
 * fragments smaller than 512 bytes.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "arena.h"
#include "kernels.h"

/* Binaries built with CUDA 13's own headers pass these structures in. */
_Static_assert(sizeof(struct cudaDeviceProp) == 1008, "cudaDeviceProp as in CUDA 13");
_Static_assert(offsetof(struct cudaDeviceProp, reservedSharedMemPerBlock) == 696, "the same");
_Static_assert(sizeof(struct cudaFuncAttributes) == 144, "cudaFuncAttributes as in CUDA 13");
_Static_assert(sizeof(cudaLaunchConfig_t) == 56, "cudaLaunchConfig_t as in CUDA 13");

#define MAX_DEVICES 16
#define PITCH ((size_t)512)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* over arenas, host_memory, handles */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct arena arenas[MAX_DEVICES];
static int device_count = 1;
static long malloc_delay_us, free_delay_us;
static cudaError_t launch_ret = cudaSuccess;
static cudaError_t invalid_launch = cudaErrorInvalidConfiguration;
static atomic_long malloc_fails, free_fails;
static atomic_ullong launches;

static _Thread_local cudaError_t last_error = cudaSuccess;
static _Thread_local int current_device = 0;

/* Every API function returns through this. None calls another API function: those can be replaced
 * from outside, and a preloaded library must see the program's calls alone. */
static cudaError_t answer(cudaError_t code) {
    if (code != cudaSuccess) last_error = code;
    return code;
}

/* ---- settings ---- */

static long setting(const char *name, long standard, long min, long max) {
    const char *text = getenv(name);
    if (!text || !*text) return standard;
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno || *end || end == text || value < min || value > max) {
        fprintf(stderr,
                "libcudart stand-in: ignoring %s=%s: not a whole number from %ld to %ld; "
                "using %ld\n",
                name, text, min, max, standard);
        return standard;
    }
    return value;
}

static void fork_prepare(void) { pthread_mutex_lock(&lock); }
static void fork_done(void) { pthread_mutex_unlock(&lock); }

/* A child of a program with threads must not inherit the lock as some other thread's. */
__attribute__((constructor)) static void watch_forks(void) {
    pthread_atfork(fork_prepare, fork_done, fork_done);
}

static void configure(void) {
    size_t bytes = (size_t)setting("CUDA_SIM_MEM_MB", 8192, 0, 1L << 26) << 20;
    device_count = (int)setting("CUDA_SIM_DEVICES", 1, 1, MAX_DEVICES);
    for (int i = 0; i < device_count; i++) arenas[i].size = bytes;
    malloc_delay_us = setting("CUDA_SIM_MALLOC_DELAY_US", 0, 0, LONG_MAX / 1000);
    free_delay_us = setting("CUDA_SIM_FREE_DELAY_US", 0, 0, LONG_MAX / 1000);
    atomic_store(&malloc_fails, setting("CUDA_SIM_MALLOC_FAIL", 0, 0, LONG_MAX));
    atomic_store(&free_fails, setting("CUDA_SIM_FREE_FAIL", 0, 0, LONG_MAX));
    launch_ret = (cudaError_t)setting("CUDA_SIM_LAUNCH_RET", 0, 0, INT_MAX);
    invalid_launch = (cudaError_t)setting("CUDA_SIM_INVALID_LAUNCH", cudaErrorInvalidConfiguration, 1, INT_MAX);
}

static void start(void) { pthread_once(&once, configure); }

static void sleep_us(long us) {
    if (us == 0) return;
    struct timespec left = {us / 1000000, us % 1000000 * 1000};
    while (nanosleep(&left, &left) && errno == EINTR) {
    }
}

/* True for the first N calls, where N is the counter's start. */
static bool still_failing(atomic_long *counter) {
    long n = atomic_load(counter);
    while (n > 0)
        if (atomic_compare_exchange_weak(counter, &n, n - 1)) return true;
    return false;
}

/* ---- errors ---- */

cudaError_t cudaGetLastError(void) {
    cudaError_t code = last_error;
    last_error = cudaSuccess;
    return code;
}

cudaError_t cudaPeekAtLastError(void) { return last_error; }

const char *cudaGetErrorName(cudaError_t error) {
    switch (error) {
#define NAME(name, number, text) case name: return #name;
        CUDA_SIM_ERRORS(NAME)
#undef NAME
    }
    return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error) {
    switch (error) {
#define TEXT(name, number, text) case name: return text;
        CUDA_SIM_ERRORS(TEXT)
#undef TEXT
    }
    return "unrecognized error code";
}

/* ---- devices ---- */

static bool is_device(int device) {
    start();
    return device >= 0 && device < device_count;
}

cudaError_t cudaGetDeviceCount(int *count) {
    if (!count) return answer(cudaErrorInvalidValue);
    start();
    *count = device_count;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device) {
    if (!device) return answer(cudaErrorInvalidValue);
    *device = current_device;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
    if (!is_device(device)) return answer(cudaErrorInvalidDevice);
    current_device = device;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device) {
    if (!value) return answer(cudaErrorInvalidValue);
    if (!is_device(device)) return answer(cudaErrorInvalidDevice);
    switch (attr) {
    case cudaDevAttrMaxThreadsPerBlock:
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY: *value = MAX_BLOCK_THREADS; break;
    case cudaDevAttrMaxBlockDimZ: *value = MAX_BLOCK_Z; break;
    case cudaDevAttrMaxGridDimX: *value = MAX_GRID_X; break;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ: *value = MAX_GRID_YZ; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = SHMEM_DEFAULT; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = SHMEM_OPTIN; break;
    case cudaDevAttrWarpSize: *value = 32; break;
    case cudaDevAttrMultiProcessorCount:
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrMemoryPoolsSupported: *value = 1; break;
    case cudaDevAttrComputeCapabilityMajor: *value = 9; break;
    case cudaDevAttrComputeCapabilityMinor: *value = 0; break;
    default: return answer(cudaErrorInvalidValue);
    }
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device) {
    if (!prop) return answer(cudaErrorInvalidValue);
    if (!is_device(device)) return answer(cudaErrorInvalidDevice);
    *prop = (struct cudaDeviceProp){
        .name = "CUDA stand-in (no GPU)",
        .totalGlobalMem = arenas[device].size,
        .sharedMemPerBlock = SHMEM_DEFAULT,
        .regsPerBlock = 65536,
        .warpSize = 32,
        .memPitch = INT_MAX,
        .maxThreadsPerBlock = MAX_BLOCK_THREADS,
        .maxThreadsDim = {MAX_BLOCK_THREADS, MAX_BLOCK_THREADS, MAX_BLOCK_Z},
        .maxGridSize = {MAX_GRID_X, MAX_GRID_YZ, MAX_GRID_YZ},
        .totalConstMem = 65536,
        .major = 9,
        .textureAlignment = 512,
        .texturePitchAlignment = 32,
        .multiProcessorCount = 1,
        .canMapHostMemory = 1,
        .surfaceAlignment = 512,
        .pciBusID = device,
        .unifiedAddressing = 1,
        .maxThreadsPerMultiProcessor = 2048,
        .sharedMemPerMultiprocessor = 233472,
        .regsPerMultiprocessor = 65536,
        .managedMemory = 1,
        .sharedMemPerBlockOptin = SHMEM_OPTIN,
        .maxBlocksPerMultiProcessor = 32,
        .reservedSharedMemPerBlock = 1024,
    };
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void) { return cudaSuccess; }

/* Frees the current device's memory; streams, events and host memory stay. */
cudaError_t cudaDeviceReset(void) {
    start();
    pthread_mutex_lock(&lock);
    arena_reset(&arenas[current_device]);
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

static cudaError_t version_13_0(int *version) {
    if (!version) return answer(cudaErrorInvalidValue);
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version) { return version_13_0(version); }
cudaError_t cudaDriverGetVersion(int *version) { return version_13_0(version); }

/* ---- device memory ---- */

static cudaError_t device_malloc(void **ptr, size_t size) {
    if (!ptr) return answer(cudaErrorInvalidValue);
    start();
    *ptr = NULL; /* also what CUDA leaves when it has no memory */
    if (size == 0) return cudaSuccess;
    if (still_failing(&malloc_fails)) return answer(cudaErrorMemoryAllocation);
    sleep_us(malloc_delay_us);
    pthread_mutex_lock(&lock);
    void *got = arena_take(&arenas[current_device], size);
    pthread_mutex_unlock(&lock);
    if (!got) return answer(cudaErrorMemoryAllocation);
    *ptr = got;
    return cudaSuccess;
}

static cudaError_t device_free(void *ptr) {
    if (!ptr) return cudaSuccess;
    start();
    if (still_failing(&free_fails)) return answer(cudaErrorIllegalAddress);
    bool known = false;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < device_count && !known; i++) known = arena_give(&arenas[i], ptr);
    pthread_mutex_unlock(&lock);
    if (!known) return answer(cudaErrorInvalidValue);
    sleep_us(free_delay_us);
    return cudaSuccess;
}

static bool is_stream(cudaStream_t stream);

cudaError_t cudaMalloc(void **ptr, size_t size) { return device_malloc(ptr, size); }
cudaError_t cudaFree(void *ptr) { return device_free(ptr); }

cudaError_t cudaMallocAsync(void **ptr, size_t size, cudaStream_t stream) {
    if (!is_stream(stream)) return answer(cudaErrorInvalidResourceHandle);
    return device_malloc(ptr, size);
}

cudaError_t cudaFreeAsync(void *ptr, cudaStream_t stream) {
    if (!is_stream(stream)) return answer(cudaErrorInvalidResourceHandle);
    return device_free(ptr);
}

cudaError_t cudaMallocAsync_ptsz(void **ptr, size_t size, cudaStream_t stream) {
    if (!is_stream(stream)) return answer(cudaErrorInvalidResourceHandle);
    return device_malloc(ptr, size);
}

cudaError_t cudaFreeAsync_ptsz(void *ptr, cudaStream_t stream) {
    if (!is_stream(stream)) return answer(cudaErrorInvalidResourceHandle);
    return device_free(ptr);
}

/* There are no pools to be had, so any handle stands for the device's memory. */
cudaError_t cudaMallocFromPoolAsync(void **ptr, size_t size, cudaMemPool_t pool, cudaStream_t stream) {
    (void)pool;
    if (!is_stream(stream)) return answer(cudaErrorInvalidResourceHandle);
    return device_malloc(ptr, size);
}

cudaError_t cudaMallocFromPoolAsync_ptsz(void **ptr, size_t size, cudaMemPool_t pool,
                                         cudaStream_t stream) {
    (void)pool;
    if (!is_stream(stream)) return answer(cudaErrorInvalidResourceHandle);
    return device_malloc(ptr, size);
}

cudaError_t cudaMallocManaged(void **ptr, size_t size, unsigned int flags) {
    if (size == 0 || (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost))
        return answer(cudaErrorInvalidValue);
    return device_malloc(ptr, size);
}

static cudaError_t pitched_malloc(void **ptr, size_t *pitch, size_t width, size_t height, size_t depth) {
    if (width > SIZE_MAX - PITCH) return answer(cudaErrorMemoryAllocation);
    size_t row = (width + PITCH - 1) / PITCH * PITCH, size;
    if (__builtin_mul_overflow(row, height, &size) || __builtin_mul_overflow(size, depth, &size))
        return answer(cudaErrorMemoryAllocation);
    cudaError_t code = device_malloc(ptr, size);
    if (code == cudaSuccess) *pitch = row;
    return code;
}

cudaError_t cudaMallocPitch(void **ptr, size_t *pitch, size_t width, size_t height) {
    if (!ptr || !pitch) return answer(cudaErrorInvalidValue);
    return pitched_malloc(ptr, pitch, width, height, 1);
}

cudaError_t cudaMalloc3D(struct cudaPitchedPtr *pitched, struct cudaExtent extent) {
    if (!pitched) return answer(cudaErrorInvalidValue);
    cudaError_t code = pitched_malloc(&pitched->ptr, &pitched->pitch, extent.width, extent.height, extent.depth);
    pitched->xsize = extent.width;
    pitched->ysize = extent.height;
    return code;
}

/* An array's handle is the address of its memory. */
static cudaError_t array_malloc(void **array, const struct cudaChannelFormatDesc *desc, struct cudaExtent extent,
                                unsigned levels, unsigned flags) {
    if (!array || !desc || extent.width == 0 || levels == 0) return answer(cudaErrorInvalidValue);
    size_t texel = (size_t)(desc->x + desc->y + desc->z + desc->w) / 8, size = 0;
    for (unsigned level = 0; level < levels && level < 32; level++) {
        size_t width = extent.width >> level, height = extent.height >> level, depth = extent.depth;
        if (!(flags & (cudaArrayLayered | cudaArrayCubemap))) depth >>= level;
        size += texel * (width ? width : 1) * (height ? height : 1) * (depth ? depth : 1);
    }
    return device_malloc(array, size);
}

cudaError_t cudaMallocArray(cudaArray_t *array, const struct cudaChannelFormatDesc *desc, size_t width,
                            size_t height, unsigned int flags) {
    struct cudaExtent extent = {width, height, 0};
    return array_malloc((void **)array, desc, extent, 1, flags);
}

cudaError_t cudaMalloc3DArray(cudaArray_t *array, const struct cudaChannelFormatDesc *desc,
                              struct cudaExtent extent, unsigned int flags) {
    return array_malloc((void **)array, desc, extent, 1, flags);
}

cudaError_t cudaMallocMipmappedArray(cudaMipmappedArray_t *array, const struct cudaChannelFormatDesc *desc,
                                     struct cudaExtent extent, unsigned int levels, unsigned int flags) {
    return array_malloc((void **)array, desc, extent, levels, flags);
}

cudaError_t cudaFreeArray(cudaArray_t array) { return device_free(array); }
cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t array) { return device_free(array); }

cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
    if (!free || !total) return answer(cudaErrorInvalidValue);
    start();
    pthread_mutex_lock(&lock);
    *total = arenas[current_device].size;
    *free = *total - arenas[current_device].used;
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

/* ---- host memory ---- */

static void *host_memory; /* tree of struct block, asked for by cudaMallocHost */

static cudaError_t host_malloc(void **ptr, size_t size, unsigned int flags) {
    if (!ptr || flags > 7) return answer(cudaErrorInvalidValue);
    if (size == 0) {
        *ptr = NULL;
        return cudaSuccess;
    }
    if (size > SIZE_MAX - 4096) return answer(cudaErrorMemoryAllocation);
    struct block *b = calloc(1, sizeof *b);
    void *got = b ? aligned_alloc(4096, (size + 4095) & ~(size_t)4095) : NULL;
    if (!got) {
        free(b);
        return answer(cudaErrorMemoryAllocation);
    }
    b->addr = (uintptr_t)got;
    b->size = b->asked = size;
    pthread_mutex_lock(&lock);
    bool kept = tsearch(b, &host_memory, arena_compare) != NULL;
    pthread_mutex_unlock(&lock);
    if (!kept) {
        free(got);
        free(b);
        return answer(cudaErrorMemoryAllocation);
    }
    *ptr = got;
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **ptr, size_t size) { return host_malloc(ptr, size, 0); }

cudaError_t cudaHostAlloc(void **ptr, size_t size, unsigned int flags) {
    return host_malloc(ptr, size, flags);
}

cudaError_t cudaFreeHost(void *ptr) {
    if (!ptr) return cudaSuccess;
    struct block key = {.addr = (uintptr_t)ptr, .size = 1}, *b = NULL;
    pthread_mutex_lock(&lock);
    struct block **found = tfind(&key, &host_memory, arena_compare);
    if (found && (*found)->addr == key.addr) {
        b = *found;
        tdelete(b, &host_memory, arena_compare);
    }
    pthread_mutex_unlock(&lock);
    if (!b) return answer(cudaErrorInvalidValue);
    free(b);
    free(ptr);
    return cudaSuccess;
}

/* ---- copies ---- */

/* Whether all of the range lies in one live allocation of some device. */
static bool on_device(const void *ptr, size_t count) {
    start();
    bool found = false;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < device_count && !found; i++)
        found = arena_find(&arenas[i], ptr, count) != NULL;
    pthread_mutex_unlock(&lock);
    return found;
}

static cudaError_t copy(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind) {
    if ((unsigned)kind > cudaMemcpyDefault) return answer(cudaErrorInvalidMemcpyDirection);
    if (count == 0) return cudaSuccess;
    bool to = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    bool from = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (!dst || !src || (to && !on_device(dst, count)) || (from && !on_device(src, count)))
        return answer(cudaErrorInvalidValue);
    memmove(dst, src, count);
    return cudaSuccess;
}

cudaError_t cudaMemcpy(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind) {
    return copy(dst, src, count, kind);
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
    if (!is_stream(stream)) return answer(cudaErrorInvalidResourceHandle);
    return copy(dst, src, count, kind);
}

static cudaError_t fill(void *ptr, int value, size_t count) {
    if (count == 0) return cudaSuccess;
    if (!ptr || !on_device(ptr, count)) return answer(cudaErrorInvalidValue);
    memset(ptr, value, count);
    return cudaSuccess;
}

cudaError_t cudaMemset(void *ptr, int value, size_t count) { return fill(ptr, value, count); }

cudaError_t cudaMemsetAsync(void *ptr, int value, size_t count, cudaStream_t stream) {
    if (!is_stream(stream)) return answer(cudaErrorInvalidResourceHandle);
    return fill(ptr, value, count);
}

/* ---- streams and events ---- */

enum kind { STREAM, EVENT };

/* Both are one list of handles, searched at each use, so that a bad one gets its code (400). */
struct handle {
    enum kind kind;
    bool timed, recorded;
    struct timespec at;
    struct handle *next;
};
static struct handle *handles;

/* The caller holds the lock. */
static struct handle **handle_find(const void *handle, enum kind kind) {
    struct handle **p = &handles;
    while (*p && (*p != handle || (*p)->kind != kind)) p = &(*p)->next;
    return p;
}

static bool is_handle(const void *handle, enum kind kind) {
    pthread_mutex_lock(&lock);
    bool found = *handle_find(handle, kind) != NULL;
    pthread_mutex_unlock(&lock);
    return found;
}

static bool is_stream(cudaStream_t stream) {
    return (uintptr_t)stream <= (uintptr_t)cudaStreamPerThread || is_handle(stream, STREAM);
}

static cudaError_t done(bool handle_is_good) {
    return answer(handle_is_good ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

static cudaError_t handle_create(void *out, enum kind kind, bool timed) {
    if (!out) return answer(cudaErrorInvalidValue);
    struct handle *h = calloc(1, sizeof *h);
    if (!h) return answer(cudaErrorMemoryAllocation);
    h->kind = kind;
    h->timed = timed;
    pthread_mutex_lock(&lock);
    h->next = handles;
    handles = h;
    pthread_mutex_unlock(&lock);
    memcpy(out, &h, sizeof h);
    return cudaSuccess;
}

static cudaError_t handle_destroy(const void *handle, enum kind kind) {
    pthread_mutex_lock(&lock);
    struct handle **p = handle_find(handle, kind), *h = *p;
    if (h) *p = h->next;
    pthread_mutex_unlock(&lock);
    free(h);
    return done(h != NULL);
}

cudaError_t cudaStreamCreate(cudaStream_t *stream) { return handle_create(stream, STREAM, false); }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags) {
    if (flags > cudaStreamNonBlocking) return answer(cudaErrorInvalidValue);
    return handle_create(stream, STREAM, false);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) { return handle_destroy(stream, STREAM); }

cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return done(is_stream(stream)); }
cudaError_t cudaStreamQuery(cudaStream_t stream) { return done(is_stream(stream)); }

cudaError_t cudaEventCreate(cudaEvent_t *event) { return handle_create(event, EVENT, true); }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags) {
    if (flags > 7) return answer(cudaErrorInvalidValue);
    return handle_create(event, EVENT, !(flags & cudaEventDisableTiming));
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    if (!is_stream(stream)) return answer(cudaErrorInvalidResourceHandle);
    pthread_mutex_lock(&lock);
    struct handle *h = *handle_find(event, EVENT);
    if (h) {
        h->recorded = true;
        clock_gettime(CLOCK_MONOTONIC, &h->at);
    }
    pthread_mutex_unlock(&lock);
    return done(h != NULL);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) { return done(is_handle(event, EVENT)); }
cudaError_t cudaEventQuery(cudaEvent_t event) { return done(is_handle(event, EVENT)); }

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end) {
    if (!ms) return answer(cudaErrorInvalidValue);
    cudaError_t code = cudaErrorInvalidResourceHandle;
    pthread_mutex_lock(&lock);
    const struct handle *a = *handle_find(start, EVENT), *b = *handle_find(end, EVENT);
    if (a && b && a->timed && b->timed && a->recorded && b->recorded) {
        *ms = (float)((double)(b->at.tv_sec - a->at.tv_sec) * 1e3 +
                      (double)(b->at.tv_nsec - a->at.tv_nsec) / 1e6);
        code = cudaSuccess;
    }
    pthread_mutex_unlock(&lock);
    return answer(code);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) { return handle_destroy(event, EVENT); }

/* ---- kernels ---- */

/* An address nobody registered may be a kernel of a C program, so it counts as one that can't be
 * run; CUDA would answer 98. */
static cudaError_t launch(const void *func, dim3 grid, dim3 block, void **args, size_t shmem,
                          cudaStream_t stream) {
    start();
    if (launch_ret != cudaSuccess) return launch_ret;
    struct CUkern_st *k = kernel_find(func);
    int max_shmem = k ? atomic_load(&k->max_shmem) : SHMEM_DEFAULT;
    cudaError_t code = launch_check(grid, block, shmem, max_shmem, invalid_launch);
    if (code != cudaSuccess) return code;
    if (!is_stream(stream)) return cudaErrorInvalidResourceHandle;
    atomic_fetch_add_explicit(&launches, 1, memory_order_relaxed);
    cudaSimTrampoline trampoline = k ? atomic_load(&k->trampoline) : NULL;
    if (trampoline) trampoline(k->func, grid, block, args);
    return cudaSuccess;
}

/* There are no graphs to be made here: any handle but NULL stands for one, and its launch is counted. */
static cudaError_t launch_graph(cudaGraphExec_t graph, cudaStream_t stream) {
    if (!graph) return cudaErrorInvalidValue;
    start();
    if (launch_ret != cudaSuccess) return launch_ret;
    if (!is_stream(stream)) return cudaErrorInvalidResourceHandle;
    atomic_fetch_add_explicit(&launches, 1, memory_order_relaxed);
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
    return answer(launch_graph(graph, stream));
}

cudaError_t cudaGraphLaunch_ptsz(cudaGraphExec_t graph, cudaStream_t stream) {
    return answer(launch_graph(graph, stream));
}

cudaError_t cudaLaunchKernel(const void *func, dim3 grid, dim3 block, void **args, size_t shmem,
                             cudaStream_t stream) {
    if (!func) return answer(cudaErrorInvalidDeviceFunction);
    return answer(launch(func, grid, block, args, shmem, stream));
}

cudaError_t cudaLaunchKernel_ptsz(const void *func, dim3 grid, dim3 block, void **args,
                                  size_t shmem, cudaStream_t stream) {
    if (!func) return answer(cudaErrorInvalidDeviceFunction);
    return answer(launch(func, grid, block, args, shmem, stream));
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *func, void **args) {
    if (!config) return answer(cudaErrorInvalidConfiguration);
    if (!func) return answer(cudaErrorInvalidDeviceFunction);
    return answer(launch(func, config->gridDim, config->blockDim, args, config->dynamicSmemBytes,
                         config->stream));
}

cudaError_t cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t *config, const void *func,
                                     void **args) {
    if (!config) return answer(cudaErrorInvalidConfiguration);
    if (!func) return answer(cudaErrorInvalidDeviceFunction);
    return answer(launch(func, config->gridDim, config->blockDim, args, config->dynamicSmemBytes,
                         config->stream));
}

cudaError_t cudaLaunchCooperativeKernel(const void *func, dim3 grid, dim3 block, void **args,
                                        size_t shmem, cudaStream_t stream) {
    if (!func) return answer(cudaErrorInvalidDeviceFunction);
    return answer(launch(func, grid, block, args, shmem, stream));
}

cudaError_t cudaLaunchCooperativeKernel_ptsz(const void *func, dim3 grid, dim3 block, void **args,
                                             size_t shmem, cudaStream_t stream) {
    if (!func) return answer(cudaErrorInvalidDeviceFunction);
    return answer(launch(func, grid, block, args, shmem, stream));
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args,
                               size_t shmem, cudaStream_t stream) {
    if (!kernel_find(kernel)) return answer(cudaErrorInvalidDeviceFunction);
    return answer(launch(kernel, grid, block, args, shmem, stream));
}

cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void **args,
                                    size_t shmem, cudaStream_t stream) {
    if (!kernel_find(kernel)) return answer(cudaErrorInvalidDeviceFunction);
    return answer(launch(kernel, grid, block, args, shmem, stream));
}

cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *func) {
    if (!kernel) return answer(cudaErrorInvalidValue);
    struct CUkern_st *k = func ? kernel_find(func) : NULL;
    if (!k) return answer(cudaErrorInvalidDeviceFunction);
    *kernel = k;
    return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attr, const void *func) {
    if (!attr) return answer(cudaErrorInvalidValue);
    if (!func) return answer(cudaErrorInvalidDeviceFunction);
    struct CUkern_st *k = kernel_find(func);
    *attr = (struct cudaFuncAttributes){
        .maxThreadsPerBlock = MAX_BLOCK_THREADS,
        .numRegs = 8,
        .ptxVersion = 90,
        .binaryVersion = 90,
        .maxDynamicSharedSizeBytes = k ? atomic_load(&k->max_shmem) : SHMEM_DEFAULT,
    };
    return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute attr, int value) {
    struct CUkern_st *k = func ? kernel_find(func) : NULL;
    if (!k) return answer(cudaErrorInvalidDeviceFunction);
    if (attr != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 || value > SHMEM_OPTIN)
        return answer(cudaErrorInvalidValue);
    atomic_store(&k->max_shmem, value);
    return cudaSuccess;
}

/* ---- what nvcc's host code calls ---- */

struct call_configuration {
    dim3 grid, block;
    size_t shmem;
    cudaStream_t stream;
};
/* A stack, because a launch's arguments may contain another launch. */
static _Thread_local struct call_configuration pushed[32];
static _Thread_local unsigned pushed_count;

/* Not 0 makes the generated code skip the launch. */
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shmem,
                                     struct CUstream_st *stream) {
    if (pushed_count == sizeof pushed / sizeof *pushed) return 1;
    pushed[pushed_count++] = (struct call_configuration){grid, block, shmem, stream};
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shmem, void *stream) {
    if (pushed_count == 0) return answer(cudaErrorMissingConfiguration);
    const struct call_configuration *top = &pushed[--pushed_count];
    *grid = top->grid;
    *block = top->block;
    *shmem = top->shmem;
    memcpy(stream, &top->stream, sizeof top->stream);
    return cudaSuccess;
}

void **__cudaRegisterFatBinary(void *binary) {
    void **handle = malloc(sizeof *handle);
    if (handle) *handle = binary;
    return handle;
}

void __cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }

void __cudaUnregisterFatBinary(void **handle) {
    if (!handle) return;
    pthread_mutex_lock(&lock);
    kernel_drop_binary(handle);
    pthread_mutex_unlock(&lock);
    free(handle);
}

char __cudaInitModule(void **handle) {
    (void)handle;
    return 1;
}

void __cudaRegisterFunction(void **handle, const char *host_func, char *device_func,
                            const char *device_name, int thread_limit, uint3 *tid, uint3 *bid,
                            dim3 *block, dim3 *grid, int *warp_size) {
    (void)device_func, (void)device_name, (void)thread_limit, (void)tid, (void)bid;
    (void)block, (void)grid, (void)warp_size;
    pthread_mutex_lock(&lock);
    kernel_add(host_func, NULL, handle);
    pthread_mutex_unlock(&lock);
}

void __cudaRegisterVar(void **handle, char *host_var, char *device_address,
                       const char *device_name, int ext, size_t size, int constant, int global) {
    (void)handle, (void)host_var, (void)device_address, (void)device_name;
    (void)ext, (void)size, (void)constant, (void)global;
}

/* ---- the stand-in's own ---- */

void __cudaSimRegisterKernel(const void *func, cudaSimTrampoline trampoline) {
    const struct CUkern_st *k = kernel_find(func);
    if (k && atomic_load(&k->trampoline) == trampoline) return;
    pthread_mutex_lock(&lock);
    kernel_add(func, trampoline, NULL);
    pthread_mutex_unlock(&lock);
}

unsigned long long cudaSimLaunches(void) { return atomic_load(&launches); }

unsigned long long cudaSimLiveAllocations(void) {
    unsigned long long sum = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < MAX_DEVICES; i++) sum += arenas[i].live;
    pthread_mutex_unlock(&lock);
    return sum;
}

unsigned long long cudaSimLiveBytes(void) {
    unsigned long long sum = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < MAX_DEVICES; i++) sum += arenas[i].asked;
    pthread_mutex_unlock(&lock);
    return sum;
}
