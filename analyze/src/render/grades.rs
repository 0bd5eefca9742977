//! Rows of submissions as CSV and as a table.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::Lang;
use super::page::wide_table;
use super::text::printable;
use crate::analysis::grade::{Calls, Figures, Grade};
use crate::analysis::lab::{ROWS, Standing};
use crate::analysis::similar::{Likeness, Similar, Strength};

/// Names listed of those that a submission is like.
const NAMES: usize = 5;

/// Characters of a name in the table.
const NAME: usize = 32;

/// The columns before those of the rubric.
const BEFORE: [&str; 19] = [
    "submission",
    "status",
    "note",
    "file",
    "lines",
    "calls",
    "cudaMalloc_calls",
    "cudaMalloc_denied",
    "cudaLaunchKernel_calls",
    "cudaLaunchKernel_denied",
    "cudaFree_calls",
    "cudaFree_denied",
    "quota_bytes",
    "rate",
    "capacity",
    "peak_bytes",
    "live_bytes",
    "launches_passed",
    "launches_denied",
];

/// The columns behind `checks_failed` and those of the rubric.
const BEHIND: [&str; 2] = ["similar_to", "similarity"];

/// One row a submission, with a header. A text that a spreadsheet would take for a formula gets an apostrophe before it.
pub fn csv(grades: &[Grade], lang: Lang) -> String {
    let rubric = ROWS.iter().map(|(id, _)| *id);
    let head: Vec<&str> = BEFORE.into_iter().chain(["checks_failed"]).chain(rubric).chain(BEHIND).collect();
    let mut out = head.join(",") + "\n";
    for grade in grades {
        let note = grade.note.as_ref().map_or("", |note| lang.pick(&note.zh, &note.en));
        let mut cells = vec![text(&grade.submission), grade.status.name().to_owned(), text(note)];
        cells.push(text(grade.file.as_deref().unwrap_or("")));
        match &grade.figures {
            Some(figures) => cells.extend(numbers(figures)),
            None => cells.extend(std::iter::repeat_n(String::new(), BEFORE.len() - 4 + 1 + ROWS.len())),
        }
        cells.push(text(&similar_to(&grade.similar_to)));
        cells.push(grade.strength().map_or("", Strength::name).to_owned());
        out += &(cells.join(",") + "\n");
    }
    out
}

fn numbers(figures: &Figures) -> Vec<String> {
    let whole = |value: Option<u64>| value.map(|value| value.to_string()).unwrap_or_default();
    let real = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    let mut cells = vec![figures.lines.to_string(), figures.calls.to_string()];
    for Calls { calls, denied } in [figures.malloc, figures.launch, figures.free] {
        cells.extend([calls.to_string(), denied.to_string()]);
    }
    cells.extend([whole(figures.quota_bytes), real(figures.rate), real(figures.capacity)]);
    cells.extend([whole(figures.peak_bytes), whole(figures.live_bytes)]);
    cells.extend([figures.launches_passed.to_string(), figures.launches_denied.to_string()]);
    cells.push(figures.checks_failed.join(" "));
    let standing = |id: &str| figures.lab.iter().find(|(of, _)| *of == id).map_or("", |(_, standing)| name(*standing));
    cells.extend(ROWS.iter().map(|(id, _)| standing(id).to_owned()));
    cells
}

fn name(standing: Standing) -> &'static str {
    match standing {
        Standing::Shown => "shown",
        Standing::NotEvidenced => "not-evidenced",
        Standing::Contradicted => "contradicted",
    }
}

/// `identical: a.log, b.log; same-but-addresses: c.log (+12)`.
fn similar_to(similar: &[Similar]) -> String {
    let one = |similar: &Similar| {
        let more = similar.to.len().saturating_sub(NAMES);
        let more = if more > 0 { format!(" (+{more})") } else { String::new() };
        let names: Vec<&str> = similar.to.iter().take(NAMES).map(String::as_str).collect();
        format!("{}: {}{more}", similar.likeness.name(), names.join(", "))
    };
    similar.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// A text as a cell, in one line: quoted where it must be, and no formula.
fn text(text: &str) -> String {
    let text = printable(text);
    let text = if text.starts_with(['=', '+', '-', '@']) { format!("'{text}") } else { text };
    if text.contains([',', '"']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

/// A table of what matters most, and what is to be looked at.
pub fn table(grades: &[Grade], lang: Lang) -> String {
    let head = [
        ("提交", "submission"),
        ("状态", "status"),
        ("调用", "calls"),
        ("cudaMalloc 拒绝", "cudaMalloc denied"),
        ("启动通过", "launches passed"),
        ("启动拒绝", "launches denied"),
        ("有证据", "shown"),
        ("无证据", "not evidenced"),
        ("有反证", "contradicted"),
    ];
    let mut rows = vec![head.map(|(zh, en)| lang.pick(zh, en).to_owned()).to_vec()];
    for grade in grades {
        let mut row = vec![short(&grade.submission), grade.status.name().to_owned()];
        match &grade.figures {
            Some(figures) => {
                let standing = |of| figures.lab.iter().filter(|(_, standing)| *standing == of).count().to_string();
                row.extend([figures.calls.to_string(), figures.malloc.denied.to_string()]);
                row.extend([figures.launches_passed.to_string(), figures.launches_denied.to_string()]);
                row.extend([
                    standing(Standing::Shown),
                    standing(Standing::NotEvidenced),
                    standing(Standing::Contradicted),
                ]);
            }
            None => row.extend(std::iter::repeat_n("—".to_owned(), head.len() - 2)),
        }
        rows.push(row);
    }
    let mut out = String::new();
    out.push_str(&wide_table(&rows));
    out.push('\n');
    for grade in grades {
        if let Some(note) = &grade.note {
            let _ = writeln!(out, "{}: {}", printable(&grade.submission), printable(lang.pick(&note.zh, &note.en)));
        }
        let against = grade.figures.iter().flat_map(|figures| &figures.lab);
        let against: Vec<&str> = against.filter(|(_, s)| *s == Standing::Contradicted).map(|(id, _)| *id).collect();
        if !against.is_empty() {
            let (what, against) = (lang.pick("有反证", "contradicted"), against.join(", "));
            let _ = writeln!(out, "{}: {what}: {against}", printable(&grade.submission));
        }
    }
    out + &account(grades, lang)
}

/// How many there are, by status, and which are alike.
pub fn account(grades: &[Grade], lang: Lang) -> String {
    let mut by: BTreeMap<&str, usize> = BTreeMap::new();
    for grade in grades {
        *by.entry(grade.status.name()).or_default() += 1;
    }
    let by: Vec<String> = by.into_iter().map(|(name, count)| format!("{name} {count}")).collect();
    let (n, by) = (grades.len(), by.join(", "));
    let mut out = match lang {
        Lang::Zh => format!("{n} 份提交: {by}\n"),
        Lang::En => format!("{n} submissions: {by}\n"),
    };
    for grade in grades {
        let telling: Vec<Similar> =
            grade.similar_to.iter().filter(|similar| similar.strength > Strength::Weak).cloned().collect();
        if !telling.is_empty() {
            let (alike, like) = (grade.strength().map_or("", Strength::name), similar_to(&telling));
            let _ = writeln!(
                out,
                "{} ({alike}): {} ~ {}",
                lang.pick("雷同", "alike"),
                printable(&grade.submission),
                printable(&like)
            );
        }
    }
    let weak = |grade: &&Grade| {
        grade.similar_to.iter().any(|s| s.likeness == Likeness::SameButAddresses && s.strength == Strength::Weak)
    };
    let weak = grades.iter().filter(weak).count();
    if weak > 0 {
        let _ = match lang {
            Lang::Zh => {
                writeln!(out, "{weak} 份日志除地址外与别人的相同; 未改动的测试程序诚实运行也会如此, 不说明问题")
            }
            Lang::En => writeln!(
                out,
                "{weak} logs are those of others but for addresses; honest runs of the unmodified test program are, too"
            ),
        };
    }
    out
}

fn short(text: &str) -> String {
    let text = printable(text);
    if text.chars().count() <= NAME { text } else { text.chars().take(NAME - 1).collect::<String>() + "…" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_and_no_formulas() {
        for (plain, cell) in [
            ("a.log", "a.log"),
            ("张三,2班.zip", "\"张三,2班.zip\""),
            ("a\"b", "\"a\"\"b\""),
            ("two\nlines", "two\u{fffd}lines"),
            ("\0a\u{9b}2J", "\u{fffd}a\u{fffd}2J"),
            ("\t=1", "\u{fffd}=1"),
            ("=cmd|'/c calc'!A0", "'=cmd|'/c calc'!A0"),
            ("-1+1", "'-1+1"),
            ("@x,y", "\"'@x,y\""),
        ] {
            assert_eq!(text(plain), cell);
        }
    }
}
