//! What was read: one row a call in columns, the processes that the calls belong to, and an account of every line.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::PathBuf;

use hook_event::units::mb_tenths;
use hook_event::{Dim3, Kind, Outcome, Refusal};

use crate::classes::{Classes, Reject};
use crate::hash;
use crate::program::Told;
use crate::step::Step;

/// A name (API, symbol or kernel) in [`Names`].
pub type NameId = u32;

/// Calls after which a process's rate line is not waited for any longer: a rate line that comes later is another
/// process's.
pub const LATE_RATE: u64 = 4096;

/// Names, each stored once.
#[derive(Clone, Debug, Default)]
pub struct Names {
    texts: Vec<Box<str>>,
    /// Families of APIs of these names, and whether what they allocate outlives a reset.
    kinds: Vec<(Kind, bool)>,
    ids: HashMap<Box<[u8]>, NameId, hash::Build>,
}

/// An API by its name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Api {
    /// The name.
    pub(crate) id: NameId,
    /// Its family.
    pub(crate) kind: Kind,
    /// Whether what it allocates outlives a reset of its device.
    pub(crate) contextless: bool,
}

impl Names {
    /// The id of `text`, new or old.
    #[inline]
    pub fn id(&mut self, text: &str) -> NameId {
        self.id_of(text.as_bytes())
    }

    /// The same of a text's bytes.
    #[inline]
    pub(crate) fn id_of(&mut self, text: &[u8]) -> NameId {
        match self.ids.get(text) {
            Some(&id) => id,
            None => self.add(text),
        }
    }

    /// An API's name, and what it tells.
    #[inline]
    pub(crate) fn api(&mut self, text: &[u8]) -> Api {
        let id = self.id_of(text);
        let (kind, contextless) = self.kinds[id as usize];
        Api { id, kind, contextless }
    }

    fn add(&mut self, bytes: &[u8]) -> NameId {
        let id = self.texts.len() as NameId;
        let text = String::from_utf8_lossy(bytes);
        self.kinds.push((Kind::of(&text), Kind::is_contextless(&text)));
        self.texts.push(text.into());
        self.ids.insert(bytes.into(), id);
        id
    }

    /// The text of an id that this table gave out; empty for another.
    pub fn text(&self, id: NameId) -> &str {
        self.texts.get(id as usize).map_or("", |text| text)
    }

    /// How many there are: ids are below it, in the order in which they were given out.
    pub(crate) fn len(&self) -> usize {
        self.texts.len()
    }
}

macro_rules! columns {
    ($($(#[$doc:meta])* $field:ident: $type:ty,)*) => {
        /// One call, as a row. What the log does not say is `None`.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct Row { $($(#[$doc])* pub $field: $type,)* }

        /// All calls, a vector a field, grouped by process and within it in order.
        #[derive(Clone, Debug, Default)]
        pub struct Columns { $($(#[$doc])* pub $field: Vec<$type>,)* }

        impl Columns {
            /// Appends a row.
            pub fn push(&mut self, row: Row) {
                // Destructured whole: a new column does not compile until it is filled.
                let Row { $($field),* } = row;
                $(self.$field.push($field);)*
            }

            /// Row `i`.
            ///
            /// # Panics
            /// `i` is [`Self::len`] or more.
            pub fn row(&self, i: usize) -> Row {
                Row { $($field: self.$field[i]),* }
            }
        }
    };
}

columns! {
    /// Index in [`Events::processes`].
    process: u32,
    /// Index in [`Events::sources`] of the file that the call was read from.
    source: u32,
    /// Line in that file, from 1. For a call that was a line and a record, the line of the log.
    line: u64,
    /// Number in the process's order, from 1; records only.
    seq: Option<u64>,
    /// Wall clock, ns since 1970 UTC.
    wall_ns: Option<i64>,
    /// Monotonic clock, ns.
    mono_ns: Option<u64>,
    /// Thread: the kernel's id, or as the log names it.
    tid: Option<u64>,
    /// API, in [`Events::names`].
    api: NameId,
    /// Symbol called, in [`Events::names`].
    sym: Option<NameId>,
    /// Family.
    kind: Kind,
    /// Whether it takes memory that belongs to no context and outlives a reset of its device.
    contextless: bool,
    /// How it ended.
    outcome: Outcome,
    /// What the program got, a `cudaError_t`.
    ret: Option<i32>,
    /// Device ordinal.
    dev: Option<i32>,
    /// Bytes asked for, or given back by a free.
    size: Option<u64>,
    /// Device address.
    ptr: Option<u64>,
    /// Live bytes after the call, exact; records only.
    total: Option<u64>,
    /// Live MB after the call as the line prints them, one decimal.
    total_mb: Option<f64>,
    /// Bytes that calls under way had reserved.
    pending: Option<u64>,
    /// Quota that refused the call, bytes.
    quota: Option<u64>,
    /// Whose quota that was, and its account; records only.
    refusal: Option<Refusal>,
    /// Blocks.
    grid: Option<Dim3>,
    /// Threads of a block.
    block: Option<Dim3>,
    /// Handle of a graph that was launched.
    graph: Option<u64>,
    /// Dynamic shared memory, bytes.
    shmem: Option<u64>,
    /// Stream.
    stream: Option<u64>,
    /// Kernel, in [`Events::names`].
    kernel: Option<NameId>,
    /// Level after the decision: exact from records, one decimal from lines.
    tokens: Option<f64>,
    /// Whether the launch passed without a token; records only.
    bypass: bool,
    /// Waiting time, ns.
    wait_ns: Option<u64>,
    /// Time in the real call, ns.
    real_ns: Option<u64>,
    /// Time that the hook added, ns.
    hook_ns: Option<u64>,
}

impl Columns {
    /// Calls.
    pub fn len(&self) -> usize {
        self.process.len()
    }

    /// Tokens that call `i` took: one for a launch that was let through, unless it needed none.
    pub fn cost(&self, i: usize) -> f64 {
        let takes = self.kind[i] == Kind::Launch && self.outcome[i] != Outcome::Denied && !self.bypass[i];
        if takes { 1.0 } else { 0.0 }
    }

    /// Whether call `i` is known by its line alone.
    pub fn is_text(&self, i: usize) -> bool {
        self.seq[i].is_none()
    }

    /// Whether there is no call.
    pub fn is_empty(&self) -> bool {
        self.process.is_empty()
    }
}

impl Row {
    /// A row of which only this much is known.
    #[inline(always)]
    pub(crate) fn bare(source: u32, line: u64, api: NameId, kind: Kind, outcome: Outcome) -> Row {
        Row {
            process: 0,
            source,
            line,
            seq: None,
            wall_ns: None,
            mono_ns: None,
            tid: None,
            api,
            sym: None,
            kind,
            contextless: false,
            outcome,
            ret: None,
            dev: None,
            size: None,
            ptr: None,
            total: None,
            total_mb: None,
            pending: None,
            quota: None,
            refusal: None,
            grid: None,
            block: None,
            graph: None,
            shmem: None,
            stream: None,
            kernel: None,
            tokens: None,
            bypass: false,
            wait_ns: None,
            real_ns: None,
            hook_ns: None,
        }
    }
}

/// A limit as far as the log tells: unknown, known to be off, or a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Limit<T> {
    /// The log does not say.
    #[default]
    Unknown,
    /// Off: calls are only recorded.
    Off,
    /// On.
    At(T),
}

impl<T: Copy> Limit<T> {
    /// The value, if it is known and on.
    pub fn value(self) -> Option<T> {
        match self {
            Limit::At(value) => Some(value),
            Limit::Off | Limit::Unknown => None,
        }
    }
}

impl<T> From<Option<T>> for Limit<T> {
    fn from(known: Option<T>) -> Self {
        known.map_or(Limit::Off, Limit::At)
    }
}

/// One run of one process.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// Its calls, as rows of [`Events::calls`].
    pub rows: Range<usize>,
    /// Index in [`Events::sources`].
    pub source: u32,
    /// Line of its banner or `start` record, or of its first call.
    pub first_line: u64,
    /// Process id.
    pub pid: Option<u32>,
    /// Id of the job.
    pub run: Option<String>,
    /// Host name.
    pub host: Option<String>,
    /// Program.
    pub exe: Option<String>,
    /// Version of the hook.
    pub hook: Option<String>,
    /// When its accounts were opened, ns since 1970.
    pub start_wall_ns: Option<i64>,
    /// The same, monotonic.
    pub start_mono_ns: Option<u64>,
    /// Device-memory quota, bytes.
    pub quota: Limit<u64>,
    /// The same on single devices.
    pub device_quotas: Vec<(i32, u64)>,
    /// The name under which it shares quota and bucket with other processes.
    pub shared: Option<String>,
    /// Id of the job that shares them; records only.
    pub job: Option<u64>,
    /// Rate (tokens/s) and capacity (tokens).
    pub bucket: Limit<(f64, f64)>,
    /// `deny` or `wait`.
    pub policy: Option<String>,
    /// Records that the hook says it could not write.
    pub lost: Option<u64>,
    /// Whether its `end` record was seen.
    pub ended: bool,
    /// When that was, monotonic.
    pub end_mono_ns: Option<u64>,
    /// Calls that its `end` record counts.
    pub stated_calls: Option<u64>,
    /// Calls past the hook that its `end` record tells of, by symbol of the driver; `None` where it says nothing.
    pub uncounted: Option<Vec<(String, u64)>>,
    /// Calls whose outcome the log does not tell, by API; they are no rows.
    pub untold: BTreeMap<Box<str>, u64>,
    /// Whether the log does not tell what memory was granted.
    pub memory_untold: bool,
}

impl Process {
    /// One more call of unknown outcome.
    pub(crate) fn count_untold(&mut self, api: &str) {
        *self.untold.entry(api.into()).or_default() += 1;
    }

    /// Whether the figures of a refused allocation's line are those of another account: the job's, or a device's, whose
    /// quota differs from the process's. (Where a device's quota is the process's, the process's own refuses first.)
    /// Of one that shares its quota a line does not tell whose it was.
    pub fn refusal_is_anothers(&self, step: &Step, shares: bool) -> bool {
        let own = |printed: u64| self.quota.value().is_some_and(|own| mb_tenths(own).abs_diff(mb_tenths(printed)) <= 1);
        let refused = step.kind == Kind::Alloc && step.outcome == Outcome::Denied;
        refused && (shares || step.quota.is_some_and(|printed| !own(printed)))
    }

    /// The quota on one device, where it has one of its own.
    pub(crate) fn device_quota(&self, device: i32) -> Option<u64> {
        self.device_quotas.iter().find(|(of, _)| *of == device).map(|(_, quota)| *quota)
    }
}

/// An input and the account of its lines: `lines = event_lines + other_lines + bad_lines + oversized_lines + cut_lines`.
/// A line of course records may hold several; in an event file `event_lines = events + left_out`.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// Where it came from; `-` is standard input.
    pub path: PathBuf,
    /// Lines.
    pub lines: u64,
    /// All of them by class; the counts below are sums of these.
    pub classes: Classes,
    /// The first line that was not understood and is no cut-off end.
    pub first_fault: Option<Reject>,
    /// All that were not understood, where they were asked for.
    pub rejects: Vec<Reject>,
    /// Lines that hold records of the hook, and nothing damaged.
    pub event_lines: u64,
    /// Records on them: banner lines, calls, warnings, `start` and `end` records.
    pub events: u64,
    /// Records of an event file that belong to other runs than the log's, and were not taken in.
    pub left_out: u64,
    /// Lines of other programs, blank ones included.
    pub other_lines: u64,
    /// Lines that begin like a record and are none: torn, damaged, or of a form that is not known.
    pub bad_lines: u64,
    /// Lines longer than [`LIMIT`](crate::input::pieces::LIMIT), which were not looked into.
    pub oversized_lines: u64,
    /// The last line, where the input ends in the middle of a record.
    pub cut_lines: u64,
    /// The first few bad lines: number and text.
    pub bad_examples: Vec<(u64, String)>,
    /// The first few lines of other programs that are not blank.
    pub other_examples: Vec<(u64, String)>,
    /// Whether any `[HOOK]` line was an event.
    pub has_course_lines: bool,
    /// The first warnings of the hook, as it wrote them.
    pub warnings: Vec<String>,
    /// All warnings.
    pub warning_count: u64,
    /// What the lab's test program told, each with its line, where that was asked for.
    pub told: Vec<(u64, Told)>,
    /// Whether it was packed, and could not be unpacked to its end.
    pub damaged: bool,
}

/// Everything that was read.
#[derive(Clone, Debug, Default)]
pub struct Events {
    /// The calls.
    pub calls: Columns,
    /// The processes, in the order in which they appear.
    pub processes: Vec<Process>,
    /// The inputs.
    pub sources: Vec<Source>,
    /// Names of APIs, symbols and kernels.
    pub names: Names,
    /// What a reader of the figures should know: an event file left out, say.
    pub notes: Vec<Note>,
    /// How far lines and records are of the same calls.
    pub agreement: Agreement,
}

/// How far lines and records are of the same calls.
#[derive(Clone, Debug, Default)]
pub struct Agreement {
    /// Calls that are here as both.
    pub both: u64,
    /// Last lines of processes whose records were cut off.
    pub lines_only: u64,
    /// The first difference between lines and records of which most are the same.
    pub misfit: Option<Misfit>,
}

/// A difference between lines and records.
#[derive(Clone, Debug)]
pub struct Misfit {
    /// Line of the log.
    pub line: u64,
    /// What differs.
    pub why: Note,
    /// The number that differs, as the record and as the line tell it: bytes, or tokens.
    pub numbers: Option<(f64, f64)>,
    /// Whether a fault may be told: a call that both tell and tell differently, and both were given as one input. An event
    /// file that just lies there may be another run's of the same program, and of a log a part may be missing.
    pub sure: bool,
}

/// A remark, in both languages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// English; the one that `--json` prints.
    pub en: String,
    /// Chinese.
    pub zh: String,
}

impl Note {
    pub(crate) fn new(en: impl Into<String>, zh: impl Into<String>) -> Note {
        Note { en: en.into(), zh: zh.into() }
    }
}

impl serde::Serialize for Note {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.en)
    }
}
