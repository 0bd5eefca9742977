//! The driver's functions as programs ask for them: by symbol (`dlsym`), or by plain name, version and kind of stream
//! (`cuGetProcAddress`). A function that is hooked is answered with this library's; the real address is kept for it.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use super::{array, context, hooked, launch, memory, module, real, uncounted, vmm};
use crate::ffi::boundary::contain;
use crate::ffi::dlsym;
use crate::ffi::guard::Guard;
use crate::ffi::symbol::Slot;
use crate::ffi::types::{CudaError, SUCCESS, SYMBOL_NOT_FOUND};

/// The newest version whose functions' forms are known here (`CUDA_VERSION` of the header they were taken from). A name
/// asked for at a later version may mean a new form; see [`by_name`].
const KNOWN_VERSION: c_int = 13_000;

/// Which default stream a function works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    /// It takes no stream.
    None,
    /// The legacy one.
    Legacy,
    /// The thread's own: symbols that end in `_ptsz`.
    PerThread,
}

/// One of the driver's functions.
pub(super) struct Function {
    /// The exported symbol.
    pub(super) symbol: &'static CStr,
    /// The name without suffixes, and the version since which it means this symbol.
    pub(super) name: &'static CStr,
    pub(super) since: c_int,
    pub(super) stream: Stream,
    /// What a program gets instead.
    pub(super) ours: AtomicPtr<c_void>,
    /// Where the real address goes.
    pub(super) real: &'static dyn Slot,
}

/// Rows of a table: symbol, name, version, stream, our function, the real one's place.
macro_rules! functions {
    ($($symbol:literal $name:literal $since:literal $stream:ident $ours:expr, $real:expr;)+) => {
        [$(Function {
            symbol: match CStr::from_bytes_with_nul(concat!($symbol, "\0").as_bytes()) {
                Ok(symbol) => symbol,
                Err(_) => panic!("a NUL in a symbol"),
            },
            name: match CStr::from_bytes_with_nul(concat!($name, "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a NUL in a name"),
            },
            since: $since,
            stream: Stream::$stream,
            ours: AtomicPtr::new($ours as *mut c_void),
            real: &$real,
        }),+]
    };
}
pub(super) use functions;

/// What is hooked. Of several rows with one name the newest comes first. Versions are those of `cudaTypedefs.h`.
#[rustfmt::skip]
static HOOKED: [Function; 42] = functions! {
    "cuGetProcAddress_v2" "cuGetProcAddress" 12000 None cuGetProcAddress_v2, real::GET_PROC_ADDRESS_V2;
    "cuGetProcAddress" "cuGetProcAddress" 11030 None cuGetProcAddress, real::GET_PROC_ADDRESS;
    "cuMemAlloc_v2" "cuMemAlloc" 3020 None memory::cuMemAlloc_v2, real::MEM_ALLOC;
    "cuMemAllocManaged" "cuMemAllocManaged" 6000 None memory::cuMemAllocManaged, real::MEM_ALLOC_MANAGED;
    "cuMemAllocPitch_v2" "cuMemAllocPitch" 3020 None memory::cuMemAllocPitch_v2, real::MEM_ALLOC_PITCH;
    "cuMemAllocAsync" "cuMemAllocAsync" 11020 Legacy memory::cuMemAllocAsync, real::MEM_ALLOC_ASYNC;
    "cuMemAllocAsync_ptsz" "cuMemAllocAsync" 11020 PerThread memory::cuMemAllocAsync_ptsz, real::MEM_ALLOC_ASYNC_PTSZ;
    "cuMemAllocFromPoolAsync" "cuMemAllocFromPoolAsync" 11020 Legacy
        memory::cuMemAllocFromPoolAsync, real::MEM_ALLOC_FROM_POOL_ASYNC;
    "cuMemAllocFromPoolAsync_ptsz" "cuMemAllocFromPoolAsync" 11020 PerThread
        memory::cuMemAllocFromPoolAsync_ptsz, real::MEM_ALLOC_FROM_POOL_ASYNC_PTSZ;
    "cuMemFree_v2" "cuMemFree" 3020 None memory::cuMemFree_v2, real::MEM_FREE;
    "cuMemFreeAsync" "cuMemFreeAsync" 11020 Legacy memory::cuMemFreeAsync, real::MEM_FREE_ASYNC;
    "cuMemFreeAsync_ptsz" "cuMemFreeAsync" 11020 PerThread memory::cuMemFreeAsync_ptsz, real::MEM_FREE_ASYNC_PTSZ;
    "cuMemCreate" "cuMemCreate" 10020 None vmm::cuMemCreate, real::MEM_CREATE;
    "cuMemRelease" "cuMemRelease" 10020 None vmm::cuMemRelease, real::MEM_RELEASE;
    "cuMemMap" "cuMemMap" 10020 None vmm::cuMemMap, real::MEM_MAP;
    "cuMemUnmap" "cuMemUnmap" 10020 None vmm::cuMemUnmap, real::MEM_UNMAP;
    "cuMemRetainAllocationHandle" "cuMemRetainAllocationHandle" 11000 None
        vmm::cuMemRetainAllocationHandle, real::MEM_RETAIN_ALLOCATION_HANDLE;
    "cuArrayCreate_v2" "cuArrayCreate" 3020 None array::cuArrayCreate_v2, real::ARRAY_CREATE;
    "cuArray3DCreate_v2" "cuArray3DCreate" 3020 None array::cuArray3DCreate_v2, real::ARRAY_3D_CREATE;
    "cuMipmappedArrayCreate" "cuMipmappedArrayCreate" 5000 None
        array::cuMipmappedArrayCreate, real::MIPMAPPED_ARRAY_CREATE;
    "cuArrayDestroy" "cuArrayDestroy" 2000 None array::cuArrayDestroy, real::ARRAY_DESTROY;
    "cuMipmappedArrayDestroy" "cuMipmappedArrayDestroy" 5000 None
        array::cuMipmappedArrayDestroy, real::MIPMAPPED_ARRAY_DESTROY;
    "cuMemHostAlloc" "cuMemHostAlloc" 2020 None memory::cuMemHostAlloc, real::MEM_HOST_ALLOC;
    "cuMemAllocHost_v2" "cuMemAllocHost" 3020 None memory::cuMemAllocHost_v2, real::MEM_ALLOC_HOST;
    "cuMemFreeHost" "cuMemFreeHost" 2000 None memory::cuMemFreeHost, real::MEM_FREE_HOST;
    "cuMemGetInfo_v2" "cuMemGetInfo" 3020 None memory::cuMemGetInfo_v2, real::MEM_GET_INFO;
    "cuDeviceTotalMem_v2" "cuDeviceTotalMem" 3020 None memory::cuDeviceTotalMem_v2, real::DEVICE_TOTAL_MEM;
    "cuDevicePrimaryCtxReset_v2" "cuDevicePrimaryCtxReset" 11000 None
        context::cuDevicePrimaryCtxReset_v2, real::DEVICE_PRIMARY_CTX_RESET;
    "cuDevicePrimaryCtxReset" "cuDevicePrimaryCtxReset" 7000 None
        context::cuDevicePrimaryCtxReset, real::DEVICE_PRIMARY_CTX_RESET_V1;
    "cuDevicePrimaryCtxRelease_v2" "cuDevicePrimaryCtxRelease" 11000 None
        context::cuDevicePrimaryCtxRelease_v2, real::DEVICE_PRIMARY_CTX_RELEASE;
    "cuDevicePrimaryCtxRelease" "cuDevicePrimaryCtxRelease" 7000 None
        context::cuDevicePrimaryCtxRelease, real::DEVICE_PRIMARY_CTX_RELEASE_V1;
    "cuCtxDestroy_v2" "cuCtxDestroy" 4000 None context::cuCtxDestroy_v2, real::CTX_DESTROY;
    "cuLaunchKernel" "cuLaunchKernel" 4000 Legacy launch::cuLaunchKernel, real::LAUNCH_KERNEL;
    "cuLaunchKernel_ptsz" "cuLaunchKernel" 7000 PerThread launch::cuLaunchKernel_ptsz, real::LAUNCH_KERNEL_PTSZ;
    "cuLaunchKernelEx" "cuLaunchKernelEx" 11060 Legacy launch::cuLaunchKernelEx, real::LAUNCH_KERNEL_EX;
    "cuLaunchKernelEx_ptsz" "cuLaunchKernelEx" 11060 PerThread
        launch::cuLaunchKernelEx_ptsz, real::LAUNCH_KERNEL_EX_PTSZ;
    "cuLaunchCooperativeKernel" "cuLaunchCooperativeKernel" 9000 Legacy
        launch::cuLaunchCooperativeKernel, real::LAUNCH_COOPERATIVE_KERNEL;
    "cuLaunchCooperativeKernel_ptsz" "cuLaunchCooperativeKernel" 9000 PerThread
        launch::cuLaunchCooperativeKernel_ptsz, real::LAUNCH_COOPERATIVE_KERNEL_PTSZ;
    "cuGraphLaunch" "cuGraphLaunch" 10000 Legacy launch::cuGraphLaunch, real::GRAPH_LAUNCH;
    "cuGraphLaunch_ptsz" "cuGraphLaunch" 10000 PerThread launch::cuGraphLaunch_ptsz, real::GRAPH_LAUNCH_PTSZ;
    "cuModuleUnload" "cuModuleUnload" 2000 None module::cuModuleUnload, real::MODULE_UNLOAD;
    "cuLibraryUnload" "cuLibraryUnload" 12000 None module::cuLibraryUnload, real::LIBRARY_UNLOAD;
};

fn all() -> impl Iterator<Item = &'static Function> {
    HOOKED.iter().chain(&uncounted::FUNCTIONS)
}

impl Function {
    /// Keeps `real` and answers with ours.
    fn replace(&self, real: *mut c_void) -> *mut c_void {
        let ours = self.ours.load(Ordering::Relaxed);
        // A library that links to the driver may have found ours already.
        if real != ours {
            self.real.offer(real);
        }
        ours
    }
}

/// The answer to `dlsym(library, symbol)`; null when it is the real one's to give.
pub(in crate::ffi) fn by_symbol(library: *mut c_void, symbol: &CStr) -> *mut c_void {
    let Some(function) = all().find(|function| function.symbol == symbol) else { return std::ptr::null_mut() };
    if !hooked() {
        return std::ptr::null_mut();
    }
    let real = dlsym::real(library, symbol);
    // Another library may have functions of these names too, and they are none of ours.
    let drivers = !real.is_null() && (real == exported(symbol) || real == function.ours.load(Ordering::Relaxed));
    if drivers { function.replace(real) } else { std::ptr::null_mut() }
}

/// The answer to `cuGetProcAddress(name, version, flags)`, to which the driver's own is `real`.
///
/// A version later than any that is known here may ask for a form that is not: then the driver's answer must be the
/// very function that the known symbol stands for, or it is left as it is.
fn by_name(name: &CStr, version: c_int, flags: u64, real: *mut c_void) -> *mut c_void {
    /// `CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM`.
    const PER_THREAD: u64 = 2;
    let stream = if flags & PER_THREAD == 0 { Stream::Legacy } else { Stream::PerThread };
    let meant = |function: &&Function| {
        function.name == name && version >= function.since && [Stream::None, stream].contains(&function.stream)
    };
    let Some(function) = all().find(meant) else { return real };
    if !hooked() || version > KNOWN_VERSION && exported(function.symbol) != real {
        return real;
    }
    function.replace(real)
}

/// The driver's own address of a symbol.
fn exported(symbol: &CStr) -> *mut c_void {
    // SAFETY: NUL-terminated; with RTLD_NOLOAD nothing is loaded. The library is asked, so it is there.
    let driver = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if driver.is_null() { driver } else { dlsym::real(driver, symbol) }
}

/// Puts our function in place of the driver's answer.
///
/// # Safety
/// `name` is a string, `place` valid for reading and writing a pointer; the real call has succeeded with both.
unsafe fn replace(name: *const c_char, place: *mut *mut c_void, version: c_int, flags: u64) {
    let _errno = Guard::enter();
    contain(|| {
        // SAFETY: by contract.
        let name = unsafe { CStr::from_ptr(name) };
        // SAFETY: by contract; the real call wrote there.
        let real = unsafe { place.read() };
        if !real.is_null() {
            // SAFETY: by contract.
            unsafe { place.write(by_name(name, version, flags, real)) };
        }
    });
}

/// `cuGetProcAddress` of CUDA 12 and later: what is hooked is answered with this library's functions.
///
/// # Safety
/// `name` is a string, `place` valid for writing a pointer, `status` null or valid for writing
/// (<https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__DRIVER__ENTRY__POINT.html>).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetProcAddress_v2(
    name: *const c_char,
    place: *mut *mut c_void,
    version: c_int,
    flags: u64,
    status: *mut c_int,
) -> CudaError {
    let Some(real) = real::GET_PROC_ADDRESS_V2.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: the caller's own arguments, to the function that it meant to call.
    let answer = unsafe { real(name, place, version, flags, status) };
    if answer == SUCCESS && !name.is_null() && !place.is_null() {
        // SAFETY: the caller's contract, and not null.
        unsafe { replace(name, place, version, flags) };
    }
    answer
}

/// `cuGetProcAddress` of CUDA 11.
///
/// # Safety
/// As [`cuGetProcAddress_v2`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetProcAddress(
    name: *const c_char,
    place: *mut *mut c_void,
    version: c_int,
    flags: u64,
) -> CudaError {
    let Some(real) = real::GET_PROC_ADDRESS.required() else { return SYMBOL_NOT_FOUND };
    // SAFETY: the caller's own arguments, to the function that it meant to call.
    let answer = unsafe { real(name, place, version, flags) };
    if answer == SUCCESS && !name.is_null() && !place.is_null() {
        // SAFETY: the caller's contract, and not null.
        unsafe { replace(name, place, version, flags) };
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &CStr, version: c_int, flags: u64) -> Option<&'static CStr> {
        let real = std::ptr::without_provenance_mut(0x1000);
        let answer = by_name(name, version, flags, real);
        (answer != real).then(|| all().find(|f| f.ours.load(Ordering::Relaxed) == answer).expect("one of ours").symbol)
    }

    #[test]
    fn a_name_means_the_newest_form_that_its_version_knows() {
        assert_eq!(found(c"cuMemAlloc", 3020, 0), Some(c"cuMemAlloc_v2"));
        assert_eq!(found(c"cuMemAlloc", 13_000, 2), Some(c"cuMemAlloc_v2"));
        assert_eq!(found(c"cuLaunchKernel", 4000, 0), Some(c"cuLaunchKernel"));
        assert_eq!(found(c"cuLaunchKernel", 7000, 2), Some(c"cuLaunchKernel_ptsz"));
        assert_eq!(found(c"cuLaunchKernel", 7000, 1), Some(c"cuLaunchKernel"));
        assert_eq!(found(c"cuDevicePrimaryCtxReset", 7000, 0), Some(c"cuDevicePrimaryCtxReset"));
        assert_eq!(found(c"cuDevicePrimaryCtxReset", 12_000, 0), Some(c"cuDevicePrimaryCtxReset_v2"));
        // The 32-bit form of 2010, of another signature: let through, but noticed.
        assert_eq!(found(c"cuMemAlloc", 2000, 0), Some(c"cuMemAlloc"));
        assert_eq!(found(c"cuInit", 13_000, 0), None);
    }

    /// Where no driver is loaded nothing can be the same as its symbol.
    #[test]
    fn a_form_of_a_later_version_is_left_alone_unless_it_is_the_same() {
        assert_eq!(found(c"cuMemAlloc", KNOWN_VERSION + 1, 0), None);
    }

    #[test]
    fn symbols_are_unique() {
        let mut symbols: Vec<&CStr> = all().map(|function| function.symbol).collect();
        let count = symbols.len();
        symbols.sort_unstable();
        symbols.dedup();
        assert_eq!(symbols.len(), count);
    }
}
