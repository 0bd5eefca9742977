//! Pieces, in order → the processes of an input and the account of all its lines.

use super::batch::Batch;
use super::course;
use super::json;
use super::kept::{Calls, Kept, Place, Shared};
use super::piece::{Account, EXAMPLES, Mark, Parsed, WARNINGS};
use crate::error::Error;
use crate::events::{NameId, Names, Source};
use crate::input::Input;
use crate::step::ShapeId;

/// One input, read: its calls by kind of record, not yet brought together.
pub(crate) struct Gathered<C> {
    pub(super) source: Source,
    pub(super) course: course::Reader<C>,
    pub(super) json: json::Reader<C>,
    /// For each reader of pieces its names' and shapes' ids in the whole.
    ids: Vec<(Vec<NameId>, Vec<ShapeId>)>,
}

impl<C: Calls> Gathered<C> {
    /// Of an input, and its number.
    pub(super) fn new(number: u32, input: &Input) -> Self {
        let source = Source { path: input.path.clone(), ..Source::default() };
        Gathered { source, course: course::Reader::new(number), json: json::Reader::new(number), ids: Vec::new() }
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
                Mark::Warning(text) => {
                    self.source.warning_count += 1;
                    self.source.warnings.extend(text.filter(|_| self.source.warnings.len() < WARNINGS));
                }
                Mark::Start(start) => self.json.start(&self.source.path, line, *start)?,
                Mark::End(end) => {
                    let part = self.json.end(line, *end);
                    part.rows.settle(&part.process, part.index, shared);
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
        calls.hand_out(count, |pid, call| {
            call.place(&place);
            match pid {
                Some(pid) => {
                    let part = json.call(pid, call.seq(), call.line());
                    part.records += 1;
                    part.rows.take(call, &part.process, part.index, shared);
                }
                None => {
                    let (part, texts) = course.part(call.line());
                    texts.extend(call.text());
                    part.rows.take(call, &part.process, part.index, shared);
                }
            }
        });
    }

    fn account(&mut self, piece: Account) {
        let source = &mut self.source;
        let numbered = |(line, text): (u64, String)| (source.lines + line, text);
        let room = |examples: &Vec<_>| EXAMPLES.saturating_sub(examples.len());
        let (bad, other) = (room(&source.bad_examples), room(&source.other_examples));
        source.bad_examples.extend(piece.bad_examples.into_iter().take(bad).map(numbered));
        source.other_examples.extend(piece.other_examples.into_iter().take(other).map(numbered));
        source.lines += piece.lines;
        source.event_lines += piece.event_lines;
        source.events += piece.events;
        source.other_lines += piece.other_lines;
        source.bad_lines += piece.bad_lines;
        source.oversized_lines += piece.oversized_lines;
        source.cut_lines += piece.cut_lines;
        source.has_course_lines |= piece.has_course_lines;
    }

    /// Whether it holds calls as lines and none as records.
    pub(super) fn only_lines(&self) -> bool {
        let lines = self.course.parts.iter().any(|(part, _)| part.rows.count() > 0);
        lines && self.json.parts.iter().all(|part| part.rows.count() == 0)
    }
}
