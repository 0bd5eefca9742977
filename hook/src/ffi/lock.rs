//! Two locks. [`Lock`] is taken by every call, for some ten nanoseconds. [`TryLock`] is never waited for and knows whose
//! process it was made in: for tables that a forked child needs, whole.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};

use std::sync::atomic::AtomicU32;

use crate::sync::{AtomicBool, Ordering};

/// Something that one thread at a time may have, and not for long: whoever finds it taken looks again.
///
/// To give it back is a plain store. The C library's mutex has to find out whether anybody sleeps, which takes an atomic
/// exchange: as long as all that is done under this lock.
#[derive(Debug)]
pub(crate) struct Lock<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached through `Held` alone, of which there is one at a time.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Self {
        Lock { taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// The value, waited for. Who holds it already waits for ever.
    #[inline(always)]
    pub(crate) fn lock(&self) -> Held<'_, T> {
        self.held(true).unwrap_or_else(|| self.wait())
    }

    /// The value, if nobody has it.
    pub(crate) fn try_lock(&self) -> Option<Held<'_, T>> {
        self.held(true)
    }

    #[inline(always)]
    fn held(&self, promptly: bool) -> Option<Held<'_, T>> {
        let free = self.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        // A closure, for what is made and not wanted would give the lock back.
        free.is_ok().then(|| Held { lock: self, promptly })
    }

    #[cold]
    fn wait(&self) -> Held<'_, T> {
        /// Some microseconds: longer than a holder takes that runs.
        const SPINS: u32 = 100;
        const NAP_NS: u64 = 20_000;
        let mut looks = 0u32;
        loop {
            if !self.taken.load(Ordering::Relaxed)
                && let Some(held) = self.held(false)
            {
                return held;
            }
            if looks < SPINS {
                looks = looks.saturating_add(1);
                std::hint::spin_loop();
            } else {
                // The holder sleeps, or needs this processor.
                super::os::sleep_ns(NAP_NS);
            }
        }
    }
}

/// The value, had until this is dropped.
#[derive(Debug)]
pub(crate) struct Held<'a, T> {
    lock: &'a Lock<T>,
    promptly: bool,
}

impl<T> Held<'_, T> {
    /// Whether it was had at once.
    #[inline(always)]
    pub(crate) fn promptly(&self) -> bool {
        self.promptly
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: nobody else has it while this lives.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: nobody else has it while this lives.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Held<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.lock.taken.store(false, Ordering::Release);
    }
}

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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_has_what_may_be_waited_for() {
        let lock = Lock::new(0u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000).for_each(|_| *lock.lock() += 1));
            }
        });
        assert_eq!(*lock.lock(), 40_000);
    }

    #[test]
    fn a_panic_gives_it_back() {
        let lock = Lock::new(7);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _held = lock.lock();
            panic!("with the lock");
        }));
        assert!(panicked.is_err());
        assert_eq!(*lock.lock(), 7);
    }

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

#[cfg(all(test, loom))]
mod model {
    use super::Lock;
    use crate::sync::UnsafeCell;
    use loom::sync::Arc;

    /// Waiting itself is left out: whoever waits does again and again what is tried here twice.
    #[test]
    fn each_holder_sees_what_the_last_one_did() {
        loom::model(|| {
            let lock = Arc::new(Lock::new(UnsafeCell::new(0)));
            let add = |lock: &Lock<UnsafeCell<u32>>| -> u32 {
                let once = || {
                    let held = lock.held(true)?;
                    // SAFETY: one at a time; loom's cell fails the test otherwise.
                    held.with_mut(|value| unsafe { *value += 1 });
                    Some(())
                };
                [once(), once()].into_iter().flatten().map(|()| 1).sum()
            };
            let other = {
                let lock = lock.clone();
                loom::thread::spawn(move || add(&lock))
            };
            let added = add(&lock) + other.join().unwrap();
            let held = lock.held(true).expect("nobody has it any more");
            // SAFETY: as above.
            assert_eq!(held.with(|value| unsafe { *value }), added);
        });
    }
}
