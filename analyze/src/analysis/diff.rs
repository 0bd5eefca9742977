//! Two logs compared: their figures, and what was called and launched.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use super::Status;
use super::limit::{Limit, Verdict};
use super::metric::{Amount, METRICS, Metric};
use super::summary::{ApiFigures, SCHEMA};
use super::timeline::TimeBase;
use crate::error::Error;
use crate::events::Note;
use crate::figures::Figures;

/// What is different in two logs. Lists hold differences alone: of logs with the same figures they are empty.
#[derive(Clone, Debug, Serialize)]
pub struct Diff {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The first log.
    pub a: Side,
    /// The second log.
    pub b: Side,
    /// Whether nothing below is different.
    pub same: bool,
    /// All figures, by name.
    #[serde(serialize_with = "by_name")]
    pub metrics: Vec<Pair>,
    /// APIs with other counts, the largest change first.
    pub apis: Vec<ApiPair>,
    /// Launch shapes (blocks, threads of a block) with other counts; `null` where a log does not tell them.
    pub shapes: Option<Vec<Change<[[u32; 3]; 2]>>>,
    /// Kernels with other counts; the same.
    pub kernels: Option<Vec<Change<String>>>,
    /// Rules with another verdict.
    pub checks: Vec<CheckPair>,
    /// What the limits of `--fail-on` say.
    pub limits: Vec<Verdict>,
    /// What a reader should know.
    pub notes: Vec<Note>,
}

/// One of the logs.
#[derive(Clone, Debug, Serialize)]
pub struct Side {
    /// The files.
    pub inputs: Vec<String>,
    /// Calls.
    pub calls: u64,
    /// Processes with calls.
    pub processes: u64,
    /// How its times are known.
    pub time_base: TimeBase,
}

/// A figure of both.
#[derive(Clone, Debug, Serialize)]
pub struct Pair {
    /// Which.
    #[serde(skip)]
    pub metric: &'static Metric,
    /// In the first log.
    pub a: Option<Amount>,
    /// In the second log.
    pub b: Option<Amount>,
    /// How much more it is in the second.
    pub change: Option<f64>,
    /// Why it is absent in the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub a_absent: Option<Note>,
    /// Why it is absent in the second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b_absent: Option<Note>,
}

impl Pair {
    /// Whether the logs differ in it; not where both don't tell it.
    pub fn differs(&self) -> bool {
        self.a != self.b
    }
}

/// An API in both.
#[derive(Clone, Debug, Serialize)]
pub struct ApiPair {
    /// Name.
    pub api: String,
    /// In the first log.
    pub a: Counts,
    /// In the second log.
    pub b: Counts,
}

/// Calls by how they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Counts {
    /// All.
    pub calls: u64,
    /// Let through and accepted.
    pub ok: u64,
    /// Refused by the hook.
    pub denied: u64,
    /// Let through and refused by CUDA.
    pub failed: u64,
    /// Of which the log does not tell how they ended.
    pub unknown: u64,
    /// Of those of which it tells how they ended, the part that the hook refused.
    pub denial_rate: Option<f64>,
}

impl From<&ApiFigures> for Counts {
    fn from(api: &ApiFigures) -> Self {
        let &ApiFigures { calls, ok, denied, failed, unknown, .. } = api;
        let told = calls - unknown;
        let denial_rate = (told > 0).then(|| denied as f64 / told as f64);
        Counts { calls, ok, denied, failed, unknown, denial_rate }
    }
}

/// What became of something that was launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Only in the second log.
    Appeared,
    /// Only in the first log.
    Gone,
    /// More often in the second.
    More,
    /// Less often in the second.
    Fewer,
}

/// Launches of a shape or a kernel.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change<T> {
    /// Which.
    pub of: T,
    /// What became of it.
    pub change: Kind,
    /// Launches in the first log.
    pub a: u64,
    /// Launches in the second log.
    pub b: u64,
    /// The second by the first; absent where that is none.
    pub ratio: Option<f64>,
}

/// A rule's verdicts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckPair {
    /// Name of the rule.
    pub id: &'static str,
    /// In the first log.
    pub a: Status,
    /// In the second log.
    pub b: Status,
    /// What the second says of it.
    pub detail: String,
    /// The same in Chinese.
    #[serde(skip)]
    pub detail_zh: String,
}

impl Diff {
    /// Compares the figures of two logs, read with [`crate::parse::Pace::workload`], and holds them against limits.
    ///
    /// # Errors
    /// A limit is on a figure that one of the logs does not tell, or on an API that neither has.
    pub fn of(a: &Figures, b: &Figures, limits: &[Limit]) -> Result<Diff, Error> {
        let metrics: Vec<Pair> = METRICS.iter().map(|metric| pair(metric, a, b)).collect();
        let (apis, checks) = (apis(a, b), checks(a, b));
        let (shapes, kernels) = (shapes(a, b), kernels(a, b));
        let alike = metrics.iter().all(|pair| !pair.differs()) && apis.is_empty() && checks.is_empty();
        let as_often = shapes.as_ref().is_none_or(Vec::is_empty) && kernels.as_ref().is_none_or(Vec::is_empty);
        Ok(Diff {
            schema: SCHEMA,
            a: side(a),
            b: side(b),
            same: alike && as_often,
            limits: limits.iter().map(|limit| limit.judge(a, b)).collect::<Result<_, _>>()?,
            notes: notes(a, b, shapes.is_none(), kernels.is_none()),
            metrics,
            apis,
            shapes,
            kernels,
            checks,
        })
    }

    /// Whether a limit is exceeded.
    pub fn is_exceeded(&self) -> bool {
        self.limits.iter().any(|limit| limit.exceeded)
    }
}

fn side(figures: &Figures) -> Side {
    let summary = &figures.summary;
    Side {
        inputs: summary.inputs.iter().map(|input| input.path.clone()).collect(),
        calls: summary.apis.iter().map(|api| api.calls).sum(),
        processes: summary.processes.iter().filter(|process| process.calls > 0).count() as u64,
        time_base: summary.time.base,
    }
}

fn pair(metric: &'static Metric, a: &Figures, b: &Figures) -> Pair {
    let (a, b) = (metric.of(a, None), metric.of(b, None));
    let change = a.as_ref().ok().zip(b.as_ref().ok()).map(|(a, b)| a.to(*b));
    let split = |side: Result<Amount, Note>| side.map_or_else(|why| (None, Some(why)), |amount| (Some(amount), None));
    let ((a, a_absent), (b, b_absent)) = (split(a), split(b));
    Pair { metric, a, b, change, a_absent, b_absent }
}

fn by_name<S: Serializer>(pairs: &[Pair], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|pair| (pair.metric.name, pair)))
}

fn apis(a: &Figures, b: &Figures) -> Vec<ApiPair> {
    let counts = |figures: &Figures| -> BTreeMap<String, Counts> {
        figures.summary.apis.iter().map(|api| (api.api.clone(), Counts::from(api))).collect()
    };
    let both = joined(counts(a), counts(b)).filter(|(_, a, b)| a != b);
    let mut apis: Vec<ApiPair> = both.map(|(api, a, b)| ApiPair { api, a, b }).collect();
    let weight = |pair: &ApiPair| {
        let (a, b) = (pair.a, pair.b);
        a.calls.abs_diff(b.calls).max(a.denied.abs_diff(b.denied)).max(a.failed.abs_diff(b.failed))
    };
    apis.sort_by_key(|pair| std::cmp::Reverse(weight(pair)));
    apis
}

/// What either has, by key.
fn joined<K: Ord, V: Default>(a: BTreeMap<K, V>, b: BTreeMap<K, V>) -> impl Iterator<Item = (K, V, V)> {
    let mut both: BTreeMap<K, (V, V)> = a.into_iter().map(|(key, value)| (key, (value, V::default()))).collect();
    for (key, value) in b {
        both.entry(key).or_default().1 = value;
    }
    both.into_iter().map(|(key, (a, b))| (key, a, b))
}

fn shapes(a: &Figures, b: &Figures) -> Option<Vec<Change<[[u32; 3]; 2]>>> {
    let told = |figures: &Figures| figures.workload.shaped > 0 || figures.workload.launches == 0;
    let counts = |figures: &Figures| -> BTreeMap<[[u32; 3]; 2], u64> {
        figures.summary.dims.iter().map(|shape| ([shape.grid, shape.block], shape.calls)).collect()
    };
    (told(a) && told(b)).then(|| changes(counts(a), counts(b)))
}

fn kernels(a: &Figures, b: &Figures) -> Option<Vec<Change<String>>> {
    let told = |figures: &Figures| figures.workload.named > 0 || figures.workload.launches == 0;
    (told(a) && told(b)).then(|| changes(a.workload.kernels.clone(), b.workload.kernels.clone()))
}

/// By what became of them, then the largest change first.
fn changes<T: Ord>(a: BTreeMap<T, u64>, b: BTreeMap<T, u64>) -> Vec<Change<T>> {
    let change = |(of, a, b): (T, u64, u64)| {
        let change = match (a, b) {
            _ if a == b => return None,
            (0, _) => Kind::Appeared,
            (_, 0) => Kind::Gone,
            _ if a < b => Kind::More,
            _ => Kind::Fewer,
        };
        Some(Change { of, change, a, b, ratio: (a > 0).then(|| b as f64 / a as f64) })
    };
    let mut changes: Vec<Change<T>> = joined(a, b).filter_map(change).collect();
    changes.sort_by_key(|change| (change.change, std::cmp::Reverse(change.a.abs_diff(change.b))));
    changes
}

fn checks(a: &Figures, b: &Figures) -> Vec<CheckPair> {
    let (a, b) = (&a.summary.checks, &b.summary.checks);
    let pairs = b.iter().filter_map(|b| Some((a.iter().find(|a| a.id == b.id)?, b)));
    let changed = pairs.filter(|(a, b)| a.status != b.status);
    changed
        .map(|(a, b)| CheckPair {
            id: b.id,
            a: a.status,
            b: b.status,
            detail: b.detail.clone(),
            detail_zh: b.detail_zh.clone(),
        })
        .collect()
}

fn notes(a: &Figures, b: &Figures, no_shapes: bool, no_kernels: bool) -> Vec<Note> {
    let mut notes = Vec::new();
    if no_shapes {
        notes
            .push(Note::new("shapes are not compared: a log does not tell them", "启动形状未比较: 有一份日志没有记录"));
    }
    if no_kernels {
        notes.push(Note::new(
            "kernels are not compared: a log names none, as course lines never do",
            "kernel 未比较: 有一份日志没有 kernel 名 (日志行一律没有)",
        ));
    }
    for (side, figures) in [("A", a), ("B", b)] {
        let workload = &figures.workload;
        let unnamed = workload.launches - workload.named;
        if !no_kernels && unnamed > 0 {
            notes.push(Note::new(
                format!("{side}: {unnamed} launches without a kernel's name, which the kernels' counts lack"),
                format!("{side}: 有 {unnamed} 次启动没有 kernel 名, 未计入 kernel 的次数"),
            ));
        }
        let unshaped = workload.launches - workload.shaped;
        if !no_shapes && unshaped > 0 {
            notes.push(Note::new(
                format!("{side}: {unshaped} launches without a shape, which the shapes' counts lack"),
                format!("{side}: 有 {unshaped} 次启动没有形状, 未计入形状的次数"),
            ));
        }
        if !figures.summary.memory.untold && !figures.summary.memory_is_sure() {
            notes.push(Note::new(
                format!("{side}: the log contradicts its own memory totals, its memory figures are a replay"),
                format!("{side}: 日志所记的显存总量自相矛盾, 显存数字由按指针重放得出"),
            ));
        }
    }
    // Each log's own notes say what is missing from its figures.
    for (side, figures) in [("A", a), ("B", b)] {
        let own = figures.summary.notes.iter();
        notes.extend(own.map(|note| Note::new(format!("{side}: {}", note.en), format!("{side}: {}", note.zh))));
    }
    notes
}
