//! What the processes of a job share: one quota, one bucket, and what each process holds.
//!
//! A process changes its own slot only, so that a death at any moment leaves nothing half-made: totals are always summed
//! over the slots, and the slot of the dead is cleared whole. Reserving more takes the page's lock; what only lowers a
//! sum, or moves bytes within a slot, takes none.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::bucket::Bucket;
use crate::sync::AtomicU64;

/// Processes that can share limits at the same time.
pub(crate) const SLOTS: usize = 1024;

/// One second.
const SECOND_NS: u64 = 1_000_000_000;

/// The limits of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Settings {
    /// Device memory, bytes.
    pub(crate) quota: Option<u64>,
    /// Rate, tokens/s, and capacity, tokens.
    pub(crate) bucket: Option<(f64, f64)>,
}

/// The shared account. All zeros before [`Board::begin`].
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Board {
    job: AtomicU64,
    /// `u64::MAX`: none.
    quota: AtomicU64,
    /// Bits of a float; a rate of 0 is none.
    rate: AtomicU64,
    capacity: AtomicU64,
    last_ns: AtomicU64,
    claims: AtomicU64,
    /// Slots from here on were never used.
    used: AtomicU64,
    /// The bucket's state twice, upper and lower half each: the other copy is written, then this turned to it.
    current: AtomicU64,
    empty_at: [[AtomicU64; 2]; 2],
    slots: [Slot; SLOTS],
}

/// What one process holds.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Slot {
    /// Number of the claim; 0 for a slot that nobody has.
    owner: AtomicU64,
    /// Live and reserved bytes.
    held: AtomicU64,
    /// Live bytes among them.
    live: AtomicU64,
}

impl Board {
    /// Opens the account of a new job, the last process of the one before having gone. A bucket of the same rate and
    /// capacity goes on from where it was: many short processes get no more than one that lives as long. What dead
    /// processes waited for is forgotten.
    pub(super) fn begin(&self, Settings { quota, bucket }: Settings, job: u64, now_ns: u64) {
        self.slots().iter().for_each(Slot::clear);
        self.used.store(0, Relaxed);
        // A stamp from long after now is of another clock (a time namespace), and says nothing.
        let goes_on =
            self.settings().bucket == bucket && self.last_ns.load(Relaxed) <= now_ns.saturating_add(SECOND_NS);
        // The newcomer may have read the clock before others came and went.
        let now_ns = if goes_on { self.stamp(now_ns) } else { now_ns };
        if let Some((rate, capacity)) = bucket {
            let full = Bucket::new(rate, capacity, now_ns).empty_at();
            self.set_empty_at(if goes_on { self.empty_at().min(Bucket::empty(now_ns)) } else { full });
        }
        let (rate, capacity) = bucket.unwrap_or((0.0, 0.0));
        self.job.store(job, Relaxed);
        self.quota.store(quota.unwrap_or(u64::MAX), Relaxed);
        self.rate.store(rate.to_bits(), Relaxed);
        self.capacity.store(capacity.to_bits(), Relaxed);
        self.last_ns.store(now_ns, Relaxed);
    }

    /// Id of this job.
    pub(super) fn job(&self) -> u64 {
        self.job.load(Relaxed)
    }

    pub(super) fn settings(&self) -> Settings {
        let rate = f64::from_bits(self.rate.load(Relaxed));
        let capacity = f64::from_bits(self.capacity.load(Relaxed));
        let quota = self.quota.load(Relaxed);
        Settings { quota: (quota != u64::MAX).then_some(quota), bucket: (rate > 0.0).then_some((rate, capacity)) }
    }

    /// A moment that is not before any that was given out already. With the lock held.
    pub(super) fn stamp(&self, now_ns: u64) -> u64 {
        let at = self.last_ns.load(Relaxed).max(now_ns);
        self.last_ns.store(at, Relaxed);
        at
    }

    pub(super) fn empty_at(&self) -> i128 {
        let [upper, lower] = self.copy(self.current.load(Acquire));
        (i128::from(upper.load(Relaxed).cast_signed()) << 64) | i128::from(lower.load(Relaxed))
    }

    /// With the lock held. Who dies in here has taken no token.
    pub(super) fn set_empty_at(&self, value: i128) {
        let other = self.current.load(Relaxed) ^ 1;
        let [upper, lower] = self.copy(other);
        upper.store(halves(value).0, Relaxed);
        lower.store(halves(value).1, Relaxed);
        self.current.store(other, Release);
    }

    fn copy(&self, which: u64) -> &[AtomicU64; 2] {
        let [first, second] = &self.empty_at;
        if which & 1 == 0 { first } else { second }
    }

    /// The slots that were ever used.
    pub(super) fn slots(&self) -> &[Slot] {
        let used = usize::try_from(self.used.load(Relaxed)).unwrap_or(SLOTS).min(SLOTS);
        self.slots.get(..used).unwrap_or(&[])
    }

    pub(super) fn slot(&self, index: usize) -> Option<&Slot> {
        self.slots.get(index)
    }

    /// Enters a process that holds so much already into a free slot; answers the number of its claim. With the lock held.
    pub(super) fn claim(&self, index: usize, live: u64, held: u64) -> Option<u64> {
        let slot = self.slots.get(index)?;
        let claim = self.claims.load(Relaxed).saturating_add(1);
        self.claims.store(claim, Relaxed);
        self.used.fetch_max(u64::try_from(index).unwrap_or(0).saturating_add(1), Relaxed);
        // Owned before it holds anything: what a process killed in between holds is then found and given back.
        slot.owner.store(claim, Release);
        slot.live.store(live, Relaxed);
        slot.held.store(held, Relaxed);
        Some(claim)
    }
}

fn halves(value: i128) -> (u64, u64) {
    let bits = value.cast_unsigned();
    (u64::try_from(bits >> 64).unwrap_or(0), u64::try_from(bits & u128::from(u64::MAX)).unwrap_or(0))
}

impl Slot {
    #[cfg(all(test, loom))]
    pub(super) fn empty() -> Slot {
        Slot { owner: AtomicU64::new(0), held: AtomicU64::new(0), live: AtomicU64::new(0) }
    }

    /// Number of the claim on it; 0: free.
    pub(super) fn owner(&self) -> u64 {
        self.owner.load(Acquire)
    }

    /// The process is dead: all that it held is free. With the lock held.
    pub(super) fn clear(&self) {
        self.held.store(0, Relaxed);
        self.live.store(0, Relaxed);
        self.owner.store(0, Release);
    }

    /// Reserved bytes become live ones.
    pub(super) fn commit(&self, size: u64) {
        self.live.fetch_add(size, Relaxed);
    }

    /// Reserved bytes are given back.
    pub(super) fn release(&self, size: u64) {
        lower(&self.held, size);
    }

    /// Live bytes are gone.
    pub(super) fn free(&self, size: u64) {
        // In this order no one sees more live bytes than held ones.
        lower(&self.live, size);
        lower(&self.held, size);
    }

    /// Sets `size` bytes aside unless all slots together would exceed the quota. With the lock held.
    pub(super) fn reserve(&self, slots: &[Slot], size: u64, quota: u64) -> bool {
        let held = slots.iter().fold(u128::from(size), |sum, slot| sum.saturating_add(slot.held.load(Relaxed).into()));
        let fits = held <= quota.into();
        if fits {
            self.held.fetch_add(size, Relaxed);
        }
        fits
    }
}

/// Live and reserved bytes of all.
pub(super) fn totals(slots: &[Slot]) -> (u64, u64) {
    slots.iter().fold((0, 0), |(total, pending), slot| {
        let live = slot.live.load(Relaxed);
        let reserved = slot.held.load(Relaxed).saturating_sub(live);
        (u64::saturating_add(total, live), u64::saturating_add(pending, reserved))
    })
}

/// Never below zero: a slot that was cleared in error (see [`super::job`]) has nothing to take away.
fn lower(counter: &AtomicU64, size: u64) {
    let _ = counter.fetch_update(Relaxed, Relaxed, |value| Some(value.saturating_sub(size)));
}
