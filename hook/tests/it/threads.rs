//! Many threads at once. Each race is run 20 times and more, with the stand-in's delays at the places where a careless
//! hook loses count.

use std::collections::BTreeSet;

use hook_event::Outcome;

use crate::common::{Process, call_lines, course_lines, job, read_log};

const RUNS: usize = 20;

fn same_lines_in_any_order(stderr: &str, process: &Process) {
    let (mut lines, mut records) = (call_lines(stderr), course_lines(&process.calls));
    lines.sort_unstable();
    records.sort_unstable();
    assert_eq!(lines, records);
}

#[test]
fn totals_are_exact_when_freed_addresses_go_to_other_threads_before_the_free_returns() {
    for _ in 0..RUNS {
        let done = job("churn", &["8", "40"]).quota("128").env("CUDA_SIM_FREE_DELAY_US", "100").run().ok();
        assert_eq!(done.stdout, "0\n");
        let process = done.process();
        assert!(process.replay().is_empty());
        assert_eq!(process.calls.len(), 8 * 40 * 2);
        assert_eq!(process.outcomes("cudaFree"), (8 * 40, 0, 0));
        let most = 8 * ((1 << 20) + 7 * 512);
        assert!(process.calls.iter().all(|call| call.total <= Some(most)), "a total that wrapped");
        same_lines_in_any_order(&done.stderr, &process);
    }
}

#[test]
fn addresses_really_go_from_thread_to_thread_in_that_test() {
    let done = job("churn", &["8", "40"]).env("CUDA_SIM_FREE_DELAY_US", "100").run().ok();
    let process = done.process();
    let owners = |ptr| {
        let of = process.calls.iter().filter(|call| call.ptr == ptr && call.api == "cudaMalloc");
        of.filter_map(|call| call.tid).collect::<BTreeSet<u32>>().len()
    };
    assert!(process.calls.iter().any(|call| owners(call.ptr) > 1));
    assert_eq!(process.calls.iter().filter_map(|call| call.tid).collect::<BTreeSet<u32>>().len(), 8);
}

#[test]
fn two_of_sixteen_threads_get_64_mb_each_under_128() {
    for _ in 0..RUNS {
        let done = job("rush", &["16", "64"]).quota("128").env("CUDA_SIM_MALLOC_DELAY_US", "3000").run().ok();
        assert_eq!(done.stdout, "2\n");
        let process = done.process();
        assert_eq!(process.outcomes("cudaMalloc"), (2, 14, 0));
        assert_eq!(process.replay().len(), 2);
        same_lines_in_any_order(&done.stderr, &process);
    }
}

#[test]
fn reservations_of_failing_allocations_are_given_back_under_load() {
    for _ in 0..RUNS {
        let done = job("rush", &["16", "64"])
            .quota("1024")
            .env("CUDA_SIM_MALLOC_DELAY_US", "500")
            .env("CUDA_SIM_MALLOC_FAIL", "5")
            .run()
            .ok();
        assert_eq!(done.stdout, "11\n");
        let process = done.process();
        assert_eq!(process.outcomes("cudaMalloc"), (11, 0, 5));
        process.replay();
    }
}

#[test]
fn threads_share_one_bucket() {
    for _ in 0..RUNS {
        let done = job("launchers", &["8", "20"]).bucket("0.01", "37").run().ok();
        assert!(done.stdout.starts_with("37 37 "), "{}", done.stdout);
        let process = done.process();
        assert_eq!(process.outcomes("cudaLaunchKernel"), (37, 123, 0));
        let tokens: Vec<f64> = process.calls.iter().filter_map(|call| call.tokens).collect();
        assert!(tokens.iter().all(|level| (0.0..=37.0).contains(level)));
        assert!(process.calls.iter().all(|call| (call.outcome == Outcome::Denied) == (call.seq > 37)));
    }
}

/// A token takes 25 ms here. A thread that sleeps is woken late by what the machine pleases, and one that is late by more
/// than a token is passed by the next: such a run tells nothing, so there are several. A hook without an order would not
/// get 20 launches of four threads right even once.
#[test]
fn waiting_launches_are_served_in_the_order_in_which_they_asked() {
    let mut seen = Vec::new();
    for _ in 0..10 {
        let done = job("launchers", &["4", "5"]).bucket("40", "1").env("CUDA_CORE_POLICY", "wait").run().ok();
        assert!(done.stdout.starts_with("20 20 "));
        let process = done.process();
        assert_eq!(process.outcomes("cudaLaunchKernel"), (20, 0, 0));
        let first = process.calls[0].mono_ns.unwrap();
        let last = process.calls[19].mono_ns.unwrap();
        assert!(last - first >= 19 * 25_000_000 - 1_000_000, "19 tokens take 475 ms: {} ns", last - first);
        // Two may ask in the same moment: 5 ms are allowed for that.
        let asked: Vec<u64> = process.calls.iter().map(|call| call.mono_ns.unwrap() - call.wait_ns.unwrap()).collect();
        if asked.windows(2).all(|pair| pair[0] <= pair[1] + 5_000_000) {
            return;
        }
        seen.push(asked);
    }
    panic!("never in the order of asking: {seen:?}");
}

#[test]
fn eight_processes_write_whole_lines_to_one_log_and_one_event_file() {
    let folder = tempfile::tempdir().unwrap();
    let (log, events) = (folder.path().join("hook.log"), folder.path().join("all.jsonl"));
    let processes: Vec<_> = (0..8)
        .map(|_| {
            job("launchers", &["2", "250"])
                .env("CUDA_HOOK_LOG", log.to_str().unwrap())
                .env("CUDA_HOOK_EVENTS", events.to_str().unwrap())
        })
        .collect();
    let running: Vec<_> = processes.into_iter().map(|job| std::thread::spawn(|| job.run().ok())).collect();
    for done in running {
        done.join().unwrap();
    }
    let log = std::fs::read_to_string(log).unwrap();
    assert_eq!(log.lines().count(), 8 * (2 + 500));
    assert!(log.lines().all(|line| hook_event::course::read(line).is_some()), "a torn line");
    let processes = read_log(&std::fs::read_to_string(events).unwrap());
    assert_eq!(processes.len(), 8);
    assert!(processes.iter().all(|process| process.calls.len() == 500 && process.end.is_some()));
}

#[test]
fn a_thread_with_a_small_stack_is_no_problem() {
    let done = job("stack", &["64"]).lab().run().ok();
    assert_eq!(done.stdout, "0 0 0\n");
}

#[test]
fn a_thread_cancelled_while_it_waits_for_a_token_does_not_take_the_process_along() {
    let done = job("cancel", &[]).bucket("2", "1").env("CUDA_CORE_POLICY", "wait").run().ok();
    assert_eq!(done.stdout, "cancelled\n0\n");
}
