//! Figures of some of the calls, made from those of all: counts are counted again, and what only makes sense over all
//! calls of a process is left out.

use std::collections::{BTreeMap, HashMap};

use hook_event::{Dim3, Outcome};
use serde::Serialize;

use super::overhead::Tally;
use super::summary::{Analysis, ApiFigures, MemoryFigures, ShapeFigures, TokenFigures};
use super::timeline::{TimeBase, Timeline};
use crate::error::Error;
use crate::events::{Events, Note, Process};
use crate::filter::Filter;
use crate::step::Step;

/// That the figures are of some of the calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FilterFigures {
    /// Which.
    pub chosen: String,
    /// How many.
    pub calls: u64,
    /// Of so many in the logs.
    pub of: u64,
    /// What is left out (`null`) because some calls don't tell it.
    pub left_out: &'static [&'static str],
}

/// Narrows an analysis of `events`, whose processes were chosen already, to the calls that `filter` chooses.
///
/// # Errors
/// The filter asks for times that the logs don't have.
pub fn narrow(analysis: &mut Analysis, events: &Events, filter: &Filter) -> Result<(), Error> {
    if !filter.is_of_calls() {
        analysis.summary.filter = Some(figures(analysis, filter, &[]));
        return Ok(());
    }
    let chosen = filter.choose_calls(events, &analysis.timelines)?;
    let of = total(analysis);
    let there: Vec<String> = analysis.summary.apis.iter().map(|api| api.api.to_string()).collect();
    let summary = &mut analysis.summary;
    summary.apis = apis(events, filter, &chosen);
    summary.dims = shapes(events, &chosen);
    summary.memory = MemoryFigures { untold: true, ..MemoryFigures::default() };
    summary.tokens = TokenFigures { untold: true, ..TokenFigures::default() };
    (summary.episodes, summary.starvation, summary.fairness) = (None, None, None);
    let mut tally = Tally::default();
    let steps = (0..events.calls.len()).filter(|&i| chosen[i]).map(|i| Step::with_shape(&events.calls.row(i), None));
    steps.for_each(|step| tally.step(&step));
    summary.overhead = tally.figures(&summary.apis, |id| events.names.text(id));
    summary.time.duration_s = duration(events, &analysis.timelines, &chosen, summary.time.base);
    for (process, figures) in events.processes.iter().zip(&mut summary.processes) {
        let rows = || process.rows.clone().filter(|&i| chosen[i]);
        let untold: u64 = untold(filter, process).map(|(_, calls)| calls).sum();
        figures.calls = rows().count() as u64 + untold;
        figures.denied = rows().filter(|&i| events.calls.outcome[i] == Outcome::Denied).count() as u64;
        figures.memory = MemoryFigures { untold: true, ..MemoryFigures::default() };
        figures.tokens = TokenFigures { untold: true, ..TokenFigures::default() };
        (figures.time.duration_s, figures.rates) = (None, None);
    }
    let left_out: &[_] = &[
        "memory",
        "tokens",
        "episodes",
        "starvation",
        "fairness",
        "processes[].memory",
        "processes[].tokens",
        "processes[].time.duration_s",
        "processes[].rates",
    ];
    let figures = FilterFigures { of, ..figures(analysis, filter, left_out) };
    if figures.calls == 0 {
        let there = there.join(", ");
        analysis.summary.notes.push(Note::new(
            format!("no call is among the chosen; the log has calls of {there}"),
            format!("没有符合筛选条件的调用; 日志中有 {there}"),
        ));
    }
    analysis.summary.filter = Some(figures);
    analysis.chosen = Some(chosen);
    Ok(())
}

fn total(analysis: &Analysis) -> u64 {
    analysis.summary.apis.iter().map(|api| api.calls).sum()
}

fn figures(analysis: &Analysis, filter: &Filter, left_out: &'static [&'static str]) -> FilterFigures {
    let calls = total(analysis);
    FilterFigures { chosen: filter.to_string(), calls, of: calls, left_out }
}

/// Calls without a row that are among the chosen.
fn untold<'a>(filter: &'a Filter, process: &'a Process) -> impl Iterator<Item = (&'a str, u64)> {
    let all = process.untold.iter().map(|(api, calls)| (&**api, *calls));
    all.filter(|(api, _)| filter.is_of_apis_alone() && filter.has_api(api))
}

fn apis(events: &Events, filter: &Filter, chosen: &[bool]) -> Vec<ApiFigures> {
    let mut counts: BTreeMap<&str, [u64; 4]> = BTreeMap::new();
    let calls = &events.calls;
    for i in (0..calls.len()).filter(|&i| chosen[i]) {
        counts.entry(events.names.text(calls.api[i])).or_default()[calls.outcome[i] as usize] += 1;
    }
    for (api, calls) in events.processes.iter().flat_map(|process| untold(filter, process)) {
        counts.entry(api).or_default()[3] += calls;
    }
    ApiFigures::sorted(counts)
}

fn shapes(events: &Events, chosen: &[bool]) -> Vec<ShapeFigures> {
    let calls = &events.calls;
    let mut places: HashMap<(Dim3, Dim3), usize> = HashMap::new();
    let mut shapes: Vec<ShapeFigures> = Vec::new();
    let flat = |dim: Dim3| [dim.x, dim.y, dim.z];
    for i in (0..calls.len()).filter(|&i| chosen[i]) {
        let Some((grid, block)) = calls.grid[i].zip(calls.block[i]) else { continue };
        let place = *places.entry((grid, block)).or_insert_with(|| {
            shapes.push(ShapeFigures { grid: flat(grid), block: flat(block), calls: 0, denied: 0, failed: 0 });
            shapes.len() - 1
        });
        let shape = &mut shapes[place];
        shape.calls += 1;
        shape.denied += u64::from(calls.outcome[i] == Outcome::Denied);
        shape.failed += u64::from(calls.outcome[i] == Outcome::Failed);
    }
    // Stable: equal counts stay in the order of their first launch.
    shapes.sort_by_key(|shape| std::cmp::Reverse(shape.calls));
    shapes
}

/// From the first of the chosen to the last, where one clock stamped them.
fn duration(events: &Events, timelines: &[Timeline], chosen: &[bool], base: TimeBase) -> Option<f64> {
    let with: Vec<_> =
        events.processes.iter().zip(timelines).filter(|(process, _)| process.rows.clone().any(|i| chosen[i])).collect();
    if let ([(process, timeline)], TimeBase::Wall) = (&with[..], base) {
        let mut at = process.rows.clone().zip(&timeline.at).filter(|(i, _)| chosen[*i]).map(|(_, at)| *at);
        let first = at.next()?;
        return Some(at.next_back().unwrap_or(first) - first);
    }
    let one_host = with.iter().all(|(process, _)| process.host == with[0].0.host);
    let stamps = || events.calls.mono_ns.iter().zip(chosen).filter(|(_, chosen)| **chosen).filter_map(|(ns, _)| *ns);
    let ends = stamps().min().zip(stamps().max()).filter(|_| base == TimeBase::Monotonic && one_host);
    ends.map(|(first, last)| (last - first) as f64 / 1e9)
}
