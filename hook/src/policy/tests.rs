//! The accounts as a whole: exact totals under threads, address reuse, failures, and random sequences.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::*;

const S: u64 = 1_000_000_000;

mod devices;
mod sharing;

const NONE: Limits<'static> = Limits { quota: None, device_quotas: &[], bucket: None, policy: Policy::Deny };

fn unlimited() -> Limiter {
    Limiter::new(NONE, 0)
}

fn quota(bytes: u64) -> Limiter {
    Limiter::new(Limits { quota: Some(bytes), ..NONE }, 0)
}

fn bucket(rate: f64, capacity: f64, policy: Policy, now_ns: u64) -> Limiter {
    Limiter::new(Limits { bucket: Some((rate, capacity)), policy, ..NONE }, now_ns)
}

fn grant(limiter: &Limiter, size: u64, ptr: u64) -> Option<Settled> {
    match limiter.alloc(size, None, 0) {
        AllocDecision::Forward(reservation) => Some(reservation.commit(ptr, 0)),
        AllocDecision::Denied(..) => None,
    }
}

#[test]
fn exactly_the_quota_passes_and_one_byte_more_is_denied() {
    let limiter = quota(128);
    assert_eq!(grant(&limiter, 64, 1).map(|s| (s.seq, s.total)), Some((1, 64)));
    assert!(grant(&limiter, 65, 2).is_none());
    assert_eq!(grant(&limiter, 64, 2).map(|s| (s.seq, s.total)), Some((3, 128)));
    assert!(grant(&limiter, 1, 3).is_none());
}

#[test]
fn a_size_near_the_end_of_64_bits_is_denied_and_changes_nothing() {
    let limiter = quota(128 << 20);
    assert!(grant(&limiter, 64 << 20, 1).is_some());
    assert!(grant(&limiter, u64::MAX - (32 << 20), 2).is_none());
    assert_eq!(limiter.memory(), (64 << 20, 64 << 20));
    let limiter = unlimited();
    assert!(grant(&limiter, 64, 1).is_some());
    let AllocDecision::Forward(reservation) = limiter.alloc(u64::MAX, None, 0) else { panic!("no quota to break") };
    assert_eq!(reservation.fail(0).total, 64);
}

/// A request that no device can grant is under way; without a quota it is nobody's business.
#[test]
fn without_a_quota_nothing_is_denied_whatever_else_is_asked_for() {
    let limiter = unlimited();
    let AllocDecision::Forward(huge) = limiter.alloc(u64::MAX, None, 0) else { panic!("no quota to break") };
    let AllocDecision::Forward(mut small) = limiter.alloc(64, None, 0) else { panic!("no quota to break") };
    small.resize(128).expect("no quota to break");
    let settled = small.commit(1, 0);
    assert_eq!((settled.total, settled.pending), (128, u64::MAX));
    assert_eq!(huge.fail(0).pending, 0);
}

#[test]
fn what_is_under_way_counts_against_the_quota() {
    let limiter = quota(100);
    let AllocDecision::Forward(first) = limiter.alloc(60, None, 0) else { panic!("there is room") };
    let AllocDecision::Denied(settled, _) = limiter.alloc(60, None, 0) else { panic!("there is none") };
    assert_eq!((settled.total, settled.pending), (0, 60));
    drop(first);
    assert!(grant(&limiter, 60, 1).is_some());
}

#[test]
fn a_failed_allocation_gives_its_reservation_back() {
    let limiter = quota(100);
    let AllocDecision::Forward(reservation) = limiter.alloc(100, None, 0) else { panic!("there is room") };
    assert_eq!(reservation.fail(0).total, 0);
    assert!(grant(&limiter, 100, 1).is_some());
}

#[test]
fn a_failed_free_leaves_the_block_and_a_second_one_takes_it() {
    let limiter = quota(100);
    grant(&limiter, 100, 1).expect("there is room");
    assert_eq!(limiter.free(1).fail(0).total, 100);
    assert!(grant(&limiter, 1, 2).is_none());
    let (settled, size) = limiter.free(1).commit(0);
    assert_eq!((settled.total, size), (0, Some(100)));
}

#[test]
fn unknown_null_and_double_frees_change_no_count() {
    let limiter = quota(100);
    grant(&limiter, 40, 1).expect("there is room");
    assert_eq!(limiter.free(0).commit(0).1, None);
    assert_eq!(limiter.free(99).commit(0).1, None);
    let (first, second) = (limiter.free(1), limiter.free(1));
    assert_eq!(second.commit(0).1, None);
    assert_eq!(first.commit(0).1, Some(40));
    assert_eq!(limiter.free(1).commit(0).1, None);
    assert_eq!(limiter.memory(), (40, 0));
}

#[test]
fn a_free_that_is_dropped_unsettled_leaves_the_block() {
    let limiter = quota(100);
    grant(&limiter, 40, 1).expect("there is room");
    drop(limiter.free(1));
    assert_eq!(limiter.free(1).commit(0).1, Some(40));
}

#[test]
fn an_address_reused_before_its_free_has_told_is_settled_in_order() {
    let limiter = quota(100);
    grant(&limiter, 40, 1).expect("there is room");
    let free = limiter.free(1);
    // The real free is done; before its thread comes back, another gets the address.
    let reused = grant(&limiter, 50, 1).expect("there is room");
    let (freed, size) = free.commit(0);
    assert_eq!((freed.seq, freed.total, size), (2, 0, Some(40)));
    assert_eq!((reused.seq, reused.total), (3, 50));
    assert_eq!(limiter.free(1).commit(0).1, Some(50));
    assert_eq!(limiter.memory(), (50, 0));
}

#[test]
fn a_block_freed_behind_our_back_is_replaced() {
    let limiter = quota(100);
    grant(&limiter, 60, 1).expect("there is room");
    assert_eq!(grant(&limiter, 30, 1).map(|s| s.total), Some(30));
}

#[test]
fn an_allocation_of_nothing_holds_nothing() {
    let limiter = quota(100);
    assert_eq!(grant(&limiter, 0, 0).map(|s| s.total), Some(0));
    assert_eq!(limiter.lock().allocs.len(), 0);
}

#[test]
fn padding_is_charged_and_must_fit_too() {
    let limiter = quota(1000);
    let AllocDecision::Forward(mut reservation) = limiter.alloc(900, None, 0) else { panic!("there is room") };
    assert!(reservation.resize(1001).is_err());
    reservation.resize(1000).expect("there is room");
    assert_eq!(reservation.commit(1, 0).total, 1000);
    limiter.free(1).commit(0);
    let AllocDecision::Forward(mut reservation) = limiter.alloc(900, None, 0) else { panic!("there is room") };
    reservation.resize(100).expect("less than there was");
    assert!(grant(&limiter, 900, 2).is_some());
    assert_eq!(reservation.commit(1, 0).total, 1000);
}

#[test]
fn a_reset_gives_back_what_its_device_held() {
    let limiter = quota(100);
    for (ptr, dev) in [(1, 0), (2, 1)] {
        let AllocDecision::Forward(reservation) = limiter.alloc(50, Some(dev), 0) else { panic!("there is room") };
        reservation.commit(ptr, 0);
    }
    let (settled, gone) = limiter.reset(Some(0), |_| false, 0);
    assert_eq!((settled.total, gone), (50, 50));
    assert_eq!(limiter.free(1).commit(0).1, None);
    assert_eq!(limiter.room(None, 0), Some((100, 50)));
    assert_eq!(limiter.reset(None, |ptr| ptr == 2, 0).1, 0, "what outlives it stays");
    assert_eq!(limiter.reset(None, |_| false, 0).1, 50);
    assert_eq!(limiter.memory(), (100, 0));
}

#[test]
fn the_map_has_no_fixed_size() {
    let limiter = unlimited();
    for i in 1..=100_000u64 {
        grant(&limiter, i, i * 256).expect("no quota");
    }
    assert_eq!(limiter.memory().1, 100_000 * 100_001 / 2);
    for i in 1..=100_000u64 {
        assert_eq!(limiter.free(i * 256).commit(0).1, Some(i));
    }
    assert_eq!(limiter.memory().1, 0);
}

#[test]
fn without_a_rate_launches_pass_and_show_no_tokens() {
    let limiter = unlimited();
    assert!(matches!(limiter.launch(0), LaunchDecision::Pass(Launched { seq: 1, tokens: None, .. })));
}

#[test]
fn time_never_runs_backwards_along_the_sequence() {
    let limiter = bucket(5.0, 3.0, Policy::Deny, S);
    let at = |now| match limiter.launch(now) {
        LaunchDecision::Pass(l) | LaunchDecision::Denied(l) => (l.seq, l.at_ns, l.tokens),
        LaunchDecision::Wait(_) => unreachable!("the policy is to deny"),
    };
    assert_eq!(at(2 * S), (1, 2 * S, Some(2.0)));
    assert_eq!(at(S), (2, 2 * S, Some(1.0)));
    assert_eq!(at(2 * S), (3, 2 * S, Some(0.0)));
    assert_eq!(at(2 * S), (4, 2 * S, Some(0.0)));
}

#[test]
fn waiting_launches_get_their_turn_and_never_show_a_negative_level() {
    let limiter = bucket(5.0, 1.0, Policy::Wait, 0);
    assert!(matches!(limiter.launch(0), LaunchDecision::Pass(Launched { tokens: Some(0.0), .. })));
    assert_eq!(limiter.launch(0), LaunchDecision::Wait(S / 5));
    assert_eq!(limiter.launch(0), LaunchDecision::Wait(2 * S / 5));
    assert_eq!(limiter.launch_after_wait(S / 5).tokens, Some(0.0));
    // A bucket that never holds a token can't be waited for.
    let limiter = bucket(5.0, 0.5, Policy::Wait, 0);
    assert!(matches!(limiter.launch(0), LaunchDecision::Denied(_)));
}

/// Threads allocate and free over a shared pool of addresses that are handed out again at once, like a real allocator
/// does. The end total must be exact, the quota never exceeded, and replaying by `seq` must give each total.
#[test]
fn totals_are_exact_and_replayable_under_threads_that_reuse_addresses() {
    const QUOTA: u64 = 40_000;
    for _ in 0..20 {
        let limiter = quota(QUOTA);
        let pool: Mutex<Vec<u64>> = Mutex::new((1..=64).map(|i| i * 256).collect());
        let log = Mutex::new(Vec::new());
        let tick = AtomicU64::new(1);
        std::thread::scope(|scope| {
            for thread in 0..8u64 {
                let (limiter, pool, log, tick) = (&limiter, &pool, &log, &tick);
                scope.spawn(move || {
                    let mut state = thread.wrapping_mul(0x9e37_79b9).wrapping_add(1);
                    let mut random = move || {
                        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        state >> 33
                    };
                    let mut mine = Vec::new();
                    for _ in 0..2_000 {
                        let now = tick.fetch_add(1, Ordering::Relaxed);
                        if random() % 2 == 0 || mine.is_empty() {
                            let size = random() % 5_000;
                            match limiter.alloc(size, None, now) {
                                AllocDecision::Denied(s, _) => log.lock().unwrap().push((s, Event::Denied(size))),
                                AllocDecision::Forward(reservation) => {
                                    let ptr = pool.lock().unwrap().pop();
                                    match ptr {
                                        Some(ptr) => {
                                            let s = reservation.commit(ptr, now);
                                            log.lock().unwrap().push((s, Event::Alloc(ptr, size)));
                                            mine.push(ptr);
                                        }
                                        None => {
                                            let s = reservation.fail(now);
                                            log.lock().unwrap().push((s, Event::Failed));
                                        }
                                    }
                                }
                            }
                        } else {
                            let ptr = mine.swap_remove(random() as usize % mine.len());
                            let ticket = limiter.free(ptr);
                            pool.lock().unwrap().push(ptr);
                            std::thread::yield_now();
                            let (s, size) = ticket.commit(now);
                            log.lock().unwrap().push((s, Event::Free(ptr, size.expect("known"))));
                        }
                    }
                    for ptr in mine {
                        let (s, size) = limiter.free(ptr).commit(0);
                        log.lock().unwrap().push((s, Event::Free(ptr, size.expect("known"))));
                    }
                });
            }
        });
        assert_eq!(limiter.memory().1, 0);
        let mut log = log.into_inner().unwrap();
        log.sort_by_key(|(s, _)| s.seq);
        let (mut live, mut total, mut last_ns) = (HashSet::new(), 0u64, 0);
        for (i, (s, event)) in log.iter().enumerate() {
            assert_eq!(s.seq, i as u64 + 1, "no gap");
            assert!(s.at_ns >= last_ns);
            last_ns = s.at_ns;
            match *event {
                Event::Alloc(ptr, size) => {
                    assert!(live.insert(ptr), "{ptr} is live already");
                    total += size;
                }
                Event::Free(ptr, size) => {
                    assert!(live.remove(&ptr), "{ptr} is not live");
                    total -= size;
                }
                Event::Denied(size) => assert!(total + s.pending + size > QUOTA),
                Event::Failed => {}
            }
            assert_eq!(s.total, total);
            assert!(total <= QUOTA);
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Alloc(u64, u64),
    Denied(u64),
    Failed,
    Free(u64, u64),
}

proptest! {
    /// Any sequence of calls, against a plain map.
    #[test]
    fn agrees_with_a_plain_account(steps in prop::collection::vec((0u8..4, 1u64..20, 0u64..200), 1..300)) {
        let limiter = quota(1000);
        let mut model = std::collections::BTreeMap::new();
        for (kind, ptr, size) in steps {
            let held: u64 = model.values().sum();
            match kind {
                0 if !model.contains_key(&ptr) => match limiter.alloc(size, None, 0) {
                    AllocDecision::Forward(reservation) => {
                        prop_assert!(held + size <= 1000);
                        model.insert(ptr, size);
                        prop_assert_eq!(reservation.commit(ptr, 0).total, held + size);
                    }
                    AllocDecision::Denied(s, _) => {
                        prop_assert!(held + size > 1000);
                        prop_assert_eq!((s.total, s.pending), (held, 0));
                    }
                },
                1 => {
                    let (s, size) = limiter.free(ptr).commit(0);
                    prop_assert_eq!(size, model.remove(&ptr));
                    prop_assert_eq!(s.total, held - size.unwrap_or(0));
                }
                2 => prop_assert_eq!(limiter.free(ptr).fail(0).total, held),
                _ => if let AllocDecision::Forward(reservation) = limiter.alloc(size, None, 0) {
                    prop_assert_eq!(reservation.fail(0).total, held);
                },
            }
        }
        prop_assert_eq!(limiter.memory().1, model.values().sum::<u64>());
    }
}
