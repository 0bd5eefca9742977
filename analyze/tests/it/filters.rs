//! Outputs about some of the calls: counts are counted again, what takes all calls is left out, and nothing is wrong.

use serde_json::{Value, json};

use crate::common::{data, folder, lab, run, text};

fn figures(arguments: &[&str]) -> Value {
    let folder = folder(&[("hook.log", lab().as_bytes())]);
    let output = run(folder.path(), &[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_choice_of_nothing_names_what_there_is() {
    let notes = figures(&["--api", "cudamalloc"])["notes"].to_string();
    assert!(
        notes.contains("no call is among the chosen; the log has calls of cudaLaunchKernel, cudaMalloc, cudaFree"),
        "{notes}"
    );
}

#[test]
fn counts_are_of_the_chosen_calls_and_totals_are_left_out() {
    let all = figures(&[]);
    assert!(all.get("filter").is_none());
    let denied = figures(&["--outcome", "denied"]);
    assert_eq!(
        denied["apis"],
        json!([{"api": "cudaLaunchKernel", "calls": 12, "ok": 0, "denied": 12, "failed": 0},
               {"api": "cudaMalloc", "calls": 1, "ok": 0, "denied": 1, "failed": 0}])
    );
    assert_eq!(
        (&denied["filter"]["chosen"], &denied["filter"]["calls"], &denied["filter"]["of"]),
        (&json!("outcome=denied"), &json!(13), &json!(25))
    );
    for (group, keys) in [
        ("memory", &["peak_bytes", "live_bytes", "allocated_bytes", "freed_bytes", "unknown_frees"][..]),
        ("tokens", &["first", "min", "max", "last", "denial_streaks"]),
    ] {
        for key in keys {
            assert_eq!(denied[group].get(key), Some(&Value::Null), "{group}.{key}");
            assert_eq!(denied["processes"][0][group].get(key), Some(&Value::Null), "{group}.{key}");
        }
    }
    // Rules are kept by all calls together.
    assert_eq!((&denied["checks"], &denied["config"]), (&all["checks"], &all["config"]));
    let shapes = figures(&["--api", "cudaLaunch*,cudaFree", "--outcome", "ok"]);
    assert_eq!(shapes["dims"], json!([{"grid": [1,1,1], "block": [32,1,1], "calls": 6, "denied": 0, "failed": 0}]));
    assert_eq!(shapes["processes"][0]["calls"], 6 + 3);
}

#[test]
fn all_outputs_share_the_choice() {
    let folder = folder(&[("hook.log", lab().as_bytes())]);
    let arguments =
        ["--api", "cudaMalloc", "--outcome", "denied", "--csv", "c.csv", "--report", "r.md", "--plot", "t.svg"];
    let output = run(folder.path(), &[&arguments[..], &["--lang", "en"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let summary = text(&output.stdout);
    assert!(summary.contains("filter: api=cudaMalloc outcome=denied; 1 of 25 calls"), "{summary}");
    assert!(!summary.contains("memory:") && !summary.contains("tokens:"), "{summary}");
    let csv = std::fs::read_to_string(folder.path().join("c.csv")).unwrap();
    let (head, row) = csv.trim_end().split_once('\n').unwrap();
    let value = |name: &str| {
        let place = head.split(',').position(|column| column == name).unwrap();
        row.split(',').nth(place).unwrap().to_owned()
    };
    // The row is as it is among all calls.
    assert_eq!((value("line"), value("call"), value("live_bytes")), ("4".into(), "2".into(), "67108864".into()));
    let report = std::fs::read_to_string(folder.path().join("r.md")).unwrap();
    assert!(report.contains("Only these calls: api=cudaMalloc outcome=denied (1 of 25)"), "{report}");
    assert!(report.contains("1 allocations, 0 granted, 1 denied") && !report.contains("Peak"), "{report}");
    assert!(report.contains("| 4 | 2048 MB (2147483648 bytes) | 64 MB | 2112 MB | 128 MB |"), "{report}");
    assert!(report.contains("None of the chosen calls is a launch.") && !report.contains("no recovery"), "{report}");
    let svg = std::fs::read_to_string(folder.path().join("t.svg")).unwrap();
    assert!(svg.contains("2048 MB"));
}

#[test]
fn a_process_is_chosen_with_all_that_it_did() {
    let first = std::fs::read_to_string(data("sim_lab.jsonl")).unwrap();
    let pid = first.split("\"pid\":").nth(1).unwrap().split(',').next().unwrap().to_owned();
    let second = first.replace(&format!("\"pid\":{pid}"), "\"pid\":77").replace("67108864", "33554432");
    let folder = folder(&[("a.jsonl", format!("{first}{second}").as_bytes())]);
    let of = |arguments: &[&str]| -> Value {
        let output = run(folder.path(), &[&["a.jsonl", "--json"], arguments].concat());
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let one = of(&["--pid", "77"]);
    assert_eq!((one["processes"].as_array().unwrap().len(), &one["processes"][0]["pid"]), (1, &json!(77)));
    assert_eq!(one["memory"]["peak_bytes"], 33_554_432);
    assert_eq!(one["tokens"]["denial_streaks"].as_array().unwrap().len(), 2);
    assert_eq!(of(&["--pid", &format!("77,{pid}")])["apis"], of(&[])["apis"]);
    let output = run(folder.path(), &["a.jsonl", "--pid", "5"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("77"), "{}", text(&output.stderr));
}

#[test]
fn calls_are_chosen_by_time() {
    let path = data("sim_lab.jsonl");
    let of = |arguments: &[&str]| {
        let output = run(path.parent().unwrap(), &[&["sim_lab.jsonl", "--json"], arguments].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        json["filter"]["calls"].as_u64().unwrap()
    };
    // The test program pauses for 1.5 s between its two bursts.
    let (before, after) = (of(&["--to", "1"]), of(&["--from", "1"]));
    assert_eq!(before + after, 25);
    assert!(before > 10 && after > 5, "{before} {after}");
    let jsonl = std::fs::read_to_string(&path).unwrap();
    let record = jsonl.lines().find(|line| line.contains("\"seq\":9,")).unwrap();
    let stamp = record.split("\"ts\":\"").nth(1).unwrap().split('"').next().unwrap();
    assert_eq!(of(&["--from", stamp, "--to", stamp]), 1);
}

#[test]
fn launches_are_chosen_by_kernel() {
    // What a program with its own kernels writes: of 18 launches every third has another.
    let jsonl = std::fs::read_to_string(data("sim_lab.jsonl")).unwrap();
    let mut launches = 0;
    let named: String = jsonl
        .lines()
        .map(|line| {
            let kernel = if line.contains("\"grid\"") {
                launches += 1;
                if launches % 3 == 0 { "_Z4gemmPf" } else { "_Z12dummy_kernelPfi" }
            } else {
                ""
            };
            line.replace(
                ",\"outcome\"",
                &format!(",\"kernel\":\"{kernel}\",\"outcome\"").replace(",\"kernel\":\"\"", ""),
            ) + "\n"
        })
        .collect();
    assert_eq!(launches, 18);
    let folder = folder(&[("a.jsonl", named.as_bytes())]);
    for (kernel, calls) in
        [("dummy", 12), ("gemm", 6), ("_Z4gemmPf", 6), ("gemm*", 0), ("*gemm*,_Z12*", 18), ("*", 18), ("no", 0)]
    {
        let output = run(folder.path(), &["a.jsonl", "--kernel", kernel, "--json", "--csv", "c.csv"]);
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(json["filter"]["calls"], calls, "{kernel}");
        assert_eq!(
            std::fs::read_to_string(folder.path().join("c.csv")).unwrap().lines().count(),
            calls + 1,
            "{kernel}"
        );
    }
}

#[test]
fn what_can_not_be_chosen_by_is_an_error() {
    let folder =
        folder(&[("hook.log", lab().as_bytes()), ("quota.log", &std::fs::read(data("torch_quota_h200.log")).unwrap())]);
    for (arguments, said) in [
        (&["hook.log", "--from", "2026-11-30T07:42:11Z"][..], "no wall-clock time"),
        (&["quota.log", "--from", "1"], "tells no time"),
        (&["hook.log", "--pid", "1"], "course lines carry none"),
        (&["hook.log", "--outcome", "refused"], "is no outcome"),
        (&["hook.log", "--from", "yesterday"], "neither seconds"),
        (&["hook.log", "--api", "a["], "is no pattern"),
    ] {
        let output = run(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(said), "{}", text(&output.stderr));
    }
    // Inferred times do.
    assert!(run(folder.path(), &["hook.log", "--from", "0.5"]).status.success());
}

#[test]
fn calls_without_rows_are_chosen_by_their_api() {
    let path = data("hami_core_level4_h200.log");
    let of = |arguments: &[&str]| -> Value {
        let output = run(path.parent().unwrap(), &[&["hami_core_level4_h200.log", "--json"], arguments].concat());
        serde_json::from_slice(&output.stdout).unwrap()
    };
    assert_eq!(of(&["--api", "cuDevice*"])["filter"]["calls"], 115 + 3 + 2 + 2 + 1 + 1 + 1);
    assert_eq!(of(&["--api", "cuDevice*", "--outcome", "ok"])["filter"]["calls"], 0);
}
