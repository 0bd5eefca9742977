//! One line of an input, read once more: its text, what it is, and which records stand on it.

use std::path::Path;

use hook_event::course::Line;
use memchr::memchr;

use super::classify::{self, Found};
use super::dialect::older;
use crate::classes::Class;
use crate::error::Error;
use crate::input::Input;
use crate::input::pieces::Piece;

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looked {
    /// What it is.
    pub class: Class,
    /// Its text; of an oversized one the beginning.
    pub text: String,
    /// The records on it, in order.
    pub records: Vec<Record>,
}

/// A record on a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// A call; its process and its number there, where it is a JSONL record.
    Call(Option<(u32, u64)>),
    /// The quota in force.
    Quota,
    /// Rate and capacity in force.
    Rate,
    /// That limits are shared.
    Shared,
    /// A warning of the hook.
    Warning,
    /// A process begins.
    Start,
    /// A process ends.
    End,
    /// What another limiter says.
    Said,
}

/// Line number `line` (from 1) of the file at `path`; `None` where it has fewer.
///
/// # Errors
/// It can't be read.
pub fn look(path: &Path, line: u64) -> Result<Option<Looked>, Error> {
    let mut pieces = Input::open(path)?.pieces()?;
    let fail = |source| Error::Read { path: path.to_owned(), source };
    let (mut piece, mut number) = (Piece::default(), 0);
    while pieces.next(&mut piece).map_err(fail)? {
        let (bytes, mut at) = (piece.bytes(), 0);
        while at < bytes.len() {
            let rest = &bytes[at..];
            let length = memchr(b'\n', rest).unwrap_or(rest.len());
            number += 1;
            if number == line {
                let unended = piece.unended && length == rest.len();
                return Ok(Some(of(&rest[..length], unended, piece.oversized.contains(&at))));
            }
            at += length + 1;
        }
    }
    Ok(None)
}

fn of(raw: &[u8], unended: bool, oversized: bool) -> Looked {
    let text = super::lines::clean(raw).into_owned();
    if oversized {
        return Looked { class: Class::Oversized, text, records: Vec::new() };
    }
    let mut records = Vec::new();
    let (class, _) = classify::line(raw, unended, |found| records.push(Record::of(&found)));
    Looked { class, text, records }
}

impl Record {
    fn of(found: &Found<'_>) -> Record {
        match found {
            Found::Call(call) => Record::Call(Some((call.pid, call.seq))),
            Found::Start(_) => Record::Start,
            Found::End(_) => Record::End,
            Found::Said(said, _) if said.is_call() => Record::Call(None),
            Found::Said(..) => Record::Said,
            Found::Older(older::Line::NoQuota, ..) | Found::Line(Line::Quota(_), ..) => Record::Quota,
            Found::Older(older::Line::NoRate, ..) | Found::Line(Line::Rate(_), ..) => Record::Rate,
            Found::Older(older::Line::Warning(_), ..) | Found::Line(Line::Warning(_), ..) => Record::Warning,
            Found::Line(Line::Shared(_), ..) => Record::Shared,
            Found::Older(older::Line::Call(_), ..) | Found::Line(..) => Record::Call(None),
        }
    }
}
