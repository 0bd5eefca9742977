//! The summary on a terminal, in lines of 80 columns.

/// Writing into a `String` can't fail.
macro_rules! line {
    ($out:expr, $($arg:tt)*) => { { let _ = writeln!($out, $($arg)*); } };
}

mod buckets;
mod curves;
mod rules;

use std::collections::BTreeSet;
use std::fmt::Write;

use super::Lang;
use super::page::{fit, name, table};
use super::text::{bound, classes, dims, mb, percent, plain, printable, seconds};
use crate::analysis::TimeBase;
use crate::analysis::summary::{ApiFigures, Summary};

/// Shapes shown before `… more`.
const SHOWN: usize = 10;

/// Streaks shown: what fits on a line of 80 columns.
const STREAKS: usize = 2;

/// The summary as text.
pub fn summary(s: &Summary, lang: Lang) -> String {
    let mut out = String::new();
    inputs(&mut out, s, lang);
    filter(&mut out, s, lang);
    limits(&mut out, s, lang);
    calls(&mut out, s, lang);
    memory(&mut out, s, lang);
    tokens(&mut out, s, lang);
    shapes(&mut out, s, lang);
    curves::all(&mut out, s, lang);
    closing(&mut out, s, lang);
    buckets::others(&mut out, s, lang);
    fit(&out)
}

/// The rules alone, a line each.
pub fn checks(s: &Summary, lang: Lang) -> String {
    let mut out = String::new();
    rules::each(&mut out, s, lang);
    fit(&out)
}

/// The summary on one line; `before` is how many calls the line before counted.
pub fn brief(s: &Summary, before: u64, lang: Lang) -> String {
    let sum = |pick: fn(&ApiFigures) -> u64| s.apis.iter().map(pick).sum::<u64>();
    let (calls, denied, failed) = (sum(|api| api.calls), sum(|api| api.denied), sum(|api| api.failed));
    let more = calls.saturating_sub(before);
    let mut text = match lang {
        Lang::Zh => format!("调用 {calls} (+{more}), 拒绝 {denied}, CUDA 失败 {failed}"),
        Lang::En => format!("calls {calls} (+{more}), denied {denied}, failed {failed}"),
    };
    if !s.memory.untold {
        let (live, peak) = (mb(s.memory.live_bytes), mb(s.memory.peak_bytes));
        let _ = match lang {
            Lang::Zh => write!(text, "; 显存 {live}, 峰值 {peak}"),
            Lang::En => write!(text, "; live {live}, peak {peak}"),
        };
    }
    if let Some(tokens) = s.tokens.last {
        let _ = write!(text, "; {} {}", lang.pick("令牌", "tokens"), plain(tokens));
    }
    text
}

fn inputs(out: &mut String, s: &Summary, lang: Lang) {
    for input in &s.inputs {
        let counts = lang.pick("行, 其中", "lines:");
        line!(
            out,
            "{}: {} {counts} {} {}, {} {}, {} {}",
            printable(&input.path),
            input.lines,
            input.events,
            lang.pick("条 hook 记录", "hook records"),
            input.other_lines,
            lang.pick("行其他程序输出", "of other programs"),
            input.bad_lines,
            lang.pick("行无法解析", "not understood"),
        );
        if input.lines > 0 {
            line!(out, "  {}: {}", lang.pick("行的类别", "lines"), classes(&input.classes, lang));
        }
    }
    line!(out, "");
}

fn filter(out: &mut String, s: &Summary, lang: Lang) {
    let Some(filter) = &s.filter else { return };
    let (chosen, calls, of) = (printable(&filter.chosen), filter.calls, filter.of);
    let some = !filter.left_out.is_empty();
    line!(
        out,
        "{}",
        match (lang, some) {
            (Lang::Zh, true) => format!(
                "筛选: {chosen}; {of} 次调用中的 {calls} 次。次数只含这些调用; 显存与令牌须由全部调用得出, 不列出; 规则按全部调用检查"
            ),
            (Lang::En, true) => format!(
                "filter: {chosen}; {calls} of {of} calls. Counts are of these; memory and tokens, which take all calls, are left out; rules are checked over all calls"
            ),
            (Lang::Zh, false) => format!("筛选: {chosen}; 以下只含这些进程"),
            (Lang::En, false) => format!("filter: {chosen}; all that follows is of these processes"),
        }
    );
    line!(out, "");
}

fn limits(out: &mut String, s: &Summary, lang: Lang) {
    let (config, processes) = (&s.config, s.processes.len());
    let none = |off: bool| {
        let text = if off {
            lang.pick("无限制 (仅记录)", "none (recording only)")
        } else {
            lang.pick("未知", "unknown")
        };
        text.to_owned()
    };
    let quota = config.quota_bytes.map_or_else(|| none(config.quota_off), mb);
    let bucket = match (config.rate, config.capacity) {
        (Some(rate), Some(capacity)) => {
            let burst = lang.pick("容量", "capacity");
            format!("{} tokens/s, {burst} {}", plain(rate), plain(capacity))
        }
        _ => none(config.rate_off),
    };
    line!(out, "{}: {quota}    {}: {bucket}", lang.pick("显存配额", "quota"), lang.pick("算力限速", "rate"));
    if !s.shared.is_empty() {
        line!(out, "{}: {}", lang.pick("共享限额", "shared"), printable(&s.shared.join(", ")));
    }
    let devices: BTreeSet<(i32, u64)> = s
        .processes
        .iter()
        .flat_map(|process| &process.device_quotas)
        .map(|(&device, &bytes)| (device, bytes))
        .collect();
    for (device, bytes) in devices {
        line!(out, "{} {device}: {}", lang.pick("显存配额, 设备", "quota on device"), mb(bytes));
    }
    if processes > 1 {
        line!(out, "{}: {processes}", lang.pick("进程数", "processes"));
    }
    line!(out, "");
}

fn calls(out: &mut String, s: &Summary, lang: Lang) {
    let head = ["API", lang.pick("调用", "calls"), lang.pick("通过", "ok"), lang.pick("拒绝", "denied")];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows[0].push(lang.pick("CUDA 失败", "failed").to_owned());
    // Of functions that are only counted the first; each whose calls passed or not is shown.
    let mut counted = 0;
    let mut shown = |api: &&ApiFigures| {
        counted += usize::from(api.unknown == api.calls);
        api.unknown < api.calls || counted <= SHOWN
    };
    let apis: Vec<&ApiFigures> = s.apis.iter().filter(&mut shown).collect();
    let more = s.apis.len() - apis.len();
    let unknown = s.apis.iter().any(|api| api.unknown > 0);
    if unknown {
        rows[0].push(lang.pick("结果未记录", "outcome not told").to_owned());
    }
    rows[0].push(lang.pick("拒绝率", "denial rate").to_owned());
    for api in apis {
        rows.push(vec![
            name(&api.api),
            api.calls.to_string(),
            api.ok.to_string(),
            api.denied.to_string(),
            api.failed.to_string(),
        ]);
        if let Some(row) = rows.last_mut() {
            row.extend(unknown.then(|| api.unknown.to_string()));
            // Of calls whose outcome is known.
            row.push(percent(api.denied, api.calls - api.unknown).unwrap_or_else(|| "—".to_owned()));
        }
    }
    out.push_str(&table(&rows));
    if more > 0 {
        line!(
            out,
            "  … +{more} {}",
            lang.pick("个结果未记录的 API (见 --json)", "APIs of untold outcome (see --json)")
        );
    }
    line!(out, "");
}

fn memory(out: &mut String, s: &Summary, lang: Lang) {
    let m = &s.memory;
    if m.untold && s.filter.as_ref().is_some_and(|filter| !filter.left_out.is_empty()) {
        return;
    }
    if m.untold {
        let text = if s.processes.iter().any(|process| process.out_of_order > 0) {
            lang.pick("记录的次序无法恢复", "the records can't be put in order")
        } else {
            lang.pick("日志没有记录分到的显存", "the log does not tell what was granted")
        };
        line!(out, "{}: {text}", lang.pick("显存", "memory"));
        return;
    }
    let share = s.own_quota().filter(|_| s.memory_is_sure()).and_then(|quota| percent(m.peak_bytes, quota));
    let share = share.map(|share| match lang {
        Lang::Zh => format!(" (配额的 {share})"),
        Lang::En => format!(" ({share} of the quota)"),
    });
    let (peak, live) = (lang.pick("峰值", "peak"), lang.pick("结束时", "live at the end"));
    let (share, memory) = (share.unwrap_or_default(), lang.pick("显存", "memory"));
    line!(out, "{memory}: {peak} {}{share}, {live} {}", mb(m.peak_bytes), mb(m.live_bytes));
    let (allocated, freed) = (lang.pick("累计分配", "allocated"), lang.pick("累计释放", "freed"));
    line!(out, "  {allocated} {}, {freed} {}", mb(m.allocated_bytes), mb(m.freed_bytes));
    if !s.memory_is_sure() {
        let text = lang.pick(
            "以上由日志按指针重放, 与日志所记的总量不一致, 见 total-matches",
            "replayed by pointers; the totals in the log differ, see total-matches",
        );
        line!(out, "  {text}");
    }
    if m.unknown_frees > 0 {
        line!(out, "  {}: {}", lang.pick("释放了未见分配的地址", "frees of unknown addresses"), m.unknown_frees);
    }
}

fn tokens(out: &mut String, s: &Summary, lang: Lang) {
    let t = &s.tokens;
    if t.untold {
        return;
    }
    if let (Some(min), Some(max)) = (t.min, t.max) {
        let ends = t.first.zip(t.last).map(|(first, last)| {
            format!(", {} {}, {} {}", lang.pick("首", "first"), plain(first), lang.pick("末", "last"), plain(last))
        });
        line!(
            out,
            "{}: {} {}, {} {}{}",
            lang.pick("令牌", "tokens"),
            lang.pick("最低", "min"),
            plain(min),
            lang.pick("最高", "max"),
            plain(max),
            ends.unwrap_or_default(),
        );
    }
    if !t.denial_streaks.is_empty() {
        let many = s.processes.len() > 1;
        let streaks: Vec<String> = t
            .denial_streaks
            .iter()
            .take(STREAKS)
            .map(|streak| {
                let of = if many {
                    format!("{} {}{} ", lang.pick("进程", "process"), streak.process + 1, lang.pick("", ":"))
                } else {
                    String::new()
                };
                match lang {
                    Lang::Zh => format!("{of}第 {} 次调用起 {} 次", streak.first_call, streak.length),
                    Lang::En => format!("{of}{} from call {}", streak.length, streak.first_call),
                }
            })
            .collect();
        let more = t.denial_streak_count.saturating_sub(STREAKS as u64);
        let more = if more > 0 { format!(" (+{more})") } else { String::new() };
        line!(
            out,
            "{} ({}): {}{more}",
            lang.pick("连续拒绝", "denial streaks"),
            t.denial_streak_count,
            streaks.join(lang.pick("; ", "; "))
        );
    }
    starvation(out, s, lang);
    fairness(out, s, lang);
    line!(out, "");
}

fn starvation(out: &mut String, s: &Summary, lang: Lang) {
    let Some(worst) = &s.starvation else { return };
    let episode = &worst.episode;
    let many = s.processes.len() > 1;
    let of = if many {
        format!("{} {}{} ", lang.pick("进程", "process"), episode.process + 1, lang.pick("", ":"))
    } else {
        String::new()
    };
    let sign = bound(worst.lower_bound, episode.base);
    let bound = if sign.is_empty() { String::new() } else { format!("{sign} ") };
    let (lasted, first) = (seconds(worst.seconds), episode.first_line);
    let text = match (lang, episode.recovered_line) {
        (Lang::Zh, Some(line)) => format!("{of}第 {first} 行起 {bound}{lasted}, 第 {line} 行恢复"),
        (Lang::Zh, None) => format!("{of}第 {first} 行起 {bound}{lasted}, 直到日志结束"),
        (Lang::En, Some(line)) => format!("{of}{bound}{lasted} from line {first}, let through again on line {line}"),
        (Lang::En, None) => format!("{of}{bound}{lasted} from line {first} to the end of the log"),
    };
    line!(out, "{}: {text}", lang.pick("最长无放行", "longest starvation"));
}

fn fairness(out: &mut String, s: &Summary, lang: Lang) {
    let Some(fairness) = &s.fairness else { return };
    if let Some(index) = fairness.all.index {
        let (name, n) = (lang.pick("公平性 (Jain 指数)", "fairness (Jain's index)"), fairness.all.processes);
        let text = match lang {
            Lang::Zh => format!("{}, {n} 个进程的放行次数", plain(index)),
            Lang::En => format!("{} over the launches let through of {n} processes", plain(index)),
        };
        line!(out, "{name}: {text}");
    }
}

/// Of the API with most measured calls.
fn overhead(out: &mut String, s: &Summary, lang: Lang) {
    let most = s.overhead.apis.iter().rev().max_by_key(|api| api.measured.n);
    let Some((api, hook, real)) =
        most.and_then(|api| Some((api, api.measured.hook_ns.median?, api.measured.real_ns.median?)))
    else {
        return;
    };
    let text = |ns: u64| seconds(ns as f64 / 1e9);
    let (name, hook, real, n) = (name(&api.api), text(hook), text(real), api.measured.n);
    match lang {
        Lang::Zh => line!(out, "hook 开销: {name} +{hook}, 调用本身 {real} (测量 {n} 次, 中位数)"),
        Lang::En => line!(out, "hook overhead: {name} +{hook}, the call itself {real} (medians of {n})"),
    }
}

fn shapes(out: &mut String, s: &Summary, lang: Lang) {
    if s.dims.is_empty() {
        return;
    }
    let head = ["grid", "block", lang.pick("启动", "launches"), lang.pick("拒绝", "denied")];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for shape in s.dims.iter().take(SHOWN) {
        rows.push(vec![dims(shape.grid), dims(shape.block), shape.calls.to_string(), shape.denied.to_string()]);
    }
    out.push_str(&table(&rows));
    if s.dims.len() > SHOWN {
        line!(out, "  … +{} {}", s.dims.len() - SHOWN, lang.pick("种形状 (见 --json)", "shapes (see --json)"));
    }
    line!(out, "");
}

pub(super) fn base(base: TimeBase, lang: Lang) -> &'static str {
    match base {
        TimeBase::Monotonic => lang.pick("单调时钟", "monotonic clock"),
        TimeBase::Wall => lang.pick("日志行前的时间", "the times before the lines"),
        TimeBase::Inferred => lang.pick("由令牌增长推算", "inferred from token growth"),
        TimeBase::Sequence => lang.pick("日志中没有时间, 只有调用序号", "no time in the log, calls are numbered"),
    }
}

fn closing(out: &mut String, s: &Summary, lang: Lang) {
    let time = &s.time;
    let base = base(time.base, lang);
    let error = time.error_s.map(|error| format!(" ± {}", seconds(error))).unwrap_or_default();
    let bound = match (time.base, time.lower_bound) {
        (TimeBase::Inferred, true) => lang.pick("首末两次启动之间至少 ", "first to last launch ≥ "),
        (TimeBase::Inferred, false) => lang.pick("首末两次启动之间约 ", "first to last launch ≈ "),
        (TimeBase::Wall, true) => lang.pick("至少 ", "at least "),
        _ => "",
    };
    let length = time.duration_s.map(|length| format!("{bound}{}{error} ", seconds(length))).unwrap_or_default();
    line!(out, "{}: {length}({base})", lang.pick("时长", "duration"));
    overhead(out, s, lang);
    rules::brief(out, s, lang);
    if let Some(coverage) = s.coverage.statement() {
        line!(out, "{}", printable(lang.pick(&coverage.zh, &coverage.en)));
    }
    for note in &s.notes {
        line!(out, "{}: {}", lang.pick("注意", "note"), printable(lang.pick(&note.zh, &note.en)));
    }
}
