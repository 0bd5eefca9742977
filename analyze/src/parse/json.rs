//! JSONL records → rows, and whose they are. A `start` record opens a process; records of several may alternate.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use chrono::DateTime;
use hook_event::course::LARGEST;
use hook_event::json::{Record, RecordCall, RecordEnd, RecordStart};
use hook_event::{Dim3, Kind, Outcome, Refusal, SCHEMA_VERSION};

use super::Part;
use super::kept::Calls;
use crate::error::Error;
use crate::events::{Api, Limit, Names, Process, Row};

/// A `call` record whose texts (as bytes) lie elsewhere; see [`Row`] for what the fields mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Call<'a> {
    pub(super) seq: u64,
    pub(super) wall_ns: Option<i64>,
    pub(super) mono_ns: Option<u64>,
    pub(super) pid: u32,
    pub(super) tid: Option<u64>,
    pub(super) api: &'a [u8],
    pub(super) sym: Option<&'a [u8]>,
    pub(super) dev: Option<i32>,
    pub(super) size: Option<u64>,
    pub(super) ptr: Option<u64>,
    pub(super) grid: Option<Dim3>,
    pub(super) block: Option<Dim3>,
    pub(super) graph: Option<u64>,
    pub(super) shmem: Option<u64>,
    pub(super) stream: Option<u64>,
    pub(super) kernel: Option<&'a [u8]>,
    pub(super) outcome: Outcome,
    pub(super) ret: Option<i32>,
    pub(super) total: Option<u64>,
    pub(super) pending: Option<u64>,
    pub(super) quota: Option<u64>,
    pub(super) refusal: Option<Refusal>,
    pub(super) tokens: Option<f64>,
    pub(super) bypass: bool,
    pub(super) wait_ns: Option<u64>,
    pub(super) real_ns: Option<u64>,
    pub(super) hook_ns: Option<u64>,
}

impl<'a> Call<'a> {
    /// What the obvious reader read.
    pub(super) fn of(call: &'a RecordCall) -> Self {
        let dim = |[x, y, z]: [u32; 3]| Dim3 { x, y, z };
        Call {
            seq: call.seq,
            wall_ns: call.ts.as_deref().and_then(wall_ns),
            mono_ns: call.mono_ns,
            pid: call.pid,
            tid: call.tid.map(u64::from),
            api: call.api.as_bytes(),
            sym: call.sym.as_deref().map(str::as_bytes),
            dev: call.dev,
            size: call.size,
            ptr: call.ptr,
            grid: call.grid.map(dim),
            block: call.block.map(dim),
            graph: call.graph,
            shmem: call.shmem,
            stream: call.stream,
            kernel: call.kernel.as_deref().map(str::as_bytes),
            outcome: call.outcome,
            ret: call.ret,
            total: call.total,
            pending: call.pending,
            quota: call.quota,
            refusal: call.refusal(),
            tokens: call.tokens,
            bypass: call.bypass,
            wait_ns: call.wait_ns,
            real_ns: call.real_ns,
            hook_ns: call.hook_ns,
        }
    }

    /// The family; `of_name` is that of the API's name.
    #[inline(always)]
    fn kind(&self, of_name: Kind) -> Kind {
        if self.grid.is_none() && self.tokens.is_none() && self.wait_ns.is_none() { of_name } else { Kind::Launch }
    }

    /// Whether it has what a call of its kind must have, and no level beyond reason.
    #[inline(always)]
    pub(super) fn is_sound(&self, of_name: Kind) -> bool {
        let kind = self.kind(of_name);
        self.tokens.is_none_or(|tokens| tokens.abs() <= LARGEST)
            && (kind != Kind::Alloc || self.size.is_some())
            && (kind != Kind::Free || self.ptr.is_some())
    }

    /// The row of a sound call whose API's name this is; `whole`: symbol and kernel are wanted as well.
    #[inline(always)] // so that a row of which only a part is kept is never put together
    pub(super) fn row(&self, api: Api, names: &mut Names, line: u64, whole: bool) -> Row {
        Row {
            seq: Some(self.seq),
            wall_ns: self.wall_ns,
            mono_ns: self.mono_ns,
            tid: self.tid,
            sym: self.sym.filter(|_| whole).map(|sym| names.id_of(sym)),
            ret: self.ret,
            dev: self.dev,
            size: self.size,
            ptr: self.ptr,
            total: self.total,
            pending: self.pending,
            quota: self.quota,
            refusal: self.refusal,
            grid: self.grid,
            block: self.block,
            graph: self.graph,
            shmem: self.shmem,
            stream: self.stream,
            kernel: self.kernel.filter(|_| whole).map(|kernel| names.id_of(kernel)),
            tokens: self.tokens,
            bypass: self.bypass,
            contextless: api.contextless,
            wait_ns: self.wait_ns,
            real_ns: self.real_ns,
            hook_ns: self.hook_ns,
            ..Row::bare(0, line, api.id, self.kind(api.kind), self.outcome)
        }
    }
}

/// Whether a record says what its kind must say, and nothing beyond reason.
pub(super) fn is_sound(record: &Record) -> bool {
    let level = |value: Option<f64>| value.is_none_or(|value| (0.0..=LARGEST).contains(&value));
    match record {
        // A newer version is an error of its own.
        Record::Start(start) => start.v > SCHEMA_VERSION || level(start.rate) && level(start.capacity),
        Record::Call(call) => Call::of(call).is_sound(Kind::of(&call.api)),
        Record::End(_) => true,
    }
}

/// Numbers of processes by records begin here, behind those of processes by lines.
const RECORDS: u32 = 1 << 31;

/// Gathers the records of one input.
#[derive(Clone)]
pub(super) struct Reader<C> {
    source: u32,
    /// The processes so far.
    pub(super) parts: Vec<Part<C>>,
    /// Which of them a process id may stand for: ids come again in later runs, and in other containers.
    open: HashMap<u32, Vec<usize>>,
    /// The last id and process of it, where it can stand for no other.
    last: Option<(u32, usize)>,
}

impl<C: Calls> Reader<C> {
    pub(super) fn new(source: u32) -> Self {
        Reader { source, parts: Vec::new(), open: HashMap::new(), last: None }
    }

    /// Takes a `start` record in.
    ///
    /// # Errors
    /// It was written in a newer format.
    pub(super) fn start(&mut self, path: &Path, line: u64, start: RecordStart) -> Result<(), Error> {
        if start.v > SCHEMA_VERSION {
            let path = path.to_owned();
            return Err(Error::NewerFormat { path, line, found: start.v, known: SCHEMA_VERSION });
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
        self.last = None;
        self.parts.push(Part { records: 1, ..Part::new(process, RECORDS + self.parts.len() as u32) });
        Ok(())
    }

    /// Takes an `end` record in.
    pub(super) fn end(&mut self, line: u64, end: RecordEnd) -> &mut Part<C> {
        self.last = None;
        let part = self.part(end.pid, None, line);
        part.records += 1;
        let process = &mut part.process;
        process.ended = true;
        process.end_mono_ns = end.mono_ns;
        process.lost = end.lost;
        process.uncounted = end.uncounted.map(|calls| calls.into_iter().collect());
        process.stated_calls = Some(end.calls.values().map(|counts| counts.ok + counts.denied + counts.failed).sum());
        part
    }

    /// The process of a call; its rows and records are still to be added to.
    #[inline]
    pub(super) fn call(&mut self, pid: u32, seq: Option<u64>, line: u64) -> &mut Part<C> {
        if let Some(index) = self.only(pid) {
            return &mut self.parts[index];
        }
        self.part(pid, seq, line)
    }

    /// Which process an id stands for, if it can be no other and the last call was of it.
    #[inline]
    pub(super) fn only(&self, pid: u32) -> Option<usize> {
        self.last.filter(|last| last.0 == pid).map(|(_, index)| index)
    }

    /// The process of a record; one whose `start` is missing is opened here. Where several processes had this id, a
    /// call is of the one whose numbers it continues, else of the latest.
    fn part(&mut self, pid: u32, seq: Option<u64>, line: u64) -> &mut Part<C> {
        let open = self.open.entry(pid).or_default();
        let continues = |&&index: &&usize| {
            let last = self.parts[index].rows.last_seq();
            seq.is_some() && seq == last.checked_add(1)
        };
        // Usually there is one, and nothing to choose. One that has ended is meant only when no other is there.
        let running: Vec<usize> = open.iter().copied().filter(|&index| !self.parts[index].process.ended).collect();
        let candidates = if running.is_empty() { &*open } else { &running };
        let found = if candidates.len() > 1 { candidates.iter().rev().find(continues).copied() } else { None };
        let index = found.or(candidates.last().copied()).unwrap_or_else(|| {
            let process = Process { source: self.source, first_line: line, pid: Some(pid), ..Process::default() };
            self.parts.push(Part::new(process, RECORDS + self.parts.len() as u32));
            open.push(self.parts.len() - 1);
            self.parts.len() - 1
        });
        if candidates_of(open, &self.parts) == 1 {
            self.last = Some((pid, index));
        }
        &mut self.parts[index]
    }
}

/// How many processes a record with this id may be of.
fn candidates_of<C>(open: &[usize], parts: &[Part<C>]) -> usize {
    let running = open.iter().filter(|&&index| !parts[index].process.ended).count();
    if running == 0 { open.len() } else { running }
}

/// By number; keys that are none are left out.
fn device_quotas(by_name: &BTreeMap<String, u64>) -> Vec<(i32, u64)> {
    by_name.iter().filter_map(|(device, &bytes)| Some((device.parse().ok()?, bytes))).collect()
}

/// RFC 3339 → ns since 1970; `None` for what is no time or lies beyond the years 1677 to 2262.
pub(super) fn wall_ns(text: &str) -> Option<i64> {
    DateTime::parse_from_rfc3339(text).ok()?.timestamp_nanos_opt()
}
