//! The bucket: its level, a saw-tooth over time, and every launch with its outcome; bursts and starvations behind them.

use super::axis::{Along, Axis};
use super::canvas::{Pixel, Shape};
use super::panel::{Block, Lane, Lanes, Sign, lanes, pixels, tally};
use super::thin;
use crate::analysis::series::{ProcessSeries, Series};
use crate::render::Lang;
use crate::render::text::plain;

/// Whether a process has launches to draw.
pub(super) fn is_there(process: &ProcessSeries) -> bool {
    !process.launches.is_empty()
}

/// What is drawn of a lane.
struct Picture<'s> {
    lane: Lane<'s>,
    y: Axis,
    /// Columns of pixels from, to, and whether they are a starvation.
    bands: Vec<(i32, i32, bool)>,
    curves: Vec<Vec<Pixel>>,
    marks: Vec<(Pixel, Shape)>,
    capacity: Option<i32>,
    breaks: Vec<i32>,
}

/// Level and launches along `along`.
pub(super) fn block(series: &Series, along: Along, lang: Lang) -> Block<'_> {
    let Lanes { lanes, body, notes } = lanes(series, is_there, |process| process.launches.len(), lang);
    let x = along.axis(series, lanes.first().map_or((0, 1), |lane| lane.plot.across()), lang);
    let pictures: Vec<Picture<'_>> = lanes.into_iter().map(|lane| picture(lane, along, &x)).collect();
    let title = format!("{}: {}", lang.pick("令牌数", "tokens"), along.name(lang));
    let mut block = Block::new(title, legend(&pictures, lang), body, move |canvas| {
        let palette = &canvas.palette;
        for picture in &pictures {
            let (plot, lane) = (&picture.lane.plot, &picture.lane);
            for &(from, to, starvation) in &picture.bands {
                let colour = if starvation { palette.starvation } else { palette.burst };
                canvas.rectangle((from, plot.top), (to, plot.bottom), colour)?;
            }
            plot.grid(canvas, &x, &picture.y)?;
            lane.tell_processes(canvas, series, along, &x, &counts(lane, lang))?;
            if let Some(capacity) = picture.capacity {
                canvas.dashes(plot.left, plot.right, capacity, palette.muted)?;
            }
            // No level is above the capacity.
            plot.breaks(canvas, &picture.breaks, 9)?;
            for curve in &picture.curves {
                canvas.line(curve.clone(), palette.curve, 2)?;
            }
            let small = picture.marks.len() > 150 || lane.label.is_some();
            for (at, shape) in &picture.marks {
                canvas.mark(*at, *shape, small)?;
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

fn picture<'s>(lane: Lane<'s>, along: Along, x: &Axis) -> Picture<'s> {
    let processes = lane.processes.clone();
    let levels = || processes.iter().flat_map(|process| &process.launches).map(|launch| launch.tokens);
    let capacity = processes.iter().filter_map(|process| process.capacity).reduce(f64::max);
    let high = levels().fold(capacity.unwrap_or(0.0), f64::max);
    let high = if high > 0.0 { high } else { 1.0 };
    let low = levels().fold(0.0, f64::min);
    let (from, to) = (low - (high - low) * 0.08, high + (high - low) * 0.14);
    let wanted = if lane.label.is_some() { 2 } else { 5 };
    let mut y = Axis::linear((from, to), lane.plot.upward(), 1.0, wanted);
    y.ticks.retain(|(value, _)| *value >= low);
    // Over time the level is known between launches too; call by call it is what stands after each.
    let curve = |process: &&ProcessSeries| {
        let points = match along {
            Along::Time => process.level.clone(),
            Along::Calls => process.launches.iter().map(|launch| (launch.call, launch.tokens)).collect(),
        };
        pixels(&thin::curve(&points, |at| x.place(at)), x, &y)
    };
    let curves = processes.iter().map(curve).filter(|curve| curve.len() > 1).collect();
    let launches = processes.iter().flat_map(|process| &process.launches);
    let place = |at: f64, call: f64| x.place(along.place(at, call));
    let marks = launches.map(|l| ((place(l.at, l.call), y.place(l.tokens)), Shape::of(l.outcome)));
    let mut marks = thin::marks(marks, lane.marks);
    // The rarest last: among many others they are the few that one looks for.
    let number = |of: Shape| marks.iter().filter(|(_, shape)| *shape == of).count();
    let numbers = [Shape::Failed, Shape::Denied, Shape::Passed].map(|shape| (shape, number(shape)));
    let rank = |of: Shape| numbers.iter().find(|(shape, _)| *shape == of).map_or(0, |(_, number)| *number);
    marks.sort_by_key(|(_, shape)| (std::cmp::Reverse(rank(*shape)), *shape));
    let mut breaks: Vec<i32> = match along {
        Along::Time => processes.iter().flat_map(|process| &process.breaks).map(|&at| x.place(at)).collect(),
        Along::Calls => Vec::new(),
    };
    breaks.sort_unstable();
    let bands = bands(&processes, along, x, lane.plot.across());
    let capacity = capacity.map(|capacity| y.place(capacity));
    Picture { lane, y, bands, curves, marks, capacity, breaks }
}

/// Bursts and starvations by column of pixels: what at least half of the launches there are.
fn bands(processes: &[&ProcessSeries], along: Along, x: &Axis, (left, right): (i32, i32)) -> Vec<(i32, i32, bool)> {
    let mut weights = vec![[0.0f64; 3]; (right - left + 1).max(0) as usize];
    for phase in processes.iter().flat_map(|process| &process.phases) {
        let from = x.place(along.place(phase.at.0, phase.call.0)) - 3;
        let to = x.place(along.place(phase.at.1, phase.call.1)) + 3;
        let kind = if phase.launches < 2 { 2 } else { usize::from(phase.starvation) };
        let share = phase.launches as f64 / f64::from(to - from + 1);
        for column in from.max(left)..=to.min(right) {
            weights[(column - left) as usize][kind] += share;
        }
    }
    let mut bands: Vec<(i32, i32, bool)> = Vec::new();
    for (column, [burst, starvation, other]) in (left..).zip(weights) {
        let all = burst + starvation + other;
        if all == 0.0 || burst.max(starvation) < all / 2.0 {
            continue;
        }
        let kind = starvation > burst;
        match bands.last_mut().filter(|(_, to, of)| *of == kind && *to == column) {
            Some(band) => band.1 = column + 1,
            None => bands.push((column, (column + 1).min(right), kind)),
        }
    }
    bands
}

fn legend(pictures: &[Picture<'_>], lang: Lang) -> Vec<(Sign, String)> {
    let mut legend: Vec<(Sign, String)> = Vec::new();
    if pictures.iter().any(|picture| !picture.curves.is_empty()) {
        legend.push((Sign::Curve(|palette| palette.curve), lang.pick("令牌数", "tokens").to_owned()));
    }
    let mut capacities: Vec<f64> =
        pictures.iter().flat_map(|picture| &picture.lane.processes).filter_map(|process| process.capacity).collect();
    capacities.dedup();
    if let Some(first) = capacities.first() {
        let name = lang.pick("桶容量", "capacity");
        let text = if capacities.len() == 1 { format!("{name} {}", plain(*first)) } else { name.to_owned() };
        legend.push((Sign::Dashes, text));
    }
    for shape in [Shape::Passed, Shape::Denied, Shape::Failed] {
        let launches = pictures.iter().flat_map(|picture| &picture.lane.processes).flat_map(|p| &p.launches);
        let all = launches.filter(|launch| Shape::of(launch.outcome) == shape).count();
        let drawn = pictures.iter().flat_map(|picture| &picture.marks).filter(|(_, of)| *of == shape).count();
        if all > 0 {
            legend.push(tally(shape, shape.name(lang), all, drawn, lang));
        }
    }
    let has = |kind: bool| pictures.iter().flat_map(|picture| &picture.bands).any(|(_, _, of)| *of == kind);
    if has(false) {
        legend.push((Sign::Field(|palette| palette.burst), lang.pick("突发", "burst").to_owned()));
    }
    if has(true) {
        legend.push((Sign::Field(|palette| palette.starvation), lang.pick("饥饿", "starvation").to_owned()));
    }
    legend
}

/// What a lane's launches came to.
fn counts(lane: &Lane<'_>, lang: Lang) -> String {
    let of = |shape: Shape| {
        let all = lane.processes.iter().flat_map(|process| &process.launches);
        (shape, all.filter(|launch| Shape::of(launch.outcome) == shape).count())
    };
    let counts = [Shape::Passed, Shape::Denied, Shape::Failed].map(of);
    let told = counts.iter().filter(|(_, number)| *number > 0);
    told.map(|(shape, number)| format!("{} {number}", shape.name(lang))).collect::<Vec<_>>().join(", ")
}
