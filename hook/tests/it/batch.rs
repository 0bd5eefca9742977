//! Records in batches: that none is lost however the process ends but by `kill -9`, and then only the newest; that
//! their times, names and numbers are what they would be one by one.
//!
//! `HOOK_STRESS=N` repeats the random ones N times as often: `HOOK_STRESS=600 cargo test --release -p cuda-hook
//! --features hook-event/read batch::` makes a million calls a thread of 64.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::process::Command;
use std::thread;
use std::time::Duration;

use hook_event::json::{Record, RecordCall};

use crate::common::{Job, MB, call_lines, course_lines, job, read_log};

/// What a program writes one by one before it goes over to batches, and enough more that it surely has.
const MANY: &str = "5000";

/// How often the tests repeat what random moments decide.
fn times(usual: usize) -> usize {
    usual * std::env::var("HOOK_STRESS").ok().and_then(|times| times.parse().ok()).unwrap_or(1)
}

fn batch(arguments: &[&str]) -> Job {
    job("batch", arguments)
}

/// Both logs complete, and telling the same.
fn complete(calls: &[RecordCall], lines: &str, launches: usize) {
    assert_eq!(calls.len(), launches);
    assert!(calls.iter().zip(1..).all(|(call, number)| call.seq == number));
    assert_eq!(call_lines(lines), course_lines(calls));
}

// --- When --------------------------------------------------------------------------------------------------------

#[test]
fn a_thread_is_started_only_for_many_calls_a_second_and_never_when_records_must_be_synchronous() {
    for (launches, sync, threads) in [("900", "0", "1\n"), (MANY, "0", "2\n"), (MANY, "1", "1\n")] {
        let done = batch(&["threads", launches]).env("CUDA_HOOK_SYNC", sync).run().ok();
        assert_eq!(done.stdout, threads, "{launches} launches, CUDA_HOOK_SYNC={sync}");
        complete(&done.process().calls, &done.stderr, launches.parse().unwrap());
    }
    let done = batch(&["threads", MANY]).env("CUDA_HOOK_LOG", "off").env("CUDA_HOOK_EVENTS", "off").run().ok();
    assert_eq!(done.stdout, "1\n", "nothing is recorded");
}

#[test]
fn an_unusable_setting_for_it_is_warned_of() {
    let done = batch(&["threads", "10"]).env("CUDA_HOOK_SYNC", "on").run().ok();
    assert!(done.warnings().len() == 1 && done.warnings()[0].contains("CUDA_HOOK_SYNC=on"));
}

// --- Ends --------------------------------------------------------------------------------------------------------

#[test]
fn every_way_out_of_a_program_writes_what_is_batched() {
    let exits = ["return", "exit", "alone"];
    let sudden = ["_exit", "_Exit", "quick_exit", "handler"];
    let execs = ["execv", "execve", "execvp", "execvpe", "execl", "execlp", "execle", "fexecve", "execveat"];
    for how in exits.iter().chain(&sudden).chain(&execs) {
        let done = batch(&["leave", how, MANY]).run().ok();
        let process = done.process();
        assert_eq!(process.end.is_some(), exits.contains(how), "{how}");
        assert_eq!(process.calls.len(), 5000, "{how}");
        assert_eq!(call_lines(&done.stderr), course_lines(&process.calls), "{how}");
        let echo = match *how {
            "execl" | "execlp" | "execle" => "left 1 2 3 4 5 6\n",
            how if execs.contains(&how) => "left\n",
            _ => "",
        };
        assert_eq!(done.stdout, echo, "{how}");
    }
}

#[test]
fn a_vfork_childs_exec_leaves_the_parents_records_to_the_parent() {
    for _ in 0..times(3) {
        let done = batch(&["leave", "vfork", MANY]).run().ok();
        assert_eq!(done.stdout, "left\n");
        complete(&done.process().calls, &done.stderr, 5010);
    }
}

#[test]
fn forked_children_begin_anew_and_the_parent_loses_nothing() {
    for _ in 0..times(2) {
        let done = batch(&["fork", "3000", "12"]).env("CUDA_HOOK_LOG", "off").run().ok();
        assert_eq!(done.stdout, "12\n");
        let processes = done.log();
        assert_eq!(processes.len(), 13);
        let parent = processes[0].start.pid;
        let children: Vec<_> = processes.iter().filter(|process| process.start.ppid == Some(parent)).collect();
        assert_eq!(children.len(), 12);
        assert!(children.iter().all(|child| child.calls.len() == 3000));
        assert_eq!(children.iter().filter(|child| child.end.is_some()).count(), 6);
        assert!(processes[0].end.is_some() && processes[0].calls.len() >= 3000 + 12 * 300);
    }
}

/// The records of a log that may end in the middle of one, and the number of each call.
fn cut_log(text: &str) -> Vec<RecordCall> {
    let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
    let records =
        whole.lines().map(|line| hook_event::json::read(line).unwrap_or_else(|error| panic!("{error}: {line}")));
    let calls = records.filter_map(|record| if let Record::Call(call) = record { Some(call) } else { None });
    let mut calls: Vec<RecordCall> = calls.collect();
    calls.sort_by_key(|call| call.seq);
    calls
}

/// Starts a program that tells of each call that has returned, and kills it after a while. Answers the number and the
/// time of the last such call, and the records.
fn killed_after(milliseconds: u64, sync: &str) -> (u64, u64, Vec<RecordCall>) {
    let mut job = batch(&["acknowledge", "1"]).env("CUDA_HOOK_SYNC", sync).env("CUDA_HOOK_LOG", "off");
    let mut child = job.start();
    let mut acknowledged = child.stdout.take().expect("a pipe");
    let reader = thread::spawn(move || {
        let mut all = Vec::new();
        acknowledged.read_to_end(&mut all).expect("to be read");
        let last = all.len() / 16 * 16;
        let number = |from: usize| u64::from_ne_bytes(all[from..from + 8].try_into().expect("8 bytes"));
        (number(last - 16), number(last - 8))
    });
    thread::sleep(Duration::from_millis(milliseconds));
    child.kill().expect("a child");
    child.wait().expect("a child");
    let (count, at) = reader.join().expect("acknowledgements");
    let calls = cut_log(&std::fs::read_to_string(job.folder().join("hook.jsonl")).expect("an event file"));
    assert!(calls.iter().zip(1..).all(|(call, number)| call.seq == number), "a gap");
    (count, at, calls)
}

/// 20 ms are promised; a machine that is busy may keep the writing thread waiting longer, but not each time.
#[test]
fn killed_a_program_loses_at_most_the_newest_records() {
    const MS: u64 = 1_000_000;
    let mut behind = Vec::new();
    for i in 0..times(20) as u64 {
        let (count, at, calls) = killed_after(20 + i * 37 % 130, "0");
        let newest = calls.last().map_or(0, |call| call.mono_ns.unwrap());
        if (calls.len() as u64) < count {
            let late = at.saturating_sub(newest);
            assert!(late < 220 * MS, "{count} calls, {} records, {late} ns behind", calls.len());
            behind.push(late);
        } else {
            behind.push(0);
        }
    }
    behind.sort_unstable();
    assert!(behind[behind.len() / 2] < 20 * MS, "{behind:?}");
}

#[test]
fn killed_a_synchronous_program_loses_nothing() {
    for i in 0..times(10) as u64 {
        let (count, _, calls) = killed_after(20 + i * 37 % 130, "1");
        assert!(calls.len() as u64 >= count && calls.len() as u64 <= count + 1, "{count} {}", calls.len());
    }
}

#[test]
fn a_call_after_a_long_pause_wakes_the_writing_thread() {
    let done = batch(&["idle"]).run();
    assert_eq!(done.signal, Some(9));
    complete(&done.process().calls, &done.stderr, 3001);
}

#[test]
fn a_line_that_a_kill_has_cut_costs_the_next_process_nothing() {
    let cut = "{\"ev\":\"call\",\"seq\":1,";
    let job = batch(&["threads", "10"]);
    std::fs::write(job.folder().join("hook.jsonl"), cut).unwrap();
    let done = job.run().ok();
    let text = done.file("hook.jsonl");
    let (first, rest) = text.split_once('\n').unwrap();
    assert!(first.starts_with(cut));
    let processes = read_log(rest);
    assert!(processes.len() == 1 && processes[0].calls.len() == 10 && processes[0].end.is_some());
}

// --- Threads -----------------------------------------------------------------------------------------------------

#[test]
fn sixty_four_threads_leave_exact_accounts() {
    for _ in 0..times(1) {
        let done =
            batch(&["mixed", "64", "400"]).quota("6").bucket("5000", "1000").env("CUDA_HOOK_LOG", "log").run().ok();
        assert_eq!(done.stdout, "0\n");
        let process = done.process();
        assert!(process.replay().is_empty());
        let (granted, denied, _) = process.outcomes("cudaMalloc");
        assert!(granted + denied == 64 * 400 && denied > 0);
        assert_eq!(process.outcomes("cudaFree"), (granted, 0, 0));
        let (passed, refused, _) = process.outcomes("cudaLaunchKernel");
        assert!(passed + refused == 2 * 64 * 400 && refused > 0);
        assert!(process.calls.iter().all(|call| call.total <= Some(6 * MB)));
        let (log, mut records) = (done.file("log"), course_lines(&process.calls));
        let mut lines = call_lines(&log);
        lines.sort_unstable();
        records.sort_unstable();
        assert_eq!(lines, records);
    }
}

#[test]
fn thousands_of_threads_one_after_another_share_a_few_rings() {
    let done = batch(&["short", "4000", "3"]).run().ok();
    let (launched, peak_mb) = done.stdout.trim().split_once(' ').unwrap();
    assert_eq!(launched, "12000");
    complete(&done.process().calls, &done.stderr, 12_000);
    // A ring each would be 1000 MB.
    assert!(peak_mb.parse::<u64>().unwrap() < 500, "{peak_mb} MB");
}

/// More threads than there are rings before any is looked at.
#[test]
fn threads_that_nobody_may_ask_about_keep_their_rings() {
    for _ in 0..times(4) {
        let done = batch(&["sandboxed", "40", "1000"]).env("CUDA_HOOK_LOG", "off").run().ok();
        let calls = done.process().calls;
        assert_eq!(calls.len(), 43_000);
        assert!(calls.iter().zip(1..).all(|(call, number)| call.seq == number));
    }
}

#[test]
fn threads_that_are_cancelled_while_they_launch_do_not_take_the_process_along() {
    for _ in 0..times(3) {
        // The stand-in sleeps in `cudaMalloc`, which is a point at which a thread can be cancelled.
        let job = batch(&["cancel", "8"]).env("CUDA_HOOK_LOG", "off").env("CUDA_SIM_MALLOC_DELAY_US", "3000");
        let done = job.run().ok();
        assert_eq!(done.stdout, "8\n");
        let process = done.process();
        assert!(process.end.is_some());
        let last: BTreeMap<_, _> = process.calls.iter().map(|call| (call.tid, call.api.as_str())).collect();
        assert_eq!(last.values().filter(|&&api| api == "cudaFree").count(), 8, "none is cancelled in a call: {last:?}");
    }
}

// --- Slow outputs ------------------------------------------------------------------------------------------------

/// Reads a page each half millisecond, to the end or to a line that says so.
fn slowly(mut from: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let (mut all, mut page) = (Vec::new(), [0; 4096]);
        loop {
            let some = from.read(&mut page).expect("to be read");
            all.extend_from_slice(&page[..some]);
            if some == 0 || all.ends_with(THE_END.as_bytes()) {
                return String::from_utf8(all).expect("UTF-8");
            }
            thread::sleep(Duration::from_micros(500));
        }
    })
}

const THE_END: &str = "the end\n";

#[test]
fn a_full_ring_slows_the_program_and_loses_nothing() {
    let (reader, writer) = std::io::pipe().unwrap();
    let lines = slowly(reader);
    let done = batch(&["leave", "return", "20000"]).stderr(writer).run().ok();
    complete(&done.process().calls, &lines.join().unwrap(), 20_000);
}

#[test]
fn a_slow_fifo_as_event_file_loses_nothing() {
    let mut job = batch(&["leave", "return", "8000"]);
    let fifo = job.folder().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    job = job.env("CUDA_HOOK_EVENTS", "fifo").env("CUDA_HOOK_LOG", "log");
    // For writing as well, or else the opening would wait for the program.
    let both = std::fs::File::options().read(true).write(true).open(&fifo).unwrap();
    let mut last = both.try_clone().unwrap();
    let events = slowly(both);
    let done = job.run().ok();
    last.write_all(THE_END.as_bytes()).unwrap();
    let events = events.join().unwrap();
    let processes = read_log(events.strip_suffix(THE_END).unwrap());
    assert_eq!(processes[0].end.as_ref().unwrap().lost, Some(0));
    complete(&processes[0].calls, &done.file("log"), 8000);
}

// --- What the records say ------------------------------------------------------------------------------------------

#[test]
fn times_are_those_of_the_clock_that_the_program_reads() {
    let done = batch(&["times", "60000"]).env("CUDA_HOOK_LOG", "off").run().ok();
    let calls = done.process().calls;
    assert_eq!(calls.len(), 60_000);
    let number = |text: &str| text.parse::<u64>().unwrap();
    for (line, call) in done.stdout.lines().zip(&calls) {
        let (before, after) = line.split_once(' ').unwrap();
        let at = call.mono_ns.unwrap();
        let within = number(before) - 2_000..=number(after) + 2_000;
        assert!(within.contains(&at), "{line}: {at}");
        let spent = call.real_ns.unwrap() + call.hook_ns.unwrap_or(0);
        assert!(spent <= number(after) - number(before) + 2_000, "{line}: {call:?}");
    }
}

#[test]
fn of_the_launches_in_batches_one_in_sixteen_has_the_time_that_the_hook_added() {
    let done = batch(&["times", "20000"]).env("CUDA_HOOK_LOG", "off").run().ok();
    let calls = done.process().calls;
    assert!(calls.iter().all(|call| call.real_ns.is_some()));
    let measured: Vec<usize> = (0..calls.len()).filter(|&i| calls[i].hook_ns.is_some()).collect();
    let written_at_once = measured.windows(2).take_while(|pair| pair[1] == pair[0] + 1).count();
    assert!((1000..2000).contains(&written_at_once), "{written_at_once}");
    assert!(measured[written_at_once..].windows(2).all(|pair| pair[1] == pair[0] + 16), "{measured:?}");
    assert!(measured.last() > Some(&19_983));
}

#[test]
fn a_kernel_keeps_the_name_that_it_had_when_it_was_launched() {
    let done = batch(&["names", "3000"]).run().ok();
    let calls = done.process().calls;
    assert_eq!(calls.len(), 9000);
    for (some, name) in calls.chunks(3000).zip([Some("_Z5firstv"), Some("_Z6secondv"), None]) {
        assert!(some.iter().all(|call| call.kernel.as_deref() == name), "{name:?}");
    }
}

#[test]
fn records_that_have_no_room_are_counted_as_lost_and_the_rest_is_whole() {
    let done =
        batch(&["leave", "return", "20000"]).env("CUDA_HOOK_EVENTS_MAX_MB", "2").env("CUDA_HOOK_LOG", "off").run().ok();
    let process = done.process();
    let end = process.end.as_ref().unwrap();
    assert_eq!(process.calls.len() as u64 + end.lost.unwrap(), 20_000);
    assert!(process.calls.len() > 4000 && end.lost.unwrap() > 0);
    assert!(process.calls.iter().zip(1..).all(|(call, number)| call.seq == number));
    let done = batch(&["leave", "return", MANY]).env("CUDA_HOOK_EVENTS", "/dev/full").run().ok();
    assert_eq!(done.call_lines().len(), 5000);
    assert_eq!(done.warnings().len(), 1);
}
