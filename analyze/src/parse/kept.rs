//! What stays of a call once it is read: its whole row for columns, or a step for figures. One reader serves both.

use super::batch::{Batch, Rows, Steps};
use super::course::text_hash;
use crate::events::{NameId, Process, Row};
use crate::step::{Plain, ShapeId, Shapes, Step, Stretch, Timed};

/// What stays of a call.
pub(super) trait Kept: Sized + Send + 'static {
    /// Many of them.
    type Batch: Batch<Self>;

    /// Whether all of a row is wanted, and the text of a line.
    const WHOLE: bool;

    /// Of this row, whose shape this is; `text` is its course line, empty for a record.
    fn of(row: Row, shape: Option<ShapeId>, text: &str) -> Self;

    /// Moves it from its piece into the input.
    fn place(&mut self, to: &Place<'_>);

    /// The hash of its course line, where that is wanted.
    fn text(&self) -> Option<u64>;

    /// Number in the process's order.
    fn seq(&self) -> Option<u64>;

    /// Line.
    fn line(&self) -> u64;
}

/// Where a piece's calls lie in their input.
pub(super) struct Place<'a> {
    /// Lines before the piece.
    pub(super) lines: u64,
    /// The input's names for those of the piece.
    pub(super) names: &'a [NameId],
    /// The input's shapes for those of the piece.
    pub(super) shapes: &'a [ShapeId],
}

/// What all processes add to.
pub(super) trait Shared {
    /// The shapes that calls speak of, where they do.
    fn shapes(&mut self) -> Option<&mut Shapes>;
}

impl Shared for () {
    fn shapes(&mut self) -> Option<&mut Shapes> {
        None
    }
}

/// Where a process's calls go.
pub(super) trait Calls: Default {
    /// What they are.
    type Kept: Kept;
    /// What all processes add to.
    type Shared: Shared;

    /// Calls so far.
    fn count(&self) -> u64;

    /// Number of the last call.
    fn last_seq(&self) -> u64;

    /// Takes a call of `process` in, which is the input's `index`th of its kind.
    fn take(&mut self, kept: &Self::Kept, process: &Process, index: u32, shared: &mut Self::Shared);

    /// Whether launches of the calls of `process` that follow may come behind the others, all together: of records with
    /// numbers from `next` on, else of lines.
    fn may_wait(&self, process: &Process, shared: &Self::Shared, next: Option<u64>) -> bool;

    /// So many of them stand here.
    fn pass(&mut self, launches: u64);

    /// Takes lines in.
    fn lines(&mut self, stretch: &Stretch<'_, Plain>, process: &Process, shared: &mut Self::Shared);

    /// Takes records in.
    fn records(&mut self, stretch: &Stretch<'_, Timed>, process: &Process, shared: &mut Self::Shared);

    /// No call with a smaller number is waited for any longer.
    fn settle(&mut self, process: &Process, index: u32, shared: &mut Self::Shared);

    /// No call is expected any more; one may come nevertheless.
    fn rest(&mut self);
}

/// A row, and the hash of its course line.
pub(super) struct Whole {
    row: Row,
    text: Option<u64>,
}

impl Kept for Whole {
    type Batch = Rows;

    const WHOLE: bool = true;

    #[inline(always)]
    fn of(row: Row, _: Option<ShapeId>, text: &str) -> Self {
        Whole { row, text: (!text.is_empty()).then(|| text_hash(text)) }
    }

    fn place(&mut self, to: &Place<'_>) {
        let id = |id: NameId| to.names.get(id as usize).copied().unwrap_or_default();
        self.row.line += to.lines;
        self.row.api = id(self.row.api);
        self.row.sym = self.row.sym.map(id);
        self.row.kernel = self.row.kernel.map(id);
    }

    fn text(&self) -> Option<u64> {
        self.text
    }

    fn seq(&self) -> Option<u64> {
        self.row.seq
    }

    fn line(&self) -> u64 {
        self.row.line
    }
}

impl Calls for Vec<Row> {
    type Kept = Whole;
    type Shared = ();

    fn count(&self) -> u64 {
        self.len() as u64
    }

    fn last_seq(&self) -> u64 {
        self.last().and_then(|row| row.seq).unwrap_or(0)
    }

    fn take(&mut self, kept: &Whole, process: &Process, _: u32, (): &mut ()) {
        self.push(Row { source: process.source, ..kept.row });
    }

    fn may_wait(&self, _: &Process, (): &(), _: Option<u64>) -> bool {
        false
    }

    fn pass(&mut self, _: u64) {}

    fn lines(&mut self, _: &Stretch<'_, Plain>, _: &Process, (): &mut ()) {}

    fn records(&mut self, _: &Stretch<'_, Timed>, _: &Process, (): &mut ()) {}

    fn settle(&mut self, _: &Process, _: u32, (): &mut ()) {}

    fn rest(&mut self) {}
}

impl Kept for Step {
    type Batch = Steps;

    const WHOLE: bool = false;

    #[inline(always)]
    fn of(row: Row, shape: Option<ShapeId>, _: &str) -> Self {
        Step::with_shape(&row, shape)
    }

    #[inline(always)]
    fn place(&mut self, to: &Place<'_>) {
        self.line += to.lines;
        self.api = to.names.get(self.api as usize).copied().unwrap_or_default();
        self.shape = self.shape.and_then(|shape| to.shapes.get(shape as usize).copied());
        if let Some(kernel) = &mut self.kernel {
            *kernel = to.names.get(*kernel as usize).copied().unwrap_or_default();
        }
    }

    #[inline(always)]
    fn text(&self) -> Option<u64> {
        None
    }

    #[inline(always)]
    fn seq(&self) -> Option<u64> {
        self.seq
    }

    #[inline(always)]
    fn line(&self) -> u64 {
        self.line
    }
}
