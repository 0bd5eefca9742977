//! What happens when the library is loaded, forked with, and left.
//!
//! Loading reads the environment and prints two lines. It starts no thread, touches no CUDA symbol and never ends the
//! process. Nothing of this exists in the unit tests.

use std::ffi::c_void;

use super::{boundary::contain, guard::Guard, os, shm, symbol};
use crate::state;

/// In the initialisation array of the shared object, so that `LD_PRELOAD` alone runs it.
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static INIT: extern "C" fn() = init;

#[cfg_attr(test, allow(dead_code))]
extern "C" fn init() {
    let _errno = Guard::enter();
    contain(|| {
        symbol::pin(init as *mut c_void);
        os::at_fork(forked);
        os::at_exit(fini);
        state::get();
    });
}

/// `exit` and a return from `main` come here, `_exit` and signals don't. Not in the termination array: that runs before
/// those of the program's other libraries, whose destructors may free device memory.
#[cfg_attr(test, allow(dead_code))]
extern "C" fn fini(_: *mut c_void) {
    let _errno = Guard::enter();
    contain(|| {
        if let Some(state) = state::existing() {
            state.sinks.end(state);
        }
    });
}

/// In the child, right after a fork: stores, and one descriptor closed; nothing that could wait for a lock.
#[cfg_attr(test, allow(dead_code))]
extern "C" fn forked() {
    state::forget();
    shm::forget();
    os::forget_thread_id();
}
