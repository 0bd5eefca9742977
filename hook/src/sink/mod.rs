//! One event to all sinks: the course's line first, then the JSONL record. A sink that fails is counted, told of once,
//! and never holds the program up.
//!
//! A process begins by writing each record before the call returns. One that makes thousands of calls a second goes over
//! to batches ([`batch`]) for the rest of its life.

mod batch;
mod chunk;
mod course;
mod jsonl;
mod record;

use std::sync::atomic::{AtomicU64, Ordering};

use hook_event::json::RecordBuf;
use hook_event::units::SecondCache;
use hook_event::{Outcome, course as lines, course::LineBuf};

use crate::api::APIS;
use crate::clock;
use crate::config::Config;
use crate::state::State;

use batch::Batch;
pub(crate) use batch::{Patience, RING};
use chunk::Chunk;
use course::CourseSink;
use jsonl::JsonlSink;
pub(crate) use record::{Record, UNMEASURED};

/// Where a process's records go, and how many calls there were.
// On cache lines of its own: while a thread writes records, it changes what is here all the time, and others make calls.
#[repr(align(128))]
pub(crate) struct Sinks {
    course: CourseSink,
    jsonl: JsonlSink,
    counts: [[AtomicU64; Outcome::ALL.len()]; APIS.len()],
    pub(crate) batch: Batch,
}

impl Sinks {
    /// Nothing is opened before the first event.
    pub(crate) fn new(config: &'static Config) -> Self {
        let course = CourseSink::new(&config.log);
        let jsonl = JsonlSink::new(&config.events, config.events_max_bytes);
        Sinks { course, jsonl, counts: std::array::from_fn(|_| Default::default()), batch: Batch::new() }
    }

    /// Whether calls are recorded anywhere.
    pub(crate) fn are_on(&self) -> bool {
        self.course.is_on() || self.jsonl.is_on()
    }

    /// Writes a record for which there is no place in a batch. `entered_ns` is when the program entered the hook, from
    /// which `hook_ns` is made anew.
    #[cold]
    pub(crate) fn write_now(&self, state: &'static State, record: Record, entered_ns: u64) {
        if self.batch.is_parents() {
            return;
        }
        self.count(&record);
        let mut call = record.call(state);
        self.course.call(&call);
        if self.jsonl.is_on() {
            let spent = clock::now_ns().saturating_sub(entered_ns);
            call.hook_ns = call.hook_ns.map(|_| spent.saturating_sub(call.real_ns).saturating_sub(call.op.wait_ns()));
            self.jsonl.call(state, &call);
        }
        self.batch.spend(state, record.at_ns);
    }

    fn count(&self, record: &Record) {
        let outcome = match record.outcome {
            Outcome::Ok => 0,
            Outcome::Denied => 1,
            Outcome::Failed => 2,
        };
        if let Some(count) = self.counts.get(record.entry.api_index()).and_then(|counts| counts.get(outcome)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Tells a person.
    pub(crate) fn warn(&self, text: &str) {
        self.course.warn(text);
    }

    /// In a forked child: all this is its parent's, to whom a call belongs in which a signal handler has forked.
    pub(crate) fn disown(&self) {
        self.batch.disown();
        self.course.disown();
        self.jsonl.disown();
    }

    /// The process ends: what is batched, then the `end` record, if there was any event.
    pub(crate) fn end(&self, state: &'static State, patience: Patience) {
        let _alone = self.batch.end(state, patience);
        let Some(memory) = patience.get(|| state.limiter.try_memory(), || state.limiter.memory()) else { return };
        let mut calls = [("", [0u64; 3]); APIS.len()];
        let mut used = 0usize;
        for (api, counts) in APIS.iter().zip(&self.counts) {
            let mut row = [0u64; 3];
            for (to, from) in row.iter_mut().zip(counts) {
                *to = from.load(Ordering::Relaxed);
            }
            if row != [0; 3]
                && let Some(slot) = calls.get_mut(used)
            {
                *slot = (api, row);
                used = used.saturating_add(1);
            }
        }
        self.jsonl.end(state, memory, calls.get(..used).unwrap_or(&[]));
    }
}

/// Formats many records, with all that this takes kept from one to the next.
struct Formatter {
    lines: Chunk,
    events: Chunk,
    line: LineBuf,
    record: RecordBuf,
    second: SecondCache,
}

impl Formatter {
    fn new() -> Option<Formatter> {
        Some(Formatter {
            lines: Chunk::new()?,
            events: Chunk::new()?,
            line: LineBuf::new(),
            record: RecordBuf::new(),
            second: SecondCache::default(),
        })
    }

    /// Before the first record of a batch: what stands behind stderr may have changed.
    fn begin(&mut self, sinks: &Sinks) {
        self.lines.limit(sinks.course.chunk());
        self.events.limit(sinks.jsonl.chunk());
    }

    fn put(&mut self, state: &State, record: &Record) {
        let sinks = &state.sinks;
        sinks.count(record);
        let call = record.call(state);
        if sinks.course.is_on() {
            self.line.truncate(0);
            lines::write_call(&mut self.line, &call);
            sinks.course.put(&mut self.lines, self.line.as_bytes());
        }
        if sinks.jsonl.is_on() {
            self.record.truncate(0);
            hook_event::json::write_call_in(&mut self.record, &call, &mut self.second);
            sinks.jsonl.put(state, &mut self.events, self.record.as_bytes());
        }
    }

    /// After the last.
    fn finish(&mut self, state: &State) {
        state.sinks.course.flush(&mut self.lines);
        state.sinks.jsonl.flush(state, &mut self.events);
    }
}

/// The two course lines that open every process's log, then what is wrong with its settings.
pub(crate) fn banner(config: &Config, warnings: &[String]) {
    let sink = CourseSink::new(&config.log);
    sink.line(|out: &mut LineBuf| lines::write_quota(out, config.quota_bytes));
    sink.line(|out: &mut LineBuf| lines::write_rate(out, config.bucket));
    if let Some(name) = &config.shared {
        sink.line(|out: &mut LineBuf| lines::write_shared(out, name));
    }
    for warning in warnings {
        sink.warn(warning);
    }
    sink.close();
}
