//! Limiters with one fault each: every fault must break its rule wherever it can be seen, and a sound limiter none.

mod hook;
mod together;

use hook_analyze::analysis::Status;
use hook_analyze::analysis::summary::analyse;
use hook_analyze::parse;

use crate::common::{folder, load};
use hook::{Fault, Hook, Random, course_program, program, threads};

const LOGS: u64 = 300;
const BUCKET: (f64, f64) = (5.0, 3.0);
const BUCKETS: [(f64, f64); 6] = [BUCKET, (0.4, 1.0), (1000.0, 50.0), (17.3, 2.5), (250.0, 4.0), (3.0, 12.0)];

/// The rules that a log breaks. Some logs are read in both ways, which must agree.
fn broken(name: &str, log: &str, seed: u64) -> Vec<(&'static str, String)> {
    let folder = folder(&[(name, log.as_bytes())]);
    let path = folder.path().join(name);
    let checks = if seed.is_multiple_of(25) {
        load(&path).1.summary.checks
    } else {
        analyse(&parse::read(&[path], None).unwrap()).summary.checks
    };
    let broken = checks.into_iter().filter(|check| check.status == Status::Fail);
    broken.map(|check| (check.id, check.detail)).collect()
}

/// The forms in which a log may be there.
#[derive(Clone, Copy, Debug)]
enum Form {
    Text,
    Stamped,
    Records,
}

fn broken_as(form: Form, hook: &Hook, seed: u64) -> Vec<(&'static str, String)> {
    match form {
        Form::Text => broken("a.log", &hook.text(), seed),
        Form::Stamped => broken("a.log", &hook.stamped(&mut Random::new(seed)), seed),
        Form::Records => broken("a.jsonl", &hook.records(), seed),
    }
}

fn sound(forms: &[Form], waits: bool) {
    for bucket in BUCKETS {
        for seed in 0..LOGS {
            let hook = program(Fault::None, bucket, waits, seed);
            for &form in forms {
                let broken = broken_as(form, &hook, seed);
                assert!(
                    broken.is_empty(),
                    "{form:?} {bucket:?} waits {waits} seed {seed}: {broken:?}\n{}",
                    hook.text()
                );
            }
        }
    }
}

#[test]
fn a_sound_limiter_breaks_no_rule() {
    sound(&[Form::Text, Form::Stamped, Form::Records], false);
}

#[test]
fn a_sound_limiter_that_waits_breaks_no_rule() {
    sound(&[Form::Text, Form::Stamped], true);
}

#[test]
fn lines_of_many_threads_break_no_rule() {
    for bucket in BUCKETS {
        for seed in 0..LOGS {
            for (waits, stamped, every) in [(false, false, 1), (false, true, 3), (true, false, 3)] {
                if seed % every != 0 {
                    continue;
                }
                let log = threads(bucket, waits, stamped, seed);
                let broken = broken("a.log", &log, seed);
                assert!(broken.is_empty(), "{bucket:?} waits {waits} seed {seed}: {broken:?}\n{log}");
            }
        }
    }
}

/// A fault, its rules, and how many logs of 300 show it by text alone, with stamps, and by records; and the program.
type Row = (Fault, &'static [&'static str], [u64; 3], Program);
type Program = fn(Fault, u64) -> Hook;

/// Any program, quick or slow.
const ANY: Program = |fault, seed| program(fault, BUCKET, false, seed);
/// The course's, of which it is known that it sleeps.
const COURSES: Program = |fault, seed| course_program(fault, BUCKET, seed);

/// What text alone can't show is 0:
/// - a bucket that is never refilled prints for a slow program what a sound one prints for a quick one
///   (`a_bucket_that_is_never_refilled_prints_what_a_quick_program_gets`), so only a program that is known to sleep shows it;
/// - one that refills at another rate, or lets launches pass with half a token, prints what a sound one prints at other times;
/// - whole tokens are what a program gets that asks at such moments;
/// - totals that are wrong and right again are those of lines out of order, or of two processes in one log.
const TABLE: [Row; 19] = [
    (Fault::NoRefill, &["refill-at-rate"], [300, 300, 300], COURSES),
    (Fault::NoRefill, &["refill-at-rate"], [0, 300, 300], ANY),
    (Fault::NoClamp, &["tokens-in-range"], [300, 300, 300], ANY),
    (Fault::TwoTokens, &["pass-takes-one"], [300, 300, 300], ANY),
    (Fault::ChargesDenials, &["denial-takes-none"], [280, 280, 300], ANY),
    (Fault::NegativeTokens, &["tokens-in-range"], [300, 300, 300], ANY),
    (Fault::DeniesWithTokens, &["denied-only-when-empty"], [300, 300, 300], ANY),
    (Fault::EmptyStart, &["starts-full"], [280, 280, 300], ANY),
    (Fault::DoubleRate, &["refill-at-rate"], [0, 300, 300], ANY),
    (Fault::HalfRate, &["refill-at-rate"], [0, 300, 300], ANY),
    (Fault::WholeTokens, &["refill-at-rate"], [0, 300, 300], ANY),
    (Fault::PassesWithout, &["passed-only-with-token"], [0, 197, 300], ANY),
    (Fault::QuotaOffByOne, &["quota-respected"], [300, 300, 300], ANY),
    (Fault::DeniesWithRoom, &["denied-only-over-quota"], [300, 300, 300], ANY),
    (Fault::FreeNotSubtracted, &["total-matches"], [300, 300, 300], ANY),
    (Fault::FreedTwice, &["free-of-unknown", "total-matches"], [300, 300, 300], ANY),
    (Fault::WrongTotal, &["total-matches"], [0, 0, 300], ANY),
    (Fault::LostUpdate, &["total-matches"], [300, 300, 300], ANY),
    (Fault::TableOf256, &["live-blocks", "total-matches"], [300, 300, 300], ANY),
];

#[test]
fn each_fault_breaks_its_own_rule() {
    let mut missed = Vec::new();
    for (fault, rules, least, program) in TABLE {
        let mut found = [0u64; 3];
        for seed in 0..LOGS {
            let hook = program(fault, seed);
            for (form, found) in [Form::Text, Form::Stamped, Form::Records].into_iter().zip(&mut found) {
                let broken = broken_as(form, &hook, seed);
                *found += u64::from(rules.iter().all(|rule| broken.iter().any(|(id, _)| id == rule)));
            }
        }
        println!("{fault:?}: {rules:?}: text {}, stamps {}, records {} of {LOGS}", found[0], found[1], found[2]);
        if found.iter().zip(least).any(|(&found, least)| found < least) {
            missed.push((fault, found, least));
        }
    }
    assert!(missed.is_empty(), "{missed:?}");
}

#[test]
fn the_courses_program_under_a_sound_limiter_breaks_no_rule() {
    for seed in 0..LOGS {
        for bucket in BUCKETS {
            let sound = broken("a.log", &course_program(Fault::None, bucket, seed).text(), seed);
            assert!(sound.is_empty(), "{bucket:?} seed {seed}: {sound:?}");
        }
    }
}

/// Why text alone shows a missing refill of no other program: one that is quick gets the very same lines from a sound bucket.
#[test]
fn a_bucket_that_is_never_refilled_prints_what_a_quick_program_gets() {
    let launches = |fault: Fault, gap_ns: u64| {
        let mut hook = Hook::new(fault, BUCKET.0, BUCKET.1, false);
        for _ in 0..60 {
            hook.launch(false);
            hook.now += gap_ns;
        }
        hook.text()
    };
    let (slow, quick) = (launches(Fault::NoRefill, 1_000_000_000), launches(Fault::None, 5000));
    assert_eq!(slow, quick);
    assert!(broken("a.log", &quick, 0).is_empty());
}

/// But no launch takes no time at all.
#[test]
fn a_level_that_never_grows_over_thousands_of_launches_is_a_fault() {
    let mut hook = Hook::new(Fault::NoRefill, 1000.0, 50.0, false);
    (0..8000).for_each(|_| hook.launch(false));
    let found = broken("a.log", &hook.text(), 0);
    assert!(found.iter().any(|(id, _)| *id == "refill-at-rate"), "{found:?}");
}
