//! A log and its event file are two records of the same calls: which record goes with which line, and which processes
//! of the file are not of this log.
//!
//! A record, written as the course writes it, is the line that the hook printed beside it. So the lines of a process
//! are looked for in the log; its records stand for them when every one is there, in order where one thread made
//! them.

mod misfit;
mod pairing;
mod wording;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use misfit::{difference, misfits, settle_misfits};
use pairing::pair;

use super::{Parsed, Part, Sidecars};
use crate::error::{Error, Shown};
use crate::events::{Events, Misfit, Note, Row, Source};
use crate::plural::plural;

type CourseParts = Vec<(Part, Vec<u64>)>;

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
        let (file, left_out) = (Shown(path), used.with_calls - used.taken.len());
        if left_out > 0 {
            all.notes.push(Note::new(
                format!("{file}: {} of other runs left out", plural(left_out as u64, "process")),
                format!("{file} 中有 {left_out} 个进程属于其他运行, 未计入"),
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

fn by_seq(rows: &[Row]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|&row| rows[row].seq);
    order
}
