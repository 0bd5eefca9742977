//! A launch: what was in the bucket, how it got there, and when the next token is due.

use hook_event::{Kind, Outcome};
use serde::Serialize;

use super::Moment;
use crate::analysis::Check;
use crate::analysis::bucket::Bucket;
use crate::analysis::timeline::{ROUNDING, TimeBase, Timeline};
use crate::events::{Columns, Limit, Process};

/// A number of tokens, give or take `error`; exact where that is zero.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Level {
    /// Tokens.
    pub tokens: f64,
    /// Tokens.
    pub error: f64,
}

/// A launch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Launch {
    /// Why it passed or not.
    pub why: LaunchWhy,
    /// Tokens a second.
    pub rate: Option<f64>,
    /// Tokens that fit in.
    pub capacity: Option<f64>,
    /// Whether other processes draw on the bucket.
    pub shared: bool,
    /// In the bucket when it asked.
    pub before: Option<Level>,
    /// How it came to be so full.
    pub refill: Option<Refill>,
    /// Tokens that it took.
    pub cost: f64,
    /// Left after it.
    pub after: Option<Level>,
    /// How long it waited for its token, ns.
    pub waited_ns: Option<u64>,
    /// When the next whole token is there, if nobody takes one before. `None` where that is not known.
    pub due: Option<Due>,
}

/// What a launch's fate is due to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LaunchWhy {
    /// Launches are only recorded.
    NotLimited,
    /// The log does not tell rate and capacity.
    LimitUnknown,
    /// It does not tell the level.
    LevelUnknown,
    /// It needed none (`CUDA_CORE_BYPASS`).
    NeedsNone,
    /// It waited for its token.
    Waited,
    /// A whole token was there.
    Token,
    /// None was.
    NoToken,
    /// The printed level is too near to one token to tell; either is right.
    Rounding,
    /// None was there, and yet it passed.
    PassedWithout,
    /// One was there, and yet it was denied.
    DeniedWith,
}

/// How the bucket filled since the launch before.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Refill {
    /// Line of the launch before.
    pub since_line: u64,
    /// Left after that.
    pub from: Level,
    /// Gained since.
    pub gained: Level,
    /// Time since, s.
    pub seconds: Option<f64>,
    /// By how much that may be wrong.
    pub error_s: Option<f64>,
    /// Whether more may have passed.
    pub lower_bound: bool,
    /// Gain to be expected in that time where it was measured: rate x time, up to the capacity.
    pub expected: Option<f64>,
}

/// When a token is due.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Due {
    /// From the call on, s; 0: one is there. `None`: never, for less than one fits in.
    pub in_s: Option<f64>,
    /// By how much that may be wrong, s.
    pub error_s: f64,
    /// Seconds since the process's first call.
    pub at_s: Option<f64>,
    /// Wall clock, ns since 1970.
    pub wall_ns: Option<i64>,
}

impl Launch {
    /// Takes in which rules it breaks: they know more than its level, the times of all launches.
    pub(super) fn overrule(&mut self, broken: &[Check]) {
        for check in broken {
            match check.id {
                "passed-only-with-token" => self.why = LaunchWhy::PassedWithout,
                "denied-only-when-empty" => self.why = LaunchWhy::DeniedWith,
                _ => {}
            }
        }
    }
}

/// Of the launch in row `i`.
pub(super) fn of(calls: &Columns, process: &Process, i: usize, timeline: &Timeline, time: &Moment) -> Launch {
    let bucket = process.bucket.value();
    let error = if calls.is_text(i) { ROUNDING } else { 0.0 };
    // A process that only records prints a level of 0.0, which is none.
    let level = |i: usize| calls.tokens[i].filter(|_| process.bucket != Limit::Off);
    let cost = calls.cost(i);
    let after = level(i).map(|tokens| Level { tokens, error });
    let mut before = after.map(|after| Level { tokens: after.tokens + cost, ..after });
    let shared = process.shared.is_some();
    let last = (process.rows.start..i).rev().find(|&j| calls.kind[j] == Kind::Launch && level(j).is_some());
    let mut refill = before.zip(last).and_then(|(before, last)| {
        let from = Level { tokens: level(last)?, error };
        let (at, then) = (i - process.rows.start, last - process.rows.start);
        let seconds = time.at_s.and_then(|at| Some((at - timeline.at.get(then)?).max(0.0)));
        let measured = seconds.filter(|_| matches!(time.base, TimeBase::Monotonic | TimeBase::Wall) && !shared);
        Some(Refill {
            since_line: calls.line[last],
            from,
            gained: Level { tokens: before.tokens - from.tokens, error: 2.0 * error },
            seconds,
            error_s: seconds.and(time.error_s),
            lower_bound: timeline.breaks.iter().any(|&gap| then < gap && gap <= at),
            expected: measured
                .zip(bucket)
                .map(|(passed, (rate, room))| (rate * passed).min((room - from.tokens).max(0.0))),
        })
    });
    let waited_ns = calls.wait_ns[i].filter(|&ns| ns > 0);
    let waits = process.policy.as_deref() == Some("wait") || waited_ns.is_some();
    // A level that is held at zero does not show what was lacking; the time does.
    let exact = error == 0.0 && cost > 0.0 && !waits && time.base == TimeBase::Monotonic;
    let there = refill.filter(|_| exact).and_then(|refill| Some((refill.from.tokens, refill.expected?)));
    let lacking = there.zip(bucket).filter(|((from, gained), (rate, _))| from + gained < 1.0 - 1e-6 - rate * 2e-9);
    if let (Some(((from, gained), _)), Some(refill), Some(before)) = (lacking, &mut refill, &mut before) {
        (before.tokens, refill.gained.tokens) = (from + gained, gained);
    }
    // Of tokens that others wait for the level tells nothing.
    let due = bucket.zip(after).filter(|_| !waits).map(|((rate, capacity), after)| {
        let in_ns = Bucket::holding(rate, capacity, after.tokens, 0).due_in_ns();
        let in_s = in_ns.map(|ns| ns as f64 / 1e9);
        Due {
            in_s,
            error_s: if after.tokens - error >= 1.0 { 0.0 } else { error / rate },
            at_s: time.at_s.zip(in_s).map(|(at, due)| at + due),
            wall_ns: time.wall_ns.zip(in_ns).and_then(|(at, due)| at.checked_add_unsigned(due)),
        }
    });
    let denied = calls.outcome[i] == Outcome::Denied;
    let why = match (process.bucket, before) {
        (Limit::Off, _) => LaunchWhy::NotLimited,
        _ if calls.bypass[i] => LaunchWhy::NeedsNone,
        (Limit::Unknown, _) => LaunchWhy::LimitUnknown,
        (_, None) => LaunchWhy::LevelUnknown,
        _ if waited_ns.is_some() && !denied => LaunchWhy::Waited,
        (_, Some(before)) => {
            // The digits of a float.
            let (least, most) = (before.tokens - before.error - 1e-6, before.tokens + before.error + 1e-6);
            match denied {
                true if least >= 1.0 => LaunchWhy::DeniedWith,
                false if most < 1.0 => LaunchWhy::PassedWithout,
                true if before.tokens >= 1.0 => LaunchWhy::Rounding,
                false if before.tokens + 1e-6 < 1.0 => LaunchWhy::Rounding,
                true => LaunchWhy::NoToken,
                false => LaunchWhy::Token,
            }
        }
    };
    let (rate, capacity) = bucket.unzip();
    Launch { why, rate, capacity, shared, before, refill, cost, after, waited_ns, due }
}
