//! The paper: pixels, colours, text. What is drawn here is plotters' SVG.

use std::cell::Cell;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use unicode_width::UnicodeWidthChar;

use super::{Style, Theme};
use crate::render::Lang;

/// Width of a chart, pixels. Narrow for its letters, so that a column of a paper or a phone leaves them legible.
pub(super) const WIDTH: i32 = 720;
/// Space at the left and right of everything.
pub(super) const MARGIN: i32 = 16;
/// Height of most letters, pixels.
pub(super) const TEXT: i32 = 15;
/// Height of letters in a plot, pixels.
pub(super) const SMALL: i32 = 13;

/// What text is set in: the first of these that the viewer's machine has.
const FONTS: &str = "Noto Sans, Noto Sans CJK SC, Source Han Sans SC, PingFang SC, Microsoft YaHei, sans-serif";

/// Plotters divides the size that it is given by this.
const PLOTTERS_SIZE: f64 = 1.24;

pub(super) type Drawn = Result<(), Box<dyn std::error::Error>>;

/// A place on the paper, pixels from the upper left.
pub(super) type Pixel = (i32, i32);

/// Colours of Okabe and Ito, safe for colour-blind readers (<https://jfly.uni-koeln.de/color/>), on two grounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Palette {
    pub(super) ground: RGBColor,
    pub(super) ink: RGBColor,
    pub(super) muted: RGBColor,
    pub(super) grid: RGBColor,
    pub(super) curve: RGBColor,
    pub(super) passed: RGBColor,
    pub(super) denied: RGBColor,
    pub(super) failed: RGBColor,
    /// Bands behind a burst and behind a starvation, as they are mixed with the ground.
    pub(super) burst: RGBColor,
    pub(super) starvation: RGBColor,
}

const LIGHT: Palette = Palette {
    ground: WHITE,
    ink: RGBColor(34, 34, 34),
    muted: RGBColor(96, 96, 96),
    grid: RGBColor(226, 226, 226),
    curve: RGBColor(86, 180, 233),
    passed: RGBColor(0, 114, 178),
    denied: RGBColor(213, 94, 0),
    failed: RGBColor(190, 90, 150),
    burst: RGBColor(205, 236, 226),
    starvation: RGBColor(252, 232, 196),
};

const DARK: Palette = Palette {
    ground: RGBColor(24, 26, 31),
    ink: RGBColor(235, 235, 235),
    muted: RGBColor(168, 172, 180),
    grid: RGBColor(56, 60, 68),
    curve: RGBColor(130, 150, 172),
    passed: RGBColor(86, 180, 233),
    denied: RGBColor(240, 160, 40),
    failed: RGBColor(225, 150, 195),
    burst: RGBColor(16, 66, 56),
    starvation: RGBColor(78, 58, 22),
};

/// A mark's form: each outcome has its own, beside its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Shape {
    Failed,
    Denied,
    Passed,
}

impl Shape {
    pub(super) const fn of(outcome: hook_event::Outcome) -> Shape {
        match outcome {
            hook_event::Outcome::Ok => Shape::Passed,
            hook_event::Outcome::Denied => Shape::Denied,
            hook_event::Outcome::Failed => Shape::Failed,
        }
    }

    /// What it stands for.
    pub(super) fn name(self, lang: Lang) -> &'static str {
        match self {
            Shape::Passed => lang.pick("通过", "passed"),
            Shape::Denied => lang.pick("被拒绝", "denied"),
            Shape::Failed => lang.pick("CUDA 返回错误", "refused by CUDA"),
        }
    }
}

/// Which end of a text stands at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// The paper.
pub(super) struct Canvas<'a> {
    area: DrawingArea<SVGBackend<'a>, Shift>,
    pub(super) palette: Palette,
    pub(super) lang: Lang,
    /// Where what is drawn begins, pixels from the top.
    top: Cell<i32>,
}

impl<'a> Canvas<'a> {
    /// A filled paper of this height; `document` holds the SVG once it is finished.
    pub(super) fn new(document: &'a mut String, height: i32, style: Style) -> Result<Self, Box<dyn std::error::Error>> {
        let palette = match style.theme {
            Theme::Light => LIGHT,
            Theme::Dark => DARK,
        };
        let area = SVGBackend::with_string(document, (WIDTH as u32, height.max(1) as u32)).into_drawing_area();
        area.fill(&palette.ground)?;
        Ok(Canvas { area, palette, lang: style.lang, top: Cell::new(0) })
    }

    /// From now on heights count from `top`.
    pub(super) fn shift(&self, top: i32) {
        self.top.set(top);
    }

    fn down(&self, (x, y): Pixel) -> Pixel {
        (x, y + self.top.get())
    }

    pub(super) fn finish(&self) -> Drawn {
        Ok(self.area.present()?)
    }

    pub(super) fn line(&self, points: Vec<Pixel>, colour: RGBColor, width: u32) -> Drawn {
        let points: Vec<Pixel> = points.into_iter().map(|point| self.down(point)).collect();
        Ok(self.area.draw(&PathElement::new(points, colour.stroke_width(width)))?)
    }

    /// A level line in dashes.
    pub(super) fn dashes(&self, from: i32, to: i32, y: i32, colour: RGBColor) -> Drawn {
        for x in (from..to).step_by(14) {
            self.line(vec![(x, y), ((x + 8).min(to), y)], colour, 2)?;
        }
        Ok(())
    }

    /// An upright line in dashes.
    pub(super) fn upright(&self, x: i32, from: i32, to: i32, colour: RGBColor) -> Drawn {
        for y in (from..to).step_by(8) {
            self.line(vec![(x, y), (x, (y + 4).min(to))], colour, 1)?;
        }
        Ok(())
    }

    pub(super) fn rectangle(&self, from: Pixel, to: Pixel, colour: RGBColor) -> Drawn {
        Ok(self.area.draw(&Rectangle::new([self.down(from), self.down(to)], colour.filled()))?)
    }

    pub(super) fn text(&self, at: Pixel, text: &str, size: i32, colour: RGBColor, anchor: Anchor) -> Drawn {
        let anchor = match anchor {
            Anchor::Start => HPos::Left,
            Anchor::Middle => HPos::Center,
            Anchor::End => HPos::Right,
        };
        let font = (FONTS, f64::from(size) * PLOTTERS_SIZE).into_font();
        let style = TextStyle { color: colour.to_backend_color(), ..TextStyle::from(font) };
        let style = style.pos(Pos::new(anchor, VPos::Center));
        // XML 1.0 has no way to write most control characters; plotters escapes the rest.
        Ok(self.area.draw(&Text::new(crate::render::text::printable(text), self.down(at), style))?)
    }

    /// A mark; `small` where there are many.
    pub(super) fn mark(&self, (x, y): Pixel, shape: Shape, small: bool) -> Drawn {
        let half = if small { 4 } else { 5 };
        match shape {
            Shape::Passed => self.area.draw(&Circle::new(self.down((x, y)), half - 1, self.palette.passed.filled()))?,
            // One stroke through both arms, so that a mark is one element. Larger than a pass, which may lie on top of it.
            Shape::Denied => {
                let arms = [(-half, -half), (half, half), (0, 0), (-half, half), (half, -half)];
                self.line(arms.map(|(dx, dy)| (x + dx, y + dy)).to_vec(), self.palette.denied, 2)?;
            }
            Shape::Failed => {
                let corners = [(-half, half), (half, half), (0, -half)].map(|(dx, dy)| self.down((x + dx, y + dy)));
                self.area.draw(&Polygon::new(corners.to_vec(), self.palette.failed.filled()))?;
            }
        }
        Ok(())
    }

    pub(super) fn colour(&self, shape: Shape) -> RGBColor {
        match shape {
            Shape::Passed => self.palette.passed,
            Shape::Denied => self.palette.denied,
            Shape::Failed => self.palette.failed,
        }
    }
}

/// About how wide a text is, pixels; fonts differ, so rather more than less.
pub(super) fn width(text: &str, size: i32) -> i32 {
    let em = |c: char| if c.width().unwrap_or(1) > 1 { 1.0 } else { 0.6 };
    (text.chars().map(em).sum::<f64>() * f64::from(size)).ceil() as i32
}

/// A text that fits into `room` pixels: of a longer one the beginning and the end.
pub(super) fn fitted(text: &str, size: i32, room: i32) -> String {
    if width(text, size) <= room {
        return text.to_owned();
    }
    let chars: Vec<char> = text.chars().collect();
    // Both ends: of a path the end says which file it is, of a kernel's name the beginning says more.
    let shortened = |kept: usize| {
        let (head, tail) = (kept.div_ceil(2), kept / 2);
        chars[..head].iter().chain(&['…']).chain(&chars[chars.len() - tail..]).collect::<String>()
    };
    let fits = |kept: &usize| width(&shortened(*kept), size) <= room;
    let most = (room / size.max(1) * 2).max(0) as usize;
    shortened((0..chars.len().min(most)).rev().find(fits).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_keeps_both_ends() {
        assert_eq!(fitted("hook.log", 10, 100), "hook.log");
        let name = fitted(&"日志/".repeat(100_000), 10, 100);
        assert!(name.starts_with("日志") && name.contains('…') && name.ends_with("志/"), "{name}");
        assert!(width(&name, 10) <= 100);
        assert_eq!(fitted("hook.log", 10, 0), "…");
    }
}
