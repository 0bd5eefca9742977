//! What each setting makes of good values and bad ones.

use super::*;

fn read(settings: &[(&str, &str)]) -> (Config, Vec<String>) {
    let names = settings.iter().map(|(name, _)| name.as_bytes().to_vec()).collect();
    Config::read(|name| settings.iter().find(|(n, _)| *n == name).map(|(_, value)| value.as_bytes().to_vec()), names)
}

#[test]
fn nothing_set_limits_nothing_and_warns_of_nothing() {
    let (config, warnings) = read(&[]);
    assert_eq!((config.quota_bytes, config.bucket, config.policy), (None, None, Policy::Deny));
    assert_eq!((config.log, config.deny_error, config.driver), (Target::Stderr, None, true));
    assert_eq!(config.events, Target::File(b"hook.jsonl".to_vec()));
    assert!(warnings.is_empty());
}

#[test]
fn the_labs_settings_are_read() {
    let (config, warnings) =
        read(&[("CUDA_MEM_QUOTA_MB", "128"), ("CUDA_CORE_RATE", "5"), ("CUDA_CORE_CAPACITY", "3")]);
    assert_eq!((config.quota_bytes, config.bucket), (Some(134_217_728), Some((5.0, 3.0))));
    assert!(warnings.is_empty());
    let (config, _) = read(&[("CUDA_MEM_QUOTA_MB", " 0.5 ")]);
    assert_eq!(config.quota_bytes, Some(524_288));
}

#[test]
fn zero_and_empty_mean_no_limit_without_a_warning() {
    for zero in ["0", "0.0", "", "  "] {
        let (config, warnings) = read(&[("CUDA_MEM_QUOTA_MB", zero)]);
        assert_eq!((config.quota_bytes, warnings.len()), (None, 0), "{zero:?}");
    }
    let (config, warnings) = read(&[("CUDA_CORE_RATE", "0"), ("CUDA_CORE_CAPACITY", "3")]);
    assert_eq!((config.bucket, warnings.len()), (None, 0));
}

#[test]
fn values_that_cannot_be_used_leave_the_limit_off_and_are_named() {
    for bad in ["4Gi", "-1", "1e9999", "nan", "inf", "128abc", "08G", "50%", "1e300", "+5", "0x10", "1e-9", "五"] {
        let (config, warnings) = read(&[("CUDA_MEM_QUOTA_MB", bad)]);
        assert_eq!(config.quota_bytes, None, "{bad}");
        assert_eq!(warnings.len(), 1, "{bad}");
        assert!(warnings[0].contains("CUDA_MEM_QUOTA_MB=") && !warnings[0].contains('\n'), "{warnings:?}");
    }
    for (rate, capacity, named) in [
        ("abc", "3", "CUDA_CORE_RATE=abc"),
        ("5", "-3", "CUDA_CORE_CAPACITY=-3"),
        ("5", "0", "CUDA_CORE_CAPACITY=0"),
        ("1e-300", "3", "CUDA_CORE_RATE=1e-300"),
        ("5", "", "CUDA_CORE_CAPACITY"),
        ("", "3", "CUDA_CORE_RATE"),
    ] {
        let (config, warnings) = read(&[("CUDA_CORE_RATE", rate), ("CUDA_CORE_CAPACITY", capacity)]);
        assert_eq!(config.bucket, None, "{rate} {capacity}");
        assert!(warnings.len() == 1 && warnings[0].contains(named), "{warnings:?}");
    }
    let (config, warnings) = read(&[("CUDA_CORE_DENY_ERROR", "1000"), ("CUDA_CORE_POLICY", "maybe")]);
    assert_eq!((config.deny_error, config.policy, warnings.len()), (None, Policy::Deny, 2));
    let (config, warnings) = read(&[("CUDA_CORE_DENY_ERROR", "719"), ("CUDA_HOOK_LEVEL", "runtime")]);
    assert_eq!((config.deny_error, config.driver, warnings.len()), (Some(719), false, 0));
    let (config, warnings) = read(&[("CUDA_HOOK_LEVEL", "driver")]);
    assert_eq!((config.driver, warnings.len()), (true, 1));
}

#[test]
fn a_capacity_below_one_is_kept_with_a_warning() {
    let (config, warnings) = read(&[("CUDA_CORE_RATE", "5"), ("CUDA_CORE_CAPACITY", "0.5")]);
    assert_eq!(config.bucket, Some((5.0, 0.5)));
    assert_eq!(warnings.len(), 1);
}

#[test]
fn device_quotas_are_read_by_number() {
    let (config, warnings) = read(&[
        ("CUDA_MEM_QUOTA_MB_10", "0.5"),
        ("CUDA_MEM_QUOTA_MB_0", "128"),
        ("CUDA_MEM_QUOTA_MB_1", "0"),
        ("CUDA_MEM_QUOTA_MB_2", ""),
        ("CUDA_MEM_QUOTA_MB", "256"),
    ]);
    assert_eq!(config.device_quotas, [(0, 134_217_728), (10, 524_288)]);
    assert_eq!((config.quota_bytes, warnings.len()), (Some(268_435_456), 0));
}

#[test]
fn a_device_quota_that_is_no_devices_is_named_once() {
    for name in ["x", "-1", "01", "", "32", "4294967296", "1 ", "+1", "１"] {
        let name = format!("CUDA_MEM_QUOTA_MB_{name}");
        let (config, warnings) = read(&[(&name, "128"), (&name, "128")]);
        assert_eq!((config.device_quotas.len(), warnings.len()), (0, 1), "{name}: {warnings:?}");
        assert!(warnings[0].starts_with("CUDA_MEM_QUOTA_MB_") && warnings[0].contains("CUDA_VISIBLE_DEVICES"));
    }
    let (config, warnings) = read(&[("CUDA_MEM_QUOTA_MB_1", "4Gi"), ("CUDA_MEM_QUOTA_MB_0", "1")]);
    assert_eq!(config.device_quotas, [(0, 1_048_576)]);
    assert!(warnings.len() == 1 && warnings[0].contains("CUDA_MEM_QUOTA_MB_1=4Gi "), "{warnings:?}");
}

#[test]
fn the_bypass_is_prefill_or_none() {
    assert!(!read(&[]).0.bypass);
    assert!(read(&[("CUDA_CORE_BYPASS", " prefill ")]).0.bypass);
    let (config, warnings) = read(&[("CUDA_CORE_BYPASS", "decode")]);
    assert!(!config.bypass && warnings.len() == 1 && warnings[0].contains("CUDA_CORE_BYPASS=decode "));
}

#[test]
fn a_shared_name_is_one_for_a_file() {
    let long = "x".repeat(64);
    for good in ["train.1", "a", "A_b-c", &long] {
        let (config, warnings) = read(&[("CUDA_HOOK_SHARED", good)]);
        assert_eq!((config.shared.as_deref(), warnings.len()), (Some(good), 0));
    }
    assert_eq!(read(&[("CUDA_HOOK_SHARED", "")]), read(&[]));
    for bad in ["a/b", "../x", "a b", "名", &"x".repeat(65)] {
        let (config, warnings) = read(&[("CUDA_HOOK_SHARED", bad)]);
        assert!(config.shared.is_none() && warnings.len() == 1, "{bad}: {warnings:?}");
    }
}

#[test]
fn synchronous_writing_is_asked_for_with_a_one_and_nothing_else() {
    for (value, sync, warnings) in
        [("1", true, 0), ("0", false, 0), ("", false, 0), ("yes", false, 1), ("01", false, 1)]
    {
        let (config, warned) = read(&[("CUDA_HOOK_SYNC", value)]);
        assert_eq!((config.sync, warned.len()), (sync, warnings), "{value}");
    }
}

#[test]
fn targets_and_a_strange_run_id() {
    let (config, _) = read(&[("CUDA_HOOK_LOG", "/tmp/a.log"), ("CUDA_HOOK_EVENTS", "off"), ("CUDA_HOOK_RUN", "a\nb")]);
    assert_eq!((config.log, config.events), (Target::File(b"/tmp/a.log".to_vec()), Target::Off));
    assert_eq!(config.run, None);
}
