//! Flags → plain values.

use std::path::PathBuf;

use clap::Parser;
use hook_event::Outcome;

use crate::filter::{Filter, Moment, Name};
use crate::render::Lang;
use crate::render::partition::Key;

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

    /// Which calls the outputs are about.
    #[command(flatten)]
    pub filter: FilterArgs,

    /// Write the lines that were not understood, each after `path:line: `.
    #[arg(long, value_name = "FILE")]
    pub rejects: Option<PathBuf>,

    /// Make a line that was not understood an error (exit status 2).
    ///
    /// A last line that is cut off is none.
    #[arg(long)]
    pub strict: bool,

    /// Draw tokens and memory over time, as SVG.
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,

    /// Write a report in the course's sections, with its charts beside it.
    #[arg(long, value_name = "FILE.md")]
    pub report: Option<PathBuf>,

    /// Print all figures as JSON instead of the summary.
    #[arg(long)]
    pub json: bool,

    /// Write the calls as CSV, a row each.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,

    /// Write the calls as Parquet, a row each; with `--partition-by` into a folder.
    #[arg(long, value_name = "FILE or DIR")]
    pub parquet: Option<PathBuf>,

    /// Part the Parquet files by these columns, in folders like `date=2026-11-30/host=gpu01` (default: one file).
    /// Dates are UTC.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', value_enum, requires = "parquet")]
    pub partition_by: Vec<Key>,

    /// Write the calls as JSON lines, a row each.
    #[arg(long, value_name = "FILE")]
    pub ndjson: Option<PathBuf>,

    /// Write the calls as an Arrow IPC file (Feather), a row each.
    #[arg(long, value_name = "FILE")]
    pub arrow: Option<PathBuf>,

    /// Language of summary, chart and report.
    #[arg(long, value_enum, default_value_t)]
    pub lang: Lang,
}

/// Which calls all outputs are about. Without any of these: all.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Which calls (default: all)")]
pub struct FilterArgs {
    /// Calls of this API; `*` and `?` stand for any text. Several: comma.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub api: Vec<Name>,

    /// Calls that ended ok, denied (by the hook) or failed (in CUDA).
    ///
    /// Several: comma.
    #[arg(long, value_name = "OUTCOME", value_delimiter = ',', value_parser = outcome)]
    pub outcome: Vec<Outcome>,

    /// Processes with this id. Several: comma.
    #[arg(long, value_name = "PID", value_delimiter = ',')]
    pub pid: Vec<u32>,

    /// Calls from then on: seconds since the process's first call (`1.5`), or RFC 3339 (`2026-11-30T07:42:11Z`).
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub from: Option<Moment>,

    /// Calls up to then, that moment included; as `--from`.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub to: Option<Moment>,

    /// Launches of kernels whose mangled name has this in it, or fits a pattern with `*` and `?`. Several: comma.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub kernel: Vec<Name>,
}

impl FilterArgs {
    /// As a filter.
    pub fn filter(&self) -> Filter {
        let FilterArgs { api, outcome, pid, from, to, kernel } = self.clone();
        Filter { apis: api, outcomes: outcome, pids: pid, from, to, kernels: kernel }
    }
}

fn outcome(text: &str) -> Result<Outcome, String> {
    let known = Outcome::ALL.into_iter().find(|outcome| outcome.name() == text);
    known.ok_or_else(|| format!("`{text}` is no outcome: `ok`, `denied` or `failed`"))
}

const EXAMPLES: &str = "Examples:
  hook-analyze                                   summary of hook.log
  hook-analyze hook.log --plot timeline.svg      and a chart
  hook-analyze --report report.md --lang en      a report in English
  hook-analyze hook.log --json | jq .apis        figures for a program
  hook-analyze hook.log --outcome denied --csv denied.csv
                                                 the denied calls alone
  ssh gpu01 cat hook.log | hook-analyze -        a log from elsewhere

Exit status: 0 done, 2 wrong usage, unreadable input, or a log without hook events.";
