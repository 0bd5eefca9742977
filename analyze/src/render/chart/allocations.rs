//! Requests for memory: their size by the number of the call.

use super::axis::{Along, Axis, byte_unit, bytes};
use super::canvas::Shape;
use super::panel::{Block, FEET, Plot, Sign, tally};
use super::thin;
use crate::analysis::series::Series;
use crate::render::Lang;

/// Marks of a kind.
const MARKS: usize = 2_000;
/// From this ratio of the largest to the smallest on, sizes are drawn by their ratios.
const WIDE: f64 = 30.0;

/// All requests.
pub(super) fn block(series: &Series, lang: Lang) -> Block<'_> {
    let plot = Plot::new(8, 260);
    let requests = &series.census.requests;
    let sizes = || requests.iter().map(|request| request.size).filter(|size| *size > 0.0);
    let (least, most) = (sizes().fold(f64::INFINITY, f64::min), sizes().fold(0.0, f64::max));
    let mut quotas: Vec<f64> = series.processes.iter().filter_map(|process| process.quota).collect();
    quotas.dedup();
    let quota = quotas.first().copied().filter(|_| quotas.len() == 1);
    let log = most / least > WIDE;
    let quota = quota.filter(|quota| *quota <= most * 2.0 && (!log || *quota >= least / 2.0));
    let x = Along::Calls.axis(series, plot.across(), lang);
    let y = if log {
        // A request for nothing stands on the ground.
        Axis::logarithmic((least / 2.0, most * 2.0), plot.upward(), 4.0, bytes)
    } else {
        let top = quota.unwrap_or(0.0).max(most);
        let mut axis = Axis::linear((-top * 0.04, top * 1.15), plot.upward(), byte_unit(most).0, 5);
        axis.ticks.retain(|(value, _)| *value >= 0.0);
        axis
    };
    let marks = requests.iter().map(|r| ((x.place(r.call), y.place(r.size)), Shape::of(r.outcome)));
    let mut marks = thin::marks(marks, MARKS);
    marks.sort_by_key(|(_, shape)| std::cmp::Reverse(*shape));
    let mut legend = Vec::new();
    for shape in [Shape::Passed, Shape::Denied, Shape::Failed] {
        let all = requests.iter().filter(|request| Shape::of(request.outcome) == shape).count();
        let drawn = marks.iter().filter(|(_, of)| *of == shape).count();
        if all > 0 {
            legend.push(tally(shape, shape.name(lang), all, drawn, lang));
        }
    }
    if let Some(quota) = quota {
        legend.push((Sign::Dashes, format!("{} {}", lang.pick("配额", "quota"), bytes(quota))));
    }
    let scale = match (log, lang) {
        (true, Lang::Zh) => "对数刻度".to_owned(),
        (true, Lang::En) => "logarithmic".to_owned(),
        (false, _) => byte_unit(most).1.to_owned(),
    };
    let title = format!("{} ({scale})", lang.pick("每次申请的大小", "size of each request"));
    Block::new(title, legend, plot.bottom + FEET, move |canvas| {
        plot.grid(canvas, &x, &y)?;
        if let Some(quota) = quota {
            canvas.dashes(plot.left, plot.right, y.place(quota), canvas.palette.muted)?;
        }
        for (at, shape) in &marks {
            canvas.mark(*at, *shape, marks.len() > 150)?;
        }
        plot.feet(canvas, &x, &Along::Calls.caption(series, lang))
    })
}
