//! The command line: arguments in, outputs and exit code out.

mod advice;
pub mod args;
mod follow;
pub mod manual;
mod program;
mod progress;
mod run;
pub mod start;

pub use run::run;
