//! Rules on real logs, and single ones on small logs.

use hook_analyze::analysis::{Check, Status};
use serde_json::Value;

use crate::common::{data, load, of_text, run, unbroken};

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
