//! The command line: arguments in, outputs and exit code out.

mod advice;
pub mod args;
mod batch;
mod follow;
mod grading;
mod progress;
mod run;

pub use run::run;
