//! Figures folded as calls are read are those worked out from rows; and damage, whatever it is, is accounted for.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use encoding_rs::GBK;

use crate::common::{data, folder, lab, text};
use crate::every_way::{Random, read_every_way, same_figures};

fn assert_same_figures(logs: &[PathBuf], what: &str) -> serde_json::Value {
    same_figures(logs, None, what)
}

fn sim(name: &str) -> String {
    std::fs::read_to_string(data(name)).unwrap()
}

#[test]
fn the_figures_of_every_file_are_those_of_its_rows() {
    let mut files: Vec<PathBuf> = std::fs::read_dir(data("")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.is_file());
    files.sort();
    files.iter().for_each(|path| drop(assert_same_figures(std::slice::from_ref(path), &path.display().to_string())));
    assert_same_figures(&files, "all together");
}

/// Lines that speak of limits beyond a process's own, of physical memory and of host memory.
const LIMITED_LINES: &str = "[HOOK] 显存配额: 256 MB (268435456 bytes)
[HOOK] 算力限速: 5 tokens/s, burst 3
[HOOK] 共享限额: train
[HOOK] cuMemCreate(67108864) -> 0x10 | total: 64.0 MB
[HOOK] cudaMalloc(134217728) -> 0x8f00 | total: 192.0 MB
[HOOK] cudaMalloc(67108865) DENIED | total: 64.0 / 128.0 MB
[HOOK] cudaMalloc(67108865) DENIED | total: 512.0 / 512.0 MB
[HOOK] cudaMallocHost(67108864) -> 0x9f00 | total: 192.0 MB
[HOOK] cudaDeviceReset() -> 0 | freed: 134217728 bytes | total: 64.0 MB
[HOOK] cuMemRelease(0x10) -> 0 | freed: 67108864 bytes | total: 0.0 MB
[HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) -> 0 | tokens=8.0
[HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) -> 0 | tokens=7.0
[HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) DENIED | tokens=0.9
";

/// The same as records, of a process `pid` of a job.
fn limited_records(pid: u32) -> String {
    let mut seq = 0;
    let mut call = |rest: &str| {
        seq += 1;
        let (api, rest) = rest.split_once(' ').unwrap();
        format!(
            "{{\"ev\":\"call\",\"seq\":{seq},\"ts\":\"2026-11-30T07:42:11.{seq:09}Z\",\"mono_ns\":{seq},\"pid\":{pid},\
             \"tid\":{pid},\"api\":\"{api}\",\"sym\":\"{api}\",\"dev\":{},{rest},\"real_ns\":5,\"hook_ns\":6}}\n",
            seq % 2
        )
    };
    let shape = "\"grid\":[1,1,1],\"block\":[32,1,1],\"shmem\":0,\"stream\":\"0x0\"";
    let (ok, denied) = ("\"outcome\":\"ok\",\"ret\":0", "\"outcome\":\"denied\",\"ret\":2");
    let calls: String = [
        format!("cuMemCreate \"size\":64,\"ptr\":\"0x10\",{ok},\"total\":64,\"pending\":0"),
        format!("cudaMalloc \"size\":32,\"ptr\":\"0x20\",{ok},\"total\":96,\"pending\":0"),
        format!("cudaMalloc \"size\":90,{denied},\"total\":96,\"pending\":0,\"quota\":128"),
        format!("cudaMalloc \"size\":90,{denied},\"total\":96,\"pending\":0,\"quota\":64,\"dev_total\":32,\"dev_pending\":1"),
        format!("cudaMalloc \"size\":90,{denied},\"total\":96,\"pending\":0,\"quota\":128,\"job_total\":99,\"job_pending\":0"),
        format!("cudaMalloc \"size\":90,{denied},\"total\":96,\"pending\":0,\"quota\":128,\"unreachable\":true"),
        format!("cuMemHostAlloc \"size\":90,\"ptr\":\"0x30\",{ok},\"total\":96"),
        format!("cuMemFreeHost \"ptr\":\"0x30\",{ok},\"total\":96"),
        format!("cudaLaunchKernel {shape},{ok},\"bypass\":true,\"tokens\":3.0,\"wait_ns\":0"),
        format!("cudaLaunchKernel {shape},{ok},\"tokens\":2.0,\"wait_ns\":0"),
        format!("cudaLaunchKernel {shape},\"outcome\":\"denied\",\"ret\":4,\"tokens\":0.5,\"wait_ns\":0"),
        format!("cuDevicePrimaryCtxReset_v2 \"size\":32,{ok},\"total\":64"),
        format!("cuMemRelease \"size\":64,\"ptr\":\"0x10\",{ok},\"total\":0"),
    ]
    .iter()
    .map(|rest| call(rest))
    .collect();
    format!(
        "{{\"v\":1,\"ev\":\"start\",\"run\":\"r\",\"mono_ns\":0,\"pid\":{pid},\"host\":\"h\",\"hook\":\"0.1.0\",\
         \"quota_bytes\":128,\"dev_quota_bytes\":{{\"0\":64,\"1\":128}},\"shared\":\"train\",\"job\":\"0x7\",\
         \"rate\":5.0,\"capacity\":3.0,\"policy\":\"deny\"}}\n{calls}\
         {{\"ev\":\"end\",\"mono_ns\":90,\"pid\":{pid},\"calls\":{{}},\"peak_bytes\":96,\"live_bytes\":0,\"lost\":0}}\n"
    )
}

#[test]
fn limits_beyond_a_processs_own_make_no_difference() {
    let (lines, records) = (LIMITED_LINES, limited_records(7));
    let moved = |to: usize| {
        let mut lines: Vec<&str> = lines.lines().collect();
        let shared = lines.remove(2);
        lines.insert(to, shared);
        lines.join("\n") + "\n"
    };
    let mut logs: Vec<(String, String)> =
        (0..=lines.lines().count() - 1).map(|to| (moved(to), format!("the shared line in place {to}"))).collect();
    let two: String = records.lines().zip(limited_records(8).lines()).map(|(a, b)| format!("{a}\n{b}\n")).collect();
    logs.extend([
        (lines.replace("[HOOK] 共享限额: train\n", ""), "not shared".to_owned()),
        (format!("{}{}", moved(7), moved(9)), "two processes".to_owned()),
        (records.clone(), "records".to_owned()),
        (two, "a job of two".to_owned()),
        (records.replace(",\"shared\":\"train\",\"job\":\"0x7\"", ""), "records, not shared".to_owned()),
        (records.replace("\"total\":96", "\"total\":200"), "records with wrong totals".to_owned()),
        (records.replace("\"0\":64", "\"0\":31"), "a device above its quota".to_owned()),
        (format!("{lines}{records}"), "lines and records".to_owned()),
    ]);
    for (log, what) in logs {
        let folder = folder(&[("a.log", log.as_bytes()), ("b.jsonl", limited_records(9).as_bytes())]);
        let path = |name: &str| folder.path().join(name);
        assert_same_figures(&[path("a.log")], &what);
        assert_same_figures(&[path("b.jsonl"), path("a.log")], &what);
        read_every_way(&path("a.log"), &what);
    }
}

#[test]
fn processes_limits_and_lost_banners_make_no_difference() {
    let calls: String = lab().lines().skip(2).map(|line| format!("{line}\n")).collect();
    let (quota, rate) = ("[HOOK] 显存配额: 128 MB (134217728 bytes)\n", "[HOOK] 算力限速: 5 tokens/s, burst 3\n");
    let off = "[HOOK] 算力限速: 无限制 (仅记录)\n";
    let child = "{\"v\":1,\"ev\":\"start\",\"pid\":5,\"rate\":5.0,\"capacity\":3.0}\n";
    for (log, what) in [
        (format!("{quota}{calls}{rate}{calls}"), "a rate after the calls"),
        (format!("{quota}{calls}{off}{calls}"), "no rate after the calls"),
        (format!("{calls}{rate}{calls}{quota}{calls}"), "a banner in the middle"),
        (format!("{quota}{quota}{rate}{calls}{rate}{calls}"), "two processes that start at once"),
        (format!("{quota}{}{rate}{calls}", calls.repeat(200)), "a rate that comes too late"),
        (format!("{}{}", lab(), lab().replace("burst 3", "burst 2")), "two limits"),
        (format!("{child}{}", calls.replace("[HOOK]", "[HOO]")), "a start alone"),
        (lab().replace('\n', ""), "all on one line"),
        (format!("{}{}", lab().replace("64.0 MB", "64.2 MB"), lab()), "totals that don't fit"),
        (lab().replace("DENIED | tokens=0.0", "DENIED | tokens=2.5"), "needless denials"),
    ] {
        let folder = folder(&[("a.log", log.as_bytes()), ("b.log", lab().as_bytes())]);
        assert_same_figures(&[folder.path().join("a.log")], what);
        assert_same_figures(&[folder.path().join("b.log"), folder.path().join("a.log")], what);
    }
}

#[test]
fn records_out_of_order_or_lost_make_no_difference() {
    let lines: Vec<String> = sim("sim_lab.jsonl").lines().map(|line| format!("{line}\n")).collect();
    let mut swapped = lines.clone();
    swapped.swap(3, 9);
    swapped.swap(4, 5);
    let without: Vec<String> =
        lines.iter().enumerate().filter(|(i, _)| !matches!(i, 3 | 4 | 20)).map(|x| x.1.clone()).collect();
    let mut late = lines.clone();
    let moved = late.remove(6);
    late.push(moved);
    let twice = [&lines[..], &lines[1..]].concat();
    for (lines, what) in [
        (swapped, "swapped"),
        (without, "lost"),
        (lines[..20].to_vec(), "killed"),
        (lines[8..].to_vec(), "no beginning"),
        (late, "a call behind the end record"),
        (twice, "the calls twice"),
    ] {
        let folder = folder(&[("a.jsonl", lines.concat().as_bytes())]);
        assert_same_figures(&[folder.path().join("a.jsonl")], what);
    }
}

/// More records than are ever read again as rows, so that what is exact was put in order as it came.
#[test]
fn far_out_of_order_figures_are_exact_and_where_they_can_not_be_they_are_left_out() {
    let record = |seq: u64| {
        let (api, more) = if seq == 1 {
            ("cudaMalloc", "\"size\":5,\"ptr\":\"0x7f00\",\"outcome\":\"ok\",\"ret\":0,\"total\":5".to_owned())
        } else {
            (
                "cudaLaunchKernel",
                "\"grid\":[1,1,1],\"block\":[1,1,1],\"outcome\":\"ok\",\"ret\":0,\"wait_ns\":0".to_owned(),
            )
        };
        format!("{{\"ev\":\"call\",\"seq\":{seq},\"mono_ns\":{seq},\"pid\":7,\"api\":\"{api}\",{more}}}\n")
    };
    let many: String = (2..=300_000).chain([1]).map(record).collect();
    let end = "{\"ev\":\"end\",\"pid\":7,\"calls\":{\"x\":{\"ok\":300000,\"denied\":0,\"failed\":0}},\"lost\":0}\n";
    // What stands behind an `end` record was not waited for.
    let late = [&many, end, &record(8), &record(9)].concat();
    let few: String = [&(2..70_000).map(record).collect::<String>(), end, &record(1)].concat();
    let folder = folder(&[
        ("many.jsonl", [&many, end].concat().as_bytes()),
        ("few.jsonl", few.as_bytes()),
        ("late.jsonl", late.as_bytes()),
    ]);
    let path = |name| folder.path().join(name);
    let json = assert_same_figures(&[path("many.jsonl")], "far out of order");
    assert_eq!((&json["memory"]["peak_bytes"], &json["notes"]), (&5.into(), &serde_json::json!([])));
    let json = assert_same_figures(&[path("few.jsonl")], "behind the end, but few");
    assert_eq!(json["memory"]["peak_bytes"], 5);

    let json =
        serde_json::to_value(&hook_analyze::figures::read(&[path("late.jsonl")], None).unwrap().summary).unwrap();
    assert_eq!((&json["processes"][0]["out_of_order"], &json["processes"][0]["calls"]), (&2.into(), &300_002.into()));
    for unknown in ["/memory/peak_bytes", "/memory/live_bytes", "/tokens/first", "/tokens/denial_streaks"] {
        assert!(json.pointer(unknown).unwrap().is_null(), "{unknown}");
    }
    for check in &json["checks"].as_array().unwrap()[..2] {
        assert_eq!(check["status"], "not-applicable");
        assert!(check["detail"].as_str().unwrap().contains("2 records of process 7"), "{check}");
    }
    assert!(json["notes"][0].as_str().unwrap().contains("process 7: 2 of its records stand too far behind"));
    // Sorted, as a file that is asked for needs them anyway, they are known.
    let rows = hook_analyze::parse::read(&[path("late.jsonl")], None).unwrap();
    assert_eq!(hook_analyze::analysis::summary::analyse(&rows).summary.memory.peak_bytes, 5);
}

#[test]
fn lines_and_records_far_apart_in_a_pipe_are_refused_and_in_files_counted_once() {
    let other = "some other program says something that is long enough to fill a pipe's beginning\n";
    let filler = other.repeat((hook_analyze::input::HELD / other.len()) + 1);
    let both = format!("{}{filler}{}", sim("sim_lab.log"), sim("sim_lab.jsonl"));
    let folder = folder(&[
        ("a.log", both.as_bytes()),
        ("b.log", [sim("sim_lab.log"), sim("sim_lab.jsonl")].concat().as_bytes()),
    ]);
    let json = assert_same_figures(&[folder.path().join("a.log")], "far apart");
    assert_eq!(json["processes"][0]["calls"], 25);
    let piped = |name: &str| {
        let shell = format!("cat {name} | {} - --json", env!("CARGO_BIN_EXE_hook-analyze"));
        Command::new("bash").args(["-c", &shell]).current_dir(folder.path()).stdin(Stdio::null()).output().unwrap()
    };
    let refused = piped("a.log");
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        text(&refused.stderr).contains("standard input holds `[HOOK]` lines and JSONL records"),
        "{}",
        text(&refused.stderr)
    );
    let near: serde_json::Value = serde_json::from_slice(&piped("b.log").stdout).unwrap();
    assert_eq!(near["processes"][0]["calls"], 25);
}

/// Another limiter's lines are no second account of what records tell.
#[test]
fn another_limiters_lines_stand_beside_records_in_a_pipe() {
    let both = [sim("nogpu_malloc.log"), sim("hami_core_default_h200.log"), sim("sim_lab.jsonl")].concat();
    let folder = folder(&[("a.log", both.as_bytes())]);
    let json = assert_same_figures(&[folder.path().join("a.log")], "both");
    let shell = format!("cat a.log | {} - --json", env!("CARGO_BIN_EXE_hook-analyze"));
    let piped = Command::new("bash").args(["-c", &shell]).current_dir(folder.path()).stdin(Stdio::null()).output();
    let piped: serde_json::Value = serde_json::from_slice(&piped.unwrap().stdout).unwrap();
    assert_eq!((&piped["apis"], &piped["memory"]), (&json["apis"], &json["memory"]));
    assert_eq!(piped["processes"].as_array().unwrap().len(), 3);
}

/// What calls are judged by may stand behind them.
#[test]
fn limits_that_a_demonstration_tells_late_are_those_of_all_its_calls() {
    let granted = "[HOOK] malloc(64) = 0x55d0  (累计: 64 bytes)\n";
    let refused = "[QUOTA EXCEEDED] malloc(9 bytes) 被拒绝\n  已用: 64 / 配额: 60 (106.7%)\n";
    let demonstration = sim("nogpu_token_bucket.log").replace("令牌桶算力限制", "");
    for text in
        [[granted, refused].concat(), [granted.repeat(5000), refused.to_owned()].concat(), demonstration.repeat(2)]
    {
        let folder = folder(&[("a.log", text.as_bytes())]);
        assert_same_figures(&[folder.path().join("a.log")], &text[..text.len().min(200)]);
    }
}

#[test]
fn a_log_beside_its_event_file_is_matched_without_being_asked() {
    let folder =
        folder(&[("hook.log", sim("sim_lab.log").as_bytes()), ("hook.jsonl", sim("sim_lab.jsonl").as_bytes())]);
    let json = assert_same_figures(&[folder.path().join("hook.log")], "sidecar");
    assert_eq!((&json["time"]["base"], &json["inputs"][1]["events"]), (&"monotonic".into(), &27.into()));
}

/// Of 1000 logs some lines are cut before their decision, so that no part of them can pass for a record.
#[test]
fn a_thousand_damaged_logs_are_accounted_for_and_what_is_whole_counts() {
    let whole: Vec<String> = sim("sim_lab.log")
        .lines()
        .chain(sim("torch_launches_denied_h200.log").lines().take(60))
        .chain(LIMITED_LINES.lines())
        .map(str::to_owned)
        .collect();
    let limited = limited_records(7) + &limited_records(8);
    let records: Vec<String> = sim("sim_lab.jsonl").lines().chain(limited.lines()).map(str::to_owned).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.log");
    for round in 0..1000 {
        let mut random = Random(round * 2 + 1);
        let lines = if round % 4 == 3 { &records } else { &whole };
        let (mut bytes, mut expected) = (Vec::new(), 0);
        for line in lines {
            let calls = line.starts_with("[HOOK] cuda") || line.starts_with('{');
            let end = line.find(')').unwrap_or(line.len() - 1);
            match random.below(8) {
                // Cut, and the next line follows on the same line or on its own.
                0 if calls => bytes.extend_from_slice(format!("{}\n", &line[..random.below(end)]).as_bytes()),
                // Spliced: another writer's whole line in the middle of one.
                1 if calls && !line.starts_with('{') => {
                    let other = &whole[random.below(whole.len())];
                    bytes.extend_from_slice(format!("{}{other}\n", &line[..8 + random.below(end - 8)]).as_bytes());
                }
                2 => {
                    bytes.extend_from_slice(format!("\x1b[3{}m{line}\x1b[0m\r\n", random.below(8)).as_bytes());
                    expected += 1;
                }
                _ => {
                    bytes.extend_from_slice(format!("{line}\n").as_bytes());
                    expected += 1;
                }
            }
        }
        let what = format!("round {round}");
        let bytes = match random.below(6) {
            0 => String::from_utf8(bytes).unwrap().encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>(),
            1 => GBK.encode(&String::from_utf8(bytes).unwrap()).0.into_owned(),
            _ => bytes,
        };
        // UTF-16 is told by its mark.
        let utf16 = bytes.get(1) == Some(&0);
        let bytes = if utf16 { [&[0xff, 0xfe], &bytes[..]].concat() } else { bytes };
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(read_every_way(&path, &what), (expected, lines.len() as u64), "{what}");
        // Then anything at all.
        let mut bytes = bytes;
        random.damage(&mut bytes);
        std::fs::write(&path, &bytes).unwrap();
        read_every_way(&path, &what);
    }
}
