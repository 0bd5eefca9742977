//! Device memory by replay: every granted allocation, every free, in order.

use std::collections::{BTreeMap, HashMap};

use hook_event::{Kind, Outcome};

use super::packed::packed;
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

packed!(Memory { peak_bytes, live_bytes, allocated_bytes, freed_bytes, unknown_frees, live_after });

/// Replays the calls of `process`.
pub fn replay(calls: &Columns, process: &Process) -> Memory {
    let mut replay = Replay::default();
    let step = |i| replay.step(process, &Step::with_shape(&calls.row(i), None));
    let live_after = process.rows.clone().map(step).collect();
    Memory { live_after, ..replay.memory }
}

/// Blocks in the table of the course's skeleton.
pub(super) const TABLE: u64 = 256;

/// A replay under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Replay {
    /// So far, without [`Memory::live_after`].
    pub(super) memory: Memory,
    /// The live blocks.
    held: HashMap<u64, Block, hash::Build>,
    /// Live bytes on each device that has a quota of its own. Only records tell devices apart.
    on_devices: BTreeMap<i32, u64>,
    /// Bytes of blocks that were allocated with [`TABLE`] others live: freed, and granted.
    pub(super) beyond_table: [u64; 2],
    /// Whether the last call freed an address that was not live.
    pub(super) missed: bool,
    /// Whether the last call was given an address that was live.
    pub(super) given_again: bool,
}

packed!(Replay { memory, held, on_devices, beyond_table, missed, given_again });

#[derive(Clone, Copy, Debug)]
struct Block {
    size: u64,
    /// Where records tell it.
    dev: Option<i32>,
    /// Whether it belongs to no context and outlives a reset.
    contextless: bool,
    /// Whether [`TABLE`] others were live.
    beyond_table: bool,
}

packed!(Block { size, dev, contextless, beyond_table });

impl Replay {
    /// Takes a call of `process` in and gives the live bytes after it.
    #[inline]
    pub(super) fn step(&mut self, process: &Process, step: &Step) -> u64 {
        (self.missed, self.given_again) = (false, false);
        if step.outcome == Outcome::Ok && !matches!(step.kind, Kind::Launch | Kind::Host) {
            self.granted(process, step);
        }
        self.memory.live_bytes
    }

    /// Gives back the memory of blocks that are live no more.
    pub(super) fn rest(&mut self) {
        self.held.shrink_to_fit();
    }

    /// Live bytes on a device that has a quota of its own.
    pub(super) fn on_device(&self, device: i32) -> u64 {
        self.on_devices.get(&device).copied().unwrap_or(0)
    }

    /// The live blocks: address and size.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (u64, u64)> {
        self.held.iter().map(|(&ptr, block)| (ptr, block.size))
    }

    /// How many they are.
    pub(super) fn live_blocks(&self) -> u64 {
        self.held.len() as u64
    }

    /// The size of the live block at an address.
    pub(super) fn block(&self, ptr: u64) -> Option<u64> {
        self.held.get(&ptr).map(|block| block.size)
    }

    /// Whether a block is live at this address.
    pub(super) fn holds(&self, ptr: u64) -> bool {
        self.held.contains_key(&ptr)
    }

    fn granted(&mut self, process: &Process, step: &Step) {
        let ptr = step.ptr.unwrap_or(0);
        match step.kind {
            Kind::Alloc if ptr != 0 => {
                let beyond_table = self.live_blocks() >= TABLE;
                let size = step.size.unwrap_or(0);
                let block = Block { size, dev: step.dev, contextless: step.contextless, beyond_table };
                if beyond_table {
                    self.beyond_table[1] = self.beyond_table[1].saturating_add(size);
                }
                // An address that is handed out again was freed in a way that the log does not show.
                if let Some(before) = self.held.insert(ptr, block) {
                    self.gone(before);
                    self.given_again = true;
                }
                if let Some(dev) = block.dev.filter(|&dev| process.device_quota(dev).is_some()) {
                    let live = self.on_devices.entry(dev).or_default();
                    *live = live.saturating_add(block.size);
                }
                let memory = &mut self.memory;
                memory.live_bytes = memory.live_bytes.saturating_add(block.size);
                memory.allocated_bytes = memory.allocated_bytes.saturating_add(block.size);
                memory.peak_bytes = memory.peak_bytes.max(memory.live_bytes);
            }
            Kind::Free if ptr != 0 => {
                let stated = |size| Block { size, dev: None, contextless: false, beyond_table: false };
                let block = self.held.remove(&ptr);
                self.missed = block.is_none();
                if let Some(block) = block.filter(|block| block.beyond_table) {
                    self.beyond_table[0] = self.beyond_table[0].saturating_add(block.size);
                }
                match block.or(step.size.map(stated)) {
                    Some(block) => self.freed(block),
                    None => self.memory.unknown_frees += 1,
                }
            }
            Kind::Reset => {
                // Of one device, where the log tells devices apart.
                let here = |dev: Option<i32>| step.dev.is_none() || dev.is_none() || dev == step.dev;
                let goes = |block: &Block| !block.contextless && here(block.dev);
                let blocks: Vec<Block> = self.held.extract_if(|_, block| goes(block)).map(|(_, block)| block).collect();
                blocks.into_iter().for_each(|block| self.freed(block));
            }
            Kind::Alloc | Kind::Free | Kind::Launch | Kind::Host => {}
        }
    }

    fn freed(&mut self, block: Block) {
        self.gone(block);
        self.memory.freed_bytes = self.memory.freed_bytes.saturating_add(block.size);
    }

    fn gone(&mut self, Block { size, dev, .. }: Block) {
        self.memory.live_bytes = self.memory.live_bytes.saturating_sub(size);
        if let Some(live) = dev.and_then(|dev| self.on_devices.get_mut(&dev)) {
            *live = live.saturating_sub(size);
        }
    }
}
