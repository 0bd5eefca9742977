//! The calls of a piece on their way from the core that reads them to the one that takes them in. What crosses from one
//! core's cache to the other's costs more than reading it, so a launch's line, the bulk of a log, is packed.

use hook_event::{Kind, Outcome};

use super::kept::Whole;
use crate::events::NameId;
use crate::step::{ShapeId, Step};

/// Calls in order; with its process id what was a record.
pub(super) trait Batch<K>: Default + Send {
    /// Appends a call.
    fn push(&mut self, pid: Option<u32>, call: K);

    /// How many there are.
    fn len(&self) -> usize;

    /// Hands the next `count` out.
    fn hand_out(&mut self, count: usize, take: impl FnMut(Option<u32>, &mut K));

    /// Forgets all.
    fn clear(&mut self);
}

/// Rows, as they are.
#[derive(Default)]
pub(super) struct Rows {
    rows: Vec<(Option<u32>, Whole)>,
    out: usize,
}

impl Batch<Whole> for Rows {
    fn push(&mut self, pid: Option<u32>, call: Whole) {
        self.rows.push((pid, call));
    }

    fn len(&self) -> usize {
        self.rows.len()
    }

    fn hand_out(&mut self, count: usize, mut take: impl FnMut(Option<u32>, &mut Whole)) {
        self.rows.iter_mut().skip(self.out).take(count).for_each(|(pid, call)| take(*pid, call));
        self.out += count;
    }

    fn clear(&mut self) {
        self.rows.clear();
        self.out = 0;
    }
}

/// Steps, those of launches' lines packed.
#[derive(Default)]
pub(super) struct Steps {
    order: Vec<Packed>,
    others: Vec<(Option<u32>, Step)>,
    /// Handed out: of all, of the others.
    out: (usize, usize),
}

#[derive(Clone, Copy)]
enum Packed {
    Launch {
        tokens: f64,
        line: u32,
        api: NameId,
        shape: ShapeId,
        outcome: Outcome,
    },
    /// The next of the others.
    Other,
}

impl Packed {
    /// What is a launch's line and nothing else.
    #[inline(always)]
    fn of(step: &Step) -> Option<Packed> {
        let Step {
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
        } = *step;
        let launch = kind == Kind::Launch && seq.is_none() && mono_ns.is_none() && dev.is_none();
        let launch = launch && wall_ns.is_none() && took.is_none();
        let memory = [size, ptr, quota, held, total].iter().any(Option::is_some) || total_mb.is_some();
        let plain = !memory && !bypass && !contextless && kernel.is_none();
        let (true, true, Some(tokens), Some(shape), Ok(line)) = (launch, plain, tokens, shape, u32::try_from(line))
        else {
            return None;
        };
        Some(Packed::Launch { tokens, line, api, shape, outcome })
    }
}

impl Batch<Step> for Steps {
    #[inline(always)]
    fn push(&mut self, pid: Option<u32>, call: Step) {
        match Packed::of(&call).filter(|_| pid.is_none()) {
            Some(packed) => self.order.push(packed),
            None => {
                self.order.push(Packed::Other);
                self.others.push((pid, call));
            }
        }
    }

    fn len(&self) -> usize {
        self.order.len()
    }

    #[inline(always)]
    fn hand_out(&mut self, count: usize, mut take: impl FnMut(Option<u32>, &mut Step)) {
        let all = self.order.iter().skip(self.out.0).take(count);
        for packed in all {
            match *packed {
                Packed::Launch { tokens, line, api, shape, outcome } => {
                    let mut step = Step {
                        line: line.into(),
                        seq: None,
                        mono_ns: None,
                        wall_ns: None,
                        api,
                        kind: Kind::Launch,
                        contextless: false,
                        outcome,
                        dev: None,
                        size: None,
                        ptr: None,
                        quota: None,
                        held: None,
                        total: None,
                        total_mb: None,
                        tokens: Some(tokens),
                        bypass: false,
                        shape: Some(shape),
                        took: None,
                        kernel: None,
                    };
                    take(None, &mut step);
                }
                Packed::Other => {
                    if let Some((pid, step)) = self.others.get_mut(self.out.1) {
                        take(*pid, step);
                    }
                    self.out.1 += 1;
                }
            }
        }
        self.out.0 += count;
    }

    fn clear(&mut self) {
        self.order.clear();
        self.others.clear();
        self.out = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_out_is_what_went_in() {
        let launch = Step {
            line: 7,
            seq: None,
            mono_ns: None,
            wall_ns: None,
            api: 1,
            kind: Kind::Launch,
            contextless: false,
            outcome: Outcome::Denied,
            dev: None,
            size: None,
            ptr: None,
            quota: None,
            held: None,
            total: None,
            total_mb: None,
            tokens: Some(-0.5),
            bypass: false,
            shape: Some(3),
            took: None,
            kernel: None,
        };
        let all = [
            (None, launch),
            (Some(9), launch),
            (None, Step { seq: Some(1), ..launch }),
            (None, Step { mono_ns: Some(1), ..launch }),
            (None, Step { wall_ns: Some(1), ..launch }),
            (None, Step { took: Some(crate::step::Took { hook_ns: 1, real_ns: 2 }), ..launch }),
            (None, Step { dev: Some(1), ..launch }),
            (None, Step { kind: Kind::Alloc, size: Some(1), ..launch }),
            (None, Step { total: Some(1), ..launch }),
            (None, Step { quota: Some(1), ..launch }),
            (None, Step { bypass: true, ..launch }),
            (None, Step { contextless: true, ..launch }),
            (None, Step { total_mb: Some(1.0), ..launch }),
            (None, Step { shape: None, ..launch }),
            (None, Step { kernel: Some(1), ..launch }),
            (None, Step { tokens: None, ..launch }),
            (None, Step { line: 1 << 40, ..launch }),
        ];
        let mut steps = Steps::default();
        all.iter().for_each(|&(pid, step)| steps.push(pid, step));
        assert_eq!((steps.len(), steps.others.len()), (all.len(), all.len() - 1));
        let mut out = Vec::new();
        for count in [0, 3, 5, 9] {
            steps.hand_out(count, |pid, step| out.push((pid, *step)));
        }
        assert_eq!(out, all);
    }
}
