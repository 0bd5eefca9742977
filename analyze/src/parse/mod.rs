//! Logs → [`Events`]: read each input, line by line and whatever stands on the line; then bring a log and its event
//! file together, so that each call counts once.
//!
//! bytes → [`crate::input::pieces`] → `piece` (on all cores: `fast`, else `classify`) → `gather` (in order) → `matching`.

mod batch;
mod classify;
mod course;
mod dialect;
mod fast;
mod folded;
mod gather;
mod json;
mod kept;
mod lines;
pub(crate) mod live;
pub mod look;
mod matching;
mod number;
mod piece;
mod pool;
mod waiting;

use std::path::{Path, PathBuf};

use crate::analysis::fold::{Folds, Totals};
use crate::error::{Error, Shown};
use crate::events::{Columns, Events, Names, Note, Process, Row};
use crate::input::{self, Document, Input};
use batch::Batch;
use folded::{Ordered, Shared};
use gather::Gathered;
use kept::{Calls, Kept, Whole};
use pool::Stop;

pub use pool::Pace;

/// One input's rows.
type Parsed = Gathered<Vec<Row>>;

/// Reads `logs` as one analysis. Beside `NAME.log` the event file `NAME.jsonl` or `hook.jsonl` is taken in when its
/// calls are the log's; `events` names one instead. A file that is named twice is read once.
///
/// # Errors
/// An input can't be read, was written in a newer format, or the event file that was named does not belong to the log.
pub fn read(logs: &[PathBuf], events: Option<&Path>) -> Result<Events, Error> {
    read_at(logs, events, Pace::default())
}

/// The same at a given pace; the result does not depend on it.
///
/// # Errors
/// As [`read`].
pub fn read_at(logs: &[PathBuf], events: Option<&Path>, pace: Pace) -> Result<Events, Error> {
    Inputs::open(logs)?.rows(events, pace, u64::MAX)
}

/// Reads lines one by one, the last as one without its end. The fast readers panic where the obvious one reads another
/// thing. For the fuzzer, which otherwise gets at whole inputs only.
#[cfg(fuzzing)]
pub fn compare_readers(lines: &[u8]) {
    let mut fast = fast::alike::Fast::default();
    let mut from = 0;
    for line in lines.split(|&byte| byte == b'\n') {
        let taken = fast.agrees(&lines[from..]);
        from += line.len() + 1;
        let unended = from > lines.len();
        assert!(!(taken && unended), "what has no end may go on");
        classify::line(line, unended, |_| {});
    }
}

/// Open inputs, and what is to be said of how they were named.
pub(crate) struct Inputs {
    inputs: Vec<Input>,
    notes: Vec<Note>,
    /// Every path once, as the file system calls it.
    seen: Vec<PathBuf>,
    /// The event files beside the logs, where they are not looked for.
    beside: Option<Vec<Document>>,
    pub(crate) most: Most,
}

impl Inputs {
    pub(crate) fn open(logs: &[PathBuf]) -> Result<Inputs, Error> {
        let mut all = Inputs::none();
        for log in input::expand(logs)? {
            if first_time(&mut all.seen, &log) {
                all.inputs.push(Input::open(&log)?);
                continue;
            }
            let name = Shown(&log).to_string();
            all.notes.push(Note::new(
                format!("{name} was named more than once and is read once"),
                format!("{name} 被重复给出, 只读取一次"),
            ));
        }
        Ok(all)
    }

    /// One log, and the event files that lie beside it.
    pub(crate) fn of(log: &Document, beside: Vec<Document>) -> Result<Inputs, Error> {
        Ok(Inputs { inputs: vec![Input::of(log)?], beside: Some(beside), ..Inputs::none() })
    }

    fn none() -> Inputs {
        let most = Most { sorted: 1 << 18, matched: 1 << 20 };
        Inputs { inputs: Vec::new(), notes: Vec::new(), seen: Vec::new(), beside: None, most }
    }

    /// The event files beside a log.
    fn beside(&self, log: &Path) -> Vec<Document> {
        let found = |path| Document { path, content: None };
        self.beside.clone().unwrap_or_else(|| beside(log, &self.seen).into_iter().map(found).collect())
    }

    /// Every call folded, unless rows are needed. Where these were too many, logs are taken `alone`, without the event
    /// files beside them.
    pub(crate) fn fold(&self, pace: Pace, alone: bool) -> Result<Folded, Error> {
        let mut all = Events { notes: self.notes.clone(), ..Events::default() };
        let mut shared = Shared::default();
        shared.totals = Totals::with(pace.workload);
        let mut inputs: Vec<Gathered<Ordered>> = Vec::new();
        for (number, input) in self.inputs.iter().enumerate() {
            let mut gathered = Gathered::new(number as u32, &input.path, pace);
            let sidecars = self.beside(&input.path);
            let names = &mut all.names;
            let has_records = inputs.iter().any(|input| !input.json.parts.is_empty());
            let read = gather(input, pace, &mut all.notes, |piece| {
                gathered.take(names, &mut shared, piece).map_err(Halt::Error)?;
                let records = has_records || !gathered.json.parts.is_empty();
                match shared.line_calls {
                    true if !alone && !sidecars.is_empty() => Err(Halt::NeedsRows(Why::EventFile)),
                    true if records => Err(Halt::NeedsRows(Why::BothKinds)),
                    _ => Ok(()),
                }
            });
            match read {
                Err(Halt::NeedsRows(why)) => return Ok(Folded::NeedsRows(why)),
                Err(Halt::Error(error)) => return Err(error),
                Ok(damaged) => gathered.source.damaged = damaged,
            }
            gathered.finish(&mut all.names, &mut shared);
            if gathered.only_lines() {
                all.notes.extend(sidecars.iter().map(|file| too_long(&file.path, &input.path, self.most.matched)));
            }
            inputs.push(gathered);
        }
        let calls: u64 = inputs.iter().map(Gathered::count).sum();
        if !alone && shared.late > 0 && calls <= self.most.sorted && self.can_be_read_again() {
            return Ok(Folded::NeedsRows(Why::Order));
        }
        let (events, folds, totals) = assemble(all, inputs, shared);
        Ok(Folded::All { events: Box::new(events), folds, totals: Box::new(totals) })
    }

    pub(crate) fn can_be_read_again(&self) -> bool {
        self.inputs.iter().all(Input::can_be_read_again)
    }

    /// Whether reading can begin again, with rows.
    pub(crate) fn can_begin_again(&self, why: Why) -> Result<(), Error> {
        match (self.inputs.iter().find(|input| !input.can_be_read_again()), why) {
            (None, _) | (_, Why::Order) => Ok(()),
            (Some(input), Why::BothKinds | Why::EventFile) => Err(Error::PipeOfBothKinds(input.path.clone())),
        }
    }

    /// Every call as a row, at most so many.
    pub(crate) fn rows(&self, events: Option<&Path>, pace: Pace, most: u64) -> Result<Events, Error> {
        let mut all = Events { notes: self.notes.clone(), ..Events::default() };
        let (mut seen, mut room) = (self.seen.clone(), Room { left: most, most });
        let mut parsed: Vec<Parsed> = Vec::new();
        for (number, input) in self.inputs.iter().enumerate() {
            parsed.push(parse(&mut all, input, number as u32, pace, &mut room)?);
        }
        let mut sidecars = Sidecars::default();
        if let Some(path) = events.filter(|path| first_time(&mut seen, path)) {
            sidecars.named = Some(parse(&mut all, &Input::open(path)?, parsed.len() as u32, pace, &mut room)?);
        } else if events.is_none() {
            for (index, parsed) in parsed.iter().enumerate().filter(|(_, parsed)| parsed.only_lines()) {
                for file in self.beside(&parsed.source.path) {
                    // A second log may lie beside the same event file.
                    match Input::of(&file).and_then(|input| parse(&mut all, &input, 0, pace, &mut room)) {
                        Ok(found) => sidecars.beside.push((index, found)),
                        Err(error @ Error::TooManyOfBothKinds { .. }) => return Err(error),
                        Err(error) => all.notes.push(Note::new(
                            format!("event file left out: {error}"),
                            format!("未并入事件文件: {error}"),
                        )),
                    }
                }
            }
        }
        matching::bring_together(&mut all, parsed, sidecars)?;
        Ok(all)
    }
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

/// Event files that lie beside a log and are no inputs.
fn beside(log: &Path, seen: &[PathBuf]) -> Vec<PathBuf> {
    if log == Path::new("-") {
        return Vec::new();
    }
    let mut paths = vec![log.with_extension("jsonl"), log.with_file_name("hook.jsonl")];
    paths.dedup();
    paths.retain(|path| path.is_file() && first_time(&mut seen.to_vec(), path));
    paths
}

/// That an event file beside a log is too long to find its records among the lines.
fn too_long(file: &Path, log: &Path, most: u64) -> Note {
    let (file, log) = (file.display(), Shown(log));
    Note::new(
        format!(
            "`{file}` left out: it and {log} hold more than {most} calls, too many to match; name it instead of the log for figures from its records"
        ),
        format!("未并入 `{file}`: 它与 {log} 的调用超过 {most} 次, 不作逐条比对; 要按其中的记录统计, 请直接指定它"),
    )
}

/// Room for rows.
struct Room {
    left: u64,
    most: u64,
}

/// Reads an input; what is to be said of it goes to `all`.
fn parse(all: &mut Events, input: &Input, number: u32, pace: Pace, room: &mut Room) -> Result<Parsed, Error> {
    let mut parsed = Parsed::new(number, &input.path, pace);
    let names: &mut Names = &mut all.names;
    let damaged = gather(input, pace, &mut all.notes, |piece: &mut piece::Parsed<Whole>| {
        let calls = piece.calls.len() as u64;
        room.left = room.left.checked_sub(calls).ok_or(Error::TooManyOfBothKinds { most: room.most })?;
        parsed.take(names, &mut (), piece)
    })?;
    parsed.source.damaged = damaged;
    parsed.finish(&mut all.names, &mut ());
    Ok(parsed)
}

/// Reads an input's pieces; what is to be said of it goes to `notes`. Whether it was damaged.
fn gather<K: Kept, E: From<Error> + Send>(
    input: &Input,
    pace: Pace,
    notes: &mut Vec<Note>,
    mut take: impl FnMut(&mut piece::Parsed<K>) -> Result<(), E> + Send,
) -> Result<bool, E> {
    let mut pieces = input.pieces()?;
    pieces.at_most(pace.most_bytes);
    let (size, mut read) = (input.size().filter(|_| !pieces.is_packed()), 0);
    let take = |piece: &mut piece::Parsed<K>| {
        if let Some(watch) = pace.watch {
            read += piece.bytes;
            watch(&input.path, read, size);
        }
        take(piece)
    };
    pool::in_order(&mut pieces, pace, take).map_err(|stop| match stop {
        Stop::Read(source) => Error::Read { path: input.path.clone(), source }.into(),
        Stop::Enough(error) => error,
    })?;
    notes.extend(pieces.remark(&Shown(&input.path).to_string()));
    Ok(pieces.is_damaged())
}

/// The processes of folded inputs, in their order. There may be many of them, so that none is copied to elsewhere.
fn assemble(mut all: Events, inputs: Vec<Gathered<Ordered>>, mut shared: Shared) -> (Events, Folds, Totals) {
    let mut parts: Vec<Part<Ordered>> = Vec::new();
    let mut add = |more: Vec<Part<Ordered>>| if parts.is_empty() { parts = more } else { parts.extend(more) };
    for gathered in inputs {
        all.sources.push(gathered.source);
        add(gathered.course.parts.into_iter().map(|(part, _)| part).collect());
        add(gathered.others);
        add(gathered.json.parts);
    }
    parts.sort_by_key(|part| (part.process.source, part.process.first_line));
    let (mut folds, mut from) = (Folds::with_capacity(parts.len()), 0);
    let finish = |Part { mut process, rows, index, .. }: Part<Ordered>| {
        let calls = rows.count() as usize;
        folds.push(rows.finish(&process, index, &mut shared));
        process.rows = from..from + calls;
        from += calls;
        process
    };
    all.processes = parts.into_iter().map(finish).collect();
    all.processes.shrink_to_fit();
    (all, folds, shared.totals)
}

/// Inputs whose calls were folded.
pub(crate) enum Folded {
    /// All of them. Of `events` the calls are not there; each process's `rows` say how many it has.
    All { events: Box<Events>, folds: Folds, totals: Box<Totals> },
    /// Not to the end.
    NeedsRows(Why),
}

/// Why calls can't be folded as they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// A log has an event file beside it, which may have records of its lines.
    EventFile,
    /// There are lines and records, perhaps of the same calls.
    BothKinds,
    /// Records can't be put in order as they come, and are few enough to be sorted.
    Order,
}

/// For how many calls rows are kept where figures alone are asked for.
pub(crate) struct Most {
    /// To sort records that can't be put in order as they come: 250 MB of memory.
    pub(crate) sorted: u64,
    /// To find which lines and records are the same calls, all of them together: 1 GB.
    pub(crate) matched: u64,
}

/// What ends folding early.
enum Halt {
    NeedsRows(Why),
    Error(Error),
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        Halt::Error(error)
    }
}

/// Calls of a process on their way into [`Events`].
#[derive(Clone, Default)]
pub(crate) struct Part<C = Vec<Row>> {
    process: Process,
    rows: C,
    /// JSONL records of it: calls, and its start and end.
    records: u64,
    /// Its number among the input's processes of its kind.
    index: u32,
}

impl<C: Default> Part<C> {
    fn new(process: Process, index: u32) -> Self {
        Part { process, rows: C::default(), records: 0, index }
    }
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
