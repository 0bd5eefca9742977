//! What the page's script draws, as JSON that can stand in a page.

use hook_event::Outcome;
use serde::Serialize;

use super::thin::{self, Mark};
use crate::analysis::TimeBase;
use crate::analysis::outcomes::{self, Intervals};
use crate::analysis::series::{Bytes, ProcessSeries, Series};
use crate::analysis::summary::Analysis;
use crate::events::{Events, NameId};
use crate::render::Lang;
use crate::render::report::shown;
use crate::render::text::{dims, mb};

/// Parts of the width of a chart in which a curve keeps its extremes, over all processes.
const COLUMNS: usize = 3_000;
/// Marks of one kind, over all processes.
const MARKS: usize = 8_000;
/// Intervals of the chart of outcomes.
const INTERVALS: usize = 60;
/// Breaks of the time axis, of a process.
const BREAKS: f64 = 1_000.0;
/// Denials in the list.
const LISTED: usize = 5_000;
/// Characters of a name: mangled names of templates take thousands.
const NAME: usize = 200;

#[derive(Serialize)]
struct Data {
    axes: Axes,
    processes: Vec<Curves>,
    /// Passes, denials and failures of launches: all, and drawn.
    launches: Count,
    /// The same of refused requests for memory.
    requests: Count,
    outcomes: (Option<Bars>, Bars),
    denials: Denials,
    texts: Texts,
}

/// What the horizontal axes say; no time where the log has none.
#[derive(Serialize)]
struct Axes {
    time: Option<&'static str>,
    call: &'static str,
}

#[derive(Default, Serialize)]
struct Count {
    all: usize,
    drawn: usize,
}

/// x and y.
type Line = (Vec<f64>, Vec<f64>);

#[derive(Serialize)]
struct Curves {
    name: String,
    /// Over time and over calls.
    level: (Line, Line),
    capacity: Option<f64>,
    passed: Vec<Mark>,
    denied: Vec<Mark>,
    failed: Vec<Mark>,
    live: (Line, Line),
    quota: Option<f64>,
    /// Times before which more may have passed than the axis shows.
    breaks: Vec<f64>,
    /// Height: what would have been live.
    refused: Vec<Mark>,
}

#[derive(Serialize)]
struct Bars {
    from: f64,
    to: f64,
    counts: Vec<[u64; 3]>,
}

/// Process, call, time, API (in `names`), what, kernel (in `names`), tokens, line of the log.
type Row = (usize, u64, Option<f64>, usize, String, Option<usize>, Option<f64>, u64);

#[derive(Default, Serialize)]
struct Denials {
    all: usize,
    names: Vec<String>,
    rows: Vec<Row>,
}

/// The data of the page.
pub(super) fn json(
    events: &Events,
    analysis: &Analysis,
    series: &Series,
    lang: Lang,
) -> Result<String, serde_json::Error> {
    let (by_time, by_call) = outcomes::intervals(events, analysis, series, INTERVALS);
    let bars = |of: Intervals| Bars { from: of.ends.0, to: of.ends.1, counts: of.counts };
    let timed = series.base != TimeBase::Sequence;
    let (mut launches, mut requests) = (Count::default(), Count::default());
    let share = series.processes.len().max(1);
    let processes: Vec<Curves> = series.processes.iter().map(|of| curves(events, of, share, series.end)).collect();
    for (of, drawn) in series.processes.iter().zip(&processes) {
        launches.all += of.launches.len();
        launches.drawn += drawn.passed.len() + drawn.denied.len() + drawn.failed.len();
        requests.all += of.refused.len();
        requests.drawn += drawn.refused.len();
    }
    let data = Data {
        axes: Axes { time: timed.then(|| time_axis(series, lang)), call: lang.pick("调用序号", "call number") },
        processes,
        launches,
        requests,
        outcomes: (timed.then(|| bars(by_time)), bars(by_call)),
        denials: listed(events, analysis, series),
        texts: Texts::of(lang),
    };
    // In a page a script's data end at `</script`, wherever that stands.
    let mut json = serde_json::to_string(&data)?;
    for (c, code) in
        [('<', "\\u003c"), ('>', "\\u003e"), ('&', "\\u0026"), ('\u{2028}', "\\u2028"), ('\u{2029}', "\\u2029")]
    {
        json = json.replace(c, code);
    }
    Ok(json)
}

fn time_axis(series: &Series, lang: Lang) -> &'static str {
    match (series.base, series.lower_bound) {
        (TimeBase::Inferred, false) => lang.pick("时间 (由令牌增长推算)", "time (inferred from token growth)"),
        (TimeBase::Inferred, true) => lang.pick(
            "时间 (由令牌增长推算, 桶满处为下界 ≥)",
            "time (inferred from token growth, a lower bound ≥ where the bucket was full)",
        ),
        (TimeBase::Wall, false) => lang.pick("时间 (日志行前的时间)", "time (of the times before the lines)"),
        (TimeBase::Wall, true) => lang.pick(
            "时间 (日志行前的时间, 时钟曾被回拨, 该处为下界 ≥)",
            "time (of the times before the lines; a lower bound ≥ where the clock was set back)",
        ),
        (TimeBase::Monotonic, _) => lang.pick("时间 (单调时钟)", "time (monotonic clock)"),
        (TimeBase::Sequence, _) => lang.pick("调用序号", "call number"),
    }
}

fn curves(events: &Events, of: &ProcessSeries, share: usize, end: f64) -> Curves {
    let (columns, most) = ((COLUMNS / share).max(16), (MARKS / share).max(32));
    let line = |points: Vec<(f64, f64)>| thin::curve(&points, columns).into_iter().unzip();
    let outcome = |outcome: Outcome| {
        let marks = of.launches.iter().filter(|launch| launch.outcome == outcome);
        thin::marks(&marks.map(|launch| (launch.at, launch.call, launch.tokens)).collect::<Vec<_>>(), most)
    };
    let bytes = |pick: fn(&Bytes) -> f64| line(of.live.iter().map(|corner| (pick(corner), corner.bytes)).collect());
    let refused: Vec<Mark> = of.refused.iter().map(|request| (request.at, request.call, request.live)).collect();
    let process = &events.processes[of.process];
    let pid = process.pid.map_or(format!("#{}", of.process + 1), |pid| format!("pid {pid}"));
    let exe = process.exe.as_deref().and_then(|exe| exe.rsplit('/').next());
    Curves {
        name: exe.map_or(pid.clone(), |exe| format!("{} ({pid})", name(exe))),
        level: (line(of.level.clone()), line(of.launches.iter().map(|launch| (launch.call, launch.tokens)).collect())),
        capacity: of.capacity,
        passed: outcome(Outcome::Ok),
        denied: outcome(Outcome::Denied),
        failed: outcome(Outcome::Failed),
        live: (bytes(|corner| corner.at), bytes(|corner| corner.call)),
        quota: of.quota,
        breaks: breaks(of, end),
        refused: thin::marks(&refused, most),
    }
}

/// Those that a chart has room for.
fn breaks(of: &ProcessSeries, end: f64) -> Vec<f64> {
    let mut last = f64::NEG_INFINITY;
    let mut breaks = Vec::new();
    for &at in of.breaks.iter().filter(|at| at.is_finite()) {
        if at - last > end / BREAKS {
            breaks.push(at);
            last = at;
        }
    }
    breaks
}

fn name(text: &str) -> String {
    let mut name: String = text.chars().take(NAME).map(shown).collect();
    if name.len() < text.len() && text.chars().count() > NAME {
        name.push('…');
    }
    name
}

fn listed(events: &Events, analysis: &Analysis, series: &Series) -> Denials {
    let calls = &events.calls;
    let mut ids: Vec<NameId> = Vec::new();
    let mut index = |id: NameId| {
        ids.iter().position(|known| *known == id).unwrap_or_else(|| {
            ids.push(id);
            ids.len() - 1
        })
    };
    let shown_index = |process: usize| series.processes.iter().position(|of| of.process == process).unwrap_or(0);
    let mut denials = Denials::default();
    for denial in outcomes::of(events, analysis, series) {
        denials.all += 1;
        if denials.rows.len() == LISTED {
            continue;
        }
        let i = denial.row;
        let what = match (calls.size[i], calls.grid[i], calls.block[i]) {
            (Some(size), _, _) => mb(size),
            (_, Some(grid), Some(block)) => {
                format!("{} × {}", dims([grid.x, grid.y, grid.z]), dims([block.x, block.y, block.z]))
            }
            _ => String::new(),
        };
        let (api, kernel) = (index(calls.api[i]), calls.kernel[i].map(&mut index));
        let process = shown_index(denial.process);
        denials.rows.push((process, denial.call, denial.at, api, what, kernel, calls.tokens[i], calls.line[i]));
    }
    denials.names = ids.into_iter().map(|id| name(events.names.text(id))).collect();
    denials
}

macro_rules! texts {
    ($($key:ident: $zh:literal, $en:literal;)*) => {
        /// What the script says.
        #[derive(Serialize)]
        struct Texts { $($key: &'static str,)* }

        impl Texts {
            fn of(lang: Lang) -> Texts {
                Texts { $($key: lang.pick($zh, $en),)* }
            }
        }
    };
}

texts! {
    tokens: "令牌数", "tokens";
    level: "令牌数", "token level";
    capacity: "桶容量", "capacity";
    passed: "通过", "passed";
    denied: "被拒绝", "denied";
    failed: "CUDA 返回错误", "refused by CUDA";
    live: "已用显存", "live memory";
    quota: "配额", "quota";
    refused: "被拒绝的申请 (若批准的总量)", "refused request (what the total would have been)";
    launches: "启动次数", "launches";
    call: "调用", "call";
    all: "全部", "all";
    none: "无", "none";
    matching: "符合条件", "matching";
    of: "共", "of";
    more: "显示更多", "show more";
    drawn_all: "全部画出", "all drawn";
    drawn: "画出", "drawn";
    zoom_in: "放大", "zoom in";
    zoom_out: "缩小", "zoom out";
    left: "左移", "move left";
    right: "右移", "move right";
    reset: "复位", "reset";
    would_be: "若批准", "would have been";
    hover: "拖选一段横轴可放大, 双击复位; 指向标记可看详情。", "Drag along the axis to zoom, double-click to reset; point at a mark for its figures.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_cut_between_characters() {
        assert_eq!(name("a\u{202e}b"), "a\u{fffd}b");
        assert_eq!(name(&"核".repeat(300)).chars().count(), NAME + 1);
        assert_eq!(name(&"核".repeat(NAME)).chars().count(), NAME);
    }
}
