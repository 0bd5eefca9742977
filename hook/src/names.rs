//! Kernel names: nvcc's host code registers each kernel's mangled name under the address of its host stub when a
//! program or library is loaded, and CUDA 13's launches pass a handle that the runtime gives for that stub.
//!
//! Programs register tens of thousands of kernels and launch a few hundred. So a name stays where the program has it,
//! until a kernel is launched for the first time: then it is copied, once, for good. A library that is unloaded takes
//! its registrations with it; names that were copied stay valid.
//!
//! Nothing here waits for a lock that another thread may hold at a fork: a name that can't be had at once is left out.

use std::collections::{HashMap, HashSet};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};

use crate::ffi::os;

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
    launched: HashMap<u64, Option<&'static str>>,
    /// Those of them that the driver named.
    handles: HashSet<u64>,
}

static TABLES: RwLock<Option<Tables>> = RwLock::new(None);

/// A writer that finds the lock taken tries so many times, which is longer than any holder takes.
const TRIES: u32 = 1_000;

/// The same where giving up would leave names behind that are no longer there.
const MANY_TRIES: u32 = 1_000_000;

/// A kernel of `binary` is launched as `stub` and called what stands at `name`.
pub(crate) fn register(binary: u64, stub: u64, name: usize) {
    let Some(mut tables) = write(TRIES) else { return };
    let tables = tables.get_or_insert_default();
    if tables.registered.try_reserve(1).is_ok() {
        tables.registered.insert(stub, Registered { binary, name });
        tables.launched.remove(&stub);
    }
}

/// The runtime gave `handle` for the kernel of `stub`.
pub(crate) fn alias(stub: u64, handle: u64) {
    let Some(mut tables) = write(TRIES) else { return };
    let Some(tables) = tables.as_mut() else { return };
    let Some(&registered) = tables.registered.get(&stub) else { return };
    if tables.registered.try_reserve(1).is_ok() {
        tables.registered.insert(handle, registered);
        tables.launched.remove(&handle);
    }
}

/// `binary` is going away, and its kernels with it.
pub(crate) fn forget(binary: u64) {
    let Some(mut tables) = write(MANY_TRIES) else { return };
    let Some(tables) = tables.as_mut() else { return };
    let Tables { registered, launched, .. } = tables;
    registered.retain(|func, kernel| {
        let stays = kernel.binary != binary;
        if !stays {
            launched.remove(func);
        }
        stays
    });
}

/// Whether the name of what is launched by this handle is known, or known not to be had.
pub(crate) fn is_known(func: u64) -> bool {
    // When the tables are taken the name can't be noted either.
    read().is_none_or(|tables| {
        let tables = tables.as_ref();
        tables.is_some_and(|t| t.launched.contains_key(&func) || t.registered.contains_key(&func))
    })
}

/// The driver calls the kernel of this handle `name`, or can't tell.
pub(crate) fn learn(func: u64, name: Option<&str>) {
    let Some(mut tables) = write(TRIES) else { return };
    let tables = tables.get_or_insert_default();
    if tables.launched.try_reserve(1).is_ok() {
        tables.launched.insert(func, name.map(|name| &*String::from(name).leak()));
        tables.handles.insert(func);
    }
}

/// Handles may come again for other kernels.
pub(crate) fn forget_handles() {
    let Some(mut tables) = write(MANY_TRIES) else { return };
    let Some(Tables { launched, handles, .. }) = tables.as_mut() else { return };
    for handle in handles.drain() {
        launched.remove(&handle);
    }
}

/// The mangled name of what is launched by this stub or handle.
pub(crate) fn of(func: u64) -> Option<&'static str> {
    {
        let tables = read()?;
        let tables = tables.as_ref()?;
        if let Some(&name) = tables.launched.get(&func) {
            return name;
        }
        tables.registered.get(&func)?;
    }
    let mut tables = write(TRIES)?;
    let tables = tables.as_mut()?;
    let at = tables.registered.get(&func)?.name;
    // Under the lock: as long as the registration stands, so does the text.
    let name = os::copy_text(at);
    if tables.launched.try_reserve(1).is_ok() {
        tables.launched.insert(func, name);
    }
    name
}

fn read() -> Option<RwLockReadGuard<'static, Option<Tables>>> {
    match TABLES.try_read() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(PoisonError::into_inner(poisoned)),
        Err(TryLockError::WouldBlock) => None,
    }
}

fn write(tries: u32) -> Option<RwLockWriteGuard<'static, Option<Tables>>> {
    for _ in 0..tries {
        match TABLES.try_write() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(PoisonError::into_inner(poisoned)),
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
    None
}
