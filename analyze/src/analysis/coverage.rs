//! What went past the hook, as far as it knows: calls of the driver's entry points that take memory or start work and
//! are not counted.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::events::{Events, Note};

/// What the processes' `end` records say of calls past the hook.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// Processes in which the driver's entry points were watched.
    pub watched: u64,
    /// Processes that ran with the runtime API alone, or left no word of it.
    pub unknown: u64,
    /// Calls of known entry points that are not counted, by symbol.
    pub uncounted: BTreeMap<String, u64>,
}

impl Coverage {
    /// Sums the processes with calls up.
    pub(super) fn of(events: &Events) -> Coverage {
        let mut coverage = Coverage::default();
        for process in events.processes.iter().filter(|process| !process.rows.is_empty()) {
            match &process.uncounted {
                Some(uncounted) => {
                    coverage.watched += 1;
                    for (symbol, calls) in uncounted {
                        *coverage.uncounted.entry(symbol.clone()).or_default() += calls;
                    }
                }
                None => coverage.unknown += 1,
            }
        }
        coverage
    }

    /// The sentence for a person; none where nothing is known.
    pub fn statement(&self) -> Option<Note> {
        if self.watched == 0 {
            return None;
        }
        let (en, zh) = if self.unknown == 0 {
            ("", "")
        } else {
            (" (not known of every process)", " (并非每个进程都有记录)")
        };
        if self.uncounted.is_empty() {
            return Some(Note::new(
                format!("coverage: no call of a driver function that the hook knows and does not count{en}"),
                format!("覆盖情况: 没有调用过 hook 已知而不计数的驱动函数{zh}"),
            ));
        }
        let list: Vec<String> =
            self.uncounted.iter().map(|(symbol, calls)| format!("{symbol} \u{d7}{calls}")).collect();
        let list = list.join(", ");
        Some(Note::new(
            format!("coverage: called and not counted{en}: {list}; hook/README.md says what each may have taken"),
            format!("覆盖情况: 调用过而未计数的驱动函数{zh}: {list}; 各自的含义见 hook/README.md"),
        ))
    }
}
