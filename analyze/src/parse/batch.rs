//! The calls of a piece on their way from the core that reads them to the one that takes them in. What crosses from one
//! core's cache to the other's costs more than reading it, so a launch, the bulk of a log, is packed; and those that follow
//! each other are taken in at once, figure by figure, which costs less than call by call.

use std::ops::Range;

use hook_event::Kind;

use super::kept::Whole;
use crate::step::{AsPlain, Plain, Step, Timed};

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

    /// Whether launches of the next calls may come behind the others, all together.
    fn may_wait(&self, next: Next) -> bool;

    /// So many of them stand here.
    fn pass(&mut self, next: Next, launches: u64);

    /// Takes lines in. `places`: of all calls since [`Self::may_wait`].
    fn lines(&mut self, launches: &mut [Plain], places: Range<u32>);

    /// Takes records in.
    fn records(&mut self, pid: u32, launches: &mut [Timed], places: Range<u32>);
}

/// Calls that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Lines without times.
    Lines,
    /// Records of a process that tell their times, with numbers from this one on without a gap.
    Records {
        /// Process id.
        pid: u32,
        /// Number of the first.
        seq: u64,
    },
    /// Others.
    Mixed,
}

impl Next {
    /// What a call is; `launch`: one that is packed.
    #[inline(always)]
    fn of(pid: Option<u32>, call: &Step, launch: bool) -> Next {
        if call.kind == Kind::Launch && !launch {
            return Next::Mixed;
        }
        match (pid, call.seq, call.mono_ns, call.wall_ns) {
            (None, None, None, None) => Next::Lines,
            (Some(pid), Some(seq), Some(_), _) => Next::Records { pid, seq },
            _ => Next::Mixed,
        }
    }

    /// Behind so many of them; `None` where no number follows.
    #[inline(always)]
    fn behind(self, calls: u32) -> Option<Next> {
        match self {
            Next::Records { pid, seq } => Some(Next::Records { pid, seq: seq.checked_add(calls.into())? }),
            lines_or_mixed => Some(lines_or_mixed),
        }
    }
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

/// Steps, those of launches packed.
#[derive(Default)]
pub(super) struct Steps {
    lines: Vec<Plain>,
    records: Vec<Timed>,
    /// All others, with their places.
    others: Vec<Other>,
    segments: Vec<Segment>,
    /// What would go on with the last segment.
    next: Option<Next>,
    /// Calls handed out, and the segment in which the next one is.
    out: u32,
    segment: usize,
}

/// A call that is not packed, with its place and, of a record, its process id.
type Other = (u32, Option<u32>, Step);

/// Calls that follow each other.
#[derive(Clone, Copy)]
struct Segment {
    /// Its first place, and what stands there.
    from: u32,
    next: Next,
    /// How many lines, records and others stand before it.
    before: [u32; 3],
}

/// Fewer launches are taken in one by one.
const FEW: usize = 4;

impl Steps {
    #[inline(always)]
    fn goes_on(&mut self, from: u32, next: Next) {
        if self.next != Some(next) {
            self.begin(from, next);
        }
        self.next = next.behind(1);
    }

    fn begin(&mut self, from: u32, next: Next) {
        let before = [self.lines.len(), self.records.len(), self.others.len()].map(|count| count as u32);
        self.segments.push(Segment { from, next, before });
    }

    /// Hands calls out that follow each other: launches with these places, each of which `one` makes a step of, and others;
    /// those that may wait go through `all`.
    #[inline(always)]
    fn segment<L: AsPlain, T: Take<Step>>(
        (launches, others): (&mut [L], &mut [Other]),
        (next, places): (Next, Range<u32>),
        to: &mut T,
        one: impl Fn(&L) -> (Option<u32>, Step),
        all: impl Fn(&mut T, &mut [L], Range<u32>),
    ) {
        // The first call is one by itself: what stands before it may have changed what it is judged by.
        let from = places.start + 1;
        let few = launches.len() < FEW;
        let alone = if few { launches.len() } else { usize::from(launches[0].plain().place < from) };
        let (first, launches) = launches.split_at_mut(alone);
        let (other, others) = others.split_at_mut(if few { others.len() } else { 1 - alone });
        Self::in_order(first, other, to, &one);
        if few {
            return;
        }
        let Some(next) = next.behind(1).filter(|next| to.may_wait(*next)) else {
            return Self::in_order(launches, others, to, &one);
        };
        let mut place = from;
        for (other, pid, step) in others {
            to.pass(next, u64::from(*other - place));
            to.take(*pid, step);
            place = *other + 1;
        }
        to.pass(next, u64::from(places.end - place));
        all(to, launches, from..places.end);
    }

    /// Hands out one by one.
    fn in_order<L: AsPlain>(
        launches: &[L],
        others: &mut [Other],
        to: &mut impl Take<Step>,
        one: impl Fn(&L) -> (Option<u32>, Step),
    ) {
        let take = |launch: &L, to: &mut _| {
            let (pid, mut step) = one(launch);
            Take::take(to, pid, &mut step);
        };
        let mut launches = launches.iter().peekable();
        for (place, pid, step) in others {
            while let Some(launch) = launches.next_if(|launch| launch.plain().place < *place) {
                take(launch, to);
            }
            to.take(*pid, step);
        }
        launches.for_each(|launch| take(launch, to));
    }
}

impl Batch<Step> for Steps {
    #[inline(always)]
    fn push(&mut self, pid: Option<u32>, call: Step) {
        // A piece has fewer calls than bytes.
        let place = self.len() as u32;
        let (line, record) = match pid {
            None => (Plain::of(&call, place), None),
            Some(_) => (None, Timed::of(&call, place)),
        };
        self.goes_on(place, Next::of(pid, &call, line.is_some() || record.is_some()));
        match (line, record) {
            (Some(launch), _) => self.lines.push(launch),
            (_, Some(launch)) => self.records.push(launch),
            _ => self.others.push((place, pid, call)),
        }
    }

    #[inline(always)]
    fn len(&self) -> usize {
        self.lines.len() + self.records.len() + self.others.len()
    }

    fn hand_out(&mut self, count: usize, to: &mut impl Take<Step>) {
        let end = self.out + count as u32;
        while self.out < end {
            let Segment { from, next, before } = self.segments[self.segment];
            let behind = self.segments.get(self.segment + 1).copied();
            let until = behind.map_or(end, |behind| behind.from.min(end));
            let places = self.out..until;
            // Of those in the segment, those in these places.
            let [lines, records, others] = behind.map_or_else(
                || [self.lines.len(), self.records.len(), self.others.len()],
                |behind| behind.before.map(|count| count as usize),
            );
            let [lines_from, records_from, others_from] = before.map(|count| count as usize);
            let lines = within(&mut self.lines[lines_from..lines], &places, |launch| launch.place);
            let records = within(&mut self.records[records_from..records], &places, |launch| launch.plain().place);
            let others = within(&mut self.others[others_from..others], &places, |other| other.0);
            match next.behind(places.start - from) {
                Some(Next::Records { pid, seq }) => {
                    let begin = places.start;
                    let one = |launch: &Timed| (Some(pid), launch.step(seq + u64::from(launch.plain().place - begin)));
                    let all = |to: &mut _, launches: &mut [Timed], places| Take::records(to, pid, launches, places);
                    Self::segment((records, others), (Next::Records { pid, seq }, places), to, one, all);
                }
                _ => {
                    let one = |launch: &Plain| (None, launch.step());
                    Self::segment((lines, others), (next, places), to, one, Take::lines);
                }
            }
            self.out = until;
            self.segment += usize::from(behind.is_some_and(|behind| behind.from == until));
        }
    }

    fn clear(&mut self) {
        self.lines.clear();
        self.records.clear();
        self.others.clear();
        self.segments.clear();
        (self.next, self.out, self.segment) = (None, 0, 0);
    }
}

/// Those of calls in order that stand in these places.
#[inline(always)]
fn within<'a, C>(calls: &'a mut [C], places: &Range<u32>, place: impl Fn(&C) -> u32) -> &'a mut [C] {
    let inside = |call: Option<&C>| call.is_none_or(|call| places.contains(&place(call)));
    if inside(calls.first()) && inside(calls.last()) {
        return calls;
    }
    let from = calls.partition_point(|call| place(call) < places.start);
    let to = calls.partition_point(|call| place(call) < places.end);
    &mut calls[from..to]
}

#[cfg(test)]
mod tests {
    use hook_event::Outcome;
    use proptest::prelude::*;

    use super::*;
    use crate::events::Row;
    use crate::step::Took;

    /// What was handed out, in the order of places; whether launches may wait, what was passed since, and what then comes.
    #[derive(Default)]
    struct Taken {
        all: Vec<(Option<u32>, Step)>,
        patient: bool,
        passed: Vec<usize>,
        next: Option<Next>,
    }

    impl Taken {
        fn launches<L: AsPlain>(
            &mut self,
            all: &[L],
            places: Range<u32>,
            step: impl Fn(&L, u64) -> (Option<u32>, Step),
        ) {
            let begin = self.all.len() - places.len();
            for launch in all {
                let offset = launch.plain().place - places.start;
                self.all[begin + offset as usize] = step(launch, offset.into());
            }
        }
    }

    impl Take<Step> for Taken {
        fn take(&mut self, pid: Option<u32>, step: &mut Step) {
            self.all.push((pid, *step));
        }

        fn may_wait(&self, next: Next) -> bool {
            self.patient && next != Next::Mixed
        }

        fn pass(&mut self, next: Next, launches: u64) {
            self.next = Some(next);
            let from = self.all.len();
            self.passed.extend(from..from + launches as usize);
            let filler = (Some(u32::MAX), Plain::step(&Plain::of(&launch(), 0).unwrap()));
            self.all.extend((0..launches).map(|_| filler));
        }

        fn lines(&mut self, launches: &mut [Plain], places: Range<u32>) {
            assert_eq!(self.next, Some(Next::Lines));
            self.launches(launches, places, |launch, _| (None, launch.step()));
        }

        fn records(&mut self, of: u32, launches: &mut [Timed], places: Range<u32>) {
            let Some(Next::Records { pid, seq }) = self.next else { panic!("{:?}", self.next) };
            assert_eq!(pid, of);
            self.launches(launches, places, |launch, offset| (Some(pid), launch.step(seq + offset)));
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
        assert_eq!((steps.len(), steps.lines.len(), steps.records.len()), (all.len(), 3, 0));
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
        assert!(taken.all == timed && taken.passed.len() > 90 && taken.passed.last() < Some(&200));
    }

    #[derive(Clone, Copy, Debug)]
    enum Call {
        Line,
        /// Of one of three processes, with its next number or another one.
        Record(u32, Option<u64>),
    }

    fn calls() -> impl Strategy<Value = Vec<(Call, u8)>> {
        let record =
            |pid| (Just(pid), prop::option::weighted(0.03, prop::sample::select(vec![0, 5, 60, u64::MAX - 3])));
        let one = prop_oneof![
            1 => Just(Call::Line).boxed(),
            3 => (0u32..3).prop_flat_map(record).prop_map(|(pid, odd)| Call::Record(pid, odd)).boxed(),
        ];
        // Mostly of the process before.
        let row = one.prop_flat_map(move |call| {
            let more = match call {
                Call::Record(pid, _) => record(pid).prop_map(|(pid, odd)| Call::Record(pid, odd)).boxed(),
                Call::Line => Just(call).boxed(),
            };
            prop::collection::vec((more, 0u8..20), 1..30)
        });
        prop::collection::vec(row, 1..12).prop_map(|rows| rows.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]
        #[test]
        fn calls_of_any_kind_come_out_as_they_went_in(
            calls in calls(),
            parts in prop::collection::vec(0usize..60, 0..6),
            patient: bool,
        ) {
            let mut numbers = [0u64; 3];
            let all: Vec<(Option<u32>, Step)> = (0u64..).zip(calls).map(|(line, (call, what))| {
                let memory = Step { kind: Kind::Free, tokens: None, shape: None, ptr: Some(1), ..launch() };
                let step = match what {
                    0..=2 => memory,
                    3 => Step { bypass: true, ..launch() },
                    4 => Step { kernel: Some(7), ..launch() },
                    _ => launch(),
                };
                let step = Step { line, ..step };
                match call {
                    Call::Line => (None, Step { wall_ns: (what == 5).then_some(1), ..step }),
                    Call::Record(pid, odd) => {
                        let number = &mut numbers[pid as usize];
                        *number = odd.unwrap_or(number.wrapping_add(1));
                        let took = (what > 12).then_some(Took { hook_ns: 1, real_ns: line });
                        let (seq, mono_ns) = (Some(*number), (what != 5).then_some(line * 3));
                        (Some(pid), Step { seq, mono_ns, took, dev: (what > 8).then_some(2), ..step })
                    }
                }
            }).collect();
            let mut left = all.len();
            let mut parts = parts;
            for part in &mut parts {
                *part = left.min(*part);
                left -= *part;
            }
            parts.push(left);
            let (mut steps, taken) = handed_out(&all, &parts, patient);
            prop_assert_eq!(&taken.all, &all);
            prop_assert!(patient || taken.passed.is_empty());
            // Used again for the next piece.
            steps.clear();
            let mut again = Taken { patient, ..Taken::default() };
            all.iter().for_each(|&(pid, step)| steps.push(pid, step));
            steps.hand_out(all.len(), &mut again);
            prop_assert_eq!(&again.all, &all);
        }
    }
}
