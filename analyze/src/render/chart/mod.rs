//! Charts as SVG: text stays text with a stack of common fonts, drawing needs no font of this machine.
//!
//! Marks differ in shape as well as in colour (the palette is Okabe and Ito's, safe for colour-blind readers,
//! <https://jfly.uni-koeln.de/color/>). Marks that would fall on the same pixel are drawn once, and a curve keeps the
//! lowest and highest point of each pixel column, so that a million events make a file of the size of a thousand.

mod memory;
mod thin;
mod tokens;

use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use unicode_width::UnicodeWidthStr;

use super::Lang;
use super::text::plain;
use crate::analysis::TimeBase;
use crate::analysis::series::Series;
use crate::error::Error;

/// Width of a chart, pixels.
const WIDTH: u32 = 960;
/// Height of one panel.
const PANEL: u32 = 250;
/// Height of the heading.
const HEADING: u32 = 44;

/// What the text of a chart is set in: the first of these that the viewer's machine has.
const FONTS: &str = "Noto Sans, Noto Sans CJK SC, Source Han Sans SC, PingFang SC, Microsoft YaHei, sans-serif";

const INK: RGBColor = RGBColor(40, 40, 40);
const MUTED: RGBColor = RGBColor(110, 110, 110);
const GRID: RGBColor = RGBColor(228, 228, 228);
const CURVE: RGBColor = RGBColor(86, 180, 233);
const PASSED: RGBColor = RGBColor(0, 114, 178);
const DENIED: RGBColor = RGBColor(213, 94, 0);
const FAILED: RGBColor = RGBColor(204, 121, 167);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// One chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chart {
    /// Token level and memory, each over time and call by call.
    Timeline,
    /// Token level, over time and by call number.
    Tokens,
    /// Live memory, over time and call by call.
    Memory,
}

/// The chart as an SVG document.
///
/// # Errors
/// The drawing library refuses (which means that this code is wrong).
pub fn svg(series: &Series, chart: Chart, title: &str, lang: Lang) -> Result<String, Error> {
    let panels = panels(series, chart);
    let size = (WIDTH, HEADING + PANEL * panels.len() as u32);
    let mut document = String::new();
    draw(&mut document, size, &panels, series, title, lang)
        .map_err(|why| Error::Render { what: "the chart", why: why.to_string() })?;
    Ok(document)
}

fn draw(document: &mut String, size: (u32, u32), panels: &[Panel], series: &Series, title: &str, lang: Lang) -> Drawn {
    let root = SVGBackend::with_string(document, size).into_drawing_area();
    root.fill(&WHITE)?;
    let (head, body) = root.split_vertically(HEADING);
    let text = style(18, INK).pos(Pos::new(HPos::Left, VPos::Center));
    head.draw(&Text::new(printable(title), (16, HEADING as i32 / 2 + 2), text))?;
    for (panel, area) in panels.iter().zip(body.split_evenly((panels.len(), 1))) {
        match panel {
            Panel::Tokens(along) => tokens::draw(&area, series, &Axis::of(series, *along, lang), lang)?,
            Panel::Memory(along) => memory::draw(&area, series, &Axis::of(series, *along, lang), lang)?,
        }
    }
    root.present()?;
    Ok(())
}

#[derive(Clone, Copy)]
enum Panel {
    Tokens(Along),
    Memory(Along),
}

/// What the horizontal axis is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Along {
    Time,
    /// A burst that lasts microseconds is one point in time; its calls are told apart here.
    Calls,
}

fn panels(series: &Series, chart: Chart) -> Vec<Panel> {
    let both = [Along::Time, Along::Calls];
    let axes = if series.base == TimeBase::Sequence { &both[1..] } else { &both[..] };
    let tokens = axes.iter().map(|&along| Panel::Tokens(along));
    let memory = axes.iter().map(|&along| Panel::Memory(along));
    match chart {
        Chart::Tokens => tokens.collect(),
        Chart::Memory => memory.collect(),
        Chart::Timeline => tokens.chain(memory).collect(),
    }
}

fn style(size: u32, colour: RGBColor) -> TextStyle<'static> {
    TextStyle { color: colour.to_backend_color(), ..TextStyle::from((FONTS, size).into_font()) }
}

/// XML 1.0 has no way to write most control characters; plotters escapes the rest.
fn printable(text: &str) -> String {
    super::text::printable(text)
}

/// A horizontal axis: what it shows, its ends, and how a value on it is printed.
struct Axis {
    along: Along,
    /// "over time" or "call by call", for a panel's heading.
    name: &'static str,
    label: String,
    from: f64,
    to: f64,
    unit: f64,
    decimals: usize,
}

impl Axis {
    fn of(series: &Series, along: Along, lang: Lang) -> Axis {
        if along == Along::Calls {
            let label = match series.base {
                TimeBase::Sequence => lang.pick("调用序号 (日志中没有时间)", "call number (the log has no time)"),
                _ => lang.pick("调用序号", "call number"),
            };
            return Axis {
                along,
                name: lang.pick("逐次调用", "call by call"),
                label: label.to_owned(),
                from: 0.0,
                to: series.calls + 1.0,
                unit: 1.0,
                decimals: 0,
            };
        }
        let end = if series.end > 0.0 { series.end } else { 1.0 };
        let (unit, name) = match end {
            e if e < 1e-3 => (1e6, "µs"),
            e if e < 1.0 => (1e3, "ms"),
            _ => (1.0, "s"),
        };
        let how = match (series.base, series.lower_bound) {
            (TimeBase::Monotonic, _) => lang.pick("单调时钟", "monotonic clock"),
            (TimeBase::Wall, false) => lang.pick("日志行前的时间", "the times before the lines"),
            (TimeBase::Wall, true) => lang.pick(
                "日志行前的时间, 时钟回拨处为下界",
                "the times before the lines, a lower bound where the clock was set back",
            ),
            (_, false) => lang.pick("由令牌增长推算", "inferred from token growth"),
            (_, true) => lang.pick(
                "由令牌增长推算, 桶满处为下界",
                "inferred from token growth, a lower bound where the bucket was full",
            ),
        };
        // About ten ticks: as many decimals as tell them apart.
        let step = end * unit / 10.0;
        Axis {
            along,
            name: lang.pick("随时间", "over time"),
            label: format!("{} ({name}, {how})", lang.pick("时间", "time")),
            from: -end * 0.01,
            to: end * 1.02,
            unit,
            decimals: (-step.log10().floor()).clamp(0.0, 6.0) as usize,
        }
    }

    /// Where something lies on it that happened at a time and as a call's number.
    fn place(&self, at: f64, call: f64) -> f64 {
        match self.along {
            Along::Time => at,
            Along::Calls => call,
        }
    }

    fn print(&self, value: f64) -> String {
        if value < 0.0 { String::new() } else { format!("{:.*}", self.decimals, value * self.unit) }
    }
}

/// The plot below a panel's heading: grid, axes and their labels. Values below zero lie in a margin and are not labelled
/// where `from_zero` says so.
fn plot<'a, 'b>(
    area: &'a Area<'b>,
    axis: &Axis,
    heights: Range<f64>,
    name: &str,
    from_zero: bool,
) -> Result<ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>, Box<dyn std::error::Error>> {
    let mut chart = ChartBuilder::on(area)
        .margin_top(28)
        .margin_right(18)
        .margin_left(6)
        .margin_bottom(4)
        .x_label_area_size(40)
        .y_label_area_size(62)
        .build_cartesian_2d(axis.from..axis.to, heights)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(MUTED)
        .label_style(style(12, INK))
        .axis_desc_style(style(13, INK))
        .x_desc(axis.label.as_str())
        .y_desc(name)
        .x_label_formatter(&|value| axis.print(*value))
        .y_label_formatter(&|value| if from_zero && *value < 0.0 { String::new() } else { plain(*value) })
        .y_labels(6)
        .draw()?;
    Ok(chart)
}

/// An entry of a panel's legend.
enum Sign {
    Curve(RGBColor),
    Dashes(RGBColor),
    Mark(Shape),
}

/// A mark's form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Shape {
    Passed,
    Denied,
    Failed,
}

/// A panel's heading at the left and its legend at the right, on one line above the plot.
fn heading(area: &Area<'_>, title: &str, legend: &[(Sign, &str)]) -> Drawn {
    const Y: i32 = 12;
    let left = style(14, INK).pos(Pos::new(HPos::Left, VPos::Center));
    area.draw(&Text::new(title.to_owned(), (16, Y), left))?;
    let text = style(12, MUTED).pos(Pos::new(HPos::Left, VPos::Center));
    let width = |label: &str| 26 + (label.width() as f64 * 6.6).ceil() as i32;
    let total: i32 = legend.iter().map(|(_, label)| width(label)).sum();
    let mut x = WIDTH as i32 - 16 - total;
    for (sign, label) in legend {
        match sign {
            Sign::Curve(colour) => area.draw(&PathElement::new(vec![(x, Y), (x + 16, Y)], colour.stroke_width(2)))?,
            Sign::Dashes(colour) => {
                for start in [x, x + 6, x + 12] {
                    area.draw(&PathElement::new(vec![(start, Y), (start + 4, Y)], colour.stroke_width(2)))?;
                }
            }
            Sign::Mark(shape) => draw_mark(area, (x + 8, Y), *shape)?,
        }
        area.draw(&Text::new((*label).to_owned(), (x + 22, Y), text.clone()))?;
        x += width(label);
    }
    Ok(())
}

/// A mark at a pixel of the area.
fn draw_mark(area: &Area<'_>, (x, y): (i32, i32), shape: Shape) -> Drawn {
    match shape {
        Shape::Passed => area.draw(&Circle::new((x, y), 4, PASSED.filled()))?,
        // Larger than a pass, which may lie on top of it.
        Shape::Denied => {
            area.draw(&PathElement::new(vec![(x - 5, y - 5), (x + 5, y + 5)], DENIED.stroke_width(2)))?;
            area.draw(&PathElement::new(vec![(x - 5, y + 5), (x + 5, y - 5)], DENIED.stroke_width(2)))?;
        }
        Shape::Failed => area.draw(&TriangleMarker::new((x, y), 6, FAILED.filled()))?,
    }
    Ok(())
}
