//! Lines of other limiters than this project's and the course's present one. Each is read by itself ([`read`]), whatever
//! stands around it; what several lines say together is put together in their order ([`Reader`]).
//!
//! No number is made up: what a dialect does not say stays `None`.

mod bucket;
mod hami;
mod malloc;
pub(super) mod older;

use std::sync::LazyLock;

use hook_event::{Kind, Outcome};
use regex::Regex;

use crate::events::{NameId, Process, Row};

/// What lines of other dialects begin with, as far as they have a tag.
pub(super) const TAGS: [&str; 2] = [hami::TAG, malloc::REFUSAL];

/// What a line of another dialect says.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Said {
    /// HAMi-core.
    Hami(hami::Line),
    /// The course's malloc demonstration.
    Malloc(malloc::Line),
    /// The course's token-bucket demonstration.
    Bucket(bucket::Line),
}

/// What container runtimes, schedulers and launchers put before each line: `name  | `, `[pod/name] `,
/// `[1,0]<stdout>:`, a time, one behind the other.
static PREFIX: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?x)^(?: [^\s|\[]+\x20*\|\x20 | \[[^\]\s]+\](?:<[a-z]+>:|\x20) | [0-9]{4}-[0-9]{2}-[0-9]{2}T[^\s|]+\x20 )+",
    )
});

/// Where the line begins in a text that is no course line: behind the prefixes, or at HAMi-core's tag.
pub(super) fn begin(text: &str) -> usize {
    text.find(hami::TAG).or_else(|| Some(PREFIX.find(text)?.end())).unwrap_or(0)
}

/// A line → what it says. `Err`: it begins like a line of a dialect and was torn. `Ok(None)`: it is none of them.
pub(super) fn read(line: &str) -> Result<Option<Said>, Torn> {
    if line.contains(hami::TAG) {
        return hami::read(line).map(Said::Hami).map(Some).ok_or(Torn);
    }
    if let Some(line) = malloc::read(line) {
        return Ok(Some(Said::Malloc(line)));
    }
    if line.contains(malloc::REFUSAL) {
        return Err(Torn);
    }
    Ok(bucket::read(line).map(Said::Bucket))
}

/// A line that lacks a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Torn;

impl Said {
    /// Whether the line tells of a call, and not only of settings or of what goes on.
    pub(super) fn is_call(&self) -> bool {
        match self {
            Said::Hami(line) => line.is_call(),
            Said::Malloc(line) => line.is_call(),
            Said::Bucket(line) => line.is_call(),
        }
    }
}

/// Where a line stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct At {
    /// Its input.
    pub(super) source: u32,
    /// Its number.
    pub(super) line: u64,
    /// The time that stands before it, ns since 1970.
    pub(super) wall_ns: Option<i64>,
}

impl At {
    /// A process that begins here.
    fn process(self) -> Process {
        Process { source: self.source, first_line: self.line, ..Process::default() }
    }

    /// A call of which only this much is known.
    fn row(self, api: NameId, kind: Kind, outcome: Outcome) -> Row {
        Row { wall_ns: self.wall_ns, ..Row::bare(self.source, self.line, api, kind, outcome) }
    }
}

/// Where processes and calls go.
pub(super) trait Ledger {
    /// The id of a name.
    fn name(&mut self, text: &str) -> NameId;

    /// Begins a process; its number.
    fn open(&mut self, process: Process) -> usize;

    /// The process of this number.
    fn process(&mut self, number: usize) -> &mut Process;

    /// A call of the process of this number.
    fn call(&mut self, process: usize, row: Row);
}

/// What the lines of an input say together.
#[derive(Clone, Debug, Default)]
pub(super) struct Reader {
    hami: hami::Reader,
    malloc: malloc::Reader,
    bucket: bucket::Reader,
}

impl Reader {
    /// Takes a line in.
    pub(super) fn take(&mut self, ledger: &mut dyn Ledger, at: At, said: Said) {
        match said {
            Said::Hami(said) => self.hami.take(ledger, at, said),
            Said::Malloc(said) => self.malloc.take(ledger, at, said),
            Said::Bucket(said) => self.bucket.take(ledger, at, said),
        }
    }

    /// The input has ended: what waited for another line is as complete as it will be.
    pub(super) fn finish(&mut self, ledger: &mut dyn Ledger) {
        self.hami.finish(ledger);
        self.malloc.finish(ledger);
    }
}

/// A pattern of these modules. They are constants, and the tests compile every one of them.
#[allow(clippy::unwrap_used)]
fn pattern(text: &str) -> Regex {
    Regex::new(text).unwrap()
}

/// `0x…` or `(nil)`.
fn address(text: &str) -> Option<u64> {
    if text == "(nil)" { Some(0) } else { u64::from_str_radix(text.get(2..)?, 16).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Names;

    /// Processes and calls as they were entered.
    #[derive(Default)]
    pub(super) struct Book {
        pub(super) names: Names,
        pub(super) processes: Vec<Process>,
        pub(super) calls: Vec<(usize, Row)>,
    }

    impl Ledger for Book {
        fn name(&mut self, text: &str) -> NameId {
            self.names.id(text)
        }

        fn open(&mut self, process: Process) -> usize {
            self.processes.push(process);
            self.processes.len() - 1
        }

        fn process(&mut self, number: usize) -> &mut Process {
            &mut self.processes[number]
        }

        fn call(&mut self, process: usize, row: Row) {
            self.calls.push((process, row));
        }
    }

    /// Everything that a text says; and the lines that are none of a dialect, or torn.
    pub(super) fn book(text: &str) -> (Book, Vec<&str>, Vec<&str>) {
        let (mut book, mut reader) = (Book::default(), Reader::default());
        let (mut other, mut torn) = (Vec::new(), Vec::new());
        for (line, number) in text.lines().zip(1..) {
            match read(line) {
                Ok(Some(said)) => reader.take(&mut book, At { source: 0, line: number, wall_ns: None }, said),
                Ok(None) => other.push(line),
                Err(Torn) => torn.push(line),
            }
        }
        reader.finish(&mut book);
        (book, other, torn)
    }
}
