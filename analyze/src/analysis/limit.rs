//! How much a figure may change from one log to another: `denial_rate=+5%`.

use std::str::FromStr;

use serde::Serialize;

use super::metric::{Amount, METRICS, Metric, Unit};
use crate::error::Error;
use crate::figures::Figures;

/// The largest change of a figure that is let pass.
///
/// `+` limits how much more it may be in the second log, `-` how much less. A number is in the figure's own unit; with `%` it
/// is a part of the first log's value, but of a share (`denial_rate`), which is one itself, percentage points.
#[derive(Clone, Debug)]
pub struct Limit {
    text: String,
    metric: &'static Metric,
    api: Option<String>,
    less: bool,
    by: f64,
    percent: bool,
}

/// What a limit says of two logs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The limit, as it was given.
    pub limit: String,
    /// In the first log.
    pub a: Amount,
    /// In the second log.
    pub b: Amount,
    /// The value up to (or down to) which the second may go.
    pub bound: f64,
    /// Whether it goes beyond.
    pub exceeded: bool,
    /// What the figure counts.
    #[serde(skip)]
    pub unit: Unit,
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Limit, String> {
        let wrong = |why: &str| format!("`{text}`: {why}\n{}", known());
        let form = || wrong("write METRIC=+CHANGE or METRIC=-CHANGE, such as `denial_rate=+5%` or `peak_bytes=+10%`");
        let (of, change) = text.rsplit_once('=').ok_or_else(form)?;
        let (name, api) = of.split_once('@').map_or((of, None), |(name, api)| (name, Some(api)));
        let metric = METRICS.iter().find(|metric| metric.name == name);
        let metric = metric.ok_or_else(|| wrong("no such metric"))?;
        if api.is_some_and(|api| api.is_empty() || !metric.of_apis) {
            return Err(wrong("this metric is of the whole log; leave `@` and what follows away"));
        }
        let (less, number) = match (change.strip_prefix('+'), change.strip_prefix('-')) {
            (Some(number), _) => (false, number),
            (_, Some(number)) => (true, number),
            _ => {
                let why = "a sign must tell the direction: `+` for how much more is let pass, `-` for how much less";
                return Err(wrong(why));
            }
        };
        let (digits, percent) = number.strip_suffix('%').map_or((number, false), |digits| (digits, true));
        let plain = digits.starts_with(|c: char| c.is_ascii_digit());
        let by = digits.parse().ok().filter(|by: &f64| plain && by.is_finite());
        let by = by.ok_or_else(|| wrong("the change is no number, with or without `%`; bytes and ns take no unit"))?;
        if metric.unit == Unit::Share && !percent {
            return Err(wrong("of a share the change is in percentage points: write `%`, such as `+5%` (10% to 15%)"));
        }
        Ok(Limit { text: text.to_owned(), metric, api: api.map(str::to_owned), less, by, percent })
    }
}

/// All metrics, for messages.
fn known() -> String {
    let names = |of_apis: bool| {
        let chosen = METRICS.iter().filter(|metric| !of_apis || metric.of_apis);
        chosen.map(|metric| metric.name).collect::<Vec<_>>().join(", ")
    };
    format!("metrics: {}\nof one API (`METRIC@API`): {}", names(false), names(true))
}

impl Limit {
    /// Holds two logs against it.
    ///
    /// # Errors
    /// One of them does not tell the figure, or neither has the API.
    pub fn judge(&self, a: &Figures, b: &Figures) -> Result<Verdict, Error> {
        let api = self.api.as_deref();
        let has = |figures: &Figures, name: &str| figures.summary.apis.iter().any(|api| api.api == name);
        if let Some(name) = api.filter(|name| !has(a, name) && !has(b, name)) {
            let why = format!("neither log has a call of `{name}`");
            return Err(Error::CannotLimit { limit: self.text.clone(), why });
        }
        let value = |side: &str, figures: &Figures| {
            self.metric.of(figures, api).map_err(|why| {
                let why = format!("{side} does not tell it ({})", why.en);
                Error::CannotLimit { limit: self.text.clone(), why }
            })
        };
        let (from, to) = (value("A", a)?, value("B", b)?);
        // The sign of the change that is limited; a change the other way is none.
        let sign = if self.less { -1.0 } else { 1.0 };
        let change = sign * from.to(to);
        let by = match (self.percent, self.metric.unit) {
            (true, Unit::Share) => self.by / 100.0,
            (true, _) => self.by / 100.0 * from.value().abs(),
            (false, _) => self.by,
        };
        // Binary fractions of decimals (0.15 - 0.1) are no change.
        let slack = 1e-12 * from.value().abs().max(to.value().abs());
        let exceeded = change > by + slack && change > 0.0;
        let bound = from.value() + sign * by;
        Ok(Verdict { limit: self.text.clone(), a: from, b: to, bound, exceeded, unit: self.metric.unit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ambiguous_is_refused_and_the_metrics_are_listed() {
        for (text, why) in [
            ("denial_rate", "write METRIC=+CHANGE"),
            ("denial_rate=5%", "a sign must tell the direction"),
            ("denial_rate=+0.05", "percentage points"),
            ("denials=+5", "no such metric"),
            ("peak_bytes@cudaMalloc=+5", "of the whole log"),
            ("calls@=+5", "of the whole log"),
            ("peak_bytes=+10MB", "no number"),
            ("calls=+", "no number"),
            ("calls=+%", "no number"),
            ("calls=+-5", "no number"),
            ("calls=++5", "no number"),
            ("calls=+inf", "no number"),
            ("calls=+NaN%", "no number"),
            ("calls=+5 %", "no number"),
        ] {
            let said = text.parse::<Limit>().unwrap_err();
            assert!(said.contains(why) && said.contains("denial_rate, longest_streak"), "{text}: {said}");
        }
        for text in ["denial_rate=+5%", "denial_rate@cudaMalloc=-0.5%", "calls=-10", "hook_ns_p99=+1e2", "denied=+0"] {
            assert!(text.parse::<Limit>().is_ok(), "{text}");
        }
    }
}
