//! What every export does on its way in and out: note re-entrancy, keep `errno`.

use std::cell::Cell;

use super::os;

thread_local! {
    // `const` and without a destructor: usable at any moment of a thread's life, its very end included.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    static PENDING: Cell<Pending> = const { Cell::new(Pending { code: 0, real: 0 }) };
}

/// Held while the hook works on a call of this thread. A hooked function that the real runtime calls meanwhile is part
/// of that call and passes through uncounted.
///
/// A thread can't be cancelled (`pthread_cancel`) meanwhile: cancellation unwinds the stack, and neither our frames nor
/// our accounts may be left half-way. A request stays pending until the program's next cancellation point.
pub(crate) struct Guard {
    errno: i32,
    cancellable: os::CancelState,
}

impl Guard {
    /// `None` inside another call of the hook on this thread.
    pub(crate) fn enter() -> Option<Guard> {
        if INSIDE.replace(true) {
            None
        } else {
            Some(Guard { errno: os::errno(), cancellable: os::hold_cancellation() })
        }
    }

    /// The real call may have set `errno`; from now on that value is the one to keep.
    pub(crate) fn real_call_done(&mut self) {
        self.errno = os::errno();
    }

    /// Puts back the `errno` that the program had when it called.
    pub(crate) fn before_real_call(&self) {
        os::set_errno(self.errno);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        INSIDE.set(false);
        os::restore_cancellation(self.cancellable);
        os::set_errno(self.errno);
    }
}

/// The error of a denied call that this thread has not asked for yet. The real runtime knows nothing of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pending {
    /// The denial's code; 0 for none.
    pub(crate) code: i32,
    /// The real runtime's last error at the denial: one that differs later is newer than the denial.
    pub(crate) real: i32,
}

/// Notes a denial for this thread's `cudaGetLastError`.
pub(crate) fn set_pending(pending: Pending) {
    PENDING.set(pending);
}

/// The denial that is still to be told.
pub(crate) fn pending() -> Option<Pending> {
    Some(PENDING.get()).filter(|pending| pending.code != 0)
}
