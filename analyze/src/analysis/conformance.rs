//! Rules that a limiter's log must keep, stated here on their own: the hook's code is not asked.

use hook_event::Outcome;
use hook_event::units::MB;
use serde::Serialize;

use super::fold::Fold;
use super::jobs::{self, Usage};
use super::memory::Replay;
use super::tokens::{self, Tokens};
use crate::events::{Limit, Process};
use crate::step::Step;

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
    pub(super) fn new(id: &'static str, status: Status, line: Option<u64>, detail: String, detail_zh: String) -> Check {
        Check { id, status, detail, detail_zh, line }
    }
}

/// Half of the last printed decimal of a level or a total in MB, with room for binary fractions.
const ROUNDING: f64 = 0.05 + 1e-6;

/// The rules over the calls of one process.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules {
    /// The first call behind which more is live than the quota: line, live bytes.
    over: Option<(u64, u64)>,
    /// The first call behind which more is live on a device than its own quota.
    over_on_device: Option<OverOnDevice>,
    /// The first total above the quota that a line states: line, MB.
    stated_over: Option<(u64, f64)>,
    /// What its calls state if it is limited by itself, and if it shares its limits: the line that tells which may stand
    /// behind calls.
    by: [Stated; 2],
    /// Launches whose level and capacity are known.
    pub(super) launches: u64,
    /// The first denial with a token left: line, level.
    needless: Option<(u64, f64)>,
    /// Launches against the bucket's model.
    pub(super) tokens: Tokens,
}

#[derive(Clone, Copy, Debug)]
struct OverOnDevice {
    line: u64,
    device: i32,
    live: u64,
    quota: u64,
}

/// What calls state of the accounts.
#[derive(Clone, Debug, Default)]
struct Stated {
    /// Totals stated.
    totals: u64,
    /// The first that is not the sum: line, stated MB, replayed MB, whether it is exact.
    wrong: Option<(u64, f64, f64, bool)>,
    last_is_wrong: bool,
    /// The first level outside the bucket: line, level.
    outside: Option<(u64, f64)>,
}

impl Rules {
    /// Takes a call of `process` in, behind which `live` bytes are live; `replay` knows on which devices.
    #[inline]
    pub(super) fn step(&mut self, process: &Process, step: &Step, live: u64, replay: &Replay) {
        if let Limit::At(quota) = process.quota {
            if live > quota && self.over.is_none() {
                self.over = Some((step.line, live));
            }
            if let Some(total) = step.total_mb
                && self.stated_over.is_none()
                && total > quota as f64 / MB as f64 + ROUNDING
            {
                self.stated_over = Some((step.line, total));
            }
        }
        if let Some(level) = step.tokens {
            self.level(process, step.line, level, step.outcome, step.seq.is_some());
        }
        if !process.device_quotas.is_empty() && self.over_on_device.is_none() {
            self.over_on_device = step.dev.and_then(|device| {
                let (live, quota) = (replay.on_device(device), process.device_quota(device)?);
                (live > quota).then_some(OverOnDevice { line: step.line, device, live, quota })
            });
        }
        self.total(process, step, live);
        self.tokens.step(process, step);
    }

    #[inline]
    fn total(&mut self, process: &Process, step: &Step, live: u64) {
        let replayed = live as f64 / MB as f64;
        let (right, stated) = match (step.total, step.total_mb) {
            (Some(total), _) => (total == live, total as f64 / MB as f64),
            (None, Some(total)) => ((total - replayed).abs() <= ROUNDING, total),
            (None, None) => return,
        };
        // A refusal's line states the account that refused, which may be another.
        let line = step.total.is_none();
        for (by, shares) in self.by.iter_mut().zip([false, true]) {
            if line && process.refusal_is_anothers(step, shares) {
                continue;
            }
            by.totals += 1;
            by.last_is_wrong = !right;
            if !right && by.wrong.is_none() {
                by.wrong = Some((step.line, stated, replayed, step.seq.is_some()));
            }
        }
    }

    /// Takes a launch's level in; `exact`: it is from a record, and unrounded.
    #[inline]
    pub(super) fn level(&mut self, process: &Process, line: u64, level: f64, outcome: Outcome, exact: bool) {
        let Limit::At((_, capacity)) = process.bucket else { return };
        self.launches += 1;
        let slack = if exact { 1e-6 } else { ROUNDING };
        // Lines tell the process's own setting; the capacity in force may be that of who shares the bucket.
        for (by, capacity) in self.by.iter_mut().zip([capacity, if exact { capacity } else { f64::INFINITY }]) {
            if !(-slack..=capacity + slack).contains(&level) && by.outside.is_none() {
                by.outside = Some((line, level));
            }
        }
        if outcome == Outcome::Denied && level >= 1.0 + slack && self.needless.is_none() {
            self.needless = Some((line, level));
        }
    }

    fn stated(&self, process: &Process) -> &Stated {
        let [alone, sharing] = &self.by;
        if process.shared.is_some() { sharing } else { alone }
    }
}

/// Every rule over all processes.
pub(super) fn checks(processes: &[Process], folds: &[Box<Fold>]) -> Vec<Check> {
    let all: Vec<(&Process, &Fold)> = processes.iter().zip(folds.iter().map(Box::as_ref)).collect();
    let (disordered, ordered): (Vec<_>, Vec<_>) = all.iter().partition(|(_, fold)| fold.late() > 0);
    let totals = total_matches(&ordered);
    let mut by_order = [quota_respected(&ordered, &totals), totals];
    for check in by_order.iter_mut().filter(|check| check.status != Status::Fail) {
        *check = disordered.first().map_or(check.clone(), |(process, fold)| out_of_order(check.id, process, fold));
    }
    let rules = by_order.into_iter().chain([tokens_in_range(&all), denied_only_when_empty(&all)]);
    rules.chain(tokens::checks(&all)).collect()
}

/// What can't be told of a process whose records could not be put in order, and so not of all.
fn out_of_order(id: &'static str, process: &Process, fold: &Fold) -> Check {
    let (pid, late) = (process.pid.unwrap_or(0), fold.late());
    let detail = format!("{late} record(s) of process {pid} stand too far out of order");
    let detail_zh = format!("进程 {pid} 有 {late} 条记录严重乱序, 无法判断");
    Check::new(id, Status::NotApplicable, None, detail, detail_zh)
}

/// Live bytes, replayed from the granted allocations, never exceed the quota.
///
/// Where a replay disagrees with the totals that lines state, the lines may be those of several processes or threads,
/// and adding them up tells nothing about any one quota; a stated total above it still does.
fn quota_respected(all: &[(&Process, &Fold)], totals: &Check) -> Check {
    let id = "quota-respected";
    if totals.status == Status::Fail || (totals.status == Status::NotApplicable && totals.line.is_some()) {
        // A line of a process that shares its quota may state what all of them hold.
        let mut alone = all.iter().filter(|(process, _)| process.shared.is_none());
        if let Some((line, total)) = alone.find_map(|(_, fold)| fold.rules.stated_over) {
            let detail = format!("line {line}: the log states {total:.1} MB, above the quota");
            let detail_zh = format!("第 {line} 行: 日志所记的总量 {total:.1} MB 超过配额");
            return Check::new(id, Status::Fail, Some(line), detail, detail_zh);
        }
        let detail = "the calls don't add up to the totals in the log (see total-matches)".to_owned();
        let detail_zh = "调用累计与日志所记的总量不一致 (见 total-matches), 无法判断".to_owned();
        return Check::new(id, Status::NotApplicable, None, detail, detail_zh);
    }
    if let Some(fault) = device_quota_exceeded(all) {
        return fault;
    }
    let mut seen = None;
    for (process, fold) in all.iter().filter(|(process, _)| process.shared.is_none()) {
        let Limit::At(quota) = process.quota else { continue };
        if let Some((line, live)) = fold.rules.over {
            let detail = format!("line {line}: {live} bytes live, quota {quota} bytes");
            let detail_zh = format!("第 {line} 行: 占用 {live} 字节, 配额 {quota} 字节");
            return Check::new(id, Status::Fail, Some(line), detail, detail_zh);
        }
        let memory = &fold.replay.memory;
        let (peak, of) = seen.unwrap_or((0, quota));
        // The process that came closest to its quota is the one to name.
        if seen.is_none() || u128::from(memory.peak_bytes) * u128::from(of) > u128::from(peak) * u128::from(quota) {
            seen = Some((memory.peak_bytes, quota));
        }
    }
    let shared = shared_quota(all);
    if let Some(check) = shared.filter(|check| check.status != Status::Pass || seen.is_none()) {
        return check;
    }
    match seen {
        Some((peak, quota)) => {
            let detail = format!("peak {peak} of {quota} bytes");
            Check::new(id, Status::Pass, None, detail, format!("峰值 {peak} 字节, 配额 {quota} 字节"))
        }
        None if !all.iter().all(|(process, _)| process.device_quotas.is_empty()) => {
            let by_device = |(process, _): &&(&Process, &Fold)| !process.device_quotas.is_empty();
            if all.iter().filter(by_device).any(|(process, _)| process.memory_untold) {
                let detail = "the log does not tell what was granted".to_owned();
                return Check::new(id, Status::NotApplicable, None, detail, "日志没有记录分到的显存".to_owned());
            }
            let detail = "no device above its quota".to_owned();
            Check::new(id, Status::Pass, None, detail, "各设备均未超过自己的配额".to_owned())
        }
        None => {
            let detail = "no quota in the log".to_owned();
            Check::new(id, Status::NotApplicable, None, detail, "日志中没有配额".to_owned())
        }
    }
}

/// A quota that processes share holds for the sum of what they have, which their records tell together.
fn shared_quota(all: &[(&Process, &Fold)]) -> Option<Check> {
    let id = "quota-respected";
    let shared = |(process, _): &&(&Process, &Fold)| process.shared.is_some() && process.quota != Limit::Off;
    let name = all.iter().find(shared)?.0.shared.as_deref().unwrap_or("");
    if all.iter().any(|(_, fold)| fold.held.cut) {
        let detail = format!("the quota is shared ({name}), and what its processes hold changes too often to be kept");
        let detail_zh = format!("配额为多个进程共享 ({name}), 其占用变化太多, 无法全部保留");
        return Some(Check::new(id, Status::NotApplicable, None, detail, detail_zh));
    }
    let usages = jobs::usages(all);
    let over = |usage: &&Usage| usage.peak_bytes > usage.quota;
    let no_gaps = all.iter().filter(|(process, _)| process.job.is_some()).all(|(_, fold)| fold.in_order());
    if let Some(usage) = usages.iter().find(over).filter(|_| no_gaps) {
        let (line, peak, quota) = (usage.peak_line, usage.peak_bytes, usage.quota);
        let detail =
            format!("line {line}: {} processes hold {peak} bytes, shared quota {quota} bytes", usage.processes);
        let detail_zh = format!("第 {line} 行: {} 个进程共占用 {peak} 字节, 共享配额 {quota} 字节", usage.processes);
        return Some(Check::new(id, Status::Fail, Some(line), detail, detail_zh));
    }
    let with_records = all.iter().filter(shared).all(|(process, _)| process.job.is_some());
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

/// The first call that brought a device above its own quota.
fn device_quota_exceeded(all: &[(&Process, &Fold)]) -> Option<Check> {
    let OverOnDevice { line, device, live, quota } = all.iter().find_map(|(_, fold)| fold.rules.over_on_device)?;
    let detail = format!("line {line}: {live} bytes live on device {device}, its quota {quota} bytes");
    let detail_zh = format!("第 {line} 行: 设备 {device} 上占用 {live} 字节, 其配额 {quota} 字节");
    Some(Check::new("quota-respected", Status::Fail, Some(line), detail, detail_zh))
}

/// The total that the hook states after a call is the sum of the live allocations.
///
/// Lines of several threads may stand in another order than their calls; so where a process's last total is right and
/// one before it is not, text alone can't tell.
fn total_matches(all: &[(&Process, &Fold)]) -> Check {
    let id = "total-matches";
    let (mut totals, mut doubtful) = (0u64, None);
    for by in all.iter().map(|(process, fold)| fold.rules.stated(process)) {
        totals += by.totals;
        let Some((line, stated, replayed, exact)) = by.wrong else { continue };
        if exact || by.last_is_wrong {
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
fn tokens_in_range(all: &[(&Process, &Fold)]) -> Check {
    each_launch(
        all,
        "tokens-in-range",
        |process, rules| rules.stated(process).outside,
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
fn denied_only_when_empty(all: &[(&Process, &Fold)]) -> Check {
    each_launch(
        all,
        "denied-only-when-empty",
        |_, rules| rules.needless,
        |tokens, _| (format!("denied with {tokens} tokens left"), format!("还有 {tokens} 个令牌却被拒绝")),
        |n| (format!("{n} launches, none denied with a token left"), format!("{n} 次启动, 没有在令牌足够时被拒绝的")),
    )
}

/// A rule over every launch whose level and capacity are known. `first` gives where a process broke it, with the level;
/// `broken` (of level and capacity) and `kept` (of the number of launches) word the verdict.
fn each_launch(
    all: &[(&Process, &Fold)],
    id: &'static str,
    first: impl Fn(&Process, &Rules) -> Option<(u64, f64)>,
    broken: impl Fn(f64, f64) -> (String, String),
    kept: impl Fn(u64) -> (String, String),
) -> Check {
    let mut launches = 0u64;
    for (process, fold) in all {
        let Limit::At((_, capacity)) = process.bucket else { continue };
        launches += fold.rules.launches;
        if let Some((line, tokens)) = first(process, &fold.rules) {
            let (detail, detail_zh) = broken(tokens, capacity);
            let (detail, detail_zh) = (format!("line {line}: {detail}"), format!("第 {line} 行: {detail_zh}"));
            return Check::new(id, Status::Fail, Some(line), detail, detail_zh);
        }
    }
    if launches == 0 {
        let detail = "no launch under a known rate and capacity".to_owned();
        return Check::new(id, Status::NotApplicable, None, detail, "日志中没有已知速率和容量下的启动".to_owned());
    }
    let (detail, detail_zh) = kept(launches);
    Check::new(id, Status::Pass, None, detail, detail_zh)
}
