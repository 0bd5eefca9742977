//! A log and its event file are two records of the same calls: which record goes with which line, and which processes
//! of the file are not of this log.
//!
//! A record, written as the course writes it, is the line that the hook printed beside it. So the lines of a process
//! are looked for in the log; its records stand for them when every one is there, in order where one thread made
//! them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Bound;
use std::path::{Path, PathBuf};

use hook_event::course::{self, LineBuf};
use hook_event::{Call, Kind, Op, Outcome, Refusal, Scope, Stamp};

use super::course::text_hash;
use super::{Parsed, Part, Sidecars};
use crate::error::{Error, Shown};
use crate::events::{Agreement, Events, Misfit, Names, Note, Process, Row, Source};

type CourseParts = Vec<(Part, Vec<u64>)>;

/// Where a line stands: its process of lines, and its row there. In the order of the log.
type Place = (usize, usize);

/// The places of each text that no record has claimed.
type Places = HashMap<u64, BTreeSet<Place>>;

/// Brings inputs and event files together and takes them in, so that each call counts once.
///
/// # Errors
/// The event file that the user named does not match the first log.
pub(super) fn bring_together(all: &mut Events, inputs: Vec<Parsed>, sidecars: Sidecars) -> Result<(), Error> {
    let mut lines: Vec<CourseParts> = Vec::new();
    let mut records: Vec<Part> = Vec::new();
    let mut others: Vec<Part> = Vec::new();
    for Parsed { source, course, json, others: more, .. } in inputs {
        all.sources.push(source);
        lines.push(course.parts);
        others.extend(more);
        records.extend(json.parts);
    }
    // Records that are inputs themselves: those of processes that no log shows count as well.
    let mut taken = BTreeSet::new();
    for (index, lines) in lines.iter_mut().enumerate() {
        if !has_calls(lines) || records.is_empty() {
            continue;
        }
        let pairing = pair(&all.names, lines, &records, &taken);
        taken.extend(pairing.pairs.iter().map(|(record, _)| *record));
        pairing.apply(lines, &mut records, false, &mut all.agreement);
        settle_misfits(all, index, lines, &mut records, &mut taken);
    }
    let mut used: BTreeMap<PathBuf, Used> = BTreeMap::new();
    match sidecars.named {
        Some(named) if lines.first().is_some_and(has_calls) => {
            let log = all.sources[0].path.clone();
            let Parsed { source, json, .. } = named;
            let result = add_sidecar(all, &mut lines[0], &mut records, source.clone(), json.parts, &mut used);
            if let Err(why) = result {
                return Err(Error::EventsDoNotMatch { events: source.path, log, why: why.en });
            }
        }
        // A log without calls (it was switched off, say): the event file is what there is.
        Some(named) => {
            all.sources.push(named.source);
            records.extend(named.json.parts);
        }
        None => {}
    }
    let mut refused: Vec<(usize, Note)> = Vec::new();
    let mut matched: Vec<usize> = Vec::new();
    for (index, Parsed { source, json, .. }) in sidecars.beside {
        if matched.contains(&index) || !has_calls(&lines[index]) {
            continue;
        }
        let path = source.path.clone();
        let log = all.sources[index].path.clone();
        match add_sidecar(all, &mut lines[index], &mut records, source, json.parts, &mut used) {
            Ok(()) => matched.push(index),
            Err(why) => refused.push((index, unfit(&path, &log, &why))),
        }
    }
    all.notes.extend(refused.into_iter().filter(|(index, _)| !matched.contains(index)).map(|(_, note)| note));
    for (path, used) in used.iter().filter(|(_, used)| !used.taken.is_empty()) {
        let (file, left_out) = (path.display(), used.with_calls - used.taken.len());
        if left_out > 0 {
            all.notes.push(Note::new(
                format!("`{file}`: {left_out} process(es) of other runs left out"),
                format!("`{file}` 中有 {left_out} 个进程属于其他运行, 未计入"),
            ));
        }
    }
    // An emptied place is no process.
    records.retain(|part| part.records > 0);
    let mut parts: Vec<Part> = lines.into_iter().flatten().map(|(part, _)| part).chain(others).chain(records).collect();
    parts.sort_by_key(|part| (part.process.source, part.process.first_line));
    for part in parts {
        part.add_to(&mut all.processes, &mut all.calls);
    }
    Ok(())
}

/// Lines and records that don't fit each other though they are of the same calls: most of a process's records are lines
/// of one block. They were cut or spliced. Both at once would count calls twice; the kind that holds more of them stays.
/// Lines and records of other calls are left alone.
fn settle_misfits(
    all: &mut Events,
    index: usize,
    lines: &mut CourseParts,
    records: &mut [Part],
    taken: &mut BTreeSet<usize>,
) {
    let misfits = misfits(&all.names, lines, records, taken);
    let of_blocks: BTreeSet<usize> = misfits.iter().map(|(block, _)| *block).collect();
    let of_parts: BTreeSet<usize> = misfits.iter().map(|(_, part)| *part).collect();
    if let Some(&(block, part)) = misfits.first() {
        all.agreement.differ(difference(&all.names, &lines[block], &records[part]));
    }
    if of_parts.is_empty() {
        return;
    }
    let in_records: usize = of_parts.iter().map(|&at| records[at].rows.len()).sum();
    let in_lines: usize = of_blocks.iter().map(|&block| lines[block].0.rows.len()).sum();
    let kept = if in_lines > in_records {
        // Emptied, not removed: the others keep their places.
        of_parts.iter().for_each(|&at| records[at] = Part::default());
        ("lines", "日志行")
    } else {
        let mut block = 0..;
        lines.retain(|_| !block.next().is_some_and(|block| of_blocks.contains(&block)));
        ("records", "记录")
    };
    taken.extend(of_parts);
    let name = Shown(&all.sources[index].path).to_string();
    all.notes.push(Note::new(
        format!(
            "{name}: some of its lines and JSONL records don't fit each other; of those only the {} are counted",
            kept.0
        ),
        format!("{name}: 其中部分日志行与 JSONL 记录不吻合, 这部分只计入{}", kept.1),
    ));
}

/// Blocks of lines and processes of records that are of the same run, for most of the records are lines of the block.
fn misfits(names: &Names, lines: &CourseParts, records: &[Part], taken: &BTreeSet<usize>) -> BTreeSet<(usize, usize)> {
    let blocks: Vec<HashSet<u64>> = lines.iter().map(|(_, texts)| texts.iter().copied().collect()).collect();
    let mut misfits = BTreeSet::new();
    for (at, part) in records.iter().enumerate().filter(|(at, part)| !taken.contains(at) && !part.rows.is_empty()) {
        let texts: Vec<u64> = part.rows.iter().map(|row| text_hash(&line_of(names, row, &part.process))).collect();
        for (number, block) in blocks.iter().enumerate() {
            if texts.iter().filter(|text| block.contains(text)).count() * 2 > texts.len() {
                misfits.insert((number, at));
            }
        }
    }
    misfits
}

/// The first line of a block that no record tells, or the first record that no line tells; both, where there are both.
fn difference(names: &Names, (of_lines, texts): &(Part, Vec<u64>), of_records: &Part) -> Option<Misfit> {
    let mut left: HashMap<u64, u64> = HashMap::new();
    let order = by_seq(&of_records.rows);
    let told: Vec<String> =
        order.iter().map(|&row| line_of(names, &of_records.rows[row], &of_records.process)).collect();
    for text in &told {
        *left.entry(text_hash(text)).or_default() += 1;
    }
    let mut claim = |text: &u64| left.get_mut(text).filter(|n| **n > 0).map(|n| *n -= 1).is_some();
    let line = texts.iter().position(|text| !claim(text)).map(|row| of_lines.rows[row].line);
    let mut lines: HashMap<u64, u64> = HashMap::new();
    for text in texts {
        *lines.entry(*text).or_default() += 1;
    }
    let mut claim = |text: u64| lines.get_mut(&text).filter(|n| **n > 0).map(|n| *n -= 1).is_some();
    let record = told.iter().position(|text| !claim(text_hash(text)));
    let record = record.map(|at| (of_records.rows[order[at]].seq.unwrap_or(0), told[at].as_str()));
    let first_line = of_lines.process.first_line;
    let sure = line.is_some() && record.is_some();
    let (line, why) = match (line, record) {
        (Some(line), Some((seq, text))) => (
            line,
            Note::new(
                format!("line {line} is no record's; record {seq} tells: {text}"),
                format!("第 {line} 行没有相符的记录; 第 {seq} 条记录对应的应为: {text}"),
            ),
        ),
        (Some(line), None) => {
            (line, Note::new(format!("line {line} has no record"), format!("第 {line} 行没有对应的记录")))
        }
        (None, Some((seq, text))) => (
            first_line,
            Note::new(
                format!("record {seq} has no line among the calls from line {first_line} on: {text}"),
                format!("第 {first_line} 行起的调用中没有第 {seq} 条记录对应的日志行: {text}"),
            ),
        ),
        (None, None) => return None,
    };
    Some(Misfit { line, why, sure })
}

impl Agreement {
    /// The first difference stays.
    fn differ(&mut self, difference: Option<Misfit>) {
        if self.misfit.is_none() {
            self.misfit = difference;
        }
    }
}

fn has_calls(lines: &CourseParts) -> bool {
    lines.iter().any(|(part, _)| !part.rows.is_empty())
}

fn unfit(file: &Path, log: &Path, why: &Note) -> Note {
    let (file, log) = (file.display(), Shown(log));
    Note::new(
        format!("`{file}` left out: its calls are not those of {log} ({})", why.en),
        format!("未并入 `{file}`: 其中的调用与 {log} 不符 ({})", why.zh),
    )
}

/// What logs have taken of an event file that lies beside them.
#[derive(Default)]
struct Used {
    /// Processes in it that made calls.
    with_calls: usize,
    /// Those that a log has, by their place in the file.
    taken: BTreeSet<usize>,
}

/// Takes from an event file the processes whose calls are the log's.
///
/// # Errors
/// There is none: the first call without a record, in words.
fn add_sidecar(
    all: &mut Events,
    lines: &mut CourseParts,
    records: &mut Vec<Part>,
    mut source: Source,
    mut parts: Vec<Part>,
    used: &mut BTreeMap<PathBuf, Used>,
) -> Result<(), Note> {
    // A process's calls stand in one log.
    let used = used.entry(source.path.clone()).or_default();
    used.with_calls = parts.iter().filter(|part| !part.rows.is_empty()).count();
    let pairing = pair(&all.names, lines, &parts, &used.taken);
    used.taken.extend(pairing.pairs.iter().map(|(record, _)| *record));
    let without = pairing.first_without(lines);
    if pairing.pairs.is_empty() {
        let misfit = misfits(&all.names, lines, &parts, &used.taken).into_iter().next();
        let misfit = misfit.and_then(|(block, part)| difference(&all.names, &lines[block], &parts[part]));
        all.agreement.differ(misfit.map(|misfit| Misfit { sure: false, ..misfit }));
    }
    if let (true, Some(line)) = (pairing.pairs.is_empty(), pairing.spoiled_by) {
        return Err(Note::new(format!("the call at line {line} has no record"), format!("第 {line} 行的调用没有记录")));
    }
    if pairing.pairs.is_empty() {
        let line = without.unwrap_or(0);
        return Err(Note::new(
            format!("no process in it has made the calls from line {line} on"),
            format!("没有哪个进程作过第 {line} 行起的调用"),
        ));
    }
    let file = source.path.display().to_string();
    if let Some(line) = without {
        all.notes.push(Note::new(
            format!("`{file}` has no records of the process whose calls begin at line {line}"),
            format!("`{file}` 中没有第 {line} 行起的那个进程的记录"),
        ));
    }
    // Taken in is what is this log's.
    let here = pairing.pairs.iter().map(|(record, _)| parts[*record].records).sum();
    source.left_out = source.events.saturating_sub(here);
    source.events = here;
    // What was read of the file has the number that it gets now; two logs may share the file.
    let known = all.sources.iter().position(|known| known.path == source.path);
    let number = known.unwrap_or(all.sources.len());
    match known {
        Some(known) => {
            all.sources[known].events += here;
            all.sources[known].left_out = all.sources[known].left_out.saturating_sub(here);
        }
        None => all.sources.push(source),
    }
    for part in &mut parts {
        part.process.source = number as u32;
        part.rows.iter_mut().for_each(|row| row.source = number as u32);
    }
    pairing.apply(lines, &mut parts, true, &mut all.agreement);
    records.extend(parts);
    Ok(())
}

/// Where each record's line was found.
struct Pairing {
    /// Index of a process of records, and for each of its rows in order of `seq` the line's place.
    pairs: Vec<(usize, Vec<Place>)>,
    /// The first line that spoiled a match: its process's other lines had records.
    spoiled_by: Option<u64>,
}

/// Finds the records' processes whose calls are the log's lines.
///
/// Processes that make up a whole process of lines come first, then the larger ones and the later ones: a short run's
/// few lines can often be found in a long one's. Those `taken` belong to another log. What leaves a process of lines
/// half without records is undone.
fn pair(names: &Names, lines: &CourseParts, records: &[Part], taken: &BTreeSet<usize>) -> Pairing {
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
    fn first_without(&self, lines: &CourseParts) -> Option<u64> {
        let free = self.free_rows(lines);
        let none = |(block, (part, _)): (usize, &(Part, Vec<u64>))| {
            (free[block].len() == part.rows.len()).then(|| part.rows.first().map(|row| row.line)).flatten()
        };
        lines.iter().enumerate().find_map(none)
    }

    /// Gives the records their lines' numbers and takes the lines away. `only` drops the processes of records that
    /// were not found.
    fn apply(self, lines: &mut CourseParts, records: &mut Vec<Part>, only: bool, agreement: &mut Agreement) {
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

fn by_seq(rows: &[Row]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|&row| rows[row].seq);
    order
}

/// The course line that the hook prints for a record.
fn line_of(names: &Names, row: &Row, process: &Process) -> String {
    let total = row.total.unwrap_or(0);
    let own = |quota| Refusal { scope: Scope::Process, quota, total, pending: 0 };
    let refusal = row.refusal.or(process.quota.value().map(own));
    let zero = hook_event::Dim3 { x: 0, y: 0, z: 0 };
    let op = match row.kind {
        Kind::Alloc => Op::Alloc { size: row.size.unwrap_or(0), ptr: row.ptr, total, pending: 0, refusal },
        Kind::Free => Op::Free { ptr: row.ptr.unwrap_or(0), size: row.size, total },
        Kind::Reset => Op::Reset { size: row.size.unwrap_or(0), total },
        Kind::Host => match row.size {
            Some(size) => Op::HostAlloc { size, ptr: row.ptr, total },
            None => Op::HostFree { ptr: row.ptr.unwrap_or(0), total },
        },
        Kind::Launch if row.grid.is_none() => Op::Graph {
            graph: row.graph.unwrap_or(0),
            stream: 0,
            tokens: row.tokens,
            wait_ns: row.wait_ns.unwrap_or(0),
        },
        Kind::Launch => Op::Launch {
            grid: row.grid.unwrap_or(zero),
            block: row.block.unwrap_or(zero),
            shmem: 0,
            stream: 0,
            kernel: None,
            tokens: row.tokens,
            wait_ns: row.wait_ns.unwrap_or(0),
            bypass: row.bypass,
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
        hook_ns: None,
    };
    let mut line = LineBuf::new();
    course::write_call(&mut line, &call);
    String::from_utf8_lossy(line.as_bytes()).trim_end().to_owned()
}
