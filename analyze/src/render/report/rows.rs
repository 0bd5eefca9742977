//! The rows of a report's tables: numbers as people read them.

use std::collections::BTreeSet;

use hook_event::{Kind, Outcome};
use serde::Serialize;

use super::Input;
use crate::analysis::denials::Starvation;
use crate::analysis::findings::{self, Phase};
use crate::analysis::overhead::{ApiOverhead, Percentiles};
use crate::analysis::summary::{
    Analysis, ApiFigures, InputFigures, ProcessFigures, ShapeFigures, Summary, TimeFigures,
};
use crate::analysis::{Check, Status, TimeBase, refill};
use crate::events::{Events, Process};
use crate::render::Lang;
use crate::render::text::{self, dims, mb, percent, plain, seconds};

/// Rows of a table in the report; what is left out is counted below it.
pub(super) const SHOWN: usize = 20;

#[derive(Serialize)]
pub(super) struct ApiRow<'a> {
    pub(super) api: &'a str,
    pub(super) calls: u64,
    pub(super) ok: u64,
    pub(super) denied: u64,
    pub(super) failed: u64,
    pub(super) unknown: u64,
    pub(super) share: String,
}

/// Calls of one kind.
#[derive(Default, Serialize)]
pub(super) struct Sums {
    pub(super) calls: u64,
    pub(super) ok: u64,
    pub(super) denied: u64,
    pub(super) failed: u64,
}

impl<'a> ApiRow<'a> {
    pub(super) fn new(api: &'a ApiFigures) -> Self {
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

/// The longest time without a launch let through.
#[derive(Serialize)]
pub(super) struct StarvationRow {
    pub(super) process: usize,
    /// Of the first denied launch.
    pub(super) line: u64,
    pub(super) seconds: String,
    /// `≥` where it may have been longer, `≈` where it is inferred.
    pub(super) bound: &'static str,
    /// Line of the launch that was let through next.
    pub(super) recovered: Option<u64>,
}

impl StarvationRow {
    pub(super) fn new(longest: &Starvation) -> Self {
        let episode = &longest.episode;
        StarvationRow {
            process: episode.process + 1,
            line: episode.first_line,
            seconds: seconds(longest.seconds),
            bound: text::bound(longest.lower_bound, episode.base),
            recovered: episode.recovered_line,
        }
    }
}

/// Launches that waited for their token.
#[derive(Serialize)]
pub(super) struct Waits {
    pub(super) launches: usize,
    pub(super) median: String,
    pub(super) longest: String,
}

impl Waits {
    pub(super) fn of(events: &Events, analysis: &Analysis) -> Option<Waits> {
        let waited = events.calls.wait_ns.iter().enumerate().filter(|(i, _)| analysis.is_chosen(*i));
        let mut waits: Vec<u64> = waited.filter_map(|(_, ns)| *ns).filter(|&ns| ns > 0).collect();
        waits.sort_unstable();
        let (median, longest) = (*waits.get(waits.len() / 2)?, *waits.last()?);
        let text = |ns: u64| seconds(ns as f64 / 1e9);
        Some(Waits { launches: waits.len(), median: text(median), longest: text(longest) })
    }
}

#[derive(Serialize)]
pub(super) struct RefusedRow {
    pub(super) line: u64,
    pub(super) bytes: Option<u64>,
    pub(super) size: String,
    pub(super) live: String,
    pub(super) would_be: String,
    pub(super) quota: String,
}

/// What the log does not tell.
const NONE: &str = "—";

/// What a refused request would have brought its account to.
pub(super) fn would_be(refused: &findings::Refused) -> Option<u64> {
    Some(refused.live?.saturating_add(refused.size?))
}

impl RefusedRow {
    pub(super) fn new(refused: &findings::Refused) -> Self {
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

#[derive(Serialize)]
pub(super) struct PhaseRow {
    pub(super) number: usize,
    pub(super) process: usize,
    pub(super) first_call: u64,
    pub(super) denied: bool,
    pub(super) length: u64,
    pub(super) tokens: String,
    pub(super) at: String,
}

/// The phases' rows, all times in the unit of the latest.
pub(super) fn phase_rows(phases: &[Phase], time: &TimeFigures) -> Vec<PhaseRow> {
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

#[derive(Serialize)]
pub(super) struct ShapeRow {
    pub(super) grid: String,
    pub(super) block: String,
    pub(super) calls: u64,
    pub(super) denied: u64,
    pub(super) failed: u64,
}

impl ShapeRow {
    pub(super) fn new(shape: &ShapeFigures) -> Self {
        ShapeRow {
            grid: dims(shape.grid),
            block: dims(shape.block),
            calls: shape.calls,
            denied: shape.denied,
            failed: shape.failed,
        }
    }
}

#[derive(Serialize)]
pub(super) struct CheckRow<'a> {
    pub(super) id: &'a str,
    /// `pass`, `fail` or `open`, in every language.
    pub(super) state: &'static str,
    pub(super) status: &'static str,
    pub(super) detail: &'a str,
}

impl<'a> CheckRow<'a> {
    pub(super) fn new(check: &'a Check, lang: Lang) -> Self {
        let (state, status) = match check.status {
            Status::Pass => ("pass", lang.pick("通过", "pass")),
            Status::Fail => ("fail", lang.pick("不符", "FAIL")),
            Status::NotApplicable => ("open", lang.pick("不适用", "not applicable")),
        };
        CheckRow { id: check.id, state, status, detail: lang.pick(&check.detail_zh, &check.detail) }
    }
}

#[derive(Serialize)]
pub(super) struct ProcessRow<'a> {
    pub(super) pid: Option<u32>,
    pub(super) exe: Option<&'a str>,
    pub(super) host: Option<&'a str>,
    pub(super) hook: Option<&'a str>,
    pub(super) started: Option<String>,
}

impl<'a> ProcessRow<'a> {
    pub(super) fn new(process: &'a Process) -> Self {
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

/// What calls of an API took.
#[derive(Serialize)]
pub(super) struct OverheadRow<'a> {
    api: &'a str,
    let_through: u64,
    n: u64,
    hook: [String; 4],
    real: [String; 4],
}

impl<'a> OverheadRow<'a> {
    pub(super) fn new(api: &'a ApiOverhead) -> Self {
        let text = |ns: u64| seconds(ns as f64 / 1e9);
        let row = |of: &Percentiles| {
            let told = |ns: Option<u64>| ns.map_or(NONE.to_owned(), text);
            [told(of.median), told(of.p90), told(of.p99), text(of.max)]
        };
        let (hook, real) = (row(&api.measured.hook_ns), row(&api.measured.real_ns));
        OverheadRow { api: &api.api, let_through: api.let_through, n: api.measured.n, hook, real }
    }
}

pub(super) fn sums(events: &Events, analysis: &Analysis, kind: Kind) -> Sums {
    let mut sums = Sums::default();
    let of_kind = |i: &usize| events.calls.kind[*i] == kind && analysis.is_chosen(*i);
    for i in (0..events.calls.len()).filter(of_kind) {
        sums.calls += 1;
        match events.calls.outcome[i] {
            Outcome::Ok => sums.ok += 1,
            Outcome::Denied => sums.denied += 1,
            Outcome::Failed => sums.failed += 1,
        }
    }
    sums
}

/// The sizes and shapes that the lab's test program asks for, in order; what the hook made of them may differ.
pub(super) fn is_lab(events: &Events) -> bool {
    const MB: u64 = hook_event::units::MB;
    let calls = &events.calls;
    let sizes = (0..calls.len()).filter(|&i| calls.kind[i] == Kind::Alloc).filter_map(|i| calls.size[i]);
    let launches = calls.kind.iter().filter(|kind| **kind == Kind::Launch).count();
    sizes.eq([64 * MB, 2048 * MB, 4 * MB, 4 * MB]) && launches == 18
}

pub(super) fn passed(summary: &Summary, id: &str) -> bool {
    summary.checks.iter().any(|check| check.id == id && check.status == Status::Pass)
}

/// An input: its lines, and what it was.
#[derive(Serialize)]
pub(super) struct InputRow<'a> {
    pub(super) path: &'a str,
    pub(super) lines: u64,
    pub(super) events: u64,
    pub(super) left_out: u64,
    pub(super) other_lines: u64,
    /// Not understood, of whatever kind.
    pub(super) bad_lines: u64,
    pub(super) classes: String,
    pub(super) bytes: Option<u64>,
    pub(super) sha256: Option<&'a str>,
}

impl<'a> InputRow<'a> {
    pub(super) fn new(input: &'a InputFigures, made: &'a Input, lang: Lang) -> Self {
        InputRow {
            path: &input.path,
            lines: input.lines,
            events: input.events,
            left_out: input.left_out,
            other_lines: input.other_lines,
            bad_lines: input.bad_lines + input.oversized_lines + input.cut_lines,
            classes: text::classes(&input.classes, lang),
            bytes: made.bytes,
            sha256: made.sha256.as_deref(),
        }
    }
}

/// What was seen of refilling.
#[derive(Serialize)]
pub(super) struct RefillText {
    pub(super) speed: Option<SpeedText>,
    pub(super) rise: Option<RiseText>,
}

#[derive(Serialize)]
pub(super) struct SpeedText {
    pub(super) rate: String,
    pub(super) seconds: String,
    pub(super) pairs: u64,
}

#[derive(Serialize)]
pub(super) struct RiseText {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) seconds: Option<String>,
    pub(super) full: bool,
}

impl RefillText {
    /// Where only some calls are meant, two that follow each other among them need not do so in the log.
    pub(super) fn of(events: &Events, analysis: &Analysis) -> Self {
        if analysis.chosen.is_some() {
            return RefillText { speed: None, rise: None };
        }
        let seen = refill::seen(events, analysis);
        let speed = |speed: refill::Speed| SpeedText {
            rate: plain(speed.rate),
            seconds: seconds(speed.seconds),
            pairs: speed.pairs,
        };
        let rise = |rise: refill::Rise| RiseText {
            from: format!("{:.1}", rise.from),
            to: format!("{:.1}", rise.to),
            seconds: rise.seconds.map(seconds),
            full: rise.full,
        };
        RefillText { speed: seen.speed.map(speed), rise: seen.rise.map(rise) }
    }
}

/// Whether all processes that name their host name this one.
pub(super) fn is_the_host(events: &Events, host: Option<&str>) -> Option<bool> {
    let named: Vec<&str> = events.processes.iter().filter_map(|process| process.host.as_deref()).collect();
    (!named.is_empty()).then(|| named.iter().all(|name| Some(*name) == host))
}

/// What denied launches returned, each code once.
pub(super) fn denied_codes(events: &Events, analysis: &Analysis) -> Vec<i32> {
    let calls = &events.calls;
    let denied =
        |i: &usize| calls.kind[*i] == Kind::Launch && calls.outcome[*i] == Outcome::Denied && analysis.is_chosen(*i);
    let codes: BTreeSet<i32> = (0..calls.len()).filter(denied).filter_map(|i| calls.ret[i]).collect();
    codes.into_iter().collect()
}

/// Launches that came by what CUDA 13 compiles `<<<>>>` to, so far as the log tells symbols.
pub(super) fn triple(events: &Events, analysis: &Analysis) -> u64 {
    let symbols = events.calls.sym.iter().enumerate().filter(|(i, _)| analysis.is_chosen(*i));
    let by = |id| events.names.text(id).starts_with("__cudaLaunchKernel");
    symbols.filter(|(_, sym)| sym.is_some_and(by)).count() as u64
}

/// A process's bucket.
#[derive(Serialize)]
pub(super) struct BucketRow {
    pub(super) process: usize,
    pub(super) rate: String,
    pub(super) capacity: String,
    pub(super) calls: u64,
    pub(super) denied: u64,
}

/// The buckets of the first processes that have one and made calls.
pub(super) fn buckets(summary: &Summary) -> Vec<BucketRow> {
    let row = |(index, process): (usize, &ProcessFigures)| {
        let (rate, capacity) = process.config.rate.zip(process.config.capacity)?;
        let (calls, denied) = (process.calls, process.denied);
        (calls > 0).then(|| BucketRow {
            process: index + 1,
            rate: plain(rate),
            capacity: plain(capacity),
            calls,
            denied,
        })
    };
    summary.processes.iter().enumerate().filter_map(row).take(SHOWN).collect()
}
