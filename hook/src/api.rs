//! The intercepted entry points: the symbol that a program calls and the API name that it is logged under.

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
    }
}
