//! The C library, behind safe functions: clocks, process, environment, and whole lines to file descriptors.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

/// Which clock.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Clock {
    /// `CLOCK_MONOTONIC`.
    Monotonic,
    /// `CLOCK_REALTIME`.
    Wall,
}

/// The clock's time, ns.
pub(crate) fn clock_ns(clock: Clock) -> u64 {
    let id = match clock {
        Clock::Monotonic => libc::CLOCK_MONOTONIC,
        Clock::Wall => libc::CLOCK_REALTIME,
    };
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place to write to. These clocks exist on every Linux.
    unsafe { libc::clock_gettime(id, &mut time) };
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0))
}

/// Sleeps until the monotonic clock reads `until_ns`; a signal does not shorten it.
pub(crate) fn sleep_until(until_ns: u64) {
    let time = timespec(until_ns);
    let (clock, absolute, no_rest) = (libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, std::ptr::null_mut());
    // SAFETY: `time` is valid; no remaining time is asked for, which an absolute sleep would not give anyway.
    while unsafe { libc::clock_nanosleep(clock, absolute, &time, no_rest) } == libc::EINTR {}
}

/// A moment as the C library takes it.
pub(crate) fn timespec(ns: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: libc::time_t::try_from(ns.div_euclid(1_000_000_000)).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::try_from(ns.rem_euclid(1_000_000_000)).unwrap_or(0),
    }
}

/// `errno` of this thread.
pub(crate) fn errno() -> i32 {
    // SAFETY: the location is this thread's own and always valid.
    unsafe { *libc::__errno_location() }
}

/// Sets `errno` of this thread.
pub(crate) fn set_errno(value: i32) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = value };
}

/// Whether a thread can be cancelled, as the C library counts it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CancelState(c_int);

/// `PTHREAD_CANCEL_DISABLE` of glibc.
const CANCEL_DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// Keeps this thread from being cancelled; answers what was before.
pub(crate) fn hold_cancellation() -> CancelState {
    let mut before = 0;
    // SAFETY: `before` is a valid place to write to.
    unsafe { pthread_setcancelstate(CANCEL_DISABLE, &mut before) };
    CancelState(before)
}

/// Undoes [`hold_cancellation`].
pub(crate) fn restore_cancellation(CancelState(before): CancelState) {
    // SAFETY: a null pointer says that the old state is not wanted.
    unsafe { pthread_setcancelstate(before, std::ptr::null_mut()) };
}

/// What the last failed call of this thread met with, in words.
pub(crate) fn last_error() -> std::io::Error {
    std::io::Error::from_raw_os_error(errno())
}

/// `getpid`.
pub(crate) fn process_id() -> u32 {
    std::process::id()
}

/// `getppid`.
pub(crate) fn parent_id() -> u32 {
    std::os::unix::process::parent_id()
}

thread_local! {
    static THREAD_ID: Cell<u32> = const { Cell::new(0) };
}

/// The kernel's id of this thread.
pub(crate) fn thread_id() -> u32 {
    if THREAD_ID.get() == 0 {
        // SAFETY: takes nothing.
        THREAD_ID.set(u32::try_from(unsafe { libc::gettid() }).unwrap_or(0));
    }
    THREAD_ID.get()
}

/// A forked child's only thread has another id than its model.
pub(crate) fn forget_thread_id() {
    THREAD_ID.set(0);
}

/// Has `child` called in every child that this process forks.
pub(crate) fn at_fork(child: extern "C" fn()) {
    // SAFETY: `child` is a function of this library, which is never unloaded; the other two are not wanted. Failing
    // for want of memory leaves children with their parent's accounts, and there is no better answer here.
    unsafe { libc::pthread_atfork(None, None, Some(child)) };
}

unsafe extern "C" {
    /// `atexit` with an argument and the library that the function goes away with (Itanium C++ ABI, 3.3.5.3).
    fn __cxa_atexit(function: extern "C" fn(*mut c_void), argument: *mut c_void, library: *mut c_void) -> c_int;
}

/// Has `last` called at `exit`. Called at load time, before the C library registers the run of all libraries'
/// destructors, it comes after them: exit goes through its list backwards. For that it belongs to no library, so this
/// one must stay loaded.
pub(crate) fn at_exit(last: extern "C" fn(*mut c_void)) {
    // SAFETY: `last` is a function of this library, which the caller keeps loaded; it takes no argument.
    unsafe { __cxa_atexit(last, std::ptr::null_mut(), std::ptr::null_mut()) };
}

/// An environment variable's value, as bytes.
pub(crate) fn environment(name: &str) -> Option<Vec<u8>> {
    use std::os::unix::ffi::OsStringExt;
    std::env::var_os(name).map(OsStringExt::into_vec)
}

/// The names of all environment variables.
pub(crate) fn environment_names() -> Vec<Vec<u8>> {
    use std::os::unix::ffi::OsStringExt;
    std::env::vars_os().map(|(name, _)| name.into_vec()).collect()
}

/// Sets a variable for this program's children. Only at load time, before the program has a second thread.
pub(crate) fn set_environment(name: &str, value: &str) {
    let (Ok(name), Ok(value)) = (CString::new(name), CString::new(value)) else { return };
    // SAFETY: both are NUL-terminated and copied by the C library.
    unsafe { libc::setenv(name.as_ptr(), value.as_ptr(), 1) };
}

/// The working directory.
pub(crate) fn working_directory() -> Option<Vec<u8>> {
    use std::os::unix::ffi::OsStringExt;
    std::env::current_dir().ok().map(|path| path.into_os_string().into_vec())
}

/// The program's path; empty when `/proc` is not there.
pub(crate) fn program_path() -> Vec<u8> {
    use std::os::unix::ffi::OsStringExt;
    std::fs::read_link("/proc/self/exe").map(|path| path.into_os_string().into_vec()).unwrap_or_default()
}

/// The program's arguments, NUL-separated; empty when `/proc` is not there.
pub(crate) fn command_line() -> Vec<u8> {
    std::fs::read("/proc/self/cmdline").unwrap_or_default()
}

/// The machine's name.
pub(crate) fn host_name() -> Vec<u8> {
    let mut name = [0u8; 256];
    // SAFETY: room for 255 bytes and a NUL is given.
    if unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len().saturating_sub(1)) } != 0 {
        return Vec::new();
    }
    name.iter().copied().take_while(|&byte| byte != 0).collect()
}

/// A copy, made for good, of the NUL-terminated text at this address; `None` when it is no UTF-8. Callers hold the lock
/// that keeps the text in place.
pub(crate) fn copy_text(at: usize) -> Option<&'static str> {
    let text: *const c_char = std::ptr::with_exposed_provenance(at);
    // SAFETY: see above: a C string that the program registered and has not taken back.
    let text = unsafe { CStr::from_ptr(text) };
    Some(Box::leak(text.to_str().ok()?.into()))
}

/// What a leaked box's pointer points to; `None` for null.
pub(crate) fn leaked_ref<T>(pointer: *mut T) -> Option<&'static T> {
    // SAFETY: callers pass null or a pointer from `Box::leak`, which is never freed and never borrowed mutably again.
    unsafe { pointer.as_ref() }
}

/// A file descriptor that whole records are written to.
#[derive(Debug)]
pub(crate) struct Output {
    fd: c_int,
    /// What a file of our own is; what stands behind stderr is looked at anew each time, for it is the program's.
    kind: Option<Kind>,
    /// The last record was written in part: the next begins with a line feed, so that it stays whole.
    torn: AtomicBool,
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

/// A record was not, or not wholly, written.
#[derive(Debug)]
pub(crate) struct NotWritten;

impl Output {
    /// File descriptor 2, whatever the program has made of it.
    pub(crate) fn stderr() -> Output {
        let kind = STDERR_CLOSED.load(Ordering::Relaxed).then_some(Kind::Closed);
        Output { fd: libc::STDERR_FILENO, kind, torn: AtomicBool::new(false) }
    }

    /// A file to append to, made if it is not there. The descriptor does not survive an `exec`.
    pub(crate) fn append(path: &[u8]) -> Option<Output> {
        let path = CString::new(path).ok()?;
        // O_NONBLOCK: a FIFO that nobody reads must not hold the program up. For a file it means nothing.
        let flags =
            libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND | libc::O_CLOEXEC | libc::O_NOCTTY | libc::O_NONBLOCK;
        // SAFETY: `path` is NUL-terminated; O_CREAT has its mode.
        let mut fd = unsafe { libc::open(path.as_ptr(), flags, 0o666) };
        if (0..=libc::STDERR_FILENO).contains(&fd) {
            // The program has closed a standard stream; its own output must not land in our file.
            let low = fd;
            // SAFETY: a descriptor that was opened just now.
            fd = unsafe { libc::fcntl(low, libc::F_DUPFD_CLOEXEC, libc::STDERR_FILENO.saturating_add(1)) };
            // SAFETY: the same, and nobody else has it.
            unsafe { libc::close(low) };
        }
        (fd >= 0).then(|| Output { fd, kind: Some(Kind::of(fd)), torn: AtomicBool::new(false) })
    }

    /// Whether this is file descriptor 2.
    pub(crate) fn is_stderr(&self) -> bool {
        self.fd == libc::STDERR_FILENO
    }

    /// Size of the file, bytes; 0 for what is no file.
    pub(crate) fn size(&self) -> u64 {
        status(self.fd).and_then(|status| u64::try_from(status.st_size).ok()).unwrap_or(0)
    }

    /// Closes a file; stderr is the program's and stays open.
    pub(crate) fn close(self) {
        if !self.is_stderr() {
            // SAFETY: a descriptor that this value opened and nobody else has.
            unsafe { libc::close(self.fd) };
        }
    }

    /// Writes a record in one `write`. The rest of a short write follows; a full pipe that does not block is given a
    /// tenth of a second. A reader that has gone raises no signal in the program.
    pub(crate) fn write(&self, record: &[u8]) -> Result<(), NotWritten> {
        if self.torn.swap(false, Ordering::Relaxed) {
            let mut whole = Vec::new();
            if whole.try_reserve_exact(record.len().saturating_add(1)).is_ok() {
                whole.push(b'\n');
                whole.extend_from_slice(record);
                return self.write_whole(&whole);
            }
        }
        self.write_whole(record)
    }

    fn write_whole(&self, record: &[u8]) -> Result<(), NotWritten> {
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
                    if rest.len() < record.len() {
                        self.torn.store(true, Ordering::Relaxed);
                    }
                    return Err(NotWritten);
                }
            }
        }
        Ok(())
    }

    fn write_some(&self, bytes: &[u8]) -> Result<usize, i32> {
        // SAFETY: `bytes` is valid for its length.
        let written = unsafe { libc::write(self.fd, bytes.as_ptr().cast(), bytes.len()) };
        usize::try_from(written).map_err(|_| errno())
    }

    fn send_some(&self, bytes: &[u8]) -> Result<usize, i32> {
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
