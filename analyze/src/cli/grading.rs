//! Flags of those who grade the lab.

use std::path::PathBuf;

/// What graders ask for.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Grading {
    /// Show which lines are evidence for the course's rubric.
    ///
    /// What each line shows, what is missing, what is contradicted; no marks. With the test program's own output in the same file (`make test-gpu > hook.log 2>&1`) its counts are
    /// compared with the log's. `--json` then has a key `lab`.
    #[arg(long, conflicts_with_all = ["follow", "check", "api", "outcome", "from", "to", "kernel"])]
    pub lab: bool,

    /// Give a row for each submission in a folder.
    ///
    /// A table, with `--csv` a file. A submission is a log (also gzip or zstd), a ZIP archive or a folder with a log in it. One that can't be read gets a
    /// row that says why.
    #[arg(long, value_name = "DIR")]
    #[arg(conflicts_with_all = ["logs", "events", "lab", "plot", "report", "parquet", "ndjson", "arrow", "rejects"])]
    #[arg(conflicts_with_all = ["strict", "follow", "check", "what_if", "size_for"])]
    #[arg(conflicts_with_all = ["api", "outcome", "pid", "from", "to", "kernel"])]
    pub batch: Option<PathBuf>,

    /// Submissions of `--batch` that are read at the same time (default: as many as there are cores).
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), requires = "batch", hide_short_help = true)]
    pub jobs: Option<u16>,
}
