//! The calls of a piece on their way from the core that reads them to the one that takes them in. What crosses from one
//! core's cache to the other's costs more than reading it, so a launch's line, the bulk of a log, is packed; and what stands
//! in a row of them is taken in at once, figure by figure, which costs less than call by call.

use std::ops::Range;

use hook_event::Kind;

use super::kept::Whole;
use crate::step::{Plain, Step};

/// Calls in order; with its process id what was a record.
pub(super) trait Batch<K>: Default + Send {
    /// Appends a call.
    fn push(&mut self, pid: Option<u32>, call: K);

    /// How many there are.
    fn len(&self) -> usize;

    /// Hands the next `count` out.
    fn hand_out(&mut self, count: usize, to: &mut impl Take<K>);

    /// Forgets all.
    fn clear(&mut self);
}

/// What calls are handed to.
pub(super) trait Take<K> {
    /// Takes a call in; with its process id what was a record.
    fn take(&mut self, pid: Option<u32>, call: &mut K);

    /// Whether launches' lines may come behind the other calls that follow, all together.
    fn may_wait(&self) -> bool;

    /// So many of them stand here.
    fn pass(&mut self, launches: u64);

    /// Takes them in. `places`: of all calls since [`Self::may_wait`].
    fn launches(&mut self, launches: &mut [Plain], places: Range<u32>);
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

    fn hand_out(&mut self, count: usize, to: &mut impl Take<Whole>) {
        self.rows.iter_mut().skip(self.out).take(count).for_each(|(pid, call)| to.take(*pid, call));
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
    launches: Vec<Plain>,
    /// All others, with their places.
    others: Vec<(u32, Option<u32>, Step)>,
    /// Not all others are lines about memory without times: the launches between them can't be taken in by themselves.
    mixed: bool,
    /// Handed out: of all, of the launches, of the others.
    out: [usize; 3],
}

impl Steps {
    /// Hands out in order.
    fn in_order(launches: &[Plain], others: &mut [(u32, Option<u32>, Step)], to: &mut impl Take<Step>) {
        let mut launches = launches.iter().peekable();
        for (place, pid, step) in others {
            while let Some(launch) = launches.next_if(|launch| launch.place < *place) {
                to.take(None, &mut launch.step());
            }
            to.take(*pid, step);
        }
        launches.for_each(|launch| to.take(None, &mut launch.step()));
    }
}

impl Batch<Step> for Steps {
    #[inline(always)]
    fn push(&mut self, pid: Option<u32>, call: Step) {
        // A piece has fewer calls than bytes.
        let place = self.len() as u32;
        match Plain::of(&call, place).filter(|_| pid.is_none()) {
            Some(launch) => self.launches.push(launch),
            None => {
                let timed = call.seq.is_some() || call.mono_ns.is_some() || call.wall_ns.is_some();
                self.mixed |= timed || pid.is_some() || call.kind == Kind::Launch;
                self.others.push((place, pid, call));
            }
        }
    }

    #[inline(always)]
    fn len(&self) -> usize {
        self.launches.len() + self.others.len()
    }

    fn hand_out(&mut self, count: usize, to: &mut impl Take<Step>) {
        let [from, launches, others] = self.out;
        let end = (from + count) as u32;
        let (launches, others) = (&mut self.launches[launches..], &mut self.others[others..]);
        let (ours, theirs) =
            (launches.partition_point(|launch| launch.place < end), others.partition_point(|(place, ..)| *place < end));
        let (launches, others) = (&mut launches[..ours], &mut others[..theirs]);
        self.out = [from + count, self.out[1] + launches.len(), self.out[2] + others.len()];
        if self.mixed || launches.is_empty() {
            return Self::in_order(launches, others, to);
        }
        // The first call is one by itself: what stands before it may have changed what it is judged by.
        let from = from as u32 + 1;
        let (first, launches) = launches.split_at_mut(usize::from(launches[0].place < from));
        let (other, others) = others.split_at_mut(1 - first.len());
        Self::in_order(first, other, to);
        if !to.may_wait() {
            return Self::in_order(launches, others, to);
        }
        let mut next = from;
        for (place, pid, step) in others {
            to.pass(u64::from(*place - next));
            to.take(*pid, step);
            next = *place + 1;
        }
        to.pass(u64::from(end - next));
        to.launches(launches, from..end);
    }

    fn clear(&mut self) {
        self.launches.clear();
        self.others.clear();
        (self.mixed, self.out) = (false, [0; 3]);
    }
}

#[cfg(test)]
mod tests {
    use hook_event::Outcome;

    use super::*;
    use crate::events::Row;
    use crate::step::Took;

    /// What was handed out, in the order of places; whether launches may wait, and what was passed since.
    #[derive(Default)]
    struct Taken {
        all: Vec<(Option<u32>, Step)>,
        patient: bool,
        passed: Vec<usize>,
    }

    impl Take<Step> for Taken {
        fn take(&mut self, pid: Option<u32>, step: &mut Step) {
            self.all.push((pid, *step));
        }

        fn may_wait(&self) -> bool {
            self.patient
        }

        fn pass(&mut self, launches: u64) {
            let from = self.all.len();
            self.passed.extend(from..from + launches as usize);
            let filler = (Some(u32::MAX), Plain::step(&Plain::of(&launch(), 0).unwrap()));
            self.all.extend((0..launches).map(|_| filler));
        }

        fn launches(&mut self, launches: &mut [Plain], places: Range<u32>) {
            let begin = self.all.len() - places.len();
            for launch in launches {
                self.all[begin + (launch.place - places.start) as usize] = (None, launch.step());
            }
        }
    }

    fn launch() -> Step {
        let row = Row { tokens: Some(-0.5), ..Row::bare(0, 7, 1, Kind::Launch, Outcome::Denied) };
        Step::with_shape(&row, Some(3))
    }

    /// Handed out in parts of these sizes.
    fn handed_out(all: &[(Option<u32>, Step)], parts: &[usize], patient: bool) -> (Steps, Taken) {
        let (mut steps, mut taken) = (Steps::default(), Taken { patient, ..Taken::default() });
        all.iter().for_each(|&(pid, step)| steps.push(pid, step));
        parts.iter().for_each(|&count| steps.hand_out(count, &mut taken));
        (steps, taken)
    }

    #[test]
    fn what_comes_out_is_what_went_in() {
        let launch = launch();
        let all = [
            (None, launch),
            (None, Step { outcome: Outcome::Ok, ..launch }),
            (None, Step { outcome: Outcome::Failed, shape: None, ..launch }),
            (Some(9), launch),
            (None, Step { seq: Some(1), ..launch }),
            (None, Step { mono_ns: Some(1), ..launch }),
            (None, Step { wall_ns: Some(1), ..launch }),
            (None, Step { took: Some(Took { hook_ns: 1, real_ns: 2 }), ..launch }),
            (None, Step { dev: Some(1), ..launch }),
            (None, Step { kind: Kind::Alloc, size: Some(1), ..launch }),
            (None, Step { total: Some(1), ..launch }),
            (None, Step { quota: Some(1), ..launch }),
            (None, Step { bypass: true, ..launch }),
            (None, Step { contextless: true, ..launch }),
            (None, Step { total_mb: Some(1.0), ..launch }),
            (None, Step { kernel: Some(1), ..launch }),
            (None, Step { tokens: None, ..launch }),
            (None, Step { line: 1 << 40, ..launch }),
            (None, Step { api: 1 << 30, ..launch }),
        ];
        let (steps, taken) = handed_out(&all, &[0, 3, 5, 11], true);
        assert_eq!((steps.len(), steps.launches.len()), (all.len(), 3));
        assert_eq!(taken.all, all);
        // Among them are some that tell when they were, or are of other processes.
        assert!(taken.passed.is_empty());
    }

    #[test]
    fn launches_wait_behind_memorys_lines_but_for_the_first_call() {
        let memory = Step { kind: Kind::Free, tokens: None, shape: None, ptr: Some(1), ..launch() };
        let all: Vec<(Option<u32>, Step)> = (0..200u64)
            .map(|i| (None, Step { line: i, ..if i * i % 7 < 2 || i > 120 && i < 150 { memory } else { launch() } }))
            .collect();
        let parts = [1, 0, 59, 61, 40, 39];
        for patient in [true, false] {
            let (_, taken) = handed_out(&all, &parts, patient);
            assert_eq!(taken.all, all);
            let mut begin = 0;
            for part in parts {
                assert!(!taken.passed.contains(&begin), "{begin}");
                begin += part;
            }
            assert_eq!(taken.passed.len() > 90, patient, "{}", taken.passed.len());
        }
        let timed = [&all[..], &[(None, Step { wall_ns: Some(1), ..memory })]].concat();
        let (_, taken) = handed_out(&timed, &[201], true);
        assert_eq!((taken.all, taken.passed.len()), (timed, 0));
    }
}
