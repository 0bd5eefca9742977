//! The memory accounts: what is live, what calls under way have reserved, and the quotas over both. One account is the
//! process's, one more each device's; a block is charged to both.

use hook_event::{Refusal, Scope};

/// Devices that have an account. Blocks on any other (none is known of) count for the process alone.
pub(crate) const MAX_DEVICES: u32 = 32;

/// Bytes held and reserved.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Account {
    limit: Option<u64>,
    live: u64,
    /// Wider than a size: what threads ask for at the same time may exceed 64 bits, before the runtime refuses it.
    pending: u128,
    peak: u64,
}

impl Account {
    fn fits(&self, size: u64) -> bool {
        let all = self.pending.saturating_add(self.live.into()).saturating_add(size.into());
        self.limit.is_none_or(|limit| all <= limit.into())
    }

    fn reserve(&mut self, size: u64) {
        self.pending = self.pending.saturating_add(size.into());
    }

    fn release(&mut self, size: u64) {
        self.pending = self.pending.saturating_sub(size.into());
    }

    fn commit(&mut self, size: u64) {
        self.release(size);
        self.live = self.live.saturating_add(size);
        self.peak = self.peak.max(self.live);
    }

    fn free(&mut self, size: u64) {
        self.live = self.live.saturating_sub(size);
    }

    fn refusal(&self, scope: Scope) -> Refusal {
        Refusal { scope, quota: self.limit.unwrap_or(u64::MAX), total: self.live, pending: self.pending() }
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

    /// The quota, and the bytes of it that are neither live nor reserved.
    fn room(&self) -> Option<(u64, u64)> {
        let limit = self.limit?;
        Some((limit, limit.saturating_sub(self.live.saturating_add(self.pending()))))
    }
}

/// A number of bytes on a device, as far as that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) size: u64,
    pub(super) dev: Option<i32>,
}

/// The accounts of a process.
#[derive(Debug)]
pub(super) struct Memory {
    process: Account,
    devices: [Account; MAX_DEVICES as usize],
}

impl Memory {
    /// Empty accounts under these quotas: the process's, and those of single devices.
    pub(super) fn new(limit: Option<u64>, device_limits: &[(u32, u64)]) -> Self {
        let mut memory = Memory {
            process: Account { limit, ..Account::default() },
            devices: [Account::default(); MAX_DEVICES as usize],
        };
        for &(device, bytes) in device_limits {
            if let Some(account) = memory.device(i32::try_from(device).ok()) {
                account.limit = Some(bytes);
            }
        }
        memory
    }

    /// Sets the process's quota, or takes it off.
    pub(super) const fn limit(&mut self, limit: Option<u64>) {
        self.process.limit = limit;
    }

    fn device(&mut self, dev: Option<i32>) -> Option<&mut Account> {
        self.devices.get_mut(usize::try_from(dev?).ok()?)
    }

    /// Changes both accounts of a block.
    fn both(&mut self, dev: Option<i32>, change: impl Fn(&mut Account)) {
        change(&mut self.process);
        if let Some(account) = self.device(dev) {
            change(account);
        }
    }

    /// Sets a block's bytes aside, or tells which quota live, reserved and new bytes together would exceed.
    pub(super) fn reserve(&mut self, Block { size, dev }: Block) -> Result<(), Refusal> {
        if !self.process.fits(size) {
            return Err(self.process.refusal(Scope::Process));
        }
        if let Some(account) = self.device(dev).filter(|account| !account.fits(size)) {
            return Err(account.refusal(Scope::Device));
        }
        self.both(dev, |account| account.reserve(size));
        Ok(())
    }

    /// Reserved bytes become live ones.
    pub(super) fn commit(&mut self, Block { size, dev }: Block) {
        self.both(dev, |account| account.commit(size));
    }

    /// Reserved bytes are given back.
    pub(super) fn release(&mut self, Block { size, dev }: Block) {
        self.both(dev, |account| account.release(size));
    }

    /// Live bytes are gone.
    pub(super) fn free(&mut self, Block { size, dev }: Block) {
        self.both(dev, |account| account.free(size));
    }

    pub(super) const fn process(&self) -> &Account {
        &self.process
    }

    /// The narrower of the two quotas and the lesser of the two rooms that hold on `dev`.
    pub(super) fn room(&mut self, dev: Option<i32>) -> Option<(u64, u64)> {
        narrower(self.process.room(), self.device(dev).and_then(|account| account.room()))
    }

    /// Live bytes on a device.
    #[cfg(all(test, not(loom)))]
    pub(super) fn live_on(&mut self, dev: i32) -> u64 {
        self.device(Some(dev)).map_or(0, |account| account.live)
    }
}

/// Two quotas with the room that each leaves, as one.
pub(super) fn narrower(one: Option<(u64, u64)>, other: Option<(u64, u64)>) -> Option<(u64, u64)> {
    match (one, other) {
        (Some((limit, room)), Some((other_limit, other_room))) => Some((limit.min(other_limit), room.min(other_room))),
        (one, other) => one.or(other),
    }
}
