//! CUDA arrays. How a driver lays one out is its own; charged is what its texels take, every mipmap level counted. A
//! handle stands for the block in the accounts.

use std::ffi::c_void;

use super::memory::plain;
use super::real;
use crate::api::Entry;
use crate::call;
use crate::ffi::boundary;
use crate::ffi::types::{ChannelDesc, CudaError, Extent, SYMBOL_NOT_FOUND, address};

/// `cudaArrayLayered` and `cudaArrayCubemap`: the depth counts layers, which mipmap levels don't halve.
const LAYERS: u32 = 0x01 | 0x04;

/// Bytes of an array's texels of `bits` bits each; dimensions of 0 count as 1.
pub(in crate::ffi) fn bytes(bits: u64, extent: Extent, levels: u32, flags: u32) -> u64 {
    let at = |length: usize, level: u32| (length as u64).checked_shr(level).unwrap_or(0).max(1);
    (0..levels).take(64).fold(0u64, |sum, level| {
        let depth = if flags & LAYERS == 0 { at(extent.depth, level) } else { at(extent.depth, 0) };
        let texels = at(extent.width, level).saturating_mul(at(extent.height, level)).saturating_mul(depth);
        let bytes = u128::from(texels).saturating_mul(bits.into()).div_ceil(8);
        sum.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX))
    })
}

/// # Safety
/// `desc` is null or a channel description. Without one nothing is charged: the runtime refuses the call.
unsafe fn texel_bits(desc: *const ChannelDesc) -> u64 {
    // SAFETY: by contract; the real function reads it too.
    unsafe { desc.as_ref() }.map_or(0, ChannelDesc::bits)
}

/// `cudaMallocArray`.
///
/// # Safety
/// `array` is null or valid for writing a handle, `desc` null or a channel description
/// (<https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html>).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMallocArray(
    array: *mut *mut c_void,
    desc: *const ChannelDesc,
    width: usize,
    height: usize,
    flags: u32,
) -> CudaError {
    let Some(real) = real::CUDA_MALLOC_ARRAY.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: the caller's own arguments, to the function that it meant to call.
    let forward = || unsafe { real(array, desc, width, height, flags) };
    // SAFETY: the caller's contract.
    let size = bytes(unsafe { texel_bits(desc) }, Extent { width, height, depth: 0 }, 1, flags);
    // SAFETY: the caller's contract is the one asked for here.
    unsafe { plain(Entry::CudaMallocArray, array, size, forward) }
}

/// `cudaMalloc3DArray`.
///
/// # Safety
/// As `cudaMallocArray`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMalloc3DArray(
    array: *mut *mut c_void,
    desc: *const ChannelDesc,
    extent: Extent,
    flags: u32,
) -> CudaError {
    let Some(real) = real::CUDA_MALLOC_3D_ARRAY.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: the caller's own arguments, to the function that it meant to call.
    let forward = || unsafe { real(array, desc, extent, flags) };
    // SAFETY: the caller's contract.
    let size = bytes(unsafe { texel_bits(desc) }, extent, 1, flags);
    // SAFETY: the caller's contract is the one asked for here.
    unsafe { plain(Entry::CudaMalloc3DArray, array, size, forward) }
}

/// `cudaMallocMipmappedArray`.
///
/// # Safety
/// As `cudaMallocArray`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMallocMipmappedArray(
    array: *mut *mut c_void,
    desc: *const ChannelDesc,
    extent: Extent,
    levels: u32,
    flags: u32,
) -> CudaError {
    let Some(real) = real::CUDA_MALLOC_MIPMAPPED_ARRAY.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: the caller's own arguments, to the function that it meant to call.
    let forward = || unsafe { real(array, desc, extent, levels, flags) };
    // SAFETY: the caller's contract.
    let size = bytes(unsafe { texel_bits(desc) }, extent, levels, flags);
    // SAFETY: the caller's contract is the one asked for here.
    unsafe { plain(Entry::CudaMallocMipmappedArray, array, size, forward) }
}

/// `cudaFreeArray`.
///
/// # Safety
/// `array` is null or an array of this process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaFreeArray(array: *mut c_void) -> CudaError {
    let Some(real) = real::CUDA_FREE_ARRAY.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: the caller's own argument, to the function that it meant to call.
    let forward = || unsafe { real(array) };
    boundary::export(forward, |real| call::free(Entry::CudaFreeArray, address(array), real))
}

/// `cudaFreeMipmappedArray`.
///
/// # Safety
/// `array` is null or a mipmapped array of this process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaFreeMipmappedArray(array: *mut c_void) -> CudaError {
    let Some(real) = real::CUDA_FREE_MIPMAPPED_ARRAY.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: the caller's own argument, to the function that it meant to call.
    let forward = || unsafe { real(array) };
    boundary::export(forward, |real| call::free(Entry::CudaFreeMipmappedArray, address(array), real))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texels_of_all_levels_and_layers_are_counted() {
        let extent = |width, height, depth| Extent { width, height, depth };
        assert_eq!(bytes(32, extent(100, 0, 0), 1, 0), 400);
        assert_eq!(bytes(128, extent(64, 64, 0), 1, 0), 65_536);
        assert_eq!(bytes(32, extent(8, 8, 8), 4, 0), 4 * (512 + 64 + 8 + 1));
        // Six layers stay six.
        assert_eq!(bytes(32, extent(4, 4, 6), 3, LAYERS), 4 * 6 * (16 + 4 + 1));
        assert_eq!(bytes(u64::MAX, extent(usize::MAX, 2, 2), 99, 0), u64::MAX);
    }
}
