//! Time, as the rest of the hook sees it: `CLOCK_MONOTONIC`.
//!
//! While records are batched it is told from the processor's time-stamp counter, which takes half as long to read. The
//! writing thread compares the two every few ms. Where its last comparison is too old, the clock itself is read; where
//! the two disagree, for good.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use hook_event::Stamp;

use crate::ffi::os;

/// Monotonic time, ns.
pub(crate) fn now_ns() -> u64 {
    Clock::here().now_ns()
}

/// How one call tells the time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Clock {
    /// Not at all: nobody wants to know, and it is always 0.
    Still,
    /// By the clock.
    Read,
    /// By the counter.
    Counted(Line),
}

impl Clock {
    #[inline(always)]
    pub(crate) fn here() -> Clock {
        COUNTER.line().map_or(Clock::Read, Clock::Counted)
    }

    /// Monotonic time, ns.
    #[inline(always)]
    pub(crate) fn now_ns(self) -> u64 {
        match self {
            Clock::Counted(line) => line.at(os::ticks()).unwrap_or_else(clock_ns),
            Clock::Read => clock_ns(),
            Clock::Still => 0,
        }
    }
}

#[cold]
fn clock_ns() -> u64 {
    os::clock_ns(os::Clock::Monotonic)
}

/// A forked child has no thread that compares.
pub(crate) fn forget() {
    COUNTER.version.store(0, Ordering::Relaxed);
}

/// Ties the monotonic clock to the wall clock, once: a clock that is set later never turns a log around.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Anchor {
    wall_ns: i64,
    mono_ns: u64,
}

impl Anchor {
    /// Both clocks now.
    pub(crate) fn now() -> Self {
        let mono_ns = now_ns();
        Anchor { wall_ns: i64::try_from(os::clock_ns(os::Clock::Wall)).unwrap_or(i64::MAX), mono_ns }
    }

    /// The moment of the anchor itself, when the process's accounts were opened.
    pub(crate) fn origin(&self) -> Stamp {
        self.stamp(self.mono_ns)
    }

    /// The stamp of a monotonic moment.
    pub(crate) fn stamp(&self, mono_ns: u64) -> Stamp {
        let since = i128::from(mono_ns).saturating_sub(self.mono_ns.into());
        let wall = i128::from(self.wall_ns).saturating_add(since);
        Stamp { wall_ns: i64::try_from(wall).unwrap_or(i64::MAX), mono_ns }
    }
}

/// Fractional bits of [`Line::scale`].
const FRACTION: u32 = 32;

/// A comparison older than this is no longer used, ns.
const MAX_AGE_NS: u64 = 50_000_000;

/// Counter and clock may have drifted apart by so much since the last comparison, ns. The kernel speeds its clock up or
/// slows it down by at most 0.05 % to follow another one, which in the 4 ms between two comparisons is 2000 ns.
const MAX_DRIFT_NS: u64 = 5_000;

/// What the counter says of the clock: a straight line through one point.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Line {
    ticks: u64,
    ns: u64,
    /// ns a tick, times 2^32.
    scale: u64,
    /// Ticks after the point up to which the line holds.
    limit: u64,
}

impl Line {
    #[inline(always)]
    fn at(&self, ticks: u64) -> Option<u64> {
        // A counter that another processor reads may be a little behind the point.
        let passed = ticks.wrapping_sub(self.ticks);
        (passed < self.limit).then(|| self.ns.wrapping_add(passed.wrapping_mul(self.scale) >> FRACTION))
    }
}

/// The line in use, for all threads: whoever reads while it is changed reads the clock instead.
#[repr(align(128))]
struct Counter {
    /// 0: none; odd: being changed.
    version: AtomicU32,
    ticks: AtomicU64,
    ns: AtomicU64,
    scale: AtomicU64,
    limit: AtomicU64,
}

static COUNTER: Counter = Counter::new();

impl Counter {
    const fn new() -> Counter {
        Counter {
            version: AtomicU32::new(0),
            ticks: AtomicU64::new(0),
            ns: AtomicU64::new(0),
            scale: AtomicU64::new(0),
            limit: AtomicU64::new(0),
        }
    }

    #[inline(always)]
    fn line(&self) -> Option<Line> {
        let version = self.version.load(Ordering::Acquire);
        if version == 0 || version & 1 == 1 {
            return None;
        }
        let line = Line {
            ticks: self.ticks.load(Ordering::Relaxed),
            ns: self.ns.load(Ordering::Relaxed),
            scale: self.scale.load(Ordering::Relaxed),
            limit: self.limit.load(Ordering::Relaxed),
        };
        fence(Ordering::Acquire);
        (self.version.load(Ordering::Relaxed) == version).then_some(line)
    }

    /// Only one thread at a time.
    fn set(&self, line: Option<Line>) {
        let version = self.version.load(Ordering::Relaxed) | 1;
        self.version.store(version, Ordering::Relaxed);
        fence(Ordering::Release);
        let Line { ticks, ns, scale, limit } = line.unwrap_or_default();
        self.ticks.store(ticks, Ordering::Relaxed);
        self.ns.store(ns, Ordering::Relaxed);
        self.scale.store(scale, Ordering::Relaxed);
        self.limit.store(limit, Ordering::Relaxed);
        let next = if line.is_some() { version.wrapping_add(1).max(2) } else { 0 };
        self.version.store(next, Ordering::Release);
    }
}

/// Counter and clock at one moment.
#[derive(Clone, Copy, Debug)]
struct Reading {
    ticks: u64,
    ns: u64,
}

impl Reading {
    /// `None` when the thread was interrupted between the two each time.
    fn now() -> Option<Reading> {
        /// Longer than reading takes, in ticks of any processor, and too short to matter.
        const APART: u64 = 2_000;
        for _ in 0..8 {
            let before = os::ticks();
            let ns = clock_ns();
            let apart = os::ticks().wrapping_sub(before);
            if apart < APART {
                return Some(Reading { ticks: before.wrapping_add(apart >> 1), ns });
            }
        }
        None
    }
}

/// The writing thread's comparison of counter and clock.
#[derive(Debug)]
pub(crate) struct Calibration {
    /// What the scale is measured from, a quarter to half a second ago.
    from: Option<Reading>,
    later: Option<Reading>,
    line: Option<Line>,
    given_up: bool,
}

impl Calibration {
    pub(crate) fn new() -> Calibration {
        Calibration { from: None, later: None, line: None, given_up: !os::ticks_are_steady() }
    }

    /// Compares now; by the second time the counter is in use.
    pub(crate) fn refresh(&mut self) {
        if self.given_up {
            return;
        }
        if let Some(now) = Reading::now() {
            COUNTER.set(self.step(now));
        }
    }

    fn step(&mut self, now: Reading) -> Option<Line> {
        const SHORTEST_NS: u64 = 2_000_000;
        const WINDOW_NS: u64 = 250_000_000;
        let from = *self.from.get_or_insert(now);
        let later = *self.later.get_or_insert(now);
        let (ns, ticks) = (now.ns.checked_sub(from.ns)?, now.ticks.wrapping_sub(from.ticks));
        if ns < SHORTEST_NS {
            return None;
        }
        let scale = u128::from(ns).checked_shl(FRACTION)?.checked_div(u128::from(ticks))?;
        let scale = u64::try_from(scale).ok().filter(|&scale| scale > 0)?;
        if let Some(line) = self.line
            && !agrees(line, now, scale)
        {
            self.given_up = true;
            return None;
        }
        if now.ns.saturating_sub(later.ns) > WINDOW_NS {
            (self.from, self.later) = (self.later, Some(now));
        }
        let limit = u64::try_from((u128::from(MAX_AGE_NS) << FRACTION).checked_div(u128::from(scale))?).ok()?;
        self.line = Some(Line { ticks: now.ticks, ns: now.ns, scale, limit });
        self.line
    }
}

/// Whether a line told the truth up to now, and the counter's speed is what it was.
fn agrees(line: Line, now: Reading, scale: u64) -> bool {
    let told = line.at(now.ticks).is_none_or(|told| told.abs_diff(now.ns) <= MAX_DRIFT_NS);
    told && line.scale.abs_diff(scale) <= line.scale >> 10
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A counter of 2.1 GHz that starts anywhere.
    fn reading(us: u64) -> Reading {
        Reading { ticks: u64::MAX - 1_000_000 + us * 2100, ns: 7_000_000_000_000 + us * 1000 }
    }

    fn calibration() -> Calibration {
        Calibration { from: None, later: None, line: None, given_up: false }
    }

    #[test]
    fn the_counter_tells_the_time_between_comparisons_for_hours() {
        let mut calibration = calibration();
        assert_eq!(calibration.step(reading_wrapping(0)), None);
        for us in (4_000..3_600_000_000u64).step_by(1_234_567) {
            let line = calibration.step(reading_wrapping(us)).expect("a line");
            for later in [0, 1, 4_000, 49_000] {
                let then = reading_wrapping(us + later);
                assert!(line.at(then.ticks).is_some_and(|ns| ns.abs_diff(then.ns) <= 50), "{us} + {later}");
            }
            assert_eq!(line.at(reading_wrapping(us + 51_000).ticks), None, "too old");
            assert_eq!(line.at(line.ticks.wrapping_sub(1)), None, "before the point");
        }
    }

    fn reading_wrapping(us: u64) -> Reading {
        let start = reading(0);
        Reading { ticks: start.ticks.wrapping_add(us.wrapping_mul(2100)), ns: start.ns + us * 1000 }
    }

    #[test]
    fn a_counter_that_jumps_or_changes_its_speed_is_never_used_again() {
        for spoilt in [
            Reading { ticks: reading_wrapping(12_000).ticks, ns: reading_wrapping(12_000).ns + 6_000 },
            Reading { ticks: reading_wrapping(13_000).ticks, ns: reading_wrapping(12_000).ns },
            // A machine that slept for a minute, as the monotonic clock does not tell.
            Reading { ticks: reading_wrapping(60_000_000).ticks, ns: reading_wrapping(12_000).ns },
        ] {
            let mut calibration = calibration();
            calibration.step(reading_wrapping(0));
            assert!(calibration.step(reading_wrapping(4_000)).is_some());
            assert!(calibration.step(reading_wrapping(8_000)).is_some());
            assert_eq!(calibration.step(spoilt), None);
            assert!(calibration.given_up);
        }
    }

    #[test]
    fn a_line_is_read_whole_or_not_at_all() {
        let counter = Counter::new();
        assert_eq!(counter.line(), None);
        let line = |ns: u64| Line { ticks: ns, ns, scale: 1 << FRACTION, limit: 1_000 };
        std::thread::scope(|scope| {
            scope.spawn(|| (1..100_000).for_each(|i| counter.set(Some(line(i * 1_000_000)))));
            for _ in 0..100_000 {
                if let Some(read) = counter.line() {
                    assert_eq!(read, line(read.ns));
                }
            }
        });
        counter.set(None);
        assert_eq!(counter.line(), None);
    }

    /// On the machine that runs this. A reading that lies between two of the clock is right.
    #[test]
    fn counter_and_clock_tell_the_same_time_here() {
        let mut calibration = Calibration::new();
        if calibration.given_up {
            eprintln!("this machine's counter is not steady: the clock is used");
            return;
        }
        calibration.refresh();
        let until = clock_ns() + 300_000_000;
        let (mut used, mut worst) = (0u64, 0u64);
        while clock_ns() < until {
            std::thread::sleep(std::time::Duration::from_millis(2));
            calibration.refresh();
            let before = clock_ns();
            let told = COUNTER.line().and_then(|line| line.at(os::ticks()));
            let after = clock_ns();
            let Some(told) = told else { continue };
            used += 1;
            worst = worst.max(before.saturating_sub(told)).max(told.saturating_sub(after));
        }
        assert!(!calibration.given_up && used > 10, "{used}");
        assert!(worst < 1_000, "off by {worst} ns");
    }
}
