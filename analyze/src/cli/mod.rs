//! The command line: arguments in, outputs and exit code out.

mod advice;
pub mod args;
mod diff;
mod follow;
mod progress;
mod run;

pub use run::run;
