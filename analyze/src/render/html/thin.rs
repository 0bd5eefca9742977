//! Fewer points, the same picture when it is seen whole; extremes stay, and a mark of each kind wherever one was.

use std::collections::HashSet;

/// A curve of (x, y) with at most four points in each of `columns` equal parts of its width: first, lowest, highest, last.
pub(super) fn curve(points: &[(f64, f64)], columns: usize) -> Vec<(f64, f64)> {
    if points.len() <= 4 * columns {
        return points.to_vec();
    }
    let (first, last) = (points[0].0, points[points.len() - 1].0);
    let column = |x: f64| column(x, (first, last), columns);
    let mut thin = Vec::with_capacity(4 * columns);
    for part in points.chunk_by(|a, b| column(a.0) == column(b.0)) {
        if part.len() <= 4 {
            thin.extend_from_slice(part);
            continue;
        }
        let by_height = |a: &usize, b: &usize| part[*a].1.total_cmp(&part[*b].1);
        let low = (0..part.len()).min_by(by_height).unwrap_or(0);
        let high = (0..part.len()).max_by(by_height).unwrap_or(0);
        let mut kept = [0, low, high, part.len() - 1];
        kept.sort_unstable();
        thin.extend(kept.iter().map(|&i| part[i]));
    }
    thin
}

/// A mark: time, call, height.
pub(super) type Mark = (f64, f64, f64);

/// Of the marks of one kind the first in each cell of a grid, over time and over calls. The grid is the finest that leaves
/// at most `most`.
pub(super) fn marks(all: &[Mark], most: usize) -> Vec<Mark> {
    if all.len() <= most {
        return all.to_vec();
    }
    let range = |pick: fn(&Mark) -> f64| {
        let values = all.iter().map(pick);
        (values.clone().fold(f64::INFINITY, f64::min), values.fold(f64::NEG_INFINITY, f64::max))
    };
    let (times, calls, heights) = (range(|mark| mark.0), range(|mark| mark.1), range(|mark| mark.2));
    let mut columns = 4096;
    loop {
        let (mut over_time, mut over_calls) = (HashSet::new(), HashSet::new());
        let rows = (columns / 8).max(1);
        let mut new = |mark: &Mark| {
            let row = column(mark.2, heights, rows);
            // Both are asked: a mark may be the first over time and not the first over calls.
            let here = over_time.insert((column(mark.0, times, columns), row));
            over_calls.insert((column(mark.1, calls, columns), row)) || here
        };
        let kept: Vec<Mark> = all.iter().filter(|mark| new(mark)).copied().collect();
        if kept.len() <= most || columns == 1 {
            return kept;
        }
        columns /= 2;
    }
}

/// Which of `columns` equal parts of a range `x` is in.
fn column(x: f64, (from, to): (f64, f64), columns: usize) -> usize {
    if to > from { (((x - from) / (to - from) * columns as f64) as usize).min(columns - 1) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thinned_curve_keeps_its_ends_and_its_only_low() {
        let points: Vec<(f64, f64)> =
            (0..1_000_000).map(|i| (f64::from(i), if i == 777_777 { -5.0 } else { f64::from(i % 10) })).collect();
        let thin = curve(&points, 1000);
        assert!(thin.len() <= 4000 && thin.contains(&(777_777.0, -5.0)));
        assert_eq!((thin.first(), thin.last()), (points.first(), points.last()));
        assert!(thin.is_sorted_by(|a, b| a.0 <= b.0));
        assert_eq!(curve(&points[..10], 1000), points[..10]);
        assert_eq!(curve(&[], 1000), []);
    }

    #[test]
    fn thinned_marks_leave_no_place_empty() {
        // All at one moment but one: they are told apart by their numbers.
        let all: Vec<Mark> = (0..300_000).map(|i| (if i == 7 { 9.0 } else { 1.0 }, f64::from(i), 0.0)).collect();
        let thin = marks(&all, 1000);
        assert!((200..=1000).contains(&thin.len()), "{}", thin.len());
        assert!(thin.contains(&all[7]));
        assert_eq!(marks(&all[..5], 1000), all[..5]);
        // A grid of noise.
        let all: Vec<Mark> =
            (0..200_000_u32).map(|i| (f64::from(i), f64::from(i), f64::from(i * 7919 % 1000))).collect();
        let kept = marks(&all, 2000).len();
        assert!((100..=2000).contains(&kept), "{kept}");
    }
}
