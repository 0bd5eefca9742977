//! How tokens and memory went.

use std::fmt::Write;

use super::super::Lang;
use super::super::text::{mb, plain};
use crate::analysis::summary::{Summary, Trends};

/// Processes whose curves are shown: as many as one reads.
const CURVES: usize = 4;

/// How tokens and memory went, a cell for as many calls each.
pub(super) fn all(out: &mut String, s: &Summary, lang: Lang) {
    let with_calls = || s.processes.iter().enumerate().filter(|(_, process)| process.calls > 0);
    let many = with_calls().count() > 1;
    let mut shown = String::new();
    for (index, process) in with_calls().take(CURVES) {
        let of = match process.pid {
            _ if !many => String::new(),
            Some(pid) => format!("{} {} (pid {pid}): ", lang.pick("进程", "process"), index + 1),
            None => format!("{} {}: ", lang.pick("进程", "process"), index + 1),
        };
        let Some(Trends { tokens, live }) = process.trends.as_deref() else { continue };
        // A process that only records has no levels, and one whose calls stand in no order no curves.
        if process.tokens.min.is_some() {
            let highest = process.config.capacity.into_iter().chain(process.tokens.max).fold(0.0, f64::max);
            let (span, top) = (tokens.span(), plain(highest));
            let text = match lang {
                Lang::Zh if span == 1 => format!("{of}令牌: 每格为一次启动之后, █ 为 {top}"),
                Lang::En if span == 1 => format!("{of}tokens: a cell is the level after a launch, █ is {top}"),
                Lang::Zh => format!("{of}令牌: 每格为 {span} 次启动后的最低值, █ 为 {top}"),
                Lang::En => format!("{of}tokens: a cell is the lowest level after {span} launches, █ is {top}"),
            };
            line!(shown, "  {text}\n  {}", spark(tokens.cells(), highest));
        }
        if !process.memory.untold && process.memory.peak_bytes > 0 {
            let peak = process.memory.peak_bytes;
            let (span, top) = (live.span(), mb(peak));
            let text = match lang {
                Lang::Zh if span == 1 => format!("{of}显存: 每格为一次调用之后的占用, █ 为 {top}"),
                Lang::En if span == 1 => format!("{of}memory: a cell is what is live after a call, █ is {top}"),
                Lang::Zh => format!("{of}显存: 每格为 {span} 次调用后的最高占用, █ 为 {top}"),
                Lang::En => format!("{of}memory: a cell is the most live after {span} calls, █ is {top}"),
            };
            line!(shown, "  {text}\n  {}", spark(live.cells(), peak as f64));
        }
    }
    if shown.is_empty() {
        return;
    }
    out.push_str(&shown);
    let more = with_calls().count().saturating_sub(CURVES);
    if more > 0 {
        line!(out, "  … +{more} {}", lang.pick("个进程", if more == 1 { "process" } else { "processes" }));
    }
    line!(out, "");
}

/// Values as blocks of eight heights, from none to the highest.
fn spark(values: &[f64], highest: f64) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let height = |value: &f64| (value / highest * BLOCKS.len() as f64).floor().clamp(0.0, 7.0) as usize;
    values.iter().map(|value| BLOCKS[if highest > 0.0 { height(value) } else { 0 }]).collect()
}
