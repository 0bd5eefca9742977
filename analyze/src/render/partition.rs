//! Calls → a folder of Parquet files by their values, `date=2026-11-30/host=gpu01/part-0.parquet`: what Spark, DuckDB
//! and polars read as one table with these columns.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Error as IoError, ErrorKind};
use std::path::{Path, PathBuf};

use chrono::DateTime;
use polars::prelude::{DataFrame, IdxCa, IdxSize};

use super::export;
use crate::error::Error;
use crate::events::{Columns, Events};

/// A column to part by. It is in the folders' names, and not in the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Key {
    /// The day of the call, UTC.
    Date,
    /// Host.
    Host,
    /// Process id.
    Pid,
    /// API.
    Api,
    /// Outcome.
    Outcome,
}

/// The folder of a value that is not known, as Hive calls it: readers make a null of it.
const UNKNOWN: &str = "__HIVE_DEFAULT_PARTITION__";

impl Key {
    fn name(self) -> &'static str {
        match self {
            Key::Date => "date",
            Key::Host => "host",
            Key::Pid => "pid",
            Key::Api => "api",
            Key::Outcome => "outcome",
        }
    }

    fn value(self, events: &Events, i: usize) -> Option<String> {
        let calls: &Columns = &events.calls;
        let process = events.processes.get(calls.process[i] as usize);
        match self {
            Key::Date => calls.wall_ns[i].map(|ns| DateTime::from_timestamp_nanos(ns).format("%Y-%m-%d").to_string()),
            Key::Host => process.and_then(|process| process.host.clone()),
            Key::Pid => process.and_then(|process| process.pid).map(|pid| pid.to_string()),
            Key::Api => Some(events.names.text(calls.api[i]).to_owned()),
            Key::Outcome => Some(calls.outcome[i].name().to_owned()),
        }
    }
}

/// Writes the rows of `frame`, which are the calls `rows` of `events`, below `folder`, which must be empty or not there.
///
/// # Errors
/// A file can't be written, or the folder holds something.
pub fn parquet(
    frame: &DataFrame,
    rows: impl Iterator<Item = usize>,
    events: &Events,
    keys: &[Key],
    folder: &Path,
) -> Result<(), Error> {
    let fail = |source| Error::Write { path: folder.to_owned(), source };
    if fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
        let why = "the folder is not empty, and old files would count as calls too; name another, or empty it";
        return Err(fail(IoError::new(ErrorKind::AlreadyExists, why)));
    }
    // A column that is named twice is one.
    let mut columns: Vec<Key> = Vec::new();
    for key in keys {
        if !columns.contains(key) {
            columns.push(*key);
        }
    }
    let mut parts: BTreeMap<PathBuf, Vec<IdxSize>> = BTreeMap::new();
    let mut last: Option<(Vec<Option<String>>, PathBuf)> = None;
    for (place, i) in rows.enumerate() {
        let values: Vec<Option<String>> = columns.iter().map(|key| key.value(events, i)).collect();
        // Calls of one folder follow each other, mostly.
        if last.as_ref().is_none_or(|(before, _)| *before != values) {
            let below = columns
                .iter()
                .zip(&values)
                .map(|(key, value)| format!("{}={}", key.name(), value.as_deref().map_or(UNKNOWN.to_owned(), escaped)));
            let path = below.collect();
            last = Some((values, path));
        }
        if let Some((_, path)) = &last {
            let place = IdxSize::try_from(place).map_err(|_| fail(IoError::other("too many calls for one export")))?;
            match parts.get_mut(path) {
                Some(part) => part.push(place),
                None => drop(parts.insert(path.clone(), vec![place])),
            }
        }
    }
    let rest = frame.drop_many(columns.iter().map(|key| key.name()));
    fs::create_dir_all(folder).map_err(fail)?;
    for (path, places) in parts {
        let below = folder.join(path);
        fs::create_dir_all(&below).map_err(fail)?;
        let mut part = rest.take(&IdxCa::from_vec("place".into(), places))?;
        export::parquet(&mut part, &below.join("part-0.parquet"))?;
    }
    Ok(())
}

/// A value as the name of a folder, escaped as Hive and Spark do it.
fn escaped(value: &str) -> String {
    let mut out = String::new();
    for c in value.chars() {
        if c.is_control() || "\"#%'*/:=?\\{}[]^".contains(c) {
            let mut bytes = [0; 4];
            c.encode_utf8(&mut bytes).bytes().for_each(|byte| out.push_str(&format!("%{byte:02X}")));
        } else {
            out.push(c);
        }
    }
    // A folder needs a name, and these have a meaning of their own.
    match out.as_str() {
        "" => UNKNOWN.to_owned(),
        "." | ".." => out.replace('.', "%2E"),
        _ => out,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_can_not_leave_their_folder() {
        assert_eq!(escaped("gpu01.example-1"), "gpu01.example-1");
        assert_eq!(escaped("../a=b"), "..%2Fa%3Db");
        assert_eq!((escaped(".."), escaped("")), ("%2E%2E".to_owned(), UNKNOWN.to_owned()));
        assert_eq!(escaped("学号\n"), "学号%0A");
    }
}
