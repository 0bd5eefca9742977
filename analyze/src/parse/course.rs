//! Course lines → rows, and whose they are. A quota line opens a process: a hook prints it once, when it is loaded.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use hook_event::course::Line;
use hook_event::{Kind, Outcome};

use super::Part;
use super::kept::Calls;
use crate::events::{Api, LATE_RATE, Limit, Process, Row};

static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// A line's text as a number, to find equal lines by.
pub(super) fn text_hash(line: &str) -> u64 {
    HASHER.hash_one(line)
}

/// Gathers the course lines of one input.
#[derive(Clone)]
pub(super) struct Reader<C> {
    source: u32,
    /// The processes so far; each row with the hash of its line's text, where those are wanted.
    pub(super) parts: Vec<(Part<C>, Vec<u64>)>,
    /// The first of them whose rate line may still come; behind it every one waits for its own.
    without_rate: usize,
    /// The first of them without calls whose shared line may still come.
    without_shared: usize,
}

impl<C: Calls> Reader<C> {
    pub(super) fn new(source: u32) -> Self {
        Reader { source, parts: Vec::new(), without_rate: 0, without_shared: 0 }
    }

    /// Takes the first banner line in.
    pub(super) fn quota(&mut self, line: u64, quota: Option<u64>) {
        // A rate line that came first belongs to the same banner.
        let open =
            self.parts.last().is_some_and(|(part, _)| part.rows.count() == 0 && part.process.quota == Limit::Unknown);
        if !open {
            self.begin(line);
        }
        self.part(line).0.process.quota = quota.into();
    }

    /// Takes the second banner line in.
    pub(super) fn rate(&mut self, line: u64, bucket: Option<(f64, f64)>) {
        // A naive hook prints `0 tokens/s` for 0.4: the rate is then not known.
        let bucket = match bucket {
            Some((rate, _)) if rate <= 0.0 => None,
            other => Some(Limit::from(other)),
        };
        // Processes that start at once may print their quota lines first and then their rate lines, and one of them
        // may be at work before another's rate line; but not for long.
        let last = self.parts.len().saturating_sub(1);
        let busy = |index: usize, calls: u64| self.parts[index].0.rows.count() > calls;
        while self.without_rate < last && busy(self.without_rate, 0) {
            self.without_rate += 1;
        }
        if self.without_rate >= self.parts.len() || busy(self.without_rate, LATE_RATE) {
            self.begin(line);
            self.without_rate = self.parts.len() - 1;
        }
        self.parts[self.without_rate].0.process.bucket = bucket.unwrap_or_default();
        self.without_rate += 1;
    }

    /// Takes the line of shared limits in: of the first process without calls that has none, for several that start at
    /// once print theirs mixed; else of the one at work.
    pub(super) fn shared(&mut self, line: u64, name: &str) {
        let waits = |(part, _): &(Part<C>, Vec<u64>)| part.rows.count() == 0 && part.process.shared.is_none();
        // What does not wait never will again.
        while self.parts.get(self.without_shared).is_some_and(|part| !waits(part)) {
            self.without_shared += 1;
        }
        let (part, _) = match self.parts.get_mut(self.without_shared) {
            Some(part) => part,
            None => self.part(line),
        };
        part.process.shared = Some(name.to_owned());
    }

    /// The process that calls belong to now, and the hashes of its lines.
    #[inline]
    pub(super) fn part(&mut self, line: u64) -> &mut (Part<C>, Vec<u64>) {
        if self.parts.is_empty() {
            self.begin(line);
        }
        let last = self.parts.len() - 1;
        &mut self.parts[last]
    }

    fn begin(&mut self, line: u64) {
        // Calls are the last one's.
        if let Some((part, _)) = self.parts.last_mut() {
            part.rows.rest();
        }
        let process = Process { source: self.source, first_line: line, ..Process::default() };
        self.parts.push((Part::new(process, self.parts.len() as u32), Vec::new()));
    }
}

/// The row of a call, whose API's name this is; `None` for a banner's line or a warning.
#[inline(always)] // so that a row of which only a part is kept is never put together
pub(super) fn row(api: Api, line: u64, record: &Line<'_>, wall_ns: Option<i64>) -> Option<Row> {
    let bare = |kind, outcome| Row { wall_ns, ..Row::bare(0, line, api.id, kind, outcome) };
    let row = match *record {
        Line::Alloc { api: _, size, ptr, outcome, ret, total_mb, quota_mb } => Row {
            size: Some(size),
            ptr,
            ret,
            total_mb: Some(total_mb),
            quota: quota_mb.map(|mb| (mb * hook_event::units::MB as f64) as u64),
            contextless: api.contextless,
            ..bare(host_or(Kind::Alloc, api.kind), outcome)
        },
        Line::Free { api: _, ptr, ret, freed, total_mb } => {
            let outcome = if ret.unwrap_or(0) == 0 { Outcome::Ok } else { Outcome::Failed };
            Row {
                // `freed: 0 bytes` is how the hook says that it did not know the address.
                size: freed.filter(|&bytes| bytes > 0),
                ptr: Some(ptr),
                ret,
                total_mb,
                ..bare(host_or(Kind::Free, api.kind), outcome)
            }
        }
        Line::Reset { api: _, ret, freed, total_mb } => {
            let outcome = if ret == 0 { Outcome::Ok } else { Outcome::Failed };
            Row { size: Some(freed), ret: Some(ret), total_mb: Some(total_mb), ..bare(Kind::Reset, outcome) }
        }
        Line::Launch { api: _, grid, block, outcome, ret, tokens, waited_ms } => Row {
            grid: Some(grid),
            block: Some(block),
            ret,
            tokens: Some(tokens),
            wait_ns: waited_ms.map(|ms| (ms * 1e6) as u64),
            ..bare(Kind::Launch, outcome)
        },
        Line::Graph { api: _, graph, outcome, ret, tokens, waited_ms } => Row {
            graph: Some(graph),
            ret,
            tokens: Some(tokens),
            wait_ns: waited_ms.map(|ms| (ms * 1e6) as u64),
            ..bare(Kind::Launch, outcome)
        },
        Line::Quota(_) | Line::Rate(_) | Line::Shared(_) | Line::Warning(_) => return None,
    };
    Some(row)
}

/// The API's name on a call's line.
pub(super) fn api<'a>(record: &Line<'a>) -> Option<&'a str> {
    match *record {
        Line::Alloc { api, .. }
        | Line::Free { api, .. }
        | Line::Reset { api, .. }
        | Line::Launch { api, .. }
        | Line::Graph { api, .. } => Some(api),
        Line::Quota(_) | Line::Rate(_) | Line::Shared(_) | Line::Warning(_) => None,
    }
}

/// Host memory has the lines of device memory; only the API's name tells.
#[inline(always)]
fn host_or(kind: Kind, of_name: Kind) -> Kind {
    if of_name == Kind::Host { Kind::Host } else { kind }
}
