//! `--what-if`, `--size-for` and `--check`, by their effects.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::common::{data, folder, run, text};

/// The event file of the course's program on an H200.
fn h200() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../reports/2026-11-30-lab-h200/hook.jsonl")
}

fn json(arguments: &[&str]) -> Value {
    let output = run(Path::new("."), &[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn with_the_recorded_settings_every_recorded_decision_comes_out_again() {
    for path in
        [h200(), data("sim_lab.jsonl"), data("course_h200_cuda13.log"), data("course_h200_slow_first_launch.log")]
    {
        let all = json(&[path.to_str().unwrap(), "--what-if", "rate=5,capacity=3"]);
        let replay = &all["what_if"][0];
        let launches = all["apis"].as_array().unwrap().iter().find(|api| api["api"] == "cudaLaunchKernel").unwrap();
        assert_eq!(replay["launches"], launches["calls"], "{}", path.display());
        assert_eq!(replay["same_decisions"], launches["calls"], "{}", path.display());
        assert_eq!(replay["denied"], launches["denied"], "{}", path.display());
    }
}

/// A bucket of rational numbers, in another language.
const REPLAY: &str = "
import json, sys
from fractions import Fraction as F
rate, capacity, level, last = F(sys.argv[2]), F(sys.argv[3]), F(sys.argv[3]), None
passed = 0
for line in open(sys.argv[1]):
    call = json.loads(line)
    if call['ev'] != 'call' or 'tokens' not in call:
        continue
    now = call['mono_ns']
    if last is not None:
        level = min(capacity, level + rate * F(now - last, 10**9))
    last = now
    if level >= 1:
        level -= 1
        passed += 1
print(passed)
";

/// Launches at odd moments: a few thousand, in bursts and alone.
fn launches() -> String {
    let (mut log, mut now, mut random) = (String::new(), 1_000_000_007u64, 0x9e37_79b9_7f4a_7c15u64);
    for seq in 1..=4000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        now += if random >> 61 == 0 { (random >> 33) % 3_000_000_000 } else { (random >> 33) % 40_000_000 };
        log.push_str(&format!(
            r#"{{"ev":"call","seq":{seq},"mono_ns":{now},"pid":7,"tid":7,"api":"cudaLaunchKernel","grid":[1,1,1],"block":[32,1,1],"outcome":"ok","ret":0,"tokens":1.0}}"#
        ));
        log.push('\n');
    }
    log
}

#[test]
fn another_bucket_does_what_an_independent_replay_says() {
    let folder = folder(&[("a.jsonl", launches().as_bytes())]);
    let log = folder.path().join("a.jsonl");
    for (rate, capacity) in [("5", "3"), ("17.3", "1"), ("0.4", "12"), ("50", "2.5"), ("1000", "3")] {
        let bucket = format!("rate={rate},capacity={capacity}");
        let all = json(&[log.to_str().unwrap(), "--what-if", &bucket]);
        let python = Command::new("python3").args(["-c", REPLAY]).arg(&log).args([rate, capacity]).output().unwrap();
        assert!(python.status.success(), "{}", text(&python.stderr));
        let passed: u64 = text(&python.stdout).trim().parse().unwrap();
        assert_eq!(all["what_if"][0]["passed"], passed, "{bucket}");
        assert!((1..4000).contains(&passed) || rate == "1000", "{bucket} decides something");
    }
}

#[test]
fn the_rate_that_is_found_suffices_and_a_slower_one_does_not() {
    let folder = folder(&[("a.jsonl", launches().as_bytes())]);
    let log = folder.path().join("a.jsonl");
    let log = log.to_str().unwrap();
    let all = json(&[log, "--size-for", "1%", "--capacity", "2,10,0.5"]);
    let sizes = all["sizes"].as_array().unwrap();
    assert_eq!(sizes.len(), 3);
    for size in &sizes[..2] {
        let (rate, capacity) = (size["rate"].as_f64().unwrap(), &size["capacity"]);
        let denied = |rate: f64| {
            let bucket = format!("rate={rate},capacity={capacity}");
            json(&[log, "--what-if", &bucket])["what_if"][0]["denied"].as_u64().unwrap()
        };
        assert_eq!(size["denied"].as_u64(), Some(denied(rate)));
        assert!(denied(rate) <= 40 && denied(rate * 0.985) > 40, "{size}");
    }
    assert_eq!((&sizes[2]["rate"], &sizes[2]["denied"]), (&Value::Null, &Value::Null), "never a whole token");
}

#[test]
fn a_table_is_of_the_recorded_bucket_and_those_around_it() {
    let output = run(Path::new("."), &[h200().to_str().unwrap(), "--what-if", "table", "--lang", "en"]);
    let shown = text(&output.stdout);
    let rows: Vec<&str> =
        shown.lines().skip_while(|line| !line.contains("denial rate  as in the log")).skip(1).collect();
    assert_eq!(rows.len(), 16, "{shown}");
    let recorded: Vec<&str> = rows[5].split_whitespace().skip(1).collect();
    assert_eq!(recorded, ["5", "3", "18", "6", "12", "66.7", "%", "18"], "{shown}");
}

#[test]
fn what_can_not_be_replayed_is_an_error_that_says_why() {
    let without_times = folder(&[("a.log", b"[HOOK] cudaMalloc(64) -> 0x7f00 | total: 0.0 MB\n".as_slice())]);
    let output = run(without_times.path(), &["a.log", "--what-if", "rate=5,capacity=3"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no launch with a token level and a known moment"), "{output:?}");
    for wrong in ["rate=5", "5,3", "rate=-1,capacity=3", "rate=5,capacity=3,rate=6", "rate=nan,capacity=1"] {
        let output = run(Path::new("."), &["a.log", "--what-if", wrong]);
        assert_eq!(output.status.code(), Some(2), "{wrong}");
        assert!(text(&output.stderr).contains("--what-if"), "{wrong}: {output:?}");
    }
}

#[test]
fn check_prints_the_rules_and_its_status_tells_of_a_broken_one() {
    let lab = text(&std::fs::read(data("course_h200_cuda13.log")).unwrap());
    let broken = lab.replacen("tokens=2.0", "tokens=3.9", 1);
    let folder = folder(&[("good.log", lab.as_bytes()), ("bad.log", broken.as_bytes())]);
    let good = run(folder.path(), &["good.log", "--check", "--lang", "en"]);
    assert_eq!(good.status.code(), Some(0));
    // A line a rule; those about times take records.
    let shown = text(&good.stdout);
    let marks: String = shown.lines().filter_map(|line| line.chars().next()).filter(|mark| *mark != ' ').collect();
    assert_eq!(marks, "✓✓✓✓✓✓✓✓✓✓–✓––", "{shown}");
    let bad = run(folder.path(), &["bad.log", "--check", "--lang", "en"]);
    assert_eq!(bad.status.code(), Some(1));
    assert!(text(&bad.stdout).contains("✗ tokens-in-range: line 7: 3.9 tokens, capacity 3"), "{bad:?}");
}
