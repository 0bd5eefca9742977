//! A piece of an input → its calls, in order, and an account of its lines. What needs no other piece is done here, so
//! that pieces can be read at the same time.

use hook_event::course::{Line, TAG};
use hook_event::json::{RecordEnd, RecordStart};
use memchr::memchr;

use super::batch::Batch;
use super::classify::{self, Found, Verdict};
use super::dialect::{Said, older};
use super::kept::Kept;
use super::{Pace, course, fast};
use crate::classes::{Class, Classes, Reject};
use crate::events::{Names, Row};
use crate::input::pieces::Piece;
use crate::program::Told;
use crate::step::{Shape, ShapeId, Shapes};

/// Examples of lines kept for an input.
pub(super) const EXAMPLES: usize = 5;

/// Characters of an example.
const EXAMPLE_WIDTH: usize = 200;

/// Warnings of the hook kept for an input.
pub(super) const WARNINGS: usize = 100;

/// Lines of the lab's test program kept for an input.
pub(super) const TOLD: usize = 1000;

/// What was read of a piece. Lines are numbered from 1 within it, names by [`Reader::names`].
pub(super) struct Parsed<K: Kept> {
    /// The calls.
    pub(super) calls: K::Batch,
    /// What is no call, each with its line and the number of calls before it.
    pub(super) marks: Vec<(usize, u64, Mark)>,
    /// The lines.
    pub(super) account: Account,
    /// Its bytes.
    pub(super) bytes: u64,
    /// Which reader read it.
    pub(super) reader: usize,
    /// The names that this reader had not met before.
    pub(super) names: Vec<Box<str>>,
    /// The launch shapes that it had not met before.
    pub(super) shapes: Vec<Shape>,
}

impl<K: Kept> Parsed<K> {
    pub(super) fn new() -> Self {
        Parsed {
            calls: Default::default(),
            marks: Vec::new(),
            account: Account::default(),
            bytes: 0,
            reader: 0,
            names: Vec::new(),
            shapes: Vec::new(),
        }
    }

    fn clear(&mut self, reader: usize) {
        self.calls.clear();
        self.marks.clear();
        self.names.clear();
        self.shapes.clear();
        self.account = Account::default();
        self.reader = reader;
    }
}

/// A record that is no call.
pub(super) enum Mark {
    Quota(Option<u64>),
    Rate(Option<(f64, f64)>),
    Shared(Box<str>),
    Warning(Option<String>),
    Said(Box<Said>, Option<i64>),
    Start(Box<RecordStart>),
    End(Box<RecordEnd>),
}

/// The lines of a piece by what they are, with the first examples.
#[derive(Default)]
pub(super) struct Account {
    pub(super) lines: u64,
    pub(super) classes: Classes,
    pub(super) events: u64,
    pub(super) has_course_lines: bool,
    pub(super) other_examples: Vec<(u64, String)>,
    pub(super) bad_examples: Vec<(u64, String)>,
    /// The first line that was not understood and should have been; where they are wanted, all that were not.
    pub(super) rejects: Vec<Reject>,
    /// What the lab's test program tells, where it is wanted.
    pub(super) told: Vec<(u64, Told)>,
}

impl Account {
    fn add(&mut self, (class, records): Verdict, raw: &[u8], pace: &Pace) {
        self.classes.add(class, self.lines);
        self.events += records;
        if class.is_rejected() && (pace.rejects || class.is_fault() && self.rejects.is_empty()) {
            self.rejects.push(Reject { line: self.lines, class, text: super::lines::clean(raw).into_owned() });
        }
        if pace.told && class == Class::Other && self.told.len() < TOLD {
            self.told.extend(Told::read(&super::lines::clean(raw)).map(|told| (self.lines, told)));
        }
        let examples = match class {
            Class::Other => &mut self.other_examples,
            Class::UnknownHook | Class::Torn | Class::Undecodable => &mut self.bad_examples,
            Class::Event | Class::Banner | Class::Truncated | Class::Oversized => return,
        };
        if examples.len() < EXAMPLES {
            let text = super::lines::clean(raw);
            if !text.trim().is_empty() {
                examples.push((self.lines, text.chars().take(EXAMPLE_WIDTH).collect()));
            }
        }
    }
}

/// Reads pieces, one after the other.
pub(super) struct Reader {
    number: usize,
    names: Names,
    shapes: Shapes,
    heads: fast::course::Heads,
    seen: fast::json::Seen,
    pace: Pace,
}

impl Reader {
    pub(super) fn new(number: usize, pace: Pace) -> Self {
        Reader {
            number,
            names: Names::default(),
            shapes: Shapes::default(),
            heads: Default::default(),
            seen: Default::default(),
            pace,
        }
    }

    /// Reads a piece.
    pub(super) fn read<K: Kept>(&mut self, piece: &Piece, parsed: &mut Parsed<K>) {
        parsed.clear(self.number);
        let known = (self.names.len(), self.shapes.all().len());
        let bytes = piece.bytes();
        parsed.bytes = bytes.len() as u64;
        let mut at = 0;
        // Counted here and not in the account: a register is faster than memory that everything may change.
        let (mut lines, mut taken, mut first) = (0, 0, 0);
        while at < bytes.len() {
            let rest = &bytes[at..];
            lines += 1;
            let oversized = !piece.oversized.is_empty() && piece.oversized.contains(&at);
            let fast = if self.pace.fast && !oversized { self.fast_line(rest, lines, parsed) } else { None };
            match fast {
                Some(length) => {
                    at += length;
                    if taken == 0 {
                        first = lines;
                    }
                    taken += 1;
                }
                None => {
                    let length = memchr(b'\n', rest).unwrap_or(rest.len());
                    parsed.account.lines = lines;
                    self.line(&rest[..length], oversized, piece.unended && length == rest.len(), parsed);
                    at += length + 1;
                }
            }
        }
        parsed.account.lines = lines;
        parsed.account.classes.add_many(Class::Event, first, taken);
        parsed.account.events += taken;
        parsed.names.extend((known.0..self.names.len()).map(|id| Box::from(self.names.text(id as u32))));
        parsed.shapes.extend_from_slice(&self.shapes.all()[known.1..]);
    }

    /// A line that a fast reader takes, and its length.
    #[inline(always)]
    fn fast_line<K: Kept>(&mut self, rest: &[u8], line: u64, parsed: &mut Parsed<K>) -> Option<usize> {
        if rest.first() == Some(&b'{') {
            self.fast_record(rest, line, parsed)
        } else {
            let keep = Keep::<K> { calls: &mut parsed.calls, bytes: rest, number: line };
            let length = fast::course::line(rest, &mut self.heads, &mut self.names, &mut self.shapes, keep)?;
            parsed.account.has_course_lines = true;
            Some(length)
        }
    }

    /// A call's record that the fast reader takes, and its length.
    #[inline(never)] // with a course line's reader beside it, it would run out of registers
    fn fast_record<K: Kept>(&mut self, rest: &[u8], line: u64, parsed: &mut Parsed<K>) -> Option<usize> {
        let fast::json::Found { call, api, shape, length } =
            fast::json::call(rest, &mut self.seen, &mut self.names, &mut self.shapes)?;
        if !call.is_sound(api.kind) {
            return None;
        }
        let row = call.row(api, &mut self.names, line, K::WHOLE || self.pace.workload);
        parsed.calls.push(Some(call.pid), K::of(row, shape, ""));
        Some(length)
    }

    #[inline(always)]
    fn shape(&mut self, row: &Row) -> Option<ShapeId> {
        row.grid.zip(row.block).map(|shape| self.shapes.id(shape))
    }

    /// Any other line.
    fn line<K: Kept>(&mut self, raw: &[u8], oversized: bool, unended: bool, parsed: &mut Parsed<K>) {
        let number = parsed.account.lines;
        let verdict = if oversized {
            (Class::Oversized, 0)
        } else if is_foreign(raw) {
            (Class::Other, 0)
        } else {
            classify::line(raw, unended, |found| self.take(found, number, parsed))
        };
        parsed.account.add(verdict, raw, &self.pace);
    }

    fn take<K: Kept>(&mut self, found: Found<'_>, line: u64, parsed: &mut Parsed<K>) {
        let mark = match found {
            Found::Call(call) => {
                let api = self.names.api(call.api);
                let row = call.row(api, &mut self.names, line, K::WHOLE);
                let shape = self.shape(&row);
                parsed.calls.push(Some(call.pid), K::of(row, shape, ""));
                return;
            }
            Found::Start(start) => Mark::Start(Box::new(start)),
            Found::End(end) => Mark::End(Box::new(end)),
            Found::Said(said, wall_ns) => Mark::Said(Box::new(said), wall_ns),
            Found::Older(older::Line::NoQuota, ..) => Mark::Quota(None),
            Found::Older(older::Line::NoRate, ..) => Mark::Rate(None),
            Found::Older(older::Line::Warning(warning), ..) => {
                Mark::Warning((parsed.marks.len() < WARNINGS).then_some(warning))
            }
            Found::Older(older::Line::Call(heard), text, wall_ns) => {
                parsed.account.has_course_lines = true;
                let row = heard.row(&mut self.names, line, wall_ns);
                parsed.calls.push(None, K::of(row, None, text));
                return;
            }
            Found::Line(record, text, wall_ns) => {
                parsed.account.has_course_lines = true;
                match record {
                    Line::Quota(quota) => Mark::Quota(quota),
                    Line::Rate(bucket) => Mark::Rate(bucket),
                    Line::Shared(name) => Mark::Shared(name.into()),
                    Line::Warning(warning) => {
                        let kept = parsed.marks.len() < WARNINGS;
                        Mark::Warning(kept.then(|| warning.to_owned()))
                    }
                    _ => {
                        let api = self.names.api(course::api(&record).unwrap_or_default().as_bytes());
                        if let Some(row) = course::row(api, line, &record, wall_ns) {
                            let shape = self.shape(&row);
                            parsed.calls.push(None, K::of(row, shape, text));
                        }
                        return;
                    }
                }
            }
        };
        parsed.marks.push((parsed.calls.len(), line, mark));
    }
}

/// Keeps the calls of course lines.
struct Keep<'a, K: Kept> {
    calls: &'a mut K::Batch,
    /// The line and what follows it.
    bytes: &'a [u8],
    number: u64,
}

impl<K: Kept> fast::course::Take for Keep<'_, K> {
    #[inline(always)]
    fn take(&mut self, line: &Line<'_>, head: &fast::course::Head, length: usize) -> Option<()> {
        let row = course::row(head.api, self.number, line, None)?;
        let text = if K::WHOLE { std::str::from_utf8(self.bytes.get(..length)?).ok()?.trim_end() } else { "" };
        self.calls.push(None, K::of(row, head.shape.map(|shape| shape.1), text));
        Some(())
    }
}

/// Whether a line is certainly another program's: plain ASCII without what records begin with.
fn is_foreign(raw: &[u8]) -> bool {
    const { assert!(TAG.as_bytes()[0] == b'[') };
    raw.is_ascii() && memchr::memchr3(b'[', b'{', b'\x1b', raw).is_none()
}
