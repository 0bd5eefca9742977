//! What another bucket would have done with the launches of a log: the recorded moments at which launches asked, replayed
//! against other settings.
//!
//! The moments stay as they are recorded, whatever the replay decides ("open loop"): a program that is let through may
//! go on earlier, and one that is refused may ask again, which no log can tell. With the recorded settings every
//! recorded decision comes out again; [`WhatIf::same_decisions`] counts them.

use hook_event::{Kind, Outcome};
use serde::Serialize;

use super::bucket::Bucket;
use super::timeline::{self, TimeBase};
use crate::events::{Events, Process};

/// A bucket to try.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Settings {
    /// Tokens/s.
    pub rate: f64,
    /// Tokens.
    pub capacity: f64,
}

/// What a bucket does with the launches of one process, or of the processes that share one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WhatIf {
    /// Indices in `processes`.
    pub processes: Vec<usize>,
    /// The bucket that was tried.
    #[serde(flatten)]
    pub settings: Settings,
    /// Where the moments are from. Inferred ones are right to 0.1 token's time, those before lines to their last digit.
    pub base: TimeBase,
    /// Whether more time may have passed than is known: a larger bucket would then have refused fewer.
    pub lower_bound: bool,
    /// Launches that asked for a token.
    pub launches: u64,
    /// Let through.
    pub passed: u64,
    /// Refused.
    pub denied: u64,
    /// Refused according to the log.
    pub recorded_denied: u64,
    /// Launches that are decided as the log says.
    pub same_decisions: u64,
    /// Launches refused one after another, at most.
    pub longest_denial_streak: u64,
}

impl WhatIf {
    /// Refused launches to all.
    pub fn denial_rate(&self) -> f64 {
        self.denied as f64 / self.launches.max(1) as f64
    }
}

/// The slowest bucket of a capacity that refuses at most a given part of the launches.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Size {
    /// Indices in `processes`.
    pub processes: Vec<usize>,
    /// The part of them that may be refused, 0 to 1.
    pub denial_rate: f64,
    /// Tokens.
    pub capacity: f64,
    /// Tokens/s, to three digits; `None` where no rate does.
    pub rate: Option<f64>,
    /// Launches that it refuses.
    pub denied: Option<u64>,
    /// All.
    pub launches: u64,
}

/// What is asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Questions {
    /// Buckets to try.
    pub buckets: Vec<Settings>,
    /// Whether to try those around the recorded one: half, once, twice and four times its rate and its capacity.
    pub around: bool,
    /// The part of the launches that may be refused, 0 to 1, to find rates for.
    pub denials: Option<f64>,
    /// Capacities to find them at; none: those around the recorded one.
    pub capacities: Vec<f64>,
}

const AROUND: [f64; 4] = [0.5, 1.0, 2.0, 4.0];

impl Questions {
    /// Whether nothing is asked.
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty() && !self.around && self.denials.is_none()
    }

    /// The answers for every bucket in `events`; both empty where no launch's moment and level is known.
    pub fn answer(&self, events: &Events) -> (Vec<WhatIf>, Vec<Size>) {
        let (mut replays, mut sizes) = (Vec::new(), Vec::new());
        for arrivals in Arrivals::all(events) {
            replays.extend(self.buckets.iter().map(|&settings| arrivals.replay(settings)));
            let recorded = arrivals.recorded;
            // Less than a token never lets anything through.
            let capacities = recorded.map(|of| AROUND.map(|factor| (factor * of.capacity).max(1.0)).to_vec());
            let mut capacities = capacities.unwrap_or_default();
            capacities.dedup();
            if let (Some(of), true) = (recorded, self.around) {
                let rates = AROUND.map(|factor| factor * of.rate);
                let all = rates.into_iter().flat_map(|rate| capacities.iter().map(move |&capacity| (rate, capacity)));
                replays.extend(all.map(|(rate, capacity)| arrivals.replay(Settings { rate, capacity })));
            }
            let Some(denials) = self.denials else { continue };
            let capacities = if self.capacities.is_empty() { &capacities } else { &self.capacities };
            sizes.extend(capacities.iter().map(|&capacity| {
                let found = arrivals.size_for(denials, capacity);
                Size {
                    processes: arrivals.processes.clone(),
                    denial_rate: denials,
                    capacity,
                    rate: found.as_ref().map(|found| found.settings.rate),
                    denied: found.map(|found| found.denied),
                    launches: arrivals.asked.len() as u64,
                }
            }));
        }
        (replays, sizes)
    }
}

/// The launches that ask one bucket, in the order in which they asked.
#[derive(Clone, Debug)]
pub struct Arrivals {
    processes: Vec<usize>,
    base: TimeBase,
    lower_bound: bool,
    /// The bucket that they met, if the log tells it.
    recorded: Option<Settings>,
    /// Whether the hook let launches wait instead of refusing them.
    waited: bool,
    /// When, ns, and what became of it.
    asked: Vec<(u64, Outcome)>,
}

impl Arrivals {
    /// The launches of every bucket in `events`: a bucket a process, or one for all that share it. Launches whose moment is
    /// not known, and those that needed no token, are left out.
    pub fn all(events: &Events) -> Vec<Arrivals> {
        // By job and host where they share a bucket.
        let mut all = Vec::<(Option<(u64, Option<&str>)>, Arrivals)>::new();
        for (number, process) in events.processes.iter().enumerate() {
            let mut arrivals = Arrivals::of(events, number, process);
            if arrivals.asked.is_empty() {
                continue;
            }
            let job = process.job.map(|job| (job, process.host.as_deref()));
            match all.iter_mut().find(|(known, _)| job.is_some() && *known == job) {
                Some((_, together)) => {
                    together.processes.push(number);
                    together.asked.append(&mut arrivals.asked);
                }
                None => all.push((job, arrivals)),
            }
        }
        let mut all: Vec<Arrivals> = all.into_iter().map(|(_, arrivals)| arrivals).collect();
        for arrivals in &mut all {
            // Stable: launches of the same moment stay as they were numbered.
            arrivals.asked.sort_by_key(|&(at, _)| at);
        }
        all
    }

    fn of(events: &Events, number: usize, process: &Process) -> Arrivals {
        let calls = &events.calls;
        let timeline = timeline::of(calls, process);
        let times = process.rows.clone().zip(&timeline.at);
        let launches =
            times.filter(|&(i, _)| calls.kind[i] == Kind::Launch && !calls.bypass[i] && calls.tokens[i].is_some());
        // Where processes share a bucket, their times must be of one clock.
        let first = process.rows.clone().find_map(|i| calls.wall_ns[i]).and_then(|ns| u64::try_from(ns).ok());
        let asked = launches.filter_map(|(i, &seconds)| {
            let waited = calls.wait_ns[i].unwrap_or(0);
            let at = match timeline.base {
                TimeBase::Monotonic => calls.mono_ns[i]?.saturating_sub(waited),
                TimeBase::Wall => (first.unwrap_or(0) + (seconds * 1e9).round() as u64).saturating_sub(waited),
                TimeBase::Inferred => (seconds * 1e9).round() as u64,
                TimeBase::Sequence => return None,
            };
            Some((at, calls.outcome[i]))
        });
        Arrivals {
            processes: vec![number],
            base: timeline.base,
            lower_bound: timeline.lower_bound,
            recorded: process.bucket.value().map(|(rate, capacity)| Settings { rate, capacity }),
            waited: process.policy.as_deref() == Some("wait"),
            asked: asked.collect(),
        }
    }

    /// The bucket that they met, if the log tells it.
    pub fn recorded(&self) -> Option<Settings> {
        self.recorded
    }

    /// Launches.
    pub fn len(&self) -> usize {
        self.asked.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.asked.is_empty()
    }

    /// What a bucket of these `settings`, full at the first launch, would have done.
    pub fn replay(&self, settings: Settings) -> WhatIf {
        let Settings { rate, capacity } = settings;
        let mut bucket = Bucket::full(rate, capacity, self.asked.first().map_or(0, |&(at, _)| at));
        let (mut passed, mut same, mut recorded_denied, mut streak, mut longest) = (0, 0, 0, 0u64, 0);
        for &(at, outcome) in &self.asked {
            // A hook that lets launches wait takes a token ahead of time, and passes them all.
            let takes = if self.waited { bucket.reserve(at).is_some() } else { bucket.take(at) };
            passed += u64::from(takes);
            same += u64::from(takes != (outcome == Outcome::Denied));
            recorded_denied += u64::from(outcome == Outcome::Denied);
            streak = if takes { 0 } else { streak + 1 };
            longest = longest.max(streak);
        }
        let launches = self.asked.len() as u64;
        WhatIf {
            processes: self.processes.clone(),
            settings,
            base: self.base,
            lower_bound: self.lower_bound,
            launches,
            passed,
            denied: launches - passed,
            recorded_denied,
            same_decisions: same,
            longest_denial_streak: longest,
        }
    }

    /// The slowest rate at which a bucket of `capacity` refuses at most the part `denials` (0 to 1) of them, to three
    /// digits. `None` where no rate does: a bucket of less than one token, or launches of the same moment in a number
    /// beyond the capacity.
    ///
    /// A faster bucket never refuses more: whatever the slower one lets through, it could let through as well, and it
    /// loses nothing by taking the first that it can.
    pub fn size_for(&self, denials: f64, capacity: f64) -> Option<WhatIf> {
        let enough = |rate: f64| self.replay(Settings { rate, capacity }).denial_rate() <= denials;
        // Steps of less than 0.24 %: 1000 for each factor of ten.
        let rate_of = |step: i32| 10f64.powf(f64::from(step) / 1000.0);
        let (mut too_slow, mut fast) = (-9_000, 12_000);
        if !enough(rate_of(fast)) {
            return None;
        }
        if enough(rate_of(too_slow)) {
            fast = too_slow;
        }
        while fast - too_slow > 1 {
            let middle = too_slow + (fast - too_slow) / 2;
            if enough(rate_of(middle)) { fast = middle } else { too_slow = middle }
        }
        // Three digits, rounded up, so that what is told suffices.
        let digits = 10f64.powi(2 - rate_of(fast).log10().floor() as i32);
        let rate = (rate_of(fast) * digits).ceil() / digits;
        Some(self.replay(Settings { rate, capacity }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const S: u64 = 1_000_000_000;

    fn arrivals(at: &[u64]) -> Arrivals {
        let asked = at.iter().map(|&at| (at, Outcome::Ok)).collect();
        Arrivals {
            processes: vec![0],
            base: TimeBase::Monotonic,
            lower_bound: false,
            recorded: None,
            waited: false,
            asked,
        }
    }

    fn denied(at: &[u64], rate: f64, capacity: f64) -> u64 {
        arrivals(at).replay(Settings { rate, capacity }).denied
    }

    #[test]
    fn a_burst_and_a_late_launch() {
        let mut at = vec![0; 10];
        at.push(2 * S);
        assert_eq!(denied(&at, 5.0, 3.0), 7);
        assert_eq!(denied(&at, 5.0, 10.0), 0);
        assert_eq!(denied(&at, 0.4, 3.0), 8);
        let replay = arrivals(&at).replay(Settings { rate: 5.0, capacity: 3.0 });
        assert_eq!((replay.passed, replay.longest_denial_streak, replay.same_decisions), (4, 7, 4));
    }

    #[test]
    fn the_rate_that_suffices_is_the_slowest_to_three_digits() {
        // Ten launches a second for ten seconds.
        let steady: Vec<u64> = (0..100).map(|i| i * S / 10).collect();
        let sized = arrivals(&steady).size_for(0.0, 1.0).expect("a rate");
        assert_eq!((sized.settings.rate, sized.denied), (10.0, 0));
        // Half of them.
        let half = arrivals(&steady).size_for(0.5, 1.0).expect("a rate");
        assert!((half.settings.rate - 5.0).abs() < 0.02 && half.denied <= 50, "{half:?}");
        assert_eq!(arrivals(&[0; 4]).size_for(0.01, 3.0), None);
        assert_eq!(arrivals(&steady).size_for(0.0, 0.5), None);
    }

    proptest! {
        #[test]
        fn a_faster_or_larger_bucket_never_refuses_more(
            gaps in prop::collection::vec(0u64..S, 1..60), rate in 0.1f64..50.0, capacity in 1.0f64..10.0,
            faster in 1.0f64..4.0, larger in 0.0f64..5.0,
        ) {
            let at: Vec<u64> = gaps.iter().scan(0, |now, gap| { *now += gap; Some(*now) }).collect();
            let before = denied(&at, rate, capacity);
            prop_assert!(denied(&at, rate * faster, capacity) <= before);
            prop_assert!(denied(&at, rate, capacity + larger) <= before);
        }
    }
}
