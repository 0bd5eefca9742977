//! The records byte for byte, and what is written reads back.

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
        device_quotas: &[],
        shared: None,
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
        hook_ns: Some(230),
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
    let alloc = Op::Alloc { size: 64, ptr: Some(0x7f00), total: 64, pending: 0, refusal: None };
    let denied = Op::Alloc { size: 640, ptr: None, total: 64, pending: 32, refusal: Some(refusal(Scope::Process)) };
    let free = Op::Free { ptr: 0x7f00, size: Some(64), total: 0 };
    let unknown = Op::Free { ptr: 0x7f01, size: None, total: 0 };
    let (grid, block) = (Dim3 { x: 1, y: 2, z: 3 }, Dim3 { x: 32, y: 1, z: 1 });
    let launch = Op::Launch {
        grid,
        block,
        shmem: 8,
        stream: 0,
        kernel: Some("_Z1kv"),
        tokens: Some(2.0),
        wait_ns: 0,
        bypass: false,
    };
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
    let end = End { at: AT, pid: 412, calls: &calls, peak_bytes: 67_108_864, live_bytes: 0, lost: 0, uncounted: None };
    let uncounted = [("cuMemHostRegister_v2", 3), ("cuLaunchGrid", 1)];
    for (uncounted, shown) in [
        (None, ""),
        (Some(&[][..]), ",\"uncounted\":{}"),
        (Some(&uncounted[..]), ",\"uncounted\":{\"cuMemHostRegister_v2\":3,\"cuLaunchGrid\":1}"),
    ] {
        let text = record(|o| write_end(o, &End { uncounted, ..end }));
        assert!(text.ends_with(&format!(",\"lost\":0{shown}}}\n")), "{text}");
    }
    assert_eq!(
        record(|o| write_end(o, &end)),
        "{\"ev\":\"end\",\"ts\":\"2026-11-30T07:42:11.123456789Z\",\"mono_ns\":512345678901,\"pid\":412,\
         \"calls\":{\"cudaMalloc\":{\"ok\":3,\"denied\":1,\"failed\":0},\
         \"cudaFree\":{\"ok\":1,\"denied\":0,\"failed\":0}},\
         \"peak_bytes\":67108864,\"live_bytes\":0,\"lost\":0}\n"
    );
}

fn refusal(scope: Scope) -> Refusal {
    Refusal { scope, quota: 128, total: 60, pending: 30 }
}

#[test]
fn a_denial_names_the_account_that_refused() {
    for (scope, keys) in [
        (Scope::Process, ""),
        (Scope::Device, ",\"dev_total\":60,\"dev_pending\":30"),
        (Scope::Job, ",\"job_total\":60,\"job_pending\":30"),
        (Scope::Unreachable, ",\"unreachable\":true"),
    ] {
        let op = Op::Alloc { size: 640, ptr: None, total: 64, pending: 32, refusal: Some(refusal(scope)) };
        let text = record(|o| write_call(o, &call(op, Outcome::Denied, 2)));
        assert!(text.contains(&format!("\"total\":64,\"pending\":32,\"quota\":128{keys},\"real_ns\"")), "{text}");
    }
}

#[test]
fn device_quotas_and_the_shared_name_stand_in_the_start_record() {
    let start = Start { device_quotas: &[(0, 64), (3, 128)], shared: Some(("train.1", 0xab)), ..start() };
    let text = record(|o| write_start(o, &start));
    let keys = "\"quota_bytes\":134217728,\"dev_quota_bytes\":{\"0\":64,\"3\":128},\"shared\":\"train.1\",\"job\":\"0xab\",\"rate\"";
    assert!(text.contains(keys), "{text}");
}

#[test]
fn a_launch_that_needs_no_token_says_so() {
    let (grid, block) = (Dim3 { x: 2, y: 1, z: 1 }, Dim3 { x: 256, y: 1, z: 1 });
    let op = Op::Launch { grid, block, shmem: 0, stream: 0, kernel: None, tokens: Some(0.5), wait_ns: 0, bypass: true };
    let text = record(|o| write_call(o, &call(op, Outcome::Ok, 0)));
    assert!(text.contains("\"ret\":0,\"bypass\":true,\"tokens\":0.5,"), "{text}");
}

#[test]
fn the_longest_and_strangest_names_still_make_one_line() {
    let nasty: Vec<u8> = (0..20_000u32).map(|i| [b'"', b'\\', 1, 0xff, b'\n', 0xe6][i as usize % 6]).collect();
    let mut cmd = nasty.clone();
    cmd.truncate(650);
    cmd.push(0);
    cmd.extend_from_slice(&nasty);
    let (device_quotas, name) = (std::array::from_fn::<_, 32, _>(|i| (i as u32, u64::MAX)), "x".repeat(64));
    let shared = Some((name.as_str(), u64::MAX));
    let start =
        Start { run: &name, exe: &nasty, cmd: &cmd, host: &nasty, device_quotas: &device_quotas, shared, ..start() };
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
        bypass: false,
    };
    let text = record(|o| write_call(o, &call(op, Outcome::Ok, 0)));
    assert!(text.contains("一…\""));
}

#[cfg(feature = "read")]
mod reading {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn limits_read_back() {
        let start = Start { device_quotas: &[(0, 64), (3, 128)], shared: Some(("train.1", 0xab)), ..start() };
        let Ok(Record::Start(s)) = read(&record(|o| write_start(o, &start))) else { panic!("a start") };
        assert_eq!((s.shared.as_deref(), s.job), (Some("train.1"), Some(0xab)));
        assert_eq!(s.dev_quota_bytes.into_iter().collect::<Vec<_>>(), [("0".to_owned(), 64), ("3".to_owned(), 128)]);
        for scope in [Scope::Process, Scope::Device, Scope::Job, Scope::Unreachable] {
            let op = Op::Alloc { size: 640, ptr: None, total: 60, pending: 30, refusal: Some(refusal(scope)) };
            let Ok(Record::Call(back)) = read(&record(|o| write_call(o, &call(op, Outcome::Denied, 2)))) else {
                panic!("a call")
            };
            assert_eq!(back.refusal(), Some(refusal(scope)));
        }
    }

    #[test]
    fn start_and_end_read_back() {
        let Ok(Record::Start(s)) = read(&record(|o| write_start(o, &start()))) else { panic!("a start") };
        assert_eq!((s.v, s.pid, s.ppid, s.cmd.as_slice()), (1, 412, Some(400), &["./test_hook".to_owned()][..]));
        assert_eq!((s.quota_bytes, s.rate, s.capacity), (Some(134_217_728), Some(5.0), Some(3.0)));
        let calls = [("cudaMalloc", [3, 1, 2])];
        let uncounted = [("cuLaunchGrid", 9)];
        let uncounted = Some(&uncounted[..]);
        let end = End { at: AT, pid: 1, calls: &calls, peak_bytes: u64::MAX, live_bytes: 2, lost: 3, uncounted };
        let Ok(Record::End(e)) = read(&record(|o| write_end(o, &end))) else { panic!("an end") };
        assert_eq!((e.peak_bytes, e.live_bytes, e.lost), (Some(u64::MAX), Some(2), Some(3)));
        assert_eq!(e.uncounted.map(|calls| calls["cuLaunchGrid"]), Some(9));
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
                Op::Alloc { size, ptr: Some(ptr), total, pending, refusal: None },
                Op::Free { ptr, size: Some(size), total },
                Op::Reset { size, total },
                Op::HostAlloc { size, ptr: Some(ptr), total },
                Op::HostFree { ptr, total },
                Op::Graph { graph: ptr, stream: size, tokens: Some(tokens), wait_ns },
                Op::Launch {
                    grid: Dim3 { x: 1, y: 2, z: u32::MAX }, block: Dim3 { x: 4, y: 5, z: 6 },
                    shmem, stream: ptr, kernel: Some(&kernel), tokens: Some(tokens), wait_ns, bypass: true,
                },
            ];
            for op in ops {
                let call = Call {
                    seq, at: Stamp { wall_ns: 0, mono_ns }, pid: 1, tid: 2, api: "a", sym: "s", dev: None, op,
                    outcome: Outcome::Failed, ret, real_ns: 3, hook_ns: (seq % 2 == 0).then_some(4),
                };
                let back = match read(&record(|o| write_call(o, &call))) {
                    Ok(Record::Call(c)) => c,
                    other => return Err(TestCaseError::fail(format!("{other:?}"))),
                };
                prop_assert_eq!((back.seq, back.mono_ns, back.ret), (seq, Some(mono_ns), Some(ret)));
                prop_assert_eq!((back.real_ns, back.hook_ns), (Some(3), call.hook_ns));
                match op {
                    Op::Alloc { .. } => {
                        prop_assert_eq!((back.size, back.ptr), (Some(size), Some(ptr)));
                        prop_assert_eq!((back.total, back.pending), (Some(total), Some(pending)));
                    }
                    Op::Free { .. } => prop_assert_eq!((back.size, back.ptr), (Some(size), Some(ptr))),
                    Op::Graph { .. } => {
                        prop_assert_eq!((back.graph, back.stream), (Some(ptr), Some(size)));
                        prop_assert_eq!((back.tokens, back.wait_ns), (Some(tokens), Some(wait_ns)));
                    }
                    Op::HostAlloc { .. } => {
                        prop_assert_eq!((back.size, back.ptr, back.total), (Some(size), Some(ptr), Some(total)));
                    }
                    Op::HostFree { .. } => {
                        prop_assert_eq!((back.size, back.ptr, back.total), (None, Some(ptr), Some(total)));
                    }
                    Op::Reset { .. } => prop_assert_eq!((back.size, back.total), (Some(size), Some(total))),
                    Op::Launch { .. } => {
                        prop_assert_eq!((back.tokens, back.wait_ns), (Some(tokens), Some(wait_ns)));
                        prop_assert!(back.bypass);
                        prop_assert_eq!((back.grid, back.stream), (Some([1, 2, u32::MAX]), Some(ptr)));
                        prop_assert_eq!(back.kernel.as_deref(), Some(kernel.as_str()));
                    }
                }
            }
        }
    }
}
