//! JSONL events: whole records in each `write`, appended to a file that all processes of a job share.
//!
//! The file is made at the first intercepted call, so a program that never calls CUDA leaves nothing behind.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hook_event::json::{RecordBuf, write_call, write_end, write_start};
use hook_event::{Call, End, Start};

use super::chunk::Chunk;
use crate::clock;
use crate::config::Target;
use crate::ffi::driver::uncounted;
use crate::ffi::os;
use crate::ffi::output::{NotWritten, Output};
use crate::state::State;

pub(super) struct JsonlSink {
    target: &'static Target,
    max_bytes: u64,
    output: OnceLock<Option<Output>>,
    /// Size of the file, as far as this process knows.
    size: AtomicU64,
    /// Records that were not written.
    lost: AtomicU64,
    told: AtomicBool,
}

impl JsonlSink {
    pub(super) fn new(target: &'static Target, max_bytes: u64) -> Self {
        JsonlSink {
            target,
            max_bytes,
            output: OnceLock::new(),
            size: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            told: AtomicBool::new(false),
        }
    }

    pub(super) fn is_on(&self) -> bool {
        *self.target != Target::Off
    }

    pub(super) fn call(&self, state: &State, call: &Call<'_>) {
        let mut record = RecordBuf::new();
        write_call(&mut record, call);
        let Some(output) = self.room(state, record.len()) else { return };
        if output.write(record.as_bytes()).is_err() {
            self.failed(state, 1);
        }
    }

    /// How much one write takes.
    pub(super) fn chunk(&self) -> usize {
        self.output.get().and_then(Option::as_ref).map_or(0, Output::chunk)
    }

    /// Adds a record to those that are to be written.
    pub(super) fn put(&self, state: &State, chunk: &mut Chunk, record: &[u8]) {
        if self.room(state, record.len()).is_none() {
            return;
        }
        if !chunk.fits(record.len()) {
            self.flush(state, chunk);
        }
        chunk.push(record);
    }

    /// Writes them.
    pub(super) fn flush(&self, state: &State, chunk: &mut Chunk) {
        if let Some(text) = chunk.text()
            && let Some(Some(output)) = self.output.get()
            && let Err(NotWritten { written }) = output.write(text)
        {
            self.failed(state, chunk.lines_after(written));
        }
        chunk.clear();
    }

    /// In a forked child.
    pub(super) fn disown(&self) {
        self.output.get().into_iter().flatten().for_each(Output::disown);
    }

    /// Written only by a process that has recorded calls. `memory` is its highest and present live bytes.
    pub(super) fn end(&self, state: &State, memory: (u64, u64), calls: &[(&str, [u64; 3])]) {
        let Some(Some(output)) = self.output.get() else { return };
        let (peak_bytes, live_bytes) = memory;
        let lost = self.lost.load(Ordering::Relaxed);
        let at = state.anchor.stamp(clock::now_ns());
        let mut record = RecordBuf::new();
        let mut counted = [("", 0); uncounted::COUNT];
        let uncounted = state.config.driver.then(|| uncounted::called(&mut counted));
        write_end(&mut record, &End { at, pid: state.pid, calls, peak_bytes, live_bytes, lost, uncounted });
        // The last record is written even over the size limit: it is the one that says what is missing. If it fails,
        // its absence says so.
        let _ = output.write(record.as_bytes());
    }

    /// The file, if it has room for so many bytes more; a record that has no place counts as lost.
    fn room(&self, state: &State, bytes: usize) -> Option<&Output> {
        let output = self.output.get_or_init(|| self.open(state)).as_ref();
        let bytes = u64::try_from(bytes).unwrap_or(0);
        let size = self.size.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        let fits = size <= self.max_bytes;
        if output.is_none() || !fits {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        if output.is_some() && !fits {
            self.tell(state, || "事件文件已达 CUDA_HOOK_EVENTS_MAX_MB 上限".to_owned());
        }
        output.filter(|_| fits)
    }

    fn failed(&self, state: &State, records: u64) {
        let error = os::last_error();
        self.lost.fetch_add(records, Ordering::Relaxed);
        self.tell(state, || format!("写事件文件失败 ({error})"));
    }

    fn open(&self, state: &State) -> Option<Output> {
        let output = match self.target {
            Target::Off => None,
            Target::Stderr => Some(Output::stderr()),
            Target::File(path) => {
                let output = Output::append(path);
                if output.is_none() {
                    let error = os::last_error();
                    self.tell(state, || format!("{}: 打不开事件文件 ({error})", String::from_utf8_lossy(path)));
                }
                output
            }
        }?;
        self.size.store(output.size(), Ordering::Relaxed);
        let mut record = RecordBuf::new();
        let (limits, job) = state.limiter.in_force(state.config.settings(), clock::now_ns());
        let start = Start {
            run: state.config.run.as_deref().unwrap_or(""),
            at: state.anchor.origin(),
            pid: state.pid,
            ppid: os::parent_id(),
            exe: &os::program_path(),
            cmd: &os::command_line(),
            host: &os::host_name(),
            hook: env!("CARGO_PKG_VERSION"),
            quota_bytes: limits.quota,
            device_quotas: &state.config.device_quotas,
            shared: state.config.shared.as_deref().zip(job),
            bucket: limits.bucket,
            policy: state.config.policy,
        };
        write_start(&mut record, &start);
        // A process's part begins with its start record: without it the calls would be read as someone else's.
        if output.write(record.as_bytes()).is_err() {
            let error = os::last_error();
            self.tell(state, || format!("写事件文件失败 ({error})"));
            output.close();
            return None;
        }
        if let Target::File(path) = self.target
            && !output.began_a_line(path, record.len())
        {
            // It has run into a line that a killed process left cut. If this fails, so will what follows.
            let _ = output.write(record.as_bytes());
        }
        self.size.fetch_add(u64::try_from(record.len()).unwrap_or(0), Ordering::Relaxed);
        Some(output)
    }

    /// Says once what is wrong.
    fn tell(&self, state: &State, what: impl FnOnce() -> String) {
        if !self.told.swap(true, Ordering::Relaxed) {
            let what = what();
            state.sinks.warn(&format!("{what}; 缺失的事件数见 end 记录的 lost, 计数和限制照常"));
        }
    }
}
