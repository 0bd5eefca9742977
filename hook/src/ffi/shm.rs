//! A page of memory that the processes of a job share: a file, a mutex in it that outlives its owner, and for each
//! process a lock on one byte of the file, by which the others see that it lives.
//!
//! Such a lock (`F_OFD_SETLK`) belongs to the open file, not to a number that may come again or means another process
//! elsewhere; the kernel takes it back when the last holder has gone. The page is therefore mapped through an open file
//! of its own: a mapping, which forked children inherit, would keep the lock alive. The descriptor that holds it is closed
//! in children ([`forget`]) and by `exec`.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_int};
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use super::os::{self, Clock};
use crate::policy::{Board, SLOTS};

/// Marks a page as ours.
const MAGIC: u64 = u64::from_ne_bytes(*b"CUDAHOOK");
/// Counts changes of what a page means.
const VERSION: u64 = 1;
/// Version and size: both must be the same for all who share a page.
const LAYOUT: u64 = VERSION << 32 | size_of::<Page>() as u64;

const PAGE_SIZE: i64 = size_of::<Page>() as i64;

/// The byte that is locked while a process enters; each slot's follows it.
const ENTRANCE: i64 = 0;
const FIRST_SLOT: i64 = 1;

/// Descriptors below this are the program's. Lower ones are taken where its limit demands it.
const HIGH: [c_int; 4] = [1000, 240, 100, 3];

// Linux's own, the same on every architecture (`fcntl.h`); the libc crate lacks them.
const F_OFD_GETLK: c_int = 36;
const F_OFD_SETLK: c_int = 37;
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

/// The descriptor that children must close, and the file behind it.
static LOCKS: AtomicI32 = AtomicI32::new(-1);
static LOCKS_FILE: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];
/// Counts forks. What was opened before one is not the child's.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// In a forked child: gives up its parent's locks. Async-signal-safe.
pub(crate) fn forget() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    let [device, inode] = LOCKS_FILE.each_ref().map(|part| part.load(Ordering::Relaxed));
    close_if(LOCKS.swap(-1, Ordering::Relaxed), (device, inode));
}

/// Why a page can't be used.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// For good; in words.
    Unusable(String),
    /// Someone else was entering all the time.
    Busy,
}

/// The file, open for locks alone.
#[derive(Debug)]
struct Locks {
    fd: c_int,
    file: (u64, u64),
    generation: u64,
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
        if !locks.file_is_ours_or_new() {
            return Err(Trouble::Unusable("此文件不是 hook 的共享账目".to_owned()));
        }
        locks.set_memory_aside()?;
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

impl Locks {
    /// Opens the file, moves its descriptor out of the program's way, and judges what it is.
    fn open(path: &CStr) -> Result<Locks, Trouble> {
        let low = open(path, libc::O_CREAT).ok_or_else(last_error)?;
        let status = os::status(low).ok_or_else(last_error);
        // SAFETY: a descriptor that was opened just now.
        let high =
            HIGH.iter().map(|&from| unsafe { libc::fcntl(low, libc::F_DUPFD_CLOEXEC, from) }).find(|&fd| fd >= 0);
        let high = high.ok_or_else(last_error);
        // SAFETY: the same, and nobody else has it.
        unsafe { libc::close(low) };
        let (fd, status) = (high?, status?);
        let locks = Locks { fd, file: identity(&status), generation: GENERATION.load(Ordering::Relaxed) };
        let [device, inode] = &LOCKS_FILE;
        device.store(locks.file.0, Ordering::Relaxed);
        inode.store(locks.file.1, Ordering::Relaxed);
        LOCKS.store(fd, Ordering::Relaxed);
        // SAFETY: takes nothing.
        let owner = unsafe { libc::geteuid() };
        if status.st_mode & libc::S_IFMT != libc::S_IFREG || status.st_uid != owner || status.st_mode & 0o077 != 0 {
            return Err(Trouble::Unusable("不是本用户独有的普通文件".to_owned()));
        }
        Ok(locks)
    }

    /// Whether the file is empty, begun, or a page; another's content is not to be touched.
    fn file_is_ours_or_new(&self) -> bool {
        let mut magic = [0u8; 8];
        // SAFETY: room for as many bytes is given.
        let read = unsafe { libc::pread(self.fd, magic.as_mut_ptr().cast(), magic.len(), 0) };
        read == 0 || (read == 8 && [0, MAGIC].contains(&u64::from_ne_bytes(magic)))
    }

    /// Gives the file its size. A page that the file system had no room for later would kill the program, and so would
    /// a file that grows beyond the process's limit (`ulimit -f`).
    fn set_memory_aside(&self) -> Result<(), Trouble> {
        let set_aside = || {
            // SAFETY: a descriptor of ours.
            match unsafe { libc::posix_fallocate(self.fd, 0, PAGE_SIZE) } {
                0 => Ok(()),
                code => Err(code),
            }
        };
        os::without_signal(libc::SIGXFSZ, libc::EFBIG, set_aside)
            .map_err(|code| Trouble::Unusable(std::io::Error::from_raw_os_error(code).to_string()))
    }

    /// Whether the descriptor is still this process's, and still this file's: a child has its parent's numbers, and a
    /// program may close what it didn't open.
    fn are_ours(&self) -> bool {
        self.generation == GENERATION.load(Ordering::Relaxed)
            && os::status(self.fd).is_some_and(|status| identity(&status) == self.file)
    }

    /// Locks (`F_WRLCK`) or unlocks a byte; false when another process has it.
    fn set(&self, kind: c_int, byte: i64) -> bool {
        let lock = range(kind, byte, 1);
        // SAFETY: a valid description of a lock; the call does not wait.
        unsafe { libc::fcntl(self.fd, F_OFD_SETLK, &lock) == 0 }
    }

    /// Whether another process has locked any of these bytes; `None` when that can't be told.
    fn is_locked(&self, from: i64, count: i64) -> Option<bool> {
        let mut lock = range(libc::F_WRLCK, from, count);
        // SAFETY: a valid description, which the kernel fills in.
        let answer = unsafe { libc::fcntl(self.fd, F_OFD_GETLK, &mut lock) };
        (answer == 0).then_some(c_int::from(lock.l_type) != libc::F_UNLCK)
    }

    fn lock_entrance(&self, patience_ns: u64) -> Result<(), Trouble> {
        const PAUSE_NS: u64 = 200_000;
        let until = os::clock_ns(Clock::Monotonic).saturating_add(patience_ns);
        while !self.set(libc::F_WRLCK, ENTRANCE) {
            if !matches!(os::errno(), libc::EAGAIN | libc::EACCES | libc::EINTR) {
                return Err(last_error());
            }
            let now = os::clock_ns(Clock::Monotonic);
            if now >= until {
                return Err(Trouble::Busy);
            }
            os::sleep_until(now.saturating_add(PAUSE_NS));
        }
        Ok(())
    }
}

impl Drop for Locks {
    fn drop(&mut self) {
        if self.are_ours() {
            let _ = LOCKS.compare_exchange(self.fd, -1, Ordering::Relaxed, Ordering::Relaxed);
            // SAFETY: a descriptor that this value opened, as was just seen.
            unsafe { libc::close(self.fd) };
        }
    }
}

impl Shared {
    /// Maps the page through an open file of its own, without locks.
    fn map(path: &CStr, locks: Locks) -> Result<Shared, Trouble> {
        let fd = open(path, 0).ok_or_else(last_error)?;
        let same = os::status(fd).is_some_and(|status| identity(&status) == locks.file);
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
        if self.locks.generation != GENERATION.load(Ordering::Relaxed) {
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
        self.locks.generation != GENERATION.load(Ordering::Relaxed)
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

fn open(path: &CStr, create: c_int) -> Option<c_int> {
    // O_NONBLOCK: a FIFO of that name must not hold the program up.
    let flags = libc::O_RDWR | libc::O_CLOEXEC | libc::O_NOFOLLOW | libc::O_NOCTTY | libc::O_NONBLOCK | create;
    // SAFETY: `path` is NUL-terminated; O_CREAT has its mode.
    let fd = unsafe { libc::open(path.as_ptr(), flags, 0o600) };
    (fd >= 0).then_some(fd)
}

fn close_if(fd: c_int, file: (u64, u64)) {
    if fd >= 0 && os::status(fd).is_some_and(|status| identity(&status) == file) {
        // SAFETY: the descriptor is the one that was opened for this file.
        unsafe { libc::close(fd) };
    }
}

fn identity(status: &libc::stat) -> (u64, u64) {
    (status.st_dev, status.st_ino)
}

fn slot_byte(slot: usize) -> i64 {
    i64::try_from(slot).unwrap_or(i64::MAX).saturating_add(FIRST_SLOT)
}

/// Bytes of the file, from its beginning.
fn range(kind: c_int, from: i64, count: i64) -> libc::flock {
    let kind = libc::c_short::try_from(kind).unwrap_or(0);
    let whence = libc::c_short::try_from(libc::SEEK_SET).unwrap_or(0);
    libc::flock { l_type: kind, l_whence: whence, l_start: from, l_len: count, l_pid: 0 }
}

fn last_error() -> Trouble {
    Trouble::Unusable(os::last_error().to_string())
}
