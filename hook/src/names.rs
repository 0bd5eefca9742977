//! Kernel names: nvcc's host code registers each kernel's mangled name under the address of its host stub when a
//! program or library is loaded, and CUDA 13's launches pass a handle that the runtime gives for that stub.
//!
//! Programs register tens of thousands of kernels and launch a few hundred. So a name stays where the program has it,
//! until a kernel is launched for the first time: then it is copied, once, for good. A library that is unloaded takes
//! its registrations with it; names that were copied stay valid.
//!
//! A launch finds the name by itself, before it is forgotten, rather than the thread that writes it later. What it finds
//! is kept in a cache that needs no lock.
//!
//! Nothing here waits for a lock that another thread may hold at a fork: a name that can't be had at once is left out.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

use crate::ffi::lock::{Locked, TryLock};
use crate::ffi::os;

/// A name that was copied for good, in the size of a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name(&'static &'static str);

impl Name {
    /// Copies a text for good.
    fn leaked(text: &str) -> Name {
        Name(Box::leak(Box::new(&*String::from(text).leak())))
    }

    /// The mangled name.
    pub(crate) fn text(self) -> &'static str {
        self.0
    }
}

/// Where a name lies in the program, and whose it is.
#[derive(Clone, Copy, Debug)]
struct Registered {
    /// The fat binary that brought the kernel.
    binary: u64,
    /// Address of the name, NUL-terminated, valid until the binary is unregistered.
    name: usize,
}

#[derive(Default)]
struct Tables {
    /// By host stub and by handle.
    registered: HashMap<u64, Registered>,
    /// Names of kernels that were launched; `None` for one that is no UTF-8.
    launched: HashMap<u64, Option<Name>>,
    /// Those of them that the driver named.
    handles: HashSet<u64>,
    /// Its names: the same kernels come again under other handles when a program compiles as it runs.
    names: HashMap<&'static str, Name>,
}

/// What launches found lately, by the kernel's address. Written under the lock of [`TABLES`] only.
static CACHE: [Cached; 256] =
    [const { Cached { func: AtomicU64::new(0), name: AtomicPtr::new(std::ptr::null_mut()) } }; 256];

struct Cached {
    /// 0 for none.
    func: AtomicU64,
    /// Null for a kernel without a name.
    name: AtomicPtr<&'static str>,
}

impl Cached {
    /// Where a kernel's name is, if it is in the cache.
    #[inline(always)]
    fn of(func: u64) -> Option<&'static Cached> {
        // Fibonacci hashing: the highest bits of the product depend on all bits of the address.
        let place = func.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
        CACHE.get(usize::try_from(place).unwrap_or(0))
    }

    #[inline(always)]
    fn get(&self, func: u64) -> Option<Option<Name>> {
        if func == 0 || self.func.load(Ordering::Acquire) != func {
            return None;
        }
        let name = self.name.load(Ordering::Acquire);
        // Still the same kernel's?
        (self.func.load(Ordering::Relaxed) == func).then(|| os::leaked_ref(name).map(Name))
    }

    fn set(&self, func: u64, name: Option<Name>) {
        self.func.store(0, Ordering::Relaxed);
        // With the release of the next store no reader sees this name beside the kernel before.
        self.name.store(
            name.map_or(std::ptr::null_mut(), |Name(text)| std::ptr::from_ref(text).cast_mut()),
            Ordering::Release,
        );
        self.func.store(func, Ordering::Release);
    }

    fn forget(func: u64) {
        if let Some(cached) = Cached::of(func)
            && cached.func.load(Ordering::Relaxed) == func
        {
            cached.func.store(0, Ordering::Release);
        }
    }
}

static TABLES: TryLock<Option<Tables>> = TryLock::new(None);

/// Who finds the lock taken tries so many times, which is longer than any holder takes.
const TRIES: u32 = 1_000;

/// The same where giving up would leave names behind that are no longer there.
const MANY_TRIES: u32 = 1_000_000;

/// Around a fork nobody is at the tables, so that the child finds them whole and free: names that were registered before
/// are good in it. A thread that is stopped inside for long is not waited for; then the child goes without names.
pub(crate) fn before_fork() {
    if let Some(tables) = lock(MANY_TRIES) {
        std::mem::forget(tables);
        FORKING.set(true);
    }
}

/// In parent and child.
pub(crate) fn after_fork() {
    if FORKING.take() {
        TABLES.release();
    }
}

thread_local! {
    /// This thread forks and has the lock, and so has its copy in the child. Another that forks beside it may have failed
    /// to get it.
    static FORKING: Cell<bool> = const { Cell::new(false) };
}

/// A kernel of `binary` is launched as `stub` and called what stands at `name`.
pub(crate) fn register(binary: u64, stub: u64, name: usize) {
    let Some(mut tables) = lock(TRIES) else { return };
    let tables = tables.get_or_insert_default();
    if tables.registered.try_reserve(1).is_ok() {
        tables.registered.insert(stub, Registered { binary, name });
        tables.launched.remove(&stub);
        Cached::forget(stub);
    }
}

/// The runtime gave `handle` for the kernel of `stub`.
pub(crate) fn alias(stub: u64, handle: u64) {
    let Some(mut tables) = lock(TRIES) else { return };
    let Some(tables) = tables.as_mut() else { return };
    let Some(&registered) = tables.registered.get(&stub) else { return };
    if tables.registered.try_reserve(1).is_ok() {
        tables.registered.insert(handle, registered);
        tables.launched.remove(&handle);
        Cached::forget(handle);
    }
}

/// `binary` is going away, and its kernels with it.
pub(crate) fn forget(binary: u64) {
    let Some(mut tables) = lock(MANY_TRIES) else { return };
    let Some(tables) = tables.as_mut() else { return };
    let Tables { registered, launched, .. } = tables;
    registered.retain(|func, kernel| {
        let stays = kernel.binary != binary;
        if !stays {
            launched.remove(func);
            Cached::forget(*func);
        }
        stays
    });
}

/// Whether the name of what is launched by this handle is known, or known not to be had.
#[inline(always)]
pub(crate) fn is_known(func: u64) -> bool {
    Cached::of(func).is_some_and(|cached| cached.get(func).is_some()) || is_in_tables(func)
}

#[cold]
fn is_in_tables(func: u64) -> bool {
    // When the tables are taken the name can't be noted either.
    lock(TRIES).is_none_or(|tables| {
        let tables = tables.as_ref();
        tables.is_some_and(|t| t.launched.contains_key(&func) || t.registered.contains_key(&func))
    })
}

/// The driver calls the kernel of this handle `name`, or can't tell.
pub(crate) fn learn(func: u64, name: Option<&str>) {
    let Some(mut tables) = lock(TRIES) else { return };
    let tables = tables.get_or_insert_default();
    let Tables { launched, handles, names, .. } = tables;
    if launched.try_reserve(1).is_ok() && handles.try_reserve(1).is_ok() && names.try_reserve(1).is_ok() {
        let name = name.map(|text| {
            names.get(text).copied().unwrap_or_else(|| {
                let name = Name::leaked(text);
                names.insert(name.text(), name);
                name
            })
        });
        launched.insert(func, name);
        handles.insert(func);
    }
}

/// Handles may come again for other kernels.
pub(crate) fn forget_handles() {
    let Some(mut tables) = lock(MANY_TRIES) else { return };
    let Some(Tables { launched, handles, .. }) = tables.as_mut() else { return };
    for handle in handles.drain() {
        launched.remove(&handle);
        Cached::forget(handle);
    }
}

/// The mangled name of what is launched by this stub or handle.
#[inline(always)]
pub(crate) fn of(func: u64) -> Option<Name> {
    match Cached::of(func).and_then(|cached| cached.get(func)) {
        Some(name) => name,
        None => look_up(func),
    }
}

#[cold]
fn look_up(func: u64) -> Option<Name> {
    let mut tables = lock(TRIES)?;
    let tables = tables.get_or_insert_default();
    let name = match tables.launched.get(&func) {
        Some(&name) => name,
        None => {
            let at = tables.registered.get(&func).map(|registered| registered.name);
            // Under the lock: as long as the registration stands, so does the text.
            let name = at.and_then(os::copy_text).map(Name);
            if at.is_some() && tables.launched.try_reserve(1).is_ok() {
                tables.launched.insert(func, name);
            }
            name
        }
    };
    if let Some(cached) = Cached::of(func) {
        cached.set(func, name);
    }
    name
}

fn lock(tries: u32) -> Option<Locked<'static, Option<Tables>>> {
    if GONE.load(Ordering::Relaxed) {
        return None;
    }
    for attempt in 0..tries {
        if let Some(tables) = TABLES.try_lock() {
            return Some(tables);
        }
        // A child that was made behind the C library's back has the lock as another thread held it, for ever.
        if attempt == TRIES && TABLES.is_anothers() {
            GONE.store(true, Ordering::Relaxed);
            return None;
        }
        std::thread::yield_now();
    }
    None
}

/// The tables can never be had again in this process.
static GONE: AtomicBool = AtomicBool::new(false);

#[cfg(test)]
mod tests {
    use super::*;

    /// The tables are the process's: one test at a time.
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

    #[test]
    fn a_kernel_is_called_what_it_is_registered_as_at_that_moment() {
        let _alone = ALONE.lock();
        let address = |text: &'static std::ffi::CStr| text.as_ptr().expose_provenance();
        assert_eq!(of(0x1000), None);
        register(1, 0x1000, address(c"_Z3onev"));
        register(1, 0x2000, address(c"_Z3twov"));
        alias(0x2000, 0x3000);
        let name = |func| of(func).map(Name::text);
        assert_eq!([0x1000, 0x2000, 0x3000].map(name), [Some("_Z3onev"), Some("_Z3twov"), Some("_Z3twov")]);
        let kept = of(0x1000).unwrap();
        register(2, 0x1000, address(c"_Z5otherv"));
        assert_eq!((name(0x1000), kept.text()), (Some("_Z5otherv"), "_Z3onev"));
        forget(1);
        assert_eq!([0x1000, 0x2000, 0x3000].map(name), [Some("_Z5otherv"), None, None]);
        // More kernels than the cache has places, so that some share one.
        for func in (1..2_000).map(|i| i * 0x10) {
            register(3, func, address(if func % 3 == 0 { c"_Z1av" } else { c"_Z1bv" }));
        }
        for func in (1..2_000).map(|i| i * 0x10).chain((1..2_000).map(|i| i * 0x10)) {
            assert_eq!(name(func), Some(if func % 3 == 0 { "_Z1av" } else { "_Z1bv" }));
        }
    }

    /// One thread takes long to fork, as in a large process, and another forks beside it.
    #[test]
    fn who_could_not_wait_for_a_fork_does_not_give_back_what_the_other_has() {
        let _alone = ALONE.lock();
        let (begun, over) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                before_fork();
                begun.wait();
                over.wait();
                after_fork();
            });
            begun.wait();
            before_fork();
            after_fork();
            let held = lock(1).is_none();
            over.wait();
            assert!(held);
        });
        assert!(lock(1).is_some());
    }
}
