//! Device memory. What is charged is what the driver takes: pitched rows count with their padding.

use std::ffi::c_void;

use super::real::{self, FreeAsync, MallocAsync, MallocFromPool};
use crate::api::Entry;
use crate::call::{self, Allocation};
use crate::ffi::boundary;
use crate::ffi::symbol::Symbol;
use crate::ffi::types::{CudaError, Extent, Handle, PitchedPtr, SUCCESS, SYMBOL_NOT_FOUND, address};

/// An allocation whose size is known beforehand and whose address the real call writes to `place`.
///
/// # Safety
/// `place` is null or valid for writing a pointer; `forward` makes the real call with it.
pub(super) unsafe fn plain(
    entry: Entry,
    place: *mut *mut c_void,
    size: u64,
    forward: impl FnMut() -> CudaError,
) -> CudaError {
    if place.is_null() {
        return boundary::export(forward, |real| real.call());
    }
    let allocation = Allocation {
        size,
        dev: None,
        // SAFETY: called after the real call has written a pointer there.
        written: || (address(unsafe { place.read() }), size),
        // A real cudaMalloc that fails for want of memory leaves null there (seen with CUDA 13.0 on an H200).
        // SAFETY: the caller gave the place to be written to, and the real call, which would write there, is not made.
        refused: || unsafe { place.write(std::ptr::null_mut()) },
        undo: || {},
    };
    boundary::export(forward, |real| call::alloc(entry, allocation, real))
}

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
    // SAFETY: the caller's contract is the one asked for here.
    unsafe { plain(Entry::CudaMalloc, dev_ptr, size as u64, forward) }
}

/// `cudaMallocManaged`. Managed memory may move to the host; it is charged as if it were all on the device.
///
/// # Safety
/// As `cudaMalloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMallocManaged(dev_ptr: *mut *mut c_void, size: usize, flags: u32) -> CudaError {
    let Some(real) = real::CUDA_MALLOC_MANAGED.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: the caller's own arguments, to the function that it meant to call.
    let forward = || unsafe { real(dev_ptr, size, flags) };
    // SAFETY: the caller's contract is the one asked for here.
    unsafe { plain(Entry::CudaMallocManaged, dev_ptr, size as u64, forward) }
}

macro_rules! stream_ordered {
    ($malloc:ident $malloc_entry:ident $malloc_real:ident, $pool:ident $pool_entry:ident $pool_real:ident,
     $free:ident $free_entry:ident $free_real:ident) => {
        /// `cudaMallocAsync`, charged when it is called, whenever its stream comes to it.
        ///
        /// # Safety
        /// As `cudaMalloc`, with a live stream
        /// (<https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY__POOLS.html>).
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $malloc(dev_ptr: *mut *mut c_void, size: usize, stream: Handle) -> CudaError {
            let symbol: &Symbol<MallocAsync> = &real::$malloc_real;
            let Some(real) = symbol.required() else { return SYMBOL_NOT_FOUND };
            // SAFETY: the caller's own arguments, to the function that it meant to call.
            let forward = || unsafe { real(dev_ptr, size, stream) };
            // SAFETY: the caller's contract is the one asked for here.
            unsafe { plain(Entry::$malloc_entry, dev_ptr, size as u64, forward) }
        }

        /// `cudaMallocFromPoolAsync`. What a pool keeps for later is not charged, what a program holds of it is.
        ///
        /// # Safety
        /// As `cudaMallocAsync`, with a live pool.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $pool(
            dev_ptr: *mut *mut c_void,
            size: usize,
            pool: Handle,
            stream: Handle,
        ) -> CudaError {
            let symbol: &Symbol<MallocFromPool> = &real::$pool_real;
            let Some(real) = symbol.required() else { return SYMBOL_NOT_FOUND };
            // SAFETY: the caller's own arguments, to the function that it meant to call.
            let forward = || unsafe { real(dev_ptr, size, pool, stream) };
            // SAFETY: the caller's contract is the one asked for here.
            unsafe { plain(Entry::$pool_entry, dev_ptr, size as u64, forward) }
        }

        /// `cudaFreeAsync`: given back when it is called, whenever its stream comes to it.
        ///
        /// # Safety
        /// `dev_ptr` is null or an allocation of this process, `stream` a live stream.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $free(dev_ptr: *mut c_void, stream: Handle) -> CudaError {
            let symbol: &Symbol<FreeAsync> = &real::$free_real;
            let Some(real) = symbol.required() else { return SYMBOL_NOT_FOUND };
            // SAFETY: the caller's own arguments, to the function that it meant to call.
            let forward = || unsafe { real(dev_ptr, stream) };
            boundary::export(forward, |real| call::free(Entry::$free_entry, address(dev_ptr), real))
        }
    };
}

stream_ordered!(
    cudaMallocAsync CudaMallocAsync CUDA_MALLOC_ASYNC,
    cudaMallocFromPoolAsync CudaMallocFromPoolAsync CUDA_MALLOC_FROM_POOL_ASYNC,
    cudaFreeAsync CudaFreeAsync CUDA_FREE_ASYNC
);
stream_ordered!(
    cudaMallocAsync_ptsz CudaMallocAsyncPtsz CUDA_MALLOC_ASYNC_PTSZ,
    cudaMallocFromPoolAsync_ptsz CudaMallocFromPoolAsyncPtsz CUDA_MALLOC_FROM_POOL_ASYNC_PTSZ,
    cudaFreeAsync_ptsz CudaFreeAsyncPtsz CUDA_FREE_ASYNC_PTSZ
);

/// Gives a block back that the hook itself refuses after all.
fn give_back(ptr: *mut c_void) {
    if let Some(free) = real::CUDA_FREE.get() {
        // SAFETY: a block that the real runtime has just given, and nobody else knows of.
        unsafe { free(ptr) };
    }
}

/// `cudaMallocPitch`, charged with the padding of its rows.
///
/// # Safety
/// `dev_ptr` and `pitch` are null or valid for writing
/// (<https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html>).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMallocPitch(
    dev_ptr: *mut *mut c_void,
    pitch: *mut usize,
    width: usize,
    height: usize,
) -> CudaError {
    let Some(real) = real::CUDA_MALLOC_PITCH.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: the caller's own arguments, to the function that it meant to call.
    let forward = || unsafe { real(dev_ptr, pitch, width, height) };
    if dev_ptr.is_null() || pitch.is_null() {
        return boundary::export(forward, |real| real.call());
    }
    let rows = height as u64;
    let allocation = Allocation {
        size: (width as u64).saturating_mul(rows),
        dev: None,
        written: || {
            // SAFETY: called after the real call has written to both.
            let (ptr, pitch) = unsafe { (dev_ptr.read(), pitch.read()) };
            (address(ptr), (pitch as u64).saturating_mul(rows))
        },
        // SAFETY: as for `cudaMalloc`; after a block was given back its address must not stay there either.
        refused: || unsafe { dev_ptr.write(std::ptr::null_mut()) },
        // SAFETY: called after the real call has written there.
        undo: || give_back(unsafe { dev_ptr.read() }),
    };
    boundary::export(forward, |real| call::alloc(Entry::CudaMallocPitch, allocation, real))
}

/// `cudaMalloc3D`, charged with the padding of its rows.
///
/// # Safety
/// `pitched` is null or valid for writing
/// (<https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html>).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMalloc3D(pitched: *mut PitchedPtr, extent: Extent) -> CudaError {
    let Some(real) = real::CUDA_MALLOC_3D.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: the caller's own arguments, to the function that it meant to call.
    let forward = || unsafe { real(pitched, extent) };
    if pitched.is_null() {
        return boundary::export(forward, |real| real.call());
    }
    let rows = (extent.height as u64).saturating_mul(extent.depth as u64);
    let allocation = Allocation {
        size: (extent.width as u64).saturating_mul(rows),
        dev: None,
        written: || {
            // SAFETY: called after the real call has written there.
            let block = unsafe { pitched.read() };
            (address(block.ptr), (block.pitch as u64).saturating_mul(rows))
        },
        // SAFETY: the caller gave the place to be written to; only the address in it is changed.
        refused: || unsafe { (&raw mut (*pitched).ptr).write(std::ptr::null_mut()) },
        // SAFETY: called after the real call has written there.
        undo: || give_back(unsafe { pitched.read() }.ptr),
    };
    boundary::export(forward, |real| call::alloc(Entry::CudaMalloc3D, allocation, real))
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

/// # Safety
/// `place` is null or valid for reading a pointer once the real call has succeeded.
unsafe fn host(entry: Entry, place: *mut *mut c_void, size: usize, forward: impl FnMut() -> CudaError) -> CudaError {
    boundary::export(forward, |real| {
        // SAFETY: by contract; only read after a success.
        let written = || if place.is_null() { 0 } else { address(unsafe { place.read() }) };
        call::host_alloc(entry, size as u64, written, real)
    })
}

/// `cudaHostAlloc`: host memory, recorded and not counted.
///
/// # Safety
/// `place` is null or valid for writing a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaHostAlloc(place: *mut *mut c_void, size: usize, flags: u32) -> CudaError {
    let Some(real) = real::CUDA_HOST_ALLOC.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: the caller's own arguments, to the function that it meant to call.
    let forward = || unsafe { real(place, size, flags) };
    // SAFETY: the caller's contract is the one asked for here.
    unsafe { host(Entry::CudaHostAlloc, place, size, forward) }
}

/// `cudaMallocHost`: host memory, recorded and not counted.
///
/// # Safety
/// `place` is null or valid for writing a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMallocHost(place: *mut *mut c_void, size: usize) -> CudaError {
    let Some(real) = real::CUDA_MALLOC_HOST.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: the caller's own arguments, to the function that it meant to call.
    let forward = || unsafe { real(place, size) };
    // SAFETY: the caller's contract is the one asked for here.
    unsafe { host(Entry::CudaMallocHost, place, size, forward) }
}

/// `cudaFreeHost`.
///
/// # Safety
/// `ptr` is null or pinned memory of this process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaFreeHost(ptr: *mut c_void) -> CudaError {
    let Some(real) = real::CUDA_FREE_HOST.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: the caller's own argument, to the function that it meant to call.
    let forward = || unsafe { real(ptr) };
    boundary::export(forward, |real| call::host_free(Entry::CudaFreeHost, address(ptr), real))
}

/// `cudaDeviceReset`: everything on the calling thread's device is gone.
#[unsafe(no_mangle)]
pub extern "C" fn cudaDeviceReset() -> CudaError {
    let Some(real) = real::CUDA_DEVICE_RESET.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: takes nothing.
    let forward = || unsafe { real() };
    boundary::export(forward, |real| call::reset(Entry::CudaDeviceReset, None, real))
}

/// `cudaMemGetInfo`, answered within the quotas: no more in all than they, no more free than is left of them.
///
/// # Safety
/// `free` and `total` are null or valid for writing
/// (<https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html>).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemGetInfo(free: *mut usize, total: *mut usize) -> CudaError {
    let Some(real) = real::CUDA_MEM_GET_INFO.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: the caller's own arguments, to the function that it meant to call.
    let forward = || unsafe { real(free, total) };
    boundary::export(forward, |real| {
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
