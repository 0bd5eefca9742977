//! Flags → plain values.

use std::path::PathBuf;

use clap::Parser;

use crate::render::Lang;

/// What is read when no log is named.
pub const DEFAULT_LOG: &str = "hook.log";

/// Analyses the log of a CUDA hook: calls and denials per API, tokens and memory over time, charts, a report.
///
/// Reads course lines (`[HOOK] …`), JSONL events, or both mixed, with other programs' output between them.
#[derive(Clone, Debug, Parser)]
#[command(version, after_help = EXAMPLES, max_term_width = 100)]
pub struct Args {
    /// Logs to analyse together; `-` is standard input.
    #[arg(value_name = "LOG", default_value = DEFAULT_LOG)]
    pub logs: Vec<PathBuf>,

    /// Event file of the log. Without this flag NAME.jsonl or hook.jsonl beside NAME.log is used when its calls are
    /// the log's.
    #[arg(long, value_name = "FILE")]
    pub events: Option<PathBuf>,

    /// Draw tokens and memory over time, as SVG.
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,

    /// Write a report in the sections of the course's template, with its charts beside it.
    #[arg(long, value_name = "FILE.md")]
    pub report: Option<PathBuf>,

    /// Print all figures as JSON instead of the summary.
    #[arg(long)]
    pub json: bool,

    /// Write the calls as CSV, a row each.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,

    /// Write the calls as Parquet, a row each.
    #[arg(long, value_name = "FILE")]
    pub parquet: Option<PathBuf>,

    /// Language of summary, chart and report.
    #[arg(long, value_enum, default_value_t)]
    pub lang: Lang,
}

const EXAMPLES: &str = "Examples:
  hook-analyze                                   summary of hook.log
  hook-analyze hook.log --plot timeline.svg      and a chart
  hook-analyze --report report.md --lang en      a report in English
  hook-analyze hook.log --json | jq .apis        figures for a program
  ssh gpu01 cat hook.log | hook-analyze -        a log from elsewhere

Exit status: 0 done, 2 wrong usage, unreadable input, or a log without hook events.";
