//! `--diff`: two logs compared, and limits on how far they may be apart.

use serde_json::Value;

use crate::common::{data, folder, lab, run, text};

/// `--diff` of two files of `tests/data`, and its exit status.
fn json(a: &str, b: &str, limits: &[&str]) -> (Value, Option<i32>) {
    let (a, b) = (data(a), data(b));
    let mut arguments = vec!["--diff", a.to_str().unwrap(), b.to_str().unwrap(), "--json"];
    limits.iter().for_each(|limit| arguments.extend(["--fail-on", limit]));
    let output = run(folder(&[]).path(), &arguments);
    let json = serde_json::from_slice(&output.stdout);
    (json.unwrap_or_else(|_| text(&output.stderr).into()), output.status.code())
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

const COURSE: &str = "course_h200_cuda13.log";
const DENIED: &str = "torch_launches_denied_h200.log";
const RECORD: &str = "torch_launches_record_h200.log.gz";

#[test]
fn the_same_log_twice_has_no_difference() {
    for log in [COURSE, RECORD, "sim_lab.jsonl", "hami_core_level4_h200.log", "nogpu_token_bucket.log"] {
        let (diff, code) = json(log, log, &["calls=+0", "calls=-0%", "denied=+0%"]);
        assert_eq!((&diff["same"], code), (&true.into(), Some(0)), "{log}: {diff}");
        for key in ["apis", "checks"] {
            assert!(list(&diff[key]).is_empty(), "{log}: {diff}");
        }
        for key in ["shapes", "kernels"] {
            assert!(diff[key].as_array().is_none_or(Vec::is_empty), "{log}: {diff}");
        }
        let path = data(log);
        let log = path.to_str().unwrap();
        assert!(text(&run(folder(&[]).path(), &["--diff", log, log]).stdout).contains("没有差别"));
    }
    // Another run of the same program, whose first launch was slow: its calls are the same.
    assert_eq!(json(COURSE, "course_h200_slow_first_launch.log", &[]).0["same"], true);
}

#[test]
fn what_a_rate_did_to_pytorch_is_told_by_api_shape_and_rate() {
    let (diff, code) = json(RECORD, DENIED, &["denial_rate=+5%"]);
    assert_eq!(code, Some(1));
    let launches = &diff["apis"][0];
    assert_eq!(launches["api"], "cudaLaunchKernel");
    assert_eq!((&launches["a"]["calls"], &launches["b"]["denied"]), (&30001.into(), &370.into()));
    let shapes = list(&diff["shapes"]);
    assert_eq!(shapes.len(), 10);
    assert_eq!(shapes[0]["of"], serde_json::json!([[16, 1, 1], [128, 1, 1]]));
    assert_eq!((&shapes[0]["a"], &shapes[0]["b"], &shapes[0]["change"]), (&8000.into(), &120.into(), &"fewer".into()));
    assert!((shapes[0]["ratio"].as_f64().unwrap() - 0.015).abs() < 1e-12);
    assert!(diff["kernels"].is_null(), "lines carry no names");
    let rate = &diff["metrics"]["denial_rate"];
    assert_eq!(rate["a"], 0.0);
    assert!((rate["change"].as_f64().unwrap() - 370.0 / 455.0).abs() < 1e-12);
    // The one only records: what takes a rate is judged in the other alone.
    let changed: Vec<&str> = list(&diff["checks"]).iter().map(|check| check["id"].as_str().unwrap()).collect();
    for id in ["tokens-in-range", "denied-only-when-empty", "denial-takes-none"] {
        assert!(changed.contains(&id), "{changed:?}");
    }
    // The other way round: everything is more, and nothing is denied.
    let (back, code) = json(DENIED, RECORD, &["denial_rate=+5%"]);
    assert_eq!((code, &back["shapes"][0]["change"]), (Some(0), &"more".into()));
}

#[test]
fn every_metric_can_be_limited_in_both_directions() {
    // Of the two logs all of these are known.
    let (diff, _) = json("sim_lab.jsonl", "sim_lab.jsonl", &[]);
    for (name, metric) in diff["metrics"].as_object().unwrap() {
        let share = name == "denial_rate";
        let known = !metric["a"].is_null();
        for change in ["+0%", "-0%", "+5%", "+0", "-3"] {
            let limit = format!("{name}={change}");
            let (verdict, code) = json("sim_lab.jsonl", "sim_lab.jsonl", &[&limit]);
            match (known, share && !change.ends_with('%')) {
                (_, true) => assert!(verdict.as_str().unwrap().contains("percentage points"), "{verdict}"),
                (true, _) => assert_eq!((code, &verdict["limits"][0]["exceeded"]), (Some(0), &false.into()), "{limit}"),
                (false, _) => {
                    assert_eq!(code, Some(2), "{limit}");
                    let said = verdict.as_str().unwrap();
                    assert!(said.contains("A does not tell it") && said.contains(metric["a_absent"].as_str().unwrap()));
                }
            }
        }
    }
    let unknown: Vec<&String> =
        diff["metrics"].as_object().unwrap().iter().filter(|m| m.1["a"].is_null()).map(|m| m.0).collect();
    assert_eq!(unknown, ["hook_ns_p99", "real_ns_p99"], "25 times have no 99th percentile");
}

#[test]
fn a_limit_is_exceeded_just_beyond_its_bound() {
    // 25 calls, 13 denied, peak 64 MB; and 455 calls, 370 denied, peak 68 MB.
    for (limit, code) in [
        ("calls=+429", 1),
        ("calls=+430", 0),
        ("calls=+1719%", 1),
        ("calls=+1720%", 0),
        ("calls=-0", 0),
        ("denied=+356", 1),
        ("denied=+357", 0),
        ("failed=+0", 0),
        // 52 % and 81.3 %.
        ("denial_rate=+29.31%", 1),
        ("denial_rate=+29.32%", 0),
        ("peak_bytes=+6.2%", 1),
        ("peak_bytes=+6.3%", 0),
        ("peak_bytes=+4194303", 1),
        ("peak_bytes=+4194304", 0),
        ("allocated_bytes=-4194303", 1),
        ("allocated_bytes=-4194304", 0),
        ("live_bytes=+99999%", 1),
        ("longest_streak=+30", 1),
        ("longest_streak=+31", 0),
        ("denied@cudaMalloc=-0", 1),
        ("denied@cudaMalloc=-1", 0),
        ("denial_rate@cudaLaunchKernel=+15.3%", 1),
        ("denial_rate@cudaLaunchKernel=+15.4%", 0),
        ("calls@cudaFree=-2", 1),
        ("calls@cudaFree=-3", 0),
        ("rate=+494", 1),
        ("capacity=+47", 0),
        ("tokens_max=+46", 1),
        ("rules_broken=+0", 0),
        ("bad_lines=+0", 0),
    ] {
        let (diff, got) = json("sim_lab.jsonl", DENIED, &[limit]);
        assert_eq!(got, Some(code), "{limit}: {diff}");
        assert_eq!(diff["limits"][0]["exceeded"], code == 1, "{limit}");
    }
    let (_, code) = json("sim_lab.jsonl", DENIED, &["calls=+430", "denied=+1"]);
    assert_eq!(code, Some(1), "one of several is enough");
}

#[test]
fn what_one_log_does_not_tell_passes_no_limit() {
    for (a, b, limit, said) in [
        ("sim_lab.jsonl", COURSE, "hook_ns_p50=+5%", "B does not tell it (no hook_ns in the log)"),
        (COURSE, "sim_lab.jsonl", "hook_ns_p50=+5%", "A does not tell it"),
        ("sim_lab.jsonl", COURSE, "duration_s=+5%", "the time is a lower bound"),
        ("sim_lab.jsonl", RECORD, "duration_s=+5%", "no time in the log"),
        ("sim_lab.jsonl", "sim_lab.jsonl", "hook_ns_p99=+5", "12 times, it takes 100"),
        (COURSE, "hami_core_default_h200.log", "peak_bytes=+5%", "the log does not tell what was granted"),
        (COURSE, RECORD, "tokens_min=+1", "no level of a bucket in the log"),
        (COURSE, RECORD, "denial_rate@cudaFree=+5%", "no call whose outcome the log tells"),
        (COURSE, RECORD, "denied@cudaFoo=+5", "neither log has a call of `cudaFoo`"),
        (COURSE, RECORD, "quota_bytes=+5%", "no limit is set"),
    ] {
        let (error, code) = json(a, b, &[limit]);
        assert_eq!(code, Some(2), "{limit}: {error}");
        assert!(error.as_str().unwrap().contains(said), "{limit}: {error}");
    }
}

#[test]
fn kernels_and_times_come_from_records() {
    let record = |kernels: &[(&str, u64)]| {
        let mut log = String::from(
            "{\"v\":1,\"ev\":\"start\",\"run\":\"r\",\"mono_ns\":1,\"pid\":4,\"exe\":\"/x/app\",\"host\":\"h\",\"hook\":\"0.1.0\"}\n",
        );
        let all = kernels.iter().flat_map(|(name, count)| std::iter::repeat_n(*name, *count as usize));
        for (seq, kernel) in (1u64..).zip(all) {
            log.push_str(&format!(
                "{{\"ev\":\"call\",\"seq\":{seq},\"ts\":\"2026-11-30T07:42:11.123456789Z\",\"mono_ns\":{},\"pid\":4,\"tid\":4,\
                 \"api\":\"cuLaunchKernel\",\"sym\":\"cuLaunchKernel\",\"dev\":0,\"grid\":[1,1,1],\"block\":[32,1,1],\"shmem\":0,\
                 \"stream\":\"0x0\",\"kernel\":\"{kernel}\",\"outcome\":\"ok\",\"ret\":0,\"real_ns\":{},\"hook_ns\":{}}}\n",
                seq * 1000,
                5000,
                seq
            ));
        }
        log
    };
    let hostile = format!("k|<b>{}", "n".repeat(300));
    let a = record(&[("gone", 10), ("same", 50), ("more", 20), ("fewer", 20)]);
    let b = record(&[("same", 50), ("more", 40), ("fewer", 10), (&hostile, 100)]);
    // Records of several threads stand out of order: what waits keeps its kernel and times.
    let mut turned: Vec<&str> = b.lines().collect();
    turned[1..].reverse();
    let folder = folder(&[("a.jsonl", a.as_bytes()), ("b.jsonl", (turned.join("\n") + "\n").as_bytes())]);
    let output = run(folder.path(), &["--diff", "a.jsonl", "b.jsonl", "--json"]);
    let diff: Value = serde_json::from_slice(&output.stdout).unwrap();
    let kernels: Vec<(&str, &str, u64, u64)> = list(&diff["kernels"])
        .iter()
        .map(|k| {
            let text = |key: &str| k[key].as_str().unwrap();
            (text("of"), text("change"), k["a"].as_u64().unwrap(), k["b"].as_u64().unwrap())
        })
        .collect();
    let want = [
        (hostile.as_str(), "appeared", 0, 100),
        ("gone", "gone", 10, 0),
        ("more", "more", 20, 40),
        ("fewer", "fewer", 20, 10),
    ];
    assert_eq!(kernels, want);
    let hook = |key: &str, side: &str| diff["metrics"][key][side].as_u64().unwrap();
    assert_eq!((hook("hook_ns_p50", "a"), hook("hook_ns_p99", "a")), (50, 99));
    assert_eq!((hook("hook_ns_p50", "b"), hook("hook_ns_p90", "b"), hook("real_ns_p99", "b")), (100, 180, 5000));
    // The same figures where rows are made: a log beside its event file.
    let shown = text(&run(folder.path(), &["--diff", "a.jsonl", "b.jsonl"]).stdout);
    assert!(shown.contains("出现") && shown.contains('…') && !shown.contains(&hostile), "{shown}");
}

#[test]
fn usage_that_makes_no_sense_is_refused() {
    let folder = folder(&[("a.log", lab().as_bytes()), ("b.log", lab().as_bytes()), ("empty.log", b"")]);
    for (arguments, said) in [
        (&["--diff", "a.log"][..], "2 values required"),
        (&["c.log", "--diff", "a.log", "b.log"], "cannot be used with"),
        (&["--diff", "a.log", "b.log", "--csv", "c.csv"], "cannot be used with"),
        (&["--diff", "a.log", "b.log", "--api", "cudaMalloc"], "cannot be used with"),
        (&["--diff", "a.log", "b.log", "--follow"], "cannot be used with"),
        (&["--diff", "a.log", "missing.log"], "cannot read `missing.log`"),
        (&["--diff", "a.log", "empty.log"], "文件是空的"),
        (&["--diff", "-", "-"], "compares two logs"),
        (&["a.log", "--fail-on", "calls=+1"], "`--fail-on` limits a comparison"),
        (&["--fail-on", "calls=+1"], "--diff"),
        (&["--diff", "a.log", "b.log", "--fail-on", "calls=5"], "a sign must tell the direction"),
        (&["--diff", "a.log", "b.log", "--fail-on", "wrong=+5"], "metrics: calls, denied"),
    ] {
        let output = run(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(said), "{arguments:?}: {}", text(&output.stderr));
        assert!(output.stdout.is_empty());
    }
}
