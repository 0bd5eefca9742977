//! `hook-analyze` from the outside: real logs, damaged ones, and what a user does with the command.

// In a test a panic is the report.
#![allow(clippy::unwrap_used)]

mod analysis;
mod cli;
mod common;
mod every_way;
mod figures;
mod inputs;
mod readers;
mod report;
