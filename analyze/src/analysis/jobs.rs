//! Processes that share one quota, by their records: what all of them together held, along the clock that they share.

use std::collections::BTreeMap;

use super::fold::Fold;
use super::packed::packed;
use crate::events::Process;
use crate::step::Step;

/// Changes that are kept of all processes: what all held is known only when every file is read.
const CHANGES: usize = 1 << 21;

/// What a process held, as its records state it.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    changes: Vec<Change>,
    bytes: u64,
    /// There was no room for one of the changes.
    pub(super) cut: bool,
}

packed!(Held { changes, bytes, cut });

/// From when on so many bytes were held, and the line that says so.
#[derive(Clone, Copy, Debug)]
struct Change {
    at_ns: u64,
    bytes: u64,
    line: u64,
}

packed!(Change { at_ns, bytes, line });

/// Room for changes of all processes.
#[derive(Clone, Debug)]
pub(super) struct Room(usize);

impl Default for Room {
    fn default() -> Self {
        Room(CHANGES)
    }
}

impl Held {
    /// Takes a call in.
    #[inline]
    pub(super) fn step(&mut self, step: &Step, room: &mut Room) {
        let (Some(at_ns), Some(bytes)) = (step.mono_ns, step.total) else { return };
        if bytes == self.bytes || self.cut {
            return;
        }
        match room.0.checked_sub(1) {
            Some(left) => {
                *room = Room(left);
                self.changes.push(Change { at_ns, bytes, line: step.line });
                self.bytes = bytes;
            }
            None => self.cut = true,
        }
    }
}

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

/// The processes of each job whose records are here.
#[derive(Default)]
pub(super) struct Jobs<'a>(BTreeMap<(u64, Option<&'a str>, u64), Vec<Member>>);

/// One of a job's processes.
struct Member {
    held: Held,
    /// When it held no more, and the line that stands for it.
    end_ns: u64,
    line: u64,
    complete: bool,
}

impl<'a> Jobs<'a> {
    /// Takes a process in.
    ///
    /// It counts until its `end`, one that has none until its last record, for the hook gives back what the dead held.
    /// So the sum is never too high unless records are missing in between.
    pub(super) fn take(&mut self, process: &'a Process, fold: &mut Fold) {
        let (Some(job), Some(quota)) = (process.job, process.quota.value()) else { return };
        let last = fold.clock.stamps.map_or(0, |(_, last)| last);
        let member = Member {
            held: std::mem::take(&mut fold.held),
            end_ns: process.end_mono_ns.unwrap_or(last).max(last),
            line: process.first_line,
            complete: is_complete(process, fold),
        };
        self.0.entry((job, process.host.as_deref(), quota)).or_default().push(member);
    }

    /// What each job held.
    pub(super) fn usages(&self) -> Vec<Usage> {
        self.0.iter().map(|(&(_, _, quota), processes)| usage(quota, processes)).collect()
    }
}

fn usage(quota: u64, processes: &[Member]) -> Usage {
    // When, how many bytes more or fewer, and the line that says so. At the same moment what is given back comes first.
    let mut changes: Vec<(u64, i128, u64)> = Vec::new();
    for member in processes {
        let mut before = 0i128;
        for change in &member.held.changes {
            changes.push((change.at_ns, i128::from(change.bytes) - before, change.line));
            before = i128::from(change.bytes);
        }
        changes.push((member.end_ns, -before, member.line));
    }
    changes.sort_unstable();
    let mut usage = Usage {
        quota,
        peak_bytes: 0,
        peak_line: 0,
        processes: processes.len(),
        complete: processes.iter().all(|member| member.complete),
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

#[cfg(test)]
mod tests {
    use hook_event::{Kind, Outcome};

    use super::*;
    use crate::analysis::Status;
    use crate::analysis::conformance::Rulings;
    use crate::analysis::fold::Totals;
    use crate::events::{Events, Limit, Row};

    /// The verdict on a job's process that takes 1 byte more at each of four calls, where so many changes may be kept.
    fn verdict(most: usize, quota: u64) -> Status {
        let process = Process {
            quota: Limit::At(quota),
            shared: Some("train".into()),
            job: Some(7),
            ended: true,
            end_mono_ns: Some(5),
            ..Process::default()
        };
        let mut totals = Totals::default();
        totals.room.0 = most;
        let mut fold = Fold::new((0, 0, 0), &mut totals);
        for seq in 1..=4 {
            let row = Row {
                seq: Some(seq),
                mono_ns: Some(seq),
                size: Some(1),
                ptr: Some(seq),
                total: Some(seq),
                ..Row::bare(0, seq, 0, Kind::Alloc, Outcome::Ok)
            };
            fold.step(&process, &Step::with_shape(&row, None), &mut totals);
        }
        fold.finish(&process);
        let events = Events { processes: vec![process], ..Events::default() };
        let mut rulings = Rulings::default();
        rulings.take(&events.processes[0], &mut fold, true);
        rulings.checks(&events)[0].status
    }

    #[test]
    fn without_room_nothing_is_said_of_a_shared_quota() {
        assert_eq!(verdict(4, 4), Status::Pass);
        assert_eq!(verdict(4, 3), Status::Fail);
        assert_eq!(verdict(3, 3), Status::NotApplicable);
        assert_eq!(verdict(3, 4), Status::NotApplicable);
    }
}
