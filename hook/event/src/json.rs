//! JSONL records: writer, and the obvious reader beside it.
//!
//! A record is one object on one line of at most [`MAX_LINE`] bytes. Keys come in a fixed order,
//! keys whose value is unknown are left out, addresses are hex strings, `ts` is RFC 3339 UTC. A reader ignores keys
//! that it does not know.

use crate::buf::Buf;
use crate::event::{Call, Dim3, End, Op, Outcome, Stamp, Start};
use crate::field;
use crate::units::push_rfc3339;
use crate::{MAX_LINE, SCHEMA_VERSION};

/// A buffer that holds every record of ours.
pub type RecordBuf = Buf<MAX_LINE>;

/// Longest path, argument or host name in a record, bytes once escaped; all arguments together are cut there too.
const TEXT_MAX: usize = 700;
/// Longest kernel name; templates make them long.
const KERNEL_MAX: usize = 3000;

/// The `start` record of a process, line feed included.
pub fn write_start(out: &mut RecordBuf, start: &Start<'_>) {
    out.push_str("{\"v\":");
    out.push_u64(SCHEMA_VERSION.into());
    out.push_str(",\"ev\":\"start\"");
    text(out, "run", start.run.as_bytes());
    stamp(out, start.at);
    number(out, field::PID, start.pid.into());
    number(out, "ppid", start.ppid.into());
    text(out, "exe", start.exe);
    key(out, "cmd");
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
    text(out, "host", start.host);
    text(out, "hook", start.hook.as_bytes());
    if let Some(bytes) = start.quota_bytes {
        number(out, "quota_bytes", bytes);
    }
    if let Some((rate, capacity)) = start.bucket {
        float(out, "rate", rate);
        float(out, "capacity", capacity);
    }
    text(out, "policy", start.policy.name().as_bytes());
    out.push_str("}\n");
}

/// The record of one call, line feed included.
pub fn write_call(out: &mut RecordBuf, call: &Call<'_>) {
    // Destructured whole, so that a new field does not compile until it is written.
    let Call { seq, at, pid, tid, api, sym, dev, op, outcome, ret, real_ns, hook_ns } = *call;
    out.push_str("{\"ev\":\"call\"");
    number(out, field::SEQ, seq);
    stamp(out, at);
    number(out, field::PID, pid.into());
    number(out, field::TID, tid.into());
    text(out, field::API, api.as_bytes());
    text(out, field::SYM, sym.as_bytes());
    if let Some(dev) = dev {
        signed(out, field::DEV, dev.into());
    }
    match op {
        Op::Alloc { size, ptr, .. } => {
            number(out, field::SIZE, size);
            if let Some(ptr) = ptr {
                address(out, field::PTR, ptr);
            }
        }
        Op::Free { ptr, size, .. } => {
            if let Some(size) = size {
                number(out, field::SIZE, size);
            }
            address(out, field::PTR, ptr);
        }
        Op::Launch { grid, block, shmem, stream, kernel, .. } => {
            dim(out, field::GRID, grid);
            dim(out, field::BLOCK, block);
            number(out, field::SHMEM, shmem);
            address(out, field::STREAM, stream);
            if let Some(kernel) = kernel {
                key(out, field::KERNEL);
                quoted(out, kernel.as_bytes(), KERNEL_MAX);
            }
        }
    }
    text(out, field::OUTCOME, outcome.name().as_bytes());
    signed(out, field::RET, ret.into());
    match op {
        Op::Alloc { total, pending, quota, .. } => {
            number(out, field::TOTAL, total);
            number(out, field::PENDING, pending);
            if let (Outcome::Denied, Some(quota)) = (outcome, quota) {
                number(out, field::QUOTA, quota);
            }
        }
        Op::Free { total, .. } => number(out, field::TOTAL, total),
        Op::Launch { tokens, wait_ns, .. } => {
            if let Some(tokens) = tokens {
                float(out, field::TOKENS, tokens);
            }
            number(out, field::WAIT_NS, wait_ns);
        }
    }
    number(out, field::REAL_NS, real_ns);
    number(out, field::HOOK_NS, hook_ns);
    out.push_str("}\n");
}

/// The `end` record of a process, line feed included.
pub fn write_end(out: &mut RecordBuf, end: &End<'_>) {
    out.push_str("{\"ev\":\"end\"");
    stamp(out, end.at);
    number(out, field::PID, end.pid.into());
    key(out, "calls");
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
    number(out, "peak_bytes", end.peak_bytes);
    number(out, "live_bytes", end.live_bytes);
    number(out, "lost", end.lost);
    out.push_str("}\n");
}

fn key(out: &mut RecordBuf, key: &str) {
    out.push_str(",\"");
    out.push_str(key);
    out.push_str("\":");
}

fn number(out: &mut RecordBuf, name: &str, value: u64) {
    key(out, name);
    out.push_u64(value);
}

fn signed(out: &mut RecordBuf, name: &str, value: i64) {
    key(out, name);
    out.push_i64(value);
}

fn float(out: &mut RecordBuf, name: &str, value: f64) {
    key(out, name);
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

fn address(out: &mut RecordBuf, name: &str, value: u64) {
    key(out, name);
    out.push_byte(b'"');
    out.push_hex(value);
    out.push_byte(b'"');
}

fn dim(out: &mut RecordBuf, name: &str, dim: Dim3) {
    key(out, name);
    for (before, value) in ["[", ",", ","].iter().zip([dim.x, dim.y, dim.z]) {
        out.push_str(before);
        out.push_u64(value.into());
    }
    out.push_byte(b']');
}

fn stamp(out: &mut RecordBuf, at: Stamp) {
    key(out, field::TS);
    out.push_byte(b'"');
    push_rfc3339(out, at.wall_ns);
    out.push_byte(b'"');
    number(out, field::MONO_NS, at.mono_ns);
}

fn text(out: &mut RecordBuf, name: &str, bytes: &[u8]) {
    key(out, name);
    quoted(out, bytes, TEXT_MAX);
}

/// A JSON string of at most `max` bytes; bytes that are no UTF-8 become U+FFFD, what is too long ends in `…`.
fn quoted(out: &mut RecordBuf, bytes: &[u8], max: usize) {
    out.push_byte(b'"');
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
        pub tokens: Option<f64>,
        pub wait_ns: Option<u64>,
        pub real_ns: Option<u64>,
        pub hook_ns: Option<u64>,
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
mod tests {
    use super::*;
    use crate::event::Policy;

    fn record(f: impl Fn(&mut RecordBuf)) -> String {
        let mut out = RecordBuf::new();
        f(&mut out);
        assert!(!out.overflowed());
        String::from_utf8(out.as_bytes().to_vec()).expect("UTF-8")
    }

    const AT: Stamp = Stamp { wall_ns: 1_796_024_531_123_456_789, mono_ns: 512_345_678_901 };

    fn start() -> Start<'static> {
        Start {
            run: "5f2c",
            at: AT,
            pid: 412,
            ppid: 400,
            exe: b"/lab/test_hook",
            cmd: b"./test_hook\0",
            host: b"gpu01",
            hook: "0.1.0",
            quota_bytes: Some(134_217_728),
            bucket: Some((5.0, 3.0)),
            policy: Policy::Deny,
        }
    }

    fn call(op: Op<'_>, outcome: Outcome, ret: i32) -> Call<'_> {
        Call {
            seq: 7,
            at: AT,
            pid: 412,
            tid: 413,
            api: "cudaX",
            sym: "__cudaX",
            dev: Some(0),
            op,
            outcome,
            ret,
            real_ns: 5120,
            hook_ns: 230,
        }
    }

    #[test]
    fn records_are_these_bytes() {
        assert_eq!(
            record(|o| write_start(o, &start())),
            "{\"v\":1,\"ev\":\"start\",\"run\":\"5f2c\",\"ts\":\"2026-11-30T07:42:11.123456789Z\",\"mono_ns\":512345678901,\
             \"pid\":412,\"ppid\":400,\"exe\":\"/lab/test_hook\",\"cmd\":[\"./test_hook\"],\"host\":\"gpu01\",\
             \"hook\":\"0.1.0\",\"quota_bytes\":134217728,\"rate\":5.0,\"capacity\":3.0,\"policy\":\"deny\"}\n"
        );
        let head = "{\"ev\":\"call\",\"seq\":7,\"ts\":\"2026-11-30T07:42:11.123456789Z\",\"mono_ns\":512345678901,\
                    \"pid\":412,\"tid\":413,\"api\":\"cudaX\",\"sym\":\"__cudaX\",\"dev\":0,";
        let tail = ",\"real_ns\":5120,\"hook_ns\":230}\n";
        let alloc = Op::Alloc { size: 64, ptr: Some(0x7f00), total: 64, pending: 0, quota: Some(128) };
        let denied = Op::Alloc { size: 640, ptr: None, total: 64, pending: 32, quota: Some(128) };
        let free = Op::Free { ptr: 0x7f00, size: Some(64), total: 0 };
        let unknown = Op::Free { ptr: 0x7f01, size: None, total: 0 };
        let (grid, block) = (Dim3 { x: 1, y: 2, z: 3 }, Dim3 { x: 32, y: 1, z: 1 });
        let launch =
            Op::Launch { grid, block, shmem: 8, stream: 0, kernel: Some("_Z1kv"), tokens: Some(2.0), wait_ns: 0 };
        for (call, body) in [
            (
                call(alloc, Outcome::Ok, 0),
                "\"size\":64,\"ptr\":\"0x7f00\",\"outcome\":\"ok\",\"ret\":0,\"total\":64,\"pending\":0",
            ),
            (
                call(denied, Outcome::Denied, 2),
                "\"size\":640,\"outcome\":\"denied\",\"ret\":2,\"total\":64,\"pending\":32,\"quota\":128",
            ),
            (call(free, Outcome::Ok, 0), "\"size\":64,\"ptr\":\"0x7f00\",\"outcome\":\"ok\",\"ret\":0,\"total\":0"),
            (call(unknown, Outcome::Failed, 1), "\"ptr\":\"0x7f01\",\"outcome\":\"failed\",\"ret\":1,\"total\":0"),
            (
                call(launch, Outcome::Ok, 0),
                "\"grid\":[1,2,3],\"block\":[32,1,1],\"shmem\":8,\"stream\":\"0x0\",\"kernel\":\"_Z1kv\",\
                 \"outcome\":\"ok\",\"ret\":0,\"tokens\":2.0,\"wait_ns\":0",
            ),
        ] {
            assert_eq!(record(|o| write_call(o, &call)), format!("{head}{body}{tail}"));
        }
        let calls = [("cudaMalloc", [3, 1, 0]), ("cudaFree", [1, 0, 0])];
        let end = End { at: AT, pid: 412, calls: &calls, peak_bytes: 67_108_864, live_bytes: 0, lost: 0 };
        assert_eq!(
            record(|o| write_end(o, &end)),
            "{\"ev\":\"end\",\"ts\":\"2026-11-30T07:42:11.123456789Z\",\"mono_ns\":512345678901,\"pid\":412,\
             \"calls\":{\"cudaMalloc\":{\"ok\":3,\"denied\":1,\"failed\":0},\
             \"cudaFree\":{\"ok\":1,\"denied\":0,\"failed\":0}},\
             \"peak_bytes\":67108864,\"live_bytes\":0,\"lost\":0}\n"
        );
    }

    #[test]
    fn the_longest_and_strangest_names_still_make_one_line() {
        let nasty: Vec<u8> = (0..20_000u32).map(|i| [b'"', b'\\', 1, 0xff, b'\n', 0xe6][i as usize % 6]).collect();
        let mut cmd = nasty.clone();
        cmd.truncate(650);
        cmd.push(0);
        cmd.extend_from_slice(&nasty);
        let start = Start { exe: &nasty, cmd: &cmd, host: &nasty, ..start() };
        let text = record(|o| write_start(o, &start));
        assert!(text.len() <= MAX_LINE, "{}", text.len());
        assert_eq!(text.matches('\n').count(), 1);
        let kernel = "一".repeat(5000);
        let op = Op::Launch {
            grid: Dim3 { x: 1, y: 1, z: 1 },
            block: Dim3 { x: 1, y: 1, z: 1 },
            shmem: 0,
            stream: 0,
            kernel: Some(&kernel),
            tokens: None,
            wait_ns: 0,
        };
        let text = record(|o| write_call(o, &call(op, Outcome::Ok, 0)));
        assert!(text.contains("一…\""));
    }

    #[cfg(feature = "read")]
    mod reading {
        use super::*;
        use proptest::prelude::*;

        #[test]
        fn start_and_end_read_back() {
            let Ok(Record::Start(s)) = read(&record(|o| write_start(o, &start()))) else { panic!("a start") };
            assert_eq!((s.v, s.pid, s.ppid, s.cmd.as_slice()), (1, 412, Some(400), &["./test_hook".to_owned()][..]));
            assert_eq!((s.quota_bytes, s.rate, s.capacity), (Some(134_217_728), Some(5.0), Some(3.0)));
            let calls = [("cudaMalloc", [3, 1, 2])];
            let end = End { at: AT, pid: 1, calls: &calls, peak_bytes: u64::MAX, live_bytes: 2, lost: 3 };
            let Ok(Record::End(e)) = read(&record(|o| write_end(o, &end))) else { panic!("an end") };
            assert_eq!((e.peak_bytes, e.live_bytes, e.lost), (Some(u64::MAX), Some(2), Some(3)));
            assert_eq!((e.calls["cudaMalloc"].ok, e.calls["cudaMalloc"].failed), (3, 2));
        }

        #[test]
        fn refuses_what_is_no_record() {
            let call = record(|o| {
                write_call(o, &call(Op::Free { ptr: 1, size: None, total: 0 }, Outcome::Ok, 0));
            });
            assert!(read(call.trim_end()).is_ok());
            for bad in [
                "[]",
                "null",
                "{}",
                "{\"ev\":\"call\"}",
                "{\"ev\":\"other\"}",
                &call.replace("\"ok\"", "\"fine\""),
                &call.replace("\"pid\":412", "\"pid\":\"412\""),
                &call.replace("0x1", "zz"),
                &format!("{}TRAILER", call.trim_end()),
            ] {
                assert!(read(bad).is_err(), "{bad}");
            }
        }

        proptest! {
            #[test]
            fn calls_read_back(seq: u64, mono_ns: u64, size: u64, ptr: u64, total: u64, pending: u64,
                               tokens in 0.0f64..1e9, wait_ns: u64, ret: i32, shmem: u64, kernel in ".{0,40}") {
                let ops = [
                    Op::Alloc { size, ptr: Some(ptr), total, pending, quota: None },
                    Op::Free { ptr, size: Some(size), total },
                    Op::Launch {
                        grid: Dim3 { x: 1, y: 2, z: u32::MAX }, block: Dim3 { x: 4, y: 5, z: 6 },
                        shmem, stream: ptr, kernel: Some(&kernel), tokens: Some(tokens), wait_ns,
                    },
                ];
                for op in ops {
                    let call = Call {
                        seq, at: Stamp { wall_ns: 0, mono_ns }, pid: 1, tid: 2, api: "a", sym: "s", dev: None, op,
                        outcome: Outcome::Failed, ret, real_ns: 3, hook_ns: 4,
                    };
                    let back = match read(&record(|o| write_call(o, &call))) {
                        Ok(Record::Call(c)) => c,
                        other => return Err(TestCaseError::fail(format!("{other:?}"))),
                    };
                    prop_assert_eq!((back.seq, back.mono_ns, back.ret), (seq, Some(mono_ns), Some(ret)));
                    match op {
                        Op::Alloc { .. } => {
                            prop_assert_eq!((back.size, back.ptr), (Some(size), Some(ptr)));
                            prop_assert_eq!((back.total, back.pending), (Some(total), Some(pending)));
                        }
                        Op::Free { .. } => prop_assert_eq!((back.size, back.ptr), (Some(size), Some(ptr))),
                        Op::Launch { .. } => {
                            prop_assert_eq!((back.tokens, back.wait_ns), (Some(tokens), Some(wait_ns)));
                            prop_assert_eq!((back.grid, back.stream), (Some([1, 2, u32::MAX]), Some(ptr)));
                            prop_assert_eq!(back.kernel.as_deref(), Some(kernel.as_str()));
                        }
                    }
                }
            }
        }
    }
}
