//! What there is to say of allocations, frees and resets.

use std::fmt::Write;

use super::Lang;
use crate::analysis::explain::{Alloc, AllocWhy, Block, Call, Free, Reset};
use crate::plural::plural;
use crate::render::text::mb;

/// Bytes exactly, and as MB.
fn bytes(bytes: u64) -> String {
    format!("{bytes} B ({})", mb(bytes))
}

pub(super) fn alloc(out: &mut String, one: &Alloc, call: &Call, lang: Lang) {
    let unknown = || lang.pick("未知", "unknown").to_owned();
    let told = |value: Option<u64>| value.map_or_else(unknown, bytes);
    let account = match one.account {
        "device" => lang.pick("设备", "the device"),
        "job" => lang.pick("共享限额的所有进程", "all processes that share the quota"),
        "unreachable" => lang.pick("共享账户 (未能访问)", "the shared account, which could not be reached"),
        "printed" => {
            lang.pick("日志行所印的账户 (设备或作业)", "the account that the line names, a device's or a job's")
        }
        _ => lang.pick("进程", "the process"),
    };
    let error = if one.live_error > 0 { format!(" ± {}", mb(one.live_error)) } else { String::new() };
    let (size, before, quota) = (told(one.size), told(one.live_before), told(one.quota));
    let pending = one.pending.filter(|&pending| pending > 0).map(bytes);
    let pending = match (pending, lang) {
        (Some(pending), Lang::Zh) => format!(", 其他进行中的调用占 {pending}"),
        (Some(pending), Lang::En) => format!(", {pending} reserved by calls under way"),
        (None, _) => String::new(),
    };
    match lang {
        Lang::Zh => line!(out, "  申请 {size}; 此前{account}占用 {before}{error}{pending}; 配额 {quota}"),
        Lang::En => line!(out, "  asked for {size}; {account} held {before}{error} before{pending}; quota {quota}"),
    }
    let sum = one.would_be.map(bytes).unwrap_or_default();
    let (why_zh, why_en) = match one.why {
        AllocWhy::NotLimited => {
            ("分配不受限, 只记录".to_owned(), "allocations are not limited, only recorded".to_owned())
        }
        AllocWhy::Unknown => (
            "日志不足以说明: 配额或当时的占用未知".to_owned(),
            "the log does not tell: quota, or what was held, is not known".to_owned(),
        ),
        AllocWhy::Fits => (format!("合计 {sum}, 在配额内"), format!("{sum} in all, within the quota")),
        AllocWhy::Exceeds => {
            let lacking = told(one.lacking);
            (
                format!("合计将为 {sum}, 超过配额, 差 {lacking}"),
                format!("it would have been {sum} in all; {lacking} were lacking"),
            )
        }
        AllocWhy::DeniedThoughFits => (
            format!("合计 {sum}, 在配额内却被拒绝: 不合规, 或有日志中看不到的占用 (见 --check)"),
            format!(
                "{sum} in all would have been within the quota: a rule is broken, or more was held than the log shows (see --check)"
            ),
        ),
        AllocWhy::PassedThoughExceeds => (
            format!("合计 {sum}, 超过配额却被放行: 不合规 (见 --check)"),
            format!("{sum} in all exceed the quota, and yet it passed: a rule is broken (see --check)"),
        ),
        AllocWhy::Unreachable => (
            "共享账户未能访问; 无法确认的配额按拒绝处理".to_owned(),
            "the shared account could not be reached, and a quota that can't be asked refuses".to_owned(),
        ),
    };
    line!(out, "  {}: {}", lang.pick("原因", "why"), lang.pick(&why_zh, &why_en));
    if call.outcome == "failed" {
        line!(
            out,
            "  {}",
            lang.pick("CUDA 没有给出内存, 占用不变", "CUDA gave nothing, so what is held stays the same")
        );
    }
    if let Some(after) = one.live_after {
        line!(out, "  {} {}", lang.pick("此后进程占用", "the process holds after it:"), bytes(after));
    }
    if call.outcome == "denied" && !one.largest.is_empty() {
        let block = |block: &Block| match lang {
            Lang::Zh => format!("第 {} 行 {}", block.line, mb(block.size)),
            Lang::En => format!("line {} {}", block.line, mb(block.size)),
        };
        let (list, blocks) = (one.largest.iter().map(block).collect::<Vec<_>>().join(", "), one.blocks);
        let more = if blocks > one.largest.len() { ", …" } else { "" };
        match lang {
            Lang::Zh => line!(out, "  进程占用的 {blocks} 块中最大的: {list}{more}"),
            Lang::En => {
                line!(out, "  the largest of {} of the process: {list}{more}", plural(blocks as u64, "live block"))
            }
        }
    }
}

pub(super) fn free(out: &mut String, one: &Free, call: &Call, lang: Lang) {
    let text = match (one.ptr, one.block, one.freed_before, lang) {
        _ if call.outcome != "ok" => {
            lang.pick("没有释放成功, 占用不变", "nothing was freed, so what is held stays the same").to_owned()
        }
        (None | Some(0), ..) => lang.pick("空指针, 占用不变", "a null pointer: nothing changes").to_owned(),
        (_, Some(Block { line, size, .. }), _, Lang::Zh) => format!("释放第 {line} 行分配的 {}", bytes(size)),
        (_, Some(Block { line, size, .. }), _, Lang::En) => {
            format!("ends the allocation on line {line}, {}", bytes(size))
        }
        (_, None, Some(line), Lang::Zh) => format!("这个地址已在第 {line} 行释放, 此后没有再分配: 重复释放, 占用不变"),
        (_, None, Some(line), Lang::En) => {
            format!("this address was freed on line {line} and not allocated since: a double free, nothing changes")
        }
        (_, None, None, Lang::Zh) => "日志中没有这个地址的分配".to_owned(),
        (_, None, None, Lang::En) => "no allocation of this address is in the log".to_owned(),
    };
    line!(out, "  {text}");
    held(out, one.live_before, one.live_after, lang);
}

pub(super) fn reset(out: &mut String, one: &Reset, lang: Lang) {
    match lang {
        Lang::Zh => line!(out, "  重置设备, 释放 {} 块", one.blocks),
        Lang::En => line!(out, "  a reset, which ends {}", plural(one.blocks as u64, "block")),
    }
    held(out, one.live_before, one.live_after, lang);
}

fn held(out: &mut String, before: Option<u64>, after: Option<u64>, lang: Lang) {
    let Some((before, after)) = before.zip(after) else { return };
    line!(out, "  {}: {} → {}", lang.pick("进程占用", "held by the process"), bytes(before), bytes(after));
}
