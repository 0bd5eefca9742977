//! The launches of a bucket by their lines alone: levels of one decimal, no moments, and an order that is the calls' only
//! where one thread wrote.
//!
//! What one line shows by itself needs no order. For the rest the log is held, as it stands, against a sound bucket and
//! against faulty ones, each as the least level that it can have left. Growth is free, for time is unknown; so only a
//! level that is too low contradicts. A fault is told when the *whole* log is what that faulty bucket prints and not what
//! a sound one does, at two launches at least: a fault is at work at each launch, while lines of several threads that
//! changed places contradict here and there, and the faulty buckets too. Where no bucket fits, nothing is told.
//!
//! A bucket that is never refilled prints what a sound one prints for a program that is quick: a level that never grows.
//! That is a fault only where time is known to have passed: the course's test program sleeps before its second row, and
//! no launch takes less than [`LAUNCH_S`].

use hook_event::Outcome;

use super::packed::packed;
use super::tokens::Fault;

/// Half of the last printed decimal of a level, with room for binary fractions.
pub(super) const ROUNDING: f64 = 0.05 + 1e-6;

/// How long the thread of the very first decision may have been held up before it wrote its line, s. How much time has
/// passed at least is seen from denials that follow each other.
const HELD_UP_S: f64 = 0.1;

/// Contradictions that make a fault: a single one may be a line out of place.
pub(super) const TWICE: u64 = 2;

/// Least time of a launch, s: of one reading of the clock, without the line's write.
const LAUNCH_S: f64 = 30e-9;

/// What the course's test program sleeps between its two rows of launches, s.
const REST_S: f64 = 1.5;

/// A launch as its line or record tells it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Launch {
    pub(super) line: u64,
    /// Level after the decision.
    pub(super) level: f64,
    pub(super) outcome: Outcome,
    /// Tokens that it took.
    pub(super) cost: f64,
    /// Whether it is from a record, and its level unrounded.
    pub(super) exact: bool,
    /// Time before the line, ns since 1970.
    pub(super) wall_ns: Option<i64>,
    /// Few blocks of many threads: the course lets hooks pass such launches without a token, and lines don't tell.
    pub(super) maybe_free: bool,
    /// Whether the course's test program has just slept.
    pub(super) rested: bool,
}

packed!(Launch { line, level, outcome, cost, exact, wall_ns, maybe_free, rested });

impl Launch {
    pub(super) fn denied(&self) -> bool {
        self.outcome == Outcome::Denied
    }
}

/// A bucket, sound or faulty, along the lines.
#[derive(Clone, Debug)]
struct Bucket {
    /// What a pass and a denial take.
    takes: [f64; 2],
    /// The least that is in it; no number before the first launch, which no comparison holds for.
    least: f64,
    /// Launches that contradict it, and the first.
    contradictions: u64,
    first: Option<Fault>,
}

packed!(Bucket { takes, least, contradictions, first });

impl Bucket {
    fn new(takes: [f64; 2]) -> Bucket {
        Bucket { takes, least: f64::NAN, contradictions: 0, first: None }
    }

    #[inline(always)]
    fn step(&mut self, launch: &Launch) {
        let before = if !launch.denied() && self.least < 1.0 { 1.0 } else { self.least };
        let left = before - self.takes[usize::from(launch.denied())];
        let low = launch.level + ROUNDING < left;
        if low {
            self.contradict(launch, left);
        }
        let least = launch.level - ROUNDING;
        self.least = if !low && left > least { left } else { least };
    }

    #[cold]
    fn contradict(&mut self, launch: &Launch, expected: f64) {
        self.contradictions += 1;
        self.first =
            self.first.or(Some(Fault { line: launch.line, expected, seen: launch.level, tolerance: 2.0 * ROUNDING }));
    }

    fn fits(&self) -> bool {
        self.contradictions == 0
    }
}

/// What is told of a rule.
#[derive(Clone, Copy, Debug)]
pub(super) enum Told {
    /// Kept, by so many records.
    Kept(u64),
    /// Kept as far as so many lines show.
    Shown(u64),
    /// Broken.
    Broken(Fault),
    /// Not to be told: from this line on the order is not that of one thread.
    Disorder(u64),
    /// Not to be told: whether the log begins with the process is not known.
    NoBeginning,
    /// Not to be told: lines tell no time, or stamps that are too coarse.
    NoTime,
    /// Not to be told: stamps are not the moments of calls (written in batches, or the clock was set).
    Batches,
    /// Nothing to judge.
    Nothing,
}

/// The lines of one process so far.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    rate: f64,
    capacity: f64,
    pub(super) launches: u64,
    first: Option<Launch>,
    passes: u64,
    denials: u64,
    /// Launches whose level is none that a bucket has that was full [`HELD_UP_S`] ago: capacity less whole tokens, and what
    /// was gained since.
    later: u64,
    /// Whether a launch near the beginning left what the first of a full bucket leaves.
    began_full: bool,
    /// What the bucket gained from denial to denial, at least; and the level of the first denial of those that follow each
    /// other now.
    grown: f64,
    denied_from: Option<f64>,
    /// The highest level that a pass left.
    top: f64,
    /// A pass that left more than a full bucket less one token.
    took_none: Option<Fault>,
    sound: Bucket,
    two: Bucket,
    charging: Bucket,
    /// Level after the launch before.
    before: Option<f64>,
    /// The most that is in a bucket that has not been refilled, and since how many launches.
    most: f64,
    stuck: u64,
    /// Launches that may be too brief for growth to be seen.
    brief: u64,
    /// The course's program slept and the bucket did not gain what it must.
    not_rested: Option<Fault>,
    rested: bool,
    not_grown: Option<Fault>,
}

packed!(Lines {
    rate,
    capacity,
    launches,
    first,
    passes,
    denials,
    later,
    began_full,
    grown,
    denied_from,
    top,
    took_none,
    sound,
    two,
    charging,
    before,
    most,
    stuck,
    brief,
    not_rested,
    rested,
    not_grown
});

impl Lines {
    pub(super) fn new(rate: f64, capacity: f64) -> Lines {
        Lines {
            rate,
            capacity,
            launches: 0,
            first: None,
            passes: 0,
            denials: 0,
            later: 0,
            began_full: false,
            grown: 0.0,
            denied_from: None,
            top: f64::NEG_INFINITY,
            took_none: None,
            sound: Bucket::new([1.0, 0.0]),
            two: Bucket::new([2.0, 0.0]),
            charging: Bucket::new([1.0, 1.0]),
            before: None,
            most: f64::INFINITY,
            stuck: 0,
            brief: (4.0 * ROUNDING / (rate * LAUNCH_S)) as u64,
            not_rested: None,
            rested: false,
            not_grown: None,
        }
    }

    /// Takes a launch's line in.
    #[inline(always)]
    pub(super) fn step(&mut self, launch: &Launch) {
        let (level, full) = (launch.level, self.capacity - 1.0);
        self.launches += 1;
        self.first.get_or_insert(*launch);
        if launch.denied() {
            self.denials += 1;
            // The bucket that charges denials is empty behind each; and one with a token left lets pass.
            if self.charging.fits() && (level > ROUNDING || self.charging.least + ROUNDING > 0.95) {
                self.charging.contradict(launch, 0.0);
            }
        } else {
            self.passes += 1;
            self.top = if level > self.top { level } else { self.top };
            if level > full + ROUNDING && level <= self.capacity + ROUNDING && !launch.maybe_free {
                let fault = Fault { line: launch.line, expected: full, seen: level, tolerance: ROUNDING };
                self.took_none = self.took_none.or(Some(fault));
            }
            if self.two.fits() && level > (self.capacity - 2.0).max(0.0) + ROUNDING {
                self.two.contradict(launch, self.capacity - 2.0);
            }
        }
        if !self.began_full {
            self.beginning(launch);
        }
        self.sound.step(launch);
        // Of the faulty ones no more is asked than whether they fit.
        for faulty in [&mut self.two, &mut self.charging] {
            if faulty.fits() {
                faulty.step(launch);
            }
        }
        self.growth(launch);
        self.before = Some(level);
    }

    /// Looks for a launch near the beginning that left what the first of a full bucket leaves.
    fn beginning(&mut self, launch: &Launch) {
        let level = launch.level;
        if launch.denied() {
            let from = *self.denied_from.get_or_insert(level);
            if level - from > 2.0 * ROUNDING {
                self.grown += level - from - 2.0 * ROUNDING;
                self.denied_from = Some(level);
            }
        } else {
            self.denied_from = None;
            let beginning = self.grown < self.rate * HELD_UP_S && self.later < TWICE;
            self.began_full |= beginning && level >= self.capacity - 1.0 - ROUNDING;
        }
        // A level that is held at zero is no sum of the others.
        if launch.denied() || level > ROUNDING {
            let gained = (level - self.capacity).rem_euclid(1.0);
            self.later += u64::from(gained > self.rate * HELD_UP_S + ROUNDING && gained < 1.0 - ROUNDING);
        }
    }

    #[inline(always)]
    fn growth(&mut self, launch: &Launch) {
        let (level, left) = (launch.level, self.most - launch.cost);
        let grew = level - ROUNDING > left || level + launch.cost > self.capacity - 4.0 * ROUNDING;
        (self.most, self.stuck) =
            if grew { (level + ROUNDING, 0) } else { (left.min(level + ROUNDING), self.stuck + 1) };
        if self.stuck > self.brief && self.not_grown.is_none() {
            let due = self.rate * LAUNCH_S * self.stuck as f64;
            let fault = Fault { line: launch.line, expected: due, seen: 0.0, tolerance: 2.0 * ROUNDING };
            self.not_grown = Some(fault);
        }
        if let (true, Some(before)) = (launch.rested, self.before) {
            self.rested = true;
            let (due, gained) = ((self.rate * REST_S).min(self.capacity - before), level + launch.cost - before);
            if gained < due - 2.0 * ROUNDING {
                let fault = Fault { line: launch.line, expected: due, seen: gained, tolerance: 2.0 * ROUNDING };
                self.not_rested = Some(fault);
            }
        }
    }

    /// The first line that stands where one thread would not have written it.
    pub(super) fn disorder(&self) -> Option<u64> {
        self.sound.first.map(|fault| fault.line)
    }

    /// The first launch, where it did not find the bucket full.
    fn began_low(&self) -> Option<Fault> {
        let first = self.first?;
        let expected = self.capacity - first.cost;
        let low = first.level < expected - ROUNDING;
        low.then_some(Fault { line: first.line, expected, seen: first.level, tolerance: ROUNDING })
    }

    /// `whole`: the log shows the process from its beginning, and no line is missing.
    pub(super) fn starts_full(&self, whole: bool) -> Told {
        match (self.began_low(), self.disorder()) {
            _ if self.first.is_none() => Told::Nothing,
            _ if !whole => Told::NoBeginning,
            (None, _) => Told::Shown(1),
            (Some(low), None) if !self.began_full && self.takes_two(whole).is_none() => Told::Broken(low),
            (Some(low), line) => Told::Disorder(line.unwrap_or(low.line)),
        }
    }

    /// As [`Self::starts_full`].
    pub(super) fn pass_takes_one(&self, whole: bool) -> Told {
        match self.took_none.or_else(|| self.takes_two(whole)) {
            Some(fault) => Told::Broken(fault),
            None => self.in_order(self.passes),
        }
    }

    fn takes_two(&self, whole: bool) -> Option<Fault> {
        if !self.two.fits() {
            return None;
        }
        let low = self.began_low().filter(|low| {
            // A full bucket's first launch, wherever its line stands, leaves more than any line here shows.
            let left = (self.capacity - 2.0).max(0.0);
            let passed = self.first.is_some_and(|first| !first.denied());
            whole && passed && (low.seen - left).abs() <= ROUNDING && self.top < self.capacity - 1.0 - ROUNDING
        });
        low.or(self.sound.first.filter(|_| self.sound.contradictions >= TWICE))
    }

    pub(super) fn denial_takes_none(&self) -> Told {
        match self.sound.first {
            Some(fault) if self.charges_denials() => Told::Broken(fault),
            _ => self.in_order(self.denials),
        }
    }

    fn charges_denials(&self) -> bool {
        self.charging.fits() && self.sound.contradictions >= TWICE
    }

    fn in_order(&self, judged: u64) -> Told {
        match self.disorder() {
            Some(line) => Told::Disorder(line),
            None if judged == 0 => Told::Nothing,
            None => Told::Shown(judged),
        }
    }

    /// Whether the bucket was refilled where time is known to have passed.
    pub(super) fn refilled(&self) -> Told {
        match self.not_rested.or(self.not_grown) {
            Some(fault) => Told::Broken(fault),
            None if self.rested => Told::Shown(1),
            None => Told::NoTime,
        }
    }

    /// Whether levels are told apart by another fault, which stamps would show again as tokens missing.
    pub(super) fn is_faulty(&self, whole: bool) -> bool {
        self.took_none.is_some() || self.takes_two(whole).is_some() || self.charges_denials()
    }
}
