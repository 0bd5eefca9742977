//! Entry points that take device memory or start work in ways that are not counted here. A program that asks for one
//! gets a function that counts the call and jumps on to the real one, whatever its arguments are; so the event file
//! says what went past the limits.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use super::resolve::{Function, Stream, functions};
use crate::ffi::symbol::{Slot, pin};

/// The real function behind a counting one.
struct Target(AtomicPtr<c_void>);

impl Slot for Target {
    fn offer(&self, address: *mut c_void) {
        if self.0.load(Ordering::Acquire).is_null() {
            pin(address);
            self.0.store(address, Ordering::Release);
        }
    }
}

macro_rules! uncounted {
    ($($module:ident $symbol:literal $name:literal $since:literal $stream:ident;)+) => {
        $(mod $module {
            use super::*;

            pub(super) static CALLS: AtomicU64 = AtomicU64::new(0);
            pub(super) static REAL: Target = Target(AtomicPtr::new(std::ptr::null_mut()));

            /// Handed out only once `REAL` is there.
            #[cfg(target_arch = "x86_64")]
            #[unsafe(naked)]
            pub(super) unsafe extern "C" fn count() {
                std::arch::naked_asm!(
                    "lock inc qword ptr [rip + {calls}]",
                    "jmp qword ptr [rip + {real}]",
                    calls = sym CALLS,
                    real = sym REAL,
                )
            }

            /// Handed out only once `REAL` is there. x9, x16 and x17 are free at a function's entry.
            #[cfg(target_arch = "aarch64")]
            #[unsafe(naked)]
            pub(super) unsafe extern "C" fn count() {
                std::arch::naked_asm!(
                    "adrp x16, {calls}",
                    "add x16, x16, :lo12:{calls}",
                    "2: ldxr x17, [x16]",
                    "add x17, x17, #1",
                    "stxr w9, x17, [x16]",
                    "cbnz w9, 2b",
                    "adrp x16, {real}",
                    "ldr x16, [x16, :lo12:{real}]",
                    "br x16",
                    calls = sym CALLS,
                    real = sym REAL,
                )
            }
        })+

        /// How many there are.
        pub(crate) const COUNT: usize = [$($since),+].len();

        pub(super) static FUNCTIONS: [Function; COUNT] = functions! {
            $($symbol $name $since $stream $module::count, $module::REAL;)+
        };

        /// In a forked child: its parent's calls are not its own.
        pub(crate) fn forget() {
            $($module::CALLS.store(0, Ordering::Relaxed);)+
        }

        /// Those that were called, by symbol, and how often; laid out in `place`.
        pub(crate) fn called<'a>(place: &'a mut [(&'static str, u64); COUNT]) -> &'a [(&'static str, u64)] {
            let all = [$(($symbol, $module::CALLS.load(Ordering::Relaxed))),+];
            let mut used = 0usize;
            for (slot, called) in place.iter_mut().zip(all.into_iter().filter(|(_, calls)| *calls > 0)) {
                *slot = called;
                used = used.saturating_add(1);
            }
            place.get(..used).unwrap_or(&[])
        }
    };
}

// Why each is left alone is in hook/README.md.
uncounted! {
    host_register "cuMemHostRegister_v2" "cuMemHostRegister" 6050 None;
    import_handle "cuMemImportFromShareableHandle" "cuMemImportFromShareableHandle" 10020 None;
    ipc_open "cuIpcOpenMemHandle_v2" "cuIpcOpenMemHandle" 11000 None;
    ipc_open_v1 "cuIpcOpenMemHandle" "cuIpcOpenMemHandle" 4010 None;
    pool_import "cuMemPoolImportPointer" "cuMemPoolImportPointer" 11020 None;
    import_external "cuImportExternalMemory" "cuImportExternalMemory" 10000 None;
    graphics_map "cuGraphicsMapResources" "cuGraphicsMapResources" 3000 Legacy;
    graphics_map_ptsz "cuGraphicsMapResources_ptsz" "cuGraphicsMapResources" 7000 PerThread;
    map_array "cuMemMapArrayAsync" "cuMemMapArrayAsync" 11010 Legacy;
    map_array_ptsz "cuMemMapArrayAsync_ptsz" "cuMemMapArrayAsync" 11010 PerThread;
    graph_alloc "cuGraphAddMemAllocNode" "cuGraphAddMemAllocNode" 11040 None;
    graph_node_v2 "cuGraphAddNode_v2" "cuGraphAddNode" 12030 None;
    graph_node "cuGraphAddNode" "cuGraphAddNode" 12020 None;
    launch_multi "cuLaunchCooperativeKernelMultiDevice" "cuLaunchCooperativeKernelMultiDevice" 9000 None;
    launch_grid "cuLaunchGrid" "cuLaunchGrid" 2000 None;
    launch_grid_async "cuLaunchGridAsync" "cuLaunchGridAsync" 2000 None;
    launch "cuLaunch" "cuLaunch" 2000 None;
    alloc_v1 "cuMemAlloc" "cuMemAlloc" 2000 None;
    alloc_pitch_v1 "cuMemAllocPitch" "cuMemAllocPitch" 2000 None;
    array_v1 "cuArrayCreate" "cuArrayCreate" 2000 None;
    array_3d_v1 "cuArray3DCreate" "cuArray3DCreate" 2000 None;
}
