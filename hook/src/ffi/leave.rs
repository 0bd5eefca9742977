//! The ways out of a program: what is batched is written first. `exit` comes to the hook's own handlers as well, but only
//! in the first of several threads that call it; the others' calls may end the process before those are through. And the
//! way in which one thread ends another.
//!
//! All this may run in a signal handler and in the child of a `vfork`. So nothing here allocates or waits for long, and a
//! child is let through: the records are its parent's to write. A handler may have interrupted its thread inside the
//! hook, with a lock held that is then not to be had.
// `no_mangle` makes these symbols public whatever Rust can reach; their names are the C library's.
#![allow(unreachable_pub, non_snake_case)]
// The unit tests must not replace what their own process leaves by.
#![cfg_attr(test, allow(dead_code))]

use std::ffi::c_void;
use std::sync::atomic::Ordering;

use super::boundary::contain;
use super::guard::Guard;
use super::jump::{Behind, jump};
use super::{os, thread};
use crate::sink::Patience;
use crate::state;

/// Writes what is batched.
pub(super) fn flush() {
    if let Some(state) = state::existing()
        && state.sinks.batch.may_hold_records(state)
    {
        let errno = os::errno();
        let _guard = Guard::enter();
        contain(|| state.sinks.batch.flush(state, Patience::Short));
        os::set_errno(errno);
    }
}

macro_rules! leave {
    ($($name:ident $symbol:literal $behind:ident $resolver:ident;)+) => {
        $(
            static $behind: Behind = Behind::new($symbol);

            extern "C" fn $resolver() -> *const c_void {
                flush();
                $behind.address()
            }

            jump!(
                /// Writes what is batched, then goes on to the C library's.
                $name, $resolver
            );
        )+

        /// Finds the real functions while that is allowed.
        pub(super) fn look_up() {
            $($behind.address();)+
            CANCEL.address();
        }
    };
}

leave! {
    exit c"exit" EXIT before_exit;
    quick_exit c"quick_exit" QUICK_EXIT before_quick_exit;
    _exit c"_exit" EXIT_NOW before_exit_now;
    _Exit c"_Exit" EXIT_NOW_C99 before_exit_now_c99;
    execve c"execve" EXECVE before_execve;
    execv c"execv" EXECV before_execv;
    execvp c"execvp" EXECVP before_execvp;
    execvpe c"execvpe" EXECVPE before_execvpe;
    execl c"execl" EXECL before_execl;
    execlp c"execlp" EXECLP before_execlp;
    execle c"execle" EXECLE before_execle;
    fexecve c"fexecve" FEXECVE before_fexecve;
    execveat c"execveat" EXECVEAT before_execveat;
}

static CANCEL: Behind = Behind::new(c"pthread_cancel");

/// Threads with a ring don't hold cancellation off before there is any ([`Guard`]). At the first one those that are in a
/// call get a tenth of a second to leave it.
extern "C" fn before_cancel() -> *const c_void {
    if thread::note_cancel()
        && let Some(state) = state::existing()
        && state.sinks.batch.lanes.iter().next().is_some()
    {
        let errno = os::errno();
        contain(|| {
            for _ in 0..100 {
                // First of all, so that every thread sees what was noted, and this one sees which are inside.
                os::sleep_ns(1_000_000);
                if !state.sinks.batch.lanes.iter().any(|lane| lane.exposed.load(Ordering::Acquire)) {
                    break;
                }
            }
        });
        os::set_errno(errno);
    }
    CANCEL.address()
}

jump!(
    /// Waits until no thread is where it must not be cancelled, then goes on to the C library's.
    pthread_cancel, before_cancel
);
