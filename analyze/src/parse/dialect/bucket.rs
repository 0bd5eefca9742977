//! The course's token-bucket demonstration (its module 3): a script that plays two containers submitting kernels.
//!
//! ```text
//!   令牌桶算力限制 — 模拟 HAMi cuLaunchKernel 拦截
//!   容器A(高配额): 4 tokens/s, 容量 4
//!   模拟时长: 5s
//!       时间          容器        结果    剩余 token
//!    0.00s    容器A(高配额)      ✓ 启动       3.0
//!    0.60s    容器B(低配额)      ✗ 阻塞       0.6
//!   容器A(高配额): 成功 17/17 (100%), 阻塞 0
//!   Burst (突发) 演示 — 容量=4
//!   速率: 2 tokens/s, 容量: 4
//!   #   1     ✓ 通过    3.0
//! ```
//!
//! A container is a process, a submission a launch. Times are the script's own, from its start, to 10 ms; the burst part
//! has none.

use std::sync::LazyLock;

use hook_event::course::LARGEST;
use hook_event::{Kind, Outcome};
use regex::Regex;

use super::{At, Ledger, pattern};
use crate::events::{Limit, Process, Row};

/// A line of the script.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::parse) enum Line {
    /// The title: a run begins.
    Title,
    /// A container and its bucket.
    Container { name: Box<str>, rate: f64, capacity: f64 },
    /// A submission in the table.
    Row { at_ns: u64, name: Box<str>, passed: bool, tokens: f64 },
    /// What the script itself counted.
    Sum { name: Box<str>, passed: u64, all: u64 },
    /// The second part's title, with the name of its bucket.
    Burst { name: Box<str> },
    /// Its bucket.
    BurstBucket { rate: f64, capacity: f64 },
    /// A submission in the second part.
    BurstRow { passed: bool, tokens: f64 },
    /// Headings and explanations.
    Text,
}

impl Line {
    pub(super) fn is_call(&self) -> bool {
        matches!(self, Line::Row { .. } | Line::BurstRow { .. })
    }
}

/// The call that the script says it plays.
const API: &str = "cuLaunchKernel";

static CONTAINER: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^  (\S.*?): ([0-9]+(?:\.[0-9]+)?) tokens/s, 容量 ([0-9]+(?:\.[0-9]+)?)\s*$"));
static ROW: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^ +([0-9]+)\.([0-9]{2})s +(\S.*?) +(?:(✓ 启动)|✗ 阻塞) +(-?[0-9]+\.[0-9])\s*$"));
static SUM: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^  (\S.*?): 成功 ([0-9]+)/([0-9]+) \([0-9]+%\), 阻塞 ([0-9]+)\s*$"));
static BURST: LazyLock<Regex> = LazyLock::new(|| pattern(r"^  Burst \(突发\) 演示 — (\S.*?)\s*$"));
static BURST_BUCKET: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^  速率: ([0-9]+(?:\.[0-9]+)?) tokens/s, 容量: ([0-9]+(?:\.[0-9]+)?)\s*$"));
static BURST_ROW: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^  # *[0-9]+ +(?:(✓ 通过)|✗ 阻塞) +(-?[0-9]+\.[0-9])\s*$"));
static TEXT: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^ +(?:模拟时长: |策略: |\[阶段 [12]\] |时间 +容器 +结果 |请求 +结果 +剩余)"));

/// Reads a line.
pub(in crate::parse) fn read(line: &str) -> Option<Line> {
    // Every one of them is indented and holds something that is not ASCII.
    if !line.starts_with("  ") || line.is_ascii() {
        return None;
    }
    if let Some(c) = ROW.captures(line) {
        let (seconds, hundredths): (u64, u64) = (c[1].parse().ok()?, c[2].parse().ok()?);
        let at_ns = seconds.checked_mul(1_000_000_000)?.checked_add(hundredths * 10_000_000)?;
        return Some(Line::Row { at_ns, name: c[3].into(), passed: c.get(4).is_some(), tokens: number(&c[5])? });
    }
    if let Some(c) = BURST_ROW.captures(line) {
        return Some(Line::BurstRow { passed: c.get(1).is_some(), tokens: number(&c[2])? });
    }
    if let Some(c) = BURST_BUCKET.captures(line) {
        return Some(Line::BurstBucket { rate: number(&c[1])?, capacity: number(&c[2])? });
    }
    if let Some(c) = CONTAINER.captures(line) {
        return Some(Line::Container { name: c[1].into(), rate: number(&c[2])?, capacity: number(&c[3])? });
    }
    if let Some(c) = SUM.captures(line) {
        return Some(Line::Sum { name: c[1].into(), passed: c[2].parse().ok()?, all: c[3].parse().ok()? });
    }
    if let Some(c) = BURST.captures(line) {
        return Some(Line::Burst { name: c[1].into() });
    }
    if line.trim_start().starts_with("令牌桶算力限制 — ") {
        return Some(Line::Title);
    }
    TEXT.is_match(line).then_some(Line::Text)
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|value: &f64| value.abs() <= LARGEST)
}

/// Submissions in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct Reader {
    /// The containers of the run, by name.
    open: Vec<(Box<str>, Running)>,
    /// The bucket of the second part.
    burst: Option<Running>,
}

/// A process at work.
#[derive(Clone, Copy, Debug)]
struct Running {
    number: usize,
    /// It has submitted something: a bucket that is stated now is another run's.
    busy: bool,
}

impl Reader {
    pub(super) fn take(&mut self, ledger: &mut dyn Ledger, at: At, said: Line) {
        match said {
            Line::Title => {
                self.open.clear();
                self.burst = None;
            }
            Line::Container { name, rate, capacity } => {
                self.open.retain(|(known, process)| *known != name || !process.busy);
                let process = self.container(ledger, at, name).number;
                ledger.process(process).bucket = bucket(rate, capacity);
            }
            Line::Row { at_ns, name, passed, tokens } => {
                let process = self.container(ledger, at, name);
                process.busy = true;
                launch(ledger, process.number, at, passed, tokens, Some(at_ns));
            }
            Line::Sum { name, all, .. } => {
                let process = self.container(ledger, at, name).number;
                let process = ledger.process(process);
                process.stated_calls = Some(all);
                process.ended = true;
            }
            Line::Burst { name } => self.burst = Some(open(ledger, at, &name)),
            Line::BurstBucket { rate, capacity } => {
                if let Some(Running { number, busy: false }) = self.burst {
                    ledger.process(number).bucket = bucket(rate, capacity);
                }
            }
            Line::BurstRow { passed, tokens } => {
                let process = self.burst.get_or_insert_with(|| open(ledger, at, ""));
                process.busy = true;
                launch(ledger, process.number, at, passed, tokens, None);
            }
            Line::Text => {}
        }
    }

    fn container(&mut self, ledger: &mut dyn Ledger, at: At, name: Box<str>) -> &mut Running {
        let known = self.open.iter().position(|(known, _)| *known == name);
        let place = known.unwrap_or_else(|| {
            self.open.push((name.clone(), open(ledger, at, &name)));
            self.open.len() - 1
        });
        &mut self.open[place].1
    }
}

fn open(ledger: &mut dyn Ledger, at: At, name: &str) -> Running {
    let exe = (!name.is_empty()).then(|| name.to_owned());
    let number = ledger.open(Process { exe, memory_untold: true, ..at.process() });
    Running { number, busy: false }
}

fn bucket(rate: f64, capacity: f64) -> Limit<(f64, f64)> {
    if rate > 0.0 { Limit::At((rate, capacity)) } else { Limit::Unknown }
}

fn launch(ledger: &mut dyn Ledger, process: usize, at: At, passed: bool, tokens: f64, mono_ns: Option<u64>) {
    let outcome = if passed { Outcome::Ok } else { Outcome::Denied };
    let row = at.row(ledger.name(API), Kind::Launch, outcome);
    ledger.call(process, Row { tokens: Some(tokens), mono_ns, ..row });
}

#[cfg(test)]
mod tests {
    use super::super::tests::book;
    use super::*;

    const LOG: &str = include_str!("../../../tests/data/nogpu_token_bucket.log");

    #[test]
    fn the_demonstrations_containers_are_processes_with_these_figures() {
        // grep -c '✓ 启动.*' and '✗ 阻塞' by container; the script's own sums say the same.
        let (book, _, torn) = book(LOG);
        assert_eq!((book.processes.len(), torn.len()), (3, 0));
        let count = |process: usize, outcome| {
            book.calls.iter().filter(|(of, row)| *of == process && row.outcome == outcome).count()
        };
        let figures: Vec<_> = (0..3)
            .map(|i| {
                let process = &book.processes[i];
                (process.exe.as_deref().unwrap(), process.bucket, count(i, Outcome::Ok), count(i, Outcome::Denied))
            })
            .collect();
        assert_eq!(
            figures,
            [
                ("容器A(高配额)", Limit::At((4.0, 4.0)), 17, 0),
                ("容器B(低配额)", Limit::At((1.0, 2.0)), 6, 11),
                ("容量=4", Limit::At((2.0, 4.0)), 4, 2),
            ]
        );
        assert_eq!(book.processes[1].stated_calls, Some(17));
        let last = &book.calls[33].1;
        assert_eq!((last.mono_ns, last.tokens, last.outcome), (Some(4_810_000_000), Some(0.8), Outcome::Denied));
        assert_eq!((book.calls[34].1.mono_ns, book.calls[34].1.tokens), (None, Some(3.0)));
    }

    #[test]
    fn a_second_run_has_containers_of_its_own() {
        let (book, ..) = book(&LOG.repeat(2));
        assert_eq!(book.processes.len(), 6);
        assert_eq!(book.calls.iter().filter(|(process, _)| *process == 3).count(), 17);
    }

    #[test]
    fn a_bucket_that_is_stated_behind_rows_is_another_runs() {
        // Without the title that tells runs apart.
        let lines: Vec<_> = LOG.lines().filter(|line| read(line) != Some(Line::Title)).collect();
        let (book, ..) = book(&[lines.join("\n"), lines.join("\n")].join("\n"));
        assert_eq!(book.processes.len(), 6);
    }

    #[test]
    fn prose_and_cut_rows_are_no_submissions() {
        for line in [
            "  解析: capacity=4 → 最多积攒 4 个令牌",
            "1. 观察容器 A/B 的阻塞比例，谁的阻塞更多？为什么？",
            "   0.00s    容器A(高配额)      ✓ 启动       3",
            "   0.00s    容器A(高配额)      ✓ 启",
            "  之后的请求需要等待令牌按 2 tokens/s 补充 → 阻塞",
        ] {
            assert_eq!(read(line), None, "{line}");
        }
        assert_eq!(read("  模拟时长: 5s"), Some(Line::Text));
    }
}
