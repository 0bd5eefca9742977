//! Launches.

use std::ffi::c_void;

use super::real::{self, GraphLaunch, Launch, LaunchCooperative, LaunchEx};
use super::{export, learn_name};
use crate::api::Entry;
use crate::call::{self, Shape, Work};
use crate::ffi::boundary::is_nested;
use crate::ffi::symbol::Symbol;
use crate::ffi::types::{CDim3, CudaError, DriverLaunchConfig, Handle, SYMBOL_NOT_FOUND, address};

fn kernel(function: Handle, grid: CDim3, block: CDim3, shmem: u32) -> Work {
    Work::Kernel { shape: Shape::new(grid.into(), block.into()), shmem: shmem.into(), func: address(function) }
}

macro_rules! launch {
    ($($name:ident $cooperative:ident $ex:ident $graph:ident: $entries:tt $symbols:tt;)+) => {
        $(launch!(one $name $cooperative $ex $graph $entries $symbols);)+
    };
    (one $name:ident $cooperative:ident $ex:ident $graph:ident
     ($entry:ident $cooperative_entry:ident $ex_entry:ident $graph_entry:ident)
     ($real:ident $cooperative_real:ident $ex_real:ident $graph_real:ident)) => {
        /// `cuLaunchKernel`.
        ///
        /// # Safety
        /// The arguments are a launch's: a live kernel, as many arguments as it takes, a live stream
        /// (<https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__EXEC.html>).
        #[unsafe(no_mangle)]
        #[rustfmt::skip]
        #[allow(clippy::too_many_arguments)] // a launch has as many
        pub unsafe extern "C" fn $name(
            function: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32,
            shmem: u32, stream: Handle, args: *mut *mut c_void, extra: *mut *mut c_void,
        ) -> CudaError {
            let symbol: &Symbol<Launch> = &real::$real;
            // Every launch of the shared runtime comes here, too.
            if is_nested()
                && let Some(real) = symbol.own()
            {
                // SAFETY: the caller's own arguments, to the function that it meant to call.
                return unsafe {
                    real(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shmem, stream, args, extra)
                };
            }
            let Some(real) = symbol.required() else { return SYMBOL_NOT_FOUND };
            let forward = || {
                // SAFETY: the caller's own arguments, to the function that it meant to call.
                unsafe {
                    real(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shmem, stream, args, extra)
                }
            };
            let grid = CDim3 { x: grid_x, y: grid_y, z: grid_z };
            let work = kernel(function, grid, CDim3 { x: block_x, y: block_y, z: block_z }, shmem);
            export(forward, |real| {
                learn_name(function);
                call::launch(Entry::$entry, work, address(stream), real)
            })
        }

        /// `cuLaunchCooperativeKernel`: a grid whose blocks may wait for each other.
        ///
        /// # Safety
        /// As `cuLaunchKernel`.
        #[unsafe(no_mangle)]
        #[rustfmt::skip]
        #[allow(clippy::too_many_arguments)] // a launch has as many
        pub unsafe extern "C" fn $cooperative(
            function: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32,
            shmem: u32, stream: Handle, args: *mut *mut c_void,
        ) -> CudaError {
            let symbol: &Symbol<LaunchCooperative> = &real::$cooperative_real;
            let Some(real) = symbol.required() else { return SYMBOL_NOT_FOUND };
            let forward = || {
                // SAFETY: the caller's own arguments, to the function that it meant to call.
                unsafe { real(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shmem, stream, args) }
            };
            let grid = CDim3 { x: grid_x, y: grid_y, z: grid_z };
            let work = kernel(function, grid, CDim3 { x: block_x, y: block_y, z: block_z }, shmem);
            export(forward, |real| {
                learn_name(function);
                call::launch(Entry::$cooperative_entry, work, address(stream), real)
            })
        }

        /// `cuLaunchKernelEx`.
        ///
        /// # Safety
        /// `config` is null or points to a launch configuration; the rest is a launch's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $ex(
            config: *const DriverLaunchConfig,
            function: Handle,
            args: *mut *mut c_void,
            extra: *mut *mut c_void,
        ) -> CudaError {
            let symbol: &Symbol<LaunchEx> = &real::$ex_real;
            let Some(real) = symbol.required() else { return SYMBOL_NOT_FOUND };
            // SAFETY: the caller's own arguments, to the function that it meant to call.
            let forward = || unsafe { real(config, function, args, extra) };
            // SAFETY: by contract null or a configuration; a denied launch is recorded with its shape.
            let Some(config) = (unsafe { config.as_ref() }) else { return export(forward, |real| real.call()) };
            let work = kernel(function, config.grid, config.block, config.shmem);
            let stream = address(config.stream);
            export(forward, |real| {
                learn_name(function);
                call::launch(Entry::$ex_entry, work, stream, real)
            })
        }

        /// `cuGraphLaunch`: one token, whatever is in the graph.
        ///
        /// # Safety
        /// `graph` is an executable graph, `stream` a live stream
        /// (<https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__GRAPH.html>).
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $graph(graph: Handle, stream: Handle) -> CudaError {
            let symbol: &Symbol<GraphLaunch> = &real::$graph_real;
            let Some(real) = symbol.required() else { return SYMBOL_NOT_FOUND };
            // SAFETY: the caller's own arguments, to the function that it meant to call.
            let forward = || unsafe { real(graph, stream) };
            let work = Work::Graph(address(graph));
            export(forward, |real| call::launch(Entry::$graph_entry, work, address(stream), real))
        }
    };
}

// The second four are what code compiled for per-thread default streams calls.
launch! {
    cuLaunchKernel cuLaunchCooperativeKernel cuLaunchKernelEx cuGraphLaunch:
        (CuLaunchKernel CuLaunchCooperativeKernel CuLaunchKernelEx CuGraphLaunch)
        (LAUNCH_KERNEL LAUNCH_COOPERATIVE_KERNEL LAUNCH_KERNEL_EX GRAPH_LAUNCH);
    cuLaunchKernel_ptsz cuLaunchCooperativeKernel_ptsz cuLaunchKernelEx_ptsz cuGraphLaunch_ptsz:
        (CuLaunchKernelPtsz CuLaunchCooperativeKernelPtsz CuLaunchKernelExPtsz CuGraphLaunchPtsz)
        (LAUNCH_KERNEL_PTSZ LAUNCH_COOPERATIVE_KERNEL_PTSZ LAUNCH_KERNEL_EX_PTSZ GRAPH_LAUNCH_PTSZ);
}
