//! Processes that share one quota, by their records: what all of them together held, along the clock that they share.

use std::collections::BTreeMap;

use crate::events::{Events, Process};

/// What the processes of a job held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The quota that they share, bytes.
    pub quota: u64,
    /// Highest sum of their live bytes, as far as their records tell.
    pub peak_bytes: u64,
    /// The row that brought them there.
    pub peak_row: usize,
    /// Processes.
    pub processes: usize,
    /// Whether no record of theirs is missing.
    pub complete: bool,
}

/// Every job whose processes' records are here.
///
/// A process counts until its `end`, one that has none until its last record, for the hook gives back what the dead held.
/// So the sum is never too high unless records are missing in between.
pub fn usages(events: &Events) -> Vec<Usage> {
    let mut jobs: BTreeMap<(u64, Option<&str>, u64), Vec<&Process>> = BTreeMap::new();
    for process in &events.processes {
        if let (Some(job), Some(quota)) = (process.job, process.quota.value()) {
            jobs.entry((job, process.host.as_deref(), quota)).or_default().push(process);
        }
    }
    jobs.into_iter().map(|((_, _, quota), processes)| usage(events, quota, &processes)).collect()
}

fn usage(events: &Events, quota: u64, processes: &[&Process]) -> Usage {
    let calls = &events.calls;
    // When, how many bytes more or fewer, and the row that says so. At the same moment what is given back comes first.
    let mut changes: Vec<(u64, i128, usize)> = Vec::new();
    for process in processes {
        let (mut held, mut last) = (0i128, 0);
        for row in process.rows.clone() {
            let (Some(at), Some(total)) = (calls.mono_ns[row], calls.total[row]) else { continue };
            let total = i128::from(total);
            if total != held {
                changes.push((at, total - held, row));
            }
            (held, last) = (total, at);
        }
        changes.push((process.end_mono_ns.unwrap_or(last).max(last), -held, process.rows.start));
    }
    changes.sort_unstable();
    let mut usage = Usage {
        quota,
        peak_bytes: 0,
        peak_row: 0,
        processes: processes.len(),
        complete: processes.iter().all(|process| is_complete(events, process)),
    };
    let mut sum = 0i128;
    for (_, change, row) in changes {
        sum += change;
        let held = u64::try_from(sum.max(0)).unwrap_or(u64::MAX);
        if held > usage.peak_bytes {
            (usage.peak_bytes, usage.peak_row) = (held, row);
        }
    }
    usage
}

fn is_complete(events: &Events, process: &Process) -> bool {
    let numbered = process.rows.clone().zip(1..).all(|(row, number)| events.calls.seq[row] == Some(number));
    let all = process.stated_calls.is_none_or(|stated| stated == process.rows.len() as u64);
    process.ended && numbered && all && process.lost.unwrap_or(0) == 0
}
