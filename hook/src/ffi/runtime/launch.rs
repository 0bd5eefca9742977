//! Launches.

use std::ffi::c_void;

use super::real::{self, GraphLaunch, Launch, LaunchEx};
use crate::api::Entry;
use crate::call::{self, Shape, Work};
use crate::ffi::boundary;
use crate::ffi::symbol::Symbol;
use crate::ffi::types::{CDim3, CudaError, Handle, LaunchConfig, SYMBOL_NOT_FOUND, address};

macro_rules! launch {
    ($(#[$doc:meta])* $name:ident, $entry:ident, $real:ident) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// The arguments are a launch's: a kernel of this program, as many arguments as it takes, a live stream
        /// (<https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__EXECUTION.html>).
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            func: *const c_void, grid: CDim3, block: CDim3, args: *mut *mut c_void, shmem: usize, stream: Handle,
        ) -> CudaError {
            // SAFETY: the caller's contract is the one asked for here.
            unsafe { launch(Entry::$entry, &real::$real, func, grid, block, args, shmem, stream) }
        }
    };
}

launch!(
    /// `cudaLaunchKernel`: launches written by hand, and `<<<…>>>` of nvcc 12 and older.
    cudaLaunchKernel, CudaLaunchKernel, CUDA_LAUNCH_KERNEL
);
launch!(
    /// `cudaLaunchKernel_ptsz`: the same in code compiled for per-thread default streams.
    cudaLaunchKernel_ptsz, CudaLaunchKernelPtsz, CUDA_LAUNCH_KERNEL_PTSZ
);
launch!(
    /// `__cudaLaunchKernel`: what nvcc 13 emits for `<<<…>>>`.
    __cudaLaunchKernel, UnderscoreLaunchKernel, UNDERSCORE_LAUNCH_KERNEL
);
launch!(
    /// `__cudaLaunchKernel_ptsz`: the same in code compiled for per-thread default streams.
    __cudaLaunchKernel_ptsz, UnderscoreLaunchKernelPtsz, UNDERSCORE_LAUNCH_KERNEL_PTSZ
);
launch!(
    /// `cudaLaunchCooperativeKernel`: a grid whose blocks may wait for each other.
    cudaLaunchCooperativeKernel, CudaLaunchCooperativeKernel, CUDA_LAUNCH_COOPERATIVE_KERNEL
);
launch!(
    /// `cudaLaunchCooperativeKernel_ptsz`: the same in code compiled for per-thread default streams.
    cudaLaunchCooperativeKernel_ptsz, CudaLaunchCooperativeKernelPtsz, CUDA_LAUNCH_COOPERATIVE_KERNEL_PTSZ
);

// Inline, here and in what it calls: arguments that stay in registers are not written to the stack in one size and read
// back in another, which takes a processor longer than all else here.
/// # Safety
/// As the exports above.
#[inline(always)]
#[allow(clippy::too_many_arguments)] // a launch has as many
unsafe fn launch(
    entry: Entry,
    symbol: &'static Symbol<Launch>,
    func: *const c_void,
    grid: CDim3,
    block: CDim3,
    args: *mut *mut c_void,
    shmem: usize,
    stream: Handle,
) -> CudaError {
    let Some(real) = symbol.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: the caller's own arguments, to the function that it meant to call.
    let forward = move || unsafe { real(func, grid, block, args, shmem, stream) };
    let stream = address(stream);
    let shape = Shape::new(grid.into(), block.into());
    let work = Work::Kernel { shape, shmem: shmem as u64, func: address(func) };
    boundary::export(forward, |real| call::launch(entry, work, stream, real))
}

/// `cudaLaunchKernelExC`: what `cudaLaunchKernelEx` calls, and most launches of PyTorch's libraries.
///
/// # Safety
/// `config` is null or points to a launch configuration; the rest is a launch's
/// (<https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__EXECUTION.html>).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaLaunchKernelExC(
    config: *const LaunchConfig,
    func: *const c_void,
    args: *mut *mut c_void,
) -> CudaError {
    // SAFETY: the caller's contract is the one asked for here.
    unsafe { launch_ex(Entry::CudaLaunchKernelExC, &real::CUDA_LAUNCH_KERNEL_EX_C, config, func, args) }
}

/// `cudaLaunchKernelExC_ptsz`: the same in code compiled for per-thread default streams.
///
/// # Safety
/// As `cudaLaunchKernelExC`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaLaunchKernelExC_ptsz(
    config: *const LaunchConfig,
    func: *const c_void,
    args: *mut *mut c_void,
) -> CudaError {
    // SAFETY: the caller's contract is the one asked for here.
    unsafe { launch_ex(Entry::CudaLaunchKernelExCPtsz, &real::CUDA_LAUNCH_KERNEL_EX_C_PTSZ, config, func, args) }
}

/// # Safety
/// As the exports above.
unsafe fn launch_ex(
    entry: Entry,
    symbol: &'static Symbol<LaunchEx>,
    config: *const LaunchConfig,
    func: *const c_void,
    args: *mut *mut c_void,
) -> CudaError {
    let Some(real) = symbol.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: the caller's own arguments, to the function that it meant to call.
    let forward = move || unsafe { real(config, func, args) };
    // SAFETY: by contract null or a configuration; the real function reads it too. It is needed before the real call,
    // for a launch that is denied is recorded with its shape.
    let Some(config) = (unsafe { config.as_ref() }) else { return boundary::export(forward, |real| real.call()) };
    let shape = Shape::new(config.grid.into(), config.block.into());
    let work = Work::Kernel { shape, shmem: config.shmem as u64, func: address(func) };
    let stream = address(config.stream);
    boundary::export(forward, |real| call::launch(entry, work, stream, real))
}

/// `cudaGraphLaunch`: one token, whatever is in the graph.
///
/// # Safety
/// `graph` is an executable graph, `stream` a live stream
/// (<https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__GRAPH.html>).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGraphLaunch(graph: Handle, stream: Handle) -> CudaError {
    // SAFETY: the caller's contract is the one asked for here.
    unsafe { launch_graph(Entry::CudaGraphLaunch, &real::CUDA_GRAPH_LAUNCH, graph, stream) }
}

/// `cudaGraphLaunch_ptsz`: the same in code compiled for per-thread default streams.
///
/// # Safety
/// As `cudaGraphLaunch`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGraphLaunch_ptsz(graph: Handle, stream: Handle) -> CudaError {
    // SAFETY: the caller's contract is the one asked for here.
    unsafe { launch_graph(Entry::CudaGraphLaunchPtsz, &real::CUDA_GRAPH_LAUNCH_PTSZ, graph, stream) }
}

/// # Safety
/// As the exports above.
unsafe fn launch_graph(entry: Entry, symbol: &'static Symbol<GraphLaunch>, graph: Handle, stream: Handle) -> CudaError {
    let Some(real) = symbol.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: the caller's own arguments, to the function that it meant to call.
    let forward = || unsafe { real(graph, stream) };
    let work = Work::Graph(address(graph));
    boundary::export(forward, |real| call::launch(entry, work, address(stream), real))
}
