//! The real functions, found on first use: behind us in the loader's order, else in a libcudart that a plugin loaded
//! for itself. A library that was found is pinned, so that a cached address never dangles.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use super::guard::Guard;
use super::types::{CDim3, ChannelDesc, CudaError, Extent, Handle, LaunchConfig, PitchedPtr};

/// Runtimes that a program may have loaded out of the global scope (Python modules do), newest first.
const RUNTIMES: [&CStr; 3] = [c"libcudart.so.13", c"libcudart.so.12", c"libcudart.so.11.0"];

/// Functions of the runtime that take what their types say.
macro_rules! symbols {
    ($($name:ident $symbol:literal: $type:ty;)+) => {
        $(#[doc = $symbol] pub(crate) static $name: Symbol<$type> = {
            // The C string that the loader is asked for; literals here hold no NUL.
            match CStr::from_bytes_with_nul(concat!($symbol, "\0").as_bytes()) {
                Ok(name) => Symbol::new(name),
                Err(_) => panic!("a NUL in a symbol's name"),
            }
        };)+
    };
}

/// The launch symbols share one signature: a function (host stub or kernel handle), grid, block, arguments, dynamic
/// shared memory, stream.
pub(crate) type Launch =
    unsafe extern "C" fn(*const c_void, CDim3, CDim3, *mut *mut c_void, usize, Handle) -> CudaError;
/// `cudaLaunchKernelExC`: configuration, function, arguments.
pub(crate) type LaunchEx = unsafe extern "C" fn(*const LaunchConfig, *const c_void, *mut *mut c_void) -> CudaError;
/// `cudaMallocAsync`.
pub(crate) type MallocAsync = unsafe extern "C" fn(*mut *mut c_void, usize, Handle) -> CudaError;
/// `cudaMallocFromPoolAsync`.
pub(crate) type MallocFromPool = unsafe extern "C" fn(*mut *mut c_void, usize, Handle, Handle) -> CudaError;
/// `cudaFreeAsync`.
pub(crate) type FreeAsync = unsafe extern "C" fn(*mut c_void, Handle) -> CudaError;

/// `cudaGraphLaunch`.
pub(crate) type GraphLaunch = unsafe extern "C" fn(Handle, Handle) -> CudaError;
/// `__cudaRegisterFunction` of `crt/host_runtime.h`.
pub(crate) type RegisterFunction = unsafe extern "C" fn(
    *mut *mut c_void,
    *const c_char,
    *mut c_char,
    *const c_char,
    c_int,
    *mut c_void,
    *mut c_void,
    *mut c_void,
    *mut c_void,
    *mut c_int,
);

symbols! {
    REGISTER_FUNCTION "__cudaRegisterFunction": RegisterFunction;
    GET_KERNEL "__cudaGetKernel": unsafe extern "C" fn(*mut Handle, *const c_void) -> CudaError;
    UNREGISTER_FAT_BINARY "__cudaUnregisterFatBinary": unsafe extern "C" fn(*mut *mut c_void);
    CUDA_MALLOC "cudaMalloc": unsafe extern "C" fn(*mut *mut c_void, usize) -> CudaError;
    CUDA_MALLOC_MANAGED "cudaMallocManaged": unsafe extern "C" fn(*mut *mut c_void, usize, u32) -> CudaError;
    CUDA_MALLOC_PITCH "cudaMallocPitch":
        unsafe extern "C" fn(*mut *mut c_void, *mut usize, usize, usize) -> CudaError;
    CUDA_MALLOC_3D "cudaMalloc3D": unsafe extern "C" fn(*mut PitchedPtr, Extent) -> CudaError;
    CUDA_MALLOC_ASYNC "cudaMallocAsync": MallocAsync;
    CUDA_MALLOC_ASYNC_PTSZ "cudaMallocAsync_ptsz": MallocAsync;
    CUDA_MALLOC_FROM_POOL_ASYNC "cudaMallocFromPoolAsync": MallocFromPool;
    CUDA_MALLOC_FROM_POOL_ASYNC_PTSZ "cudaMallocFromPoolAsync_ptsz": MallocFromPool;
    CUDA_MALLOC_ARRAY "cudaMallocArray":
        unsafe extern "C" fn(*mut *mut c_void, *const ChannelDesc, usize, usize, u32) -> CudaError;
    CUDA_MALLOC_3D_ARRAY "cudaMalloc3DArray":
        unsafe extern "C" fn(*mut *mut c_void, *const ChannelDesc, Extent, u32) -> CudaError;
    CUDA_MALLOC_MIPMAPPED_ARRAY "cudaMallocMipmappedArray":
        unsafe extern "C" fn(*mut *mut c_void, *const ChannelDesc, Extent, u32, u32) -> CudaError;
    CUDA_FREE_ARRAY "cudaFreeArray": unsafe extern "C" fn(*mut c_void) -> CudaError;
    CUDA_FREE_MIPMAPPED_ARRAY "cudaFreeMipmappedArray": unsafe extern "C" fn(*mut c_void) -> CudaError;
    CUDA_FREE "cudaFree": unsafe extern "C" fn(*mut c_void) -> CudaError;
    CUDA_FREE_ASYNC "cudaFreeAsync": FreeAsync;
    CUDA_FREE_ASYNC_PTSZ "cudaFreeAsync_ptsz": FreeAsync;
    CUDA_DEVICE_RESET "cudaDeviceReset": unsafe extern "C" fn() -> CudaError;
    CUDA_MEM_GET_INFO "cudaMemGetInfo": unsafe extern "C" fn(*mut usize, *mut usize) -> CudaError;
    CUDA_GET_DEVICE "cudaGetDevice": unsafe extern "C" fn(*mut i32) -> CudaError;
    CUDA_GET_LAST_ERROR "cudaGetLastError": unsafe extern "C" fn() -> CudaError;
    CUDA_PEEK_AT_LAST_ERROR "cudaPeekAtLastError": unsafe extern "C" fn() -> CudaError;
    CUDA_LAUNCH_KERNEL "cudaLaunchKernel": Launch;
    CUDA_LAUNCH_KERNEL_PTSZ "cudaLaunchKernel_ptsz": Launch;
    UNDERSCORE_LAUNCH_KERNEL "__cudaLaunchKernel": Launch;
    UNDERSCORE_LAUNCH_KERNEL_PTSZ "__cudaLaunchKernel_ptsz": Launch;
    CUDA_LAUNCH_COOPERATIVE_KERNEL "cudaLaunchCooperativeKernel": Launch;
    CUDA_LAUNCH_COOPERATIVE_KERNEL_PTSZ "cudaLaunchCooperativeKernel_ptsz": Launch;
    CUDA_GRAPH_LAUNCH "cudaGraphLaunch": GraphLaunch;
    CUDA_GRAPH_LAUNCH_PTSZ "cudaGraphLaunch_ptsz": GraphLaunch;
    CUDA_LAUNCH_KERNEL_EX_C "cudaLaunchKernelExC": LaunchEx;
    CUDA_LAUNCH_KERNEL_EX_C_PTSZ "cudaLaunchKernelExC_ptsz": LaunchEx;
}

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
    #[inline(always)]
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
    #[inline(always)]
    pub(crate) fn required(&self) -> Option<F> {
        if !self.address.load(Ordering::Acquire).is_null() {
            return self.get();
        }
        self.look_up()
    }

    #[cold]
    fn look_up(&self) -> Option<F> {
        // Looking it up and writing are the hook's own work: neither `errno` nor a cancelled thread may show it.
        let _guard = Guard::enter();
        let function = self.get();
        if function.is_none() && !self.told.swap(true, Ordering::Relaxed) {
            super::boundary::contain(|| {
                let name = self.name.to_string_lossy();
                crate::state::get().sinks.warn(&format!(
                    "找不到真正的 {name}: 程序没有加载动态的 libcudart.so.11/12/13; 该调用返回错误码 302"
                ));
            });
        }
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
