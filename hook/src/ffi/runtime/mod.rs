//! The exported symbols of the CUDA Runtime API: memory in [`memory`] and [`mod@array`], launches in [`launch`], kernels
//! in [`register`], the last error here. Each converts, calls [`crate::call`], returns.
//!
//! Contract of all of them: as NVIDIA's function of the same name
//! (<https://docs.nvidia.com/cuda/cuda-runtime-api/>). Pointers are handed on as they came; one is read here only
//! after the real call has succeeded with it, and null is the runtime's to judge.
// `no_mangle` makes these symbols public whatever Rust can reach.
#![allow(unreachable_pub)]

mod array;
mod launch;
mod memory;
mod real;
mod register;

pub(super) use array::bytes as array_bytes;

use super::boundary;
use super::driver;
use super::guard::{self, Pending};
use super::thread::Thread;
use super::types::{CudaError, SUCCESS};

/// `cudaGetLastError`: a denial that this thread has not heard of yet is its last error, told once.
#[unsafe(no_mangle)]
pub extern "C" fn cudaGetLastError() -> CudaError {
    boundary::query(real_get_last_error, || {
        let real = real_get_last_error();
        let Some(pending) = guard::pending() else { return real };
        guard::forget_pending();
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

/// Notes that a call of `thread`, the calling one, was refused with `code`, as the runtime notes its own errors: the error
/// before it is forgotten, unless it is one that the runtime tells for ever.
pub(crate) fn note_denial(thread: &Thread, code: CudaError) {
    // Where there was none to forget, none is left.
    let real = if real_get_last_error() == SUCCESS { SUCCESS } else { real_peek_at_last_error() };
    thread.set_pending(Pending { code, real });
}

/// The device that the calling thread uses, as the runtime numbers it; `None` when it can't tell.
#[inline(always)]
pub(crate) fn current_device() -> Option<i32> {
    if driver::is_only_device() { Some(0) } else { ask_device() }
}

fn ask_device() -> Option<i32> {
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
