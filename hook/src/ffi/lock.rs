//! A lock that is never waited for and knows whose process it was made in: for tables that a forked child needs, whole.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};

/// Something that one thread at a time may have.
pub(crate) struct TryLock<T> {
    /// The process of the thread that has it; 0 for nobody.
    holder: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached through `Locked` alone, of which there is one at a time.
unsafe impl<T: Send> Sync for TryLock<T> {}

impl<T> TryLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        TryLock { holder: AtomicU32::new(0), value: UnsafeCell::new(value) }
    }

    /// The value, if nobody has it.
    pub(crate) fn try_lock(&self) -> Option<Locked<'_, T>> {
        let free = self.holder.compare_exchange(0, std::process::id(), Ordering::Acquire, Ordering::Relaxed);
        free.is_ok().then(|| Locked { lock: self })
    }

    /// Whether it is held by a thread of another process, that is, of one that this one is a copy of.
    pub(crate) fn is_anothers(&self) -> bool {
        let holder = self.holder.load(Ordering::Relaxed);
        holder != 0 && holder != std::process::id()
    }

    /// Gives back what was forgotten with `std::mem::forget`, in the thread that did or in its copy in a forked child.
    pub(crate) fn release(&self) {
        self.holder.store(0, Ordering::Release);
    }
}

/// The value, had.
pub(crate) struct Locked<'a, T> {
    lock: &'a TryLock<T>,
}

impl<T> Deref for Locked<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: nobody else has it while this lives.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Locked<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: nobody else has it while this lives.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Locked<'_, T> {
    fn drop(&mut self) {
        self.lock.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_has_it() {
        let lock = TryLock::new(0u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut added = 0;
                    while added < 10_000 {
                        if let Some(mut value) = lock.try_lock() {
                            *value += 1;
                            added += 1;
                        }
                    }
                });
            }
        });
        assert_eq!(lock.try_lock().map(|value| *value), Some(40_000));
        let held = lock.try_lock();
        assert!(held.is_some() && !lock.is_anothers());
        for _ in 0..2 {
            assert!(lock.try_lock().is_none(), "who gets nothing must not give back what another has");
        }
    }
}
