//! `--batch`: a row for each submission, as a table, as CSV, or as JSON.

use std::path::Path;
use std::thread;

use super::args::Args;
use super::run::{DONE, print};
use crate::batch;
use crate::error::Error;
use crate::render::{export, grades};

/// Reads the folder and writes the rows where they were asked for.
///
/// # Errors
/// The folder can't be read, or the output not written.
pub(super) fn run(args: &Args, folder: &Path) -> Result<u8, Error> {
    let cores = || thread::available_parallelism().map_or(1, usize::from);
    let jobs = args.grading.jobs.map_or_else(cores, usize::from);
    let rows = batch::read(folder, args.csv.as_deref(), jobs)?;
    if let Some(path) = &args.csv {
        export::text(path, &grades::csv(&rows, args.lang))?;
    }
    if args.json {
        let json = serde_json::to_string_pretty(&rows);
        print(&(json.map_err(|why| Error::Render { what: "the JSON", why: why.to_string() })? + "\n"))?;
    } else if args.csv.is_none() {
        print(grades::table(&rows, args.lang))?;
    } else {
        print(grades::account(&rows, args.lang))?;
    }
    Ok(DONE)
}
