//! Contexts that end, and take along what was allocated in them.

use std::ffi::c_int;

use super::{export, real};
use crate::api::Entry;
use crate::call;
use crate::ffi::symbol::Symbol;
use crate::ffi::types::{CudaError, Handle, SUCCESS, SYMBOL_NOT_FOUND, address};

/// `cuDevicePrimaryCtxReset`: everything on that device is gone.
///
/// # Safety
/// None beyond NVIDIA's (<https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__PRIMARY__CTX.html>).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxReset_v2(device: c_int) -> CudaError {
    let Some(real) = real::DEVICE_PRIMARY_CTX_RESET.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: the caller's own argument, to the function that it meant to call.
    let forward = || unsafe { real(device) };
    export(forward, |real| call::reset(Entry::CuDevicePrimaryCtxReset, Some(device), real))
}

/// `cuDevicePrimaryCtxReset` before CUDA 11.
///
/// # Safety
/// As [`cuDevicePrimaryCtxReset_v2`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxReset(device: c_int) -> CudaError {
    let Some(real) = real::DEVICE_PRIMARY_CTX_RESET_V1.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: the caller's own argument, to the function that it meant to call.
    let forward = || unsafe { real(device) };
    export(forward, |real| call::reset(Entry::CuDevicePrimaryCtxResetV1, Some(device), real))
}

/// `cuDevicePrimaryCtxRelease`: with its last holder the context is gone, and everything on that device.
///
/// # Safety
/// As [`cuDevicePrimaryCtxReset_v2`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRelease_v2(device: c_int) -> CudaError {
    // SAFETY: the caller's contract is the one asked for here.
    unsafe { release(Entry::CuDevicePrimaryCtxRelease, &real::DEVICE_PRIMARY_CTX_RELEASE, device) }
}

/// `cuDevicePrimaryCtxRelease` before CUDA 11.
///
/// # Safety
/// As [`cuDevicePrimaryCtxReset_v2`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRelease(device: c_int) -> CudaError {
    // SAFETY: the caller's contract is the one asked for here.
    unsafe { release(Entry::CuDevicePrimaryCtxReleaseV1, &real::DEVICE_PRIMARY_CTX_RELEASE_V1, device) }
}

/// # Safety
/// As the exports above.
unsafe fn release(
    entry: Entry,
    symbol: &'static Symbol<unsafe extern "C" fn(c_int) -> CudaError>,
    device: c_int,
) -> CudaError {
    let Some(real) = symbol.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: the caller's own argument, to the function that it meant to call.
    let forward = || unsafe { real(device) };
    export(forward, |real| call::release_device(entry, device, || is_active(device), real))
}

/// Whether the device's primary context is there; taken for true where the driver can't tell.
fn is_active(device: c_int) -> bool {
    let Some(real) = real::DEVICE_PRIMARY_CTX_GET_STATE.get() else { return true };
    let (mut flags, mut active) = (0, 1);
    // SAFETY: both are valid places to write to.
    let answer = unsafe { real(device, &mut flags, &mut active) };
    answer != SUCCESS || active != 0
}

/// `cuCtxDestroy`: what was allocated in the context is gone.
///
/// # Safety
/// `context` is a live context (<https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__CTX.html>).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxDestroy_v2(context: Handle) -> CudaError {
    let Some(real) = real::CTX_DESTROY.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: the caller's own argument, to the function that it meant to call.
    let forward = || unsafe { real(context) };
    export(forward, |real| call::destroy_context(Entry::CuCtxDestroy, address(context), real))
}
