//! What the policy answers, and the receipts that a caller holds while the real call runs.
//!
//! A receipt that is dropped without a word (a panic, an early return) rolls its change back.

use hook_event::Refusal;

use super::Limiter;
use super::quota::Block;

/// Where a call stands in the process's order of events, and the memory account after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    /// Number of the call, from 1.
    pub(crate) seq: u64,
    /// Monotonic time of the settlement, ns; never decreases with `seq`.
    pub(crate) at_ns: u64,
    /// Live bytes.
    pub(crate) total: u64,
    /// Bytes that other calls under way have reserved.
    pub(crate) pending: u64,
}

/// Answer to an allocation.
#[derive(Debug)]
pub(crate) enum AllocDecision<'a> {
    /// Call the real function, then commit or fail.
    Forward(Reservation<'a>),
    /// Over a quota.
    Denied(Settled, Refusal),
}

/// Bytes set aside for an allocation under way.
#[derive(Debug)]
pub(crate) struct Reservation<'a> {
    pub(super) limiter: &'a Limiter,
    pub(super) block: Block,
    pub(super) open: bool,
}

impl Reservation<'_> {
    /// What the real call gave takes `size` bytes, which may be more than was asked for (rows are padded). Where a quota
    /// has no room for the difference the reservation stays as it was.
    pub(crate) fn resize(&mut self, size: u64) -> Result<(), Refusal> {
        self.limiter.alloc_resize(self.block, size)?;
        self.block.size = size;
        Ok(())
    }

    /// The real call gave `ptr`.
    pub(crate) fn commit(mut self, ptr: u64, now_ns: u64) -> Settled {
        self.open = false;
        self.limiter.alloc_commit(self.block, ptr, now_ns)
    }

    /// The real call refused.
    pub(crate) fn fail(mut self, now_ns: u64) -> Settled {
        self.open = false;
        self.limiter.alloc_fail(self.block, now_ns)
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if self.open {
            self.limiter.alloc_rollback(self.block);
        }
    }
}

/// A free under way: its entry stays in the map, marked, until the real call has answered.
#[derive(Debug)]
pub(crate) struct FreeTicket<'a> {
    pub(super) limiter: &'a Limiter,
    pub(super) ptr: u64,
    /// The mark; `None` for an address that the map does not hold (or that another thread is freeing).
    pub(super) ticket: Option<u64>,
    pub(super) open: bool,
}

impl FreeTicket<'_> {
    /// The real call freed the address. Answers the bytes subtracted, where the address was known.
    pub(crate) fn commit(mut self, now_ns: u64) -> (Settled, Option<u64>) {
        self.open = false;
        self.limiter.free_commit(self.ptr, self.ticket, now_ns)
    }

    /// The real call refused: the entry stays.
    pub(crate) fn fail(mut self, now_ns: u64) -> Settled {
        self.open = false;
        self.limiter.free_fail(self.ptr, self.ticket, now_ns)
    }
}

impl Drop for FreeTicket<'_> {
    fn drop(&mut self) {
        if self.open {
            self.limiter.free_rollback(self.ptr, self.ticket);
        }
    }
}

/// Answer to a launch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum LaunchDecision {
    /// A token was taken (or there is no limit): launch.
    Pass(Launched),
    /// No token.
    Denied(Launched),
    /// A token is reserved and will be there at this monotonic time, ns: sleep until then, then
    /// [`Limiter::launch_after_wait`].
    Wait(u64),
}

/// Where a launch stands, and the level after it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Launched {
    /// Number of the call, from 1.
    pub(crate) seq: u64,
    /// Monotonic time of the decision, ns; never decreases with `seq`.
    pub(crate) at_ns: u64,
    /// Tokens left; `None` without a limit.
    pub(crate) tokens: Option<f64>,
    /// Nobody had to be waited for: the decision took next to no time.
    pub(crate) promptly: bool,
}
