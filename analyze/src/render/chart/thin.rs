//! Fewer points, the same picture: what falls on one pixel is drawn once, extremes are kept.

use std::collections::{BTreeMap, HashSet};
use std::hash::Hash;

use super::canvas::Pixel;

/// Side of the square in which one mark of a kind is enough, where there are too many, pixels: it grows until they are not.
/// A mark is 9 pixels wide, so it still covers the square that it stands for.
const CELLS: [i32; 7] = [2, 3, 4, 5, 6, 8, 10];

/// One mark of each kind a place: a pixel, or with more than `most` of a kind a cell of pixels. The first of each stays.
pub(super) fn marks<K: Copy + Ord + Hash>(all: impl Iterator<Item = (Pixel, K)>, most: usize) -> Vec<(Pixel, K)> {
    let mut seen = HashSet::new();
    let marks: Vec<_> = all.filter(|mark| seen.insert(*mark)).collect();
    let many = |marks: &[(Pixel, K)]| {
        let mut kinds: BTreeMap<K, usize> = BTreeMap::new();
        marks.iter().for_each(|(_, kind)| *kinds.entry(*kind).or_default() += 1);
        kinds.into_values().any(|number| number > most)
    };
    let cells = CELLS.into_iter().map(|cell| {
        let mut seen = HashSet::new();
        let first = |((x, y), kind): &(Pixel, K)| seen.insert((x.div_euclid(cell), y.div_euclid(cell), *kind));
        marks.iter().copied().filter(first).collect::<Vec<_>>()
    });
    // Each from all of them: of a mark that stands for others no other may stand.
    if many(&marks) {
        cells.reduce(|few, fewer| if many(&few) { fewer } else { few }).unwrap_or_default()
    } else {
        marks
    }
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
        assert_eq!(marks(all.into_iter(), 100), [((1, 1), 'a'), ((1, 1), 'b'), ((1, 2), 'a')]);
    }

    #[test]
    fn every_mark_that_is_left_out_lies_below_one_of_its_kind() {
        // More than fit anywhere, on 650 by 190 pixels.
        let all: Vec<(Pixel, u8)> = (0..200_000u32)
            .map(|i| (((i * 7919 % 650) as i32, (i * 104_729 % 190) as i32), (i % 3 == 0).into()))
            .collect();
        let drawn = marks(all.iter().copied(), 1_200);
        assert!(drawn.len() <= 2 * 1_300, "{}", drawn.len());
        for ((x, y), kind) in all {
            let near = |(px, py): Pixel| (px - x).abs() < 10 && (py - y).abs() < 10;
            assert!(drawn.iter().any(|(at, of)| *of == kind && near(*at)), "{x} {y}");
        }
    }
}
