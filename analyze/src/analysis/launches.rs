//! Launches, many at once: what [`Fold::step`] does call by call, figure by figure, so that what does not change between
//! them is looked at once, and each loop is short. The tests hold both equal.

use super::conformance::Extremes;
use super::denials::At;
use super::fold::{Fold, Totals};
use super::lines::Launch;
use super::timeline::Clock;
use super::tokens::Asked;
use crate::events::{Limit, Process};
use crate::step::{AsPlain, Plain, Stretch, Timed};

impl Fold {
    /// Whether launches that follow may be taken in together, behind the other calls between them: where no launch changes
    /// anything that these depend on. `next`: what follows are records with numbers from this one on, without a gap; else
    /// lines without times.
    pub(crate) fn may_wait(&self, process: &Process, totals: &Totals, next: Option<u64>) -> bool {
        let alike = match next {
            None => self.numbers.first.is_none() && self.clock.is_untimed(),
            // What shares limits or has some of its own for a device is judged at launches, too.
            Some(next) => {
                let last = next.checked_sub(1);
                let in_order = last.is_some() && self.numbers.last == last && self.rules.tokens.last_seq() == last;
                in_order && self.clock.stamps.is_some() && process.shared.is_none() && process.device_quotas.is_empty()
            }
        };
        alike
            && matches!(process.bucket, Limit::At(_))
            && process.job.is_none()
            && self.early.is_empty()
            && self.program.other
            && totals.workload.is_none()
    }

    /// So many launches stand here, which leave the memory as it is.
    pub(crate) fn pass(&mut self, launches: u64) {
        self.calls += launches;
        self.numbers.pass(launches);
        self.rules.tokens.pass(launches);
        if let Some(trends) = &mut self.trends {
            trends.live.repeat(self.replay.memory.live_bytes as f64, launches);
        }
    }

    /// Takes lines in.
    pub(crate) fn lines(&mut self, stretch: &Stretch<'_, Plain>, process: &Process, totals: &mut Totals) {
        let Limit::At(bucket) = process.bucket else { return };
        let Some(extremes) = self.levels(stretch, totals) else { return };
        let launches = stretch.launches;
        let launch = |launch: &Plain| Launch {
            line: stretch.line(launch),
            level: launch.tokens,
            outcome: launch.outcome(),
            cost: launch.cost(),
            exact: false,
            wall_ns: None,
            maybe_free: totals.maybe_free(launch.shape()),
            rested: false,
        };
        self.rules.lines(bucket, &extremes, launches.iter().map(launch));
        // Memory's lines among them are counted by the clock already.
        let mut grown = self.clock.launches(process, launches.len() as u64);
        let all = launches.iter().map(|launch| ((launch, grown(launch.tokens, launch.cost())), launch.denied()));
        let number = self.calls - stretch.places.len() as u64 + 1;
        self.denials.launches(all, |(launch, grown)| At {
            call: number + stretch.offset(launch),
            line: stretch.line(launch),
            moment: Clock::by_growth(grown),
        });
    }

    /// Takes records in.
    pub(crate) fn records(&mut self, stretch: &Stretch<'_, Timed>, process: &Process, totals: &mut Totals) {
        let (Limit::At((_, capacity)), [.., last]) = (process.bucket, stretch.launches) else { return };
        let Some(extremes) = self.levels(stretch, totals) else { return };
        let launches = stretch.launches;
        let asked = |launch: &Timed| Asked {
            line: stretch.line(launch),
            level: launch.plain().tokens,
            now: launch.mono_ns,
            cost: launch.plain().cost(),
            denied: launch.plain().denied(),
            free: false,
        };
        self.rules.records((process, capacity), &extremes, launches.iter().map(asked));
        let earliest = launches.iter().fold(u64::MAX, |ns, launch| ns.min(launch.mono_ns));
        let latest = launches.iter().fold(0, |ns, launch| ns.max(launch.mono_ns));
        let ends_it = stretch.offset(last) + 1 == stretch.places.len() as u64;
        let last = ends_it.then_some(last.mono_ns);
        let moment = self.clock.records(launches.len() as u64, (earliest, latest), last);
        let number = self.calls - stretch.places.len() as u64 + 1;
        self.denials.launches(launches.iter().map(|launch| (launch, launch.plain().denied())), |launch| At {
            call: number + stretch.offset(launch),
            line: stretch.line(launch),
            moment: moment(launch.mono_ns),
        });
    }

    /// Counts them, and what their levels tell by themselves; gives between what these lie, if there are any.
    #[inline(always)]
    fn levels<L: AsPlain>(&mut self, stretch: &Stretch<'_, L>, totals: &mut Totals) -> Option<Extremes> {
        let launches = stretch.launches;
        let (first, last) = (launches.first()?, launches.last()?);
        let before = self.calls - stretch.places.len() as u64;
        self.denied +=
            totals.count_launches(launches, (self.rank, self.number), |launch| before + 1 + stretch.offset(launch));
        if let Some(trends) = &mut self.trends {
            trends.tokens.extend(launches, |launch| launch.plain().tokens);
        }
        let [mut low, mut high, mut denied] = [f64::INFINITY, f64::NEG_INFINITY, f64::NEG_INFINITY];
        for launch in launches.iter().map(L::plain) {
            low = if launch.tokens < low { launch.tokens } else { low };
            high = if launch.tokens > high { launch.tokens } else { high };
            denied = if launch.denied() && launch.tokens > denied { launch.tokens } else { denied };
        }
        let levels = [first.plain().tokens, low, high, last.plain().tokens];
        levels.into_iter().for_each(|level| self.levels.launch(level));
        Some(Extremes { low, high, denied })
    }
}

#[cfg(test)]
mod tests {
    use hook_event::{Dim3, Kind, Outcome};
    use proptest::prelude::*;

    use super::*;
    use crate::analysis::packed::Packed;
    use crate::events::Row;
    use crate::step::{Shape, Step, Took};

    #[derive(Clone, Copy, Debug)]
    enum Call {
        /// Level in tenths, shape, outcome.
        Launch(i16, u8, u8),
        /// Address, size, outcome, whether its total is the sum of nothing.
        Alloc(u8, u16, u8, bool),
        Free(u8),
    }

    /// What banner lines say from here on: rate and capacity, quota, whether limits are shared.
    type Banner = (Option<(f64, f64)>, Option<u64>, bool);

    fn launches() -> impl Strategy<Value = Vec<Call>> {
        (0i16..40, 1i16..30, prop::sample::select(vec![1u8, 6])).prop_flat_map(|(low, high, outcomes)| {
            let outcome = |seed: u8| [0, 1, 1, 0, 2, 1][usize::from(seed)];
            let one = (-2..high, 0u8..5, 0..outcomes)
                .prop_map(move |(level, shape, seed)| Call::Launch(level + low, shape, outcome(seed)));
            prop::collection::vec(one, 0..40)
        })
    }

    fn calls() -> impl Strategy<Value = Vec<Call>> {
        let memory = prop_oneof![
            (0u8..4, 0u16..300, 0u8..3, any::<bool>())
                .prop_map(|(ptr, size, outcome, odd)| Call::Alloc(ptr, size, outcome, odd)),
            (0u8..5).prop_map(Call::Free),
        ];
        let stretch = prop_oneof![launches(), prop::collection::vec(memory, 0..5)];
        prop::collection::vec(stretch, 1..12).prop_map(|all| all.concat())
    }

    fn banner() -> impl Strategy<Value = Banner> {
        let bucket =
            prop::option::weighted(0.9, prop::sample::select(vec![(5.0, 3.0), (1e7, 3.0), (0.5, 1.0), (100.0, 4.0)]));
        (bucket, prop::option::of(0u64..500), prop::bool::weighted(0.1))
    }

    fn step(call: Call, line: u64, totals: &mut Totals) -> Step {
        let all = Outcome::ALL;
        let row =
            |kind, outcome: u8| Row { line, ..Row::bare(0, line, kind as u32, kind, all[usize::from(outcome) % 3]) };
        let dim = |x: u8| Dim3 { x: 1 + u32::from(x) * 60, y: 1, z: 1 };
        let shapes: [Option<Shape>; 5] =
            [None, Some((dim(0), dim(1))), Some((dim(1), dim(1))), Some((dim(0), dim(9))), None];
        match call {
            Call::Launch(level, shape, outcome) => {
                let shape = shapes[usize::from(shape)].map(|shape| totals.shapes.id(shape));
                let row = Row { tokens: Some(f64::from(level) / 10.0), ..row(Kind::Launch, outcome) };
                Step::with_shape(&row, shape)
            }
            Call::Alloc(ptr, size, outcome, odd) => {
                let total_mb = odd.then_some(f64::from(size));
                let ptr = (outcome == 0).then_some(u64::from(ptr));
                Step::with_shape(&Row { size: Some(size.into()), ptr, total_mb, ..row(Kind::Alloc, outcome) }, None)
            }
            Call::Free(ptr) => Step::with_shape(&Row { ptr: Some(ptr.into()), ..row(Kind::Free, 0) }, None),
        }
    }

    /// The same as a record, with a time since the one before.
    fn record(step: Step, (passed, odd): (u64, u8), now: &mut u64) -> Step {
        *now = if odd == 1 { now.saturating_sub(passed) } else { *now + passed };
        let total = step.total_mb.map(|total| total as u64);
        let took = (odd > 4 && step.outcome != Outcome::Denied).then_some(Took { hook_ns: passed, real_ns: *now });
        let dev = (odd > 2).then_some(i32::from(odd) % 2);
        Step { seq: Some(step.line), mono_ns: Some(*now), total, total_mb: None, took, dev, ..step }
    }

    /// Both folds, and all that both count, are the same.
    fn alike(mut folds: [Fold; 2], all: [Totals; 2], process: &Process, together: usize) -> Result<(), TestCaseError> {
        folds.iter_mut().for_each(|fold| fold.finish(process));
        for packed in folds.each_ref().map(Packed::of) {
            prop_assert_eq!(Packed::of(&packed.fold()), packed);
        }
        let [one, many] = folds.map(|fold| format!("{fold:#?}"));
        prop_assert_eq!(one, many, "{} together", together);
        let [one, many] = all.map(|totals| format!("{totals:#?}"));
        prop_assert_eq!(one, many);
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn many_lines_at_once_are_what_they_are_one_by_one(parts in prop::collection::vec((banner(), calls()), 1..4)) {
            let mut all = [Totals::default(), Totals::default()];
            let [one, many] = &mut all;
            let mut folds = [Fold::new((0, 1, 0), one), Fold::new((0, 1, 0), many)];
            let (mut process, mut line, mut together) = (Process::default(), 0, 0);
            for ((bucket, quota, shared), calls) in parts {
                (process.bucket, process.quota) = (bucket.map_or(process.bucket, Limit::At), quota.into());
                process.shared = shared.then(|| "job".to_owned());
                let mut waiting: Option<(Vec<Plain>, u32)> = None;
                let begin = line;
                for (place, &call) in (0u32..).zip(&calls) {
                    line += 1;
                    folds[0].step(&process, &step(call, line, one), one);
                    let step = step(call, line, many);
                    let plain = Plain::of(&Step { line: line - begin, ..step }, place);
                    match (&mut waiting, plain) {
                        (Some((launches, _)), Some(plain)) => {
                            launches.push(plain);
                            folds[1].pass(1);
                        }
                        _ => {
                            folds[1].step(&process, &step, many);
                            // Behind the first call.
                            if waiting.is_none() && folds[1].may_wait(&process, many, None) {
                                waiting = Some((Vec::new(), place + 1));
                            }
                        }
                    }
                }
                if let Some((launches, from)) = waiting {
                    together += launches.len();
                    let stretch = Stretch { launches: &launches, lines: begin, places: from..calls.len() as u32 };
                    folds[1].lines(&stretch, &process, many);
                }
            }
            alike(folds, all, &process, together)?;
        }

        #[test]
        fn many_records_at_once_are_what_they_are_one_by_one(
            parts in prop::collection::vec((banner(), calls()), 1..4),
            times in prop::collection::vec((prop_oneof![0u64..40_000_000, 0u64..2_000_000_000], 0u8..8), 16),
            waits: bool,
        ) {
            let mut all = [Totals::default(), Totals::default()];
            let [one, many] = &mut all;
            let mut folds = [Fold::new((0, 1, 0), one), Fold::new((0, 1, 0), many)];
            let policy = waits.then(|| "wait".to_owned());
            let (mut process, mut line, mut together) = (Process { policy, ..Process::default() }, 0, 0);
            let mut now = 1_000_000_000_000;
            for ((bucket, quota, shared), calls) in parts {
                (process.bucket, process.quota) = (bucket.map_or(process.bucket, Limit::At), quota.into());
                process.shared = shared.then(|| "job".to_owned());
                let mut waiting: Option<(Vec<Timed>, u32)> = None;
                let begin = line;
                for (place, &call) in (0u32..).zip(&calls) {
                    line += 1;
                    let time = times[line as usize % times.len()];
                    // A number is missing now and then.
                    let gap = u64::from(time.1 == 7 && waiting.is_none());
                    let step = |totals: &mut Totals, now: &mut u64| record(step(call, line + gap, totals), time, now);
                    let mut then = now;
                    let single = step(one, &mut now);
                    folds[0].step(&process, &single, one);
                    one.count(&single);
                    let step = step(many, &mut then);
                    let timed = Timed::of(&Step { line: step.line - begin, ..step }, place);
                    match (&mut waiting, timed) {
                        (Some((launches, _)), Some(timed)) => {
                            launches.push(timed);
                            folds[1].pass(1);
                        }
                        _ => {
                            folds[1].step(&process, &step, many);
                            many.count(&step);
                            if waiting.is_none() && folds[1].may_wait(&process, many, Some(step.line + 1)) {
                                waiting = Some((Vec::new(), place + 1));
                            }
                        }
                    }
                    line += gap;
                }
                if let Some((launches, from)) = waiting {
                    together += launches.len();
                    let stretch = Stretch { launches: &launches, lines: begin, places: from..calls.len() as u32 };
                    many.count_records(&launches);
                    folds[1].records(&stretch, &process, many);
                }
            }
            alike(folds, all, &process, together)?;
        }
    }
}
