//! Every way of the runtime API to take device memory and to launch, each counted and limited.

use hook_event::Outcome;

use crate::common::{calls, lines_match_records};

const TAKES: [(&str, &str); 6] = [
    ("cudaMallocManaged", "cudaMallocManaged"),
    ("cudaMallocAsync", "cudaMallocAsync"),
    ("cudaMallocAsync_ptsz", "cudaMallocAsync"),
    ("cudaMallocFromPoolAsync", "cudaMallocFromPoolAsync"),
    ("cudaMallocFromPoolAsync_ptsz", "cudaMallocFromPoolAsync"),
    ("cudaMalloc", "cudaMalloc"),
];

#[test]
fn every_allocation_function_is_charged_and_refused() {
    for (symbol, api) in TAKES {
        let take = |name: &str, size: &str| format!("take {symbol} {name} {size}");
        let done =
            calls(&[&take("a", "100M"), &take("b", "100M"), "is-null b", "last", "live", "free a", &take("b", "100M")])
                .quota("128")
                .run()
                .ok();
        assert_eq!(done.codes(), [0, 2, 1, 2, 100 << 20, 0, 0], "{symbol}");
        lines_match_records(&done);
        let process = done.process();
        process.replay();
        assert_eq!(process.outcomes(api), (2, 1, 0), "{symbol}");
        assert_eq!(process.calls[0].sym.as_deref(), Some(symbol));
    }
}

#[test]
fn stream_ordered_memory_comes_and_goes_with_the_same_totals() {
    for (take, free) in [
        ("take cudaMallocAsync a 64M", "free-async a"),
        ("take cudaMallocFromPoolAsync_ptsz a 64M", "free-async a cudaFreeAsync_ptsz"),
    ] {
        let done = calls(&[take, free, take, free, take, free]).quota("64").run().ok();
        assert_eq!(done.codes(), [0; 6]);
        let totals: Vec<_> = done.process().calls.iter().filter_map(|call| call.total).collect();
        assert_eq!(totals, [64 << 20, 0, 64 << 20, 0, 64 << 20, 0]);
        assert_eq!(done.process().outcomes("cudaFreeAsync"), (3, 0, 0));
        done.process().replay();
    }
}

#[test]
fn pitched_memory_is_charged_with_its_padding() {
    // Rows of 100 bytes take 512.
    let done = calls(&["pitch a 100,1000", "cube b 100,10,100", "live", "free a", "free b"]).run().ok();
    assert_eq!(done.codes(), [0, 0, 1_024_000, 0, 0]);
    let process = done.process();
    let sizes: Vec<_> = process.calls.iter().map(|call| (call.api.as_str(), call.size)).collect();
    assert_eq!(sizes[0], ("cudaMallocPitch", Some(512_000)));
    assert_eq!(sizes[1], ("cudaMalloc3D", Some(512_000)));
    process.replay();
    lines_match_records(&done);
}

/// 0.5 MB hold 1000 rows of 100 bytes, but not of 512 and some: the runtime has given the block when that is known.
#[test]
fn padding_that_does_not_fit_the_quota_is_refused_and_given_back() {
    for command in ["pitch a 100,2000", "cube a 100,20,100"] {
        let done = calls(&[command, "is-null a", "live", "last", "malloc b 512K"]).quota("0.5").run().ok();
        assert_eq!(done.codes(), [2, 1, 0, 2, 0], "{command}");
        let process = done.process();
        assert_eq!((process.calls[0].outcome, process.calls[0].size), (Outcome::Denied, Some(1_024_000)));
        process.replay();
    }
}

#[test]
fn a_size_that_overflows_is_refused() {
    let done =
        calls(&["pitch a 9223372036854775807,9", "cube a 9223372036854775807,9,9", "live"]).quota("1").run().ok();
    assert_eq!(done.codes(), [2, 2, 0]);
    done.process().replay();
}

#[test]
fn every_other_launch_function_is_limited_under_its_own_name() {
    for (symbol, api) in [
        ("cudaLaunchKernelExC", "cudaLaunchKernelExC"),
        ("cudaLaunchKernelExC_ptsz", "cudaLaunchKernelExC"),
        ("cudaLaunchCooperativeKernel", "cudaLaunchCooperativeKernel"),
        ("cudaLaunchCooperativeKernel_ptsz", "cudaLaunchCooperativeKernel"),
    ] {
        let command = format!("2x launch {symbol} 2,3,4 5,6,7");
        let done = calls(&[&command, "last", "launches"]).bucket("0.2", "1").run().ok();
        assert_eq!(done.codes(), [0, 4, 4, 1], "{symbol}");
        lines_match_records(&done);
        let process = done.process();
        assert_eq!(process.outcomes(api), (1, 1, 0));
        for call in process.calls {
            assert_eq!(call.sym.as_deref(), Some(symbol));
            assert_eq!((call.grid, call.block), (Some([2, 3, 4]), Some([5, 6, 7])));
        }
    }
}

#[test]
fn a_null_launch_configuration_is_the_runtimes_to_judge_and_not_counted() {
    let done = calls(&["launch-ex-null", "launch"]).bucket("0.2", "1").run().ok();
    assert_eq!(done.codes(), [9, 0]);
    assert_eq!(done.process().calls.len(), 1);
}

#[test]
fn a_device_reset_gives_everything_back() {
    let done = calls(&["malloc a 100M", "malloc b 20M", "reset", "live", "malloc a 128M"]).quota("128").run().ok();
    assert_eq!(done.codes(), [0, 0, 0, 0, 0]);
    lines_match_records(&done);
    let process = done.process();
    assert_eq!((process.calls[2].api.as_str(), process.calls[2].size), ("cudaDeviceReset", Some(120 << 20)));
    process.replay();
    assert!(done.call_lines()[2].starts_with("[HOOK] cudaDeviceReset() -> 0 | freed: 125829120 bytes | total: 0.0 MB"));
}

#[test]
fn memory_information_stays_within_the_quota() {
    let done =
        calls(&["total-mb", "free-mb", "malloc a 100M", "free-mb", "malloc b 28M", "free-mb"]).quota("128").run().ok();
    assert_eq!(done.codes(), [128, 128, 0, 28, 0, 0]);
    let done = calls(&["total-mb", "malloc a 100M", "free-mb"]).run().ok();
    assert_eq!(done.codes(), [8192, 0, 8092], "without a quota the runtime's answer stands");
    // A quota beyond what the device has promises nothing.
    let done = calls(&["total-mb", "free-mb"]).quota("100000").run().ok();
    assert_eq!(done.codes(), [8192, 8192]);
}

#[test]
fn launches_carry_their_kernels_name() {
    let done = calls(&[
        "launch",
        "register _Z1kPf",
        "launch",
        "launch cudaLaunchKernelExC",
        "launch __cudaLaunchKernel",
        "launch",
        "unregister",
        "launch",
        "register _Z5otheri",
        "launch",
    ])
    .bucket("0.1", "3")
    .run()
    .ok();
    let names: Vec<_> = done.process().calls.into_iter().map(|call| (call.kernel, call.outcome)).collect();
    let name = |text: &str| Some(text.to_owned());
    let want = [
        (None, Outcome::Ok),
        (name("_Z1kPf"), Outcome::Ok),
        (name("_Z1kPf"), Outcome::Ok),
        (name("_Z1kPf"), Outcome::Denied),
        (name("_Z1kPf"), Outcome::Denied),
        (None, Outcome::Denied),
        (name("_Z5otheri"), Outcome::Denied),
    ];
    assert_eq!(names, want);
}

#[test]
fn a_graph_takes_one_token() {
    for symbol in ["cudaGraphLaunch", "cudaGraphLaunch_ptsz"] {
        let graph = format!("2x graph {symbol}");
        let done = calls(&[&graph, "last", "launches"]).bucket("0.2", "1").run().ok();
        assert_eq!(done.codes(), [0, 4, 4, 1], "{symbol}");
        assert_eq!(
            done.call_lines(),
            [
                "[HOOK] cudaGraphLaunch(graph=0x55d0) -> 0 | tokens=0.0",
                "[HOOK] cudaGraphLaunch(graph=0x55d0) DENIED | tokens=0.0"
            ]
        );
        lines_match_records(&done);
        assert_eq!(done.process().calls[1].sym.as_deref(), Some(symbol));
    }
}

#[test]
fn arrays_are_charged_with_their_texels() {
    // Texels of 16 bytes.
    let done =
        calls(&["array a 1024,1024", "array3 b 64,64,64", "mip c 8,8,4", "array d 8192,1024", "is-null d", "live"])
            .quota("64")
            .run()
            .ok();
    let mip = 16 * (64 + 16 + 4 + 1);
    assert_eq!(done.codes()[..5], [0, 0, 0, 2, 1]);
    lines_match_records(&done);
    let process = done.process();
    let sizes: Vec<_> = process.calls.iter().filter_map(|call| call.size).collect();
    assert_eq!(sizes, [16 << 20, 4 << 20, mip, 128 << 20]);
    process.replay();
    let done = calls(&["array a 1024,1024", "free-array a", "mip a 8,8,4", "free-mip a", "free-array a"]).run().ok();
    assert_eq!(done.codes(), [0, 0, 0, 0, 1]);
    let totals: Vec<_> = done.process().calls.iter().filter_map(|call| call.total).collect();
    assert_eq!(totals, [16 << 20, 0, mip, 0, 0]);
    done.process().replay();
}
