//! Launches' lines, many at once: what [`Fold::step`] does call by call, figure by figure, so that what does not change
//! between them is looked at once, and each loop is short. The test holds both equal.

use super::denials::At;
use super::fold::{Fold, Totals};
use super::lines::Launch;
use super::timeline::Clock;
use crate::events::{Limit, Process};
use crate::step::{Plain, Stretch};

impl Fold {
    /// Whether launches' lines that follow may be taken in together, behind the other lines between them: where none of
    /// these tells a time, and no launch anything that they depend on.
    pub(crate) fn may_wait(&self, process: &Process, totals: &Totals) -> bool {
        matches!(process.bucket, Limit::At(_))
            && process.job.is_none()
            && self.early.is_empty()
            && self.numbers.first.is_none()
            && self.clock.is_untimed()
            && self.program.other
            && totals.workload.is_none()
    }

    /// So many launches stand here, which leave the memory as it is.
    pub(crate) fn pass(&mut self, launches: u64) {
        self.calls += launches;
        if let Some(trends) = &mut self.trends {
            trends.live.repeat(self.replay.memory.live_bytes as f64, launches);
        }
    }

    /// Takes them in.
    pub(crate) fn launches(&mut self, stretch: Stretch<'_>, process: &Process, totals: &mut Totals) {
        let Stretch { launches, lines, places } = stretch;
        let (Limit::At(bucket), [.., last]) = (process.bucket, launches) else { return };
        let before = self.calls - places.len() as u64;
        let number = |launch: &Plain| before + 1 + u64::from(launch.place - places.start);
        let line = |launch: &Plain| lines + u64::from(launch.line);
        let cost = |launch: &Plain| if launch.denied() { 0.0 } else { 1.0 };

        self.denied += totals.count_launches(launches, (self.rank, self.number), number);
        if let Some(trends) = &mut self.trends {
            trends.tokens.extend(launches, |launch| launch.tokens);
        }
        let [mut low, mut high, mut denied] = [f64::INFINITY, f64::NEG_INFINITY, f64::NEG_INFINITY];
        for launch in launches {
            low = if launch.tokens < low { launch.tokens } else { low };
            high = if launch.tokens > high { launch.tokens } else { high };
            denied = if launch.denied() && launch.tokens > denied { launch.tokens } else { denied };
        }
        [launches[0].tokens, low, high, last.tokens].into_iter().for_each(|level| self.levels.launch(level));
        let launch = |launch: &Plain| Launch {
            line: line(launch),
            level: launch.tokens,
            outcome: launch.outcome(),
            cost: cost(launch),
            exact: false,
            wall_ns: None,
            maybe_free: totals.maybe_free(launch.shape()),
            rested: false,
        };
        self.rules.lines(bucket, [low, high, denied], launches.iter().map(launch));
        // Memory's lines among them are counted by the clock already.
        let mut grown = self.clock.launches(process, launches.len() as u64);
        let all = launches.iter().map(|launch| ((launch, grown(launch.tokens, cost(launch))), launch.denied()));
        let moment = Clock::by_growth;
        self.denials.launches(all, |(launch, grown)| At {
            call: number(launch),
            line: line(launch),
            moment: moment(grown),
        });
    }
}

#[cfg(test)]
mod tests {
    use hook_event::{Dim3, Kind, Outcome};
    use proptest::prelude::*;

    use super::*;
    use crate::analysis::packed::Packed;
    use crate::events::Row;
    use crate::step::{Shape, Step};

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

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn many_at_once_are_what_they_are_one_by_one(parts in prop::collection::vec((banner(), calls()), 1..4)) {
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
                            if waiting.is_none() && folds[1].may_wait(&process, many) {
                                waiting = Some((Vec::new(), place + 1));
                            }
                        }
                    }
                }
                if let Some((launches, from)) = waiting {
                    together += launches.len();
                    let stretch = Stretch { launches: &launches, lines: begin, places: from..calls.len() as u32 };
                    folds[1].launches(stretch, &process, many);
                }
            }
            for fold in &mut folds {
                fold.finish(&process);
            }
            for packed in folds.each_ref().map(Packed::of) {
                prop_assert_eq!(Packed::of(&packed.fold()), packed);
            }
            let [one, many] = folds.map(|fold| format!("{fold:#?}"));
            prop_assert_eq!(one, many, "{} together", together);
            prop_assert_eq!(format!("{:#?}", all[0]), format!("{:#?}", all[1]));
        }
    }
}
