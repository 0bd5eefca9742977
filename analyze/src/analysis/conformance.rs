//! Rules that a limiter's log must keep, stated here on their own: the hook's code is not asked.

use hook_event::Outcome;
use hook_event::units::MB;
use serde::Serialize;

use super::jobs::{self, Usage};
use super::memory::{self, Memory};
use crate::events::{Events, Limit, Process};

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

impl Check {
    fn new(id: &'static str, status: Status, line: Option<u64>, detail: String, detail_zh: String) -> Check {
        Check { id, status, detail, detail_zh, line }
    }
}

/// Every rule over all processes.
pub fn checks(events: &Events, memories: &[Memory]) -> Vec<Check> {
    let totals = total_matches(events, memories);
    vec![quota_respected(events, memories, &totals), totals, tokens_in_range(events), denied_only_when_empty(events)]
}

/// Half of the last printed decimal of a level or a total in MB, with room for binary fractions.
const ROUNDING: f64 = 0.05 + 1e-6;

/// Live bytes, replayed from the granted allocations, never exceed the quota.
///
/// Where a replay disagrees with the totals that lines state, the lines may be those of several processes or threads,
/// and adding them up tells nothing about any one quota; a stated total above it still does.
fn quota_respected(events: &Events, memories: &[Memory], totals: &Check) -> Check {
    let id = "quota-respected";
    let over = |process: &Process| {
        // A line of a process that shares its quota may state what all of them hold.
        if process.shared.is_some() {
            return None;
        }
        let quota = process.quota.value()? as f64 / MB as f64;
        process.rows.clone().find(|&i| events.calls.total_mb[i].is_some_and(|total| total > quota + ROUNDING))
    };
    if totals.status == Status::Fail || (totals.status == Status::NotApplicable && totals.line.is_some()) {
        if let Some(i) = events.processes.iter().find_map(over) {
            let (line, total) = (events.calls.line[i], events.calls.total_mb[i].unwrap_or(0.0));
            let detail = format!("line {line}: the log states {total:.1} MB, above the quota");
            let detail_zh = format!("第 {line} 行: 日志所记的总量 {total:.1} MB 超过配额");
            return Check::new(id, Status::Fail, Some(line), detail, detail_zh);
        }
        let detail = "the calls don't add up to the totals in the log (see total-matches)".to_owned();
        let detail_zh = "调用累计与日志所记的总量不一致 (见 total-matches), 无法判断".to_owned();
        return Check::new(id, Status::NotApplicable, None, detail, detail_zh);
    }
    if let Some(fault) = device_quota_exceeded(events) {
        return fault;
    }
    let mut seen = None;
    for (process, memory) in events.processes.iter().zip(memories) {
        if process.shared.is_some() {
            continue;
        }
        let Limit::At(quota) = process.quota else { continue };
        if let Some(over) = memory.live_after.iter().position(|&live| live > quota) {
            let (line, live) = (events.calls.line[process.rows.start + over], memory.live_after[over]);
            let detail = format!("line {line}: {live} bytes live, quota {quota} bytes");
            let detail_zh = format!("第 {line} 行: 占用 {live} 字节, 配额 {quota} 字节");
            return Check::new(id, Status::Fail, Some(line), detail, detail_zh);
        }
        let (peak, of) = seen.unwrap_or((0, quota));
        // The process that came closest to its quota is the one to name.
        if seen.is_none() || u128::from(memory.peak_bytes) * u128::from(of) > u128::from(peak) * u128::from(quota) {
            seen = Some((memory.peak_bytes, quota));
        }
    }
    let shared = shared_quota(events);
    if let Some(check) = shared.filter(|check| check.status != Status::Pass || seen.is_none()) {
        return check;
    }
    match seen {
        Some((peak, quota)) => {
            let detail = format!("peak {peak} of {quota} bytes");
            Check::new(id, Status::Pass, None, detail, format!("峰值 {peak} 字节, 配额 {quota} 字节"))
        }
        None => {
            let detail = "no quota in the log".to_owned();
            Check::new(id, Status::NotApplicable, None, detail, "日志中没有配额".to_owned())
        }
    }
}

/// A quota that processes share holds for the sum of what they have, which their records tell together.
fn shared_quota(events: &Events) -> Option<Check> {
    let id = "quota-respected";
    let shared = |process: &&Process| process.shared.is_some() && process.quota != Limit::Off;
    let name = events.processes.iter().find(shared)?.shared.as_deref().unwrap_or("");
    let usages = jobs::usages(events);
    let over = |usage: &&jobs::Usage| usage.peak_bytes > usage.quota;
    let in_order =
        |process: &Process| process.rows.clone().zip(1..).all(|(row, number)| events.calls.seq[row] == Some(number));
    let no_gaps = events.processes.iter().filter(|process| process.job.is_some()).all(in_order);
    if let Some(usage) = usages.iter().find(over).filter(|_| no_gaps) {
        let (line, peak, quota) = (events.calls.line[usage.peak_row], usage.peak_bytes, usage.quota);
        let detail =
            format!("line {line}: {} processes hold {peak} bytes, shared quota {quota} bytes", usage.processes);
        let detail_zh = format!("第 {line} 行: {} 个进程共占用 {peak} 字节, 共享配额 {quota} 字节", usage.processes);
        return Some(Check::new(id, Status::Fail, Some(line), detail, detail_zh));
    }
    let with_records = events.processes.iter().filter(shared).all(|process| process.job.is_some());
    let complete = no_gaps && with_records && usages.iter().all(|usage| usage.complete);
    match usages
        .iter()
        .max_by(|a, b| (a.peak_bytes as f64 / a.quota as f64).total_cmp(&(b.peak_bytes as f64 / b.quota as f64)))
    {
        Some(Usage { peak_bytes, quota, processes, .. }) if complete => {
            let detail = format!("peak {peak_bytes} of {quota} bytes, shared by {processes} process(es) ({name})");
            let detail_zh = format!("峰值 {peak_bytes} 字节, {processes} 个进程共享配额 {quota} 字节 ({name})");
            Some(Check::new(id, Status::Pass, None, detail, detail_zh))
        }
        _ => {
            let detail =
                format!("the quota is shared ({name}), and not all records of the processes that share it are here");
            let detail_zh = format!("配额为多个进程共享 ({name}), 而它们的记录不全, 无法判断");
            Some(Check::new(id, Status::NotApplicable, None, detail, detail_zh))
        }
    }
}

/// The first call that brought a device above its own quota. Only records tell devices apart.
fn device_quota_exceeded(events: &Events) -> Option<Check> {
    for process in &events.processes {
        for &(device, quota) in &process.device_quotas {
            let live = memory::replay_on(&events.calls, process, Some(device)).live_after;
            let Some(over) = live.iter().position(|&live| live > quota) else { continue };
            let (line, live) = (events.calls.line[process.rows.start + over], live[over]);
            let detail = format!("line {line}: {live} bytes live on device {device}, its quota {quota} bytes");
            let detail_zh = format!("第 {line} 行: 设备 {device} 上占用 {live} 字节, 其配额 {quota} 字节");
            return Some(Check::new("quota-respected", Status::Fail, Some(line), detail, detail_zh));
        }
    }
    None
}

/// The total that the hook states after a call is the sum of the live allocations.
///
/// Lines of several threads may stand in another order than their calls; so where a process's last total is right and
/// one before it is not, text alone can't tell.
fn total_matches(events: &Events, memories: &[Memory]) -> Check {
    let id = "total-matches";
    let calls = &events.calls;
    let (mut totals, mut doubtful) = (0u64, None);
    for (process, memory) in events.processes.iter().zip(memories) {
        let mut wrong = None;
        let mut last_is_right = true;
        for (i, &live) in process.rows.clone().zip(&memory.live_after) {
            let replayed = live as f64 / MB as f64;
            let (right, stated) = match (calls.total[i], calls.total_mb[i]) {
                (Some(total), _) => (total == live, total as f64 / MB as f64),
                // A refusal's line states the account that refused, which may be another.
                (None, Some(_)) if process.refusal_is_anothers(calls, i) => continue,
                (None, Some(total)) => ((total - replayed).abs() <= ROUNDING, total),
                (None, None) => continue,
            };
            totals += 1;
            last_is_right = right;
            if !right && wrong.is_none() {
                wrong = Some((calls.line[i], stated, replayed, calls.seq[i].is_some()));
            }
        }
        let Some((line, stated, replayed, exact)) = wrong else { continue };
        if exact || !last_is_right {
            let why = if exact {
                ("", "")
            } else {
                (", or several processes share the log", ", 或日志混有多个进程")
            };
            let detail = format!(
                "line {line}: the log states {stated:.1} MB, its calls add up to {replayed:.1} MB (a fault of the hook{})",
                why.0
            );
            let detail_zh = format!(
                "第 {line} 行: 日志所记为 {stated:.1} MB, 按调用累计应为 {replayed:.1} MB (hook 有误{})",
                why.1
            );
            return Check::new(id, Status::Fail, Some(line), detail, detail_zh);
        }
        doubtful = doubtful.or(Some(line));
    }
    match (totals, doubtful) {
        (0, _) => {
            let detail = "the log states no total".to_owned();
            Check::new(id, Status::NotApplicable, None, detail, "日志没有记录总量".to_owned())
        }
        (_, Some(line)) => {
            let detail = format!("line {line}: lines of several threads seem to stand out of order");
            let detail_zh = format!("第 {line} 行起: 多个线程的日志行可能乱序, 无法判断");
            Check::new(id, Status::NotApplicable, Some(line), detail, detail_zh)
        }
        (n, None) => {
            let detail = format!("{n} stated totals equal the sum of the live allocations");
            Check::new(id, Status::Pass, None, detail, format!("{n} 处总量都等于当时未释放的分配之和"))
        }
    }
}

/// Token levels lie between 0 and the capacity, give or take the rounding of a printed one.
fn tokens_in_range(events: &Events) -> Check {
    each_launch(
        events,
        "tokens-in-range",
        |tokens, capacity, slack, _| (-slack..=capacity + slack).contains(&tokens),
        |tokens, capacity| {
            (format!("{tokens} tokens, capacity {capacity}"), format!("令牌数 {tokens}, 容量 {capacity}"))
        },
        |n| {
            let detail = format!("the levels of {n} launches lie between 0 and the capacity");
            (detail, format!("{n} 次启动的令牌数都在 0 与容量之间"))
        },
    )
}

/// A launch is denied only with less than one token in the bucket.
fn denied_only_when_empty(events: &Events) -> Check {
    each_launch(
        events,
        "denied-only-when-empty",
        |tokens, _, slack, denied| !denied || tokens < 1.0 + slack,
        |tokens, _| (format!("denied with {tokens} tokens left"), format!("还有 {tokens} 个令牌却被拒绝")),
        |n| (format!("{n} launches, none denied with a token left"), format!("{n} 次启动, 没有在令牌足够时被拒绝的")),
    )
}

/// A rule over every launch whose level and capacity are known. `keeps` gets level, capacity, the level's possible
/// rounding, and whether the launch was denied; `broken` and `kept` word the verdict.
fn each_launch(
    events: &Events,
    id: &'static str,
    keeps: impl Fn(f64, f64, f64, bool) -> bool,
    broken: impl Fn(f64, f64) -> (String, String),
    kept: impl Fn(u64) -> (String, String),
) -> Check {
    let calls = &events.calls;
    let mut launches = 0u64;
    for process in &events.processes {
        let Limit::At((_, capacity)) = process.bucket else { continue };
        for i in process.rows.clone() {
            let Some(tokens) = calls.tokens[i] else { continue };
            launches += 1;
            // Levels from records are unrounded.
            let slack = if calls.is_text(i) { ROUNDING } else { 1e-6 };
            // Lines tell the process's own setting; the capacity in force may be that of who shares the bucket.
            let capacity = if process.shared.is_some() && calls.is_text(i) { f64::INFINITY } else { capacity };
            if !keeps(tokens, capacity, slack, calls.outcome[i] == Outcome::Denied) {
                let line = calls.line[i];
                let (detail, detail_zh) = broken(tokens, capacity);
                let (detail, detail_zh) = (format!("line {line}: {detail}"), format!("第 {line} 行: {detail_zh}"));
                return Check::new(id, Status::Fail, Some(line), detail, detail_zh);
            }
        }
    }
    if launches == 0 {
        let detail = "no launch under a known rate and capacity".to_owned();
        return Check::new(id, Status::NotApplicable, None, detail, "日志中没有已知速率和容量下的启动".to_owned());
    }
    let (detail, detail_zh) = kept(launches);
    Check::new(id, Status::Pass, None, detail, detail_zh)
}
