//! What a fast reader takes, the obvious one reads the same; and it takes what the hook writes.

use hook_event::course::LineBuf;
use hook_event::json::RecordBuf;
use hook_event::{Call, Dim3, Op, Outcome, Refusal, Scope, Stamp, course, json};
use proptest::prelude::*;

use super::alike::{Fast, obvious};

/// What is taken is what the obvious reader reads. Whether it was taken.
fn agree(line: &[u8]) -> bool {
    // Again: then the beginning is known. And again: then it is expected behind itself.
    let mut fast = Fast::default();
    let taken = fast.agrees(line);
    for _ in 0..2 {
        assert_eq!(fast.agrees(line), taken, "{}", String::from_utf8_lossy(line));
    }
    taken
}

fn data() -> Vec<Vec<u8>> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut lines = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "log" || ending == "jsonl") {
            let bytes = std::fs::read(path).unwrap();
            lines.extend(bytes.split_inclusive(|&byte| byte == b'\n').map(<[u8]>::to_vec));
        }
    }
    lines
}

#[test]
fn every_call_of_the_real_logs_is_taken_and_read_alike() {
    let mut taken = 0;
    for line in data() {
        let is_call = obvious(line.strip_suffix(b"\n").unwrap_or(&line)).is_some_and(|found| {
            !["Quota", "Rate", "Shared", "Warning", "Start", "End"].iter().any(|other| found.starts_with(other))
        });
        // Another limiter's, which has the same tag.
        let ours = !line.starts_with(b"[HOOK] malloc(")
            && (line.starts_with(b"[HOOK] ") || line.starts_with(b"{\"ev\":\"call\""));
        if line.ends_with(b"\n") && is_call && ours {
            assert!(agree(&line), "{}", String::from_utf8_lossy(&line));
            taken += 1;
        }
    }
    assert!(taken > 500, "{taken}");
}

/// A record with these keys in the place of a denial's.
fn denied(keys: &str) -> String {
    format!(
        "{{\"ev\":\"call\",\"seq\":1,\"ts\":\"2026-11-30T07:42:11.123456789Z\",\"mono_ns\":1,\"pid\":1,\"tid\":1,\
         \"api\":\"cudaMalloc\",\"sym\":\"cudaMalloc\",\"size\":9,\"outcome\":\"denied\",\"ret\":2,\"total\":5,\
         \"pending\":3{keys},\"real_ns\":0,\"hook_ns\":1}}\n"
    )
}

#[test]
fn whose_quota_refused_is_read_alike() {
    for (keys, taken) in [
        (",\"quota\":8", true),
        (",\"quota\":8,\"dev_total\":6,\"dev_pending\":1", true),
        (",\"quota\":8,\"job_total\":6,\"job_pending\":1", true),
        (",\"quota\":8,\"unreachable\":true", true),
        (",\"bypass\":true,\"tokens\":0.5", true),
        ("", true),
        (",\"quota\":8,\"unreachable\":false", false),
        (",\"bypass\":false", false),
        (",\"bypass\":true,\"bypass\":true", false),
        (",\"unreachable\":true", false),
        (",\"dev_total\":6,\"dev_pending\":1", false),
        (",\"quota\":8,\"dev_total\":6", false),
        (",\"quota\":8,\"job_pending\":1,\"job_total\":6", false),
        (",\"quota\":8,\"dev_total\":6,\"dev_pending\":1,\"job_total\":7,\"job_pending\":1", false),
        (",\"quota\":8,\"dev_total\":6,\"dev_pending\":1,\"unreachable\":true", false),
        (",\"quota\":null", false),
        (",\"later\":1", false),
    ] {
        assert_eq!(agree(denied(keys).as_bytes()), taken, "{keys}");
    }
}

#[test]
fn odd_forms_are_read_alike_or_left_alone() {
    for line in [
        "[HOOK] cudaFree(0x7f00) -> 0\n",
        "[HOOK] cudaFree((nil)) -> 0 | freed: 0 bytes | total: 0.0 MB\r\n",
        "[HOOK] cu2Free(0x7f00) -> 0\n",
        "[HOOK] cudaMalloc(0) -> (nil) | total: 0.0 MB\n",
        "[HOOK] cudaMalloc(007) -> 0X7F00 | total: 00.0 MB\n",
        "[HOOK] cudaMalloc(0x10) -> 0x7f00 | total: 0.0 MB\n",
        "[HOOK] cudaMalloc(18446744073709551615) DENIED | total: 1.0 / 2.0 MB\n",
        "[HOOK] cudaMalloc(18446744073709551616) DENIED | total: 1.0 / 2.0 MB\n",
        "[HOOK] cudaMalloc(5) FAILED(-2147483648) | total: 1.0 MB\n",
        "[HOOK] cudaMalloc(5) FAILED(2147483648) | total: 1.0 MB\n",
        "[HOOK] cudaMalloc(5) -> 0x10000000000000000 | total: 1.0 MB\n",
        "[HOOK] cudaMalloc(5) -> 0x7f00 | total: 100000000000000.0 MB\n",
        "[HOOK] cudaMalloc(5) -> 0x7f00 | total: 99999999999999.9 MB\n",
        "[HOOK] cudaLaunchKernel(grid=1,1,4294967296 block=1,1,1) -> 0 | tokens=1.0\n",
        "[HOOK] cudaLaunchKernel(grid=1,1,1 block=032,1,1) -> -0 | tokens=-0.0 | waited: 3.5 ms\n",
        "[HOOK] 2launch(grid=1,1,1 block=1,1,1) -> 0 | tokens=1.0\n",
        "[HOOK] cudaGraphLaunch(graph=0x7f00) -> 98 | tokens=2,0\n",
        "[HOOK] 共享限额: train\n",
        "[HOOK] 显存配额: 128 MB (134217728 bytes)\n",
        "[HOOK] cuMemCreate(67108864) -> 0x10 | total: 64.0 MB\n",
        "[HOOK] cuMemHostAlloc(5) -> 0x7f00 | total: 64.0 MB\n",
        "[HOOK] cuDevicePrimaryCtxReset_v2() -> 0 | freed: 32 bytes | total: 64.0 MB\n",
        "[HOOK] x(graph=(nil)) DENIED | tokens=0.0\n",
        "[HOOK] cudaLaunchKernel(grid=1,1,1 block=1,1,1) -> 0 | tokens=1.0 [HOOK] cudaFree(0x7f00) -> 0\n",
    ] {
        agree(line.as_bytes());
    }
}

prop_compose! {
    fn calls()(
        seq in 1u64.., size: u64, ptr: u64, total: u64, quota: Option<u64>, tokens in prop::option::of(-1e9f64..1e9),
        wait_ns in 0u64..1 << 40, ret in prop_oneof![Just(0), any::<i32>()], what in 0usize..8, outcome in 0usize..3,
        grid: [u32; 3], block in prop::array::uniform3(1u32..1024), wall_ns in 0i64..i64::MAX, mono_ns: u64,
        dev in prop::option::of(0i32..8), named: bool, pid: u32, bypass: bool,
        scope in prop::sample::select(&[Scope::Process, Scope::Device, Scope::Job, Scope::Unreachable][..]),
        refused in prop::option::of(any::<[u64; 3]>()),
    ) -> (Vec<u8>, Vec<u8>) {
        let dim = |[x, y, z]: [u32; 3]| Dim3 { x, y, z };
        let outcome = Outcome::ALL[outcome];
        let ptr_if = (outcome == Outcome::Ok).then_some(ptr);
        // The hook tells the process's own account, or one that is nobody's, by the process's figures.
        let refusal = refused.map(|[quota, total, pending]| Refusal { scope, quota, total, pending });
        let (api, op) = match what {
            0 => ("cudaMallocAsync", Op::Alloc { size, ptr: ptr_if, total, pending: 0, refusal }),
            1 => ("cuMemFree_v2", Op::Free { ptr, size: quota, total }),
            2 => ("cudaDeviceReset", Op::Reset { size, total }),
            3 => ("cudaMallocHost", Op::HostAlloc { size, ptr: ptr_if, total }),
            4 => ("cudaFreeHost", Op::HostFree { ptr, total }),
            5 => ("cuMemCreate", Op::Alloc { size, ptr: ptr_if, total, pending: mono_ns, refusal }),
            6 => ("cudaGraphLaunch", Op::Graph { graph: ptr, stream: 0, tokens, wait_ns }),
            _ => {
                let kernel = named.then_some("_Z12dummy_kernelPfi");
                let (grid, block) = (dim(grid), dim(block));
                let op = Op::Launch { grid, block, shmem: size, stream: 7, kernel, tokens, wait_ns, bypass };
                ("cudaLaunchKernel", op)
            }
        };
        let at = Stamp { wall_ns, mono_ns };
        let sym = "__cudaLaunchKernel";
        let call = Call { seq, at, pid, tid: pid, api, sym, dev, op, outcome, ret, real_ns: size, hook_ns: (seq % 3 > 0).then_some(1) };
        let (mut line, mut record) = (LineBuf::new(), RecordBuf::new());
        course::write_call(&mut line, &call);
        json::write_call(&mut record, &call);
        (line.as_bytes().to_vec(), record.as_bytes().to_vec())
    }
}

/// Whether a record is one that the fast reader must take: no level that is no number, none with an exponent, no number
/// of 20 digits, none of the year whose nanoseconds end in its midst.
fn is_simple(record: &[u8]) -> bool {
    let text = std::str::from_utf8(record).unwrap();
    let digits = text.split(|c: char| !c.is_ascii_digit()).map(str::len).max();
    digits < Some(20) && !text.contains("null") && !text.contains("\"ts\":\"2262-")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_the_hook_writes_is_read_alike((line, record) in calls()) {
        agree(&line);
        assert!(agree(&record) || !is_simple(&record), "{}", String::from_utf8_lossy(&record));
    }

    #[test]
    fn damaged_lines_are_read_alike_or_left_alone(
        (line, record) in calls(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0u8..4), 1..4),
    ) {
        for mut bytes in [line, record] {
            for (at, byte, what) in &edits {
                let at = at.index(bytes.len());
                match what {
                    0 => bytes[at] = *byte,
                    // Digits and signs where others stood make the most plausible damage.
                    1 => bytes[at] = b"0123456789.,-+eE\"\\ "[usize::from(*byte) % 19],
                    2 => bytes.insert(at, *byte),
                    _ => { bytes.remove(at); }
                }
                bytes.retain(|&byte| byte != b'\n');
                bytes.push(b'\n');
            }
            agree(&bytes);
        }
    }
}
