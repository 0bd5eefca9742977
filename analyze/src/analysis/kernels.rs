//! Launches by kernel.

use std::cmp::Reverse;
use std::collections::HashMap;

use hook_event::{Kind, Outcome};
use serde::Serialize;

use super::summary::Analysis;
use crate::events::{Events, NameId};

/// Launches of one kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KernelFigures {
    /// Its mangled name.
    pub kernel: String,
    /// Launches.
    pub calls: u64,
    /// Refused by the hook among them.
    pub denied: u64,
    /// Refused by CUDA among them.
    pub failed: u64,
}

/// The kernels of the launches that name one, most launches first, then by name.
pub fn of(events: &Events, analysis: &Analysis) -> Vec<KernelFigures> {
    let calls = &events.calls;
    let mut counts: HashMap<NameId, [u64; 3]> = HashMap::new();
    for i in (0..calls.len()).filter(|&i| calls.kind[i] == Kind::Launch && analysis.is_chosen(i)) {
        let Some(kernel) = calls.kernel[i] else { continue };
        let count = counts.entry(kernel).or_default();
        count[0] += 1;
        count[1] += u64::from(calls.outcome[i] == Outcome::Denied);
        count[2] += u64::from(calls.outcome[i] == Outcome::Failed);
    }
    let figures = |(id, [calls, denied, failed]): (NameId, [u64; 3])| KernelFigures {
        kernel: events.names.text(id).to_owned(),
        calls,
        denied,
        failed,
    };
    let mut kernels: Vec<KernelFigures> = counts.into_iter().map(figures).collect();
    kernels.sort_by(|a, b| (Reverse(a.calls), &a.kernel).cmp(&(Reverse(b.calls), &b.kernel)));
    kernels
}
