//! A folder of submissions → a row for each, whatever is in it: nothing that one of them holds can stop the others.

use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::analysis::grade::{Figures, Grade, Status};
use crate::analysis::similar::{self, Fingerprint};
use crate::analysis::{lab, summary};
use crate::error::Error;
use crate::events::{Events, Note};
use crate::figures;
use crate::input::Document;
use crate::input::submission::{Form, Kind, Problem, Submission};
use crate::parse::{Inputs, Pace};
use crate::plural::plural;
use crate::render::text::printable;

/// Text that a log may hold, bytes.
const TEXT: u64 = 1 << 30;

/// Calls that are looked at one by one, for the rubric and for likeness: about 250 MB of memory.
const CALLS: u64 = 1 << 18;

/// Files of a submission that are read in search of its log.
const TRIED: usize = 16;

/// Reads every entry of `folder` but `except`, so many at a time. Rows are sorted by name, and the same however many are
/// read at a time.
///
/// # Errors
/// The folder can't be read, or there is nothing in it.
pub fn read(folder: &Path, except: Option<&Path>, jobs: usize) -> Result<Vec<Grade>, Error> {
    let entries = entries(folder, except)?;
    if entries.is_empty() {
        return Err(Error::NoSubmission(folder.to_owned()));
    }
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(path) = entries.get(place) else { return };
            let name = name(path);
            let grade = panic::catch_unwind(AssertUnwindSafe(|| of(path, &name))).unwrap_or_else(|_| {
                let note = Note::new(
                    "this program failed on it; please report that, with the file",
                    "本程序处理该文件时出错; 请附上文件反馈",
                );
                (Grade::bare(name, Status::InternalError, Some(note)), None)
            });
            done.lock().unwrap_or_else(PoisonError::into_inner).push((place, grade));
        }
    };
    thread::scope(|scope| {
        for _ in 1..jobs.min(entries.len()) {
            scope.spawn(work);
        }
        work();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(place, _)| *place);
    let (mut grades, prints): (Vec<Grade>, Vec<_>) = done.into_iter().map(|(_, grade)| grade).unzip();
    let named: Vec<(String, Option<Fingerprint>)> =
        grades.iter().map(|grade| grade.submission.clone()).zip(prints).collect();
    for (grade, similar) in grades.iter_mut().zip(similar::all(&named)) {
        grade.similar_to = similar;
    }
    Ok(grades)
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The submissions in a folder, sorted: not what is hidden, and no event file of a log beside it.
fn entries(folder: &Path, except: Option<&Path>) -> Result<Vec<PathBuf>, Error> {
    let fail = |source| Error::Read { path: folder.to_owned(), source };
    let except = except.and_then(|path| fs::canonicalize(path).ok());
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(fail)? {
        paths.push(entry.map_err(fail)?.path());
    }
    paths.sort();
    let is_anothers = |path: &PathBuf| {
        let packed = |ending| paths.binary_search(&path.with_extension(ending)).is_ok();
        path.extension().is_some_and(|ending| ending == "jsonl") && ["log", "log.gz", "log.zst"].into_iter().any(packed)
    };
    let hidden = |path: &PathBuf| name(path).starts_with('.');
    let output = |path: &PathBuf| except.is_some() && fs::canonicalize(path).ok() == except;
    Ok(paths.iter().filter(|path| !is_anothers(path) && !hidden(path) && !output(path)).cloned().collect())
}

/// A log that was read, or why it was not.
struct Read {
    status: Status,
    note: Option<Note>,
    file: String,
    figures: Option<Figures>,
    print: Option<Fingerprint>,
}

impl Read {
    fn problem(file: String, problem: Problem) -> Read {
        Read { status: status(problem.kind), note: Some(problem.note), file, figures: None, print: None }
    }

    fn has_calls(&self) -> bool {
        self.figures.as_ref().is_some_and(|figures| figures.calls > 0)
    }
}

fn status(kind: Kind) -> Status {
    match kind {
        Kind::Unreadable => Status::Unreadable,
        Kind::Damaged => Status::Damaged,
        Kind::Encrypted => Status::Encrypted,
        Kind::TooLarge => Status::TooLarge,
        Kind::Unsupported => Status::Unsupported,
    }
}

/// One submission.
fn of(path: &Path, name: &str) -> (Grade, Option<Fingerprint>) {
    let submission = match Submission::open(path) {
        Ok(submission) => submission,
        Err(Problem { kind, note }) => return (Grade::bare(name.to_owned(), status(kind), Some(note)), None),
    };
    if submission.form() == Form::File {
        return grade(name, log(&submission, 0, name.to_owned()), &[]);
    }
    let (mut tried, mut without) = (0, None);
    for kind in submission.candidates() {
        let mut with_calls = Vec::new();
        for &place in kind.iter().take(TRIED.saturating_sub(tried)) {
            tried += 1;
            let read = log(&submission, place, format!("{name}/{}", submission.name(place)));
            if read.has_calls() {
                with_calls.push(read);
            } else {
                without.get_or_insert(read);
            }
        }
        let mut with_calls = with_calls.into_iter();
        if let Some(first) = with_calls.next() {
            // Copies of one log are no choice.
            let others: Vec<String> = with_calls
                .filter(|other| other.print.is_none() || other.print != first.print)
                .map(|other| other.file)
                .collect();
            return grade(name, first, &others);
        }
        // What may well be the log and can't be read is not passed over for a worse guess.
        if without.as_ref().is_some_and(|read: &Read| read.status != Status::NoEvents) {
            break;
        }
    }
    match without {
        Some(read) => grade(name, read, &[]),
        None => {
            let (status, en, zh) = match submission.form() {
                Form::Archive => (Status::NoLogInArchive, "no log is in the archive", "压缩包中没有日志"),
                _ => (Status::NoLog, "no log is in the folder", "目录中没有日志"),
            };
            let advice = Note::new(
                format!("{en} (hook.log, *.log, *.jsonl, *.txt)"),
                format!("{zh} (hook.log, *.log, *.jsonl, *.txt)"),
            );
            (Grade::bare(name.to_owned(), status, Some(advice)), None)
        }
    }
}

fn grade(name: &str, read: Read, others: &[String]) -> (Grade, Option<Fingerprint>) {
    let Read { mut status, mut note, file, figures, print } = read;
    if !others.is_empty() {
        let all = others.join(", ");
        let more = Note::new(format!("other logs with calls: {all}"), format!("另有含调用的日志: {all}"));
        note = Some(note.map_or(more.clone(), |note| {
            Note::new(format!("{}; {}", note.en, more.en), format!("{}; {}", note.zh, more.zh))
        }));
        if status == Status::Ok {
            status = Status::SeveralLogs;
        }
    }
    (Grade { submission: name.to_owned(), status, note, file: Some(file), figures, similar_to: Vec::new() }, print)
}

/// Reads one log of a submission.
fn log(submission: &Submission, place: usize, file: String) -> Read {
    let (document, beside) = match submission.log(place) {
        Ok(found) => found,
        Err(problem) => return Read::problem(file, problem),
    };
    match analyse(&document, beside) {
        Ok((events, figures, print)) => {
            let note = note(&events, figures.lab.is_empty());
            let damaged = events.sources.first().is_some_and(|source| source.damaged);
            let status = match figures.calls {
                _ if damaged => Status::Damaged,
                0 => Status::NoEvents,
                _ => Status::Ok,
            };
            Read { status, note, file, figures: Some(figures), print }
        }
        Err(error) => Read { status: status_of(&error), note: Some(told(&error)), file, figures: None, print: None },
    }
}

fn analyse(log: &Document, beside: Vec<Document>) -> Result<(Events, Figures, Option<Fingerprint>), Error> {
    let inputs = Inputs::of(log, beside)?;
    // Submissions are read at the same time; each by itself needs no second thread.
    let pace = Pace { threads: 1, told: true, most_bytes: TEXT, ..Pace::default() };
    match inputs.rows(None, pace, CALLS) {
        Ok(events) => {
            let analysis = summary::analyse(&events);
            let lab = lab::of(&events, &analysis);
            let figures = Figures::of(&analysis.summary, Some(&lab).filter(|_| !events.calls.is_empty()));
            let print = Fingerprint::of(&events);
            Ok((events, figures, print))
        }
        Err(Error::TooManyOfBothKinds { .. }) => {
            let all = figures::of_inputs(&inputs, None, pace)?;
            Ok((all.events, Figures::of(&all.summary, None), None))
        }
        Err(error) => Err(error),
    }
}

fn status_of(error: &Error) -> Status {
    match error {
        Error::Read { source, .. } if source.kind() == std::io::ErrorKind::FileTooLarge => Status::TooLarge,
        Error::NotALog { .. } => Status::Unsupported,
        _ => Status::Unreadable,
    }
}

fn told(error: &Error) -> Note {
    let source = std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default();
    let text = printable(&format!("{error}{source}"));
    Note::new(text.clone(), format!("无法读取: {text}"))
}

/// What a grader should know of a log that was read.
fn note(events: &Events, without_lab: bool) -> Option<Note> {
    let source = events.sources.first()?;
    let mut notes = Vec::new();
    let calls: u64 =
        events.processes.iter().map(|process| process.rows.len() as u64 + process.untold.values().sum::<u64>()).sum();
    if source.damaged {
        let text = events.notes.iter().find(|note| note.en.contains("what could be read is analysed"));
        notes.extend(text.cloned());
    }
    if calls == 0 {
        let bad = source.bad_examples.first().map(|(line, text)| (*line, printable(text)));
        notes.push(match (source.lines, bad, events.processes.is_empty()) {
            (0, ..) => Note::new("the file is empty", "文件是空的"),
            (lines, Some((line, text)), _) => Note::new(
                format!(
                    "no call in {}; a line of a hook in no form that is known, line {line}: {text}",
                    plural(lines, "line")
                ),
                format!("{lines} 行中没有调用; 有格式不认识的 hook 行, 第 {line} 行: {text}"),
            ),
            (lines, None, false) => Note::new(
                format!(
                    "only settings in {}: the hook was loaded and saw no CUDA call (as `make test` leaves it)",
                    plural(lines, "line")
                ),
                format!("{lines} 行中只有配置行: hook 已加载, 但没有看到 CUDA 调用 (如 make test)"),
            ),
            (lines, None, true) if source.oversized_lines > 0 => Note::new(
                format!(
                    "no [HOOK] line in {}, of which {} too long to be looked into",
                    plural(lines, "line"),
                    source.oversized_lines
                ),
                format!("{lines} 行中没有 [HOOK] 行, 其中 {} 行过长未作分析", source.oversized_lines),
            ),
            (lines, ..) => {
                Note::new(format!("no [HOOK] line in {}", plural(lines, "line")), format!("{lines} 行中没有 [HOOK] 行"))
            }
        });
    } else {
        if without_lab {
            notes.push(Note::new(
                format!("more than {CALLS} calls: counted, but not held against the rubric"),
                format!("调用超过 {CALLS} 次: 只统计, 不对照评分项"),
            ));
        }
        let unread = source.bad_lines + source.oversized_lines;
        if unread > 0 {
            notes.push(Note::new(
                format!("{} not understood", plural(unread, "line")),
                format!("有 {unread} 行未能解析"),
            ));
        }
    }
    let join = |pick: fn(&Note) -> &str| notes.iter().map(pick).collect::<Vec<_>>().join("; ");
    (!notes.is_empty()).then(|| Note::new(join(|note| &note.en), join(|note| &note.zh)))
}
