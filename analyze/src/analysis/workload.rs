//! What ran, in more detail than a summary tells: kernels by name.
//!
//! Counted call by call in memory that grows with the names and not with the calls.

use std::collections::{BTreeMap, HashMap};

use hook_event::Kind;

use super::fold::Totals;
use crate::events::{NameId, Names};
use crate::hash;
use crate::step::Step;

/// What ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// Launches.
    pub launches: u64,
    /// Those of which the log tells the kernel.
    pub named: u64,
    /// Those of which it tells the shape.
    pub shaped: u64,
    /// Launches by kernel.
    pub kernels: BTreeMap<String, u64>,
}

/// A workload so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    launches: u64,
    named: u64,
    shaped: u64,
    kernels: HashMap<NameId, u64, hash::Build>,
}

impl Tally {
    /// Takes a call in; the order does not matter.
    pub(super) fn step(&mut self, step: &Step) {
        if step.kind != Kind::Launch {
            return;
        }
        self.launches += 1;
        self.shaped += u64::from(step.shape.is_some());
        if let Some(kernel) = step.kernel {
            self.named += 1;
            *self.kernels.entry(kernel).or_default() += 1;
        }
    }
}

impl Workload {
    /// Of everything that was counted; empty where it was not asked for.
    pub(crate) fn of(totals: &Totals, names: &Names) -> Workload {
        let Some(tally) = &totals.workload else { return Workload::default() };
        Workload {
            launches: tally.launches,
            named: tally.named,
            shaped: tally.shaped,
            kernels: tally.kernels.iter().map(|(&id, &count)| (names.text(id).to_owned(), count)).collect(),
        }
    }
}
