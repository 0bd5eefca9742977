//! Live device memory as steps, the quota as a line, refused requests as marks.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{Area, Axis, CURVE, DENIED, Drawn, Shape, Sign, WIDTH, draw_mark, heading, plot, style, thin};
use crate::analysis::series::{Bytes, Series};
use crate::render::Lang;
use crate::render::text::mb;

const MB: f64 = hook_event::units::MB as f64;

/// Refused requests that get their size written beside them; more would cover each other.
const LABELLED: usize = 4;

/// Live bytes along `axis`.
pub(super) fn draw(area: &Area<'_>, series: &Series, axis: &Axis, lang: Lang) -> Drawn {
    let quota = series.processes.iter().filter_map(|process| process.quota).reduce(f64::max);
    let live = series.processes.iter().flat_map(|process| &process.live).map(|step| step.bytes);
    let peak = live.fold(0.0, f64::max);
    // A request far beyond the quota would flatten the curve: marks stand at the upper edge instead, with their size.
    let top = (peak.max(quota.unwrap_or(0.0)) / MB * 1.25).max(1.0);
    let place = |step: &Bytes| (axis.place(step.at, step.call), step.bytes / MB);
    let refused: Vec<(f64, f64)> = series.processes.iter().flat_map(|process| &process.refused).map(place).collect();

    let mut legend = vec![(Sign::Curve(CURVE), lang.pick("占用", "live"))];
    if quota.is_some() {
        legend.push((Sign::Dashes(DENIED), lang.pick("配额", "quota")));
    }
    if !refused.is_empty() {
        legend.push((
            Sign::Mark(Shape::Denied),
            lang.pick("被拒绝的申请 (标注: 若批准的占用)", "denied request (label: total if granted)"),
        ));
    }
    heading(area, &format!("{}: {}", lang.pick("显存", "device memory"), axis.name), &legend)?;

    let mut chart = plot(area, axis, -top * 0.03..top, "MB", true)?;
    if let Some(quota) = quota {
        let line = [(axis.from, quota / MB), (axis.to, quota / MB)];
        chart.draw_series(DashedLineSeries::new(line, 6, 4, DENIED.stroke_width(1)))?;
    }
    let pixel = |point: &(f64, f64)| chart.backend_coord(point);
    let curves: Vec<Vec<(f64, f64)>> = series
        .processes
        .iter()
        .map(|process| process.live.iter().map(place).collect::<Vec<_>>())
        .map(|curve| thin::curve(&curve, |x| pixel(&(x, 0.0)).0))
        .collect();
    let at_edge = |&(x, mb): &(f64, f64)| pixel(&(x, mb.min(top * 0.9)));
    let marks = thin::marks(refused.iter().map(|request| (at_edge(request), Shape::Denied)));
    let labels: Vec<((i32, i32), String)> =
        refused.iter().take(LABELLED).map(|request| (at_edge(request), mb((request.1 * MB) as u64))).collect();
    for curve in curves {
        chart.draw_series(LineSeries::new(curve, CURVE.stroke_width(2)))?;
    }
    let (left, above) = area.get_base_pixel();
    for ((x, y), shape) in &marks {
        draw_mark(area, (x - left, y - above), *shape)?;
    }
    let mut last: Option<i32> = None;
    for ((x, y), label) in labels {
        // A label that would run into the one before is left out.
        if last.is_none_or(|last| x - last > 90) {
            // Above the mark, where no neighbour covers it; inside the picture.
            let anchor = match x {
                x if x > WIDTH as i32 - 60 => HPos::Right,
                x if x - left < 100 => HPos::Left,
                _ => HPos::Center,
            };
            let text = style(12, DENIED).pos(Pos::new(anchor, VPos::Center));
            area.draw(&Text::new(label, (x - left, y - above - 11), text))?;
            last = Some(x);
        }
    }
    if series.processes.iter().all(|process| process.live.is_empty()) {
        let text = lang.pick("日志中没有显存分配", "no allocation in the log");
        area.draw(&Text::new(text, (WIDTH as i32 / 2 - 70, 120), style(14, DENIED)))?;
    }
    Ok(())
}
