//! The report: a template per language with the figures filled in, and marked gaps for what only its writer can say.

use hook_event::Kind;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior};
use serde::Serialize;

use super::Lang;
use super::text::{self, dims, mb, percent, plain, seconds};
use crate::analysis::findings::{self, Phase};
use crate::analysis::narrow::FilterFigures;
use crate::analysis::overhead::{ApiOverhead, Percentiles};
use crate::analysis::summary::{Analysis, Summary, TimeFigures};
use crate::analysis::{Status, TimeBase};
use crate::error::Error;
use crate::events::Events;

/// Rows of a table in the report; what is left out is counted below it.
const SHOWN: usize = 20;

const ZH: &str = include_str!("../../templates/report.zh.md");
const EN: &str = include_str!("../../templates/report.en.md");

/// Where the report's charts are, as the report links to them.
#[derive(Clone, Debug, Serialize)]
pub struct Charts {
    /// Token level.
    pub tokens: String,
    /// Memory.
    pub memory: String,
}

/// How the report was made.
#[derive(Clone, Debug, Serialize)]
pub struct Provenance {
    /// The command line.
    pub command: String,
    /// Version of this program.
    pub version: String,
    /// When, local time.
    pub date: String,
}

/// The report as Markdown.
///
/// # Errors
/// The template does not fit the figures (which means that this code is wrong).
pub fn report(
    events: &Events,
    analysis: &Analysis,
    charts: &Charts,
    provenance: &Provenance,
    lang: Lang,
) -> Result<String, Error> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.map_err(unfit)?);
    environment.add_filter("md", |text: String| escape(&text));
    let context = Context::new(events, analysis, charts, provenance, lang);
    environment.render_str(lang.pick(ZH, EN), Serde(&context)).map_err(unfit)
}

fn unfit(why: minijinja::Error) -> Error {
    Error::Render { what: "the report", why: format!("{why:#}") }
}

/// Text from a log as Markdown shows it literally, in a table cell too.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' | '$' => {
                out.push('\\');
                out.push(c);
            }
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// What the templates see. Numbers come as people read them; what is absent is `none`.
#[derive(Serialize)]
struct Context<'a> {
    s: &'a Summary,
    charts: &'a Charts,
    made: &'a Provenance,
    calls: u64,
    denied: u64,
    failed: u64,
    denied_share: Option<String>,
    quota: Option<String>,
    /// Names under which the limits are shared.
    shared: String,
    rate: Option<String>,
    capacity: Option<String>,
    token_interval: Option<String>,
    peak: String,
    peak_share: Option<String>,
    live: String,
    allocated: String,
    freed: String,
    apis: Vec<ApiRow<'a>>,
    allocations: Sums,
    launches: Sums,
    frees: Sums,
    refused: Vec<RefusedRow>,
    refused_more: usize,
    /// Whether every refused request would have exceeded the quota.
    refused_rightly: bool,
    /// Whether the log tells what was granted.
    memory_told: bool,
    /// Whether it tells of each refused request what it would have led to.
    refused_told: bool,
    phases: Vec<PhaseRow>,
    phases_more: usize,
    burst: Option<u64>,
    started_full: bool,
    recovered: Option<u64>,
    levels: String,
    levels_more: bool,
    /// Which calls it is of.
    filter: Option<&'a FilterFigures>,
    /// Whether the report is of some of the calls of its processes.
    some: bool,
    shapes: Vec<ShapeRow>,
    shapes_more: usize,
    denied_shapes: usize,
    /// `monotonic`, `inferred` or `sequence`.
    base: TimeBase,
    duration: Option<String>,
    lower_bound: bool,
    checks: Vec<CheckRow<'a>>,
    waits: Option<Waits>,
    /// Whether the hook is this project's: its version is in the records.
    ours: bool,
    /// Whether these are the calls of the lab's test program.
    lab: bool,
    quota_off: bool,
    rate_off: bool,
    totals_match: bool,
    denied_rightly: bool,
    wrong_denial: Option<String>,
    many: bool,
    coverage: Option<String>,
    notes: Vec<&'a str>,
    processes: Vec<ProcessRow<'a>>,
    examples: Vec<(u64, &'a str)>,
    /// The lines of each input by class.
    classes: Vec<String>,
    /// Calls of unknown outcome.
    unknown: u64,
    overhead: Vec<OverheadRow<'a>>,
}

#[derive(Serialize)]
struct ApiRow<'a> {
    api: &'a str,
    calls: u64,
    ok: u64,
    denied: u64,
    failed: u64,
    unknown: u64,
    share: String,
}

/// Calls of one kind.
#[derive(Default, Serialize)]
struct Sums {
    calls: u64,
    ok: u64,
    denied: u64,
    failed: u64,
}

/// Launches that waited for their token.
#[derive(Serialize)]
struct Waits {
    launches: usize,
    median: String,
    longest: String,
}

impl Waits {
    fn of(events: &Events, analysis: &Analysis) -> Option<Waits> {
        let waited = events.calls.wait_ns.iter().enumerate().filter(|(i, _)| analysis.is_chosen(*i));
        let mut waits: Vec<u64> = waited.filter_map(|(_, ns)| *ns).filter(|&ns| ns > 0).collect();
        waits.sort_unstable();
        let (median, longest) = (*waits.get(waits.len() / 2)?, *waits.last()?);
        let text = |ns: u64| seconds(ns as f64 / 1e9);
        Some(Waits { launches: waits.len(), median: text(median), longest: text(longest) })
    }
}

/// The sizes and shapes that the lab's test program asks for, in order; what the hook made of them may differ.
fn is_lab(events: &Events) -> bool {
    const MB: u64 = hook_event::units::MB;
    let calls = &events.calls;
    let sizes = (0..calls.len()).filter(|&i| calls.kind[i] == Kind::Alloc).filter_map(|i| calls.size[i]);
    let launches = calls.kind.iter().filter(|kind| **kind == Kind::Launch).count();
    sizes.eq([64 * MB, 2048 * MB, 4 * MB, 4 * MB]) && launches == 18
}

fn passed(summary: &Summary, id: &str) -> bool {
    summary.checks.iter().any(|check| check.id == id && check.status == Status::Pass)
}

#[derive(Serialize)]
struct RefusedRow {
    line: u64,
    bytes: Option<u64>,
    size: String,
    live: String,
    would_be: String,
    quota: String,
}

#[derive(Serialize)]
struct PhaseRow {
    number: usize,
    process: usize,
    first_call: u64,
    denied: bool,
    length: u64,
    tokens: String,
    at: String,
}

#[derive(Serialize)]
struct ShapeRow {
    grid: String,
    block: String,
    calls: u64,
    denied: u64,
    failed: u64,
}

#[derive(Serialize)]
struct CheckRow<'a> {
    id: &'a str,
    status: &'static str,
    detail: &'a str,
}

#[derive(Serialize)]
struct ProcessRow<'a> {
    pid: Option<u32>,
    exe: Option<&'a str>,
    host: Option<&'a str>,
    hook: Option<&'a str>,
    started: Option<String>,
}

/// What calls of an API took.
#[derive(Serialize)]
struct OverheadRow<'a> {
    api: &'a str,
    let_through: u64,
    n: u64,
    hook: [String; 4],
    real: [String; 4],
}

impl<'a> OverheadRow<'a> {
    fn new(api: &'a ApiOverhead) -> Self {
        let text = |ns: u64| seconds(ns as f64 / 1e9);
        let row = |of: &Percentiles| {
            let told = |ns: Option<u64>| ns.map_or(NONE.to_owned(), text);
            [told(of.median), told(of.p90), told(of.p99), text(of.max)]
        };
        let (hook, real) = (row(&api.hook_ns), row(&api.real_ns));
        OverheadRow { api: &api.api, let_through: api.let_through, n: api.n, hook, real }
    }
}

impl<'a> Context<'a> {
    fn new(events: &'a Events, analysis: &'a Analysis, charts: &'a Charts, made: &'a Provenance, lang: Lang) -> Self {
        let s = &analysis.summary;
        let (calls, denied) = (s.apis.iter().map(|a| a.calls).sum(), s.apis.iter().map(|a| a.denied).sum());
        let refused = findings::refused(events, analysis);
        // What only all calls of a process tell together is left out where some were chosen.
        let some = analysis.chosen.is_some();
        let phases = if some { Vec::new() } else { findings::phases(events, analysis) };
        let levels = if some { Vec::new() } else { findings::levels(events, SHOWN + 10) };
        let first = phases.first().filter(|phase| !phase.denied && s.config.rate.is_some());
        let denied_first = phases.iter().find(|phase| phase.denied);
        let recovered = denied_first.and_then(|denied| {
            let of_process = phases.iter().filter(|phase| phase.process == denied.process);
            of_process.skip_while(|phase| !phase.denied).find(|phase| !phase.denied)
        });
        Context {
            s,
            charts,
            made,
            calls,
            denied,
            failed: s.apis.iter().map(|a| a.failed).sum(),
            denied_share: percent(denied, calls),
            quota: s.config.quota_bytes.map(mb),
            shared: s.shared.join(", "),
            rate: s.config.rate.map(plain),
            capacity: s.config.capacity.map(plain),
            token_interval: s.config.rate.map(|rate| seconds(1.0 / rate)),
            peak: mb(s.memory.peak_bytes),
            peak_share: s
                .own_quota()
                .filter(|_| s.memory_is_sure())
                .and_then(|quota| percent(s.memory.peak_bytes, quota)),
            live: mb(s.memory.live_bytes),
            allocated: mb(s.memory.allocated_bytes),
            freed: mb(s.memory.freed_bytes),
            apis: s.apis.iter().map(ApiRow::new).collect(),
            allocations: sums(events, analysis, Kind::Alloc),
            launches: sums(events, analysis, Kind::Launch),
            frees: sums(events, analysis, Kind::Free),
            refused_rightly: refused.iter().all(|r| would_be(r).zip(r.quota).is_some_and(|(sum, quota)| sum > quota)),
            memory_told: !s.memory.untold,
            refused_told: refused.iter().all(|r| would_be(r).is_some()),
            refused_more: refused.len().saturating_sub(SHOWN),
            refused: refused.iter().take(SHOWN).map(RefusedRow::new).collect(),
            burst: first.map(|phase| phase.length),
            started_full: findings::started_full(events).unwrap_or(false),
            recovered: recovered.map(|phase| phase.length),
            phases_more: phases.len().saturating_sub(SHOWN),
            phases: phase_rows(&phases, &s.time),
            levels_more: !some && findings::levels(events, usize::MAX).len() > levels.len(),
            filter: s.filter.as_ref(),
            some,
            levels: levels.iter().map(|level| format!("{level:.1}")).collect::<Vec<_>>().join(" → "),
            shapes_more: s.dims.len().saturating_sub(SHOWN),
            shapes: s.dims.iter().take(SHOWN).map(ShapeRow::new).collect(),
            denied_shapes: s.dims.iter().filter(|shape| shape.denied > 0).count(),
            base: s.time.base,
            duration: s.time.duration_s.map(seconds),
            lower_bound: s.time.lower_bound,
            checks: s.checks.iter().map(|check| CheckRow::new(check, lang)).collect(),
            waits: Waits::of(events, analysis),
            ours: !events.processes.is_empty()
                && events.processes.iter().filter(|p| !p.rows.is_empty()).all(|process| process.hook.is_some()),
            lab: is_lab(events),
            quota_off: s.config.quota_off,
            rate_off: s.config.rate_off,
            totals_match: passed(s, "total-matches") && s.memory.unknown_frees == 0,
            denied_rightly: passed(s, "denied-only-when-empty"),
            wrong_denial: s
                .checks
                .iter()
                .find(|check| check.id == "denied-only-when-empty" && check.status == Status::Fail)
                .map(|check| lang.pick(&check.detail_zh, &check.detail).to_owned()),
            many: s.processes.iter().filter(|process| process.calls > 0).count() > 1,
            coverage: s.coverage.statement().map(|note| lang.pick(&note.zh, &note.en).to_owned()),
            notes: s.notes.iter().map(|note| lang.pick(&note.zh, &note.en)).collect(),
            processes: events
                .processes
                .iter()
                .filter(|p| !p.rows.is_empty())
                .take(SHOWN)
                .map(ProcessRow::new)
                .collect(),
            examples: events
                .sources
                .iter()
                .flat_map(|source| &source.bad_examples)
                .map(|(line, text)| (*line, text.as_str()))
                .collect(),
            classes: s.inputs.iter().map(|input| text::classes(&input.classes, lang)).collect(),
            unknown: s.apis.iter().map(|a| a.unknown).sum(),
            overhead: s.overhead.apis.iter().take(SHOWN).map(OverheadRow::new).collect(),
        }
    }
}

impl<'a> ApiRow<'a> {
    fn new(api: &'a crate::analysis::summary::ApiFigures) -> Self {
        let share = percent(api.denied, api.calls).unwrap_or_default();
        ApiRow {
            api: &api.api,
            calls: api.calls,
            ok: api.ok,
            denied: api.denied,
            failed: api.failed,
            unknown: api.unknown,
            share,
        }
    }
}

/// What the log does not tell.
const NONE: &str = "—";

/// What a refused request would have brought its account to.
fn would_be(refused: &findings::Refused) -> Option<u64> {
    Some(refused.live?.saturating_add(refused.size?))
}

impl RefusedRow {
    fn new(refused: &findings::Refused) -> Self {
        RefusedRow {
            line: refused.line,
            bytes: refused.size,
            size: refused.size.map_or(NONE.to_owned(), mb),
            live: refused.live.map_or(NONE.to_owned(), mb),
            would_be: would_be(refused).map_or(NONE.to_owned(), mb),
            quota: refused.quota.map_or(NONE.to_owned(), mb),
        }
    }
}

/// The phases' rows, all times in the unit of the latest.
fn phase_rows(phases: &[Phase], time: &TimeFigures) -> Vec<PhaseRow> {
    let shown = phases.iter().take(SHOWN);
    let latest = shown.clone().filter_map(|phase| phase.at).fold(0.0, f64::max);
    let (unit, name) = match latest {
        t if t < 1e-3 => (1e6, "µs"),
        t if t < 1.0 => (1e3, "ms"),
        _ => (1.0, "s"),
    };
    // What was inferred is not stated as if it had been measured.
    let sign = |at: f64| match (time.base, time.lower_bound) {
        (TimeBase::Inferred, true) if at > 0.0 => "≥ ",
        (TimeBase::Inferred, false) if at > 0.0 => "≈ ",
        _ => "",
    };
    let row = |(i, phase): (usize, &Phase)| PhaseRow {
        number: i + 1,
        process: phase.process + 1,
        first_call: phase.first_call,
        denied: phase.denied,
        length: phase.length,
        tokens: match (phase.tokens_first, phase.tokens_last) {
            (Some(first), Some(last)) if phase.length > 1 => format!("{first:.1} → {last:.1}"),
            (Some(only), _) => format!("{only:.1}"),
            _ => "—".to_owned(),
        },
        at: phase.at.map_or("—".to_owned(), |at| format!("{}{:.3} {name}", sign(at), at * unit)),
    };
    shown.enumerate().map(row).collect()
}

impl ShapeRow {
    fn new(shape: &crate::analysis::summary::ShapeFigures) -> Self {
        ShapeRow {
            grid: dims(shape.grid),
            block: dims(shape.block),
            calls: shape.calls,
            denied: shape.denied,
            failed: shape.failed,
        }
    }
}

impl<'a> CheckRow<'a> {
    fn new(check: &'a crate::analysis::Check, lang: Lang) -> Self {
        let status = match check.status {
            Status::Pass => lang.pick("通过", "pass"),
            Status::Fail => lang.pick("不符", "FAIL"),
            Status::NotApplicable => lang.pick("不适用", "not applicable"),
        };
        CheckRow { id: check.id, status, detail: lang.pick(&check.detail_zh, &check.detail) }
    }
}

impl<'a> ProcessRow<'a> {
    fn new(process: &'a crate::events::Process) -> Self {
        let started = process
            .start_wall_ns
            .map(|ns| chrono::DateTime::from_timestamp_nanos(ns).to_rfc3339_opts(chrono::SecondsFormat::Millis, true));
        ProcessRow {
            pid: process.pid,
            exe: process.exe.as_deref(),
            host: process.host.as_deref(),
            hook: process.hook.as_deref(),
            started,
        }
    }
}

fn sums(events: &Events, analysis: &Analysis, kind: Kind) -> Sums {
    let mut sums = Sums::default();
    let of_kind = |i: &usize| events.calls.kind[*i] == kind && analysis.is_chosen(*i);
    for i in (0..events.calls.len()).filter(of_kind) {
        sums.calls += 1;
        match events.calls.outcome[i] {
            hook_event::Outcome::Ok => sums.ok += 1,
            hook_event::Outcome::Denied => sums.denied += 1,
            hook_event::Outcome::Failed => sums.failed += 1,
        }
    }
    sums
}
