//! Device memory by replay: every granted allocation, every free, in order.

use std::collections::HashMap;

use hook_event::{Kind, Outcome};

use crate::events::{Columns, Process};

/// A process's memory over its calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Highest live bytes.
    pub peak_bytes: u64,
    /// Live bytes at the end.
    pub live_bytes: u64,
    /// Bytes of all granted allocations.
    pub allocated_bytes: u64,
    /// Bytes given back.
    pub freed_bytes: u64,
    /// Successful frees of an address that the log has not seen allocated; a null pointer is none.
    pub unknown_frees: u64,
    /// Live bytes after each call of the process.
    pub live_after: Vec<u64>,
}

/// Replays the calls of `process`.
pub fn replay(calls: &Columns, process: &Process) -> Memory {
    replay_on(calls, process, None)
}

/// Replays the calls of `process`; `only` the blocks on this device, where one is given.
pub fn replay_on(calls: &Columns, process: &Process, only: Option<i32>) -> Memory {
    let mut memory = Memory { live_after: Vec::with_capacity(process.rows.len()), ..Memory::default() };
    // Size and, where records tell it, device.
    let mut held: HashMap<u64, (u64, Option<i32>)> = HashMap::new();
    let mut live = 0u64;
    for i in process.rows.clone() {
        if calls.outcome[i] == Outcome::Ok {
            let ptr = calls.ptr[i].unwrap_or(0);
            match calls.kind[i] {
                Kind::Alloc if ptr != 0 && only.is_some() && calls.dev[i] != only => {
                    // Elsewhere; what it replaces here is gone all the same.
                    live = live.saturating_sub(held.remove(&ptr).map_or(0, |before| before.0));
                }
                Kind::Alloc if ptr != 0 => {
                    let size = calls.size[i].unwrap_or(0);
                    // An address that is handed out again was freed in a way that the log does not show.
                    if let Some(before) = held.insert(ptr, (size, calls.dev[i])) {
                        live = live.saturating_sub(before.0);
                    }
                    live = live.saturating_add(size);
                    memory.allocated_bytes = memory.allocated_bytes.saturating_add(size);
                }
                Kind::Free if ptr != 0 => {
                    match held.remove(&ptr).map(|block| block.0).or(calls.size[i].filter(|_| only.is_none())) {
                        Some(size) => {
                            live = live.saturating_sub(size);
                            memory.freed_bytes = memory.freed_bytes.saturating_add(size);
                        }
                        None => memory.unknown_frees += 1,
                    }
                }
                Kind::Reset => {
                    // Of one device, where the log tells devices apart.
                    let device = calls.dev[i];
                    let gone = |(_, dev): &(u64, Option<i32>)| device.is_none() || dev.is_none() || *dev == device;
                    let size = held.values().filter(|block| gone(block)).map(|block| block.0).sum();
                    held.retain(|_, block| !gone(block));
                    live = live.saturating_sub(size);
                    memory.freed_bytes = memory.freed_bytes.saturating_add(size);
                }
                Kind::Alloc | Kind::Free | Kind::Launch | Kind::Host => {}
            }
        }
        memory.peak_bytes = memory.peak_bytes.max(live);
        memory.live_after.push(live);
    }
    memory.live_bytes = live;
    memory
}
