//! `hook-analyze` from the outside: real logs, damaged ones, and what a user does with the command.

// In a test a panic is the report.
#![allow(clippy::unwrap_used)]

mod analysis;
mod batch;
mod charts;
mod classes;
mod cli;
mod common;
mod dialects;
mod diff;
mod every_way;
mod explain;
mod exports;
mod figures;
mod filters;
mod follow;
mod fuzzed;
mod inputs;
mod lab;
mod limits;
mod page;
mod planted;
mod readers;
mod report;
mod rules;
mod start;
mod terminal;
mod times;
mod trace;
mod whatif;
