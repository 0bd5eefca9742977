//! `--trace`: held against the trace-event format's rules and against the figures of the log.

use std::collections::HashMap;
use std::path::Path;

use serde_json::Value;

use crate::common::{data, folder, load, run, text};

/// The trace of a log, every event of which keeps the rules.
fn trace(folder: &Path, log: &str, more: &[&str]) -> Value {
    let arguments = [&[log, "--trace", "t.json"], more].concat();
    let output = run(folder, &arguments);
    assert!(output.status.success(), "{log}: {}", text(&output.stderr));
    let trace: Value = serde_json::from_slice(&std::fs::read(folder.join("t.json")).unwrap()).unwrap();
    keeps_the_rules(&trace);
    trace
}

/// Thousandths of µs.
fn ns(event: &Value, key: &str) -> u64 {
    let us = event[key].as_f64().unwrap_or_else(|| panic!("{key} of {event}"));
    assert!(us >= 0.0, "{event}");
    (us * 1000.0).round() as u64
}

fn keeps_the_rules(trace: &Value) {
    assert!(trace["otherData"].as_object().unwrap().values().all(Value::is_string));
    let mut latest: HashMap<(u64, u64), u64> = HashMap::new();
    let mut ends: HashMap<(u64, u64), u64> = HashMap::new();
    let mut counters: HashMap<(u64, String), u64> = HashMap::new();
    let mut named: HashMap<u64, u32> = HashMap::new();
    for event in trace["traceEvents"].as_array().unwrap() {
        let name = event["name"].as_str().unwrap();
        let (pid, tid) = (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
        assert!((1..=i32::MAX as u64).contains(&pid) && (1..=i32::MAX as u64).contains(&tid), "{event}");
        let at = ns(event, "ts");
        let args = event["args"].as_object().unwrap();
        let whole = args.values().filter_map(Value::as_u64).all(|number| number <= 1 << 53);
        match event["ph"].as_str().unwrap() {
            "M" => {
                let key = match name {
                    "process_name" | "thread_name" => "name",
                    "process_labels" => "labels",
                    "process_sort_index" => "sort_index",
                    other => panic!("{other}"),
                };
                assert!(args.contains_key(key) && args.len() == 1, "{event}");
                *named.entry(pid).or_default() += u32::from(name == "process_name");
            }
            "C" => {
                assert!(args.len() == 1 && args.values().all(Value::is_number), "{event}");
                let last = counters.insert((pid, name.to_owned()), at);
                assert!(last.is_none_or(|last| last <= at), "{event}");
            }
            "X" => {
                assert!(whole && event["cat"] == "call" && args.contains_key("outcome"), "{event}");
                let end = ends.entry((pid, tid)).or_default();
                assert!(*end <= at, "overlaps the call before: {event}");
                *end = at + ns(event, "dur");
                assert!(latest.insert((pid, tid), at).is_none_or(|last| last <= at), "{event}");
            }
            "i" => {
                assert!(whole && event["cat"] == "denial" && event["s"] == "t", "{event}");
                assert!(name.starts_with("denied: "));
                assert!(at <= ends[&(pid, tid)] && latest[&(pid, tid)] <= at, "within its call: {event}");
                assert!(latest.insert((pid, tid), at).is_some());
            }
            other => panic!("{other}"),
        }
    }
    assert!(named.values().all(|&times| times == 1), "a process id each: {named:?}");
}

fn phase<'a>(trace: &'a Value, phase: &'a str) -> impl Iterator<Item = &'a Value> {
    trace["traceEvents"].as_array().unwrap().iter().filter(move |event| event["ph"] == phase)
}

fn files() -> Vec<String> {
    let all = std::fs::read_dir(data("")).unwrap().map(|entry| entry.unwrap());
    let all = all.filter(|entry| entry.path().is_file()).map(|entry| entry.file_name().into_string().unwrap());
    all.filter(|name| !name.ends_with(".md") && !name.ends_with(".txt")).collect()
}

#[test]
fn traces_of_real_logs_keep_the_rules_and_agree_with_the_figures() {
    let folder = folder(&[]);
    for name in files() {
        let path = data(&name);
        let trace = trace(folder.path(), path.to_str().unwrap(), &[]);
        let (events, analysis) = load(&path);
        let summary = &analysis.summary;
        assert_eq!(phase(&trace, "X").count(), events.calls.len(), "{name}");
        let denied: u64 = summary.apis.iter().map(|api| api.denied).sum();
        assert_eq!(phase(&trace, "i").count() as u64, denied, "{name}");
        let counter = |name: &'static str, key: &'static str| {
            phase(&trace, "C")
                .filter(move |event| event["name"] == name)
                .map(move |event| event["args"][key].as_f64().unwrap())
        };
        if !summary.memory.untold {
            let peak = counter("device memory", "live_bytes").fold(0.0, f64::max);
            assert_eq!(peak, summary.memory.peak_bytes as f64, "{name}");
        }
        assert_eq!(counter("tokens", "level").reduce(f64::min), summary.tokens.min, "{name}");
        let base = serde_json::to_value(summary.time.base).unwrap();
        assert_eq!(trace["otherData"]["time_base"], base, "{name}");
        let unsaid = |event: &&Value| base != "monotonic" && event["args"]["time"].is_null();
        assert_eq!(phase(&trace, "X").filter(unsaid).count(), 0, "{name}: what is inferred says so");
        if let Some(duration) = summary.time.duration_s.filter(|_| base != "sequence") {
            let last = phase(&trace, "X").map(|event| ns(event, "ts")).max().unwrap() as f64 / 1e9;
            assert!((last - duration).abs() < 0.05, "{name}: {last} of {duration} s");
        }
    }
}

#[test]
fn a_call_takes_what_its_record_says_and_a_wait_stands_before_the_decision() {
    let call = |seq: u64, mono: u64, tid: u64, rest: &str| {
        format!("{{\"ev\":\"call\",\"seq\":{seq},\"mono_ns\":{mono},\"pid\":7,\"tid\":{tid},{rest}}}\n")
    };
    let launch = |outcome: &str, wait: u64| {
        format!(
            "\"api\":\"cudaLaunchKernel\",\"grid\":[1,1,1],\"block\":[32,1,1],\"kernel\":\"<script>\\\"\\u0007\",\"outcome\":\"{outcome}\",\
             \"tokens\":0.5,\"wait_ns\":{wait},\"real_ns\":3000,\"hook_ns\":500"
        )
    };
    let malloc = "\"api\":\"cudaMalloc\",\"size\":18446744073709551615,\"ptr\":\"0x7f00\",\"outcome\":\"ok\",\"real_ns\":9000,\"hook_ns\":1000";
    let log = [
        "{\"v\":1,\"ev\":\"start\",\"run\":\"r\",\"mono_ns\":1,\"pid\":7,\"exe\":\"/x/a\\u202e\\\"b\",\"host\":\"h\",\"quota_bytes\":100,\"rate\":5.0,\"capacity\":3.0}\n".to_owned(),
        call(1, 110_000, 7, malloc),
        call(2, 200_000, 7, &launch("ok", 0)),
        call(3, 500_000, 9, &launch("ok", 250_000)),
        // Within the call before, by its stamp.
        call(4, 500_100, 9, &launch("ok", 0)),
        call(5, 600_000, u64::from(u32::MAX), &launch("denied", 0).replace("3000", "0")),
    ];
    let folder = folder(&[("a.jsonl", log.concat().as_bytes())]);
    let trace = trace(folder.path(), "a.jsonl", &[]);
    let slices: Vec<(u64, u64)> = phase(&trace, "X").map(|event| (ns(event, "ts"), ns(event, "dur"))).collect();
    // The first call began at 100 000.
    assert_eq!(slices, [(0, 10_000), (100_000, 3500), (150_000, 253_500), (403_500, 100), (500_000, 500)]);
    let args = |number: usize| &phase(&trace, "X").nth(number).unwrap()["args"];
    assert_eq!(args(0)["size"], "18446744073709551615");
    assert_eq!((&args(2)["wait_ns"], &args(3)["moved_ns"]), (&250_000.into(), &3400.into()));
    assert_eq!(args(2)["kernel"], "<script>\"\u{7}");
    let denial = phase(&trace, "i").next().unwrap();
    assert_eq!((ns(denial, "ts"), &denial["args"]["tokens"]), (500_000, &0.5.into()));
    let names: Vec<&str> = phase(&trace, "M").filter_map(|event| event["args"]["name"].as_str()).collect();
    assert_eq!(names, ["a\u{202e}\"b", "thread 7", "thread 9", "thread 4294967295"]);
}

#[test]
fn chosen_calls_alone_are_slices_and_processes_keep_apart() {
    let bucket = data("nogpu_token_bucket.log");
    let folder = folder(&[]);
    let all = trace(folder.path(), bucket.to_str().unwrap(), &[]);
    let pids: std::collections::BTreeSet<u64> = phase(&all, "X").map(|event| event["pid"].as_u64().unwrap()).collect();
    assert_eq!(pids.len(), 3, "containers without an id");
    let denied = trace(folder.path(), bucket.to_str().unwrap(), &["--outcome", "denied"]);
    let counts = ["X", "i", "C"].map(|of| (phase(&denied, of).count(), phase(&all, of).count()));
    assert_eq!(counts, [(13, 40), (13, 13), (40, 40)]);
    assert_eq!(denied["otherData"]["filter"], "outcome=denied");
    // The same program twice, and one id.
    let twice = std::fs::read_to_string(data("sim_lab.jsonl")).unwrap().repeat(2);
    std::fs::write(folder.path().join("twice.jsonl"), twice).unwrap();
    let trace = trace(folder.path(), "twice.jsonl", &[]);
    assert_eq!(phase(&trace, "X").count(), 50);
}

#[test]
fn a_trace_is_an_output_like_the_others() {
    let folder = folder(&[("hook.log", crate::common::lab().as_bytes())]);
    for (arguments, said) in [
        (&["--trace", "hook.log"][..], "`hook.log` is also an input"),
        (&["--trace", "x", "--csv", "x"], "two outputs are named `x`"),
        (&["--trace", "-"], "`-` is no output"),
        (&["--trace", "/dev/full"], "cannot write `/dev/full`: No space left on device"),
        (&["--trace", "no/such/t.json"], "cannot write `no/such/t.json`"),
        (&["-f", "--trace", "t.json"], "cannot be used with"),
    ] {
        let output = run(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(said), "{arguments:?}: {}", text(&output.stderr));
    }
}

#[test]
fn many_processes_without_an_id_get_one_each() {
    const PROCESSES: usize = 20_000;
    let one =
        "[HOOK] 算力限速: 5 tokens/s, burst 3\n[HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) -> 0 | tokens=2.0\n";
    let folder = folder(&[("a.log", one.repeat(PROCESSES).as_bytes())]);
    let (events, analysis) = load(&folder.path().join("a.log"));
    let ids: std::collections::BTreeSet<u64> =
        hook_analyze::analysis::trace::lanes(&events, &analysis).iter().map(|lane| lane.pid).collect();
    assert_eq!(ids.len(), PROCESSES);
}
