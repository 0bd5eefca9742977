//! All that the lock of a process guards, and how an amount moves through it: through the process's account, the
//! device's, and the job's where limits are shared.

use std::collections::HashMap;

use hook_event::{Policy, Refusal};

use super::allocs::Allocs;
use super::bucket::{Bucket, Verdict};
use super::decision::Launched;
use super::job::{Alone, Drawn, Sharing};
use super::quota::{Block, Memory};
use super::{Limiter, Settled};

#[derive(Debug)]
pub(super) struct Accounts {
    pub(super) memory: Memory,
    pub(super) bucket: Option<Bucket>,
    /// Limits that other processes share, in the place of quota and bucket.
    pub(super) sharing: Option<Box<Sharing>>,
    pub(super) allocs: Allocs,
    /// Frees that an allocation at their address settled before their own thread came to it, by ticket.
    pub(super) settled_frees: HashMap<u64, (Settled, u64)>,
    /// What a person should hear of.
    pub(super) notices: Vec<String>,
    pub(super) seq: u64,
    pub(super) last_ns: u64,
}

impl Limiter {
    /// Highest and present live bytes, where the lock is free.
    pub(crate) fn try_memory(&self) -> Option<(u64, u64)> {
        let accounts = self.accounts.try_lock()?;
        let memory = accounts.memory.process();
        Some((memory.peak(), memory.live()))
    }
}

impl Accounts {
    /// The next place in the order of events. Time never runs backwards along it, whoever read the clock first.
    #[inline(always)]
    pub(super) fn next(&mut self, now_ns: u64) -> Settled {
        self.seq = self.seq.saturating_add(1);
        self.last_ns = self.last_ns.max(now_ns);
        let memory = self.memory.process();
        Settled { seq: self.seq, at_ns: self.last_ns, total: memory.live(), pending: memory.pending() }
    }

    /// Enters the job, where there is one.
    #[inline]
    pub(super) fn enter(&mut self, now_ns: u64) {
        if self.sharing.is_some() {
            self.enter_job(now_ns);
        }
    }

    /// Enters the job whose limits are to be shared, if there is one; without it the process has its own.
    #[cold]
    fn enter_job(&mut self, now_ns: u64) {
        let Some(sharing) = &mut self.sharing else { return };
        let memory = self.memory.process();
        let holds = (memory.live(), memory.live().saturating_add(memory.pending()));
        if let Err(Alone { own, notices }) = sharing.enter(holds, now_ns) {
            self.memory.limit(own.quota);
            self.bucket = own.bucket.map(|(rate, capacity)| Bucket::new(rate, capacity, now_ns));
            self.notices.extend(notices);
            self.sharing = None;
        }
    }

    pub(super) fn reserve(&mut self, block: Block) -> Result<(), Refusal> {
        let account = self.memory.process();
        let own = (account.live(), account.pending());
        self.memory.reserve(block)?;
        let Some(sharing) = &mut self.sharing else { return Ok(()) };
        let answer = sharing.reserve(block.size, own);
        if answer.is_err() {
            self.memory.release(block);
        }
        answer
    }

    pub(super) fn commit(&mut self, block: Block) {
        self.memory.commit(block);
        if let Some(sharing) = &self.sharing {
            sharing.commit(block.size);
        }
    }

    pub(super) fn release(&mut self, block: Block) {
        self.memory.release(block);
        if let Some(sharing) = &self.sharing {
            sharing.release(block.size);
        }
    }

    pub(super) fn free(&mut self, block: Block) {
        self.memory.free(block);
        if let Some(sharing) = &self.sharing {
            sharing.free(block.size);
        }
    }

    /// Decides on a launch; without a policy it passes anyway, and only takes its place in the order of events.
    #[inline(always)]
    pub(super) fn draw(&mut self, policy: Option<Policy>, now_ns: u64) -> (Verdict, Launched) {
        let now_ns = self.last_ns.max(now_ns);
        // The page that processes share has a lock of its own.
        let promptly = self.sharing.is_none();
        let Drawn { verdict, at_ns, tokens } = if let Some(sharing) = &mut self.sharing {
            sharing.draw(policy, now_ns)
        } else if let Some(bucket) = &mut self.bucket {
            let verdict = policy.map_or(Verdict::Pass, |policy| bucket.draw(policy, now_ns));
            Drawn { verdict, at_ns: now_ns, tokens: Some(bucket.level(now_ns)) }
        } else {
            Drawn { verdict: Verdict::Pass, at_ns: now_ns, tokens: None }
        };
        // Who waits gets its number when it has waited.
        let seq = if matches!(verdict, Verdict::Wait(_)) { 0 } else { self.next(at_ns).seq };
        (verdict, Launched { seq, at_ns, tokens, promptly })
    }
}
