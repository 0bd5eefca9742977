//! The settings: environment in, [`Config`] and warnings out. Pure; the lookup is passed in.
//!
//! A value that can't be used never half-applies: its limit stays off and one warning names the variable, the value
//! and what happens instead.

use hook_event::{Policy, units::MB};

use crate::policy::Bucket;

/// What the environment asks for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Config {
    /// Device memory of the process, bytes.
    pub(crate) quota_bytes: Option<u64>,
    /// Rate (tokens/s) and capacity (tokens).
    pub(crate) bucket: Option<(f64, f64)>,
    /// What a launch without a token does.
    pub(crate) policy: Policy,
    /// The `cudaError_t` of a denied launch.
    pub(crate) deny_error: i32,
    /// Course lines.
    pub(crate) log: Target,
    /// JSONL events.
    pub(crate) events: Target,
    /// Size at which the event file gets no more records, bytes.
    pub(crate) events_max_bytes: u64,
    /// Id of the job, inherited by its processes.
    pub(crate) run: Option<String>,
    /// Every record is written before its call returns, however many there are.
    pub(crate) sync: bool,
}

/// Where records go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Nowhere.
    Off,
    /// File descriptor 2.
    Stderr,
    /// A file, appended to.
    File(Vec<u8>),
}

/// The course's error code for a denied launch. Its name was `cudaErrorLaunchFailure` until CUDA 10; since 10.1 that is
/// 719, and 4 is `cudaErrorCudartUnloading`.
const COURSE_DENY_ERROR: i32 = 4;

/// Highest error code accepted: `cudaErrorUnknown`, the last of the enumeration before the API-failure base.
const MAX_ERROR: i32 = 999;

/// The variable that carries the job's id to its child processes.
pub(crate) const RUN_VARIABLE: &str = "CUDA_HOOK_RUN";

impl Config {
    /// Reads every setting through `lookup` (name without NUL → raw value).
    pub(crate) fn read(lookup: impl Fn(&str) -> Option<Vec<u8>>) -> (Config, Vec<String>) {
        let mut warnings = Vec::new();
        let mut reader = Reader { lookup, warnings: &mut warnings };
        let config = Config {
            quota_bytes: reader.quota(),
            bucket: reader.bucket(),
            policy: reader.policy(),
            deny_error: reader.deny_error(),
            log: reader.target("CUDA_HOOK_LOG", Target::Stderr),
            events: reader.target("CUDA_HOOK_EVENTS", Target::File(b"hook.jsonl".to_vec())),
            events_max_bytes: reader.events_max(),
            run: reader.run(),
            sync: reader.sync(),
        };
        reader.unsupported();
        (config, warnings)
    }
}

struct Reader<'a, L> {
    lookup: L,
    warnings: &'a mut Vec<String>,
}

impl<L: Fn(&str) -> Option<Vec<u8>>> Reader<'_, L> {
    /// The value, blanks around it removed; unset and empty are the same.
    fn value(&self, name: &str) -> Option<Vec<u8>> {
        let raw = (self.lookup)(name)?;
        let value = raw.trim_ascii();
        (!value.is_empty()).then(|| value.to_vec())
    }

    fn warn(&mut self, name: &str, value: &[u8], why: &str, instead: &str) {
        let shown: String = value.escape_ascii().map(char::from).take(60).collect();
        self.warnings.push(format!("{name}={shown} 无法使用: {why}; {instead}"));
    }

    fn quota(&mut self) -> Option<u64> {
        const NAME: &str = "CUDA_MEM_QUOTA_MB";
        let value = self.value(NAME)?;
        let bytes = decimal(&value).map(|mb| (mb * MB as f64).floor()).filter(|&bytes| bytes < u64::MAX as f64);
        match bytes {
            Some(bytes) if decimal(&value) == Some(0.0) || bytes >= 1.0 => (bytes >= 1.0).then_some(bytes as u64),
            _ => {
                self.warn(NAME, &value, "应为以 MB 为单位的非负数, 如 128 或 0.5", "显存配额不启用");
                None
            }
        }
    }

    fn bucket(&mut self) -> Option<(f64, f64)> {
        const RATE: &str = "CUDA_CORE_RATE";
        const CAPACITY: &str = "CUDA_CORE_CAPACITY";
        let (rate_text, capacity_text) = (self.value(RATE), self.value(CAPACITY));
        let (rate_text, capacity_text) = match (rate_text, capacity_text) {
            (Some(rate), Some(capacity)) => (rate, capacity),
            (None, None) => return None,
            (Some(rate), None) => {
                self.warn(RATE, &rate, "缺少 CUDA_CORE_CAPACITY, 两者须同时设置", "算力限速不启用");
                return None;
            }
            (None, Some(capacity)) => {
                self.warn(CAPACITY, &capacity, "缺少 CUDA_CORE_RATE, 两者须同时设置", "算力限速不启用");
                return None;
            }
        };
        let rate = decimal(&rate_text).filter(|&r| r == 0.0 || (Bucket::MIN_RATE..=Bucket::MAX).contains(&r));
        let capacity = decimal(&capacity_text).filter(|&c| c <= Bucket::MAX);
        match (rate, capacity) {
            (Some(rate), Some(capacity)) if rate > 0.0 && capacity > 0.0 => {
                if capacity < 1.0 {
                    let shown: String = capacity_text.escape_ascii().map(char::from).collect();
                    self.warnings
                        .push(format!("{CAPACITY}={shown} 小于 1: 桶里永远凑不满一个令牌, 所有 kernel 启动都会被拒绝"));
                }
                Some((rate, capacity))
            }
            // Zero is how the lab's scripts say "no limit", as for the quota.
            (Some(0.0), Some(_)) => None,
            (None, _) => {
                self.warn(RATE, &rate_text, "应为每秒令牌数, 1e-9 到 1e12 之间的数 (0 表示不限)", "算力限速不启用");
                None
            }
            _ => {
                self.warn(CAPACITY, &capacity_text, "应为大于 0 且不超过 1e12 的数", "算力限速不启用");
                None
            }
        }
    }

    fn policy(&mut self) -> Policy {
        const NAME: &str = "CUDA_CORE_POLICY";
        match self.value(NAME) {
            None => Policy::Deny,
            Some(value) if value == b"deny" => Policy::Deny,
            Some(value) if value == b"wait" => Policy::Wait,
            Some(value) => {
                self.warn(NAME, &value, "应为 deny 或 wait", "按 deny 处理");
                Policy::Deny
            }
        }
    }

    fn deny_error(&mut self) -> i32 {
        const NAME: &str = "CUDA_CORE_DENY_ERROR";
        let Some(value) = self.value(NAME) else { return COURSE_DENY_ERROR };
        let code = std::str::from_utf8(&value).ok().and_then(|text| text.parse().ok());
        match code {
            Some(code) if (1..=MAX_ERROR).contains(&code) => code,
            _ => {
                self.warn(NAME, &value, "应为 cudaError_t 的错误码, 1 到 999", "按 4 处理");
                COURSE_DENY_ERROR
            }
        }
    }

    fn target(&self, name: &str, default: Target) -> Target {
        match self.value(name) {
            None => default,
            Some(value) if value == b"off" => Target::Off,
            Some(value) if value == b"stderr" => Target::Stderr,
            Some(path) => Target::File(path),
        }
    }

    fn events_max(&mut self) -> u64 {
        const NAME: &str = "CUDA_HOOK_EVENTS_MAX_MB";
        const DEFAULT: u64 = 1024 * MB;
        let Some(value) = self.value(NAME) else { return DEFAULT };
        match decimal(&value).map(|mb| mb * MB as f64).filter(|&bytes| bytes < u64::MAX as f64) {
            Some(bytes) => bytes as u64,
            None => {
                self.warn(NAME, &value, "应为以 MB 为单位的非负数", "按 1024 MB 处理");
                DEFAULT
            }
        }
    }

    fn run(&self) -> Option<String> {
        let value = String::from_utf8(self.value(RUN_VARIABLE)?).ok()?;
        (value.len() <= 64 && value.bytes().all(|b| b.is_ascii_graphic())).then_some(value)
    }

    fn sync(&mut self) -> bool {
        const NAME: &str = "CUDA_HOOK_SYNC";
        match self.value(NAME) {
            None => false,
            Some(value) if value == b"0" => false,
            Some(value) if value == b"1" => true,
            Some(value) => {
                self.warn(NAME, &value, "应为 0 或 1", "按 0 处理");
                false
            }
        }
    }

    /// Settings of the contract that this version does not carry out yet: silence would look like a limit.
    fn unsupported(&mut self) {
        for (name, instead) in
            [("CUDA_CORE_BYPASS", "每次启动都消耗令牌"), ("CUDA_HOOK_SHARED", "每个进程各用各的配额和令牌桶")]
        {
            if let Some(value) = self.value(name) {
                self.warn(name, &value, "本版本尚不支持", instead);
            }
        }
        let per_device: Vec<String> = (0..16).map(|n| format!("CUDA_MEM_QUOTA_MB_{n}")).collect();
        for name in per_device {
            if let Some(value) = self.value(&name) {
                self.warn(&name, &value, "本版本尚不支持按设备设置配额", "只有 CUDA_MEM_QUOTA_MB 起作用");
            }
        }
    }
}

/// A plain decimal number, not negative and finite: digits with at most one point, or with an exponent.
///
/// Stricter than `f64::from_str`: no sign, no `inf`, no `nan`.
fn decimal(value: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(value).ok()?;
    let plain = text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'-' | b'+'));
    if !plain || !text.bytes().next().is_some_and(|b| b.is_ascii_digit() || b == b'.') {
        return None;
    }
    text.parse::<f64>().ok().filter(|number| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(settings: &[(&str, &str)]) -> (Config, Vec<String>) {
        Config::read(|name| settings.iter().find(|(n, _)| *n == name).map(|(_, value)| value.as_bytes().to_vec()))
    }

    #[test]
    fn nothing_set_limits_nothing_and_warns_of_nothing() {
        let (config, warnings) = read(&[]);
        assert_eq!((config.quota_bytes, config.bucket, config.policy), (None, None, Policy::Deny));
        assert_eq!((config.log, config.deny_error), (Target::Stderr, 4));
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
        assert_eq!((config.deny_error, config.policy, warnings.len()), (4, Policy::Deny, 2));
    }

    #[test]
    fn a_capacity_below_one_is_kept_with_a_warning() {
        let (config, warnings) = read(&[("CUDA_CORE_RATE", "5"), ("CUDA_CORE_CAPACITY", "0.5")]);
        assert_eq!(config.bucket, Some((5.0, 0.5)));
        assert_eq!(warnings.len(), 1);
    }

    #[test]
    fn a_setting_of_a_later_version_is_not_ignored_in_silence() {
        let (_, warnings) = read(&[("CUDA_HOOK_SHARED", "job"), ("CUDA_MEM_QUOTA_MB_1", "64")]);
        assert_eq!(warnings.len(), 2);
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
        let (config, _) =
            read(&[("CUDA_HOOK_LOG", "/tmp/a.log"), ("CUDA_HOOK_EVENTS", "off"), ("CUDA_HOOK_RUN", "a\nb")]);
        assert_eq!((config.log, config.events), (Target::File(b"/tmp/a.log".to_vec()), Target::Off));
        assert_eq!(config.run, None);
    }
}
