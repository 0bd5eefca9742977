//! An allocation, a free, a reset: what was held, and of whose quota.

use std::collections::HashMap;

use hook_event::{Kind, Outcome, Scope};
use serde::Serialize;

use crate::analysis::memory::Replay;
use crate::analysis::timeline::ROUNDING;
use crate::events::{Columns, Limit, Process};
use crate::step::Step;

/// Live blocks that are named, the largest first.
const BLOCKS: usize = 5;

/// An allocation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Alloc {
    /// Why it passed or not.
    pub why: AllocWhy,
    /// Bytes asked for.
    pub size: Option<u64>,
    /// Whose account decided: `process`, `device`, `job`; `unreachable` where the job's could not be asked, `printed` where
    /// the line names another quota than the process's.
    pub account: &'static str,
    /// Live bytes of that account before.
    pub live_before: Option<u64>,
    /// By how much that may be wrong: a line prints MB with one decimal.
    pub live_error: u64,
    /// Bytes that calls under way had reserved; records only.
    pub pending: Option<u64>,
    /// The quota.
    pub quota: Option<u64>,
    /// What they would have been with it.
    pub would_be: Option<u64>,
    /// Bytes that were lacking, where it was denied.
    pub lacking: Option<u64>,
    /// Live bytes of the process after it.
    pub live_after: Option<u64>,
    /// Live blocks of the process before it.
    pub blocks: usize,
    /// The largest of them, at most five.
    pub largest: Vec<Block>,
}

/// What an allocation's fate is due to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AllocWhy {
    /// Allocations are only recorded.
    NotLimited,
    /// The log does not tell the quota, or what was held.
    Unknown,
    /// It fitted in.
    Fits,
    /// It did not.
    Exceeds,
    /// It fitted in to what the log tells, and yet it was denied.
    DeniedThoughFits,
    /// It did not fit in, and yet it passed.
    PassedThoughExceeds,
    /// The account that all share could not be asked.
    Unreachable,
}

/// A live block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Block {
    /// Line of its allocation.
    pub line: u64,
    /// Address.
    pub ptr: u64,
    /// Bytes.
    pub size: u64,
}

/// A free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Free {
    /// Address.
    pub ptr: Option<u64>,
    /// The allocation that it ends.
    pub block: Option<Block>,
    /// Line on which the address was freed before, where it was and not allocated since.
    pub freed_before: Option<u64>,
    /// Live bytes before.
    pub live_before: Option<u64>,
    /// Live bytes after.
    pub live_after: Option<u64>,
}

/// A reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Reset {
    /// Blocks that it ended.
    pub blocks: usize,
    /// Live bytes before.
    pub live_before: Option<u64>,
    /// Live bytes after.
    pub live_after: Option<u64>,
}

/// What a process held before a call.
struct Held {
    replay: Replay,
    /// For each address the last row that allocated it, and the last that freed it.
    allocated: HashMap<u64, usize>,
    freed: HashMap<u64, usize>,
}

impl Held {
    fn before(calls: &Columns, process: &Process, i: usize) -> Held {
        let mut held = Held { replay: Replay::default(), allocated: HashMap::new(), freed: HashMap::new() };
        for j in process.rows.start..i {
            held.replay.step(process, &Step::with_shape(&calls.row(j), None));
            match (calls.kind[j], calls.outcome[j], calls.ptr[j]) {
                (Kind::Alloc, Outcome::Ok, Some(ptr)) => drop(held.allocated.insert(ptr, j)),
                (Kind::Free, Outcome::Ok, Some(ptr)) => drop(held.freed.insert(ptr, j)),
                _ => {}
            }
        }
        held
    }

    /// Live bytes, and those after row `i`; `None` where the log does not tell them.
    fn live(&mut self, calls: &Columns, process: &Process, i: usize) -> (Option<u64>, Option<u64>) {
        let told = |bytes| (!process.memory_untold).then_some(bytes);
        let before = self.replay.memory.live_bytes;
        let after = self.replay.step(process, &Step::with_shape(&calls.row(i), None));
        (told(before), told(after))
    }

    fn block(&self, calls: &Columns, ptr: u64, size: u64) -> Block {
        Block { line: self.allocated.get(&ptr).map_or(0, |&j| calls.line[j]), ptr, size }
    }
}

/// Of the call in row `i`.
pub(super) fn alloc(calls: &Columns, process: &Process, i: usize) -> Alloc {
    let mut held = Held::before(calls, process, i);
    let mut largest: Vec<Block> = held.replay.blocks().map(|(ptr, size)| held.block(calls, ptr, size)).collect();
    let blocks = largest.len();
    largest.sort_by_key(|block| (std::cmp::Reverse(block.size), block.line));
    largest.truncate(BLOCKS);
    let (own_before, live_after) = held.live(calls, process, i);
    let (size, denied) = (calls.size[i], calls.outcome[i] == Outcome::Denied);
    let another = process.refusal_is_anothers(&Step::with_shape(&calls.row(i), None), process.shared.is_some());
    const MB: f64 = hook_event::units::MB as f64;
    let (account, live_before, live_error, pending, quota) = match calls.refusal[i] {
        Some(refusal) => {
            let account = match refusal.scope {
                Scope::Process => "process",
                Scope::Device => "device",
                Scope::Job => "job",
                Scope::Unreachable => "unreachable",
            };
            (account, Some(refusal.total), 0, Some(refusal.pending), Some(refusal.quota))
        }
        None if another => {
            let printed = calls.total_mb[i].map(|mb| (mb * MB) as u64);
            ("printed", printed, (ROUNDING * MB) as u64, None, calls.quota[i])
        }
        None => ("process", own_before, 0, calls.pending[i], process.quota.value().or(calls.quota[i])),
    };
    let would_be =
        live_before.zip(size).map(|(live, size)| live.saturating_add(pending.unwrap_or(0)).saturating_add(size));
    let over = would_be.zip(quota).map(|(sum, quota)| sum.saturating_add(live_error) > quota);
    let why = match (process.quota, over) {
        _ if account == "unreachable" => AllocWhy::Unreachable,
        (Limit::Off, _) if !denied => AllocWhy::NotLimited,
        (_, None) => AllocWhy::Unknown,
        (_, Some(true)) if denied => AllocWhy::Exceeds,
        (_, Some(false)) if denied => AllocWhy::DeniedThoughFits,
        // What the others hold is not known of one that was let through.
        _ if process.shared.is_some() => AllocWhy::Unknown,
        (_, Some(true)) => AllocWhy::PassedThoughExceeds,
        (_, Some(false)) => AllocWhy::Fits,
    };
    let lacking = would_be.zip(quota).and_then(|(sum, quota)| sum.checked_sub(quota)).filter(|_| denied);
    Alloc {
        why,
        size,
        account,
        live_before,
        live_error,
        pending,
        quota,
        would_be,
        lacking,
        live_after,
        blocks,
        largest,
    }
}

/// Of the call in row `i`.
pub(super) fn free(calls: &Columns, process: &Process, i: usize) -> Free {
    let mut held = Held::before(calls, process, i);
    let ptr = calls.ptr[i];
    let block = ptr.and_then(|ptr| Some(held.block(calls, ptr, held.replay.block(ptr)?)));
    let freed_before = ptr.filter(|_| block.is_none()).and_then(|ptr| held.freed.get(&ptr)).map(|&j| calls.line[j]);
    let (live_before, live_after) = held.live(calls, process, i);
    Free { ptr, block, freed_before, live_before, live_after }
}

/// Of the call in row `i`.
pub(super) fn reset(calls: &Columns, process: &Process, i: usize) -> Reset {
    let mut held = Held::before(calls, process, i);
    let before = held.replay.blocks().count();
    let (live_before, live_after) = held.live(calls, process, i);
    Reset { blocks: before - held.replay.blocks().count(), live_before, live_after }
}
