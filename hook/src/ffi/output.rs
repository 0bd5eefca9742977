//! Files that whole records are written to, whatever the program does with its descriptors, signals and limits.

use std::ffi::{CString, c_int};
use std::sync::atomic::{AtomicBool, Ordering};

use super::os::errno;
use super::thread::Uncancelled;

/// A file descriptor that whole records are written to.
#[derive(Debug)]
pub(crate) struct Output {
    fd: c_int,
    /// What a file of our own is; what stands behind stderr is looked at anew each time, for it is the program's.
    kind: Option<Kind>,
    /// The last record was written in part: the next begins with a line feed, so that it stays whole.
    torn: AtomicBool,
    /// Nothing more is written.
    disowned: AtomicBool,
}

/// What a write has to mind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A broken one raises SIGPIPE.
    Pipe,
    /// So does this, unless `send` is told otherwise.
    Socket,
    /// One that outgrows the process's limit (`ulimit -f`), which the program may set at any time, raises SIGXFSZ.
    File,
    /// A stderr that was closed when the library was loaded. What the program opens later under the same number is a
    /// file of its own, which our lines don't belong in.
    Closed,
    /// Terminals, devices.
    Other,
}

/// Not all was written.
#[derive(Debug)]
pub(crate) struct NotWritten {
    /// Bytes that were.
    pub(crate) written: usize,
}

/// Bytes of whole records that go into one `write` at most.
const CHUNK: usize = 64 << 10;

impl Output {
    fn new(fd: c_int, kind: Option<Kind>) -> Output {
        Output { fd, kind, torn: AtomicBool::new(false), disowned: AtomicBool::new(false) }
    }

    /// File descriptor 2, whatever the program has made of it.
    pub(crate) fn stderr() -> Output {
        let kind = STDERR_CLOSED.load(Ordering::Relaxed).then_some(Kind::Closed);
        Output::new(libc::STDERR_FILENO, kind)
    }

    /// A file to append to, made if it is not there. The descriptor does not survive an `exec`.
    pub(crate) fn append(path: &[u8]) -> Option<Output> {
        let path = CString::new(path).ok()?;
        let _held = Uncancelled::hold();
        // O_NONBLOCK: a FIFO that nobody reads must not hold the program up. For a file it means nothing.
        let flags =
            libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND | libc::O_CLOEXEC | libc::O_NOCTTY | libc::O_NONBLOCK;
        // SAFETY: `path` is NUL-terminated; O_CREAT has its mode.
        let low = unsafe { libc::open(path.as_ptr(), flags, 0o666) };
        if low < 0 {
            return None;
        }
        let fd = move_up(low)?;
        Some(Output::new(fd, Some(Kind::of(fd))))
    }

    /// Whether the record of so many bytes that was written last, the only one so far, stands at the beginning of a line
    /// of this file; true where that can't be told. It does not where the file ended in what another process's kill has
    /// cut, which nobody can know before: others' writes show page by page.
    pub(crate) fn began_a_line(&self, path: &[u8], bytes: usize) -> bool {
        let (Some(Kind::File), Ok(path)) = (self.kind, CString::new(path)) else { return true };
        // SAFETY: a descriptor of ours; nothing is moved.
        let end = unsafe { libc::lseek(self.fd, 0, libc::SEEK_CUR) };
        let before = end.saturating_sub(libc::off_t::try_from(bytes).unwrap_or(0)).saturating_sub(1);
        let _held = Uncancelled::hold();
        // SAFETY: `path` is NUL-terminated.
        let fd = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NOCTTY) };
        let mut byte = b'\n';
        if before >= 0 && fd >= 0 {
            // SAFETY: room for one byte.
            unsafe { libc::pread(fd, (&raw mut byte).cast(), 1, before) };
        }
        if fd >= 0 {
            // SAFETY: opened just now, and nobody else has it.
            unsafe { libc::close(fd) };
        }
        byte == b'\n'
    }

    /// Whether this is file descriptor 2.
    pub(crate) fn is_stderr(&self) -> bool {
        self.fd == libc::STDERR_FILENO
    }

    /// Size of the file, bytes; 0 for what is no file.
    pub(crate) fn size(&self) -> u64 {
        status(self.fd).and_then(|status| u64::try_from(status.st_size).ok()).unwrap_or(0)
    }

    /// From now on there is nothing to write here for this process.
    pub(crate) fn disown(&self) {
        self.disowned.store(true, Ordering::Relaxed);
    }

    /// Closes a file; stderr is the program's and stays open.
    pub(crate) fn close(self) {
        if !self.is_stderr() {
            // SAFETY: a descriptor that this value opened and nobody else has.
            unsafe { libc::close(self.fd) };
        }
    }

    /// How many bytes of whole records one `write` takes without mixing with other processes' writes: a file that is
    /// appended to takes many; pipes promise `PIPE_BUF`.
    pub(crate) fn chunk(&self) -> usize {
        match self.kind.unwrap_or_else(|| Kind::of(self.fd)) {
            Kind::File | Kind::Closed => CHUNK,
            Kind::Pipe | Kind::Socket | Kind::Other => libc::PIPE_BUF,
        }
    }

    /// Writes whole records in one `write`. The rest of a short write follows; a full pipe that does not block is given a
    /// tenth of a second. A reader that has gone raises no signal in the program. Allocates nothing.
    pub(crate) fn write(&self, records: &[u8]) -> Result<(), NotWritten> {
        // Until the line feed is there, the record that was cut still waits for it.
        if self.torn.load(Ordering::Relaxed) {
            self.write_whole(b"\n").map_err(|_| NotWritten { written: 0 })?;
            self.torn.store(false, Ordering::Relaxed);
        }
        self.write_whole(records)
    }

    fn write_whole(&self, record: &[u8]) -> Result<(), NotWritten> {
        let _held = Uncancelled::hold();
        let kind = self.kind.unwrap_or_else(|| Kind::of(self.fd));
        let mut rest = record;
        let mut patience = 10u32;
        while !rest.is_empty() {
            let result = match kind {
                Kind::Other => self.write_some(rest),
                Kind::Pipe => without_signal(libc::SIGPIPE, libc::EPIPE, || self.write_some(rest)),
                Kind::File if files_are_limited() => {
                    without_signal(libc::SIGXFSZ, libc::EFBIG, || self.write_some(rest))
                }
                Kind::File => self.write_some(rest),
                Kind::Closed => Err(libc::EBADF),
                Kind::Socket => self.send_some(rest),
            };
            match result {
                Ok(written) => rest = rest.get(written..).unwrap_or(&[]),
                Err(libc::EINTR) => {}
                Err(libc::EAGAIN) if patience > 0 => {
                    patience = patience.saturating_sub(1);
                    let mut wait = libc::pollfd { fd: self.fd, events: libc::POLLOUT, revents: 0 };
                    // SAFETY: one valid entry.
                    unsafe { libc::poll(&mut wait, 1, 10) };
                }
                Err(_) => {
                    let written = record.len().saturating_sub(rest.len());
                    if record.get(..written).and_then(<[u8]>::last).is_some_and(|&last| last != b'\n') {
                        self.torn.store(true, Ordering::Relaxed);
                    }
                    return Err(NotWritten { written });
                }
            }
        }
        Ok(())
    }

    fn write_some(&self, bytes: &[u8]) -> Result<usize, i32> {
        // Here, for a signal is handled, and may fork, at the end of any system call.
        if self.disowned.load(Ordering::Relaxed) {
            return Ok(bytes.len());
        }
        // SAFETY: `bytes` is valid for its length.
        let written = unsafe { libc::write(self.fd, bytes.as_ptr().cast(), bytes.len()) };
        usize::try_from(written).map_err(|_| errno())
    }

    fn send_some(&self, bytes: &[u8]) -> Result<usize, i32> {
        if self.disowned.load(Ordering::Relaxed) {
            return Ok(bytes.len());
        }
        // SAFETY: `bytes` is valid for its length.
        let sent = unsafe { libc::send(self.fd, bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) };
        usize::try_from(sent).map_err(|_| errno())
    }
}

impl Kind {
    fn of(fd: c_int) -> Kind {
        match status(fd).map(|status| status.st_mode & libc::S_IFMT) {
            Some(libc::S_IFIFO) => Kind::Pipe,
            Some(libc::S_IFSOCK) => Kind::Socket,
            Some(libc::S_IFREG) => Kind::File,
            _ => Kind::Other,
        }
    }
}

/// Descriptors below this are the program's, which may count on getting the lowest there is, or close those that it
/// doesn't know of and open others. Lower ones are taken where its limit demands it.
const HIGH: [c_int; 4] = [1000, 240, 100, libc::STDERR_FILENO + 1];

/// Moves a descriptor that was opened just now out of the program's way. Where there is no other number it stays, unless
/// it is that of a standard stream that the program has closed: its own output must not land in our file.
pub(super) fn move_up(low: c_int) -> Option<c_int> {
    // SAFETY: see above: the descriptor is ours.
    let high = HIGH.iter().map(|&from| unsafe { libc::fcntl(low, libc::F_DUPFD_CLOEXEC, from) }).find(|&fd| fd >= 0);
    if high.is_none() && low > libc::STDERR_FILENO {
        return Some(low);
    }
    // SAFETY: the same, and nobody else has it.
    unsafe { libc::close(low) };
    high
}

/// Whether file descriptor 2 was closed at load time.
static STDERR_CLOSED: AtomicBool = AtomicBool::new(false);

/// Notes what outputs have to mind, before the first of them is made.
pub(crate) fn look_at_outputs() {
    STDERR_CLOSED.store(status(libc::STDERR_FILENO).is_none(), Ordering::Relaxed);
}

/// Whether the process has a limit on the size of its files now.
fn files_are_limited() -> bool {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: `limit` is a valid place to write to.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) };
    limit.rlim_cur != libc::RLIM_INFINITY
}

/// What is behind a descriptor.
pub(crate) fn status(fd: c_int) -> Option<libc::stat> {
    let mut info = std::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: `info` is a valid place to write to.
    if unsafe { libc::fstat(fd, info.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: filled by fstat.
    Some(unsafe { info.assume_init() })
}

/// Runs `write` with `signal` held back in this thread and, if the write raised it (and so failed with `error`), taken
/// away again; one that the program had waiting already stays.
pub(super) fn without_signal<T>(signal: c_int, error: i32, write: impl FnOnce() -> Result<T, i32>) -> Result<T, i32> {
    let (mut set, mut waiting, mut before) = (empty_set(), empty_set(), empty_set());
    // SAFETY: a valid set.
    unsafe { libc::sigaddset(&mut set, signal) };
    // SAFETY: valid sets.
    unsafe { libc::sigpending(&mut waiting) };
    // SAFETY: valid sets.
    let already = unsafe { libc::sigismember(&waiting, signal) } == 1;
    // SAFETY: valid sets.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, &mut before) };
    let result = write();
    if result.as_ref().is_err_and(|&code| code == error) && !already {
        let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: a valid set, no information is asked for, and the time-out is no waiting at all.
        unsafe { libc::sigtimedwait(&set, std::ptr::null_mut(), &now) };
    }
    // SAFETY: `before` is what the mask was.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
    result
}

fn empty_set() -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: a valid place to write to.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: written by sigemptyset.
    unsafe { set.assume_init() }
}
