//! Flags → plain values.

use std::path::PathBuf;

use clap::Parser;
use hook_event::Outcome;

use super::diff::DiffArgs;
use super::explain::Place;
use super::grading::Grading;
use super::manual::ManualArgs;
use super::paper::PaperArgs;
use super::plot::PlotArgs;
use super::start::StartArgs;
use crate::analysis::whatif::{Questions, Settings};
use crate::filter::{Filter, Moment, Name};
use crate::render::Lang;
use crate::render::partition::Key;

/// What is read when no log is named.
pub const DEFAULT_LOG: &str = "hook.log";

/// Analyses the log of a CUDA hook: calls and denials per API, memory, tokens, charts, a report.
///
/// Reads course lines (`[HOOK] …`), JSONL events, the course's older skeleton and GPU-free demonstrations, and HAMi-core's
/// log; all of them mixed, with other programs' output between them.
#[derive(Clone, Debug, Parser)]
#[command(version, after_help = EXAMPLES, max_term_width = 100)]
// A log may have any name: after a log or a flag `run` is one, and there is no `help` beside `--help`.
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub struct Args {
    /// What else the program does.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Logs to analyse together; `-` is standard input.
    #[arg(value_name = "LOG", default_value = DEFAULT_LOG)]
    pub logs: Vec<PathBuf>,

    /// Event file of the log (default: NAME.jsonl or hook.jsonl beside it).
    ///
    /// Without this flag NAME.jsonl or hook.jsonl beside NAME.log is used when its calls are the log's.
    #[arg(long, value_name = "FILE")]
    pub events: Option<PathBuf>,

    /// Charts.
    #[command(flatten)]
    pub plot: PlotArgs,

    /// Write a report in the course's sections, with its charts beside it.
    #[arg(long, value_name = "FILE.md")]
    pub report: Option<PathBuf>,

    /// A page, and the report's template.
    #[command(flatten)]
    pub paper: PaperArgs,

    /// Print all figures as JSON instead of the summary.
    #[arg(long)]
    pub json: bool,

    /// Write the calls as CSV, a row each.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,

    /// Write the calls as Parquet, a row each.
    #[arg(long, value_name = "FILE")]
    pub parquet: Option<PathBuf>,

    /// Part the Parquet files by columns, in a folder (default: one file).
    ///
    /// `--parquet` then names a folder, which must be empty or not there; the files lie in it in folders like
    /// `date=2026-11-30/host=gpu01`. Dates are UTC.
    #[arg(
        long,
        value_name = "COLUMNS",
        value_delimiter = ',',
        value_enum,
        requires = "parquet",
        hide_short_help = true
    )]
    pub partition_by: Vec<Key>,

    /// Write the calls as JSON lines, a row each.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub ndjson: Option<PathBuf>,

    /// Write the calls as an Arrow IPC file (Feather), a row each.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub arrow: Option<PathBuf>,

    /// Write the calls as a trace for Perfetto and chrome://tracing.
    ///
    /// For ui.perfetto.dev: a slice a call on its thread's track, an instant a denial, counters of tokens and memory. Where the log has no time,
    /// it is inferred, or one call is drawn as 1 ms; the trace says which.
    #[arg(long, value_name = "FILE.json")]
    pub trace: Option<PathBuf>,

    /// Write the lines that were not understood, each after `path:line: `.
    #[arg(long, value_name = "FILE")]
    pub rejects: Option<PathBuf>,

    /// Make a line that was not understood an error (exit status 2).
    ///
    /// A last line that is cut off is none: that is what a killed program leaves.
    #[arg(long)]
    pub strict: bool,

    /// Follow a log that is still written to, until interrupted.
    ///
    /// Draws the summary anew on a terminal, prints one line an interval otherwise, with `--json` one object a line. A log
    /// that is truncated or replaced is followed on. Ctrl-C ends it with the summary of an ordinary run.
    #[arg(short, long, conflicts_with_all = ["plot", "report", "html", "csv", "parquet", "ndjson", "arrow", "trace", "rejects", "strict"])]
    #[arg(conflicts_with_all = ["api", "outcome", "pid", "from", "to", "kernel"])]
    pub follow: bool,

    /// Seconds between two summaries of `--follow`.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = interval, requires = "follow", hide_short_help = true)]
    pub interval: f64,

    /// Check the rules of a limiter; exit status 1 when one is broken.
    #[arg(long, conflicts_with_all = ["json", "follow"])]
    pub check: bool,

    /// Explain one line: why its call passed or not.
    ///
    /// `12`, or `hook.log:12` where several logs are read. Tells what was in the bucket or held of the quota, what the call
    /// cost, and when the next token was due; of a line without a call, what it is. With `--json` as an object.
    #[arg(long, value_name = "LINE", conflicts_with_all = ["check", "follow", "api", "outcome", "pid", "from", "to", "kernel"])]
    pub explain: Option<Place>,

    /// Replay the launches against another bucket (`rate=10,capacity=5`) or a `table`.
    ///
    /// `table`: buckets around the recorded one. The moments at which launches asked stay as they are recorded. May be given several times.
    #[arg(long, value_name = "BUCKET", value_parser = bucket, conflicts_with_all = ["follow", "api", "outcome", "from", "to", "kernel"])]
    pub what_if: Vec<Bucket>,

    /// Find the slowest rate that would have denied at most this part.
    #[arg(long, value_name = "PERCENT", value_parser = part, conflicts_with_all = ["follow", "api", "outcome", "from", "to", "kernel"])]
    pub size_for: Option<f64>,

    /// Capacities at which to look for it (default: half, once, twice and four times the recorded).
    #[arg(long, value_name = "TOKENS", value_delimiter = ',', value_parser = tokens, requires = "size_for", hide_short_help = true)]
    pub capacity: Vec<f64>,

    /// Grading.
    #[command(flatten)]
    pub grading: Grading,

    /// Language of all texts.
    #[arg(long, value_enum, default_value_t)]
    pub lang: Lang,

    /// What is compared.
    #[command(flatten)]
    pub diff: DiffArgs,

    /// Which calls the outputs are about.
    #[command(flatten)]
    pub filter: FilterArgs,

    /// What `make install` asks for.
    #[command(flatten)]
    pub manual: ManualArgs,
}

/// What the program does beside analysing logs.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Command {
    /// Start a program under the hook, and show the summary when it has ended.
    ///
    /// The flags win over the environment; the hook's other settings (`CUDA_CORE_BYPASS`, `CUDA_HOOK_LEVEL`, …) are
    /// taken from there. Without a limit the calls are only recorded. Log and event file are made anew. The summary goes
    /// to standard error, so that standard output is the program's alone. A log that is named `run` is read as `./run`.
    Run(StartArgs),
}

/// Which calls all outputs are about. Without any of these: all.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Which calls (default: all)")]
pub struct FilterArgs {
    /// Calls of this API: a name, or a pattern with `*` and `?`.
    ///
    /// Several: with commas, or the flag again. So with the other flags that take a list.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub api: Vec<Name>,

    /// Calls that ended so: ok, denied (by the hook) or failed (in CUDA).
    #[arg(long, value_name = "OUTCOME", value_delimiter = ',', value_parser = outcome)]
    pub outcome: Vec<Outcome>,

    /// Processes with this id.
    #[arg(long, value_name = "PID", value_delimiter = ',')]
    pub pid: Vec<u32>,

    /// Calls from then on: seconds since the process's first call, or RFC 3339.
    ///
    /// `1.5`, or `2026-11-30T07:42:11Z`. That moment is included.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub from: Option<Moment>,

    /// Calls up to then, as `--from`.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub to: Option<Moment>,

    /// Launches of kernels with this in their mangled name, or a pattern for it.
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

/// What `--what-if` names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bucket {
    /// A bucket.
    At(Settings),
    /// Those around the recorded one.
    Table,
}

impl Args {
    /// The first log as a title names it, and how many there are beside it.
    pub fn first_log(&self) -> String {
        let first = self.logs.first().map(|path| path.display().to_string()).unwrap_or_default();
        if self.logs.len() > 1 { format!("{first} + {}", self.logs.len() - 1) } else { first }
    }

    /// What is asked about other buckets.
    pub fn questions(&self) -> Questions {
        let buckets = self.what_if.iter().filter_map(|bucket| match bucket {
            Bucket::At(settings) => Some(*settings),
            Bucket::Table => None,
        });
        Questions {
            buckets: buckets.collect(),
            around: self.what_if.contains(&Bucket::Table),
            denials: self.size_for,
            capacities: self.capacity.clone(),
        }
    }
}

fn bucket(text: &str) -> Result<Bucket, String> {
    if text == "table" {
        return Ok(Bucket::Table);
    }
    let wrong = || format!("`{text}` is no bucket: write `rate=10,capacity=5` (tokens/s, tokens) or `table`");
    let (mut rate, mut capacity) = (None, None);
    for part in text.split(',') {
        match part.trim().split_once('=').ok_or_else(wrong)? {
            ("rate", value) if rate.is_none() => rate = Some(amount(value)?),
            ("capacity" | "burst", value) if capacity.is_none() => capacity = Some(amount(value)?),
            _ => return Err(wrong()),
        }
    }
    let (rate, capacity) = rate.zip(capacity).ok_or_else(wrong)?;
    Ok(Bucket::At(Settings { rate, capacity }))
}

/// A rate or a capacity, as the hook takes them.
fn amount(text: &str) -> Result<f64, String> {
    let amount = text.trim().parse().ok().filter(|amount: &f64| (1e-9..=1e12).contains(amount));
    amount.ok_or_else(|| format!("`{text}` is no number of tokens from 1e-9 to 1e12"))
}

fn tokens(text: &str) -> Result<f64, String> {
    amount(text)
}

/// `1%` or `0.01`, as a part from 0 to 1.
fn part(text: &str) -> Result<f64, String> {
    let (number, scale) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    let part = number.trim().parse().ok().map(|number: f64| number / scale).filter(|part| (0.0..=1.0).contains(part));
    // A bare `1` may be meant as 1 %.
    let part = part.filter(|part| scale > 1.0 || *part < 1.0);
    part.ok_or_else(|| format!("`{text}` is no part of the launches: write `1%` or `0.01`"))
}

fn interval(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds: &f64| (0.05..=86_400.0).contains(seconds));
    seconds.ok_or_else(|| format!("`{text}` is no number of seconds from 0.05 to 86400"))
}

fn outcome(text: &str) -> Result<Outcome, String> {
    let known = Outcome::ALL.into_iter().find(|outcome| outcome.name() == text);
    known.ok_or_else(|| format!("`{text}` is no outcome: `ok`, `denied` or `failed`"))
}

const EXAMPLES: &str = "Examples:
  hook-analyze                                   summary of hook.log
  hook-analyze hook.log --plot timeline.svg      and a chart (or .png)
  hook-analyze --report report.md --lang en      a report in English
  hook-analyze hook.log --json | jq .apis        figures for a program
  hook-analyze --outcome denied --csv d.csv      the denied calls alone
  hook-analyze --check                           rules kept? exit status 1 if not
  hook-analyze hook.log --what-if rate=10,capacity=5
                                                 the same launches, another bucket
  hook-analyze hook.log --lab                    what it shows of the course's rubric
  ssh gpu01 cat hook.log | hook-analyze -        a log from elsewhere

Exit status: 0 done, 1 `--check` found a rule broken or `--fail-on` a change too large, 2 wrong usage, unreadable input, or a log without hook events.";
