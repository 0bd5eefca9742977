//! cudaLaunchKernel: the burst, the refusals behind it, and the recovery. A launch may be refused or made to wait;
//! prefill-like launches may pass without a token.

use hook_event::{Dim3, Kind, Outcome};

use super::{Finding, LINES, ROUNDING, Run};
use crate::events::{Columns, Limit, Process};
use crate::program::Told;
use crate::step;

/// A launch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Launch {
    /// Its row.
    pub(super) i: usize,
    pub(super) line: u64,
    pub(super) outcome: Outcome,
    pub(super) shape: Option<(Dim3, Dim3)>,
    /// Level after it.
    pub(super) level: Option<f64>,
    /// Level after the launch before.
    before: Option<f64>,
    /// It is known to have waited for its token.
    waited: bool,
    /// Whether it may pass without a token.
    free: bool,
}

impl Launch {
    pub(super) fn is_denied(&self) -> bool {
        self.outcome == Outcome::Denied
    }

    /// Whether it came when less than a token was left, and passed with little more than the one that came for it: what
    /// waiting looks like in levels alone.
    fn seems_to_have_waited(&self) -> bool {
        let low = self.before.is_some_and(|before| before < 1.0 - ROUNDING);
        !self.is_denied() && !self.free && low && self.level.is_some_and(|level| level <= 0.3 + ROUNDING)
    }
}

/// A process's launches, in order.
pub(super) fn launches(calls: &Columns, process: &Process) -> Vec<Launch> {
    let mut before = None;
    let of = |i: usize| {
        let shape = calls.grid[i].zip(calls.block[i]);
        let level = calls.tokens[i];
        let launch = Launch {
            i,
            line: calls.line[i],
            outcome: calls.outcome[i],
            shape,
            level,
            before,
            waited: calls.wait_ns[i].is_some_and(|ns| ns > 0),
            free: calls.bypass[i] || shape.is_some_and(is_prefill_like),
        };
        before = level.or(before);
        launch
    };
    process.rows.clone().filter(|&i| calls.kind[i] == Kind::Launch).map(of).collect()
}

/// Few blocks of many threads, as the course lets pass.
fn is_prefill_like((grid, block): (Dim3, Dim3)) -> bool {
    step::count(grid) <= 2 && step::count(block) >= 256
}

/// How launches of a process are held back.
pub(super) enum Manner {
    Refuses,
    /// The launches that waited, by place; whether their log says so or their levels look like it.
    Waits(Vec<usize>, bool),
    Unseen,
}

pub(super) fn manner(run: &Run<'_>) -> Manner {
    let all = &run.launches;
    let places = |waits: fn(&Launch) -> bool| -> Vec<usize> {
        (0..).zip(all).filter(|(_, l)| waits(l)).map(|(n, _)| n).collect()
    };
    let waited = places(|launch| launch.waited);
    if !waited.is_empty() {
        return Manner::Waits(waited, true);
    }
    if all.iter().any(Launch::is_denied) {
        return Manner::Refuses;
    }
    let seem = places(Launch::seems_to_have_waited);
    if seem.len() >= 2 { Manner::Waits(seem, false) } else { Manner::Unseen }
}

/// Rate and capacity, or why nothing can be told without them.
fn settings(run: &Run<'_>) -> Result<(f64, f64), Finding> {
    if run.launches.is_empty() {
        return Err(Finding::missing(
            "the log has no launch (`<<<...>>>` of CUDA 13 calls __cudaLaunchKernel, which a hook on cudaLaunchKernel alone does not see)",
            "日志中没有启动 (CUDA 13 的 `<<<...>>>` 调用 __cudaLaunchKernel, 只拦截 cudaLaunchKernel 的 hook 看不到)",
        ));
    }
    match run.process.bucket {
        Limit::At(bucket) => Ok(bucket),
        Limit::Off => Err(Finding::missing(
            "no rate was set, as the log says; run with CUDA_CORE_RATE=5 CUDA_CORE_CAPACITY=3",
            "日志表明没有限速; 请用 CUDA_CORE_RATE=5 CUDA_CORE_CAPACITY=3 运行",
        )),
        Limit::Unknown => Err(Finding::missing("the log does not tell rate and capacity", "日志中没有速率和容量")),
    }
}

pub(super) fn lines_of<'a>(launches: impl IntoIterator<Item = &'a Launch>) -> Vec<u64> {
    launches.into_iter().map(|launch| launch.line).take(LINES).collect()
}

fn plain(level: f64) -> String {
    format!("{level:.1}")
}

/// The bucket begins full and lets as many launches through at once as it holds.
pub(super) fn burst(run: &Run<'_>) -> Finding {
    let (rate, capacity) = match settings(run) {
        Ok(settings) => settings,
        Err(missing) => return missing,
    };
    if let Some(finding) = run.broken_rule(&["starts-full", "pass-takes-one"]) {
        return finding;
    }
    if run.process.shared.is_some() {
        return Finding::missing("other processes share the bucket", "令牌桶与其他进程共享");
    }
    let all = &run.launches;
    let whole = (capacity + 1e-9).floor().max(1.0) as usize;
    // After a pass the bucket can't hold more than all but one.
    let untouched = |launch: &&Launch| {
        let above = launch.level.is_some_and(|level| level > capacity - 1.0 + ROUNDING && level <= capacity + ROUNDING);
        launch.outcome == Outcome::Ok && !launch.free && above
    };
    if let Some(launch) = all.iter().find(untouched) {
        let level = plain(launch.level.unwrap_or(0.0));
        return Finding::contradicted(
            &[launch.line],
            format!(
                "a launch passed and {level} tokens of {capacity} are left: it took none (or the level is printed before it did)"
            ),
            format!("放行之后仍有 {level} / {capacity} 个令牌: 没有消耗令牌 (或打印的是消耗之前的值)"),
        );
    }
    let (first, how) = match manner(run) {
        Manner::Refuses => (all.iter().position(Launch::is_denied), false),
        Manner::Waits(places, _) => (places.first().copied(), true),
        Manner::Unseen => (None, false),
    };
    let Some(first) = first else {
        return Finding::missing(
            format!("no launch found the bucket empty: launch more than {whole} at once"),
            format!("没有启动遇到空桶: 请连续启动超过 {whole} 次"),
        );
    };
    let passed: Vec<&Launch> =
        all[..first].iter().filter(|launch| launch.outcome == Outcome::Ok && !launch.free).collect();
    let (n, line) = (passed.len(), all[first].line);
    let mut lines = lines_of(passed.iter().rev().take(LINES - 1).rev().copied());
    lines.push(line);
    if n >= whole {
        let (then, then_zh) = if how { ("waited", "等待") } else { ("was refused", "被拒绝") };
        return Finding::shown(
            &lines,
            format!("{n} launches passed, then one {then}; the burst is {whole}, each 1/{rate} s brings one more"),
            format!("先放行 {n} 次, 随后一次{then_zh}; burst 为 {whole}, 每 1/{rate} s 恢复一个"),
        );
    }
    // Lines of several threads may stand in another order than their calls.
    let level = all[first].level.unwrap_or(0.0);
    let reordered = |launch: &Launch| !launch.is_denied() && launch.level.is_some_and(|next| next > level + ROUNDING);
    if how || all[..first].iter().any(|launch| launch.free) || all[first + 1..].iter().take(4).any(reordered) {
        return Finding::missing(
            format!(
                "{n} launches of the burst of {whole} stand before the first that was held back; their order is not sure"
            ),
            format!("首次受限之前只有 {n} 次放行 (burst 为 {whole}), 行的次序不可靠, 无法判断"),
        );
    }
    Finding::contradicted(
        &lines,
        format!(
            "a launch is refused after {n}, though the burst is {whole}: the bucket did not begin full, or lost tokens"
        ),
        format!("放行 {n} 次后即被拒绝, 而 burst 为 {whole}: 桶不是从满开始, 或多扣了令牌"),
    )
}

/// Behind the burst launches are refused, or wait.
pub(super) fn refusal(run: &Run<'_>) -> Finding {
    if let Err(missing) = settings(run) {
        return missing;
    }
    let rules = [
        "denied-only-when-empty",
        "tokens-in-range",
        "denial-takes-none",
        "passed-only-with-token",
        "admitted-within-rate",
    ];
    if let Some(finding) = run.broken_rule(&rules) {
        return finding;
    }
    let all = &run.launches;
    let program = run.told(|told| match told {
        Told::Burst { passed, refused: 0 } => Some(*passed),
        _ => None,
    });
    let program = program.map(|(_, passed)| passed);
    match manner(run) {
        Manner::Refuses => {
            let first = all.iter().position(Launch::is_denied).unwrap_or(0);
            let streak: Vec<&Launch> = all[first..].iter().take_while(|launch| launch.is_denied()).collect();
            let (n, level) = (streak.len(), plain(streak[0].level.unwrap_or(0.0)));
            Finding::shown(
                &lines_of(streak),
                format!(
                    "{n} launches in a row are refused with {level} tokens left, less than the one that each needs"
                ),
                format!("连续 {n} 次被拒绝, 当时剩余 {level} 个令牌, 不足一个"),
            )
        }
        Manner::Waits(places, said) => {
            let (n, lines) = (places.len(), lines_of(places.iter().map(|&place| &all[place])));
            let (how, how_zh) = if said {
                ("as the log says", "日志有记录")
            } else {
                (
                    "by their levels: each passed with the token that had just come",
                    "由令牌数推断: 每次都在刚补足一个时放行",
                )
            };
            let (counted, counted_zh) = match program {
                Some(passed) => (
                    format!("; the test program counts 通过={passed}, 拒绝=0"),
                    format!("; 测试程序也计得 通过={passed}, 拒绝=0"),
                ),
                None => (String::new(), String::new()),
            };
            Finding::shown(
                &lines,
                format!("{n} launches waited for a token in place of being refused, which is allowed ({how}{counted})"),
                format!("{n} 次启动等到令牌才放行而不是被拒绝, 这是允许的做法 ({how_zh}{counted_zh})"),
            )
        }
        Manner::Unseen => match program {
            Some(passed) => Finding::missing(
                format!(
                    "all launches passed and none is seen to wait, as the test program counts too (通过={passed}, 拒绝=0)"
                ),
                format!("启动全部放行, 也看不出等待; 测试程序同样计得 通过={passed}, 拒绝=0"),
            ),
            None => {
                Finding::missing("no launch was refused, and none is seen to wait", "没有被拒绝的启动, 也看不出等待")
            }
        },
    }
}

/// After a pause launches pass again.
pub(super) fn recovery(run: &Run<'_>) -> Finding {
    let (rate, capacity) = match settings(run) {
        Ok(settings) => settings,
        Err(missing) => return missing,
    };
    if let Some(finding) = run.broken_rule(&["refill-at-rate"]) {
        return finding;
    }
    let all = &run.launches;
    let none_came = run.told(|told| matches!(told, Told::Recovery { passed: 0 }).then_some(()));
    if let Some((line, ())) = none_came {
        return run.by_program(Finding::contradicted(
            &[line],
            "the test program counts no pass after its pause",
            "测试程序在等待之后没有一次通过",
        ));
    }
    match manner(run) {
        Manner::Waits(places, _) => Finding::shown(
            &lines_of(places.iter().map(|&place| &all[place])),
            "launches that found the bucket empty passed as tokens came",
            "遇到空桶的启动在令牌补充后放行",
        ),
        Manner::Unseen => Finding::missing("no launch found the bucket empty", "没有启动遇到空桶"),
        Manner::Refuses => {
            let recovered = |place: &usize| {
                let (denied, next) = (&all[*place], &all[*place + 1]);
                denied.is_denied() && !next.is_denied() && !next.free
            };
            let Some(place) = (0..all.len().saturating_sub(1)).find(recovered) else {
                let line = all.iter().rev().find(|launch| launch.is_denied()).map_or(0, |launch| launch.line);
                return Finding::missing(
                    format!(
                        "after the refusals up to line {line} no launch passed: none came after a pause, or no tokens come back"
                    ),
                    format!("直到第 {line} 行的拒绝之后再没有放行: 没有等待后的启动, 或令牌没有恢复"),
                );
            };
            let passed: Vec<&Launch> = all[place + 1..].iter().take_while(|launch| !launch.is_denied()).collect();
            let mut lines = vec![all[place].line];
            lines.extend(lines_of(passed.iter().take(LINES - 1).copied()));
            let n = passed.len();
            let gained = all[place].level.zip(passed[0].level).map(|(before, after)| after + 1.0 - before);
            // A bucket that is full again may have been so for longer.
            let full = passed[0].level.is_some_and(|level| level >= capacity - 1.0 - ROUNDING);
            let (least, least_zh) = if full { ("at least ", "至少") } else { ("", "") };
            let (gained, gained_zh) = match gained.filter(|&gained| gained > 0.0) {
                Some(gained) => {
                    let s = gained / rate;
                    (
                        format!(": {gained:.1} of {capacity} tokens came back, in {least}{s:.1} s at {rate} tokens/s"),
                        format!(": 恢复了 {gained:.1} / {capacity} 个令牌, 按 {rate} tokens/s 用了{least_zh} {s:.1} s"),
                    )
                }
                None => (String::new(), String::new()),
            };
            Finding::shown(
                &lines,
                format!("after a refusal {n} launches pass again{gained}"),
                format!("被拒绝之后又放行 {n} 次{gained_zh}"),
            )
        }
    }
}
