//! What a line is: the one place where that is decided.
//!
//! This is the obvious way: the line's text, and its records by their patterns. The fast readers stand before it and
//! take only lines of which it would say the same.

use hook_event::course::{self, TAG};
use hook_event::json::{self, Record, RecordEnd, RecordStart};

use super::json::{Call, is_sound, wall_ns};
use super::lines::clean;

/// What a line turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// So many records of the hook, and nothing damaged.
    Events(u64),
    /// Of another program, or blank.
    Other,
    /// Begins like a record and is none: torn, damaged, or of a form that is not known.
    Bad,
    /// Too long to be looked into.
    Oversized,
    /// The input's last, without a line feed, in the middle of a record.
    Cut,
}

/// A record on a line.
#[derive(Debug)]
pub(super) enum Found<'a> {
    /// A course line; its text from `[HOOK]` on; the time that stands before it, ns since 1970.
    Line(course::Line<'a>, &'a str, Option<i64>),
    /// A `start` record.
    Start(RecordStart),
    /// A `call` record.
    Call(Call<'a>),
    /// An `end` record.
    End(RecordEnd),
}

/// What JSON records of ours begin with.
const RECORD: [&str; 2] = ["{\"ev\":", "{\"v\":"];

/// Reads a line, without its line feed, and hands its records out: none of a damaged one, for if one of several records
/// on a line is damaged the line was torn by another writer, and none of its numbers can be trusted. `unended`: it has
/// no line feed.
pub(super) fn line(raw: &[u8], unended: bool, mut take: impl FnMut(Found<'_>)) -> Class {
    let text = clean(raw);
    let mut records = Vec::new();
    // Behind a carriage return alone a program has begun its line anew.
    let whole = text.split('\r').all(|part| records_of(part, &mut records).is_some());
    if !whole || unended && is_beginning(text.trim()) {
        return if unended { Class::Cut } else { Class::Bad };
    }
    if records.is_empty() {
        return Class::Other;
    }
    let count = records.len() as u64;
    for record in records {
        match record {
            Read::Line(line, text, wall_ns) => take(Found::Line(line, text, wall_ns)),
            Read::Json(record) => match *record {
                Record::Start(start) => take(Found::Start(start)),
                Record::Call(call) => take(Found::Call(Call::of(&call))),
                Record::End(end) => take(Found::End(end)),
            },
        }
    }
    Class::Events(count)
}

/// A record that was read, with what it owns.
enum Read<'a> {
    Line(course::Line<'a>, &'a str, Option<i64>),
    Json(Box<Record>),
}

/// Adds the records of a stretch of text; `None`: one of them is damaged.
fn records_of<'a>(text: &'a str, records: &mut Vec<Read<'a>>) -> Option<()> {
    let tag = TAG.trim_end();
    let first = text.find(tag);
    // A record first: a path in it may hold the lines' tag.
    if let Some(record) = json_text(text, first) {
        let record = json::read(record).ok().filter(is_sound)?;
        records.push(Read::Json(Box::new(record)));
        return Some(());
    }
    let Some(first) = first else { return Some(()) };
    let wall_ns = time_before(&text[..first]);
    let mut starts: Vec<usize> = text.match_indices(tag).map(|(at, _)| at).collect();
    starts.push(text.len());
    for pair in starts.windows(2) {
        let piece = &text[pair[0]..pair[1]];
        records.push(Read::Line(course::read(piece)?, piece.trim_end(), wall_ns));
    }
    Some(())
}

/// The JSON record in a text whose first tag of a course line is at `tag`. Before it may stand what a container runtime
/// or a launcher prefixes.
fn json_text(text: &str, tag: Option<usize>) -> Option<&str> {
    let trimmed = text.trim();
    if trimmed.starts_with('{') {
        return trimmed.contains("\"ev\"").then_some(trimmed);
    }
    let at = RECORD.iter().filter_map(|begin| text.find(begin)).min()?;
    let record = text[at..].trim_end();
    (tag.is_none_or(|tag| at < tag) && record.contains("\"ev\"")).then_some(record)
}

/// Whether a text is the very beginning of a line or record.
fn is_beginning(text: &str) -> bool {
    !text.is_empty() && (TAG.starts_with(text) || RECORD.iter().any(|begin| begin.starts_with(text)))
}

/// The last RFC 3339 time in what stands before a course line, ns since 1970.
fn time_before(prefix: &str) -> Option<i64> {
    if !prefix.contains('T') {
        return None;
    }
    let words = prefix.rsplit(|c: char| c.is_whitespace() || matches!(c, '|' | '[' | ']' | '>'));
    words.filter(|word| word.len() >= 20).find_map(wall_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(text: &str) -> Class {
        line(text.as_bytes(), false, |_| ())
    }

    #[test]
    fn a_time_before_a_line_is_the_calls() {
        let mut times = Vec::new();
        for prefix in ["2026-07-01T12:00:00.000000001Z ", "gpu-job_1  | 2026-07-01T14:00:00.000000001+02:00 ", "x | "] {
            let text = format!("{prefix}[HOOK] cudaFree(0x7f00) -> 0");
            line(text.as_bytes(), false, |found| {
                if let Found::Line(_, _, time) = found {
                    times.push(time);
                }
            });
        }
        let noon = Some(1_782_907_200_000_000_001);
        assert_eq!(times, [noon, noon, None]);
    }

    #[test]
    fn records_are_found_behind_prefixes_and_carriage_returns() {
        let record = r#"{"ev":"end","pid":1}"#;
        assert_eq!(class(&format!("[1,0]<stdout>:{record}")), Class::Events(1));
        assert_eq!(class(&format!("gpu-job_1  | {record}\r{record}")), Class::Events(2));
        assert_eq!(class(&format!("10 %\r20 %\r[HOOK] cudaFree(0x7f00) -> 0\r{record}")), Class::Events(2));
        assert_eq!(class(&format!("{record}{record}")), Class::Bad);
        assert_eq!(class("10 %\r20 %"), Class::Other);
    }

    #[test]
    fn a_line_that_the_input_ends_in_is_cut_and_not_damaged() {
        for text in ["[HO", "[HOOK] cudaMal", "{\"ev\":\"call\",\"se", "{\"e"] {
            assert_eq!(line(text.as_bytes(), true, |_| ()), Class::Cut, "{text}");
        }
        assert_eq!(line(b"[HOOK] cudaFree(0x7f00) -> 0", true, |_| ()), Class::Events(1));
        assert_eq!(class("[HOOK] cudaMal"), Class::Bad);
    }
}
