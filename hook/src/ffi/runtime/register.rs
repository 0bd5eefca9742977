//! What nvcc's host code calls when a program or library with kernels is loaded and unloaded. All of it is forwarded as
//! it came; the kernels' names are noted on the way.
//!
//! These functions are no documented interface; their forms are those of `crt/host_runtime.h`, which nvcc includes.

use std::ffi::{c_char, c_int, c_void};

use super::real;
use crate::config::Target;
use crate::ffi::boundary::contain;
use crate::ffi::guard::Guard;
use crate::ffi::types::{CudaError, Handle, SUCCESS, SYMBOL_NOT_FOUND, address};
use crate::{names, state};

/// Runs `note` when events, the only place where names are shown, are written at all.
fn when_shown(note: impl FnOnce()) {
    let _errno = Guard::enter();
    contain(|| {
        if state::get().config.events != Target::Off {
            note();
        }
    });
}

/// `__cudaRegisterFunction`: a kernel, its host stub and its name.
///
/// # Safety
/// As nvcc's host code calls it; `device_name` is a string that lives as long as the fat binary is registered.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)] // nvcc's own
pub unsafe extern "C" fn __cudaRegisterFunction(
    binary: *mut *mut c_void,
    stub: *const c_char,
    device_stub: *mut c_char,
    device_name: *const c_char,
    thread_limit: c_int,
    thread: *mut c_void,
    block: *mut c_void,
    block_dim: *mut c_void,
    grid_dim: *mut c_void,
    warp_size: *mut c_int,
) {
    let Some(real) = real::REGISTER_FUNCTION.required() else { return };
    // SAFETY: the caller's own arguments, to the function that it meant to call.
    unsafe {
        real(binary, stub, device_stub, device_name, thread_limit, thread, block, block_dim, grid_dim, warp_size);
    }
    if !device_name.is_null() {
        when_shown(|| names::register(address(binary), address(stub), device_name.expose_provenance()));
    }
}

/// `__cudaGetKernel`: the handle that CUDA 13's launches of this stub pass.
///
/// # Safety
/// `kernel` is null or valid for writing a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaGetKernel(kernel: *mut Handle, stub: *const c_void) -> CudaError {
    let Some(real) = real::GET_KERNEL.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: the caller's own arguments, to the function that it meant to call.
    let answer = unsafe { real(kernel, stub) };
    if answer == SUCCESS && !kernel.is_null() {
        // SAFETY: not null, and the real call has written there.
        let handle = address(unsafe { kernel.read() });
        when_shown(|| names::alias(address(stub), handle));
    }
    answer
}

/// `__cudaUnregisterFatBinary`: a program or library with kernels is unloaded.
///
/// # Safety
/// As nvcc's host code calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaUnregisterFatBinary(binary: *mut *mut c_void) {
    // Before the real call: the names may be gone after it.
    when_shown(|| names::forget(address(binary)));
    if let Some(real) = real::UNREGISTER_FAT_BINARY.required() {
        // SAFETY: the caller's own argument, to the function that it meant to call.
        unsafe { real(binary) };
    }
}
