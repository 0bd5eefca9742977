//! One input that is still written to: what was read of it so far can be asked for at any time.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::folded::{Ordered, Shared};
use super::gather::Gathered;
use super::piece::Parsed;
use super::pool::{self, Stop};
use super::{Pace, assemble};
use crate::analysis::fold::Totals;
use crate::analysis::summary;
use crate::error::Error;
use crate::events::{Events, Note};
use crate::figures::{self, Figures};
use crate::input::{self, tail::Control};
use crate::step::Step;

/// What was read so far.
pub(crate) struct Live {
    path: PathBuf,
    control: Control,
    events: Events,
    shared: Shared,
    gathered: Gathered<Ordered>,
    /// Pieces taken in.
    pub(crate) pieces: u64,
}

impl Live {
    pub(crate) fn new(path: &Path) -> Live {
        let gathered = Gathered::new(0, path, Pace::default());
        Live {
            path: path.to_owned(),
            control: Control::default(),
            events: Events::default(),
            shared: Shared::default(),
            gathered,
            pieces: 0,
        }
    }

    /// Reads `path` into `live` until `control` ends it.
    ///
    /// # Errors
    /// It can't be read, was written in a newer format, or is a pipe of lines and records.
    pub(crate) fn feed(live: &Mutex<Live>, path: &Path, control: &Control) -> Result<(), Error> {
        let mut pieces = input::follow(path, control)?;
        Live::lock(live).control = control.clone();
        let once = path == Path::new("-") || fs::metadata(path).is_ok_and(|metadata| !metadata.is_file());
        // On one thread: what comes little by little needs no more, and is taken in at once.
        let pace = Pace { threads: 1, ..Pace::default() };
        let take = |piece: &mut Parsed<Step>| {
            let mut live = Live::lock(live);
            live.take(piece)?;
            if once && live.is_of_both_kinds() { Err(Error::PipeOfBothKinds(path.to_owned())) } else { Ok(()) }
        };
        pool::in_order(&mut pieces, pace, take).map_err(|stop| match stop {
            Stop::Read(source) => Error::Read { path: path.to_owned(), source },
            Stop::Enough(error) => error,
        })
    }

    /// What was read so far, while nothing is added to it.
    pub(crate) fn lock(live: &Mutex<Live>) -> MutexGuard<'_, Live> {
        live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&mut self, piece: &mut Parsed<Step>) -> Result<(), Error> {
        // Counted, so that whoever shows the figures knows whether there is anything new.
        self.pieces += 1;
        self.gathered.take(&mut self.events.names, &mut self.shared, piece)
    }

    /// Whether there are lines and records, which may be of the same calls.
    fn is_of_both_kinds(&self) -> bool {
        self.shared.line_calls && !self.gathered.json.parts.is_empty()
    }

    /// The figures of what was read so far; where it takes rows to tell them, of what the file holds.
    pub(crate) fn figures(&self) -> Figures {
        if self.is_of_both_kinds() {
            return self.figures_of_the_file();
        }
        let (mut gathered, mut shared) = (self.gathered.clone(), self.shared.clone());
        let mut all = self.events.clone();
        gathered.finish(&mut all.names, &mut shared);
        let (events, folds, totals) = assemble(all, vec![gathered], shared);
        Figures {
            summary: summary::assemble(&events, folds.into_iter().map(|fold| fold.fold()), &totals),
            events,
            workload: Default::default(),
        }
    }

    fn figures_of_the_file(&self) -> Figures {
        let mut notes = Vec::new();
        if self.control.restarts.load(Ordering::Relaxed) > 0 {
            let path = self.path.display();
            notes.push(Note::new(
                format!("`{path}` was cut or replaced, and holds lines and records of the same calls: what it held before is not counted"),
                format!("`{path}` 曾被截断或替换, 且同时含有同一批调用的日志行与记录: 之前的内容未计入"),
            ));
        }
        let mut figures = figures::read(std::slice::from_ref(&self.path), None).unwrap_or_else(|error| {
            // Between the old file's renaming and the new one's making there is none.
            let why = error.to_string();
            let events = Events { notes: vec![Note::new(why.clone(), why)], ..Events::default() };
            let summary = summary::assemble(&events, std::iter::empty(), &Totals::default());
            Figures { summary, events, workload: Default::default() }
        });
        figures.summary.notes.splice(0..0, notes);
        figures
    }
}
