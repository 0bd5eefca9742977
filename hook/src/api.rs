//! The intercepted entry points: the symbol that a program calls and the API name that it is logged under.

/// An exported symbol of this library that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    CudaMalloc,
    CudaFree,
    CudaLaunchKernel,
    CudaLaunchKernelPtsz,
    /// What nvcc 13 emits for `<<<…>>>`.
    UnderscoreLaunchKernel,
    /// The same with per-thread default streams.
    UnderscoreLaunchKernelPtsz,
}

/// Every API name, in the order of the `end` record. [`Entry::api_index`] points here.
pub(crate) const APIS: [&str; 3] = ["cudaMalloc", "cudaFree", "cudaLaunchKernel"];

impl Entry {
    /// The symbol, as the `sym` field says it.
    pub(crate) const fn symbol(self) -> &'static str {
        match self {
            Entry::CudaMalloc => "cudaMalloc",
            Entry::CudaFree => "cudaFree",
            Entry::CudaLaunchKernel => "cudaLaunchKernel",
            Entry::CudaLaunchKernelPtsz => "cudaLaunchKernel_ptsz",
            Entry::UnderscoreLaunchKernel => "__cudaLaunchKernel",
            Entry::UnderscoreLaunchKernelPtsz => "__cudaLaunchKernel_ptsz",
        }
    }

    /// Where its API stands in [`APIS`].
    pub(crate) const fn api_index(self) -> usize {
        match self {
            Entry::CudaMalloc => 0,
            Entry::CudaFree => 1,
            Entry::CudaLaunchKernel
            | Entry::CudaLaunchKernelPtsz
            | Entry::UnderscoreLaunchKernel
            | Entry::UnderscoreLaunchKernelPtsz => 2,
        }
    }

    /// The name that the course's line and the `api` field carry.
    pub(crate) fn api(self) -> &'static str {
        APIS.get(self.api_index()).copied().unwrap_or("")
    }
}
