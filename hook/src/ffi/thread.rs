//! What the hook keeps of each thread, and the C library's threads behind safe functions: cancellation, sleeping, the
//! one thread of the hook's own.

use std::cell::Cell;
use std::ffi::c_int;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::ring::{Lane, Lanes, Slot};
use crate::sink::{RING, Record};

// One variable of each thread, for all that is kept. It lies at a fixed distance from the thread's pointer ("initial
// exec", Drepper, "ELF Handling For Thread-Local Storage", 4.3), which the loader can give what is loaded with the
// program; `thread_local!` in a library has to call the C library to find it, twice a launch. All zeros to begin with,
// and nothing is done with it when the thread ends: usable at any moment of a thread's life.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
core::arch::global_asm!(
    ".pushsection .tbss.cuda_hook_thread,\"awT\",%nobits",
    ".balign 64",
    ".globl cuda_hook_thread",
    ".hidden cuda_hook_thread",
    ".type cuda_hook_thread, %object",
    ".size cuda_hook_thread, 64",
    "cuda_hook_thread:",
    ".zero 64",
    ".popsection",
);

const _: () = assert!(size_of::<Thread>() <= 64 && align_of::<Thread>() <= 64);

/// What the hook keeps of a thread. Zeros are a thread of which nothing is known yet.
#[repr(C)]
pub(crate) struct Thread {
    /// In a call of the hook.
    pub(super) inside: Cell<bool>,
    launches: Cell<u8>,
    pending: Cell<Pending>,
    id: Cell<u32>,
    /// Where its records go once they are batched. Claimed by this thread for the rest of its life.
    pub(super) lane: Cell<Option<&'static Lane<Record, RING>>>,
    errno: Cell<Option<NonNull<c_int>>>,
}

/// Where [`Thread::inside`] is, for what looks at it without leaving a trace in any register.
pub(super) const INSIDE: usize = std::mem::offset_of!(Thread, inside);

/// The error of a denied call that this thread has not asked for yet. The real runtime knows nothing of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pending {
    /// The denial's code; 0 for none.
    pub(crate) code: i32,
    /// The real runtime's last error at the denial: one that differs later is newer than the denial.
    pub(crate) real: i32,
}

impl Thread {
    /// Where the calling thread's is. It stays there as long as the thread lives.
    #[inline(always)]
    pub(super) fn place() -> NonNull<Thread> {
        let place: *mut Thread;
        #[cfg(target_arch = "x86_64")]
        // SAFETY: adds the variable's distance, which the loader has put there, to the thread's pointer.
        unsafe {
            core::arch::asm!(
                "mov {place}, qword ptr [rip + cuda_hook_thread@GOTTPOFF]",
                "add {place}, qword ptr fs:[0]",
                place = out(reg) place,
                options(pure, nomem, nostack),
            );
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: adds the variable's distance, which the loader has put there, to the thread's pointer.
        unsafe {
            core::arch::asm!(
                "mrs {place}, tpidr_el0",
                "adrp {far}, :gottprel:cuda_hook_thread",
                "ldr {far}, [{far}, :gottprel_lo12:cuda_hook_thread]",
                "add {place}, {place}, {far}",
                place = out(reg) place,
                far = out(reg) _,
                options(pure, nomem, nostack),
            );
        }
        // SAFETY: an address in the thread's own memory.
        unsafe { NonNull::new_unchecked(place) }
    }

    /// The calling thread's, for the time of `look`: it must not go to another thread.
    #[inline(always)]
    fn with<R>(look: impl FnOnce(&Thread) -> R) -> R {
        // SAFETY: 64 bytes of this thread's own that are zeros or what was put there, and only this thread looks at them.
        look(unsafe { Thread::place().as_ref() })
    }

    /// The kernel's id of this thread.
    #[inline(always)]
    pub(crate) fn id(&self) -> u32 {
        if self.id.get() == 0 {
            // SAFETY: takes nothing.
            self.id.set(u32::try_from(unsafe { libc::gettid() }).unwrap_or(0));
        }
        self.id.get()
    }

    /// Counts a launch. True for the first and then for one in sixteen.
    #[inline(always)]
    pub(crate) fn is_sixteenth(&self) -> bool {
        let launches = self.launches.get();
        self.launches.set(launches.wrapping_add(1));
        launches & 15 == 0
    }

    /// Where the C library keeps this thread's `errno`.
    #[inline(always)]
    pub(super) fn errno(&self) -> NonNull<c_int> {
        self.errno.get().unwrap_or_else(|| {
            let place = super::os::errno_place();
            self.errno.set(Some(place));
            place
        })
    }

    /// Notes a denial for this thread's `cudaGetLastError`.
    #[inline(always)]
    pub(crate) fn set_pending(&self, pending: Pending) {
        self.pending.set(pending);
    }

    /// A free place in this thread's ring. `None` when it is full, or the thread has none.
    #[inline(always)]
    pub(crate) fn slot(&self) -> Option<Slot<'static, Record, RING>> {
        // SAFETY: claimed by this thread: a `Thread` never leaves its own.
        unsafe { self.lane.get()?.slot() }
    }

    /// Sees to it that this thread has a ring. False when there is no memory for one.
    pub(crate) fn claim(&self, lanes: &Lanes<Record, RING>) -> bool {
        if self.lane.get().is_none() {
            self.lane.set(lanes.claim(self.id(), is_alive));
        }
        self.lane.get().is_some()
    }
}

/// Forgets the denial that is still to be told.
pub(crate) fn forget_pending() {
    Thread::with(|thread| thread.pending.set(Pending::default()));
}

/// The denial that is still to be told.
pub(crate) fn pending() -> Option<Pending> {
    Some(Thread::with(|thread| thread.pending.get())).filter(|pending| pending.code != 0)
}

/// A forked child's only thread has another id than its model, and no ring.
pub(crate) fn forget() {
    Thread::with(|thread| {
        thread.id.set(0);
        thread.lane.set(None);
    });
}

/// Whether this process has a thread of that id. Where nobody may ask that, as in a sandbox, it is taken for one: two
/// live threads in one ring would be the end of the process.
fn is_alive(id: u32) -> bool {
    let (process, thread) = (std::process::id(), c_int::try_from(id).unwrap_or(0));
    // SAFETY: signal 0 is no signal; it only asks.
    let answer = unsafe { libc::syscall(libc::SYS_tgkill, c_int::try_from(process).unwrap_or(0), thread, 0) };
    answer == 0 || super::os::errno() != libc::ESRCH
}

/// `PTHREAD_CANCEL_DISABLE` of glibc.
const CANCEL_DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// As long as this lives, its thread is not cancelled.
#[derive(Debug)]
pub(crate) struct Uncancelled {
    before: c_int,
}

impl Uncancelled {
    pub(crate) fn hold() -> Uncancelled {
        let mut before = 0;
        // SAFETY: `before` is a valid place to write to.
        unsafe { pthread_setcancelstate(CANCEL_DISABLE, &mut before) };
        Uncancelled { before }
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        // SAFETY: a null pointer says that the old state is not wanted.
        unsafe { pthread_setcancelstate(self.before, std::ptr::null_mut()) };
    }
}

/// What a thread sleeps on until another rings it, or some time has passed.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rung: AtomicU32,
}

impl Bell {
    /// Sleeps until the bell is rung (or was, since the last sleep), `for_ns` at most.
    pub(crate) fn wait(&self, for_ns: u64) {
        let time = libc::timespec {
            tv_sec: libc::time_t::try_from(for_ns.div_euclid(1_000_000_000)).unwrap_or(libc::time_t::MAX),
            tv_nsec: libc::c_long::try_from(for_ns.rem_euclid(1_000_000_000)).unwrap_or(0),
        };
        let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the word and the time are valid; the kernel compares and sleeps.
        unsafe { libc::syscall(libc::SYS_futex, self.rung.as_ptr(), operation, 0, &raw const time) };
        self.rung.swap(0, Ordering::AcqRel);
    }

    /// Wakes the sleeper.
    pub(crate) fn ring(&self) {
        if self.rung.swap(1, Ordering::AcqRel) == 0 {
            let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
            // SAFETY: the word is valid.
            unsafe { libc::syscall(libc::SYS_futex, self.rung.as_ptr(), operation, 1) };
        }
    }
}

/// Starts a thread of the hook's own, which takes none of the program's signals. False when there can be none.
pub(crate) fn start(name: &str, body: impl FnOnce() + Send + 'static) -> bool {
    /// What a thread of the program's gets as a rule: the last thread of a process runs its exit handlers, and that may
    /// be this one.
    const STACK: usize = 8 << 20;
    let mut all = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
    let mut before = all;
    // SAFETY: a valid place to write to.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: `all` was filled just now, `before` is a valid place to write to.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) };
    // It inherits the mask.
    let started = std::thread::Builder::new().name(name.to_owned()).stack_size(STACK).spawn(move || {
        body();
        // For the exit handlers, if it is the last.
        // SAFETY: `before` was filled before this thread was started.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    });
    // SAFETY: `before` is what the mask was.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    started.is_ok()
}

/// Some thread may be cancelled from now on.
static CANCELS: AtomicBool = AtomicBool::new(false);

/// Whether the program has ever cancelled a thread.
#[inline(always)]
pub(super) fn cancels() -> bool {
    CANCELS.load(Ordering::Relaxed)
}

/// Notes that a thread is about to be cancelled; true the first time.
pub(super) fn note_cancel() -> bool {
    !CANCELS.swap(true, Ordering::SeqCst)
}
