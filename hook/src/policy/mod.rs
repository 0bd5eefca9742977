//! Who may allocate and launch: decide before the real call, settle after it, all accounts under one lock.
//!
//! Nothing here reads a clock, calls CUDA or writes: time comes in, decisions go out. The sequence number, the time and
//! the totals of an event are taken in one critical section, so replaying events in the order of `seq` gives exactly
//! the totals that they carry.

mod allocs;
mod bucket;
mod decision;
mod quota;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hook_event::Policy;

use allocs::{Allocs, Before};
pub(crate) use bucket::Bucket;
pub(crate) use decision::{AllocDecision, FreeTicket, LaunchDecision, Launched, Reservation, Settled};
use quota::Quota;

/// The accounts of a process.
#[derive(Debug)]
pub(crate) struct Limiter {
    accounts: Mutex<Accounts>,
    policy: Policy,
}

#[derive(Debug)]
struct Accounts {
    quota: Quota,
    bucket: Option<Bucket>,
    allocs: Allocs,
    /// Frees that an allocation at their address settled before their own thread came to it, by ticket.
    settled_frees: HashMap<u64, (Settled, u64)>,
    seq: u64,
    last_ns: u64,
}

impl Accounts {
    /// The next place in the order of events. Time never runs backwards along it, whoever read the clock first.
    #[inline(always)]
    fn next(&mut self, now_ns: u64) -> Settled {
        self.seq = self.seq.saturating_add(1);
        self.last_ns = self.last_ns.max(now_ns);
        Settled { seq: self.seq, at_ns: self.last_ns, total: self.quota.live(), pending: self.quota.pending() }
    }

    #[inline(always)]
    fn launched(&mut self, now_ns: u64) -> Launched {
        let Settled { seq, at_ns, .. } = self.next(now_ns);
        Launched { seq, at_ns, tokens: self.bucket.as_ref().map(|bucket| bucket.level(at_ns)) }
    }
}

impl Limiter {
    /// Empty accounts and a full bucket (rate in tokens/s, capacity in tokens) at `now_ns`.
    pub(crate) fn new(quota: Option<u64>, bucket: Option<(f64, f64)>, policy: Policy, now_ns: u64) -> Self {
        Limiter {
            accounts: Mutex::new(Accounts {
                quota: Quota::new(quota),
                bucket: bucket.map(|(rate, capacity)| Bucket::new(rate, capacity, now_ns)),
                allocs: Allocs::default(),
                settled_frees: HashMap::new(),
                seq: 0,
                last_ns: now_ns,
            }),
            policy,
        }
    }

    /// A panic while the lock was held leaves accounts that are still whole: every change below is made after the last
    /// step that could fail.
    fn lock(&self) -> MutexGuard<'_, Accounts> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// May `size` bytes be allocated?
    pub(crate) fn alloc(&self, size: u64, now_ns: u64) -> AllocDecision<'_> {
        let mut accounts = self.lock();
        if accounts.quota.reserve(size) {
            return AllocDecision::Forward(Reservation { limiter: self, size, open: true });
        }
        AllocDecision::Denied(accounts.next(now_ns))
    }

    fn alloc_resize(&self, reserved: u64, size: u64) -> bool {
        let mut accounts = self.lock();
        match size.checked_sub(reserved) {
            Some(more) => accounts.quota.reserve(more),
            None => {
                accounts.quota.release(reserved.saturating_sub(size));
                true
            }
        }
    }

    fn alloc_commit(&self, size: u64, ptr: u64, dev: Option<i32>, now_ns: u64) -> Settled {
        let mut accounts = self.lock();
        match accounts.allocs.before(ptr) {
            Before::Vacant => {}
            Before::Forgotten { size } => accounts.quota.free(size),
            Before::Freeing { size, ticket } => {
                // Without memory to remember the settlement in, the free's own thread counts the block as unknown.
                accounts.quota.free(size);
                let settled = accounts.next(now_ns);
                if accounts.settled_frees.try_reserve(1).is_ok() {
                    accounts.settled_frees.insert(ticket, (settled, size));
                }
            }
        }
        // A request of no bytes gives a null pointer and holds nothing.
        if ptr != 0 && accounts.allocs.insert(ptr, size, dev) {
            accounts.quota.commit(size);
        } else {
            accounts.quota.release(size);
        }
        accounts.next(now_ns)
    }

    fn alloc_fail(&self, size: u64, now_ns: u64) -> Settled {
        let mut accounts = self.lock();
        accounts.quota.release(size);
        accounts.next(now_ns)
    }

    fn alloc_rollback(&self, size: u64) {
        self.lock().quota.release(size);
    }

    /// A free of `ptr` is about to be forwarded.
    pub(crate) fn free(&self, ptr: u64) -> FreeTicket<'_> {
        FreeTicket { limiter: self, ptr, ticket: self.lock().allocs.mark(ptr), open: true }
    }

    fn free_commit(&self, ptr: u64, ticket: Option<u64>, now_ns: u64) -> (Settled, Option<u64>) {
        let mut accounts = self.lock();
        let Some(ticket) = ticket else { return (accounts.next(now_ns), None) };
        if let Some((settled, size)) = accounts.settled_frees.remove(&ticket) {
            return (settled, Some(size));
        }
        let size = accounts.allocs.remove(ptr, ticket);
        if let Some(size) = size {
            accounts.quota.free(size);
        }
        (accounts.next(now_ns), size)
    }

    fn free_fail(&self, ptr: u64, ticket: Option<u64>, now_ns: u64) -> Settled {
        let mut accounts = self.lock();
        if let Some(ticket) = ticket {
            accounts.allocs.unmark(ptr, ticket);
        }
        accounts.next(now_ns)
    }

    fn free_rollback(&self, ptr: u64, ticket: Option<u64>) {
        if let Some(ticket) = ticket {
            self.lock().allocs.unmark(ptr, ticket);
        }
    }

    /// Device `dev` was reset (`None`: which one is not known, and all are taken for it). Answers the bytes that went
    /// with it.
    pub(crate) fn reset(&self, dev: Option<i32>, now_ns: u64) -> (Settled, u64) {
        let mut accounts = self.lock();
        let gone = accounts.allocs.forget(dev);
        accounts.quota.free(gone);
        (accounts.next(now_ns), gone)
    }

    /// A real call that changed nothing here takes its place in the order of events.
    pub(crate) fn note(&self, now_ns: u64) -> Settled {
        self.lock().next(now_ns)
    }

    /// What is left of the quota: the quota, and the bytes of it that are neither live nor reserved.
    pub(crate) fn room(&self) -> Option<(u64, u64)> {
        let accounts = self.lock();
        let limit = accounts.quota.limit()?;
        let used = accounts.quota.live().saturating_add(accounts.quota.pending());
        Some((limit, limit.saturating_sub(used)))
    }

    /// May a kernel be launched?
    #[inline(always)]
    pub(crate) fn launch(&self, now_ns: u64) -> LaunchDecision {
        let mut accounts = self.lock();
        let now_ns = accounts.last_ns.max(now_ns);
        let Some(bucket) = &mut accounts.bucket else { return LaunchDecision::Pass(accounts.launched(now_ns)) };
        if self.policy == Policy::Wait
            && let Some(due_ns) = bucket.reserve(now_ns)
        {
            if due_ns > now_ns {
                return LaunchDecision::Wait(due_ns);
            }
            return LaunchDecision::Pass(accounts.launched(now_ns));
        }
        if bucket.take(now_ns) {
            LaunchDecision::Pass(accounts.launched(now_ns))
        } else {
            LaunchDecision::Denied(accounts.launched(now_ns))
        }
    }

    /// The launch that was told to wait has waited.
    pub(crate) fn launch_after_wait(&self, now_ns: u64) -> Launched {
        self.lock().launched(now_ns)
    }

    /// Highest and present live bytes.
    pub(crate) fn memory(&self) -> (u64, u64) {
        let accounts = self.lock();
        (accounts.quota.peak(), accounts.quota.live())
    }
}
