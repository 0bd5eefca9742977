//! Launches' lines with a time before each, as a container runtime or `ts` puts it there: what the bucket gained against
//! rate x time.
//!
//! Such a time is when the line was read, not when the call was decided: never before, and as a rule little after. So
//! a difference of two is right to [`DELAY_NS`] and the stamps' own resolution, unless a reader was held up. A single
//! contradiction is therefore none; several are, where all are of one kind and at least a third of the launches that could
//! show one do: a fault is at work all the time. Stamps of lines that were written in batches show
//! growth in no time, and then time without growth: they are found by that, and nothing is told.

use super::lines::{Launch, ROUNDING, TWICE, Told};
use super::packed::packed;
use super::rates::Rates;
use super::tokens::Fault;

/// How late a line's stamp may be, ns.
const DELAY_NS: f64 = 50e6;

/// Growth that is so many times what the rate gives is no fault of a bucket, but stamps that are none of the calls.
const FASTEST: f64 = 4.0;

/// Contradictions of passes that make a fault: a stamp that comes late makes the launches behind it look too quick.
const OFTEN: u64 = 3;

/// The stamps of one process's launches.
#[derive(Clone, Debug)]
pub(super) struct Stamps {
    rate: f64,
    capacity: f64,
    /// Largest power of ten of ns that all stamps are multiples of.
    resolution_ns: i64,
    /// Launches since the bucket was last full, or a contradiction.
    stretch: Option<Stretch>,
    last_ns: Option<i64>,
    batches: bool,
    set_back: bool,
    judged: u64,
    /// Launches at which a rate half or twice as high would contradict; and those at which one twice as high would: a bucket
    /// that is full again is so at any higher rate.
    decisive: u64,
    decisive_of_fast: u64,
    fast: Kind,
    slow: Kind,
    without: Kind,
    /// What a bucket would hold that admits what was admitted.
    admitting: Option<f64>,
    admitted: Kind,
    first_ns: Option<i64>,
    pub(super) offered: u64,
    passed: u64,
}

packed!(Stamps {
    rate,
    capacity,
    resolution_ns,
    stretch,
    last_ns,
    batches,
    set_back,
    judged,
    decisive,
    decisive_of_fast,
    fast,
    slow,
    without,
    admitting,
    admitted,
    first_ns,
    offered,
    passed
});

#[derive(Clone, Copy, Debug)]
struct Stretch {
    from_ns: i64,
    level: f64,
    passed: f64,
}

packed!(Stretch { from_ns, level, passed });

/// Contradictions of one kind.
#[derive(Clone, Copy, Debug, Default)]
struct Kind {
    count: u64,
    first: Option<Fault>,
}

packed!(Kind { count, first });

impl Kind {
    fn add(&mut self, fault: Fault) {
        self.count += 1;
        self.first = self.first.or(Some(fault));
    }

    fn fault(&self, least: u64) -> Option<Fault> {
        self.first.filter(|_| self.count >= least)
    }
}

impl Stamps {
    pub(super) fn new(rate: f64, capacity: f64) -> Stamps {
        Stamps {
            rate,
            capacity,
            resolution_ns: 1_000_000_000,
            stretch: None,
            last_ns: None,
            batches: false,
            set_back: false,
            judged: 0,
            decisive: 0,
            decisive_of_fast: 0,
            fast: Kind::default(),
            slow: Kind::default(),
            without: Kind::default(),
            admitting: None,
            admitted: Kind::default(),
            first_ns: None,
            offered: 0,
            passed: 0,
        }
    }

    /// Takes a launch's line in.
    pub(super) fn step(&mut self, launch: &Launch) {
        let Some(now) = launch.wall_ns else {
            (self.stretch, self.admitting, self.last_ns) = (None, None, None);
            return;
        };
        while now % self.resolution_ns != 0 {
            self.resolution_ns /= 10;
        }
        self.first_ns = self.first_ns.or(Some(now));
        self.offered += 1;
        self.passed += u64::from(!launch.denied());
        if self.last_ns.is_some_and(|last| now < last) {
            (self.batches, self.set_back) = (true, true);
        }
        let unsure = self.rate * (self.resolution_ns as f64 + DELAY_NS) / 1e9;
        self.admit(launch, now, unsure);
        let whole = launch.level + launch.cost >= self.capacity - ROUNDING;
        let mut restart = whole || launch.maybe_free;
        if let (Some(stretch), false) = (&mut self.stretch, launch.maybe_free) {
            let due = self.rate * now.saturating_sub(stretch.from_ns) as f64 / 1e9;
            let gained = launch.level + launch.cost + stretch.passed - stretch.level;
            let tolerance = 2.0 * ROUNDING + unsure;
            let fault = |expected, seen| Fault { line: launch.line, expected, seen, tolerance };
            self.judged += u64::from(due.max(gained) > tolerance);
            self.batches |= gained > FASTEST * (due + unsure) + 2.0 * ROUNDING;
            let decisive = if whole { gained } else { due.max(gained) } > 2.0 * tolerance;
            self.decisive += u64::from(decisive);
            self.decisive_of_fast += u64::from(decisive && !whole);
            let there = stretch.level - stretch.passed + due;
            if launch.cost > 0.0 && there + tolerance < 1.0 {
                self.without.add(fault(1.0, there));
                restart = true;
            } else if gained - due > tolerance {
                self.fast.add(fault(due, gained));
                restart = true;
            } else if !whole && due - gained > tolerance {
                self.slow.add(fault(due, gained));
                restart = true;
            }
            stretch.passed += launch.cost;
        }
        if restart || self.stretch.is_none() {
            self.stretch = Some(Stretch { from_ns: now, level: launch.level, passed: 0.0 });
        }
        self.last_ns = Some(now);
    }

    fn admit(&mut self, launch: &Launch, now: i64, unsure: f64) {
        let gain = self.last_ns.map_or(0.0, |last| self.rate * now.saturating_sub(last).max(0) as f64 / 1e9);
        let cost = if launch.maybe_free { 0.0 } else { launch.cost };
        let left = (self.admitting.unwrap_or(self.capacity) + gain).min(self.capacity) - cost;
        let over = left < -unsure - ROUNDING;
        if over {
            self.admitted.add(Fault { line: launch.line, expected: 0.0, seen: -left, tolerance: unsure });
        }
        self.admitting = Some(if over { 0.0 } else { left });
    }

    /// Launches asked for and let through a second. `None` where the clock was set back between, or
    /// where the stamps' last digit is more than a twentieth of the time.
    pub(super) fn rates(&self) -> Option<Rates> {
        let seconds = self.duration_s().filter(|s| !self.set_back && s * 0.05 >= self.resolution_ns as f64 / 1e9)?;
        Rates::new(self.offered, self.passed, seconds, (self.rate, self.capacity), None)
    }

    /// From the first launch to the last, s.
    fn duration_s(&self) -> Option<f64> {
        Some(self.last_ns?.checked_sub(self.first_ns?)? as f64 / 1e9).filter(|s| *s > 0.0)
    }

    fn told(&self, fault: Option<Fault>) -> Told {
        match fault {
            _ if self.first_ns.is_none() => Told::NoTime,
            _ if self.batches || self.fast.count > 0 && self.slow.count > 0 => Told::Batches,
            Some(fault) => Told::Broken(fault),
            None if self.judged == 0 || self.duration_s().is_none() => Told::NoTime,
            None => Told::Shown(self.judged),
        }
    }

    pub(super) fn passed_only_with_token(&self) -> Told {
        // Where denials show that it gains too much, that is why launches pass.
        self.told(self.without.fault(OFTEN).filter(|_| self.fast.count == 0))
    }

    pub(super) fn refill_at_rate(&self) -> Told {
        let (fast, slow) = (self.fast.count, self.slow.count);
        let often = fast + self.without.count >= TWICE && fast * 3 >= self.decisive_of_fast;
        let fast = self.fast.first.filter(|_| often);
        let slow = self.slow.fault(TWICE).filter(|_| slow * 3 >= self.decisive);
        self.told(fast.or(slow))
    }

    pub(super) fn admitted_within_rate(&self) -> Told {
        self.told(self.admitted.fault(OFTEN))
    }
}
