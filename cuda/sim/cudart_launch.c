/* The stand-in runtime's launches, and what nvcc's host code calls: registration of kernels, launch configurations. */
#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "cudart.h"
#include "kernels.h"
#include "limits.h"

_Static_assert(sizeof(struct cudaFuncAttributes) == 144, "cudaFuncAttributes as in CUDA 13");
_Static_assert(sizeof(cudaLaunchConfig_t) == 56, "cudaLaunchConfig_t as in CUDA 13");

/* Over additions to the kernels. Never held across a call of the driver: that has a lock of its own, and fork takes
 * both. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void fork_prepare(void) { pthread_mutex_lock(&lock); }
static void fork_done(void) { pthread_mutex_unlock(&lock); }

/* A child of a program with threads must not inherit the lock as some other thread's. */
__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(fork_prepare, fork_done, fork_done); }

/* ---- kernels' driver handles ---- */

/* What the kernels belong to that came in no fat binary. The driver's stand-in reads no image. */
static struct binary no_binary = {"no image", NULL};

static cudaError_t library_of(struct binary *binary, CUlibrary *library) {
    *library = atomic_load(&binary->library);
    if (*library) return cudaSuccess;
    CUlibrary mine = NULL, expected = NULL;
    const void *image = binary->image ? binary->image : no_binary.image;
    cudaError_t code = rt_code(rt_driver.LibraryLoadData(&mine, image, NULL, NULL, 0, NULL, NULL, 0));
    if (code != cudaSuccess) return code;
    if (atomic_compare_exchange_strong(&binary->library, &expected, mine)) {
        *library = mine;
    } else { /* another thread was first */
        rt_driver.LibraryUnload(mine);
        *library = expected;
    }
    return cudaSuccess;
}

/* The driver calls this for a launch. */
static void run(void *user, CUsimDim3 grid, CUsimDim3 block, void **params) {
    const struct kernel *k = user;
    cudaSimTrampoline trampoline = atomic_load_explicit(&k->trampoline, memory_order_acquire);
    if (trampoline) trampoline(k->func, (dim3){grid.x, grid.y, grid.z}, (dim3){block.x, block.y, block.z}, params);
}

static cudaError_t make_handle(struct kernel *k, CUkernel *handle) {
    CUlibrary library;
    char name[64];
    /* Its address alone tells one kernel without a name from the next. */
    snprintf(name, sizeof name, "cuda_sim_kernel_%p", k->func);
    cudaError_t code = library_of(k->binary ? k->binary : &no_binary, &library);
    if (code == cudaSuccess) code = rt_code(rt_driver.LibraryGetKernel(handle, library, k->name ? k->name : name));
    /* Threads that do this at once get the same handle. */
    if (code == cudaSuccess) code = rt_code(rt_driver.SimSetHostFunction((CUfunction)*handle, run, k));
    if (code == cudaSuccess) atomic_store_explicit(&k->handle, *handle, memory_order_release);
    return code;
}

static cudaError_t handle_of(struct kernel *k, CUkernel *handle) {
    *handle = atomic_load_explicit(&k->handle, memory_order_acquire);
    return *handle ? cudaSuccess : make_handle(k, handle);
}

/* An address nobody registered may be a handle, which cudaLaunchKernel takes too, or a kernel of a C program, which
 * counts as one that can't be run; CUDA would answer 400. */
static cudaError_t handle_for_launch(const void *func, CUkernel *handle) {
    struct kernel *k = kernel_find(func);
    if (k) return handle_of(k, handle);
    const char *name;
    if (rt_driver.KernelGetName(&name, (CUkernel)(uintptr_t)func) == CUDA_SUCCESS) {
        *handle = (CUkernel)(uintptr_t)func;
        return cudaSuccess;
    }
    pthread_mutex_lock(&lock);
    k = kernel_add(func, NULL, NULL, NULL, false);
    pthread_mutex_unlock(&lock);
    return k ? handle_of(k, handle) : cudaErrorMemoryAllocation;
}

/* ---- launches ---- */

/* The runtime has a code of its own for a shape that the driver refuses. */
static cudaError_t launched(CUresult code, dim3 grid, dim3 block) {
    if (code == CUDA_ERROR_INVALID_VALUE && !launch_shape_fits(grid.x, grid.y, grid.z, block.x, block.y, block.z))
        return rt_invalid_launch;
    return rt_code(code);
}

typedef __typeof__(&cuLaunchKernel) *launch_way;
typedef __typeof__(&cuLaunchKernelEx) *launch_ex_way;
typedef __typeof__(&cuLaunchCooperativeKernel) *launch_cooperative_way;

static cudaError_t launch_handle(launch_way way, const void *handle, dim3 grid, dim3 block, void **args, size_t shmem,
                                 cudaStream_t stream) {
    if (shmem > UINT_MAX) return cudaErrorInvalidValue;
    CUfunction f = (CUfunction)(uintptr_t)handle;
    return launched((*way)(f, grid.x, grid.y, grid.z, block.x, block.y, block.z, (unsigned)shmem, stream, args, NULL),
                    grid, block);
}

/* `way` is one of the driver's functions; where they stand is known before the driver is. */
static cudaError_t launch(launch_way way, const void *func, dim3 grid, dim3 block, void **args, size_t shmem,
                          cudaStream_t stream) {
    if (!func) return cudaErrorInvalidDeviceFunction;
    CUkernel handle;
    cudaError_t code = rt_context_ready();
    if (code == cudaSuccess) code = handle_for_launch(func, &handle);
    return code == cudaSuccess ? launch_handle(way, handle, grid, block, args, shmem, stream) : code;
}

static cudaError_t launch_ex(launch_ex_way way, const cudaLaunchConfig_t *config, const void *func, void **args) {
    if (!config) return cudaErrorInvalidConfiguration;
    if (!func) return cudaErrorInvalidDeviceFunction;
    if (config->dynamicSmemBytes > UINT_MAX) return cudaErrorInvalidValue;
    CUkernel handle;
    cudaError_t code = rt_context_ready();
    if (code == cudaSuccess) code = handle_for_launch(func, &handle);
    if (code != cudaSuccess) return code;
    dim3 g = config->gridDim, b = config->blockDim;
    CUlaunchConfig driver_config = {g.x, g.y, g.z, b.x, b.y, b.z, (unsigned)config->dynamicSmemBytes,
                                    config->stream, (struct CUlaunchAttribute_st *)config->attrs, config->numAttrs};
    return launched((*way)(&driver_config, (CUfunction)handle, args, NULL), g, b);
}

static cudaError_t launch_cooperative(launch_cooperative_way way, const void *func, dim3 grid, dim3 block, void **args,
                                      size_t shmem, cudaStream_t stream) {
    if (!func) return cudaErrorInvalidDeviceFunction;
    if (shmem > UINT_MAX) return cudaErrorInvalidValue;
    CUkernel handle;
    cudaError_t code = rt_context_ready();
    if (code == cudaSuccess) code = handle_for_launch(func, &handle);
    if (code != cudaSuccess) return code;
    return launched((*way)((CUfunction)handle, grid.x, grid.y, grid.z, block.x, block.y, block.z, (unsigned)shmem, stream,
                           args),
                    grid, block);
}

cudaError_t cudaLaunchKernel(const void *func, dim3 grid, dim3 block, void **args, size_t shmem, cudaStream_t stream) {
    return rt_answer(launch(&rt_driver.LaunchKernel, func, grid, block, args, shmem, stream));
}

cudaError_t cudaLaunchKernel_ptsz(const void *func, dim3 grid, dim3 block, void **args, size_t shmem,
                                  cudaStream_t stream) {
    return rt_answer(launch(&rt_driver.LaunchKernel_ptsz, func, grid, block, args, shmem, stream));
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *func, void **args) {
    return rt_answer(launch_ex(&rt_driver.LaunchKernelEx, config, func, args));
}

cudaError_t cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t *config, const void *func, void **args) {
    return rt_answer(launch_ex(&rt_driver.LaunchKernelEx_ptsz, config, func, args));
}

cudaError_t cudaLaunchCooperativeKernel(const void *func, dim3 grid, dim3 block, void **args, size_t shmem,
                                        cudaStream_t stream) {
    return rt_answer(launch_cooperative(&rt_driver.LaunchCooperativeKernel, func, grid, block, args, shmem, stream));
}

cudaError_t cudaLaunchCooperativeKernel_ptsz(const void *func, dim3 grid, dim3 block, void **args, size_t shmem,
                                             cudaStream_t stream) {
    return rt_answer(launch_cooperative(&rt_driver.LaunchCooperativeKernel_ptsz, func, grid, block, args, shmem, stream));
}

/* What `<<<...>>>` becomes: the handle is known already. */
static cudaError_t launch_kernel(launch_way way, cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shmem,
                                 cudaStream_t stream) {
    if (!kernel) return cudaErrorInvalidDeviceFunction;
    cudaError_t code = rt_context_ready();
    return code == cudaSuccess ? launch_handle(way, kernel, grid, block, args, shmem, stream) : code;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shmem,
                               cudaStream_t stream) {
    return rt_answer(launch_kernel(&rt_driver.LaunchKernel, kernel, grid, block, args, shmem, stream));
}

cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shmem,
                                    cudaStream_t stream) {
    return rt_answer(launch_kernel(&rt_driver.LaunchKernel_ptsz, kernel, grid, block, args, shmem, stream));
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
    cudaError_t code = rt_context_ready();
    return rt_answer(code == cudaSuccess ? rt_code(rt_driver.GraphLaunch(graph, stream)) : code);
}

cudaError_t cudaGraphLaunch_ptsz(cudaGraphExec_t graph, cudaStream_t stream) {
    cudaError_t code = rt_context_ready();
    return rt_answer(code == cudaSuccess ? rt_code(rt_driver.GraphLaunch_ptsz(graph, stream)) : code);
}

/* ---- attributes ---- */

cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *func) {
    if (!kernel) return rt_answer(cudaErrorInvalidValue);
    struct kernel *k = func ? kernel_find(func) : NULL;
    if (!k || !k->registered) return rt_answer(cudaErrorInvalidDeviceFunction);
    cudaError_t code = rt_driver_ready();
    return rt_answer(code == cudaSuccess ? handle_of(k, kernel) : code);
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attr, const void *func) {
    if (!attr) return rt_answer(cudaErrorInvalidValue);
    if (!func) return rt_answer(cudaErrorInvalidDeviceFunction);
    CUkernel handle;
    *attr = (struct cudaFuncAttributes){
        .maxThreadsPerBlock = MAX_BLOCK_THREADS,
        .numRegs = 8,
        .ptxVersion = 90,
        .binaryVersion = 90,
    };
    cudaError_t code = rt_context_ready();
    if (code == cudaSuccess) code = handle_for_launch(func, &handle);
    if (code != cudaSuccess) return rt_answer(code);
    return rt_answer(rt_code(rt_driver.KernelGetAttribute(&attr->maxDynamicSharedSizeBytes,
                                                          CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, handle, 0)));
}

cudaError_t cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute attr, int value) {
    struct kernel *k = func ? kernel_find(func) : NULL;
    if (!k || !k->registered) return rt_answer(cudaErrorInvalidDeviceFunction);
    CUkernel handle;
    cudaError_t code = rt_context_ready();
    if (code == cudaSuccess) code = handle_of(k, &handle);
    if (code != cudaSuccess) return rt_answer(code);
    return rt_answer(rt_code(rt_driver.KernelSetAttribute((CUfunction_attribute)attr, value, handle, 0)));
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
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shmem, struct CUstream_st *stream) {
    if (pushed_count == sizeof pushed / sizeof *pushed) return 1;
    pushed[pushed_count++] = (struct call_configuration){grid, block, shmem, stream};
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shmem, void *stream) {
    if (pushed_count == 0) return rt_answer(cudaErrorMissingConfiguration);
    const struct call_configuration *top = &pushed[--pushed_count];
    *grid = top->grid;
    *block = top->block;
    *shmem = top->shmem;
    memcpy(stream, &top->stream, sizeof top->stream);
    return cudaSuccess;
}

void **__cudaRegisterFatBinary(void *image) {
    struct binary *binary = calloc(1, sizeof *binary);
    if (binary) binary->image = image;
    return (void **)binary;
}

void __cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }

/* Runs at exit too; the driver is asked only if it has the binary's kernels. */
void __cudaUnregisterFatBinary(void **handle) {
    struct binary *binary = (struct binary *)handle;
    if (!binary) return;
    pthread_mutex_lock(&lock);
    kernel_drop_binary(binary);
    pthread_mutex_unlock(&lock);
    CUlibrary library = atomic_load(&binary->library);
    if (library) rt_driver.LibraryUnload(library);
    free(binary);
}

char __cudaInitModule(void **handle) {
    (void)handle;
    return 1;
}

void __cudaRegisterFunction(void **handle, const char *host_func, char *device_func, const char *device_name,
                            int thread_limit, uint3 *tid, uint3 *bid, dim3 *block, dim3 *grid, int *warp_size) {
    (void)device_func, (void)thread_limit, (void)tid, (void)bid, (void)block, (void)grid, (void)warp_size;
    pthread_mutex_lock(&lock);
    kernel_add(host_func, device_name, (struct binary *)handle, NULL, true);
    pthread_mutex_unlock(&lock);
}

void __cudaRegisterVar(void **handle, char *host_var, char *device_address, const char *device_name, int ext, size_t size,
                       int constant, int global) {
    (void)handle, (void)host_var, (void)device_address, (void)device_name;
    (void)ext, (void)size, (void)constant, (void)global;
}

/* ---- the stand-in's own ---- */

void __cudaSimRegisterKernel(const void *func, cudaSimTrampoline trampoline) {
    const struct kernel *k = kernel_find(func);
    if (k && atomic_load(&k->trampoline) == trampoline && k->registered) return;
    pthread_mutex_lock(&lock);
    kernel_add(func, NULL, NULL, trampoline, true);
    pthread_mutex_unlock(&lock);
}
