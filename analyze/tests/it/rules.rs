//! Rules on real logs, and single ones on small logs.

use hook_analyze::analysis::{Check, Status};
use serde_json::Value;

use crate::common::{data, folder, load, of_text, run, unbroken};

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
    assert!(said.contains("6 block(s) (71303168 bytes) were freed"), "{said}");
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
fn many_banners_without_a_call_are_judged_soon() {
    const BANNERS: usize = 40_000;
    let banner = "[HOOK] 显存配额: 128 MB (134217728 bytes)\n[HOOK] 算力限速: 5 tokens/s, burst 3\n";
    let call = "[HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) -> 0 | tokens=2.0\n";
    let folder = folder(&[("a.log", (banner.repeat(BANNERS) + call).as_bytes())]);
    let begin = std::time::Instant::now();
    let figures = hook_analyze::figures::read(&[folder.path().join("a.log")], None).unwrap();
    // A second; it was half a minute when each process looked through all others.
    assert!(begin.elapsed().as_secs() < 10, "{:?}", begin.elapsed());
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
    assert!(note.starts_with("standard input: 1 line(s) of a hook not understood"), "{note}");
}
