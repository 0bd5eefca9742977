//! The log itself, and what an analysis can tell from it. The analysis's text is not judged here.

use hook_event::{Kind, Outcome};

use super::{Finding, LINES, Run, source};
use crate::classes::Class;
use crate::events::Limit;

/// The settings and every call have their line, and no line is damaged.
pub(super) fn complete(run: &Run<'_>) -> Finding {
    let source = run.events.sources.get(source(run) as usize);
    let first = |class| source.and_then(|source| source.classes.of(class).first_line());
    if let Some(line) = [Class::Torn, Class::Undecodable].into_iter().filter_map(first).min() {
        return Finding::contradicted(
            &[line],
            "a line is torn or damaged, and calls may be missing",
            "这一行残缺或损坏, 可能缺少调用",
        );
    }
    let process = run.process;
    if process.quota == Limit::Unknown || process.bucket == Limit::Unknown {
        let (what, what_zh) = match (process.quota == Limit::Unknown, process.bucket == Limit::Unknown) {
            (true, true) => ("neither quota nor rate", "没有显存配额行和算力限速行"),
            (true, false) => ("no quota", "没有显存配额行"),
            _ => ("no rate", "没有算力限速行"),
        };
        return Finding::missing(format!("the log states {what}"), what_zh);
    }
    let unknown = source.map_or(0, |source| source.bad_lines);
    let last = process.rows.clone().map(|i| run.line(i)).max().unwrap_or(process.first_line);
    let (more, more_zh) = match unknown {
        0 => (String::new(), String::new()),
        n => (format!("; {n} [HOOK] lines of another form"), format!("; 另有 {n} 行其他格式的 [HOOK] 行")),
    };
    Finding::shown(
        &[process.first_line, last],
        format!("settings and {} calls, none torn{more}", process.rows.len()),
        format!("有配置行和 {} 次调用, 没有残缺的行{more_zh}", process.rows.len()),
    )
}

/// The questions of the analysis can be answered from it: requests and refusals, and tokens over time.
pub(super) fn analysis(run: &Run<'_>) -> Finding {
    let calls = run.calls;
    let count = |kind: Kind| {
        let denied = run.of_kind(kind).filter(|&i| calls.outcome[i] == Outcome::Denied).count();
        (run.of_kind(kind).count(), denied)
    };
    let ((allocs, refused), (launches, denied)) = (count(Kind::Alloc), count(Kind::Launch));
    let levels: Vec<u64> =
        run.of_kind(Kind::Launch).filter(|&i| calls.tokens[i].is_some()).map(|i| run.line(i)).collect();
    if allocs == 0 || levels.len() < 2 {
        let (what, what_zh) = match (allocs, levels.len()) {
            (0, 0 | 1) => ("allocations and token levels", "显存申请和令牌数"),
            (0, _) => ("allocations", "显存申请"),
            _ => ("token levels of at least two launches", "至少两次启动的令牌数"),
        };
        return Finding::missing(
            format!("the log has no {what} ({allocs} allocations, {launches} launches)"),
            format!("日志中没有{what_zh} (申请 {allocs} 次, 启动 {launches} 次)"),
        );
    }
    Finding::shown(
        &levels[..levels.len().min(LINES)],
        format!(
            "{allocs} allocations ({refused} refused), {launches} launches ({denied} refused), token levels on {}",
            levels.len()
        ),
        format!(
            "申请 {allocs} 次 (拒绝 {refused}), 启动 {launches} 次 (拒绝 {denied}), 其中 {} 次有令牌数",
            levels.len()
        ),
    )
}
