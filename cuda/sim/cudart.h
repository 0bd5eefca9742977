/* What the parts of the stand-in runtime share: the driver's functions, and the calling thread's last error.
 *
 * The driver is found as the real runtime finds it: dlopen of libcuda.so.1, one dlsym, for cuGetProcAddress_v2, and
 * every other function by that. Whoever answers those two sees the driver calls of every runtime call.
 */
#ifndef CUDA_SIM_CUDART_H
#define CUDA_SIM_CUDART_H

#include "include/cuda.h"
#include "include/cuda_runtime.h"

/* name, its prototype in cuda.h, the version and the flag to ask for. */
#define RT_DRIVER_FUNCTIONS(X) \
    X(Init, cuInit, "cuInit", 2000, 0) \
    X(DriverGetVersion, cuDriverGetVersion, "cuDriverGetVersion", 2020, 0) \
    X(DeviceGetCount, cuDeviceGetCount, "cuDeviceGetCount", 2000, 0) \
    X(DeviceGetName, cuDeviceGetName, "cuDeviceGetName", 2000, 0) \
    X(DeviceGetAttribute, cuDeviceGetAttribute, "cuDeviceGetAttribute", 2000, 0) \
    X(DeviceTotalMem, cuDeviceTotalMem_v2, "cuDeviceTotalMem", 3020, 0) \
    X(PrimaryCtxRetain, cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000, 0) \
    X(PrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease", 11000, 0) \
    X(PrimaryCtxReset, cuDevicePrimaryCtxReset_v2, "cuDevicePrimaryCtxReset", 11000, 0) \
    X(CtxGetCurrent, cuCtxGetCurrent, "cuCtxGetCurrent", 4000, 0) \
    X(CtxSetCurrent, cuCtxSetCurrent, "cuCtxSetCurrent", 4000, 0) \
    X(CtxGetDevice, cuCtxGetDevice, "cuCtxGetDevice", 2000, 0) \
    X(CtxSynchronize, cuCtxSynchronize, "cuCtxSynchronize", 2000, 0) \
    X(MemGetInfo, cuMemGetInfo_v2, "cuMemGetInfo", 3020, 0) \
    X(MemAlloc, cuMemAlloc_v2, "cuMemAlloc", 3020, 0) \
    X(MemAllocPitch, cuMemAllocPitch_v2, "cuMemAllocPitch", 3020, 0) \
    X(MemAllocManaged, cuMemAllocManaged, "cuMemAllocManaged", 6000, 0) \
    X(MemAllocAsync, cuMemAllocAsync, "cuMemAllocAsync", 11020, 0) \
    X(MemAllocAsync_ptsz, cuMemAllocAsync, "cuMemAllocAsync", 11020, 2) \
    X(MemAllocFromPoolAsync, cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", 11020, 0) \
    X(MemAllocFromPoolAsync_ptsz, cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", 11020, 2) \
    X(MemFree, cuMemFree_v2, "cuMemFree", 3020, 0) \
    X(MemFreeAsync, cuMemFreeAsync, "cuMemFreeAsync", 11020, 0) \
    X(MemFreeAsync_ptsz, cuMemFreeAsync, "cuMemFreeAsync", 11020, 2) \
    X(MemHostAlloc, cuMemHostAlloc, "cuMemHostAlloc", 2020, 0) \
    X(MemFreeHost, cuMemFreeHost, "cuMemFreeHost", 2000, 0) \
    X(Array3DCreate, cuArray3DCreate_v2, "cuArray3DCreate", 3020, 0) \
    X(ArrayDestroy, cuArrayDestroy, "cuArrayDestroy", 2000, 0) \
    X(MipmappedArrayCreate, cuMipmappedArrayCreate, "cuMipmappedArrayCreate", 5000, 0) \
    X(MipmappedArrayDestroy, cuMipmappedArrayDestroy, "cuMipmappedArrayDestroy", 5000, 0) \
    X(Memcpy, cuMemcpy, "cuMemcpy", 4000, 0) \
    X(MemcpyAsync, cuMemcpyAsync, "cuMemcpyAsync", 4000, 0) \
    X(MemcpyHtoD, cuMemcpyHtoD_v2, "cuMemcpyHtoD", 3020, 0) \
    X(MemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, "cuMemcpyHtoDAsync", 3020, 0) \
    X(MemcpyDtoH, cuMemcpyDtoH_v2, "cuMemcpyDtoH", 3020, 0) \
    X(MemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, "cuMemcpyDtoHAsync", 3020, 0) \
    X(MemcpyDtoD, cuMemcpyDtoD_v2, "cuMemcpyDtoD", 3020, 0) \
    X(MemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, "cuMemcpyDtoDAsync", 3020, 0) \
    X(MemsetD8, cuMemsetD8_v2, "cuMemsetD8", 3020, 0) \
    X(MemsetD8Async, cuMemsetD8Async, "cuMemsetD8Async", 3020, 0) \
    X(StreamCreate, cuStreamCreate, "cuStreamCreate", 2000, 0) \
    X(StreamDestroy, cuStreamDestroy_v2, "cuStreamDestroy", 4000, 0) \
    X(StreamSynchronize, cuStreamSynchronize, "cuStreamSynchronize", 2000, 0) \
    X(StreamQuery, cuStreamQuery, "cuStreamQuery", 2000, 0) \
    X(EventCreate, cuEventCreate, "cuEventCreate", 2000, 0) \
    X(EventRecord, cuEventRecord, "cuEventRecord", 2000, 0) \
    X(EventSynchronize, cuEventSynchronize, "cuEventSynchronize", 2000, 0) \
    X(EventQuery, cuEventQuery, "cuEventQuery", 2000, 0) \
    X(EventElapsedTime, cuEventElapsedTime_v2, "cuEventElapsedTime", 2000, 0) \
    X(EventDestroy, cuEventDestroy_v2, "cuEventDestroy", 4000, 0) \
    X(LibraryLoadData, cuLibraryLoadData, "cuLibraryLoadData", 12000, 0) \
    X(LibraryGetKernel, cuLibraryGetKernel, "cuLibraryGetKernel", 12000, 0) \
    X(LibraryUnload, cuLibraryUnload, "cuLibraryUnload", 12000, 0) \
    X(KernelGetName, cuKernelGetName, "cuKernelGetName", 12030, 0) \
    X(KernelGetAttribute, cuKernelGetAttribute, "cuKernelGetAttribute", 12000, 0) \
    X(KernelSetAttribute, cuKernelSetAttribute, "cuKernelSetAttribute", 12000, 0) \
    X(LaunchKernel, cuLaunchKernel, "cuLaunchKernel", 4000, 0) \
    X(LaunchKernel_ptsz, cuLaunchKernel, "cuLaunchKernel", 7000, 2) \
    X(LaunchKernelEx, cuLaunchKernelEx, "cuLaunchKernelEx", 11060, 0) \
    X(LaunchKernelEx_ptsz, cuLaunchKernelEx, "cuLaunchKernelEx", 11060, 2) \
    X(LaunchCooperativeKernel, cuLaunchCooperativeKernel, "cuLaunchCooperativeKernel", 9000, 0) \
    X(LaunchCooperativeKernel_ptsz, cuLaunchCooperativeKernel, "cuLaunchCooperativeKernel", 9000, 2) \
    X(GraphLaunch, cuGraphLaunch, "cuGraphLaunch", 10000, 0) \
    X(GraphLaunch_ptsz, cuGraphLaunch, "cuGraphLaunch", 10000, 2) \
    X(SimSetHostFunction, cuSimSetHostFunction, "cuSimSetHostFunction", 0, 0) \
    X(SimLaunches, cuSimLaunches, "cuSimLaunches", 0, 0) \
    X(SimLiveAllocations, cuSimLiveAllocations, "cuSimLiveAllocations", 0, 0) \
    X(SimLiveBytes, cuSimLiveBytes, "cuSimLiveBytes", 0, 0)

struct rt_driver {
#define RT_FIELD(field, prototype, name, version, flag) __typeof__(&prototype) field;
    RT_DRIVER_FUNCTIONS(RT_FIELD)
#undef RT_FIELD
};

/* Good to call once one of the next two functions answered with success. */
extern struct rt_driver rt_driver;

/* Finds and initialises the driver, at the first call: 35 without one. */
cudaError_t rt_driver_ready(void);
/* The same, and the thread has a current context: device 0's, unless it or the program chose another. */
cudaError_t rt_context_ready(void);

/* What the launch of a shape that no device can run returns: CUDA_SIM_INVALID_LAUNCH. */
extern cudaError_t rt_invalid_launch;

/* The codes of the two APIs are the same numbers. */
static inline cudaError_t rt_code(CUresult code) { return (cudaError_t)code; }

/* Every API function returns through this. None calls another API function: those can be replaced from outside, and a
 * preloaded library must see the program's calls alone. */
cudaError_t rt_answer(cudaError_t code);

#endif
