//! What every export does on its way in and out: note re-entrancy, keep `errno`, hold cancellation off.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use super::thread::{self, Thread, Uncancelled};
pub(crate) use super::thread::{Pending, forget_pending, pending};

/// Held while the hook works on a call of this thread. A hooked function that the real runtime calls meanwhile is part
/// of that call and passes through uncounted.
///
/// A thread can't be cancelled (`pthread_cancel`) meanwhile: cancellation unwinds the stack, and neither our frames nor
/// our accounts may be left half-way. A request stays pending until the program's next cancellation point. Holding it
/// off takes longer than all the rest of a batched call, so a thread with a ring does it only from the program's first
/// `pthread_cancel` on, and `leave` makes that one wait for those that are inside.
pub(crate) struct Guard {
    thread: NonNull<Thread>,
    errno_at: NonNull<i32>,
    errno: i32,
    _held: Option<Uncancelled>,
}

impl Guard {
    /// `None` inside another call of the hook on this thread.
    #[inline(always)]
    pub(crate) fn enter() -> Option<Guard> {
        let place = Thread::place();
        // SAFETY: this thread's own, which lives as long as the thread.
        let thread = unsafe { place.as_ref() };
        if thread.inside.replace(true) {
            return None;
        }
        let errno_at = thread.errno();
        // SAFETY: the C library's place for this thread's `errno`.
        let errno = unsafe { errno_at.read() };
        let held = match thread.lane.get() {
            Some(lane) => {
                lane.exposed.store(true, Ordering::Relaxed);
                // Looked at after that: whoever cancels waits before it looks who is exposed.
                thread::cancels().then(|| {
                    let held = hold();
                    lane.exposed.store(false, Ordering::Relaxed);
                    held
                })
            }
            None => Some(hold()),
        };
        Some(Guard { thread: place, errno_at, errno, _held: held })
    }

    /// Whether this thread holds one.
    #[inline(always)]
    pub(super) fn is_held() -> bool {
        // SAFETY: this thread's own, which lives as long as the thread.
        unsafe { Thread::place().as_ref() }.inside.get()
    }

    /// The thread whose call this is.
    #[inline(always)]
    pub(crate) fn thread(&self) -> &Thread {
        // SAFETY: as in `enter`; the pointer keeps a guard from going to another thread.
        unsafe { self.thread.as_ref() }
    }

    /// The real call may have set `errno`; from now on that value is the one to keep.
    #[inline(always)]
    pub(crate) fn real_call_done(&mut self) {
        // SAFETY: as in `enter`.
        self.errno = unsafe { self.errno_at.read() };
    }

    /// Puts back the `errno` that the program had when it called.
    #[inline(always)]
    pub(crate) fn before_real_call(&self) {
        // SAFETY: as in `enter`.
        unsafe { self.errno_at.write(self.errno) };
    }
}

/// Out of line, for the sake of the calls that don't need it.
#[cold]
fn hold() -> Uncancelled {
    Uncancelled::hold()
}

impl Drop for Guard {
    #[inline(always)]
    fn drop(&mut self) {
        let thread = self.thread();
        if let Some(lane) = thread.lane.get() {
            lane.exposed.store(false, Ordering::Release);
        }
        thread.inside.set(false);
        self.before_real_call();
    }
}
