//! Processes that share one quota, by their records: what all of them together held, along the clock that they share.

use std::collections::BTreeMap;

use super::fold::Fold;
use crate::events::Process;

/// What the processes of a job held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Usage {
    /// The quota that they share, bytes.
    pub(super) quota: u64,
    /// Highest sum of their live bytes, as far as their records tell.
    pub(super) peak_bytes: u64,
    /// The line that brought them there.
    pub(super) peak_line: u64,
    /// Processes.
    pub(super) processes: usize,
    /// Whether no record of theirs is missing.
    pub(super) complete: bool,
}

/// Every job whose processes' records are here.
///
/// A process counts until its `end`, one that has none until its last record, for the hook gives back what the dead held.
/// So the sum is never too high unless records are missing in between.
pub(super) fn usages(all: &[(&Process, &Fold)]) -> Vec<Usage> {
    let mut jobs: BTreeMap<_, Vec<(&Process, &Fold)>> = BTreeMap::new();
    for &(process, fold) in all {
        if let (Some(job), Some(quota)) = (process.job, process.quota.value()) {
            jobs.entry((job, process.host.as_deref(), quota)).or_default().push((process, fold));
        }
    }
    jobs.into_iter().map(|((_, _, quota), processes)| usage(quota, &processes)).collect()
}

fn usage(quota: u64, processes: &[(&Process, &Fold)]) -> Usage {
    // When, how many bytes more or fewer, and the line that says so. At the same moment what is given back comes first.
    let mut changes: Vec<(u64, i128, u64)> = Vec::new();
    for (process, fold) in processes {
        let mut before = 0i128;
        for held in &fold.held {
            changes.push((held.at, i128::from(held.total) - before, held.line));
            before = i128::from(held.total);
        }
        let last = fold.clock.stamps.map_or(0, |(_, last)| last);
        changes.push((process.end_mono_ns.unwrap_or(last).max(last), -before, process.first_line));
    }
    changes.sort_unstable();
    let mut usage = Usage {
        quota,
        peak_bytes: 0,
        peak_line: 0,
        processes: processes.len(),
        complete: processes.iter().all(|(process, fold)| is_complete(process, fold)),
    };
    let mut sum = 0i128;
    for (_, change, line) in changes {
        sum += change;
        let held = u64::try_from(sum.max(0)).unwrap_or(u64::MAX);
        if held > usage.peak_bytes {
            (usage.peak_bytes, usage.peak_line) = (held, line);
        }
    }
    usage
}

fn is_complete(process: &Process, fold: &Fold) -> bool {
    let all = process.stated_calls.is_none_or(|stated| stated == fold.calls);
    process.ended && fold.in_order() && all && process.lost.unwrap_or(0) == 0
}
