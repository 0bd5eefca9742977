//! One log read in every way there is: on one thread and several, by the fast readers and the obvious one, with rows
//! and without. All must agree. The tests and the fuzzer share this.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use hook_analyze::analysis::summary::analyse;
use hook_analyze::events::Events;
use hook_analyze::figures;
use hook_analyze::input::tail::Control;
use hook_analyze::parse::{self, Pace};

/// Reads a log in every way: they agree, and the classes add up. Gives back lines with records, and lines; none of a log
/// that is refused, which is then refused in every way.
pub(crate) fn read_every_way(path: &Path, what: &str) -> (u64, u64) {
    let Some(events) = events_every_way(&[path.to_owned()], None, what) else { return (0, 0) };
    let source = &events.sources[0];
    let sums = source.event_lines + source.other_lines + source.bad_lines + source.oversized_lines + source.cut_lines;
    assert_eq!((source.lines, source.lines), (source.classes.lines(), sums), "{what}");
    same_when_followed(path, what);
    (source.event_lines, source.lines)
}

/// Reads logs, perhaps with an event file, in every way: they agree, or refuse alike.
pub(crate) fn events_every_way(logs: &[PathBuf], events: Option<&Path>, what: &str) -> Option<Events> {
    let read = |threads, fast| parse::read_at(logs, events, Pace { threads, fast, ..Pace::default() });
    match read(1, false) {
        Ok(read_events) => {
            assert_same_events(&read(2, true).unwrap(), &read_events, what);
            same_figures(logs, events, what);
            Some(read_events)
        }
        Err(refusal) => {
            for other in [read(2, true).err(), figures::read(logs, events).err()] {
                assert_eq!(other.map(|error| error.to_string()), Some(refusal.to_string()), "{what}");
            }
            None
        }
    }
}

/// The figures both ways, as JSON and in Chinese: they must be the same.
pub(crate) fn same_figures(logs: &[PathBuf], events: Option<&Path>, what: &str) -> serde_json::Value {
    let rows = analyse(&parse::read(logs, events).unwrap()).summary;
    let folded = figures::read(logs, events).unwrap().summary;
    let lang = hook_analyze::render::Lang::Zh;
    let shown = |summary| hook_analyze::render::terminal::summary(summary, lang);
    assert_eq!(shown(&folded), shown(&rows), "{what}");
    let (folded, rows) = (serde_json::to_value(&folded).unwrap(), serde_json::to_value(&rows).unwrap());
    assert_eq!(folded, rows, "{what}");
    folded
}

/// The figures of a log that was followed and is not written to any more: they must be those of the log.
fn same_when_followed(path: &Path, what: &str) {
    let control = Control::default();
    control.stop.store(true, Ordering::Relaxed);
    let followed = figures::follow(path, &control, Duration::from_micros(100), |_| {}).unwrap().summary;
    // Whoever follows can't begin again to sort them.
    if followed.processes.iter().all(|process| process.out_of_order == 0) {
        let read = figures::read(&[path.to_owned()], None).unwrap().summary;
        assert_eq!(serde_json::to_value(&followed).unwrap(), serde_json::to_value(&read).unwrap(), "{what}");
    }
}

/// Everything of two readings, but for ids of names, whose texts count.
pub(crate) fn assert_same_events(a: &Events, b: &Events, what: &str) {
    assert_eq!(
        format!("{:?}{:?}{:?}", a.sources, a.processes, a.notes),
        format!("{:?}{:?}{:?}", b.sources, b.processes, b.notes),
        "{what}"
    );
    assert_eq!(a.calls.len(), b.calls.len(), "{what}");
    for i in 0..a.calls.len() {
        let (x, mut y) = (a.calls.row(i), b.calls.row(i));
        let text = |events: &Events, id: Option<u32>| id.map(|id| events.names.text(id).to_owned());
        assert_eq!(text(a, Some(x.api)), text(b, Some(y.api)), "{what} {i}");
        assert_eq!(text(a, x.sym), text(b, y.sym), "{what} {i}");
        assert_eq!(text(a, x.kernel), text(b, y.kernel), "{what} {i}");
        (y.api, y.sym, y.kernel) = (x.api, x.sym, x.kernel);
        assert_eq!(x, y, "{what} {i}");
    }
}

/// Numbers without a pattern, the same every time.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    /// Changes bytes here and there: flips, cuts, inserts, repeats.
    pub(crate) fn damage(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..self.below(12) {
            if bytes.is_empty() {
                return;
            }
            let at = self.below(bytes.len());
            match self.below(5) {
                0 => bytes[at] = self.below(256) as u8,
                1 => bytes.truncate(at.max(bytes.len() / 2)),
                2 => bytes.insert(at, b"\n\r\0[{\x1b\xff\"0"[self.below(9)]),
                3 => drop(bytes.remove(at)),
                _ => {
                    let from = self.below(bytes.len());
                    let piece = bytes[from..(from + self.below(200)).min(bytes.len())].to_vec();
                    bytes.splice(at..at, piece);
                }
            }
        }
    }
}
