//! `hook-analyze` from the outside: real logs, damaged ones, and what a user does with the command.

mod analysis;
mod cli;
mod common;
mod readers;
mod report;
