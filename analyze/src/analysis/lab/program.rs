//! What the test program counted, beside what the log has.

use hook_event::Kind;
use serde::Serialize;

use super::bucket::Launch;
use super::{Finding, Run};
use crate::program::Told;

/// Counts of launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Let through in the burst.
    pub passed: u64,
    /// Refused in it.
    pub refused: u64,
    /// Let through after the pause; `None` where that was not told.
    pub passed_later: Option<u64>,
}

/// A run's two counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Program {
    /// Line of the program's count.
    pub line: u64,
    /// What the program counted.
    pub told: Counts,
    /// What the log has of the same launches.
    pub logged: Counts,
}

/// The program's lines by run: a burst that is told again is another run's, with what was told before it.
pub(super) fn parts<'a>(told: &[(u32, u64, &'a Told)]) -> Vec<Vec<(u32, u64, &'a Told)>> {
    let mut parts: Vec<Vec<(u32, u64, &Told)>> = Vec::new();
    let begins = |told: &Told| matches!(told, Told::OverQuota { .. });
    let has = |part: &[(u32, u64, &Told)], what: fn(&Told) -> bool| part.iter().any(|(.., told)| what(told));
    for &one in told {
        let again = parts.last().is_none_or(|part| {
            let burst = |told: &Told| matches!(told, Told::Burst { .. });
            burst(one.2) && has(part, burst)
                || begins(one.2) && has(part, |told| matches!(told, Told::OverQuota { .. } | Told::Burst { .. }))
        });
        match parts.last_mut().filter(|_| !again) {
            Some(part) => part.push(one),
            None => parts.push(vec![one]),
        }
    }
    parts
}

/// The counts of a run whose program told them.
pub(super) fn of(run: &Run<'_>) -> Option<Program> {
    let (line, (passed, refused)) = run.told(|told| match told {
        Told::Burst { passed, refused } => Some((*passed, *refused)),
        _ => None,
    })?;
    let later = run.told(|told| match told {
        Told::Recovery { passed } => Some(*passed),
        _ => None,
    });
    let told = Counts { passed, refused, passed_later: later.map(|(_, passed)| passed) };
    // The burst is the first so many launches; what follows up to the free of its buffer came after the pause.
    let end = test2_end(run);
    let test2: Vec<&Launch> = run.launches.iter().filter(|launch| end.is_none_or(|end| launch.i < end)).collect();
    let burst = usize::try_from(passed.saturating_add(refused)).unwrap_or(usize::MAX).min(test2.len());
    let (burst, rest) = test2.split_at(burst);
    let let_through = |launches: &[&Launch]| launches.iter().filter(|launch| !launch.is_denied()).count() as u64;
    let logged = Counts {
        passed: let_through(burst),
        refused: burst.len() as u64 - let_through(burst),
        passed_later: told.passed_later.map(|_| let_through(rest)),
    };
    Some(Program { line, told, logged })
}

/// The call that ends test 2: the first allocation, free or reset behind a launch.
fn test2_end(run: &Run<'_>) -> Option<usize> {
    let first = run.launches.first()?.i;
    let ends = |i: &usize| matches!(run.calls.kind[*i], Kind::Alloc | Kind::Free | Kind::Reset);
    run.process.rows.clone().filter(|&i| i > first).find(ends)
}

/// The program and the log count the same.
pub(super) fn agrees(run: &Run<'_>) -> Finding {
    let Some(Program { line, told, logged }) = of(run) else {
        return Finding::missing(
            "the test program's own counts (`通过=3, 拒绝=7`) are not in this file; `make test-gpu > hook.log 2>&1` keeps both",
            "文件中没有测试程序自己的计数 (`通过=3, 拒绝=7`); `make test-gpu > hook.log 2>&1` 可一并保存",
        );
    };
    let text = |counts: Counts, later: &str| {
        let after = counts.passed_later.map(|passed| format!(", {later}通过={passed}")).unwrap_or_default();
        format!("通过={}, 拒绝={}{after}", counts.passed, counts.refused)
    };
    let finding = if told == logged {
        let (en, zh) = (text(told, "then "), text(told, "等待后"));
        Finding::shown(
            &[line],
            format!("program and log count the same: {en}"),
            format!("测试程序与日志的计数一致: {zh}"),
        )
    } else {
        Finding::contradicted(
            &[line],
            format!("the program counts {}, the log has {}", text(told, "then "), text(logged, "then ")),
            format!("测试程序计得 {}, 日志中为 {}", text(told, "等待后"), text(logged, "等待后")),
        )
    };
    run.by_program(finding)
}
