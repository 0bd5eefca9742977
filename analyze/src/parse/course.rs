//! Course lines → rows. A quota line opens a process: a hook prints it once, when it is loaded.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use hook_event::course::Line;
use hook_event::{Kind, Outcome};

use super::Part;
use crate::events::{Limit, Names, Process, Row};

static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// A line's text as a number, to find equal lines by.
pub(super) fn text_hash(line: &str) -> u64 {
    HASHER.hash_one(line)
}

/// Gathers the course lines of one input.
pub(super) struct Reader {
    source: u32,
    /// The processes so far; each row with the hash of its line's text.
    pub(super) parts: Vec<(Part, Vec<u64>)>,
    /// The first of them whose rate line may still come; behind it every one waits for its own.
    without_rate: usize,
}

impl Reader {
    pub(super) fn new(source: u32) -> Self {
        Reader { source, parts: Vec::new(), without_rate: 0 }
    }

    /// Takes a record in; `text` is its line from `[HOOK]` on.
    pub(super) fn record(&mut self, names: &mut Names, line: u64, record: &Line<'_>, text: &str) {
        match *record {
            Line::Quota(quota) => {
                // A rate line that came first belongs to the same banner.
                let open = self
                    .parts
                    .last()
                    .is_some_and(|(part, _)| part.rows.is_empty() && part.process.quota == Limit::Unknown);
                if !open {
                    self.begin(line);
                }
                self.process(line).quota = quota.into();
            }
            Line::Rate(bucket) => {
                // A naive hook prints `0 tokens/s` for 0.4: the rate is then not known.
                let bucket = match bucket {
                    Some((rate, _)) if rate <= 0.0 => None,
                    other => Some(Limit::from(other)),
                };
                // Processes that start at once may print their quota lines first and then their rate lines.
                let last = self.parts.len().saturating_sub(1);
                while self.without_rate < last && !self.parts[self.without_rate].0.rows.is_empty() {
                    self.without_rate += 1;
                }
                if self.without_rate >= self.parts.len() {
                    self.begin(line);
                }
                self.parts[self.without_rate].0.process.bucket = bucket.unwrap_or_default();
                self.without_rate += 1;
            }
            Line::Shared(name) => {
                // Of the first process without calls that has none: several that start at once print theirs mixed.
                let waits = |(part, _): &&mut (Part, Vec<u64>)| part.rows.is_empty() && part.process.shared.is_none();
                match self.parts.iter_mut().find(waits) {
                    Some((part, _)) => part.process.shared = Some(name.to_owned()),
                    None => self.process(line).shared = Some(name.to_owned()),
                }
            }
            Line::Warning(_) => {}
            _ => {
                let Some(row) = self.row(names, line, record) else { return };
                self.process(line);
                if let Some((part, texts)) = self.parts.last_mut() {
                    part.rows.push(row);
                    texts.push(text_hash(text));
                }
            }
        }
    }

    fn begin(&mut self, line: u64) {
        let process = Process { source: self.source, first_line: line, ..Process::default() };
        self.parts.push((Part { process, ..Part::default() }, Vec::new()));
    }

    /// The process that lines belong to now.
    fn process(&mut self, line: u64) -> &mut Process {
        if self.parts.is_empty() {
            self.begin(line);
        }
        let last = self.parts.len() - 1;
        &mut self.parts[last].0.process
    }

    fn row(&self, names: &mut Names, line: u64, record: &Line<'_>) -> Option<Row> {
        let row = match *record {
            Line::Alloc { api, size, ptr, outcome, ret, total_mb, quota_mb } => Row {
                size: Some(size),
                ptr,
                ret,
                total_mb: Some(total_mb),
                quota: quota_mb.map(|mb| (mb * hook_event::units::MB as f64) as u64),
                ..Row::bare(self.source, line, names.id(api), host_or(Kind::Alloc, api), outcome)
            },
            Line::Free { api, ptr, ret, freed, total_mb } => {
                let outcome = if ret.unwrap_or(0) == 0 { Outcome::Ok } else { Outcome::Failed };
                Row {
                    // `freed: 0 bytes` is how the hook says that it did not know the address.
                    size: freed.filter(|&bytes| bytes > 0),
                    ptr: Some(ptr),
                    ret,
                    total_mb,
                    ..Row::bare(self.source, line, names.id(api), host_or(Kind::Free, api), outcome)
                }
            }
            Line::Reset { api, ret, freed, total_mb } => {
                let outcome = if ret == 0 { Outcome::Ok } else { Outcome::Failed };
                Row {
                    size: Some(freed),
                    ret: Some(ret),
                    total_mb: Some(total_mb),
                    ..Row::bare(self.source, line, names.id(api), Kind::Reset, outcome)
                }
            }
            Line::Launch { api, grid, block, outcome, ret, tokens, waited_ms } => Row {
                grid: Some(grid),
                block: Some(block),
                ret,
                tokens: Some(tokens),
                wait_ns: waited_ms.map(|ms| (ms * 1e6) as u64),
                ..Row::bare(self.source, line, names.id(api), Kind::Launch, outcome)
            },
            Line::Graph { api, graph, outcome, ret, tokens, waited_ms } => Row {
                graph: Some(graph),
                ret,
                tokens: Some(tokens),
                wait_ns: waited_ms.map(|ms| (ms * 1e6) as u64),
                ..Row::bare(self.source, line, names.id(api), Kind::Launch, outcome)
            },
            Line::Quota(_) | Line::Rate(_) | Line::Shared(_) | Line::Warning(_) => return None,
        };
        Some(row)
    }
}

/// Host memory has the lines of device memory; only the API's name tells.
fn host_or(kind: Kind, api: &str) -> Kind {
    if Kind::of(api) == Kind::Host { Kind::Host } else { kind }
}
