//! cudaMalloc: the quota, what a refusal returns, and that both are logged.

use hook_event::units::MB;
use hook_event::{Kind, Outcome};

use super::{Finding, ROUNDING, Run, is_ok};
use crate::events::Limit;
use crate::program::Told;

/// A refused request with what was in use then and the quota, both as far as they are known; `use_low` and `use_high`
/// bound it, for a line rounds to a tenth of a MB.
struct Refused {
    i: usize,
    size: u64,
    use_low: f64,
    use_high: f64,
    quota: u64,
}

fn refused(run: &Run<'_>) -> Vec<Refused> {
    let calls = run.calls;
    let denied = run.of_kind(Kind::Alloc).filter(|&i| calls.outcome[i] == Outcome::Denied);
    let known = |i: usize| {
        let size = calls.size[i]?;
        if let Some(refusal) = calls.refusal[i] {
            let used = (refusal.total + refusal.pending) as f64;
            return Some(Refused { i, size, use_low: used, use_high: used, quota: refusal.quota });
        }
        let anothers = run.process.refusal_is_anothers(&run.step(i), run.process.shared.is_some());
        let quota = run.process.quota.value().or(calls.quota[i]).filter(|_| !anothers)?;
        let (use_low, use_high) = match (calls.total[i], calls.total_mb[i]) {
            (Some(total), _) => (total as f64, total as f64),
            (None, Some(mb)) => ((mb - ROUNDING) * MB as f64, (mb + ROUNDING) * MB as f64),
            (None, None) if !run.memory_untold => (run.live_after(i) as f64, run.live_after(i) as f64),
            (None, None) => return None,
        };
        Some(Refused { i, size, use_low, use_high, quota })
    };
    denied.filter_map(known).collect()
}

/// What was granted stays within the quota, and what would not is refused.
pub(super) fn kept(run: &Run<'_>) -> Finding {
    if let Some(finding) = run.broken_rule(&["quota-respected"]) {
        return finding;
    }
    let all = refused(run);
    // Requests of other kinds are charged otherwise than by their size: by rows, by granules.
    let by_size = |one: &&Refused| {
        let api = run.events.names.text(run.calls.api[one.i]);
        api == "cudaMalloc" || api == "malloc" || api.starts_with("cuMemAlloc_")
    };
    if let Some(Refused { i, size, use_high, quota, .. }) =
        all.iter().filter(by_size).find(|one| one.use_high + one.size as f64 <= one.quota as f64)
    {
        let (line, mb, of) = (run.line(*i), use_high / MB as f64, *quota as f64 / MB as f64);
        return Finding::contradicted(
            &[line],
            format!("{size} bytes are refused though they fit: at most {mb:.1} of {of:.1} MB are in use"),
            format!("{size} 字节并未超过配额却被拒绝: 当时占用至多 {mb:.1} / {of:.1} MB"),
        );
    }
    let over = all.iter().find(|one| one.use_low + one.size as f64 > one.quota as f64);
    let Some(Refused { i, size, quota, .. }) = over else {
        return match (run.process.quota, run.of_kind(Kind::Alloc).next()) {
            (_, None) => none(),
            (Limit::Off, _) => Finding::missing(
                "no quota was set, as the log says; run with CUDA_MEM_QUOTA_MB=128",
                "日志表明没有设置配额; 请用 CUDA_MEM_QUOTA_MB=128 运行",
            ),
            (Limit::Unknown, _) => Finding::missing("the log does not tell the quota", "日志中没有配额"),
            (Limit::At(quota), _) => Finding::missing(
                format!("no request went over the quota of {quota} bytes, so none had to be refused"),
                format!("没有超过配额 ({quota} 字节) 的申请, 看不出是否会拒绝"),
            ),
        };
    };
    // What was in use then is known as long as totals have been right.
    if run.broken("total-matches").is_some_and(|check| check.line.is_none_or(|line| line <= run.line(*i))) {
        return Finding::missing(
            "the totals in the log don't add up, so what was in use is not known (see free-subtracts-exactly)",
            "日志所记的总量与调用累计不符, 无法确定当时的占用 (见 free-subtracts-exactly)",
        );
    }
    let granted = run.of_kind(Kind::Alloc).find(|&i| is_ok(run.calls, i));
    let lines: Vec<u64> = granted.into_iter().chain([*i]).map(|i| run.line(i)).collect();
    Finding::shown(
        &lines,
        format!("{size} bytes, more than is left of {quota}, are refused; what is granted stays within the quota"),
        format!("申请 {size} 字节, 超出配额 {quota} 字节的余量而被拒绝; 分到的显存从未超过配额"),
    )
}

fn none() -> Finding {
    Finding::missing("the log has no cudaMalloc", "日志中没有 cudaMalloc")
}

/// A refused request returns 2 (`cudaErrorMemoryAllocation`); of `malloc` a null pointer.
pub(super) fn returns_two(run: &Run<'_>) -> Finding {
    let calls = run.calls;
    let denied: Vec<usize> = run.of_kind(Kind::Alloc).filter(|&i| calls.outcome[i] == Outcome::Denied).collect();
    let told = run.told(|told| match told {
        Told::OverQuota { returned } => Some(*returned),
        _ => None,
    });
    if let Some(&i) = denied.iter().find(|&&i| calls.ret[i].is_some_and(|ret| ret != 2)) {
        let (line, ret) = (run.line(i), calls.ret[i].unwrap_or(0));
        return Finding::contradicted(
            &[line],
            format!("the refused request returned {ret}"),
            format!("被拒绝的申请返回了 {ret}"),
        );
    }
    if let Some((line, returned)) = told.filter(|(_, returned)| *returned != Some(2)) {
        let (en, zh) = match returned {
            Some(code) => {
                (format!("the test program got {code} in place of 2"), format!("测试程序得到 {code} 而不是 2"))
            }
            None => ("the test program says that it did not get 2".to_owned(), "测试程序称没有得到 2".to_owned()),
        };
        return run.by_program(Finding::contradicted(&[line], en, zh));
    }
    if let Some(&i) = denied.iter().find(|&&i| calls.ret[i] == Some(2)) {
        return Finding::shown(
            &[run.line(i)],
            "the record of the refused request has ret 2",
            "事件记录中该次申请的返回值为 2",
        );
    }
    if let Some((line, _)) = told {
        return run.by_program(Finding::shown(&[line], "the test program got 2", "测试程序得到返回值 2"));
    }
    let null = run.told(|told| matches!(told, Told::Pointer { null: true }).then_some(()));
    let host = denied.iter().any(|&i| run.events.names.text(calls.api[i]) == "malloc");
    if let Some((line, ())) = null.filter(|_| host) {
        return run.by_program(Finding::shown(
            &[line],
            "the program got a null pointer, which is malloc's refusal",
            "程序得到空指针, 即 malloc 的拒绝",
        ));
    }
    if denied.is_empty() {
        return Finding::missing("no request was refused", "没有被拒绝的申请");
    }
    Finding::missing(
        "a line does not tell what the program got; its output does (`make test-gpu > hook.log 2>&1`), or the event file",
        "日志行不含返回值; 可从程序输出 (`make test-gpu > hook.log 2>&1`) 或事件文件看出",
    )
}

/// Granted and refused requests have a line each.
pub(super) fn logged(run: &Run<'_>) -> Finding {
    let with = |outcome| run.of_kind(Kind::Alloc).find(|&i| run.calls.outcome[i] == outcome).map(|i| run.line(i));
    let refused_by_program = run.told(|told| matches!(told, Told::OverQuota { returned: Some(2) }).then_some(()));
    match (with(Outcome::Ok), with(Outcome::Denied), refused_by_program) {
        (Some(granted), Some(refused), _) => Finding::shown(
            &[granted, refused],
            "a granted request with its address, and a refused one",
            "分配成功 (含地址) 与被拒绝的申请都有记录",
        ),
        (_, None, Some((line, ()))) => run.by_program(Finding::contradicted(
            &[line],
            "the test program had a request refused, of which the log has no line",
            "测试程序的申请被拒绝, 日志中却没有这一行",
        )),
        (None, None, _) => none(),
        (None, Some(_), _) => Finding::missing("no granted request is in the log", "日志中没有分配成功的记录"),
        (Some(_), None, _) => Finding::missing("no refused request is in the log", "日志中没有被拒绝的申请"),
    }
}
