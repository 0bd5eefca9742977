//! What a line is: the one place where that is decided.
//!
//! This is the obvious way: the line's text, and its records by their patterns. The fast readers stand before it and
//! take only lines of which it would say the same.

use std::sync::LazyLock;

use hook_event::course::{self, TAG};
use hook_event::json::{self, Record, RecordEnd, RecordStart};
use regex::Regex;

use super::dialect::{self, older};
use super::json::{Call, is_sound, wall_ns};
use super::lines::{clean, is_undecodable};
use crate::classes::Class;

/// What a line turned out to be, and the records on it.
pub(super) type Verdict = (Class, u64);

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
    /// A `[HOOK]` line of another form; its text from there on; the time that stands before it.
    Older(older::Line, &'a str, Option<i64>),
    /// A line of another limiter; the time that stands before it.
    Said(dialect::Said, Option<i64>),
}

/// What JSON records of ours begin with.
const RECORD: [&str; 2] = ["{\"ev\":", "{\"v\":"];

/// Reads a line, without its line feed, and hands its records out: none of a damaged one, for if one of several records
/// on a line is damaged the line was torn by another writer, and none of its numbers can be trusted. `unended`: it has
/// no line feed.
pub(super) fn line(raw: &[u8], unended: bool, mut take: impl FnMut(Found<'_>)) -> Verdict {
    let text = clean(raw);
    let mut records = Vec::new();
    // Behind a carriage return alone a program has begun its line anew.
    let read = text.split('\r').try_for_each(|part| records_of(part, unended, &mut records));
    if read.is_err() || unended && is_beginning(text.trim()) {
        return (if unended { Class::Truncated } else { damage(raw, read.err()) }, 0);
    }
    if records.is_empty() {
        return (damage(raw, None), 0);
    }
    let (count, calls) = (records.len() as u64, records.iter().any(Read::is_call));
    for record in records {
        match record {
            Read::Line(line, text, wall_ns) => take(Found::Line(line, text, wall_ns)),
            Read::Json(record) => match *record {
                Record::Start(start) => take(Found::Start(start)),
                Record::Call(call) => take(Found::Call(Call::of(&call))),
                Record::End(end) => take(Found::End(end)),
            },
            Read::Older(line, text, wall_ns) => take(Found::Older(line, text, wall_ns)),
            Read::Said(said, wall_ns) => take(Found::Said(said, wall_ns)),
        }
    }
    (if calls { Class::Event } else { Class::Banner }, count)
}

/// The class of a line without a whole record.
fn damage(raw: &[u8], why: Option<Damage>) -> Class {
    match why {
        _ if is_undecodable(raw) => Class::Undecodable,
        Some(Damage::Torn) => Class::Torn,
        Some(Damage::Unknown) => Class::UnknownHook,
        None => Class::Other,
    }
}

/// Why a line that begins like a record is none.
#[derive(Clone, Copy, Debug)]
enum Damage {
    /// A part is missing, or another's is in it.
    Torn,
    /// It is of no form that is known.
    Unknown,
}

/// A record that was read, with what it owns.
enum Read<'a> {
    Line(course::Line<'a>, &'a str, Option<i64>),
    Json(Box<Record>),
    Older(older::Line, &'a str, Option<i64>),
    Said(dialect::Said, Option<i64>),
}

impl Read<'_> {
    fn is_call(&self) -> bool {
        use course::Line::{Quota, Rate, Shared, Warning};
        match self {
            Read::Line(line, ..) => !matches!(line, Quota(_) | Rate(_) | Shared(_) | Warning(_)),
            Read::Json(record) => matches!(**record, Record::Call(_)),
            Read::Older(line, ..) => matches!(line, older::Line::Call(_)),
            Read::Said(said, _) => said.is_call(),
        }
    }
}

/// Adds the records of a stretch of text, unless one of them is damaged. `unended`: its last may lack its end.
fn records_of<'a>(text: &'a str, unended: bool, records: &mut Vec<Read<'a>>) -> Result<(), Damage> {
    let tag = TAG.trim_end();
    let first = text.find(tag);
    // A record first: a path in it may hold the lines' tag.
    if let Some(record) = json_text(text, first) {
        let record = json::read(record).ok().filter(is_sound).ok_or(Damage::Torn)?;
        records.push(Read::Json(Box::new(record)));
        return Ok(());
    }
    let Some(first) = first else {
        let (prefix, line) = text.split_at(dialect::begin(text));
        let said = dialect::read(line).map_err(|dialect::Torn| Damage::Torn)?;
        records.extend(said.map(|said| Read::Said(said, time_before(prefix))));
        return Ok(());
    };
    let wall_ns = time_before(&text[..first]);
    let mut starts: Vec<usize> = text.match_indices(tag).map(|(at, _)| at).collect();
    starts.push(text.len());
    for pair in starts.windows(2) {
        let piece = &text[pair[0]..pair[1]];
        let damage = if starts.len() > 2 || is_cut(piece.trim_end()) { Damage::Torn } else { Damage::Unknown };
        let mut record = hook_line(piece, wall_ns).ok_or(damage)?;
        if unended || pair[1] < text.len() {
            forget_cut_number(&mut record, piece);
        }
        records.push(record);
    }
    Ok(())
}

/// Of a free's line, which may be worded freely, more may have followed where nothing ends it: the number that it stops
/// in is not known.
fn forget_cut_number(record: &mut Read<'_>, piece: &str) {
    if let Read::Line(course::Line::Free { freed, .. }, ..) = record
        && piece.ends_with(|c: char| c.is_ascii_digit())
    {
        *freed = None;
    }
}

/// A line from `[HOOK]` on: in the present form, in an older one, or in that of the malloc demonstration.
fn hook_line(piece: &str, wall_ns: Option<i64>) -> Option<Read<'_>> {
    let text = piece.trim_end();
    if let Some(line) = course::read(piece) {
        return Some(Read::Line(line, text, wall_ns));
    }
    if let Some(line) = older::read(text) {
        return Some(Read::Older(line, text, wall_ns));
    }
    dialect::read(text).ok().flatten().map(|said| Read::Said(said, wall_ns))
}

/// What a line of the present form may look like that was cut off somewhere behind its API's name.
#[allow(clippy::unwrap_used)] // a constant, compiled by every test
static CUT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?x)^\[HOOK\] (?:\x20 (?: _*c?(?:u[A-Za-z0-9_]*)? | [A-Za-z_][A-Za-z0-9_]* (?:
            \([0-9]+\) (?:\x20 (?: -?>? | ->\x20 (?:\(n?i?l? | 0[xX]?[0-9a-fA-F]* | \(nil\))?
                                 | D[ENI]* | DENIED | F[AILED]*(?:\(-?[0-9]*\)?)? ) )?
                        (?:\x20 (?:\|\x20?)? (?:t?o?t?a?l?:? \x20? [0-9.,/\x20]* M?)? )?
          | \((?:grid|graph)=[^()]*\) (?:\x20 (?: -?>? | ->\x20-?[0-9]* | D[ENI]* | DENIED ) )?
                        (?:\x20 (?:\|\x20?)? (?:t?o?k?e?n?s?=? -?[0-9]*[.,]?[0-9]?)? )?
                        (?:\x20 (?:\|\x20?)? (?:w?a?i?t?e?d?:? \x20? [0-9.,]* \x20? m?)? )? ) ) )? $",
    )
    .unwrap()
});

/// Whether a line from `[HOOK]` on, without blanks at its end, is the beginning of one.
fn is_cut(piece: &str) -> bool {
    let open = piece.matches('(').count() > piece.matches(')').count();
    open || CUT.is_match(piece)
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
    let mut begins = [TAG].into_iter().chain(RECORD).chain(dialect::TAGS);
    !text.is_empty() && begins.any(|begin| begin.starts_with(text))
}

/// The last RFC 3339 time in what stands before a line, ns since 1970.
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

    fn class(text: &str) -> Verdict {
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
        assert_eq!(class(&format!("[1,0]<stdout>:{record}")), (Class::Banner, 1));
        assert_eq!(class(&format!("gpu-job_1  | {record}\r{record}")), (Class::Banner, 2));
        assert_eq!(class(&format!("10 %\r20 %\r[HOOK] cudaFree(0x7f00) -> 0\r{record}")), (Class::Event, 2));
        assert_eq!(class(&format!("{record}{record}")), (Class::Torn, 0));
        assert_eq!(class("10 %\r20 %"), (Class::Other, 0));
    }

    #[test]
    fn a_line_that_the_input_ends_in_is_cut_and_not_damaged() {
        for text in ["[HO", "[HOOK] cudaMal", "{\"ev\":\"call\",\"se", "{\"e"] {
            assert_eq!(line(text.as_bytes(), true, |_| ()), (Class::Truncated, 0), "{text}");
        }
        assert_eq!(line(b"[HOOK] cudaFree(0x7f00) -> 0", true, |_| ()), (Class::Event, 1));
    }

    #[test]
    fn a_number_that_nothing_ends_is_not_known() {
        let freed = |text: &str, unended| {
            let mut all = Vec::new();
            line(text.as_bytes(), unended, |found| {
                if let Found::Line(course::Line::Free { freed, .. }, ..) = found {
                    all.push(freed);
                }
            });
            all
        };
        let cut = "[HOOK] cudaFree(0x7f00) -> 0 | freed: 671";
        assert_eq!(freed(cut, false), [Some(671)]);
        assert_eq!(freed(cut, true), [None]);
        assert_eq!(freed(&format!("{cut}{cut}"), false), [None, Some(671)]);
        assert_eq!(freed(&format!("{cut} bytes{cut} bytes"), true), [Some(671), Some(671)]);
    }

    #[test]
    fn every_beginning_of_a_line_is_torn_and_other_forms_are_unknown() {
        for whole in [
            "[HOOK] cudaMalloc(67108864) -> 0x7f2cc6000000 | total: 64.0 MB",
            "[HOOK] cudaMalloc(2147483648) DENIED | total: 64.0 / 128.0 MB",
            "[HOOK] cudaMalloc(67108864) FAILED(2) | total: 64.0 MB",
            "[HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) -> 0 | tokens=0.0 | waited: 200.1 ms",
            "[HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) DENIED | tokens=0.0",
        ] {
            assert_eq!(class(whole), (Class::Event, 1));
            for at in 6..whole.len() {
                let (class, records) = class(&whole[..at]);
                // Some beginnings are whole themselves, or could be.
                assert!(class == Class::Torn || records == 1, "{}: {class:?}", &whole[..at]);
            }
        }
        let unknown = ["[HOOK] hello", "[HOOK] cudaMalloc(64) = 0x7f00", "[HOOK] kernel launched (3 left)"];
        for text in unknown {
            assert_eq!(class(text), (Class::UnknownHook, 0), "{text}");
        }
        let spliced =
            "[HOOK] cudaLaunchKernel(grid=[HOOK] cudaLaunchKernel(grid=12,1,1 block=032,1,1) -> 0 | tokens=2.0";
        assert_eq!(class(spliced), (Class::Torn, 0));
        assert_eq!(line(b"\xff\xfe junk", false, |_| ()), (Class::Undecodable, 0));
        assert_eq!(line(b"\xff junk [HOOK] cudaFree(0x7f00) -> 0", false, |_| ()), (Class::Event, 1));
    }
}
