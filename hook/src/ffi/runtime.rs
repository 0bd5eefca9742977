//! The exported symbols of the CUDA Runtime API. Each converts, calls [`crate::call`], returns.
//!
//! Contract of all of them: as NVIDIA's function of the same name
//! (<https://docs.nvidia.com/cuda/cuda-runtime-api/>). Pointers are handed on as they came; one is read here only
//! after the real call has succeeded with it.
// `no_mangle` makes these symbols public whatever Rust can reach.
#![allow(unreachable_pub)]

use std::ffi::c_void;

use super::boundary;
use super::guard::{self, Pending};
use super::real::{self, Launch, Symbol};
use super::types::{CDim3, CudaError, Handle, SUCCESS, SYMBOL_NOT_FOUND, address};
use crate::api::Entry;
use crate::call::{self, LaunchShape};

/// `cudaMalloc`.
///
/// # Safety
/// `dev_ptr` is null or valid for writing a pointer
/// (<https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html>).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMalloc(dev_ptr: *mut *mut c_void, size: usize) -> CudaError {
    let Some(real) = real::CUDA_MALLOC.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: the caller's own arguments, to the function that it meant to call.
    let forward = || unsafe { real(dev_ptr, size) };
    if dev_ptr.is_null() {
        return boundary::export(forward, |real| real.call());
    }
    // SAFETY: called after the real call has written a pointer there.
    let written = || address(unsafe { dev_ptr.read() });
    // A real cudaMalloc that fails for want of memory leaves null there (seen with CUDA 13.0 on an H200).
    // SAFETY: the caller gave the place to be written to, and the real call, which would write there, is not made.
    let refused = || unsafe { dev_ptr.write(std::ptr::null_mut()) };
    boundary::export(forward, |real| call::alloc(Entry::CudaMalloc, size as u64, written, refused, real))
}

/// `cudaFree`.
///
/// # Safety
/// `dev_ptr` is null or an allocation of this process
/// (<https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html>).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaFree(dev_ptr: *mut c_void) -> CudaError {
    let Some(real) = real::CUDA_FREE.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: the caller's own argument, to the function that it meant to call.
    let forward = || unsafe { real(dev_ptr) };
    boundary::export(forward, |real| call::free(Entry::CudaFree, address(dev_ptr), real))
}

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

/// # Safety
/// As the exports above.
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
    let forward = || unsafe { real(func, grid, block, args, shmem, stream) };
    let shape = LaunchShape { grid: grid.into(), block: block.into(), shmem: shmem as u64, stream: address(stream) };
    boundary::export(forward, |real| call::launch(entry, shape, real))
}

/// `cudaGetLastError`: a denial that this thread has not heard of yet is its last error, told once.
#[unsafe(no_mangle)]
pub extern "C" fn cudaGetLastError() -> CudaError {
    boundary::query(real_get_last_error, || {
        let real = real_get_last_error();
        let Some(pending) = guard::pending() else { return real };
        guard::set_pending(Pending::default());
        newer(pending, real)
    })
}

/// `cudaPeekAtLastError`: the same without forgetting it.
#[unsafe(no_mangle)]
pub extern "C" fn cudaPeekAtLastError() -> CudaError {
    boundary::query(real_peek_at_last_error, || {
        let real = real_peek_at_last_error();
        guard::pending().map_or(real, |pending| newer(pending, real))
    })
}

/// Notes that this thread's call was refused with `code`, as the runtime notes its own errors: the error before it is
/// forgotten, unless it is one that the runtime tells for ever.
pub(crate) fn note_denial(code: CudaError) {
    real_get_last_error();
    guard::set_pending(Pending { code, real: real_peek_at_last_error() });
}

/// The device that the calling thread uses, as the runtime numbers it; `None` when it can't tell.
pub(crate) fn current_device() -> Option<i32> {
    let real = real::CUDA_GET_DEVICE.get()?;
    let mut device = -1;
    // SAFETY: `device` is a valid place to write to.
    let answer = unsafe { real(&mut device) };
    (answer == SUCCESS && device >= 0).then_some(device)
}

/// One slot holds the last error: the denial, unless the runtime has met another error since.
const fn newer(denial: Pending, real: CudaError) -> CudaError {
    if real != SUCCESS && real != denial.real { real } else { denial.code }
}

fn real_get_last_error() -> CudaError {
    match real::CUDA_GET_LAST_ERROR.get() {
        // SAFETY: takes nothing.
        Some(real) => unsafe { real() },
        None => SUCCESS,
    }
}

fn real_peek_at_last_error() -> CudaError {
    match real::CUDA_PEEK_AT_LAST_ERROR.get() {
        // SAFETY: takes nothing.
        Some(real) => unsafe { real() },
        None => SUCCESS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_error_is_told() {
        let denial = Pending { code: 4, real: 0 };
        assert_eq!(newer(denial, 0), 4);
        assert_eq!(newer(denial, 1), 1);
        // The old error was there before the denial, which took its place.
        assert_eq!(newer(Pending { code: 4, real: 1 }, 1), 4);
    }
}
