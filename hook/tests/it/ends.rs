//! Ends and moments that few programs choose: a signal handler that ends or forks the process from within a call,
//! several threads that end it at once, children behind the C library's back, descriptors that are closed unasked.

use std::collections::BTreeSet;

use hook_event::json::{Record, RecordCall, RecordEnd};

use crate::common::{Done, Job, job};

fn ends(arguments: &[&str]) -> Job {
    job("ends", arguments).env("CUDA_HOOK_LOG", "off")
}

/// What can be read of the event file line by line, and how many lines can't.
fn lines(done: &Done) -> (Vec<RecordCall>, Vec<RecordEnd>, usize) {
    let (mut calls, mut goodbyes, mut bad) = (Vec::new(), Vec::new(), 0);
    for line in done.file("hook.jsonl").lines() {
        match hook_event::json::read(line) {
            Ok(Record::Call(call)) => calls.push(call),
            Ok(Record::End(end)) => goodbyes.push(end),
            Ok(_) => {}
            Err(_) => bad += 1,
        }
    }
    (calls, goodbyes, bad)
}

// --- Outputs -----------------------------------------------------------------------------------------------------

/// A record that was cut for want of room is ended by a line feed when there is room again, however long that takes.
#[test]
fn a_record_that_was_cut_costs_no_later_one() {
    for launches in ["10", "3000"] {
        let done = ends(&["limit", launches]).run().ok();
        let (calls, goodbyes, bad) = lines(&done);
        let all = launches.parse::<u64>().unwrap() + 40;
        assert_eq!(bad, 1, "the cut one");
        assert!(calls.iter().any(|call| call.seq == all - 19), "the first that had room again");
        assert_eq!(goodbyes[0].lost, Some(all - calls.len() as u64));
    }
}

/// The program has the low numbers for itself: its first file gets the one that it would get without the hook, and when it
/// closes all that it knows of, no record goes where its next file is.
#[test]
fn the_event_file_is_out_of_the_way_of_the_programs_files() {
    for log in ["off", "log"] {
        let done = ends(&["descriptors"]).env("CUDA_HOOK_LOG", log).run().ok();
        assert_eq!(done.stdout, "3 3\n");
        assert_eq!((done.file("first"), done.file("second")), (String::new(), String::new()));
        let (calls, goodbyes, bad) = lines(&done);
        assert_eq!((calls.len(), goodbyes.len(), bad), (2, 0, 0), "closed, it takes no more");
    }
}

// --- Signal handlers ---------------------------------------------------------------------------------------------

/// The process ends while one of its threads is in a call, and it is that thread which ends it.
#[test]
fn a_handler_that_ends_the_process_from_within_a_call_loses_no_call_that_had_returned() {
    for how in ["exit", "_exit", "execv"].repeat(6) {
        let done = ends(&["inside", how]).env("CUDA_SIM_MALLOC_DELAY_US", "2000000").run().ok();
        let (calls, goodbyes, bad) = lines(&done);
        assert_eq!(calls.len().to_string(), done.stdout.trim(), "{how}");
        assert_eq!((bad, goodbyes.len()), (0, usize::from(how == "exit")), "{how}");
    }
}

/// Not even when it has stopped that thread where the accounts are locked: then only `end` is missing.
#[test]
fn a_handler_that_calls_exit_never_waits_for_what_it_has_interrupted() {
    let mut ended = 0;
    for i in 0..30 {
        let done = ends(&["busy", &(20_000 + 137 * i).to_string()]).run().ok();
        ended += lines(&done).1.len();
    }
    assert!(ended > 5, "{ended}");
}

/// Its call is the parent's, who records it; what it does afterwards is its own.
#[test]
fn a_child_made_in_a_handler_within_a_call_goes_on_as_a_process_of_its_own() {
    let done = ends(&["fork-inside"]).run().ok();
    assert_eq!(done.stdout, "24\n");
    let (calls, goodbyes, bad) = lines(&done);
    let numbers: BTreeSet<_> = calls.iter().map(|call| (call.pid, call.seq)).collect();
    assert_eq!((numbers.len(), bad, goodbyes.len()), (calls.len(), 0, 1));
    // A child's call that the handler has cut into is none of its own.
    let of = |pid| calls.iter().filter(|call| call.pid == pid).count();
    let parent = goodbyes[0].pid;
    let children: BTreeSet<_> = calls.iter().map(|call| call.pid).filter(|&pid| pid != parent).collect();
    assert!(children.len() == 24 && children.iter().all(|&pid| of(pid) >= 6000));
}

// --- Several at once ---------------------------------------------------------------------------------------------

#[test]
fn threads_that_end_the_process_at_the_same_moment_leave_every_call_that_had_returned() {
    for how in ["exit", "quick_exit"].repeat(10) {
        let done = ends(&["together", how]).run().ok();
        let (calls, _, bad) = lines(&done);
        assert_eq!((calls.len(), bad), (6000, 0), "{how}");
    }
}

/// `exit` in a child that shares its parent's accounts, or is a copy that does not know of it, is not the parent's end.
#[test]
fn a_copy_that_exits_says_no_goodbye_for_its_parent() {
    let done = ends(&["copy"]).run().ok();
    assert_eq!(done.stdout, "1\n");
    let (calls, goodbyes, bad) = lines(&done);
    assert_eq!((calls.len(), goodbyes.len(), bad), (20, 1, 0));
}

/// When all other threads have gone, the program's exit handlers run on the hook's own.
#[test]
fn exit_handlers_find_as_much_stack_and_as_many_signals_as_on_a_thread_of_the_programs() {
    let done = ends(&["alone"]).run().ok();
    assert_eq!(done.stdout, "1\n");
    let (calls, goodbyes, bad) = lines(&done);
    assert_eq!((calls.len(), goodbyes.len(), bad), (3500, 1, 0));
}

/// However long an allocation takes, a thread that is to be cancelled in it does not take the quota along.
#[test]
fn a_thread_cancelled_in_a_long_allocation_gives_its_reservation_back() {
    let done = ends(&["cancelled"]).quota("1").env("CUDA_SIM_MALLOC_DELAY_US", "400000").run().ok();
    assert_eq!(done.stdout, "0\n");
    done.process().replay();
}
