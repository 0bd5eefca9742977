//! Figures of a log that another's can be held against, each with a name.

use serde::Serialize;

use super::Status;
use super::overhead::{self, Measured};
use super::summary::ApiFigures;
use super::timeline::TimeBase;
use crate::events::Note;
use crate::figures::Figures;

/// A figure's name, and what it is.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Name.
    pub name: &'static str,
    /// In Chinese.
    pub zh: &'static str,
    /// What it counts.
    pub unit: Unit,
    /// Whether one API has it too.
    pub of_apis: bool,
    value: fn(&Of<'_>) -> Result<Amount, Note>,
}

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things.
    Count,
    /// Bytes.
    Bytes,
    /// A part from 0 to 1.
    Share,
    /// Tokens.
    Tokens,
    /// Tokens a second.
    Rate,
    /// Seconds.
    Seconds,
    /// Nanoseconds.
    Nanos,
}

/// A figure's value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Amount {
    /// A whole number.
    Whole(u64),
    /// Another.
    Real(f64),
}

impl Amount {
    /// As a number that may be rounded.
    pub fn value(self) -> f64 {
        match self {
            Amount::Whole(whole) => whole as f64,
            Amount::Real(real) => real,
        }
    }

    /// How much more the other one is, rounded once at most.
    pub fn to(self, other: Amount) -> f64 {
        match (self, other) {
            (Amount::Whole(a), Amount::Whole(b)) => (i128::from(b) - i128::from(a)) as f64,
            (a, b) => b.value() - a.value(),
        }
    }
}

/// A log's figures: of all its calls, or of those of one API.
struct Of<'a> {
    figures: &'a Figures,
    api: Option<&'a str>,
}

/// All of them.
pub const METRICS: [Metric; 23] = [
    metric("calls", "调用", Unit::Count, true, |of| Ok(of.sum(|api| api.calls))),
    metric("denied", "拒绝", Unit::Count, true, |of| Ok(of.sum(|api| api.denied))),
    metric("failed", "CUDA 失败", Unit::Count, true, |of| Ok(of.sum(|api| api.failed))),
    metric("denial_rate", "拒绝率", Unit::Share, true, |of| of.denial_rate()),
    metric("longest_streak", "最长连续拒绝", Unit::Count, false, |of| of.longest_streak()),
    metric("peak_bytes", "显存峰值", Unit::Bytes, false, |of| of.memory(|memory| memory.peak_bytes)),
    metric("live_bytes", "结束时显存", Unit::Bytes, false, |of| of.memory(|memory| memory.live_bytes)),
    metric("allocated_bytes", "累计分配", Unit::Bytes, false, |of| of.memory(|memory| memory.allocated_bytes)),
    metric("unknown_frees", "未知释放", Unit::Count, false, |of| of.memory(|memory| memory.unknown_frees)),
    metric("tokens_min", "令牌最低", Unit::Tokens, false, |of| of.level(of.figures.summary.tokens.min)),
    metric("tokens_max", "令牌最高", Unit::Tokens, false, |of| of.level(of.figures.summary.tokens.max)),
    metric("duration_s", "时长", Unit::Seconds, false, |of| of.duration()),
    metric("hook_ns_p50", "hook 耗时 p50", Unit::Nanos, true, |of| {
        of.took("hook_ns", 50, |took| took.hook_ns.median)
    }),
    metric("hook_ns_p90", "hook 耗时 p90", Unit::Nanos, true, |of| of.took("hook_ns", 90, |took| took.hook_ns.p90)),
    metric("hook_ns_p99", "hook 耗时 p99", Unit::Nanos, true, |of| of.took("hook_ns", 99, |took| took.hook_ns.p99)),
    metric("real_ns_p50", "CUDA 耗时 p50", Unit::Nanos, true, |of| {
        of.took("real_ns", 50, |took| took.real_ns.median)
    }),
    metric("real_ns_p90", "CUDA 耗时 p90", Unit::Nanos, true, |of| of.took("real_ns", 90, |took| took.real_ns.p90)),
    metric("real_ns_p99", "CUDA 耗时 p99", Unit::Nanos, true, |of| of.took("real_ns", 99, |took| took.real_ns.p99)),
    metric("rules_broken", "违反的规则", Unit::Count, false, |of| Ok(Amount::Whole(of.broken()))),
    metric("bad_lines", "无法解析的行", Unit::Count, false, |of| Ok(Amount::Whole(of.bad_lines()))),
    metric("quota_bytes", "显存配额", Unit::Bytes, false, |of| {
        of.limit(of.figures.summary.config.quota_bytes.map(Amount::Whole), of.figures.summary.config.quota_off)
    }),
    metric("rate", "速率", Unit::Rate, false, |of| {
        of.limit(of.figures.summary.config.rate.map(Amount::Real), of.figures.summary.config.rate_off)
    }),
    metric("capacity", "容量", Unit::Tokens, false, |of| {
        of.limit(of.figures.summary.config.capacity.map(Amount::Real), of.figures.summary.config.rate_off)
    }),
];

const fn metric(
    name: &'static str,
    zh: &'static str,
    unit: Unit,
    of_apis: bool,
    value: fn(&Of<'_>) -> Result<Amount, Note>,
) -> Metric {
    Metric { name, zh, unit, of_apis, value }
}

impl Metric {
    /// Its value in a log, of all calls or of those of one API.
    ///
    /// # Errors
    /// The log does not tell it; why.
    pub fn of(&self, figures: &Figures, api: Option<&str>) -> Result<Amount, Note> {
        (self.value)(&Of { figures, api })
    }
}

impl Of<'_> {
    fn sum(&self, pick: fn(&ApiFigures) -> u64) -> Amount {
        let apis = self.figures.summary.apis.iter().filter(|api| self.api.is_none_or(|name| name == api.api));
        Amount::Whole(apis.map(pick).sum())
    }

    /// Of the calls of which the log tells how they ended.
    fn denial_rate(&self) -> Result<Amount, Note> {
        let [calls, denied, unknown] =
            [self.sum(|api| api.calls), self.sum(|api| api.denied), self.sum(|api| api.unknown)];
        let told = calls.value() - unknown.value();
        if told <= 0.0 {
            return Err(Note::new("no call whose outcome the log tells", "没有已知结果的调用"));
        }
        Ok(Amount::Real(denied.value() / told))
    }

    fn longest_streak(&self) -> Result<Amount, Note> {
        let tokens = &self.figures.summary.tokens;
        if tokens.untold {
            return Err(out_of_order());
        }
        Ok(Amount::Whole(tokens.longest_denial_streak.map_or(0, |streak| streak.length)))
    }

    fn memory(&self, pick: fn(&super::summary::MemoryFigures) -> u64) -> Result<Amount, Note> {
        let memory = &self.figures.summary.memory;
        if !memory.untold {
            return Ok(Amount::Whole(pick(memory)));
        }
        if self.figures.summary.processes.iter().any(|process| process.out_of_order > 0) {
            return Err(out_of_order());
        }
        Err(Note::new("the log does not tell what was granted", "日志没有记录分到的显存"))
    }

    fn level(&self, level: Option<f64>) -> Result<Amount, Note> {
        let none = || Note::new("no level of a bucket in the log", "日志中没有令牌数");
        level.map(Amount::Real).ok_or_else(none)
    }

    fn duration(&self) -> Result<Amount, Note> {
        let time = &self.figures.summary.time;
        match time.duration_s {
            Some(_) if time.lower_bound => {
                Err(Note::new("the time is a lower bound: the bucket was full", "桶曾满, 时长只是下限"))
            }
            Some(duration) => Ok(Amount::Real(duration)),
            None if time.base == TimeBase::Sequence => Err(Note::new("no time in the log", "日志中没有时间")),
            None => Err(Note::new("no one clock covers all processes", "各进程没有共同的时钟")),
        }
    }

    /// A percentile of what measured calls took.
    fn took(&self, field: &str, percent: u64, pick: fn(&Measured) -> Option<u64>) -> Result<Amount, Note> {
        let overhead = &self.figures.summary.overhead;
        let measured = match self.api {
            Some(name) => overhead.apis.iter().find(|api| api.api == name).map(|api| &api.measured),
            None => overhead.all.as_ref(),
        };
        let Some(measured) = measured else {
            return Err(Note::new(format!("no {field} in the log"), format!("日志中没有 {field}")));
        };
        let (n, least) = (measured.n, overhead::least(percent));
        let few = || Note::new(format!("{n} times, it takes {least}"), format!("只有 {n} 个值, 至少需要 {least} 个"));
        pick(measured).map(Amount::Whole).ok_or_else(few)
    }

    fn broken(&self) -> u64 {
        self.figures.summary.checks.iter().filter(|check| check.status == Status::Fail).count() as u64
    }

    fn bad_lines(&self) -> u64 {
        self.figures.summary.inputs.iter().map(|input| input.bad_lines).sum()
    }

    fn limit(&self, limit: Option<Amount>, off: bool) -> Result<Amount, Note> {
        limit.ok_or_else(|| match off {
            true => Note::new("no limit is set", "没有限制"),
            false => Note::new("not told, or not the same in all processes", "日志未给出, 或各进程不同"),
        })
    }
}

fn out_of_order() -> Note {
    Note::new("the records can't be put in order", "记录的次序无法恢复")
}
