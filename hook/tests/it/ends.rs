//! Ends and moments that few programs choose: a signal handler that ends or forks the process from within a call,
//! several threads that end it at once, children behind the C library's back, descriptors that are closed unasked.

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
