//! Every order in which threads can go through the accounts, tried by loom (`make check-model`). Small on purpose: two
//! threads and a handful of steps are already thousands of orders.

use loom::sync::atomic::Ordering::SeqCst;
use loom::sync::{Arc, Mutex};
use loom::thread;

use super::board::{Slot, totals};
use super::*;
use crate::sync::AtomicU64;

const NONE: Limits<'static> = Limits { quota: None, device_quotas: &[], bucket: None, policy: Policy::Deny };

/// What the real runtime has given out, which no quota may let grow beyond it.
struct Real {
    granted: AtomicU64,
    quota: u64,
}

impl Real {
    fn new(quota: u64) -> Arc<Real> {
        Arc::new(Real { granted: AtomicU64::new(0), quota })
    }

    fn give(&self, size: u64) {
        let before = self.granted.fetch_add(size, SeqCst);
        assert!(before + size <= self.quota, "{before} + {size} of {}", self.quota);
    }

    fn take_back(&self, size: u64) {
        self.granted.fetch_sub(size, SeqCst);
    }
}

/// Runs `body` on a second thread as well.
fn twice(body: impl Fn(u64) + Send + Sync + 'static) {
    let body = Arc::new(body);
    let other = body.clone();
    let thread = thread::spawn(move || other(1));
    body(2);
    thread.join().expect("no panic");
}

#[test]
fn model_the_quota_holds_in_any_order_and_the_totals_come_out() {
    loom::model(|| {
        let limiter = Arc::new(Limiter::new(Limits { quota: Some(100), device_quotas: &[(0, 100)], ..NONE }, 0));
        let (real, shared) = (Real::new(100), limiter.clone());
        twice(move |ptr| {
            if let AllocDecision::Forward(reservation) = shared.alloc(60, Some(0), 0) {
                real.give(60);
                assert!(reservation.commit(ptr, 0).total <= 100);
                let free = shared.free(ptr);
                real.take_back(60);
                assert_eq!(free.commit(0).1, Some(60));
            }
        });
        assert_eq!(limiter.memory().1, 0);
        assert_eq!(limiter.room(Some(0), 0), Some((100, 100)));
    });
}

#[test]
fn model_a_failed_or_dropped_call_leaves_nothing_behind() {
    loom::model(|| {
        let limiter = Arc::new(Limiter::new(Limits { quota: Some(100), ..NONE }, 0));
        let shared = limiter.clone();
        twice(move |which| {
            if let AllocDecision::Forward(mut reservation) = shared.alloc(50, None, 0)
                && reservation.resize(60).is_ok()
                && which == 1
            {
                reservation.fail(0);
            }
        });
        assert_eq!(limiter.room(None, 0), Some((100, 100)));
    });
}

/// The runtime may give an address out again before its free has been told of.
#[test]
fn model_an_address_that_is_used_again_at_once_is_counted_right() {
    loom::model(|| {
        let limiter = Arc::new(Limiter::new(NONE, 0));
        let AllocDecision::Forward(first) = limiter.alloc(40, None, 0) else { panic!("no quota") };
        first.commit(1, 0);
        let (freed, shared) = (Arc::new(AtomicU64::new(0)), limiter.clone());
        let back = freed.clone();
        let thread = thread::spawn(move || {
            let free = shared.free(1);
            back.store(1, SeqCst);
            let (settled, size) = free.commit(0);
            (settled.seq, settled.total, size)
        });
        let AllocDecision::Forward(second) = limiter.alloc(50, None, 0) else { panic!("no quota") };
        let ptr = if freed.load(SeqCst) == 1 { 1 } else { 2 };
        let settled = second.commit(ptr, 0);
        let (seq, total, size) = thread.join().expect("no panic");
        assert_eq!(size, Some(40));
        // In the order of the numbers each total is the sum of what is live then.
        assert_eq!((total, settled.total), if seq < settled.seq { (0, 50) } else { (50, 90) });
        assert!(ptr == 2 || seq < settled.seq, "the address was free before it was given out");
        assert_eq!(limiter.memory().1, 50);
    });
}

#[test]
fn model_a_bucket_gives_out_what_is_in_it() {
    loom::model(|| {
        let bucket = Some((1.0, 2.0));
        let limiter = Arc::new(Limiter::new(Limits { bucket, ..NONE }, 0));
        let passed = Arc::new(AtomicU64::new(0));
        let (shared, count) = (limiter.clone(), passed.clone());
        twice(move |_| {
            for _ in 0..2 {
                if matches!(shared.launch(0), LaunchDecision::Pass(_)) {
                    count.fetch_add(1, SeqCst);
                }
            }
        });
        assert_eq!(passed.load(SeqCst), 2);
        assert_eq!(limiter.launch_free(0).seq, 5);
    });
}

/// Two processes on one page: only reserving takes its lock.
#[test]
fn model_a_shared_quota_holds_though_giving_back_takes_no_lock() {
    loom::model(|| {
        let slots = Arc::new([Slot::empty(), Slot::empty()]);
        let (page, real, seen) = (Mutex::new(()), Real::new(100), slots.clone());
        twice(move |who| {
            let mine = &seen[who as usize - 1];
            let fits = {
                let _locked = page.lock().expect("no panic");
                mine.reserve(seen.as_slice(), 60, 100)
            };
            if fits {
                real.give(60);
                mine.commit(60);
                let (total, pending) = totals(seen.as_slice());
                assert!(total + pending <= 160, "never less than nothing: {total} {pending}");
                real.take_back(60);
                mine.free(60);
            }
        });
        assert_eq!(totals(slots.as_slice()), (0, 0));
    });
}
