//! What calls took, by API: the hook's part and the real call's, each from the shortest to the longest.

use super::axis::{Axis, count};
use super::canvas::{Anchor, Canvas, Drawn, MARGIN, SMALL, TEXT, WIDTH, fitted, width};
use super::panel::{Block, FEET, Plot, Sign};
use crate::analysis::census::{Cost, Spread};
use crate::analysis::series::Series;
use crate::render::Lang;
use crate::render::text::{printable, seconds};

/// APIs; those with fewer calls are counted below them.
const ROWS: usize = 8;
/// Height of an API's name and two lines.
const ROW: i32 = 66;

/// Every API whose records tell both times.
pub(super) fn block(series: &Series, lang: Lang) -> Block<'_> {
    let costs = &series.census.costs;
    let (shown, rest) = costs.split_at(costs.len().min(ROWS));
    let spreads = || shown.iter().flat_map(|cost| [cost.hook, cost.real]);
    let least = spreads().map(|spread| spread.least).min().unwrap_or(1).max(1) as f64;
    let most = spreads().map(|spread| spread.most).max().unwrap_or(1).max(1) as f64;
    let plot = Plot { left: MARGIN, ..Plot::new(4, ROW * shown.len() as i32) };
    let ns = |value: f64| seconds(value / 1e9);
    // Room at the right for the medians.
    let x = Axis::logarithmic((least / 1.6, most * 1.6), (plot.left, plot.right - 92), 10.0, ns);
    let legend = vec![
        (Sign::Field(|palette| palette.denied), lang.pick("hook 增加的时间", "added by the hook").to_owned()),
        (Sign::Field(|palette| palette.passed), lang.pick("真实调用", "the real call").to_owned()),
        (Sign::Curve(|palette| palette.muted), lang.pick("最短到最长", "shortest to longest").to_owned()),
        (Sign::Field(|palette| palette.muted), lang.pick("中间一半", "middle half").to_owned()),
    ];
    let caption = lang.pick(
        "放行的每次调用的时间 (对数刻度); 右侧为中位数",
        "time of a call let through (logarithmic); at the right the median",
    );
    let title = lang.pick("hook 与真实调用各用多久", "what the hook and the real calls take").to_owned();
    let mut block = Block::new(title, legend, plot.bottom + FEET, move |canvas| {
        for (value, _) in &x.ticks {
            let x = x.place(*value);
            canvas.line(vec![(x, plot.top), (x, plot.bottom)], canvas.palette.grid, 1)?;
        }
        for (index, cost) in (0..).zip(shown) {
            row(canvas, &x, &plot, plot.top + index * ROW, cost)?;
        }
        canvas.line(vec![(plot.left, plot.bottom), (plot.right, plot.bottom)], canvas.palette.muted, 1)?;
        plot.feet(canvas, &x, caption)
    });
    if !rest.is_empty() {
        let calls = rest.iter().map(|cost| cost.hook.calls).sum();
        block.notes = vec![match lang {
            Lang::Zh => format!("另有 {} 个 API 未画出, 共 {} 次调用", count(rest.len() as u64), count(calls)),
            Lang::En => format!("{} more APIs are not drawn, with {} calls", count(rest.len() as u64), count(calls)),
        }];
    }
    block
}

fn row(canvas: &Canvas<'_>, x: &Axis, plot: &Plot, top: i32, cost: &Cost) -> Drawn {
    let palette = &canvas.palette;
    let calls = match canvas.lang {
        Lang::Zh => format!(" ({} 次)", count(cost.hook.calls)),
        Lang::En => format!(" ({} calls)", count(cost.hook.calls)),
    };
    let name = fitted(&printable(&cost.api), TEXT - 1, WIDTH - 2 * MARGIN - width(&calls, TEXT - 1)) + &calls;
    canvas.text((plot.left + 2, top + 14), &name, TEXT - 1, palette.ink, Anchor::Start)?;
    for (spread, colour, below) in [(cost.hook, palette.denied, 34), (cost.real, palette.passed, 52)] {
        let Spread { least, middle, most, .. } = spread;
        let (place, y) = (|ns: u64| x.place(ns as f64), top + below);
        canvas.line(vec![(place(least), y), (place(most).max(place(least) + 1), y)], colour, 2)?;
        let Some([quarter, median, three_quarters]) = middle else {
            canvas.text((plot.right, y), "—", SMALL, palette.ink, Anchor::End)?;
            continue;
        };
        canvas.rectangle((place(quarter) - 1, y - 5), (place(three_quarters) + 1, y + 5), colour)?;
        let at = place(median);
        canvas.rectangle((at - 1, y - 8), (at + 1, y + 8), palette.ink)?;
        canvas.text((plot.right, y), &seconds(median as f64 / 1e9), SMALL, palette.ink, Anchor::End)?;
    }
    Ok(())
}
