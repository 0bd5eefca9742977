//! Charts as SVG, and as PNG from the same drawing: text stays text with a stack of common fonts, drawing needs no font of
//! this machine.
//!
//! Marks differ in shape as well as in colour. Marks that would cover each other are drawn once (the legend says how many
//! there are), and a curve keeps the lowest and highest point of each pixel column, so that a million events make a file of
//! the size of a thousand.

mod allocations;
mod axis;
mod bars;
mod canvas;
mod costs;
mod memory;
mod outcomes;
mod panel;
pub mod png;
mod thin;
mod tokens;

use self::axis::Along;
use self::canvas::{Anchor, Canvas, Drawn, MARGIN, SMALL, TEXT, WIDTH, fitted};
use self::panel::Block;
use super::Lang;
use crate::analysis::series::Series;
use crate::error::Error;

/// Size of the letters of a title, pixels.
const TITLE: i32 = 18;
/// Height of the title's line.
const HEADING: i32 = 42;
/// Height of a line at the end.
const FOOT: i32 = 20;

/// One chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Chart {
    /// Tokens and memory, over time and call by call
    Timeline,
    /// Token level, passes and denials, bursts and starvations
    Tokens,
    /// Live memory, the quota, denied requests
    Memory,
    /// Size of each request for memory, by call number
    Allocations,
    /// Calls passed and denied in each interval
    Outcomes,
    /// Launches by grid and block
    Shapes,
    /// Launches by kernel
    Kernels,
    /// What the hook and the real calls took
    Overhead,
}

impl Chart {
    /// All of them.
    pub const ALL: [Chart; 8] = [
        Chart::Timeline,
        Chart::Tokens,
        Chart::Memory,
        Chart::Allocations,
        Chart::Outcomes,
        Chart::Shapes,
        Chart::Kernels,
        Chart::Overhead,
    ];

    /// The name that the command line and files' names have for it.
    pub const fn name(self) -> &'static str {
        match self {
            Chart::Timeline => "timeline",
            Chart::Tokens => "tokens",
            Chart::Memory => "memory",
            Chart::Allocations => "allocations",
            Chart::Outcomes => "outcomes",
            Chart::Shapes => "shapes",
            Chart::Kernels => "kernels",
            Chart::Overhead => "overhead",
        }
    }

    /// What stands above it.
    pub fn title(self, lang: Lang) -> &'static str {
        match self {
            Chart::Timeline => lang.pick("CUDA hook 时间线", "CUDA hook timeline"),
            Chart::Tokens => lang.pick("令牌桶", "Token bucket"),
            Chart::Memory => lang.pick("显存", "Device memory"),
            Chart::Allocations => lang.pick("显存申请", "Memory requests"),
            Chart::Outcomes => lang.pick("通过与拒绝", "Passed and denied"),
            Chart::Shapes => lang.pick("启动形状", "Launch shapes"),
            Chart::Kernels => lang.pick("Kernel 启动", "Kernels"),
            Chart::Overhead => lang.pick("耗时", "Overhead"),
        }
    }

    /// Why `series` has nothing for this chart; `None` where it has.
    pub fn lacks(self, series: &Series, lang: Lang) -> Option<&'static str> {
        let census = &series.census;
        let (there, why) = match self {
            Chart::Timeline => {
                let none = lang.pick(
                    "日志中没有受限速的启动, 也没有显存分配",
                    "no rate-limited launch and no allocation in the log",
                );
                (Chart::Tokens.lacks(series, lang).is_none() || Chart::Memory.lacks(series, lang).is_none(), none)
            }
            Chart::Tokens => {
                let none = lang.pick("日志中没有受限速的 kernel 启动", "no rate-limited launch in the log");
                (series.processes.iter().any(tokens::is_there), none)
            }
            Chart::Memory => {
                let untold =
                    lang.pick("日志没有说明批准了哪些显存申请", "the log does not tell what memory was granted");
                let none = lang.pick("日志中没有显存分配", "no allocation in the log");
                (series.processes.iter().any(memory::is_there), if census.requests.is_empty() { none } else { untold })
            }
            Chart::Allocations => {
                let none = lang.pick("日志中没有带大小的显存申请", "no request for memory with its size in the log");
                (!census.requests.is_empty(), none)
            }
            Chart::Outcomes => {
                let none =
                    lang.pick("日志中没有启动, 也没有显存申请", "no launch and no request for memory in the log");
                let intervals = census.intervals.launches.iter().chain(&census.intervals.requests);
                (intervals.map(|interval| interval.all()).sum::<u64>() > 0, none)
            }
            Chart::Shapes => {
                (!census.shapes.is_empty(), lang.pick("日志中没有启动的 grid 和 block", "no grid and block in the log"))
            }
            Chart::Kernels => {
                let none = lang
                    .pick("日志中没有 kernel 名 (事件文件才有)", "no kernel names in the log (event files have them)");
                (!census.kernels.is_empty(), none)
            }
            Chart::Overhead => {
                let none =
                    lang.pick("日志中没有耗时 (事件文件才有)", "no durations in the log (event files have them)");
                (!census.costs.is_empty(), none)
            }
        };
        (!there).then_some(why)
    }
}

/// Colours of a chart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Theme {
    /// Dark on white
    #[default]
    Light,
    /// Light on dark
    Dark,
}

/// How a chart looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Language of its text.
    pub lang: Lang,
    /// Its colours.
    pub theme: Theme,
}

/// The chart as an SVG document. One that `series` has nothing for says so.
///
/// # Errors
/// The drawing library refuses (which means that this code is wrong).
pub fn svg(series: &Series, chart: Chart, title: &str, style: Style) -> Result<String, Error> {
    let mut document = String::new();
    draw(&mut document, series, chart, title, style)
        .map_err(|why| Error::Render { what: "the chart", why: why.to_string() })?;
    Ok(document)
}

fn draw(document: &mut String, series: &Series, chart: Chart, title: &str, style: Style) -> Drawn {
    let lang = style.lang;
    let lack = chart.lacks(series, lang);
    let blocks = if lack.is_some() { Vec::new() } else { blocks(series, chart, lang) };
    let mut notes: Vec<String> = blocks.iter().flat_map(|block| block.notes.clone()).collect();
    notes.dedup();
    let body: i32 = if lack.is_some() { 100 } else { blocks.iter().map(Block::height).sum() };
    let canvas = Canvas::new(document, HEADING + body + FOOT * notes.len() as i32 + 6, style)?;
    let title = fitted(title, TITLE, WIDTH - 2 * MARGIN);
    canvas.text((MARGIN, 22), &title, TITLE, canvas.palette.ink, Anchor::Start)?;
    let mut top = HEADING;
    if let Some(lack) = lack {
        canvas.text((WIDTH / 2, top + 44), lack, TEXT, canvas.palette.ink, Anchor::Middle)?;
    }
    for block in blocks {
        let height = block.height();
        block.paint(&canvas, top)?;
        top += height;
    }
    canvas.shift(0);
    for (number, note) in (0..).zip(&notes) {
        let at = (MARGIN, HEADING + body + FOOT * number + FOOT / 2);
        canvas.text(at, note, SMALL, canvas.palette.muted, Anchor::Start)?;
    }
    canvas.finish()
}

fn blocks(series: &Series, chart: Chart, lang: Lang) -> Vec<Block<'_>> {
    let axes = axes(series);
    let tokens = || axes.iter().map(|&along| tokens::block(series, along, lang));
    let memory = || axes.iter().map(|&along| memory::block(series, along, lang));
    match chart {
        Chart::Tokens => tokens().collect(),
        Chart::Memory => memory().collect(),
        Chart::Timeline => {
            let has = |chart: Chart| chart.lacks(series, lang).is_none();
            let tokens = tokens().filter(|_| has(Chart::Tokens));
            tokens.chain(memory().filter(|_| has(Chart::Memory))).collect()
        }
        Chart::Allocations => vec![allocations::block(series, lang)],
        Chart::Outcomes => outcomes::blocks(series, lang),
        Chart::Shapes => vec![bars::shapes(series, lang)],
        Chart::Kernels => vec![bars::kernels(series, lang)],
        Chart::Overhead => vec![costs::block(series, lang)],
    }
}

/// Time where there is one, and call numbers; these say little of processes that ran at the same time.
fn axes(series: &Series) -> &'static [Along] {
    let at_once = series.one_clock && series.processes.len() > 1;
    match (series.has_time(), at_once) {
        (false, _) => &[Along::Calls],
        (true, true) => &[Along::Time],
        (true, false) => &[Along::Time, Along::Calls],
    }
}
