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

/// Amounts, summed up.
#[derive(Default)]
struct Amounts {
    count: usize,
    sum: f64,
    squares: f64,
}

impl Amounts {
    fn add(&mut self, amount: f64) {
        self.count += 1;
        self.sum += amount;
        self.squares += amount * amount;
    }

    /// Jain's index of them; `None` where nothing was given out.
    fn jain(&self) -> Option<f64> {
        (self.squares > 0.0).then(|| self.sum * self.sum / (self.count as f64 * self.squares))
    }
}

impl Share {
    fn of(amounts: &Amounts) -> Share {
        let processes = amounts.count;
        let index = amounts.jain().filter(|_| processes > 1);
        let why = match (index, processes) {
            (Some(_), _) => None,
            (None, 0) => Some(("no launch asked for a token", "没有需要令牌的启动")),
            (None, 1) => Some(("one process alone", "只有一个进程")),
            (None, _) => Some(("no launch was let through", "没有放行的启动")),
        };
        Share { processes, index, why: why.map(|(en, zh)| Note::new(en, zh)) }
    }
}

/// What processes got, one after the other.
#[derive(Default)]
pub(super) struct Shares<'a> {
    all: Amounts,
    /// In the order of their first processes; there may be many.
    buckets: Vec<(&'a str, Amounts, Rates)>,
    places: HashMap<(Option<u64>, Option<&'a str>, &'a str), usize>,
}

/// Launches let through a second of each, or why they can't be told.
type Rates = Result<Amounts, (&'static str, &'static str)>;

impl<'a> Shares<'a> {
    /// Takes a process in.
    pub(super) fn take(&mut self, process: &'a Process, fold: &Fold) {
        if fold.denials.asked == 0 {
            return;
        }
        let admitted = fold.denials.admitted as f64;
        self.all.add(admitted);
        let Some(name) = process.shared.as_deref() else { return };
        let new = self.buckets.len();
        let place = *self.places.entry((process.job, process.host.as_deref(), name)).or_insert(new);
        if place == new {
            self.buckets.push((name, Amounts::default(), Ok(Amounts::default())));
        }
        let (_, launches, rates) = &mut self.buckets[place];
        launches.add(admitted);
        if let Ok(all) = rates {
            match seconds(process, fold) {
                Ok(seconds) => all.add(admitted / seconds),
                Err(why) => *rates = Err(why),
            }
        }
    }

    /// Between all of them.
    pub(super) fn fairness(self) -> Fairness {
        let shared = self.buckets.into_iter().map(|(name, launches, rates)| SharedBucket {
            name: name.to_owned(),
            launches: Share::of(&launches),
            per_second: rates.map_or_else(
                |(en, zh)| Share { processes: launches.count, index: None, why: Some(Note::new(en, zh)) },
                |rates| Share::of(&rates),
            ),
        });
        Fairness { shared: shared.collect(), all: Share::of(&self.all) }
    }
}

/// The time in which a process asked, s, or why it can't be told.
fn seconds(process: &Process, fold: &Fold) -> Result<f64, (&'static str, &'static str)> {
    let base = fold.clock.base(process);
    // Tokens of a bucket that others draw on are no clock.
    let span = fold.denials.span(base).filter(|_| base != TimeBase::Inferred);
    match span {
        _ if fold.late() > 0 => Err(("records out of order", "记录的次序无法恢复")),
        None => Err(("the log tells no time", "日志中没有时间")),
        Some((_, true)) => Err(("the clock was set back", "时钟曾被回拨")),
        Some((span, _)) if span <= 0.0 => {
            Err(("the launches of a process are of one moment", "有进程的启动都在同一时刻"))
        }
        Some((span, _)) => Ok(span),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(amounts: &[f64]) -> Amounts {
        let mut all = Amounts::default();
        amounts.iter().for_each(|&amount| all.add(amount));
        all
    }

    #[test]
    fn all_alike_is_one_and_all_to_one_is_one_nth() {
        let jain = |amounts: &[f64]| of(amounts).jain();
        assert_eq!(jain(&[5.0, 5.0, 5.0]), Some(1.0));
        assert_eq!(jain(&[4.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain(&[0.0, 0.0]), None);
        // The report's own example: 1 to one half of the users, 0 to the other.
        assert_eq!(jain(&[1.0, 0.0]), Some(0.5));
        let alone = Share::of(&of(&[3.0]));
        assert_eq!((alone.index, alone.why.unwrap().en), (None, "one process alone".to_owned()));
    }
}
