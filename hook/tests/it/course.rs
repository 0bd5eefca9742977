//! What the lab asks for: its own test, the quota, the token bucket, the last error, the settings.

use hook_event::Outcome;

use crate::common::{MB, calls, job, lines_match_records, masked, repository};

// --- The lab's own test ------------------------------------------------------------------------------------------

/// A machine that stalls for 10 ms between two launches refills a tenth of a token, rightly; the reference log knows
/// none. So the test may be run anew until it meets no stall, and each run must be right in itself.
#[test]
fn the_labs_test_passes_with_the_labs_log() {
    let expected_stdout = std::fs::read_to_string(repository().join("cuda/expected/test_hook.stdout")).unwrap();
    let expected_stderr = masked(include_str!("../../../cuda/expected/hook.log"));
    let mut seen = String::new();
    for _ in 0..8 {
        let done = job("test_hook", &[]).lab().run().ok();
        lines_match_records(&done);
        let process = done.process();
        assert!(process.replay().is_empty());
        assert!(done.file("hook.jsonl").lines().next().unwrap().contains("\"ev\":\"start\""));
        assert!(done.file("hook.jsonl").lines().last().unwrap().contains("\"ev\":\"end\""));
        let end = process.end.as_ref().unwrap();
        assert_eq!((end.peak_bytes, end.live_bytes, end.lost), (Some(64 * MB), Some(0), Some(0)));
        assert_eq!(process.calls.len(), 25);
        assert_eq!(process.start.cmd.len(), 1);
        assert_eq!((process.start.quota_bytes, process.start.rate, process.start.capacity), {
            (Some(128 * MB), Some(5.0), Some(3.0))
        });
        assert_eq!(done.files(), ["hook.jsonl"]);
        seen = masked(&done.stderr);
        if done.stdout == expected_stdout && seen == expected_stderr {
            return;
        }
    }
    assert_eq!(seen, expected_stderr);
    panic!("stdout never was cuda/expected/test_hook.stdout");
}

#[test]
fn every_line_has_the_form_that_the_course_prescribes() {
    let done = calls(&["malloc a 64M", "malloc b 2G", "free a", "launch", "launch", "5x launch"]).lab().run().ok();
    for line in done.hook_lines() {
        assert!(hook_event::course::read(line).is_some(), "{line}");
    }
    let lines = masked(&done.stderr);
    assert!(lines.starts_with(
        "[HOOK] 显存配额: 128 MB (134217728 bytes)\n[HOOK] 算力限速: 5 tokens/s, burst 3\n\
         [HOOK] cudaMalloc(67108864) -> 0xPOINTER | total: 64.0 MB\n\
         [HOOK] cudaMalloc(2147483648) DENIED | total: 64.0 / 128.0 MB\n\
         [HOOK] cudaFree(0xPOINTER) -> 0 | freed: 67108864 bytes | total: 0.0 MB\n\
         [HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) -> 0 | tokens=2.0\n"
    ));
}

// --- Quota -------------------------------------------------------------------------------------------------------

#[test]
fn exactly_the_quota_passes_and_one_byte_more_is_denied() {
    let done = calls(&["malloc a 128M", "malloc b 1", "malloc c 0", "free a", "malloc a 134217729", "malloc a 128M"])
        .quota("128")
        .run()
        .ok();
    assert_eq!(done.codes(), [0, 2, 0, 0, 2, 0]);
    lines_match_records(&done);
    done.process().replay();
}

/// As a real cudaMalloc without memory does (seen with CUDA 13.0 on an H200).
#[test]
fn a_denied_allocation_leaves_a_null_pointer() {
    let done = calls(&["malloc a 1M", "is-null a", "malloc a 128M", "is-null a"]).quota("128").run().ok();
    assert_eq!(done.codes(), [0, 0, 2, 1]);
}

#[test]
fn a_fractional_quota_is_kept_to_the_byte() {
    let done = calls(&["malloc a 524288", "free a", "malloc a 524289"]).quota("0.5").run().ok();
    assert_eq!(done.codes(), [0, 0, 2]);
    assert!(done.stderr.starts_with("[HOOK] 显存配额: 0.5 MB (524288 bytes)\n"));
}

#[test]
fn six_hundred_live_blocks_are_remembered() {
    let done = calls(&["hold 600 4K", "live", "drop", "live", "malloc a 128M"]).quota("128").run().ok();
    assert_eq!(done.codes(), [0, 600 * 4096, 0, 0, 0]);
    assert!(done.process().replay().len() == 1);
}

/// The time is the hook's own, without the real call and without the record's write: its median over the last ten
/// thousand calls against that over the first.
#[test]
fn a_hundred_thousand_live_blocks_cost_no_more_each_than_ten_thousand() {
    let done = calls(&["hold 100000 512", "drop", "malloc a 128M"]).quota("128").env("CUDA_HOOK_LOG", "off").run().ok();
    assert_eq!(done.codes(), [0, 0, 0]);
    let process = done.process();
    assert_eq!(process.replay().len(), 1);
    let median = |calls: &[hook_event::json::RecordCall]| {
        let mut times: Vec<u64> = calls.iter().filter_map(|call| call.hook_ns).collect();
        times.sort_unstable();
        times[times.len() / 2]
    };
    let (few, many) = (median(&process.calls[..10_000]), median(&process.calls[90_000..100_000]));
    assert!(many < 4 * few + 2_000, "{few} ns at first, {many} ns with 100 000 live blocks");
}

#[test]
fn a_real_allocation_that_fails_gives_its_reservation_back() {
    let done = calls(&["malloc a 128M", "last", "malloc a 128M", "malloc b 1"])
        .quota("128")
        .env("CUDA_SIM_MALLOC_FAIL", "1")
        .run()
        .ok();
    assert_eq!(done.codes(), [2, 2, 0, 2]);
    assert_eq!(done.call_lines()[0], "[HOOK] cudaMalloc(134217728) FAILED(2) | total: 0.0 MB");
    lines_match_records(&done);
    let process = done.process();
    process.replay();
    assert_eq!(process.outcomes("cudaMalloc"), (1, 1, 1));
}

#[test]
fn unknown_null_and_double_frees_change_no_count() {
    let done = calls(&["malloc a 1M", "free-raw 0x1000", "free-raw 0", "free a", "free a", "malloc b 0", "free b"])
        .quota("128")
        .run()
        .ok();
    assert_eq!(done.codes(), [0, 1, 0, 0, 1, 0, 0]);
    lines_match_records(&done);
    let lines = masked(&done.stderr);
    assert!(lines.contains("cudaFree(0xPOINTER) -> 1 | freed: 0 bytes | total: 1.0 MB"), "{lines}");
    assert!(lines.contains("cudaFree((nil)) -> 0 | freed: 0 bytes | total: 1.0 MB"), "{lines}");
    assert!(lines.contains("cudaMalloc(0) -> (nil) | total: 0.0 MB"), "{lines}");
    assert!(done.process().replay().is_empty());
}

#[test]
fn a_null_place_for_the_pointer_is_the_runtimes_to_judge_and_not_counted() {
    let done = calls(&["malloc-null 64M", "last", "malloc a 128M"]).quota("128").run().ok();
    assert_eq!(done.codes(), [1, 1, 0]);
    assert_eq!(done.process().calls.len(), 1);
}

#[test]
fn the_device_is_recorded_as_the_program_numbers_it() {
    let done = calls(&["malloc a 1M", "device 1", "malloc b 1M", "launch"]).env("CUDA_SIM_DEVICES", "2").run().ok();
    let devices: Vec<Option<i32>> = done.process().calls.iter().map(|call| call.dev).collect();
    assert_eq!(devices, [Some(0), Some(1), Some(1)]);
}

#[test]
fn without_settings_everything_passes_and_is_recorded() {
    let done = calls(&["malloc a 1G", "50x launch", "free a", "launches"]).run().ok();
    assert_eq!(done.codes().last(), Some(&50));
    assert!(done.stderr.starts_with("[HOOK] 显存配额: 无限制 (仅记录)\n[HOOK] 算力限速: 无限制 (仅记录)\n"));
    lines_match_records(&done);
    assert_eq!(done.process().outcomes("cudaLaunchKernel"), (50, 0, 0));
}

// --- Launches ----------------------------------------------------------------------------------------------------

#[test]
fn a_burst_passes_then_launches_are_refused_then_the_bucket_recovers() {
    // A token takes 5 s: no stall of the machine puts one in the way.
    let done = calls(&["20x launch", "launches"]).bucket("0.2", "3").run().ok();
    let mut expected = vec![0, 0, 0];
    expected.extend([4; 17]);
    expected.push(3);
    assert_eq!(done.codes(), expected);
    lines_match_records(&done);
    // And one that takes 50 ms is back after 60.
    let done = calls(&["launch", "sleep 60", "launch"]).bucket("20", "1").run().ok();
    assert_eq!(done.codes(), [0, 0, 0]);
}

#[test]
fn tokens_follow_the_clock_between_launches() {
    let done = calls(&["20x launch", "sleep 130", "20x launch"]).bucket("20", "4").run().ok();
    let (rate, capacity) = (20.0, 4.0);
    let (mut level, mut time) = (capacity, 0.0);
    for (i, call) in done.process().calls.iter().enumerate() {
        let now = call.mono_ns.unwrap() as f64 / 1e9;
        if i > 0 {
            level = f64::min(capacity, level + (now - time) * rate);
        }
        time = now;
        let passes = level >= 1.0 - 1e-6;
        assert_eq!(call.outcome == Outcome::Ok, passes, "level {level} at {call:?}");
        level -= f64::from(u8::from(passes));
        assert!((call.tokens.unwrap() - level).abs() < 1e-3, "level {level} at {call:?}");
    }
}

#[test]
fn a_denied_launch_never_reaches_the_runtime_and_a_failed_one_spends_its_token() {
    let done = calls(&["launch cudaLaunchKernel 1,1,1 1025,1,1", "launch", "launch", "launches"])
        .bucket("0.2", "2")
        .run()
        .ok();
    assert_eq!(done.codes(), [9, 0, 4, 1]);
    assert_eq!(done.call_lines()[0], "[HOOK] cudaLaunchKernel(grid=1,1,1 block=1025,1,1) -> 9 | tokens=1.0");
    assert_eq!(done.process().outcomes("cudaLaunchKernel"), (1, 1, 1));
    lines_match_records(&done);
}

#[test]
fn every_launch_symbol_is_limited_and_logged_as_the_launch_it_is() {
    let symbols = ["cudaLaunchKernel", "cudaLaunchKernel_ptsz", "__cudaLaunchKernel", "__cudaLaunchKernel_ptsz"];
    for symbol in symbols {
        let command = format!("2x launch {symbol} 2,3,4 5,6,7");
        let done = calls(&[&command, "launches"]).bucket("0.2", "1").run().ok();
        assert_eq!(done.codes(), [0, 4, 1], "{symbol}");
        assert_eq!(
            done.call_lines(),
            [
                "[HOOK] cudaLaunchKernel(grid=2,3,4 block=5,6,7) -> 0 | tokens=0.0",
                "[HOOK] cudaLaunchKernel(grid=2,3,4 block=5,6,7) DENIED | tokens=0.0"
            ]
        );
        for call in done.process().calls {
            assert_eq!((call.api.as_str(), call.sym.as_deref()), ("cudaLaunchKernel", Some(symbol)));
            assert_eq!((call.grid, call.block), (Some([2, 3, 4]), Some([5, 6, 7])));
        }
    }
}

#[test]
fn the_code_of_a_denied_launch_can_be_chosen() {
    let done = calls(&["2x launch", "last", "last"]).bucket("0.2", "1").env("CUDA_CORE_DENY_ERROR", "719").run().ok();
    assert_eq!(done.codes(), [0, 719, 719, 0]);
    assert_eq!(done.process().calls[1].ret, Some(719));
}

#[test]
fn a_launch_that_waits_is_let_through_and_says_how_long() {
    let done = job("launchers", &["1", "12"]).bucket("20", "2").env("CUDA_CORE_POLICY", "wait").run().ok();
    let mut words = done.stdout.split_whitespace();
    assert_eq!((words.next(), words.next()), (Some("12"), Some("12")));
    // Ten launches of twelve wait for a token each, 50 ms apart.
    let seconds: f64 = words.next().unwrap().parse().unwrap();
    assert!((0.499..1.5).contains(&seconds), "{seconds} s");
    lines_match_records(&done);
    let process = done.process();
    assert_eq!(process.start.policy.as_deref(), Some("wait"));
    assert_eq!(process.outcomes("cudaLaunchKernel"), (12, 0, 0));
    for (call, line) in process.calls.iter().zip(done.call_lines()) {
        let waited = call.wait_ns.unwrap();
        assert_eq!(waited > 0, line.contains(" | waited: "), "{line}");
    }
    // A machine that stalls for 50 ms has the next token there when the thread comes back to ask.
    let waits = process.calls.iter().filter(|call| call.wait_ns > Some(0)).count();
    assert!((6..=10).contains(&waits), "{waits}");
    let busy = process.calls.iter().filter(|call| call.hook_ns > Some(40_000_000)).count();
    assert!(busy <= 2, "waiting is no work of the hook");
}

// --- The last error ----------------------------------------------------------------------------------------------

#[test]
fn after_a_denied_launch_the_last_error_is_its_code_once() {
    let done = calls(&["2x launch", "peek", "peek", "last", "last", "peek"]).bucket("0.2", "1").run().ok();
    assert_eq!(done.codes(), [0, 4, 4, 4, 4, 0, 0]);
}

#[test]
fn after_a_denied_allocation_the_last_error_is_2() {
    let done = calls(&["malloc a 129M", "peek", "last", "last"]).quota("128").run().ok();
    assert_eq!(done.codes(), [2, 2, 2, 0]);
}

#[test]
fn a_success_does_not_clear_the_last_error() {
    let done = calls(&["malloc a 129M", "malloc b 1M", "free b", "last", "last"]).quota("128").run().ok();
    assert_eq!(done.codes(), [2, 0, 0, 2, 0]);
}

#[test]
fn the_last_error_is_each_threads_own() {
    let done =
        calls(&["2x launch", "thread", "peek", "launch", "malloc a 129M", "last", "last", "done", "last", "last"])
            .lab()
            .bucket("0.2", "1")
            .run()
            .ok();
    assert_eq!(done.codes(), [0, 4, 0, 4, 2, 2, 0, 4, 0]);
}

#[test]
fn the_newest_error_is_the_last_error_whoever_made_it() {
    // A real error after a denial, and a denial after a real error.
    let done = calls(&["malloc a 129M", "free-raw 0x1000", "peek", "last", "last"]).quota("128").run().ok();
    assert_eq!(done.codes(), [2, 1, 1, 1, 0]);
    let done = calls(&["free-raw 0x1000", "malloc a 129M", "peek", "last", "last"]).quota("128").run().ok();
    assert_eq!(done.codes(), [1, 2, 2, 2, 0]);
    // The same real error before and after.
    let done = calls(&["free-raw 1", "malloc a 129M", "free-raw 1", "peek", "last", "last"]).quota("128").run().ok();
    assert_eq!(done.codes(), [1, 2, 1, 1, 1, 0]);
}

// --- Settings ----------------------------------------------------------------------------------------------------

#[test]
fn a_quota_that_cannot_be_used_is_off_and_named_in_one_warning() {
    for bad in ["4Gi", "-1", "1e9999", "nan", "inf", "abc", "128abc", "08G", "50%", "1e300", "0x80", "１２８"] {
        let done = calls(&["malloc a 4G"]).quota(bad).run().ok();
        assert_eq!(done.codes(), [0], "{bad}");
        assert_eq!(done.hook_lines()[0], "[HOOK] 显存配额: 无限制 (仅记录)", "{bad}");
        let warnings = done.warnings();
        assert_eq!(warnings.len(), 1, "{bad}: {warnings:?}");
        let shown: String = bad.bytes().flat_map(std::ascii::escape_default).map(char::from).collect();
        assert!(warnings[0].contains(&format!("CUDA_MEM_QUOTA_MB={shown} ")), "{warnings:?}");
        assert_eq!(done.process().start.quota_bytes, None);
    }
    for none in ["", "0", " "] {
        let done = calls(&["malloc a 4G"]).quota(none).run().ok();
        assert_eq!((done.codes(), done.warnings().len()), (vec![0], 0), "{none:?}");
    }
}

#[test]
fn a_rate_limit_that_cannot_be_used_is_off_and_named_in_one_warning() {
    for (rate, capacity, named) in [
        ("abc", "3", "CUDA_CORE_RATE=abc "),
        ("-5", "3", "CUDA_CORE_RATE=-5 "),
        ("nan", "3", "CUDA_CORE_RATE=nan "),
        ("5", "3x", "CUDA_CORE_CAPACITY=3x "),
        ("5", "1e9999", "CUDA_CORE_CAPACITY=1e9999 "),
        ("5", "0", "CUDA_CORE_CAPACITY=0 "),
    ] {
        let done = calls(&["30x launch", "launches"]).bucket(rate, capacity).run().ok();
        assert_eq!(done.codes().last(), Some(&30), "{rate} {capacity}");
        let warnings = done.warnings();
        assert!(warnings.len() == 1 && warnings[0].contains(named), "{warnings:?}");
    }
}

#[test]
fn a_rate_without_a_capacity_is_off_and_the_warning_names_what_is_missing() {
    for (set, missing) in [("CUDA_CORE_RATE", "CUDA_CORE_CAPACITY"), ("CUDA_CORE_CAPACITY", "CUDA_CORE_RATE")] {
        let done = calls(&["30x launch", "launches"]).env(set, "5").run().ok();
        assert_eq!(done.codes().last(), Some(&30));
        let warnings = done.warnings();
        assert!(warnings.len() == 1 && warnings[0].contains(missing) && warnings[0].contains(&format!("{set}=5")));
    }
}

#[test]
fn a_capacity_below_one_denies_every_launch_and_is_warned_of() {
    for policy in ["deny", "wait"] {
        let done = calls(&["3x launch"]).bucket("5", "0.5").env("CUDA_CORE_POLICY", policy).run().ok();
        assert_eq!(done.codes(), [4, 4, 4]);
        assert_eq!(done.hook_lines()[1], "[HOOK] 算力限速: 5 tokens/s, burst 0.5");
        let warnings = done.warnings();
        assert!(warnings.len() == 1 && warnings[0].contains("CUDA_CORE_CAPACITY=0.5"), "{warnings:?}");
    }
}

#[test]
fn an_unknown_policy_or_error_code_falls_back_with_a_warning() {
    let done = calls(&["2x launch"])
        .bucket("0.2", "1")
        .env("CUDA_CORE_POLICY", "maybe")
        .env("CUDA_CORE_DENY_ERROR", "0")
        .run()
        .ok();
    assert_eq!(done.codes(), [0, 4]);
    let warnings = done.warnings().join("\n");
    assert!(warnings.contains("CUDA_CORE_POLICY=maybe ") && warnings.contains("CUDA_CORE_DENY_ERROR=0 "), "{warnings}");
}

#[test]
fn limits_outlive_an_environment_that_the_program_clears() {
    let done = calls(&["clearenv", "malloc a 129M", "4x launch"]).quota("128").bucket("0.2", "3").run().ok();
    assert_eq!(done.codes(), [0, 2, 0, 0, 0, 4]);
}
