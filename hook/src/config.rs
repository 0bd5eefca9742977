//! The settings: environment in, [`Config`] and warnings out. Pure; the lookup is passed in.
//!
//! A value that can't be used never half-applies: its limit stays off and one warning names the variable, the value
//! and what happens instead.

use hook_event::{Policy, units::MB};

use crate::policy::{Bucket, MAX_DEVICES, Settings};

/// What the environment asks for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Config {
    /// Device memory of the process, bytes.
    pub(crate) quota_bytes: Option<u64>,
    /// Device memory on single devices (the process's own numbers), bytes.
    pub(crate) device_quotas: Vec<(u32, u64)>,
    /// Rate (tokens/s) and capacity (tokens).
    pub(crate) bucket: Option<(f64, f64)>,
    /// What a launch without a token does.
    pub(crate) policy: Policy,
    /// Whether small launches pass without a token.
    pub(crate) bypass: bool,
    /// The `cudaError_t` of a denied launch, where one is asked for. Else [`COURSE_DENY_ERROR`] from the runtime, and the
    /// driver's own launch error from the driver.
    pub(crate) deny_error: Option<i32>,
    /// Whether the driver's functions are hooked too.
    pub(crate) driver: bool,
    /// The name under which processes share quota and bucket.
    pub(crate) shared: Option<String>,
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
pub(crate) const COURSE_DENY_ERROR: i32 = 4;

/// Highest error code accepted: `cudaErrorUnknown`, the last of the enumeration before the API-failure base.
const MAX_ERROR: i32 = 999;

/// The variable that carries the job's id to its child processes.
pub(crate) const RUN_VARIABLE: &str = "CUDA_HOOK_RUN";

impl Config {
    /// Reads every setting through `lookup` (name without NUL → raw value); `names` are those of all variables.
    pub(crate) fn read(lookup: impl Fn(&str) -> Option<Vec<u8>>, names: Vec<Vec<u8>>) -> (Config, Vec<String>) {
        let mut warnings = Vec::new();
        let mut reader = Reader { lookup, warnings: &mut warnings };
        let config = Config {
            quota_bytes: reader.quota("CUDA_MEM_QUOTA_MB", "显存配额不启用"),
            device_quotas: reader.device_quotas(names),
            bucket: reader.bucket(),
            policy: reader.policy(),
            bypass: reader.bypass(),
            deny_error: reader.deny_error(),
            driver: reader.driver(),
            shared: reader.shared(),
            log: reader.target("CUDA_HOOK_LOG", Target::Stderr),
            events: reader.target("CUDA_HOOK_EVENTS", Target::File(b"hook.jsonl".to_vec())),
            events_max_bytes: reader.events_max(),
            run: reader.run(),
            sync: reader.sync(),
        };
        (config, warnings)
    }
}

impl Config {
    /// Those limits that processes can share.
    pub(crate) fn settings(&self) -> Settings {
        Settings { quota: self.quota_bytes, bucket: self.bucket }
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

    fn quota(&mut self, name: &str, instead: &str) -> Option<u64> {
        let value = self.value(name)?;
        let bytes = decimal(&value).map(|mb| (mb * MB as f64).floor()).filter(|&bytes| bytes < u64::MAX as f64);
        match bytes {
            Some(bytes) if decimal(&value) == Some(0.0) || bytes >= 1.0 => (bytes >= 1.0).then_some(bytes as u64),
            _ => {
                self.warn(name, &value, "应为以 MB 为单位的非负数, 如 128 或 0.5", instead);
                None
            }
        }
    }

    /// `CUDA_MEM_QUOTA_MB_<n>`: a misspelt number would look like a limit, so every name with the prefix is looked at.
    fn device_quotas(&mut self, mut names: Vec<Vec<u8>>) -> Vec<(u32, u64)> {
        const PREFIX: &[u8] = b"CUDA_MEM_QUOTA_MB_";
        let mut quotas = Vec::new();
        names.retain(|name| name.starts_with(PREFIX));
        names.sort();
        names.dedup();
        for name in names {
            let shown: String = name.escape_ascii().map(char::from).take(60).collect();
            match name.strip_prefix(PREFIX).and_then(device_number) {
                Some(device) => {
                    let quota = self.quota(&shown, "该设备的显存配额不启用");
                    quotas.extend(quota.map(|bytes| (device, bytes)));
                }
                None => self.warnings.push(format!(
                    "{shown} 无法使用: 后缀应为进程自己的设备号 (CUDA_VISIBLE_DEVICES 之后的编号), 0 到 {}; 忽略此项",
                    MAX_DEVICES.saturating_sub(1)
                )),
            }
        }
        quotas.sort_unstable();
        quotas
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

    fn bypass(&mut self) -> bool {
        const NAME: &str = "CUDA_CORE_BYPASS";
        let Some(value) = self.value(NAME) else { return false };
        let known = value == b"prefill";
        if !known {
            self.warn(NAME, &value, "应为 prefill", "每次启动都消耗令牌");
        }
        known
    }

    /// The name becomes part of a file's name.
    fn shared(&mut self) -> Option<String> {
        const NAME: &str = "CUDA_HOOK_SHARED";
        let value = self.value(NAME)?;
        let sound = value.iter().all(|&b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
        if !sound || value.len() > 64 {
            self.warn(NAME, &value, "应为 1 到 64 个字母、数字或 . _ -", "每个进程各用各的配额和令牌桶");
            return None;
        }
        String::from_utf8(value).ok()
    }

    fn deny_error(&mut self) -> Option<i32> {
        const NAME: &str = "CUDA_CORE_DENY_ERROR";
        let value = self.value(NAME)?;
        let code = std::str::from_utf8(&value).ok().and_then(|text| text.parse().ok());
        if code.is_none_or(|code| !(1..=MAX_ERROR).contains(&code)) {
            self.warn(
                NAME,
                &value,
                "应为 cudaError_t 的错误码, 1 到 999",
                "按默认值处理 (runtime API 4, driver API 719)",
            );
            return None;
        }
        code
    }

    fn driver(&mut self) -> bool {
        const NAME: &str = "CUDA_HOOK_LEVEL";
        match self.value(NAME) {
            None => true,
            Some(value) if value == b"all" => true,
            Some(value) if value == b"runtime" => false,
            Some(value) => {
                self.warn(NAME, &value, "应为 runtime 或 all", "按 all 处理");
                true
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

/// A device number as a decimal that has one spelling only.
fn device_number(digits: &[u8]) -> Option<u32> {
    let spelt_once = digits == b"0" || digits.first().is_some_and(|&b| matches!(b, b'1'..=b'9'));
    let plain = spelt_once && digits.iter().all(u8::is_ascii_digit);
    let number = std::str::from_utf8(digits).ok().filter(|_| plain)?.parse().ok()?;
    (number < MAX_DEVICES).then_some(number)
}

#[cfg(test)]
mod tests;
