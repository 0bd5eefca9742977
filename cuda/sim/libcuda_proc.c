/* cuGetProcAddress of the stand-in driver: every entry point by its name without suffix, and the version it came with.
 *
 * As the real one does (seen on driver 580): the newest entry point that is no newer than asked for; with flag 2 the one
 * for per-thread default streams, where there is one, and only that. No such name, or none so old: NULL, a status that
 * says which, and CUDA_SUCCESS; from the older function, which has no status, CUDA_ERROR_NOT_FOUND. A version newer than
 * the driver and unknown flags are CUDA_ERROR_INVALID_VALUE.
 */
#define _GNU_SOURCE
#include <string.h>

#include "libcuda.h"

#undef cuGetProcAddress
CUresult cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags);

typedef void (*any_function)(void);

struct entry {
    const char *name;
    int version;
    any_function function;
    int per_thread_version; /* 0: there is none for per-thread default streams */
    any_function per_thread;
};

#define PLAIN(name, version) {#name, version, (any_function)name, 0, NULL}
#define SUFFIXED(name, suffix, version) {#name, version, (any_function)name##suffix, 0, NULL}
#define TWICE(name, version, per_thread_version) \
    {#name, version, (any_function)name, per_thread_version, (any_function)name##_ptsz}

/* Names in the table are what programs ask for, not what the header's macros make of them. */
#undef cuDeviceTotalMem
#undef cuDevicePrimaryCtxRelease
#undef cuDevicePrimaryCtxReset
#undef cuCtxCreate
#undef cuCtxDestroy
#undef cuCtxPushCurrent
#undef cuCtxPopCurrent
#undef cuMemGetInfo
#undef cuMemAlloc
#undef cuMemAllocPitch
#undef cuMemFree
#undef cuMemAllocHost
#undef cuMemcpyHtoD
#undef cuMemcpyDtoH
#undef cuMemcpyDtoD
#undef cuMemcpyHtoDAsync
#undef cuMemcpyDtoHAsync
#undef cuMemcpyDtoDAsync
#undef cuMemsetD8
#undef cuArrayCreate
#undef cuArray3DCreate
#undef cuStreamDestroy
#undef cuEventDestroy
#undef cuEventElapsedTime

/* Of one name, the newer stands before the older. */
static const struct entry entries[] = {
    PLAIN(cuArrayDestroy, 2000),
    SUFFIXED(cuArrayCreate, _v2, 3020),
    SUFFIXED(cuArray3DCreate, _v2, 3020),
    SUFFIXED(cuCtxCreate, _v4, 12050),
    SUFFIXED(cuCtxCreate, _v3, 11040),
    SUFFIXED(cuCtxCreate, _v2, 3020),
    SUFFIXED(cuCtxDestroy, _v2, 4000),
    PLAIN(cuCtxGetCurrent, 4000),
    SUFFIXED(cuCtxGetDevice, _v2, 13000),
    PLAIN(cuCtxGetDevice, 2000),
    SUFFIXED(cuCtxPopCurrent, _v2, 4000),
    SUFFIXED(cuCtxPushCurrent, _v2, 4000),
    PLAIN(cuCtxSetCurrent, 4000),
    SUFFIXED(cuCtxSynchronize, _v2, 13000),
    PLAIN(cuCtxSynchronize, 2000),
    PLAIN(cuDeviceGet, 2000),
    PLAIN(cuDeviceGetAttribute, 2000),
    PLAIN(cuDeviceGetCount, 2000),
    PLAIN(cuDeviceGetName, 2000),
    PLAIN(cuDevicePrimaryCtxGetState, 7000),
    SUFFIXED(cuDevicePrimaryCtxRelease, _v2, 11000),
    SUFFIXED(cuDevicePrimaryCtxReset, _v2, 11000),
    PLAIN(cuDevicePrimaryCtxRetain, 7000),
    SUFFIXED(cuDeviceTotalMem, _v2, 3020),
    PLAIN(cuDriverGetVersion, 2020),
    PLAIN(cuEventCreate, 2000),
    SUFFIXED(cuEventDestroy, _v2, 4000),
    SUFFIXED(cuEventElapsedTime, _v2, 2000),
    PLAIN(cuEventQuery, 2000),
    PLAIN(cuEventRecord, 2000),
    PLAIN(cuEventSynchronize, 2000),
    PLAIN(cuFuncGetAttribute, 2020),
    PLAIN(cuFuncGetName, 12030),
    PLAIN(cuFuncSetAttribute, 9000),
    PLAIN(cuGetErrorName, 6000),
    PLAIN(cuGetErrorString, 6000),
    SUFFIXED(cuGetProcAddress, _v2, 12000),
    PLAIN(cuGetProcAddress, 11030),
    TWICE(cuGraphLaunch, 10000, 10000),
    PLAIN(cuInit, 2000),
    PLAIN(cuKernelGetAttribute, 12000),
    PLAIN(cuKernelGetFunction, 12000),
    PLAIN(cuKernelGetName, 12030),
    PLAIN(cuKernelSetAttribute, 12000),
    TWICE(cuLaunchCooperativeKernel, 9000, 9000),
    TWICE(cuLaunchKernel, 4000, 7000),
    TWICE(cuLaunchKernelEx, 11060, 11060),
    PLAIN(cuLibraryGetKernel, 12000),
    PLAIN(cuLibraryLoadData, 12000),
    PLAIN(cuLibraryUnload, 12000),
    PLAIN(cuMemAddressFree, 10020),
    PLAIN(cuMemAddressReserve, 10020),
    SUFFIXED(cuMemAlloc, _v2, 3020),
    TWICE(cuMemAllocAsync, 11020, 11020),
    TWICE(cuMemAllocFromPoolAsync, 11020, 11020),
    SUFFIXED(cuMemAllocHost, _v2, 3020),
    PLAIN(cuMemAllocManaged, 6000),
    SUFFIXED(cuMemAllocPitch, _v2, 3020),
    PLAIN(cuMemCreate, 10020),
    SUFFIXED(cuMemFree, _v2, 3020),
    TWICE(cuMemFreeAsync, 11020, 11020),
    PLAIN(cuMemFreeHost, 2000),
    PLAIN(cuMemGetAllocationGranularity, 10020),
    SUFFIXED(cuMemGetInfo, _v2, 3020),
    PLAIN(cuMemHostAlloc, 2020),
    SUFFIXED(cuMemHostRegister, _v2, 6050),
    PLAIN(cuMemMap, 10020),
    PLAIN(cuMemRelease, 10020),
    PLAIN(cuMemRetainAllocationHandle, 11000),
    PLAIN(cuMemSetAccess, 10020),
    PLAIN(cuMemUnmap, 10020),
    PLAIN(cuMemcpy, 4000),
    PLAIN(cuMemcpyAsync, 4000),
    SUFFIXED(cuMemcpyDtoD, _v2, 3020),
    SUFFIXED(cuMemcpyDtoDAsync, _v2, 3020),
    SUFFIXED(cuMemcpyDtoH, _v2, 3020),
    SUFFIXED(cuMemcpyDtoHAsync, _v2, 3020),
    SUFFIXED(cuMemcpyHtoD, _v2, 3020),
    SUFFIXED(cuMemcpyHtoDAsync, _v2, 3020),
    SUFFIXED(cuMemsetD8, _v2, 3020),
    PLAIN(cuMemsetD8Async, 3020),
    PLAIN(cuMipmappedArrayCreate, 5000),
    PLAIN(cuMipmappedArrayDestroy, 5000),
    PLAIN(cuModuleGetFunction, 2000),
    PLAIN(cuModuleLoadData, 2000),
    PLAIN(cuModuleUnload, 2000),
    PLAIN(cuStreamCreate, 2000),
    PLAIN(cuPointerGetAttribute, 4000),
    SUFFIXED(cuStreamDestroy, _v2, 4000),
    PLAIN(cuStreamQuery, 2000),
    PLAIN(cuStreamSynchronize, 2000),
    /* The stand-in's own, so that its runtime finds them in the same way. */
    PLAIN(cuSimLaunches, 0),
    PLAIN(cuSimLiveAllocations, 0),
    PLAIN(cuSimLiveBytes, 0),
    PLAIN(cuSimSetHostFunction, 0),
};

static CUresult look_up(const char *symbol, void **function, int version, cuuint64_t flags,
                        CUdriverProcAddressQueryResult *status) {
    const cuuint64_t known = CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    if (!symbol || !function || version > CUDA_VERSION || (flags & ~known) != 0) return CUDA_ERROR_INVALID_VALUE;
    *function = NULL;
    *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        const struct entry *e = &entries[i];
        if (strcmp(e->name, symbol) != 0) continue;
        bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0 && e->per_thread;
        if (version < (per_thread ? e->per_thread_version : e->version)) {
            *status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
            continue;
        }
        memcpy(function, per_thread ? &e->per_thread : &e->function, sizeof *function);
        *status = CU_GET_PROC_ADDRESS_SUCCESS;
        break;
    }
    return CUDA_SUCCESS;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status) {
    CUdriverProcAddressQueryResult ignored;
    return look_up(symbol, function, version, flags, status ? status : &ignored);
}

CUresult cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags) {
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
    CUresult code = look_up(symbol, function, version, flags, &status);
    return code == CUDA_SUCCESS && status != CU_GET_PROC_ADDRESS_SUCCESS ? CUDA_ERROR_NOT_FOUND : code;
}
