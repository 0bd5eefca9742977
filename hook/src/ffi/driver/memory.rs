//! Device memory and pinned host memory.

use std::ffi::{c_int, c_void};

use super::export;
use super::real::{self, AllocAsync, AllocFromPool, DevicePtr, FreeAsync};
use crate::api::Entry;
use crate::call::{self, Allocation};
use crate::ffi::symbol::Symbol;
use crate::ffi::types::{CudaError, Handle, SUCCESS, SYMBOL_NOT_FOUND, address};

/// An allocation whose size is known beforehand and whose address or handle the real call writes to `place`.
///
/// # Safety
/// `place` is null or valid for reading and writing; `forward` makes the real call with it.
pub(super) unsafe fn plain(
    entry: Entry,
    dev: Option<i32>,
    place: *mut u64,
    size: u64,
    forward: impl FnMut() -> CudaError,
) -> CudaError {
    if place.is_null() {
        return export(forward, |real| real.call());
    }
    let allocation = Allocation {
        size,
        dev,
        // SAFETY: called after the real call has written there.
        written: || (unsafe { place.read() }, size),
        // SAFETY: the caller gave the place to be written to, and the real call, which would write there, is not made.
        refused: || unsafe { place.write(0) },
        undo: || {},
    };
    export(forward, |real| call::alloc(entry, allocation, real))
}

/// `cuMemAlloc`.
///
/// # Safety
/// `ptr` is null or valid for writing (<https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MEM.html>).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAlloc_v2(ptr: *mut DevicePtr, size: usize) -> CudaError {
    let Some(real) = real::MEM_ALLOC.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: the caller's own arguments, to the function that it meant to call.
    let forward = || unsafe { real(ptr, size) };
    // SAFETY: the caller's contract is the one asked for here.
    unsafe { plain(Entry::CuMemAlloc, None, ptr, size as u64, forward) }
}

/// `cuMemAllocManaged`. Managed memory may move to the host; it is charged as if it were all on the device.
///
/// # Safety
/// As `cuMemAlloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAllocManaged(ptr: *mut DevicePtr, size: usize, flags: u32) -> CudaError {
    let Some(real) = real::MEM_ALLOC_MANAGED.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: the caller's own arguments, to the function that it meant to call.
    let forward = || unsafe { real(ptr, size, flags) };
    // SAFETY: the caller's contract is the one asked for here.
    unsafe { plain(Entry::CuMemAllocManaged, None, ptr, size as u64, forward) }
}

/// `cuMemAllocPitch`, charged with the padding of its rows.
///
/// # Safety
/// `ptr` and `pitch` are null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAllocPitch_v2(
    ptr: *mut DevicePtr,
    pitch: *mut usize,
    width: usize,
    height: usize,
    element: u32,
) -> CudaError {
    let Some(real) = real::MEM_ALLOC_PITCH.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: the caller's own arguments, to the function that it meant to call.
    let forward = || unsafe { real(ptr, pitch, width, height, element) };
    if ptr.is_null() || pitch.is_null() {
        return export(forward, |real| real.call());
    }
    let rows = height as u64;
    let allocation = Allocation {
        size: (width as u64).saturating_mul(rows),
        dev: None,
        written: || {
            // SAFETY: called after the real call has written to both.
            let (block, pitch) = unsafe { (ptr.read(), pitch.read()) };
            (block, (pitch as u64).saturating_mul(rows))
        },
        // SAFETY: as in `plain`; after a block was given back its address must not stay there either.
        refused: || unsafe { ptr.write(0) },
        undo: || {
            if let Some(free) = real::MEM_FREE.get() {
                // SAFETY: a block that the real driver has just given, and nobody else knows of.
                unsafe { free(ptr.read()) };
            }
        },
    };
    export(forward, |real| call::alloc(Entry::CuMemAllocPitch, allocation, real))
}

/// `cuMemFree`.
///
/// # Safety
/// `ptr` is an allocation of this process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemFree_v2(ptr: DevicePtr) -> CudaError {
    let Some(real) = real::MEM_FREE.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: the caller's own argument, to the function that it meant to call.
    let forward = || unsafe { real(ptr) };
    export(forward, |real| call::free(Entry::CuMemFree, ptr, real))
}

macro_rules! stream_ordered {
    ($alloc:ident $alloc_entry:ident $alloc_real:ident, $pool:ident $pool_entry:ident $pool_real:ident,
     $free:ident $free_entry:ident $free_real:ident) => {
        /// `cuMemAllocAsync`, charged when it is called, whenever its stream comes to it.
        ///
        /// # Safety
        /// As `cuMemAlloc`, with a live stream
        /// (<https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MALLOC__ASYNC.html>).
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $alloc(ptr: *mut DevicePtr, size: usize, stream: Handle) -> CudaError {
            let symbol: &Symbol<AllocAsync> = &real::$alloc_real;
            let Some(real) = symbol.required() else { return SYMBOL_NOT_FOUND };
            // SAFETY: the caller's own arguments, to the function that it meant to call.
            let forward = || unsafe { real(ptr, size, stream) };
            // SAFETY: the caller's contract is the one asked for here.
            unsafe { plain(Entry::$alloc_entry, None, ptr, size as u64, forward) }
        }

        /// `cuMemAllocFromPoolAsync`. What a pool keeps for later is not charged, what a program holds of it is.
        ///
        /// # Safety
        /// As `cuMemAllocAsync`, with a live pool.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $pool(ptr: *mut DevicePtr, size: usize, pool: Handle, stream: Handle) -> CudaError {
            let symbol: &Symbol<AllocFromPool> = &real::$pool_real;
            let Some(real) = symbol.required() else { return SYMBOL_NOT_FOUND };
            // SAFETY: the caller's own arguments, to the function that it meant to call.
            let forward = || unsafe { real(ptr, size, pool, stream) };
            // SAFETY: the caller's contract is the one asked for here.
            unsafe { plain(Entry::$pool_entry, None, ptr, size as u64, forward) }
        }

        /// `cuMemFreeAsync`: given back when it is called, whenever its stream comes to it.
        ///
        /// # Safety
        /// `ptr` is an allocation of this process, `stream` a live stream.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $free(ptr: DevicePtr, stream: Handle) -> CudaError {
            let symbol: &Symbol<FreeAsync> = &real::$free_real;
            let Some(real) = symbol.required() else { return SYMBOL_NOT_FOUND };
            // SAFETY: the caller's own arguments, to the function that it meant to call.
            let forward = || unsafe { real(ptr, stream) };
            export(forward, |real| call::free(Entry::$free_entry, ptr, real))
        }
    };
}

stream_ordered!(
    cuMemAllocAsync CuMemAllocAsync MEM_ALLOC_ASYNC,
    cuMemAllocFromPoolAsync CuMemAllocFromPoolAsync MEM_ALLOC_FROM_POOL_ASYNC,
    cuMemFreeAsync CuMemFreeAsync MEM_FREE_ASYNC
);
stream_ordered!(
    cuMemAllocAsync_ptsz CuMemAllocAsyncPtsz MEM_ALLOC_ASYNC_PTSZ,
    cuMemAllocFromPoolAsync_ptsz CuMemAllocFromPoolAsyncPtsz MEM_ALLOC_FROM_POOL_ASYNC_PTSZ,
    cuMemFreeAsync_ptsz CuMemFreeAsyncPtsz MEM_FREE_ASYNC_PTSZ
);

/// # Safety
/// `place` is null or valid for reading a pointer once the real call has succeeded.
unsafe fn host(entry: Entry, place: *mut *mut c_void, size: usize, forward: impl FnMut() -> CudaError) -> CudaError {
    export(forward, |real| {
        // SAFETY: by contract; only read after a success.
        let written = || if place.is_null() { 0 } else { address(unsafe { place.read() }) };
        call::host_alloc(entry, size as u64, written, real)
    })
}

/// `cuMemHostAlloc`: host memory, recorded and not counted.
///
/// # Safety
/// `place` is null or valid for writing a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemHostAlloc(place: *mut *mut c_void, size: usize, flags: u32) -> CudaError {
    let Some(real) = real::MEM_HOST_ALLOC.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: the caller's own arguments, to the function that it meant to call.
    let forward = || unsafe { real(place, size, flags) };
    // SAFETY: the caller's contract is the one asked for here.
    unsafe { host(Entry::CuMemHostAlloc, place, size, forward) }
}

/// `cuMemAllocHost`: host memory, recorded and not counted.
///
/// # Safety
/// `place` is null or valid for writing a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAllocHost_v2(place: *mut *mut c_void, size: usize) -> CudaError {
    let Some(real) = real::MEM_ALLOC_HOST.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: the caller's own arguments, to the function that it meant to call.
    let forward = || unsafe { real(place, size) };
    // SAFETY: the caller's contract is the one asked for here.
    unsafe { host(Entry::CuMemAllocHost, place, size, forward) }
}

/// `cuMemFreeHost`.
///
/// # Safety
/// `ptr` is pinned memory of this process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemFreeHost(ptr: *mut c_void) -> CudaError {
    let Some(real) = real::MEM_FREE_HOST.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: the caller's own argument, to the function that it meant to call.
    let forward = || unsafe { real(ptr) };
    export(forward, |real| call::host_free(Entry::CuMemFreeHost, address(ptr), real))
}

/// `cuMemGetInfo`, answered within the quota.
///
/// # Safety
/// `free` and `total` are null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> CudaError {
    let Some(real) = real::MEM_GET_INFO.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: the caller's own arguments, to the function that it meant to call.
    let forward = || unsafe { real(free, total) };
    export(forward, |real| {
        let answer = real.call();
        if answer == SUCCESS && !free.is_null() && !total.is_null() {
            // SAFETY: not null, and the real call has written to both.
            let (real_free, real_total) = unsafe { (free.read(), total.read()) };
            let (less_free, less_total) =
                call::within_quota(super::current_device(), real_free as u64, real_total as u64);
            // SAFETY: as above. Both are no larger than the `usize` that was read.
            unsafe { free.write(less_free as usize) };
            // SAFETY: as above.
            unsafe { total.write(less_total as usize) };
        }
        answer
    })
}

/// `cuDeviceTotalMem`: no more than the quota.
///
/// # Safety
/// `total` is null or valid for writing (<https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__DEVICE.html>).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceTotalMem_v2(total: *mut usize, device: c_int) -> CudaError {
    let Some(real) = real::DEVICE_TOTAL_MEM.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: the caller's own arguments, to the function that it meant to call.
    let forward = || unsafe { real(total, device) };
    export(forward, |real| {
        let answer = real.call();
        if answer == SUCCESS && !total.is_null() {
            // SAFETY: not null, and the real call has written there.
            let real_total = unsafe { total.read() };
            let (_, less) = call::within_quota(Some(device), 0, real_total as u64);
            // SAFETY: as above. No larger than the `usize` that was read.
            unsafe { total.write(less as usize) };
        }
        answer
    })
}
