//! The memory account: what is live, what calls under way have reserved, and the quota over both.

/// Bytes held and reserved by the process.
#[derive(Debug, Default)]
pub(super) struct Quota {
    limit: Option<u64>,
    live: u64,
    /// Wider than a size: what threads ask for at the same time may exceed 64 bits, before the runtime refuses it.
    pending: u128,
    peak: u64,
}

impl Quota {
    /// An empty account under `limit` bytes, or under none.
    pub(super) const fn new(limit: Option<u64>) -> Self {
        Quota { limit, live: 0, pending: 0, peak: 0 }
    }

    /// Sets `size` bytes aside. False when live, reserved and new bytes together exceed the quota.
    pub(super) fn reserve(&mut self, size: u64) -> bool {
        let pending = self.pending.saturating_add(size.into());
        let fits = self.limit.is_none_or(|limit| pending.saturating_add(self.live.into()) <= limit.into());
        if fits {
            self.pending = pending;
        }
        fits
    }

    /// Reserved bytes become live ones.
    pub(super) fn commit(&mut self, size: u64) {
        self.release(size);
        self.live = self.live.saturating_add(size);
        self.peak = self.peak.max(self.live);
    }

    /// Reserved bytes are given back.
    pub(super) fn release(&mut self, size: u64) {
        self.pending = self.pending.saturating_sub(size.into());
    }

    /// Live bytes are gone.
    pub(super) fn free(&mut self, size: u64) {
        self.live = self.live.saturating_sub(size);
    }

    pub(super) const fn limit(&self) -> Option<u64> {
        self.limit
    }

    pub(super) const fn live(&self) -> u64 {
        self.live
    }

    pub(super) fn pending(&self) -> u64 {
        u64::try_from(self.pending).unwrap_or(u64::MAX)
    }

    pub(super) const fn peak(&self) -> u64 {
        self.peak
    }
}
