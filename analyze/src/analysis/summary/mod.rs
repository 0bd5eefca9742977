//! The figures of an analysis, as `--json` prints them and every other output shows them.

mod assembly;

use std::collections::BTreeMap;

use serde::Serialize;

pub use assembly::analyse;
pub(crate) use assembly::{analyse_into, assemble};

use super::conformance::{Check, Status};
use super::coverage::Coverage;
use super::denials::{EpisodeFigures, Starvation};
use super::fairness::Fairness;
pub use super::fold::Trends;
use super::lab::Lab;
use super::memory::Memory;
use super::narrow::FilterFigures;
use super::overhead::Overhead;
use super::rates::Rates;
use super::timeline::{TimeBase, Timeline};
use super::whatif::{Size, WhatIf};
use crate::classes::Classes;
use crate::events::Note;

/// Version of the keys.
pub const SCHEMA: u32 = 1;

/// All figures.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The files and the account of their lines.
    pub inputs: Vec<InputFigures>,
    /// Which calls the figures are of, where they are not of all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<FilterFigures>,
    /// The limits, where all processes have the same.
    pub config: ConfigFigures,
    /// Names under which processes share their limits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shared: Vec<String>,
    /// Calls by API, most calls first, then by name.
    pub apis: Vec<ApiFigures>,
    /// Device memory: sums over the processes; the peak is the highest of any one process.
    pub memory: MemoryFigures,
    /// Token levels after each launch's decision.
    pub tokens: TokenFigures,
    /// Launch shapes, most launches first, then in the order of their first launch.
    pub dims: Vec<ShapeFigures>,
    /// Time covered.
    pub time: TimeFigures,
    /// Runs of denied launches with their times; `None` where the order of calls is not known, or only some were chosen.
    pub episodes: Option<EpisodeFigures>,
    /// The longest time without a launch let through while launches were asked for; `None` as above, where none was denied,
    /// and where the log has no time.
    pub starvation: Option<Starvation>,
    /// How evenly processes' launches were let through; `None` where only some calls were chosen.
    pub fairness: Option<Fairness>,
    /// What the hook added to calls, by API.
    pub overhead: Overhead,
    /// Rules kept or broken.
    pub checks: Vec<Check>,
    /// What other buckets would have done, where that was asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub what_if: Vec<WhatIf>,
    /// The slowest buckets that refuse no more than was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<Size>,
    /// The evidence for the lab's rubric, where that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lab: Option<Lab>,
    /// What went past the hook.
    pub coverage: Coverage,
    /// Each process by itself.
    pub processes: Vec<ProcessFigures>,
    /// What a reader of the figures should know.
    pub notes: Vec<Note>,
}

impl Summary {
    /// The quota that one process's peak may be held against: none where others draw on it too.
    pub fn own_quota(&self) -> Option<u64> {
        self.config.quota_bytes.filter(|_| self.shared.is_empty())
    }

    /// Whether the memory figures are those of the processes, as far as the log can tell: no total that a line or record
    /// states contradicts the replay.
    pub fn memory_is_sure(&self) -> bool {
        self.checks
            .iter()
            .all(|check| check.id != "total-matches" || (check.status != Status::Fail && check.line.is_none()))
    }
}

/// An input's lines: `lines` = lines with `events` and `left_out` + `other_lines` + `bad_lines` + `oversized_lines` +
/// `cut_lines`.
#[derive(Clone, Debug, Serialize)]
pub struct InputFigures {
    /// Its path.
    pub path: String,
    /// Lines.
    pub lines: u64,
    /// Records taken in, banner lines included.
    pub events: u64,
    /// Records of other runs in an event file.
    pub left_out: u64,
    /// Lines of other programs.
    pub other_lines: u64,
    /// Damaged or unknown lines of the hook.
    pub bad_lines: u64,
    /// Lines too long to be looked into.
    pub oversized_lines: u64,
    /// The last line, where the input ends in the middle of a record.
    pub cut_lines: u64,
    /// Each line counted once, by what it is.
    pub classes: Classes,
}

/// Limits; `null` where unknown, off, or not the same in all processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ConfigFigures {
    /// Quota, bytes.
    pub quota_bytes: Option<u64>,
    /// Rate, tokens/s.
    pub rate: Option<f64>,
    /// Capacity, tokens.
    pub capacity: Option<f64>,
    /// Whether the log says that there is no quota, rather than nothing.
    #[serde(skip)]
    pub quota_off: bool,
    /// The same of the rate.
    #[serde(skip)]
    pub rate_off: bool,
}

/// Calls of one API: `calls = ok + denied + failed + unknown`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ApiFigures {
    /// Name.
    pub api: String,
    /// All.
    pub calls: u64,
    /// Let through and accepted.
    pub ok: u64,
    /// Refused by the hook.
    pub denied: u64,
    /// Let through and refused by CUDA.
    pub failed: u64,
    /// Of which the log does not tell how they ended.
    #[serde(skip_serializing_if = "is_zero")]
    pub unknown: u64,
}

impl ApiFigures {
    /// In their order; counts are ok, denied, failed, unknown.
    pub(in crate::analysis) fn sorted(counts: BTreeMap<&str, [u64; 4]>) -> Vec<ApiFigures> {
        let figures = |(api, [ok, denied, failed, unknown]): (&str, [u64; 4])| {
            let calls = ok + denied + failed + unknown;
            ApiFigures { api: api.to_owned(), calls, ok, denied, failed, unknown }
        };
        let mut apis: Vec<ApiFigures> = counts.into_iter().map(figures).collect();
        apis.sort_by(|a, b| b.calls.cmp(&a.calls).then_with(|| a.api.cmp(&b.api)));
        apis
    }
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde asks for a reference
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Memory by replay of the log. All `null` where the log does not tell what was granted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(into = "MaybeMemory")]
pub struct MemoryFigures {
    /// Highest live bytes.
    pub peak_bytes: u64,
    /// Live bytes at the end.
    pub live_bytes: u64,
    /// Bytes granted.
    pub allocated_bytes: u64,
    /// Bytes given back.
    pub freed_bytes: u64,
    /// Frees of addresses not seen allocated.
    pub unknown_frees: u64,
    /// Whether none of these is known.
    pub untold: bool,
}

/// As `--json` prints them.
#[derive(Serialize)]
struct MaybeMemory {
    peak_bytes: Option<u64>,
    live_bytes: Option<u64>,
    allocated_bytes: Option<u64>,
    freed_bytes: Option<u64>,
    unknown_frees: Option<u64>,
}

impl From<MemoryFigures> for MaybeMemory {
    fn from(memory: MemoryFigures) -> Self {
        let told = |value| (!memory.untold).then_some(value);
        MaybeMemory {
            peak_bytes: told(memory.peak_bytes),
            live_bytes: told(memory.live_bytes),
            allocated_bytes: told(memory.allocated_bytes),
            freed_bytes: told(memory.freed_bytes),
            unknown_frees: told(memory.unknown_frees),
        }
    }
}

/// Levels; `first` and `last` only where there is one process. All `null` where only some calls were chosen.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(into = "MaybeTokens")]
pub struct TokenFigures {
    /// After the first launch.
    pub first: Option<f64>,
    /// Lowest.
    pub min: Option<f64>,
    /// Highest.
    pub max: Option<f64>,
    /// After the last launch.
    pub last: Option<f64>,
    /// Runs of denied launches with no launch let through between them: the first 1000 of them.
    pub denial_streaks: Vec<Streak>,
    /// All of them.
    pub denial_streak_count: u64,
    /// The longest; of several the first.
    pub longest_denial_streak: Option<Streak>,
    /// Whether none of these is known.
    pub untold: bool,
}

/// As `--json` prints them.
#[derive(Serialize)]
struct MaybeTokens {
    first: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
    last: Option<f64>,
    denial_streaks: Option<Vec<Streak>>,
    denial_streak_count: Option<u64>,
    longest_denial_streak: Option<Streak>,
}

impl From<TokenFigures> for MaybeTokens {
    fn from(tokens: TokenFigures) -> Self {
        let TokenFigures { first, min, max, last, denial_streaks, denial_streak_count, longest_denial_streak, untold } =
            tokens;
        MaybeTokens {
            first,
            min,
            max,
            last,
            denial_streaks: (!untold).then_some(denial_streaks),
            denial_streak_count: (!untold).then_some(denial_streak_count),
            longest_denial_streak,
        }
    }
}

/// A run of denied launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Streak {
    /// Number of its first call among the calls of the process, from 1.
    pub first_call: u64,
    /// Denied launches in it.
    pub length: u64,
    /// Index in `processes`.
    pub process: usize,
}

/// Launches of one shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ShapeFigures {
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Launches.
    pub calls: u64,
    /// Refused by the hook among them.
    pub denied: u64,
    /// Refused by CUDA among them.
    pub failed: u64,
}

/// Time covered.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TimeFigures {
    /// How it is known.
    pub base: TimeBase,
    /// From the first call to the last, s.
    pub duration_s: Option<f64>,
    /// By how much a time may be wrong either way, s: inferred ones by 0.1 / rate as long as the bucket was not full again,
    /// stamps before lines by their resolution; `None` for the others.
    pub error_s: Option<f64>,
    /// Whether more may have passed.
    pub lower_bound: bool,
    /// How often more may have passed between two calls: the bucket was full again, or the clock was set back.
    pub lower_bound_gaps: u64,
}

/// One process.
#[derive(Clone, Debug, Serialize)]
pub struct ProcessFigures {
    /// Process id.
    pub pid: Option<u32>,
    /// Program.
    pub exe: Option<String>,
    /// Line of its banner or `start` record.
    pub first_line: u64,
    /// Calls.
    pub calls: u64,
    /// Refused by the hook among them.
    pub denied: u64,
    /// Its limits.
    pub config: ConfigFigures,
    /// Its quotas on single devices, bytes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub device_quotas: BTreeMap<i32, u64>,
    /// The name under which it shares quota and bucket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared: Option<String>,
    /// Its memory.
    pub memory: MemoryFigures,
    /// Its levels.
    pub tokens: TokenFigures,
    /// Its time.
    pub time: TimeFigures,
    /// Its launches against their rate; `None` where it has no bucket to itself, where the log has no time, and where only
    /// some calls were chosen.
    pub rates: Option<Rates>,
    /// How its levels and its memory went; `None` beyond the first 64 processes.
    #[serde(skip)]
    pub trends: Option<Box<Trends>>,
    /// Records that the hook could not write.
    pub lost: Option<u64>,
    /// Records that stand too far behind later ones to be put in order: what depends on it is then `null`.
    #[serde(skip_serializing_if = "is_zero")]
    pub out_of_order: u64,
}

/// Figures, and what charts need beside them.
#[derive(Clone, Debug)]
pub struct Analysis {
    /// The figures.
    pub summary: Summary,
    /// Times, a process each.
    pub timelines: Vec<Timeline>,
    /// Memory, a process each.
    pub memories: Vec<Memory>,
    /// Of each call whether the outputs are about it; `None`: they are about all.
    pub chosen: Option<Vec<bool>>,
}

impl Analysis {
    /// Whether the outputs are about call `i`.
    pub fn is_chosen(&self, i: usize) -> bool {
        self.chosen.as_ref().is_none_or(|chosen| chosen.get(i).copied().unwrap_or(false))
    }
}
