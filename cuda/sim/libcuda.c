/* A stand-in for the CUDA driver, for machines without a GPU: builds libcuda.so.1. This file: start, settings, devices,
 * contexts, errors.
 *
 * In: the calls of programs that use the driver API, and of the stand-in runtime (cudart.c), which finds this library as
 * the real one finds the real driver. Out: what the driver would answer on a small GPU; a launch calls the function that
 * cuSimSetHostFunction gave, if any. Device memory is host memory. All functions may be called from any thread; the
 * stack of current contexts is each thread's own.
 *
 * Settings, read once, by cuInit (whole numbers; others are ignored with a warning on stderr):
 *
 *     CUDA_SIM_MEM_MB=8192        memory of each device
 *     CUDA_SIM_DEVICES=1          number of devices, at most 16
 *     CUDA_SIM_MALLOC_DELAY_US=N  sleep in each device allocation (cuMemCreate is one), before it gets its address
 *     CUDA_SIM_FREE_DELAY_US=N    sleep in each device free (cuMemRelease is one), after its address went back: another
 *                                 thread can get it before this free returns
 *     CUDA_SIM_MALLOC_FAIL=N      the first N device allocations of more than 0 bytes return 2
 *     CUDA_SIM_FREE_FAIL=N        the first N device frees of non-null pointers return 700 and change nothing
 *     CUDA_SIM_LAUNCH_RET=N       launches return N and don't run
 *
 * What is not documented is as it was seen on an H200 with driver 580: 0 for the address after a failed allocation, free
 * of 0 without a context, a primary context dead after its reset until the next retain.
 *
 * Unlike CUDA: a child process made by fork keeps working, on copies of the parent's allocations (CUDA refuses with 3);
 * device memory starts as zeros; no error is sticky; memory is not lost in fragments smaller than 512 bytes; pinned host
 * memory outlives the context that it was asked for in.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <time.h>

#include "include/cuda_sim_errors.h"
#include "libcuda.h"
#include "limits.h"
#include "settings.h"

/* Programs built with CUDA 13's own header pass these structures in. */
_Static_assert(sizeof(CUlaunchConfig) == 56, "CUlaunchConfig as in CUDA 13");
_Static_assert(sizeof(CUmemAllocationProp) == 32, "CUmemAllocationProp as in CUDA 13");
_Static_assert(sizeof(CUDA_ARRAY3D_DESCRIPTOR) == 40, "CUDA_ARRAY3D_DESCRIPTOR as in CUDA 13");

struct sim_settings sim_settings;
atomic_bool sim_initialised;
pthread_mutex_t sim_lock = PTHREAD_MUTEX_INITIALIZER;
_Thread_local struct sim_current sim_current;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_long malloc_fails, free_fails;
static struct CUctx_st primary[MAX_DEVICES];
static struct CUctx_st *created;

/* ---- start ---- */

static void fork_prepare(void) { pthread_mutex_lock(&sim_lock); }
static void fork_done(void) { pthread_mutex_unlock(&sim_lock); }

static void fork_child(void) {
    sim_physical_forked_locked();
    pthread_mutex_unlock(&sim_lock);
}

/* A child of a program with threads must not inherit the lock as some other thread's. */
__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(fork_prepare, fork_done, fork_child); }

static void configure(void) {
    sim_settings.memory = (size_t)setting("CUDA_SIM_MEM_MB", 8192, 0, 1L << 26) << 20;
    sim_settings.devices = (int)setting("CUDA_SIM_DEVICES", 1, 1, MAX_DEVICES);
    sim_settings.malloc_delay_us = setting("CUDA_SIM_MALLOC_DELAY_US", 0, 0, LONG_MAX / 1000);
    sim_settings.free_delay_us = setting("CUDA_SIM_FREE_DELAY_US", 0, 0, LONG_MAX / 1000);
    sim_settings.launch_ret = (CUresult)setting("CUDA_SIM_LAUNCH_RET", 0, 0, INT_MAX);
    atomic_store(&malloc_fails, setting("CUDA_SIM_MALLOC_FAIL", 0, 0, LONG_MAX));
    atomic_store(&free_fails, setting("CUDA_SIM_FREE_FAIL", 0, 0, LONG_MAX));
    for (int i = 0; i < MAX_DEVICES; i++) primary[i].device = i;
    sim_memory_open();
    atomic_store_explicit(&sim_initialised, true, memory_order_release);
}

CUresult cuInit(unsigned int flags) {
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    pthread_once(&once, configure);
    return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version) {
    if (!version) return CUDA_ERROR_INVALID_VALUE;
    *version = CUDA_VERSION;
    return CUDA_SUCCESS;
}

void sim_sleep_us(long us) {
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

bool sim_malloc_fails(void) { return still_failing(&malloc_fails); }
bool sim_free_fails(void) { return still_failing(&free_fails); }

/* ---- errors ---- */

CUresult cuGetErrorName(CUresult error, const char **name) {
    if (!name) return CUDA_ERROR_INVALID_VALUE;
    switch (error) {
#define NAME(result, number) case result: *name = #result; return CUDA_SUCCESS;
        CUDA_SIM_RESULTS(NAME)
#undef NAME
    }
    *name = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **text) {
    if (!text) return CUDA_ERROR_INVALID_VALUE;
    switch ((int)error) {
#define TEXT(name, number, words) case number: *text = words; return CUDA_SUCCESS;
        CUDA_SIM_ERRORS(TEXT)
#undef TEXT
    }
    *text = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

/* ---- devices ---- */

static CUresult device_code(int device) {
    CUresult code = sim_initialised_or_code();
    if (code != CUDA_SUCCESS) return code;
    return device >= 0 && device < sim_settings.devices ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetCount(int *count) {
    CUresult code = sim_initialised_or_code();
    if (code != CUDA_SUCCESS) return code;
    if (!count) return CUDA_ERROR_INVALID_VALUE;
    *count = sim_settings.devices;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    CUresult code = device_code(ordinal);
    if (code != CUDA_SUCCESS) return code;
    if (!device) return CUDA_ERROR_INVALID_VALUE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
    CUresult code = device_code(device);
    if (code != CUDA_SUCCESS) return code;
    if (!name || length <= 0) return CUDA_ERROR_INVALID_VALUE;
    snprintf(name, (size_t)length, "CUDA stand-in (no GPU)");
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    CUresult code = device_code(device);
    if (code != CUDA_SUCCESS) return code;
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    *bytes = sim_settings.memory;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
    CUresult code = device_code(device);
    if (code != CUDA_SUCCESS) return code;
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: *value = MAX_BLOCK_THREADS; break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: *value = MAX_BLOCK_Z; break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: *value = MAX_GRID_X; break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: *value = MAX_GRID_YZ; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: *value = SHMEM_DEFAULT; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = SHMEM_OPTIN; break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: *value = 32; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED: *value = 1; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = 9; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = 0; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

/* ---- contexts ---- */

/* Gives back everything that a context owns. */
static void drop_resources_locked(CUcontext context) {
    sim_memory_drop_locked(context);
    context->generation++;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    CUresult code = device_code(device);
    if (code != CUDA_SUCCESS) return code;
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_lock);
    primary[device].retained++;
    atomic_store_explicit(&primary[device].alive, true, memory_order_release);
    pthread_mutex_unlock(&sim_lock);
    *context = &primary[device];
    return CUDA_SUCCESS;
}

/* The last release ends the context; its handle becomes good again by the next retain. */
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    CUresult code = device_code(device);
    if (code != CUDA_SUCCESS) return code;
    pthread_mutex_lock(&sim_lock);
    if (primary[device].retained == 0) {
        code = CUDA_ERROR_INVALID_CONTEXT;
    } else if (--primary[device].retained == 0) {
        atomic_store_explicit(&primary[device].alive, false, memory_order_release);
        drop_resources_locked(&primary[device]);
    }
    pthread_mutex_unlock(&sim_lock);
    return code;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active) {
    CUresult code = device_code(device);
    if (code != CUDA_SUCCESS) return code;
    if (!flags || !active) return CUDA_ERROR_INVALID_VALUE;
    *flags = 0;
    *active = atomic_load_explicit(&primary[device].alive, memory_order_acquire);
    return CUDA_SUCCESS;
}

/* The context is dead, to all who retained it, until the next retain; what they hold of it stays counted. */
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
    CUresult code = device_code(device);
    if (code != CUDA_SUCCESS) return code;
    pthread_mutex_lock(&sim_lock);
    atomic_store_explicit(&primary[device].alive, false, memory_order_release);
    drop_resources_locked(&primary[device]);
    pthread_mutex_unlock(&sim_lock);
    return CUDA_SUCCESS;
}

static CUresult context_create(CUcontext *context, CUdevice device) {
    CUresult code = device_code(device);
    if (code != CUDA_SUCCESS) return code;
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    struct sim_current *current = &sim_current;
    if (current->depth == sizeof current->stack / sizeof *current->stack) return CUDA_ERROR_OUT_OF_MEMORY;
    CUcontext c = calloc(1, sizeof *c);
    if (!c) return CUDA_ERROR_OUT_OF_MEMORY;
    c->device = device;
    atomic_init(&c->alive, true);
    pthread_mutex_lock(&sim_lock);
    c->next = created;
    created = c;
    pthread_mutex_unlock(&sim_lock);
    *context = current->stack[current->depth++] = c;
    return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device) {
    (void)flags;
    return context_create(context, device);
}

CUresult cuCtxCreate_v3(CUcontext *context, CUexecAffinityParam *params, int count, unsigned int flags, CUdevice device) {
    (void)params, (void)count, (void)flags;
    return context_create(context, device);
}

CUresult cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *params, unsigned int flags, CUdevice device) {
    (void)params, (void)flags;
    return context_create(context, device);
}

static bool is_context_locked(CUcontext context) {
    for (int i = 0; i < MAX_DEVICES; i++)
        if (context == &primary[i]) return true;
    CUcontext c = created;
    while (c && c != context) c = c->next;
    return c != NULL;
}

/* The code for a context that a program names. */
static CUresult context_code(CUcontext context) {
    CUresult code = sim_initialised_or_code();
    if (code != CUDA_SUCCESS) return code;
    pthread_mutex_lock(&sim_lock);
    bool known = is_context_locked(context);
    pthread_mutex_unlock(&sim_lock);
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

/* The same, where it must be alive too. One that is not can be made current, as CUDA allows, and calls then tell. */
static CUresult live_context_code(CUcontext context) {
    CUresult code = context_code(context);
    if (code != CUDA_SUCCESS) return code;
    return atomic_load(&context->alive) ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

/* A primary context is given back by cuDevicePrimaryCtxRelease alone. */
CUresult cuCtxDestroy_v2(CUcontext context) {
    CUresult code = live_context_code(context);
    if (code != CUDA_SUCCESS) return code;
    if (context >= primary && context < primary + MAX_DEVICES) return CUDA_ERROR_INVALID_CONTEXT;
    pthread_mutex_lock(&sim_lock);
    if (atomic_exchange(&context->alive, false))
        drop_resources_locked(context);
    else
        code = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    pthread_mutex_unlock(&sim_lock);
    struct sim_current *current = &sim_current;
    if (current->depth != 0 && current->stack[current->depth - 1] == context) current->depth--;
    return code;
}

CUresult cuCtxGetCurrent(CUcontext *context) {
    CUresult code = sim_initialised_or_code();
    if (code != CUDA_SUCCESS) return code;
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    const struct sim_current *current = &sim_current;
    *context = current->depth ? current->stack[current->depth - 1] : NULL;
    return CUDA_SUCCESS;
}

/* Replaces the top of the thread's stack, or takes it away for NULL. */
CUresult cuCtxSetCurrent(CUcontext context) {
    CUresult code = context ? context_code(context) : sim_initialised_or_code();
    if (code != CUDA_SUCCESS) return code;
    struct sim_current *current = &sim_current;
    if (current->depth != 0) current->depth--;
    if (context) current->stack[current->depth++] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
    CUresult code = context ? context_code(context) : CUDA_ERROR_INVALID_VALUE;
    if (code != CUDA_SUCCESS) return code;
    struct sim_current *current = &sim_current;
    if (current->depth == sizeof current->stack / sizeof *current->stack) return CUDA_ERROR_OUT_OF_MEMORY;
    current->stack[current->depth++] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext *context) {
    CUresult code = sim_initialised_or_code();
    if (code != CUDA_SUCCESS) return code;
    struct sim_current *current = &sim_current;
    if (current->depth == 0) return CUDA_ERROR_INVALID_CONTEXT;
    current->depth--;
    if (context) *context = current->stack[current->depth];
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device) {
    CUcontext context;
    CUresult code = sim_context(&context);
    if (code != CUDA_SUCCESS) return code;
    if (!device) return CUDA_ERROR_INVALID_VALUE;
    *device = context->device;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext context) {
    CUresult code = context ? live_context_code(context) : sim_context(&context);
    if (code != CUDA_SUCCESS) return code;
    if (!device) return CUDA_ERROR_INVALID_VALUE;
    *device = context->device;
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void) {
    CUcontext context;
    return sim_context(&context);
}

CUresult cuCtxSynchronize_v2(CUcontext context) {
    return context ? live_context_code(context) : sim_context(&context);
}
