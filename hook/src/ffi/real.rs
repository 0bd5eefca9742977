//! The real functions, found on first use: behind us in the loader's order, else in a libcudart that a plugin loaded
//! for itself. A library that was found is pinned, so that a cached address never dangles.

use std::ffi::{CStr, c_void};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use super::os;
use super::types::{CDim3, CudaError, Handle};

/// Runtimes that a program may have loaded out of the global scope (Python modules do), newest first.
const RUNTIMES: [&CStr; 3] = [c"libcudart.so.13", c"libcudart.so.12", c"libcudart.so.11.0"];

/// `cudaMalloc`.
pub(crate) static CUDA_MALLOC: Symbol<unsafe extern "C" fn(*mut *mut c_void, usize) -> CudaError> =
    Symbol::new(c"cudaMalloc");
/// `cudaFree`.
pub(crate) static CUDA_FREE: Symbol<unsafe extern "C" fn(*mut c_void) -> CudaError> = Symbol::new(c"cudaFree");
/// `cudaGetDevice`.
pub(crate) static CUDA_GET_DEVICE: Symbol<unsafe extern "C" fn(*mut i32) -> CudaError> = Symbol::new(c"cudaGetDevice");
/// `cudaGetLastError`.
pub(crate) static CUDA_GET_LAST_ERROR: Symbol<unsafe extern "C" fn() -> CudaError> = Symbol::new(c"cudaGetLastError");
/// `cudaPeekAtLastError`.
pub(crate) static CUDA_PEEK_AT_LAST_ERROR: Symbol<unsafe extern "C" fn() -> CudaError> =
    Symbol::new(c"cudaPeekAtLastError");

/// The four launch symbols share one signature: a function (host stub or kernel handle), grid, block, arguments,
/// dynamic shared memory, stream.
pub(crate) type Launch =
    unsafe extern "C" fn(*const c_void, CDim3, CDim3, *mut *mut c_void, usize, Handle) -> CudaError;
/// `cudaLaunchKernel`.
pub(crate) static CUDA_LAUNCH_KERNEL: Symbol<Launch> = Symbol::new(c"cudaLaunchKernel");
/// `cudaLaunchKernel_ptsz`.
pub(crate) static CUDA_LAUNCH_KERNEL_PTSZ: Symbol<Launch> = Symbol::new(c"cudaLaunchKernel_ptsz");
/// `__cudaLaunchKernel`.
pub(crate) static UNDERSCORE_LAUNCH_KERNEL: Symbol<Launch> = Symbol::new(c"__cudaLaunchKernel");
/// `__cudaLaunchKernel_ptsz`.
pub(crate) static UNDERSCORE_LAUNCH_KERNEL_PTSZ: Symbol<Launch> = Symbol::new(c"__cudaLaunchKernel_ptsz");

/// A function of the real runtime, of type `F`.
pub(crate) struct Symbol<F> {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
    told: AtomicBool,
    function: PhantomData<F>,
}

impl<F: Copy> Symbol<F> {
    /// `F` must be the function-pointer type of the C function `name`.
    const fn new(name: &'static CStr) -> Self {
        assert!(size_of::<F>() == size_of::<*mut c_void>());
        Symbol {
            name,
            address: AtomicPtr::new(std::ptr::null_mut()),
            told: AtomicBool::new(false),
            function: PhantomData,
        }
    }

    /// The function, looked up until it is found: a library may come later.
    pub(crate) fn get(&self) -> Option<F> {
        let mut address = self.address.load(Ordering::Acquire);
        if address.is_null() {
            address = find(self.name);
            if address.is_null() {
                return None;
            }
            self.address.store(address, Ordering::Release);
        }
        // SAFETY: a non-null address came from the dynamic linker for this symbol's name, whose C type `F` is
        // (the statics above name both); sizes are equal by the assertion in `new`.
        Some(unsafe { std::mem::transmute_copy::<*mut c_void, F>(&address) })
    }

    /// The function, or one line for a person that it is missing.
    pub(crate) fn required(&self) -> Option<F> {
        let errno = os::errno();
        let function = self.get();
        if function.is_none() && !self.told.swap(true, Ordering::Relaxed) {
            super::boundary::contain(|| {
                let name = self.name.to_string_lossy();
                crate::state::get().sinks.warn(&format!(
                    "找不到真正的 {name}: 程序没有加载动态的 libcudart.so.11/12/13; 该调用返回错误码 302"
                ));
            });
        }
        os::set_errno(errno);
        function
    }
}

fn find(name: &CStr) -> *mut c_void {
    // SAFETY: `name` is NUL-terminated; RTLD_NEXT asks for the definition behind this library's own.
    let mut address = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    for soname in RUNTIMES {
        if !address.is_null() {
            break;
        }
        // SAFETY: `soname` is NUL-terminated; with RTLD_NOLOAD nothing is loaded, a library that is there is found.
        let library = unsafe { libc::dlopen(soname.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        if !library.is_null() {
            // SAFETY: `library` is a live handle, `name` is NUL-terminated. The handle is not closed: see `pin`.
            address = unsafe { libc::dlsym(library, name.as_ptr()) };
        }
    }
    if address.is_null() {
        // SAFETY: takes nothing; it clears the message of our own failed look-ups, which is not the program's.
        unsafe { libc::dlerror() };
    } else {
        pin(address);
    }
    address
}

/// Makes the library that holds `address` stay: a program that unloads it would leave our cache, or the C library's list
/// of what to call at exit, pointing nowhere.
pub(super) fn pin(address: *mut c_void) {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: `address` is only compared with loaded objects; `info` is a valid place to write to.
    if unsafe { libc::dladdr(address, info.as_mut_ptr()) } == 0 {
        return;
    }
    // SAFETY: zeroed is a valid Dl_info (null pointers), and dladdr has filled it.
    let path = unsafe { info.assume_init() }.dli_fname;
    if !path.is_null() {
        let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
        // SAFETY: `path` is the loader's own NUL-terminated name of an object that is loaded.
        unsafe { libc::dlopen(path, flags) };
    }
}
