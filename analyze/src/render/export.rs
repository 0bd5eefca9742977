//! Calls → CSV and Parquet; files that appear whole or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use polars::error::PolarsError;
use polars::prelude::DataFrame;
use polars_io::SerWriter;
use polars_io::csv::write::CsvWriter;
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

/// Writes text.
///
/// # Errors
/// The file can't be written.
pub fn text(path: &Path, text: &str) -> Result<(), Error> {
    whole(path, |file| file.write_all(text.as_bytes()).map_err(|source| Error::Write { path: path.to_owned(), source }))
}

fn unwritten(path: &Path, error: PolarsError) -> Error {
    match error {
        PolarsError::IO { error, .. } => {
            let source = io::Error::new(error.kind(), error.to_string());
            Error::Write { path: path.to_owned(), source }
        }
        other => Error::Frame(other),
    }
}

/// Writes beside the file and moves it there when it is complete. What is no plain file (`/dev/stdout`, a pipe) is
/// written directly.
fn whole(path: &Path, write: impl FnOnce(&mut File) -> Result<(), Error>) -> Result<(), Error> {
    let fail = |source: io::Error| Error::Write { path: path.to_owned(), source };
    if fs::metadata(path).is_ok_and(|meta| !meta.is_file()) {
        let mut file = File::options().write(true).open(path).map_err(fail)?;
        return write(&mut file);
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
