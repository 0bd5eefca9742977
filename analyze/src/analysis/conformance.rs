//! Rules that a limiter's log must keep, stated here on their own: the hook's code is not asked.

use serde::Serialize;

use super::Memory;
use crate::events::{Events, Limit};

/// Whether a rule is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// It is.
    Pass,
    /// It is not.
    Fail,
    /// The log can't tell.
    NotApplicable,
}

/// A rule and its verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Name of the rule.
    pub id: &'static str,
    /// Verdict.
    pub status: Status,
    /// What was expected and seen, or why it can't be told.
    pub detail: String,
    /// The same in Chinese.
    #[serde(skip)]
    pub detail_zh: String,
    /// Line of the log where it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
}

/// Every rule over all processes.
pub fn checks(events: &Events, memories: &[Memory]) -> Vec<Check> {
    vec![quota_respected(events, memories), tokens_in_range(events)]
}

/// Live bytes, replayed from the granted allocations, never exceed the quota.
fn quota_respected(events: &Events, memories: &[Memory]) -> Check {
    let id = "quota-respected";
    let mut seen = None;
    for (process, memory) in events.processes.iter().zip(memories) {
        let Limit::At(quota) = process.quota else { continue };
        if let Some(over) = memory.live_after.iter().position(|&live| live > quota) {
            let line = events.calls.line[process.rows.start + over];
            let live = memory.live_after[over];
            return Check {
                id,
                status: Status::Fail,
                detail: format!("line {line}: {live} bytes live, quota {quota} bytes"),
                detail_zh: format!("第 {line} 行: 占用 {live} 字节, 配额 {quota} 字节"),
                line: Some(line),
            };
        }
        let (peak, of) = seen.unwrap_or((0, quota));
        // The process that came closest to its quota is the one to name.
        if seen.is_none() || u128::from(memory.peak_bytes) * u128::from(of) > u128::from(peak) * u128::from(quota) {
            seen = Some((memory.peak_bytes, quota));
        }
    }
    match seen {
        Some((peak, quota)) => Check {
            id,
            status: Status::Pass,
            detail: format!("peak {peak} of {quota} bytes"),
            detail_zh: format!("峰值 {peak} 字节, 配额 {quota} 字节"),
            line: None,
        },
        None => Check {
            id,
            status: Status::NotApplicable,
            detail: "no quota in the log".to_owned(),
            detail_zh: "日志中没有配额".to_owned(),
            line: None,
        },
    }
}

/// Token levels lie between 0 and the capacity, give or take the rounding of a printed one.
fn tokens_in_range(events: &Events) -> Check {
    let id = "tokens-in-range";
    let mut launches = 0u64;
    for process in &events.processes {
        let Limit::At((_, capacity)) = process.bucket else { continue };
        for i in process.rows.clone() {
            let Some(tokens) = events.calls.tokens[i] else { continue };
            launches += 1;
            // Levels from records are unrounded.
            let slack = if events.calls.seq[i].is_some() { 1e-6 } else { 0.05 + 1e-9 };
            if !(-slack..=capacity + slack).contains(&tokens) {
                let line = events.calls.line[i];
                return Check {
                    id,
                    status: Status::Fail,
                    detail: format!("line {line}: {tokens} tokens, capacity {capacity}"),
                    detail_zh: format!("第 {line} 行: 令牌数 {tokens}, 容量 {capacity}"),
                    line: Some(line),
                };
            }
        }
    }
    let (status, detail, detail_zh) = if launches == 0 {
        let why = ("no launch under a known rate and capacity", "日志中没有已知速率和容量下的启动");
        (Status::NotApplicable, why.0.to_owned(), why.1.to_owned())
    } else {
        let seen = format!("the levels of {launches} launches lie between 0 and the capacity");
        (Status::Pass, seen, format!("{launches} 次启动的令牌数都在 0 与容量之间"))
    };
    Check { id, status, detail, detail_zh, line: None }
}
