//! What can go wrong, with the place where it went wrong.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::plural::plural;
use crate::render::text::printable;

/// An error of this library. Unreadable lines are no errors: they are counted, see [`crate::events::Source`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read.
    #[error("cannot read {}", Shown(.path))]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The log that is read when none is named is not there.
    #[error("there is no `hook.log` in this folder; name the log, or make one: `make test-sim 2> hook.log`")]
    NoDefaultLog,
    /// Other buckets were asked about, and the log does not tell when launches asked.
    #[error(
        "no launch with a token level and a known moment is in the log, which `--what-if` and `--size-for` replay; take \
         the event file (JSONL) of a run under a rate"
    )]
    NoArrivals,
    /// Two outputs would go to one file.
    #[error("two outputs are named {}; name another file for one of them", Shown(.0))]
    OutputTwice(PathBuf),
    /// A file could not be written.
    #[error("cannot write {}", Shown(.path))]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// An input is of a kind that can't be read as a log.
    #[error("{} is {what}; {advice}", Shown(.path))]
    NotALog {
        /// Which.
        path: PathBuf,
        /// What it is.
        what: &'static str,
        /// What to do.
        advice: &'static str,
    },
    /// A record was written by a newer hook, whose fields this version would misread.
    #[error("{} line {line}: event format version {found}, this program knows {known}; use a newer hook-analyze", Shown(.path))]
    NewerFormat {
        /// In which file.
        path: PathBuf,
        /// On which line, from 1.
        line: u64,
        /// Version in the file.
        found: u32,
        /// Version of this program.
        known: u32,
    },
    /// The event file that was named does not belong to the log.
    #[error("the calls in {} are not those of {}: {why}; leave `--events` away to analyse the log alone", Shown(.events), Shown(.log))]
    EventsDoNotMatch {
        /// The event file.
        events: PathBuf,
        /// The log.
        log: PathBuf,
        /// The first difference.
        why: String,
    },
    /// A pipe holds lines and records far apart, and can't be read a second time.
    #[error("{} holds `[HOOK]` lines and JSONL records, which may be the same calls; save it to a file and analyse that, or name the log and its event file", Shown(.0))]
    PipeOfBothKinds(PathBuf),
    /// Lines and records are too many to find out which are the same calls.
    #[error(
        "more than {most} calls as `[HOOK]` lines and JSONL records, too many to find which are the same; name the log or the event file alone, or ask for a file that keeps all calls (`--parquet`)"
    )]
    TooManyOfBothKinds {
        /// How many may be.
        most: u64,
    },
    /// A process id was asked for that the logs don't have.
    #[error("no process of the log has the id {pid}; {}", Ids(.there))]
    NoSuchProcess {
        /// Which.
        pid: u32,
        /// Those that there are.
        there: Vec<u32>,
    },
    /// Times were asked for in a log without any.
    #[error("the log tells no {}; leave `--from` and `--to` away{}", if *.wall { "wall-clock time" } else { "time" }, if *.wall { ", or give seconds since the first call" } else { "" })]
    NoTimes {
        /// Whether the time of day is meant.
        wall: bool,
    },
    /// A line was asked about that the log doesn't have.
    #[error("{} has {}, there is no line {line}", Shown(.path), plural(*.lines, "line"))]
    NoSuchLine {
        /// In which file.
        path: PathBuf,
        /// Which, from 1.
        line: u64,
        /// How many there are.
        lines: u64,
    },
    /// A line was asked about, and not in which of the files that were read.
    #[error("{}; write `--explain FILE:LINE` with one of {}", .named.as_ref().map_or("several logs were read".to_owned(), |named| format!("no file that was read is called `{}`", printable(named))), Paths(.there))]
    WhichFile {
        /// The name that was given.
        named: Option<String>,
        /// Those that were read.
        there: Vec<PathBuf>,
    },
    /// A line was not understood, and that was to be an error.
    #[error("{} line {line} ({class}): {text}\nwithout `--strict` such lines are counted and left out, `--rejects FILE` writes all of them", Shown(.path))]
    NotUnderstood {
        /// In which file.
        path: PathBuf,
        /// On which line, from 1.
        line: u64,
        /// What it is.
        class: &'static str,
        /// Its text.
        text: String,
    },
    /// A limit is on a figure that a log does not tell.
    #[error(
        "`--fail-on {limit}`: {why}; leave it away, or compare logs that have it (an event file tells more than lines)"
    )]
    CannotLimit {
        /// The limit.
        limit: String,
        /// What is missing.
        why: String,
    },
    /// A folder of submissions holds none.
    #[error("there is nothing in {} to look at; name the folder that holds the submissions", Shown(.0))]
    NoSubmission(PathBuf),
    /// Limits without a comparison.
    #[error("`--fail-on` limits a comparison; name the two logs: `--diff A B`")]
    NothingToLimit,
    /// Another number of logs than two was to be compared, or one pipe with itself.
    #[error("`--diff` compares two logs, of which one may be `-`; name both")]
    ComparesTwo,
    /// Several logs were to be followed.
    #[error("`--follow` follows one log; name one")]
    FollowsOne,
    /// Signals can't be caught.
    #[error("cannot catch the interrupt that ends `--follow`")]
    Signals(#[source] std::io::Error),
    /// A chart or a report could not be made.
    #[error("cannot make {what}: {why}")]
    Render {
        /// Which output.
        what: &'static str,
        /// Why.
        why: String,
    },
    /// A template of one's own can't be used.
    #[error("{} line {line}: {what}, in `{}`; {advice}", Shown(.path), printable(.text))]
    Template {
        /// Which.
        path: PathBuf,
        /// On which line, from 1.
        line: usize,
        /// What is wrong.
        what: String,
        /// That line.
        text: String,
        /// What would do.
        advice: &'static str,
    },
    /// A frame could not be built or written.
    #[error("cannot make the dataframe")]
    Frame(#[from] polars::error::PolarsError),
    /// An output has an ending that names no format.
    #[error("{}: {advice}", Shown(.path))]
    Ending {
        /// The file asked for.
        path: PathBuf,
        /// What would do.
        advice: &'static str,
    },
    /// An output is one of the inputs.
    #[error("{} is also an input; writing it would destroy the log, name another file", Shown(.0))]
    OutputIsInput(PathBuf),
}

/// The ids that there are.
struct Ids<'a>(&'a [u32]);

impl fmt::Display for Ids<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 20;
        if self.0.is_empty() {
            return f.write_str("course lines carry none, only event files do");
        }
        let ids: Vec<String> = self.0.iter().take(SHOWN).map(u32::to_string).collect();
        let more = if self.0.len() > SHOWN { ", …" } else { "" };
        write!(f, "there are {}{more}", ids.join(", "))
    }
}

/// The files that there are.
struct Paths<'a>(&'a [PathBuf]);

impl fmt::Display for Paths<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 10;
        let names: Vec<String> = self.0.iter().take(SHOWN).map(|path| Shown(path).to_string()).collect();
        let more = if self.0.len() > SHOWN { ", …" } else { "" };
        write!(f, "{}{more}", names.join(", "))
    }
}

/// A path as a person reads it: `-` is standard input, and a name can't move a terminal's cursor or begin a line.
pub(crate) struct Shown<'a>(pub(crate) &'a Path);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == Path::new("-") {
            return f.write_str("standard input");
        }
        write!(f, "`{}`", printable(&self.0.to_string_lossy()))
    }
}
