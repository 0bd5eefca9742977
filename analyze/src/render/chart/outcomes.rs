//! Calls passed and denied in each interval: passed upward, denied downward, so that they differ without colour too.

use super::axis::{Along, Axis, count, number, time_base, time_unit};
use super::canvas::Shape;
use super::panel::{Block, FEET, Plot, Sign};
use crate::analysis::census::Outcomes;
use crate::analysis::series::Series;
use crate::render::Lang;
use crate::render::text::seconds;

/// Launches and requests, where there are any.
pub(super) fn blocks(series: &Series, lang: Lang) -> Vec<Block<'_>> {
    let intervals = &series.census.intervals;
    let kinds = [
        (lang.pick("kernel 启动", "launches"), &intervals.launches),
        (lang.pick("显存申请", "memory requests"), &intervals.requests),
    ];
    let there = kinds.into_iter().filter(|(_, all)| all.iter().any(|outcomes| outcomes.all() > 0));
    there.map(|(name, all)| block(series, name, all, lang)).collect()
}

fn block<'s>(series: &'s Series, name: &str, all: &'s [Outcomes], lang: Lang) -> Block<'s> {
    let plot = Plot::tall();
    let width = series.census.intervals.width;
    let sequence = !series.has_time();
    let end = width * all.len() as f64;
    let unit = if sequence { 1.0 } else { time_unit(end, lang).0 };
    let mut x = Axis::linear((0.0, end), plot.across(), unit, 7);
    x.ticks.retain(|(value, _)| !sequence || value.fract() == 0.0);
    let up = all.iter().map(|outcomes| outcomes.passed + outcomes.failed).max().unwrap_or(0) as f64;
    let down = all.iter().map(|outcomes| outcomes.denied).max().unwrap_or(0) as f64;
    let mut breaks: Vec<i32> = if sequence {
        Vec::new()
    } else {
        series.processes.iter().flat_map(|process| &process.breaks).map(|&at| x.place(at)).collect()
    };
    breaks.sort_unstable();
    let y = {
        let span = (up + down).max(1.0);
        // The signs of breaks stand above all bars.
        let above = if breaks.is_empty() { 0.06 } else { 0.12 };
        let mut axis = Axis::linear((-down - span * 0.06, up + span * above), plot.upward(), 1.0, 8);
        axis.ticks.retain(|(value, _)| value.fract() == 0.0);
        // Both ways it is a number of calls.
        axis.ticks.iter_mut().for_each(|(value, label)| *label = number(value.abs()));
        axis
    };
    let sum = |pick: fn(&Outcomes) -> u64| all.iter().map(pick).sum::<u64>();
    let totals = [
        (Shape::Passed, sum(|o| o.passed), lang.pick(" ↑", " ↑")),
        (Shape::Failed, sum(|o| o.failed), lang.pick(" ↑", " ↑")),
        (Shape::Denied, sum(|o| o.denied), lang.pick(" ↓", " ↓")),
    ];
    let field = |shape| match shape {
        Shape::Passed => Sign::Field(|palette| palette.passed),
        Shape::Denied => Sign::Field(|palette| palette.denied),
        Shape::Failed => Sign::Field(|palette| palette.failed),
    };
    let told = totals.into_iter().filter(|(_, number, _)| *number > 0);
    let legend =
        told.map(|(shape, n, way)| (field(shape), format!("{} {}{way}", shape.name(lang), count(n)))).collect();
    let each = match (sequence, lang) {
        (true, _) if width == 1.0 => Along::Calls.name(lang).to_owned(),
        (true, Lang::Zh) => format!("每 {width} 次调用"),
        (true, Lang::En) => format!("of every {width} calls"),
        (false, Lang::Zh) => format!("每 {}", seconds(width)),
        (false, Lang::En) => format!("in every {}", seconds(width)),
    };
    let caption = if sequence {
        Along::Calls.caption(series, lang)
    } else {
        format!("{} ({}) · {}", lang.pick("时间", "time"), time_unit(end, lang).1, time_base(series, lang))
    };
    Block::new(format!("{name}: {each}"), legend, plot.bottom + FEET, move |canvas| {
        plot.grid(canvas, &x, &y)?;
        let zero = y.place(0.0);
        for (index, outcomes) in all.iter().enumerate() {
            let (from, to) = (x.place(index as f64 * width), x.place((index + 1) as f64 * width));
            let (from, to) = (from + 1, (to - 1).max(from + 2));
            let (passed, failed) = (outcomes.passed as f64, outcomes.failed as f64);
            // What is there is seen, however little it is.
            let seen = |from: i32, to: i32| if from == to { from - 2 } else { to };
            if outcomes.passed > 0 {
                canvas.rectangle((from, seen(zero, y.place(passed))), (to, zero), canvas.palette.passed)?;
            }
            if outcomes.failed > 0 {
                let ground = y.place(passed);
                canvas.rectangle(
                    (from, seen(ground, y.place(passed + failed))),
                    (to, ground),
                    canvas.palette.failed,
                )?;
            }
            if outcomes.denied > 0 {
                let depth = y.place(-(outcomes.denied as f64)).max(zero + 2);
                canvas.rectangle((from, zero), (to, depth), canvas.palette.denied)?;
            }
        }
        canvas.line(vec![(plot.left, zero), (plot.right, zero)], canvas.palette.ink, 1)?;
        plot.breaks(canvas, &breaks, 9)?;
        plot.feet(canvas, &x, &caption)
    })
}
