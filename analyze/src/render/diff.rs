//! Two logs compared, on a terminal: what is different, and nothing else.

use std::fmt::Write;

use super::Lang;
use super::page::{fit, name, short, table};
use super::terminal::base;
use super::text::{dims, mb, plain, printable, seconds};
use crate::analysis::Status;
use crate::analysis::diff::{ApiPair, Change, Diff, Kind, Pair, Side};
use crate::analysis::limit::Verdict;
use crate::analysis::metric::{Amount, Unit};

/// Shapes, and kernels, shown before `… more`.
const SHOWN: usize = 12;

/// The comparison as text.
pub fn diff(d: &Diff, lang: Lang) -> String {
    let mut out = String::new();
    out.push_str(&side("A", &d.a, lang));
    out.push_str(&side("B", &d.b, lang));
    out.push('\n');
    if d.same {
        out.push_str(lang.pick("没有差别\n", "no difference\n"));
    } else {
        metrics(&mut out, d, lang);
        apis(&mut out, &d.apis, lang);
        let head = ["grid", "block"].map(str::to_owned);
        let shape = |[grid, block]: &[[u32; 3]; 2]| vec![dims(*grid), dims(*block)];
        changes(&mut out, d.shapes.as_deref(), &head, shape, lang);
        changes(
            &mut out,
            d.kernels.as_deref(),
            &["kernel".to_owned()],
            |kernel| vec![short(&printable(kernel), 40)],
            lang,
        );
        checks(&mut out, d, lang);
    }
    for note in &d.notes {
        let _ = writeln!(out, "{}: {}", lang.pick("注意", "note"), printable(lang.pick(&note.zh, &note.en)));
    }
    for limit in &d.limits {
        verdict(&mut out, limit, lang);
    }
    fit(&out)
}

fn side(which: &str, side: &Side, lang: Lang) -> String {
    let inputs = printable(&side.inputs.join(", "));
    let (calls, base) = (side.calls, base(side.time_base, lang));
    let many = match (side.processes, lang) {
        (..=1, _) => String::new(),
        (n, Lang::Zh) => format!(", {n} 个进程"),
        (n, Lang::En) => format!(", {n} processes"),
    };
    match lang {
        Lang::Zh => format!("{which}: {inputs}: {calls} 次调用{many} (时间: {base})\n"),
        Lang::En => format!("{which}: {inputs}: {calls} calls{many} (time: {base})\n"),
    }
}

fn texts(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|&cell| cell.to_owned()).collect()
}

/// Figures that differ, and those that only one log tells, with the reason.
fn metrics(out: &mut String, d: &Diff, lang: Lang) {
    let different: Vec<&Pair> = d.metrics.iter().filter(|pair| pair.differs()).collect();
    if different.is_empty() {
        return;
    }
    let value =
        |pair: &Pair, value: Option<Amount>| value.map_or_else(|| "—".to_owned(), |v| amount(v, pair.metric.unit));
    let mut rows = vec![match lang {
        Lang::Zh => texts(&["指标", "名称", "A", "B", "变化", "比值"]),
        Lang::En => texts(&["metric", "A", "B", "change", "ratio"]),
    }];
    for pair in &different {
        let mut row = match lang {
            Lang::Zh => texts(&[pair.metric.zh, pair.metric.name]),
            Lang::En => texts(&[pair.metric.name]),
        };
        row.extend([value(pair, pair.a), value(pair, pair.b)]);
        row.push(pair.change.map_or_else(|| "—".to_owned(), |change| signed(change, pair.metric.unit, lang)));
        let share = pair.metric.unit == Unit::Share;
        row.push(pair.a.zip(pair.b).filter(|_| !share).map_or_else(String::new, |(a, b)| ratio(a.value(), b.value())));
        rows.push(row);
    }
    out.push_str(&table(&rows));
    for pair in &different {
        for (side, absent) in [("A", &pair.a_absent), ("B", &pair.b_absent)] {
            if let Some(why) = absent {
                let _ = writeln!(out, "  — {} {side}: {}", pair.metric.name, lang.pick(&why.zh, &why.en));
            }
        }
    }
    out.push('\n');
}

fn apis(out: &mut String, apis: &[ApiPair], lang: Lang) {
    if apis.is_empty() {
        return;
    }
    let mut rows = vec![match lang {
        Lang::Zh => texts(&["API", "结果", "A", "B", "变化", "比值"]),
        Lang::En => texts(&["API", "outcome", "A", "B", "change", "ratio"]),
    }];
    for ApiPair { api, a, b } in apis {
        let mut first = name(api);
        for (zh, en, a, b) in [
            ("调用", "calls", a.calls, b.calls),
            ("通过", "ok", a.ok, b.ok),
            ("拒绝", "denied", a.denied, b.denied),
            ("CUDA 失败", "failed", a.failed, b.failed),
            ("结果未记录", "not told", a.unknown, b.unknown),
        ] {
            if a != b {
                let change = signed(b as f64 - a as f64, Unit::Count, lang);
                let ratio = ratio(a as f64, b as f64);
                let outcome = lang.pick(zh, en).to_owned();
                rows.push(vec![std::mem::take(&mut first), outcome, a.to_string(), b.to_string(), change, ratio]);
            }
        }
        if a.denial_rate != b.denial_rate {
            let share =
                |rate: Option<f64>| rate.map_or_else(|| "—".to_owned(), |r| amount(Amount::Real(r), Unit::Share));
            let change = a.denial_rate.zip(b.denial_rate).map(|(a, b)| signed(b - a, Unit::Share, lang));
            let outcome = lang.pick("拒绝率", "denial rate").to_owned();
            let change = change.unwrap_or_else(|| "—".to_owned());
            rows.push(vec![first, outcome, share(a.denial_rate), share(b.denial_rate), change, String::new()]);
        }
    }
    out.push_str(&table(&rows));
    out.push('\n');
}

fn changes<T>(
    out: &mut String,
    changes: Option<&[Change<T>]>,
    head: &[String],
    cells: impl Fn(&T) -> Vec<String>,
    lang: Lang,
) {
    let Some(changes @ [_, ..]) = changes else { return };
    let mut rows = vec![head.to_vec()];
    rows[0].extend(match lang {
        Lang::Zh => texts(&["", "A", "B", "变化", "比值"]),
        Lang::En => texts(&["", "A", "B", "change", "ratio"]),
    });
    for change in changes.iter().take(SHOWN) {
        let mut row = cells(&change.of);
        let what = match change.change {
            Kind::Appeared => lang.pick("出现", "appeared"),
            Kind::Gone => lang.pick("消失", "gone"),
            Kind::More => lang.pick("增多", "more"),
            Kind::Fewer => lang.pick("减少", "fewer"),
        };
        let (a, b) = (change.a as f64, change.b as f64);
        row.extend([what.to_owned(), change.a.to_string(), change.b.to_string()]);
        row.extend([signed(b - a, Unit::Count, lang), ratio(a, b)]);
        rows.push(row);
    }
    out.push_str(&table(&rows));
    if let more @ 1.. = changes.len().saturating_sub(SHOWN) {
        let _ = writeln!(out, "  … +{more} {}", lang.pick("项 (见 --json)", "more (see --json)"));
    }
    out.push('\n');
}

fn checks(out: &mut String, d: &Diff, lang: Lang) {
    let word = |status: Status| match status {
        Status::Pass => lang.pick("通过", "pass"),
        Status::Fail => lang.pick("违反", "fail"),
        Status::NotApplicable => lang.pick("不适用", "not applicable"),
    };
    for check in &d.checks {
        let (a, b, detail) = (word(check.a), word(check.b), lang.pick(&check.detail_zh, &check.detail));
        let _ = writeln!(out, "{}: {a} → {b}: {}", check.id, printable(detail));
    }
    if !d.checks.is_empty() {
        out.push('\n');
    }
}

fn verdict(out: &mut String, verdict: &Verdict, lang: Lang) {
    let Verdict { limit, a, b, bound, exceeded, unit } = verdict;
    let (mark, word) = match exceeded {
        true => ("✗", lang.pick("超出", "exceeded")),
        false => ("✓", lang.pick("未超出", "kept")),
    };
    let [a, b, bound] = [*a, *b, Amount::Real(*bound)].map(|value| amount(value, *unit));
    let up_to = lang.pick("界限", "bound");
    let _ = writeln!(out, "{mark} {}: {word} ({a} → {b}, {up_to} {bound})", printable(limit));
}

fn amount(value: Amount, unit: Unit) -> String {
    match (unit, value) {
        (Unit::Bytes, Amount::Whole(bytes)) => mb(bytes),
        (Unit::Bytes, Amount::Real(bytes)) if bytes >= 0.0 => mb(bytes as u64),
        (Unit::Share, value) => format!("{:.1} %", value.value() * 100.0),
        (Unit::Seconds, value) => seconds(value.value()),
        (Unit::Nanos, value) => seconds(value.value() / 1e9),
        (Unit::Rate, value) => format!("{}/s", plain(value.value())),
        (_, Amount::Whole(whole)) => whole.to_string(),
        (_, Amount::Real(real)) if real != 0.0 && real.abs() < 1e-3 => format!("{real:.1e}"),
        (_, Amount::Real(real)) => plain(real),
    }
}

/// With its sign: `+3`, `-1.5 %`.
fn signed(change: f64, unit: Unit, lang: Lang) -> String {
    if change == 0.0 {
        return "0".to_owned();
    }
    let sign = if change < 0.0 { '-' } else { '+' };
    let size = change.abs();
    let text = match unit {
        Unit::Share => format!("{:.1} {}", size * 100.0, lang.pick("百分点", "points")),
        Unit::Count => plain(size),
        _ => amount(Amount::Real(size), unit),
    };
    format!("{sign}{text}")
}

/// `×1.5`; nothing where the first is none.
fn ratio(a: f64, b: f64) -> String {
    match (a, b) {
        (0.0, _) | (_, 0.0) => String::new(),
        _ if (b / a).abs() >= 0.01 => format!("×{:.2}", b / a),
        _ => format!("×{:.1e}", b / a),
    }
}
