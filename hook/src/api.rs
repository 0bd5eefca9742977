//! The intercepted entry points: the symbol that a program calls and the API name that it is logged under.

/// The two libraries that a program calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layer {
    /// libcudart.
    Runtime,
    /// libcuda. What the runtime calls here on behalf of a call that is hooked itself passes through uncounted.
    Driver,
}

/// The library that has a symbol.
const fn layer_of(symbol: &str) -> Layer {
    match symbol.as_bytes() {
        [b'c', b'u', b'd', b'a', ..] | [b'_', ..] => Layer::Runtime,
        _ => Layer::Driver,
    }
}

macro_rules! entries {
    ($($name:ident $api:literal: $($entry:ident $symbol:literal),+;)+) => {
        /// An exported symbol of this library that is counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Entry {
            $($(#[doc = $symbol] $entry,)+)+
        }

        /// The APIs, in the order of [`APIS`].
        #[derive(Clone, Copy)]
        enum Api {
            $($name,)+
        }

        /// Every API name, in the order of the `end` record. [`Entry::api_index`] points here.
        pub(crate) const APIS: [&str; [$($api),+].len()] = [$($api),+];

        impl Entry {
            /// The symbol, as the `sym` field says it.
            pub(crate) const fn symbol(self) -> &'static str {
                match self {
                    $($(Entry::$entry => $symbol,)+)+
                }
            }

            /// Where its API stands in [`APIS`].
            pub(crate) const fn api_index(self) -> usize {
                match self {
                    $($(Entry::$entry)|+ => Api::$name as usize,)+
                }
            }

            /// The library that it belongs to.
            #[inline(always)]
            pub(crate) fn layer(self) -> Layer {
                const LAYERS: &[Layer] = &[$($(layer_of($symbol),)+)+];
                LAYERS.get(self as usize).copied().unwrap_or(Layer::Driver)
            }

            /// The name that the course's line and the `api` field carry.
            pub(crate) const fn api(self) -> &'static str {
                match self {
                    $($(Entry::$entry)|+ => $api,)+
                }
            }
        }
    };
}

// A `_ptsz` symbol is what code compiled for per-thread default streams calls.
entries! {
    CudaMalloc "cudaMalloc": CudaMalloc "cudaMalloc";
    CudaMallocManaged "cudaMallocManaged": CudaMallocManaged "cudaMallocManaged";
    CudaMallocPitch "cudaMallocPitch": CudaMallocPitch "cudaMallocPitch";
    CudaMalloc3D "cudaMalloc3D": CudaMalloc3D "cudaMalloc3D";
    CudaMallocAsync "cudaMallocAsync":
        CudaMallocAsync "cudaMallocAsync",
        CudaMallocAsyncPtsz "cudaMallocAsync_ptsz";
    CudaMallocFromPoolAsync "cudaMallocFromPoolAsync":
        CudaMallocFromPoolAsync "cudaMallocFromPoolAsync",
        CudaMallocFromPoolAsyncPtsz "cudaMallocFromPoolAsync_ptsz";
    CudaMallocArray "cudaMallocArray": CudaMallocArray "cudaMallocArray";
    CudaMalloc3DArray "cudaMalloc3DArray": CudaMalloc3DArray "cudaMalloc3DArray";
    CudaMallocMipmappedArray "cudaMallocMipmappedArray": CudaMallocMipmappedArray "cudaMallocMipmappedArray";
    CudaFreeArray "cudaFreeArray": CudaFreeArray "cudaFreeArray";
    CudaFreeMipmappedArray "cudaFreeMipmappedArray": CudaFreeMipmappedArray "cudaFreeMipmappedArray";
    CudaFree "cudaFree": CudaFree "cudaFree";
    CudaFreeAsync "cudaFreeAsync":
        CudaFreeAsync "cudaFreeAsync",
        CudaFreeAsyncPtsz "cudaFreeAsync_ptsz";
    CudaHostAlloc "cudaHostAlloc": CudaHostAlloc "cudaHostAlloc";
    CudaMallocHost "cudaMallocHost": CudaMallocHost "cudaMallocHost";
    CudaFreeHost "cudaFreeHost": CudaFreeHost "cudaFreeHost";
    CudaDeviceReset "cudaDeviceReset": CudaDeviceReset "cudaDeviceReset";
    // nvcc 13 emits the symbols with the underscores for `<<<…>>>`.
    CudaLaunchKernel "cudaLaunchKernel":
        CudaLaunchKernel "cudaLaunchKernel",
        CudaLaunchKernelPtsz "cudaLaunchKernel_ptsz",
        UnderscoreLaunchKernel "__cudaLaunchKernel",
        UnderscoreLaunchKernelPtsz "__cudaLaunchKernel_ptsz";
    CudaLaunchKernelExC "cudaLaunchKernelExC":
        CudaLaunchKernelExC "cudaLaunchKernelExC",
        CudaLaunchKernelExCPtsz "cudaLaunchKernelExC_ptsz";
    CudaGraphLaunch "cudaGraphLaunch":
        CudaGraphLaunch "cudaGraphLaunch",
        CudaGraphLaunchPtsz "cudaGraphLaunch_ptsz";
    CudaLaunchCooperativeKernel "cudaLaunchCooperativeKernel":
        CudaLaunchCooperativeKernel "cudaLaunchCooperativeKernel",
        CudaLaunchCooperativeKernelPtsz "cudaLaunchCooperativeKernel_ptsz";
    CuMemAlloc "cuMemAlloc_v2": CuMemAlloc "cuMemAlloc_v2";
    CuMemAllocManaged "cuMemAllocManaged": CuMemAllocManaged "cuMemAllocManaged";
    CuMemAllocPitch "cuMemAllocPitch_v2": CuMemAllocPitch "cuMemAllocPitch_v2";
    CuMemAllocAsync "cuMemAllocAsync":
        CuMemAllocAsync "cuMemAllocAsync",
        CuMemAllocAsyncPtsz "cuMemAllocAsync_ptsz";
    CuMemAllocFromPoolAsync "cuMemAllocFromPoolAsync":
        CuMemAllocFromPoolAsync "cuMemAllocFromPoolAsync",
        CuMemAllocFromPoolAsyncPtsz "cuMemAllocFromPoolAsync_ptsz";
    CuMemCreate "cuMemCreate": CuMemCreate "cuMemCreate";
    CuArrayCreate "cuArrayCreate_v2": CuArrayCreate "cuArrayCreate_v2";
    CuArray3DCreate "cuArray3DCreate_v2": CuArray3DCreate "cuArray3DCreate_v2";
    CuMipmappedArrayCreate "cuMipmappedArrayCreate": CuMipmappedArrayCreate "cuMipmappedArrayCreate";
    CuMemFree "cuMemFree_v2": CuMemFree "cuMemFree_v2";
    CuMemFreeAsync "cuMemFreeAsync":
        CuMemFreeAsync "cuMemFreeAsync",
        CuMemFreeAsyncPtsz "cuMemFreeAsync_ptsz";
    CuMemRelease "cuMemRelease": CuMemRelease "cuMemRelease";
    CuMemUnmap "cuMemUnmap": CuMemUnmap "cuMemUnmap";
    CuArrayDestroy "cuArrayDestroy": CuArrayDestroy "cuArrayDestroy";
    CuMipmappedArrayDestroy "cuMipmappedArrayDestroy": CuMipmappedArrayDestroy "cuMipmappedArrayDestroy";
    CuMemHostAlloc "cuMemHostAlloc": CuMemHostAlloc "cuMemHostAlloc";
    CuMemAllocHost "cuMemAllocHost_v2": CuMemAllocHost "cuMemAllocHost_v2";
    CuMemFreeHost "cuMemFreeHost": CuMemFreeHost "cuMemFreeHost";
    CuCtxDestroy "cuCtxDestroy_v2": CuCtxDestroy "cuCtxDestroy_v2";
    CuDevicePrimaryCtxReset "cuDevicePrimaryCtxReset_v2":
        CuDevicePrimaryCtxReset "cuDevicePrimaryCtxReset_v2",
        CuDevicePrimaryCtxResetV1 "cuDevicePrimaryCtxReset";
    CuDevicePrimaryCtxRelease "cuDevicePrimaryCtxRelease_v2":
        CuDevicePrimaryCtxRelease "cuDevicePrimaryCtxRelease_v2",
        CuDevicePrimaryCtxReleaseV1 "cuDevicePrimaryCtxRelease";
    CuLaunchKernel "cuLaunchKernel":
        CuLaunchKernel "cuLaunchKernel",
        CuLaunchKernelPtsz "cuLaunchKernel_ptsz";
    CuLaunchKernelEx "cuLaunchKernelEx":
        CuLaunchKernelEx "cuLaunchKernelEx",
        CuLaunchKernelExPtsz "cuLaunchKernelEx_ptsz";
    CuLaunchCooperativeKernel "cuLaunchCooperativeKernel":
        CuLaunchCooperativeKernel "cuLaunchCooperativeKernel",
        CuLaunchCooperativeKernelPtsz "cuLaunchCooperativeKernel_ptsz";
    CuGraphLaunch "cuGraphLaunch":
        CuGraphLaunch "cuGraphLaunch",
        CuGraphLaunchPtsz "cuGraphLaunch_ptsz";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_has_its_place_among_the_apis() {
        assert_eq!(Entry::CudaMalloc.api_index(), 0);
        assert_eq!(APIS.get(Entry::UnderscoreLaunchKernel.api_index()), Some(&"cudaLaunchKernel"));
        assert_eq!(Entry::UnderscoreLaunchKernelPtsz.api(), "cudaLaunchKernel");
        assert_eq!(APIS.get(Entry::CudaLaunchCooperativeKernelPtsz.api_index()), Some(&"cudaLaunchCooperativeKernel"));
        assert_eq!(Entry::CuGraphLaunchPtsz.api_index(), APIS.len() - 1);
    }

    #[test]
    fn an_entry_knows_its_library() {
        assert_eq!(Entry::CudaMalloc.layer(), Layer::Runtime);
        assert_eq!(Entry::UnderscoreLaunchKernelPtsz.layer(), Layer::Runtime);
        assert_eq!(Entry::CuMemAlloc.layer(), Layer::Driver);
        assert_eq!(Entry::CuGraphLaunchPtsz.layer(), Layer::Driver);
    }
}
