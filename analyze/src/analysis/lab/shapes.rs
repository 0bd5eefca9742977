//! cudaLaunchKernel: blocks and threads in the log, and test 3, which is there for them.

use hook_event::{Dim3, Kind};

use super::bucket::{Launch, Manner, lines_of, manner};
use super::{Finding, LINES, Run, Test3, source};
use crate::program::Told;

/// Blocks and threads are logged, of refused launches as well.
pub(super) fn dims(run: &Run<'_>) -> Finding {
    let all = &run.launches;
    let refused_by_program = run.told(|told| match told {
        Told::Burst { refused, .. } if *refused > 0 => Some(*refused),
        _ => None,
    });
    let denied: Vec<&Launch> = all.iter().filter(|launch| launch.is_denied()).collect();
    if let (Some((line, n)), true) = (refused_by_program, denied.is_empty()) {
        return run.by_program(Finding::contradicted(
            &[line],
            format!("the test program counts {n} refused launches, the log has none"),
            format!("测试程序计得 {n} 次拒绝, 日志中却没有被拒绝的启动"),
        ));
    }
    // A line of a refusal that lacks them is of no form that is known.
    let source = run.events.sources.get(source(run) as usize);
    let bare = source.into_iter().flat_map(|source| &source.bad_examples).find(|(_, text)| {
        let refusal = text.contains("DENIED") || text.contains("拒绝");
        text.contains("Launch") && refusal && !text.contains("grid")
    });
    if let Some((line, _)) = bare {
        return Finding::contradicted(
            &[*line],
            "a refused launch is logged without grid and block",
            "被拒绝的启动没有记录 grid 和 block",
        );
    }
    for &(line, told) in &run.told {
        let Told::Shape { grid, block } = told else { continue };
        let same = |dim: Dim3, told: &[u32; 3]| [dim.x, dim.y, dim.z] == *told;
        let logged = all.iter().any(|launch| launch.shape.is_some_and(|(g, b)| same(g, grid) && same(b, block)));
        if !logged {
            return run.by_program(Finding::contradicted(
                &[line],
                format!(
                    "the test program launched grid={} block={}, the log has no such launch",
                    dims_text(grid),
                    dims_text(block)
                ),
                format!("测试程序启动了 grid={} block={}, 日志中没有这样的启动", dims_text(grid), dims_text(block)),
            ));
        }
    }
    let with: Vec<&Launch> = denied.iter().copied().filter(|launch| launch.shape.is_some()).collect();
    if !with.is_empty() {
        // The first of each shape.
        let mut firsts: Vec<&Launch> = Vec::new();
        for launch in &with {
            if firsts.iter().all(|first| first.shape != launch.shape) {
                firsts.push(launch);
            }
        }
        let (n, shapes) = (with.len(), firsts.len());
        return Finding::shown(
            &lines_of(firsts),
            format!("all {n} refused launches have grid and block, {shapes} different ones"),
            format!("{n} 次被拒绝的启动都记录了 grid 和 block, 共 {shapes} 种"),
        );
    }
    let Some(logged) = all.iter().find(|launch| launch.shape.is_some()) else {
        return match all.is_empty() {
            true => Finding::missing("the log has no launch", "日志中没有启动"),
            false => Finding::missing(
                "the launches of this log have no grid and block (the demonstration without a GPU has none)",
                "日志中的启动没有 grid 和 block (无 GPU 的演示没有这一项)",
            ),
        };
    };
    match manner(run) {
        Manner::Waits(places, _) => Finding::shown(
            &lines_of(places.iter().map(|&place| &all[place])),
            "no launch is refused, for they wait; those that waited have grid and block",
            "启动都等到令牌而没有被拒绝; 等待的启动记录了 grid 和 block",
        ),
        _ => Finding::missing(
            format!("grid and block are logged (line {}), but no launch was refused", logged.line),
            format!("记录了 grid 和 block (第 {} 行), 但没有被拒绝的启动", logged.line),
        ),
    }
}

/// Test 3: the launches behind the last allocation, of several shapes, when others came before it.
pub(super) fn test3(run: &Run<'_>) -> Option<Test3> {
    let last = run.of_kind(Kind::Alloc).last()?;
    let first = run.launches.iter().position(|launch| launch.i > last).filter(|&first| first > 0)?;
    let (before, test) = run.launches.split_at(first);
    let several = test.iter().any(|launch| launch.shape != test[0].shape);
    if !several || test.len() > LINES {
        return None;
    }
    let before = before.last()?;
    Some(Test3 {
        lines: lines_of(test),
        denied: test.iter().filter(|launch| launch.is_denied()).count() as u64,
        tokens_before: before.level,
        line_before: before.level.map(|_| before.line),
        token_s: run.process.bucket.value().map(|(rate, _)| 1.0 / rate),
    })
}

fn dims_text([x, y, z]: &[u32; 3]) -> String {
    format!("({x},{y},{z})")
}
