//! HAMi-core's log, of its levels 2 (as it comes) to 4.
//!
//! ```text
//! [HAMI-core Msg(2026:140405723975680:libvgpu.c:871)]: Initializing.....
//! [HAMI-core Info(2026:140405723975680:memory.c:120)]: into cuMemAllocing_v2 dptr=0x7ffc7cf500b8 bytesize=67108864
//! [HAMI-core Info(2026:140405723975680:allocator.c:50)]: _usage=543162368 limit=536870912 new_allocated=610271232
//! [HAMI-core ERROR (pid:2026 thread=140405723975680 allocator.c:52)]: Device 0 OOM 610271232 / 536870912
//! [HAMI-core Debug(2026:140405723975680:device.c:10)]: Hijacking cuDeviceGetAttribute
//! [HAMI-core Msg(2026:140405723975680:multiprocess_memory_limit.c:736)]: Exit cleanup complete for PID 2026
//! ```
//!
//! `Device n OOM used / limit` is a refused allocation: `used` is what the device would then hold, by all processes and
//! with the contexts. Which function asked for how much is known from level 3 on. From level 3 on grants and frees are
//! there too (of `cuMemAlloc_v2`), at level 4 the name of each function that was called, without its result.

use std::collections::HashMap;
use std::sync::LazyLock;

use hook_event::{Kind, Outcome, Refusal, Scope};
use regex::Regex;

use super::{At, Ledger, address, pattern};
use crate::events::{Process, Row};

/// What each of its lines begins with.
pub(super) const TAG: &str = "[HAMI-core ";

/// A line.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::parse) struct Line {
    pid: u32,
    tid: u64,
    /// Of level 3 or 4, which tell grants too.
    detailed: bool,
    said: Said,
}

#[derive(Clone, Debug, PartialEq)]
enum Said {
    /// A process loads it.
    Start,
    /// A process has ended.
    End,
    /// A function is called; how that ended is not said.
    Called(Box<str>),
    /// `cuMemAlloc_v2` is called.
    Asked { size: u64 },
    /// And has granted memory.
    Granted { ptr: u64, size: u64 },
    /// CUDA has refused.
    Failed { ret: i32 },
    /// Memory was given back.
    Freed { ptr: u64, ret: i32 },
    /// Memory was refused.
    Refused { dev: i32, would_be: u64, limit: u64 },
    /// Anything else.
    Notice,
}

impl Line {
    pub(super) fn is_call(&self) -> bool {
        !matches!(self.said, Said::Start | Said::End | Said::Notice)
    }
}

static HEAD: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?x)\[HAMI-core\x20 (?: (Msg|Info|Warn|Debug|Error|ERROR) \( ([0-9]+) : ([0-9]+) : ([^:()]+) : [0-9]+ \)
          | (?:ERROR|Error)\x20? \( pid:([0-9]+) \x20thread=([0-9]+) \x20([^:()]+) : [0-9]+ \) ) \]: \x20? (.*?) \s*$",
    )
});
static REFUSED: LazyLock<Regex> = LazyLock::new(|| pattern(r"^Device ([0-9]+) OOM ([0-9]+) / ([0-9]+)$"));
static ASKED: LazyLock<Regex> = LazyLock::new(|| pattern(r"^into cuMemAllocing_v2 dptr=\S+ bytesize=([0-9]+)$"));
static GRANTED: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^res=0, cuMemAlloc_v2 success dptr=(0x[0-9a-fA-F]+) bytesize=([0-9]+)$"));
static FAILED: LazyLock<Regex> = LazyLock::new(|| pattern(r"^cuMemoryAllocate failed res=(-?[0-9]+)$"));
static FREED: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^after free_raw dptr=(0x[0-9a-fA-F]+|\(nil\)) res=(-?[0-9]+)$"));
static HIJACKED: LazyLock<Regex> = LazyLock::new(|| pattern(r"^Hijacking ((?:cu|nvml)[A-Za-z0-9_]+)$"));
/// Functions that take no `Hijacking` line: their own name begins it. `memory.c` alone has them.
static OWN_NAME: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(cu[A-Z][A-Za-z0-9_]*)(?:$|[ ,:(])"));

/// Reads a line with [`TAG`] in it. `None`: it is torn.
pub(super) fn read(line: &str) -> Option<Line> {
    let line = line.get(line.find(TAG)?..)?;
    if line.matches(TAG).count() > 1 {
        return None;
    }
    let c = HEAD.captures(line).filter(|c| c.get(0).is_some_and(|all| all.start() == 0))?;
    let group = |number: usize| c.get(number).map_or("", |m| m.as_str());
    let level = group(1);
    let (pid, tid, file) =
        if level.is_empty() { (group(5), group(6), group(7)) } else { (group(2), group(3), group(4)) };
    let said = said(level, file, group(8))?;
    Some(Line { pid: pid.parse().ok()?, tid: tid.parse().ok()?, detailed: matches!(level, "Info" | "Debug"), said })
}

/// `None`: a number in it is none.
fn said(level: &str, file: &str, text: &str) -> Option<Said> {
    if let Some(c) = REFUSED.captures(text) {
        return Some(Said::Refused {
            dev: c[1].parse().ok()?,
            would_be: c[2].parse().ok()?,
            limit: c[3].parse().ok()?,
        });
    }
    if let Some(c) = HIJACKED.captures(text) {
        return Some(Said::Called(c[1].into()));
    }
    if let Some(c) = ASKED.captures(text) {
        return Some(Said::Asked { size: c[1].parse().ok()? });
    }
    if let Some(c) = GRANTED.captures(text) {
        return Some(Said::Granted { ptr: address(&c[1])?, size: c[2].parse().ok()? });
    }
    if let Some(c) = FREED.captures(text) {
        return Some(Said::Freed { ptr: address(&c[1])?, ret: c[2].parse().ok()? });
    }
    if let Some(c) = FAILED.captures(text) {
        return Some(Said::Failed { ret: c[1].parse().ok()? });
    }
    if text.starts_with("Device ") && text.contains(" OOM") {
        return None;
    }
    if file == "memory.c" && level == "Debug" && !text.contains(" returned ") {
        // A free is a call when its result is told, a line later.
        let name = OWN_NAME.captures(text).map(|c| c[1].to_owned()).filter(|name| name != "cuMemFree_v2");
        if let Some(name) = name {
            return Some(Said::Called(name.into()));
        }
    }
    Some(match text {
        _ if text.starts_with("Initializing") => Said::Start,
        _ if text.starts_with("Exit cleanup complete") => Said::End,
        _ => Said::Notice,
    })
}

/// The name under which refusals are counted whose function the log does not tell.
const UNTOLD: &str = "(allocation)";
const ALLOC: &str = "cuMemAlloc_v2";
const FREE: &str = "cuMemFree_v2";

/// Calls in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct Reader {
    /// Processes at work, by id.
    running: HashMap<u32, usize>,
    /// Requests whose result is not known yet, by process and thread.
    asked: HashMap<(usize, u64), Request>,
}

/// A call of `cuMemAlloc_v2`.
#[derive(Clone, Copy, Debug)]
struct Request {
    line: u64,
    size: u64,
    /// Place, device, sum and limit of its refusal. It stands only when no grant follows: HAMi-core asks again when it
    /// finds that a dead process held memory.
    refused: Option<(At, i32, u64, u64)>,
}

impl Reader {
    pub(super) fn take(&mut self, ledger: &mut dyn Ledger, at: At, said: Line) {
        let Line { pid, tid, detailed, said } = said;
        if said == Said::Start
            && let Some(process) = self.running.remove(&pid)
        {
            self.settle_all(ledger, Some(process));
        }
        let process = *self
            .running
            .entry(pid)
            .or_insert_with(|| ledger.open(Process { pid: Some(pid), memory_untold: true, ..at.process() }));
        if detailed {
            ledger.process(process).memory_untold = false;
        }
        // Whatever a thread does next, a refusal before it stands.
        if matches!(said, Said::Called(_) | Said::Freed { .. })
            && self.asked.get(&(process, tid)).is_some_and(|request| request.refused.is_some())
            && let Some(refused) = self.asked.remove(&(process, tid))
        {
            settle(ledger, process, tid, refused);
        }
        let mut enter = |api: &str, kind, outcome, rest: Row| {
            let api = ledger.name(api);
            ledger.call(process, Row { api, kind, outcome, tid: Some(tid), ..rest });
        };
        let bare = at.row(0, Kind::Alloc, Outcome::Ok);
        match said {
            Said::Start | Said::Notice => {}
            Said::End => {
                self.settle_all(ledger, Some(process));
                ledger.process(process).ended = true;
            }
            Said::Called(name) => {
                ledger.process(process).count_untold(&name);
            }
            Said::Asked { size } => {
                let before = self.asked.insert((process, tid), Request { line: at.line, size, refused: None });
                if let Some(before) = before {
                    settle(ledger, process, tid, before);
                }
            }
            Said::Granted { ptr, size } => {
                self.asked.remove(&(process, tid));
                let row = Row { size: Some(size), ptr: Some(ptr), ret: Some(0), ..bare };
                enter(ALLOC, Kind::Alloc, Outcome::Ok, row);
            }
            Said::Failed { ret } => {
                let asked = self.asked.remove(&(process, tid));
                let api = if asked.is_some() { ALLOC } else { UNTOLD };
                let row = Row { size: asked.map(|asked| asked.size), ret: Some(ret), ..bare };
                enter(api, Kind::Alloc, Outcome::Failed, row);
            }
            Said::Freed { ptr, ret } => {
                let outcome = if ret == 0 { Outcome::Ok } else { Outcome::Failed };
                enter(FREE, Kind::Free, outcome, Row { ptr: Some(ptr), ret: Some(ret), ..bare });
            }
            Said::Refused { dev, would_be, limit } => {
                match self.asked.get_mut(&(process, tid)).filter(|asked| asked.refused.is_none()) {
                    Some(asked) => asked.refused = Some((at, dev, would_be, limit)),
                    None => {
                        let row = Row { dev: Some(dev), quota: Some(limit), ..bare };
                        enter(UNTOLD, Kind::Alloc, Outcome::Denied, row);
                    }
                }
                let quotas = &mut ledger.process(process).device_quotas;
                match quotas.iter_mut().find(|(of, _)| *of == dev) {
                    Some(known) => known.1 = limit,
                    None => quotas.push((dev, limit)),
                }
            }
        }
    }

    pub(super) fn finish(&mut self, ledger: &mut dyn Ledger) {
        self.settle_all(ledger, None);
    }

    /// Whatever waits, of one process or of all.
    fn settle_all(&mut self, ledger: &mut dyn Ledger, of: Option<usize>) {
        let mut waiting: Vec<_> = self.asked.extract_if(|key, _| of.is_none_or(|of| key.0 == of)).collect();
        waiting.sort_by_key(|(_, request)| request.line);
        for ((process, tid), request) in waiting {
            settle(ledger, process, tid, request);
        }
    }
}

/// A request after which nothing more was said: refused, or of unknown result.
fn settle(ledger: &mut dyn Ledger, process: usize, tid: u64, request: Request) {
    let Some((at, dev, would_be, limit)) = request.refused else {
        ledger.process(process).count_untold(ALLOC);
        return;
    };
    let api = ledger.name(ALLOC);
    // What the device held already.
    let total = would_be.saturating_sub(request.size);
    ledger.call(
        process,
        Row {
            tid: Some(tid),
            dev: Some(dev),
            size: Some(request.size),
            quota: Some(limit),
            refusal: Some(Refusal { scope: Scope::Device, quota: limit, total, pending: 0 }),
            ..at.row(api, Kind::Alloc, Outcome::Denied)
        },
    );
}

#[cfg(test)]
mod tests {
    use super::super::tests::book;
    use super::*;

    /// API, outcome, size, device, quota, line.
    type Figures = (String, Outcome, Option<u64>, Option<i32>, Option<u64>, u64);

    fn figures(text: &str) -> Vec<Figures> {
        let (book, ..) = book(text);
        let row = |(_, row): &(usize, Row)| {
            (book.names.text(row.api).to_owned(), row.outcome, row.size, row.dev, row.quota, row.line)
        };
        book.calls.iter().map(row).collect()
    }

    #[test]
    fn at_its_own_level_it_tells_refusals_with_device_and_limit() {
        // grep -c OOM: 3 and 2.
        let text = include_str!("../../../tests/data/hami_core_default_h200.log");
        let (book, other, torn) = book(text);
        assert_eq!((book.processes.len(), other.len(), torn.len()), (1, 0, 0));
        let process = &book.processes[0];
        assert_eq!((process.pid, process.ended, process.memory_untold), (Some(2013), true, true));
        assert_eq!(process.device_quotas, [(0, 536_870_912)]);
        assert_eq!(book.calls[0].1.tid, Some(140_531_740_180_480));
        let denied = |line| (UNTOLD.to_owned(), Outcome::Denied, None, Some(0), Some(536_870_912), line);
        assert_eq!(figures(text), [denied(3), denied(4), denied(5)]);
        let torch = figures(include_str!("../../../tests/data/hami_core_torch_oom_h200.log"));
        assert_eq!(torch.len(), 2);
        assert!(torch.iter().all(|call| call.1 == Outcome::Denied && call.4 == Some(2_147_483_648)));
    }

    #[test]
    fn at_level_four_it_tells_sizes_and_the_functions_called() {
        let text = include_str!("../../../tests/data/hami_core_level4_h200.log");
        let (book, other, torn) = book(text);
        assert_eq!((book.processes.len(), torn.len()), (1, 0));
        assert!(other.iter().all(|line| line.is_empty()) && other.len() == 5, "{other:?}");
        let sizes: Vec<_> =
            book.calls.iter().map(|(_, row)| (row.line, row.size, row.refusal.map(|r| r.total))).collect();
        let held = Some(543_162_368);
        assert_eq!(
            sizes,
            [(1730, Some(67_108_864), held), (1736, Some(4_194_304), held), (1742, Some(4_194_304), held)]
        );
        assert!(book.calls.iter().all(|(_, row)| book.names.text(row.api) == ALLOC && row.outcome == Outcome::Denied));
        let process = &book.processes[0];
        assert!(!process.memory_untold && process.ended);
        // grep -o 'Hijacking [A-Za-z0-9_]*' | sort | uniq -c
        let counts = |name: &str| process.untold.get(name).copied();
        assert_eq!(process.untold.values().sum::<u64>(), 591);
        assert_eq!(counts("cuGetProcAddress_v2"), Some(440));
        assert_eq!(counts("cuDeviceGetAttribute"), Some(115));
        assert_eq!(counts("nvmlDeviceGetCount_v2"), Some(8));
        assert_eq!(counts("cuInit"), Some(1));
    }

    const ASKED: &str = "[HAMI-core Info(7:8:memory.c:120)]: into cuMemAllocing_v2 dptr=0x7ffc bytesize=100\n";
    const REFUSED: &str = "[HAMI-core ERROR (pid:7 thread=8 allocator.c:52)]: Device 1 OOM 300 / 250\n";
    const GRANTED: &str = "[HAMI-core Info(7:8:memory.c:124)]: res=0, cuMemAlloc_v2 success dptr=0x7f00 bytesize=100\n";

    #[test]
    fn grants_and_frees_are_calls_and_a_refusal_that_was_taken_back_is_none() {
        let freed = "[HAMI-core Info(7:8:memory.c:160)]: after free_raw dptr=0x7f00 res=0\n";
        let calls = figures(&format!("{ASKED}{GRANTED}{ASKED}{REFUSED}{GRANTED}{ASKED}{REFUSED}{freed}"));
        let of = |api: &str, outcome, size| (api.to_owned(), outcome, size);
        let calls: Vec<_> = calls.into_iter().map(|call| (call.0, call.1, call.2)).collect();
        assert_eq!(
            calls,
            [
                of(ALLOC, Outcome::Ok, Some(100)),
                of(ALLOC, Outcome::Ok, Some(100)),
                of(ALLOC, Outcome::Denied, Some(100)),
                of(FREE, Outcome::Ok, None),
            ]
        );
    }

    #[test]
    fn a_request_without_an_answer_is_counted_and_has_no_outcome() {
        let (book, ..) = book(&format!("{ASKED}{ASKED}"));
        assert_eq!((book.calls.len(), book.processes[0].untold.values().sum::<u64>()), (0, 2));
    }

    #[test]
    fn a_process_id_that_comes_again_is_another_process() {
        let start = "[HAMI-core Msg(7:8:libvgpu.c:871)]: Initializing.....\n";
        let (book, ..) = book(&format!("{start}{REFUSED}{start}{REFUSED}"));
        assert_eq!(book.processes.len(), 2);
        assert_eq!(book.calls.iter().map(|call| call.0).collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn torn_lines_are_told_from_lines_of_unknown_text() {
        for line in [
            "[HAMI-core Msg(2013:1405317401",
            "[HAMI-core ERROR (pid:7 thread=8 allocator.c:52)]: Device 1 OOM 300 / ",
            "[HAMI-core ERROR (pid:7 thread=8 allocator.c:52)]: Device 1 OOM 300 / 99999999999999999999",
            "[HAMI-core Info(7:8:[HAMI-core Info(7:8:memory.c:124)]: loading",
        ] {
            assert_eq!(read(line), None, "{line}");
        }
        let line = read("gpu-1 | [HAMI-core Warn(7:8:utils.c:1)]: something new").unwrap();
        assert_eq!((line.said, line.pid), (Said::Notice, 7));
    }
}
