//! What other buckets would have done.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::super::Lang;
use super::super::page::{name, table};
use super::super::text::{percent, plain};
use super::base;
use crate::analysis::summary::Summary;

/// Replays with other settings, and the settings that a denial rate takes.
pub(super) fn others(out: &mut String, s: &Summary, lang: Lang) {
    let which = |processes: &[usize]| {
        let pids =
            processes.iter().map(|&i| s.processes[i].pid.map_or_else(|| format!("#{}", i + 1), |pid| pid.to_string()));
        name(&pids.collect::<Vec<_>>().join(", "))
    };
    let mut bases: BTreeSet<&str> = s.what_if.iter().map(|replay| base(replay.base, lang)).collect();
    if s.what_if.iter().any(|replay| replay.lower_bound) {
        // More time may have passed, in which more tokens came.
        bases
            .insert(lang.pick("桶曾满, 时间为下限, 拒绝数为上限", "the bucket was full: least times, so most denials"));
    }
    if !s.what_if.is_empty() {
        let open =
            lang.pick("假设换用其他令牌桶 (按日志中的请求时刻重放", "another bucket (the recorded moments replayed");
        line!(out, "\n{open}; {})", bases.into_iter().collect::<Vec<_>>().join(", "));
        let mut rows = vec![
            [
                lang.pick("进程", "process"),
                lang.pick("速率", "rate"),
                lang.pick("容量", "capacity"),
                lang.pick("启动", "launches"),
                lang.pick("通过", "passed"),
                lang.pick("拒绝", "denied"),
                lang.pick("拒绝率", "denial rate"),
                lang.pick("与日志相同", "as in the log"),
            ]
            .map(str::to_owned)
            .to_vec(),
        ];
        rows.extend(s.what_if.iter().map(|replay| {
            vec![
                which(&replay.processes),
                plain(replay.settings.rate),
                plain(replay.settings.capacity),
                replay.launches.to_string(),
                replay.passed.to_string(),
                replay.denied.to_string(),
                percent(replay.denied, replay.launches).unwrap_or_default(),
                replay.same_decisions.to_string(),
            ]
        }));
        out.push_str(&table(&rows));
    }
    let Some(first) = s.sizes.first() else { return };
    let part = plain(first.denial_rate * 100.0);
    line!(
        out,
        "\n{}",
        match lang {
            Lang::Zh => format!("拒绝率不超过 {part}% 所需的最低速率 (三位有效数字)"),
            Lang::En => format!("the slowest rate that denies at most {part}% (to three digits)"),
        }
    );
    let head = ["进程", "容量", "速率", "启动", "拒绝"];
    let head_en = ["process", "capacity", "rate", "launches", "denied"];
    let mut rows = vec![(0..head.len()).map(|i| lang.pick(head[i], head_en[i]).to_owned()).collect::<Vec<_>>()];
    rows.extend(s.sizes.iter().map(|size| {
        let none = || lang.pick("无", "none").to_owned();
        vec![
            which(&size.processes),
            plain(size.capacity),
            size.rate.map_or_else(none, plain),
            size.launches.to_string(),
            size.denied.map_or_else(none, |denied| denied.to_string()),
        ]
    }));
    out.push_str(&table(&rows));
}
