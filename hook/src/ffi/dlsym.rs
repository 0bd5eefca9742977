//! `dlsym`, answered for the driver's functions: that is how libcudart, shared or static, and everything else that
//! loads the driver for itself comes to it.
//!
//! Every other question goes on to the real `dlsym` by a jump, not a call: `RTLD_NEXT` means "behind whoever asks",
//! which the real one tells from the return address. A call from here would make this library the one that asks, and
//! other preloaded libraries would find themselves and recurse.

// `no_mangle` makes the symbol public whatever Rust can reach.
#![allow(unreachable_pub)]

use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use super::boundary::contain;
use super::driver::resolve;
use super::guard::Guard;

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// Versions that the C library's `dlsym` carries: since glibc 2.34, and the first one of each architecture.
const VERSIONS: [&CStr; 3] = [c"GLIBC_2.34", c"GLIBC_2.2.5", c"GLIBC_2.17"];

static REAL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Address of the next `dlsym` behind this library's own.
fn real_address() -> *mut c_void {
    let mut address = REAL.load(Ordering::Acquire);
    for version in VERSIONS {
        if !address.is_null() {
            break;
        }
        // SAFETY: both names are NUL-terminated; what is asked for is the definition behind this library's own.
        address = unsafe { libc::dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), version.as_ptr()) };
        REAL.store(address, Ordering::Release);
    }
    address
}

/// What the real `dlsym` finds for this library itself; null for nothing.
pub(super) fn real(handle: *mut c_void, name: &CStr) -> *mut c_void {
    let address = real_address();
    if address.is_null() {
        return address;
    }
    // SAFETY: a non-null address came from the dynamic linker for the C library's `dlsym`.
    let dlsym = unsafe { std::mem::transmute::<*mut c_void, Dlsym>(address) };
    // SAFETY: `name` is NUL-terminated; `handle` is a live one or RTLD_NEXT.
    unsafe { dlsym(handle, name.as_ptr()) }
}

/// Two registers: the address to answer with, or null and where to go on.
#[repr(C)]
struct Answer {
    found: *mut c_void,
    go_on: *mut c_void,
}

/// Nothing here, and an error of our own: without a real `dlsym` there is nowhere to go on to.
extern "C" fn nothing(_: *mut c_void, _: *const c_char) -> *mut c_void {
    std::ptr::null_mut()
}

extern "C" fn answer(handle: *mut c_void, name: *const c_char) -> Answer {
    let mut go_on = real_address();
    if go_on.is_null() {
        go_on = nothing as *mut c_void;
    }
    let mut found = std::ptr::null_mut();
    // RTLD_DEFAULT and RTLD_NEXT depend on who asks, and find this library's exports by themselves.
    if !name.is_null() && handle != libc::RTLD_DEFAULT && handle != libc::RTLD_NEXT {
        // SAFETY: not null, and a string by the contract of `dlsym`.
        let name = unsafe { CStr::from_ptr(name) };
        if name.to_bytes().starts_with(b"cu") {
            let _errno = Guard::enter();
            contain(|| found = resolve::by_symbol(handle, name));
        }
    }
    Answer { found, go_on }
}

/// `dlsym`: the driver's functions are answered with this library's, everything else by the real one.
///
/// # Safety
/// As the C library's.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    // The stack is 8 off a multiple of 16 on entry; the two arguments and 8 more make it even for the call.
    std::arch::naked_asm!(
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {answer}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "test rax, rax",
        "jz 2f",
        "ret",
        "2: jmp rdx",
        answer = sym answer,
    )
}

/// `dlsym`: the driver's functions are answered with this library's, everything else by the real one.
///
/// # Safety
/// As the C library's.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    std::arch::naked_asm!(
        "stp x29, x30, [sp, #-32]!",
        "mov x29, sp",
        "stp x0, x1, [sp, #16]",
        "bl {answer}",
        "cbz x0, 2f",
        "ldp x29, x30, [sp], #32",
        "ret",
        "2: mov x16, x1",
        "ldp x0, x1, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        "br x16",
        answer = sym answer,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_real_one_is_found_and_asked() {
        let here = real(libc::RTLD_DEFAULT, c"getpid");
        assert!(!here.is_null());
        assert!(real(libc::RTLD_DEFAULT, c"no_such_function").is_null());
    }
}
