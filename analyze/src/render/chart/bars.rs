//! Launches by shape and by kernel: a bar each, with its numbers in words.

use super::axis::count;
use super::canvas::{Anchor, MARGIN, SMALL, Shape, TEXT, WIDTH, fitted, width};
use super::panel::{Block, Sign};
use crate::analysis::census::Outcomes;
use crate::analysis::series::Series;
use crate::render::Lang;
use crate::render::text::{dims, printable};

/// Bars; what has fewer launches is counted below them.
const BARS: usize = 15;
/// Height of a bar with its name above.
const ROW: i32 = 42;

/// By grid and block.
pub(super) fn shapes(series: &Series, lang: Lang) -> Block<'_> {
    let rows = series.census.shapes.iter().map(|shape| {
        let (denied, failed) = (shape.denied, shape.failed);
        let outcomes = Outcomes { passed: shape.calls - denied - failed, denied, failed };
        (format!("grid {}  block {}", dims(shape.grid), dims(shape.block)), outcomes)
    });
    block(lang.pick("按 grid 与 block 计的启动次数", "launches by grid and block"), rows, lang)
}

/// By kernel.
pub(super) fn kernels(series: &Series, lang: Lang) -> Block<'_> {
    let rows = series.census.kernels.iter().map(|kernel| (printable(&kernel.name), kernel.launches));
    block(lang.pick("按 kernel 计的启动次数", "launches by kernel"), rows, lang)
}

fn block<'s>(title: &str, rows: impl ExactSizeIterator<Item = (String, Outcomes)>, lang: Lang) -> Block<'s> {
    let all = rows.len();
    let rows: Vec<(String, Outcomes)> = rows.collect();
    let (shown, rest) = rows.split_at(all.min(BARS));
    let shown = shown.to_vec();
    let total = rows.iter().fold(Outcomes::default(), |sum, (_, one)| Outcomes {
        passed: sum.passed + one.passed,
        denied: sum.denied + one.denied,
        failed: sum.failed + one.failed,
    });
    let most = shown.iter().map(|(_, outcomes)| outcomes.all()).max().unwrap_or(1).max(1) as f64;
    let left: u64 = rest.iter().map(|(_, outcomes)| outcomes.all()).sum();
    let mut legend =
        vec![(Sign::Field(|palette| palette.passed), format!("{} {}", Shape::Passed.name(lang), count(total.passed)))];
    if total.denied > 0 {
        legend.push((
            Sign::Field(|palette| palette.denied),
            format!("{} {}", Shape::Denied.name(lang), count(total.denied)),
        ));
    }
    if total.failed > 0 {
        legend.push((
            Sign::Field(|palette| palette.failed),
            format!("{} {}", Shape::Failed.name(lang), count(total.failed)),
        ));
    }
    let numbers: Vec<String> = shown.iter().map(|(_, outcomes)| words(*outcomes, lang)).collect();
    // Beside the longest bar there is room for the longest numbers.
    let beside = numbers.iter().map(|text| width(text, SMALL)).max().unwrap_or(0) + 10;
    let room = f64::from((WIDTH - 2 * MARGIN - beside).max(120));
    let mut block = Block::new(title.to_owned(), legend, ROW * shown.len() as i32 + 10, move |canvas| {
        for ((index, (name, outcomes)), numbers) in (0..).zip(&shown).zip(&numbers) {
            let top = index * ROW + 6;
            let name = fitted(name, TEXT - 1, WIDTH - 2 * MARGIN);
            canvas.text((MARGIN, top + 6), &name, TEXT - 1, canvas.palette.ink, Anchor::Start)?;
            let mut x = MARGIN;
            let parts =
                [(Shape::Passed, outcomes.passed), (Shape::Denied, outcomes.denied), (Shape::Failed, outcomes.failed)];
            for (shape, number) in parts.into_iter().filter(|(_, number)| *number > 0) {
                // What is there is seen, however little it is.
                let long = ((number as f64 / most * room).round() as i32).max(2);
                canvas.rectangle((x, top + 17), (x + long, top + 31), canvas.colour(shape))?;
                x += long + 1;
            }
            canvas.text((x + 6, top + 24), numbers, SMALL, canvas.palette.ink, Anchor::Start)?;
        }
        Ok(())
    });
    if !rest.is_empty() {
        block.notes = vec![match lang {
            Lang::Zh => format!("另有 {} 种未画出, 共 {} 次启动", count(rest.len() as u64), count(left)),
            Lang::En => format!("{} more are not drawn, with {} launches", count(rest.len() as u64), count(left)),
        }];
    }
    block
}

fn words(outcomes: Outcomes, lang: Lang) -> String {
    let mut text = format!("{} {}", Shape::Passed.name(lang), count(outcomes.passed));
    for (shape, number) in [(Shape::Denied, outcomes.denied), (Shape::Failed, outcomes.failed)] {
        if number > 0 {
            text.push_str(&format!(", {} {}", shape.name(lang), count(number)));
        }
    }
    text
}
