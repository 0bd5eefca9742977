//! Live blocks: how many there were at once, and frees of addresses that were none.

use std::collections::HashMap;

use hook_event::{Kind, Outcome};

use super::conformance::{Check, ROUNDING_BYTES, Status};
use super::fold::Fold;
use super::memory::{Replay, TABLE};
use super::packed::packed;
use crate::events::Process;
use crate::hash;
use crate::plural::plural;
use crate::step::Step;

/// Addresses kept that were freed by a line and not seen allocated yet.
const OWED: usize = 4096;

/// The blocks of one process.
#[derive(Clone, Debug, Default)]
pub(super) struct Blocks {
    /// Most at once, and the line that brought them there.
    peak: (u64, u64),
    /// The first wrong total is wrong by what the blocks beyond [`TABLE`] held, bytes too many.
    table: Option<(u64, f64)>,
    wrong: bool,
    frees: u64,
    /// Frees of addresses that are none, which the hook forwarded and did not count; the first.
    harmless: (u64, Option<u64>),
    /// One that it did count, by a record: line, bytes.
    counted: Option<(u64, u64)>,
    /// The same by lines: an allocation's line may stand behind its free's.
    owed: HashMap<u64, (u64, u64), hash::Build>,
    /// An address was given out while it was live: lines of several processes, or out of order.
    pub(super) mixed: bool,
    /// Frees that a gap in the records leaves open.
    open: bool,
    last_total: Option<u64>,
}

packed!(Blocks { peak, table, wrong, frees, harmless, counted, owed, mixed, open, last_total });

impl Blocks {
    /// Takes a call in that `replay` has taken in; `wrong`: by how many bytes its total is too high; `gap`: records are
    /// missing before it.
    #[inline]
    pub(super) fn step(&mut self, step: &Step, replay: &Replay, wrong: Option<f64>, gap: bool) {
        if let (Some(excess), false) = (wrong, self.wrong) {
            self.wrong = true;
            let unsure = if step.total.is_some() { 0.0 } else { 2.0 * ROUNDING_BYTES as f64 };
            let [freed, granted] = replay.beyond_table.map(|bytes| bytes as f64);
            let fits = |bytes: f64| bytes > 0.0 && (excess.abs() - bytes).abs() <= unsure;
            self.table = (fits(freed) || fits(granted)).then_some((step.line, excess));
        }
        match step.kind {
            Kind::Alloc if step.outcome == Outcome::Ok => {
                if replay.live_blocks() > self.peak.0 {
                    self.peak = (replay.live_blocks(), step.line);
                }
                if step.seq.is_none() {
                    self.mixed |= replay.given_again;
                    if !self.owed.is_empty() && self.owed.remove(&step.ptr.unwrap_or(0)).is_some() {
                        self.mixed = true;
                    }
                }
            }
            Kind::Free if step.outcome != Outcome::Denied => self.freed(step, replay, gap),
            _ => {}
        }
        self.last_total = step.total.or(self.last_total);
    }

    fn freed(&mut self, step: &Step, replay: &Replay, gap: bool) {
        let Some(ptr) = step.ptr.filter(|&ptr| ptr != 0) else { return };
        self.frees += 1;
        let known = if step.outcome == Outcome::Ok { !replay.missed } else { replay.holds(ptr) };
        if known {
            return;
        }
        let stated = step.size.filter(|&bytes| bytes > 0);
        if step.seq.is_some() {
            let fell = self.last_total.zip(step.total).and_then(|(before, after)| before.checked_sub(after));
            match stated.or(fell.filter(|&bytes| bytes > 0)) {
                _ if gap => self.open = true,
                Some(bytes) => self.counted = self.counted.or(Some((step.line, bytes))),
                None => self.pass(step.line),
            }
        } else if let Some(bytes) = stated {
            if self.owed.len() < OWED {
                self.owed.entry(ptr).or_insert((step.line, bytes));
            }
        } else {
            self.pass(step.line);
        }
    }

    fn pass(&mut self, line: u64) {
        self.harmless = (self.harmless.0 + 1, self.harmless.1.or(Some(line)));
    }

    /// The first free by a line that no allocation explains.
    fn first_owed(&self) -> Option<(u64, u64)> {
        self.owed.values().min().copied()
    }
}

/// The frees of all processes.
#[derive(Default)]
pub(super) struct Frees {
    /// The first that subtracted what was not there: line, bytes.
    fault: Option<(u64, u64)>,
    /// The first that may have: line.
    owed: Option<u64>,
    frees: u64,
    open: bool,
    harmless: (u64, Option<u64>),
}

impl Frees {
    /// Takes a process in; `whole`: the log shows it from its beginning, and no line is missing.
    pub(super) fn take(&mut self, process: &Process, fold: &Fold, whole: bool) {
        if process.memory_untold {
            return;
        }
        let blocks = &fold.rules.blocks;
        let owed = blocks.first_owed();
        self.fault = self.fault.or(blocks.counted).or(owed.filter(|_| whole && !blocks.mixed));
        self.owed = self.owed.or(owed.map(|(line, _)| line));
        self.frees += blocks.frees;
        self.open |= blocks.open;
        self.harmless = (self.harmless.0 + blocks.harmless.0, self.harmless.1.or(blocks.harmless.1));
    }
}

/// A free of an address that is not live, never allocated or freed already, subtracts nothing. Forwarding it is no fault:
/// CUDA answers it.
pub(super) fn free_of_unknown(all: &Frees) -> Check {
    let id = "free-of-unknown";
    let &Frees { fault, owed, frees, open, harmless: (harmless, first_harmless) } = all;
    if let Some((line, bytes)) = fault {
        let detail = format!("line {line}: {bytes} bytes subtracted for an address that was not live");
        let detail_zh = format!("第 {line} 行: 该地址当时并未分配 (或已释放), 却减去了 {bytes} 字节");
        return Check::new(id, Status::Fail, Some(line), detail, detail_zh).measured(0.0, bytes as f64, Some(0.0));
    }
    if let Some(line) = owed {
        let detail = format!("line {line}: its allocation may be another process's, or missing from the log");
        let detail_zh = format!("第 {line} 行: 对应的分配可能属于其他进程, 或不在日志中, 无法判断");
        return Check::not_applicable(id, detail, detail_zh);
    }
    if frees == 0 {
        return Check::not_applicable(id, "no free in the log whose outcome it tells", "日志中没有已知结果的释放");
    }
    if open {
        let detail = "records are missing, and what they allocated is not known";
        return Check::not_applicable(id, detail, "记录有缺失, 其中的分配未知, 无法判断");
    }
    let (mut detail, mut detail_zh) = (plural(frees, "free"), format!("{frees} 次释放"));
    match first_harmless {
        Some(line) => {
            detail += &format!(
                ", {harmless} of them (the first at line {line}) of addresses that were not live: forwarded, and nothing subtracted"
            );
            detail_zh += &format!(", 其中 {harmless} 次 (首次在第 {line} 行) 的地址并未分配或已释放: 已转发, 未多减");
        }
        None => {
            detail += ", each of a live block";
            detail_zh += ", 每次都对应一个未释放的分配";
        }
    }
    Check::new(id, Status::Pass, None, detail, detail_zh)
}

/// The live blocks of all processes whose calls are in order.
#[derive(Default)]
pub(super) struct Live {
    /// Most at once in one of them, and the line that brought them there; of several the last.
    peak: (u64, u64),
    table: Option<(u64, f64)>,
}

impl Live {
    /// Takes a process in.
    pub(super) fn take(&mut self, process: &Process, fold: &Fold) {
        if process.memory_untold {
            return;
        }
        let blocks = &fold.rules.blocks;
        if blocks.peak.0 >= self.peak.0 {
            self.peak = blocks.peak;
        }
        self.table = self.table.or(blocks.table);
    }
}

/// More blocks live at once than the course's skeleton has room for do the totals no harm.
pub(super) fn live_blocks(all: &Live, totals: &Check) -> Check {
    let id = "live-blocks";
    let (peak, line) = all.peak;
    let fault = all.table.filter(|_| totals.status == Status::Fail);
    if let Some((at, excess)) = fault {
        let detail = format!(
            "line {at}: the total is {excess} bytes off, which is what blocks beyond {TABLE} live ones held (peak {peak}, line {line})"
        );
        let detail_zh = format!(
            "第 {at} 行: 总量差 {excess} 字节, 正是第 {TABLE} 个之后的分配所占 (最多时 {peak} 个, 第 {line} 行)"
        );
        let check = Check::new(id, Status::Fail, Some(at), detail, detail_zh);
        return check.measured(TABLE as f64, peak as f64, None);
    }
    let (detail, detail_zh) = match (peak, totals.status) {
        (0, _) => return Check::not_applicable(id, "no granted allocation in the log", "日志中没有分到的显存"),
        (1..=TABLE, _) => {
            (format!("at most {} live at once", plural(peak, "block")), format!("同时存在的分配最多 {peak} 个"))
        }
        (_, Status::Pass) => (
            format!(
                "at most {peak} blocks live at once (line {line}), more than the skeleton's table of {TABLE}; totals stay right"
            ),
            format!("同时存在的分配最多 {peak} 个 (第 {line} 行), 超过骨架代码的 {TABLE} 项表; 总量仍然正确"),
        ),
        _ => {
            let detail = format!("at most {peak} blocks live at once (line {line}); see total-matches for the totals");
            let detail_zh = format!("同时存在的分配最多 {peak} 个 (第 {line} 行); 总量见 total-matches");
            return Check::not_applicable(id, detail, detail_zh);
        }
    };
    Check::new(id, Status::Pass, None, detail, detail_zh)
}
