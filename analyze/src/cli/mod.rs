//! The command line: arguments in, outputs and exit code out.

mod advice;
pub mod args;
mod batch;
mod diff;
mod explain;
mod follow;
mod grading;
pub mod manual;
pub mod paper;
pub mod plot;
mod program;
mod progress;
mod run;
pub mod start;

pub use run::run;
