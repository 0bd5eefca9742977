//! What a template sees.

use hook_event::Kind;
use serde::Serialize;

use super::rows::{
    self, ApiRow, BucketRow, CheckRow, InputRow, OverheadRow, PhaseRow, ProcessRow, RefillText, RefusedRow, SHOWN,
    ShapeRow, StarvationRow, Sums, Waits,
};
use super::{Charts, Made};
use crate::analysis::findings;
use crate::analysis::kernels::{self, KernelFigures};
use crate::analysis::narrow::FilterFigures;
use crate::analysis::summary::{Analysis, Summary};
use crate::analysis::{Status, TimeBase};
use crate::events::Events;
use crate::machine::Machine;
use crate::render::Lang;
use crate::render::text::{mb, percent, plain, seconds};

/// APIs, kernels and the like in a table; what is left out is counted below it.
const MANY: usize = 100;

/// What templates see, by the names that the built-in ones explain at their beginning (a test holds both equal). Numbers are
/// written as people read them, but for `figures`; what is absent is `none`.
#[derive(Serialize)]
pub(in crate::render) struct Context<'a> {
    /// The keys of `--json`.
    figures: &'a Summary,
    charts: &'a Charts,
    made: &'a Made,
    machine: &'a Machine,
    /// Whether the calls were made on `machine`, by the host's name; `none` where the log names no host.
    same_machine: Option<bool>,
    calls: u64,
    denied: u64,
    failed: u64,
    /// Calls of unknown outcome.
    unknown: u64,
    denied_share: Option<String>,
    quota: Option<String>,
    /// Whether the log says that there is none.
    quota_off: bool,
    rate: Option<String>,
    capacity: Option<String>,
    /// The same of the bucket.
    rate_off: bool,
    token_interval: Option<String>,
    /// Names under which the limits are shared.
    shared: String,
    /// Which calls it is of.
    filter: Option<&'a FilterFigures>,
    /// Whether the report is of some of the calls of its processes.
    some: bool,
    /// Whether several processes made calls.
    many: bool,
    /// Whether the hook is this project's: its version is in the records.
    ours: bool,
    /// Whether these are the calls of the lab's test program.
    lab: bool,
    apis: Vec<ApiRow<'a>>,
    apis_more: usize,
    allocations: Sums,
    launches: Sums,
    frees: Sums,
    /// Whether the log tells what was granted.
    memory_told: bool,
    peak: String,
    peak_share: Option<String>,
    live: String,
    allocated: String,
    freed: String,
    refused: Vec<RefusedRow>,
    refused_more: usize,
    /// Whether the log tells of each refused request what it would have led to.
    refused_told: bool,
    /// Whether every refused request would have exceeded the quota.
    refused_rightly: bool,
    /// Whether the totals that the hook states are those of the replay.
    totals_match: bool,
    /// Whether the rule of the quota was judged and kept.
    quota_kept: bool,
    phases: Vec<PhaseRow>,
    phases_more: usize,
    levels: String,
    levels_more: bool,
    burst: Option<u64>,
    started_full: bool,
    recovered: Option<u64>,
    refill: RefillText,
    waits: Option<Waits>,
    /// The longest time in which launches were asked for and none was let through.
    starvation: Option<StarvationRow>,
    /// Jain's index over the launches let through of each process that asked for one, and how many these are.
    fairness: Option<(String, usize)>,
    denied_rightly: bool,
    wrong_denial: Option<String>,
    /// Codes that denied launches returned.
    denied_codes: Vec<i32>,
    /// Launches that came by what CUDA 13 compiles `<<<>>>` to.
    triple: u64,
    /// The processes' buckets, where they are not all the same.
    buckets: Vec<BucketRow>,
    /// Whether these are the lab's calls, and each launch of its third test was denied.
    third_denied: bool,
    shapes: Vec<ShapeRow>,
    shapes_more: usize,
    denied_shapes: usize,
    kernels: Vec<KernelFigures>,
    kernels_more: usize,
    /// `monotonic`, `inferred` or `sequence`.
    base: TimeBase,
    duration: Option<String>,
    lower_bound: bool,
    checks: Vec<CheckRow<'a>>,
    broken: usize,
    overhead: Vec<OverheadRow<'a>>,
    coverage: Option<String>,
    notes: Vec<&'a str>,
    processes: Vec<ProcessRow<'a>>,
    processes_more: usize,
    inputs: Vec<InputRow<'a>>,
    /// Lines that were not understood: number, text.
    examples: Vec<(u64, &'a str)>,
}

impl<'a> Context<'a> {
    pub(in crate::render) fn new(
        events: &'a Events,
        analysis: &'a Analysis,
        charts: &'a Charts,
        made: &'a Made,
        machine: &'a Machine,
        lang: Lang,
    ) -> Self {
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
        let with_calls = || events.processes.iter().filter(|process| !process.rows.is_empty());
        let mut kernels = kernels::of(events, analysis);
        let kernels_more = kernels.len().saturating_sub(SHOWN);
        kernels.truncate(SHOWN);
        Context {
            figures: s,
            charts,
            made,
            machine,
            same_machine: rows::is_the_host(events, machine.host.as_deref()),
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
            apis: s.apis.iter().take(MANY).map(ApiRow::new).collect(),
            apis_more: s.apis.len().saturating_sub(MANY),
            allocations: rows::sums(events, analysis, Kind::Alloc),
            launches: rows::sums(events, analysis, Kind::Launch),
            frees: rows::sums(events, analysis, Kind::Free),
            refused_rightly: refused
                .iter()
                .all(|r| rows::would_be(r).zip(r.quota).is_some_and(|(sum, quota)| sum > quota)),
            memory_told: !s.memory.untold,
            refused_told: refused.iter().all(|r| rows::would_be(r).is_some()),
            refused_more: refused.len().saturating_sub(SHOWN),
            refused: refused.iter().take(SHOWN).map(RefusedRow::new).collect(),
            burst: first.map(|phase| phase.length),
            started_full: findings::started_full(events).unwrap_or(false),
            recovered: recovered.map(|phase| phase.length),
            phases_more: phases.len().saturating_sub(SHOWN),
            phases: rows::phase_rows(&phases, &s.time),
            refill: RefillText::of(events, analysis),
            denied_codes: rows::denied_codes(events, analysis),
            triple: rows::triple(events, analysis),
            levels_more: !some && findings::levels(events, usize::MAX).len() > levels.len(),
            filter: s.filter.as_ref(),
            some,
            levels: levels.iter().map(|level| format!("{level:.1}")).collect::<Vec<_>>().join(" → "),
            buckets: if s.config.rate.is_none() { rows::buckets(s) } else { Vec::new() },
            // The other launches of the lab all have one shape, which comes first.
            third_denied: rows::is_lab(events)
                && s.dims.len() > 1
                && s.dims.iter().skip(1).all(|shape| shape.denied == shape.calls),
            shapes_more: s.dims.len().saturating_sub(SHOWN),
            shapes: s.dims.iter().take(SHOWN).map(ShapeRow::new).collect(),
            denied_shapes: s.dims.iter().filter(|shape| shape.denied > 0).count(),
            kernels,
            kernels_more,
            base: s.time.base,
            duration: s.time.duration_s.map(seconds),
            lower_bound: s.time.lower_bound,
            checks: s.checks.iter().map(|check| CheckRow::new(check, lang)).collect(),
            broken: s.checks.iter().filter(|check| check.status == Status::Fail).count(),
            waits: Waits::of(events, analysis),
            starvation: s.starvation.as_ref().filter(|_| !some).map(StarvationRow::new),
            fairness: s.fairness.as_ref().filter(|_| !some).and_then(|f| Some((plain(f.all.index?), f.all.processes))),
            ours: !events.processes.is_empty() && with_calls().all(|process| process.hook.is_some()),
            lab: rows::is_lab(events),
            quota_off: s.config.quota_off,
            rate_off: s.config.rate_off,
            quota_kept: rows::passed(s, "quota-respected"),
            totals_match: rows::passed(s, "total-matches") && s.memory.unknown_frees == 0,
            denied_rightly: rows::passed(s, "denied-only-when-empty"),
            wrong_denial: s
                .checks
                .iter()
                .find(|check| check.id == "denied-only-when-empty" && check.status == Status::Fail)
                .map(|check| lang.pick(&check.detail_zh, &check.detail).to_owned()),
            many: s.processes.iter().filter(|process| process.calls > 0).count() > 1,
            coverage: s.coverage.statement().map(|note| lang.pick(&note.zh, &note.en).to_owned()),
            notes: s.notes.iter().map(|note| lang.pick(&note.zh, &note.en)).collect(),
            processes_more: with_calls().count().saturating_sub(SHOWN),
            processes: with_calls().take(SHOWN).map(ProcessRow::new).collect(),
            examples: events
                .sources
                .iter()
                .flat_map(|source| &source.bad_examples)
                .map(|(line, text)| (*line, text.as_str()))
                .collect(),
            inputs: s.inputs.iter().zip(&made.inputs).map(|(input, made)| InputRow::new(input, made, lang)).collect(),
            unknown: s.apis.iter().map(|a| a.unknown).sum(),
            overhead: s.overhead.apis.iter().take(SHOWN).map(OverheadRow::new).collect(),
        }
    }
}
