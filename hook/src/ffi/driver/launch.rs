//! Launches.

use std::ffi::c_void;

use super::real;
use super::{export, learn_name};
use crate::api::Entry;
use crate::call::{self, Shape, Work};
use crate::ffi::jump::jump_if_nested;
use crate::ffi::types::{CDim3, CudaError, DriverLaunchConfig, Handle, SYMBOL_NOT_FOUND, address};

fn kernel(function: Handle, grid: CDim3, block: CDim3, shmem: u32) -> Work {
    Work::Kernel { shape: Shape::new(grid.into(), block.into()), shmem: shmem.into(), func: address(function) }
}

// The shared runtime's launches come here too, and go on at once.

jump_if_nested! {
    /// `cuLaunchKernel`.
    cuLaunchKernel(
        function: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shmem: u32,
        stream: Handle, args: *mut *mut c_void, extra: *mut *mut c_void,
    ) to real::LAUNCH_KERNEL: real::Launch, else launch::<false>
}

jump_if_nested! {
    /// `cuLaunchKernel_ptsz`: the same in code compiled for per-thread default streams.
    cuLaunchKernel_ptsz(
        function: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shmem: u32,
        stream: Handle, args: *mut *mut c_void, extra: *mut *mut c_void,
    ) to real::LAUNCH_KERNEL_PTSZ: real::Launch, else launch::<true>
}

/// # Safety
/// The arguments are a launch's: a live kernel, as many arguments as it takes, a live stream
/// (<https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__EXEC.html>).
#[rustfmt::skip]
#[allow(clippy::too_many_arguments)] // a launch has as many
unsafe extern "C" fn launch<const PER_THREAD: bool>(
    function: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shmem: u32,
    stream: Handle, args: *mut *mut c_void, extra: *mut *mut c_void,
) -> CudaError {
    let (entry, symbol) = match PER_THREAD {
        false => (Entry::CuLaunchKernel, &real::LAUNCH_KERNEL),
        true => (Entry::CuLaunchKernelPtsz, &real::LAUNCH_KERNEL_PTSZ),
    };
    let Some(real) = symbol.required() else { return SYMBOL_NOT_FOUND };
    let forward = || {
        // SAFETY: the caller's own arguments, to the function that it meant to call.
        unsafe { real(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shmem, stream, args, extra) }
    };
    let grid = CDim3 { x: grid_x, y: grid_y, z: grid_z };
    let work = kernel(function, grid, CDim3 { x: block_x, y: block_y, z: block_z }, shmem);
    export(forward, |real| {
        learn_name(function);
        call::launch(entry, work, address(stream), real)
    })
}

jump_if_nested! {
    /// `cuLaunchCooperativeKernel`: a grid whose blocks may wait for each other.
    cuLaunchCooperativeKernel(
        function: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shmem: u32,
        stream: Handle, args: *mut *mut c_void,
    ) to real::LAUNCH_COOPERATIVE_KERNEL: real::LaunchCooperative, else cooperative::<false>
}

jump_if_nested! {
    /// `cuLaunchCooperativeKernel_ptsz`: the same in code compiled for per-thread default streams.
    cuLaunchCooperativeKernel_ptsz(
        function: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shmem: u32,
        stream: Handle, args: *mut *mut c_void,
    ) to real::LAUNCH_COOPERATIVE_KERNEL_PTSZ: real::LaunchCooperative, else cooperative::<true>
}

/// # Safety
/// As [`launch`].
#[rustfmt::skip]
#[allow(clippy::too_many_arguments)] // a launch has as many
unsafe extern "C" fn cooperative<const PER_THREAD: bool>(
    function: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shmem: u32,
    stream: Handle, args: *mut *mut c_void,
) -> CudaError {
    let (entry, symbol) = match PER_THREAD {
        false => (Entry::CuLaunchCooperativeKernel, &real::LAUNCH_COOPERATIVE_KERNEL),
        true => (Entry::CuLaunchCooperativeKernelPtsz, &real::LAUNCH_COOPERATIVE_KERNEL_PTSZ),
    };
    let Some(real) = symbol.required() else { return SYMBOL_NOT_FOUND };
    let forward = || {
        // SAFETY: the caller's own arguments, to the function that it meant to call.
        unsafe { real(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shmem, stream, args) }
    };
    let grid = CDim3 { x: grid_x, y: grid_y, z: grid_z };
    let work = kernel(function, grid, CDim3 { x: block_x, y: block_y, z: block_z }, shmem);
    export(forward, |real| {
        learn_name(function);
        call::launch(entry, work, address(stream), real)
    })
}

jump_if_nested! {
    /// `cuLaunchKernelEx`.
    cuLaunchKernelEx(
        config: *const DriverLaunchConfig, function: Handle, args: *mut *mut c_void, extra: *mut *mut c_void,
    ) to real::LAUNCH_KERNEL_EX: real::LaunchEx, else launch_ex::<false>
}

jump_if_nested! {
    /// `cuLaunchKernelEx_ptsz`: the same in code compiled for per-thread default streams.
    cuLaunchKernelEx_ptsz(
        config: *const DriverLaunchConfig, function: Handle, args: *mut *mut c_void, extra: *mut *mut c_void,
    ) to real::LAUNCH_KERNEL_EX_PTSZ: real::LaunchEx, else launch_ex::<true>
}

/// # Safety
/// `config` is null or points to a launch configuration; the rest is a launch's.
unsafe extern "C" fn launch_ex<const PER_THREAD: bool>(
    config: *const DriverLaunchConfig,
    function: Handle,
    args: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> CudaError {
    let (entry, symbol) = match PER_THREAD {
        false => (Entry::CuLaunchKernelEx, &real::LAUNCH_KERNEL_EX),
        true => (Entry::CuLaunchKernelExPtsz, &real::LAUNCH_KERNEL_EX_PTSZ),
    };
    let Some(real) = symbol.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: the caller's own arguments, to the function that it meant to call.
    let forward = || unsafe { real(config, function, args, extra) };
    // SAFETY: by contract null or a configuration; a denied launch is recorded with its shape.
    let Some(config) = (unsafe { config.as_ref() }) else { return export(forward, |real| real.call()) };
    let work = kernel(function, config.grid, config.block, config.shmem);
    let stream = address(config.stream);
    export(forward, |real| {
        learn_name(function);
        call::launch(entry, work, stream, real)
    })
}

jump_if_nested! {
    /// `cuGraphLaunch`: one token, whatever is in the graph.
    cuGraphLaunch(graph: Handle, stream: Handle) to real::GRAPH_LAUNCH: real::GraphLaunch, else launch_graph::<false>
}

jump_if_nested! {
    /// `cuGraphLaunch_ptsz`: the same in code compiled for per-thread default streams.
    cuGraphLaunch_ptsz(graph: Handle, stream: Handle)
    to real::GRAPH_LAUNCH_PTSZ: real::GraphLaunch, else launch_graph::<true>
}

/// # Safety
/// `graph` is an executable graph, `stream` a live stream
/// (<https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__GRAPH.html>).
unsafe extern "C" fn launch_graph<const PER_THREAD: bool>(graph: Handle, stream: Handle) -> CudaError {
    let (entry, symbol) = match PER_THREAD {
        false => (Entry::CuGraphLaunch, &real::GRAPH_LAUNCH),
        true => (Entry::CuGraphLaunchPtsz, &real::GRAPH_LAUNCH_PTSZ),
    };
    let Some(real) = symbol.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: the caller's own arguments, to the function that it meant to call.
    let forward = || unsafe { real(graph, stream) };
    let work = Work::Graph(address(graph));
    export(forward, |real| call::launch(entry, work, address(stream), real))
}
