//! What a reader of the figures should know: what is missing, what was not understood, what the hook warned of.

use super::fold::Fold;
use crate::error::Shown;
use crate::events::{Events, Note, Process};
use crate::plural::plural;

/// All of them: those of reading first, then of each input, of each process (which `of_processes` are).
pub(super) fn all(events: &Events, of_processes: Vec<Note>) -> Vec<Note> {
    let mut notes = events.notes.clone();
    for source in &events.sources {
        notes.extend(source.warnings.iter().map(|text| Note::new(format!("hook: {text}"), format!("hook: {text}"))));
        let more = source.warning_count.saturating_sub(source.warnings.len() as u64);
        if more > 0 {
            notes.push(Note::new(
                format!("hook: {}, not shown", plural(more, "more warning")),
                format!("hook: 另有 {more} 条警告未列出"),
            ));
        }
        if source.oversized_lines > 0 {
            let (path, count) = (Shown(&source.path), source.oversized_lines);
            notes.push(Note::new(
                format!("{path}: {} too long to be looked into", plural(count, "line")),
                format!("{path} 有 {count} 行过长, 未作分析"),
            ));
        }
        if let Some((line, text)) = source.bad_examples.first() {
            let (path, bad) = (Shown(&source.path), source.bad_lines);
            notes.push(Note::new(
                format!(
                    "{path}: {} of a hook not understood, the figures may lack calls; line {line}: {text}",
                    plural(bad, "line")
                ),
                format!("{path} 有 {bad} 行 hook 日志未能解析, 数字可能不完整; 如第 {line} 行: {text}"),
            ));
        }
    }
    notes.extend(of_processes);
    let untold = events.processes.iter().filter(|process| process.memory_untold && has_calls(process)).count();
    let told = events.processes.iter().any(|process| !process.memory_untold && has_calls(process));
    if untold > 0 && told {
        notes.push(Note::new(
            format!(
                "of {} the log does not tell what memory they were granted; the memory figures are the others'",
                plural(untold as u64, "process")
            ),
            format!("有 {untold} 个进程, 日志没有记录它们分到的显存; 显存数字只含其余进程"),
        ));
    }
    let silent = |process: &&Process| process.rows.is_empty() && process.pid.is_none();
    let by_lines = |process: &&Process| !process.rows.is_empty() && process.pid.is_none();
    if events.processes.iter().any(|process| by_lines(&process)) {
        let silent = events.processes.iter().filter(silent).count();
        if silent > 0 {
            notes.push(Note::new(
                format!("{} left a banner and no call; if they ran beside others, lines alone can't tell whose calls are whose", plural(silent as u64, "process")),
                format!("有 {silent} 个进程只有配置行而没有调用; 若多个进程同时运行, 仅凭日志行无法区分各自的调用"),
            ));
        }
    }
    notes
}

fn has_calls(process: &Process) -> bool {
    !process.rows.is_empty() || !process.untold.is_empty()
}

/// What is missing from a process's records.
pub(super) fn of_process(process: &Process, fold: &Fold, notes: &mut Vec<Note>) {
    let pid = process.pid.unwrap_or(0);
    if let Some(lost @ 1..) = process.lost {
        notes.push(Note::new(
            format!("process {pid}: the hook could not write {}; the figures lack them", plural(lost, "record")),
            format!("进程 {pid}: 有 {lost} 条记录 hook 未能写出, 数字中缺少它们"),
        ));
    }
    if let (None, Some(stated)) = (fold.numbers.first, process.stated_calls.filter(|&stated| stated != fold.calls)) {
        let (name, here) = (process.exe.as_deref().unwrap_or(""), fold.calls);
        notes.push(Note::new(
            format!("{name}: the log counts {stated} calls and shows {here}"),
            format!("{name}: 日志自称共 {stated} 次调用, 实际有 {here} 次"),
        ));
    }
    notes.extend(fold.retries.note());
    let (Some(first), Some(last)) = (fold.numbers.first, fold.numbers.last) else { return };
    let here = fold.calls;
    let stated = process.stated_calls.unwrap_or(0).max(last);
    let late = fold.late();
    if late > 0 {
        notes.push(Note::new(
            format!(
                "process {pid}: {late} of its records stand too far behind later ones to be put in order, or come twice; \
                 what depends on the order of its calls is left out (memory, token levels, quota-respected, total-matches)"
            ),
            format!(
                "进程 {pid}: 有 {late} 条记录排在序号更大的记录之后太远, 无法恢复次序, 或有重复; \
                 依赖其调用次序的数字与检查从略 (显存, 令牌数, quota-respected, total-matches)"
            ),
        ));
    }
    if stated > here || late == 0 && (first != 1 || fold.numbers.gaps || stated != here) {
        notes.push(Note::new(
            format!(
                "process {pid}: its records count {stated} calls, {here} are in the file; the figures lack the rest"
            ),
            format!("进程 {pid}: 记录表明共有 {stated} 次调用, 文件中有 {here} 次, 数字不完整"),
        ));
    }
    if !process.ended {
        notes.push(Note::new(
            format!("process {pid}: no end record: it was killed, ended by _exit, or is still running; live memory is what it held then"),
            format!("进程 {pid}: 没有 end 记录: 它被终止、以 _exit 结束或仍在运行; 结束时占用是当时的占用"),
        ));
    }
}
