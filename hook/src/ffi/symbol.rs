//! A function of the real CUDA libraries, found on first use: given by the driver itself (`cuGetProcAddress`), else
//! behind us in the loader's order, else in a library that a plugin loaded for itself. A library that was found is
//! pinned, so that a cached address never dangles.

use std::ffi::{CStr, c_void};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use super::dlsym;
use super::guard::Guard;

/// A library of NVIDIA's: the names it goes by, and what a person is told when it lacks a function.
#[derive(Debug)]
pub(crate) struct Library {
    /// Newest first. A program may have loaded it out of the global scope (Python modules do).
    sonames: &'static [&'static CStr],
    missing: &'static str,
}

impl Library {
    /// Says once that the library is there in two versions: its functions are found in one of them only.
    fn warn_of_two(&self) {
        static TOLD: AtomicBool = AtomicBool::new(false);
        let loaded: Vec<&CStr> = self.sonames.iter().copied().filter(|soname| !open_loaded(soname).is_null()).collect();
        if let [first, second, ..] = *loaded
            && !TOLD.swap(true, Ordering::Relaxed)
        {
            let (first, second) = (first.to_string_lossy(), second.to_string_lossy());
            // "Both … and … are in the process: their calls all go to the one that was found first, which may fail".
            crate::state::get().sinks.warn(&format!(
                "进程中同时有 {first} 和 {second}: 两者的调用都会转到先找到的那一个, 可能出错; 这样的程序不宜使用本 hook"
            ));
        }
    }
}

/// A handle of a library that is loaded; null for one that is not.
fn open_loaded(soname: &CStr) -> *mut c_void {
    // SAFETY: `soname` is NUL-terminated; with RTLD_NOLOAD nothing is loaded, a library that is there is found.
    unsafe { libc::dlopen(soname.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) }
}

/// The shared runtime.
pub(crate) static RUNTIME: Library = Library {
    sonames: &[c"libcudart.so.13", c"libcudart.so.12", c"libcudart.so.11.0"],
    // "The program has loaded no shared libcudart".
    missing: "程序没有加载动态的 libcudart.so.11/12/13",
};

/// The driver.
pub(crate) static DRIVER: Library = Library {
    sonames: &[c"libcuda.so.1"],
    // "The program has loaded no libcuda, or one too old to have this function".
    missing: "程序没有加载 libcuda.so.1, 或其版本没有这个函数",
};

/// Functions of a library that take what their types say.
macro_rules! symbols {
    ($library:ident; $($name:ident $symbol:literal: $type:ty;)+) => {
        $(#[doc = $symbol] pub(crate) static $name: Symbol<$type> = {
            // The C string that the loader is asked for; literals here hold no NUL.
            match std::ffi::CStr::from_bytes_with_nul(concat!($symbol, "\0").as_bytes()) {
                Ok(name) => Symbol::new(&$library, name),
                Err(_) => panic!("a NUL in a symbol's name"),
            }
        };)+
    };
}
pub(crate) use symbols;

/// A function of type `F`.
pub(crate) struct Symbol<F> {
    library: &'static Library,
    name: &'static CStr,
    /// The next function of this name behind ours, which may be another preloaded library's.
    address: AtomicPtr<c_void>,
    /// The library's own.
    own: AtomicPtr<c_void>,
    told: AtomicBool,
    function: PhantomData<F>,
}

impl<F> Symbol<F> {
    /// Where the address of the library's own function is.
    pub(super) const OWN: usize = std::mem::offset_of!(Self, own);
}

impl<F: Copy> Symbol<F> {
    /// `F` must be the function-pointer type of the C function `name`.
    pub(crate) const fn new(library: &'static Library, name: &'static CStr) -> Self {
        assert!(size_of::<F>() == size_of::<*mut c_void>());
        Symbol {
            library,
            name,
            address: AtomicPtr::new(std::ptr::null_mut()),
            own: AtomicPtr::new(std::ptr::null_mut()),
            told: AtomicBool::new(false),
            function: PhantomData,
        }
    }

    /// The function, looked up until it is found: a library may come later.
    #[inline(always)]
    pub(crate) fn get(&self) -> Option<F> {
        let mut address = self.address.load(Ordering::Acquire);
        if address.is_null() {
            address = find(self.library, self.name);
            if address.is_null() {
                return None;
            }
            self.address.store(address, Ordering::Release);
        }
        // SAFETY: a non-null address came from the dynamic linker for this symbol's name, whose C type `F` is
        // (the statics above name both); sizes are equal by the assertion in `new`.
        Some(unsafe { std::mem::transmute_copy::<*mut c_void, F>(&address) })
    }

    /// The library's own function, where it was given out.
    #[inline(always)]
    pub(crate) fn own(&self) -> Option<F> {
        let own = self.own.load(Ordering::Acquire);
        // SAFETY: as in `get`.
        (!own.is_null()).then(|| unsafe { std::mem::transmute_copy::<*mut c_void, F>(&own) })
    }

    /// The function, or one line for a person that it is missing.
    ///
    /// Inside another call of ours it is the library's own where that is known: another interposer behind us, which we
    /// called, may have been given ours when it asked the library for the function.
    #[inline(always)]
    pub(crate) fn required(&self) -> Option<F> {
        if let Some(own) = self.own()
            && Guard::is_held()
        {
            return Some(own);
        }
        if !self.address.load(Ordering::Acquire).is_null() {
            return self.get();
        }
        self.look_up()
    }

    #[cold]
    #[inline(never)]
    fn look_up(&self) -> Option<F> {
        // Looking it up and writing are the hook's own work: neither `errno` nor a cancelled thread may show it.
        let _guard = Guard::enter();
        let function = self.get();
        super::boundary::contain(|| self.library.warn_of_two());
        if function.is_none() && !self.told.swap(true, Ordering::Relaxed) {
            super::boundary::contain(|| {
                let name = self.name.to_string_lossy();
                let missing = self.library.missing;
                crate::state::get().sinks.warn(&format!("找不到真正的 {name}: {missing}; 该调用返回错误码 302"));
            });
        }
        function
    }
}

/// Somewhere that the address of a real function can be put, whatever its type.
pub(crate) trait Slot: Sync {
    /// The driver itself gave `address` for this function. The first address stays.
    fn offer(&self, address: *mut c_void);
}

impl<F: Copy + Sync> Slot for Symbol<F> {
    fn offer(&self, address: *mut c_void) {
        if self.own.load(Ordering::Acquire).is_null() {
            pin(address);
            // First the one that a call finds first. Another thread may have been faster, with an address as good.
            let empty = std::ptr::null_mut();
            let _ = self.address.compare_exchange(empty, address, Ordering::AcqRel, Ordering::Acquire);
            self.own.store(address, Ordering::Release);
        }
    }
}

fn find(library: &Library, name: &CStr) -> *mut c_void {
    let mut address = dlsym::real(libc::RTLD_NEXT, name);
    for soname in library.sonames {
        if !address.is_null() {
            break;
        }
        let library = open_loaded(soname);
        if !library.is_null() {
            // The handle is not closed: see `pin`.
            address = dlsym::real(library, name);
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
