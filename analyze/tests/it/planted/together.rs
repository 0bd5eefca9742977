//! Rules, explanations and the lab's evidence say the same of a fault.

use hook_analyze::analysis::explain::{self, About, AllocWhy, LaunchWhy};
use hook_analyze::analysis::lab::{self, Standing};
use hook_analyze::analysis::summary::analyse;
use hook_analyze::analysis::{Check, Status};
use hook_analyze::events::Events;
use hook_analyze::parse;
use hook_analyze::parse::look;
use hook_analyze::render::{self, Lang};

use super::hook::Random;
use super::{Form, TABLE};
use crate::common::folder;

const LOGS: u64 = 10;

/// The rows of the rubric that a broken rule leaves open or contradicts.
fn rows(rule: &str) -> &'static [&'static str] {
    match rule {
        "quota-respected" | "denied-only-over-quota" => &["quota-kept"],
        "total-matches" => &["free-subtracts-exactly"],
        "free-of-unknown" => &["free-removes-entry"],
        "starts-full" | "pass-takes-one" => &["burst"],
        "refill-at-rate" => &["recovery-after-refill"],
        "tokens-in-range"
        | "denied-only-when-empty"
        | "denial-takes-none"
        | "passed-only-with-token"
        | "admitted-within-rate" => &["refusal-after-burst"],
        _ => &[],
    }
}

/// Whether what is told of the line can stand beside the broken rule.
fn agrees(events: &Events, checks: &[Check], broken: &Check, line: u64, path: &std::path::Path) -> Result<(), String> {
    let explanation = explain::line(events, 0, line, look::look(path, line).unwrap(), checks);
    for (lang, said) in [(Lang::En, "breaks the rule"), (Lang::Zh, "违反规则")] {
        let text = render::explain::text(&explanation, lang);
        if !text.contains(&format!("{said} {}", broken.id)) {
            return Err(text);
        }
    }
    let fits = explanation.calls.iter().all(|call| match (broken.id, &call.about) {
        ("denied-only-when-empty", About::Launch(launch)) => launch.why == LaunchWhy::DeniedWith,
        ("passed-only-with-token", About::Launch(launch)) => launch.why == LaunchWhy::PassedWithout,
        ("quota-respected", About::Alloc(alloc)) => alloc.why == AllocWhy::PassedThoughExceeds,
        ("denied-only-over-quota", About::Alloc(alloc)) => alloc.why == AllocWhy::DeniedThoughFits,
        _ => true,
    });
    if fits && !explanation.calls.is_empty() { Ok(()) } else { Err(format!("{explanation:?}")) }
}

#[test]
fn rules_explanations_and_evidence_do_not_contradict_each_other() {
    let mut told = 0;
    for (fault, _, _, program) in TABLE {
        for seed in 0..LOGS {
            let hook = program(fault, seed);
            for form in [Form::Text, Form::Stamped, Form::Records] {
                let (name, log) = match form {
                    Form::Text => ("a.log", hook.text()),
                    Form::Stamped => ("a.log", hook.stamped(&mut Random::new(seed))),
                    Form::Records => ("a.jsonl", hook.records()),
                };
                let folder = folder(&[(name, log.as_bytes())]);
                let path = folder.path().join(name);
                let events = parse::read(std::slice::from_ref(&path), None).unwrap();
                let analysis = analyse(&events);
                let (checks, lab) = (&analysis.summary.checks, lab::of(&events, &analysis));
                for check in checks.iter().filter(|check| check.status == Status::Fail) {
                    let what = || format!("{fault:?} {form:?} seed {seed}: {check:?}");
                    if let Some(line) = check.line {
                        told += 1;
                        agrees(&events, checks, check, line, &path).unwrap_or_else(|why| panic!("{}\n{why}", what()));
                    }
                    for row in rows(check.id) {
                        let row = lab.row(row).unwrap();
                        assert_ne!(row.status, Standing::Shown, "{}\n{row:?}", what());
                    }
                }
            }
        }
    }
    assert!(told > LOGS * 3 * 12, "{told}");
}
