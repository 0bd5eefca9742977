//! Limiters with one fault each: every fault must break its rule wherever it can be seen, and a sound limiter none.

mod hook;

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

/// A fault, its rules, and how many logs of 300 show it by text alone, with stamps, and by records.
type Row = (Fault, &'static [&'static str], [u64; 3]);

/// What can't be seen is 0: a bucket that refills at another rate shows in lines no more than one that is asked at other
/// times; whole tokens are what a quick program gets; and totals that are right again at the end may be the disorder of threads.
const TABLE: [Row; 18] = [
    (Fault::NoRefill, &["refill-at-rate"], [0, 300, 300]),
    (Fault::NoClamp, &["tokens-in-range"], [300, 300, 300]),
    (Fault::TwoTokens, &["pass-takes-one"], [300, 300, 300]),
    (Fault::ChargesDenials, &["denial-takes-none"], [246, 246, 300]),
    (Fault::NegativeTokens, &["tokens-in-range"], [246, 246, 300]),
    (Fault::DeniesWithTokens, &["denied-only-when-empty"], [246, 246, 300]),
    (Fault::EmptyStart, &["starts-full"], [131, 131, 300]),
    (Fault::DoubleRate, &["refill-at-rate"], [0, 296, 300]),
    (Fault::HalfRate, &["refill-at-rate"], [0, 300, 300]),
    (Fault::WholeTokens, &["refill-at-rate"], [0, 270, 300]),
    (Fault::PassesWithout, &["passed-only-with-token"], [0, 190, 300]),
    (Fault::QuotaOffByOne, &["quota-respected"], [300, 300, 300]),
    (Fault::DeniesWithRoom, &["denied-only-over-quota"], [300, 300, 300]),
    (Fault::FreeNotSubtracted, &["total-matches"], [300, 300, 300]),
    (Fault::FreedTwice, &["free-of-unknown", "total-matches"], [300, 300, 300]),
    (Fault::WrongTotal, &["total-matches"], [0, 0, 300]),
    (Fault::LostUpdate, &["total-matches"], [300, 300, 300]),
    (Fault::TableOf256, &["live-blocks", "total-matches"], [300, 300, 300]),
];

#[test]
fn each_fault_breaks_its_own_rule() {
    let mut missed = Vec::new();
    for (fault, rules, least) in TABLE {
        let mut found = [0u64; 3];
        for seed in 0..LOGS {
            let hook = program(fault, BUCKET, false, seed);
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

/// Of the course's own program it is known that it sleeps, so there text alone shows a bucket that is never refilled.
#[test]
fn the_courses_program_shows_a_bucket_that_is_never_refilled() {
    for seed in 0..LOGS {
        let found = broken("a.log", &course_program(Fault::NoRefill, BUCKET, seed).text(), seed);
        assert!(found.iter().any(|(id, _)| *id == "refill-at-rate"), "seed {seed}: {found:?}");
        for bucket in BUCKETS {
            let sound = broken("a.log", &course_program(Fault::None, bucket, seed).text(), seed);
            assert!(sound.is_empty(), "{bucket:?} seed {seed}: {sound:?}");
        }
    }
}

/// Why that is so of no other program: one that is quick gets the very same lines from a sound bucket.
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
