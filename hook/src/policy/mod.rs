//! Who may allocate and launch: decide before the real call, settle after it, all accounts under one lock.
//!
//! Nothing here reads a clock, calls CUDA or writes: time comes in, decisions go out. (Limits that processes share are
//! the exception: their page, [`job`], has a lock that is waited for, a tenth of a second at most.) The sequence number, the time and
//! the totals of an event are taken in one critical section, so replaying events in the order of `seq` gives exactly
//! the totals that they carry.

mod accounts;
mod allocs;
mod board;
mod bucket;
mod decision;
mod job;
#[cfg(all(test, loom))]
mod model;
mod quota;
#[cfg(all(test, not(loom)))]
mod tests;

use std::collections::HashMap;
use std::ffi::CString;

use hook_event::{Policy, Refusal};

use crate::sync::{Held, Lock};
use accounts::Accounts;
use allocs::{Allocs, Before};
pub(crate) use board::{Board, SLOTS, Settings};
pub(crate) use bucket::Bucket;
use bucket::Verdict;
pub(crate) use decision::{AllocDecision, FreeTicket, LaunchDecision, Launched, Reservation, Settled};
use job::Sharing;
pub(crate) use quota::MAX_DEVICES;
use quota::{Block, Memory, narrower};

/// What a process may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits<'a> {
    /// Device memory, bytes.
    pub(crate) quota: Option<u64>,
    /// The same on single devices.
    pub(crate) device_quotas: &'a [(u32, u64)],
    /// Rate, tokens/s, and capacity, tokens.
    pub(crate) bucket: Option<(f64, f64)>,
    /// What a launch without a token does.
    pub(crate) policy: Policy,
}

/// The accounts of a process.
#[derive(Debug)]
pub(crate) struct Limiter {
    accounts: Lock<Accounts>,
    policy: Policy,
}

impl Limiter {
    /// Empty accounts and a full bucket at `now_ns`.
    pub(crate) fn new(limits: Limits<'_>, now_ns: u64) -> Self {
        let Limits { quota, device_quotas, bucket, policy } = limits;
        Limiter {
            accounts: Lock::new(Accounts {
                memory: Memory::new(quota, device_quotas),
                bucket: bucket.map(|(rate, capacity)| Bucket::new(rate, capacity, now_ns)),
                allocs: Allocs::default(),
                sharing: None,
                settled_frees: HashMap::new(),
                notices: Vec::new(),
                seq: 0,
                last_ns: now_ns,
            }),
            policy,
        }
    }

    /// The same in a job: quota and bucket are those of all processes that give this name, once this one has entered.
    /// The page is the file at `path`; `id` makes ids of jobs.
    pub(crate) fn sharing(self, name: &str, path: CString, id: fn() -> u64, own: Settings) -> Self {
        {
            let mut accounts = self.lock();
            accounts.memory.limit(None);
            accounts.bucket = None;
            accounts.sharing = Some(Box::new(Sharing::new(name, path, id, own)));
        }
        self
    }

    /// A panic while the lock was held leaves accounts that are still whole: every change below is made after the last
    /// step that could fail.
    #[inline(always)]
    fn lock(&self) -> Held<'_, Accounts> {
        self.accounts.lock()
    }

    /// May `size` bytes be allocated on device `dev`?
    pub(crate) fn alloc(&self, size: u64, dev: Option<i32>, now_ns: u64) -> AllocDecision<'_> {
        let block = Block { size, dev };
        let mut accounts = self.lock();
        accounts.enter(now_ns);
        match accounts.reserve(block) {
            Ok(()) => AllocDecision::Forward(Reservation { limiter: self, block, open: true }),
            Err(refusal) => AllocDecision::Denied(accounts.next(now_ns), refusal),
        }
    }

    fn alloc_resize(&self, reserved: Block, size: u64) -> Result<(), Refusal> {
        let mut accounts = self.lock();
        match size.checked_sub(reserved.size) {
            Some(more) => accounts.reserve(Block { size: more, ..reserved }),
            None => {
                accounts.release(Block { size: reserved.size.saturating_sub(size), ..reserved });
                Ok(())
            }
        }
    }

    fn alloc_commit(&self, block: Block, ptr: u64, now_ns: u64) -> Settled {
        let mut accounts = self.lock();
        match accounts.allocs.before(ptr) {
            Before::Vacant => {}
            Before::Forgotten { block } => accounts.free(block),
            Before::Freeing { block, ticket } => {
                // Without memory to remember the settlement in, the free's own thread counts the block as unknown.
                accounts.free(block);
                let settled = accounts.next(now_ns);
                if accounts.settled_frees.try_reserve(1).is_ok() {
                    accounts.settled_frees.insert(ticket, (settled, block.size));
                }
            }
        }
        // A request of no bytes gives a null pointer and holds nothing.
        if ptr != 0 && accounts.allocs.insert(ptr, block) {
            accounts.commit(block);
        } else {
            accounts.release(block);
        }
        accounts.next(now_ns)
    }

    fn alloc_fail(&self, block: Block, now_ns: u64) -> Settled {
        let mut accounts = self.lock();
        accounts.release(block);
        accounts.next(now_ns)
    }

    fn alloc_rollback(&self, block: Block) {
        self.lock().release(block);
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
        let block = accounts.allocs.remove(ptr, ticket);
        if let Some(block) = block {
            accounts.free(block);
        }
        (accounts.next(now_ns), block.map(|block| block.size))
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

    /// Device `dev` was reset (`None`: which one is not known, and all are taken for it). What `outlives` it stays.
    /// Answers the bytes that went with it.
    pub(crate) fn reset(&self, dev: Option<i32>, outlives: impl Fn(u64) -> bool, now_ns: u64) -> (Settled, u64) {
        let mut accounts = self.lock();
        let Accounts { allocs, memory, sharing, .. } = &mut *accounts;
        let mut gone = 0u64;
        allocs.forget(dev, outlives, |block| {
            memory.free(block);
            gone = gone.saturating_add(block.size);
        });
        if let Some(sharing) = sharing {
            sharing.free(gone);
        }
        (accounts.next(now_ns), gone)
    }

    /// Addresses and handles of all live blocks.
    pub(crate) fn live_blocks(&self) -> Vec<u64> {
        self.lock().allocs.blocks()
    }

    /// A real call that changed nothing here takes its place in the order of events.
    pub(crate) fn note(&self, now_ns: u64) -> Settled {
        self.lock().next(now_ns)
    }

    /// The quota that holds on device `dev`, and the bytes of it that are neither live nor reserved.
    pub(crate) fn room(&self, dev: Option<i32>, now_ns: u64) -> Option<(u64, u64)> {
        let mut accounts = self.lock();
        accounts.enter(now_ns);
        let job = accounts.sharing.as_mut().and_then(|sharing| sharing.room());
        narrower(accounts.memory.room(dev), job)
    }

    /// May a kernel be launched?
    #[inline(always)]
    pub(crate) fn launch(&self, now_ns: u64) -> LaunchDecision {
        let mut accounts = self.lock();
        accounts.enter(now_ns);
        let (verdict, mut launched) = accounts.draw(Some(self.policy), now_ns);
        launched.promptly &= accounts.promptly();
        match verdict {
            Verdict::Pass => LaunchDecision::Pass(launched),
            Verdict::Deny => LaunchDecision::Denied(launched),
            Verdict::Wait(due_ns) => LaunchDecision::Wait(due_ns),
        }
    }

    /// A launch that needs no token takes its place in the order of events.
    pub(crate) fn launch_free(&self, now_ns: u64) -> Launched {
        let mut accounts = self.lock();
        accounts.enter(now_ns);
        let (_, mut launched) = accounts.draw(None, now_ns);
        launched.promptly &= accounts.promptly();
        launched
    }

    /// The launch that was told to wait has waited.
    pub(crate) fn launch_after_wait(&self, now_ns: u64) -> Launched {
        self.lock().draw(None, now_ns).1
    }

    /// The limits in force (`own` where they are not shared), and the job's id.
    pub(crate) fn in_force(&self, own: Settings, now_ns: u64) -> (Settings, Option<u64>) {
        let mut accounts = self.lock();
        accounts.enter(now_ns);
        let shared = accounts.sharing.as_ref().and_then(|sharing| sharing.in_force());
        shared.map_or((own, None), |(settings, job)| (settings, Some(job)))
    }

    /// What a person should hear of, each once.
    pub(crate) fn notices(&self) -> Vec<String> {
        let mut accounts = self.lock();
        let mut notices = std::mem::take(&mut accounts.notices);
        notices.extend(accounts.sharing.iter_mut().flat_map(|sharing| sharing.notices()));
        notices
    }

    /// Highest and present live bytes.
    pub(crate) fn memory(&self) -> (u64, u64) {
        let accounts = self.lock();
        (accounts.memory.process().peak(), accounts.memory.process().live())
    }
}
