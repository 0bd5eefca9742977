//! Logs → figures, without keeping a row a call: memory stays bounded whatever the logs' size.
//!
//! Each call is folded in as it is read. Two kinds of input need rows: a log beside its event file, and lines and
//! records together, for then it must be found which of them are the same calls. Whichever turns up, reading begins
//! again with rows ([`crate::parse`]); of a pipe only where little was read of it yet.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use crate::analysis::summary::{self, Summary};
use crate::error::Error;
use crate::events::Events;
use crate::input::tail::Control;
use crate::parse::live::Live;
use crate::parse::{Folded, Inputs, Pace};

/// The figures of logs.
pub struct Figures {
    /// The figures.
    pub summary: Summary,
    /// What was read: inputs, processes, names and notes, and no calls.
    pub events: Events,
}

/// The figures of `logs`, the same as of [`summary::analyse`] over [`crate::parse::read`].
///
/// # Errors
/// As [`crate::parse::read`]; and lines and records alternate in a pipe in such a way that it can't be told which of
/// them are the same calls.
pub fn read(logs: &[PathBuf], events: Option<&Path>) -> Result<Figures, Error> {
    read_at(logs, events, Pace::default())
}

/// The same at a given pace; the result does not depend on it.
///
/// # Errors
/// As [`read`].
pub fn read_at(logs: &[PathBuf], events: Option<&Path>, pace: Pace) -> Result<Figures, Error> {
    let inputs = Inputs::open(logs)?;
    if events.is_none() {
        match inputs.fold(pace)? {
            Folded::All { events, folds, totals } => {
                let summary = summary::assemble(&events, &folds, &totals);
                return Ok(Figures { summary, events: *events });
            }
            Folded::NeedsRows(why) => inputs.can_begin_again(why)?,
        }
    }
    let mut events = inputs.rows(events, pace)?;
    let summary = summary::analyse(&events).summary;
    events.calls = Default::default();
    Ok(Figures { summary, events })
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
