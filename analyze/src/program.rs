//! What the lab's test program tells on its stdout, where a log holds that as well (`make test-gpu > hook.log 2>&1`).
//!
//! ```text
//!   [OK] cudaMalloc(2048MB) 正确返回 cudaErrorMemoryAllocation
//!   [Phase 1] 通过=3, 拒绝=7
//!   [Phase 2] 等待后通过=3
//!   [OK] Decode-like:  grid=(16,1,1) block=(32,1,1)
//! p3 = (nil)  ✓ 配额生效!
//! ```

use std::sync::LazyLock;

use regex::Regex;

/// A line of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// The burst of test 2: launches that were let through, and that were refused.
    Burst {
        /// Let through.
        passed: u64,
        /// Refused.
        refused: u64,
    },
    /// The launches after the pause that were let through.
    Recovery {
        /// Let through.
        passed: u64,
    },
    /// What the request over the quota returned, a `cudaError_t`; `None` where the line names no code.
    OverQuota {
        /// The code.
        returned: Option<i32>,
    },
    /// The same of `malloc`, in the course's demonstration without a GPU: a null pointer or not.
    Pointer {
        /// Whether it was null.
        null: bool,
    },
    /// A launch of test 3.
    Shape {
        /// Blocks.
        grid: [u32; 3],
        /// Threads of a block.
        block: [u32; 3],
    },
}

#[allow(clippy::unwrap_used)] // constants, compiled by every test
fn pattern(text: &str) -> Regex {
    Regex::new(text).unwrap()
}

static BURST: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"^\s*\[Phase 1\].*?通过\s*[=:：]\s*([0-9]{1,18})\s*[,，]?\s*拒绝\s*[=:：]\s*([0-9]{1,18})")
});
static RECOVERY: LazyLock<Regex> = LazyLock::new(|| pattern(r"^\s*\[Phase 2\].*?通过\s*[=:：]\s*([0-9]{1,18})"));
static OVER_QUOTA: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"^\s*\[(?:(OK)|FAIL)\] cudaMalloc\((?:2048MB\)|[0-9]+MB\): 期望 2 )(?:.*?实际 (-?[0-9]{1,9}))?")
});
static POINTER: LazyLock<Regex> = LazyLock::new(|| pattern(r"^p[0-9]+ = (?:(\(nil\)|0x0+\b|NULL)|0x[0-9a-fA-F]+)"));
static SHAPE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?x)^\s*\[OK\] .*? grid=\(([0-9]{1,9}),([0-9]{1,9}),([0-9]{1,9})\)
          \s+ block=\(([0-9]{1,9}),([0-9]{1,9}),([0-9]{1,9})\)",
    )
});

impl Told {
    /// Reads a line; `None` for one that tells nothing of this.
    pub fn read(line: &str) -> Option<Told> {
        let number = |text: &str| text.parse().ok();
        let begin = line.trim_start();
        if begin.starts_with("[Phase ") {
            if let Some(c) = BURST.captures(line) {
                return Some(Told::Burst { passed: number(&c[1])?, refused: number(&c[2])? });
            }
            return Some(Told::Recovery { passed: number(&RECOVERY.captures(line)?[1])? });
        }
        if begin.starts_with("[OK]") || begin.starts_with("[FAIL]") {
            if let Some(c) = OVER_QUOTA.captures(line) {
                let code = c.get(2).and_then(|code| code.as_str().parse().ok());
                return Some(Told::OverQuota { returned: c.get(1).map_or(code, |_| Some(2)) });
            }
            let c = SHAPE.captures(line)?;
            let three =
                |from: usize| Some([c[from].parse().ok()?, c[from + 1].parse().ok()?, c[from + 2].parse().ok()?]);
            return Some(Told::Shape { grid: three(1)?, block: three(4)? });
        }
        let c = begin.starts_with('p').then(|| POINTER.captures(begin)).flatten()?;
        Some(Told::Pointer { null: c.get(1).is_some() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_own_lines_are_read() {
        let told: Vec<Told> =
            include_str!("../../cuda/expected/test_hook.stdout").lines().filter_map(Told::read).collect();
        let shape = |grid, block| Told::Shape { grid, block };
        assert_eq!(
            told,
            [
                Told::OverQuota { returned: Some(2) },
                Told::Burst { passed: 3, refused: 7 },
                Told::Recovery { passed: 3 },
                shape([1, 1, 1], [256, 1, 1]),
                shape([16, 1, 1], [32, 1, 1]),
                shape([2, 2, 2], [64, 1, 1]),
            ]
        );
    }

    #[test]
    fn failures_and_the_demonstration_without_a_gpu_are_read() {
        for (line, told) in [
            (
                "  [FAIL] cudaMalloc(2048MB): 期望 2 (cudaErrorMemoryAllocation), 实际 0 (cudaSuccess)",
                Some(Told::OverQuota { returned: Some(0) }),
            ),
            ("  [FAIL] cudaMalloc(64MB): 期望 0, 实际 2 (cudaErrorMemoryAllocation)", None),
            ("  [FAIL] cudaMalloc(2048MB) 未被拒绝", Some(Told::OverQuota { returned: None })),
            ("  [Phase 1] 通过=10, 拒绝=0", Some(Told::Burst { passed: 10, refused: 0 })),
            ("  [Phase 2] 等待后通过=0", Some(Told::Recovery { passed: 0 })),
            ("  [FAIL] Phase 1: 期望通过=3, 拒绝=7; 实际通过=0, 拒绝=10", None),
            ("p3 = (nil)  ✓ 配额生效! (NULL = 配额生效)", Some(Told::Pointer { null: true })),
            ("p1 = 0x7fb936e59010  ✓", Some(Told::Pointer { null: false })),
            ("pid = 12", None),
            ("  [PASS]", None),
        ] {
            assert_eq!(Told::read(line), told, "{line}");
        }
    }
}
