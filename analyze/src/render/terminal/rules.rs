//! The rules: each, or those that one should look at.

use std::fmt::Write;

use super::super::Lang;
use crate::analysis::summary::Summary;
use crate::analysis::{Check, Status};

/// A line each.
pub(super) fn each(out: &mut String, s: &Summary, lang: Lang) {
    s.checks.iter().for_each(|check| one(out, check, lang));
}

/// Broken rules, and those that a line of the log keeps from being judged; of the others how many they are.
pub(super) fn brief(out: &mut String, s: &Summary, lang: Lang) {
    let is_told =
        |check: &&Check| check.status == Status::Fail || check.status == Status::NotApplicable && check.line.is_some();
    s.checks.iter().filter(is_told).for_each(|check| one(out, check, lang));
    let count = |status: Status| s.checks.iter().filter(|c| c.status == status && !is_told(c)).count();
    let rules = |n: usize| if n == 1 { "rule" } else { "rules" };
    match (lang, count(Status::Pass)) {
        (_, 0) => {}
        (Lang::Zh, n) => line!(out, "✓ {n} 条规则相符 (逐条见 --check)"),
        (Lang::En, n) => line!(out, "✓ {n} {} kept (--check lists each)", rules(n)),
    }
    match (lang, count(Status::NotApplicable)) {
        (_, 0) => {}
        (Lang::Zh, n) => line!(out, "– {n} 条规则不适用 (原因见 --check)"),
        (Lang::En, n) => line!(out, "– {n} {} not applicable (--check tells why)", rules(n)),
    }
}

fn one(out: &mut String, check: &Check, lang: Lang) {
    let mark = match check.status {
        Status::Pass => "✓",
        Status::Fail => "✗",
        Status::NotApplicable => "–",
    };
    line!(out, "{mark} {}: {}", check.id, lang.pick(&check.detail_zh, &check.detail));
}
