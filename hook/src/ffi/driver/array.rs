//! CUDA arrays, charged with what their texels take, every mipmap level counted. A handle stands for the block in the
//! accounts.

use super::memory::plain;
use super::{export, real};
use crate::api::Entry;
use crate::call;
use crate::ffi::runtime::array_bytes;
use crate::ffi::types::{Array3DDescriptor, ArrayDescriptor, CudaError, Extent, Handle, SYMBOL_NOT_FOUND, address};

/// Bits of a texel of `channels` channels in a `CUarray_format`. Planes of less resolution than the picture count by
/// their share. A format that is not known here counts as four bytes a channel, the largest of those that are made of
/// channels.
fn texel_bits(format: u32, channels: u32) -> u64 {
    let each = |bits: u64| bits.saturating_mul(channels.into());
    match format {
        // UNSIGNED_INT8, SIGNED_INT8
        0x01 | 0x08 => each(8),
        // UNSIGNED_INT16, SIGNED_INT16, HALF
        0x02 | 0x09 | 0x10 => each(16),
        // UNSIGNED_INT32, SIGNED_INT32, FLOAT
        0x03 | 0x0a | 0x20 => each(32),
        // UNORM_INT_101010_2, AYUV, Y410
        0x50 | 0xa8 | 0xa9 => 32,
        // BC1, BC4
        0x91 | 0x92 | 0x97 | 0x98 => 4,
        // BC2, BC3, BC5, BC6H, BC7
        0x93..=0x96 | 0x99..=0x9e => 8,
        // NV12: 4:2:0 of 8 bits
        0xb0 => 12,
        // P010, P016: 4:2:0 of 16 bits
        0x9f | 0xa1 => 24,
        // NV16, YUY2: 4:2:2 of 8 bits
        0xa2 | 0xa5 => 16,
        // P210, P216, Y210, Y216: 4:2:2 of 16 bits
        0xa3 | 0xa4 | 0xa6 | 0xa7 => 32,
        // Y416
        0xb1 => 64,
        // Y444_PLANAR8, YUV444_8bit_SemiPlanar
        0xb2 | 0xb4 => 24,
        // Y444_PLANAR10, YUV444_16bit_SemiPlanar
        0xb3 | 0xb5 => 48,
        // UNORM_INT8X1, X2, X4 and SNORM
        0xc0 | 0xc6 => 8,
        0xc1 | 0xc7 => 16,
        0xc2 | 0xc8 => 32,
        // UNORM_INT16X1, X2, X4 and SNORM
        0xc3 | 0xc9 => 16,
        0xc4 | 0xca => 32,
        0xc5 | 0xcb => 64,
        _ => each(32),
    }
}

/// `cuArrayCreate`.
///
/// # Safety
/// `array` is null or valid for writing a handle, `desc` null or a descriptor
/// (<https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MEM.html>).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuArrayCreate_v2(array: *mut Handle, desc: *const ArrayDescriptor) -> CudaError {
    let Some(real) = real::ARRAY_CREATE.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: the caller's own arguments, to the function that it meant to call.
    let forward = || unsafe { real(array, desc) };
    // SAFETY: by contract; the real function reads it too. Without one nothing is charged: the driver refuses the call.
    let size = unsafe { desc.as_ref() }.map_or(0, |desc| {
        let extent = Extent { width: desc.width, height: desc.height, depth: 0 };
        array_bytes(texel_bits(desc.format, desc.channels), extent, 1, 0)
    });
    // SAFETY: the caller's contract is the one asked for here.
    unsafe { plain(Entry::CuArrayCreate, None, array.cast(), size, forward) }
}

/// # Safety
/// `desc` is null or a descriptor.
unsafe fn bytes(desc: *const Array3DDescriptor, levels: u32) -> u64 {
    // SAFETY: by contract; the real function reads it too.
    unsafe { desc.as_ref() }
        .map_or(0, |desc| array_bytes(texel_bits(desc.format, desc.channels), desc.extent, levels, desc.flags))
}

/// `cuArray3DCreate`.
///
/// # Safety
/// As `cuArrayCreate`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuArray3DCreate_v2(array: *mut Handle, desc: *const Array3DDescriptor) -> CudaError {
    let Some(real) = real::ARRAY_3D_CREATE.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: the caller's own arguments, to the function that it meant to call.
    let forward = || unsafe { real(array, desc) };
    // SAFETY: the caller's contract.
    let size = unsafe { bytes(desc, 1) };
    // SAFETY: the caller's contract is the one asked for here.
    unsafe { plain(Entry::CuArray3DCreate, None, array.cast(), size, forward) }
}

/// `cuMipmappedArrayCreate`.
///
/// # Safety
/// As `cuArrayCreate`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMipmappedArrayCreate(
    array: *mut Handle,
    desc: *const Array3DDescriptor,
    levels: u32,
) -> CudaError {
    let Some(real) = real::MIPMAPPED_ARRAY_CREATE.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: the caller's own arguments, to the function that it meant to call.
    let forward = || unsafe { real(array, desc, levels) };
    // SAFETY: the caller's contract.
    let size = unsafe { bytes(desc, levels) };
    // SAFETY: the caller's contract is the one asked for here.
    unsafe { plain(Entry::CuMipmappedArrayCreate, None, array.cast(), size, forward) }
}

/// `cuArrayDestroy`.
///
/// # Safety
/// `array` is an array of this process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuArrayDestroy(array: Handle) -> CudaError {
    let Some(real) = real::ARRAY_DESTROY.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: the caller's own argument, to the function that it meant to call.
    let forward = || unsafe { real(array) };
    export(forward, |real| call::free(Entry::CuArrayDestroy, address(array), real))
}

/// `cuMipmappedArrayDestroy`.
///
/// # Safety
/// `array` is a mipmapped array of this process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMipmappedArrayDestroy(array: Handle) -> CudaError {
    let Some(real) = real::MIPMAPPED_ARRAY_DESTROY.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: the caller's own argument, to the function that it meant to call.
    let forward = || unsafe { real(array) };
    export(forward, |real| call::free(Entry::CuMipmappedArrayDestroy, address(array), real))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texels_take_what_their_format_says() {
        assert_eq!(texel_bits(0x01, 4), 32);
        assert_eq!(texel_bits(0x20, 4), 128);
        assert_eq!(texel_bits(0xc5, 4), 64);
        // NV12: a full plane of 8 bits and a quarter plane of twice 8.
        assert_eq!(texel_bits(0xb0, 3), 12);
    }
}
