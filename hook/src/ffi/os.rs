//! The C library, behind safe functions: clocks, process, environment.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::NonNull;

use super::thread::Uncancelled;

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

/// The processor's time-stamp counter, where it runs at one speed for all processors (Intel's manual, volume 3, 19.17).
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn ticks() -> u64 {
    // SAFETY: every x86-64 has it; a system that forbids it (PR_SET_TSC) does so for the C library's clock as well.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// No counter is used here: the clock is read.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn ticks() -> u64 {
    0
}

/// Whether [`ticks`] may be used: the processor says that the counter neither stops nor changes its speed, and the
/// kernel, which watches it, keeps time by it or by a hypervisor's page over it.
pub(crate) fn ticks_are_steady() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        const LEAF: u32 = 0x8000_0007;
        let steady =
            std::arch::x86_64::__cpuid(0x8000_0000).eax >= LEAF && std::arch::x86_64::__cpuid(LEAF).edx & (1 << 8) != 0;
        let source = std::fs::read("/sys/devices/system/clocksource/clocksource0/current_clocksource");
        steady
            && source
                .is_ok_and(|name| matches!(name.trim_ascii(), b"tsc" | b"kvm-clock" | b"hyperv_clocksource_tsc_page"))
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Sleeps until the monotonic clock reads `until_ns`; a signal does not shorten it, and nothing cancels the thread.
pub(crate) fn sleep_until(until_ns: u64) {
    let _held = Uncancelled::hold();
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

/// Where this thread's `errno` is.
#[inline(always)]
pub(crate) fn errno_place() -> NonNull<i32> {
    // SAFETY: takes nothing; the location is this thread's own.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: it is always there.
    unsafe { NonNull::new_unchecked(place) }
}

/// Sleeps for so long, or a little less when a signal comes.
pub(crate) fn sleep_ns(time_ns: u64) {
    let _held = Uncancelled::hold();
    let time = libc::timespec { tv_sec: 0, tv_nsec: libc::c_long::try_from(time_ns).unwrap_or(0) };
    // SAFETY: `time` is valid; what is left of it is not asked for.
    unsafe { libc::nanosleep(&time, std::ptr::null_mut()) };
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

/// Whether the process's first thread has ended (`pthread_exit`), and at most one other is left.
pub(crate) fn is_one_thread_without_the_first() -> bool {
    // `pid (name) state …`, the 18th field after the state being the number of threads; the name may hold anything.
    let Ok(text) = std::fs::read("/proc/self/stat") else { return false };
    let Some(after) = text.rsplit(|&byte| byte == b')').next() else { return false };
    let mut fields = after.split(|&byte| byte == b' ').filter(|field| !field.is_empty());
    fields.next() == Some(b"Z") && matches!(fields.nth(16), Some(b"1" | b"2"))
}

/// Whether `/proc` tells of this process.
pub(crate) fn has_proc() -> bool {
    std::fs::metadata("/proc/self/stat").is_ok()
}

/// Has `before` called in this process before each fork, and `child` in the child.
pub(crate) fn at_fork(before: extern "C" fn(), parent: extern "C" fn(), child: extern "C" fn()) {
    // SAFETY: all are functions of this library, which is never unloaded. Failing for want of memory leaves children
    // with their parent's accounts, and there is no better answer here.
    unsafe { libc::pthread_atfork(Some(before), Some(parent), Some(child)) };
}

unsafe extern "C" {
    /// `atexit` with an argument and the library that the function goes away with (Itanium C++ ABI, 3.3.5.3).
    fn __cxa_atexit(function: extern "C" fn(*mut c_void), argument: *mut c_void, library: *mut c_void) -> c_int;
    /// `at_quick_exit`, likewise.
    fn __cxa_at_quick_exit(function: extern "C" fn(*mut c_void), library: *mut c_void) -> c_int;
}

/// Has `last` called at `quick_exit`.
pub(crate) fn at_quick_exit(last: extern "C" fn(*mut c_void)) {
    // SAFETY: `last` is a function of this library, which the caller keeps loaded; its argument is not used.
    unsafe { __cxa_at_quick_exit(last, std::ptr::null_mut()) };
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
pub(crate) fn copy_text(at: usize) -> Option<&'static &'static str> {
    let text: *const c_char = std::ptr::with_exposed_provenance(at);
    // SAFETY: see above: a C string that the program registered and has not taken back.
    let text = unsafe { CStr::from_ptr(text) };
    let text: &'static str = Box::leak(text.to_str().ok()?.into());
    Some(Box::leak(Box::new(text)))
}

/// What a leaked box's pointer points to; `None` for null.
pub(crate) fn leaked_ref<T>(pointer: *mut T) -> Option<&'static T> {
    // SAFETY: callers pass null or a pointer from `Box::leak`, which is never freed and never borrowed mutably again.
    unsafe { pointer.as_ref() }
}
