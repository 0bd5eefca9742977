//! JSONL records: writer, and the obvious reader beside it.
//!
//! A record is one object on one line of at most [`MAX_LINE`] bytes. Keys come in a fixed order,
//! keys whose value is unknown are left out, addresses are hex strings, `ts` is RFC 3339 UTC. A reader ignores keys
//! that it does not know.

use crate::buf::Buf;
use crate::event::{Call, Dim3, End, Op, Outcome, Refusal, Scope, Stamp, Start};
use crate::field;
use crate::units::SecondCache;
use crate::{MAX_LINE, SCHEMA_VERSION};

/// A buffer that holds every record of ours.
pub type RecordBuf = Buf<MAX_LINE>;

/// Longest path, argument or host name in a record, bytes once escaped; all arguments together are cut there too.
const TEXT_MAX: usize = 700;
/// Longest kernel name; templates make them long.
const KERNEL_MAX: usize = 3000;

/// `,"name":`, put together when this is compiled.
macro_rules! key {
    ($name:expr) => {{
        const KEY: [u8; $name.len() + 4] = quoted_key($name);
        &KEY
    }};
}

const fn quoted_key<const N: usize>(name: &str) -> [u8; N] {
    let (mut key, name) = ([b'"'; N], name.as_bytes());
    key[0] = b',';
    let mut i = 0;
    while i < name.len() {
        key[2 + i] = name[i];
        i += 1;
    }
    key[N - 1] = b':';
    key
}

/// The `start` record of a process, line feed included.
pub fn write_start(out: &mut RecordBuf, start: &Start<'_>) {
    out.push_str("{\"v\":");
    out.push_u64(SCHEMA_VERSION.into());
    out.push_str(",\"ev\":\"start\"");
    text(out, key!("run"), start.run.as_bytes());
    stamp(out, start.at, &mut SecondCache::default());
    number(out, key!(field::PID), start.pid.into());
    number(out, key!("ppid"), start.ppid.into());
    text(out, key!("exe"), start.exe);
    out.push(key!("cmd"));
    out.push_byte(b'[');
    let from = out.len();
    let mut args = start.cmd.strip_suffix(b"\0").unwrap_or(start.cmd).split(|&b| b == 0).peekable();
    while let Some(arg) = args.next() {
        if out.len() - from > TEXT_MAX {
            // Long command lines end in an ellipsis of their own.
            quoted(out, "…".as_bytes(), TEXT_MAX);
            break;
        }
        quoted(out, arg, TEXT_MAX);
        if args.peek().is_some() {
            out.push_byte(b',');
        }
    }
    out.push_byte(b']');
    text(out, key!("host"), start.host);
    text(out, key!("hook"), start.hook.as_bytes());
    if let Some(bytes) = start.quota_bytes {
        number(out, key!("quota_bytes"), bytes);
    }
    if !start.device_quotas.is_empty() {
        out.push(key!("dev_quota_bytes"));
        for (i, &(device, bytes)) in start.device_quotas.iter().enumerate() {
            out.push_str(if i == 0 { "{\"" } else { ",\"" });
            out.push_u64(device.into());
            out.push_str("\":");
            out.push_u64(bytes);
        }
        out.push_byte(b'}');
    }
    if let Some((name, job)) = start.shared {
        text(out, key!("shared"), name.as_bytes());
        address(out, key!("job"), job);
    }
    if let Some((rate, capacity)) = start.bucket {
        float(out, key!("rate"), rate);
        float(out, key!("capacity"), capacity);
    }
    text(out, key!("policy"), start.policy.name().as_bytes());
    out.push_str("}\n");
}

/// The record of one call, line feed included.
pub fn write_call(out: &mut RecordBuf, call: &Call<'_>) {
    write_call_in(out, call, &mut SecondCache::default());
}

/// The same, for many calls one after another.
pub fn write_call_in(out: &mut RecordBuf, call: &Call<'_>, second: &mut SecondCache) {
    // Destructured whole, so that a new field does not compile until it is written.
    let Call { seq, at, pid, tid, api, sym, dev, op, outcome, ret, real_ns, hook_ns } = *call;
    out.push_str("{\"ev\":\"call\"");
    number(out, key!(field::SEQ), seq);
    stamp(out, at, second);
    number(out, key!(field::PID), pid.into());
    number(out, key!(field::TID), tid.into());
    text(out, key!(field::API), api.as_bytes());
    text(out, key!(field::SYM), sym.as_bytes());
    if let Some(dev) = dev {
        signed(out, key!(field::DEV), dev.into());
    }
    match op {
        Op::Alloc { size, ptr, .. } => {
            number(out, key!(field::SIZE), size);
            if let Some(ptr) = ptr {
                address(out, key!(field::PTR), ptr);
            }
        }
        Op::Free { ptr, size, .. } => {
            if let Some(size) = size {
                number(out, key!(field::SIZE), size);
            }
            address(out, key!(field::PTR), ptr);
        }
        Op::Reset { size, .. } => number(out, key!(field::SIZE), size),
        Op::HostAlloc { size, ptr, .. } => {
            number(out, key!(field::SIZE), size);
            if let Some(ptr) = ptr {
                address(out, key!(field::PTR), ptr);
            }
        }
        Op::HostFree { ptr, .. } => address(out, key!(field::PTR), ptr),
        Op::Graph { graph, stream, .. } => {
            address(out, key!(field::GRAPH), graph);
            address(out, key!(field::STREAM), stream);
        }
        Op::Launch { grid, block, shmem, stream, kernel, .. } => {
            dim(out, key!(field::GRID), grid);
            dim(out, key!(field::BLOCK), block);
            number(out, key!(field::SHMEM), shmem);
            address(out, key!(field::STREAM), stream);
            if let Some(kernel) = kernel {
                out.push(key!(field::KERNEL));
                quoted(out, kernel.as_bytes(), KERNEL_MAX);
            }
        }
    }
    text(out, key!(field::OUTCOME), outcome.name().as_bytes());
    signed(out, key!(field::RET), ret.into());
    match op {
        Op::Alloc { total, pending, refusal, .. } => {
            number(out, key!(field::TOTAL), total);
            number(out, key!(field::PENDING), pending);
            if let (Outcome::Denied, Some(refusal)) = (outcome, refusal) {
                denial(out, refusal);
            }
        }
        Op::Free { total, .. } | Op::Reset { total, .. } | Op::HostAlloc { total, .. } | Op::HostFree { total, .. } => {
            number(out, key!(field::TOTAL), total);
        }
        Op::Launch { tokens, wait_ns, .. } | Op::Graph { tokens, wait_ns, .. } => {
            if matches!(op, Op::Launch { bypass: true, .. }) {
                out.push(key!(field::BYPASS));
                out.push_str("true");
            }
            if let Some(tokens) = tokens {
                float(out, key!(field::TOKENS), tokens);
            }
            number(out, key!(field::WAIT_NS), wait_ns);
        }
    }
    number(out, key!(field::REAL_NS), real_ns);
    if let Some(hook_ns) = hook_ns {
        number(out, key!(field::HOOK_NS), hook_ns);
    }
    out.push_str("}\n");
}

/// The quota that refused, and its account where that is not the process's own.
fn denial(out: &mut RecordBuf, Refusal { scope, quota, total, pending }: Refusal) {
    number(out, key!(field::QUOTA), quota);
    match scope {
        Scope::Process => {}
        Scope::Device => {
            number(out, key!(field::DEV_TOTAL), total);
            number(out, key!(field::DEV_PENDING), pending);
        }
        Scope::Job => {
            number(out, key!(field::JOB_TOTAL), total);
            number(out, key!(field::JOB_PENDING), pending);
        }
        Scope::Unreachable => {
            out.push(key!(field::UNREACHABLE));
            out.push_str("true");
        }
    }
}

/// The `end` record of a process, line feed included.
pub fn write_end(out: &mut RecordBuf, end: &End<'_>) {
    out.push_str("{\"ev\":\"end\"");
    stamp(out, end.at, &mut SecondCache::default());
    number(out, key!(field::PID), end.pid.into());
    out.push(key!("calls"));
    out.push_byte(b'{');
    for (i, (api, counts)) in end.calls.iter().enumerate() {
        if i > 0 {
            out.push_byte(b',');
        }
        quoted(out, api.as_bytes(), TEXT_MAX);
        out.push_byte(b':');
        for ((before, outcome), count) in ["{", ",", ","].iter().zip(Outcome::ALL).zip(counts) {
            out.push_str(before);
            quoted(out, outcome.name().as_bytes(), TEXT_MAX);
            out.push_byte(b':');
            out.push_u64(*count);
        }
        out.push_byte(b'}');
    }
    out.push_byte(b'}');
    number(out, key!("peak_bytes"), end.peak_bytes);
    number(out, key!("live_bytes"), end.live_bytes);
    number(out, key!("lost"), end.lost);
    if let Some(uncounted) = end.uncounted {
        out.push(key!("uncounted"));
        out.push_byte(b'{');
        for (i, (symbol, calls)) in uncounted.iter().enumerate() {
            if i > 0 {
                out.push_byte(b',');
            }
            quoted(out, symbol.as_bytes(), TEXT_MAX);
            out.push_byte(b':');
            out.push_u64(*calls);
        }
        out.push_byte(b'}');
    }
    out.push_str("}\n");
}

fn number<const N: usize>(out: &mut RecordBuf, key: &[u8; N], value: u64) {
    out.push(key);
    out.push_u64(value);
}

fn signed<const N: usize>(out: &mut RecordBuf, key: &[u8; N], value: i64) {
    out.push(key);
    out.push_i64(value);
}

fn float<const N: usize>(out: &mut RecordBuf, key: &[u8; N], value: f64) {
    out.push(key);
    if value.is_finite() {
        let from = out.len();
        out.push_f64(value);
        // `5.0`, not `5`: a float stays one for readers that guess types from the first record.
        if !out.as_bytes().iter().skip(from).any(|&b| b == b'.') {
            out.push_str(".0");
        }
    } else {
        out.push_str("null");
    }
}

fn address<const N: usize>(out: &mut RecordBuf, key: &[u8; N], value: u64) {
    out.push(key);
    out.push_byte(b'"');
    out.push_hex(value);
    out.push_byte(b'"');
}

fn text<const N: usize>(out: &mut RecordBuf, key: &[u8; N], bytes: &[u8]) {
    out.push(key);
    quoted(out, bytes, TEXT_MAX);
}

fn dim<const N: usize>(out: &mut RecordBuf, key: &[u8; N], dim: Dim3) {
    out.push(key);
    for (before, value) in [b'[', b',', b','].into_iter().zip([dim.x, dim.y, dim.z]) {
        out.push_byte(before);
        out.push_u64(value.into());
    }
    out.push_byte(b']');
}

fn stamp(out: &mut RecordBuf, at: Stamp, second: &mut SecondCache) {
    out.push(key!(field::TS));
    out.push_byte(b'"');
    second.push_rfc3339(out, at.wall_ns);
    out.push_byte(b'"');
    number(out, key!(field::MONO_NS), at.mono_ns);
}

/// A JSON string of at most `max` bytes; bytes that are no UTF-8 become U+FFFD, what is too long ends in `…`.
fn quoted(out: &mut RecordBuf, bytes: &[u8], max: usize) {
    out.push_byte(b'"');
    // What needs no escape and no cut, as nearly all does.
    if bytes.len() <= max - 12 && bytes.iter().all(|&b| matches!(b, b' '..=b'~') && b != b'"' && b != b'\\') {
        out.push(bytes);
        return out.push_byte(b'"');
    }
    let from = out.len();
    'text: for chunk in bytes.utf8_chunks() {
        let bad = if chunk.invalid().is_empty() { "" } else { "\u{fffd}" };
        for c in chunk.valid().chars().chain(bad.chars()) {
            if out.len() - from > max - 12 {
                out.push_str("…");
                break 'text;
            }
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                c if u32::from(c) < 0x20 || c == '\u{7f}' => {
                    out.push_str("\\u00");
                    let code = u32::from(c) as u8;
                    for nibble in [code >> 4, code & 15] {
                        out.push_byte(if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 });
                    }
                }
                c => out.push_str(c.encode_utf8(&mut [0; 4])),
            }
        }
    }
    out.push_byte(b'"');
}

#[cfg(feature = "read")]
pub use read::{Record, RecordCall, RecordEnd, RecordStart, read};

#[cfg(feature = "read")]
mod read {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, de::Error as _};

    use crate::event::{Refusal, Scope};

    /// One JSONL record, read. Keys that a record leaves out are `None`.
    #[derive(Debug, Deserialize)]
    #[serde(tag = "ev", rename_all = "lowercase")]
    pub enum Record {
        /// Beginning of a process's part.
        Start(RecordStart),
        /// One call.
        Call(RecordCall),
        /// End of a process's part.
        End(RecordEnd),
    }

    /// A `start` record; see [`Start`](crate::Start) for what the fields mean.
    #[derive(Debug, Deserialize)]
    #[allow(missing_docs)]
    pub struct RecordStart {
        pub v: u32,
        #[serde(default)]
        pub run: String,
        pub ts: Option<String>,
        pub mono_ns: Option<u64>,
        pub pid: u32,
        pub ppid: Option<u32>,
        #[serde(default)]
        pub exe: String,
        #[serde(default)]
        pub cmd: Vec<String>,
        #[serde(default)]
        pub host: String,
        #[serde(default)]
        pub hook: String,
        pub quota_bytes: Option<u64>,
        /// By device number.
        #[serde(default)]
        pub dev_quota_bytes: BTreeMap<String, u64>,
        pub shared: Option<String>,
        #[serde(default, deserialize_with = "address")]
        pub job: Option<u64>,
        pub rate: Option<f64>,
        pub capacity: Option<f64>,
        pub policy: Option<String>,
    }

    /// A `call` record; see [`Call`](crate::Call) for what the fields mean.
    #[derive(Debug, Deserialize)]
    #[allow(missing_docs)]
    pub struct RecordCall {
        pub seq: u64,
        pub ts: Option<String>,
        pub mono_ns: Option<u64>,
        pub pid: u32,
        pub tid: Option<u32>,
        pub api: String,
        pub sym: Option<String>,
        pub dev: Option<i32>,
        pub size: Option<u64>,
        #[serde(default, deserialize_with = "address")]
        pub ptr: Option<u64>,
        pub grid: Option<[u32; 3]>,
        pub block: Option<[u32; 3]>,
        #[serde(default, deserialize_with = "address")]
        pub graph: Option<u64>,
        pub shmem: Option<u64>,
        #[serde(default, deserialize_with = "address")]
        pub stream: Option<u64>,
        pub kernel: Option<String>,
        #[serde(deserialize_with = "outcome")]
        pub outcome: crate::Outcome,
        pub ret: Option<i32>,
        pub total: Option<u64>,
        pub pending: Option<u64>,
        pub quota: Option<u64>,
        pub dev_total: Option<u64>,
        pub dev_pending: Option<u64>,
        pub job_total: Option<u64>,
        pub job_pending: Option<u64>,
        #[serde(default)]
        pub unreachable: bool,
        #[serde(default)]
        pub bypass: bool,
        pub tokens: Option<f64>,
        pub wait_ns: Option<u64>,
        pub real_ns: Option<u64>,
        pub hook_ns: Option<u64>,
    }

    impl RecordCall {
        /// Why the call was denied a quota's memory, where it was.
        pub fn refusal(&self) -> Option<Refusal> {
            let (scope, total, pending) = match (self.dev_total, self.job_total) {
                (Some(total), _) => (Scope::Device, Some(total), self.dev_pending),
                (None, Some(total)) => (Scope::Job, Some(total), self.job_pending),
                (None, None) if self.unreachable => (Scope::Unreachable, self.total, self.pending),
                (None, None) => (Scope::Process, self.total, self.pending),
            };
            let (total, pending) = (total.unwrap_or(0), pending.unwrap_or(0));
            self.quota.map(|quota| Refusal { scope, quota, total, pending })
        }
    }

    /// An `end` record; see [`End`](crate::End) for what the fields mean.
    #[derive(Debug, Deserialize)]
    #[allow(missing_docs)]
    pub struct RecordEnd {
        pub ts: Option<String>,
        pub mono_ns: Option<u64>,
        pub pid: u32,
        #[serde(default)]
        pub calls: BTreeMap<String, RecordCounts>,
        pub peak_bytes: Option<u64>,
        pub live_bytes: Option<u64>,
        pub lost: Option<u64>,
        pub uncounted: Option<BTreeMap<String, u64>>,
    }

    /// Calls of one API in an `end` record.
    #[derive(Debug, Deserialize, Default, Clone, Copy, PartialEq, Eq)]
    #[allow(missing_docs)]
    pub struct RecordCounts {
        pub ok: u64,
        pub denied: u64,
        pub failed: u64,
    }

    fn address<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
        let Some(text) = Option::<std::borrow::Cow<'de, str>>::deserialize(from)? else { return Ok(None) };
        text.strip_prefix("0x")
            .and_then(|hex| u64::from_str_radix(hex, 16).ok())
            .map(Some)
            .ok_or_else(|| D::Error::custom(format!("`{text}` is not an address like `0x7f00`")))
    }

    fn outcome<'de, D: Deserializer<'de>>(from: D) -> Result<crate::Outcome, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
        crate::Outcome::ALL
            .into_iter()
            .find(|o| o.name() == text)
            .ok_or_else(|| D::Error::custom(format!("`{text}` is not `ok`, `denied` or `failed`")))
    }

    /// Reads one line.
    ///
    /// # Errors
    /// The line is no JSON object, not a record of ours, or one of its values is not of the field's type.
    pub fn read(line: &str) -> Result<Record, serde_json::Error> {
        serde_json::from_str(line)
    }
}

#[cfg(test)]
mod tests;
