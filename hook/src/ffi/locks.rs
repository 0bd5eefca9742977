//! Locks on bytes of a file, by which processes see whether others live, and the descriptor that holds them.
//!
//! Such a lock (`F_OFD_SETLK`) belongs to the open file, not to a number that may come again or means another process
//! elsewhere; the kernel takes it back when the last holder has gone. The descriptor is closed in children ([`forget`])
//! and by `exec`.

use std::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use super::os::{self, Clock};
use super::output;

/// The byte that is locked while a process enters; each slot's follows it.
pub(super) const ENTRANCE: i64 = 0;
pub(super) const FIRST_SLOT: i64 = 1;

// Linux's own, the same on every architecture (`fcntl.h`); the libc crate lacks them.
const F_OFD_GETLK: c_int = 36;
const F_OFD_SETLK: c_int = 37;

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
pub(super) struct Locks {
    fd: c_int,
    /// Device and inode.
    pub(super) file: (u64, u64),
    generation: u64,
}

impl Locks {
    /// Opens the file, moves its descriptor out of the program's way, and judges what it is.
    pub(super) fn open(path: &CStr) -> Result<Locks, Trouble> {
        let low = open_file(path, libc::O_CREAT).ok_or_else(last_error)?;
        let status = output::status(low).ok_or_else(last_error);
        let high = output::move_up(low).ok_or_else(last_error);
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

    /// Whether the file is empty, begun (zeros), or begins with `mark`; another's content is not to be touched.
    pub(super) fn holds_only(&self, mark: u64) -> bool {
        let mut magic = [0u8; 8];
        // SAFETY: room for as many bytes is given.
        let read = unsafe { libc::pread(self.fd, magic.as_mut_ptr().cast(), magic.len(), 0) };
        read == 0 || (read == 8 && [0, mark].contains(&u64::from_ne_bytes(magic)))
    }

    /// Gives the file its size. A page that the file system had no room for later would kill the program, and so would
    /// a file that grows beyond the process's limit (`ulimit -f`).
    pub(super) fn set_memory_aside(&self, size: i64) -> Result<(), Trouble> {
        let set_aside = || {
            // SAFETY: a descriptor of ours.
            match unsafe { libc::posix_fallocate(self.fd, 0, size) } {
                0 => Ok(()),
                code => Err(code),
            }
        };
        output::without_signal(libc::SIGXFSZ, libc::EFBIG, set_aside)
            .map_err(|code| Trouble::Unusable(std::io::Error::from_raw_os_error(code).to_string()))
    }

    /// Whether a fork has made these a parent's.
    pub(super) fn are_parents(&self) -> bool {
        self.generation != GENERATION.load(Ordering::Relaxed)
    }

    /// Whether the descriptor is still this process's, and still this file's: a child has its parent's numbers, and a
    /// program may close what it didn't open.
    pub(super) fn are_ours(&self) -> bool {
        !self.are_parents() && output::status(self.fd).is_some_and(|status| identity(&status) == self.file)
    }

    /// Locks (`F_WRLCK`) or unlocks a byte; false when another process has it.
    pub(super) fn set(&self, kind: c_int, byte: i64) -> bool {
        let lock = range(kind, byte, 1);
        // SAFETY: a valid description of a lock; the call does not wait.
        unsafe { libc::fcntl(self.fd, F_OFD_SETLK, &lock) == 0 }
    }

    /// Whether another process has locked any of these bytes; `None` when that can't be told.
    pub(super) fn is_locked(&self, from: i64, count: i64) -> Option<bool> {
        let mut lock = range(libc::F_WRLCK, from, count);
        // SAFETY: a valid description, which the kernel fills in.
        let answer = unsafe { libc::fcntl(self.fd, F_OFD_GETLK, &mut lock) };
        (answer == 0).then_some(c_int::from(lock.l_type) != libc::F_UNLCK)
    }

    /// Locks the entrance, waiting `patience_ns` at most.
    pub(super) fn lock_entrance(&self, patience_ns: u64) -> Result<(), Trouble> {
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

pub(super) fn open_file(path: &CStr, create: c_int) -> Option<c_int> {
    // O_NONBLOCK: a FIFO of that name must not hold the program up.
    let flags = libc::O_RDWR | libc::O_CLOEXEC | libc::O_NOFOLLOW | libc::O_NOCTTY | libc::O_NONBLOCK | create;
    // SAFETY: `path` is NUL-terminated; O_CREAT has its mode.
    let fd = unsafe { libc::open(path.as_ptr(), flags, 0o600) };
    (fd >= 0).then_some(fd)
}

fn close_if(fd: c_int, file: (u64, u64)) {
    if fd >= 0 && output::status(fd).is_some_and(|status| identity(&status) == file) {
        // SAFETY: the descriptor is the one that was opened for this file.
        unsafe { libc::close(fd) };
    }
}

pub(super) fn identity(status: &libc::stat) -> (u64, u64) {
    (status.st_dev, status.st_ino)
}

pub(super) fn slot_byte(slot: usize) -> i64 {
    i64::try_from(slot).unwrap_or(i64::MAX).saturating_add(FIRST_SLOT)
}

/// Bytes of the file, from its beginning.
fn range(kind: c_int, from: i64, count: i64) -> libc::flock {
    let kind = libc::c_short::try_from(kind).unwrap_or(0);
    let whence = libc::c_short::try_from(libc::SEEK_SET).unwrap_or(0);
    libc::flock { l_type: kind, l_whence: whence, l_start: from, l_len: count, l_pid: 0 }
}

pub(super) fn last_error() -> Trouble {
    Trouble::Unusable(os::last_error().to_string())
}
