//! Quotas of single devices, beside the process's.

use hook_event::Scope;
use proptest::prelude::*;

use super::super::*;
use super::NONE;

fn devices(quota: Option<u64>, device_quotas: &[(u32, u64)]) -> Limiter {
    Limiter::new(Limits { quota, device_quotas, ..NONE }, 0)
}

fn grant_on(limiter: &Limiter, dev: i32, size: u64, ptr: u64) -> Result<Settled, Refusal> {
    match limiter.alloc(size, Some(dev), 0) {
        AllocDecision::Forward(reservation) => Ok(reservation.commit(ptr, 0)),
        AllocDecision::Denied(_, refusal) => Err(refusal),
    }
}

#[test]
fn a_devices_quota_and_the_processs_both_hold() {
    let limiter = devices(Some(150), &[(0, 100), (1, 100)]);
    assert_eq!(grant_on(&limiter, 0, 100, 1).map(|s| s.total), Ok(100));
    assert_eq!(grant_on(&limiter, 0, 1, 2), Err(Refusal { scope: Scope::Device, quota: 100, total: 100, pending: 0 }));
    assert_eq!(
        grant_on(&limiter, 1, 51, 2),
        Err(Refusal { scope: Scope::Process, quota: 150, total: 100, pending: 0 })
    );
    assert_eq!(grant_on(&limiter, 1, 50, 2).map(|s| s.total), Ok(150));
    assert_eq!(limiter.room(Some(1), 0), Some((100, 0)));
    limiter.free(1).commit(0);
    assert_eq!((limiter.room(Some(0), 0), limiter.room(Some(1), 0)), (Some((100, 100)), Some((100, 50))));
    assert_eq!((limiter.room(Some(7), 0), limiter.room(None, 0)), (Some((150, 100)), Some((150, 100))));
}

#[test]
fn a_device_that_is_not_known_counts_for_the_process_only() {
    let limiter = devices(None, &[(0, 10)]);
    for dev in [None, Some(-1), Some(1), Some(32), Some(i32::MAX)] {
        let AllocDecision::Forward(reservation) = limiter.alloc(1000, dev, 0) else { panic!("no quota there") };
        assert_eq!(reservation.commit(1, 0).total, 1000);
        assert_eq!(limiter.free(1).commit(0).1, Some(1000));
    }
    assert!(grant_on(&limiter, 0, 11, 1).is_err());
}

#[test]
fn padding_must_fit_the_devices_quota_too() {
    let limiter = devices(None, &[(0, 100)]);
    let AllocDecision::Forward(mut reservation) = limiter.alloc(90, Some(0), 0) else { panic!("there is room") };
    assert_eq!(reservation.resize(101).map_err(|refusal| (refusal.scope, refusal.pending)), Err((Scope::Device, 90)));
    drop(reservation);
    assert!(grant_on(&limiter, 0, 100, 1).is_ok());
}

proptest! {
    /// Blocks on several devices: each device's account is the sum of its blocks, and no quota is exceeded.
    #[test]
    fn every_devices_account_is_the_sum_of_its_blocks(
        steps in prop::collection::vec((0u8..6, 1u64..12, 0u64..200, 0i32..4), 1..200),
    ) {
        let limiter = devices(Some(1000), &[(0, 300), (1, 400)]);
        let limits = [Some(300), Some(400), None, None];
        let mut model = std::collections::BTreeMap::<u64, (u64, i32)>::new();
        for (kind, ptr, size, dev) in steps {
            let all: u64 = model.values().map(|block| block.0).sum();
            let on = |dev: i32| model.values().filter(|block| block.1 == dev).map(|block| block.0).sum::<u64>();
            match kind {
                0..3 if !model.contains_key(&ptr) => {
                    let fits = all + size <= 1000 && limits[dev as usize].is_none_or(|limit| on(dev) + size <= limit);
                    prop_assert_eq!(grant_on(&limiter, dev, size, ptr).is_ok(), fits);
                    if fits {
                        model.insert(ptr, (size, dev));
                    }
                }
                3 => {
                    let size = limiter.free(ptr).commit(0).1;
                    prop_assert_eq!(size, model.remove(&ptr).map(|block| block.0));
                }
                4 => drop(limiter.alloc(size, Some(dev), 0)),
                5 if size < 20 => {
                    prop_assert_eq!(limiter.reset(Some(dev), |_| false, 0).1, on(dev));
                    model.retain(|_, block| block.1 != dev);
                }
                _ => {}
            }
            for dev in 0..4 {
                let live: u64 = model.values().filter(|block| block.1 == dev).map(|block| block.0).sum();
                prop_assert_eq!(limiter.lock().memory.live_on(dev), live);
            }
            prop_assert_eq!(limiter.memory().1, model.values().map(|block| block.0).sum::<u64>());
        }
    }
}
