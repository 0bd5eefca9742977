//! JSONL records → rows. A `start` record opens a process; records of several processes may alternate.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use chrono::DateTime;
use hook_event::course::LARGEST;
use hook_event::json::{self, Record, RecordCall};
use hook_event::{Dim3, Kind, SCHEMA_VERSION};

use super::Part;
use crate::error::Error;
use crate::events::{Limit, Names, Process, Row};

/// Gathers the records of one input.
pub(super) struct Reader {
    source: u32,
    /// The processes so far.
    pub(super) parts: Vec<Part>,
    /// Which of them a process id may stand for: ids come again in later runs, and in other containers.
    open: HashMap<u32, Vec<usize>>,
}

impl Reader {
    pub(super) fn new(source: u32) -> Self {
        Reader { source, parts: Vec::new(), open: HashMap::new() }
    }

    /// Takes a line in. `Ok(false)`: it is no whole record.
    pub(super) fn record(&mut self, names: &mut Names, path: &Path, line: u64, text: &str) -> Result<bool, Error> {
        let Ok(record) = json::read(text) else { return Ok(false) };
        match record {
            Record::Start(start) => {
                if start.v > SCHEMA_VERSION {
                    let path = path.to_owned();
                    return Err(Error::NewerFormat { path, line, found: start.v, known: SCHEMA_VERSION });
                }
                let sound = |value: Option<f64>| value.is_none_or(|value| (0.0..=LARGEST).contains(&value));
                if !sound(start.rate) || !sound(start.capacity) {
                    return Ok(false);
                }
                let process = Process {
                    source: self.source,
                    first_line: line,
                    pid: Some(start.pid),
                    run: Some(start.run),
                    host: Some(start.host),
                    exe: Some(start.exe),
                    hook: Some(start.hook),
                    start_wall_ns: start.ts.as_deref().and_then(wall_ns),
                    start_mono_ns: start.mono_ns,
                    quota: start.quota_bytes.into(),
                    device_quotas: device_quotas(&start.dev_quota_bytes),
                    shared: start.shared,
                    job: start.job,
                    bucket: match start.rate.zip(start.capacity) {
                        // No hook of ours writes it; the rate is then not known.
                        Some((rate, _)) if rate <= 0.0 => Limit::Unknown,
                        bucket => bucket.into(),
                    },
                    policy: start.policy,
                    ..Process::default()
                };
                self.open.entry(start.pid).or_default().push(self.parts.len());
                self.parts.push(Part { process, records: 1, ..Part::default() });
            }
            Record::Call(call) => {
                let Some(row) = self.row(names, line, &call) else { return Ok(false) };
                let part = self.part(call.pid, Some(call.seq), line);
                part.records += 1;
                part.rows.push(row);
            }
            Record::End(end) => {
                let part = self.part(end.pid, None, line);
                part.records += 1;
                let process = &mut part.process;
                process.ended = true;
                process.end_mono_ns = end.mono_ns;
                process.lost = end.lost;
                process.uncounted = end.uncounted.map(|calls| calls.into_iter().collect());
                process.stated_calls =
                    Some(end.calls.values().map(|counts| counts.ok + counts.denied + counts.failed).sum());
            }
        }
        Ok(true)
    }

    /// The process of a record; one whose `start` is missing is opened here. Where several processes had this id, a
    /// call is of the one whose numbers it continues, else of the latest.
    fn part(&mut self, pid: u32, seq: Option<u64>, line: u64) -> &mut Part {
        let open = self.open.entry(pid).or_default();
        let continues = |&&index: &&usize| {
            let last = self.parts[index].rows.last().map_or(0, |row| row.seq.unwrap_or(0));
            seq.is_some_and(|seq| seq == last + 1)
        };
        // Usually there is one, and nothing to choose. One that has ended is meant only when no other is there.
        let running: Vec<usize> = open.iter().copied().filter(|&index| !self.parts[index].process.ended).collect();
        let candidates = if running.is_empty() { &*open } else { &running };
        let found = if candidates.len() > 1 { candidates.iter().rev().find(continues).copied() } else { None };
        let index = found.or(candidates.last().copied()).unwrap_or_else(|| {
            let process = Process { source: self.source, first_line: line, pid: Some(pid), ..Process::default() };
            self.parts.push(Part { process, ..Part::default() });
            open.push(self.parts.len() - 1);
            self.parts.len() - 1
        });
        &mut self.parts[index]
    }

    /// `None`: the record lacks what a call of its kind must have.
    fn row(&self, names: &mut Names, line: u64, call: &RecordCall) -> Option<Row> {
        let kind = match (call.grid, call.tokens, call.wait_ns) {
            (None, None, None) => Kind::of(&call.api),
            _ => Kind::Launch,
        };
        if call.tokens.is_some_and(|tokens| tokens.abs() > LARGEST) {
            return None;
        }
        if kind == Kind::Alloc && call.size.is_none() || kind == Kind::Free && call.ptr.is_none() {
            return None;
        }
        let dim = |[x, y, z]: [u32; 3]| Dim3 { x, y, z };
        Some(Row {
            seq: Some(call.seq),
            wall_ns: call.ts.as_deref().and_then(wall_ns),
            mono_ns: call.mono_ns,
            tid: call.tid.map(u64::from),
            sym: call.sym.as_deref().map(|sym| names.id(sym)),
            ret: call.ret,
            dev: call.dev,
            size: call.size,
            ptr: call.ptr,
            total: call.total,
            pending: call.pending,
            quota: call.quota,
            refusal: call.refusal(),
            grid: call.grid.map(dim),
            block: call.block.map(dim),
            graph: call.graph,
            shmem: call.shmem,
            stream: call.stream,
            kernel: call.kernel.as_deref().map(|kernel| names.id(kernel)),
            tokens: call.tokens,
            bypass: call.bypass,
            wait_ns: call.wait_ns,
            real_ns: call.real_ns,
            hook_ns: call.hook_ns,
            ..Row::bare(self.source, line, names.id(&call.api), kind, call.outcome)
        })
    }
}

/// By number; keys that are none are left out.
fn device_quotas(by_name: &BTreeMap<String, u64>) -> Vec<(i32, u64)> {
    by_name.iter().filter_map(|(device, &bytes)| Some((device.parse().ok()?, bytes))).collect()
}

/// RFC 3339 → ns since 1970; `None` for what is no time or lies beyond the years 1677 to 2262.
fn wall_ns(text: &str) -> Option<i64> {
    DateTime::parse_from_rfc3339(text).ok()?.timestamp_nanos_opt()
}
