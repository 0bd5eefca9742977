//! One input that is still written to: what was read of it so far can be asked for at any time.

use std::path::Path;

use super::folded::{Ordered, Shared};
use super::gather::Gathered;
use super::kept::Calls;
use super::piece::Parsed;
use super::{Pace, assemble};
use crate::analysis::summary;
use crate::error::Error;
use crate::events::Events;
use crate::figures::Figures;
use crate::input::tail::Control;
use crate::input::{self, pieces::Pieces};

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

    /// The pieces of the input, which end when `control` says so.
    pub(crate) fn input(path: &Path, control: &Control) -> Result<Pieces, Error> {
        input::follow(path, control)
    }

    pub(crate) fn take(&mut self, piece: &mut Parsed<<Ordered as Calls>::Kept>) -> Result<(), Error> {
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
