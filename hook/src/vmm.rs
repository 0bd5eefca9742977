//! Who still holds physical memory that was made by itself (`cuMemCreate`): the handle's owners, and every range of
//! addresses that it is mapped to. The memory is given back when neither is left, whichever goes last
//! (<https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__VA.html>, `cuMemRelease`).
//!
//! A block is known by its handle, which the driver does not give to another block before this one is gone. Each
//! change is made before the real call and taken back if that fails, so of several threads exactly one is the last.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The blocks of a process.
#[derive(Debug, Default)]
pub(crate) struct Vmm(Mutex<Tables>);

#[derive(Debug, Default)]
struct Tables {
    blocks: HashMap<u64, Held>,
    /// By address: length and handle.
    mappings: BTreeMap<u64, (u64, u64)>,
}

/// How often a block is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Held {
    handles: u64,
    mappings: u64,
}

/// A mapping that an unmapping takes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    /// Its first address.
    pub(crate) address: u64,
    /// Bytes.
    pub(crate) size: u64,
    /// The block behind it.
    pub(crate) handle: u64,
    /// Nothing else holds that block.
    pub(crate) last: bool,
}

impl Tables {
    /// One holder less. True when it was the last; blocks that are not ours are never that.
    fn drop_one(&mut self, handle: u64, which: impl FnOnce(&mut Held) -> &mut u64) -> bool {
        let Some(held) = self.blocks.get_mut(&handle) else { return false };
        let count = which(held);
        *count = count.saturating_sub(1);
        let gone = *held == Held::default();
        if gone {
            self.blocks.remove(&handle);
        }
        gone
    }
}

impl Vmm {
    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The blocks that are there.
    pub(crate) fn handles(&self) -> HashSet<u64> {
        self.lock().blocks.keys().copied().collect()
    }

    /// The driver made a block.
    pub(crate) fn created(&self, handle: u64) {
        self.lock().blocks.insert(handle, Held { handles: 1, mappings: 0 });
    }

    /// One more handle of a block was given out.
    pub(crate) fn retained(&self, handle: u64) {
        if let Some(held) = self.lock().blocks.get_mut(&handle) {
            held.handles = held.handles.saturating_add(1);
        }
    }

    /// A handle is about to be released. True: the memory goes with it.
    pub(crate) fn release(&self, handle: u64) -> bool {
        self.lock().drop_one(handle, |held| &mut held.handles)
    }

    /// The release failed. `last` as [`Self::release`] answered.
    pub(crate) fn keep(&self, handle: u64, last: bool) {
        let mut tables = self.lock();
        if last {
            tables.blocks.entry(handle).or_default().handles = 1;
        } else if let Some(held) = tables.blocks.get_mut(&handle) {
            held.handles = held.handles.saturating_add(1);
        }
    }

    /// `size` bytes at `address` now show a block.
    pub(crate) fn mapped(&self, address: u64, size: u64, handle: u64) {
        let mut tables = self.lock();
        if let Some(held) = tables.blocks.get_mut(&handle) {
            held.mappings = held.mappings.saturating_add(1);
            tables.mappings.insert(address, (size, handle));
        }
    }

    /// `size` bytes at `address` are about to be unmapped: the mappings that lie there.
    pub(crate) fn unmap(&self, address: u64, size: u64) -> Vec<Mapping> {
        let mut tables = self.lock();
        let within: Vec<(u64, (u64, u64))> =
            tables.mappings.range(address..address.saturating_add(size)).map(|(&at, &what)| (at, what)).collect();
        within
            .into_iter()
            .map(|(address, (size, handle))| {
                tables.mappings.remove(&address);
                let last = tables.drop_one(handle, |held| &mut held.mappings);
                Mapping { address, size, handle, last }
            })
            .collect()
    }

    /// The unmapping failed: the mappings stay.
    pub(crate) fn keep_mapped(&self, mappings: &[Mapping]) {
        let mut tables = self.lock();
        for &Mapping { address, size, handle, last } in mappings {
            if last {
                tables.blocks.entry(handle).or_default();
            }
            if let Some(held) = tables.blocks.get_mut(&handle) {
                held.mappings = held.mappings.saturating_add(1);
                tables.mappings.insert(address, (size, handle));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_goes_with_its_last_holder() {
        let vmm = Vmm::default();
        vmm.created(7);
        assert!(vmm.release(7), "a block that nothing maps goes with its handle");

        // Mapped, then released: it lives until it is unmapped.
        vmm.created(7);
        vmm.mapped(0x1000, 0x1000, 7);
        assert!(!vmm.release(7));
        let gone = vmm.unmap(0x1000, 0x1000);
        assert_eq!(gone, [Mapping { address: 0x1000, size: 0x1000, handle: 7, last: true }]);

        // Unmapped first: it lives until it is released, however often it was retained.
        vmm.created(7);
        vmm.mapped(0x1000, 0x1000, 7);
        vmm.retained(7);
        assert!(!vmm.unmap(0x1000, 0x1000).iter().any(|mapping| mapping.last));
        assert!(!vmm.release(7));
        assert!(vmm.release(7));
    }

    #[test]
    fn one_unmapping_may_take_several_blocks() {
        let vmm = Vmm::default();
        for handle in 1..=3 {
            vmm.created(handle);
            vmm.mapped(handle * 0x1000, 0x1000, handle);
            vmm.release(handle);
        }
        let last = |mappings: Vec<Mapping>| mappings.iter().filter(|m| m.last).map(|m| m.handle).collect::<Vec<_>>();
        assert_eq!(last(vmm.unmap(0x1000, 0x2000)), [1, 2]);
        assert_eq!(last(vmm.unmap(0x3000, 0x1000)), [3]);
    }

    #[test]
    fn what_fails_is_taken_back() {
        let vmm = Vmm::default();
        vmm.created(1);
        assert!(vmm.release(1));
        vmm.keep(1, true);
        vmm.mapped(0x1000, 0x1000, 1);
        assert!(!vmm.release(1));
        vmm.keep(1, false);
        assert!(!vmm.release(1));
        let mappings = vmm.unmap(0x1000, 0x1000);
        vmm.keep_mapped(&mappings);
        assert!(vmm.unmap(0x1000, 0x1000)[0].last);
    }

    #[test]
    fn blocks_of_others_change_nothing() {
        let vmm = Vmm::default();
        vmm.retained(9);
        vmm.mapped(0x1000, 0x1000, 9);
        assert!(!vmm.release(9));
        assert!(vmm.unmap(0x1000, 0x1000).is_empty());
    }
}
