//! A limiter with one fault, and programs under it. It is the course's, in the plainest way; what it logs is kept as a line
//! and as a record, so that one run can be read in both forms.

use std::collections::BTreeMap;
use std::fmt::Write;

use hook_event::units::MB;

#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(super) enum Fault {
    None,
    NoRefill,
    NoClamp,
    TwoTokens,
    ChargesDenials,
    NegativeTokens,
    DeniesWithTokens,
    EmptyStart,
    DoubleRate,
    HalfRate,
    WholeTokens,
    PassesWithout,
    QuotaOffByOne,
    DeniesWithRoom,
    FreeNotSubtracted,
    FreedTwice,
    WrongTotal,
    LostUpdate,
    TableOf256,
}

pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

const QUOTA: u64 = 128 * MB;

/// A call: when it was decided, its line, its record.
pub(super) struct Call {
    pub(super) at_ns: u64,
    pub(super) line: String,
    record: String,
}

pub(super) struct Hook {
    fault: Fault,
    rate: f64,
    capacity: f64,
    tokens: f64,
    last: u64,
    pub(super) now: u64,
    total: u64,
    /// Whether a launch without a token waits for it.
    waits: bool,
    blocks: BTreeMap<u64, u64>,
    /// Addresses given out, and those given back.
    pub(super) granted: Vec<u64>,
    free: Vec<u64>,
    next: u64,
    pub(super) calls: Vec<Call>,
}

/// The beginning of time, ns: of the monotonic clock, and ns since 1970 at that moment.
const BEGIN: u64 = 1000;
const EPOCH: i64 = 1_782_907_200_000_000_000;

impl Hook {
    pub(super) fn new(fault: Fault, rate: f64, capacity: f64, waits: bool) -> Hook {
        Hook {
            fault,
            rate,
            capacity,
            tokens: if fault == Fault::EmptyStart { 0.0 } else { capacity },
            last: BEGIN,
            now: BEGIN,
            total: 0,
            waits,
            blocks: BTreeMap::new(),
            granted: Vec::new(),
            free: Vec::new(),
            next: 0x7f00_0000,
            calls: Vec::new(),
        }
    }

    fn call(&mut self, line: String, record: &str) {
        let (seq, at_ns) = (self.calls.len() + 1, self.now);
        let record = format!(
            r#"{{"ev":"call","seq":{seq},"ts":"2026-11-30T07:42:11.000000000Z","mono_ns":{at_ns},"pid":7,"tid":7,{record},"real_ns":1,"hook_ns":1}}"#
        );
        self.calls.push(Call { at_ns, line: format!("[HOOK] {line}"), record });
    }

    fn refill(&mut self) {
        let rate = match self.fault {
            Fault::NoRefill => 0.0,
            Fault::DoubleRate => 2.0 * self.rate,
            Fault::HalfRate => 0.5 * self.rate,
            _ => self.rate,
        };
        self.tokens += rate * (self.now - self.last) as f64 / 1e9;
        self.last = self.now;
        if self.fault != Fault::NoClamp {
            self.tokens = self.tokens.min(self.capacity);
        }
        if self.fault == Fault::WholeTokens {
            self.tokens = self.tokens.floor();
        }
    }

    /// `fails`: CUDA refuses it, if it is forwarded.
    pub(super) fn launch(&mut self, fails: bool) {
        use Fault::*;
        self.refill();
        let mut waited = 0;
        if self.waits && self.tokens < 1.0 {
            waited = ((1.0 - self.tokens) / self.rate * 1e9).ceil() as u64;
            self.now += waited;
            self.refill();
        }
        let needs = match self.fault {
            DeniesWithTokens => 2.0,
            PassesWithout => 0.5,
            _ => 1.0,
        };
        // What the wait was rounded to is there.
        let passes = self.tokens >= needs || waited > 0;
        self.tokens -= match (passes, self.fault) {
            (true, TwoTokens) => 2.0,
            (true, _) => 1.0,
            (false, ChargesDenials | NegativeTokens) => 1.0,
            (false, _) => 0.0,
        };
        if matches!(self.fault, TwoTokens | ChargesDenials | PassesWithout) || waited > 0 {
            self.tokens = self.tokens.max(0.0);
        }
        let (outcome, ret) = match (passes, fails) {
            (false, _) => ("denied", 4),
            (true, true) => ("failed", 9),
            (true, false) => ("ok", 0),
        };
        let tokens = self.tokens;
        let answer = if passes { format!("-> {ret}") } else { "DENIED".to_owned() };
        let mut line = format!("cudaLaunchKernel(grid=1,1,1 block=32,1,1) {answer} | tokens={tokens:.1}");
        if waited > 0 {
            let _ = write!(line, " | waited: {:.1} ms", waited as f64 / 1e6);
        }
        self.call(
            line,
            &format!(
                r#""api":"cudaLaunchKernel","sym":"cudaLaunchKernel","dev":0,"grid":[1,1,1],"block":[32,1,1],"shmem":0,"stream":"0x0","outcome":"{outcome}","ret":{ret},"tokens":{tokens:?},"wait_ns":{waited}"#
            ),
        );
    }

    pub(super) fn malloc(&mut self, size: u64) {
        let room = match self.fault {
            Fault::QuotaOffByOne => QUOTA + 1,
            Fault::DeniesWithRoom => QUOTA / 2,
            _ => QUOTA,
        };
        let head = format!(r#""api":"cudaMalloc","sym":"cudaMalloc","dev":0,"size":{size}"#);
        if self.total.saturating_add(size) > room {
            let total = self.total;
            let line = format!("cudaMalloc({size}) DENIED | total: {} / {} MB", mb(total), mb(QUOTA));
            self.call(
                line,
                &format!(r#"{head},"outcome":"denied","ret":2,"total":{total},"pending":0,"quota":{QUOTA}"#),
            );
            return;
        }
        // What was freed is given out again at once.
        let ptr = self.free.pop().unwrap_or_else(|| {
            self.next += 0x100_0000;
            self.next
        });
        self.granted.push(ptr);
        // Two threads read the same total, and the one that writes last wins.
        if !(self.fault == Fault::LostUpdate && self.calls.len() % 7 == 3) {
            self.total += size;
        }
        if self.fault != Fault::TableOf256 || self.blocks.len() < 256 {
            self.blocks.insert(ptr, size);
        }
        let wrong = self.fault == Fault::WrongTotal && self.calls.len() % 5 == 2;
        let total = self.total + if wrong { MB / 4 } else { 0 };
        let line = format!("cudaMalloc({size}) -> {ptr:#x} | total: {} MB", mb(total));
        self.call(line, &format!(r#"{head},"ptr":"{ptr:#x}","outcome":"ok","ret":0,"total":{total},"pending":0"#));
    }

    /// A free that CUDA refuses where the block is free already (`again`).
    pub(super) fn free(&mut self, ptr: u64, again: bool) {
        let known = self.blocks.get(&ptr).copied();
        if self.fault != Fault::FreedTwice {
            self.blocks.remove(&ptr);
        }
        if self.fault != Fault::FreeNotSubtracted {
            self.total = self.total.wrapping_sub(known.unwrap_or(0));
        }
        if !again {
            self.free.push(ptr);
        }
        let (total, size) = (self.total, known.map_or(String::new(), |size| format!(r#""size":{size},"#)));
        let (outcome, ret) = if again { ("failed", 1) } else { ("ok", 0) };
        let line =
            format!("cudaFree({ptr:#x}) -> {ret} | freed: {} bytes | total: {} MB", known.unwrap_or(0), mb(total));
        self.call(
            line,
            &format!(
                r#""api":"cudaFree","sym":"cudaFree","dev":0,{size}"ptr":"{ptr:#x}","outcome":"{outcome}","ret":{ret},"total":{total}"#
            ),
        );
    }

    /// What is just one byte too much.
    pub(super) fn one_byte_too_much(&mut self) {
        self.malloc((QUOTA + 1).saturating_sub(self.total));
    }

    pub(super) fn banner(&self) -> String {
        let (rate, capacity) = (self.rate, self.capacity);
        format!("[HOOK] 显存配额: 128 MB ({QUOTA} bytes)\n[HOOK] 算力限速: {rate} tokens/s, burst {capacity}\n")
    }

    pub(super) fn text(&self) -> String {
        let lines: Vec<&str> = self.calls.iter().map(|call| call.line.as_str()).collect();
        self.banner() + &lines.join("\n") + "\n"
    }

    /// With a time of ms before each line, when it was read: up to 3 ms after the call.
    pub(super) fn stamped(&self, random: &mut Random) -> String {
        let mut text = self.banner();
        let mut last = 0;
        for call in &self.calls {
            last = last.max(call.at_ns + random.below(3_000_000));
            let _ = writeln!(text, "{} {}", stamp(last), call.line);
        }
        text
    }

    pub(super) fn records(&self) -> String {
        let (rate, capacity, policy) = (self.rate, self.capacity, if self.waits { "wait" } else { "deny" });
        let start = format!(
            r#"{{"v":1,"ev":"start","run":"r","ts":"2026-11-30T07:42:11.000000000Z","mono_ns":{BEGIN},"pid":7,"ppid":1,"exe":"/x","cmd":["x"],"host":"h","hook":"0.1.0","quota_bytes":{QUOTA},"rate":{rate:?},"capacity":{capacity:?},"policy":"{policy}"}}"#
        );
        let records: Vec<&str> = self.calls.iter().map(|call| call.record.as_str()).collect();
        start + "\n" + &records.join("\n") + "\n"
    }
}

fn mb(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / MB as f64)
}

pub(super) fn stamp(at_ns: u64) -> String {
    let wall = chrono::DateTime::from_timestamp_nanos(EPOCH + at_ns as i64);
    wall.to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
}

/// A program with bursts and pauses, and with memory up to the last byte; some launches CUDA refuses.
pub(super) fn program(fault: Fault, (rate, capacity): (f64, f64), waits: bool, seed: u64) -> Hook {
    let mut random = Random::new(seed);
    let mut hook = Hook::new(fault, rate, capacity, waits);
    let token_ns = (1e9 / rate) as u64;
    hook.now += random.below(token_ns);
    for _ in 0..3 + random.below(4) {
        for _ in 0..capacity as u64 + 2 + random.below(6) {
            hook.launch(random.below(8) == 0);
            hook.now += 1 + random.below(token_ns / 3);
        }
        hook.now += random.below(token_ns * (capacity as u64 + 3));
    }
    // A pause in which the bucket fills, and a launch after it.
    hook.now += token_ns * (capacity as u64 + 2);
    hook.launch(false);
    // More blocks than 256 where that is to be seen, and now and then.
    let blocks = match fault {
        // 86 MB, more than half of the quota; and frees enough.
        Fault::TableOf256 | Fault::DeniesWithRoom | Fault::FreedTwice | Fault::LostUpdate => 300,
        _ if seed.is_multiple_of(25) => 300,
        _ if fault >= Fault::QuotaOffByOne => 40,
        _ => 20,
    };
    for _ in 0..blocks {
        hook.now += 1 + random.below(5000);
        hook.malloc(64 * 1024 * (1 + random.below(8)) + random.below(100));
    }
    hook.one_byte_too_much();
    for ptr in std::mem::take(&mut hook.granted) {
        hook.free(ptr, false);
        if random.below(4) == 0 {
            hook.free(ptr, true);
        }
    }
    hook
}

/// The course's test program: it sleeps 1.5 s between its rows of launches.
pub(super) fn course_program(fault: Fault, (rate, capacity): (f64, f64), seed: u64) -> Hook {
    let mut random = Random::new(seed);
    let mut hook = Hook::new(fault, rate, capacity, false);
    hook.now += random.below(1_000_000);
    hook.malloc(64 * MB);
    hook.malloc(2048 * MB);
    let first = hook.granted[0];
    hook.free(first, false);
    hook.malloc(4 * MB);
    for row in [10, 5] {
        for _ in 0..row {
            hook.launch(false);
            hook.now += 1 + random.below(20_000);
        }
        hook.now += 1_500_000_000 + random.below(500_000);
    }
    hook
}

/// Threads that launch, allocate and free under a sound hook; each writes its line some time after the decision, seldom much
/// later. The log, with stamps of when each line was written or without.
pub(super) fn threads(bucket: (f64, f64), waits: bool, stamped: bool, seed: u64) -> String {
    let mut random = Random::new(seed);
    let mut hook = Hook::new(Fault::None, bucket.0, bucket.1, waits);
    let token_ns = (1e9 / bucket.0) as u64;
    let count = 2 + random.below(15) as usize;
    let mut free_at: Vec<u64> = (0..count).map(|_| BEGIN + random.below(token_ns / 2 + 1)).collect();
    let mut mine: Vec<Vec<u64>> = vec![Vec::new(); count];
    let mut written: Vec<(u64, usize)> = Vec::new();
    for _ in 0..count * (8 + random.below(20) as usize) {
        let thread = (0..count).min_by_key(|&thread| free_at[thread]).unwrap();
        hook.now = hook.now.max(free_at[thread]);
        match random.below(6) {
            0 => {
                let before = hook.granted.len();
                hook.malloc(MB * (1 + random.below(3)));
                mine[thread].extend(hook.granted[before..].iter().copied());
            }
            1 if !mine[thread].is_empty() => {
                let ptr = mine[thread].remove(0);
                hook.free(ptr, false);
            }
            _ => hook.launch(random.below(8) == 0),
        }
        let decided = hook.calls.last().unwrap().at_ns;
        let delay = match random.below(20) {
            0 => random.below(100_000_000),
            1..5 => random.below(200_000),
            _ => random.below(3000),
        };
        written.push((decided + delay, hook.calls.len() - 1));
        let think = if random.below(12) == 0 { random.below(token_ns * 4) } else { random.below(20_000) };
        free_at[thread] = decided + delay + think;
    }
    written.sort_unstable();
    let mut text = hook.banner();
    for (at_ns, call) in written {
        let prefix = if stamped { stamp(at_ns) + " " } else { String::new() };
        let _ = writeln!(text, "{prefix}{}", hook.calls[call].line);
    }
    text
}
