//! Locks, atomics and cells of the code that `make check-model` explores: the standard library's, or those of loom,
//! which tries every order in which threads may run.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

#[cfg(loom)]
pub(crate) use loom::{
    cell::UnsafeCell,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering},
};

#[cfg(not(loom))]
pub(crate) use crate::ffi::lock::{Held, Lock};

/// The lock of the accounts, in a form that loom can wait for. (Its own model is beside it.)
#[cfg(loom)]
#[derive(Debug)]
pub(crate) struct Lock<T>(loom::sync::Mutex<T>);

#[cfg(loom)]
pub(crate) struct Held<'a, T>(loom::sync::MutexGuard<'a, T>);

#[cfg(loom)]
impl<T> Held<'_, T> {
    pub(crate) fn promptly(&self) -> bool {
        true
    }
}

#[cfg(loom)]
impl<T> std::ops::Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

#[cfg(loom)]
impl<T> std::ops::DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

#[cfg(loom)]
impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Self {
        Lock(loom::sync::Mutex::new(value))
    }

    pub(crate) fn try_lock(&self) -> Option<Held<'_, T>> {
        self.0.try_lock().ok().map(Held)
    }

    pub(crate) fn lock(&self) -> Held<'_, T> {
        Held(self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

/// [`std::cell::UnsafeCell`] with loom's interface, which sees who reads and who writes.
#[cfg(not(loom))]
#[derive(Debug)]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    /// Hands over a pointer to read from.
    #[inline(always)]
    pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    /// Hands over a pointer to write to.
    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}
