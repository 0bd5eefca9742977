//! Which record goes with which line.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;

use super::wording::line_of;
use super::{CourseParts, by_seq};
use crate::events::{Agreement, Names, Row};
use crate::parse::Part;
use crate::parse::course::text_hash;

/// Where a line stands: its process of lines, and its row there. In the order of the log.
type Place = (usize, usize);

/// The places of each text that no record has claimed.
type Places = HashMap<u64, BTreeSet<Place>>;

/// Where each record's line was found.
pub(super) struct Pairing {
    /// Index of a process of records, and for each of its rows in order of `seq` the line's place.
    pub(super) pairs: Vec<(usize, Vec<Place>)>,
    /// The first line that spoiled a match: its process's other lines had records.
    pub(super) spoiled_by: Option<u64>,
}

/// Finds the records' processes whose calls are the log's lines.
///
/// Processes that make up a whole process of lines come first, then the larger ones and the later ones: a short run's
/// few lines can often be found in a long one's. Those `taken` belong to another log. What leaves a process of lines
/// half without records is undone.
pub(super) fn pair(names: &Names, lines: &CourseParts, records: &[Part], taken: &BTreeSet<usize>) -> Pairing {
    let mut places = Places::new();
    for (part, (_, texts)) in lines.iter().enumerate() {
        for (row, &text) in texts.iter().enumerate() {
            places.entry(text).or_default().insert((part, row));
        }
    }
    let text_of = |part: &Part, row: usize| text_hash(&line_of(names, &part.rows[row], &part.process));
    let texts: Vec<Vec<u64>> = records
        .iter()
        .enumerate()
        .map(|(index, part)| if taken.contains(&index) { &[][..] } else { &part.rows })
        .zip(records)
        .map(|(rows, part)| by_seq(rows).into_iter().map(|row| text_of(part, row)).collect())
        .collect();
    let mut order: Vec<usize> = (0..records.len()).filter(|&index| !texts[index].is_empty()).collect();
    order.sort_by_key(|&index| (Reverse(texts[index].len()), Reverse(index)));
    let mut pairs: Vec<(usize, Vec<Place>)> = Vec::new();
    // A process alone in its block of lines, in order: no other can be meant.
    let mut blocks: HashMap<&[u64], Vec<usize>> = HashMap::new();
    for (block, (_, of_block)) in lines.iter().enumerate() {
        blocks.entry(of_block.as_slice()).or_default().push(block);
    }
    for index in (0..records.len()).rev().filter(|&index| !texts[index].is_empty()) {
        let Some(block) = blocks.get_mut(texts[index].as_slice()).and_then(Vec::pop) else { continue };
        let found: Vec<Place> = (0..texts[index].len()).map(|row| (block, row)).collect();
        for (text, place) in texts[index].iter().zip(&found) {
            places.entry(*text).or_default().remove(place);
        }
        pairs.push((index, found));
    }
    let exact: BTreeSet<usize> = pairs.iter().map(|(index, _)| *index).collect();
    for &index in &order {
        if exact.contains(&index) {
            continue;
        }
        let rows = &records[index].rows;
        let one_thread = rows.iter().all(|row| row.tid.is_some() && row.tid == rows[0].tid);
        let mut found = claim(&texts[index], one_thread, &mut places);
        if found.is_none() && lines.len() > 1 {
            // Processes at work at once print equal lines (launches have no address in them), and taking the first
            // that fits may take another's. Which of two equal lines is whose makes no difference to any figure.
            found = claim(&texts[index], false, &mut places);
        }
        pairs.extend(found.map(|found| (index, found)));
    }
    let mut pairing = Pairing { pairs, spoiled_by: None };
    loop {
        let half = pairing.half_claimed(lines, records);
        let Some(&(block, row)) = half.first() else { break };
        pairing.spoiled_by = pairing.spoiled_by.or(Some(lines[block].0.rows[row].line));
        let blocks: BTreeSet<usize> = half.into_iter().map(|(block, _)| block).collect();
        pairing.pairs.retain(|(_, places)| !places.iter().any(|place| blocks.contains(&place.0)));
    }
    pairing
}

impl Pairing {
    /// The rows of each process of lines that have no record.
    fn free_rows(&self, lines: &CourseParts) -> Vec<Vec<usize>> {
        let mut claimed: Vec<Vec<bool>> = lines.iter().map(|(part, _)| vec![false; part.rows.len()]).collect();
        for &(part, row) in self.pairs.iter().flat_map(|(_, places)| places) {
            claimed[part][row] = true;
        }
        let free = |rows: &Vec<bool>| (0..rows.len()).filter(|&row| !rows[row]).collect();
        claimed.iter().map(free).collect()
    }

    /// Processes of lines of which some have records and others not, each with its first that has none. A program that
    /// is killed has printed a line whose record it could not write any more, one a thread at most: such last lines are
    /// no reason to doubt the rest.
    fn half_claimed(&self, lines: &CourseParts, records: &[Part]) -> Vec<(usize, usize)> {
        // Of each block: the last row claimed, the threads of those who claim, and how many they are.
        let mut claims: HashMap<usize, (usize, usize, usize)> = HashMap::new();
        for (index, places) in &self.pairs {
            let blocks: BTreeSet<usize> = places.iter().map(|place| place.0).collect();
            let threads = threads(&records[*index].rows);
            for block in blocks {
                let claim = claims.entry(block).or_default();
                (claim.1, claim.2) = (claim.1 + threads, claim.2 + 1);
            }
            for &(block, row) in places {
                let claim = claims.entry(block).or_default();
                claim.0 = claim.0.max(row);
            }
        }
        let free = self.free_rows(lines);
        let half = |(block, free): (usize, &Vec<usize>)| {
            let &(last, threads, claimants) = claims.get(&block)?;
            let cut_off = free.len() <= threads && free.iter().all(|&row| row > last) && claimants == 1;
            free.first().filter(|_| !cut_off).map(|&row| (block, row))
        };
        free.iter().enumerate().filter_map(half).collect()
    }

    /// The first line without a record of a process that has none at all.
    pub(super) fn first_without(&self, lines: &CourseParts) -> Option<u64> {
        let free = self.free_rows(lines);
        let none = |(block, (part, _)): (usize, &(Part, Vec<u64>))| {
            (free[block].len() == part.rows.len()).then(|| part.rows.first().map(|row| row.line)).flatten()
        };
        lines.iter().enumerate().find_map(none)
    }

    /// Gives the records their lines' numbers and takes the lines away. `only` drops the processes of records that
    /// were not found.
    pub(super) fn apply(self, lines: &mut CourseParts, records: &mut Vec<Part>, only: bool, agreement: &mut Agreement) {
        let free = self.free_rows(lines);
        let mut keep = vec![!only; records.len()];
        let mut used = vec![false; lines.len()];
        for (index, found) in &self.pairs {
            keep[*index] = true;
            let part = &mut records[*index];
            let order = by_seq(&part.rows);
            agreement.both += found.len() as u64;
            for (&row, &(block, line_row)) in order.iter().zip(found) {
                used[block] = true;
                let line = &lines[block].0.rows[line_row];
                let record = &mut part.rows[row];
                (record.line, record.source) = (line.line, line.source);
                record.total_mb = line.total_mb;
            }
            // The process stands where its banner does; with several at once, where its first call does.
            if let Some(&(block, line_row)) = found.iter().min() {
                let of_line = &lines[block].0;
                part.process.source = of_line.process.source;
                part.process.first_line =
                    if line_row == 0 { of_line.process.first_line } else { of_line.rows[line_row].line };
            }
            // Last lines without a record (see `half_claimed`) are the process's too.
            let blocks: BTreeSet<usize> = found.iter().map(|place| place.0).collect();
            for block in blocks {
                part.rows.extend(free[block].iter().map(|&row| lines[block].0.rows[row]));
                agreement.lines_only += free[block].len() as u64;
            }
        }
        let mut kept = keep.iter();
        records.retain(|_| *kept.next().unwrap_or(&true));
        // Processes at work at the same time print their banners first and their calls mixed: each process found that
        // is not accounted for by a block of calls accounts for a banner without any.
        let mut banners = self.pairs.len().saturating_sub(used.iter().filter(|used| **used).count());
        let mut block = 0;
        lines.retain(|(part, _)| {
            let used = used[block];
            block += 1;
            let spare = part.rows.is_empty() && banners > 0;
            banners -= usize::from(spare);
            !(used || spare)
        });
    }
}

fn threads(rows: &[Row]) -> usize {
    rows.iter().filter_map(|row| row.tid).collect::<BTreeSet<_>>().len().max(1)
}

/// Claims a place for each text, or none at all; `in_order`: each behind the one before.
fn claim(texts: &[u64], in_order: bool, places: &mut Places) -> Option<Vec<Place>> {
    let mut found: Vec<Place> = Vec::with_capacity(texts.len());
    for text in texts {
        let behind = found.last().filter(|_| in_order).map_or(Bound::Unbounded, |&last| Bound::Excluded(last));
        let place = places.get(text).and_then(|free| free.range((behind, Bound::Unbounded)).next().copied());
        let Some(place) = place else {
            for (text, place) in texts.iter().zip(found) {
                places.entry(*text).or_default().insert(place);
            }
            return None;
        };
        if let Some(free) = places.get_mut(text) {
            free.remove(&place);
        }
        found.push(place);
    }
    (!found.is_empty()).then_some(found)
}
