//! The real functions of the runtime.

use std::ffi::{c_char, c_int, c_void};

use crate::ffi::symbol::{RUNTIME, Symbol, symbols};
use crate::ffi::types::{CDim3, ChannelDesc, CudaError, Extent, Handle, LaunchConfig, PitchedPtr};

/// The launch symbols share one signature: a function (host stub or kernel handle), grid, block, arguments, dynamic
/// shared memory, stream.
pub(crate) type Launch =
    unsafe extern "C" fn(*const c_void, CDim3, CDim3, *mut *mut c_void, usize, Handle) -> CudaError;
/// `cudaLaunchKernelExC`: configuration, function, arguments.
pub(crate) type LaunchEx = unsafe extern "C" fn(*const LaunchConfig, *const c_void, *mut *mut c_void) -> CudaError;
/// `cudaMallocAsync`.
pub(crate) type MallocAsync = unsafe extern "C" fn(*mut *mut c_void, usize, Handle) -> CudaError;
/// `cudaMallocFromPoolAsync`.
pub(crate) type MallocFromPool = unsafe extern "C" fn(*mut *mut c_void, usize, Handle, Handle) -> CudaError;
/// `cudaFreeAsync`.
pub(crate) type FreeAsync = unsafe extern "C" fn(*mut c_void, Handle) -> CudaError;

/// `cudaGraphLaunch`.
pub(crate) type GraphLaunch = unsafe extern "C" fn(Handle, Handle) -> CudaError;
/// `__cudaRegisterFunction` of `crt/host_runtime.h`.
pub(crate) type RegisterFunction = unsafe extern "C" fn(
    *mut *mut c_void,
    *const c_char,
    *mut c_char,
    *const c_char,
    c_int,
    *mut c_void,
    *mut c_void,
    *mut c_void,
    *mut c_void,
    *mut c_int,
);

symbols! { RUNTIME;
    REGISTER_FUNCTION "__cudaRegisterFunction": RegisterFunction;
    GET_KERNEL "__cudaGetKernel": unsafe extern "C" fn(*mut Handle, *const c_void) -> CudaError;
    UNREGISTER_FAT_BINARY "__cudaUnregisterFatBinary": unsafe extern "C" fn(*mut *mut c_void);
    CUDA_MALLOC "cudaMalloc": unsafe extern "C" fn(*mut *mut c_void, usize) -> CudaError;
    CUDA_MALLOC_MANAGED "cudaMallocManaged": unsafe extern "C" fn(*mut *mut c_void, usize, u32) -> CudaError;
    CUDA_MALLOC_PITCH "cudaMallocPitch":
        unsafe extern "C" fn(*mut *mut c_void, *mut usize, usize, usize) -> CudaError;
    CUDA_MALLOC_3D "cudaMalloc3D": unsafe extern "C" fn(*mut PitchedPtr, Extent) -> CudaError;
    CUDA_MALLOC_ASYNC "cudaMallocAsync": MallocAsync;
    CUDA_MALLOC_ASYNC_PTSZ "cudaMallocAsync_ptsz": MallocAsync;
    CUDA_MALLOC_FROM_POOL_ASYNC "cudaMallocFromPoolAsync": MallocFromPool;
    CUDA_MALLOC_FROM_POOL_ASYNC_PTSZ "cudaMallocFromPoolAsync_ptsz": MallocFromPool;
    CUDA_MALLOC_ARRAY "cudaMallocArray":
        unsafe extern "C" fn(*mut *mut c_void, *const ChannelDesc, usize, usize, u32) -> CudaError;
    CUDA_MALLOC_3D_ARRAY "cudaMalloc3DArray":
        unsafe extern "C" fn(*mut *mut c_void, *const ChannelDesc, Extent, u32) -> CudaError;
    CUDA_MALLOC_MIPMAPPED_ARRAY "cudaMallocMipmappedArray":
        unsafe extern "C" fn(*mut *mut c_void, *const ChannelDesc, Extent, u32, u32) -> CudaError;
    CUDA_FREE_ARRAY "cudaFreeArray": unsafe extern "C" fn(*mut c_void) -> CudaError;
    CUDA_FREE_MIPMAPPED_ARRAY "cudaFreeMipmappedArray": unsafe extern "C" fn(*mut c_void) -> CudaError;
    CUDA_HOST_ALLOC "cudaHostAlloc": unsafe extern "C" fn(*mut *mut c_void, usize, u32) -> CudaError;
    CUDA_MALLOC_HOST "cudaMallocHost": unsafe extern "C" fn(*mut *mut c_void, usize) -> CudaError;
    CUDA_FREE_HOST "cudaFreeHost": unsafe extern "C" fn(*mut c_void) -> CudaError;
    CUDA_FREE "cudaFree": unsafe extern "C" fn(*mut c_void) -> CudaError;
    CUDA_FREE_ASYNC "cudaFreeAsync": FreeAsync;
    CUDA_FREE_ASYNC_PTSZ "cudaFreeAsync_ptsz": FreeAsync;
    CUDA_DEVICE_RESET "cudaDeviceReset": unsafe extern "C" fn() -> CudaError;
    CUDA_MEM_GET_INFO "cudaMemGetInfo": unsafe extern "C" fn(*mut usize, *mut usize) -> CudaError;
    CUDA_GET_DEVICE "cudaGetDevice": unsafe extern "C" fn(*mut i32) -> CudaError;
    CUDA_GET_LAST_ERROR "cudaGetLastError": unsafe extern "C" fn() -> CudaError;
    CUDA_PEEK_AT_LAST_ERROR "cudaPeekAtLastError": unsafe extern "C" fn() -> CudaError;
    CUDA_LAUNCH_KERNEL "cudaLaunchKernel": Launch;
    CUDA_LAUNCH_KERNEL_PTSZ "cudaLaunchKernel_ptsz": Launch;
    UNDERSCORE_LAUNCH_KERNEL "__cudaLaunchKernel": Launch;
    UNDERSCORE_LAUNCH_KERNEL_PTSZ "__cudaLaunchKernel_ptsz": Launch;
    CUDA_LAUNCH_COOPERATIVE_KERNEL "cudaLaunchCooperativeKernel": Launch;
    CUDA_LAUNCH_COOPERATIVE_KERNEL_PTSZ "cudaLaunchCooperativeKernel_ptsz": Launch;
    CUDA_GRAPH_LAUNCH "cudaGraphLaunch": GraphLaunch;
    CUDA_GRAPH_LAUNCH_PTSZ "cudaGraphLaunch_ptsz": GraphLaunch;
    CUDA_LAUNCH_KERNEL_EX_C "cudaLaunchKernelExC": LaunchEx;
    CUDA_LAUNCH_KERNEL_EX_C_PTSZ "cudaLaunchKernelExC_ptsz": LaunchEx;
}
