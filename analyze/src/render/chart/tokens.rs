//! The bucket: its level, a saw-tooth over time, and every launch with its outcome.

use hook_event::Outcome;
use plotters::prelude::*;

use super::{
    Along, Area, Axis, CURVE, DENIED, Drawn, MUTED, Shape, Sign, WIDTH, draw_mark, heading, plot, style, thin,
};
use crate::analysis::series::Series;
use crate::render::Lang;

/// Level and launches along `axis`.
pub(super) fn draw(area: &Area<'_>, series: &Series, axis: &Axis, lang: Lang) -> Drawn {
    let launches = series.processes.iter().flat_map(|process| &process.launches);
    let marks = launches.map(|launch| (axis.place(launch.at, launch.call), launch.tokens, shape(launch.outcome)));
    // Over time the level is known between launches too; call by call it is what stands after each.
    let curves: Vec<Vec<(f64, f64)>> = series
        .processes
        .iter()
        .map(|process| match axis.along {
            Along::Time => process.level.clone(),
            Along::Calls => process.launches.iter().map(|launch| (launch.call, launch.tokens)).collect(),
        })
        .collect();
    let levels = marks.clone().map(|(_, tokens, _)| tokens);
    let capacity = series.processes.iter().filter_map(|process| process.capacity).reduce(f64::max);
    let high = levels.clone().fold(capacity.unwrap_or(1.0), f64::max).max(1.0);
    let low = levels.fold(0.0, f64::min);
    let (top, bottom) = (high + (high - low) * 0.12, low - (high - low) * 0.06);

    let mut legend = vec![(Sign::Curve(CURVE), lang.pick("令牌数", "tokens"))];
    if capacity.is_some() {
        legend.push((Sign::Dashes(MUTED), lang.pick("桶容量", "capacity")));
    }
    legend.push((Sign::Mark(Shape::Passed), lang.pick("通过", "passed")));
    legend.push((Sign::Mark(Shape::Denied), lang.pick("被拒绝", "denied")));
    if marks.clone().any(|(_, _, shape)| shape == Shape::Failed) {
        legend.push((Sign::Mark(Shape::Failed), lang.pick("CUDA 返回错误", "refused by CUDA")));
    }
    heading(area, &format!("{}: {}", lang.pick("令牌桶", "token bucket"), axis.name), &legend)?;

    let mut chart = plot(area, axis, bottom..top, lang.pick("令牌数", "tokens"), false)?;
    if let Some(capacity) = capacity {
        chart.draw_series(DashedLineSeries::new(
            [(axis.from, capacity), (axis.to, capacity)],
            6,
            4,
            MUTED.stroke_width(1),
        ))?;
    }
    let pixel = |point: &(f64, f64)| chart.backend_coord(point);
    let thinned: Vec<Vec<(f64, f64)>> = curves.iter().map(|c| thin::curve(c, |at| pixel(&(at, 0.0)).0)).collect();
    let mut marks = thin::marks(marks.map(|(at, tokens, shape)| (pixel(&(at, tokens)), shape)));
    for curve in thinned {
        chart.draw_series(LineSeries::new(curve, CURVE.stroke_width(2)))?;
    }
    if marks.is_empty() {
        let text = lang.pick("日志中没有受限速的 kernel 启动", "no rate-limited launch in the log");
        area.draw(&Text::new(text, (WIDTH as i32 / 2 - 110, 120), style(14, DENIED)))?;
    }
    let (left, above) = area.get_base_pixel();
    // Passes last: among many denials they are the few that one looks for.
    marks.sort_by_key(|(_, shape)| *shape == Shape::Passed);
    for ((x, y), shape) in marks {
        draw_mark(area, (x - left, y - above), shape)?;
    }
    Ok(())
}

const fn shape(outcome: Outcome) -> Shape {
    match outcome {
        Outcome::Ok => Shape::Passed,
        Outcome::Denied => Shape::Denied,
        Outcome::Failed => Shape::Failed,
    }
}
