//! Why a call passed or not: what was in the bucket and how it got there, what was held of the quota, which allocation a free
//! ends. And of a line without a call, what it is.
//!
//! Levels of records are exact; a line prints one decimal, so what is said of it has an error, and what follows from an
//! inferred time has one as well.

mod launch;
mod memory;

use hook_event::Kind;
use serde::Serialize;

use super::conformance::{Check, Status};
use super::timeline::{self, TimeBase};
use crate::classes::Class;
use crate::events::Events;
use crate::parse::look::{Looked, Record};

pub use launch::{Due, Launch, LaunchWhy, Level, Refill};
pub use memory::{Alloc, AllocWhy, Block, Free, Reset};

/// What there is to say of a line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// The file.
    pub path: String,
    /// The line, from 1.
    pub line: u64,
    /// What it is, as in `inputs[].classes`; `None` where it can't be read again.
    pub class: Option<&'static str>,
    /// What was found on the line.
    #[serde(skip)]
    pub looked: Option<Looked>,
    /// Its text.
    pub text: Option<String>,
    /// The calls on it, in order.
    pub calls: Vec<Call>,
    /// The rules that it is the first to break. None are told where calls of several files make line numbers ambiguous.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub broken: Vec<Check>,
}

/// A call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Call {
    /// Index in `processes`.
    pub process: usize,
    /// Process id.
    pub pid: Option<u32>,
    /// Its number among the calls of the process, from 1.
    pub call: u64,
    /// API.
    pub api: String,
    /// `ok`, `denied` or `failed`.
    pub outcome: &'static str,
    /// What the program got.
    pub ret: Option<i32>,
    /// When it was.
    pub time: Moment,
    /// The rest, by kind.
    #[serde(flatten)]
    pub about: About,
}

/// A moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Moment {
    /// How it is known.
    pub base: TimeBase,
    /// Seconds since the process's first timed call; `None` where the log does not tell.
    pub at_s: Option<f64>,
    /// By how much it may be wrong, s.
    pub error_s: Option<f64>,
    /// Whether it may be later.
    pub lower_bound: bool,
    /// Monotonic clock, ns.
    pub mono_ns: Option<u64>,
    /// Wall clock, ns since 1970.
    pub wall_ns: Option<i64>,
}

/// What a call is about.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum About {
    /// A launch.
    Launch(Box<Launch>),
    /// An allocation of device memory.
    Alloc(Alloc),
    /// A free of device memory.
    Free(Free),
    /// A reset of a device.
    Reset(Reset),
    /// Host memory, which is only logged.
    Host,
}

/// What there is to say of line `line` of the file `source` (an index in [`Events::sources`]); `looked` is what stands there,
/// where it can be read again, and `checks` the rules' verdicts.
pub fn line(events: &Events, source: usize, line: u64, looked: Option<Looked>, checks: &[Check]) -> Explanation {
    let calls = &events.calls;
    let on_line = |i: &usize| calls.line[*i] == line && calls.source[*i] as usize == source;
    let mut rows: Vec<usize> = (0..calls.len()).filter(on_line).collect();
    if rows.is_empty() {
        // A record that stands for a line of the log.
        let records = looked.iter().flat_map(|looked| &looked.records);
        for record in records {
            let &Record::Call(Some((pid, seq))) = record else { continue };
            let is_it =
                |&i: &usize| calls.seq[i] == Some(seq) && events.processes[calls.process[i] as usize].pid == Some(pid);
            rows.extend((0..calls.len()).find(is_it));
        }
    }
    let class = looked.as_ref().map(|looked| looked.class).or((!rows.is_empty()).then_some(Class::Event));
    let one_file = calls.source.iter().all(|&other| other as usize == source);
    let is_broken = |check: &&Check| check.status == Status::Fail && check.line == Some(line) && one_file;
    let broken: Vec<Check> = checks.iter().filter(is_broken).cloned().collect();
    let call = |i| {
        let mut call = call(events, i);
        if let About::Launch(launch) = &mut call.about {
            launch.overrule(&broken);
        }
        call
    };
    Explanation {
        path: events.sources[source].path.display().to_string(),
        line,
        class: class.map(Class::name),
        text: looked.as_ref().map(|looked| looked.text.clone()),
        looked,
        calls: rows.into_iter().map(call).collect(),
        broken,
    }
}

/// The call in row `i`.
fn call(events: &Events, i: usize) -> Call {
    let calls = &events.calls;
    let number = calls.process[i] as usize;
    let process = &events.processes[number];
    let timeline = timeline::of(calls, process);
    let position = i - process.rows.start;
    // Of what is no launch a log without stamps tells only the launch behind which it stands.
    let counts = |j: &usize| calls.kind[*j] == Kind::Launch && calls.tokens[*j].is_some();
    let between = timeline.base == TimeBase::Inferred && !counts(&i);
    let told = timeline.base != TimeBase::Sequence && (!between || (process.rows.start..i).any(|j| counts(&j)));
    let time = Moment {
        base: timeline.base,
        at_s: timeline.at.get(position).copied().filter(|_| told),
        error_s: timeline.error_s.filter(|_| told),
        lower_bound: between || timeline.breaks.iter().any(|&at| at <= position),
        mono_ns: calls.mono_ns[i],
        wall_ns: calls.wall_ns[i],
    };
    let about = match calls.kind[i] {
        Kind::Launch => About::Launch(Box::new(launch::of(calls, process, i, &timeline, &time))),
        Kind::Host => About::Host,
        Kind::Alloc => About::Alloc(memory::alloc(calls, process, i)),
        Kind::Free => About::Free(memory::free(calls, process, i)),
        Kind::Reset => About::Reset(memory::reset(calls, process, i)),
    };
    Call {
        process: number,
        pid: process.pid,
        call: position as u64 + 1,
        api: events.names.text(calls.api[i]).to_owned(),
        outcome: calls.outcome[i].name(),
        ret: calls.ret[i],
        time,
        about,
    }
}
