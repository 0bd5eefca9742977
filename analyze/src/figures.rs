//! Logs → figures, without keeping a row a call: memory stays bounded whatever the logs' size.
//!
//! Each call is folded in as it is read. Two kinds of input need rows: a log beside its event file, and lines and
//! records together, for then it must be found which of them are the same calls. Whichever turns up, reading begins
//! again with rows ([`crate::parse`]); of a pipe only where little was read of it yet. That is bounded, too: beyond a
//! million calls the event file is left out, and lines and records in one analysis are refused.
//!
//! Records out of order wait for those before them, in bounded memory. Where that was not enough, a small input is read
//! again and sorted; of a larger one what depends on the order is left out, and that is said.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use crate::analysis::fold::Totals;
use crate::analysis::summary::{self, Summary};
use crate::analysis::workload::Workload;
use crate::error::Error;
use crate::events::Events;
use crate::input::tail::Control;
use crate::parse::live::Live;
use crate::parse::{Folded, Inputs, Pace, Why};

/// The figures of logs.
pub struct Figures {
    /// The figures.
    pub summary: Summary,
    /// What was read: inputs, processes, names and notes, and no calls.
    pub events: Events,
    /// Kernels and times; empty unless [`Pace::workload`] asks for them.
    pub workload: Workload,
}

/// The figures of `logs`, the same as of [`summary::analyse`] over [`crate::parse::read`].
///
/// # Errors
/// As [`crate::parse::read`]; and lines and records alternate in a pipe in such a way that it can't be told which of
/// them are the same calls, or there are too many of both to find out.
pub fn read(logs: &[PathBuf], events: Option<&Path>) -> Result<Figures, Error> {
    read_at(logs, events, Pace::default())
}

/// The same at a given pace; the result does not depend on it.
///
/// # Errors
/// As [`read`].
pub fn read_at(logs: &[PathBuf], events: Option<&Path>, pace: Pace) -> Result<Figures, Error> {
    of_inputs(&Inputs::open(logs)?, events, pace)
}

pub(crate) fn of_inputs(inputs: &Inputs, events: Option<&Path>, pace: Pace) -> Result<Figures, Error> {
    let why = match events {
        Some(_) => Why::BothKinds,
        None => match inputs.fold(pace, false)? {
            Folded::NeedsRows(why) => why,
            all => return inputs_folded(inputs, all),
        },
    };
    inputs.can_begin_again(why)?;
    let most = if why == Why::Order { inputs.most.sorted } else { inputs.most.matched };
    match inputs.rows(events, pace, most) {
        Err(Error::TooManyOfBothKinds { .. }) if why == Why::EventFile && inputs.can_be_read_again() => {
            inputs_folded(inputs, inputs.fold(pace, true)?)
        }
        Err(error) => Err(error),
        Ok(mut events) => {
            let mut totals = Totals::with(pace.workload);
            let summary = summary::analyse_into(&events, &mut totals).summary;
            let workload = Workload::of(&totals, &events.names);
            events.calls = Default::default();
            Ok(Figures { summary, events, workload })
        }
    }
}

fn inputs_folded(inputs: &Inputs, folded: Folded) -> Result<Figures, Error> {
    match folded {
        Folded::All { events, folds, totals } => {
            let summary = summary::assemble(&events, folds.into_iter().map(|fold| fold.fold()), &totals);
            let workload = Workload::of(&totals, &events.names);
            Ok(Figures { summary, events: *events, workload })
        }
        Folded::NeedsRows(_) => Err(Error::TooManyOfBothKinds { most: inputs.most.matched }),
    }
}

/// Between two looks whether there is anything new.
const LOOK: Duration = Duration::from_millis(20);

/// The figures of a log that is still written to: `show` is called with them every `interval` in which lines came, until
/// `control` says stop. The last ones are given back. An event file beside the log is left alone.
///
/// # Errors
/// The log can't be read, or was written in a newer format.
pub fn follow(
    path: &Path,
    control: &Control,
    interval: Duration,
    mut show: impl FnMut(&Figures),
) -> Result<Figures, Error> {
    let live = Mutex::new(Live::new(path));
    thread::scope(|scope| {
        let reader = scope.spawn(|| Live::feed(&live, path, control));
        let (mut next, mut shown) = (Instant::now() + interval, 0);
        while !reader.is_finished() {
            thread::sleep(LOOK.min(interval));
            if Instant::now() < next {
                continue;
            }
            next += interval;
            let pieces = Live::lock(&live).pieces;
            if pieces != shown {
                shown = pieces;
                let figures = Live::lock(&live).figures();
                show(&figures);
            }
        }
        reader.join().unwrap_or(Ok(()))
    })?;
    let figures = Live::lock(&live).figures();
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::timeline::TimeBase;

    /// What is in `tests/data` of a run on the stand-in: 25 calls as lines and as records.
    fn data(name: &str) -> Vec<u8> {
        std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)).unwrap()
    }

    /// The figures of these files, of which the first ones are named, with room for so many rows.
    fn within(matched: u64, files: &[(&str, Vec<u8>)], named: usize) -> Result<Figures, Error> {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            std::fs::write(folder.path().join(name), bytes).unwrap();
        }
        let logs: Vec<PathBuf> = files.iter().take(named).map(|(name, _)| folder.path().join(name)).collect();
        let mut inputs = Inputs::open(&logs)?;
        inputs.most.matched = matched;
        of_inputs(&inputs, None, Pace::default())
    }

    #[test]
    fn an_event_file_that_is_too_long_to_match_is_left_out_with_a_note() {
        let files = [("a.log", data("sim_lab.log")), ("a.jsonl", data("sim_lab.jsonl"))];
        let both = within(50, &files, 1).unwrap();
        assert_eq!((both.summary.time.base, both.summary.inputs.len()), (TimeBase::Monotonic, 2));
        let alone = within(49, &files, 1).unwrap();
        assert_eq!((alone.summary.time.base, alone.summary.inputs.len()), (TimeBase::Inferred, 1));
        assert_eq!(alone.summary.apis, both.summary.apis);
        assert!(alone.summary.notes.iter().any(|note| note.en.contains("more than 49 calls, too many to match")));
        let without = within(49, &files[..1], 1).unwrap();
        assert!(without.summary.notes.iter().all(|note| !note.en.contains("too many")));
    }

    #[test]
    fn lines_and_records_that_are_too_many_to_match_are_refused() {
        let files = [("a.log", data("sim_lab.log")), ("b.jsonl", data("sim_lab.jsonl"))];
        assert_eq!(within(50, &files, 2).unwrap().summary.processes[0].calls, 25);
        let refused = within(49, &files, 2).err().unwrap();
        assert!(refused.to_string().starts_with("more than 49 calls as"), "{refused}");
        assert!(within(0, &files[1..], 1).is_ok(), "records alone need no rows");
    }
}
