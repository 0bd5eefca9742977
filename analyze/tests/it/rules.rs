//! Rules on real logs, and single ones on small logs.

use hook_analyze::analysis::{Check, Status};
use serde_json::{Value, json};

use crate::common::{data, folder, load, of_text, run, text, unbroken};

fn check(log: &str, id: &str) -> Check {
    of_text(log).1.summary.checks.into_iter().find(|check| check.id == id).unwrap()
}

#[test]
fn no_rule_is_broken_in_a_real_log() {
    let logs = std::fs::read_dir(data("")).unwrap().map(|entry| entry.unwrap().path());
    for log in logs.filter(|path| path.to_string_lossy().contains(".log")) {
        let broken: Vec<Check> =
            load(&log).1.summary.checks.into_iter().filter(|check| check.status == Status::Fail).collect();
        assert!(broken.is_empty(), "{}: {broken:?}", log.display());
    }
}

#[test]
fn pytorchs_two_refusals_are_told_as_one_request() {
    let out = run(&data(""), &["torch_quota_h200.log", "--lang", "en"]);
    let said = unbroken(&out.stdout);
    assert!(said.contains("lines 19 and 26 are one request of 4294967296 bytes"), "{said}");
    assert!(said.contains("the program freed 6 blocks (71303168 bytes)"), "{said}");
    let zh = unbroken(&run(&data(""), &["torch_quota_h200.log"]).stdout);
    assert!(zh.contains("第 19 行与第 26 行是同一次 4294967296 字节的申请"), "{zh}");
}

#[test]
fn a_broken_rule_has_its_numbers() {
    let log = "[HOOK] 算力限速: 5 tokens/s, burst 3\n\
               [HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) -> 0 | tokens=2.0\n\
               [HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) DENIED | tokens=2.0\n";
    let check = check(log, "denied-only-when-empty");
    let json = serde_json::to_value(&check).unwrap();
    assert_eq!((&json["expected"], &json["seen"], &json["tolerance"]), (&1.0.into(), &2.0.into(), &0.05.into()));
    let kept = serde_json::to_value(self::check(log, "starts-full")).unwrap();
    assert_eq!((&kept["status"], &kept["expected"]), (&"pass".into(), &Value::Null));
}

#[test]
fn a_launch_that_cuda_refused_takes_its_token() {
    let log = "[HOOK] 算力限速: 5 tokens/s, burst 3\n\
               [HOOK] cudaLaunchKernel(grid=16,1,1 block=1025,1,1) -> 9 | tokens=2.0\n\
               [HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) -> 0 | tokens=1.0\n";
    assert_eq!(check(log, "pass-takes-one").status, Status::Pass);
    assert_eq!(check(&log.replace("tokens=2.0", "tokens=3.0"), "pass-takes-one").status, Status::Fail);
}

#[test]
fn a_free_of_an_unknown_address_is_a_fault_only_where_it_is_subtracted() {
    let log = "[HOOK] 显存配额: 128 MB (134217728 bytes)\n\
               [HOOK] cudaMalloc(1048576) -> 0x7f00 | total: 1.0 MB\n\
               [HOOK] cudaFree(0x9f00) -> 1 | freed: 0 bytes | total: 1.0 MB\n\
               [HOOK] cudaFree(0x7f00) -> 0 | freed: 1048576 bytes | total: 0.0 MB\n";
    let harmless = check(log, "free-of-unknown");
    assert!(harmless.status == Status::Pass && harmless.detail.contains("1 of them"), "{harmless:?}");
    let twice = format!("{log}[HOOK] cudaFree(0x7f00) -> 0 | freed: 1048576 bytes | total: 0.0 MB\n");
    let fault = check(&twice, "free-of-unknown");
    assert_eq!((fault.status, fault.line, fault.seen), (Status::Fail, Some(5), Some(1_048_576.0)));
}

#[test]
fn a_launch_has_three_outcomes_in_lines_and_records() {
    let log = "[HOOK] 算力限速: 5 tokens/s, burst 3\n\
               [HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) -> 0 | tokens=2.0\n\
               [HOOK] cudaLaunchKernel(grid=16,1,1 block=1025,1,1) -> 9 | tokens=1.0\n\
               [HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) -> 0 | tokens=0.0\n\
               [HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) DENIED | tokens=0.0\n";
    let records = |spent: f64| {
        let start = r#"{"v":1,"ev":"start","run":"r","pid":7,"mono_ns":0,"quota_bytes":null,"rate":5.0,"capacity":3.0,"policy":"deny","hook":"0.1.0"}"#;
        let calls = [("ok", 0, 2.0), ("failed", 9, 2.0 - spent), ("ok", 0, 1.0 - spent), ("denied", 4, 1.0 - spent)];
        let call = |(n, (outcome, ret, tokens)): (usize, (&str, i32, f64))| {
            format!(
                "{{\"ev\":\"call\",\"seq\":{},\"mono_ns\":1000,\"pid\":7,\"tid\":7,\"api\":\"cudaLaunchKernel\",\"grid\":[1,1,1],\
                 \"block\":[32,1,1],\"outcome\":\"{outcome}\",\"ret\":{ret},\"tokens\":{tokens:?},\"wait_ns\":0}}\n",
                n + 1
            )
        };
        format!("{start}\n{}", calls.into_iter().enumerate().map(call).collect::<String>())
    };
    let figures = |name: &str, log: &str| {
        let folder = folder(&[(name, log.as_bytes())]);
        load(&folder.path().join(name)).1.summary
    };
    for summary in [figures("a.log", log), figures("a.jsonl", &records(1.0))] {
        let api = &summary.apis[0];
        assert_eq!((api.calls, api.ok, api.denied, api.failed), (4, 2, 1, 1));
        let broken: Vec<&Check> = summary.checks.iter().filter(|check| check.status == Status::Fail).collect();
        assert!(broken.is_empty(), "{broken:?}");
        let kept = summary.checks.iter().find(|check| check.id == "pass-takes-one").unwrap();
        assert_eq!(kept.status, Status::Pass, "{kept:?}");
    }
    // One whose refusal by CUDA costs nothing.
    let spared = figures("a.jsonl", &records(0.0));
    let broken = spared.checks.iter().find(|check| check.status == Status::Fail).unwrap();
    assert_eq!(broken.line, Some(3), "{broken:?}");
}

#[test]
fn hami_cores_refusals_agree_with_grep() {
    for name in ["hami_core_default_h200.log", "hami_core_level4_h200.log", "hami_core_torch_oom_h200.log"] {
        let path = data(name);
        let grep = std::process::Command::new("grep").args(["-c", "OOM"]).arg(&path).output().unwrap();
        let lines: u64 = text(&grep.stdout).trim().parse().unwrap();
        let summary = load(&path).1.summary;
        let denied: u64 = summary.apis.iter().map(|api| api.denied).sum();
        assert!(lines > 0 && denied == lines, "{name}: grep {lines}, denied {denied}");
        let by_process: u64 = summary.processes.iter().map(|process| process.denied).sum();
        assert_eq!(by_process, lines, "{name}");
    }
}

/// Line of the log; what is changed in its record to what, and the record's number; what the rule tells, in words and numbers.
type Change = (u64, &'static str, &'static str, u64, &'static str, Option<(f64, f64)>);

#[test]
fn a_record_that_tells_otherwise_than_its_line_breaks_log_agrees() {
    let (log, records) =
        ["sim_lab.log", "sim_lab.jsonl"].map(|name| std::fs::read_to_string(data(name)).unwrap()).into();
    let changes: [Change; 4] = [
        (
            6,
            "\"size\":4194304,",
            "\"size\":4194305,",
            4,
            "size: 4194304 in the line, 4194305 in the record",
            Some((4_194_305.0, 4_194_304.0)),
        ),
        (
            5,
            "\"total\":0,",
            "\"total\":1048576,",
            3,
            "total: 0 in the line, 1048576 in the record",
            Some((1_048_576.0, 0.0)),
        ),
        (7, "\"tokens\":2.0", "\"tokens\":2.2", 5, "tokens: 2 in the line, 2.2 in the record", Some((2.2, 2.0))),
        (8, "\"outcome\":\"ok\",\"ret\":0", "\"outcome\":\"denied\",\"ret\":4", 6, "the outcome differs", None),
    ];
    for (line, from, to, seq, said, numbers) in changes {
        let is_it = |text: &str| text.contains(&format!("\"seq\":{seq},"));
        let change = |text: &str| if is_it(text) { text.replacen(from, to, 1) } else { text.to_owned() };
        let changed: Vec<String> = records.lines().map(change).collect();
        let changed = changed.join("\n") + "\n";
        assert_ne!(changed, records, "{from}");
        let folder = folder(&[("a.log", log.as_bytes()), ("b.jsonl", changed.as_bytes())]);
        let out = run(folder.path(), &["a.log", "b.jsonl", "--json"]);
        let figures: Value = serde_json::from_slice(&out.stdout).unwrap();
        let check = figures["checks"].as_array().unwrap().iter().find(|check| check["id"] == "log-agrees").unwrap();
        assert_eq!((&check["status"], &check["line"]), (&"fail".into(), &line.into()), "{check}");
        assert!(check["detail"].as_str().unwrap().contains(said), "{check}");
        let expected = numbers.map_or((Value::Null, Value::Null), |(record, line)| (json!(record), json!(line)));
        assert_eq!((&check["expected"], &check["seen"]), (&expected.0, &expected.1), "{check}");
        // An event file that only lies there may be another run's: no fault, but told.
        std::fs::rename(folder.path().join("b.jsonl"), folder.path().join("a.jsonl")).unwrap();
        let check = load(&folder.path().join("a.log")).1.summary.checks;
        let check = check.iter().find(|check| check.id == "log-agrees").unwrap();
        assert!(check.status == Status::NotApplicable && check.detail.contains(said), "{check:?}");
    }
}

#[test]
fn rates_are_given_where_time_is_known() {
    let rates = |name: &str| serde_json::to_value(&load(&data(name)).1.summary.processes).unwrap()[0]["rates"].clone();
    // 18 launches, 6 of them let through, the first three at once and three more behind the pause.
    let lab = rates("sim_lab.jsonl");
    let number = |key: &str| lab[key].as_f64().unwrap();
    assert_eq!((number("configured_per_s"), number("window_s"), number("window_allowed")), (5.0, 0.6, 6.0));
    assert_eq!(lab["window_admitted"], 3);
    assert!((number("offered_per_s") / number("admitted_per_s") - 3.0).abs() < 1e-9, "{lab}");
    let log = std::fs::read_to_string(data("course_h200_cuda13.log")).unwrap();
    assert_eq!(serde_json::to_value(&of_text(log).1.summary.processes).unwrap()[0]["rates"], Value::Null);
}

#[test]
fn many_banners_without_a_call_are_judged() {
    const BANNERS: usize = 40_000;
    let banner = "[HOOK] 显存配额: 128 MB (134217728 bytes)\n[HOOK] 算力限速: 5 tokens/s, burst 3\n";
    let call = "[HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) -> 0 | tokens=2.0\n";
    let folder = folder(&[("a.log", (banner.repeat(BANNERS) + call).as_bytes())]);
    let figures = hook_analyze::figures::read(&[folder.path().join("a.log")], None).unwrap();
    let starts = figures.summary.checks.iter().find(|check| check.id == "starts-full").unwrap();
    assert_eq!(starts.status, Status::Pass, "{starts:?}");
    // Behind another's calls a banner is no beginning that can be told.
    let two = format!("{banner}{call}{banner}{}", call.replace("2.0", "1.0"));
    assert_eq!(check(&two, "starts-full").status, Status::NotApplicable);
}

#[test]
fn sizes_that_no_64_bits_hold_are_not_taken_for_few_blocks() {
    // 2^31 x 2^31 x 4 blocks; a bucket that takes nothing of such a launch is at fault.
    let launch = "[HOOK] cudaLaunchKernel(grid=2147483648,2147483648,4 block=256,1,1) -> 0 | tokens=3.0\n";
    let log = format!("[HOOK] 算力限速: 5 tokens/s, burst 3\n{}", launch.repeat(3));
    let found = check(&log, "pass-takes-one");
    assert_eq!((found.status, found.line), (Status::Fail, Some(2)), "{found:?}");
    let small = log.replace("2147483648,2147483648,4", "2,1,1");
    assert_ne!(check(&small, "pass-takes-one").status, Status::Fail);
}

#[test]
fn stamps_centuries_apart_are_no_fault() {
    let line = "[HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) -> 0 | tokens=2.0\n";
    let years = ["1700", "2200", "2201", "2202", "2203"];
    let launches = years.map(|year| format!("{year}-01-01T00:00:00Z {line}")).concat();
    let log = format!("1700-01-01T00:00:00Z [HOOK] 算力限速: 5 tokens/s, burst 3\n{launches}");
    let broken = of_text(&log).1.summary.checks.into_iter().find(|check| check.status == Status::Fail);
    assert!(broken.is_none(), "{broken:?}");
}

#[test]
fn standard_input_is_named_so_in_every_note() {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let mut child = Command::new(env!("CARGO_BIN_EXE_hook-analyze"))
        .args(["-", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let log = "[HOOK] cudaMalloc(1) -> 0x100 | total: 0.0 MB\n[HOOK] cudaMalloc(nan) -> 0x200\n";
    child.stdin.take().unwrap().write_all(log.as_bytes()).unwrap();
    let figures: Value = serde_json::from_slice(&child.wait_with_output().unwrap().stdout).unwrap();
    let note = figures["notes"][0].as_str().unwrap();
    assert!(note.starts_with("standard input: 1 line of a hook not understood"), "{note}");
}
