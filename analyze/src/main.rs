//! `hook-analyze`: see [`hook_analyze::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    hook_analyze::cli::run(std::env::args_os())
}
