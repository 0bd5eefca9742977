//! Calls → CSV, Parquet, Arrow and NDJSON; files that appear whole or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use polars::error::PolarsError;
use polars::prelude::{AnyValue, CompatLevel, DataFrame};
use polars_io::SerWriter;
use polars_io::csv::write::CsvWriter;
use polars_io::ipc::IpcWriter;
use polars_io::parquet::write::ParquetWriter;

use crate::error::Error;

/// Writes the frame as CSV with a header.
///
/// # Errors
/// The file can't be written.
pub fn csv(frame: &mut DataFrame, path: &Path) -> Result<(), Error> {
    whole(path, |file| CsvWriter::new(file).finish(frame).map_err(|error| unwritten(path, error)))
}

/// Writes the frame as Parquet (zstd).
///
/// # Errors
/// The file can't be written.
pub fn parquet(frame: &mut DataFrame, path: &Path) -> Result<(), Error> {
    whole(path, |file| ParquetWriter::new(file).finish(frame).map(drop).map_err(|error| unwritten(path, error)))
}

/// Writes the frame as an Arrow IPC file (Feather 2), with texts as every reader knows them.
///
/// # Errors
/// The file can't be written.
pub fn arrow(frame: &mut DataFrame, path: &Path) -> Result<(), Error> {
    whole(path, |file| {
        let mut writer = IpcWriter::new(file).with_compat_level(CompatLevel::oldest());
        writer.finish(frame).map_err(|error| unwritten(path, error))
    })
}

/// Writes the frame as JSON lines: an object a row, its keys the columns; what is not known is `null`.
///
/// # Errors
/// The file can't be written.
pub fn ndjson(frame: &DataFrame, path: &Path) -> Result<(), Error> {
    whole(path, |file| {
        let mut out = BufWriter::new(file);
        let keys = frame.columns().iter().map(|column| serde_json::to_string(column.name().as_str()));
        let keys = keys.collect::<Result<Vec<_>, _>>().map_err(|why| unwritable(path, why.into()))?;
        let mut values = Vec::with_capacity(keys.len());
        for row in 0..frame.height() {
            values.clear();
            for column in frame.columns() {
                values.push(column.get(row)?);
            }
            record(&mut out, &keys, &values).map_err(|why| unwritable(path, why))?;
        }
        out.flush().map_err(|why| unwritable(path, why))
    })
}

fn record(out: &mut impl Write, keys: &[String], values: &[AnyValue<'_>]) -> io::Result<()> {
    let mut separator = '{';
    for (key, value) in keys.iter().zip(values) {
        write!(out, "{separator}{key}:")?;
        separator = ',';
        match value {
            AnyValue::String(text) => serde_json::to_writer(&mut *out, text)?,
            AnyValue::StringOwned(text) => serde_json::to_writer(&mut *out, text.as_str())?,
            // JSON has no word for what is no number; serde_json writes null.
            AnyValue::Float64(number) => serde_json::to_writer(&mut *out, number)?,
            other => write!(out, "{other}")?,
        }
    }
    out.write_all(b"}\n")
}

fn unwritable(path: &Path, source: io::Error) -> Error {
    Error::Write { path: path.to_owned(), source }
}

/// Writes bytes.
///
/// # Errors
/// The file can't be written.
pub fn bytes(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    whole(path, |file| file.write_all(bytes).map_err(|source| Error::Write { path: path.to_owned(), source }))
}

/// Writes text.
///
/// # Errors
/// The file can't be written.
pub fn text(path: &Path, text: &str) -> Result<(), Error> {
    bytes(path, text.as_bytes())
}

/// The frame is whole: what goes wrong with it is the writing, whatever a format's writer makes of that.
fn unwritten(path: &Path, error: PolarsError) -> Error {
    let source = match error {
        PolarsError::IO { error, .. } => io::Error::new(error.kind(), error.to_string()),
        other => io::Error::other(other.to_string()),
    };
    unwritable(path, source)
}

/// Writes beside the file and moves it there when it is complete. What is no plain file (`/dev/stdout`, a pipe) is
/// written directly.
pub(super) fn whole(path: &Path, write: impl FnOnce(&mut File) -> Result<(), Error>) -> Result<(), Error> {
    let fail = |source: io::Error| Error::Write { path: path.to_owned(), source };
    if fs::metadata(path).is_ok_and(|meta| !meta.is_file()) {
        let mut file = File::options().write(true).open(path).map_err(fail)?;
        return match write(&mut file) {
            // A reader that has gone (`--csv /dev/stdout | head`) has what it wanted.
            Err(Error::Write { source, .. }) if source.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other,
        };
    }
    // A link stays one: what it leads to is written.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let draft = draft_path(&target);
    let result = File::create(&draft).map_err(fail).and_then(|mut file| {
        write(&mut file)?;
        file.flush().map_err(fail)
    });
    let result = result.and_then(|()| fs::rename(&draft, &target).map_err(fail));
    if result.is_err() {
        // The draft may not exist; there is nothing to do about it if it can't be removed.
        let _ = fs::remove_file(&draft);
    }
    result
}

fn draft_path(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    path.with_file_name(name)
}
