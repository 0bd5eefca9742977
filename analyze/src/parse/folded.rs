//! Calls folded as they are read, in the order of their numbers: threads write their records when they get to it, so
//! these may stand a little out of order. A call waits for those before it; how many may wait is bounded.

use std::collections::BTreeMap;

use super::kept::{self, Calls};
use crate::analysis::fold::{Fold, Rank, Totals};
use crate::events::Process;
use crate::step::{Shapes, Step};

/// Calls of a process that may wait for one with a smaller number.
const WAITING: usize = 1 << 16;

/// Calls of all processes that may wait.
const ALL_WAITING: usize = 1 << 19;

/// A process's calls.
#[derive(Clone, Default)]
pub(super) struct Ordered {
    fold: Option<Box<Fold>>,
    /// Calls, those that wait included.
    count: u64,
    /// Number of the last call in the file.
    last_seq: u64,
    /// Number of the last call folded.
    folded: u64,
    /// By number, those with the same in the order of the file.
    waiting: BTreeMap<(u64, u64), Step>,
}

/// What all processes add to.
#[derive(Clone, Default)]
pub(super) struct Shared {
    pub(super) totals: Totals,
    waiting: usize,
    /// Whether there is a call that stands as a line.
    pub(super) line_calls: bool,
    /// Calls that came when one with a larger number was folded already.
    pub(super) late: u64,
}

impl kept::Shared for Shared {
    fn shapes(&mut self) -> Option<&mut Shapes> {
        Some(&mut self.totals.shapes)
    }
}

impl Calls for Ordered {
    type Kept = Step;
    type Shared = Shared;

    #[inline]
    fn count(&self) -> u64 {
        self.count
    }

    fn last_seq(&self) -> u64 {
        self.last_seq
    }

    #[inline]
    fn take(&mut self, step: &Step, process: &Process, index: u32, shared: &mut Shared) {
        self.count += 1;
        let Some(seq) = step.seq else {
            shared.line_calls = true;
            self.fold(step, process, index, shared);
            return;
        };
        self.last_seq = seq;
        if seq > self.folded.saturating_add(1) {
            self.wait(*step, process, index, shared);
            return;
        }
        shared.late += u64::from(seq < self.folded);
        self.folded = self.folded.max(seq);
        self.fold(step, process, index, shared);
        if !self.waiting.is_empty() {
            self.follow(process, index, shared);
        }
    }

    fn settle(&mut self, process: &Process, index: u32, shared: &mut Shared) {
        while self.next(process, index, shared) {}
    }
}

impl Ordered {
    #[inline]
    fn fold(&mut self, step: &Step, process: &Process, index: u32, shared: &mut Shared) {
        let fold = match &mut self.fold {
            Some(fold) => fold,
            none => none.insert(begin(process, index, &mut shared.totals)),
        };
        fold.step(process, step, &mut shared.totals);
    }

    fn wait(&mut self, step: Step, process: &Process, index: u32, shared: &mut Shared) {
        self.waiting.insert((step.seq.unwrap_or(0), self.count), step);
        shared.waiting += 1;
        if self.waiting.len() > WAITING || shared.waiting > ALL_WAITING {
            // What it waits for is lost, it seems.
            self.next(process, index, shared);
            self.follow(process, index, shared);
        }
    }

    /// Folds what need not wait any longer.
    fn follow(&mut self, process: &Process, index: u32, shared: &mut Shared) {
        while self.waiting.first_key_value().is_some_and(|((seq, _), _)| *seq <= self.folded.saturating_add(1)) {
            self.next(process, index, shared);
        }
    }

    /// Folds the first that waits; whether there was one.
    fn next(&mut self, process: &Process, index: u32, shared: &mut Shared) -> bool {
        let Some(((seq, _), step)) = self.waiting.pop_first() else { return false };
        shared.waiting -= 1;
        self.folded = seq;
        self.fold(&step, process, index, shared);
        true
    }

    /// The fold of all calls.
    pub(super) fn finish(mut self, process: &Process, index: u32, shared: &mut Shared) -> Fold {
        self.settle(process, index, shared);
        let mut fold = self.fold.unwrap_or_else(|| begin(process, index, &mut shared.totals));
        fold.finish(process);
        *fold
    }
}

fn begin(process: &Process, index: u32, totals: &mut Totals) -> Box<Fold> {
    let rank: Rank = (process.source, process.first_line, index);
    Box::new(Fold::new(rank, totals))
}
