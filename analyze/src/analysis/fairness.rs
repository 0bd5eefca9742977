//! How evenly processes were served, by Jain's index: (Σx)² / (n Σx²), which is 1 where all got the same and 1/n where one
//! got all (R. Jain, D. Chiu, W. Hawe, "A Quantitative Measure of Fairness and Discrimination for Resource Allocation in
//! Shared Computer Systems", DEC-TR-301, 1984).
//!
//! What is shared out are launches: those that asked for a token and were let through. Processes that asked for none
//! take no part.

use std::collections::HashMap;

use serde::Serialize;

use super::fold::Fold;
use super::timeline::TimeBase;
use crate::events::{Note, Process};

/// How evenly launches were let through.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fairness {
    /// Between all processes whose launches asked for a token.
    #[serde(flatten)]
    pub all: Share,
    /// Between those that share a bucket.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shared: Vec<SharedBucket>,
}

/// An index, or why there is none.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Share {
    /// Processes that asked.
    pub processes: usize,
    /// Jain's index, above 0 to 1.
    pub index: Option<f64>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<Note>,
}

/// Processes that share a bucket.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SharedBucket {
    /// The name under which they do.
    pub name: String,
    /// Over the launches let through of each.
    pub launches: Share,
    /// Over those a second, from a process's first launch that asked to its last: one that ran for a shorter time is
    /// not counted as one that got less.
    pub per_second: Share,
}

/// Jain's index of amounts; `None` where nothing was given out.
fn jain(amounts: &[f64]) -> Option<f64> {
    let (sum, squares) = amounts.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    (squares > 0.0).then(|| sum * sum / (amounts.len() as f64 * squares))
}

impl Share {
    fn of(amounts: &[f64]) -> Share {
        let processes = amounts.len();
        let index = jain(amounts).filter(|_| processes > 1);
        let why = match (index, processes) {
            (Some(_), _) => None,
            (None, 0) => Some(("no launch asked for a token", "没有需要令牌的启动")),
            (None, 1) => Some(("one process alone", "只有一个进程")),
            (None, _) => Some(("no launch was let through", "没有放行的启动")),
        };
        Share { processes, index, why: why.map(|(en, zh)| Note::new(en, zh)) }
    }
}

/// Between the processes of `folds`.
pub(super) fn fairness(processes: &[Process], folds: &[Box<Fold>]) -> Fairness {
    let asked: Vec<(&Process, &Fold)> =
        processes.iter().zip(folds.iter().map(Box::as_ref)).filter(|(_, fold)| fold.denials.asked > 0).collect();
    // In the order of their first processes; there may be many.
    let mut buckets: Vec<(&str, Vec<(&Process, &Fold)>)> = Vec::new();
    let mut places = HashMap::new();
    for &(process, fold) in &asked {
        let Some(name) = &process.shared else { continue };
        let place = *places.entry((process.job, &process.host, name)).or_insert(buckets.len());
        if place == buckets.len() {
            buckets.push((name, Vec::new()));
        }
        buckets[place].1.push((process, fold));
    }
    let shared = buckets.into_iter().map(|(name, of)| SharedBucket {
        name: name.to_owned(),
        launches: Share::of(&admitted(&of)),
        per_second: per_second(&of),
    });
    Fairness { all: Share::of(&admitted(&asked)), shared: shared.collect() }
}

fn admitted(of: &[(&Process, &Fold)]) -> Vec<f64> {
    of.iter().map(|(_, fold)| fold.denials.admitted as f64).collect()
}

fn per_second(of: &[(&Process, &Fold)]) -> Share {
    let none = |en: &str, zh: &str| Share { processes: of.len(), index: None, why: Some(Note::new(en, zh)) };
    let mut rates = Vec::new();
    for (process, fold) in of {
        let base = fold.clock.base(process);
        // Tokens of a bucket that others draw on are no clock.
        let span = fold.denials.span(base).filter(|_| base != TimeBase::Inferred);
        match span {
            _ if fold.late() > 0 => return none("records out of order", "记录的次序无法恢复"),
            None => return none("the log tells no time", "日志中没有时间"),
            Some((_, true)) => return none("the clock was set back", "时钟曾被回拨"),
            Some((span, _)) if span <= 0.0 => {
                return none("the launches of a process are of one moment", "有进程的启动都在同一时刻");
            }
            Some((span, _)) => rates.push(fold.denials.admitted as f64 / span),
        }
    }
    Share::of(&rates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_alike_is_one_and_all_to_one_is_one_nth() {
        assert_eq!(jain(&[5.0, 5.0, 5.0]), Some(1.0));
        assert_eq!(jain(&[4.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain(&[0.0, 0.0]), None);
        // The report's own example: 1 to one half of the users, 0 to the other.
        assert_eq!(jain(&[1.0, 0.0]), Some(0.5));
        let alone = Share::of(&[3.0]);
        assert_eq!((alone.index, alone.why.unwrap().en), (None, "one process alone".to_owned()));
    }
}
