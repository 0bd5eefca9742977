//! Logs → [`Events`]: read each input, line by line and whatever stands on the line; then bring a log and its event
//! file together, so that each call counts once.

mod course;
mod dialect;
mod json;
pub mod lines;
mod matching;

use std::path::{Path, PathBuf};

use hook_event::course::TAG;

use crate::error::{Error, Shown};
use crate::events::{Columns, Events, Names, Note, Process, Row, Source};
use crate::input;

/// Examples of bad lines kept for an input.
const EXAMPLES: usize = 5;

/// Characters of an example.
const EXAMPLE_WIDTH: usize = 200;

/// One input, read: its calls by kind of record, not yet brought together.
struct Parsed {
    source: Source,
    course: course::Reader,
    json: json::Reader,
}

/// Reads `logs` as one analysis. Beside `NAME.log` the event file `NAME.jsonl` or `hook.jsonl` is taken in when its
/// calls are the log's; `events` names one instead. A file that is named twice is read once.
///
/// # Errors
/// An input can't be read, was written in a newer format, or the event file that was named does not belong to the log.
pub fn read(logs: &[PathBuf], events: Option<&Path>) -> Result<Events, Error> {
    let mut all = Events::default();
    let mut seen: Vec<PathBuf> = Vec::new();
    let mut inputs: Vec<Parsed> = Vec::new();
    for log in logs {
        if !first_time(&mut seen, log) {
            let name = Shown(log).to_string();
            all.notes.push(Note::new(
                format!("{name} was named more than once and is read once"),
                format!("{name} 被重复给出, 只读取一次"),
            ));
            continue;
        }
        let bytes = input::read(log)?;
        inputs.push(parse(&mut all.names, log, inputs.len() as u32, &bytes)?);
    }
    let mut sidecars = Sidecars::default();
    if let Some(path) = events.filter(|path| first_time(&mut seen, path)) {
        let bytes = input::read(path)?;
        sidecars.named = Some(parse(&mut all.names, path, inputs.len() as u32, &bytes)?);
    } else if events.is_none() {
        for (index, parsed) in inputs.iter().enumerate().filter(|(_, parsed)| parsed.only_lines()) {
            for path in beside(&parsed.source.path) {
                if !first_time(&mut seen.clone(), &path) {
                    continue;
                }
                // A second log may lie beside the same event file.
                match input::read(&path).and_then(|bytes| parse(&mut all.names, &path, 0, &bytes)) {
                    Ok(found) => sidecars.beside.push((index, found)),
                    Err(error) => all
                        .notes
                        .push(Note::new(format!("event file left out: {error}"), format!("未并入事件文件: {error}"))),
                }
            }
        }
    }
    matching::bring_together(&mut all, inputs, sidecars)?;
    Ok(all)
}

/// Event files that are not inputs of their own.
#[derive(Default)]
struct Sidecars {
    /// The one that the user named.
    named: Option<Parsed>,
    /// Those that lie beside a log (its index first), best guess first.
    beside: Vec<(usize, Parsed)>,
}

/// Whether no path before this one leads to the same file. Standard input can be read once, too.
fn first_time(seen: &mut Vec<PathBuf>, path: &Path) -> bool {
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let new = !seen.contains(&real);
    if new {
        seen.push(real);
    }
    new
}

/// Event files that may lie beside a log.
fn beside(log: &Path) -> Vec<PathBuf> {
    if log == Path::new("-") {
        return Vec::new();
    }
    let mut paths = vec![log.with_extension("jsonl"), log.with_file_name("hook.jsonl")];
    paths.dedup();
    paths.retain(|path| path.is_file());
    paths
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
            Class::Events(0) => {
                parsed.source.other_lines += 1;
                let examples = &mut parsed.source.other_examples;
                if examples.len() < EXAMPLES && !line.trim().is_empty() {
                    examples.push((number, line.chars().take(EXAMPLE_WIDTH).collect()));
                }
            }
            Class::Events(records) => {
                parsed.source.event_lines += 1;
                parsed.source.events += records;
            }
            Class::Bad => {
                parsed.source.bad_lines += 1;
                if parsed.source.bad_examples.len() < EXAMPLES {
                    parsed.source.bad_examples.push((number, line.chars().take(EXAMPLE_WIDTH).collect()));
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
    /// Whether it holds calls as lines and none as records.
    fn only_lines(&self) -> bool {
        let lines = self.course.parts.iter().any(|(part, _)| !part.rows.is_empty());
        lines && self.json.parts.iter().all(|part| part.rows.is_empty())
    }

    fn line(&mut self, names: &mut Names, path: &Path, number: u64, line: &str) -> Result<Class, Error> {
        // A record first: a path in it may hold the lines' tag.
        let text = line.trim();
        if text.starts_with('{') && text.contains("\"ev\"") {
            return self
                .json
                .record(names, path, number, text)
                .map(|known| if known { Class::Events(1) } else { Class::Bad });
        }
        match line.find(TAG.trim_end()) {
            Some(at) => Ok(self.course_line(names, number, line.get(at..).unwrap_or(""))),
            None => Ok(Class::Events(0)),
        }
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
    /// JSONL records of it: calls, and its start and end.
    records: u64,
}

impl Part {
    /// Appends this process and its calls, in the order of `seq` where there is one.
    fn add_to(mut self, processes: &mut Vec<Process>, calls: &mut Columns) {
        // Stable: rows without a number keep the order of the file. Beside numbered ones they are the last lines of a
        // log whose records were cut off.
        self.rows.sort_by_key(|row| row.seq.unwrap_or(u64::MAX));
        let from = calls.len();
        for row in self.rows {
            calls.push(Row { process: processes.len() as u32, ..row });
        }
        self.process.rows = from..calls.len();
        processes.push(self.process);
    }
}
