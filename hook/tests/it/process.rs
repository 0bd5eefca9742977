//! A process's life under the hook: loading, forking, beginning anew, ending in every way.

use std::time::{Duration, Instant};

use crate::common::{Job, MB, built, calls, course_lines, hook, job, masked, read_log};

// --- Programs that have nothing to do with CUDA ------------------------------------------------------------------

#[test]
fn ordinary_programs_run_as_without_the_hook_and_leave_nothing_behind() {
    let programs: [(&str, &[&str]); 6] = [
        ("/bin/ls", &["/"]),
        ("/bin/sh", &["-c", "true"]),
        ("/bin/sh", &["-c", "echo $((6*7)); exit 3"]),
        ("/bin/bash", &["-c", "echo $BASH_VERSION | cat"]),
        ("/usr/bin/env", &["true"]),
        ("/usr/bin/python3", &["-c", "print(sum(range(10)))"]),
    ];
    for (program, arguments) in programs {
        let plain = Job::new(program, arguments).unhooked().run();
        let hooked = Job::new(program, arguments).lab().run();
        assert_eq!((hooked.code, hooked.signal, &hooked.stdout), (plain.code, plain.signal, &plain.stdout));
        assert_eq!(hooked.files(), Vec::<String>::new(), "{program}");
        // Banners alone are added to stderr.
        let rest: Vec<&str> = hooked.stderr.lines().filter(|line| !line.starts_with("[HOOK] ")).collect();
        assert_eq!(rest, plain.stderr.lines().collect::<Vec<_>>());
        assert!(
            hooked
                .stderr
                .starts_with("[HOOK] 显存配额: 128 MB (134217728 bytes)\n[HOOK] 算力限速: 5 tokens/s, burst 3\n")
        );
    }
}

#[test]
fn ldd_shows_what_it_showed_and_nothing_missing() {
    let plain = Job::new("/usr/bin/ldd", &["/bin/ls"]).unhooked().run().ok();
    let hooked = Job::new("/usr/bin/ldd", &["/bin/ls"]).run().ok();
    // The preloaded library and its needs are traced with the rest, in an order of their own.
    let plain = masked(&plain.stdout);
    let hooked = masked(&hooked.stdout);
    assert!(!hooked.contains("not found"), "{hooked}");
    for line in plain.lines() {
        assert!(hooked.contains(line), "{line} is missing in\n{hooked}");
    }
    let library = hook().display().to_string();
    let own = |line: &&str| !plain.contains(*line) && !line.contains(&library) && !line.contains("libgcc_s");
    assert_eq!(hooked.lines().filter(own).collect::<Vec<_>>(), Vec::<&str>::new());
}

/// The quickest of many runs with and without, taken in turn: what loading costs at least. A busy machine gets more
/// runs to find a quiet moment in; a constructor that is slow is slow in all of them.
#[test]
fn loading_costs_less_than_two_milliseconds() {
    let time = |job: Job| {
        let started = Instant::now();
        job.run().ok();
        started.elapsed()
    };
    let (mut with, mut without) = (Duration::MAX, Duration::MAX);
    for run in 0..300 {
        with = with.min(time(Job::new("/bin/true", &[]).lab()));
        without = without.min(time(Job::new("/bin/true", &[]).unhooked()));
        if run >= 30 && with < without + Duration::from_millis(2) {
            return;
        }
    }
    panic!("{with:?} with the hook, {without:?} without");
}

// --- Loading -----------------------------------------------------------------------------------------------------

#[test]
fn loading_it_twice_or_binding_at_once_changes_nothing() {
    let twice = format!("{0}:{0}", hook().display());
    for (name, value) in [("LD_PRELOAD", twice.as_str()), ("LD_BIND_NOW", "1")] {
        let done = calls(&["malloc a 129M", "malloc a 1M", "2x launch", "free a"])
            .quota("128")
            .bucket("0.2", "1")
            .env(name, value)
            .run()
            .ok();
        assert_eq!(done.codes(), [2, 0, 0, 4, 0], "{name}");
        assert_eq!(done.hook_lines().len(), 2 + 5, "{name}");
        assert_eq!(done.process().calls.len(), 5);
    }
}

// --- Fork and exec -----------------------------------------------------------------------------------------------

#[test]
fn a_forked_child_starts_with_an_empty_table_and_a_full_bucket() {
    let done = calls(&[
        "malloc a 100M",
        "2x launch",
        "pid",
        "fork",
        "malloc b 100M",
        "malloc c 29M",
        "2x launch",
        "pid",
        "done",
        "malloc d 29M",
    ])
    .quota("128")
    .bucket("0.2", "1")
    .run()
    .ok();
    let codes = done.codes();
    let (parent, child) = (codes[3] as u32, codes[8] as u32);
    assert_eq!([&codes[..3], &codes[4..8], &codes[9..]].concat(), [0, 0, 4, 0, 2, 0, 4, 2]);
    let processes = done.log();
    assert_eq!(processes.len(), 2);
    for (process, pid) in processes.iter().zip([parent, child]) {
        assert_eq!(process.start.pid, pid);
        assert!(process.calls.iter().all(|call| call.pid == pid && call.tid == Some(pid)));
        assert!(process.end.is_some());
        process.replay();
    }
    assert_eq!(processes[1].start.ppid, Some(parent));
    assert_eq!(processes[0].start.run, processes[1].start.run);
    // One banner: a fork loads nothing.
    assert_eq!(done.stderr.matches("显存配额").count(), 1);
}

#[test]
fn a_child_that_makes_no_call_leaves_no_record() {
    let done = calls(&["malloc a 1M", "fork", "pid", "done", "free a"]).run().ok();
    assert_eq!(done.process().calls.len(), 2);
}

#[test]
fn forks_under_load_never_hang() {
    let done = job("forks", &["8", "50"]).run().ok();
    assert_eq!(done.stdout, "50\n");
    let processes = done.log();
    // The parent and its children; what a child does is whole too.
    assert_eq!(processes.len(), 51);
    let children = processes.iter().filter(|child| processes.iter().any(|p| Some(p.start.pid) == child.start.ppid));
    let children: Vec<_> = children.collect();
    assert_eq!(children.len(), 50);
    for child in children {
        assert_eq!(child.calls.len(), 3);
        assert!(child.replay().is_empty());
    }
    assert_eq!(processes.iter().filter(|process| process.end.is_some()).count(), 1 + 25);
}

#[test]
fn a_child_program_shares_the_job_and_starts_anew() {
    let done = calls(&["malloc a 100M", "spawn", "malloc b 100M"]).quota("128").run().ok();
    assert_eq!(done.codes(), [0, 0]);
    let processes = done.log();
    assert_eq!(processes.len(), 2);
    assert_eq!(processes[0].start.run, processes[1].start.run);
    assert_eq!(processes[1].start.ppid, Some(processes[0].start.pid));
    assert_eq!(processes[1].calls[0].total, Some(100 * MB));
    assert_eq!(done.stderr.matches("显存配额").count(), 2);
}

#[test]
fn the_job_id_goes_through_shells() {
    for shell in ["/bin/sh", "/bin/bash"] {
        let program = built().join("calls").display().to_string();
        let done = Job::new(shell, &["-c", "\"$0\" launch; \"$0\" launch; true", &program]).run().ok();
        let processes = done.log();
        assert_eq!(processes.len(), 2);
        assert_eq!(processes[0].start.run, processes[1].start.run, "{shell}");
    }
    let done = calls(&["launch"]).env("CUDA_HOOK_RUN", "my-job.7").run().ok();
    assert_eq!(done.process().start.run, "my-job.7");
}

#[test]
fn a_program_begun_anew_in_the_same_process_is_a_part_of_its_own() {
    let done = calls(&["malloc a 100M", "pid", "exec", "malloc b 100M", "pid"]).quota("128").run().ok();
    let codes = done.codes();
    assert_eq!((codes[0], codes[2], codes[1]), (0, 0, codes[3]));
    let processes = done.log();
    assert_eq!(processes.len(), 2);
    assert!(processes[0].end.is_none() && processes[1].end.is_some());
    assert_eq!(processes[1].calls[0].seq, 1);
}

// --- The end -----------------------------------------------------------------------------------------------------

#[test]
fn a_sudden_end_leaves_every_record_of_a_finished_call_whole() {
    for (how, code, signal) in [("_exit 5", Some(5), None), ("kill", None, Some(9))] {
        let done = calls(&["malloc a 64M", "100x launch", "free a", how]).run();
        assert_eq!((done.code, done.signal), (code, signal));
        let process = done.process();
        assert!(process.end.is_none());
        assert_eq!(process.calls.len(), 102);
        assert!(process.replay().is_empty());
        assert_eq!(done.call_lines(), course_lines(&process.calls));
    }
}

#[test]
fn memory_that_a_librarys_destructor_frees_is_counted_before_the_end() {
    let done = job("goodbye_host", &[]).run().ok();
    assert_eq!(done.stdout, "0\n");
    let process = done.process();
    assert!(process.replay().is_empty());
    assert_eq!(process.outcomes("cudaFree"), (1, 0, 0));
}

#[test]
fn blocks_that_are_never_freed_are_live_at_the_end() {
    let done = calls(&["malloc a 3M", "malloc b 2M", "free a"]).run().ok();
    let end = done.process().end.unwrap();
    assert_eq!((end.live_bytes, end.peak_bytes), (Some(2 * MB), Some(5 * MB)));
}

// --- What the program sees ---------------------------------------------------------------------------------------

/// `calls` sets errno before each call and looks at it afterwards. The stand-in leaves it alone as long as it has no
/// setting to read.
#[test]
fn errno_is_left_alone_wherever_the_records_go() {
    for (log, events) in [("stderr", "hook.jsonl"), ("/dev/full", "/dev/full"), ("/nowhere/log", "/nowhere/events")] {
        let done = calls(&["malloc a 129M", "malloc a 1M", "2x launch", "free a", "free a", "peek", "last"])
            .quota("128")
            .bucket("0.2", "1")
            .env("CUDA_HOOK_LOG", log)
            .env("CUDA_HOOK_EVENTS", events)
            .run()
            .ok();
        assert_eq!(done.codes(), [2, 0, 0, 4, 0, 1, 1, 1]);
        assert_eq!(done.errno_changes(), Vec::<&str>::new(), "{log} {events}");
    }
}

#[test]
fn a_very_long_command_line_still_makes_a_record_of_one_line() {
    let long = format!("launch cudaLaunchKernel {}", "1".repeat(60));
    let commands: Vec<&str> = std::iter::repeat_n(long.as_str(), 300).collect();
    let done = calls(&commands).env("CUDA_HOOK_LOG", "off").run().ok();
    let processes = read_log(&done.file("hook.jsonl"));
    assert_eq!(processes[0].calls.len(), 300);
    assert_eq!(processes[0].start.cmd.last().map(String::as_str), Some("…"));
}
