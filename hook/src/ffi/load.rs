//! What happens when the library is loaded, forked with, and left.
//!
//! Loading reads the environment and prints two lines. It starts no thread, touches no CUDA symbol and never ends the
//! process. Nothing of this exists in the unit tests.

use std::ffi::c_void;

use super::{boundary::contain, driver::uncounted, guard::Guard, leave, os, shm, symbol, thread};
use crate::names;
use crate::sink::Patience;
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
        leave::look_up();
        os::at_fork(before_fork, after_fork, forked);
        os::at_exit(fini);
        os::at_quick_exit(before_quick_exit);
        state::get();
    });
}

/// `exit` and a return from `main` come here, `_exit` and signals don't. Not in the termination array: that runs before
/// those of the program's other libraries, whose destructors may free device memory.
#[cfg_attr(test, allow(dead_code))]
extern "C" fn fini(_: *mut c_void) {
    let guard = Guard::enter();
    contain(|| {
        // A copy that does not know that it is one, or the child of a `vfork`, is not the end of its parent.
        if let Some(state) = state::existing()
            && state.pid == os::process_id()
        {
            // A thread that ends the process from within a call, in a signal handler, may have the locks itself.
            state.sinks.end(state, if guard.is_some() { Patience::Endless } else { Patience::Short });
        }
    });
}

#[cfg_attr(test, allow(dead_code))]
extern "C" fn before_quick_exit(_: *mut c_void) {
    leave::flush();
}

/// So that what the parent did before the fork stands in the file before what the child does after it.
#[cfg_attr(test, allow(dead_code))]
extern "C" fn before_fork() {
    leave::flush();
    // Last, for what is flushed may need it: no other thread is at the names while the child is made.
    names::before_fork();
}

#[cfg_attr(test, allow(dead_code))]
extern "C" fn after_fork() {
    names::after_fork();
}

/// In the child, right after a fork: stores, and one descriptor closed; nothing that could wait for a lock.
#[cfg_attr(test, allow(dead_code))]
extern "C" fn forked() {
    names::after_fork();
    uncounted::forget();
    state::forget();
    shm::forget();
    thread::forget();
}
