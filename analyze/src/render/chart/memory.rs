//! Live device memory as steps, the quota as a line, refused requests as marks.

use super::axis::{Along, Axis, byte_unit, bytes};
use super::canvas::{Anchor, Pixel, SMALL, Shape, width};
use super::panel::{Block, Lane, Lanes, Plot, Sign, lanes, pixels, tally};
use super::thin;
use crate::analysis::series::{ProcessSeries, Series};
use crate::render::Lang;

/// A quota that is so many times the peak is told and not drawn: the curve would lie flat on the ground.
const FAR: f64 = 20.0;

/// Whether a process has memory to draw.
pub(super) fn is_there(process: &ProcessSeries) -> bool {
    !process.refused.is_empty() || process.live.iter().any(|step| step.bytes > 0.0)
}

/// What is drawn of a lane.
struct Picture<'s> {
    lane: Lane<'s>,
    y: Axis,
    curves: Vec<Vec<Pixel>>,
    marks: Vec<(Pixel, Shape)>,
    /// Sizes beside marks.
    labels: Vec<(Pixel, Anchor, String)>,
    quota: Option<i32>,
    breaks: Vec<i32>,
}

/// Live bytes along `along`.
pub(super) fn block(series: &Series, along: Along, lang: Lang) -> Block<'_> {
    let Lanes { lanes, body, notes } = lanes(series, is_there, |process| process.live.len(), lang);
    let x = along.axis(series, lanes.first().map_or((0, 1), |lane| lane.plot.across()), lang);
    let top = lanes.iter().map(top).fold(0.0, f64::max);
    let unit = byte_unit(top);
    let pictures: Vec<Picture<'_>> = lanes.into_iter().map(|lane| picture(lane, along, &x, unit.0)).collect();
    let title = format!("{} ({}): {}", lang.pick("显存", "device memory"), unit.1, along.name(lang));
    let mut block = Block::new(title, legend(&pictures, lang), body, move |canvas| {
        let palette = &canvas.palette;
        for picture in &pictures {
            let (plot, lane) = (&picture.lane.plot, &picture.lane);
            plot.grid(canvas, &x, &picture.y)?;
            lane.tell_processes(canvas, series, along, &x, &limits(lane, lang))?;
            if let Some(quota) = picture.quota {
                canvas.dashes(plot.left, plot.right, quota, palette.muted)?;
            }
            // Between refused requests, which stand at the top, and the highest value.
            plot.breaks(canvas, &picture.breaks, 37)?;
            for curve in &picture.curves {
                canvas.line(curve.clone(), palette.passed, 2)?;
            }
            let small = picture.marks.len() > 150 || lane.label.is_some();
            for (at, shape) in &picture.marks {
                canvas.mark(*at, *shape, small)?;
            }
            for (at, anchor, label) in &picture.labels {
                canvas.text(*at, label, SMALL, palette.ink, *anchor)?;
            }
        }
        match pictures.last() {
            Some(last) => last.lane.plot.feet(canvas, &x, &along.caption(series, lang)),
            None => Ok(()),
        }
    });
    block.notes = notes;
    block
}

fn peak(lane: &Lane<'_>) -> f64 {
    lane.processes.iter().flat_map(|process| &process.live).map(|step| step.bytes).fold(0.0, f64::max)
}

fn quota(lane: &Lane<'_>) -> Option<f64> {
    lane.processes.iter().filter_map(|process| process.quota).reduce(f64::max)
}

/// The highest value that is drawn: a request far beyond the quota would flatten the curve, its mark stands at the edge.
fn top(lane: &Lane<'_>) -> f64 {
    let peak = peak(lane);
    let near = |quota: &f64| peak == 0.0 || *quota <= peak * FAR;
    let top = quota(lane).filter(near).unwrap_or(0.0).max(peak);
    if top > 0.0 { top } else { lane.processes.iter().flat_map(|p| &p.refused).map(|r| r.live).fold(1.0, f64::max) }
}

fn picture<'s>(lane: Lane<'s>, along: Along, x: &Axis, unit: f64) -> Picture<'s> {
    let (processes, plot, top) = (lane.processes.clone(), lane.plot, top(&lane));
    let wanted = if lane.label.is_some() { 2 } else { 5 };
    let mut y = Axis::linear((-top * 0.05, top * 1.35), plot.upward(), unit, wanted);
    y.ticks.retain(|(value, _)| *value >= 0.0);
    let place = |at: f64, call: f64| along.place(at, call);
    let curve = |process: &&ProcessSeries| {
        let points: Vec<(f64, f64)> = process.live.iter().map(|s| (place(s.at, s.call), s.bytes)).collect();
        pixels(&thin::curve(&points, |at| x.place(at)), x, &y)
    };
    let curves = processes.iter().map(curve).filter(|curve| curve.len() > 1).collect();
    // In a low plot a size stands beside its mark, so that marks far above the quota's line stay above it.
    let (edge, beside) = if lane.label.is_some() { (8, true) } else { (20, false) };
    let refused = || processes.iter().flat_map(|process| &process.refused);
    let at = |at: f64, call: f64, live: f64| (x.place(place(at, call)), y.place(live).max(plot.top + edge));
    let marks = thin::marks(refused().map(|r| (at(r.at, r.call, r.live), Shape::Denied)), lane.marks);
    let places = refused().map(|r| (at(r.at, r.call, r.live), r.size, r.live > top * 1.35));
    let labels = labels(places, &plot, beside);
    let quota = quota(&lane).filter(|quota| *quota <= top).map(|quota| y.place(quota));
    let mut breaks: Vec<i32> = match along {
        Along::Time => processes.iter().flat_map(|process| &process.breaks).map(|&at| x.place(at)).collect(),
        Along::Calls => Vec::new(),
    };
    breaks.sort_unstable();
    Picture { lane, y, curves, marks, labels, quota, breaks }
}

/// The sizes that have room above (or beside) their marks: the largest first, none over another. An arrow says of a mark that its
/// place is far above.
fn labels(
    refused: impl Iterator<Item = (Pixel, f64, bool)>,
    plot: &Plot,
    beside: bool,
) -> Vec<(Pixel, Anchor, String)> {
    let mut largest: Vec<(Pixel, f64, bool)> = Vec::new();
    let mut by_place = std::collections::HashMap::new();
    for (at, size, above) in refused {
        let index = *by_place.entry(at).or_insert_with(|| {
            largest.push((at, size, above));
            largest.len() - 1
        });
        largest[index].1 = largest[index].1.max(size);
    }
    largest.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut taken: Vec<(i32, i32, i32)> = Vec::new();
    let mut labels = Vec::new();
    for ((x, y), size, above) in largest.into_iter().take(200) {
        let label = bytes(size) + if above { " ↑" } else { "" };
        let half = width(&label, SMALL) / 2;
        let (x, y) = if !beside {
            (x, y - 13)
        } else if x + 9 + 2 * half > plot.right {
            (x - 9, y)
        } else {
            (x + 9, y)
        };
        let (from, to, anchor) = match x {
            x if beside && x + 2 * half > plot.right => (x - 2 * half, x, Anchor::End),
            x if beside => (x, x + 2 * half, Anchor::Start),
            x if x + half > plot.right => (x - 2 * half, x, Anchor::End),
            x if x - half < plot.left + 2 => (x, x + 2 * half, Anchor::Start),
            _ => (x - half, x + half, Anchor::Middle),
        };
        if taken.iter().all(|&(f, t, at)| to + 6 < f || from - 6 > t || (at - y).abs() > SMALL + 8) {
            taken.push((from, to, y));
            labels.push(((x, y), anchor, label));
        }
    }
    labels
}

fn legend(pictures: &[Picture<'_>], lang: Lang) -> Vec<(Sign, String)> {
    let mut legend: Vec<(Sign, String)> = Vec::new();
    if pictures.iter().any(|picture| !picture.curves.is_empty()) {
        legend.push((Sign::Curve(|palette| palette.passed), lang.pick("占用", "live").to_owned()));
    }
    let mut quotas: Vec<f64> = pictures.iter().flat_map(|p| &p.lane.processes).filter_map(|p| p.quota).collect();
    quotas.dedup();
    if let Some(first) = quotas.first() {
        let name = lang.pick("配额", "quota");
        let above = if pictures.iter().all(|picture| picture.quota.is_none()) {
            lang.pick(" (远在图外上方)", " (far above)")
        } else {
            ""
        };
        let text = if quotas.len() == 1 { format!("{name} {}{above}", bytes(*first)) } else { name.to_owned() };
        legend.push((Sign::Dashes, text));
    }
    let all: usize = pictures.iter().flat_map(|p| &p.lane.processes).map(|process| process.refused.len()).sum();
    let drawn = pictures.iter().map(|picture| picture.marks.len()).sum();
    if all > 0 {
        let name = lang.pick("被拒绝的申请 (标注大小)", "denied request (with its size)");
        legend.push(tally(Shape::Denied, name, all, drawn, lang));
    }
    legend
}

fn limits(lane: &Lane<'_>, lang: Lang) -> String {
    let peak = format!("{} {}", lang.pick("峰值", "peak"), bytes(peak(lane)));
    let refused: usize = lane.processes.iter().map(|process| process.refused.len()).sum();
    let quota =
        quota(lane).map(|quota| format!(", {} {}", lang.pick("配额", "quota"), bytes(quota))).unwrap_or_default();
    let refused = if refused == 0 { String::new() } else { format!(", {} {refused}", Shape::Denied.name(lang)) };
    peak + &quota + &refused
}
