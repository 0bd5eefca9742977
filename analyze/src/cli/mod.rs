//! The command line: arguments in, outputs and exit code out.

mod advice;
pub mod args;
mod batch;
mod diff;
mod explain;
mod follow;
mod grading;
pub mod paper;
pub mod plot;
mod progress;
mod run;

pub use run::run;
