//! Pieces, in order → the processes of an input and the account of all its lines.

use std::ops::Range;
use std::path::Path;

use super::batch::{Batch, Next, Take};
use super::dialect::{self, At, Ledger};
use super::kept::{Calls, Kept, Place, Shared};
use super::piece::{Account, EXAMPLES, Mark, Parsed, TOLD, WARNINGS};
use super::{Pace, Part, course, json};
use crate::classes::{Class, Reject};
use crate::error::Error;
use crate::events::{NameId, Names, Process, Row, Source};
use crate::step::{AsPlain, Plain, ShapeId, Stretch, Timed};

/// One input, read: its calls by kind of record, not yet brought together.
#[derive(Clone)]
pub(crate) struct Gathered<C> {
    pub(super) source: Source,
    pub(super) course: course::Reader<C>,
    pub(super) json: json::Reader<C>,
    /// Processes of other limiters.
    pub(super) others: Vec<Part<C>>,
    dialects: dialect::Reader,
    number: u32,
    all_rejects: bool,
    /// For each reader of pieces its names' and shapes' ids in the whole.
    ids: Vec<(Vec<NameId>, Vec<ShapeId>)>,
}

impl<C: Calls> Gathered<C> {
    /// Of an input, and its number.
    pub(super) fn new(number: u32, path: &Path, pace: Pace) -> Self {
        let source = Source { path: path.to_owned(), ..Source::default() };
        Gathered {
            source,
            course: course::Reader::new(number),
            json: json::Reader::new(number),
            others: Vec::new(),
            dialects: dialect::Reader::default(),
            number,
            all_rejects: pace.rejects,
            ids: Vec::new(),
        }
    }

    /// Takes a piece in.
    ///
    /// # Errors
    /// It was written in a newer format.
    pub(super) fn take(
        &mut self,
        names: &mut Names,
        shared: &mut C::Shared,
        parsed: &mut Parsed<C::Kept>,
    ) -> Result<(), Error> {
        if self.ids.len() <= parsed.reader {
            self.ids.resize(parsed.reader + 1, Default::default());
        }
        let ids = &mut self.ids[parsed.reader];
        ids.0.extend(parsed.names.iter().map(|name| names.id(name)));
        if let Some(shapes) = shared.shapes() {
            ids.1.extend(parsed.shapes.iter().map(|&shape| shapes.id(shape)));
        }
        let lines = self.source.lines;
        let (calls, mut taken) = (&mut parsed.calls, 0);
        for (before, line, mark) in parsed.marks.drain(..) {
            self.calls(calls, before - taken, lines, parsed.reader, shared);
            taken = before;
            let line = lines + line;
            match mark {
                Mark::Quota(quota) => self.course.quota(line, quota),
                Mark::Rate(bucket) => self.course.rate(line, bucket),
                Mark::Shared(name) => self.course.shared(line, &name),
                Mark::Warning(text) => {
                    self.source.warning_count += 1;
                    self.source.warnings.extend(text.filter(|_| self.source.warnings.len() < WARNINGS));
                }
                Mark::Said(said, wall_ns) => {
                    let mut entries = Entries { parts: &mut self.others, names, shared };
                    let at = At { source: self.number, line, wall_ns };
                    self.dialects.take(&mut entries, at, *said);
                }
                Mark::Start(start) => self.json.start(&self.source.path, line, *start)?,
                Mark::End(end) => {
                    let part = self.json.end(line, *end);
                    part.rows.settle(&part.process, part.index, shared);
                    part.rows.rest();
                }
            }
        }
        self.calls(calls, calls.len() - taken, lines, parsed.reader, shared);
        self.account(std::mem::take(&mut parsed.account));
        Ok(())
    }

    #[inline]
    fn calls(
        &mut self,
        calls: &mut <C::Kept as Kept>::Batch,
        count: usize,
        lines: u64,
        reader: usize,
        shared: &mut C::Shared,
    ) {
        let (names, shapes) = &self.ids[reader];
        let place = Place { lines, names, shapes };
        let (course, json) = (&mut self.course, &mut self.json);
        calls.hand_out(count, &mut Placing { place, course, json, shared });
    }

    /// The input has ended.
    pub(super) fn finish(&mut self, names: &mut Names, shared: &mut C::Shared) {
        let mut entries = Entries { parts: &mut self.others, names, shared };
        self.dialects.finish(&mut entries);
    }

    fn account(&mut self, piece: Account) {
        let source = &mut self.source;
        for reject in piece.rejects {
            let reject = Reject { line: source.lines + reject.line, ..reject };
            if source.first_fault.is_none() && reject.class.is_fault() {
                source.first_fault = Some(reject.clone());
            }
            if self.all_rejects {
                source.rejects.push(reject);
            }
        }
        let numbered = |(line, text): (u64, String)| (source.lines + line, text);
        let room = |examples: &Vec<_>| EXAMPLES.saturating_sub(examples.len());
        let (bad, other) = (room(&source.bad_examples), room(&source.other_examples));
        source.bad_examples.extend(piece.bad_examples.into_iter().take(bad).map(numbered));
        source.other_examples.extend(piece.other_examples.into_iter().take(other).map(numbered));
        let told = piece.told.into_iter().map(|(line, told)| (source.lines + line, told));
        let room = TOLD.saturating_sub(source.told.len());
        source.told.extend(told.take(room).collect::<Vec<_>>());
        source.classes.append(source.lines, &piece.classes);
        source.lines += piece.lines;
        source.events += piece.events;
        let lines = |class| source.classes.of(class).lines;
        source.event_lines = lines(Class::Event) + lines(Class::Banner);
        source.other_lines = lines(Class::Other);
        source.bad_lines = lines(Class::UnknownHook) + lines(Class::Torn) + lines(Class::Undecodable);
        source.oversized_lines = lines(Class::Oversized);
        source.cut_lines = lines(Class::Truncated);
        source.has_course_lines |= piece.has_course_lines;
    }

    /// Calls in it.
    pub(super) fn count(&self) -> u64 {
        let lines = self.course.parts.iter().map(|(part, _)| part);
        lines.chain(&self.others).chain(&self.json.parts).map(|part| part.rows.count()).sum()
    }

    /// Whether it holds calls as lines and none as records.
    pub(super) fn only_lines(&self) -> bool {
        let lines = self.course.parts.iter().any(|(part, _)| part.rows.count() > 0);
        lines && self.json.parts.iter().all(|part| part.rows.count() == 0)
    }
}

/// Calls of a piece on their way to their processes.
struct Placing<'a, C: Calls> {
    place: Place<'a>,
    course: &'a mut course::Reader<C>,
    json: &'a mut json::Reader<C>,
    shared: &'a mut C::Shared,
}

impl<C: Calls> Take<C::Kept> for Placing<'_, C> {
    #[inline]
    fn take(&mut self, pid: Option<u32>, call: &mut C::Kept) {
        call.place(&self.place);
        match pid {
            Some(pid) => {
                let part = self.json.call(pid, call.seq(), call.line());
                part.records += 1;
                part.rows.take(call, &part.process, part.index, self.shared);
            }
            None => {
                let (part, texts) = self.course.part(call.line());
                texts.extend(call.text());
                part.rows.take(call, &part.process, part.index, self.shared);
            }
        }
    }

    fn may_wait(&self, next: Next) -> bool {
        let (part, seq) = match next {
            Next::Lines => (self.course.parts.last().map(|(part, _)| part), None),
            Next::Records { pid, seq } => (self.json.only(pid).map(|index| &self.json.parts[index]), Some(seq)),
            Next::Mixed => return false,
        };
        part.is_some_and(|part| part.rows.may_wait(&part.process, self.shared, seq))
    }

    fn pass(&mut self, next: Next, launches: u64) {
        let part = match next {
            Next::Records { pid, .. } => self.json.only(pid).map(|index| &mut self.json.parts[index]),
            Next::Lines | Next::Mixed => self.course.parts.last_mut().map(|(part, _)| part),
        };
        if let Some(part) = part {
            part.rows.pass(launches);
        }
    }

    fn lines(&mut self, launches: &mut [Plain], places: Range<u32>) {
        self.place(launches);
        if let Some((part, _)) = self.course.parts.last_mut() {
            let stretch = Stretch { launches, lines: self.place.lines, places };
            part.rows.lines(&stretch, &part.process, self.shared);
        }
    }

    fn records(&mut self, pid: u32, launches: &mut [Timed], places: Range<u32>) {
        self.place(launches);
        if let Some(index) = self.json.only(pid) {
            let part = &mut self.json.parts[index];
            part.records += launches.len() as u64;
            let stretch = Stretch { launches, lines: self.place.lines, places };
            part.rows.records(&stretch, &part.process, self.shared);
        }
    }
}

impl<C: Calls> Placing<'_, C> {
    /// Moves launches from their piece into the input.
    fn place(&self, launches: &mut [impl AsPlain]) {
        launches.iter_mut().for_each(|launch| launch.plain_mut().place(self.place.names, self.place.shapes));
    }
}

/// Numbers of other limiters' processes begin here, between those by lines and those by records.
pub(super) const OTHERS: u32 = 1 << 30;

/// What other limiters' lines are entered into.
struct Entries<'a, C: Calls> {
    parts: &'a mut Vec<Part<C>>,
    names: &'a mut Names,
    shared: &'a mut C::Shared,
}

impl<C: Calls> Ledger for Entries<'_, C> {
    fn name(&mut self, text: &str) -> NameId {
        self.names.id(text)
    }

    fn open(&mut self, process: Process) -> usize {
        self.parts.push(Part::new(process, OTHERS + self.parts.len() as u32));
        self.parts.len() - 1
    }

    fn process(&mut self, number: usize) -> &mut Process {
        &mut self.parts[number].process
    }

    fn call(&mut self, number: usize, row: Row) {
        let part = &mut self.parts[number];
        let shape = row.grid.zip(row.block).and_then(|shape| Some(self.shared.shapes()?.id(shape)));
        part.rows.take(&C::Kept::of(row, shape, ""), &part.process, part.index, self.shared);
    }
}
