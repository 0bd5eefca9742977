//! The ptr → size map, of any size, with frees under way marked.
//!
//! The real free may give an address back to another thread before the first thread comes to tell. The map therefore
//! keeps the entry, marked, until the real call has answered: an allocation that finds its own address still marked
//! knows by it that the free has succeeded, and settles it first. So totals and event order are exact without a lock
//! held over the real call.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::quota::Block;

/// Live allocations of a process.
#[derive(Debug, Default)]
pub(super) struct Allocs {
    live: HashMap<u64, Entry, BuildHasherDefault<AddressHasher>>,
    tickets: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    block: Block,
    /// The free that is under way.
    freeing: Option<u64>,
}

/// What stood at an address that was allocated again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// Nothing.
    Vacant,
    /// A block whose free (with this ticket) is thereby known to have succeeded.
    Freeing { block: Block, ticket: u64 },
    /// A block that was freed by a way that is not intercepted.
    Forgotten { block: Block },
}

impl Allocs {
    /// What an allocation at `ptr` would replace.
    pub(super) fn before(&self, ptr: u64) -> Before {
        match self.live.get(&ptr) {
            None => Before::Vacant,
            Some(&Entry { block, freeing: Some(ticket) }) => Before::Freeing { block, ticket },
            Some(&Entry { block, freeing: None }) => Before::Forgotten { block },
        }
    }

    /// Enters a block. False when no memory is left to remember it in.
    pub(super) fn insert(&mut self, ptr: u64, block: Block) -> bool {
        if self.live.try_reserve(1).is_err() {
            return false;
        }
        self.live.insert(ptr, Entry { block, freeing: None });
        true
    }

    /// Marks a block as being freed. `None` when the address is unknown or its free is under way already.
    pub(super) fn mark(&mut self, ptr: u64) -> Option<u64> {
        let entry = self.live.get_mut(&ptr).filter(|entry| entry.freeing.is_none())?;
        self.tickets = self.tickets.wrapping_add(1);
        entry.freeing = Some(self.tickets);
        Some(self.tickets)
    }

    /// Removes the block that bears this mark; `None` when an allocation settled it before.
    pub(super) fn remove(&mut self, ptr: u64, ticket: u64) -> Option<Block> {
        let block = self.live.get(&ptr).filter(|entry| entry.freeing == Some(ticket))?.block;
        self.live.remove(&ptr);
        Some(block)
    }

    /// All addresses.
    pub(super) fn blocks(&self) -> Vec<u64> {
        self.live.keys().copied().collect()
    }

    /// Forgets the blocks of a device, all of them when it is not known, but for those that `outlives` names, and tells
    /// each. Blocks whose free is under way are left to that free.
    pub(super) fn forget(&mut self, dev: Option<i32>, outlives: impl Fn(u64) -> bool, mut gone: impl FnMut(Block)) {
        self.live.retain(|&ptr, &mut Entry { block, freeing }| {
            let elsewhere = dev.is_some() && block.dev.is_some() && block.dev != dev;
            let stays = freeing.is_some() || elsewhere || outlives(ptr);
            if !stays {
                gone(block);
            }
            stays
        });
    }

    /// Takes the mark off again.
    pub(super) fn unmark(&mut self, ptr: u64, ticket: u64) {
        if let Some(entry) = self.live.get_mut(&ptr).filter(|entry| entry.freeing == Some(ticket)) {
            entry.freeing = None;
        }
    }

    /// Blocks held.
    #[cfg(all(test, not(loom)))]
    pub(super) fn len(&self) -> usize {
        self.live.len()
    }
}

/// Addresses are multiples of 256 or more; a multiplication spreads them over the upper bits, where the map looks.
#[derive(Debug, Default)]
pub(super) struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(self.0.rotate_left(8) ^ u64::from(byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        // 2^64 divided by the golden ratio; the fold brings the well-mixed upper half down to the bucket index.
        let mixed = value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}
