//! Device memory by replay: every granted allocation, every free, in order.

use std::collections::HashMap;

use hook_event::{Kind, Outcome};

use crate::events::{Columns, Process};
use crate::hash;
use crate::step::Step;

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
    /// Live bytes after each call of the process, where rows were kept.
    pub live_after: Vec<u64>,
}

/// Replays the calls of `process`.
pub fn replay(calls: &Columns, process: &Process) -> Memory {
    let mut replay = Replay::new(None);
    let live_after = process.rows.clone().map(|i| replay.step(&Step::with_shape(&calls.row(i), None))).collect();
    Memory { live_after, ..replay.memory }
}

/// A replay under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Replay {
    /// So far, without [`Memory::live_after`].
    pub(super) memory: Memory,
    /// Size and, where records tell it, device of each live block, and whether it outlives a reset.
    held: HashMap<u64, (u64, Option<i32>, bool), hash::Build>,
    /// The device whose blocks are counted; all devices' where none is given.
    only: Option<i32>,
}

impl Replay {
    /// Of the blocks on one device, or of all.
    pub(super) fn new(only: Option<i32>) -> Replay {
        Replay { only, ..Replay::default() }
    }

    /// Takes a call in and gives the live bytes after it.
    #[inline]
    pub(super) fn step(&mut self, step: &Step) -> u64 {
        if step.outcome == Outcome::Ok && !matches!(step.kind, Kind::Launch | Kind::Host) {
            self.granted(step);
        }
        self.memory.live_bytes
    }

    fn granted(&mut self, step: &Step) {
        let memory = &mut self.memory;
        let ptr = step.ptr.unwrap_or(0);
        match step.kind {
            Kind::Alloc if ptr != 0 && self.only.is_some() && step.dev != self.only => {
                // Elsewhere; what it replaces here is gone all the same.
                let before = self.held.remove(&ptr).map_or(0, |before| before.0);
                memory.live_bytes = memory.live_bytes.saturating_sub(before);
            }
            Kind::Alloc if ptr != 0 => {
                let size = step.size.unwrap_or(0);
                // An address that is handed out again was freed in a way that the log does not show.
                if let Some(before) = self.held.insert(ptr, (size, step.dev, step.contextless)) {
                    memory.live_bytes = memory.live_bytes.saturating_sub(before.0);
                }
                memory.live_bytes = memory.live_bytes.saturating_add(size);
                memory.allocated_bytes = memory.allocated_bytes.saturating_add(size);
                memory.peak_bytes = memory.peak_bytes.max(memory.live_bytes);
            }
            Kind::Free if ptr != 0 => {
                let stated = step.size.filter(|_| self.only.is_none());
                match self.held.remove(&ptr).map(|block| block.0).or(stated) {
                    Some(size) => {
                        memory.live_bytes = memory.live_bytes.saturating_sub(size);
                        memory.freed_bytes = memory.freed_bytes.saturating_add(size);
                    }
                    None => memory.unknown_frees += 1,
                }
            }
            Kind::Reset => {
                // Of one device, where the log tells devices apart.
                let here = |dev: &Option<i32>| step.dev.is_none() || dev.is_none() || *dev == step.dev;
                let gone = |(_, dev, outlives): &(u64, Option<i32>, bool)| !outlives && here(dev);
                let size = self.held.values().filter(|block| gone(block)).map(|block| block.0).sum();
                self.held.retain(|_, block| !gone(block));
                memory.live_bytes = memory.live_bytes.saturating_sub(size);
                memory.freed_bytes = memory.freed_bytes.saturating_add(size);
            }
            Kind::Alloc | Kind::Free | Kind::Launch | Kind::Host => {}
        }
    }
}
