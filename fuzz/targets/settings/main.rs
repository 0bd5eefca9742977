//! `NAME=value` lines, as an environment → the hook's settings: never a panic, every limit within its bounds, and a
//! value that is warned of sets none.
//!
//! The hook's own reader of settings, with as much of its policy as that needs; the rest of the hook is loaded into
//! programs and can't be linked.
#![no_main]
#![allow(dead_code)] // only the settings are looked at

#[path = "../../../hook/src/config.rs"]
#[rustfmt::skip] // or it looks for the tests beside it
mod config;

mod policy;

use config::{Config, Target};
use libfuzzer_sys::fuzz_target;
use policy::{Bucket, MAX_DEVICES};

fuzz_target!(|bytes: &[u8]| {
    let (moments, lines) = bytes.split_first_chunk::<16>().unwrap_or((&[0; 16], bytes));
    let settings: Vec<(&[u8], &[u8])> = lines
        .split(|&byte| byte == b'\n')
        .filter_map(|line| Some(line.split_at(line.iter().position(|&byte| byte == b'=')?)))
        .collect();
    let lookup =
        |name: &str| settings.iter().find(|(known, _)| *known == name.as_bytes()).map(|(_, value)| value[1..].to_vec());
    let names = settings.iter().map(|(name, _)| name.to_vec()).collect();
    let (config, warnings) = Config::read(lookup, names);
    let is_refused = |name: &str| {
        warnings.iter().any(|warning| warning.starts_with(&format!("{name}=")) && warning.contains("无法使用"))
    };

    for warning in &warnings {
        assert!(!warning.contains(char::is_control), "{warning:?}");
    }
    assert!(config.quota_bytes.is_none_or(|bytes| bytes > 0 && !is_refused("CUDA_MEM_QUOTA_MB")));
    for pair in config.device_quotas.windows(2) {
        assert!(pair[0].0 < pair[1].0, "each device once, in order: {pair:?}");
    }
    for &(device, bytes) in &config.device_quotas {
        assert!(device < MAX_DEVICES && bytes > 0 && !is_refused(&format!("CUDA_MEM_QUOTA_MB_{device}")));
    }
    assert!(config.deny_error.is_none_or(|code| (1..=999).contains(&code) && !is_refused("CUDA_CORE_DENY_ERROR")));
    assert!(config.shared.is_none_or(|name| !name.is_empty() && name.len() <= 64 && !name.contains(['/', '\0'])));
    assert!(config.run.is_none_or(|run| !run.is_empty() && run.bytes().all(|byte| byte.is_ascii_graphic())));
    for target in [&config.log, &config.events] {
        assert!(!matches!(target, Target::File(path) if path.is_empty()));
    }
    if let Some((rate, capacity)) = config.bucket {
        assert!((Bucket::MIN_RATE..=Bucket::MAX).contains(&rate) && capacity > 0.0 && capacity <= Bucket::MAX);
        assert!(!is_refused("CUDA_CORE_RATE") && !is_refused("CUDA_CORE_CAPACITY"));
        ask(rate, capacity, moments);
    }
});

/// Asks a bucket at two moments, in any order: it holds no more than it can, and gives what it holds.
fn ask(rate: f64, capacity: f64, moments: &[u8; 16]) {
    let (first, second) = moments.split_at(8);
    let moment = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    let mut bucket = Bucket::new(rate, capacity, moment(first));
    for now in [moment(first), moment(second), moment(first)] {
        let before = bucket.level(now);
        assert!((0.0..=capacity).contains(&before), "{before} of {capacity}");
        if !bucket.take(now) {
            // What lacks the last part of a token rounds to a whole one.
            assert!(before <= 1.0, "{before} and none given");
        }
        assert!(bucket.level(now) <= before);
        assert!(bucket.reserve(now).is_none_or(|due| due >= now));
    }
}
