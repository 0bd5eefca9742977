//! Parts of a chart one below the other: a heading, a legend, and what is drawn below it.

use plotters::style::RGBColor;

use super::axis::{Along, Axis, count};
use super::canvas::{Anchor, Canvas, Drawn, MARGIN, Palette, Pixel, SMALL, Shape, TEXT, WIDTH, width};
use crate::analysis::series::{ProcessSeries, Series};
use crate::render::Lang;

/// Height of a part's heading.
const HEADING: i32 = 26;
/// Height of a row of the legend.
const LEGEND: i32 = 21;
/// Height of ticks and caption below a plot.
pub(super) const FEET: i32 = 48;
/// Where plots begin and end.
const LEFT: i32 = 74;
const RIGHT: i32 = WIDTH - MARGIN - 6;
/// Height of a plot, and of one of several processes.
const TALL: i32 = 190;
const LOW: i32 = 66;
/// Room that a break's sign needs.
const BREAK: i32 = 18;
/// Height of the line above one of several.
const LABEL: i32 = 22;
/// Processes that are drawn by themselves; those with the least to draw are left out beyond.
const LANES: usize = 12;
/// Marks of a kind in all lanes of a part.
const MARKS: usize = 1_200;

/// A part of a chart.
pub(super) struct Block<'s> {
    title: String,
    legend: Vec<(Sign, String)>,
    /// Height of what `paint` draws from 0 on.
    body: i32,
    /// What must be said at the chart's end.
    pub(super) notes: Vec<String>,
    paint: Box<dyn FnOnce(&Canvas<'_>) -> Drawn + 's>,
}

/// An entry of a legend.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sign {
    /// A line of this colour.
    Curve(fn(&Palette) -> RGBColor),
    Dashes,
    Mark(Shape),
    /// A filled square.
    Field(fn(&Palette) -> RGBColor),
}

impl<'s> Block<'s> {
    pub(super) fn new(
        title: String,
        legend: Vec<(Sign, String)>,
        body: i32,
        paint: impl FnOnce(&Canvas<'_>) -> Drawn + 's,
    ) -> Block<'s> {
        Block { title, legend, body, notes: Vec::new(), paint: Box::new(paint) }
    }

    pub(super) fn height(&self) -> i32 {
        self.head() + self.body
    }

    fn head(&self) -> i32 {
        HEADING + LEGEND * self.entries().last().map_or(0, |(row, _, _)| row + 1) + 4
    }

    /// Row and place of each entry of the legend; one that has no room left begins a row.
    fn entries(&self) -> Vec<(i32, i32, &(Sign, String))> {
        let (mut row, mut x) = (0, MARGIN);
        let place = |entry| {
            let (_, label): &(Sign, String) = entry;
            let wide = 22 + width(label, TEXT - 1) + 14;
            if x > MARGIN && x + wide - 14 > WIDTH - MARGIN {
                (row, x) = (row + 1, MARGIN);
            }
            x += wide;
            (row, x - wide, entry)
        };
        self.legend.iter().map(place).collect()
    }

    pub(super) fn paint(self, canvas: &Canvas<'_>, top: i32) -> Drawn {
        canvas.shift(top);
        let palette = &canvas.palette;
        canvas.text((MARGIN, 12), &self.title, TEXT + 1, palette.ink, Anchor::Start)?;
        for (row, x, (sign, label)) in self.entries() {
            let y = HEADING + LEGEND * row + 8;
            match sign {
                Sign::Curve(colour) => canvas.line(vec![(x, y), (x + 16, y)], colour(palette), 3)?,
                Sign::Dashes => {
                    canvas.line(vec![(x, y), (x + 7, y)], palette.muted, 2)?;
                    canvas.line(vec![(x + 10, y), (x + 17, y)], palette.muted, 2)?;
                }
                Sign::Mark(shape) => canvas.mark((x + 8, y), *shape, false)?,
                Sign::Field(colour) => canvas.rectangle((x, y - 7), (x + 16, y + 7), colour(palette))?,
            }
            canvas.text((x + 22, y), label, TEXT - 1, palette.ink, Anchor::Start)?;
        }
        canvas.shift(top + self.head());
        (self.paint)(canvas)
    }
}

/// A mark's entry: how many there are, and how many are drawn where that differs.
pub(super) fn tally(shape: Shape, name: &str, all: usize, drawn: usize, lang: Lang) -> (Sign, String) {
    let of = count(all as u64);
    let text = if drawn == all {
        format!("{name} {of}")
    } else {
        format!("{name} {of} ({} {})", lang.pick("画出", "drawn"), count(drawn as u64))
    };
    (Sign::Mark(shape), text)
}

/// The rectangle of a plot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plot {
    pub(super) left: i32,
    pub(super) right: i32,
    pub(super) top: i32,
    pub(super) bottom: i32,
}

impl Plot {
    /// One as wide as the paper allows.
    pub(super) const fn new(top: i32, height: i32) -> Plot {
        Plot { left: LEFT, right: RIGHT, top, bottom: top + height }
    }

    /// The only one of a part.
    pub(super) const fn tall() -> Plot {
        Plot::new(8, TALL)
    }

    pub(super) const fn across(&self) -> (i32, i32) {
        (self.left, self.right)
    }

    pub(super) const fn upward(&self) -> (i32, i32) {
        (self.bottom, self.top)
    }

    /// Grid, left edge and their labels.
    pub(super) fn grid(&self, canvas: &Canvas<'_>, x: &Axis, y: &Axis) -> Drawn {
        let palette = &canvas.palette;
        for (value, _) in &x.ticks {
            let x = x.place(*value);
            canvas.line(vec![(x, self.top), (x, self.bottom)], palette.grid, 1)?;
        }
        for (value, label) in &y.ticks {
            let y = y.place(*value);
            canvas.line(vec![(self.left, y), (self.right, y)], palette.grid, 1)?;
            canvas.text((self.left - 6, y), label, SMALL, palette.ink, Anchor::End)?;
        }
        canvas.line(vec![(self.left, self.top), (self.left, self.bottom), (self.right, self.bottom)], palette.muted, 1)
    }

    /// What stands below: the horizontal axis' labels and caption.
    pub(super) fn feet(&self, canvas: &Canvas<'_>, x: &Axis, caption: &str) -> Drawn {
        let palette = &canvas.palette;
        for (value, label) in &x.ticks {
            canvas.text((x.place(*value), self.bottom + 15), label, SMALL, palette.ink, Anchor::Middle)?;
        }
        canvas.text(((self.left + self.right) / 2, self.bottom + 35), caption, SMALL, palette.ink, Anchor::Middle)
    }

    /// Where more time may have passed than the axis shows: the axis is broken. The sign stands in the gap, which ends
    /// there, `below` the top, where nothing else is drawn.
    pub(super) fn breaks(&self, canvas: &Canvas<'_>, places: &[i32], below: i32) -> Drawn {
        let palette = &canvas.palette;
        let mut last = i32::MIN / 2;
        for &x in places {
            if x - last < BREAK {
                continue;
            }
            last = x;
            canvas.upright(x, self.top, self.bottom, palette.muted)?;
            canvas.rectangle((x - 2, self.bottom - 1), (x + 2, self.bottom + 1), palette.ground)?;
            for dx in [-3, 2] {
                canvas.line(vec![(x + dx - 2, self.bottom + 5), (x + dx + 2, self.bottom - 5)], palette.ink, 2)?;
            }
            let (beside, anchor) = if x - BREAK < self.left { (x + 4, Anchor::Start) } else { (x - 4, Anchor::End) };
            canvas.text((beside, self.top + below), "≥", SMALL, palette.ink, anchor)?;
        }
        Ok(())
    }
}

/// Processes that are drawn in one plot.
pub(super) struct Lane<'s> {
    /// What stands above it, where it is not the only one.
    pub(super) label: Option<String>,
    pub(super) processes: Vec<&'s ProcessSeries>,
    pub(super) plot: Plot,
    /// Marks of a kind that may be drawn.
    pub(super) marks: usize,
}

/// Lanes, their height in all, and how many processes are left out.
pub(super) struct Lanes<'s> {
    pub(super) lanes: Vec<Lane<'s>>,
    pub(super) body: i32,
    pub(super) notes: Vec<String>,
}

/// Processes that ran at the same time each have a lane; others share one, one after the other.
pub(super) fn lanes<'s>(
    series: &'s Series,
    is_there: impl Fn(&ProcessSeries) -> bool,
    weight: impl Fn(&ProcessSeries) -> usize,
    lang: Lang,
) -> Lanes<'s> {
    let mut processes: Vec<&ProcessSeries> = series.processes.iter().filter(|process| is_there(process)).collect();
    if !series.one_clock || processes.len() < 2 {
        // Room above for the processes' numbers.
        let plot = if processes.len() > 1 { Plot::new(20, TALL) } else { Plot::tall() };
        let lanes = vec![Lane { label: None, processes, plot, marks: MARKS }];
        return Lanes { lanes, body: plot.bottom + FEET, notes: Vec::new() };
    }
    let all = processes.len();
    processes.sort_by_key(|process| (std::cmp::Reverse(weight(process)), process.process));
    processes.truncate(LANES);
    processes.sort_by_key(|process| process.process);
    let shown = processes.len();
    let lane = |(index, process): (usize, &'s ProcessSeries)| {
        let number = format!("{} {}", lang.pick("进程", "process"), process.process + 1);
        let pid = process.pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
        let plot = Plot::new(LABEL + index as i32 * (LABEL + LOW), LOW);
        Lane { label: Some(number + &pid), processes: vec![process], plot, marks: MARKS / shown }
    };
    let lanes = processes.into_iter().enumerate().map(lane).collect();
    let left_out = (all - shown) as u64;
    let note = match lang {
        Lang::Zh => format!("另有 {} 个进程未画出 (画出的是调用最多的 {shown} 个)", count(left_out)),
        Lang::En => format!("{} more processes are not drawn (the {shown} with the most calls are)", count(left_out)),
    };
    let body = (LABEL + LOW) * shown as i32 + FEET;
    Lanes { lanes, body, notes: if left_out > 0 { vec![note] } else { Vec::new() } }
}

impl Lane<'_> {
    /// The label above; where processes follow each other, where each begins.
    pub(super) fn tell_processes(
        &self,
        canvas: &Canvas<'_>,
        series: &Series,
        along: Along,
        x: &Axis,
        with: &str,
    ) -> Drawn {
        let palette = &canvas.palette;
        if let Some(label) = &self.label {
            let text = if with.is_empty() { label.clone() } else { format!("{label}: {with}") };
            return canvas.text((self.plot.left, self.plot.top - 10), &text, SMALL, palette.ink, Anchor::Start);
        }
        if series.one_clock || series.processes.len() < 2 {
            return Ok(());
        }
        let mut free = i32::MIN;
        let mut last = i32::MIN;
        for process in &self.processes {
            let x = x.place(along.place(process.begins.0, process.begins.1));
            let label = format!("{} {}", canvas.lang.pick("进程", "process"), process.process + 1);
            if x > last.saturating_add(3) {
                canvas.upright(x, self.plot.top, self.plot.bottom, palette.muted)?;
                last = x;
            }
            let end = x + width(&label, SMALL);
            if x >= free && end <= self.plot.right {
                canvas.text((x, self.plot.top - 8), &label, SMALL, palette.muted, Anchor::Start)?;
                free = end + 8;
            }
        }
        Ok(())
    }
}

/// A curve on the paper: points that fall together are one.
pub(super) fn pixels(points: &[(f64, f64)], x: &Axis, y: &Axis) -> Vec<Pixel> {
    let mut pixels: Vec<Pixel> = points.iter().map(|&(at, value)| (x.place(at), y.place(value))).collect();
    pixels.dedup();
    pixels
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::chart::Style;

    #[test]
    fn a_gap_that_is_only_a_bound_breaks_the_axis() {
        let drawn = |places: &[i32]| {
            let mut document = String::new();
            let canvas = Canvas::new(&mut document, 260, Style::default()).unwrap();
            Plot::tall().breaks(&canvas, places, 8).unwrap();
            canvas.finish().unwrap();
            drop(canvas);
            document.matches('≥').count()
        };
        assert_eq!(drawn(&[]), 0);
        assert_eq!(drawn(&[100, 400]), 2);
        // Signs need room; more breaks than that are one.
        assert_eq!(drawn(&(100..700).collect::<Vec<_>>()), 34);
    }
}
