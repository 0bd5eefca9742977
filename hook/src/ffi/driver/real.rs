//! The real functions of the driver.

use std::ffi::{c_char, c_int, c_void};

use crate::ffi::symbol::{DRIVER, Symbol, symbols};
use crate::ffi::types::{AllocationProp, Array3DDescriptor, ArrayDescriptor, CudaError, DriverLaunchConfig, Handle};

/// `CUdeviceptr`.
pub(crate) type DevicePtr = u64;
/// `cuMemAllocAsync`.
pub(crate) type AllocAsync = unsafe extern "C" fn(*mut DevicePtr, usize, Handle) -> CudaError;
/// `cuMemAllocFromPoolAsync`.
pub(crate) type AllocFromPool = unsafe extern "C" fn(*mut DevicePtr, usize, Handle, Handle) -> CudaError;
/// `cuMemFreeAsync`.
pub(crate) type FreeAsync = unsafe extern "C" fn(DevicePtr, Handle) -> CudaError;
/// `cuLaunchKernel`: function, grid, block, dynamic shared memory, stream, arguments, more arguments.
#[rustfmt::skip]
pub(crate) type Launch = unsafe extern "C" fn(
    Handle, u32, u32, u32, u32, u32, u32, u32, Handle, *mut *mut c_void, *mut *mut c_void,
) -> CudaError;
/// `cuLaunchCooperativeKernel`: the same with no more arguments.
#[rustfmt::skip]
pub(crate) type LaunchCooperative = unsafe extern "C" fn(
    Handle, u32, u32, u32, u32, u32, u32, u32, Handle, *mut *mut c_void,
) -> CudaError;
/// `cuLaunchKernelEx`: configuration, function, arguments, more arguments.
pub(crate) type LaunchEx =
    unsafe extern "C" fn(*const DriverLaunchConfig, Handle, *mut *mut c_void, *mut *mut c_void) -> CudaError;
/// `cuGraphLaunch`.
pub(crate) type GraphLaunch = unsafe extern "C" fn(Handle, Handle) -> CudaError;
/// Takes one handle, or one device number.
pub(crate) type OnHandle = unsafe extern "C" fn(Handle) -> CudaError;
/// Asks for the name of a kernel.
pub(crate) type GetName = unsafe extern "C" fn(*mut *const c_char, Handle) -> CudaError;

symbols! { DRIVER;
    GET_PROC_ADDRESS "cuGetProcAddress":
        unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64) -> CudaError;
    GET_PROC_ADDRESS_V2 "cuGetProcAddress_v2":
        unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64, *mut c_int) -> CudaError;
    MEM_ALLOC "cuMemAlloc_v2": unsafe extern "C" fn(*mut DevicePtr, usize) -> CudaError;
    MEM_ALLOC_MANAGED "cuMemAllocManaged": unsafe extern "C" fn(*mut DevicePtr, usize, u32) -> CudaError;
    MEM_ALLOC_PITCH "cuMemAllocPitch_v2":
        unsafe extern "C" fn(*mut DevicePtr, *mut usize, usize, usize, u32) -> CudaError;
    MEM_ALLOC_ASYNC "cuMemAllocAsync": AllocAsync;
    MEM_ALLOC_ASYNC_PTSZ "cuMemAllocAsync_ptsz": AllocAsync;
    MEM_ALLOC_FROM_POOL_ASYNC "cuMemAllocFromPoolAsync": AllocFromPool;
    MEM_ALLOC_FROM_POOL_ASYNC_PTSZ "cuMemAllocFromPoolAsync_ptsz": AllocFromPool;
    MEM_CREATE "cuMemCreate": unsafe extern "C" fn(*mut u64, usize, *const AllocationProp, u64) -> CudaError;
    MEM_RELEASE "cuMemRelease": unsafe extern "C" fn(u64) -> CudaError;
    MEM_MAP "cuMemMap": unsafe extern "C" fn(DevicePtr, usize, usize, u64, u64) -> CudaError;
    MEM_UNMAP "cuMemUnmap": unsafe extern "C" fn(DevicePtr, usize) -> CudaError;
    MEM_RETAIN_ALLOCATION_HANDLE "cuMemRetainAllocationHandle":
        unsafe extern "C" fn(*mut u64, *mut c_void) -> CudaError;
    ARRAY_CREATE "cuArrayCreate_v2": unsafe extern "C" fn(*mut Handle, *const ArrayDescriptor) -> CudaError;
    ARRAY_3D_CREATE "cuArray3DCreate_v2": unsafe extern "C" fn(*mut Handle, *const Array3DDescriptor) -> CudaError;
    MIPMAPPED_ARRAY_CREATE "cuMipmappedArrayCreate":
        unsafe extern "C" fn(*mut Handle, *const Array3DDescriptor, u32) -> CudaError;
    MEM_FREE "cuMemFree_v2": unsafe extern "C" fn(DevicePtr) -> CudaError;
    MEM_FREE_ASYNC "cuMemFreeAsync": FreeAsync;
    MEM_FREE_ASYNC_PTSZ "cuMemFreeAsync_ptsz": FreeAsync;
    ARRAY_DESTROY "cuArrayDestroy": OnHandle;
    MIPMAPPED_ARRAY_DESTROY "cuMipmappedArrayDestroy": OnHandle;
    MEM_HOST_ALLOC "cuMemHostAlloc": unsafe extern "C" fn(*mut *mut c_void, usize, u32) -> CudaError;
    MEM_ALLOC_HOST "cuMemAllocHost_v2": unsafe extern "C" fn(*mut *mut c_void, usize) -> CudaError;
    MEM_FREE_HOST "cuMemFreeHost": unsafe extern "C" fn(*mut c_void) -> CudaError;
    MEM_GET_INFO "cuMemGetInfo_v2": unsafe extern "C" fn(*mut usize, *mut usize) -> CudaError;
    DEVICE_TOTAL_MEM "cuDeviceTotalMem_v2": unsafe extern "C" fn(*mut usize, c_int) -> CudaError;
    DEVICE_PRIMARY_CTX_RESET "cuDevicePrimaryCtxReset_v2": unsafe extern "C" fn(c_int) -> CudaError;
    DEVICE_PRIMARY_CTX_RESET_V1 "cuDevicePrimaryCtxReset": unsafe extern "C" fn(c_int) -> CudaError;
    DEVICE_PRIMARY_CTX_RELEASE "cuDevicePrimaryCtxRelease_v2": unsafe extern "C" fn(c_int) -> CudaError;
    DEVICE_PRIMARY_CTX_RELEASE_V1 "cuDevicePrimaryCtxRelease": unsafe extern "C" fn(c_int) -> CudaError;
    DEVICE_PRIMARY_CTX_GET_STATE "cuDevicePrimaryCtxGetState":
        unsafe extern "C" fn(c_int, *mut u32, *mut c_int) -> CudaError;
    CTX_DESTROY "cuCtxDestroy_v2": OnHandle;
    DEVICE_GET_COUNT "cuDeviceGetCount": unsafe extern "C" fn(*mut c_int) -> CudaError;
    CTX_GET_DEVICE "cuCtxGetDevice": unsafe extern "C" fn(*mut c_int) -> CudaError;
    POINTER_GET_ATTRIBUTE "cuPointerGetAttribute": unsafe extern "C" fn(*mut c_void, c_int, DevicePtr) -> CudaError;
    LAUNCH_KERNEL "cuLaunchKernel": Launch;
    LAUNCH_KERNEL_PTSZ "cuLaunchKernel_ptsz": Launch;
    LAUNCH_KERNEL_EX "cuLaunchKernelEx": LaunchEx;
    LAUNCH_KERNEL_EX_PTSZ "cuLaunchKernelEx_ptsz": LaunchEx;
    LAUNCH_COOPERATIVE_KERNEL "cuLaunchCooperativeKernel": LaunchCooperative;
    LAUNCH_COOPERATIVE_KERNEL_PTSZ "cuLaunchCooperativeKernel_ptsz": LaunchCooperative;
    GRAPH_LAUNCH "cuGraphLaunch": GraphLaunch;
    GRAPH_LAUNCH_PTSZ "cuGraphLaunch_ptsz": GraphLaunch;
    FUNC_GET_NAME "cuFuncGetName": GetName;
    KERNEL_GET_NAME "cuKernelGetName": GetName;
    MODULE_UNLOAD "cuModuleUnload": OnHandle;
    LIBRARY_UNLOAD "cuLibraryUnload": OnHandle;
}
