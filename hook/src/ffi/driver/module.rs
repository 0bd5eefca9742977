//! Unloading: handles of kernels may come again for others, so their names are forgotten.

use super::{hooked, real};
use crate::ffi::boundary::contain;
use crate::ffi::guard::Guard;
use crate::ffi::symbol::Symbol;
use crate::ffi::types::{CudaError, Handle, SYMBOL_NOT_FOUND};
use crate::names;

/// `cuModuleUnload`.
///
/// # Safety
/// `module` is a live module (<https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MODULE.html>).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleUnload(module: Handle) -> CudaError {
    // SAFETY: the caller's contract is the one asked for here.
    unsafe { unload(&real::MODULE_UNLOAD, module) }
}

/// `cuLibraryUnload`.
///
/// # Safety
/// `library` is a live library (<https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__LIBRARY.html>).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLibraryUnload(library: Handle) -> CudaError {
    // SAFETY: the caller's contract is the one asked for here.
    unsafe { unload(&real::LIBRARY_UNLOAD, library) }
}

/// # Safety
/// As the exports above.
unsafe fn unload(symbol: &'static Symbol<real::OnHandle>, handle: Handle) -> CudaError {
    let Some(real) = symbol.required() else { return SYMBOL_NOT_FOUND };
    {
        let _errno = Guard::enter();
        contain(|| {
            if hooked() {
                names::forget_handles();
            }
        });
    }
    // SAFETY: the caller's own argument, to the function that it meant to call.
    unsafe { real(handle) }
}
