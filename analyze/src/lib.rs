//! Hook logs → figures, dataframes, charts, reports.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let log = folder.path().join("hook.log");
//! # std::fs::write(&log, "[HOOK] 显存配额: 128 MB (134217728 bytes)\n\
//! #     [HOOK] cudaMalloc(2147483648) DENIED | total: 0.0 / 128.0 MB\n")?;
//! let events = hook_analyze::parse::read(&[log], None)?;
//! let analysis = hook_analyze::analysis::summary::analyse(&events);
//! assert_eq!(analysis.summary.apis[0].denied, 1);
//! let frame = hook_analyze::frame::dataframe(&events)?; // a polars DataFrame, a row a call
//! assert_eq!(frame.height(), 1);
//! # Ok(()) }
//! ```
//!
//! The way of a line: [`input`] (bytes) → [`parse`] (records) → [`events`] (columns) → [`frame`] and [`analysis`]
//! (figures) → [`render`] (terminal, JSON, charts, report, page) → [`cli`] (where it goes).

pub mod analysis;
pub mod batch;
pub mod classes;
pub mod cli;
mod digest;
pub mod error;
pub mod events;
pub mod figures;
pub mod filter;
pub mod frame;
mod hash;
pub mod input;
pub mod machine;
pub mod parse;
mod plural;
pub mod program;
pub mod render;
pub mod step;
