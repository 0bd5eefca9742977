//! The lines byte for byte, and what is written reads back.

use super::*;
use crate::event::{Scope, Stamp};

fn call(api: &'static str, op: Op<'static>, outcome: Outcome, ret: i32) -> Call<'static> {
    let at = Stamp { wall_ns: 0, mono_ns: 0 };
    Call { seq: 1, at, pid: 1, tid: 1, api, sym: api, dev: None, op, outcome, ret, real_ns: 0, hook_ns: None }
}

fn line(f: impl Fn(&mut LineBuf)) -> String {
    let mut out = LineBuf::new();
    f(&mut out);
    assert!(!out.overflowed());
    String::from_utf8(out.as_bytes().to_vec()).expect("UTF-8")
}

const ONE: Dim3 = Dim3 { x: 1, y: 1, z: 1 };

fn launch(outcome: Outcome, ret: i32, tokens: Option<f64>, wait_ns: u64) -> Call<'static> {
    let block = Dim3 { x: 32, y: 1, z: 1 };
    let op = Op::Launch { grid: ONE, block, shmem: 0, stream: 0, kernel: None, tokens, wait_ns, bypass: false };
    call("cudaLaunchKernel", op, outcome, ret)
}

fn alloc(outcome: Outcome, ret: i32, size: u64, ptr: Option<u64>, total: u64) -> Call<'static> {
    let refusal = Some(Refusal { scope: Scope::Process, quota: 128 << 20, total, pending: 0 });
    call("cudaMalloc", Op::Alloc { size, ptr, total, pending: 0, refusal }, outcome, ret)
}

#[test]
fn banner_lines_are_the_courses() {
    assert_eq!(line(|o| write_quota(o, Some(128 << 20))), "[HOOK] 显存配额: 128 MB (134217728 bytes)\n");
    assert_eq!(line(|o| write_quota(o, Some(1 << 19))), "[HOOK] 显存配额: 0.5 MB (524288 bytes)\n");
    assert_eq!(line(|o| write_quota(o, Some(104_857))), "[HOOK] 显存配额: 0.1 MB (104857 bytes)\n");
    assert_eq!(line(|o| write_quota(o, Some(1))), "[HOOK] 显存配额: 0.000001 MB (1 bytes)\n");
    assert_eq!(line(|o| write_quota(o, None)), "[HOOK] 显存配额: 无限制 (仅记录)\n");
    assert_eq!(line(|o| write_rate(o, Some((5.0, 3.0)))), "[HOOK] 算力限速: 5 tokens/s, burst 3\n");
    assert_eq!(line(|o| write_rate(o, Some((0.5, 1.0)))), "[HOOK] 算力限速: 0.5 tokens/s, burst 1\n");
    assert_eq!(line(|o| write_rate(o, None)), "[HOOK] 算力限速: 无限制 (仅记录)\n");
}

#[test]
fn call_lines_are_the_courses() {
    let cases = [
        (
            alloc(Outcome::Ok, 0, 67108864, Some(0x7f2c_c600_0000), 67108864),
            "[HOOK] cudaMalloc(67108864) -> 0x7f2cc6000000 | total: 64.0 MB\n",
        ),
        (
            alloc(Outcome::Denied, 2, 2147483648, None, 67108864),
            "[HOOK] cudaMalloc(2147483648) DENIED | total: 64.0 / 128.0 MB\n",
        ),
        (alloc(Outcome::Failed, 2, 5, None, 67108864), "[HOOK] cudaMalloc(5) FAILED(2) | total: 64.0 MB\n"),
        (alloc(Outcome::Ok, 0, 0, Some(0), 0), "[HOOK] cudaMalloc(0) -> (nil) | total: 0.0 MB\n"),
        (
            call("cudaFree", Op::Free { ptr: 0x7f2c_c600_0000, size: Some(67108864), total: 0 }, Outcome::Ok, 0),
            "[HOOK] cudaFree(0x7f2cc6000000) -> 0 | freed: 67108864 bytes | total: 0.0 MB\n",
        ),
        (
            call("cudaFree", Op::Free { ptr: 0, size: None, total: 0 }, Outcome::Ok, 0),
            "[HOOK] cudaFree((nil)) -> 0 | freed: 0 bytes | total: 0.0 MB\n",
        ),
        (
            call("cudaDeviceReset", Op::Reset { size: 67108864, total: 0 }, Outcome::Ok, 0),
            "[HOOK] cudaDeviceReset() -> 0 | freed: 67108864 bytes | total: 0.0 MB\n",
        ),
        (
            call(
                "cudaGraphLaunch",
                Op::Graph { graph: 0x55d0, stream: 0, tokens: Some(2.0), wait_ns: 0 },
                Outcome::Ok,
                0,
            ),
            "[HOOK] cudaGraphLaunch(graph=0x55d0) -> 0 | tokens=2.0\n",
        ),
        (launch(Outcome::Ok, 0, Some(2.0), 0), "[HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) -> 0 | tokens=2.0\n"),
        (
            launch(Outcome::Denied, 4, Some(0.0), 0),
            "[HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) DENIED | tokens=0.0\n",
        ),
        (
            launch(Outcome::Failed, 9, Some(1.0), 0),
            "[HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) -> 9 | tokens=1.0\n",
        ),
        (launch(Outcome::Ok, 0, None, 0), "[HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) -> 0 | tokens=0.0\n"),
        (
            launch(Outcome::Ok, 0, Some(0.0), 200_100_000),
            "[HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) -> 0 | tokens=0.0 | waited: 200.1 ms\n",
        ),
    ];
    for (call, want) in cases {
        assert_eq!(line(|o| write_call(o, &call)), want);
    }
}

#[test]
fn a_denial_shows_the_account_that_refused() {
    let of = |scope| {
        let refusal = Some(Refusal { scope, quota: 128 << 20, total: 64 << 20, pending: 0 });
        let op = Op::Alloc { size: 5, ptr: None, total: 1 << 20, pending: 0, refusal };
        line(|o| write_call(o, &call("cudaMalloc", op, Outcome::Denied, 2)))
    };
    for scope in [Scope::Device, Scope::Job] {
        assert_eq!(of(scope), "[HOOK] cudaMalloc(5) DENIED | total: 64.0 / 128.0 MB\n");
    }
}

#[test]
fn the_line_of_shared_limits_is_this() {
    assert_eq!(line(|o| write_shared(o, "train.1")), "[HOOK] 共享限额: train.1\n");
}

#[test]
fn a_long_warning_is_cut_between_characters() {
    let text = line(|o| write_warning(o, &"超".repeat(1000)));
    assert!(text.ends_with("超\n") && text.len() < 1024);
}

#[cfg(feature = "read")]
mod reading {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_the_forms_that_students_write() {
        let free = |text: &str| match read(text) {
            Some(Line::Free { ptr, freed, ret, .. }) => (ptr, freed, ret),
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(free("[HOOK] cudaFree(0x7F00) -> 0"), (0x7f00, None, Some(0)));
        assert_eq!(free("[HOOK] cudaFree(0x7f00) freed 4194304 bytes"), (0x7f00, Some(4194304), None));
        assert_eq!(free("[HOOK] cudaFree((nil)) -> 0 | freed: 0 bytes | total: 0.0 MB"), (0, Some(0), Some(0)));
        for (text, freed) in [
            ("cudaFree(0x7f00)", None),
            ("cudaFree(0x7f00) size=4194304 | total: 0.0 MB", Some(4194304)),
            ("cudaFree(0x7f00) | freed 4194304", Some(4194304)),
            ("cudaFree(0x7f00, 4194304) -> 0", Some(4194304)),
            ("cudaFree(ptr=0x7f00) -> 0 | -4194304 bytes", Some(4194304)),
            ("cudaFree(0x7f00) freed 4.0 MB", None),
            ("cudaFree(0x7f00) freed 4 MB", None),
            ("cudaFree(0x7f00) freed: 4MiB, total: 60 MB", None),
            ("cudaFree(0x7f00) freed 4,0 MB", None),
            ("cudaFree(0x7f00, 4 MB) -> 0", None),
            ("cudaFree(0x7f00, size=134217728 bytes) -> 0", Some(134217728)),
            ("cudaFree(0x7f00) size=4194304, total=60 MB", Some(4194304)),
            ("cudaFree called, ptr = 0x7f00", None),
            ("cudaFree 0x7f00 ok", None),
            ("释放 0x7f00 (4194304 字节)", Some(4194304)),
        ] {
            assert_eq!(free(&format!("[HOOK] {text}")).0, 0x7f00, "{text}");
            assert_eq!(free(&format!("[HOOK] {text}")).1, freed, "{text}");
        }
        for (text, ret) in [
            ("cudaFree(0x7f00) -> 700", Some(700)),
            ("cudaFree(0x7f00) -> ret=1", Some(1)),
            ("cudaFree(0x7f00) FAILED(1)", Some(1)),
            ("cudaFree(0x7f00): size 64, ret = 0", Some(0)),
            ("cudaFree(0x7f00) not in the table", None),
        ] {
            assert_eq!(free(&format!("[HOOK] {text}")).2, ret, "{text}");
        }
        let Some(Line::Launch { tokens, .. }) =
            read("[HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) -> 0 | tokens=-700.5")
        else {
            panic!("a launch")
        };
        assert_eq!(tokens, -700.5);
    }

    #[test]
    fn a_locales_decimal_comma_is_read_wherever_a_decimal_is() {
        for text in [
            "[HOOK] 显存配额: 128.5 MB (134742016 bytes)",
            "[HOOK] 算力限速: 0.5 tokens/s, burst 3.5",
            "[HOOK] cudaMalloc(64) -> 0x7f00 | total: 64.5 MB",
            "[HOOK] cudaMalloc(64) DENIED | total: 64.5 / 128.5 MB",
            "[HOOK] cudaMalloc(64) FAILED(2) | total: 64.5 MB",
            "[HOOK] cudaFree(0x7f00) -> 0 | freed: 64 bytes | total: 64.5 MB",
            "[HOOK] cudaDeviceReset() -> 0 | freed: 64 bytes | total: 64.5 MB",
            "[HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) -> 0 | tokens=2.5 | waited: 200.5 ms",
            "[HOOK] cudaGraphLaunch(graph=0x7f00) DENIED | tokens=0.5",
        ] {
            // The only points are those of decimals.
            let (with_point, with_commas) = (read(text), text.replace('.', ","));
            assert!(with_point.is_some(), "{text}");
            assert_eq!(read(&with_commas), with_point, "{with_commas}");
        }
    }

    #[test]
    fn rejects_what_is_not_whole() {
        for text in [
            "[HOOK] cudaLaunchKernel(grid=",
            "[HOOK] cudaMalloc(67108864) -> 0x7f2c",
            "[HOOK] cudaFree(0x7f2c",
            "[HOOK] cudaFree(",
            "[HOOK] cudaFree(0x10000000000000000) -> 0",
            "[HOOK] cudaMalloc(18446744073709551616) -> 0x7f | total: 0.0 MB",
            "[HOOK] cudaMalloc(5) -> 0x7f | total: 0.0 MBX",
            "[HOOK] cudaLaunchKernel(grid=1,1,4294967296 block=32,1,1) -> 0 | tokens=2.0",
            "[HOOK] hello",
            &format!("[HOOK] 算力限速: 1{} tokens/s, burst 3", "0".repeat(400)),
            &format!("[HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) -> 0 | tokens={}.0", "9".repeat(400)),
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        assert!(read("[HOOK] cudaMalloc(18446744073709551615) DENIED | total: 0.0 / 1.0 MB").is_some());
    }

    fn any_op() -> impl Strategy<Value = (Op<'static>, Outcome, i32)> {
        let alloc = (any::<u64>(), 1u64.., any::<u64>(), 0usize..3).prop_map(|(size, ptr, total, o)| {
            let outcome = Outcome::ALL[o];
            let ptr = (outcome == Outcome::Ok).then_some(ptr);
            let ret = if outcome == Outcome::Ok { 0 } else { 2 };
            let refusal = Some(Refusal { scope: Scope::Job, quota: total, total, pending: 0 });
            (Op::Alloc { size, ptr, total, pending: 0, refusal }, outcome, ret)
        });
        let free = (any::<u64>(), any::<u64>(), any::<u64>())
            .prop_map(|(ptr, size, total)| (Op::Free { ptr, size: Some(size), total }, Outcome::Ok, 0));
        let launch = (any::<[u32; 6]>(), 0.0f64..1e6, 0usize..3, 0u64..1 << 50).prop_map(|(d, tokens, o, wait_ns)| {
            let outcome = Outcome::ALL[o];
            let grid = Dim3 { x: d[0], y: d[1], z: d[2] };
            let block = Dim3 { x: d[3], y: d[4], z: d[5] };
            let op = Op::Launch {
                grid,
                block,
                shmem: 0,
                stream: 0,
                kernel: None,
                tokens: Some(tokens),
                wait_ns,
                bypass: false,
            };
            (op, outcome, [0, 4, 98][o])
        });
        let reset = (any::<u64>(), any::<u64>()).prop_map(|(size, total)| (Op::Reset { size, total }, Outcome::Ok, 0));
        let graph = (any::<u64>(), 0.0f64..1e6, 0usize..3).prop_map(|(graph, tokens, o)| {
            (Op::Graph { graph, stream: 0, tokens: Some(tokens), wait_ns: 0 }, Outcome::ALL[o], [0, 4, 98][o])
        });
        let host = (any::<u64>(), 1u64.., any::<u64>()).prop_flat_map(|(size, ptr, total)| {
            let alloc = (Op::HostAlloc { size, ptr: Some(ptr), total }, Outcome::Ok, 0);
            let failed = (Op::HostAlloc { size, ptr: None, total }, Outcome::Failed, 2);
            prop_oneof![Just(alloc), Just(failed), Just((Op::HostFree { ptr, total }, Outcome::Ok, 0))]
        });
        prop_oneof![alloc, free, launch, reset, graph, host]
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back((op, outcome, ret) in any_op()) {
            let name = match op {
                Op::Free { .. } | Op::HostFree { .. } => "cudaAnyFree",
                Op::Reset { .. } => "cudaAnyReset",
                Op::Alloc { .. } | Op::HostAlloc { .. } | Op::Launch { .. } | Op::Graph { .. } => "cudaAnything",
            };
            let call = call(name, op, outcome, ret);
            let text = line(|o| write_call(o, &call));
            let back = read(text.trim_end());
            let said = |value: f64| format!("{value:.1}");
            match (op, back) {
                (
                    Op::Alloc { size, ptr, .. } | Op::HostAlloc { size, ptr, .. },
                    Some(Line::Alloc { size: s, ptr: p, outcome: o, .. }),
                ) => {
                    prop_assert_eq!((size, ptr, outcome), (s, p, o));
                }
                (Op::Free { ptr, size, .. }, Some(Line::Free { ptr: p, freed, .. })) => {
                    prop_assert_eq!((ptr, size), (p, freed));
                }
                (Op::HostFree { ptr, .. }, Some(Line::Free { ptr: p, freed: None, .. })) => prop_assert_eq!(ptr, p),
                (Op::Graph { graph, tokens, .. }, Some(Line::Graph { graph: g, outcome: o, tokens: t, .. })) => {
                    prop_assert_eq!((graph, outcome), (g, o));
                    prop_assert_eq!(tokens.map(said), Some(said(t)));
                }
                (Op::Reset { size, .. }, Some(Line::Reset { freed, ret: 0, .. })) => prop_assert_eq!(size, freed),
                (
                    Op::Launch { grid, block, tokens, wait_ns, .. },
                    Some(Line::Launch { grid: g, block: b, outcome: o, tokens: t, waited_ms, .. }),
                ) => {
                    prop_assert_eq!((grid, block, outcome), (g, b, o));
                    prop_assert_eq!(said(tokens.expect("set above")), said(t));
                    prop_assert_eq!(waited_ms.map(said), (wait_ns > 0).then(|| said(wait_ns as f64 / 1e6)));
                }
                (_, back) => prop_assert!(false, "{} read as {:?}", text, back),
            }
        }

        #[test]
        fn no_text_makes_it_panic(tail in ".{0,80}") {
            let _ = read(&format!("[HOOK] {tail}"));
        }
    }
}
