//! Limits that the processes of a job share.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use hook_event::{Outcome, Scope};

use crate::common::{Done, Job, MB, built, calls, lines_match_records};

/// A name that no other test uses; its page goes when the test ends.
struct Name(String);

impl Name {
    fn new() -> Name {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        Name(format!("test.{}.{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)))
    }

    fn page(&self) -> PathBuf {
        let user = std::fs::metadata("/proc/self").expect("this process").uid();
        PathBuf::from(format!("/dev/shm/cuda-hook-{user}-{}", self.0))
    }

    fn on(&self, job: Job) -> Job {
        job.env("CUDA_HOOK_SHARED", &self.0)
    }

    /// A script with `$calls`, `$churn` and `$launchers` to start.
    fn script(&self, text: &str) -> Job {
        let program = |name: &str| built().join(name).display().to_string();
        let job = Job::new("/bin/bash", &["-c", text]);
        let job = ["calls", "churn", "launchers"].iter().fold(job, |job, name| job.env(name, &program(name)));
        self.on(job)
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.page());
        let _ = std::fs::remove_dir(self.page());
    }
}

fn granted(done: &Done) -> usize {
    done.log().iter().flat_map(|process| &process.calls).filter(|call| call.outcome == Outcome::Ok).count()
}

/// What 16 private buckets would let through is 48 launches. Nor do processes that come when others have gone already
/// find the bucket full.
#[test]
fn sixteen_processes_share_one_burst() {
    let name = Name::new();
    let started = Instant::now();
    let script = "for i in $(seq 16); do \"$calls\" '20x launch' & done; wait";
    let done = name.script(script).bucket("0.2", "3").run().ok();
    let refilled = (started.elapsed().as_secs_f64() * 0.2) as usize;
    let processes = done.log();
    assert_eq!((processes.len(), processes.iter().map(|p| p.calls.len()).sum()), (16, 320));
    let passed = granted(&done);
    assert!((3..=3 + refilled).contains(&passed), "{passed} launches, {refilled} refilled");
    assert!(processes.iter().all(|process| process.start.shared.as_deref() == Some(name.0.as_str())));
    assert!(processes.iter().all(|process| process.start.job.is_some()));
    // Their records, by the clock that they share, tell one bucket.
    let mut all: Vec<_> = processes.iter().flat_map(|process| &process.calls).collect();
    all.sort_by_key(|call| (call.mono_ns, std::cmp::Reverse(call.outcome == Outcome::Ok)));
    assert_eq!(all[0].tokens, Some(2.0));
    assert_eq!(done.warnings(), Vec::<&str>::new());
}

#[test]
fn launches_wait_their_turn_across_processes() {
    let name = Name::new();
    let script = "for i in 1 2 3 4; do \"$launchers\" 1 3 & done; wait";
    let done = name.script(script).bucket("20", "1").env("CUDA_CORE_POLICY", "wait").run().ok();
    let processes = done.log();
    let mut times: Vec<u64> = processes.iter().flat_map(|p| &p.calls).filter_map(|call| call.mono_ns).collect();
    times.sort_unstable();
    assert_eq!((times.len(), granted(&done)), (12, 12));
    // 12 launches, 11 of them with a token that took 50 ms.
    assert!(times[11] - times[0] >= 549_000_000, "{times:?}");
}

/// The parent's memory counts for its children and theirs for it; what a dead one held is free again.
#[test]
fn the_quota_is_the_jobs_and_the_dead_give_back() {
    let name = Name::new();
    let done = name
        .on(calls(&[
            "malloc a 64M",
            "fork",
            "malloc b 65M",
            "malloc c 64M",
            "free-mb",
            "malloc d 1",
            "done",
            "free-mb",
            "fork",
            "malloc e 64M",
            "_exit 0",
            "done",
            "malloc f 64M",
            "free a",
            "fork",
            "malloc g 64M",
            "total-mb",
            "done",
        ]))
        .quota("128")
        .run()
        .ok();
    assert_eq!(done.codes(), [0, 2, 0, 0, 2, 64, 0, 0, 0, 0, 128]);
    let processes = done.log();
    assert_eq!(processes.len(), 4);
    let refusal = processes[1].calls[0].refusal().expect("a refusal");
    assert_eq!((refusal.scope, refusal.quota, refusal.total), (Scope::Job, 128 * MB, 64 * MB));
    assert_eq!(processes[1].calls[0].total, Some(0));
    assert!(done.stderr.contains("[HOOK] cudaMalloc(68157440) DENIED | total: 64.0 / 128.0 MB\n"));
    assert!(done.stderr.contains("[HOOK] cudaMalloc(1) DENIED | total: 128.0 / 128.0 MB\n"));
    for process in &processes {
        process.replay();
    }
}

#[test]
fn a_program_begun_anew_gives_back_what_it_held() {
    let name = Name::new();
    let done = name.on(calls(&["malloc a 100M", "exec", "malloc b 100M", "malloc c 29M"])).quota("128").run().ok();
    assert_eq!(done.codes(), [0, 0, 2]);
}

/// A child that outlives its parent and never calls CUDA must not keep the parent's memory taken.
#[test]
fn a_killed_parents_memory_is_free_though_its_child_lives() {
    let name = Name::new();
    let script = "\"$calls\" 'malloc a 128M' fork 'sleep 20000' done & parent=$!
        until grep -q cudaMalloc hook.jsonl 2>/dev/null; do sleep 0.01; done
        until child=$(pgrep -P $parent); do sleep 0.01; done
        kill -9 $parent; wait $parent
        \"$calls\" 'malloc a 128M' 'malloc b 1'
        kill -0 $child && kill -9 $child";
    let done = name.script(script).quota("128").run().ok();
    assert_eq!(done.codes(), [0, 0, 2]);
}

/// Killed at any moment, in the middle of the page's lock now and then: nobody hangs, and all is given back.
#[test]
fn a_process_killed_at_work_never_stops_the_others() {
    let name = Name::new();
    let script = "for i in $(seq 25); do
            \"$churn\" 4 1000000 > /dev/null & one=$!
            \"$churn\" 4 1000000 > /dev/null & two=$!
            sleep 0.0$((RANDOM % 5))$((RANDOM % 10))
            kill -9 $one; wait $one 2> /dev/null
            timeout -s KILL 10 \"$calls\" 'launch' > /dev/null || echo hung
            kill -9 $two; wait $two 2> /dev/null
            timeout -s KILL 10 \"$calls\" 'malloc a 128M' 'malloc b 1' || echo hung
        done";
    let job = name.script(script).quota("128").bucket("1e6", "1000").env("CUDA_HOOK_EVENTS", "off");
    let done = job.env("CUDA_HOOK_LOG", "off").run().ok();
    assert!(!done.stdout.contains("hung"), "{}", done.stdout);
    assert_eq!(done.codes(), [0, 2].repeat(25));
}

#[test]
fn a_later_process_keeps_to_the_jobs_limits_and_is_told() {
    let name = Name::new();
    let script = "\"$calls\" 'malloc a 100M' 'sleep 20000' & first=$!
        until grep -q cudaMalloc hook.jsonl 2>/dev/null; do sleep 0.01; done
        CUDA_MEM_QUOTA_MB=512 CUDA_CORE_CAPACITY=9 \"$calls\" 'malloc a 29M' '3x launch' 2> second.log
        kill -9 $first; wait $first
        CUDA_MEM_QUOTA_MB=512 CUDA_CORE_CAPACITY=9 \"$calls\" 'malloc a 512M' '9x launch' 2> third.log";
    let done = name.script(script).quota("128").bucket("0.2", "2").run().ok();
    assert_eq!(done.codes(), [0, 2, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let second = done.file("second.log");
    let warnings: Vec<&str> = second.lines().filter(|line| line.contains("警告")).collect();
    assert_eq!(warnings.len(), 1, "{second}");
    assert!(warnings[0].contains("536870912") && warnings[0].contains("134217728"), "{warnings:?}");
    assert!(warnings[0].contains("burst 9") && warnings[0].contains("burst 2"), "{warnings:?}");
    // The start record says what is in force; nobody was left when the third came.
    let starts: Vec<_> = done.log().into_iter().map(|process| process.start).collect();
    assert_eq!((starts[1].quota_bytes, starts[1].capacity), (Some(128 * MB), Some(2.0)));
    assert_eq!((starts[2].quota_bytes, starts[2].capacity), (Some(512 * MB), Some(9.0)));
    assert_ne!(starts[1].job, starts[2].job);
    assert!(!done.file("third.log").contains("警告"));
}

#[test]
fn one_line_after_the_banner_names_what_is_shared_and_programs_without_calls_leave_no_page() {
    let name = Name::new();
    let done = name.on(Job::new("/bin/ls", &["/"])).lab().run().ok();
    let line = format!("[HOOK] 共享限额: {}", name.0);
    assert_eq!(
        done.hook_lines(),
        ["[HOOK] 显存配额: 128 MB (134217728 bytes)", "[HOOK] 算力限速: 5 tokens/s, burst 3", &line]
    );
    assert!(!name.page().exists());
    let done = name.on(calls(&["malloc a 1M", "launch", "free a"])).lab().run().ok();
    assert_eq!(done.codes(), [0, 0, 0]);
    lines_match_records(&done);
    let page = std::fs::metadata(name.page()).expect("a page");
    assert_eq!(page.mode() & 0o7777, 0o600);
}

#[test]
fn a_page_that_cannot_be_used_is_named_and_each_keeps_its_own_limits() {
    let name = Name::new();
    std::fs::create_dir(name.page()).expect("a folder in its place");
    let done = name.on(calls(&["malloc a 128M", "fork", "malloc b 128M", "launch", "done", "malloc c 1"]));
    let done = done.lab().run().ok();
    assert_eq!(done.codes(), [0, 0, 0, 2]);
    let warnings = done.warnings();
    assert_eq!(warnings.len(), 2, "one a process: {warnings:?}");
    assert!(warnings[0].contains("CUDA_HOOK_SHARED=") && warnings[0].contains("/dev/shm/"), "{warnings:?}");
    assert!(done.log().iter().all(|process| process.start.shared.is_none()));
    let done = calls(&["malloc a 1M"]).env("CUDA_HOOK_SHARED", "../x").lab().run().ok();
    assert!(done.warnings().len() == 1 && !done.stderr.contains("共享限额"), "{}", done.stderr);
}

#[test]
fn a_limit_on_file_sizes_kills_no_one() {
    let name = Name::new();
    let done = name.on(calls(&["file-limit 4K", "malloc a 128M", "malloc b 1"])).lab().run().ok();
    assert_eq!(done.codes(), [0, 0, 2]);
    assert_eq!(done.warnings().len(), 1, "{:?}", done.warnings());
}

/// The descriptor lies where programs don't look, and does not reach programs that are started.
#[test]
fn the_programs_descriptors_are_its_own() {
    let name = Name::new();
    let done = name.on(calls(&["open x", "malloc a 1M", "open y", "spawn", "open z"])).lab().run().ok();
    let [first, _, second, third] = done.codes()[..] else { panic!("{}", done.stdout) };
    // The event file takes one of the low numbers, as it does without shared limits.
    let plain = calls(&["open x", "malloc a 1M", "open y", "spawn", "open z"]).lab().run().ok();
    assert_eq!([first, second, third], [plain.codes()[0], plain.codes()[2], plain.codes()[3]]);
}

#[test]
fn forks_under_load_never_hang_with_shared_limits() {
    let name = Name::new();
    let started = Instant::now();
    let done = name.on(crate::common::job("forks", &["4", "40"])).env("CUDA_HOOK_LOG", "off").run().ok();
    assert_eq!(done.stdout, "40\n");
    assert!(started.elapsed() < Duration::from_secs(30));
}
