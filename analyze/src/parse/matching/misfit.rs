//! Lines and records of the same calls that differ.

use std::collections::{BTreeSet, HashMap, HashSet};

use hook_event::Kind;
use hook_event::units::MB;

use super::wording::line_of;
use super::{CourseParts, by_seq};
use crate::error::Shown;
use crate::events::{Agreement, Events, Misfit, Names, Note, Row};
use crate::parse::Part;
use crate::parse::course::text_hash;

/// Half of the last printed decimal, with room for binary fractions.
const ROUNDING: f64 = 0.05 + 1e-6;

/// Lines and records that don't fit each other though they are of the same calls: most of a process's records are lines
/// of one block. They were cut or spliced. Both at once would count calls twice; the kind that holds more of them stays.
/// Lines and records of other calls are left alone.
pub(super) fn settle_misfits(
    all: &mut Events,
    index: usize,
    lines: &mut CourseParts,
    records: &mut [Part],
    taken: &mut BTreeSet<usize>,
) {
    let misfits = misfits(&all.names, lines, records, taken);
    let of_blocks: BTreeSet<usize> = misfits.iter().map(|(block, _)| *block).collect();
    let of_parts: BTreeSet<usize> = misfits.iter().map(|(_, part)| *part).collect();
    if let Some(&(block, part)) = misfits.first() {
        all.agreement.differ(difference(&all.names, &lines[block], &records[part]));
    }
    if of_parts.is_empty() {
        return;
    }
    let in_records: usize = of_parts.iter().map(|&at| records[at].rows.len()).sum();
    let in_lines: usize = of_blocks.iter().map(|&block| lines[block].0.rows.len()).sum();
    let kept = if in_lines > in_records {
        // Emptied, not removed: the others keep their places.
        of_parts.iter().for_each(|&at| records[at] = Part::default());
        ("lines", "日志行")
    } else {
        let mut block = 0..;
        lines.retain(|_| !block.next().is_some_and(|block| of_blocks.contains(&block)));
        ("records", "记录")
    };
    taken.extend(of_parts);
    let name = Shown(&all.sources[index].path).to_string();
    all.notes.push(Note::new(
        format!(
            "{name}: some of its lines and JSONL records don't fit each other; of those only the {} are counted",
            kept.0
        ),
        format!("{name}: 其中部分日志行与 JSONL 记录不吻合, 这部分只计入{}", kept.1),
    ));
}

/// Blocks of lines and processes of records that are of the same run, for most of the records are lines of the block.
pub(super) fn misfits(
    names: &Names,
    lines: &CourseParts,
    records: &[Part],
    taken: &BTreeSet<usize>,
) -> BTreeSet<(usize, usize)> {
    let blocks: Vec<HashSet<u64>> = lines.iter().map(|(_, texts)| texts.iter().copied().collect()).collect();
    let mut misfits = BTreeSet::new();
    for (at, part) in records.iter().enumerate().filter(|(at, part)| !taken.contains(at) && !part.rows.is_empty()) {
        let texts: Vec<u64> = part.rows.iter().map(|row| text_hash(&line_of(names, row, &part.process))).collect();
        for (number, block) in blocks.iter().enumerate() {
            if texts.iter().filter(|text| block.contains(text)).count() * 2 > texts.len() {
                misfits.insert((number, at));
            }
        }
    }
    misfits
}

/// The first line of a block that no record tells, or the first record that no line tells; both, where there are both.
pub(super) fn difference(names: &Names, (of_lines, texts): &(Part, Vec<u64>), of_records: &Part) -> Option<Misfit> {
    let mut left: HashMap<u64, u64> = HashMap::new();
    let order = by_seq(&of_records.rows);
    let told: Vec<String> =
        order.iter().map(|&row| line_of(names, &of_records.rows[row], &of_records.process)).collect();
    for text in &told {
        *left.entry(text_hash(text)).or_default() += 1;
    }
    let mut claim = |text: &u64| left.get_mut(text).filter(|n| **n > 0).map(|n| *n -= 1).is_some();
    let row = texts.iter().position(|text| !claim(text));
    let mut lines: HashMap<u64, u64> = HashMap::new();
    for text in texts {
        *lines.entry(*text).or_default() += 1;
    }
    let mut claim = |text: u64| lines.get_mut(&text).filter(|n| **n > 0).map(|n| *n -= 1).is_some();
    let record = told.iter().position(|text| !claim(text_hash(text)));
    // Of equal lines the first ones have claimed the records; where the two differ in one place only, it is that.
    let apart: Vec<usize> =
        (0..texts.len()).filter(|&at| told.get(at).is_none_or(|told| text_hash(told) != texts[at])).collect();
    let (row, record) = match apart[..] {
        [at] if texts.len() == told.len() => (Some(at), Some(at)),
        _ => (row, record),
    };
    let of_line = row.map(|row| &of_lines.rows[row]);
    let line = of_line.map(|row| row.line);
    let field = of_line.zip(record).and_then(|(line, at)| field(line, &of_records.rows[order[at]]));
    let record = record.map(|at| (of_records.rows[order[at]].seq.unwrap_or(0), told[at].as_str()));
    let first_line = of_lines.process.first_line;
    let sure = line.is_some() && record.is_some();
    let (line, why) = match (line, record) {
        (Some(line), Some((seq, text))) => (
            line,
            Note::new(
                format!("line {line} is no record's{}; record {seq} tells: {text}", in_words(field, false)),
                format!("第 {line} 行没有相符的记录{}; 第 {seq} 条记录对应的应为: {text}", in_words(field, true)),
            ),
        ),
        (Some(line), None) => {
            (line, Note::new(format!("line {line} has no record"), format!("第 {line} 行没有对应的记录")))
        }
        (None, Some((seq, text))) => (
            first_line,
            Note::new(
                format!("record {seq} has no line among the calls from line {first_line} on: {text}"),
                format!("第 {first_line} 行起的调用中没有第 {seq} 条记录对应的日志行: {text}"),
            ),
        ),
        (None, None) => return None,
    };
    let numbers = field.and_then(|field| Some((field.record?, field.line?)));
    Some(Misfit { line, why, numbers, sure })
}

/// What differs between a line and a record of the same call.
#[derive(Clone, Copy)]
struct Field {
    name: (&'static str, &'static str),
    record: Option<f64>,
    line: Option<f64>,
}

/// The first field that differs, as far as a line prints it.
fn field(line: &Row, record: &Row) -> Option<Field> {
    if (line.kind, line.api) != (record.kind, record.api) {
        return None;
    }
    let field = |name, record, line| Some(Field { name, record, line });
    let [exact, printed] = [record, line].map(|row| row.size.map(|bytes| bytes as f64));
    // A line's free may leave out what was freed.
    if line.kind != Kind::Free && exact != printed {
        return field(("size", "大小"), exact, printed);
    }
    if line.outcome != record.outcome {
        return field(("outcome", "结果"), None, None);
    }
    let off = |exact: Option<f64>, printed: Option<f64>| {
        exact.zip(printed).is_some_and(|(exact, printed)| (exact - printed).abs() > ROUNDING)
    };
    let mb = record.total.map(|bytes| bytes as f64 / MB as f64);
    if off(mb, line.total_mb) {
        let bytes = |mb: Option<f64>| mb.map(|mb| (mb * MB as f64).round());
        return field(("total", "总量"), bytes(mb), bytes(line.total_mb));
    }
    off(record.tokens, line.tokens).then_some(Field {
        name: ("tokens", "令牌数"),
        record: record.tokens,
        line: line.tokens,
    })
}

fn in_words(field: Option<Field>, zh: bool) -> String {
    let Some(Field { name, record, line }) = field else { return String::new() };
    let name = if zh { name.1 } else { name.0 };
    match (record, line) {
        (Some(record), Some(line)) if zh => format!(" ({name}: 日志行为 {line}, 记录为 {record})"),
        (Some(record), Some(line)) => format!(" ({name}: {line} in the line, {record} in the record)"),
        _ if zh => format!(" ({name}不同)"),
        _ => format!(" (the {name} differs)"),
    }
}

impl Agreement {
    /// The first difference stays.
    pub(super) fn differ(&mut self, difference: Option<Misfit>) {
        if self.misfit.is_none() {
            self.misfit = difference;
        }
    }
}
