//! The course's malloc demonstration (its module 3): a hook on `malloc` with a quota, for those without a GPU.
//!
//! ```text
//! [HOOK] malloc(41943040) → 0x7fb936e59010  (已用 41947136 / 104857600, 40.0%)
//! [QUOTA EXCEEDED] malloc(31457280 bytes) 被拒绝
//!   已用: 83890176 / 配额: 104857600 (80.0%)
//!   类比: HAMi 中 cuMemAlloc 超配额 → 返回 CUDA_ERROR_OUT_OF_MEMORY
//! ```
//!
//! and its first exercise's `[HOOK] malloc(64) = 0x55d0  (累计: 64 bytes)`. What it calls used is everything that was
//! ever granted: its `free` gives nothing back. So that is no total of live memory, and none is read from it.

use std::sync::LazyLock;

use hook_event::{Kind, Outcome, Refusal, Scope};
use regex::Regex;

use super::{At, Ledger, address, pattern};
use crate::events::{Limit, Row};

/// A line of the demonstration.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::parse) enum Line {
    /// Memory was granted; bytes granted so far, and the quota.
    Granted { size: u64, ptr: u64, used: u64, quota: Option<u64> },
    /// A request was refused.
    Refused { size: u64 },
    /// Why: bytes granted so far, and the quota.
    Because { used: u64, quota: u64 },
    /// The comparison with HAMi that follows.
    Comparison,
}

impl Line {
    pub(super) fn is_call(&self) -> bool {
        matches!(self, Line::Granted { .. } | Line::Refused { .. })
    }
}

static GRANTED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?x)^\[HOOK\]\x20 malloc\( ([0-9]+) \) \x20(?: → | = )\x20 (0[xX][0-9a-fA-F]+|\(nil\)) \s+
          \( (?: 已用\x20 ([0-9]+) \x20/\x20 ([0-9]+),\x20 [0-9.,]+% | 累计:\x20 ([0-9]+) \x20bytes ) \) \s*$",
    )
});
static REFUSED: LazyLock<Regex> = LazyLock::new(|| pattern(r"^\[QUOTA EXCEEDED\] malloc\(([0-9]+) bytes\) 被拒绝\s*$"));
/// What a refusal begins with.
pub(super) const REFUSAL: &str = "[QUOTA EXCEEDED]";
static BECAUSE: LazyLock<Regex> = LazyLock::new(|| pattern(r"^\s*已用: ([0-9]+) / 配额: ([0-9]+) \([0-9.,]+%\)\s*$"));
const COMPARISON: &str = "类比: HAMi 中 cuMemAlloc";

/// Calls that may wait for the quota.
const EARLY: usize = 4096;

/// Reads a line.
pub(in crate::parse) fn read(line: &str) -> Option<Line> {
    if let Some(c) = GRANTED.captures(line) {
        let used = c.get(3).or(c.get(5))?.as_str().parse().ok()?;
        let quota = c.get(4).map(|quota| quota.as_str().parse()).transpose().ok()?;
        return Some(Line::Granted { size: c[1].parse().ok()?, ptr: address(&c[2])?, used, quota });
    }
    if let Some(c) = REFUSED.captures(line) {
        return Some(Line::Refused { size: c[1].parse().ok()? });
    }
    if let Some(c) = BECAUSE.captures(line) {
        return Some(Line::Because { used: c[1].parse().ok()?, quota: c[2].parse().ok()? });
    }
    line.trim_start().starts_with(COMPARISON).then_some(Line::Comparison)
}

/// Calls in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct Reader {
    /// The process at work.
    process: Option<Running>,
    /// A refusal that waits for its reason.
    refused: Option<Row>,
    /// Calls that wait for the quota, for calls are judged by it as they are entered.
    early: Vec<Row>,
}

/// A process at work.
#[derive(Clone, Copy, Debug)]
struct Running {
    number: usize,
    /// What it was granted so far.
    used: u64,
    /// Too many calls have waited for its quota.
    without: bool,
}

impl Reader {
    pub(super) fn take(&mut self, ledger: &mut dyn Ledger, at: At, said: Line) {
        match said {
            Line::Granted { size, ptr, used, quota } => {
                self.give_up(ledger);
                // What was granted never shrinks: a lower figure is another run's.
                if self.process.is_some_and(|process| used < process.used) {
                    self.finish(ledger);
                    self.process = None;
                }
                self.open(ledger, at).used = used;
                self.quota(ledger, quota);
                let row = at.row(ledger.name("malloc"), Kind::Alloc, Outcome::Ok);
                self.enter(ledger, Row { size: Some(size), ptr: Some(ptr), ..row });
            }
            Line::Refused { size } => {
                self.give_up(ledger);
                self.open(ledger, at);
                let row = at.row(ledger.name("malloc"), Kind::Alloc, Outcome::Denied);
                self.refused = Some(Row { size: Some(size), ..row });
            }
            Line::Because { used, quota } => {
                if let (Some(row), Some(process)) = (self.refused.take(), &mut self.process) {
                    process.used = used;
                    self.quota(ledger, Some(quota));
                    let refusal = Refusal { scope: Scope::Process, quota, total: used, pending: 0 };
                    self.enter(ledger, Row { quota: Some(quota), refusal: Some(refusal), ..row });
                }
            }
            Line::Comparison => {}
        }
    }

    /// Nothing more is waited for.
    pub(super) fn finish(&mut self, ledger: &mut dyn Ledger) {
        self.give_up(ledger);
        self.enter_early(ledger);
    }

    /// A refusal whose reason did not come.
    fn give_up(&mut self, ledger: &mut dyn Ledger) {
        if let Some(row) = self.refused.take() {
            self.enter(ledger, row);
        }
    }

    fn open(&mut self, ledger: &mut dyn Ledger, at: At) -> &mut Running {
        self.process.get_or_insert_with(|| {
            let number = ledger.open(at.process());
            Running { number, used: 0, without: false }
        })
    }

    /// The first that is stated counts.
    fn quota(&mut self, ledger: &mut dyn Ledger, quota: Option<u64>) {
        let (Some(quota), Some(Running { number, without: false, .. })) = (quota, self.process) else { return };
        let process = ledger.process(number);
        if process.quota == Limit::Unknown {
            process.quota = Limit::At(quota);
            self.enter_early(ledger);
        }
    }

    fn enter(&mut self, ledger: &mut dyn Ledger, row: Row) {
        let Some(process) = &mut self.process else { return };
        if process.without || ledger.process(process.number).quota != Limit::Unknown {
            ledger.call(process.number, row);
            return;
        }
        self.early.push(row);
        if self.early.len() > EARLY {
            process.without = true;
            self.enter_early(ledger);
        }
    }

    fn enter_early(&mut self, ledger: &mut dyn Ledger) {
        let Some(process) = self.process else { return };
        self.early.drain(..).for_each(|row| ledger.call(process.number, row));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::book;
    use super::*;

    #[test]
    fn the_demonstration_is_three_requests_the_last_refused() {
        // grep -c 'malloc(' is 3, of them 1 behind `[QUOTA EXCEEDED]`.
        let text = include_str!("../../../tests/data/nogpu_malloc.log");
        let (book, other, torn) = book(text);
        assert_eq!((book.processes.len(), book.calls.len(), torn.len()), (1, 3, 0));
        assert_eq!(book.processes[0].quota, Limit::At(104_857_600));
        let sizes: Vec<_> = book.calls.iter().map(|(_, row)| (row.line, row.size, row.outcome)).collect();
        let (ok, denied) = (Outcome::Ok, Outcome::Denied);
        assert_eq!(sizes, [(2, Some(41_943_040), ok), (6, Some(41_943_040), ok), (11, Some(31_457_280), denied)]);
        assert_eq!(
            book.calls[2].1.refusal,
            Some(Refusal { scope: Scope::Process, quota: 104_857_600, total: 83_890_176, pending: 0 })
        );
        assert_eq!(book.calls[0].1.total, None, "`已用` is what was ever granted");
        assert_eq!(other.len() + 5, text.lines().count());
    }

    #[test]
    fn a_refusal_without_its_reason_counts_and_a_lower_sum_is_another_run() {
        let granted = "[HOOK] malloc(64) = 0x55d0  (累计: 64 bytes)\n";
        let (book, ..) = book(&format!("{granted}{granted}[QUOTA EXCEEDED] malloc(9 bytes) 被拒绝\n"));
        assert_eq!((book.processes.len(), book.calls.len()), (1, 3));
        assert_eq!((book.calls[2].1.quota, book.processes[0].quota), (None, Limit::Unknown));
        let more = "[HOOK] malloc(64) = 0x55d0  (累计: 128 bytes)\n";
        assert_eq!(super::super::tests::book(&format!("{more}{granted}")).0.processes.len(), 2);
        // A quota that a refusal tells is that of the calls before it as well.
        let refused = "[QUOTA EXCEEDED] malloc(9 bytes) 被拒绝\n  已用: 64 / 配额: 70 (91.4%)\n";
        let (book, ..) = super::super::tests::book(&format!("{granted}{refused}"));
        assert_eq!((book.calls.len(), book.processes[0].quota), (2, Limit::At(70)));
        assert_eq!((book.calls[0].1.line, book.calls[1].1.line), (1, 2));
        for line in ["[HOOK] malloc(419", "[HOOK] malloc(41943040) → 0x7f  (已用 41", "[QUOTA EXCEEDED] malloc(3145"]
        {
            assert_eq!(read(line), None, "{line}");
        }
    }
}
