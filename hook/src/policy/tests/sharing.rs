//! Several simulated processes on one page: each maps the file for itself, and dies by being dropped.

use std::collections::BTreeMap;

use hook_event::Scope;
use proptest::prelude::*;
use tempfile::TempDir;

use super::super::*;
use super::{NONE, S};

const LAB: Settings = Settings { quota: Some(1000), bucket: Some((5.0, 3.0)) };

struct Job(TempDir);

impl Job {
    fn new() -> Job {
        Job(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self) -> CString {
        CString::new(self.0.path().join("page").to_str().expect("UTF-8")).expect("no NUL")
    }

    /// A process with these settings, which has not entered yet.
    fn with(&self, own: Settings, policy: Policy) -> Limiter {
        Limiter::new(Limits { policy, ..NONE }, 0).sharing("job", self.path(), || 7, own)
    }

    fn process(&self) -> Limiter {
        self.with(LAB, Policy::Deny)
    }
}

fn grant(limiter: &Limiter, size: u64, ptr: u64) -> Result<Settled, Refusal> {
    match limiter.alloc(size, None, 0) {
        AllocDecision::Forward(reservation) => Ok(reservation.commit(ptr, 0)),
        AllocDecision::Denied(_, refusal) => Err(refusal),
    }
}

fn passes(limiter: &Limiter, now_ns: u64) -> bool {
    matches!(limiter.launch(now_ns), LaunchDecision::Pass(_))
}

#[test]
fn one_quota_holds_for_all_and_each_has_its_own_total() {
    let job = Job::new();
    let (one, two) = (job.process(), job.process());
    assert_eq!(grant(&one, 600, 1).map(|s| s.total), Ok(600));
    assert_eq!(grant(&two, 401, 1), Err(Refusal { scope: Scope::Job, quota: 1000, total: 600, pending: 0 }));
    assert_eq!(grant(&two, 400, 1).map(|s| s.total), Ok(400));
    assert_eq!((one.room(None, 0), two.room(None, 0)), (Some((1000, 0)), Some((1000, 0))));
    assert_eq!(one.free(1).commit(0).1, Some(600));
    assert_eq!(two.room(None, 0), Some((1000, 600)));
    assert!(one.notices().is_empty() && two.notices().is_empty());
}

#[test]
fn what_is_under_way_anywhere_counts() {
    let job = Job::new();
    let (one, two) = (job.process(), job.process());
    let AllocDecision::Forward(under_way) = one.alloc(900, None, 0) else { panic!("there is room") };
    assert_eq!(grant(&two, 101, 1), Err(Refusal { scope: Scope::Job, quota: 1000, total: 0, pending: 900 }));
    drop(under_way);
    assert!(grant(&two, 1000, 1).is_ok());
}

#[test]
fn a_reset_and_a_failure_give_back_to_the_job() {
    let job = Job::new();
    let (one, two) = (job.process(), job.process());
    grant(&one, 500, 1).expect("room");
    grant(&one, 500, 2).expect("room");
    one.reset(None, |_| false, 0);
    let AllocDecision::Forward(reservation) = two.alloc(1000, None, 0) else { panic!("all is free") };
    reservation.fail(0);
    let AllocDecision::Forward(mut padded) = one.alloc(900, None, 0) else { panic!("all is free") };
    assert_eq!(padded.resize(1001).map_err(|refusal| refusal.scope), Err(Scope::Job));
    padded.resize(1000).expect("room");
    padded.commit(3, 0);
    assert_eq!(two.room(None, 0), Some((1000, 0)));
}

#[test]
fn one_bucket_serves_all_and_its_level_is_everybodys() {
    let job = Job::new();
    let processes: Vec<Limiter> = (0..16).map(|_| job.process()).collect();
    let passed = processes.iter().flat_map(|p| (0..3).map(|_| passes(p, S))).filter(|&passed| passed).count();
    assert_eq!(passed, 3);
    let LaunchDecision::Denied(denied) = processes[9].launch(S) else { panic!("no token is left") };
    assert_eq!(denied.tokens, Some(0.0));
    assert!(!passes(&processes[0], S + S / 5 - 1));
    assert!(passes(&processes[1], S + S / 5));
    assert_eq!(processes[2].launch_free(S + S / 5).tokens, Some(0.0));
    assert_eq!(processes[2].launch_free(9 * S).tokens, Some(3.0));
}

/// Whoever read the clock first: along the order of decisions, time never runs backwards in any process.
#[test]
fn waiting_is_first_come_first_served_across_processes() {
    let job = Job::new();
    let settings = Settings { bucket: Some((5.0, 1.0)), ..LAB };
    let (one, two) = (job.with(settings, Policy::Wait), job.with(settings, Policy::Wait));
    assert!(passes(&one, S));
    assert_eq!(two.launch(S), LaunchDecision::Wait(S + S / 5));
    assert_eq!(one.launch(S - 5), LaunchDecision::Wait(S + 2 * S / 5));
    assert_eq!(two.launch_after_wait(S + S / 5).tokens, Some(0.0));
}

#[test]
fn the_first_to_come_sets_the_limits_and_others_are_told() {
    let job = Job::new();
    let one = job.process();
    passes(&one, S);
    let two = job.with(Settings { quota: None, bucket: Some((1.0, 1.0)) }, Policy::Deny);
    assert!(passes(&two, S) && passes(&two, S) && !passes(&two, S));
    let notices = two.notices();
    assert_eq!(notices.len(), 1);
    for shown in ["CUDA_HOOK_SHARED=job", "显存不限, 1 tokens/s, burst 1", "显存 1000 字节, 5 tokens/s, burst 3"]
    {
        assert!(notices[0].contains(shown), "{notices:?}");
    }
    assert_eq!(two.in_force(NOTHING, 0), (LAB, Some(7)));
    assert!(grant(&two, 1001, 1).is_err());
    assert!(two.notices().is_empty());
    // Nobody is left: the next one begins anew, with a full bucket.
    drop((one, two));
    let three = job.with(Settings { quota: Some(5), bucket: Some((1.0, 1.0)) }, Policy::Deny);
    assert!(passes(&three, S) && !passes(&three, S));
    assert!(grant(&three, 6, 1).is_err() && grant(&three, 5, 1).is_ok());
    assert!(three.notices().is_empty());
}

/// Else every short process would find a full bucket.
#[test]
fn a_bucket_goes_on_from_one_process_to_the_next_but_not_their_waiting() {
    let job = Job::new();
    assert!((0..3).all(|_| passes(&job.process(), S)));
    assert!(!passes(&job.process(), S));
    assert!(passes(&job.process(), S + S / 5));
    // Who read the clock before all this and comes only now turns nothing back.
    assert!(!passes(&job.process(), S));
    assert!(!passes(&job.process(), S + S / 5));
    let slow = Settings { quota: None, bucket: Some((1.0, 1.0)) };
    let waiting = job.with(slow, Policy::Wait);
    assert!(passes(&waiting, S));
    assert_eq!((0..9).map(|_| waiting.launch(S)).nth(8), Some(LaunchDecision::Wait(10 * S)));
    drop(waiting);
    assert_eq!(job.with(slow, Policy::Wait).launch(2 * S), LaunchDecision::Wait(3 * S));
}

const NOTHING: Settings = Settings { quota: None, bucket: None };

#[test]
fn the_dead_give_back_what_they_held_and_had_reserved() {
    let job = Job::new();
    let one = job.process();
    grant(&one, 400, 1).expect("room");
    let two = job.process();
    let AllocDecision::Forward(under_way) = two.alloc(500, None, 0) else { panic!("room") };
    // Killed in the middle of the real call.
    std::mem::forget(under_way);
    assert!(grant(&one, 200, 2).is_err());
    drop(two);
    assert!(grant(&one, 600, 2).is_ok());
    assert_eq!(grant(&one, 1, 3), Err(Refusal { scope: Scope::Job, quota: 1000, total: 1000, pending: 0 }));
}

#[test]
fn a_lock_whose_owner_died_is_repaired() {
    let job = Job::new();
    let one = job.process();
    grant(&one, 400, 1).expect("room");
    let page = crate::ffi::shm::Entrance::open(&job.path(), S).expect("a page").leave();
    // A robust mutex notices the end of a thread as that of a process.
    let die_locked = move || {
        std::mem::forget(page.lock(S).expect("free"));
        // Mapped until the kernel has seen to the lock.
        std::mem::forget(page);
    };
    std::thread::spawn(die_locked).join().expect("no panic");
    assert!(grant(&one, 600, 2).is_ok());
    assert!(grant(&one, 1, 3).is_err());
    assert!(passes(&one, S));
    assert!(one.notices().is_empty());
}

#[test]
fn a_stopped_owner_costs_refusals_and_one_warning_but_no_hang() {
    let job = Job::new();
    let one = job.process();
    grant(&one, 400, 1).expect("room");
    assert!(passes(&one, S));
    let page = crate::ffi::shm::Entrance::open(&job.path(), S).expect("a page").leave();
    let held = page.lock(S).expect("free");
    let started = std::time::Instant::now();
    let refusal = Refusal { scope: Scope::Unreachable, quota: 1000, total: 400, pending: 0 };
    assert_eq!(grant(&one, 10, 2), Err(refusal));
    assert!(started.elapsed() >= std::time::Duration::from_millis(99));
    let LaunchDecision::Denied(denied) = one.launch(S) else { panic!("the bucket can't be asked") };
    assert_eq!(denied.tokens, None);
    // What needs no answer is neither refused nor held up.
    assert_eq!(one.free(1).commit(0).1, Some(400));
    assert_eq!(one.launch_free(S).tokens, None);
    assert_eq!(one.room(None, 0), Some((1000, 1000)));
    assert!((0..100).all(|_| grant(&one, 10, 2) == Err(Refusal { total: 0, ..refusal })));
    assert!(started.elapsed() < std::time::Duration::from_secs(30));
    let notices = one.notices();
    assert!(notices.len() == 1 && notices[0].contains("CUDA_HOOK_SHARED=job"), "{notices:?}");
    drop(held);
    assert!(grant(&one, 1000, 2).is_ok() && passes(&one, S));
}

/// Stopped while it entered: the others come in later.
#[test]
fn a_stopped_newcomer_keeps_others_out_but_hangs_no_one() {
    let job = Job::new();
    let newcomer = crate::ffi::shm::Entrance::open(&job.path(), S).expect("a page");
    let one = job.process();
    let started = std::time::Instant::now();
    assert_eq!(grant(&one, 10, 2).map_err(|refusal| refusal.scope), Err(Scope::Unreachable));
    assert!(!passes(&one, S));
    assert!(started.elapsed() < std::time::Duration::from_secs(20));
    assert_eq!(one.in_force(LAB, S), (LAB, None));
    drop(newcomer);
    assert!(grant(&one, 1000, 2).is_ok() && passes(&one, S) && grant(&one, 1, 3).is_err());
    assert_eq!((one.in_force(LAB, S), one.notices().len()), ((LAB, Some(7)), 1));
}

#[test]
fn where_every_slot_is_taken_the_next_process_is_on_its_own() {
    let job = Job::new();
    let one = job.process();
    assert!(grant(&one, 1000, 1).is_ok());
    let others = crate::ffi::shm::Entrance::open(&job.path(), S).expect("a page").leave();
    assert_eq!((0..SLOTS).filter(|&slot| others.claim(slot)).count(), SLOTS - 1);
    let two = job.process();
    assert!(grant(&two, 1000, 1).is_ok());
    let notices = two.notices();
    assert!(notices.len() == 1 && notices[0].contains("1024"), "{notices:?}");
}

/// A program may close descriptors that it didn't open; others then take the process for dead. It comes back with all
/// that it holds.
#[test]
fn a_process_taken_for_dead_enters_anew_with_what_it_holds() {
    let job = Job::new();
    let (one, two) = (job.process(), job.process());
    assert!(grant(&one, 600, 1).is_ok() && grant(&two, 300, 1).is_ok());
    one.lock().sharing.as_ref().expect("shared").clear_slot();
    assert_eq!(two.room(None, 0), Some((1000, 700)));
    // Not in anybody else's slot.
    assert_eq!(one.free(1).commit(0).1, Some(600));
    assert_eq!(two.room(None, 0), Some((1000, 700)));
    assert!(grant(&one, 500, 2).is_ok());
    one.lock().sharing.as_ref().expect("shared").clear_slot();
    assert!(grant(&one, 201, 3).is_err() && grant(&one, 200, 3).is_ok());
    assert_eq!(two.room(None, 0), Some((1000, 0)));
}

#[test]
fn a_page_that_cannot_be_used_leaves_each_its_own_limits() {
    let other_content = Job::new();
    std::fs::write(other_content.0.path().join("page"), "something else of the user's").expect("a file");
    let link = Job::new();
    std::os::unix::fs::symlink("/nowhere", link.0.path().join("page")).expect("a link");
    let open_to_all = Job::new();
    let file = std::fs::File::create(open_to_all.0.path().join("page")).expect("a file");
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666)).expect("a mode");
    let folder = Job::new();
    std::fs::create_dir(folder.0.path().join("page")).expect("a folder");
    for job in [&other_content, &link, &open_to_all, &folder] {
        let (one, two) = (job.process(), job.process());
        assert!(grant(&one, 1000, 1).is_ok() && grant(&two, 1000, 1).is_ok() && grant(&one, 1, 2).is_err());
        assert!((0..3).all(|_| passes(&one, S)) && !passes(&one, S) && passes(&two, S));
        for process in [&one, &two] {
            let notices = process.notices();
            assert!(notices.len() == 1 && notices[0].contains("CUDA_HOOK_SHARED=job 无法使用"), "{notices:?}");
            assert_eq!(process.in_force(LAB, S), (LAB, None));
        }
    }
    let content = std::fs::read_to_string(other_content.0.path().join("page")).expect("a file");
    assert_eq!(content, "something else of the user's");
}

#[test]
fn a_page_that_was_begun_or_left_by_another_version_is_made_anew() {
    let job = Job::new();
    std::fs::write(job.0.path().join("page"), []).expect("a file");
    std::fs::File::options()
        .write(true)
        .open(job.0.path().join("page"))
        .and_then(|file| file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600)))
        .expect("a mode");
    let one = job.process();
    assert!(grant(&one, 1000, 1).is_ok());
    drop(one);
    let mut bytes = std::fs::read(job.0.path().join("page")).expect("a page");
    bytes[8..16].fill(0xff);
    std::fs::write(job.0.path().join("page"), bytes).expect("a page");
    let two = job.process();
    assert!(grant(&two, 1000, 1).is_ok() && grant(&two, 1, 2).is_err());
    assert!(two.notices().is_empty());
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Alloc(u64),
    Reserve(u64),
    Fail,
    Free(u64),
    Launch(u64),
    Die,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1u64..400).prop_map(Step::Alloc),
        2 => (1u64..400).prop_map(Step::Reserve),
        1 => Just(Step::Fail),
        3 => (0u64..6).prop_map(Step::Free),
        3 => (0u64..S).prop_map(Step::Launch),
        1 => Just(Step::Die),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any interleaving, deaths at any point included: a call passes exactly when the sum over the living allows it.
    #[test]
    fn the_job_holds_to_its_limits_whoever_dies_when(steps in prop::collection::vec((0usize..4, step()), 1..120)) {
        let job = Job::new();
        let mut processes: Vec<Limiter> = (0..4).map(|_| job.process()).collect();
        // Of each process: its live blocks, and what it has reserved.
        let mut blocks: Vec<BTreeMap<u64, u64>> = vec![BTreeMap::new(); 4];
        let mut reserved = [0u64; 4];
        let anchor = job.process();
        let mut bucket = Bucket::new(5.0, 3.0, S);
        let (mut now, mut next) = (S, 1u64);
        prop_assert_eq!(anchor.launch_free(S).tokens, Some(3.0));
        for (who, step) in steps {
            let process = &processes[who];
            let all: u64 = blocks.iter().flat_map(BTreeMap::values).sum::<u64>() + reserved.iter().sum::<u64>();
            match step {
                Step::Alloc(size) => {
                    next += 1;
                    prop_assert_eq!(grant(process, size, next).is_ok(), all + size <= 1000);
                    if all + size <= 1000 {
                        blocks[who].insert(next, size);
                    }
                }
                Step::Reserve(size) => match process.alloc(size, None, 0) {
                    AllocDecision::Forward(reservation) => {
                        prop_assert!(all + size <= 1000);
                        std::mem::forget(reservation);
                        reserved[who] += size;
                    }
                    AllocDecision::Denied(_, refusal) => {
                        prop_assert!(all + size > 1000);
                        prop_assert_eq!(refusal.total + refusal.pending, all);
                    }
                },
                Step::Fail => {
                    process.alloc_rollback(Block { size: reserved[who], dev: None });
                    reserved[who] = 0;
                }
                Step::Free(which) => {
                    let ptr = blocks[who].keys().nth(which as usize).copied().unwrap_or(0);
                    prop_assert_eq!(process.free(ptr).commit(0).1, blocks[who].remove(&ptr));
                }
                Step::Launch(gap) => {
                    now += gap;
                    prop_assert_eq!(passes(process, now), bucket.take(now));
                    prop_assert_eq!(process.launch_free(now).tokens, Some(bucket.level(now)));
                }
                Step::Die => {
                    processes[who] = job.process();
                    blocks[who].clear();
                    reserved[who] = 0;
                }
            }
            prop_assert_eq!(processes[who].memory().1, blocks[who].values().sum::<u64>());
        }
        let all: u64 = blocks.iter().flat_map(BTreeMap::values).sum::<u64>() + reserved.iter().sum::<u64>();
        prop_assert_eq!(anchor.room(None, now), Some((1000, 1000 - all)));
    }
}
