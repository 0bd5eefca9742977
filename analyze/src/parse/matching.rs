//! A log and its event file are two records of the same calls: which record goes with which line, and which processes
//! of the file are not of this log.
//!
//! A record, written as the course writes it, is the line that the hook printed beside it. So the lines of a process
//! are looked for in the log; its records stand for them when every one is there, in order where one thread made
//! them. The file's last processes are tried first, for a log is of the latest run.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;

use hook_event::course::{self, LineBuf};
use hook_event::{Call, Kind, Op, Outcome, Stamp};

use super::course::text_hash;
use super::{Parsed, Part};
use crate::error::{Error, Shown};
use crate::events::{Events, Limit, Names, Process, Row};

type CourseParts = Vec<(Part, Vec<u64>)>;

/// Where a line stands: its process of lines, and its row there. In the order of the log.
type Place = (usize, usize);

/// The places of each text that no record has claimed.
type Places = HashMap<u64, BTreeSet<Place>>;

/// Takes an input in by itself. The line and the record of one call in the same file count once as well.
pub(super) fn add_alone(all: &mut Events, parsed: Parsed) {
    let Parsed { source, course, json } = parsed;
    let (mut lines, mut records) = (course.parts, json.parts);
    if !records.is_empty() && lines.iter().any(|(part, _)| !part.rows.is_empty()) {
        match pair(&all.names, &lines, &records) {
            Ok(pairing) => pairing.apply(&mut lines, &mut records, false),
            Err(why) => all.notes.push(format!(
                "{}: its lines and its JSONL records are not the same calls ({why}); both are counted",
                Shown(&source.path)
            )),
        }
    }
    all.sources.push(source);
    add_parts(all, lines, records);
}

/// Takes a log in, and from its event file the records of the log's own calls.
///
/// # Errors
/// The file was named by the user and does not match.
pub(super) fn add_with_sidecar(all: &mut Events, log: Parsed, mut beside: Parsed, named: bool) -> Result<(), Error> {
    match pair(&all.names, &log.course.parts, &beside.json.parts) {
        Ok(pairing) if pairing.pairs.is_empty() => {
            // Nothing to match on either side: a log of banners.
            add_alone(all, log);
        }
        Ok(pairing) => {
            let Parsed { source, course, json } = log;
            let (mut lines, mut records) = (course.parts, std::mem::take(&mut beside.json.parts));
            let left_out = records.len() - pairing.pairs.len();
            pairing.apply(&mut lines, &mut records, true);
            if left_out > 0 {
                let file = beside.source.path.display();
                all.notes.push(format!("`{file}`: {left_out} process(es) of other runs left out"));
            }
            all.sources.push(source);
            all.sources.push(beside.source);
            records.extend(json.parts);
            add_parts(all, lines, records);
        }
        Err(why) if named => {
            return Err(Error::EventsDoNotMatch { events: beside.source.path, log: log.source.path, why });
        }
        Err(why) => {
            let file = beside.source.path.display();
            all.notes
                .push(format!("`{file}` left out: its calls are not those of {} ({why})", Shown(&log.source.path)));
            add_alone(all, log);
        }
    }
    Ok(())
}

fn add_parts(all: &mut Events, lines: CourseParts, records: Vec<Part>) {
    let mut parts: Vec<Part> = lines.into_iter().map(|(part, _)| part).chain(records).collect();
    parts.sort_by_key(|part| (part.process.source, part.process.first_line));
    for part in parts {
        part.add_to(&mut all.processes, &mut all.calls);
    }
}

/// Where each record's line was found.
struct Pairing {
    /// Index of a process of records, and for each of its rows in order of `seq` the line's process and row.
    pairs: Vec<(usize, Vec<Place>)>,
    /// For each process of lines, whether its rows were all claimed (or it has none).
    claimed: Vec<bool>,
}

/// Finds the records' processes whose calls are the log's lines.
///
/// # Errors
/// Some calls of a process of the log have a record and some have not, or none has: the first that has none, in words.
fn pair(names: &Names, lines: &CourseParts, records: &[Part]) -> Result<Pairing, String> {
    let mut places = Places::new();
    for (part, (_, texts)) in lines.iter().enumerate() {
        for (row, &text) in texts.iter().enumerate() {
            places.entry(text).or_default().insert((part, row));
        }
    }
    let mut free: Vec<Vec<bool>> = lines.iter().map(|(part, _)| vec![true; part.rows.len()]).collect();
    let mut pairs = Vec::new();
    for (index, part) in records.iter().enumerate().rev() {
        let one_thread = part.rows.iter().all(|row| row.tid.is_some() && row.tid == part.rows[0].tid);
        let texts: Vec<u64> =
            by_seq(&part.rows).iter().map(|&row| text_hash(&line_of(names, &part.rows[row], &part.process))).collect();
        let mut found = claim(&texts, one_thread, &mut places);
        if found.is_none() && lines.len() > 1 {
            // Processes at work at once print equal lines (launches have no address in them), and taking the first
            // that fits may take another's. Which of two equal lines is whose makes no difference to any figure.
            found = claim(&texts, false, &mut places);
        }
        if let Some(found) = found {
            for &(part, row) in &found {
                free[part][row] = false;
            }
            pairs.push((index, found));
        }
    }
    let any = free.iter().any(|rows| !rows.is_empty());
    if any && pairs.is_empty() {
        let first = lines.iter().flat_map(|(part, _)| &part.rows).map(|row| row.line).min().unwrap_or(0);
        return Err(format!("no process in it has made the calls that begin at line {first}"));
    }
    for ((part, _), free) in lines.iter().zip(&free) {
        let first_free = free.iter().position(|&free| free);
        if let Some(row) = first_free.filter(|_| free.iter().any(|&free| !free)) {
            return Err(format!("the call at line {} has no record", part.rows[row].line));
        }
    }
    let claimed = free.iter().map(|rows| rows.iter().all(|&free| !free)).collect();
    Ok(Pairing { pairs, claimed })
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

fn by_seq(rows: &[Row]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|&row| rows[row].seq);
    order
}

impl Pairing {
    /// Gives the records their lines' numbers and takes the lines away. `only` drops the processes of records that
    /// were not found.
    fn apply(self, lines: &mut CourseParts, records: &mut Vec<Part>, only: bool) {
        let mut keep = vec![!only; records.len()];
        for (index, found) in &self.pairs {
            keep[*index] = true;
            let part = &mut records[*index];
            let order = by_seq(&part.rows);
            for (&row, &(line_part, line_row)) in order.iter().zip(found) {
                let line = &lines[line_part].0.rows[line_row];
                let record = &mut part.rows[row];
                (record.line, record.source) = (line.line, line.source);
                record.total_mb = line.total_mb;
            }
            // The process stands where its banner does; with several at once, where its first call does.
            if let Some(&(line_part, line_row)) = found.iter().min() {
                let of_line = &lines[line_part].0;
                part.process.source = of_line.process.source;
                part.process.first_line =
                    if line_row == 0 { of_line.process.first_line } else { of_line.rows[line_row].line };
            }
        }
        let mut kept = keep.iter();
        records.retain(|_| *kept.next().unwrap_or(&true));
        // Processes at work at the same time print their banners first and their calls mixed: each process found that
        // is not accounted for by a block of calls accounts for a banner without any.
        let blocks = lines.iter().zip(&self.claimed).filter(|((part, _), claimed)| **claimed && !part.rows.is_empty());
        let mut banners = self.pairs.len().saturating_sub(blocks.count());
        let mut claimed = self.claimed.into_iter();
        lines.retain(|(part, _)| {
            let claimed = claimed.next().unwrap_or(false);
            let spare = part.rows.is_empty() && banners > 0;
            banners -= usize::from(spare);
            !(spare || claimed && !part.rows.is_empty())
        });
    }
}

/// The course line that the hook prints for a record.
fn line_of(names: &Names, row: &Row, process: &Process) -> String {
    let quota = row.quota.or(match process.quota {
        Limit::At(bytes) => Some(bytes),
        Limit::Off | Limit::Unknown => None,
    });
    let total = row.total.unwrap_or(0);
    let zero = hook_event::Dim3 { x: 0, y: 0, z: 0 };
    let op = match row.kind {
        Kind::Alloc => Op::Alloc { size: row.size.unwrap_or(0), ptr: row.ptr, total, pending: 0, quota },
        Kind::Free => Op::Free { ptr: row.ptr.unwrap_or(0), size: row.size, total },
        Kind::Launch => Op::Launch {
            grid: row.grid.unwrap_or(zero),
            block: row.block.unwrap_or(zero),
            shmem: 0,
            stream: 0,
            kernel: None,
            tokens: row.tokens,
            wait_ns: row.wait_ns.unwrap_or(0),
        },
    };
    let call = Call {
        seq: 0,
        at: Stamp { wall_ns: 0, mono_ns: 0 },
        pid: 0,
        tid: 0,
        api: names.text(row.api),
        sym: "",
        dev: None,
        op,
        outcome: row.outcome,
        ret: row.ret.unwrap_or(match row.outcome {
            Outcome::Ok => 0,
            Outcome::Denied | Outcome::Failed => -1,
        }),
        real_ns: 0,
        hook_ns: 0,
    };
    let mut line = LineBuf::new();
    course::write_call(&mut line, &call);
    String::from_utf8_lossy(line.as_bytes()).trim_end().to_owned()
}
