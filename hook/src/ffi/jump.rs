//! Functions of the C library that this one passes on the way: an exported symbol that saves its arguments, lets a Rust
//! function do something and find the real one, and jumps there. The real function runs as if it had been called
//! directly: same arguments (however many, of whatever type), same stack, same return address.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// Exports `$name`, which asks `$resolver` (an `extern "C" fn` that may look at up to six integer arguments of the call)
/// where to jump. The resolver must never answer null.
macro_rules! jump {
    ($(#[$doc:meta])* $name:ident, $resolver:path) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// As the C library's function of this name.
        #[unsafe(naked)]
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C" fn $name() {
            // Saved are the registers that may hold arguments. `al` counts the vector registers of a variadic call.
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(
                ".cfi_startproc",
                "push rbp",
                ".cfi_adjust_cfa_offset 8",
                ".cfi_rel_offset rbp, 0",
                "mov rbp, rsp",
                ".cfi_def_cfa_register rbp",
                "sub rsp, 192",
                "mov [rsp], rdi",
                "mov [rsp + 8], rsi",
                "mov [rsp + 16], rdx",
                "mov [rsp + 24], rcx",
                "mov [rsp + 32], r8",
                "mov [rsp + 40], r9",
                "mov [rsp + 48], rax",
                "mov [rsp + 56], r10",
                "movaps [rsp + 64], xmm0",
                "movaps [rsp + 80], xmm1",
                "movaps [rsp + 96], xmm2",
                "movaps [rsp + 112], xmm3",
                "movaps [rsp + 128], xmm4",
                "movaps [rsp + 144], xmm5",
                "movaps [rsp + 160], xmm6",
                "movaps [rsp + 176], xmm7",
                "call {resolver}",
                "mov r11, rax",
                "mov rdi, [rsp]",
                "mov rsi, [rsp + 8]",
                "mov rdx, [rsp + 16]",
                "mov rcx, [rsp + 24]",
                "mov r8, [rsp + 32]",
                "mov r9, [rsp + 40]",
                "mov rax, [rsp + 48]",
                "mov r10, [rsp + 56]",
                "movaps xmm0, [rsp + 64]",
                "movaps xmm1, [rsp + 80]",
                "movaps xmm2, [rsp + 96]",
                "movaps xmm3, [rsp + 112]",
                "movaps xmm4, [rsp + 128]",
                "movaps xmm5, [rsp + 144]",
                "movaps xmm6, [rsp + 160]",
                "movaps xmm7, [rsp + 176]",
                "leave",
                ".cfi_def_cfa rsp, 8",
                "jmp r11",
                ".cfi_endproc",
                resolver = sym $resolver,
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!(
                ".cfi_startproc",
                "stp x29, x30, [sp, #-224]!",
                ".cfi_adjust_cfa_offset 224",
                ".cfi_rel_offset x29, 0",
                ".cfi_rel_offset x30, 8",
                "mov x29, sp",
                "stp x0, x1, [sp, #16]",
                "stp x2, x3, [sp, #32]",
                "stp x4, x5, [sp, #48]",
                "stp x6, x7, [sp, #64]",
                "str x8, [sp, #80]",
                "stp q0, q1, [sp, #96]",
                "stp q2, q3, [sp, #128]",
                "stp q4, q5, [sp, #160]",
                "stp q6, q7, [sp, #192]",
                "bl {resolver}",
                "mov x16, x0",
                "ldp x0, x1, [sp, #16]",
                "ldp x2, x3, [sp, #32]",
                "ldp x4, x5, [sp, #48]",
                "ldp x6, x7, [sp, #64]",
                "ldr x8, [sp, #80]",
                "ldp q0, q1, [sp, #96]",
                "ldp q2, q3, [sp, #128]",
                "ldp q4, q5, [sp, #160]",
                "ldp q6, q7, [sp, #192]",
                "ldp x29, x30, [sp], #224",
                ".cfi_adjust_cfa_offset -224",
                ".cfi_restore x29",
                ".cfi_restore x30",
                "br x16",
                ".cfi_endproc",
                resolver = sym $resolver,
            );
        }
    };
}
pub(super) use jump;

/// Exports `$name`, a function of CUDA: called inside another call of this library it is `$symbol`'s own function where that
/// is known, else and elsewhere `$otherwise`. `$type` is the C type of all three.
macro_rules! jump_if_nested {
    (
        $(#[$doc:meta])*
        $name:ident($($argument:ident: $argument_type:ty),+ $(,)?)
        to $symbol:path: $type:ty, else $otherwise:expr
    ) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// As NVIDIA's function of this name.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        #[allow(clippy::too_many_arguments)] // a launch has as many
        pub unsafe extern "C" fn $name($($argument: $argument_type),+) -> $crate::ffi::types::CudaError {
            // Only registers that no argument is passed in are touched.
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(
                ".cfi_startproc",
                "mov rax, qword ptr [rip + cuda_hook_thread@GOTTPOFF]",
                "cmp byte ptr fs:[rax + {inside}], 0",
                "je 2f",
                "mov rax, qword ptr [rip + {symbol} + {own}]",
                "test rax, rax",
                "je 2f",
                "jmp rax",
                "2:",
                "jmp {otherwise}",
                ".cfi_endproc",
                inside = const $crate::ffi::thread::INSIDE,
                symbol = sym $symbol,
                own = const $crate::ffi::symbol::Symbol::<$type>::OWN,
                otherwise = sym $otherwise,
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!(
                ".cfi_startproc",
                "mrs x16, tpidr_el0",
                "adrp x17, :gottprel:cuda_hook_thread",
                "ldr x17, [x17, :gottprel_lo12:cuda_hook_thread]",
                "add x16, x16, x17",
                "ldrb w16, [x16, {inside}]",
                "cbz w16, 2f",
                "adrp x16, {symbol}",
                "add x16, x16, :lo12:{symbol}",
                "add x16, x16, {own}",
                "ldar x16, [x16]",
                "cbz x16, 2f",
                "br x16",
                "2:",
                "b {otherwise}",
                ".cfi_endproc",
                inside = const $crate::ffi::thread::INSIDE,
                symbol = sym $symbol,
                own = const $crate::ffi::symbol::Symbol::<$type>::OWN,
                otherwise = sym $otherwise,
            );
        }

        // One type for all of them, or this does not compile.
        const _: [$type; 2] = [$name, $otherwise];
        const _: &$crate::ffi::symbol::Symbol<$type> = &$symbol;
    };
}
pub(super) use jump_if_nested;

/// A function of the C library behind an export of the same name.
pub(super) struct Behind {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Behind {
    pub(super) const fn new(name: &'static CStr) -> Behind {
        Behind { name, address: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Its address. Looked up at load time where possible: the dynamic linker may not be asked in a signal handler.
    pub(super) fn address(&self) -> *const c_void {
        let known = self.address.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        // SAFETY: `name` is NUL-terminated; RTLD_NEXT asks for the definition behind this library's own.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        if found.is_null() {
            return missing as *const c_void;
        }
        self.address.store(found, Ordering::Relaxed);
        found
    }
}

/// Stands in for what this C library does not have.
extern "C" fn missing() -> c_int {
    super::os::set_errno(libc::ENOSYS);
    -1
}
