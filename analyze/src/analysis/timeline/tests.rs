use hook_event::Outcome;

use super::*;
use crate::events::{Limit, Row};

fn launches(levels: &[(f64, Outcome)]) -> (Columns, Process) {
    let mut calls = Columns::default();
    for &(tokens, outcome) in levels {
        calls.push(Row { tokens: Some(tokens), ..Row::bare(0, 1, 0, Kind::Launch, outcome) });
    }
    let process = Process { rows: 0..levels.len(), bucket: Limit::At((5.0, 3.0)), ..Process::default() };
    (calls, process)
}

#[test]
fn growth_of_tokens_is_time_and_a_full_bucket_makes_it_a_bound() {
    use Outcome::{Denied, Ok};
    // The levels of a real run whose first launch took 96 ms: 2.0, 1.5, 0.5, refused, and 1.5 s later full again.
    let (calls, process) = launches(&[(2.0, Ok), (1.5, Ok), (0.5, Ok), (0.5, Denied), (2.0, Ok), (1.0, Ok)]);
    let timeline = of(&calls, &process);
    assert_eq!(timeline.base, TimeBase::Inferred);
    let want = [0.0, 0.1, 0.1, 0.1, 0.6, 0.6];
    for (at, want) in timeline.at.iter().zip(want) {
        assert!((at - want).abs() < 1e-9, "{:?}", timeline.at);
    }
    assert!(timeline.lower_bound);
    assert_eq!((timeline.gaps, &timeline.breaks[..], timeline.error_s), (1, &[4][..], Some(0.1 / 5.0)));
}

fn stamped(stamps: &[Option<i64>]) -> Timeline {
    let mut calls = Columns::default();
    for &wall_ns in stamps {
        calls.push(Row { wall_ns, tokens: Some(1.0), ..Row::bare(0, 1, 0, Kind::Launch, Outcome::Ok) });
    }
    let process = Process { rows: 0..stamps.len(), bucket: Limit::At((5.0, 3.0)), ..Process::default() };
    of(&calls, &process)
}

#[test]
fn stamps_before_lines_are_time_to_their_last_digit() {
    const MS: i64 = 1_000_000;
    let timeline = stamped(&[Some(7_000 * MS), None, Some(7_250 * MS), Some(7_250 * MS), Some(9_000 * MS)]);
    assert_eq!((timeline.base, &timeline.at[..]), (TimeBase::Wall, &[0.0, 0.0, 0.25, 0.25, 2.0][..]));
    assert_eq!((timeline.error_s, timeline.duration_s, timeline.gaps), (Some(1e-3), Some(2.0), 0));
    // A stray one among lines without any is none.
    assert_eq!(stamped(&[Some(7 * MS), None, None]).base, TimeBase::Inferred);
    assert_eq!(stamped(&[Some(0), Some(1)]).error_s, Some(1e-9));
}

#[test]
fn a_wall_clock_that_steps_back_makes_no_negative_time() {
    const S: i64 = 1_000_000_000;
    // Two writers' lines out of order; then a clock that is set back by an hour, before 1970 even.
    let timeline = stamped(&[Some(0), Some(S), Some(S / 2), Some(2 * S), Some(-3600 * S), Some(-3597 * S)]);
    assert_eq!(timeline.at, [0.0, 1.0, 1.0, 2.0, 2.0, 5.0]);
    assert_eq!((&timeline.breaks[..], timeline.lower_bound, timeline.gaps), (&[4][..], true, 1));
    assert_eq!(stamped(&[Some(i64::MAX), Some(i64::MIN), Some(i64::MAX)]).gaps, 1);
}

#[test]
fn rounding_does_not_add_up_over_a_stretch() {
    // A refused launch every 7 ms gains 0.035 tokens, which one decimal hides or doubles.
    let levels: Vec<_> = (0..20).map(|i| ((f64::from(i) * 0.035 * 10.0).round() / 10.0, Outcome::Denied)).collect();
    let (calls, process) = launches(&levels);
    let timeline = of(&calls, &process);
    assert!(!timeline.lower_bound);
    for (i, at) in timeline.at.iter().enumerate() {
        assert!((at - i as f64 * 0.007).abs() <= 0.1 / 5.0, "{i}: {at}");
    }
}

#[test]
fn without_a_rate_calls_are_only_numbered() {
    let (calls, process) = launches(&[(0.0, Outcome::Ok), (0.0, Outcome::Ok)]);
    let timeline = of(&calls, &Process { bucket: Limit::Off, ..process });
    assert_eq!((timeline.base, timeline.at, timeline.duration_s), (TimeBase::Sequence, vec![1.0, 2.0], None));
}
