//! One input that is still written to: what was read of it so far can be asked for at any time.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::folded::{Ordered, Shared};
use super::gather::Gathered;
use super::piece::Parsed;
use super::pool::{self, Stop};
use super::{Pace, assemble};
use crate::analysis::summary;
use crate::error::Error;
use crate::events::Events;
use crate::figures::Figures;
use crate::input::{self, tail::Control};
use crate::step::Step;

/// What was read so far.
pub(crate) struct Live {
    events: Events,
    shared: Shared,
    gathered: Gathered<Ordered>,
    /// Pieces taken in.
    pub(crate) pieces: u64,
}

impl Live {
    pub(crate) fn new(path: &Path) -> Live {
        let gathered = Gathered::new(0, path, Pace::default());
        Live { events: Events::default(), shared: Shared::default(), gathered, pieces: 0 }
    }

    /// Reads `path` into `live` until `control` ends it.
    ///
    /// # Errors
    /// It can't be read, or was written in a newer format.
    pub(crate) fn feed(live: &Mutex<Live>, path: &Path, control: &Control) -> Result<(), Error> {
        let mut pieces = input::follow(path, control)?;
        // On one thread: what comes little by little needs no more, and is taken in at once.
        let pace = Pace { threads: 1, ..Pace::default() };
        pool::in_order(&mut pieces, pace, |piece| Live::lock(live).take(piece)).map_err(|stop| match stop {
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

    /// The figures of what was read so far.
    pub(crate) fn figures(&self) -> Figures {
        let (mut gathered, mut shared) = (self.gathered.clone(), self.shared.clone());
        let mut all = self.events.clone();
        gathered.finish(&mut all.names, &mut shared);
        let (events, folds, totals) = assemble(all, vec![gathered], shared);
        Figures { summary: summary::assemble(&events, &folds, &totals), events }
    }
}
