//! What there is to say of one line, as text.

/// Writing into a `String` can't fail.
macro_rules! line {
    ($out:expr, $($arg:tt)*) => { { let _ = writeln!($out, $($arg)*); } };
}

mod launch;
mod memory;

use std::fmt::Write;

use chrono::{DateTime, SecondsFormat};

use super::Lang;
use super::terminal::base;
use super::text::{printable, seconds};
use crate::analysis::TimeBase;
use crate::analysis::explain::{About, Call, Explanation, Moment};
use crate::classes::Class;
use crate::parse::look::{Looked, Record};

/// Characters shown of a line.
const WIDTH: usize = 200;

/// The explanation as text.
pub fn text(explanation: &Explanation, lang: Lang) -> String {
    let mut out = String::new();
    let text: String = explanation.text.iter().flat_map(|text| text.trim_end().chars()).take(WIDTH).collect();
    line!(out, "{}:{}: {}", printable(&explanation.path), explanation.line, printable(&text));
    if explanation.calls.is_empty() {
        line!(out, "{}", class(explanation.looked.as_ref(), lang));
    }
    explanation.calls.iter().for_each(|one| call(&mut out, one, lang));
    for check in &explanation.broken {
        let detail = printable(lang.pick(&check.detail_zh, &check.detail));
        match lang {
            Lang::Zh => line!(out, "  违反规则 {}: {detail}", check.id),
            Lang::En => line!(out, "  breaks the rule {}: {detail}", check.id),
        }
    }
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
        About::Launch(one) => launch::launch(out, one, call, lang),
        About::Alloc(one) => memory::alloc(out, one, call, lang),
        About::Free(one) => memory::free(out, one, call, lang),
        About::Reset(one) => memory::reset(out, one, lang),
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
