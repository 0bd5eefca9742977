//! The intercepted entry points: the symbol that a program calls and the API name that it is logged under.

macro_rules! entries {
    ($($api:literal: $($entry:ident $symbol:literal),+;)+) => {
        /// An exported symbol of this library that is counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Entry {
            $($(#[doc = $symbol] $entry,)+)+
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
    "cudaMalloc": CudaMalloc "cudaMalloc";
    "cudaMallocManaged": CudaMallocManaged "cudaMallocManaged";
    "cudaMallocPitch": CudaMallocPitch "cudaMallocPitch";
    "cudaMalloc3D": CudaMalloc3D "cudaMalloc3D";
    "cudaMallocAsync":
        CudaMallocAsync "cudaMallocAsync",
        CudaMallocAsyncPtsz "cudaMallocAsync_ptsz";
    "cudaMallocFromPoolAsync":
        CudaMallocFromPoolAsync "cudaMallocFromPoolAsync",
        CudaMallocFromPoolAsyncPtsz "cudaMallocFromPoolAsync_ptsz";
    "cudaMallocArray": CudaMallocArray "cudaMallocArray";
    "cudaMalloc3DArray": CudaMalloc3DArray "cudaMalloc3DArray";
    "cudaMallocMipmappedArray": CudaMallocMipmappedArray "cudaMallocMipmappedArray";
    "cudaFreeArray": CudaFreeArray "cudaFreeArray";
    "cudaFreeMipmappedArray": CudaFreeMipmappedArray "cudaFreeMipmappedArray";
    "cudaFree": CudaFree "cudaFree";
    "cudaFreeAsync":
        CudaFreeAsync "cudaFreeAsync",
        CudaFreeAsyncPtsz "cudaFreeAsync_ptsz";
    "cudaDeviceReset": CudaDeviceReset "cudaDeviceReset";
    // nvcc 13 emits the symbols with the underscores for `<<<…>>>`.
    "cudaLaunchKernel":
        CudaLaunchKernel "cudaLaunchKernel",
        CudaLaunchKernelPtsz "cudaLaunchKernel_ptsz",
        UnderscoreLaunchKernel "__cudaLaunchKernel",
        UnderscoreLaunchKernelPtsz "__cudaLaunchKernel_ptsz";
    "cudaLaunchKernelExC":
        CudaLaunchKernelExC "cudaLaunchKernelExC",
        CudaLaunchKernelExCPtsz "cudaLaunchKernelExC_ptsz";
    "cudaGraphLaunch":
        CudaGraphLaunch "cudaGraphLaunch",
        CudaGraphLaunchPtsz "cudaGraphLaunch_ptsz";
    "cudaLaunchCooperativeKernel":
        CudaLaunchCooperativeKernel "cudaLaunchCooperativeKernel",
        CudaLaunchCooperativeKernelPtsz "cudaLaunchCooperativeKernel_ptsz";
}

impl Entry {
    /// Where its API stands in [`APIS`].
    pub(crate) fn api_index(self) -> usize {
        APIS.iter().position(|api| *api == self.api()).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_has_its_place_among_the_apis() {
        assert_eq!(Entry::CudaMalloc.api_index(), 0);
        assert_eq!(Entry::UnderscoreLaunchKernelPtsz.api(), "cudaLaunchKernel");
        assert_eq!(APIS.get(Entry::CudaLaunchCooperativeKernelPtsz.api_index()), Some(&"cudaLaunchCooperativeKernel"));
    }
}
