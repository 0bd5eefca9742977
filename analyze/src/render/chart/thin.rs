//! Fewer points, the same picture: what falls on one pixel is drawn once, extremes are kept.

use std::collections::HashSet;
use std::hash::Hash;

/// Marks drawn as they are; beyond this many, those that would cover each other are left out.
const FEW: usize = 2_000;

/// Side of the square in which one mark of a kind is enough, pixels: half the size of a mark.
const CELL: i32 = 4;

/// One mark of each kind a place: a pixel, or with many marks a cell of pixels. The first of each stays.
pub(super) fn marks<K: Copy + Eq + Hash>(all: impl Iterator<Item = ((i32, i32), K)>) -> Vec<((i32, i32), K)> {
    let mut seen = HashSet::new();
    let marks: Vec<_> = all.filter(|mark| seen.insert(*mark)).collect();
    if marks.len() <= FEW {
        return marks;
    }
    let mut seen = HashSet::new();
    marks.into_iter().filter(|((x, y), kind)| seen.insert((x / CELL, y / CELL, *kind))).collect()
}

/// A curve with at most four points a column of pixels: first, lowest, highest, last. `column` maps x to its column.
pub(super) fn curve(points: &[(f64, f64)], column: impl Fn(f64) -> i32) -> Vec<(f64, f64)> {
    let mut thin = Vec::new();
    let mut start = 0;
    while start < points.len() {
        let here = column(points[start].0);
        let end = points[start..].iter().position(|&(x, _)| column(x) != here).map_or(points.len(), |n| start + n);
        let part = &points[start..end];
        if part.len() <= 4 {
            thin.extend_from_slice(part);
        } else {
            let by_height = |a: &usize, b: &usize| part[*a].1.total_cmp(&part[*b].1);
            let low = (0..part.len()).min_by(by_height).unwrap_or(0);
            let high = (0..part.len()).max_by(by_height).unwrap_or(0);
            let mut kept = [0, low, high, part.len() - 1];
            kept.sort_unstable();
            thin.extend(kept.iter().map(|&i| part[i]));
            thin.dedup();
        }
        start = end;
    }
    thin
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thinned_curve_keeps_its_ends_and_extremes() {
        let points: Vec<(f64, f64)> =
            (0..1_000_000).map(|i| (f64::from(i), if i == 777_777 { -5.0 } else { f64::from(i % 10) })).collect();
        let thin = curve(&points, |x| (x / 1000.0) as i32);
        assert!(thin.len() <= 4_000);
        assert!(thin.contains(&(777_777.0, -5.0)));
        assert_eq!((thin.first(), thin.last()), (points.first(), points.last()));
        assert!(thin.is_sorted_by(|a, b| a.0 <= b.0));
    }

    #[test]
    fn a_mark_on_top_of_its_like_is_drawn_once() {
        let all = [((1, 1), 'a'), ((1, 1), 'a'), ((1, 1), 'b'), ((1, 2), 'a')];
        assert_eq!(marks(all.into_iter()), [((1, 1), 'a'), ((1, 1), 'b'), ((1, 2), 'a')]);
    }
}
