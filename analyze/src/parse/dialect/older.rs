//! The course's older skeleton, and `[HOOK]` lines that students word themselves.
//!
//! ```text
//! [HOOK] 无显存配额限制 (记录模式)
//! [HOOK] cudaMalloc(size=67108864) -> ptr=0x7f2cc6000000, total=64.0 MB
//! [HOOK] cudaMalloc(size=2147483648) DENIED, total=64.0 MB, quota=128.0 MB
//! ```
//!
//! That skeleton prescribes the granted allocation and leaves the refusal to its reader: `size=` and a word of refusal
//! make one. Its quota line is the present one.

use std::sync::LazyLock;

use hook_event::course::LARGEST;
use hook_event::units::MB;
use hook_event::{Kind, Outcome};
use regex::Regex;

use super::{address, pattern};
use crate::events::{Names, Row};

/// A line that the present skeleton does not have.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::parse) enum Line {
    /// There is no quota.
    NoQuota,
    /// There is no rate.
    NoRate,
    /// What the hook could not do.
    Warning(String),
    /// An allocation or a free.
    Call(Heard),
}

/// A call as far as its line tells it.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::parse) struct Heard {
    api: Box<str>,
    kind: Kind,
    outcome: Outcome,
    size: Option<u64>,
    ptr: Option<u64>,
    total_mb: Option<f64>,
    quota_mb: Option<f64>,
}

impl Heard {
    /// As a row.
    pub(in crate::parse) fn row(&self, names: &mut Names, line: u64, wall_ns: Option<i64>) -> Row {
        Row {
            size: self.size,
            ptr: self.ptr,
            total_mb: self.total_mb,
            quota: self.quota_mb.map(|mb| (mb * MB as f64) as u64),
            wall_ns,
            ..Row::bare(0, line, names.id(&self.api), self.kind, self.outcome)
        }
    }
}

static NO_LIMIT: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^\[HOOK\] 无(?:(显存配额)|算力)限[制速] \(记录模式\)\s*$"));
static FATAL: LazyLock<Regex> = LazyLock::new(|| pattern(r"^\[HOOK\] (FATAL: .+?)\s*$"));
static GRANTED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?x)^\[HOOK\]\x20 (cu(?:da)?M(?:alloc|emAlloc)[A-Za-z0-9_]*) \(size=([0-9]+)\)
          \x20->\x20 ptr=(0[xX][0-9a-fA-F]+|\(nil\)), \x20 total=([0-9]+(?:[.,][0-9]+)?) \x20?MB \s*$",
    )
});
static REFUSED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?x)^\[HOOK\]\x20 (cu(?:da)?M(?:alloc|emAlloc)[A-Za-z0-9_]*) \(size=([0-9]+)\)
          [\x20:=>-]* (?i: DENIED | REJECTED | REFUSED | quota\x20exceeded | 被?拒绝 | 超[出过]?配额 ) (.*)$",
    )
});
static TOTAL: LazyLock<Regex> = LazyLock::new(|| pattern(r"total[=:] ?([0-9]+(?:[.,][0-9]+)?) ?MB"));
static QUOTA: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?:quota|limit)[=:] ?([0-9]+(?:[.,][0-9]+)?) ?MB|/ ?([0-9]+(?:[.,][0-9]+)?) ?MB"));
/// A free of no address, in the ways that C and C++ name it.
static FREE_NULL: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"^\[HOOK\] (cu(?:da)?(?:Mem)?Free[A-Za-z0-9_]*)\((?:NULL|nullptr|nil|0)\)(?:[^A-Za-z0-9].*)?$")
});

/// Reads a line that begins with `[HOOK]` and has none of the present forms.
pub(in crate::parse) fn read(line: &str) -> Option<Line> {
    if let Some(c) = GRANTED.captures(line) {
        return Some(Line::Call(Heard {
            api: c[1].into(),
            kind: Kind::Alloc,
            outcome: Outcome::Ok,
            size: Some(c[2].parse().ok()?),
            ptr: Some(address(&c[3])?),
            total_mb: Some(number(&c[4])?),
            quota_mb: None,
        }));
    }
    if let Some(c) = REFUSED.captures(line) {
        let found = |pattern: &Regex| {
            let found = pattern.captures(&c[3])?;
            found.iter().skip(1).flatten().next().and_then(|m| number(m.as_str()))
        };
        return Some(Line::Call(Heard {
            api: c[1].into(),
            kind: Kind::Alloc,
            outcome: Outcome::Denied,
            size: Some(c[2].parse().ok()?),
            ptr: None,
            total_mb: found(&TOTAL),
            quota_mb: found(&QUOTA),
        }));
    }
    if let Some(c) = FREE_NULL.captures(line) {
        return Some(Line::Call(Heard {
            api: c[1].into(),
            kind: Kind::Free,
            outcome: Outcome::Ok,
            size: None,
            ptr: Some(0),
            total_mb: None,
            quota_mb: None,
        }));
    }
    if let Some(c) = NO_LIMIT.captures(line) {
        return Some(if c.get(1).is_some() { Line::NoQuota } else { Line::NoRate });
    }
    FATAL.captures(line).map(|c| Line::Warning(c[1].to_owned()))
}

/// A decimal number; some locales have a comma in it.
fn number(text: &str) -> Option<f64> {
    text.replace(',', ".").parse().ok().filter(|value: &f64| value.abs() <= LARGEST)
}

#[cfg(test)]
mod tests {
    use hook_event::course;

    use super::*;

    fn call(line: &str) -> Heard {
        match read(line) {
            Some(Line::Call(heard)) => heard,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn what_the_older_skeleton_prints() {
        assert_eq!(read("[HOOK] 无显存配额限制 (记录模式)"), Some(Line::NoQuota));
        assert_eq!(read("[HOOK] 无算力限制 (记录模式)"), Some(Line::NoRate));
        let fatal = "FATAL: dlsym(cudaMalloc) failed: undefined symbol";
        assert_eq!(read(&format!("[HOOK] {fatal}")), Some(Line::Warning(fatal.to_owned())));
        for total in ["64.0 MB", "64 MB", "64.00MB", "64,0 MB"] {
            let heard = call(&format!("[HOOK] cudaMalloc(size=67108864) -> ptr=0x7f2cc6000000, total={total}"));
            assert_eq!((&*heard.api, heard.outcome, heard.size), ("cudaMalloc", Outcome::Ok, Some(64 << 20)));
            assert_eq!((heard.ptr, heard.total_mb, heard.quota_mb), (Some(0x7f2c_c600_0000), Some(64.0), None));
        }
    }

    #[test]
    fn a_refusal_is_worded_freely_and_says_what_it_says() {
        for (line, total, quota) in [
            ("[HOOK] cudaMalloc(size=2147483648) DENIED, total=64.0 MB, quota=128.0 MB", Some(64.0), Some(128.0)),
            ("[HOOK] cudaMalloc(size=2147483648) -> DENIED | total: 64.0 / 128.0 MB", None, Some(128.0)),
            ("[HOOK] cudaMalloc(size=2147483648) DENIED, total=64,0 MB, quota=128,5 MB", Some(64.0), Some(128.5)),
            ("[HOOK] cudaMalloc(size=2147483648) 超出配额, 拒绝分配", None, None),
            ("[HOOK] cudaMalloc(size=2147483648) -> rejected: quota exceeded", None, None),
        ] {
            let heard = call(line);
            assert_eq!((heard.outcome, heard.size, heard.ptr), (Outcome::Denied, Some(1 << 31), None), "{line}");
            assert_eq!((heard.total_mb, heard.quota_mb), (total, quota), "{line}");
        }
    }

    #[test]
    fn frees_of_every_wording_are_frees() {
        for line in [
            "[HOOK] cudaFree(0x7f00) freed 4194304 bytes",
            "[HOOK] cudaFree(0x7f00) -> 0",
            "[HOOK] cudaFree(ptr=0x7f00) -> 0, total=0.0 MB",
            "[HOOK] cudaFree(0x7f00, size=4194304)",
            "[HOOK] cudaFree: 0x7f00 (4194304 bytes)",
            "[HOOK] cudaFree(0x7f00): not in the table",
            "[HOOK] cudaFree(devPtr=0x7f00) | freed: 4.0 MB | total: 60.0 MB",
            "[HOOK] 释放 0x7f00, 4194304 字节",
            "[HOOK] cudaFree((nil)) -> 0",
        ] {
            let read = course::read(line);
            assert!(matches!(read, Some(course::Line::Free { .. })), "{line}: {read:?}");
        }
        for line in ["[HOOK] cudaFree(NULL)", "[HOOK] cudaFree(nullptr) -> 0", "[HOOK] cudaFree(0) -> 0"] {
            assert_eq!((call(line).kind, call(line).ptr), (Kind::Free, Some(0)), "{line}");
        }
    }

    #[test]
    fn a_torn_line_is_none() {
        for line in [
            "[HOOK] cudaMalloc(size=67108864) -> ptr=0x7f2cc6000000, total=64.0",
            "[HOOK] cudaMalloc(size=67108864) -> ptr=0x7f2cc6000000",
            "[HOOK] cudaMalloc(size=671",
            "[HOOK] cudaMalloc(2147483648) DENIED | total: 64.0 / 12",
            "[HOOK] cudaMalloc(size=99999999999999999999) DENIED",
            "[HOOK] 无显存配额限制 (记",
        ] {
            assert_eq!(read(line), None, "{line}");
        }
    }
}
