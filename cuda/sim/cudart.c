/* A stand-in for the CUDA runtime, for machines without a GPU: builds libcudart.so.13 and libcudart_static.a. This file:
 * finding the driver, last error, devices, streams, events.
 *
 * In: the calls of programs built by nvcc 13, or by gcc with the header in sim/include. Out: what the runtime would
 * answer on a small GPU. Memory, streams and launches are the driver's (libcuda.c, which has the settings); kernels run
 * on the CPU where the header's template made them known (see cuda_runtime.h). All functions may be called from any
 * thread; the last error is each thread's own.
 *
 * Its own setting, read when the driver is found:
 *
 *     CUDA_SIM_INVALID_LAUNCH=9   what a launch beyond the limits returns: 9 is documented, CUDA 13.0 on driver 580
 *                                 gives 1
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "cudart.h"
#include "limits.h"
#include "settings.h"

/* Binaries built with CUDA 13's own headers pass these structures in. */
_Static_assert(sizeof(struct cudaDeviceProp) == 1008, "cudaDeviceProp as in CUDA 13");
_Static_assert(offsetof(struct cudaDeviceProp, reservedSharedMemPerBlock) == 696, "the same");

#define MAX_DEVICES 16

struct rt_driver rt_driver;
cudaError_t rt_invalid_launch = cudaErrorInvalidConfiguration;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool found; /* all of the driver's functions */
static cudaError_t start_code = cudaErrorInsufficientDriver;
static _Atomic(CUcontext) primary[MAX_DEVICES]; /* retained by this runtime */

static _Thread_local cudaError_t last_error = cudaSuccess;

cudaError_t rt_answer(cudaError_t code) {
    if (code != cudaSuccess) last_error = code;
    return code;
}

/* ---- the driver ---- */

static void find_driver(void) {
    typedef CUresult (*get_proc_address)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
    rt_invalid_launch = (cudaError_t)setting("CUDA_SIM_INVALID_LAUNCH", cudaErrorInvalidConfiguration, 1, INT_MAX);
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    get_proc_address get = library ? (get_proc_address)(uintptr_t)dlsym(library, "cuGetProcAddress_v2") : NULL;
    if (!get) return;
    CUdriverProcAddressQueryResult status;
    found = true;
#define FIND(field, prototype, name, version, flag) \
    if (get(name, (void **)&rt_driver.field, version, flag, &status) != CUDA_SUCCESS || !rt_driver.field) found = false;
    RT_DRIVER_FUNCTIONS(FIND)
#undef FIND
    if (found) start_code = rt_code(rt_driver.Init(0));
}

cudaError_t rt_driver_ready(void) {
    pthread_once(&once, find_driver);
    return start_code;
}

/* Makes the device's primary context the thread's current one. */
static cudaError_t bind(int device) {
    CUcontext context = atomic_load(&primary[device]), expected = NULL;
    if (!context) {
        cudaError_t code = rt_code(rt_driver.PrimaryCtxRetain(&context, device));
        if (code != cudaSuccess) return code;
        /* It is retained once, whoever comes first. */
        if (!atomic_compare_exchange_strong(&primary[device], &expected, context)) rt_driver.PrimaryCtxRelease(device);
    }
    return rt_code(rt_driver.CtxSetCurrent(context));
}

cudaError_t rt_context_ready(void) {
    cudaError_t code = rt_driver_ready();
    if (code != cudaSuccess) return code;
    CUcontext context = NULL;
    code = rt_code(rt_driver.CtxGetCurrent(&context));
    return code != cudaSuccess || context ? code : bind(0);
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

static cudaError_t device_code(int device) {
    int count = 0;
    cudaError_t code = rt_driver_ready();
    if (code == cudaSuccess) code = rt_code(rt_driver.DeviceGetCount(&count));
    if (code != cudaSuccess) return code;
    return device >= 0 && device < count && device < MAX_DEVICES ? cudaSuccess : cudaErrorInvalidDevice;
}

/* The device of the thread's current context; 0 without one. */
static cudaError_t current_device(int *device) {
    cudaError_t code = rt_driver_ready();
    if (code != cudaSuccess) return code;
    CUcontext context = NULL;
    code = rt_code(rt_driver.CtxGetCurrent(&context));
    *device = 0;
    return code == cudaSuccess && context ? rt_code(rt_driver.CtxGetDevice(device)) : code;
}

cudaError_t cudaGetDeviceCount(int *count) {
    if (!count) return rt_answer(cudaErrorInvalidValue);
    cudaError_t code = rt_driver_ready();
    return rt_answer(code == cudaSuccess ? rt_code(rt_driver.DeviceGetCount(count)) : code);
}

cudaError_t cudaGetDevice(int *device) {
    if (!device) return rt_answer(cudaErrorInvalidValue);
    return rt_answer(current_device(device));
}

/* Makes the context too, as CUDA does since version 12. */
cudaError_t cudaSetDevice(int device) {
    cudaError_t code = device_code(device);
    return rt_answer(code == cudaSuccess ? bind(device) : code);
}

/* The attributes of the two APIs are the same numbers. */
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device) {
    if (!value) return rt_answer(cudaErrorInvalidValue);
    cudaError_t code = device_code(device);
    if (code != cudaSuccess) return rt_answer(code);
    return rt_answer(rt_code(rt_driver.DeviceGetAttribute(value, (CUdevice_attribute)attr, device)));
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device) {
    if (!prop) return rt_answer(cudaErrorInvalidValue);
    cudaError_t code = device_code(device);
    if (code != cudaSuccess) return rt_answer(code);
    *prop = (struct cudaDeviceProp){
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
    code = rt_code(rt_driver.DeviceGetName(prop->name, (int)sizeof prop->name, device));
    if (code == cudaSuccess) code = rt_code(rt_driver.DeviceTotalMem(&prop->totalGlobalMem, device));
    return rt_answer(code);
}

cudaError_t cudaDeviceSynchronize(void) {
    cudaError_t code = rt_context_ready();
    return rt_answer(code == cudaSuccess ? rt_code(rt_driver.CtxSynchronize()) : code);
}

/* The context comes back at once, not at the next call: it may be current in other threads. */
cudaError_t cudaDeviceReset(void) {
    int device;
    CUcontext context;
    cudaError_t code = current_device(&device);
    if (code == cudaSuccess) code = rt_code(rt_driver.PrimaryCtxReset(device));
    if (code == cudaSuccess && device < MAX_DEVICES && atomic_load(&primary[device])) {
        code = rt_code(rt_driver.PrimaryCtxRetain(&context, device));
        if (code == cudaSuccess) rt_driver.PrimaryCtxRelease(device);
    }
    return rt_answer(code);
}

cudaError_t cudaRuntimeGetVersion(int *version) {
    if (!version) return rt_answer(cudaErrorInvalidValue);
    *version = CUDART_VERSION;
    return cudaSuccess;
}

/* No driver is no error here: its version is 0. */
cudaError_t cudaDriverGetVersion(int *version) {
    if (!version) return rt_answer(cudaErrorInvalidValue);
    *version = 0;
    rt_driver_ready();
    return rt_answer(found ? rt_code(rt_driver.DriverGetVersion(version)) : cudaSuccess);
}

/* ---- streams and events ---- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags) {
    cudaError_t code = rt_context_ready();
    return rt_answer(code == cudaSuccess ? rt_code(rt_driver.StreamCreate(stream, flags)) : code);
}

cudaError_t cudaStreamCreate(cudaStream_t *stream) {
    cudaError_t code = rt_context_ready();
    return rt_answer(code == cudaSuccess ? rt_code(rt_driver.StreamCreate(stream, 0)) : code);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    cudaError_t code = rt_context_ready();
    return rt_answer(code == cudaSuccess ? rt_code(rt_driver.StreamDestroy(stream)) : code);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    cudaError_t code = rt_context_ready();
    return rt_answer(code == cudaSuccess ? rt_code(rt_driver.StreamSynchronize(stream)) : code);
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
    cudaError_t code = rt_context_ready();
    return rt_answer(code == cudaSuccess ? rt_code(rt_driver.StreamQuery(stream)) : code);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags) {
    cudaError_t code = rt_context_ready();
    return rt_answer(code == cudaSuccess ? rt_code(rt_driver.EventCreate(event, flags)) : code);
}

cudaError_t cudaEventCreate(cudaEvent_t *event) {
    cudaError_t code = rt_context_ready();
    return rt_answer(code == cudaSuccess ? rt_code(rt_driver.EventCreate(event, CU_EVENT_DEFAULT)) : code);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    cudaError_t code = rt_context_ready();
    return rt_answer(code == cudaSuccess ? rt_code(rt_driver.EventRecord(event, stream)) : code);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    cudaError_t code = rt_context_ready();
    return rt_answer(code == cudaSuccess ? rt_code(rt_driver.EventSynchronize(event)) : code);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    cudaError_t code = rt_context_ready();
    return rt_answer(code == cudaSuccess ? rt_code(rt_driver.EventQuery(event)) : code);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end) {
    cudaError_t code = rt_context_ready();
    return rt_answer(code == cudaSuccess ? rt_code(rt_driver.EventElapsedTime(ms, start, end)) : code);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    cudaError_t code = rt_context_ready();
    return rt_answer(code == cudaSuccess ? rt_code(rt_driver.EventDestroy(event)) : code);
}

/* ---- the stand-in's own: the driver's counters, 0 without a driver ---- */

unsigned long long cudaSimLaunches(void) { return rt_driver_ready() == cudaSuccess ? rt_driver.SimLaunches() : 0; }

unsigned long long cudaSimLiveAllocations(void) {
    return rt_driver_ready() == cudaSuccess ? rt_driver.SimLiveAllocations() : 0;
}

unsigned long long cudaSimLiveBytes(void) { return rt_driver_ready() == cudaSuccess ? rt_driver.SimLiveBytes() : 0; }
