//! `hook-analyze` from the outside: real logs, damaged ones, and what a user does with the command.

// In a test a panic is the report.
#![allow(clippy::unwrap_used)]

mod analysis;
mod classes;
mod cli;
mod common;
mod dialects;
mod every_way;
mod exports;
mod figures;
mod filters;
mod follow;
mod inputs;
mod limits;
mod planted;
mod readers;
mod report;
mod rules;
mod whatif;
