//! What there is to say of a launch.

use std::fmt::Write;

use super::{Lang, error, wall};
use crate::analysis::TimeBase;
use crate::analysis::explain::{Call, Due, Launch, LaunchWhy, Level, Refill};
use crate::render::text::{plain, seconds};

/// A level: three decimals at most of one that has an error; six of an exact one, cut off and not rounded, so that what is
/// less than one token never reads as one.
fn level(level: Level) -> String {
    if level.error > 0.0 {
        return format!("{} ± {}", plain(level.tokens), plain(level.error));
    }
    let text = format!("{:.6}", (level.tokens * 1e6 + 1e-3).floor() / 1e6);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

pub(super) fn launch(out: &mut String, one: &Launch, call: &Call, lang: Lang) {
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
                    "这是首次记有令牌数的启动; 桶开始时应是满的",
                    "the first launch with a level; a bucket has to begin full"
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
