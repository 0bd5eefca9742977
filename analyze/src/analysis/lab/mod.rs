//! The course's rubric as evidence: for each thing that it marks, the lines of the log that show it, what is missing, or
//! the line that contradicts it. No marks: what evidence is worth is the grader's to say.
//!
//! Nothing is compared with the levels that the course's page prints (2.0, 1.0, 0.0): a slow first launch gives others.

mod bucket;
mod free;
mod program;
mod quota;
mod record;
mod shapes;

use hook_event::{Kind, Outcome};
use serde::Serialize;

use super::conformance::{Check, Status};
use super::summary::{Analysis, Summary};
use crate::events::{Columns, Events, Process};
use crate::program::Told;
use crate::step::Step;

pub use program::{Counts, Program};

/// Lines named as evidence, at most.
const LINES: usize = 10;

/// Half of the last printed decimal of a level or a total in MB, with room for binary fractions.
const ROUNDING: f64 = 0.05 + 1e-6;

/// The evidence for the rubric.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Lab {
    /// A row for each thing that is marked, in the rubric's order.
    pub rows: Vec<Evidence>,
    /// What the test program counted, run by run, where its output is in the log, beside what the log has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub program: Vec<Program>,
    /// Test 3, where the log has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test3: Option<Test3>,
}

impl Lab {
    /// The row of this name.
    pub fn row(&self, id: &str) -> Option<&Evidence> {
        self.rows.iter().find(|row| row.id == id)
    }
}

/// What is marked together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Part {
    /// The quota.
    #[serde(rename = "cudaMalloc")]
    Malloc,
    /// The token bucket.
    #[serde(rename = "cudaLaunchKernel")]
    Launch,
    /// The map from pointers to sizes.
    #[serde(rename = "cudaFree")]
    Free,
    /// The log, and what an analysis can tell from it.
    #[serde(rename = "log")]
    Log,
}

/// What the log says of one thing that is marked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// Name of the row.
    pub id: &'static str,
    /// What it is marked with.
    pub part: Part,
    /// What the log says.
    pub status: Standing,
    /// The lines that show or contradict it, at most ten.
    pub lines: Vec<u64>,
    /// The file of these lines, where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// What they show, or what is missing.
    pub detail: String,
    /// The same in Chinese.
    #[serde(skip)]
    pub detail_zh: String,
}

/// What a log says of one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// Lines show it.
    Shown,
    /// It does not tell.
    NotEvidenced,
    /// A line contradicts it.
    Contradicted,
}

/// The launches of test 3.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Test3 {
    /// Their lines.
    pub lines: Vec<u64>,
    /// Of these refused.
    pub denied: u64,
    /// What the launch before left in the bucket, and its line.
    pub tokens_before: Option<f64>,
    /// The line of that.
    pub line_before: Option<u64>,
    /// Time of one token, s.
    pub token_s: Option<f64>,
}

/// Names of the rows, and what each is marked with.
pub const ROWS: [(&str, Part); 14] = [
    ("quota-kept", Part::Malloc),
    ("refusal-returns-2", Part::Malloc),
    ("requests-logged", Part::Malloc),
    ("entered-in-map", Part::Malloc),
    ("burst", Part::Launch),
    ("refusal-after-burst", Part::Launch),
    ("recovery-after-refill", Part::Launch),
    ("dims-logged", Part::Launch),
    ("free-finds-entry", Part::Free),
    ("free-subtracts-exactly", Part::Free),
    ("free-removes-entry", Part::Free),
    ("log-complete", Part::Log),
    ("analysis-possible", Part::Log),
    ("program-agrees", Part::Log),
];

/// What one process's calls say of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    status: Standing,
    lines: Vec<u64>,
    source: Option<u32>,
    detail: String,
    detail_zh: String,
}

impl Finding {
    fn new(status: Standing, lines: &[u64], detail: impl Into<String>, detail_zh: impl Into<String>) -> Finding {
        let mut lines = lines.to_vec();
        lines.sort_unstable();
        lines.dedup();
        lines.truncate(LINES);
        Finding { status, lines, source: None, detail: detail.into(), detail_zh: detail_zh.into() }
    }

    fn shown(lines: &[u64], detail: impl Into<String>, detail_zh: impl Into<String>) -> Finding {
        Finding::new(Standing::Shown, lines, detail, detail_zh)
    }

    fn missing(detail: impl Into<String>, detail_zh: impl Into<String>) -> Finding {
        Finding::new(Standing::NotEvidenced, &[], detail, detail_zh)
    }

    fn contradicted(lines: &[u64], detail: impl Into<String>, detail_zh: impl Into<String>) -> Finding {
        Finding::new(Standing::Contradicted, lines, detail, detail_zh)
    }

    /// Where one says otherwise than another, a contradiction counts first, then what is shown, then the first.
    fn weight(&self) -> u8 {
        match self.status {
            Standing::Contradicted => 2,
            Standing::Shown => 1,
            Standing::NotEvidenced => 0,
        }
    }
}

/// One process's calls, and what its program told.
struct Run<'a> {
    events: &'a Events,
    summary: &'a Summary,
    process: &'a Process,
    calls: &'a Columns,
    /// Live bytes after each call.
    live: &'a [u64],
    /// Whether the order of its calls, or what was granted, is not known.
    memory_untold: bool,
    /// What the program told, with its lines.
    told: Vec<(u64, &'a Told)>,
    /// The file of that.
    told_source: Option<u32>,
    launches: Vec<bucket::Launch>,
}

impl<'a> Run<'a> {
    /// Its calls of a kind.
    fn of_kind(&self, kind: Kind) -> impl Iterator<Item = usize> + '_ {
        self.process.rows.clone().filter(move |&i| self.calls.kind[i] == kind)
    }

    fn line(&self, i: usize) -> u64 {
        self.calls.line[i]
    }

    /// Live bytes after call `i`.
    fn live_after(&self, i: usize) -> u64 {
        self.live.get(i - self.process.rows.start).copied().unwrap_or(0)
    }

    fn step(&self, i: usize) -> Step {
        Step::with_shape(&self.calls.row(i), None)
    }

    /// The verdict of a rule, where it is broken.
    fn broken(&self, id: &str) -> Option<&'a Check> {
        self.summary.checks.iter().find(|check| check.id == id && check.status == Status::Fail)
    }

    /// The first of these rules that is broken, as a contradiction.
    fn broken_rule(&self, ids: &[&str]) -> Option<Finding> {
        let check = ids.iter().find_map(|id| self.broken(id))?;
        let lines: Vec<u64> = check.line.into_iter().collect();
        let (id, detail, detail_zh) = (check.id, &check.detail, &check.detail_zh);
        Some(Finding::contradicted(&lines, format!("{detail} ({id})"), format!("{detail_zh} ({id})")))
    }

    /// The first thing of a kind that the program told.
    fn told<T>(&self, pick: impl Fn(&Told) -> Option<T>) -> Option<(u64, T)> {
        self.told.iter().find_map(|&(line, told)| Some((line, pick(told)?)))
    }

    /// A finding about a line of the program.
    fn by_program(&self, finding: Finding) -> Finding {
        Finding { source: self.told_source, ..finding }
    }

    /// A finding from all it says of one row.
    fn finding(&self, id: &str) -> Finding {
        match id {
            "quota-kept" => quota::kept(self),
            "refusal-returns-2" => quota::returns_two(self),
            "requests-logged" => quota::logged(self),
            "entered-in-map" => free::entered(self),
            "burst" => bucket::burst(self),
            "refusal-after-burst" => bucket::refusal(self),
            "recovery-after-refill" => bucket::recovery(self),
            "dims-logged" => shapes::dims(self),
            "free-finds-entry" => free::found(self),
            "free-subtracts-exactly" => free::subtracted(self),
            "free-removes-entry" => free::removed(self),
            "log-complete" => record::complete(self),
            "analysis-possible" => record::analysis(self),
            _ => program::agrees(self),
        }
    }
}

/// The evidence in a log. What the program told is there where it was asked for as the log was read.
pub fn of(events: &Events, analysis: &Analysis) -> Lab {
    let runs = runs(events, analysis);
    let several = events.sources.len() > 1;
    let row = |&(id, part): &(&'static str, Part)| {
        let all = runs.iter().map(|run| {
            let finding = run.finding(id);
            Finding { source: finding.source.or(Some(source(run))), ..finding }
        });
        // The first of the weightiest.
        let best = all.reduce(|best, next| if next.weight() > best.weight() { next } else { best });
        let finding = best.unwrap_or_else(|| Finding::missing("the log has no call", "日志中没有调用"));
        let path = finding.source.filter(|_| several && !finding.lines.is_empty());
        let path = path.and_then(|source| events.sources.get(source as usize));
        Evidence {
            id,
            part,
            status: finding.status,
            lines: finding.lines,
            path: path.map(|source| source.path.display().to_string()),
            detail: finding.detail,
            detail_zh: finding.detail_zh,
        }
    };
    Lab {
        rows: ROWS.iter().map(row).collect(),
        program: runs.iter().filter_map(program::of).collect(),
        test3: runs.iter().find_map(shapes::test3),
    }
}

/// The file in which a process's calls stand.
fn source(run: &Run<'_>) -> u32 {
    run.process.rows.clone().next().map_or(run.process.source, |i| run.calls.source[i])
}

/// Processes with calls. The program's output is shared out: what each run tells stands behind what the run before told,
/// so its first burst is the first run's.
fn runs<'a>(events: &'a Events, analysis: &'a Analysis) -> Vec<Run<'a>> {
    let told: Vec<(u32, u64, &Told)> = (0..)
        .zip(&events.sources)
        .flat_map(|(number, source)| source.told.iter().map(move |(line, told)| (number, *line, told)))
        .collect();
    let mut parts = program::parts(&told).into_iter();
    let with_calls = |(_, process): &(usize, &Process)| !process.rows.is_empty();
    let mut runs: Vec<Run<'_>> = events
        .processes
        .iter()
        .enumerate()
        .filter(with_calls)
        .map(|(index, process)| Run {
            events,
            summary: &analysis.summary,
            process,
            calls: &events.calls,
            live: analysis.memories.get(index).map_or(&[], |memory| &memory.live_after),
            memory_untold: analysis.summary.processes.get(index).is_none_or(|figures| figures.memory.untold),
            told: Vec::new(),
            told_source: None,
            launches: bucket::launches(&events.calls, process),
        })
        .collect();
    // A program of several processes prints once; so does one whose hook is loaded by its shell as well.
    for run in &mut runs {
        if let Some(part) = parts.next() {
            run.told_source = part.first().map(|(source, ..)| *source);
            run.told = part.iter().map(|&(_, line, told)| (line, told)).collect();
        }
    }
    runs
}

/// Whether a call was let through and accepted.
fn is_ok(calls: &Columns, i: usize) -> bool {
    calls.outcome[i] == Outcome::Ok
}

/// Lines as `3`, `7-9, 12`.
pub fn ranges(lines: &[u64]) -> String {
    let mut parts: Vec<(u64, u64)> = Vec::new();
    for &line in lines {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == line => *last = line,
            _ => parts.push((line, line)),
        }
    }
    let text = |(first, last): (u64, u64)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    parts.into_iter().map(text).collect::<Vec<_>>().join(", ")
}
