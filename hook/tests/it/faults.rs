//! Where records go when their way is blocked, and faults of the runtime behind the hook; and that a hook written without
//! care does fail these tests.

use std::path::{Path, PathBuf};

use crate::common::{Job, MB, built, call_lines, calls, hook, job, pipe_without_reader, read_log, write_to};

// --- Cases that a careless hook fails ----------------------------------------------------------------------------

/// 64 MB are live; a request that makes the sum wrap around must be refused.
fn a_request_near_the_largest_size_is_denied(hook: &Path) -> bool {
    let done = calls(&["malloc a 64M", "malloc b max-32M", "malloc c max-0"])
        .quota("128")
        .env("CUDA_SIM_MEM_MB", "4096")
        .preload(hook)
        .run()
        .ok();
    let denied = |line: &&str| line.contains(" DENIED | total: 64.0 / 128.0 MB");
    done.codes() == [0, 2, 2] && call_lines(&done.stderr).iter().skip(1).all(denied) && done.call_lines().len() == 3
}

/// The runtime refuses to free a block, and frees it when asked again: its bytes must come back then, not before.
fn a_failed_free_keeps_its_block_until_it_succeeds(hook: &Path) -> bool {
    let done = calls(&["malloc a 64M", "free a", "malloc b 65M", "free a", "malloc b 128M"])
        .quota("128")
        .env("CUDA_SIM_FREE_FAIL", "1")
        .preload(hook)
        .run()
        .ok();
    done.codes() == [0, 700, 2, 0, 0]
}

/// Sixteen threads ask at once for 64 MB of 128.
fn two_of_sixteen_are_granted(hook: &Path) -> bool {
    let done =
        job("rush", &["16", "64"]).quota("128").env("CUDA_SIM_MALLOC_DELAY_US", "20000").preload(hook).run().ok();
    done.stdout == "2\n"
}

/// A program that looks at nothing but cudaGetLastError learns of a denial.
fn a_denial_is_the_last_error(hook: &Path) -> bool {
    let done = calls(&["2x launch", "last", "last"]).bucket("0.2", "1").preload(hook).run().ok();
    done.codes() == [0, 4, 4, 0]
}

/// What nvcc 13 makes of `<<<…>>>` is limited.
fn launches_of_cuda_13_are_limited(hook: &Path) -> bool {
    let done = calls(&["2x launch __cudaLaunchKernel"]).bucket("0.2", "1").preload(hook).run().ok();
    done.codes() == [0, 4]
}

/// Ways to take memory that the lab's three functions don't see, each of more than the quota.
fn every_way_to_take_memory_is_limited(hook: &Path) -> bool {
    let runtime =
        ["take cudaMallocManaged a 200M", "take cudaMallocAsync a 200M", "pitch a 100,1000000", "array a 8192,8192"];
    let runtime = calls(&runtime).quota("128").preload(hook).run().ok().codes() == [2; 4];
    let commands = ["proc", "alloc:200M", "create:200M", "async:200M"];
    let driver = job("driver_unlinked", &commands).quota("128").preload(hook).run().ok().codes() == [2; 3];
    let fixed = job("calls_static", &["malloc a 200M"]).quota("128").preload(hook).run().ok().codes() == [2];
    runtime && driver && fixed
}

/// Ways to launch that the lab's `cudaLaunchKernel` does not see.
fn every_way_to_launch_is_limited(hook: &Path) -> bool {
    let graph = calls(&["2x graph"]).bucket("0.2", "1").preload(hook).run().ok().codes() == [0, 4];
    let commands = ["proc", "launch", "launch-ex", "graph"];
    graph && job("driver_unlinked", &commands).bucket("0.2", "1").preload(hook).run().ok().codes() == [0, 719, 719]
}

/// After a device reset all of the quota is there again.
fn a_reset_gives_the_quota_back(hook: &Path) -> bool {
    let done = calls(&["malloc a 100M", "reset", "malloc b 100M"]).quota("128").preload(hook).run().ok();
    done.codes() == [0, 0, 0]
}

/// A forked child holds nothing of its parent's.
fn a_child_has_a_quota_of_its_own(hook: &Path) -> bool {
    let done = calls(&["malloc a 100M", "fork", "malloc b 100M", "done"]).quota("128").preload(hook).run();
    done.stdout.matches(" = 0\n").count() == 2
}

/// `4Gi` is not 4.
fn a_value_that_is_no_number_is_not_cut_to_one(hook: &Path) -> bool {
    let done = calls(&["malloc a 10M"]).quota("4Gi").preload(hook).run().ok();
    done.codes() == [0]
}

/// Without a limit there is no level to go down.
fn no_level_is_ever_negative(hook: &Path) -> bool {
    let done = calls(&["5x launch"]).preload(hook).run().ok();
    !done.stderr.contains("tokens=-")
}

/// A plugin brings the runtime along, out of the global scope.
fn a_runtime_of_a_plugins_own_is_found(hook: &Path) -> bool {
    let plugin = built().join("libplugin.so").display().to_string();
    let done = job("plugin_host", &[&plugin]).quota("128").preload(hook).run();
    done.stdout == "0 2 2 0 0\n"
}

type Case = fn(&Path) -> bool;
const CASES: [(&str, Case); 12] = [
    ("other ways to take memory", every_way_to_take_memory_is_limited),
    ("other ways to launch", every_way_to_launch_is_limited),
    ("a reset", a_reset_gives_the_quota_back),
    ("a child", a_child_has_a_quota_of_its_own),
    ("4Gi", a_value_that_is_no_number_is_not_cut_to_one),
    ("negative levels", no_level_is_ever_negative),
    ("a plugin's runtime", a_runtime_of_a_plugins_own_is_found),
    ("a request near the largest size", a_request_near_the_largest_size_is_denied),
    ("a failed free", a_failed_free_keeps_its_block_until_it_succeeds),
    ("sixteen threads", two_of_sixteen_are_granted),
    ("the last error", a_denial_is_the_last_error),
    ("launches of CUDA 13", launches_of_cuda_13_are_limited),
];

#[test]
fn the_cases_that_break_careless_hooks_are_no_trouble_here() {
    for (name, case) in CASES {
        assert!(case(hook()), "{name}");
    }
}

#[test]
fn a_naive_hook_fails_these() {
    let naive: PathBuf = built().join("libnaive_hook.so");
    for (name, case) in CASES {
        assert!(!case(&naive), "{name} passes with a naive hook, so that case tests nothing");
    }
}

// --- The course log ----------------------------------------------------------------------------------------------

#[test]
fn the_log_can_be_switched_off_and_the_limits_stay() {
    let done = calls(&["malloc a 129M", "4x launch"]).quota("128").bucket("0.2", "3").env("CUDA_HOOK_LOG", "off");
    let done = done.run().ok();
    assert_eq!(done.stderr, "");
    assert_eq!(done.codes(), [2, 0, 0, 0, 4]);
    assert_eq!(done.process().calls.len(), 5);
}

#[test]
fn the_log_goes_to_a_file_that_is_appended_to() {
    let job = calls(&["malloc a 1M", "spawn", "malloc b 2M"]).env("CUDA_HOOK_LOG", "my.log");
    std::fs::write(job.folder().join("my.log"), "before\n").unwrap();
    let done = job.run().ok();
    assert_eq!(done.stderr, "");
    let log = done.file("my.log");
    assert!(log.starts_with("before\n[HOOK] 显存配额: 无限制 (仅记录)\n"));
    assert_eq!(call_lines(&log).len(), 2);
    assert_eq!(log.lines().count(), 1 + 2 * 2 + 2);
}

#[test]
fn a_log_that_cannot_be_opened_or_written_is_told_of_once() {
    for path in ["/nowhere/hook.log", "/dev/full"] {
        let done = calls(&["malloc a 1M", "3x launch", "free a"]).env("CUDA_HOOK_LOG", path).run().ok();
        assert_eq!(done.codes(), [0; 5]);
        let warnings = done.warnings();
        assert!(warnings.len() == 1 && warnings[0].contains(&format!("CUDA_HOOK_LOG={path}")), "{warnings:?}");
        assert_eq!(done.hook_lines().len(), 1);
        assert_eq!(done.process().calls.len(), 5);
    }
}

// --- Stderr ------------------------------------------------------------------------------------------------------

#[test]
fn a_stderr_that_is_full_changes_nothing_for_the_program() {
    let done = calls(&["malloc a 1M", "2x launch", "free a", "last"]).bucket("0.2", "1").stderr(write_to("/dev/full"));
    let done = done.run().ok();
    assert_eq!(done.codes(), [0, 0, 4, 0, 4]);
    assert_eq!(done.process().calls.len(), 4);
}

#[test]
fn a_stderr_whose_reader_has_gone_raises_no_signal() {
    let done = calls(&["sigpipe", "malloc a 1M", "2x launch", "free a"]).stderr(pipe_without_reader()).run().ok();
    // 1: the program has the standard action for SIGPIPE, which is to die.
    assert_eq!(done.codes(), [1, 0, 0, 0, 0]);
    assert_eq!(done.process().calls.len(), 4);
}

#[test]
fn a_full_pipe_that_does_not_block_loses_lines_and_not_the_program() {
    let done = calls(&["fill", "malloc a 1M", "launch", "free a"]).run().ok();
    assert_eq!(done.codes(), [0; 4]);
    assert_eq!(done.call_lines().len(), 0);
    assert_eq!(done.process().calls.len(), 3);
}

#[test]
fn with_stderr_closed_no_line_gets_into_a_file_of_the_program() {
    let script = "exec \"$0\" 'open data' 'malloc a 1M' 'open more' 'free a' 2>&-";
    let program = built().join("calls").display().to_string();
    let done = Job::new("/bin/sh", &["-c", script, &program]).run().ok();
    // The program's first file takes the place of stderr.
    assert_eq!(done.codes()[..2], [2, 0]);
    assert_eq!((done.file("data"), done.file("more")), (String::new(), String::new()));
    assert_eq!(done.process().calls.len(), 2);
}

#[test]
fn with_stderr_closed_the_event_file_does_not_take_its_place() {
    let script = "exec \"$0\" 'malloc a 1M' 'open data' 2>&-";
    let program = built().join("calls").display().to_string();
    let done = Job::new("/bin/sh", &["-c", script, &program]).run().ok();
    assert_eq!(done.codes(), [0, 2]);
    assert_eq!(done.process().calls.len(), 1);
}

// --- Events ------------------------------------------------------------------------------------------------------

#[test]
fn events_can_be_switched_off() {
    let done = calls(&["malloc a 129M", "launch"]).quota("128").env("CUDA_HOOK_EVENTS", "off").run().ok();
    assert_eq!(done.codes(), [2, 0]);
    assert_eq!(done.files(), Vec::<String>::new());
    assert_eq!(done.call_lines().len(), 2);
}

#[test]
fn events_go_where_they_are_told() {
    let done = calls(&["malloc a 1M", "launch"]).env("CUDA_HOOK_EVENTS", "mine.jsonl").run().ok();
    assert_eq!(done.files(), ["mine.jsonl"]);
    assert_eq!(read_log(&done.file("mine.jsonl"))[0].calls.len(), 2);
    let done = calls(&["malloc a 1M", "launch"]).env("CUDA_HOOK_EVENTS", "stderr").run().ok();
    assert_eq!(done.files(), Vec::<String>::new());
    let records: String =
        done.stderr.lines().filter(|line| line.starts_with('{')).map(|line| format!("{line}\n")).collect();
    assert_eq!(read_log(&records)[0].calls.len(), 2);
    assert_eq!(done.call_lines().len(), 2);
}

#[test]
fn events_go_to_the_folder_in_which_the_program_was_started() {
    let job = calls(&["chdir elsewhere", "malloc a 1M", "launch"]);
    std::fs::create_dir(job.folder().join("elsewhere")).unwrap();
    let done = job.run().ok();
    assert_eq!(done.process().calls.len(), 2);
    assert_eq!(std::fs::read_dir(done.folder().join("elsewhere")).unwrap().count(), 0);
}

#[test]
fn an_event_file_that_cannot_be_made_is_told_of_once() {
    let commands = ["malloc a 129M", "3x launch", "free a"];
    // Not even the superuser makes files in /proc.
    let default = calls(&commands).quota("128").working_in("/proc");
    let named = calls(&commands).quota("128").env("CUDA_HOOK_EVENTS", "/nowhere/hook.jsonl");
    for (job, name) in [(default, "/proc/hook.jsonl"), (named, "/nowhere/hook.jsonl")] {
        let done = job.run().ok();
        assert_eq!(done.codes(), [2, 0, 0, 0, 0]);
        let warnings = done.warnings();
        assert!(warnings.len() == 1 && warnings[0].contains(name), "{warnings:?}");
        assert_eq!(done.call_lines().len(), 5);
    }
}

#[test]
fn an_event_file_on_a_full_device_is_told_of_once_and_changes_nothing() {
    let done = calls(&["malloc a 129M", "3x launch", "free a"]).quota("128").env("CUDA_HOOK_EVENTS", "/dev/full");
    let done = done.run().ok();
    assert_eq!(done.codes(), [2, 0, 0, 0, 0]);
    assert_eq!(done.warnings().len(), 1, "{}", done.stderr);
    assert_eq!(done.call_lines().len(), 5);
}

#[test]
fn an_event_file_stops_at_its_size_limit_and_the_end_counts_what_is_missing() {
    let done = job("launchers", &["1", "100"]).env("CUDA_HOOK_EVENTS_MAX_MB", "0.005").run().ok();
    let text = done.file("hook.jsonl");
    assert!(text.len() <= (0.005 * MB as f64) as usize + 4096);
    let process = done.process();
    let end = process.end.expect("the end is written all the same");
    let written = process.calls.len() as u64;
    assert!(written > 5 && written < 100, "{written}");
    assert_eq!(end.lost, Some(100 - written));
    assert_eq!(end.calls["cudaLaunchKernel"].ok, 100);
    assert_eq!(done.warnings().len(), 1, "{:?}", done.warnings());
    assert_eq!(done.call_lines().len(), 100);
}

#[test]
fn a_limit_on_file_sizes_raises_no_signal() {
    let script = "ulimit -f 8; exec \"$0\" '400x launch' launches";
    let program = built().join("calls").display().to_string();
    let job = Job::new("/bin/sh", &["-c", script, &program]);
    let log = job.folder().join("log");
    let done = job.stderr(write_to(log)).run().ok();
    assert_eq!(done.codes().last(), Some(&400));
    assert!(done.file("log").len() <= 8192 && done.file("hook.jsonl").len() <= 8192);
}

/// The program may set its limit long after the library was loaded.
#[test]
fn a_limit_on_file_sizes_that_the_program_sets_itself_raises_no_signal() {
    let done = calls(&["file-limit 4K", "100x launch", "launches"]).env("CUDA_HOOK_LOG", "off").run().ok();
    assert_eq!(done.codes().last(), Some(&100));
    assert!(done.file("hook.jsonl").len() <= 4096);
}

#[test]
fn a_second_run_is_added_to_the_event_file() {
    let script = "\"$0\" 'malloc a 1M' && \"$0\" launch";
    let program = built().join("calls").display().to_string();
    // Two runs of a shell are two jobs: each has an id of its own.
    let job = Job::new("/bin/sh", &["-c", script, &program]);
    let events = job.folder().join("hook.jsonl");
    let other = calls(&["free-raw 0"]).env("CUDA_HOOK_EVENTS", events.to_str().unwrap());
    let first = job.run().ok();
    assert_eq!(first.log().len(), 2);
    other.run().ok();
    let processes = first.log();
    let runs: Vec<&str> = processes.iter().map(|process| process.start.run.as_str()).collect();
    assert!(!runs[0].is_empty() && runs[0] == runs[1] && runs[1] != runs[2], "{runs:?}");
    assert!(processes.iter().all(|process| process.end.is_some() && process.calls.len() == 1));
}

// --- The runtime behind ------------------------------------------------------------------------------------------

#[test]
fn a_symbol_that_is_nowhere_gives_302_and_one_line() {
    let done = job("orphan", &[]).lab().run().ok();
    for symbol in ["cudaMalloc", "cudaFree", "cudaLaunchKernel", "__cudaLaunchKernel"] {
        assert_eq!(done.stdout.lines().filter(|line| *line == format!("{symbol} 302")).count(), 2, "{}", done.stdout);
        // The program prints more than the code when errno was changed.
        let told = |line: &&&str| line.contains(&format!("找不到真正的 {symbol}:"));
        assert_eq!(done.warnings().iter().filter(told).count(), 1, "{:?}", done.warnings());
    }
    assert_eq!(done.stdout.lines().filter(|line| line.ends_with("LastError 0")).count(), 4, "{}", done.stdout);
}

#[test]
fn a_runtime_that_lacks_symbols_is_used_as_far_as_it_goes() {
    let poor = built().join("poor");
    let done = job("orphan", &[])
        .lab()
        .env("LD_PRELOAD", &format!("{}:{}", hook().display(), poor.join("libcudart.so.13").display()))
        .run()
        .ok();
    for line in ["cudaMalloc 0", "cudaFree 0", "__cudaLaunchKernel 302", "cudaGetLastError 0"] {
        assert_eq!(done.stdout.lines().filter(|l| l == &line).count(), 2, "{}", done.stdout);
    }
    // It can't tell the device either.
    assert!(done.process().calls.iter().all(|call| call.dev.is_none()));
}

#[test]
fn a_runtime_that_a_plugin_brought_is_found_and_outlives_the_plugin() {
    let plugin = built().join("libplugin.so").display().to_string();
    for arguments in [vec![plugin.as_str()], vec![plugin.as_str(), "global"]] {
        for (name, value) in [("LD_BIND_NOW", "1"), ("LC_ALL", "C")] {
            let done = job("plugin_host", &arguments).quota("128").env(name, value).run().ok();
            assert_eq!(done.stdout, "0 2 2 0 0\n");
            let process = done.process();
            assert_eq!(process.outcomes("cudaMalloc"), (2, 1, 0));
            process.replay();
            assert!(done.warnings().is_empty());
        }
    }
}

#[test]
fn launches_that_the_runtime_refuses_are_neither_passed_nor_denied() {
    let done = calls(&["2x launch", "last"]).env("CUDA_SIM_LAUNCH_RET", "98").bucket("0.2", "1").run().ok();
    assert_eq!(done.codes(), [98, 4, 4]);
    assert_eq!(done.process().outcomes("cudaLaunchKernel"), (0, 1, 1));
}

/// Gives a shared object another name inside.
const RENAME: &str = r"
import sys
path = sys.argv[1]
library = open(path, 'rb').read()
open(path, 'wb').write(library.replace(b'libcudart.so.13\0', b'libcudart.so.12\0'))
";

#[test]
fn two_runtimes_in_one_process_are_warned_of() {
    // The stand-in under another name is another library to the loader.
    let other = tempfile::tempdir().unwrap();
    let copy = other.path().join("libcudart.so.12");
    std::fs::copy(built().join("libcudart.so.13"), &copy).unwrap();
    let renamed = std::process::Command::new("python3").args(["-c", RENAME]).arg(&copy).status();
    assert!(renamed.is_ok_and(|status| status.success()));
    let preload = format!("{}:{}", hook().display(), copy.display());
    let done = calls(&["malloc a 1M", "launch", "free a"]).env("LD_PRELOAD", &preload).run().ok();
    let warnings = done.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("libcudart.so.13") && warnings[0].contains("libcudart.so.12"), "{warnings:?}");
    assert!(calls(&["malloc a 1M"]).run().ok().warnings().is_empty());
}
