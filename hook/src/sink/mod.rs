//! One event to all sinks: the course's line first, then the JSONL record. A sink that fails is counted, told of once,
//! and never holds the program up.

mod course;
mod jsonl;

use std::sync::atomic::{AtomicU64, Ordering};

use hook_event::{Call, Outcome, course as lines, course::LineBuf};

use crate::api::{APIS, Entry};
use crate::clock;
use crate::config::Config;
use crate::state::State;

use course::CourseSink;
use jsonl::JsonlSink;

/// Where a process's records go, and how many calls there were.
pub(crate) struct Sinks {
    course: CourseSink,
    jsonl: JsonlSink,
    counts: [[AtomicU64; Outcome::ALL.len()]; APIS.len()],
}

impl Sinks {
    /// Nothing is opened before the first event.
    pub(crate) fn new(config: &'static Config) -> Self {
        Sinks {
            course: CourseSink::new(&config.log),
            jsonl: JsonlSink::new(&config.events, config.events_max_bytes),
            counts: std::array::from_fn(|_| Default::default()),
        }
    }

    /// Records a call. `entered_ns` is when the program entered the hook, from which `hook_ns` is made.
    pub(crate) fn emit(&self, state: &State, entry: Entry, mut call: Call<'_>, entered_ns: u64) {
        let outcome = match call.outcome {
            Outcome::Ok => 0,
            Outcome::Denied => 1,
            Outcome::Failed => 2,
        };
        if let Some(count) = self.counts.get(entry.api_index()).and_then(|counts| counts.get(outcome)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.course.call(&call);
        if self.jsonl.is_on() {
            let waited = match call.op {
                hook_event::Op::Launch { wait_ns, .. } | hook_event::Op::Graph { wait_ns, .. } => wait_ns,
                _ => 0,
            };
            let spent = clock::now_ns().saturating_sub(entered_ns);
            call.hook_ns = spent.saturating_sub(call.real_ns).saturating_sub(waited);
            self.jsonl.call(state, &call);
        }
    }

    /// Tells a person.
    pub(crate) fn warn(&self, text: &str) {
        self.course.warn(text);
    }

    /// The process ends: the `end` record, if there was any event.
    pub(crate) fn end(&self, state: &State) {
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
        self.jsonl.end(state, calls.get(..used).unwrap_or(&[]));
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
