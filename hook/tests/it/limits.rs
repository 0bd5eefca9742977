//! Limits beyond the process's own: quotas of single devices, launches that need no token.

use hook_event::{Outcome, Refusal, Scope};

use crate::common::{MB, calls, lines_match_records};

// --- Quotas of devices -------------------------------------------------------------------------------------------

#[test]
fn a_devices_quota_holds_beside_the_processs() {
    let done = calls(&[
        "malloc a 64M",
        "malloc b 65M",
        "device 1",
        "malloc b 65M",
        "malloc c 64M",
        "device 0",
        "free a",
        "malloc a 127M",
        "device 1",
        "free-mb",
        "total-mb",
    ])
    .quota("192")
    .env("CUDA_MEM_QUOTA_MB_0", "128")
    .env("CUDA_SIM_DEVICES", "2")
    .run()
    .ok();
    assert_eq!(done.codes(), [0, 2, 0, 0, 2, 0, 0, 0, 0, 0, 192]);
    lines_match_records(&done);
    let process = done.process();
    assert_eq!(process.start.dev_quota_bytes.into_iter().collect::<Vec<_>>(), [("0".to_owned(), 128 * MB)]);
    let lines = done.call_lines();
    assert_eq!(lines[1], "[HOOK] cudaMalloc(68157440) DENIED | total: 64.0 / 128.0 MB");
    // The process's quota refuses on the device that has none of its own.
    assert_eq!(lines[3], "[HOOK] cudaMalloc(67108864) DENIED | total: 129.0 / 192.0 MB");
    let refusals: Vec<_> = process.calls.iter().filter_map(|call| call.refusal()).collect();
    let of = |scope, quota: u64, total: u64| Refusal { scope, quota: quota * MB, total: total * MB, pending: 0 };
    assert_eq!(refusals, [of(Scope::Device, 128, 64), of(Scope::Process, 192, 129)]);
    assert_eq!(process.calls[1].total, Some(64 * MB));
}

/// 16 threads at once, slow real calls: exactly what fits passes on the device.
#[test]
fn a_devices_quota_holds_under_threads() {
    let done = crate::common::job("rush", &["16", "64"])
        .env("CUDA_MEM_QUOTA_MB_0", "128")
        .env("CUDA_SIM_MALLOC_DELAY_US", "3000")
        .run()
        .ok();
    let process = done.process();
    assert_eq!(process.outcomes("cudaMalloc"), (2, 14, 0));
    process.replay();
}

#[test]
fn memory_of_a_device_is_answered_within_its_quota() {
    let done = calls(&["malloc a 64M", "free-mb", "total-mb", "device 1", "free-mb", "total-mb"])
        .quota("512")
        .env("CUDA_MEM_QUOTA_MB_0", "100")
        .env("CUDA_SIM_DEVICES", "2")
        .run()
        .ok();
    assert_eq!(done.codes(), [0, 36, 100, 0, 448, 512]);
}

#[test]
fn a_device_that_is_reset_has_its_quota_back() {
    let done =
        calls(&["malloc a 128M", "device 1", "malloc b 64M", "device 0", "reset", "malloc a 128M", "malloc c 1"])
            .env("CUDA_MEM_QUOTA_MB_0", "128")
            .env("CUDA_SIM_DEVICES", "2")
            .run()
            .ok();
    assert_eq!(done.codes(), [0, 0, 0, 0, 0, 0, 2]);
}

#[test]
fn misspelt_device_quotas_are_each_named_once() {
    let names = ["CUDA_MEM_QUOTA_MB_x", "CUDA_MEM_QUOTA_MB_-1", "CUDA_MEM_QUOTA_MB_01"];
    let job = names.iter().fold(calls(&["malloc a 1G"]), |job, name| job.env(name, "128"));
    let done = job.run().ok();
    assert_eq!(done.codes(), [0]);
    let warnings = done.warnings();
    assert_eq!(warnings.len(), 3);
    for name in names {
        assert_eq!(warnings.iter().filter(|text| text.contains(&format!("{name} "))).count(), 1, "{warnings:?}");
    }
}

// --- Launches without a token ------------------------------------------------------------------------------------

#[test]
fn small_launches_of_large_blocks_take_no_token() {
    let done = calls(&[
        "launch cudaLaunchKernel 2,1,1 16,16,1",
        "launch",
        "launch",
        "3x launch cudaLaunchKernelExC 1,2,1 256,1,1",
        "launch cudaLaunchKernel 1,1,1 255,1,1",
        "launch cudaLaunchKernel 3,1,1 256,1,1",
        "launches",
    ])
    .bucket("0.2", "1")
    .env("CUDA_CORE_BYPASS", "prefill")
    .run()
    .ok();
    assert_eq!(done.codes(), [0, 0, 4, 0, 0, 0, 4, 4, 5]);
    lines_match_records(&done);
    assert!(done.warnings().is_empty());
    let calls = done.process().calls;
    let bypassed: Vec<bool> = calls.iter().map(|call| call.bypass).collect();
    assert_eq!(bypassed, [true, false, false, true, true, true, false, false]);
    // The level is what it was, give or take what refills meanwhile.
    assert_eq!(calls[0].tokens, Some(1.0));
    assert_eq!(done.call_lines()[0], "[HOOK] cudaLaunchKernel(grid=2,1,1 block=16,16,1) -> 0 | tokens=1.0");
    assert!(calls[3].tokens.is_some_and(|tokens| tokens < 1.0), "{calls:?}");
}

#[test]
fn a_launch_that_bypasses_never_waits_and_without_the_setting_pays() {
    let bypass = "4x launch cudaLaunchKernel 1,1,1 1024,1,1";
    let done = calls(&["launch", bypass])
        .bucket("0.01", "1")
        .env("CUDA_CORE_POLICY", "wait")
        .env("CUDA_CORE_BYPASS", "prefill")
        .run()
        .ok();
    assert_eq!(done.codes(), [0; 5]);
    assert!(done.process().calls.iter().all(|call| call.wait_ns == Some(0)));
    for value in ["", "decode"] {
        let done = calls(&[bypass]).bucket("0.2", "1").env("CUDA_CORE_BYPASS", value).run().ok();
        assert_eq!(done.codes(), [0, 4, 4, 4], "{value}");
        assert_eq!(done.warnings().len(), usize::from(!value.is_empty()));
        assert!(done.process().calls.iter().all(|call| !call.bypass || call.outcome == Outcome::Ok));
    }
}
