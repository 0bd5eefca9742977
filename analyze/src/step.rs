//! One call as far as the figures depend on it: what a fold takes in.

use std::collections::HashMap;
use std::ops::Range;

use hook_event::{Dim3, Kind, Outcome};

use crate::events::{NameId, Row};
use crate::hash;

/// A launch's blocks, and the threads of a block.
pub type Shape = (Dim3, Dim3);

/// Blocks of a grid, or threads of a block: of a log's numbers more than 64 bits hold.
pub(crate) fn count(dim: Dim3) -> u128 {
    let Dim3 { x, y, z } = dim;
    u128::from(x) * u128::from(y) * u128::from(z)
}

/// A shape in [`Shapes`].
pub type ShapeId = u32;

/// Shapes, each stored once.
#[derive(Clone, Debug)]
pub struct Shapes {
    all: Vec<Shape>,
    ids: HashMap<Shape, ShapeId, hash::Build>,
    /// Those asked for lately, each in the place that its numbers give: few shapes make up a log.
    recent: [ShapeId; RECENT],
}

const RECENT: usize = 64;

impl Default for Shapes {
    fn default() -> Self {
        Shapes { all: Vec::new(), ids: HashMap::default(), recent: [0; RECENT] }
    }
}

impl Shapes {
    /// The id of a shape, new or old.
    #[inline]
    pub fn id(&mut self, shape: Shape) -> ShapeId {
        let (grid, block) = shape;
        let mixed = [grid.x, grid.y, grid.z, block.x, block.y, block.z]
            .into_iter()
            .zip([0x9e37_79b9, 0x85eb_ca6b, 0xc2b2_ae35, 0x27d4_eb2f, 0x1656_67b1, 0xd35a_2d97u32])
            .fold(0u32, |sum, (value, factor)| sum.wrapping_add(value.wrapping_mul(factor)));
        let place = mixed as usize >> 26;
        let recent = self.recent[place];
        if self.all.get(recent as usize) == Some(&shape) {
            return recent;
        }
        let id = *self.ids.entry(shape).or_insert_with(|| {
            self.all.push(shape);
            self.all.len() as ShapeId - 1
        });
        self.recent[place] = id;
        id
    }

    /// All of them, in the order of their ids.
    pub fn all(&self) -> &[Shape] {
        &self.all
    }
}

/// A call. What the log does not say is `None`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Line in its file, from 1.
    pub line: u64,
    /// Number in the process's order, from 1; records only.
    pub seq: Option<u64>,
    /// Monotonic clock, ns.
    pub mono_ns: Option<u64>,
    /// Wall clock, ns since 1970 UTC, where there is no monotonic one.
    pub wall_ns: Option<i64>,
    /// API.
    pub api: NameId,
    /// Family.
    pub kind: Kind,
    /// Whether it takes memory that outlives a reset of its device.
    pub contextless: bool,
    /// How it ended.
    pub outcome: Outcome,
    /// Device ordinal.
    pub dev: Option<i32>,
    /// Bytes asked for, or given back.
    pub size: Option<u64>,
    /// Device address.
    pub ptr: Option<u64>,
    /// Quota that refused the call, bytes.
    pub quota: Option<u64>,
    /// Of a refused allocation, by records: what the account that refused it held and had reserved, bytes.
    pub held: Option<u64>,
    /// Live bytes after the call as a record states them.
    pub total: Option<u64>,
    /// Live MB after the call as a line prints them.
    pub total_mb: Option<f64>,
    /// Level after the decision.
    pub tokens: Option<f64>,
    /// Whether the launch passed without a token.
    pub bypass: bool,
    /// Shape of a launch.
    pub shape: Option<ShapeId>,
    /// What a call that was let through took, where both were measured.
    pub took: Option<Took>,
    /// Kernel of a launch, where [`crate::analysis::workload`] asks for it.
    pub kernel: Option<NameId>,
}

/// A launch of which a line tells how it ended and its level, and nothing more: most of a log, and so packed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Plain {
    /// Level after the decision.
    pub(crate) tokens: f64,
    /// Line in its piece, from 1.
    pub(crate) line: u32,
    /// Place among the calls of its piece, from 0.
    pub(crate) place: u32,
    /// Shape, or [`Self::NO_SHAPE`].
    shape: ShapeId,
    /// API, and in the last two bits how it ended.
    api: u32,
}

impl Plain {
    const NO_SHAPE: ShapeId = ShapeId::MAX;

    /// What a step is if it is that and nothing else.
    #[inline(always)]
    pub(crate) fn of(step: &Step, place: u32) -> Option<Plain> {
        // Destructured whole: what is new can't be forgotten.
        let &Step {
            line,
            seq,
            mono_ns,
            wall_ns,
            api,
            kind,
            contextless,
            outcome,
            dev,
            size,
            ptr,
            quota,
            held,
            total,
            total_mb,
            tokens,
            bypass,
            shape,
            took,
            kernel,
        } = step;
        let launch = kind == Kind::Launch && seq.is_none() && mono_ns.is_none() && dev.is_none();
        let launch = launch && wall_ns.is_none() && took.is_none();
        let memory = [size, ptr, quota, held, total].iter().any(Option::is_some) || total_mb.is_some();
        let plain = !memory && !bypass && !contextless && kernel.is_none() && api < 1 << 30;
        let shape = shape.unwrap_or(Self::NO_SHAPE);
        let (true, true, Some(tokens), Ok(line)) = (launch, plain, tokens, u32::try_from(line)) else {
            return None;
        };
        Some(Plain { tokens, line, place, shape, api: api << 2 | outcome as u32 })
    }

    pub(crate) fn step(&self) -> Step {
        Step {
            line: self.line.into(),
            seq: None,
            mono_ns: None,
            wall_ns: None,
            api: self.api(),
            kind: Kind::Launch,
            contextless: false,
            outcome: self.outcome(),
            dev: None,
            size: None,
            ptr: None,
            quota: None,
            held: None,
            total: None,
            total_mb: None,
            tokens: Some(self.tokens),
            bypass: false,
            shape: self.shape(),
            took: None,
            kernel: None,
        }
    }

    #[inline(always)]
    pub(crate) fn api(&self) -> NameId {
        self.api >> 2
    }

    #[inline(always)]
    pub(crate) fn outcome(&self) -> Outcome {
        match self.api & 3 {
            0 => Outcome::Ok,
            1 => Outcome::Denied,
            _ => Outcome::Failed,
        }
    }

    #[inline(always)]
    pub(crate) fn denied(&self) -> bool {
        self.api & 3 == Outcome::Denied as u32
    }

    /// Tokens that it took.
    #[inline(always)]
    pub(crate) fn cost(&self) -> f64 {
        if self.denied() { 0.0 } else { 1.0 }
    }

    #[inline(always)]
    pub(crate) fn shape(&self) -> Option<ShapeId> {
        (self.shape != Self::NO_SHAPE).then_some(self.shape)
    }

    /// The same under the names and shapes of the whole input.
    #[inline(always)]
    pub(crate) fn place(&mut self, names: &[NameId], shapes: &[ShapeId]) {
        let api = names.get(self.api() as usize).copied().unwrap_or_default();
        self.api = api << 2 | self.api & 3;
        self.shape = shapes.get(self.shape as usize).copied().unwrap_or(Self::NO_SHAPE);
    }
}

/// The same of a record, which has a number and a time as well.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Timed {
    launch: Plain,
    /// Monotonic clock, ns.
    pub(crate) mono_ns: u64,
    dev: Option<i32>,
    took: Option<Took>,
}

impl Timed {
    /// What a step is if it is that and nothing else; its number is left out.
    #[inline(always)]
    pub(crate) fn of(step: &Step, place: u32) -> Option<Timed> {
        let &Step { seq, mono_ns, dev, took, .. } = step;
        let (Some(_), Some(mono_ns)) = (seq, mono_ns) else { return None };
        let launch = Plain::of(&Step { seq: None, mono_ns: None, dev: None, took: None, ..*step }, place)?;
        Some(Timed { launch, mono_ns, dev, took })
    }

    /// With its number.
    pub(crate) fn step(&self, seq: u64) -> Step {
        let (mono_ns, dev, took) = (Some(self.mono_ns), self.dev, self.took);
        Step { seq: Some(seq), mono_ns, dev, took, ..self.launch.step() }
    }

    /// Its API, and what it took, where that was measured and it was let through.
    #[inline(always)]
    pub(crate) fn took(&self) -> Option<(NameId, Took)> {
        self.took.map(|took| (self.launch.api(), took))
    }
}

/// A packed launch, of a line or a record.
pub(crate) trait AsPlain {
    /// What a line tells.
    fn plain(&self) -> &Plain;

    /// The same, to be changed.
    fn plain_mut(&mut self) -> &mut Plain;
}

impl AsPlain for Plain {
    #[inline(always)]
    fn plain(&self) -> &Plain {
        self
    }

    #[inline(always)]
    fn plain_mut(&mut self) -> &mut Plain {
        self
    }
}

impl AsPlain for Timed {
    #[inline(always)]
    fn plain(&self) -> &Plain {
        &self.launch
    }

    #[inline(always)]
    fn plain_mut(&mut self) -> &mut Plain {
        &mut self.launch
    }
}

/// Launches, handed over behind the other calls that stand between them.
#[derive(Clone, Debug)]
pub(crate) struct Stretch<'a, L> {
    pub(crate) launches: &'a [L],
    /// Lines before the piece.
    pub(crate) lines: u64,
    /// The places of all its calls in the piece.
    pub(crate) places: Range<u32>,
}

impl<L: AsPlain> Stretch<'_, L> {
    /// The line of a launch in its input.
    #[inline(always)]
    pub(crate) fn line(&self, launch: &L) -> u64 {
        self.lines + u64::from(launch.plain().line)
    }

    /// How many of its calls stand before a launch.
    #[inline(always)]
    pub(crate) fn offset(&self, launch: &L) -> u64 {
        u64::from(launch.plain().place - self.places.start)
    }
}

/// Times of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Took {
    /// Added by the hook, ns.
    pub hook_ns: u64,
    /// Spent in the real call, ns.
    pub real_ns: u64,
}

impl Step {
    /// Tokens that it took: one for a launch that was let through, unless it needed none.
    #[inline]
    pub fn cost(&self) -> f64 {
        let takes = self.kind == Kind::Launch && self.outcome != Outcome::Denied && !self.bypass;
        if takes { 1.0 } else { 0.0 }
    }

    /// Whether it has to do with memory, as launches have not.
    #[inline(always)]
    pub(crate) fn tells_memory(&self) -> bool {
        let states = self.ptr.is_some() || self.total.is_some() || self.total_mb.is_some();
        self.kind != Kind::Launch || states
    }

    /// What figures need of a row.
    #[inline(always)] // so that a row of which no more is kept is never put together
    pub fn of(row: &Row, shapes: &mut Shapes) -> Step {
        let shape = row.grid.zip(row.block).map(|shape| shapes.id(shape));
        Step::with_shape(row, shape)
    }

    /// The same where the shape's id is known.
    #[inline(always)]
    pub(crate) fn with_shape(row: &Row, shape: Option<ShapeId>) -> Step {
        let measured = row.hook_ns.zip(row.real_ns).filter(|_| row.outcome != Outcome::Denied);
        Step {
            line: row.line,
            seq: row.seq,
            mono_ns: row.mono_ns,
            wall_ns: row.wall_ns.filter(|_| row.mono_ns.is_none()),
            api: row.api,
            kind: row.kind,
            contextless: row.contextless,
            outcome: row.outcome,
            dev: row.dev,
            size: row.size,
            ptr: row.ptr,
            quota: row.quota,
            held: held(row),
            total: row.total,
            total_mb: row.total_mb,
            tokens: row.tokens,
            bypass: row.bypass,
            shape,
            took: measured.map(|(hook_ns, real_ns)| Took { hook_ns, real_ns }),
            kernel: row.kernel,
        }
    }
}

/// What the account that refused an allocation held and had reserved, where a record tells.
#[inline(always)]
fn held(row: &Row) -> Option<u64> {
    if row.kind != Kind::Alloc || row.outcome != Outcome::Denied {
        return None;
    }
    match row.refusal {
        Some(refusal) => refusal.total.checked_add(refusal.pending),
        None => row.total?.checked_add(row.pending.unwrap_or(0)),
    }
}
