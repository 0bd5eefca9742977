//! cudaFree and the map from pointers to sizes: an entry shows by what its free gives back.
//!
//! That is told by the free's own line (`freed: 67108864 bytes`), or by the next total that a line states: a student's
//! free may be worded freely, and then the following cudaMalloc tells.

use std::collections::HashMap;

use hook_event::units::MB;
use hook_event::{Kind, Outcome};

use super::{Finding, ROUNDING, Run, is_ok};

/// Smallest size whose subtraction shows in totals of one decimal, bytes.
const VISIBLE: u64 = MB / 4;

/// A free, and what the log tells of its entry.
struct Freed {
    /// Line of the allocation; `None` for an address that the log has not seen granted.
    granted: Option<u64>,
    line: u64,
    /// Size of the allocation.
    size: u64,
    /// Whether the address was given back before and not granted since.
    again: bool,
    /// Size of the block that had this address before, where that was another block.
    before: Option<u64>,
    /// Bytes that its line says were given back.
    stated: Option<u64>,
    /// By how much the totals around it fell more than by replay, bytes, and the line of the total behind it. `None` where
    /// no total tells.
    off: Option<(f64, u64)>,
}

impl Freed {
    /// Whether the log shows that its entry was found.
    fn is_found(&self) -> bool {
        !self.again && self.granted.is_some() && self.is_exact()
    }

    /// Whether exactly its size was subtracted.
    fn is_exact(&self) -> bool {
        let stated = self.stated.map(|stated| stated == self.size);
        let total = self.off.map(|(off, _)| off.abs() <= 2.0 * ROUNDING * MB as f64);
        stated.or(total) == Some(true) && total != Some(false)
    }

    /// Its line, and that of the total that tells.
    fn lines(&self) -> Vec<u64> {
        let total = self.off.filter(|_| self.stated.is_none()).map(|(_, line)| line);
        self.granted.into_iter().chain([self.line]).chain(total).collect()
    }
}

fn frees(run: &Run<'_>) -> Vec<Freed> {
    if run.memory_untold {
        return Vec::new();
    }
    let calls = run.calls;
    let rows = run.process.rows.clone();
    let states = |i: usize| {
        let total = calls.total[i].map(|total| total as f64).or(calls.total_mb[i].map(|mb| mb * MB as f64))?;
        let anothers = run.process.refusal_is_anothers(&run.step(i), run.process.shared.is_some());
        (!anothers).then_some((total, i))
    };
    // The first total at each call or behind it.
    let mut next: Vec<Option<(f64, usize)>> = vec![None; rows.len()];
    let mut behind = None;
    for i in rows.clone().rev() {
        behind = states(i).or(behind);
        next[i - rows.start] = behind;
    }
    // Of each address where it was granted last, its size, and whether it was given back since.
    let mut blocks: HashMap<u64, (u64, u64, bool)> = HashMap::new();
    let mut sizes_before: HashMap<u64, u64> = HashMap::new();
    let (mut all, mut before) = (Vec::new(), (0.0, 0.0));
    for i in rows.clone() {
        let ptr = calls.ptr[i].filter(|&ptr| ptr != 0);
        match (calls.kind[i], ptr) {
            (Kind::Alloc, Some(ptr)) if is_ok(calls, i) => {
                let block = (run.line(i), calls.size[i].unwrap_or(0), false);
                if let Some((_, size, true)) = blocks.insert(ptr, block) {
                    sizes_before.insert(ptr, size);
                }
            }
            (Kind::Free, Some(ptr)) => {
                let block = blocks.get(&ptr).copied();
                let (granted, size, again) =
                    block.map_or((None, 0, false), |(line, size, gone)| (Some(line), size, gone));
                let off =
                    next[i - rows.start].filter(|_| size >= VISIBLE || calls.total[i].is_some()).map(|(total, at)| {
                        let (fell, due) = (before.0 - total, before.1 - run.live_after(at) as f64);
                        (fell - due, run.line(at))
                    });
                all.push(Freed {
                    granted,
                    line: run.line(i),
                    size,
                    again,
                    before: sizes_before.get(&ptr).copied(),
                    stated: calls.size[i],
                    off,
                });
                if calls.outcome[i] == Outcome::Ok
                    && let Some(block) = blocks.get_mut(&ptr)
                {
                    block.2 = true;
                }
            }
            _ => {}
        }
        if let Some((total, _)) = states(i) {
            before = (total, run.live_after(i) as f64);
        }
    }
    all
}

fn no_frees(run: &Run<'_>) -> Finding {
    let there = run.of_kind(Kind::Free).count();
    if there == 0 {
        return Finding::missing("the log has no cudaFree (TODO 3 is optional)", "日志中没有 cudaFree (TODO 3 为选做)");
    }
    Finding::missing(
        "no free in the log tells what it gave back, and no total behind one does",
        "日志中的释放都没有给出归还的字节数, 其后也没有可供对照的总量",
    )
}

/// An allocation that was granted is in the map: its free finds it.
pub(super) fn entered(run: &Run<'_>) -> Finding {
    let all = frees(run);
    if let Some(finding) = not_found(run, &all) {
        return finding;
    }
    match all.iter().find(|free| free.is_found()) {
        Some(free) => Finding::shown(
            &free.lines(),
            format!("the free of line {} gives back the {} bytes of this address", free.line, free.size),
            format!("第 {} 行的释放按该地址归还了 {} 字节", free.line, free.size),
        ),
        None => no_frees(run),
    }
}

/// A free of an address that the log shows as granted, behind which the total is as it was.
fn not_found(run: &Run<'_>, all: &[Freed]) -> Option<Finding> {
    run.broken("total-matches")?;
    let kept = |free: &&Freed| {
        let kept = |(off, _): (f64, u64)| (off + free.size as f64).abs() <= 2.0 * ROUNDING * MB as f64;
        free.granted.is_some() && !free.again && free.size > 0 && free.off.is_some_and(kept)
    };
    let free = all.iter().find(kept)?;
    let total = free.off.map(|(_, line)| line);
    let lines: Vec<u64> = free.granted.into_iter().chain([free.line]).chain(total).collect();
    let size = free.size;
    Some(Finding::contradicted(
        &lines,
        format!("behind this free the total still holds the {size} bytes of the address"),
        format!("释放之后, 总量仍包含该地址的 {size} 字节"),
    ))
}

/// A free looks its pointer up.
pub(super) fn found(run: &Run<'_>) -> Finding {
    let all = frees(run);
    if let Some(finding) = not_found(run, &all) {
        return finding;
    }
    let found: Vec<&Freed> = all.iter().filter(|free| free.is_found()).collect();
    let lines: Vec<u64> = found.iter().map(|free| free.line).collect();
    match found.len() {
        0 => no_frees(run),
        n => Finding::shown(
            &lines,
            format!("{n} of {} frees give back the size of their address", all.len()),
            format!("{} 次释放中有 {n} 次按地址归还了相应大小", all.len()),
        ),
    }
}

/// A free subtracts exactly what its allocation took.
pub(super) fn subtracted(run: &Run<'_>) -> Finding {
    let all = frees(run);
    if all.is_empty() {
        return no_frees(run);
    }
    let known = || all.iter().filter(|free| free.granted.is_some() && !free.again);
    if let Some(free) = known().find(|free| free.stated.is_some_and(|stated| stated != free.size)) {
        let (size, stated) = (free.size, free.stated.unwrap_or(0));
        return Finding::contradicted(
            &free.lines(),
            format!("{stated} bytes are given back for an allocation of {size}"),
            format!("分配 {size} 字节, 释放时却归还 {stated} 字节"),
        );
    }
    if let Some(finding) = run.broken_rule(&["total-matches"]) {
        return finding;
    }
    let exact: Vec<&Freed> = known().filter(|free| free.is_exact()).collect();
    let lines: Vec<u64> = exact.iter().map(|free| free.line).collect();
    match exact.len() {
        0 => no_frees(run),
        n => Finding::shown(
            &lines,
            format!("{n} frees, each by exactly the size of its allocation"),
            format!("{n} 次释放, 每次都恰好减去分配时的大小"),
        ),
    }
}

/// A free removes the entry: a second one subtracts nothing, and the address with another size gives that back.
pub(super) fn removed(run: &Run<'_>) -> Finding {
    let all = frees(run);
    let subtracts = |free: &&Freed| {
        let stated = free.stated.is_some_and(|stated| stated > 0);
        let fell = free.off.is_some_and(|(off, _)| (off - free.size as f64).abs() <= 2.0 * ROUNDING * MB as f64);
        free.again && free.size > 0 && (stated || fell)
    };
    if let Some(free) = all.iter().find(subtracts) {
        return Finding::contradicted(
            &[free.line],
            format!("the address was freed before, and {} bytes are subtracted again", free.size),
            format!("该地址此前已释放, 却再次减去 {} 字节", free.size),
        );
    }
    if let Some(free) =
        all.iter().find(|free| free.again && free.off.is_some_and(|(off, _)| off.abs() < free.size as f64 / 2.0))
    {
        return Finding::shown(
            &[free.line],
            "a second free of the same address subtracts nothing",
            "同一地址第二次释放时没有再减",
        );
    }
    let other_size = |free: &&Freed| free.is_found() && free.before.is_some_and(|before| before != free.size);
    if let Some(free) = all.iter().find(other_size) {
        let (before, size) = (free.before.unwrap_or(0), free.size);
        return Finding::shown(
            &free.lines(),
            format!("the address had {before} bytes before and now gives back its {size}"),
            format!("该地址先前为 {before} 字节, 再次分配后按 {size} 字节归还"),
        );
    }
    if all.iter().all(|free| free.granted.is_none()) {
        return no_frees(run);
    }
    let reused = all.iter().any(|free| free.before.is_some());
    let (why, why_zh) = if reused {
        (
            "the log has a freed address again only with the same size, where an entry left behind would give the same figures",
            "重新分到同一地址的分配大小都与先前相同, 旧条目即使未移除, 数字也一样",
        )
    } else {
        ("no freed address comes again, and none is freed twice", "没有再次出现或重复释放的地址")
    };
    Finding::missing(
        format!("{why}; read the code, or free an address twice"),
        format!("{why_zh}; 请查看代码, 或对同一地址释放两次"),
    )
}
