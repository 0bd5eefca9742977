//! Logs → [`Events`]: read each input, line by line and whatever stands on the line; then bring a log and its event
//! file together, so that each call counts once.

mod course;
mod json;
pub mod lines;
mod matching;

use std::path::{Path, PathBuf};

use hook_event::course::TAG;

use crate::error::Error;
use crate::events::{Columns, Events, Names, Process, Row, Source};
use crate::input;

/// Examples of bad lines kept for an input.
const EXAMPLES: usize = 5;

/// One input, read: its calls by kind of record, not yet brought together.
struct Parsed {
    source: Source,
    course: course::Reader,
    json: json::Reader,
}

/// Reads `logs` as one analysis. Beside `NAME.log` the event file `NAME.jsonl` or `hook.jsonl` is taken in when its
/// calls are the log's; `events` names one instead.
///
/// # Errors
/// An input can't be read, was written in a newer format, or the event file that was named does not belong to the log.
pub fn read(logs: &[PathBuf], events: Option<&Path>) -> Result<Events, Error> {
    let mut all = Events::default();
    for (index, log) in logs.iter().enumerate() {
        let bytes = input::read(log)?;
        let parsed = parse(&mut all.names, log, all.sources.len() as u32, &bytes)?;
        // A second log may lie beside the same event file; an event file that was named goes with the first log.
        let sidecar = match events {
            Some(path) => (index == 0).then(|| path.to_owned()),
            None => sidecar(log, logs).filter(|_| parsed.source.has_course_lines),
        };
        let Some(path) = sidecar else {
            matching::add_alone(&mut all, parsed);
            continue;
        };
        let beside =
            input::read(&path).and_then(|bytes| parse(&mut all.names, &path, all.sources.len() as u32 + 1, &bytes));
        match (beside, events) {
            (Ok(beside), _) => matching::add_with_sidecar(&mut all, parsed, beside, events.is_some())?,
            (Err(error), Some(_)) => return Err(error),
            (Err(error), None) => {
                all.notes.push(format!("event file left out: {error}"));
                matching::add_alone(&mut all, parsed);
            }
        }
    }
    Ok(all)
}

/// The event file beside a log.
fn sidecar(log: &Path, logs: &[PathBuf]) -> Option<PathBuf> {
    if log == Path::new("-") {
        return None;
    }
    let own = log.with_extension("jsonl");
    let common = log.with_file_name("hook.jsonl");
    [own, common].into_iter().find(|path| path != log && !logs.contains(path) && path.is_file())
}

fn parse(names: &mut Names, path: &Path, source: u32, bytes: &[u8]) -> Result<Parsed, Error> {
    let mut parsed = Parsed {
        source: Source { path: path.to_owned(), ..Source::default() },
        course: course::Reader::new(source),
        json: json::Reader::new(source),
    };
    for (number, line) in lines::lines(bytes) {
        parsed.source.lines += 1;
        match parsed.line(names, path, number, &line)? {
            Class::Events(0) => parsed.source.other_lines += 1,
            Class::Events(records) => {
                parsed.source.event_lines += 1;
                parsed.source.events += records;
            }
            Class::Bad => {
                parsed.source.bad_lines += 1;
                if parsed.source.bad_examples.len() < EXAMPLES {
                    parsed.source.bad_examples.push((number, line.chars().take(200).collect()));
                }
            }
        }
    }
    Ok(parsed)
}

/// What a line turned out to be.
enum Class {
    /// So many records; none for a line of another program.
    Events(u64),
    /// Begins like a record and is none.
    Bad,
}

impl Parsed {
    fn line(&mut self, names: &mut Names, path: &Path, number: u64, line: &str) -> Result<Class, Error> {
        if let Some(at) = line.find(TAG.trim_end()) {
            return Ok(self.course_line(names, number, line.get(at..).unwrap_or("")));
        }
        let text = line.trim();
        if !(text.starts_with('{') && text.contains("\"ev\"")) {
            return Ok(Class::Events(0));
        }
        self.json.record(names, path, number, text).map(|known| if known { Class::Events(1) } else { Class::Bad })
    }

    /// A line with `[HOOK]` in it, from there on. Several whole records may share it; if any of them is damaged, the
    /// line was torn by another writer, and none of its numbers can be trusted.
    fn course_line(&mut self, names: &mut Names, number: u64, line: &str) -> Class {
        let tag = TAG.trim_end();
        let mut starts: Vec<usize> = line.match_indices(tag).map(|(at, _)| at).collect();
        starts.push(line.len());
        let pieces: Vec<&str> = starts.windows(2).filter_map(|pair| line.get(pair[0]..pair[1])).collect();
        let records: Option<Vec<_>> = pieces.iter().map(|piece| hook_event::course::read(piece)).collect();
        let Some(records) = records else { return Class::Bad };
        self.source.has_course_lines = true;
        let count = records.len() as u64;
        for (record, piece) in records.into_iter().zip(pieces) {
            if let hook_event::course::Line::Warning(text) = record {
                self.source.warnings.push(text.to_owned());
            }
            self.course.record(names, number, &record, piece.trim_end());
        }
        Class::Events(count)
    }
}

/// Calls of some processes on their way into [`Events`].
#[derive(Default)]
struct Part {
    process: Process,
    rows: Vec<Row>,
}

impl Part {
    /// Appends this process and its calls, in the order of `seq` where there is one.
    fn add_to(mut self, processes: &mut Vec<Process>, calls: &mut Columns) {
        // Stable: rows without a number keep the order of the file.
        self.rows.sort_by_key(|row| row.seq);
        let from = calls.len();
        for row in self.rows {
            calls.push(Row { process: processes.len() as u32, ..row });
        }
        self.process.rows = from..calls.len();
        processes.push(self.process);
    }
}
