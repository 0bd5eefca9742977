//! `--explain`, on each kind of line and in both languages.

use std::path::Path;

use serde_json::Value;

use crate::common::{data, folder, run, text};

const RECORDS: &str = concat!(
    r#"{"v":1,"ev":"start","run":"r","pid":7,"mono_ns":0,"quota_bytes":134217728,"rate":5.0,"capacity":3.0,"policy":"deny","hook":"0.1.0"}"#,
    "\n",
    r#"{"ev":"call","seq":1,"ts":"2026-11-30T07:00:00Z","mono_ns":1000000000,"pid":7,"tid":7,"api":"cudaLaunchKernel","grid":[1,1,1],"block":[32,1,1],"outcome":"ok","ret":0,"tokens":2.0,"wait_ns":0}"#,
    "\n",
    r#"{"ev":"call","seq":2,"ts":"2026-11-30T07:00:00Z","mono_ns":1000000000,"pid":7,"tid":7,"api":"cudaLaunchKernel","grid":[1,1,1],"block":[32,1,1],"outcome":"failed","ret":98,"tokens":1.0,"wait_ns":0}"#,
    "\n",
    r#"{"ev":"call","seq":3,"ts":"2026-11-30T07:00:00Z","mono_ns":1000000000,"pid":7,"tid":7,"api":"cudaLaunchKernel","grid":[1,1,1],"block":[32,1,1],"outcome":"ok","ret":0,"tokens":0.0,"wait_ns":0}"#,
    "\n",
    r#"{"ev":"call","seq":4,"ts":"2026-11-30T07:00:00.15Z","mono_ns":1150000000,"pid":7,"tid":7,"api":"cudaLaunchKernel","grid":[1,1,1],"block":[32,1,1],"outcome":"denied","ret":4,"tokens":0.75,"wait_ns":0}"#,
    "\n",
    r#"{"ev":"call","seq":5,"mono_ns":1160000000,"pid":7,"tid":7,"api":"cudaMalloc","size":100000000,"ptr":"0x7f00","outcome":"ok","ret":0,"total":100000000,"pending":0}"#,
    "\n",
    r#"{"ev":"call","seq":6,"mono_ns":1170000000,"pid":7,"tid":7,"api":"cudaMalloc","size":34217729,"outcome":"denied","ret":2,"total":100000000,"pending":0,"quota":134217728}"#,
    "\n",
    r#"{"ev":"call","seq":7,"mono_ns":1180000000,"pid":7,"tid":7,"api":"cudaFree","ptr":"0x7f00","size":100000000,"outcome":"ok","ret":0,"total":0}"#,
    "\n",
    r#"{"ev":"end","pid":7,"mono_ns":1190000000,"calls":{},"lost":0}"#,
    "\n",
);

const LINES: &str = "[HOOK] 显存配额: 128 MB (134217728 bytes)
[HOOK] 算力限速: 5 tokens/s, burst 3
[HOOK] cudaMalloc(67108864) -> 0x7f00 | total: 64.0 MB
[HOOK] cudaMalloc(33554432) -> 0x8f00 | total: 96.0 MB
[HOOK] cudaMalloc(67108864) DENIED | total: 96.0 / 128.0 MB
[HOOK] cudaFree(0x7f00) -> 0 | freed: 67108864 bytes | total: 32.0 MB
[HOOK] cudaFree(0x7f00) -> 0 | freed: 0 bytes | total: 32.0 MB
[HOOK] cudaFree(0x9f00) -> 0 | freed: 0 bytes | total: 32.0 MB
[HOOK] cudaMalloc(1024) FAILED(2) | total: 32.0 MB
[HOOK] cudaDeviceReset() -> 0 | freed: 33554432 bytes | total: 0.0 MB
[HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) -> 0 | tokens=2.0
[HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) -> 0 | tokens=1.0
[HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) -> 0 | tokens=0.0
[HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) DENIED | tokens=0.4
[HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) DENIED | tokens=1.0
[HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) -> 0 | tokens=2.0
[HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) DENIED | tokens=2.0
[HOOK] cudaMallocHost(1024) -> 0xaf00 | total: 0.0 MB
[HOOK] 警告: a setting
[HOOK] something new
hello from another program

[HOOK] cudaMalloc(10
[HOOK] cudaMal";

/// The explanation of a line of `a.log`, which holds [`LINES`].
fn explain(line: &str, more: &[&str]) -> String {
    let folder = folder(&[("a.log", LINES.as_bytes())]);
    let output = run(folder.path(), &[&["a.log", "--explain", line], more].concat());
    assert!(output.status.success(), "{line}: {}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn every_kind_of_line_is_explained_in_both_languages() {
    for (line, english, chinese) in [
        ("1", "class: banners. a setting: the quota in force", "配置行: 生效的显存配额"),
        ("2", "a setting: rate and capacity", "配置行: 令牌桶的速率与容量"),
        ("3", "time: not known, before the first launch", "时间: 未知, 在首次启动之前"),
        ("18", "time: at least ", "至少 "),
        ("3", "why: 67108864 B (64 MB) in all, within the quota", "原因: 合计 67108864 B (64 MB), 在配额内"),
        (
            "5",
            "asked for 67108864 B (64 MB); the process held 100663296 B (96 MB) before; quota 134217728 B (128 MB)",
            "申请 67108864 B (64 MB); 此前进程占用 100663296 B (96 MB)",
        ),
        ("5", "33554432 B (32 MB) were lacking", "超过配额, 差 33554432 B (32 MB)"),
        (
            "5",
            "the largest of 2 live blocks of the process: line 3 64 MB, line 4 32 MB",
            "进程占用的 2 块中最大的: 第 3 行 64 MB, 第 4 行 32 MB",
        ),
        ("6", "ends the allocation on line 3, 67108864 B (64 MB)", "释放第 3 行分配的 67108864 B (64 MB)"),
        (
            "6",
            "held by the process: 100663296 B (96 MB) → 33554432 B (32 MB)",
            "进程占用: 100663296 B (96 MB) → 33554432 B (32 MB)",
        ),
        ("7", "this address was freed on line 6 and not allocated since", "已在第 6 行释放"),
        ("8", "no allocation of this address is in the log", "日志中没有这个地址的分配"),
        ("9", "let through by the hook, refused by CUDA (2)", "hook 放行, 被 CUDA 拒绝 (2)"),
        ("10", "a reset, which ends 1 block", "重置设备, 释放 1 块"),
        ("11", "the first launch with a level; a bucket has to begin full", "桶开始时应是满的"),
        ("12", "tokens: 2 ± 0.05 before, 1 taken, 1 ± 0.05 left", "令牌: 调用前 2 ± 0.05, 消耗 1, 剩余 1 ± 0.05"),
        ("14", "tokens: 0.4 ± 0.05 before, 0 taken, 0.4 ± 0.05 left", "令牌: 调用前 0.4 ± 0.05, 消耗 0"),
        (
            "14",
            "refill: 0 ± 0.05 left after the launch on line 13, 0.4 ± 0.1 gained since in ≈ 80 ms ± 20 ms",
            "第 13 行的启动后剩 0 ± 0.05, 此后增加 0.4 ± 0.1, 历时 ≈ 80 ms ± 20 ms",
        ),
        ("14", "why: no whole token was there", "原因: 桶中没有一个完整的令牌"),
        ("14", "next token: 120 ms ± 10 ms later (200 ms)", "下一个令牌: 此后 120 ms ± 10 ms (200 ms)"),
        ("15", "there may have been a whole token or not", "可能有也可能没有完整的令牌"),
        ("16", "in at least 400 ms ± 20 ms; the bucket was full", "历时 至少 400 ms ± 20 ms; 桶曾满"),
        ("17", "a whole token was there, and yet it was denied", "桶中有完整的令牌却被拒绝"),
        ("18", "host memory: only logged", "主机内存: 只记录"),
        ("19", "a warning of the hook, and no call", "hook 的警告, 不是调用"),
        ("20", "class: unknown [HOOK]. it begins with [HOOK]", "类别: 未知的 [HOOK] 行"),
        ("21", "class: other programs. neither [HOOK] nor a JSONL record", "其他程序的输出"),
        ("22", "a blank line", "空行"),
        ("23", "class: torn. ", "类别: 残缺"),
        ("24", "class: truncated tail. ", "类别: 结尾截断"),
    ] {
        let shown = explain(line, &["--lang", "en"]);
        assert!(shown.contains(english), "`{english}` is not in\n{shown}");
        let shown = explain(line, &[]);
        assert!(shown.contains(chinese), "`{chinese}` is not in\n{shown}");
    }
}

#[test]
fn records_are_explained_exactly_and_with_both_clocks() {
    let folder = folder(&[("a.jsonl", RECORDS.as_bytes())]);
    let explain = |line: &str| text(&run(folder.path(), &["a.jsonl", "--explain", line, "--lang", "en"]).stdout);
    let denied = explain("5");
    for said in [
        "call 4 of process 7, cudaLaunchKernel: denied by the hook",
        "time: 150 ms after the first timed moment of the process, 2026-11-30T07:00:00.150Z (monotonic clock)",
        "tokens: 0.75 before, 0 taken, 0.75 left",
        "refill: 0 left after the launch on line 4, 0.75 gained since in 150 ms (rate and capacity give 0.75)",
        "next token: 50 ms later (200 ms, 2026-11-30T07:00:00.200Z)",
    ] {
        assert!(denied.contains(said), "`{said}` is not in\n{denied}");
    }
    assert!(explain("3").contains("its token is spent, though the kernel did not run"), "{}", explain("3"));
    assert!(explain("4").contains("next token: 200 ms later"), "{}", explain("4"));
    assert!(explain("2").contains("next token: there already"), "{}", explain("2"));
    // One byte too much.
    assert!(
        explain("7").contains("it would have been 134217729 B (128 MB) in all; 1 B (1 B) were lacking"),
        "{}",
        explain("7")
    );
    assert!(explain("1").contains("a start record: a process begins"), "{}", explain("1"));
    assert!(explain("9").contains("an end record: a process ends"), "{}", explain("9"));
    let output = run(folder.path(), &["a.jsonl", "--explain", "5", "--json"]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&json["line"], &json["class"], json["calls"].as_array().unwrap().len()),
        (&5.into(), &"event".into(), 1)
    );
    let call = &json["calls"][0];
    assert_eq!(
        (&call["kind"], &call["outcome"], &call["why"]),
        (&"launch".into(), &"denied".into(), &"no-token".into())
    );
    assert_eq!(call["before"], serde_json::json!({"tokens": 0.75, "error": 0.0}));
    assert_eq!((&call["due"]["in_s"], &call["refill"]["expected"]), (&0.05.into(), &0.75.into()));
}

#[test]
fn the_line_is_looked_for_in_the_file_that_is_named() {
    let (log, records) = (std::fs::read(data("sim_lab.log")).unwrap(), std::fs::read(data("sim_lab.jsonl")).unwrap());
    let folder = folder(&[("hook.log", &log), ("hook.jsonl", &records), ("b.log", LINES.as_bytes())]);
    let explain = |arguments: &[&str]| {
        let output = run(folder.path(), &[arguments, &["--lang", "en"]].concat());
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    };
    // The log beside its event file: a line of either is the same call.
    let (_, line) = explain(&["hook.log", "--explain", "10"]);
    let (_, record) = explain(&["hook.log", "--explain", "hook.jsonl:9"]);
    let tail = |text: &str| text.lines().skip(1).collect::<Vec<_>>().join("\n");
    assert_eq!(tail(&line), tail(&record));
    assert!(line.contains("monotonic clock") && line.contains("call 8 of process"), "{line}");
    assert_eq!(explain(&["hook.log", "b.log", "--explain", "b.log:5"]).0, Some(0));
    let (code, error) = explain(&["hook.log", "b.log", "--explain", "5"]);
    assert!(code == Some(2) && error.contains("several logs were read; write `--explain FILE:LINE`"), "{error}");
    let (code, error) = explain(&["hook.log", "--explain", "c.log:5"]);
    assert!(code == Some(2) && error.contains("no file that was read is called `c.log`"), "{error}");
    let (code, error) = explain(&["b.log", "--explain", "25"]);
    assert!(code == Some(2) && error.contains("`b.log` has 24 lines, there is no line 25"), "{error}");
    let (code, error) = explain(&["b.log", "--explain", "0"]);
    assert!(code == Some(2) && error.contains("`0` is no line"), "{error}");
}

#[test]
fn a_line_of_standard_input_is_explained_as_far_as_it_was_read() {
    let folder = folder(&[("a.log", LINES.as_bytes())]);
    let piped = |line: &str| {
        let shell = format!("cat a.log | {} - --explain {line} --lang en", env!("CARGO_BIN_EXE_hook-analyze"));
        let output = std::process::Command::new("bash").args(["-c", &shell]).current_dir(folder.path()).output();
        text(&output.unwrap().stdout)
    };
    assert!(piped("14").contains("no whole token was there"));
    assert!(piped("21").contains("save it to a file"));
}

#[test]
fn every_line_of_every_log_can_be_explained() {
    for name in
        ["course_h200_cuda13.log", "torch_quota_h200.log", "nogpu_token_bucket.log", "hami_core_level4_h200.log"]
    {
        let path = data(name);
        let lines = std::fs::read_to_string(&path).unwrap().lines().count();
        for line in (1..=lines).step_by(lines / 20 + 1) {
            for more in [&["--lang", "zh"][..], &["--lang", "en"], &["--json"]] {
                let place = format!("{name}:{line}");
                let output = run(Path::new("."), &[&[path.to_str().unwrap(), "--explain", &place], more].concat());
                let shown = text(&output.stdout);
                assert!(output.status.success() && shown.lines().count() >= 2, "{place}: {output:?}");
                assert!(!shown.contains("NaN") && !shown.contains("inf "), "{shown}");
            }
        }
    }
}
