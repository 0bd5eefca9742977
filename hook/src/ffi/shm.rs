//! A page of memory that the processes of a job share: a file, a mutex in it that outlives its owner, and for each
//! process a lock on one byte of the file ([`super::locks`]), by which the others see that it lives.
//!
//! The page is mapped through an open file of its own: a mapping, which forked children inherit, would keep the lock
//! alive.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_int};
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use super::locks::{ENTRANCE, FIRST_SLOT, Locks, identity, last_error, open_file, slot_byte};
pub(crate) use super::locks::{Trouble, forget};
use super::os::{self, Clock};
use super::output;
use crate::policy::{Board, SLOTS};

/// Marks a page as ours.
const MAGIC: u64 = u64::from_ne_bytes(*b"CUDAHOOK");
/// Counts changes of what a page means.
const VERSION: u64 = 1;
/// Version and size: both must be the same for all who share a page.
const LAYOUT: u64 = VERSION << 32 | size_of::<Page>() as u64;

const PAGE_SIZE: i64 = size_of::<Page>() as i64;

const PTHREAD_MUTEX_ROBUST: c_int = 1;

unsafe extern "C" {
    fn pthread_mutexattr_setrobust(attributes: *mut libc::pthread_mutexattr_t, robustness: c_int) -> c_int;
    fn pthread_mutex_consistent(mutex: *mut libc::pthread_mutex_t) -> c_int;
    fn pthread_mutex_clocklock(
        mutex: *mut libc::pthread_mutex_t,
        clock: libc::clockid_t,
        until: *const libc::timespec,
    ) -> c_int;
}

#[repr(C)]
struct Page {
    magic: AtomicU64,
    layout: AtomicU64,
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    board: Board,
}

/// A mapped page, and the locks by which the processes that use it see each other.
#[derive(Debug)]
pub(crate) struct Shared {
    page: NonNull<Page>,
    locks: Locks,
}

// SAFETY: what the page holds is atomic or under its mutex; the descriptor is only used for calls that any thread may make.
unsafe impl Send for Shared {}

/// A page while its entrance is locked: nobody else enters, and no one declares it new.
#[derive(Debug)]
pub(crate) struct Entrance {
    shared: Shared,
    /// Nobody has a slot: a job begins here.
    pub(crate) fresh: bool,
}

impl Entrance {
    /// Opens the page at `path`, made if it is not there, and locks its entrance, waiting `patience_ns` at most.
    pub(crate) fn open(path: &CStr, patience_ns: u64) -> Result<Entrance, Trouble> {
        let locks = Locks::open(path)?;
        locks.lock_entrance(patience_ns)?;
        let slots = i64::try_from(SLOTS).unwrap_or(i64::MAX);
        let live = locks.is_locked(FIRST_SLOT, slots).ok_or_else(last_error)?;
        if !locks.holds_only(MAGIC) {
            return Err(Trouble::Unusable("此文件不是 hook 的共享账目".to_owned()));
        }
        locks.set_memory_aside(PAGE_SIZE)?;
        let shared = Shared::map(path, locks)?;
        let page = shared.page();
        let (magic, layout) = (page.magic.load(Ordering::Acquire), page.layout.load(Ordering::Relaxed));
        if live && (magic, layout) != (MAGIC, LAYOUT) {
            return Err(Trouble::Unusable("正由另一版本的 hook 使用".to_owned()));
        }
        if !live {
            shared.renew(layout == LAYOUT && magic == MAGIC);
        }
        Ok(Entrance { shared, fresh: !live })
    }

    /// The page.
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Unlocks the entrance.
    pub(crate) fn leave(self) -> Shared {
        self.shared.locks.set(libc::F_UNLCK, ENTRANCE);
        self.shared
    }
}

impl Shared {
    /// Maps the page through an open file of its own, without locks.
    fn map(path: &CStr, locks: Locks) -> Result<Shared, Trouble> {
        let fd = open_file(path, 0).ok_or_else(last_error)?;
        let same = output::status(fd).is_some_and(|status| identity(&status) == locks.file);
        let (readable, null) = (libc::PROT_READ | libc::PROT_WRITE, std::ptr::null_mut());
        // SAFETY: a new mapping at a place of the kernel's choice.
        let page = unsafe { libc::mmap(null, size_of::<Page>(), readable, libc::MAP_SHARED, fd, 0) };
        let failed = (page == libc::MAP_FAILED).then(last_error);
        // SAFETY: a descriptor that was opened just now; the mapping stays.
        unsafe { libc::close(fd) };
        match (failed, NonNull::new(page.cast())) {
            (None, Some(page)) => {
                let shared = Shared { page, locks };
                if same { Ok(shared) } else { Err(Trouble::Busy) }
            }
            (failed, _) => Err(failed.unwrap_or_else(last_error)),
        }
    }

    fn page(&self) -> &Page {
        // SAFETY: mapped, aligned and large enough for as long as this value lives; every field of it may be changed by
        // others at any time and is atomic or in a cell.
        unsafe { self.page.as_ref() }
    }

    /// Makes the page one that can be used, with the entrance locked and nobody inside. What an account of this very
    /// layout held is left to who begins the next.
    fn renew(&self, known: bool) {
        if !known {
            self.page().magic.store(0, Ordering::Relaxed);
            // SAFETY: within the mapping; nobody else looks at the page now, and zeros are a value of every field.
            unsafe { (&raw mut (*self.page.as_ptr()).board).write_bytes(0, 1) };
        }
        let page = self.page();
        let mut attributes = std::mem::MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
        let attributes = attributes.as_mut_ptr();
        // SAFETY: a valid place to write to.
        unsafe { libc::pthread_mutexattr_init(attributes) };
        // SAFETY: initialised just now.
        unsafe { libc::pthread_mutexattr_setpshared(attributes, libc::PTHREAD_PROCESS_SHARED) };
        // SAFETY: as above.
        unsafe { pthread_mutexattr_setrobust(attributes, PTHREAD_MUTEX_ROBUST) };
        // SAFETY: nobody uses the mutex that was here before. The attributes hold nothing that must be freed.
        unsafe { libc::pthread_mutex_init(page.mutex.get(), attributes) };
        page.layout.store(LAYOUT, Ordering::Relaxed);
        page.magic.store(MAGIC, Ordering::Release);
    }

    /// The account, to look at. What changes it needs [`Self::lock`].
    pub(crate) fn board(&self) -> &Board {
        &self.page().board
    }

    /// Takes the page's lock, waiting `patience_ns` at most. One whose owner has died is repaired: what it guards is
    /// whole at any moment.
    pub(crate) fn lock(&self, patience_ns: u64) -> Option<Locked<'_>> {
        if self.is_parents() {
            return None;
        }
        let mutex = self.page().mutex.get();
        // SAFETY: initialised by who made the page; `self` keeps it mapped.
        let mut answer = unsafe { libc::pthread_mutex_trylock(mutex) };
        if answer == libc::EBUSY && patience_ns > 0 {
            let until = os::timespec(os::clock_ns(Clock::Monotonic).saturating_add(patience_ns));
            // SAFETY: as above, and a valid time.
            answer = unsafe { pthread_mutex_clocklock(mutex, libc::CLOCK_MONOTONIC, &until) };
        }
        if answer == libc::EOWNERDEAD {
            // SAFETY: this thread holds the mutex.
            answer = unsafe { pthread_mutex_consistent(mutex) };
        }
        (answer == 0).then(|| Locked { shared: self, thread: PhantomData })
    }

    /// Locks a slot's byte for as long as this value lives; false when another process has it.
    pub(crate) fn claim(&self, slot: usize) -> bool {
        self.locks.set(libc::F_WRLCK, slot_byte(slot))
    }

    /// Whether the process that has this slot lives; `true` when that can't be told.
    pub(crate) fn is_alive(&self, slot: usize) -> bool {
        self.locks.is_locked(slot_byte(slot), 1).unwrap_or(true)
    }

    /// Whether this process still has what it opened; see [`Locks::are_ours`].
    pub(crate) fn is_ours(&self) -> bool {
        self.locks.are_ours()
    }

    /// Whether a fork has made this a parent's.
    pub(crate) fn is_parents(&self) -> bool {
        self.locks.are_parents()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: mapped by this value, and nothing borrows from it any more.
        unsafe { libc::munmap(self.page.as_ptr().cast(), size_of::<Page>()) };
    }
}

/// The page's lock, held by this thread.
#[derive(Debug)]
pub(crate) struct Locked<'a> {
    shared: &'a Shared,
    /// A mutex is unlocked by the thread that locked it.
    thread: PhantomData<*const ()>,
}

impl Locked<'_> {
    /// The account, to change.
    pub(crate) fn board(&self) -> &Board {
        self.shared.board()
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // SAFETY: this thread holds the mutex.
        unsafe { libc::pthread_mutex_unlock(self.shared.page().mutex.get()) };
    }
}

/// A new id of a job, unlike those of other hosts and times.
pub(crate) fn new_id() -> u64 {
    os::clock_ns(Clock::Wall) ^ u64::from(os::process_id()).rotate_right(22)
}

/// Where the user's page of this name lies.
pub(crate) fn path_of(name: &str) -> String {
    // SAFETY: takes nothing.
    let user = unsafe { libc::geteuid() };
    format!("/dev/shm/cuda-hook-{user}-{name}")
}
