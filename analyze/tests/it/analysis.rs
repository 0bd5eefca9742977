//! The figures against the lab's known ones, against true times, and against polars.

use hook_analyze::analysis::Status;
use hook_analyze::frame;
use polars::prelude::*;

use crate::common::{data, lab, load, of_text};

#[test]
fn the_labs_log_gives_the_figures_of_the_contract() {
    let (_, analysis) = load(&data("course_h200_cuda13.log"));
    let json = serde_json::to_value(&analysis.summary).unwrap();
    assert_eq!(json["schema"], 1);
    for (key, want) in [("lines", 27), ("events", 27), ("other_lines", 0), ("bad_lines", 0)] {
        assert_eq!(json["inputs"][0][key], want, "{key}");
    }
    assert_eq!(json["config"], serde_json::json!({"quota_bytes": 134217728, "rate": 5.0, "capacity": 3.0}));
    assert_eq!(
        json["apis"],
        serde_json::json!([
            {"api": "cudaLaunchKernel", "calls": 18, "ok": 6, "denied": 12, "failed": 0},
            {"api": "cudaMalloc", "calls": 4, "ok": 3, "denied": 1, "failed": 0},
            {"api": "cudaFree", "calls": 3, "ok": 3, "denied": 0, "failed": 0},
        ])
    );
    assert_eq!(
        json["memory"],
        serde_json::json!({"peak_bytes": 67108864, "live_bytes": 0, "allocated_bytes": 75497472,
                           "freed_bytes": 75497472, "unknown_frees": 0})
    );
    let tokens = &json["tokens"];
    assert_eq!(
        (&tokens["first"], &tokens["min"], &tokens["max"], &tokens["last"]),
        (&2.0.into(), &0.0.into(), &2.0.into(), &0.0.into())
    );
    let streaks: Vec<_> = tokens["denial_streaks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| (s["first_call"].as_u64(), s["length"].as_u64()))
        .collect();
    assert_eq!(streaks, [(Some(8), Some(7)), (Some(18), Some(5))]);
    let shape = &json["dims"][0];
    assert_eq!((&shape["calls"], &shape["denied"]), (&15.into(), &9.into()));
    assert_eq!((shape["grid"].to_string(), shape["block"].to_string()), ("[1,1,1]".into(), "[32,1,1]".into()));
    let time = serde_json::json!({"base": "inferred", "duration_s": 0.6, "error_s": 0.02, "lower_bound": true, "lower_bound_gaps": 1});
    assert_eq!(json["time"], time);
    assert_eq!((&json["checks"][0]["id"], &json["checks"][0]["status"]), (&"quota-respected".into(), &"pass".into()));
}

/// The true times of that run were measured beside the log.
#[test]
fn inferred_times_are_true_to_a_tenth_of_a_token_and_bounds_where_the_bucket_was_full() {
    let stamps = std::fs::read_to_string(data("course_h200_slow_first_launch.stamps.txt")).unwrap();
    let truth: Vec<f64> = stamps.lines().map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect();
    let (events, analysis) = load(&data("course_h200_slow_first_launch.log"));
    let timeline = &analysis.timelines[0];
    let launches: Vec<f64> =
        (0..events.calls.len()).filter(|&i| events.calls.tokens[i].is_some()).map(|i| timeline.at[i]).collect();
    // The last three launches of the log are not in the stamps. The bucket was full before the eleventh. The stamps
    // were taken after each launch's work, so the first one is late by that launch's own 96 ms: it is left out.
    let (stretch, after) = truth.split_at(10);
    for (i, pair) in stretch.windows(2).enumerate().skip(1) {
        let inferred = launches[i + 1] - launches[i];
        assert!((inferred - (pair[1] - pair[0])).abs() <= 0.1 / 5.0, "launch {i}: {inferred}");
    }
    assert!(launches[10] - launches[9] <= truth[10] - truth[9]);
    for (i, pair) in after.windows(2).enumerate() {
        assert!((launches[11 + i] - launches[10 + i] - (pair[1] - pair[0])).abs() <= 0.1 / 5.0);
    }
    assert!(timeline.lower_bound);
}

#[test]
fn the_dataframe_has_the_documented_columns_and_gives_the_same_counts() {
    for name in ["course_h200_cuda13.log", "torch_launches_denied_h200.log", "sim_lab.log"] {
        let (events, analysis) = load(&data(name));
        let frame = frame::dataframe(&events).unwrap();
        assert_eq!(frame.height(), events.calls.len());
        let documented: Vec<&str> = include_str!("../../src/frame.rs")
            .lines()
            .filter_map(|line| line.strip_prefix("//! | `"))
            .flat_map(|row| row.split(" | ").next().unwrap().split('`').step_by(2).filter(|name| name.len() > 1))
            .collect();
        for column in ["process", "api", "outcome", "tokens", "live_bytes", "hook_ns"] {
            assert!(documented.contains(&column), "{column} is not documented: {documented:?}");
            assert!(frame.column(column).is_ok(), "{column}");
        }
        for figures in &analysis.summary.apis {
            let of_api = frame.column("api").unwrap().str().unwrap().equal(figures.api.as_str());
            let denied = frame.column("outcome").unwrap().str().unwrap().equal("denied");
            assert_eq!(of_api.sum().unwrap() as u64, figures.calls, "{name}");
            assert_eq!((&of_api & &denied).sum().unwrap() as u64, figures.denied, "{name}");
        }
        let live = frame.column("live_bytes").unwrap().u64().unwrap();
        assert_eq!(live.max().unwrap(), analysis.summary.memory.peak_bytes);
    }
}

fn status(text: &str, id: &str) -> (Status, Option<u64>) {
    let (_, analysis) = of_text(text);
    let check = analysis.summary.checks.iter().find(|check| check.id == id).unwrap();
    (check.status, check.line)
}

#[test]
fn a_quota_that_was_exceeded_is_found_with_its_line() {
    let granted = "[HOOK] cudaMalloc(67108865) -> 0x7f00 | total: 128.0 MB";
    let text = lab().replace("[HOOK] cudaMalloc(2147483648) DENIED | total: 64.0 / 128.0 MB", granted);
    let text: String = text.lines().take(4).map(|line| format!("{line}\n")).collect();
    assert_eq!(status(&text, "quota-respected"), (Status::Fail, Some(4)));
    assert_eq!(status(&text, "total-matches"), (Status::Pass, None));
}

#[test]
fn levels_outside_the_bucket_are_found_and_rounding_is_not() {
    let of = |tokens: &str| status(&lab().replacen("tokens=2.0", &format!("tokens={tokens}"), 1), "tokens-in-range").0;
    assert_eq!(of("3.0"), Status::Pass);
    assert_eq!(of("3.1"), Status::Fail);
    assert_eq!(of("-0.1"), Status::Fail);
    assert_eq!(of("-0.0"), Status::Pass);
}

#[test]
fn a_denial_with_a_token_left_is_found_and_rounding_is_not() {
    let of = |tokens: &str| {
        let denial = format!("DENIED | tokens={tokens}");
        status(&lab().replacen("DENIED | tokens=0.0", &denial, 1), "denied-only-when-empty")
    };
    assert_eq!(of("2.0"), (Status::Fail, Some(10)));
    assert_eq!(of("1.1"), (Status::Fail, Some(10)));
    // 0.96 prints as 1.0.
    assert_eq!(of("1.0").0, Status::Pass);
}

#[test]
fn a_hook_that_does_not_subtract_is_found_by_its_own_total() {
    let text = "[HOOK] 显存配额: 128 MB (134217728 bytes)\n\
                [HOOK] cudaMalloc(67108864) -> 0x7f00 | total: 64.0 MB\n\
                [HOOK] cudaFree(0x7f00) -> 0 | total: 64.0 MB\n\
                [HOOK] cudaMalloc(67108864) -> 0x7f00 | total: 128.0 MB\n";
    assert_eq!(status(text, "total-matches"), (Status::Fail, Some(3)));
    let wrapped = text.replace("-> 0 | total: 64.0 MB", "-> 0 | total: 17592186044415.0 MB");
    assert_eq!(status(&wrapped, "total-matches"), (Status::Fail, Some(3)));
    assert_eq!(status(&wrapped, "quota-respected"), (Status::Fail, Some(3)));
}

/// A parent that holds 100 MB and its child that asks for 90 MB each keep their own quota of 128 MB.
#[test]
fn the_lines_of_several_processes_are_not_held_against_one_quota() {
    let text = "[HOOK] 显存配额: 128 MB (134217728 bytes)\n\
                [HOOK] cudaMalloc(104857600) -> 0x7f00 | total: 100.0 MB\n\
                [HOOK] cudaMalloc(94371840) -> 0x8f00 | total: 90.0 MB\n";
    assert_eq!(status(text, "quota-respected"), (Status::NotApplicable, None));
    assert!(!of_text(text).1.summary.memory_is_sure());
}

#[test]
fn lines_of_threads_out_of_order_are_no_fault() {
    let text = "[HOOK] 显存配额: 128 MB (134217728 bytes)\n\
                [HOOK] cudaMalloc(67108864) -> 0x1f00 | total: 64.0 MB\n\
                [HOOK] cudaMalloc(134217728) -> 0x2f00 | total: 128.0 MB\n\
                [HOOK] cudaFree(0x1f00) -> 0 | freed: 67108864 bytes | total: 0.0 MB\n\
                [HOOK] cudaFree(0x2f00) -> 0 | freed: 134217728 bytes | total: 0.0 MB\n";
    assert_eq!(status(text, "total-matches"), (Status::NotApplicable, Some(3)));
    assert_eq!(status(text, "quota-respected").0, Status::NotApplicable);
}

#[test]
fn a_rate_of_zero_is_no_rate() {
    let (_, analysis) = of_text(lab().replace("5 tokens/s", "0 tokens/s"));
    assert_eq!(analysis.summary.config.rate, None);
    assert_eq!(analysis.summary.time.duration_s, None);
}

#[test]
fn frees_that_students_word_their_own_way_count_by_the_pointer() {
    let text = "[HOOK] cudaMalloc(1048576) -> 0x7f00 | total: 1.0 MB\n\
                [HOOK] cudaMalloc(2097152) -> 0x8F00 | total: 3.0 MB\n\
                [HOOK] cudaFree(0x7F00) -> 0\n\
                [HOOK] cudaFree(0x8f00) freed 2097152 bytes\n\
                [HOOK] cudaFree(0x9f00) -> 0\n\
                [HOOK] cudaFree((nil)) -> 0\n";
    let memory = of_text(text).1.summary.memory;
    assert_eq!(
        (memory.peak_bytes, memory.live_bytes, memory.freed_bytes, memory.unknown_frees),
        (3 << 20, 0, 3 << 20, 1)
    );
}

#[test]
fn a_launch_that_cuda_refused_is_a_third_outcome() {
    let text = "[HOOK] 算力限速: 5 tokens/s, burst 3\n\
                [HOOK] cudaLaunchKernel(grid=1,1,1 block=1025,1,1) -> 9 | tokens=2.0\n";
    let summary = of_text(text).1.summary;
    assert_eq!((summary.apis[0].ok, summary.apis[0].denied, summary.apis[0].failed), (0, 0, 1));
    assert_eq!(summary.dims[0].failed, 1);
    assert!(summary.tokens.denial_streaks.is_empty());
}

#[test]
fn values_at_the_end_of_64_bits_are_exact() {
    let text = "[HOOK] cudaMalloc(18446744073709551615) DENIED | total: 0.0 / 128.0 MB\n";
    let (events, _) = of_text(text);
    assert_eq!(events.calls.size[0], Some(u64::MAX));
}

/// Records as the hook writes them, of one process.
fn records(bodies: &[&str], end: &str) -> String {
    let start = r#"{"v":1,"ev":"start","run":"r","ts":"2026-11-30T07:42:11Z","mono_ns":1,"pid":7,"policy":"deny"}"#;
    let call = |(i, body): (usize, &&str)| {
        format!(r#"{{"ev":"call","seq":{},"mono_ns":{},"pid":7,"tid":7,{body},"real_ns":1,"hook_ns":1}}"#, i + 1, i + 2)
    };
    let calls: Vec<String> = bodies.iter().enumerate().map(call).collect();
    format!("{start}\n{}\n{end}\n", calls.join("\n"))
}

#[test]
fn host_memory_is_recorded_and_counts_nowhere() {
    let lines = "\
[HOOK] cudaMalloc(1048576) -> 0x7f00 | total: 1.0 MB
[HOOK] cudaHostAlloc(4194304) -> 0x5500 | total: 1.0 MB
[HOOK] cudaFreeHost(0x5500) -> 0 | total: 1.0 MB
[HOOK] cudaFree(0x7f00) -> 0 | freed: 1048576 bytes | total: 0.0 MB
";
    let (_, analysis) = of_text(lines);
    let memory = &analysis.summary.memory;
    assert_eq!((memory.peak_bytes, memory.allocated_bytes, memory.live_bytes), (1 << 20, 1 << 20, 0));
    assert_eq!(memory.unknown_frees, 0);
    assert!(analysis.summary.checks.iter().all(|check| check.status != Status::Fail), "{:?}", analysis.summary.checks);
    let json = records(
        &[
            r#""api":"cuMemAlloc_v2","size":64,"ptr":"0x7f00","outcome":"ok","ret":0,"total":64,"pending":0"#,
            r#""api":"cuMemHostAlloc","size":900,"ptr":"0x5500","outcome":"ok","ret":0,"total":64"#,
            r#""api":"cuMemFreeHost","ptr":"0x5500","outcome":"ok","ret":0,"total":64"#,
            r#""api":"cuMemFree_v2","size":64,"ptr":"0x7f00","outcome":"ok","ret":0,"total":0"#,
        ],
        "",
    );
    let (_, analysis) = of_text(json);
    let memory = &analysis.summary.memory;
    assert_eq!((memory.peak_bytes, memory.allocated_bytes, memory.live_bytes), (64, 64, 0));
    assert!(analysis.summary.checks.iter().all(|check| check.status != Status::Fail), "{:?}", analysis.summary.checks);
}

#[test]
fn physical_memory_is_freed_by_its_release_or_by_its_unmapping() {
    let json = records(
        &[
            r#""api":"cuMemCreate","size":64,"ptr":"0x10","outcome":"ok","ret":0,"total":64,"pending":0"#,
            r#""api":"cuMemCreate","size":32,"ptr":"0x11","outcome":"ok","ret":0,"total":96,"pending":0"#,
            r#""api":"cuMemUnmap","size":64,"ptr":"0x10","outcome":"ok","ret":0,"total":32"#,
            r#""api":"cuMemRelease","size":32,"ptr":"0x11","outcome":"ok","ret":0,"total":0"#,
        ],
        "",
    );
    let (_, analysis) = of_text(json);
    let memory = &analysis.summary.memory;
    assert_eq!((memory.peak_bytes, memory.freed_bytes, memory.live_bytes, memory.unknown_frees), (96, 96, 0, 0));
    assert!(analysis.summary.checks.iter().all(|check| check.status != Status::Fail), "{:?}", analysis.summary.checks);
}

#[test]
fn what_belongs_to_no_context_outlives_a_reset() {
    for contextless in ["cuMemCreate", "cuMemAllocAsync", "cudaMallocFromPoolAsync"] {
        let json = records(
            &[
                &format!(
                    r#""api":"{contextless}","size":64,"ptr":"0x10","outcome":"ok","ret":0,"total":64,"pending":0"#
                ),
                r#""api":"cuMemAlloc_v2","size":32,"ptr":"0x20","outcome":"ok","ret":0,"total":96,"pending":0"#,
                r#""api":"cuDevicePrimaryCtxReset_v2","size":32,"outcome":"ok","ret":0,"total":64"#,
                r#""api":"cuMemFree_v2","size":64,"ptr":"0x10","outcome":"ok","ret":0,"total":0"#,
            ],
            "",
        );
        let (_, analysis) = of_text(json);
        let memory = &analysis.summary.memory;
        assert_eq!((memory.peak_bytes, memory.freed_bytes, memory.live_bytes, memory.unknown_frees), (96, 96, 0, 0));
        let checks = &analysis.summary.checks;
        assert!(checks.iter().all(|check| check.status != Status::Fail), "{contextless}: {checks:?}");
        let lines = format!(
            "[HOOK] {contextless}(1048576) -> 0x10 | total: 1.0 MB\n[HOOK] cuMemAlloc_v2(1048576) -> 0x20 | total: 2.0 MB\n\
             [HOOK] cudaDeviceReset() -> 0 | freed: 1048576 bytes | total: 1.0 MB\n"
        );
        let (_, analysis) = of_text(lines);
        assert_eq!(analysis.summary.memory.live_bytes, 1 << 20, "{contextless}");
        let checks = &analysis.summary.checks;
        assert!(checks.iter().all(|check| check.status != Status::Fail), "{contextless}: {checks:?}");
    }
}

#[test]
fn what_went_past_the_hook_is_said() {
    let call = r#""api":"cuMemFree_v2","size":64,"ptr":"0x7f00","outcome":"failed","ret":1,"total":0"#;
    let end = |uncounted: &str| format!(r#"{{"ev":"end","pid":7,"calls":{{}},"lost":0{uncounted}}}"#);
    let said = |uncounted: &str| of_text(records(&[call], &end(uncounted))).1.summary.coverage;
    assert_eq!(said("").statement().map(|note| note.en), None);
    let none = said(r#","uncounted":{}"#);
    assert_eq!((none.watched, none.unknown), (1, 0));
    assert!(none.statement().unwrap().en.starts_with("coverage: no call"));
    let some = said(r#","uncounted":{"cuLaunchGrid":2,"cuMemHostRegister_v2":1}"#);
    let statement = some.statement().unwrap();
    assert!(statement.en.contains("cuLaunchGrid \u{d7}2, cuMemHostRegister_v2 \u{d7}1"), "{}", statement.en);
    assert!(statement.zh.contains("cuLaunchGrid \u{d7}2"), "{}", statement.zh);
}
