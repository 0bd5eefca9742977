//! Calls folded as they are read, in the order of their numbers: threads write their records when they get to it, so
//! these may stand out of order. A call waits for those before it; the memory for this is bounded.

use super::gather::OTHERS;
use super::kept::{self, Calls};
use super::waiting::{Leaving, Spare, Waiting};
use crate::analysis::fold::{Fold, Rank, Totals};
use crate::analysis::packed::Packed;
use crate::events::Process;
use crate::step::{Plain, Shapes, Step, Stretch, Timed};

/// Memory for calls of all processes that wait, in words of 8 bytes: room for some four million.
const ROOM: usize = 27 << 20;

/// A process may take so many times what it leaves to the others: three quarters while it is alone, and when others
/// come there is something left for them.
const SHARE: usize = 3;

/// A process's calls.
#[derive(Clone, Default)]
pub(super) struct Ordered {
    fold: Option<Box<Fold>>,
    /// The same while no call is expected.
    packed: Option<Packed>,
    /// Calls, those that wait included.
    count: u64,
    /// Number of the last call in the file.
    last_seq: u64,
    /// Number of the last call folded.
    folded: u64,
    waiting: Waiting,
}

/// What all processes add to.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) totals: Totals,
    /// What calls that wait take, words; and what they may take.
    waiting: usize,
    room: usize,
    spare: Spare,
    /// Whether there is a call that stands as a line of the hook.
    pub(super) line_calls: bool,
    /// Calls that came when one with a larger number was folded already.
    pub(super) late: u64,
}

impl Default for Shared {
    fn default() -> Self {
        Shared { totals: Totals::default(), waiting: 0, room: ROOM, spare: Spare::new(), line_calls: false, late: 0 }
    }
}

impl kept::Shared for Shared {
    fn shapes(&mut self) -> Option<&mut Shapes> {
        Some(&mut self.totals.shapes)
    }
}

impl Calls for Ordered {
    type Kept = Step;
    type Shared = Shared;

    #[inline]
    fn count(&self) -> u64 {
        self.count
    }

    fn last_seq(&self) -> u64 {
        self.last_seq
    }

    #[inline]
    fn take(&mut self, step: &Step, process: &Process, index: u32, shared: &mut Shared) {
        self.count += 1;
        shared.totals.count(step);
        let Some(seq) = step.seq else {
            // Another limiter's lines are never records' too.
            shared.line_calls |= index < OTHERS;
            self.fold(step, process, index, shared);
            return;
        };
        self.last_seq = seq;
        let next = self.folded.saturating_add(1);
        if seq > next || seq == next && !self.waiting.is_empty() {
            self.wait(seq, step, process, index, shared);
            return;
        }
        shared.late += u64::from(seq < self.folded);
        self.folded = self.folded.max(seq);
        self.fold(step, process, index, shared);
    }

    fn may_wait(&self, process: &Process, shared: &Shared, next: Option<u64>) -> bool {
        let in_order = self.folded > 0 && self.waiting.is_empty();
        let follows = |next| in_order && self.folded.checked_add(1) == Some(next);
        next.is_none_or(follows) && self.fold.as_ref().is_some_and(|fold| fold.may_wait(process, &shared.totals, next))
    }

    fn pass(&mut self, launches: u64) {
        if let Some(fold) = &mut self.fold {
            fold.pass(launches);
        }
        // Lines have no numbers.
        if self.folded > 0 {
            self.folded += launches;
            self.last_seq = self.folded;
        }
    }

    fn lines(&mut self, stretch: &Stretch<'_, Plain>, process: &Process, shared: &mut Shared) {
        self.count += stretch.launches.len() as u64;
        if let Some(fold) = &mut self.fold {
            fold.lines(stretch, process, &mut shared.totals);
        }
    }

    fn records(&mut self, stretch: &Stretch<'_, Timed>, process: &Process, shared: &mut Shared) {
        self.count += stretch.launches.len() as u64;
        shared.totals.count_records(stretch.launches);
        if let Some(fold) = &mut self.fold {
            fold.records(stretch, process, &mut shared.totals);
        }
    }

    fn settle(&mut self, process: &Process, index: u32, shared: &mut Shared) {
        while self.give_way(process, index, shared) {}
    }

    fn rest(&mut self) {
        if let Some(mut fold) = self.fold.take() {
            fold.rest();
            self.packed = Some(Packed::of(&fold));
        }
    }
}

impl Ordered {
    #[inline]
    fn fold(&mut self, step: &Step, process: &Process, index: u32, shared: &mut Shared) {
        let fold = match &mut self.fold {
            Some(fold) => fold,
            none => none.insert(match self.packed.take() {
                Some(packed) => packed.fold(),
                None => begin(process, index, &mut shared.totals),
            }),
        };
        fold.step(process, step, &mut shared.totals);
    }

    #[inline(never)]
    fn wait(&mut self, seq: u64, step: &Step, process: &Process, index: u32, shared: &mut Shared) {
        let (before, next) = (self.waiting.words(), self.folded.saturating_add(1));
        let complete = self.waiting.push(seq, step, next, &mut shared.spare);
        shared.waiting = shared.waiting - before + self.waiting.words();
        if complete {
            self.follow(process, index, shared);
        }
        while self.waiting.words() > SHARE * shared.room.saturating_sub(shared.waiting) {
            self.give_way(process, index, shared);
            self.follow(process, index, shared);
        }
    }

    /// Folds what need not wait any longer.
    fn follow(&mut self, process: &Process, index: u32, shared: &mut Shared) {
        while let (before, Some(block)) = (self.waiting.words(), self.waiting.ready(self.folded.saturating_add(1))) {
            self.leave(block, before, process, index, shared);
        }
    }

    /// Folds the first that wait, though some before them or between them have not come; whether there were any.
    fn give_way(&mut self, process: &Process, index: u32, shared: &mut Shared) -> bool {
        let (before, Some(block)) = (self.waiting.words(), self.waiting.first()) else { return false };
        self.leave(block, before, process, index, shared);
        true
    }

    /// Folds a block that was taken out of what took so many words.
    fn leave(&mut self, block: Leaving, before: usize, process: &Process, index: u32, shared: &mut Shared) {
        shared.waiting -= before - self.waiting.words();
        let mut spare = std::mem::take(&mut shared.spare);
        block.hand_out(&mut spare, |seq, step| {
            self.folded = seq;
            self.fold(step, process, index, shared);
        });
        shared.spare = spare;
    }

    /// The fold of all calls, which is still to be finished.
    pub(super) fn finish(mut self, process: &Process, index: u32, shared: &mut Shared) -> Packed {
        self.settle(process, index, shared);
        self.rest();
        self.packed.unwrap_or_else(|| Packed::of(&begin(process, index, &mut shared.totals)))
    }
}

fn begin(process: &Process, index: u32, totals: &mut Totals) -> Box<Fold> {
    let rank: Rank = (process.source, process.first_line, index);
    Box::new(Fold::new(rank, totals))
}

#[cfg(test)]
mod tests {
    use hook_event::{Kind, Outcome};

    use super::super::course;
    use super::*;
    use crate::analysis::summary::ProcessFigures;
    use crate::events::{Limit, Row};

    const BEHIND: u64 = 1 << 10;

    /// The fold of launches with these numbers, whose process is one of several that begin alike.
    fn fold(shared: &mut Shared, numbers: impl IntoIterator<Item = u64>) -> Box<Fold> {
        let (mut calls, process) = (Ordered::default(), Process::default());
        for seq in numbers {
            take(&mut calls, &process, seq, shared);
        }
        calls.finish(&process, 0, shared).fold()
    }

    fn take(calls: &mut Ordered, process: &Process, seq: u64, shared: &mut Shared) {
        let row = Row { seq: Some(seq), ..Row::bare(0, seq, 0, Kind::Launch, Outcome::Ok) };
        calls.take(&Step::with_shape(&row, None), process, 0, shared);
        let own = calls.waiting.words();
        assert!(own <= SHARE * shared.room.saturating_sub(shared.waiting), "{own} of {}", shared.waiting);
    }

    fn with_room(calls: usize) -> Shared {
        // Two words a call here, and a call's worth more that is set aside.
        Shared { room: calls * 4, ..Shared::default() }
    }

    #[test]
    fn numbers_that_come_in_any_order_are_folded_in_theirs() {
        let backwards = || (1..=100_000u64).rev();
        // Several threads, each with a batch at a time.
        let batches = || (0..50u64).flat_map(|round| (0..4).rev().map(move |thread| round * 4 + thread));
        let threads = || batches().flat_map(|batch| batch * 500 + 1..=batch * 500 + 500);
        for fold in [fold(&mut Shared::default(), backwards()), fold(&mut Shared::default(), threads())] {
            assert!(fold.in_order() && fold.late() == 0);
        }
        let mut shared = Shared::default();
        let twice = fold(&mut shared, (2..=5000).rev().flat_map(|seq| [seq, seq]).chain([1]));
        assert_eq!((twice.late(), shared.late, shared.waiting), (0, 0, 0));
    }

    #[test]
    fn what_never_comes_is_waited_for_as_long_as_there_is_room() {
        let mut shared = with_room(20_000);
        let gap = fold(&mut shared, (1..=300_000).filter(|seq| seq % 7_000 != 5));
        assert_eq!((gap.late(), shared.late, shared.waiting), (0, 0, 0));
        let beginning = fold(&mut shared, 100_000..=200_000);
        assert_eq!((beginning.late(), shared.late), (0, 0));
    }

    #[test]
    fn what_comes_too_late_is_counted_and_what_comes_in_time_is_not() {
        let number = |late: u64| {
            move |seq: u64| {
                if seq == 1 + late {
                    1
                } else if seq <= late {
                    seq + 1
                } else {
                    seq
                }
            }
        };
        for (late, count) in [(2 * BEHIND, 0), (14_000, 0), (40_000, 1)] {
            let mut shared = with_room(20_000);
            let fold = fold(&mut shared, (1..=100_000).map(number(late)));
            assert_eq!((fold.late(), shared.late, shared.waiting), (count, count, 0), "{late} calls behind");
        }
    }

    /// The calls of a short run in the course's format: an allocation, launches of which as many are denied, and a free.
    fn run() -> Vec<Step> {
        let bare = |line, api, kind, outcome| Row::bare(0, line, api, kind, outcome);
        let (ptr, size) = (Some(0x7f41_2420_0000), Some(64 << 20));
        let mut rows = vec![Row { ptr, size, total_mb: Some(64.0), ..bare(3, 0, Kind::Alloc, Outcome::Ok) }];
        rows.extend([2.0, 1.0, 0.0, 0.0, 0.0, 0.0].into_iter().zip(4..).map(|(level, line)| {
            let outcome = if line < 7 { Outcome::Ok } else { Outcome::Denied };
            Row { tokens: Some(level), ..bare(line, 1, Kind::Launch, outcome) }
        }));
        rows.push(Row { ptr, size, total_mb: Some(0.0), ..bare(10, 2, Kind::Free, Outcome::Ok) });
        rows.iter().map(|row| Step::with_shape(row, None)).collect()
    }

    fn limited() -> Process {
        Process { quota: Limit::At(128 << 20), bucket: Limit::At((5.0, 3.0)), ..Process::default() }
    }

    #[test]
    fn of_a_process_that_has_ended_little_is_kept() {
        let (mut shared, mut reader) = (Shared::default(), course::Reader::<Ordered>::new(0));
        // Not one of the first, which keep their trends.
        for run_number in 0..100 {
            reader.quota(run_number * 10 + 1, Some(128 << 20));
            reader.rate(run_number * 10 + 2, Some((5.0, 3.0)));
            let (part, _) = reader.part(0);
            run().iter().for_each(|step| part.rows.take(step, &part.process, part.index, &mut shared));
        }
        let [.., (ended, _), (last, _)] = &reader.parts[..] else { panic!() };
        assert!(last.rows.fold.is_some() && ended.rows.fold.is_none());
        let packed = ended.rows.packed.as_ref().unwrap().len();
        // What there is at the end: the process and its packed fold, and beside it its figures.
        let all = size_of_val(&reader.parts[0]) + packed + size_of::<ProcessFigures>();
        assert!(packed <= 300 && all <= 1200, "{packed} of {all}");
    }

    #[test]
    fn a_call_that_comes_to_a_process_at_rest_is_taken_in_as_ever() {
        let steps = run();
        for at in 0..=steps.len() {
            let (mut rested, mut awake, process) = (Ordered::default(), Ordered::default(), limited());
            let (mut one, mut other) = (Shared::default(), Shared::default());
            for (index, step) in steps.iter().enumerate() {
                if index == at {
                    rested.rest();
                    assert!(rested.fold.is_none() && (at == 0) == rested.packed.is_none());
                }
                rested.take(step, &process, 0, &mut one);
                awake.take(step, &process, 0, &mut other);
            }
            let [rested, awake] = [rested.finish(&process, 0, &mut one), awake.finish(&process, 0, &mut other)];
            assert_eq!(format!("{:?}", rested.fold()), format!("{:?}", awake.fold()));
            assert_eq!(format!("{:?}", one.totals), format!("{:?}", other.totals));
        }
    }

    #[test]
    fn one_that_waits_for_ever_leaves_room_to_the_others() {
        let mut shared = with_room(40_000);
        let (mut stuck, process) = (Ordered::default(), Process::default());
        (2..=200_000).for_each(|seq| take(&mut stuck, &process, seq, &mut shared));
        // It has given way once, and waits again from a number on that is missing.
        (300_000..=400_000).for_each(|seq| take(&mut stuck, &process, seq, &mut shared));
        let other = fold(&mut shared, (1..=4000).rev());
        assert_eq!((other.late(), shared.late), (0, 0));
    }
}
