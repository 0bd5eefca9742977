//! What a log shows of the bucket's filling up: how fast, and how far after a pause.

use hook_event::Kind;
use serde::Serialize;

use super::summary::Analysis;
use super::timeline::TimeBase;
use crate::events::Events;

/// Tokens gained in all below which a speed would be made of rounding (records have nine decimals).
const TOO_LITTLE: f64 = 1e-4;

/// A level this near to the capacity is a full bucket: printed levels have one decimal.
const ROUNDING: f64 = 0.05 + 1e-9;

/// What the launches of a log show of refilling. All from launches that follow each other in one process with a bucket of
/// its own; what was gained is the level that a launch found less the level that the one before it left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Refill {
    /// The speed, where records tell exact levels and moments.
    pub speed: Option<Speed>,
    /// The largest gain between two launches.
    pub rise: Option<Rise>,
}

/// The speed of refilling where the bucket was never full.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Speed {
    /// Tokens a second.
    pub rate: f64,
    /// Seconds over which it was seen.
    pub seconds: f64,
    /// Pairs of launches.
    pub pairs: u64,
}

/// A gain between two launches.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rise {
    /// Tokens that the first left.
    pub from: f64,
    /// Tokens that the second found.
    pub to: f64,
    /// Seconds between them, where they were measured.
    pub seconds: Option<f64>,
    /// Whether the bucket was full, so that more can't be seen.
    pub full: bool,
}

/// What `events` show of refilling.
pub fn seen(events: &Events, analysis: &Analysis) -> Refill {
    let calls = &events.calls;
    let (mut gained, mut seconds, mut pairs) = (0.0, 0.0, 0);
    let mut rise: Option<Rise> = None;
    for (process, timeline) in events.processes.iter().zip(&analysis.timelines) {
        let (Some((_, capacity)), None) = (process.bucket.value(), &process.shared) else { continue };
        let measured = timeline.base == TimeBase::Monotonic;
        let mut last: Option<(usize, f64, f64)> = None;
        for (position, i) in process.rows.clone().enumerate() {
            let (Kind::Launch, Some(after)) = (calls.kind[i], calls.tokens[i]) else { continue };
            // While launches wait the bucket owes tokens, which a level does not show.
            if calls.wait_ns[i].is_some_and(|ns| ns > 0) {
                last = None;
                continue;
            }
            let (found, at) = (after + calls.cost(i), timeline.at[position]);
            if let Some((before, left, since)) = last {
                let full = found >= capacity - if calls.is_text(i) { ROUNDING } else { 1e-9 };
                let exact = !calls.is_text(i) && !calls.is_text(before) && at > since;
                if measured && exact && !full && found >= left {
                    gained += found - left;
                    seconds += at - since;
                    pairs += 1;
                }
                if found > left && rise.is_none_or(|most| found - left > most.to - most.from) {
                    rise = Some(Rise { from: left, to: found, seconds: measured.then_some(at - since), full });
                }
            }
            last = Some((i, after, at));
        }
    }
    let speed = (gained > TOO_LITTLE).then(|| Speed { rate: gained / seconds, seconds, pairs });
    Refill { speed, rise }
}
