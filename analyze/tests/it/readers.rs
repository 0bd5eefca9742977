//! Every line of every input is accounted for, and every whole record counts once.

use std::path::PathBuf;

use hook_analyze::events::Limit;
use hook_analyze::parse;
use proptest::prelude::*;

use crate::common::{data, folder, lab, load, of_text};

#[test]
fn counts_of_the_real_logs_are_those_of_a_plain_text_search() {
    for name in [
        "course_h200_cuda13.log",
        "course_h200_slow_first_launch.log",
        "torch_quota_h200.log",
        "torch_record_h200.log",
        "torch_launches_denied_h200.log",
        "sim_lab.log",
    ] {
        let text = std::fs::read_to_string(data(name)).unwrap();
        let (_, analysis) = load(&data(name));
        let summary = analysis.summary;
        for api in ["cudaMalloc", "cudaFree", "cudaLaunchKernel"] {
            let lines = || text.lines().filter(|line| line.contains(&format!("[HOOK] {api}(")));
            let figures = summary.apis.iter().find(|figures| figures.api == api);
            let (calls, denied) = figures.map_or((0, 0), |figures| (figures.calls, figures.denied));
            assert_eq!(calls as usize, lines().count(), "{name} {api}");
            assert_eq!(denied as usize, lines().filter(|line| line.contains("DENIED")).count(), "{name} {api}");
        }
        for input in &summary.inputs {
            assert_eq!((input.other_lines, input.bad_lines), (0, 0), "{name}");
        }
    }
}

#[test]
fn the_torch_logs_figures_are_these() {
    let (_, analysis) = load(&data("torch_launches_denied_h200.log"));
    let summary = analysis.summary;
    let launches = summary.apis.iter().find(|figures| figures.api == "cudaLaunchKernel").unwrap();
    assert_eq!((launches.calls, launches.denied), (451, 370));
    let (_, analysis) = load(&data("torch_quota_h200.log"));
    assert_eq!(analysis.summary.memory.peak_bytes, 236 << 20);
    assert_eq!(analysis.summary.memory.live_bytes, 168 << 20);
    assert_eq!(analysis.summary.tokens.max, None, "no rate, so no level");
}

#[test]
fn line_ends_colours_marks_and_prefixes_do_not_matter() {
    let plain = of_text(lab()).1.summary;
    let crlf = lab().replace('\n', "\r\n");
    let coloured = lab().lines().map(|line| format!("\x1b[31m{line}\x1b[0m\n")).collect::<String>();
    let marked = format!("\u{feff}{}", lab());
    let composed = lab().lines().map(|line| format!("gpu-job_1  | {line}\n")).collect::<String>();
    let stamped = lab().lines().map(|line| format!("2026-07-01T12:00:00.123456789Z {line}\n")).collect::<String>();
    let mpi = lab().lines().map(|line| format!("[1,0]<stderr>:{line}\n")).collect::<String>();
    let unended = lab().trim_end().to_owned();
    for text in [crlf, coloured, marked, composed, stamped, mpi, unended] {
        let summary = of_text(&text).1.summary;
        assert_eq!(summary.apis, plain.apis, "{text}");
        assert_eq!(summary.memory, plain.memory);
        assert_eq!(summary.tokens, plain.tokens);
        assert_eq!((summary.inputs[0].lines, summary.inputs[0].bad_lines), (27, 0));
    }
}

#[test]
fn a_log_written_under_a_german_locale_has_the_same_figures() {
    let plain = of_text(lab()).1.summary;
    let commas = lab().replace(".0 MB", ",0 MB").replace(".0 / ", ",0 / ").replace(".0\n", ",0\n");
    assert!(!commas.contains('.'), "{commas}");
    let german = of_text(commas).1.summary;
    assert_eq!(german.apis, plain.apis);
    assert_eq!((german.memory, &german.tokens), (plain.memory, &plain.tokens));
    assert_eq!(german.inputs[0].classes, plain.inputs[0].classes);
}

#[test]
fn other_programs_lines_are_counted_and_torn_ones_never_taken_for_records() {
    let text = format!(
        "nvcc warning : something\n{}\nTraceback (most recent call last):\n\
         [HOOK] cudaLaunchKernel(grid=[HOOK] cudaLaunchKernel(grid=12,1,1 block=032,1,1) -> 0 | tokens=2.0\n\
         [HOOK] cudaMalloc(671\n\
         [HOOK] something new\n",
        lab()
    );
    let (events, analysis) = of_text(&text);
    let input = &analysis.summary.inputs[0];
    // The blank line between is one of the other lines.
    assert_eq!((input.lines, input.events, input.other_lines, input.bad_lines), (33, 27, 3, 3));
    assert_eq!(analysis.summary.apis, of_text(lab()).1.summary.apis);
    assert_eq!(events.sources[0].bad_examples[0].0, 31);
}

#[test]
fn several_whole_records_on_a_line_all_count() {
    let text = "[HOOK] cudaMalloc(1048576) -> 0x7f00 | total: 1.0 MB[HOOK] cudaFree(0x7f00) -> 0\n";
    let (_, analysis) = of_text(text);
    let input = &analysis.summary.inputs[0];
    assert_eq!((input.lines, input.events, input.bad_lines), (1, 2, 0));
    assert_eq!((analysis.summary.memory.freed_bytes, analysis.summary.memory.live_bytes), (1 << 20, 0));
}

#[test]
fn one_bad_json_line_does_not_lose_the_rest() {
    let good = std::fs::read_to_string(data("sim_lab.jsonl")).unwrap();
    let whole = of_text(&good).1.summary;
    let mut lines: Vec<String> = good.lines().map(str::to_owned).collect();
    let call = lines[3].clone();
    lines.insert(3, format!("{call}TRAILER"));
    lines.insert(9, call[..call.len() / 2].to_owned());
    lines.insert(12, "[]".to_owned());
    lines.insert(14, "{\"ev\":\"call\"}".to_owned());
    let damaged = of_text(lines.join("\n")).1.summary;
    assert_eq!(damaged.apis, whole.apis);
    let input = &damaged.inputs[0];
    assert_eq!((input.events, input.other_lines, input.bad_lines), (27, 1, 3));
}

#[test]
fn a_newer_event_format_is_refused_with_both_versions() {
    let newer = std::fs::read_to_string(data("sim_lab.jsonl")).unwrap().replacen("\"v\":1", "\"v\":2", 1);
    let folder = folder(&[("a.jsonl", newer.as_bytes())]);
    let error = parse::read(&[folder.path().join("a.jsonl")], None).unwrap_err().to_string();
    assert!(error.contains("version 2") && error.contains("knows 1") && error.contains("line 1"), "{error}");
}

#[test]
fn two_runs_in_one_log_are_two_processes_and_nothing_is_mixed() {
    // The second run begins with memory of the first still live in the log: its account begins at nothing.
    let first: String = lab().lines().take(6).map(|line| format!("{line}\n")).collect();
    let (events, analysis) = of_text(format!("{first}{}", lab()));
    let summary = analysis.summary;
    assert_eq!(events.processes.len(), 2);
    assert_eq!(summary.memory.peak_bytes, 64 << 20);
    assert_eq!(summary.memory.live_bytes, 4 << 20);
    assert_eq!(summary.processes[1].memory.live_bytes, 0);
    let streaks: Vec<_> = summary.tokens.denial_streaks.iter().map(|s| (s.process, s.first_call, s.length)).collect();
    assert_eq!(streaks, [(1, 8, 7), (1, 18, 5)]);
    assert_eq!(summary.config.quota_bytes, Some(128 << 20));
}

#[test]
fn runs_with_different_limits_have_no_common_ones() {
    let (events, analysis) =
        of_text(format!("{}{}", lab(), lab().replace("5 tokens/s, burst 3", "7 tokens/s, burst 3")));
    let config = analysis.summary.config;
    assert_eq!((config.quota_bytes, config.rate, config.capacity), (Some(128 << 20), None, Some(3.0)));
    assert_eq!(events.processes[1].bucket, Limit::At((7.0, 3.0)));
}

fn sim(name: &str) -> Vec<u8> {
    std::fs::read(data(name)).unwrap()
}

#[test]
fn a_log_and_its_event_file_count_each_call_once() {
    let (log, jsonl) = (sim("sim_lab.log"), sim("sim_lab.jsonl"));
    for beside in ["my.jsonl", "hook.jsonl"] {
        let folder = folder(&[("my.log", &log), (beside, &jsonl)]);
        let (events, analysis) = load(&folder.path().join("my.log"));
        let summary = analysis.summary;
        assert_eq!(summary.inputs.len(), 2, "{beside}");
        assert_eq!(summary.apis.iter().map(|api| api.calls).sum::<u64>(), 25);
        assert_eq!(summary.apis, of_text(lab()).1.summary.apis);
        assert_eq!(serde_json::to_value(summary.time.base).unwrap(), "monotonic");
        assert!((1.5..1.6).contains(&summary.time.duration_s.unwrap()));
        // A call's line is the log's, its values are the record's.
        assert_eq!((events.calls.line[0], events.calls.source[0]), (3, 0));
        assert!(events.calls.real_ns[0].is_some());
        assert!(summary.notes.is_empty(), "{:?}", summary.notes);
    }
}

#[test]
fn other_runs_in_the_event_file_are_left_out() {
    let earlier =
        String::from_utf8(sim("sim_lab.jsonl")).unwrap().replace("0x7f", "0x6f").replace("\"pid\":", "\"pid\":9");
    let jsonl = [earlier.as_bytes(), &sim("sim_lab.jsonl")].concat();
    let folder = folder(&[("hook.log", &sim("sim_lab.log")), ("hook.jsonl", &jsonl)]);
    let (events, analysis) = load(&folder.path().join("hook.log"));
    assert_eq!((events.calls.len(), events.processes.len()), (25, 1));
    assert!(analysis.summary.notes[0].en.contains("1 process of other runs"), "{:?}", analysis.summary.notes);
    assert_eq!(analysis.summary.inputs[1].events, 27, "taken in, not read");
}

#[test]
fn an_event_file_of_another_run_is_left_out_with_a_note() {
    let other = String::from_utf8(sim("sim_lab.jsonl")).unwrap().replace("67108864", "67108865");
    let folder = folder(&[("hook.log", &sim("sim_lab.log")), ("hook.jsonl", other.as_bytes())]);
    let (_, analysis) = load(&folder.path().join("hook.log"));
    let summary = analysis.summary;
    assert_eq!(summary.inputs.len(), 1);
    assert_eq!(summary.apis.iter().map(|api| api.calls).sum::<u64>(), 25);
    assert_eq!(serde_json::to_value(summary.time.base).unwrap(), "inferred");
    assert!(summary.notes[0].en.contains("left out"), "{:?}", summary.notes);
    // Named by hand it is an error.
    let named = folder.path().join("hook.jsonl");
    let error = parse::read(&[folder.path().join("hook.log")], Some(&named)).unwrap_err().to_string();
    assert!(error.contains("are not those of") && error.contains("from line 3 on"), "{error}");
}

#[test]
fn a_record_that_is_missing_makes_the_event_file_unfit() {
    let shorter: String = String::from_utf8(sim("sim_lab.jsonl"))
        .unwrap()
        .lines()
        .filter(|l| !l.contains("\"seq\":9,"))
        .map(|l| format!("{l}\n"))
        .collect();
    let folder = folder(&[("hook.log", &sim("sim_lab.log")), ("hook.jsonl", shorter.as_bytes())]);
    let (events, analysis) = load(&folder.path().join("hook.log"));
    assert_eq!(events.calls.len(), 25);
    assert!(analysis.summary.notes[0].en.contains("has no record"), "{:?}", analysis.summary.notes);
}

#[test]
fn lines_and_records_of_one_call_in_the_same_file_count_once() {
    let both = [sim("sim_lab.log"), sim("sim_lab.jsonl")].concat();
    let (events, analysis) = of_text(both);
    assert_eq!((events.calls.len(), events.processes.len()), (25, 1));
    assert_eq!(analysis.summary.inputs[0].events, 54);
}

#[test]
fn two_processes_at_work_at_once_are_told_apart_by_their_records() {
    let log = String::from_utf8(sim("sim_lab.log")).unwrap();
    let jsonl = String::from_utf8(sim("sim_lab.jsonl")).unwrap();
    let pid = jsonl.split("\"pid\":").nth(1).unwrap().split(',').next().unwrap().to_owned();
    let second_log = log.replace("0x7f", "0x6f");
    let second = jsonl
        .replace("0x7f", "0x6f")
        .replace(&format!("\"pid\":{pid}"), "\"pid\":77")
        .replace(&format!("\"tid\":{pid}"), "\"tid\":77");
    let mix = |a: &str, b: &str| a.lines().zip(b.lines()).map(|(a, b)| format!("{a}\n{b}\n")).collect::<String>();
    let folder =
        folder(&[("hook.log", mix(&log, &second_log).as_bytes()), ("hook.jsonl", mix(&jsonl, &second).as_bytes())]);
    let (events, analysis) = load(&folder.path().join("hook.log"));
    let summary = analysis.summary;
    assert!(summary.notes.is_empty(), "{:?}", summary.notes);
    assert_eq!(events.processes.len(), 2);
    for process in &summary.processes {
        assert_eq!((process.calls, process.denied), (25, 13));
        assert_eq!(process.memory.peak_bytes, 64 << 20);
    }
    assert_eq!(summary.memory.allocated_bytes, 2 * 75_497_472);
}

#[test]
fn several_logs_are_one_analysis() {
    let paths: Vec<PathBuf> = ["course_h200_cuda13.log", "torch_quota_h200.log"].map(data).to_vec();
    let events = parse::read(&paths, None).unwrap();
    assert_eq!((events.sources.len(), events.processes.len()), (2, 2));
    assert_eq!(events.calls.source.iter().filter(|&&source| source == 1).count(), 24);
}

/// A run of one launch is found in the lines of a long run as well; the long run is still recognised.
#[test]
fn a_short_run_later_in_the_event_file_does_not_take_the_long_ones_lines() {
    let long = String::from_utf8(sim("sim_lab.jsonl")).unwrap();
    let lines: Vec<&str> = long.lines().collect();
    let launch = lines.iter().find(|line| line.contains("\"tokens\":2.0")).unwrap();
    let seq = launch.split("\"seq\":").nth(1).unwrap().split(',').next().unwrap();
    let short = [lines[0], &launch.replace(&format!("\"seq\":{seq}"), "\"seq\":1"), lines[26]].join("\n");
    let folder = folder(&[("hook.log", &sim("sim_lab.log")), ("hook.jsonl", format!("{long}{short}\n").as_bytes())]);
    let (events, analysis) = load(&folder.path().join("hook.log"));
    assert_eq!(serde_json::to_value(analysis.summary.time.base).unwrap(), "monotonic");
    assert_eq!((events.calls.len(), events.processes.len()), (25, 1));
}

#[test]
fn a_log_and_its_event_file_named_together_count_each_call_once() {
    let folder = folder(&[("a.log", &sim("sim_lab.log")), ("hook.jsonl", &sim("sim_lab.jsonl"))]);
    let path = |name: &str| folder.path().join(name);
    for logs in [
        vec![path("a.log"), path("hook.jsonl")],
        vec![path("hook.jsonl"), path("a.log")],
        vec![path("a.log"), path("./hook.jsonl"), path("a.log")],
    ] {
        let events = parse::read(&logs, None).unwrap();
        assert_eq!((events.calls.len(), events.processes.len()), (25, 1), "{logs:?}");
        assert!(events.calls.mono_ns.iter().all(Option::is_some));
    }
}

/// A program that is killed between its two writes leaves a line without a record.
#[test]
fn a_last_line_without_its_record_is_still_one_call() {
    let jsonl = String::from_utf8(sim("sim_lab.jsonl")).unwrap();
    let cut: String = jsonl.lines().take(25).map(|line| format!("{line}\n")).collect();
    let half = &jsonl.lines().nth(25).unwrap()[..80];
    let beside = folder(&[("hook.log", &sim("sim_lab.log")), ("hook.jsonl", format!("{cut}{half}").as_bytes())]);
    let both = [&sim("sim_lab.log")[..], cut.as_bytes(), half.as_bytes()].concat();
    for (events, analysis) in [load(&beside.path().join("hook.log")), of_text(both)] {
        let summary = analysis.summary;
        assert_eq!((events.calls.len(), events.processes.len()), (25, 1));
        assert_eq!(summary.apis.iter().map(|api| api.denied).sum::<u64>(), 13);
        assert_eq!(serde_json::to_value(summary.time.base).unwrap(), "monotonic");
        assert!(summary.notes.iter().any(|note| note.en.contains("no end record")), "{:?}", summary.notes);
    }
}

#[test]
fn a_log_that_holds_its_own_records_needs_no_event_file() {
    let own = [sim("sim_lab.log"), sim("sim_lab.jsonl")].concat();
    let folder = folder(&[("hook.log", &own), ("hook.jsonl", &sim("sim_lab.jsonl"))]);
    let (events, _) = load(&folder.path().join("hook.log"));
    assert_eq!((events.calls.len(), events.sources.len()), (25, 1));
}

#[test]
fn the_second_event_file_is_tried_when_the_first_does_not_match() {
    let other = String::from_utf8(sim("sim_lab.jsonl")).unwrap().replace("67108864", "67108865");
    let folder =
        folder(&[("a.log", &sim("sim_lab.log")), ("a.jsonl", other.as_bytes()), ("hook.jsonl", &sim("sim_lab.jsonl"))]);
    let (events, analysis) = load(&folder.path().join("a.log"));
    assert!(events.calls.mono_ns.iter().all(Option::is_some));
    assert!(analysis.summary.notes.is_empty(), "{:?}", analysis.summary.notes);
}

#[test]
fn an_event_file_named_beside_a_log_without_calls_is_what_there_is() {
    let banners: String = lab().lines().take(2).map(|line| format!("{line}\n")).collect();
    let folder = folder(&[("a.log", banners.as_bytes()), ("e.jsonl", &sim("sim_lab.jsonl"))]);
    let events = parse::read(&[folder.path().join("a.log")], Some(&folder.path().join("e.jsonl"))).unwrap();
    assert_eq!(events.calls.len(), 25);
}

#[test]
fn records_that_are_missing_are_told_of() {
    let jsonl = String::from_utf8(sim("sim_lab.jsonl")).unwrap();
    let gap: String =
        jsonl.lines().filter(|line| !line.contains("\"seq\":5,")).map(|line| format!("{line}\n")).collect();
    let notes = of_text(gap).1.summary.notes;
    assert!(notes[0].en.contains("count 25 calls, 24 are in the file"), "{notes:?}");
    assert!(of_text(jsonl).1.summary.notes.is_empty());
}

/// Two containers that append to one file, each with its process 1.
#[test]
fn two_processes_with_one_id_are_told_apart_by_their_numbers() {
    let jsonl = String::from_utf8(sim("sim_lab.jsonl")).unwrap();
    let lines: Vec<&str> = jsonl.lines().collect();
    let other: Vec<String> = lines.iter().map(|line| line.replace("0x7f", "0x6f")).collect();
    // Both start; the first makes its calls, then the second.
    let mixed =
        [&[lines[0], &other[0]], &lines[1..26], &other[1..26].iter().map(String::as_str).collect::<Vec<_>>()[..]]
            .concat();
    let (events, analysis) = of_text(mixed.join("\n"));
    assert_eq!(events.processes.iter().map(|process| process.rows.len()).collect::<Vec<_>>(), [25, 25]);
    assert_eq!(analysis.summary.memory.peak_bytes, 64 << 20);
}

#[test]
fn a_record_with_the_lines_tag_in_it_is_a_record() {
    let jsonl = String::from_utf8(sim("sim_lab.jsonl")).unwrap().replace("\"host\":\"vm\"", "\"host\":\"[HOOK] vm\"");
    let summary = of_text(jsonl).1.summary;
    assert_eq!((summary.inputs[0].events, summary.inputs[0].bad_lines), (27, 0));
    assert_eq!(summary.config.quota_bytes, Some(128 << 20));
}

#[test]
fn a_graphs_launch_is_a_launch_without_a_shape() {
    let text = "[HOOK] 算力限速: 5 tokens/s, burst 1\n\
                [HOOK] cudaGraphLaunch(graph=0x55d0) -> 0 | tokens=0.0\n\
                [HOOK] cudaGraphLaunch(graph=0x55d0) DENIED | tokens=0.0\n";
    let summary = of_text(text).1.summary;
    assert_eq!((summary.apis[0].api.as_str(), summary.apis[0].ok, summary.apis[0].denied), ("cudaGraphLaunch", 1, 1));
    assert_eq!((summary.dims.len(), summary.tokens.denial_streaks[0].length), (0, 1));
}

#[test]
fn a_device_reset_frees_what_the_log_shows() {
    let text = "[HOOK] cudaMalloc(1048576) -> 0x7f00 | total: 1.0 MB\n\
                [HOOK] cudaDeviceReset() -> 0 | freed: 1048576 bytes | total: 0.0 MB\n";
    let memory = of_text(text).1.summary.memory;
    assert_eq!((memory.live_bytes, memory.freed_bytes), (0, 1 << 20));
}

/// `head` has cut the log; its event file is named beside it as a second log.
#[test]
fn a_log_that_lacks_lines_and_its_event_file_named_together_count_each_call_once() {
    let log: String =
        String::from_utf8(sim("sim_lab.log")).unwrap().lines().take(26).map(|line| format!("{line}\n")).collect();
    let folder = folder(&[("a.log", log.as_bytes()), ("b.jsonl", &sim("sim_lab.jsonl"))]);
    let events = parse::read(&[folder.path().join("a.log"), folder.path().join("b.jsonl")], None).unwrap();
    assert_eq!((events.calls.len(), events.processes.len()), (25, 1));
    assert!(events.notes[0].en.contains("only the records are counted"), "{:?}", events.notes);
}

/// In one file: a process whose lines or records lack some in the middle, and another that left lines alone.
#[test]
fn what_does_not_fit_takes_no_other_processes_lines_along() {
    let without = |name: &str, gone: &[usize]| {
        let text = String::from_utf8(sim(name)).unwrap();
        let kept = text.lines().enumerate().filter(|(i, _)| !gone.contains(i));
        kept.map(|(_, line)| format!("{line}\n")).collect::<String>()
    };
    let other = "[HOOK] 显存配额: 无限制 (仅记录)\n[HOOK] 算力限速: 无限制 (仅记录)\n\
                 [HOOK] cudaMalloc(12345) -> 0x1f00 | total: 0.0 MB\n";
    for (lines, records, kept) in [(&[][..], &[3][..], "lines"), (&[6, 7], &[], "records")] {
        let text = without("sim_lab.log", lines) + &without("sim_lab.jsonl", records) + other;
        let (events, analysis) = of_text(text);
        let notes = analysis.summary.notes;
        assert_eq!(events.calls.len(), 25 + 1, "{notes:?}");
        assert_eq!(analysis.summary.memory.allocated_bytes, 75_497_472 + 12_345);
        assert!(notes[0].en.contains(&format!("only the {kept} are counted")), "{notes:?}");
    }
}

fn launches_only(pid: u32, start: u64) -> (String, String) {
    let banner = "[HOOK] 显存配额: 无限制 (仅记录)\n[HOOK] 算力限速: 5 tokens/s, burst 3\n";
    let mut log = banner.to_owned();
    let mut jsonl = format!(
        "{{\"v\":1,\"ev\":\"start\",\"run\":\"{pid}\",\"mono_ns\":{start},\"pid\":{pid},\"rate\":5.0,\"capacity\":3.0}}\n"
    );
    for seq in 1..=4u64 {
        let (tokens, decision, outcome) = if seq < 4 { (3 - seq, "-> 0", "ok") } else { (0, "DENIED", "denied") };
        log += &format!("[HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) {decision} | tokens={tokens}.0\n");
        jsonl += &format!(
            "{{\"ev\":\"call\",\"seq\":{seq},\"mono_ns\":{},\"pid\":{pid},\"tid\":{pid},\"api\":\"cudaLaunchKernel\",\
             \"sym\":\"cudaLaunchKernel\",\"grid\":[1,1,1],\"block\":[32,1,1],\"outcome\":\"{outcome}\",\"ret\":{},\
             \"tokens\":{tokens}.0,\"wait_ns\":0}}\n",
            start + seq,
            if seq < 4 { 0 } else { 4 },
        );
    }
    jsonl += &format!(
        "{{\"ev\":\"end\",\"pid\":{pid},\"calls\":{{\"cudaLaunchKernel\":{{\"ok\":3,\"denied\":1,\"failed\":0}}}}}}\n"
    );
    (log, jsonl)
}

/// Launches have no address in them, so two runs can print the very same lines.
#[test]
fn one_processes_records_are_not_used_for_two_logs() {
    let ((log, first), (_, second)) = (launches_only(100, 0), launches_only(200, 1_000_000_000));
    let folder = folder(&[
        ("run1.log", log.as_bytes()),
        ("run2.log", log.as_bytes()),
        ("hook.jsonl", format!("{first}{second}").as_bytes()),
        ("only2.json", second.as_bytes()),
    ]);
    let path = |name: &str| folder.path().join(name);
    let events = parse::read(&[path("run1.log"), path("run2.log")], None).unwrap();
    let mut pids: Vec<_> = events.processes.iter().map(|process| process.pid).collect();
    pids.sort_unstable();
    assert_eq!((events.calls.len(), pids), (8, vec![Some(100), Some(200)]));
    assert!(events.notes.is_empty(), "{:?}", events.notes);
    std::fs::remove_file(path("hook.jsonl")).unwrap();
    let events = parse::read(&[path("run1.log"), path("run2.log"), path("only2.json")], None).unwrap();
    assert_eq!((events.calls.len(), events.processes.len()), (8, 2), "{:?}", events.notes);
}

#[test]
fn a_process_id_that_comes_again_is_another_process() {
    let (_, first) = launches_only(7, 0);
    let (_, second) = launches_only(7, 1_000_000_000);
    // The second run's records stand out of order, as threads write them.
    let mut lines: Vec<&str> = second.lines().collect();
    lines.swap(3, 4);
    let events = of_text(format!("{first}{}\n", lines.join("\n"))).0;
    assert_eq!(events.processes.iter().map(|process| process.rows.len()).collect::<Vec<_>>(), [4, 4]);
}

/// A child prints its banner between its parent's lines, and the parent is killed between its last line and record.
#[test]
fn a_last_line_without_a_record_counts_behind_a_childs_banner_too() {
    let (log, jsonl) = launches_only(100, 0);
    let banner: Vec<&str> = log.lines().take(2).collect();
    let mut lines: Vec<&str> = log.lines().collect();
    lines.splice(4..4, banner);
    let records: Vec<&str> = jsonl.lines().take(4).collect();
    let folder = folder(&[("hook.log", lines.join("\n").as_bytes()), ("hook.jsonl", records.join("\n").as_bytes())]);
    let (events, _) = load(&folder.path().join("hook.log"));
    assert_eq!(events.calls.len(), 4);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// Cut, flipped and spliced logs: no panic, the classes add up, undamaged lines count.
    #[test]
    fn damaged_logs_are_accounted_for(edits in prop::collection::vec((0usize..4000, any::<u8>(), 0u8..4), 0..30)) {
        let mut bytes = [sim("sim_lab.log"), sim("sim_lab.jsonl")].concat();
        for (at, byte, what) in edits {
            let at = at % bytes.len();
            match what {
                0 => bytes[at] = byte,
                1 => { bytes.remove(at); }
                2 => bytes.insert(at, byte),
                _ => bytes.truncate(at.max(200)),
            }
        }
        let (events, analysis) = of_text(&bytes);
        let source = &events.sources[0];
        prop_assert_eq!(source.lines, source.event_lines + source.other_lines + source.bad_lines + source.cut_lines);
        let calls: u64 = analysis.summary.apis.iter().map(|api| api.calls).sum();
        prop_assert_eq!(calls as usize, events.calls.len());
        prop_assert_eq!(events.processes.iter().map(|process| process.rows.len()).sum::<usize>(), events.calls.len());
    }
}
