//! Calls → the trace-event JSON that Perfetto and chrome://tracing open: a slice a call on its thread's track, an instant a
//! denial, counters of tokens and memory a process.
//!
//! Written event by event. Times are µs with three decimals; a number beyond 2^53, which a reader of JSON may round, is a
//! string.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use hook_event::{Dim3, Outcome};

use super::export;
use super::text::{mb, plain};
use crate::analysis::summary::Analysis;
use crate::analysis::timeline::TimeBase;
use crate::analysis::trace::{self, Lane, Slice};
use crate::error::Error;
use crate::events::Events;

/// The largest whole number that a reader of JSON keeps.
const EXACT: u64 = 1 << 53;

/// Writes the trace of the chosen calls; counters are of all calls.
///
/// # Errors
/// The file can't be written.
pub fn write(events: &Events, analysis: &Analysis, path: &Path) -> Result<(), Error> {
    export::whole(path, |file| {
        let mut out = BufWriter::with_capacity(1 << 16, file);
        all(&mut out, events, analysis)
            .and_then(|()| out.flush())
            .map_err(|source| Error::Write { path: path.to_owned(), source })
    })
}

fn all(out: &mut impl Write, events: &Events, analysis: &Analysis) -> io::Result<()> {
    let time = &analysis.summary.time;
    let (base, note) = match (time.base, time.lower_bound) {
        (TimeBase::Monotonic, _) => ("monotonic", "measured: the monotonic clock of the records"),
        (TimeBase::Wall, false) => ("wall", "the times that stand before the lines"),
        (TimeBase::Wall, true) => {
            ("wall", "the times that stand before the lines; a lower bound where that clock was set back")
        }
        (TimeBase::Inferred, false) => ("inferred", "inferred: tokens that grew by k took k / rate seconds"),
        (TimeBase::Inferred, true) => {
            ("inferred", "inferred from the growth of tokens; where the bucket was full, more time may have passed")
        }
        (TimeBase::Sequence, _) => ("sequence", "the log has no time: one call is drawn as 1 ms, in order"),
    };
    let inputs = analysis.summary.inputs.iter().map(|input| input.path.as_str()).collect::<Vec<_>>().join(", ");
    let mut head = Object::begin(out)?;
    head.text("displayTimeUnit", "ns")?;
    head.key("otherData")?;
    let mut data = Object::begin(head.out)?;
    data.text("generator", concat!("hook-analyze ", env!("CARGO_PKG_VERSION")))?;
    data.text("inputs", &inputs)?;
    data.text("time_base", base)?;
    data.text("time", note)?;
    data.text("tokens", "the level after each decision; between two it rises at the rate, up to the capacity")?;
    data.text("slices", "real_ns + hook_ns + wait_ns where the log has them, else of no length (`length`: `unknown`)")?;
    if let Some(filter) = &analysis.summary.filter {
        data.text("filter", &filter.chosen)?;
    }
    data.end()?;
    head.key("traceEvents")?;
    let mut list = List { out: head.out, first: true };
    list.out.write_all(b"[")?;
    for lane in trace::lanes(events, analysis) {
        names(&mut list, events, &lane)?;
        let (mut live, mut latest) = (None, 0);
        for slice in trace::slices(events, analysis, &lane) {
            // Counters change in the order of the calls, whatever the threads' clocks say.
            latest = slice.at_ns.max(latest);
            if lane.has_memory && live != Some(slice.live) {
                live = Some(slice.live);
                counter(&mut list, &lane, "device memory", latest, "live_bytes", &slice.live)?;
            }
            let tokens = events.calls.tokens[slice.row].filter(|level| lane.has_tokens && level.is_finite());
            if let Some(level) = tokens {
                counter(&mut list, &lane, "tokens", latest, "level", &level)?;
            }
            if analysis.is_chosen(slice.row) {
                call(&mut list, events, &lane, &slice, time.base)?;
            }
        }
    }
    list.out.write_all(b"\n]}\n")
}

/// The names of a process and its threads.
fn names<W: Write>(list: &mut List<'_, W>, events: &Events, lane: &Lane) -> io::Result<()> {
    let process = &events.processes[lane.process];
    let exe = process.exe.as_deref().map_or("program", |exe| exe.rsplit('/').next().unwrap_or(exe));
    let mut labels = Vec::new();
    labels.push(process.pid.map_or_else(|| "pid not in the log".to_owned(), |pid| format!("pid {pid}")));
    labels.extend(process.host.as_ref().map(|host| format!("host {host}")));
    labels.extend(process.quota.value().map(|quota| format!("quota {}", mb(quota))));
    let bucket = process.bucket.value();
    labels.extend(bucket.map(|(rate, capacity)| format!("{} tokens/s, capacity {}", plain(rate), plain(capacity))));
    for (name, key, text) in [("process_name", "name", exe), ("process_labels", "labels", &labels.join(", "))] {
        metadata(list, name, lane.pid, lane.pid, |args| args.text(key, text))?;
    }
    metadata(list, "process_sort_index", lane.pid, lane.pid, |args| args.number("sort_index", lane.process as u64))?;
    for (thread, id) in &lane.threads {
        let name = thread.map_or_else(|| "calls (the log names no thread)".to_owned(), |tid| format!("thread {tid}"));
        metadata(list, "thread_name", lane.pid, *id, |args| args.text("name", &name))?;
    }
    Ok(())
}

fn metadata<W: Write>(
    list: &mut List<'_, W>,
    name: &str,
    pid: u64,
    tid: u64,
    fill: impl FnOnce(&mut Object<'_, W>) -> io::Result<()>,
) -> io::Result<()> {
    let mut event = list.event("M", name, pid, 0)?;
    event.number("tid", tid)?;
    event.args(fill)
}

fn counter<W: Write>(
    list: &mut List<'_, W>,
    lane: &Lane,
    name: &str,
    at_ns: u64,
    key: &str,
    value: &impl serde::Serialize,
) -> io::Result<()> {
    let mut event = list.event("C", name, lane.pid, at_ns)?;
    event.number("tid", lane.pid)?;
    event.args(|args| args.value(key, value))
}

/// A call's slice, and where it was denied, an instant.
fn call<W: Write>(
    list: &mut List<'_, W>,
    events: &Events,
    lane: &Lane,
    slice: &Slice,
    base: TimeBase,
) -> io::Result<()> {
    let calls = &events.calls;
    let i = slice.row;
    let api = events.names.text(calls.api[i]);
    let mut event = list.event("X", api, lane.pid, slice.begin_ns)?;
    event.number("tid", slice.tid)?;
    event.time("dur", slice.end_ns - slice.begin_ns)?;
    event.text("cat", "call")?;
    event.args(|args| {
        args.text("outcome", calls.outcome[i].name())?;
        args.number("line", calls.line[i])?;
        if events.sources.len() > 1 {
            let path = &events.sources[calls.source[i] as usize].path;
            args.text("file", &path.to_string_lossy())?;
        }
        match base {
            TimeBase::Monotonic => {}
            TimeBase::Wall => args.text("time", "wall")?,
            TimeBase::Inferred => args.text("time", "inferred")?,
            TimeBase::Sequence => args.text("time", "none, calls in order")?,
        }
        if !slice.measured {
            args.text("length", "unknown")?;
        }
        if slice.moved_ns > 0 {
            args.number("moved_ns", slice.moved_ns)?;
        }
        let name = |id: Option<u32>| id.map(|id| events.names.text(id));
        for (key, text) in [("kernel", name(calls.kernel[i])), ("sym", name(calls.sym[i]).filter(|sym| *sym != api))] {
            text.map_or(Ok(()), |text| args.text(key, text))?;
        }
        for (key, dim) in [("grid", calls.grid[i]), ("block", calls.block[i])] {
            dim.map_or(Ok(()), |Dim3 { x, y, z }| args.text(key, &format!("{x},{y},{z}")))?;
        }
        for (key, handle) in [("ptr", calls.ptr[i]), ("stream", calls.stream[i]), ("graph", calls.graph[i])] {
            handle.map_or(Ok(()), |handle| args.text(key, &format!("{handle:#x}")))?;
        }
        for (key, number) in [
            ("seq", calls.seq[i]),
            ("size", calls.size[i]),
            ("total", calls.total[i]),
            ("shmem", calls.shmem[i]),
            ("wait_ns", calls.wait_ns[i]),
            ("real_ns", calls.real_ns[i]),
            ("hook_ns", calls.hook_ns[i]),
        ] {
            number.map_or(Ok(()), |number| args.number(key, number))?;
        }
        for (key, number) in [("ret", calls.ret[i]), ("dev", calls.dev[i])] {
            number.map_or(Ok(()), |number| args.value(key, &number))?;
        }
        calls.tokens[i].filter(|_| lane.has_tokens).map_or(Ok(()), |level| args.value("tokens", &level))
    })?;
    if calls.outcome[i] != Outcome::Denied {
        return Ok(());
    }
    let mut event = list.event("i", &format!("denied: {api}"), lane.pid, slice.at_ns)?;
    event.number("tid", slice.tid)?;
    event.text("cat", "denial")?;
    event.text("s", "t")?;
    event.args(|args| {
        args.number("line", calls.line[i])?;
        calls.size[i].map_or(Ok(()), |size| args.number("size", size))?;
        let quota = calls.quota[i].or(events.processes[lane.process].quota.value().filter(|_| calls.size[i].is_some()));
        quota.map_or(Ok(()), |quota| args.number("quota", quota))?;
        if lane.has_memory && calls.size[i].is_some() {
            args.number("live_bytes", slice.live)?;
        }
        calls.tokens[i].map_or(Ok(()), |level| args.value("tokens", &level))
    })
}

/// The events, one a line.
struct List<'a, W> {
    out: &'a mut W,
    first: bool,
}

impl<W: Write> List<'_, W> {
    fn event(&mut self, phase: &str, name: &str, pid: u64, at_ns: u64) -> io::Result<Object<'_, W>> {
        self.out.write_all(if self.first { b"\n" } else { b",\n" })?;
        self.first = false;
        let mut event = Object::begin(&mut *self.out)?;
        event.text("ph", phase)?;
        event.text("name", name)?;
        event.number("pid", pid)?;
        event.time("ts", at_ns)?;
        Ok(event)
    }
}

/// An object under way.
struct Object<'a, W> {
    out: &'a mut W,
    separator: &'static [u8],
}

impl<'a, W: Write> Object<'a, W> {
    fn begin(out: &'a mut W) -> io::Result<Self> {
        out.write_all(b"{")?;
        Ok(Object { out, separator: b"" })
    }

    fn key(&mut self, key: &str) -> io::Result<()> {
        self.out.write_all(self.separator)?;
        self.separator = b",";
        write!(self.out, "\"{key}\":")
    }

    fn value(&mut self, key: &str, value: &impl serde::Serialize) -> io::Result<()> {
        self.key(key)?;
        Ok(serde_json::to_writer(&mut *self.out, value)?)
    }

    fn text(&mut self, key: &str, text: &str) -> io::Result<()> {
        self.value(key, &text)
    }

    /// A whole number; as a string where a reader may round it.
    fn number(&mut self, key: &str, number: u64) -> io::Result<()> {
        self.key(key)?;
        if number <= EXACT { write!(self.out, "{number}") } else { write!(self.out, "\"{number}\"") }
    }

    /// A time in µs.
    fn time(&mut self, key: &str, ns: u64) -> io::Result<()> {
        self.key(key)?;
        write!(self.out, "{}.{:03}", ns / 1000, ns % 1000)
    }

    /// What belongs to an event, which ends with it.
    fn args(mut self, fill: impl FnOnce(&mut Object<'_, W>) -> io::Result<()>) -> io::Result<()> {
        self.key("args")?;
        let mut args = Object::begin(&mut *self.out)?;
        fill(&mut args)?;
        args.end()?;
        self.end()
    }

    fn end(self) -> io::Result<()> {
        self.out.write_all(b"}")
    }
}
