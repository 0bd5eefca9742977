//! Logs of other limiters: their figures are those of a plain text search, and what they don't say stays absent.

use std::process::Command;

use serde_json::{Value, json};

use crate::common::{data, folder, lab, load, of_text, run, text};

/// `--json` of a file of the data folder.
fn figures(name: &str) -> Value {
    let path = data(name);
    let output = run(path.parent().unwrap(), &[name, "--json"]);
    assert!(output.status.success(), "{name}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// `[calls, ok, denied, failed, unknown]` of an API.
fn api(figures: &Value, name: &str) -> [u64; 5] {
    let apis = figures["apis"].as_array().unwrap();
    let api = apis.iter().find(|api| api["api"] == name).unwrap_or_else(|| panic!("{name}: {apis:?}"));
    ["calls", "ok", "denied", "failed", "unknown"].map(|key| api[key].as_u64().unwrap_or(0))
}

fn class(figures: &Value, name: &str) -> u64 {
    figures["inputs"][0]["classes"][name]["lines"].as_u64().unwrap()
}

/// Lines that `grep -c` finds.
fn grep(pattern: &str, name: &str) -> u64 {
    let output = Command::new("grep").args(["-c", "-e", pattern]).arg(data(name)).output().unwrap();
    text(&output.stdout).trim().parse().unwrap()
}

#[test]
fn hami_cores_refusals_are_denials_on_their_device() {
    for (name, denied, limit) in
        [("hami_core_default_h200.log", 3, 536_870_912), ("hami_core_torch_oom_h200.log", 2, 2_147_483_648u64)]
    {
        assert_eq!(grep("Device 0 OOM", name), denied);
        let figures = figures(name);
        assert_eq!(api(&figures, "(allocation)"), [denied, 0, denied, 0, 0], "{name}");
        assert_eq!((class(&figures, "event"), class(&figures, "banner")), (denied, 4));
        let process = &figures["processes"][0];
        assert_eq!(process["device_quotas"], json!({"0": limit}));
        assert!(process["pid"].is_u64());
        // What was granted, and how much was asked for, is not in a log of this level.
        assert_eq!((&figures["memory"]["peak_bytes"], &process["memory"]["live_bytes"]), (&Value::Null, &Value::Null));
        assert_eq!(figures["config"]["quota_bytes"], Value::Null);
    }
    let (events, _) = load(&data("hami_core_default_h200.log"));
    assert_eq!(events.calls.tid[0], Some(140_531_740_180_480));
    assert_eq!((events.calls.dev[0], events.calls.size[0], events.calls.quota[0]), (Some(0), None, Some(536_870_912)));
}

#[test]
fn hami_cores_calls_are_counted_by_function_at_level_four() {
    let name = "hami_core_level4_h200.log";
    let figures = figures(name);
    for function in ["cuGetProcAddress_v2", "cuDeviceGetAttribute", "cuInit", "nvmlInitWithFlags", "cuCtxGetDevice"] {
        let calls = grep(&format!("Hijacking {function}$"), name);
        assert_eq!(api(&figures, function), [calls, 0, 0, 0, calls], "{function}");
    }
    assert_eq!((grep("Hijacking ", name), grep("into cuMemAllocing_v2", name)), (591, 3));
    let calls: u64 = figures["apis"].as_array().unwrap().iter().map(|api| api["calls"].as_u64().unwrap()).sum();
    assert_eq!(calls, 591 + 3);
    assert_eq!(api(&figures, "cuMemAlloc_v2"), [3, 0, 3, 0, 0]);
    assert_eq!((class(&figures, "other"), grep("^$", name)), (5, 5));
    assert_eq!(class(&figures, "event") + class(&figures, "banner"), grep("HAMI-core", name));
}

#[test]
fn the_malloc_demonstration_is_a_process_with_a_quota() {
    let figures = figures("nogpu_malloc.log");
    assert_eq!(api(&figures, "malloc"), [3, 2, 1, 0, 0]);
    assert_eq!(figures["config"]["quota_bytes"], 104_857_600);
    assert_eq!(figures["memory"]["peak_bytes"], 2 * 41_943_040);
    assert_eq!((class(&figures, "event"), class(&figures, "banner"), class(&figures, "other")), (3, 2, 11));
    let (_, analysis) = load(&data("nogpu_malloc.log"));
    assert!(analysis.summary.memory_is_sure());
}

#[test]
fn the_token_buckets_containers_are_processes_with_times() {
    let name = "nogpu_token_bucket.log";
    let figures = figures(name);
    let passed = grep("✓ 启动\\|✓ 通过", name);
    let denied = grep("s .*✗ 阻塞\\|^  #.*✗ 阻塞", name);
    assert_eq!((passed, denied), (27, 13));
    assert_eq!(api(&figures, "cuLaunchKernel"), [40, passed, denied, 0, 0]);
    let processes: Vec<_> = figures["processes"].as_array().unwrap().iter().collect();
    let of = |i: usize| (processes[i]["exe"].as_str().unwrap(), processes[i]["calls"].as_u64().unwrap());
    assert_eq!([of(0), of(1), of(2)], [("容器A(高配额)", 17), ("容器B(低配额)", 17), ("容量=4", 6)]);
    assert_eq!([0, 1, 2].map(|i| processes[i]["denied"].as_u64().unwrap()), [0, 11, 2]);
    assert_eq!(processes[1]["config"]["rate"], 1.0);
    let time =
        json!({"base": "monotonic", "duration_s": 4.81, "error_s": null, "lower_bound": false, "lower_bound_gaps": 0});
    assert_eq!(processes[0]["time"], time);
    assert_eq!(processes[1]["tokens"]["min"], 0.0);
    let denied = figures["checks"].as_array().unwrap().iter().find(|check| check["id"] == "denied-only-when-empty");
    assert_eq!(denied.unwrap()["status"], "pass");
}

#[test]
fn a_sum_that_the_script_states_wrongly_is_noted() {
    let log = std::fs::read_to_string(data("nogpu_token_bucket.log")).unwrap();
    let (_, analysis) = of_text(log.replace("成功 6/17", "成功 6/18"));
    assert!(analysis.summary.notes.iter().any(|note| note.en.contains("counts 18 calls and shows 17")));
}

#[test]
fn the_older_skeleton_is_read_like_the_present_one() {
    let log = "[HOOK] 无显存配额限制 (记录模式)\n\
               [HOOK] cudaMalloc(size=67108864) -> ptr=0x7f2cc6000000, total=64.0 MB\n\
               [HOOK] cudaMalloc(size=1048576) -> ptr=0x7f2cca000000, total=65.0 MB\n\
               [HOOK] cudaFree(0x7f2cc6000000) -> 0\n\
               [HOOK] 显存配额: 128 MB (134217728 bytes)\n\
               [HOOK] cudaMalloc(size=2147483648) DENIED, total=0.0 MB, quota=128.0 MB\n";
    let (events, analysis) = of_text(log);
    let summary = analysis.summary;
    assert_eq!(events.processes.len(), 2);
    assert!(summary.processes[0].config.quota_off);
    assert_eq!(summary.processes[1].config.quota_bytes, Some(128 << 20));
    assert_eq!((summary.memory.peak_bytes, summary.memory.live_bytes), (65 << 20, 1 << 20));
    assert_eq!(summary.apis.iter().map(|api| (api.calls, api.denied)).collect::<Vec<_>>(), [(3, 1), (1, 0)]);
    assert_eq!((summary.inputs[0].events, summary.inputs[0].bad_lines), (6, 0));
}

#[test]
fn dialects_are_told_apart_line_by_line() {
    let hami = std::fs::read_to_string(data("hami_core_default_h200.log")).unwrap();
    let bucket = std::fs::read_to_string(data("nogpu_token_bucket.log")).unwrap();
    let malloc = std::fs::read_to_string(data("nogpu_malloc.log")).unwrap();
    let (events, analysis) = of_text(format!("{hami}{}{malloc}{bucket}", lab()));
    let summary = analysis.summary;
    assert_eq!(events.processes.len(), 1 + 1 + 1 + 3);
    let calls: Vec<_> = summary.processes.iter().map(|process| process.calls).collect();
    assert_eq!(calls, [3, 25, 3, 17, 17, 6]);
    // The memory figures are of those that tell it.
    assert_eq!(summary.memory.peak_bytes, 2 * 41_943_040);
    assert!(summary.notes.iter().any(|note| note.en.starts_with("of 4 processes the log does not tell")));
    assert_eq!(summary.inputs[0].classes.lines(), summary.inputs[0].lines);
}

#[test]
fn the_long_record_of_pytorch_is_counted_from_its_archive() {
    let figures = figures("torch_launches_record_h200.log.gz");
    assert_eq!(figures["inputs"][0]["lines"], 30_007);
    assert_eq!(api(&figures, "cudaLaunchKernel"), [30_001, 30_001, 0, 0, 0]);
    assert_eq!(api(&figures, "cudaMalloc"), [4, 4, 0, 0, 0]);
    assert_eq!(class(&figures, "event") + class(&figures, "banner"), 30_007);
}

#[test]
fn reports_and_charts_of_other_dialects_claim_nothing_that_is_not_there() {
    let names =
        ["hami_core_default_h200.log", "hami_core_level4_h200.log", "nogpu_malloc.log", "nogpu_token_bucket.log"];
    for name in names {
        for lang in ["en", "zh"] {
            let log = std::fs::read(data(name)).unwrap();
            let folder = folder(&[(name, &log)]);
            let arguments = [name, "--report", "r.md", "--plot", "t.svg", "--csv", "c.csv", "--lang", lang];
            let output = run(folder.path(), &arguments);
            assert!(output.status.success(), "{name}: {}", text(&output.stderr));
            let report = std::fs::read_to_string(folder.path().join("r.md")).unwrap();
            let said = |text: &str| report.contains(text);
            if name == "hami_core_default_h200.log" && lang == "en" {
                assert!(said("What memory was granted the log does not tell."), "{report}");
                assert!(!said("Peak") && !said("only grows"), "{report}");
                assert!(said("| 3 | — | — | — | 512 MB |"), "{report}");
            }
        }
    }
}

#[test]
fn prefixes_hide_no_line_of_any_dialect_and_a_time_in_them_is_the_calls() {
    let noon = "2026-07-01T12:00:00.123456789Z";
    let stamp = 1_782_907_200_123_456_789;
    for name in
        ["nogpu_malloc.log", "nogpu_token_bucket.log", "hami_core_default_h200.log", "hami_core_level4_h200.log"]
    {
        let plain = std::fs::read_to_string(data(name)).unwrap();
        let expected = of_text(&plain).1.summary;
        for (prefix, wall_ns) in [
            ("gpu-job_1  | ".to_owned(), None),
            ("[1,0]<stderr>:".to_owned(), None),
            ("[pod/gpu-job-x7/main] ".to_owned(), None),
            (format!("{noon} "), Some(stamp)),
            (format!("gpu-job_1  | {noon} "), Some(stamp)),
        ] {
            let log: String = plain.lines().map(|line| format!("{prefix}{line}\n")).collect();
            let (events, analysis) = of_text(log);
            let summary = analysis.summary;
            assert_eq!(summary.apis, expected.apis, "{name} {prefix}");
            assert_eq!((summary.memory, &summary.tokens), (expected.memory, &expected.tokens), "{name} {prefix}");
            assert_eq!(summary.inputs[0].classes, expected.inputs[0].classes, "{name} {prefix}");
            assert!(events.calls.wall_ns.iter().all(|&ns| ns == wall_ns), "{name} {prefix}");
        }
    }
}

#[test]
fn a_refusal_that_was_torn_or_cut_off_is_no_other_programs_line() {
    let granted = "[HOOK] malloc(64) = 0x55d0  (累计: 64 bytes)\n";
    for (end, torn, cut) in [("\n", 1, 0), ("", 0, 1)] {
        for line in [
            "[QUOTA EXCEEDED] malloc(314",
            "[QUOTA EXCEEDED] mal",
            "gpu-1 | [QUOTA EXCEEDED] malloc(31457280 bytes) 被",
        ] {
            let input = &of_text(format!("{granted}{line}{end}")).1.summary.inputs[0];
            assert_eq!((input.bad_lines, input.cut_lines, input.other_lines), (torn, cut, 0), "{line:?}");
        }
    }
    assert_eq!(of_text(format!("{granted}[QUOTA EX")).1.summary.inputs[0].cut_lines, 1);
}
