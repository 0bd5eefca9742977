//! The quota: that it is never exceeded, and that nothing is refused which it has room for.

use hook_event::Outcome;
use hook_event::units::MB;

use super::conformance::{Check, OverOnDevice, ROUNDING_BYTES, Status};
use super::fold::Fold;
use super::jobs::{Jobs, Usage};
use super::packed::packed;
use crate::events::{Limit, Process};
use crate::plural::plural;
use crate::step::Step;

/// Lines of allocations behind a refusal among which those may stand that were under way when it was decided.
const UNDER_WAY: u32 = 16;

/// The refused allocations of one process.
#[derive(Clone, Debug, Default)]
pub(super) struct Denials {
    /// Judged by records, and by lines.
    judged: [u64; 2],
    /// Refused though there was room, by a record: the first.
    needless: Option<Needless>,
    /// The same by lines, to which a total within the account's quota is stated.
    by_lines: Option<Needless>,
    /// One that what other threads had under way may explain, and what of that has come since; lines left to wait.
    waiting: Option<(Needless, u64, u32)>,
    /// The first that it does explain.
    doubtful: Option<u64>,
}

packed!(Denials { judged, needless, by_lines, waiting, doubtful });

/// An allocation that was refused with room for it, bytes.
#[derive(Clone, Copy, Debug)]
struct Needless {
    line: u64,
    /// What would have been held with it.
    sum: u64,
    quota: u64,
    exact: bool,
}

packed!(Needless { line, sum, quota, exact });

impl Denials {
    /// Takes an allocation in, behind which `live` bytes are live.
    pub(super) fn step(&mut self, process: &Process, step: &Step, live: u64) {
        if step.outcome != Outcome::Denied {
            self.came(step.size.unwrap_or(0));
            return;
        }
        let Some(size) = step.size else { return };
        let own = process.quota.value();
        if step.seq.is_some() {
            // A record without a refusal's own figures is of the process's quota.
            if let (Some(held), Some(quota)) = (step.held, step.quota.or(own)) {
                self.judged[0] += 1;
                let sum = held.saturating_add(size);
                if sum <= quota && self.needless.is_none() {
                    self.needless = Some(Needless { line: step.line, sum, quota, exact: true });
                }
            }
            return;
        }
        let Some(quota) = own.filter(|_| !process.refusal_is_anothers(step, false)) else { return };
        if process.memory_untold {
            return;
        }
        self.judged[1] += 1;
        let held = step.total_mb.map_or(live, |mb| live.max((mb * MB as f64).max(0.0) as u64));
        let sum = held.saturating_add(size);
        if sum.saturating_add(ROUNDING_BYTES) <= quota && self.waiting.is_none() {
            self.waiting = Some((Needless { line: step.line, sum, quota, exact: false }, 0, UNDER_WAY));
        }
    }

    /// An allocation that CUDA has answered: it may have been under way when one was refused.
    fn came(&mut self, size: u64) {
        let Some((needless, came, left)) = &mut self.waiting else { return };
        *came = came.saturating_add(size);
        *left -= 1;
        if needless.sum.saturating_add(*came) > needless.quota {
            self.doubtful = self.doubtful.or(Some(needless.line));
            self.waiting = None;
        } else if *left == 0 {
            self.by_lines = self.by_lines.or(Some(*needless));
            self.waiting = None;
        }
    }

    /// Without what lines tell of a process that shares its limits: whose account refused they don't say.
    fn of(&self, process: &Process) -> Denials {
        if process.shared.is_none() {
            return self.clone();
        }
        Denials { judged: [self.judged[0], 0], needless: self.needless, ..Denials::default() }
    }

    fn fault(&self) -> Option<Needless> {
        self.needless.or(self.by_lines).or(self.waiting.map(|(needless, ..)| needless))
    }
}

/// The refused allocations of all processes whose calls are in order.
#[derive(Default)]
pub(super) struct Refusals {
    /// The first that was refused with room for it, and the first of which a record tells that.
    needless: Option<Needless>,
    exact: Option<Needless>,
    /// The line of the first that may have been.
    doubtful: Option<u64>,
    judged: u64,
}

impl Refusals {
    /// Takes a process in.
    pub(super) fn take(&mut self, process: &Process, fold: &Fold) {
        let Some(denials) = fold.rules.denials.as_ref().map(|denials| denials.of(process)) else { return };
        let fault = denials.fault();
        self.needless = self.needless.or(fault);
        self.exact = self.exact.or(fault.filter(|fault| fault.exact));
        self.doubtful = self.doubtful.or(denials.doubtful).or(fault.map(|fault| fault.line));
        self.judged += denials.judged.iter().sum::<u64>();
    }
}

/// An allocation is refused only where it would exceed the quota, with what is reserved for calls under way.
pub(super) fn denied_only_over_quota(all: &Refusals, totals: &Check) -> Check {
    let id = "denied-only-over-quota";
    let doubt = totals.status == Status::Fail || totals.status == Status::NotApplicable && totals.line.is_some();
    if let Some(fault) = if doubt { all.exact } else { all.needless } {
        let Needless { line, sum, quota, exact } = fault;
        let detail = format!("line {line}: refused, though it would have brought the total to {sum} of {quota} bytes");
        let detail_zh = format!("第 {line} 行: 分配后总量为 {sum} 字节, 未超过配额 {quota} 字节, 却被拒绝");
        let check = Check::new(id, Status::Fail, Some(line), detail, detail_zh);
        let tolerance = if exact { 0.0 } else { ROUNDING_BYTES as f64 };
        return check.measured(quota as f64, sum as f64, Some(tolerance));
    }
    if let Some(line) = all.doubtful {
        let detail = format!("line {line}: refused with room; calls of other threads may have been under way");
        let detail_zh = format!("第 {line} 行: 有余量却被拒绝, 可能是其他线程的分配正在进行, 无法判断");
        return Check::not_applicable(id, detail, detail_zh);
    }
    match all.judged {
        0 => Check::not_applicable(
            id,
            "no allocation was refused whose account the log tells",
            "没有被拒绝的分配, 或日志没有记录其账目",
        ),
        n => Check::new(
            id,
            Status::Pass,
            None,
            format!("{n} refused, each beyond the quota"),
            format!("{n} 次分配被拒绝, 每次都会超过配额"),
        ),
    }
}

/// What all processes whose calls are in order held.
#[derive(Default)]
pub(super) struct Holdings<'a> {
    /// Of those that share no quota, the first total above it that a line states, and the first call that brought one
    /// above: line, live bytes, quota.
    stated_over: Option<(u64, f64)>,
    over: Option<(u64, u64, u64)>,
    over_on_device: Option<OverOnDevice>,
    /// Peak and quota of the process that came closest to its own.
    closest: Option<(u64, u64)>,
    /// Whether devices have quotas of their own, and whether it is not told of one such process what it was granted.
    by_device: bool,
    untold_by_device: bool,
    /// The first name under which a quota is shared.
    shared: Option<&'a str>,
    /// Of what is held of shared quotas: not all was kept, records are missing, lines alone tell.
    cut: bool,
    gaps: bool,
    by_lines: bool,
    jobs: Jobs<'a>,
}

impl<'a> Holdings<'a> {
    /// Takes a process in.
    pub(super) fn take(&mut self, process: &'a Process, fold: &mut Fold) {
        self.over_on_device = self.over_on_device.or(fold.rules.over_on_device);
        self.by_device |= !process.device_quotas.is_empty();
        self.untold_by_device |= !process.device_quotas.is_empty() && process.memory_untold;
        self.cut |= fold.held.cut;
        self.gaps |= process.job.is_some() && !fold.in_order();
        match &process.shared {
            None => self.alone(process, fold),
            Some(name) if process.quota != Limit::Off => {
                self.shared = self.shared.or(Some(name));
                self.by_lines |= process.job.is_none();
            }
            Some(_) => {}
        }
        self.jobs.take(process, fold);
    }

    /// Takes a process in that shares no quota.
    fn alone(&mut self, process: &Process, fold: &Fold) {
        self.stated_over = self.stated_over.or(fold.rules.stated_over);
        let Limit::At(quota) = process.quota else { return };
        self.over = self.over.or(fold.rules.over.map(|(line, live)| (line, live, quota)));
        let peak_bytes = fold.replay.memory.peak_bytes;
        let (peak, of) = self.closest.unwrap_or((0, quota));
        if self.closest.is_none() || u128::from(peak_bytes) * u128::from(of) > u128::from(peak) * u128::from(quota) {
            self.closest = Some((peak_bytes, quota));
        }
    }
}

/// Live bytes, replayed from the granted allocations, never exceed the quota.
///
/// Where a replay disagrees with the totals that lines state, the lines may be those of several processes or threads,
/// and adding them up tells nothing about any one quota; a stated total above it still does.
pub(super) fn respected(all: &Holdings, totals: &Check) -> Check {
    let id = "quota-respected";
    if totals.status == Status::Fail || (totals.status == Status::NotApplicable && totals.line.is_some()) {
        // A line of a process that shares its quota may state what all of them hold.
        if let Some((line, total)) = all.stated_over {
            let detail = format!("line {line}: the log states {total:.1} MB, above the quota");
            let detail_zh = format!("第 {line} 行: 日志所记的总量 {total:.1} MB 超过配额");
            return Check::new(id, Status::Fail, Some(line), detail, detail_zh);
        }
        let detail = "the calls don't add up to the totals in the log (see total-matches)".to_owned();
        let detail_zh = "调用累计与日志所记的总量不一致 (见 total-matches), 无法判断".to_owned();
        return Check::new(id, Status::NotApplicable, None, detail, detail_zh);
    }
    if let Some(OverOnDevice { line, device, live, quota }) = all.over_on_device {
        let detail = format!("line {line}: {live} bytes live on device {device}, its quota {quota} bytes");
        let detail_zh = format!("第 {line} 行: 设备 {device} 上占用 {live} 字节, 其配额 {quota} 字节");
        return Check::new(id, Status::Fail, Some(line), detail, detail_zh);
    }
    if let Some((line, live, quota)) = all.over {
        let detail = format!("line {line}: {live} bytes live, quota {quota} bytes");
        let detail_zh = format!("第 {line} 行: 占用 {live} 字节, 配额 {quota} 字节");
        return Check::new(id, Status::Fail, Some(line), detail, detail_zh);
    }
    let shared = shared_quota(all);
    if let Some(check) = shared.filter(|check| check.status != Status::Pass || all.closest.is_none()) {
        return check;
    }
    // The process that came closest to its quota is the one to name.
    match all.closest {
        Some((peak, quota)) => {
            let detail = format!("peak {peak} of {quota} bytes");
            Check::new(id, Status::Pass, None, detail, format!("峰值 {peak} 字节, 配额 {quota} 字节"))
        }
        None if all.by_device => {
            if all.untold_by_device {
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
fn shared_quota(all: &Holdings) -> Option<Check> {
    let id = "quota-respected";
    let name = all.shared?;
    if all.cut {
        let detail = format!("the quota is shared ({name}), and what its processes hold changes too often to be kept");
        let detail_zh = format!("配额为多个进程共享 ({name}), 其占用变化太多, 无法全部保留");
        return Some(Check::new(id, Status::NotApplicable, None, detail, detail_zh));
    }
    let usages = all.jobs.usages();
    let over = |usage: &&Usage| usage.peak_bytes > usage.quota;
    if let Some(usage) = usages.iter().find(over).filter(|_| !all.gaps) {
        let (line, peak, quota) = (usage.peak_line, usage.peak_bytes, usage.quota);
        let detail =
            format!("line {line}: {} processes hold {peak} bytes, shared quota {quota} bytes", usage.processes);
        let detail_zh = format!("第 {line} 行: {} 个进程共占用 {peak} 字节, 共享配额 {quota} 字节", usage.processes);
        return Some(Check::new(id, Status::Fail, Some(line), detail, detail_zh));
    }
    let complete = !all.gaps && !all.by_lines && usages.iter().all(|usage| usage.complete);
    match usages
        .iter()
        .max_by(|a, b| (a.peak_bytes as f64 / a.quota as f64).total_cmp(&(b.peak_bytes as f64 / b.quota as f64)))
    {
        Some(Usage { peak_bytes, quota, processes, .. }) if complete => {
            let detail = format!(
                "peak {peak_bytes} of {quota} bytes, shared by {} ({name})",
                plural(*processes as u64, "process")
            );
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
