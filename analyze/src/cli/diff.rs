//! Two logs compared.

use std::path::{Path, PathBuf};

use super::args::Args;
use super::{advice, progress, run};
use crate::analysis::diff::Diff;
use crate::analysis::limit::Limit;
use crate::error::Error;
use crate::figures::{self, Figures};
use crate::parse::Pace;
use crate::render;

/// What is compared.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct DiffArgs {
    /// Compare two logs; `--fail-on denial_rate=+5%` limits the change.
    ///
    /// What is different is printed: calls by API and outcome, denial rates, memory, tokens, times, launch shapes, kernels, rules; with `--json` as an
    /// object, all figures included. Folders of logs will do, and an event file beside a log is taken in as ever.
    #[arg(long, num_args = 2, value_names = ["A", "B"])]
    #[arg(conflicts_with_all = ["logs", "events", "plot", "report", "csv", "parquet", "ndjson", "arrow", "trace", "rejects", "strict"])]
    #[arg(conflicts_with_all = ["follow", "check", "what_if", "size_for", "api", "outcome", "pid", "from", "to", "kernel"])]
    pub diff: Option<Vec<PathBuf>>,

    /// Exit with status 1 when a figure of B is further from that of A than this: `denial_rate=+5%`, `calls=-10`.
    ///
    /// METRIC=+CHANGE limits how much more it may be in B, METRIC=-CHANGE how much less. CHANGE is in the metric's own unit
    /// (calls, bytes, ns, s, tokens); with `%` it is a part of A's value. `denial_rate` is a share: its change is in
    /// percentage points, `+5%` lets 10 % become 15 %. METRIC@API is of one API: `denied@cudaMalloc=+0`. A metric that a log
    /// does not tell is an error (status 2). May be given several times; a name that is none lists them all.
    #[arg(long, value_name = "METRIC=CHANGE", requires = "diff", hide_short_help = true)]
    pub fail_on: Vec<Limit>,
}

/// Compares, prints, and gives the exit status.
///
/// # Errors
/// A log can't be read, or a limit is on what one does not tell.
pub(super) fn compare(args: &Args, logs: &[PathBuf]) -> Result<u8, Error> {
    let [a, b] = logs else { return Err(Error::ComparesTwo) };
    if a == Path::new("-") && b == Path::new("-") {
        return Err(Error::ComparesTwo);
    }
    let pace = Pace { workload: true, watch: Some(progress::watch), ..Pace::default() };
    let read = |log: &PathBuf| figures::read_at(std::slice::from_ref(log), None, pace);
    let both = [read(a)?, read(b)?];
    progress::end();
    for (figures, log) in both.iter().zip(logs) {
        let empty = |figures: &Figures| figures.summary.apis.is_empty();
        if empty(figures) {
            let log = std::slice::from_ref(log);
            run::complain(&format!("hook-analyze: {}", advice::no_calls(&figures.events, log, args.lang)));
            return Ok(run::FAILED);
        }
    }
    let [a, b] = &both;
    let diff = Diff::of(a, b, &args.diff.fail_on)?;
    if args.json {
        run::print_json(&diff, true)?;
    } else {
        run::print(run::coloured(render::diff::diff(&diff, args.lang)))?;
    }
    Ok(if diff.is_exceeded() { run::BROKEN } else { run::DONE })
}
