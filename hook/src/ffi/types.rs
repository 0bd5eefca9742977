//! CUDA's types as they cross the C boundary, and the codes that the hook returns.

use std::ffi::c_void;

use hook_event::Dim3;

/// `cudaError_t` and `CUresult`; since CUDA 10.1 one number means the same in both.
pub(crate) type CudaError = i32;
/// `cudaSuccess`.
pub(crate) const SUCCESS: CudaError = 0;
/// `cudaErrorMemoryAllocation`, `CUDA_ERROR_OUT_OF_MEMORY`.
pub(crate) const MEMORY_ALLOCATION: CudaError = 2;
/// `CUDA_ERROR_LAUNCH_FAILED`: what a launch refused at the driver's level gets.
pub(crate) const LAUNCH_FAILED: CudaError = 719;
/// `cudaErrorSharedObjectSymbolNotFound`, `CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND`: what a call gets whose real function is nowhere to be found.
pub(crate) const SYMBOL_NOT_FOUND: CudaError = 302;

/// `cudaStream_t`, `cudaKernel_t`, the driver's handles.
pub(crate) type Handle = *mut c_void;

/// `dim3` of `vector_types.h`; passed by value.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct CDim3 {
    pub(crate) x: u32,
    pub(crate) y: u32,
    pub(crate) z: u32,
}

/// `cudaLaunchConfig_t` of `driver_types.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaunchConfig {
    pub(crate) grid: CDim3,
    pub(crate) block: CDim3,
    pub(crate) shmem: usize,
    pub(crate) stream: Handle,
    attrs: *mut c_void,
    attr_count: u32,
}

/// `CUlaunchConfig` of `cuda.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct DriverLaunchConfig {
    pub(crate) grid: CDim3,
    pub(crate) block: CDim3,
    pub(crate) shmem: u32,
    pub(crate) stream: Handle,
    attrs: *mut c_void,
    attr_count: u32,
}

/// `CUDA_ARRAY_DESCRIPTOR` of `cuda.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArrayDescriptor {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) format: u32,
    pub(crate) channels: u32,
}

/// `CUDA_ARRAY3D_DESCRIPTOR` of `cuda.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Array3DDescriptor {
    pub(crate) extent: Extent,
    pub(crate) format: u32,
    pub(crate) channels: u32,
    pub(crate) flags: u32,
}

/// The beginning of `CUmemAllocationProp` of `cuda.h`: as much as is read here. Only behind a pointer.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct AllocationProp {
    kind: i32,
    handle_types: i32,
    pub(crate) location_kind: i32,
    pub(crate) location_id: i32,
}

/// `CU_MEM_LOCATION_TYPE_DEVICE`.
pub(crate) const ON_DEVICE: i32 = 1;

/// `struct cudaPitchedPtr`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct PitchedPtr {
    pub(crate) ptr: *mut c_void,
    pub(crate) pitch: usize,
    xsize: usize,
    ysize: usize,
}

/// `struct cudaChannelFormatDesc`: bits of each channel of a texel.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChannelDesc {
    bits: [i32; 4],
    kind: i32,
}

impl ChannelDesc {
    /// Bits of a texel.
    pub(crate) fn bits(&self) -> u64 {
        let bits: i64 = self.bits.iter().map(|&bits| i64::from(bits)).sum();
        u64::try_from(bits).unwrap_or(0)
    }
}

/// `struct cudaExtent`; passed by value. The driver's descriptors begin with the same three.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
}

const _: () = {
    assert!(size_of::<LaunchConfig>() == 56 && std::mem::offset_of!(LaunchConfig, stream) == 32);
    assert!(size_of::<DriverLaunchConfig>() == 56 && std::mem::offset_of!(DriverLaunchConfig, stream) == 32);
    assert!(size_of::<ArrayDescriptor>() == 24 && size_of::<Array3DDescriptor>() == 40);
    assert!(std::mem::offset_of!(AllocationProp, location_id) == 12);
    assert!(size_of::<ChannelDesc>() == 20);
    assert!(size_of::<PitchedPtr>() == 32 && size_of::<Extent>() == 24);
    assert!(size_of::<CDim3>() == 12 && align_of::<CDim3>() == 4);
    assert!(size_of::<CudaError>() == 4);
    assert!(size_of::<Handle>() == size_of::<usize>());
};

impl From<CDim3> for Dim3 {
    fn from(CDim3 { x, y, z }: CDim3) -> Self {
        Dim3 { x, y, z }
    }
}

/// An address as a number, for maps and logs; never turned back into a pointer.
pub(crate) fn address<T>(pointer: *const T) -> u64 {
    u64::try_from(pointer.addr()).unwrap_or(u64::MAX)
}
