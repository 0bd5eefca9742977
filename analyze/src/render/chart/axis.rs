//! Axes: values → pixels, and ticks in the units that people use.

use crate::analysis::TimeBase;
use crate::analysis::series::Series;
use crate::render::Lang;
use crate::render::text::plain;

use super::canvas::{SMALL, width};

/// A span of values along a span of pixels, with its ticks.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    from: f64,
    to: f64,
    low: i32,
    high: i32,
    log: bool,
    /// Values and what stands at them.
    pub(super) ticks: Vec<(f64, String)>,
}

impl Axis {
    /// Values from `from` to `to`, printed in a `unit`, with about `wanted` ticks.
    pub(super) fn linear((from, to): (f64, f64), (low, high): (i32, i32), unit: f64, wanted: usize) -> Axis {
        let (from, to) = sound(from, to);
        let step = nice((to - from) / unit / wanted.max(1) as f64);
        let first = (from / unit / step - 1e-9).ceil();
        let ticks = (0..=wanted * 3)
            .map(|n| (first + n as f64) * step)
            .take_while(|value| *value <= to / unit + step * 1e-9)
            .map(|value| (value * unit, number(value)));
        let mut axis = Axis { from, to, low, high, log: false, ticks: ticks.collect() };
        axis.drop_crowded();
        axis
    }

    /// Values whose ratios matter, `from` above zero; ticks at powers of `base`, times their unit.
    pub(super) fn logarithmic(
        (from, to): (f64, f64),
        (low, high): (i32, i32),
        base: f64,
        print: impl Fn(f64) -> String,
    ) -> Axis {
        let from = if from.is_finite() && from > 0.0 { from } else { 1.0 };
        let to = if to.is_finite() && to > from { to } else { from * base };
        let mut axis = Axis { from, to, low, high, log: true, ticks: Vec::new() };
        let (first, last) = ((from.ln() / base.ln() - 1e-9).ceil() as i32, (to.ln() / base.ln() + 1e-9).floor() as i32);
        axis.ticks =
            (first..=last).take(400).map(|power| base.powi(power)).map(|value| (value, print(value))).collect();
        // Every second, third … power where all are too many.
        let most = if axis.is_upright() { (low - high).abs() / 26 } else { (high - low).abs() / 76 }.max(2) as usize;
        let every = axis.ticks.len().div_ceil(most).max(1);
        axis.ticks = axis.ticks.into_iter().step_by(every).collect();
        axis
    }

    fn is_upright(&self) -> bool {
        self.low > self.high
    }

    /// Where a value lies, pixels; what lies outside, or is no number, at the nearer end.
    pub(super) fn place(&self, value: f64) -> i32 {
        let of = |value: f64| if self.log { value.max(f64::MIN_POSITIVE).ln() } else { value };
        let part = (of(value) - of(self.from)) / (of(self.to) - of(self.from));
        let part = if part.is_nan() { 0.0 } else { part.clamp(0.0, 1.0) };
        self.low + (part * f64::from(self.high - self.low)).round() as i32
    }

    /// Labels side by side need room.
    fn drop_crowded(&mut self) {
        if self.is_upright() {
            return;
        }
        let mut free = i32::MIN;
        let ticks = std::mem::take(&mut self.ticks);
        for (value, label) in ticks {
            let half = width(&label, SMALL) / 2 + 4;
            let x = self.place(value);
            if x - half >= free {
                free = x + half;
                self.ticks.push((value, label));
            }
        }
    }
}

/// A span that is one.
fn sound(from: f64, to: f64) -> (f64, f64) {
    let from = if from.is_finite() { from } else { 0.0 };
    let to = if to.is_finite() { to } else { from + 1.0 };
    // Too narrow to tell its ends apart is no span either.
    if to - from > from.abs() * 1e-12 && to > from { (from, to) } else { (from, from + from.abs().max(1.0)) }
}

/// 1, 2 or 5 times a power of ten, not below `step`.
fn nice(step: f64) -> f64 {
    let step = if step.is_finite() && step > 0.0 { step } else { 1.0 };
    let power = 10f64.powf(step.log10().floor());
    let times = [1.0, 2.0, 5.0, 10.0].into_iter().find(|times| times * power >= step * (1.0 - 1e-9)).unwrap_or(10.0);
    times * power
}

/// A tick's number: short, whatever its size.
pub(super) fn number(value: f64) -> String {
    let size = value.abs();
    match size {
        0.0 => "0".to_owned(),
        s if s >= 1e15 => format!("{value:.0e}"),
        s if s >= 1e9 => format!("{}G", plain(value / 1e9)),
        s if s >= 1e6 => format!("{}M", plain(value / 1e6)),
        s if s >= 1e4 => format!("{}k", plain(value / 1e3)),
        s if s >= 0.001 => plain(value),
        _ => format!("{value:.0e}"),
    }
}

/// A count with its thousands marked.
pub(super) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes in one of which `top` is read best, and its name.
pub(super) fn byte_unit(top: f64) -> (f64, &'static str) {
    const UNITS: [(f64, &str); 7] = [
        (1.0, "B"),
        (1024.0, "KB"),
        (1_048_576.0, "MB"),
        (1_073_741_824.0, "GB"),
        (1_099_511_627_776.0, "TB"),
        (1_125_899_906_842_624.0, "PB"),
        (1_152_921_504_606_846_976.0, "EB"),
    ];
    // The lab counts in MB: up to 8192 of them.
    let fits = |(unit, name): &&(f64, &str)| top >= if *name == "GB" { unit * 8.0 } else { *unit };
    UNITS.iter().rev().find(fits).copied().unwrap_or(UNITS[0])
}

/// Bytes, short.
pub(super) fn bytes(value: f64) -> String {
    let (unit, name) = byte_unit(value);
    let text = format!("{:.2}", value / unit);
    format!("{} {name}", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Seconds in one of which `end` is read best, and its name.
pub(super) fn time_unit(end: f64, lang: Lang) -> (f64, &'static str) {
    match end {
        e if e < 1e-6 => (1e-9, "ns"),
        e if e < 1e-3 => (1e-6, "µs"),
        e if e < 1.0 => (1e-3, "ms"),
        e if e < 120.0 => (1.0, "s"),
        e if e < 7_200.0 => (60.0, "min"),
        e if e < 172_800.0 => (3_600.0, "h"),
        _ => (86_400.0, lang.pick("天", "days")),
    }
}

/// What a horizontal axis is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Along {
    Time,
    /// A burst that lasts microseconds is one point in time; its calls are told apart here.
    Calls,
}

impl Along {
    /// Where something lies that happened at a time and as a call's number.
    pub(super) fn place(self, at: f64, call: f64) -> f64 {
        match self {
            Along::Time => at,
            Along::Calls => call,
        }
    }

    /// "over time" or "call by call", for a heading.
    pub(super) fn name(self, lang: Lang) -> &'static str {
        match self {
            Along::Time => lang.pick("随时间", "over time"),
            Along::Calls => lang.pick("逐次调用", "call by call"),
        }
    }

    /// The axis of a series.
    pub(super) fn axis(self, series: &Series, (low, high): (i32, i32), lang: Lang) -> Axis {
        match self {
            Along::Calls => {
                let mut axis = Axis::linear((0.0, series.calls + 1.0), (low, high), 1.0, 7);
                axis.ticks.retain(|(value, _)| value.fract() == 0.0);
                axis
            }
            Along::Time => {
                let end = series.end;
                let mut axis = Axis::linear((-end * 0.015, end * 1.02), (low, high), time_unit(end, lang).0, 7);
                axis.ticks.retain(|(value, _)| *value >= 0.0);
                axis
            }
        }
    }

    /// What stands below it: the unit, and where the times come from.
    pub(super) fn caption(self, series: &Series, lang: Lang) -> String {
        match self {
            Along::Calls if series.base == TimeBase::Sequence => {
                lang.pick("调用序号 (日志中没有时间)", "call number (the log has no time)").to_owned()
            }
            Along::Calls if !series.has_time() => {
                lang.pick("调用序号 (推算不出时间)", "call number (no passing of time can be inferred)").to_owned()
            }
            Along::Calls => lang.pick("调用序号", "call number").to_owned(),
            Along::Time => {
                let unit = time_unit(series.end, lang).1;
                let (time, base) = (lang.pick("时间", "time"), time_base(series, lang));
                format!("{time} ({unit}) · {base}")
            }
        }
    }
}

/// Where the times of a series come from.
pub(super) fn time_base(series: &Series, lang: Lang) -> &'static str {
    match (series.base, series.lower_bound) {
        (TimeBase::Monotonic, _) => lang.pick("单调时钟", "monotonic clock"),
        (TimeBase::Wall, false) => lang.pick("日志行前的时间", "the times before the lines"),
        (TimeBase::Wall, true) => lang
            .pick("日志行前的时间, 时钟回拨处为下界 (≥)", "the times before the lines, ≥ where the clock was set back"),
        (TimeBase::Inferred, false) => lang.pick("由令牌增长推算", "inferred from token growth"),
        (TimeBase::Inferred, true) => {
            lang.pick("由令牌增长推算, 桶满处为下界 (≥)", "inferred from token growth, ≥ where the bucket was full")
        }
        (TimeBase::Sequence, _) => lang.pick("日志中没有时间", "the log has no time"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_have_room() {
        let labels = |axis: &Axis| axis.ticks.iter().map(|(_, label)| label.clone()).collect::<Vec<_>>();
        let axis = Axis::linear((0.0, 1.53), (0, 600), 1.0, 7);
        assert_eq!(labels(&axis), ["0", "0.5", "1", "1.5"]);
        let axis = Axis::linear((0.0, 1_000_001.0), (0, 600), 1.0, 7);
        assert_eq!(labels(&axis), ["0", "200k", "400k", "600k", "800k", "1M"]);
        let axis = Axis::logarithmic((512.0, 2e9), (200, 0), 4.0, bytes);
        assert!(axis.ticks.len() >= 3 && axis.ticks.len() <= 8, "{:?}", labels(&axis));
        assert_eq!(axis.place(512.0), 200);
    }

    #[test]
    fn no_span_and_no_number_are_still_an_axis() {
        for (from, to) in
            [(0.0, 0.0), (5.0, 5.0), (f64::NAN, f64::INFINITY), (1e300, 1e300), (0.0, 1e-300), (1e18, 1e18 + 1.0)]
        {
            let axis = Axis::linear((from, to), (10, 110), 1.0, 6);
            for value in [from, to, -1e308, 1e308, f64::NAN] {
                assert!((10..=110).contains(&axis.place(value)), "{from} {to} {value}");
            }
            let axis = Axis::logarithmic((from, to), (10, 110), 10.0, bytes);
            assert!((10..=110).contains(&axis.place(to)));
        }
    }

    #[test]
    fn units_are_those_of_people() {
        assert_eq!(bytes(0.0), "0 B");
        assert_eq!(bytes(134_217_728.0), "128 MB");
        assert_eq!(bytes(2_147_483_648.0), "2048 MB");
        assert_eq!(bytes(u64::MAX as f64), "16 EB");
        assert_eq!(time_unit(0.6, Lang::En).1, "ms");
        assert_eq!(time_unit(600.0, Lang::En).1, "min");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(999), "999");
    }
}
