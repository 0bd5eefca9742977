//! What there is to say of one line, as text.

use std::fmt::Write;

use chrono::{DateTime, SecondsFormat};

use super::Lang;
use super::terminal::base;
use super::text::{mb, plain, printable, seconds};
use crate::analysis::TimeBase;
use crate::analysis::explain::{
    About, Alloc, AllocWhy, Block, Call, Due, Explanation, Free, Launch, LaunchWhy, Level, Moment, Refill, Reset,
};
use crate::classes::Class;
use crate::parse::look::{Looked, Record};

/// Characters shown of a line.
const WIDTH: usize = 200;

/// Writing into a `String` can't fail.
macro_rules! line {
    ($out:expr, $($arg:tt)*) => { { let _ = writeln!($out, $($arg)*); } };
}

/// The explanation as text.
pub fn text(explanation: &Explanation, lang: Lang) -> String {
    let mut out = String::new();
    let text: String = explanation.text.iter().flat_map(|text| text.trim_end().chars()).take(WIDTH).collect();
    line!(out, "{}:{}: {}", printable(&explanation.path), explanation.line, printable(&text));
    if explanation.calls.is_empty() {
        line!(out, "{}", class(explanation.looked.as_ref(), lang));
    }
    explanation.calls.iter().for_each(|one| call(&mut out, one, lang));
    out
}

/// What a line without a call is, and why it is taken for that.
fn class(looked: Option<&Looked>, lang: Lang) -> String {
    let Some(looked) = looked else {
        return lang
            .pick(
                "这一行没有调用; 输入不能再读一遍, 因此无从说明它是什么: 请存成文件再分析",
                "no call is on this line; what it is can't be told, for the input can't be read again: save it to a file",
            )
            .to_owned();
    };
    let (zh, en) = looked.class.texts();
    let (why_zh, why_en) = match (looked.class, looked.records.first()) {
        (Class::Event, Some(Record::Call(Some(_)))) => (
            "这条记录属于未并入分析的另一次运行, 或重复出现",
            "the record of a call of another run, which is not part of this analysis, or one that comes twice",
        ),
        (Class::Event, _) => (
            "这一行说到一次调用, 但没有说结果, 只计入次数",
            "it tells of a call and not how it ended; it is only counted",
        ),
        (_, Some(Record::Quota)) => {
            ("配置行: 生效的显存配额, 一个进程由此开始", "a setting: the quota in force; a process begins with it")
        }
        (_, Some(Record::Rate)) => ("配置行: 令牌桶的速率与容量", "a setting: rate and capacity of the token bucket"),
        (_, Some(Record::Shared)) => {
            ("配置行: 与其他进程共享限额", "a setting: the limits are shared with other processes")
        }
        (_, Some(Record::Warning)) => ("hook 的警告, 不是调用", "a warning of the hook, and no call"),
        (_, Some(Record::Start)) => (
            "start 记录: 一个进程由此开始, 带有生效的限额",
            "a start record: a process begins, with the limits in force",
        ),
        (_, Some(Record::End)) => {
            ("end 记录: 一个进程结束, 带有它的总计", "an end record: a process ends, with its totals")
        }
        (Class::Banner, _) => ("其他限额工具的设置或通告", "settings or a notice of another limiter"),
        (Class::UnknownHook, _) => (
            "以 [HOOK] 开头, 但不是任何已知的格式; 不计入调用",
            "it begins with [HOOK] and has none of the known forms; it counts as no call",
        ),
        (Class::Torn, _) => (
            "开头像一条记录, 但缺了一部分或混入了另一行; 其中的数字不可信, 不计入调用",
            "it begins like a record and lacks a part, or another's is within; its numbers can't be trusted, it counts as no call",
        ),
        (Class::Undecodable, _) => {
            ("既不是 UTF-8 也不是 GBK, 也没有完整的记录", "neither UTF-8 nor GBK, and without a whole record")
        }
        (Class::Truncated, _) => (
            "输入在这一行中间结束 (程序被终止或仍在写), 不计入调用",
            "the input ends in the middle of it (its writer was killed, or is still at it); it counts as no call",
        ),
        (Class::Oversized, _) => ("超过 1 MiB, 未作分析", "longer than 1 MiB, and not looked into"),
        (Class::Other, _) if looked.text.trim().is_empty() => ("空行", "a blank line"),
        (Class::Other, _) => (
            "没有 [HOOK] 标记, 也不是 JSONL 记录: 其他程序的输出",
            "neither [HOOK] nor a JSONL record is on it: another program's output",
        ),
    };
    match lang {
        Lang::Zh => format!("没有调用; 类别: {zh}。{why_zh}"),
        Lang::En => format!("no call; class: {en}. {why_en}"),
    }
}

fn call(out: &mut String, call: &Call, lang: Lang) {
    let fate = match (call.outcome, lang) {
        ("denied", Lang::Zh) => "被 hook 拒绝".to_owned(),
        ("denied", Lang::En) => "denied by the hook".to_owned(),
        ("failed", Lang::Zh) => format!("hook 放行, 被 CUDA 拒绝{}", code(call.ret)),
        ("failed", Lang::En) => format!("let through by the hook, refused by CUDA{}", code(call.ret)),
        (_, Lang::Zh) => "通过".to_owned(),
        (_, Lang::En) => "passed".to_owned(),
    };
    let (number, api) = (call.call, printable(&call.api));
    let of = call.pid.map_or_else(|| format!("#{}", call.process + 1), |pid| pid.to_string());
    match lang {
        Lang::Zh => line!(out, "进程 {of} 的第 {number} 次调用, {api}: {fate}"),
        Lang::En => line!(out, "call {number} of process {of}, {api}: {fate}"),
    }
    moment(out, &call.time, lang);
    match &call.about {
        About::Launch(one) => launch(out, one, call, lang),
        About::Alloc(one) => alloc(out, one, call, lang),
        About::Free(one) => free(out, one, call, lang),
        About::Reset(one) => reset(out, one, lang),
        About::Host => line!(
            out,
            "  {}",
            lang.pick("主机内存: 只记录, 不计入也不限制", "host memory: only logged, neither counted nor limited")
        ),
    }
}

fn code(ret: Option<i32>) -> String {
    ret.map(|ret| format!(" ({ret})")).unwrap_or_default()
}

fn wall(ns: i64) -> String {
    DateTime::from_timestamp_nanos(ns).to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

fn error(error: Option<f64>) -> String {
    error.filter(|error| *error > 0.0).map(|error| format!(" ± {}", seconds(error))).unwrap_or_default()
}

/// A level: three decimals at most of one that has an error; six of an exact one, cut off and not rounded, so that what is
/// less than one token never reads as one.
fn level(level: Level) -> String {
    if level.error > 0.0 {
        return format!("{} ± {}", plain(level.tokens), plain(level.error));
    }
    let text = format!("{:.6}", (level.tokens * 1e6 + 1e-3).floor() / 1e6);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn moment(out: &mut String, time: &Moment, lang: Lang) {
    let base = base(time.base, lang);
    let stamp = time.wall_ns.map(|ns| format!(", {}", wall(ns))).unwrap_or_default();
    let Some(at) = time.at_s else {
        let none = match time.base {
            TimeBase::Sequence => base,
            _ => lang.pick("未知, 在首次启动之前", "not known, before the first launch"),
        };
        line!(out, "  {}: {none}{stamp}", lang.pick("时间", "time"));
        return;
    };
    let (at, error) = (seconds(at), error(time.error_s));
    let bound = if time.lower_bound { lang.pick("至少 ", "at least ") } else { "" };
    match lang {
        Lang::Zh => line!(out, "  时间: 进程首次计时后 {bound}{at}{error}{stamp} ({base})"),
        Lang::En => {
            line!(out, "  time: {bound}{at}{error} after the first timed moment of the process{stamp} ({base})")
        }
    }
}

fn launch(out: &mut String, one: &Launch, call: &Call, lang: Lang) {
    if let Some((rate, capacity)) = one.rate.zip(one.capacity) {
        let (rate, capacity) = (plain(rate), plain(capacity));
        let shared =
            if one.shared { lang.pick(", 与其他进程共享", ", shared with other processes") } else { "" };
        match lang {
            Lang::Zh => line!(out, "  令牌桶: {rate} tokens/s, 容量 {capacity}{shared}"),
            Lang::En => line!(out, "  bucket: {rate} tokens/s, capacity {capacity}{shared}"),
        }
    }
    if let (Some(before), Some(after)) = (one.before, one.after) {
        let (before, after, cost) = (level(before), level(after), plain(one.cost));
        match lang {
            Lang::Zh => line!(out, "  令牌: 调用前 {before}, 消耗 {cost}, 剩余 {after}"),
            Lang::En => line!(out, "  tokens: {before} before, {cost} taken, {after} left"),
        }
        match &one.refill {
            Some(refill) => refilled(out, refill, one, call.time.base, lang),
            None => line!(
                out,
                "  {}",
                lang.pick(
                    "这是首次记有令牌数的启动; 桶开始时是满的",
                    "the first launch with a level; a bucket begins full"
                )
            ),
        }
    }
    if let Some(ns) = one.waited_ns {
        let waited = seconds(ns as f64 / 1e9);
        line!(out, "  {} {waited}", lang.pick("等待令牌", "waited for its token for"));
    }
    let (why_zh, why_en) = match one.why {
        LaunchWhy::NotLimited => ("启动不受限, 只记录", "launches are not limited, only recorded"),
        LaunchWhy::LimitUnknown => {
            ("日志没有速率与容量, 无从判断", "the log tells no rate and capacity, so why can't be told")
        }
        LaunchWhy::LevelUnknown => {
            ("日志没有这次启动的令牌数, 无从判断", "the log tells no level of this launch, so why can't be told")
        }
        LaunchWhy::NeedsNone => ("这次启动不需要令牌 (CUDA_CORE_BYPASS)", "it needed no token (CUDA_CORE_BYPASS)"),
        LaunchWhy::Waited => ("等到了令牌", "it waited until its token was there"),
        LaunchWhy::Token => ("桶中有完整的令牌", "a whole token was there"),
        LaunchWhy::NoToken => ("桶中没有一个完整的令牌", "no whole token was there"),
        LaunchWhy::Rounding => (
            "日志只印一位小数, 桶中可能有也可能没有完整的令牌, 两种结果都合规",
            "a line prints one decimal: there may have been a whole token or not, and either fate is right",
        ),
        LaunchWhy::PassedWithout => (
            "桶中没有完整的令牌却被放行, 不合规 (见 --check)",
            "no whole token was there, and yet it passed: a rule is broken (see --check)",
        ),
        LaunchWhy::DeniedWith => (
            "桶中有完整的令牌却被拒绝, 不合规 (见 --check)",
            "a whole token was there, and yet it was denied: a rule is broken (see --check)",
        ),
    };
    line!(out, "  {}: {}", lang.pick("原因", "why"), lang.pick(why_zh, why_en));
    if call.outcome == "failed" && one.cost > 0.0 {
        line!(out, "  {}", lang.pick("令牌已消耗, 内核没有运行", "its token is spent, though the kernel did not run"));
    }
    if let Some(due) = &one.due {
        next_token(out, due, one.shared, lang);
    }
}

fn refilled(out: &mut String, refill: &Refill, one: &Launch, base: TimeBase, lang: Lang) {
    let Refill { since_line, from, gained, .. } = *refill;
    let (from, gained) = (level(from), level(gained));
    let time = refill.seconds.map(|passed| {
        let bound = match (refill.lower_bound, base) {
            (true, _) => lang.pick("至少 ", "at least "),
            (false, TimeBase::Inferred) => "≈ ",
            _ => "",
        };
        format!("{bound}{}{}", seconds(passed), error(refill.error_s))
    });
    let time = match (time, lang) {
        (Some(time), Lang::Zh) => format!(", 历时 {time}"),
        (Some(time), Lang::En) => format!(" in {time}"),
        (None, _) => String::new(),
    };
    let full = refill.lower_bound && base == TimeBase::Inferred;
    let expected = refill.expected.map(|tokens| level(Level { tokens, error: 0.0 }));
    let more = match (full, expected, lang) {
        (true, _, Lang::Zh) => "; 桶曾满, 溢出多少日志中没有".to_owned(),
        (true, _, Lang::En) => "; the bucket was full, and what ran over is not in the log".to_owned(),
        (_, Some(expected), Lang::Zh) => format!(" (按速率与容量应为 {expected})"),
        (_, Some(expected), Lang::En) => format!(" (rate and capacity give {expected})"),
        _ => String::new(),
    };
    let others = if one.shared {
        lang.pick("; 其他进程也可能取走了令牌", "; other processes may have taken some")
    } else {
        ""
    };
    match lang {
        Lang::Zh => line!(out, "  补充: 第 {since_line} 行的启动后剩 {from}, 此后增加 {gained}{time}{more}{others}"),
        Lang::En => {
            line!(
                out,
                "  refill: {from} left after the launch on line {since_line}, {gained} gained since{time}{more}{others}"
            );
        }
    }
}

fn next_token(out: &mut String, due: &Due, shared: bool, lang: Lang) {
    let name = lang.pick("下一个令牌", "next token");
    let Some(in_s) = due.in_s else {
        line!(
            out,
            "  {name}: {}",
            lang.pick("容量不足一个令牌, 永远不会有", "never, for less than one fits into the bucket")
        );
        return;
    };
    if in_s == 0.0 && due.error_s == 0.0 {
        line!(out, "  {name}: {}", lang.pick("桶中已有", "there already"));
        return;
    }
    let mut at: Vec<String> = due.at_s.map(seconds).into_iter().collect();
    at.extend(due.wall_ns.map(wall));
    let at = if at.is_empty() { String::new() } else { format!(" ({})", at.join(", ")) };
    let (due, error) = (seconds(in_s), error(Some(due.error_s)));
    let others = if shared {
        lang.pick(", 若其他进程没有先取走", ", unless another process takes it first")
    } else {
        ""
    };
    match lang {
        Lang::Zh => line!(out, "  {name}: 此后 {due}{error}{at}{others}"),
        Lang::En => line!(out, "  {name}: {due}{error} later{at}{others}"),
    }
}

/// Bytes exactly, and as MB.
fn bytes(bytes: u64) -> String {
    format!("{bytes} B ({})", mb(bytes))
}

fn alloc(out: &mut String, one: &Alloc, call: &Call, lang: Lang) {
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
            Lang::En => line!(out, "  the largest of {blocks} live block(s) of the process: {list}{more}"),
        }
    }
}

fn free(out: &mut String, one: &Free, call: &Call, lang: Lang) {
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

fn reset(out: &mut String, one: &Reset, lang: Lang) {
    match lang {
        Lang::Zh => line!(out, "  重置设备, 释放 {} 块", one.blocks),
        Lang::En => line!(out, "  a reset, which ends {} block(s)", one.blocks),
    }
    held(out, one.live_before, one.live_after, lang);
}

fn held(out: &mut String, before: Option<u64>, after: Option<u64>, lang: Lang) {
    let Some((before, after)) = before.zip(after) else { return };
    line!(out, "  {}: {} → {}", lang.pick("进程占用", "held by the process"), bytes(before), bytes(after));
}
