//! `--lab`: each row of the rubric as evidence.

use std::path::Path;

use hook_analyze::analysis::lab::{Lab, ROWS, Standing};
use hook_analyze::analysis::{lab, summary};
use hook_analyze::parse::{self, Pace};

use crate::common::{data, folder, lab as course, run, text};

const SHOWN: Standing = Standing::Shown;
const MISSING: Standing = Standing::NotEvidenced;
const AGAINST: Standing = Standing::Contradicted;

fn of_file(path: &Path) -> Lab {
    let events = parse::read_at(&[path.to_owned()], None, Pace { told: true, ..Pace::default() }).unwrap();
    lab::of(&events, &summary::analyse(&events))
}

fn of(text: &str) -> Lab {
    let folder = folder(&[("a.log", text.as_bytes())]);
    of_file(&folder.path().join("a.log"))
}

/// A row's status, and its lines.
fn row(lab: &Lab, id: &str) -> (Standing, Vec<u64>) {
    let row = lab.row(id).unwrap();
    (row.status, row.lines.clone())
}

fn status(lab: &Lab, id: &str) -> Standing {
    row(lab, id).0
}

/// The lab's log with its program's stdout before it, as a pipe of both leaves it.
fn with_stdout() -> String {
    include_str!("../../../cuda/expected/test_hook.stdout").to_owned() + &course()
}

/// The course's log under a hook that waits: launches behind the burst pass with the token that came.
fn waiting(level: &str) -> String {
    let log = course().replace(" DENIED | tokens=0.0", &format!(" -> 0 | tokens={level}"));
    assert!(!log.contains("cudaLaunchKernel(grid=1,1,1 block=32,1,1) DENIED"));
    log
}

#[test]
fn the_real_runs_show_what_a_log_can() {
    for name in ["course_h200_cuda13.log", "course_h200_slow_first_launch.log"] {
        let lab = of_file(&data(name));
        // A line tells no return value; the only address that comes again has the same size; stdout is not in the file.
        let missing = ["refusal-returns-2", "free-removes-entry", "program-agrees"];
        for row in &lab.rows {
            let expected = if missing.contains(&row.id) { MISSING } else { SHOWN };
            assert_eq!(row.status, expected, "{name}: {row:?}");
        }
        assert_eq!(row(&lab, "quota-kept").1, [3, 4], "{name}");
        assert_eq!(row(&lab, "burst").1, [7, 8, 9, 10], "{name}");
        assert_eq!(row(&lab, "recovery-after-refill").1, [16, 17, 18, 19], "{name}");
        let test3 = lab.test3.unwrap();
        assert_eq!(
            (test3.lines.as_slice(), test3.denied, test3.line_before),
            (&[24, 25, 26][..], 3, Some(21)),
            "{name}"
        );
        assert_eq!(test3.tokens_before, Some(0.0));
    }
    assert_eq!(of(&course()).rows.len(), ROWS.len());
}

#[test]
fn the_programs_stdout_is_held_against_the_log() {
    let lab = of(&with_stdout());
    assert_eq!(status(&lab, "program-agrees"), SHOWN);
    assert_eq!(status(&lab, "refusal-returns-2"), SHOWN);
    assert_eq!(lab.program[0].told, lab.program[0].logged);
    assert_eq!((lab.program[0].told.passed, lab.program[0].told.passed_later), (3, Some(3)));
    let other = of(&with_stdout().replace("通过=3, 拒绝=7", "通过=4, 拒绝=6"));
    assert_eq!(status(&other, "program-agrees"), AGAINST);
    let detail = &other.row("program-agrees").unwrap().detail;
    assert_eq!(detail, "the program counts 通过=4, 拒绝=6, then 通过=3, the log has 通过=3, 拒绝=7, then 通过=3");
    // Two runs in one file, the output of each before its log or all of it at the end.
    let twice = with_stdout() + &with_stdout();
    assert_eq!(of(&twice).program.len(), 2);
    assert_eq!(status(&of(&twice), "program-agrees"), SHOWN);
}

#[test]
fn a_refusal_must_return_two() {
    let id = "refusal-returns-2";
    let stdout = with_stdout();
    let ok = stdout.lines().find(|line| line.contains("2048MB")).unwrap().to_owned();
    let fail = "  [FAIL] cudaMalloc(2048MB): 期望 2 (cudaErrorMemoryAllocation), 实际 0 (cudaSuccess)";
    let lab = of(&stdout.replace(&ok, fail));
    assert_eq!(status(&lab, id), AGAINST);
    assert!(lab.row(id).unwrap().detail.contains("got 0"));
    let events = std::fs::read_to_string(data("sim_lab.jsonl")).unwrap();
    assert_eq!(status(&of(&events), id), SHOWN);
    assert_eq!(
        status(&of(&events.replace(r#""outcome":"denied","ret":2"#, r#""outcome":"denied","ret":1"#)), id),
        AGAINST
    );
}

#[test]
fn the_quota_must_be_right() {
    let id = "quota-kept";
    let refused = "[HOOK] cudaMalloc(2147483648) DENIED | total: 64.0 / 128.0 MB\n";
    assert_eq!(status(&of(&course().replace(refused, "")), id), MISSING);
    assert_eq!(status(&of(&course().replace("128 MB (134217728 bytes)", "无限制 (仅记录)")), id), MISSING);
    let granted = "[HOOK] cudaMalloc(2147483648) -> 0x7f0000000000 | total: 2112.0 MB\n";
    let over = of(&course().replace(refused, granted));
    assert_eq!(row(&over, id), (AGAINST, vec![4]));
    let fits = "[HOOK] cudaMalloc(1048576) DENIED | total: 64.0 / 128.0 MB\n";
    assert_eq!(row(&of(&course().replace(refused, fits)), id), (AGAINST, vec![4]));
    // To the byte: what fills the quota passes, one byte more does not; a printed total is rounded.
    let fills = "[HOOK] cudaMalloc(67108865) DENIED | total: 64.0 / 128.0 MB\n";
    assert_ne!(status(&of(&course().replace(refused, fills)), id), AGAINST);
}

#[test]
fn both_kinds_of_request_must_be_logged() {
    let id = "requests-logged";
    let refused = "[HOOK] cudaMalloc(2147483648) DENIED | total: 64.0 / 128.0 MB\n";
    assert_eq!(status(&of(&course().replace(refused, "")), id), MISSING);
    assert_eq!(status(&of(&with_stdout().replace(refused, "")), id), AGAINST);
}

#[test]
fn an_entry_shows_when_it_is_freed() {
    let frees = ["entered-in-map", "free-finds-entry", "free-subtracts-exactly"];
    let without: String =
        course().lines().filter(|line| !line.contains("cudaFree")).map(|line| format!("{line}\n")).collect();
    for id in frees.into_iter().chain(["free-removes-entry"]) {
        assert_eq!(status(&of(&without), id), MISSING, "{id}");
    }
    // A student's own words: the next total tells.
    let worded = course().replace(" -> 0 | freed: 67108864 bytes | total: 0.0 MB", " ok");
    let lab = of(&worded);
    assert_eq!(row(&lab, "entered-in-map"), (SHOWN, vec![3, 5, 6]));
    let worded = course().replace(" -> 0 | freed: 4194304 bytes | total: 0.0 MB", " released, 4194304 bytes back");
    for id in frees {
        assert_eq!(status(&of(&worded), id), SHOWN, "{id}");
    }
    // The free finds nothing: 64 MB stay in the total.
    let lost = course()
        .replace("freed: 67108864 bytes | total: 0.0 MB", "freed: 0 bytes | total: 64.0 MB")
        .replace("total: 4.0 MB", "total: 68.0 MB")
        .replace("freed: 4194304 bytes | total: 0.0 MB", "freed: 4194304 bytes | total: 64.0 MB");
    let lab = of(&lost);
    assert_eq!(row(&lab, "entered-in-map"), (AGAINST, vec![3, 5]));
    assert_eq!(status(&lab, "free-finds-entry"), AGAINST);
    assert_eq!(status(&lab, "free-subtracts-exactly"), AGAINST);
    // Found, and not its size.
    let half = of(&course().replace("freed: 67108864 bytes", "freed: 33554432 bytes"));
    assert_eq!(row(&half, "free-subtracts-exactly"), (AGAINST, vec![3, 5]));
}

#[test]
fn a_removed_entry_shows_by_a_second_free_or_another_size() {
    let id = "free-removes-entry";
    let begin = "[HOOK] 显存配额: 128 MB (134217728 bytes)\n[HOOK] 算力限速: 5 tokens/s, burst 3\n\
                 [HOOK] cudaMalloc(4194304) -> 0x7f2ce8800000 | total: 4.0 MB\n\
                 [HOOK] cudaFree(0x7f2ce8800000) -> 0 | freed: 4194304 bytes | total: 0.0 MB\n";
    let again = |free: &str| of(&format!("{begin}{free}\n"));
    assert_eq!(
        row(&again("[HOOK] cudaFree(0x7f2ce8800000) -> 1 | freed: 0 bytes | total: 0.0 MB"), id),
        (SHOWN, vec![5])
    );
    let twice = "[HOOK] cudaMalloc(8388608) -> 0x7f0000000000 | total: 8.0 MB\n\
                 [HOOK] cudaFree(0x7f2ce8800000) -> 1 | freed: 4194304 bytes | total: 4.0 MB";
    assert_eq!(row(&again(twice), id), (AGAINST, vec![6]));
    let reused = "[HOOK] cudaMalloc(8388608) -> 0x7f2ce8800000 | total: 8.0 MB\n\
                  [HOOK] cudaFree(0x7f2ce8800000) -> 0 | freed: 8388608 bytes | total: 0.0 MB";
    assert_eq!(status(&again(reused), id), SHOWN);
    assert_eq!(status(&of(begin), id), MISSING);
}

#[test]
fn the_burst_must_be_the_capacity() {
    let id = "burst";
    let pass = "[HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) -> 0 | tokens=";
    let deny = "[HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) DENIED | tokens=";
    let banner = "[HOOK] 显存配额: 128 MB (134217728 bytes)\n[HOOK] 算力限速: 5 tokens/s, burst 3\n";
    let of_levels = |launches: &[(&str, &str)]| {
        let lines: String = launches.iter().map(|(head, level)| format!("{head}{level}\n")).collect();
        of(&format!("{banner}{lines}"))
    };
    // Empty at the start.
    assert_eq!(row(&of_levels(&[(deny, "0.0"), (deny, "0.0"), (pass, "0.0"), (deny, "0.0")]), id), (AGAINST, vec![3]));
    // Two tokens a launch.
    assert_eq!(row(&of_levels(&[(pass, "1.0"), (deny, "0.0")]), id), (AGAINST, vec![3, 4]));
    // None taken.
    assert_eq!(row(&of_levels(&[(pass, "3.0"), (pass, "3.0")]), id), (AGAINST, vec![3]));
    // More than the burst where tokens came meanwhile.
    let slow = [(pass, "2.0"), (pass, "1.5"), (pass, "0.9"), (pass, "0.1"), (deny, "0.2")];
    assert_eq!(status(&of_levels(&slow), id), SHOWN);
    assert_eq!(status(&of_levels(&[(pass, "2.0"), (pass, "1.0")]), id), MISSING);
    // Lines of two threads out of order accuse nobody.
    assert_ne!(status(&of_levels(&[(pass, "2.0"), (deny, "0.0"), (pass, "1.0"), (pass, "0.0")]), id), AGAINST);
}

#[test]
fn refusals_must_find_the_bucket_empty_and_end() {
    let lab = of(&course().replacen("DENIED | tokens=0.0", "DENIED | tokens=2.0", 1));
    assert_eq!(row(&lab, "refusal-after-burst"), (AGAINST, vec![10]));
    // Nothing comes back.
    let dead = course()
        .replace("-> 0 | tokens=", "DENIED | tokens=")
        .replace("tokens=1.0", "tokens=0.0")
        .replace("tokens=2.0", "tokens=0.0");
    let lab = of(&dead);
    // The course's program sleeps, so its lines tell that nothing came.
    assert_eq!((status(&lab, "burst"), status(&lab, "recovery-after-refill")), (AGAINST, AGAINST));
    let stdout = with_stdout().replace("等待后通过=3", "等待后通过=0");
    assert_eq!(status(&of(&stdout), "recovery-after-refill"), AGAINST);
}

#[test]
fn shapes_of_refused_launches_must_be_logged() {
    let id = "dims-logged";
    let unlogged: String = with_stdout()
        .lines()
        .filter(|line| !line.contains(") DENIED | tokens"))
        .map(|line| format!("{line}\n"))
        .collect();
    let lab = of(&unlogged);
    assert_eq!((status(&lab, id), status(&lab, "program-agrees")), (AGAINST, AGAINST));
    assert_eq!(status(&of(&course().replace(") DENIED | tokens=0.0", ") -> 0 | tokens=1.0")), id), MISSING);
    let bare = course().replacen("cudaLaunchKernel(grid=1,1,1 block=32,1,1) DENIED", "cudaLaunchKernel DENIED", 1);
    assert_eq!(row(&of(&bare), id), (AGAINST, vec![10]));
    let other = course().replace("grid=2,2,2", "grid=2,2,1");
    assert_eq!(
        status(&of(&(include_str!("../../../cuda/expected/test_hook.stdout").to_owned() + &other)), id),
        AGAINST
    );
}

#[test]
fn waiting_in_place_of_refusing_is_allowed() {
    let rows = ["burst", "refusal-after-burst", "recovery-after-refill", "dims-logged"];
    for level in ["0.0", "0.1", "0.0 | waited: 200.1 ms"] {
        let lab = of(&waiting(level));
        for id in rows {
            assert_eq!(status(&lab, id), SHOWN, "{level}: {:?}", lab.row(id));
        }
    }
    // Its program counts so, too.
    let stdout = include_str!("../../../cuda/expected/test_hook.stdout");
    let stdout = stdout.replace("通过=3, 拒绝=7", "通过=10, 拒绝=0").replace("等待后通过=3", "等待后通过=5");
    let lab = of(&(stdout + &waiting("0.0")));
    assert_eq!(status(&lab, "program-agrees"), SHOWN);
    assert!(lab.row("refusal-after-burst").unwrap().detail.contains("通过=10, 拒绝=0"));
}

#[test]
fn prefill_like_launches_may_pass_without_a_token() {
    let prefill = "block=256,1,1) DENIED | tokens=0.0";
    let log = course().replace(prefill, "block=256,1,1) -> 0 | tokens=0.0");
    assert_ne!(log, course());
    let lab = of(&log);
    assert!(lab.rows.iter().all(|row| row.status != AGAINST), "{:?}", lab.rows);
    assert_eq!(status(&lab, "refusal-after-burst"), SHOWN);
    // Before the burst as well, with a full bucket.
    let first = "[HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) -> 0 | tokens=2.0\n";
    let log = course().replacen(
        first,
        &format!("[HOOK] cudaLaunchKernel(grid=1,1,1 block=512,1,1) -> 0 | tokens=3.0\n{first}"),
        1,
    );
    assert_eq!(status(&of(&log), "burst"), SHOWN);
}

#[test]
fn the_demonstrations_without_a_gpu_count() {
    let lab = of_file(&data("nogpu_malloc.log"));
    for id in ["quota-kept", "refusal-returns-2", "requests-logged"] {
        assert_eq!(status(&lab, id), SHOWN, "{:?}", lab.row(id));
    }
    let lab = of_file(&data("nogpu_token_bucket.log"));
    for id in ["burst", "refusal-after-burst", "recovery-after-refill"] {
        assert_eq!(status(&lab, id), SHOWN, "{:?}", lab.row(id));
    }
    assert_eq!(status(&lab, "dims-logged"), MISSING);
    assert!(lab.rows.iter().all(|row| row.status != AGAINST), "{:?}", lab.rows);
}

#[test]
fn the_log_must_be_whole_and_tell_its_settings() {
    let torn = course().replacen("block=32,1,1) -> 0 | tokens=1.0", "block=32,1[HOOK] cudaFree(0x7f", 1);
    assert_eq!(row(&of(&torn), "log-complete"), (AGAINST, vec![8]));
    let bare: String = course().lines().skip(2).map(|line| format!("{line}\n")).collect();
    assert_eq!(status(&of(&bare), "log-complete"), MISSING);
    let launches: String =
        course().lines().filter(|line| !line.contains("Malloc")).map(|line| format!("{line}\n")).collect();
    assert_eq!(status(&of(&launches), "analysis-possible"), MISSING);
}

#[test]
fn the_command_prints_rows_and_no_marks() {
    let folder = folder(&[("hook.log", with_stdout().as_bytes())]);
    let zh = text(&run(folder.path(), &["--lab"]).stdout);
    assert!(zh.contains("Test 3 (第 47-49 行): 3 次全部被拒绝, 属正常现象"), "{zh}");
    assert!(zh.contains("不打分") && !zh.contains("分数") && !zh.contains("得分"));
    let en = text(&run(folder.path(), &["--lab", "--lang", "en"]).stdout);
    assert!(en.contains("✓ burst: shown by lines 30-33"), "{en}");
    let json = run(folder.path(), &["--lab", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["lab"]["rows"].as_array().unwrap().len(), ROWS.len());
    assert_eq!(json["lab"]["program"][0]["told"]["refused"], 7);
    let plain: serde_json::Value = serde_json::from_slice(&run(folder.path(), &["--json"]).stdout).unwrap();
    assert_eq!(plain.get("lab"), None);
    // From a pipe, too.
    let piped = std::process::Command::new(env!("CARGO_BIN_EXE_hook-analyze"))
        .args(["-", "--lab", "--lang", "en"])
        .stdin(std::fs::File::open(folder.path().join("hook.log")).unwrap())
        .output()
        .unwrap();
    assert_eq!(text(&piped.stdout), en);
    assert_eq!(run(folder.path(), &["--lab", "--check"]).status.code(), Some(2));
}
