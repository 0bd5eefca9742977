//! How the figures are put together, from rows or from processes whose calls were folded.

use std::collections::{BTreeMap, BTreeSet};

use hook_event::Dim3;

use super::{
    Analysis, ApiFigures, ConfigFigures, InputFigures, MemoryFigures, ProcessFigures, SCHEMA, ShapeFigures, Streak,
    Summary, TimeFigures, TokenFigures,
};
use crate::analysis::conformance::{self, Rulings};
use crate::analysis::coverage::Coverage;
use crate::analysis::denials::Episodes;
use crate::analysis::fairness::Shares;
use crate::analysis::fold::{Fold, Launches, Levels, STREAKS, Totals};
use crate::analysis::memory::Memory;
use crate::analysis::notes;
use crate::analysis::timeline::{self, Overall, Timeline};
use crate::events::{Events, Limit, Process};
use crate::step::{Shape, Step};

/// Works everything out.
pub fn analyse(events: &Events) -> Analysis {
    analyse_into(events, &mut Totals::default())
}

/// The same; what is counted over all processes is left in `totals`.
pub(crate) fn analyse_into(events: &Events, totals: &mut Totals) -> Analysis {
    let (mut memories, mut folds) = (Vec::new(), Vec::new());
    for (index, process) in events.processes.iter().enumerate() {
        let mut fold = Fold::new((0, 0, index as u32), totals);
        let step = |i| {
            let step = Step::of(&events.calls.row(i), &mut totals.shapes);
            totals.count(&step);
            fold.step(process, &step, totals)
        };
        let live_after = process.rows.clone().map(step).collect();
        fold.finish(process);
        memories.push(Memory { live_after, ..fold.replay.memory.clone() });
        folds.push(Box::new(fold));
    }
    let timelines = events.processes.iter().map(|p| timeline::of(&events.calls, p)).collect();
    Analysis { summary: assemble(events, folds.into_iter(), totals), timelines, memories, chosen: None }
}

/// The figures of processes whose calls were folded: of each process its fold. Of `events` all but the calls is needed,
/// and how many each process has.
///
/// One fold after the other becomes figures and is gone: there may be many.
pub(crate) fn assemble(events: &Events, folds: impl Iterator<Item = Box<Fold>>, totals: &Totals) -> Summary {
    let whole = conformance::whole(events);
    let (mut rulings, mut episodes, mut shares) = (Rulings::default(), Episodes::default(), Shares::default());
    let (mut overall, mut of_processes) = (Overall::default(), Vec::new());
    let mut processes = Vec::with_capacity(events.processes.len());
    for (index, ((process, mut fold), whole)) in events.processes.iter().zip(folds).zip(whole).enumerate() {
        fold.finish(process);
        let timeline = fold.clock.timeline(process);
        rulings.take(process, &mut fold, whole);
        episodes.take(index, process, &fold);
        shares.take(process, &fold);
        overall.take(process, &fold.clock, &timeline);
        notes::of_process(process, &fold, &mut of_processes);
        processes.push(process_figures(index, process, &fold, &timeline));
    }
    let (apis, tokens) = (apis(events, totals), overall_tokens(&processes));
    let (episodes, starvation) = episodes.figures();
    Summary {
        schema: SCHEMA,
        inputs: inputs(events),
        filter: None,
        config: common_config(&processes),
        shared: events.processes.iter().filter_map(|p| p.shared.clone()).collect::<BTreeSet<_>>().into_iter().collect(),
        episodes: (!tokens.untold).then_some(episodes),
        starvation,
        fairness: Some(shares.fairness()),
        overhead: totals.tally.figures(&apis, |id| events.names.text(id)),
        apis,
        memory: total_memory(&processes),
        tokens,
        dims: shapes(totals),
        time: time_figures(&overall.timeline()),
        checks: rulings.checks(events),
        what_if: Vec::new(),
        sizes: Vec::new(),
        lab: None,
        coverage: Coverage::of(events),
        processes,
        notes: notes::all(events, of_processes),
    }
}

fn inputs(events: &Events) -> Vec<InputFigures> {
    let figures = |source: &crate::events::Source| InputFigures {
        path: source.path.display().to_string(),
        lines: source.lines,
        events: source.events,
        left_out: source.left_out,
        other_lines: source.other_lines,
        bad_lines: source.bad_lines,
        oversized_lines: source.oversized_lines,
        cut_lines: source.cut_lines,
        classes: source.classes.clone(),
    };
    events.sources.iter().map(figures).collect()
}

fn config_of(process: &Process) -> ConfigFigures {
    let bucket = process.bucket.value();
    ConfigFigures {
        quota_bytes: process.quota.value(),
        rate: bucket.map(|(rate, _)| rate),
        capacity: bucket.map(|(_, capacity)| capacity),
        quota_off: process.quota == Limit::Off,
        rate_off: process.bucket == Limit::Off,
    }
}

fn common_config(processes: &[ProcessFigures]) -> ConfigFigures {
    let mut configs = processes.iter().map(|process| process.config);
    let Some(first) = configs.next() else { return ConfigFigures::default() };
    configs.fold(first, |common, other| ConfigFigures {
        quota_bytes: common.quota_bytes.filter(|_| common.quota_bytes == other.quota_bytes),
        rate: common.rate.filter(|_| common.rate == other.rate),
        capacity: common.capacity.filter(|_| common.capacity == other.capacity),
        quota_off: common.quota_off && other.quota_off,
        rate_off: common.rate_off && other.rate_off,
    })
}

fn apis(events: &Events, totals: &Totals) -> Vec<ApiFigures> {
    let known = totals.apis().map(|(api, [ok, denied, failed])| (events.names.text(api), [ok, denied, failed, 0]));
    let mut counts: BTreeMap<&str, [u64; 4]> = known.collect();
    for (api, calls) in events.processes.iter().flat_map(|process| &process.untold) {
        counts.entry(api).or_default()[3] += calls;
    }
    ApiFigures::sorted(counts)
}

fn total_memory(processes: &[ProcessFigures]) -> MemoryFigures {
    let told = processes.iter().map(|process| process.memory).filter(|memory| !memory.untold);
    let untold = processes.iter().any(|process| process.calls > 0)
        && processes.iter().filter(|process| process.calls > 0).all(|process| process.memory.untold);
    told.fold(MemoryFigures { untold, ..MemoryFigures::default() }, |sum, one| MemoryFigures {
        peak_bytes: sum.peak_bytes.max(one.peak_bytes),
        live_bytes: sum.live_bytes.saturating_add(one.live_bytes),
        allocated_bytes: sum.allocated_bytes.saturating_add(one.allocated_bytes),
        freed_bytes: sum.freed_bytes.saturating_add(one.freed_bytes),
        unknown_frees: sum.unknown_frees + one.unknown_frees,
        untold,
    })
}

fn overall_tokens(processes: &[ProcessFigures]) -> TokenFigures {
    let with: Vec<&TokenFigures> =
        processes.iter().map(|process| &process.tokens).filter(|tokens| tokens.min.is_some()).collect();
    let only = |pick: fn(&TokenFigures) -> Option<f64>| if let [one] = with[..] { pick(one) } else { None };
    let all = || processes.iter().map(|process| &process.tokens);
    let untold = all().any(|tokens| tokens.untold) && processes.iter().all(|p| p.calls == 0 || p.tokens.untold);
    TokenFigures {
        first: only(|tokens| tokens.first),
        min: with.iter().filter_map(|tokens| tokens.min).min_by(f64::total_cmp),
        max: with.iter().filter_map(|tokens| tokens.max).max_by(f64::total_cmp),
        last: only(|tokens| tokens.last),
        denial_streaks: all().flat_map(|tokens| &tokens.denial_streaks).take(STREAKS).copied().collect(),
        denial_streak_count: all().map(|tokens| tokens.denial_streak_count).sum(),
        // The first of equals.
        longest_denial_streak: all().rev().filter_map(|tokens| tokens.longest_denial_streak).max_by_key(|s| s.length),
        untold,
    }
}

fn shapes(totals: &Totals) -> Vec<ShapeFigures> {
    let mut shapes: Vec<(Shape, Launches)> = totals.launches().collect();
    shapes.sort_by_key(|(_, launches)| (std::cmp::Reverse(launches.counts.iter().sum::<u64>()), launches.first));
    let flat = |dim: Dim3| [dim.x, dim.y, dim.z];
    let figures = |((grid, block), Launches { counts: [ok, denied, failed], .. })| ShapeFigures {
        grid: flat(grid),
        block: flat(block),
        calls: ok + denied + failed,
        denied,
        failed,
    };
    shapes.into_iter().map(figures).collect()
}

fn time_figures(timeline: &Timeline) -> TimeFigures {
    TimeFigures {
        base: timeline.base,
        duration_s: timeline.duration_s.map(|s| timeline.base.digits(s)),
        error_s: timeline.error_s,
        lower_bound: timeline.lower_bound,
        lower_bound_gaps: timeline.gaps,
    }
}

fn process_figures(index: usize, process: &Process, fold: &Fold, timeline: &Timeline) -> ProcessFigures {
    let memory = &fold.replay.memory;
    ProcessFigures {
        pid: process.pid,
        exe: process.exe.clone(),
        first_line: process.first_line,
        calls: fold.calls + process.untold.values().sum::<u64>(),
        denied: fold.denied,
        config: config_of(process),
        device_quotas: process.device_quotas.iter().copied().collect(),
        shared: process.shared.clone(),
        memory: MemoryFigures {
            peak_bytes: memory.peak_bytes,
            live_bytes: memory.live_bytes,
            allocated_bytes: memory.allocated_bytes,
            freed_bytes: memory.freed_bytes,
            unknown_frees: memory.unknown_frees,
            untold: process.memory_untold || fold.late() > 0,
        },
        tokens: tokens(index, process, fold),
        time: time_figures(timeline),
        rates: fold.rules.tokens.rates(process).filter(|_| fold.late() == 0),
        trends: fold.trends.clone(),
        lost: process.lost,
        out_of_order: fold.late(),
    }
}

/// Levels of launches under a limit: a process that only records prints `tokens=0.0`, which is no level.
fn tokens(index: usize, process: &Process, fold: &Fold) -> TokenFigures {
    if fold.late() > 0 {
        return TokenFigures { untold: true, ..TokenFigures::default() };
    }
    let levels = if process.bucket == Limit::Off { Levels::default() } else { fold.levels };
    let runs = fold.denials.runs.as_deref();
    let streak = |&(first_call, length): &(u64, u64)| Streak { first_call, length, process: index };
    TokenFigures {
        first: levels.first,
        min: levels.min,
        max: levels.max,
        last: levels.last,
        denial_streaks: runs.map(|runs| runs.list.iter().map(streak).collect()).unwrap_or_default(),
        denial_streak_count: runs.map_or(0, |runs| runs.count),
        longest_denial_streak: runs.and_then(|runs| runs.longest.as_ref()).map(streak),
        untold: false,
    }
}
