//! A submission's figures as a grader's table has them. No marks.

use hook_event::Kind;
use serde::Serialize;

use super::Status as Rule;
use super::lab::{Lab, Standing};
use super::similar::{Similar, Strength};
use super::summary::Summary;
use crate::events::Note;

/// What became of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// Its log was read.
    Ok,
    /// Its log was read, and there are others in it.
    SeveralLogs,
    /// No call is in what was read.
    NoEvents,
    /// A folder without a log.
    NoLog,
    /// An archive without a log.
    NoLogInArchive,
    /// A part of it can't be unpacked; the figures are of the rest, where there are any.
    Damaged,
    /// It can't be read.
    Unreadable,
    /// It needs a password.
    Encrypted,
    /// It takes too much room.
    TooLarge,
    /// It is packed in a way that is not known here.
    Unsupported,
    /// This program failed.
    InternalError,
}

impl Status {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::SeveralLogs => "several-logs",
            Status::NoEvents => "no-events",
            Status::NoLog => "no-log",
            Status::NoLogInArchive => "no-log-in-archive",
            Status::Damaged => "damaged",
            Status::Unreadable => "unreadable",
            Status::Encrypted => "encrypted",
            Status::TooLarge => "too-large",
            Status::Unsupported => "unsupported",
            Status::InternalError => "internal-error",
        }
    }
}

/// A row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Grade {
    /// Name of the entry in the folder.
    pub submission: String,
    /// What became of it.
    pub status: Status,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<Note>,
    /// The file that was analysed, within the folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Its figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub figures: Option<Figures>,
    /// Those that it is like.
    pub similar_to: Vec<Similar>,
}

impl Grade {
    /// A row without figures.
    pub fn bare(submission: String, status: Status, note: Option<Note>) -> Grade {
        Grade { submission, status, note, file: None, figures: None, similar_to: Vec::new() }
    }

    /// The most that a likeness to another says.
    pub fn strength(&self) -> Option<Strength> {
        self.similar_to.iter().map(|similar| similar.strength).max()
    }
}

/// Calls, and those that the hook refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Calls {
    /// All.
    pub calls: u64,
    /// Refused.
    pub denied: u64,
}

/// The figures of a log. What it does not tell is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Lines.
    pub lines: u64,
    /// Calls.
    pub calls: u64,
    /// `cudaMalloc`.
    pub malloc: Calls,
    /// `cudaLaunchKernel`.
    pub launch: Calls,
    /// `cudaFree`.
    pub free: Calls,
    /// Quota, bytes.
    pub quota_bytes: Option<u64>,
    /// Tokens/s.
    pub rate: Option<f64>,
    /// Tokens.
    pub capacity: Option<f64>,
    /// Highest live bytes.
    pub peak_bytes: Option<u64>,
    /// Live bytes at the end.
    pub live_bytes: Option<u64>,
    /// Launches of all APIs that were let through.
    pub launches_passed: u64,
    /// Launches of all APIs that were refused.
    pub launches_denied: u64,
    /// Rules that are broken.
    pub checks_failed: Vec<&'static str>,
    /// What the log shows of each row of the rubric; none where the log is too long for it.
    pub lab: Vec<(&'static str, Standing)>,
}

impl Figures {
    /// From a log's figures, and its evidence.
    pub fn of(summary: &Summary, lab: Option<&Lab>) -> Figures {
        let api = |name: &str| {
            let found = summary.apis.iter().find(|api| api.api == name);
            found.map_or(Calls::default(), |api| Calls { calls: api.calls, denied: api.denied })
        };
        let launches = || summary.apis.iter().filter(|api| Kind::of(&api.api) == Kind::Launch);
        let memory = Some(summary.memory).filter(|memory| !memory.untold);
        let broken = summary.checks.iter().filter(|check| check.status == Rule::Fail);
        Figures {
            lines: summary.inputs.first().map_or(0, |input| input.lines),
            calls: summary.apis.iter().map(|api| api.calls).sum(),
            malloc: api("cudaMalloc"),
            launch: api("cudaLaunchKernel"),
            free: api("cudaFree"),
            quota_bytes: summary.config.quota_bytes,
            rate: summary.config.rate,
            capacity: summary.config.capacity,
            peak_bytes: memory.map(|memory| memory.peak_bytes),
            live_bytes: memory.map(|memory| memory.live_bytes),
            launches_passed: launches().map(|api| api.ok + api.failed).sum(),
            launches_denied: launches().map(|api| api.denied).sum(),
            checks_failed: broken.map(|check| check.id).collect(),
            lab: lab.map_or_else(Vec::new, |lab| lab.rows.iter().map(|row| (row.id, row.status)).collect()),
        }
    }
}
