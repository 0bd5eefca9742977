//! Physical memory made by itself and mapped to addresses (PyTorch's expandable segments, XLA, NCCL). Charged when it is
//! made; given back when its last handle is released and its last mapping gone, whichever comes later, and recorded
//! there.

use std::ffi::c_void;

use super::real::{self, DevicePtr};
use super::{export, hooked, memory};
use crate::api::Entry;
use crate::call;
use crate::ffi::boundary::contain;
use crate::ffi::guard::Guard;
use crate::ffi::types::{AllocationProp, CudaError, ON_DEVICE, SUCCESS, SYMBOL_NOT_FOUND};
use crate::state;

/// `cuMemCreate`. Memory of the host is none of ours.
///
/// # Safety
/// `handle` is null or valid for writing, `prop` null or an allocation's properties
/// (<https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__VA.html>).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemCreate(
    handle: *mut u64,
    size: usize,
    prop: *const AllocationProp,
    flags: u64,
) -> CudaError {
    let Some(real) = real::MEM_CREATE.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: the caller's own arguments, to the function that it meant to call.
    let forward = || unsafe { real(handle, size, prop, flags) };
    // SAFETY: by contract; the real function reads it too.
    let Some(prop) = (unsafe { prop.as_ref() }) else { return export(forward, |real| real.call()) };
    if prop.location_kind != ON_DEVICE {
        return export(forward, |real| real.call());
    }
    // SAFETY: the caller's contract is the one asked for here.
    unsafe { memory::plain(Entry::CuMemCreate, Some(prop.location_id), handle, size as u64, forward) }
}

/// `cuMemRelease`.
///
/// # Safety
/// `handle` is one that `cuMemCreate` or its like gave.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemRelease(handle: u64) -> CudaError {
    let Some(real) = real::MEM_RELEASE.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: the caller's own argument, to the function that it meant to call.
    let forward = || unsafe { real(handle) };
    export(forward, |real| call::release(Entry::CuMemRelease, handle, real))
}

/// Notes what a successful real call did, for which nothing is charged.
fn note(answer: CudaError, what: impl FnOnce(&'static state::State)) {
    if answer == SUCCESS {
        let _errno = Guard::enter();
        contain(|| {
            if hooked() {
                what(state::get());
            }
        });
    }
}

/// `cuMemMap`: forwarded; what is mapped outlives its handle.
///
/// # Safety
/// `ptr` lies in a reserved range of addresses, `handle` is one that `cuMemCreate` or its like gave.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemMap(ptr: DevicePtr, size: usize, offset: usize, handle: u64, flags: u64) -> CudaError {
    let Some(real) = real::MEM_MAP.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: the caller's own arguments, to the function that it meant to call.
    let answer = unsafe { real(ptr, size, offset, handle, flags) };
    note(answer, |state| state.vmm.mapped(ptr, size as u64, handle));
    answer
}

/// `cuMemUnmap`.
///
/// # Safety
/// The range consists of whole mappings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemUnmap(ptr: DevicePtr, size: usize) -> CudaError {
    let Some(real) = real::MEM_UNMAP.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: the caller's own arguments, to the function that it meant to call.
    let forward = || unsafe { real(ptr, size) };
    export(forward, |real| call::unmap(Entry::CuMemUnmap, ptr, size as u64, real))
}

/// `cuMemRetainAllocationHandle`: forwarded; one more handle to release.
///
/// # Safety
/// `handle` is null or valid for writing, `address` lies in a mapped range.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemRetainAllocationHandle(handle: *mut u64, address: *mut c_void) -> CudaError {
    let Some(real) = real::MEM_RETAIN_ALLOCATION_HANDLE.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: the caller's own arguments, to the function that it meant to call.
    let answer = unsafe { real(handle, address) };
    if !handle.is_null() {
        note(answer, |state| {
            // SAFETY: not null, and the real call has written there.
            state.vmm.retained(unsafe { handle.read() });
        });
    }
    answer
}
