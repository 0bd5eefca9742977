//! The exported symbols of the CUDA Driver API, and how programs are brought to them: [`resolve`] answers for the driver,
//! memory is in [`memory`], [`mod@array`] and [`vmm`], launches in [`launch`].
//!
//! Static runtimes, cuBLAS, Triton, CuPy and JAX call the driver directly. The shared runtime does so too, on behalf of
//! calls that are hooked themselves; those are nested and pass through.
//!
//! Contract of all of them: as NVIDIA's function of the same name
//! (<https://docs.nvidia.com/cuda/cuda-driver-api/>).
// `no_mangle` makes these symbols public whatever Rust can reach.
#![allow(unreachable_pub)]

mod array;
mod context;
mod launch;
mod memory;
mod module;
mod real;
pub(super) mod resolve;
pub(crate) mod uncounted;
mod vmm;

use std::ffi::CStr;
use std::sync::atomic::{AtomicI32, Ordering};

use super::types::{CudaError, SUCCESS, address};
use crate::config::Target;
use crate::ffi::boundary::{self, Real};
use crate::{names, state};

/// Whether the driver's functions are looked at at all (`CUDA_HOOK_LEVEL`).
fn hooked() -> bool {
    state::get().config.driver
}

/// Runs an export's `body`, or the real call alone when the driver is not looked at.
fn export(mut call: impl FnMut() -> CudaError, body: impl FnOnce(&mut Real<'_>) -> CudaError) -> CudaError {
    boundary::export(&mut call, |real| if hooked() { body(real) } else { real.call() })
}

/// Whether the process has a single device, as most have: then nobody need be asked which one a call is for. The driver is
/// asked once, and not the runtime, whose last error a question may change.
#[inline(always)]
pub(crate) fn is_only_device() -> bool {
    match DEVICES.load(Ordering::Relaxed) {
        0 => count_devices() == 1,
        count => count == 1,
    }
}

/// 0: not asked yet; less: the driver could not tell.
static DEVICES: AtomicI32 = AtomicI32::new(0);

#[cold]
fn count_devices() -> i32 {
    let Some(real) = real::DEVICE_GET_COUNT.get() else { return -1 };
    let mut count = -1;
    // SAFETY: `count` is a valid place to write to.
    if unsafe { real(&mut count) } != SUCCESS {
        // Before it is initialised it has no answer yet.
        return -1;
    }
    DEVICES.store(count, Ordering::Relaxed);
    count
}

/// The device of the calling thread's context.
pub(crate) fn current_device() -> Option<i32> {
    let real = real::CTX_GET_DEVICE.get()?;
    let mut device = -1;
    // SAFETY: `device` is a valid place to write to.
    let answer = unsafe { real(&mut device) };
    (answer == SUCCESS && device >= 0).then_some(device)
}

/// The context that the block at `ptr` belongs to.
pub(crate) fn context_of(ptr: u64) -> Option<u64> {
    /// `CU_POINTER_ATTRIBUTE_CONTEXT`.
    const CONTEXT: i32 = 1;
    let real = real::POINTER_GET_ATTRIBUTE.get()?;
    let mut context: *mut std::ffi::c_void = std::ptr::null_mut();
    // SAFETY: `context` is a valid place for what this attribute is, a context.
    let answer = unsafe { real((&raw mut context).cast(), CONTEXT, ptr) };
    (answer == SUCCESS).then(|| address(context))
}

/// Asks the driver for the name of a kernel that it gave the handle of, once for each handle.
pub(crate) fn learn_name(handle: *mut std::ffi::c_void) {
    let func = address(handle);
    if func == 0 || state::get().config.events == Target::Off || names::is_known(func) {
        return;
    }
    let mut name = std::ptr::null();
    // A launch takes either kind of handle.
    let asked = [&real::FUNC_GET_NAME, &real::KERNEL_GET_NAME].into_iter().any(|symbol| {
        // SAFETY: `name` is a valid place to write to, the handle is one that the program launches.
        symbol.get().is_some_and(|real| unsafe { real(&mut name, handle) } == SUCCESS)
    });
    // SAFETY: the driver's own string, which lives as long as the kernel.
    let name = (asked && !name.is_null()).then(|| unsafe { CStr::from_ptr(name) });
    names::learn(func, name.and_then(|name| name.to_str().ok()));
}
