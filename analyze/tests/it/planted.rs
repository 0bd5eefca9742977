//! Limiters with one fault each: every fault must break its rule, and a sound one none. A limiter here is the course's, in
//! the plainest way; it logs records, whose moments, order and levels are exact.

use std::collections::BTreeMap;
use std::fmt::Write;

use hook_analyze::analysis::Status;

use crate::common::{folder, load};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
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
    FreeNotSubtracted,
    FreedTwice,
    WrongTotal,
    LostUpdate,
    TableOf256,
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

const QUOTA: u64 = 1 << 20;

struct Hook {
    fault: Fault,
    rate: f64,
    capacity: f64,
    tokens: f64,
    last: u64,
    now: u64,
    seq: u64,
    total: u64,
    blocks: BTreeMap<u64, u64>,
    /// Addresses given out.
    granted: Vec<u64>,
    log: String,
}

impl Hook {
    fn new(fault: Fault, rate: f64, capacity: f64) -> Hook {
        let mut log = String::new();
        let _ = writeln!(
            log,
            r#"{{"v":1,"ev":"start","run":"r","ts":"2026-11-30T07:42:11.000000000Z","mono_ns":1000,"pid":7,"ppid":1,"exe":"/x","cmd":["x"],"host":"h","hook":"0.1.0","quota_bytes":{QUOTA},"rate":{rate:?},"capacity":{capacity:?},"policy":"deny"}}"#
        );
        let tokens = if fault == Fault::EmptyStart { 0.0 } else { capacity };
        let blocks = BTreeMap::new();
        Hook {
            fault,
            rate,
            capacity,
            tokens,
            last: 1000,
            now: 1000,
            seq: 0,
            total: 0,
            blocks,
            granted: Vec::new(),
            log,
        }
    }

    fn record(&mut self, rest: &str) {
        self.seq += 1;
        let (seq, now) = (self.seq, self.now);
        let _ = writeln!(
            self.log,
            r#"{{"ev":"call","seq":{seq},"ts":"2026-11-30T07:42:11.000000000Z","mono_ns":{now},"pid":7,"tid":7,{rest},"real_ns":1,"hook_ns":1}}"#
        );
    }

    fn launch(&mut self) {
        use Fault::*;
        let rate = match self.fault {
            NoRefill => 0.0,
            DoubleRate => 2.0 * self.rate,
            HalfRate => 0.5 * self.rate,
            _ => self.rate,
        };
        self.tokens += rate * (self.now - self.last) as f64 / 1e9;
        self.last = self.now;
        if self.fault != NoClamp {
            self.tokens = self.tokens.min(self.capacity);
        }
        if self.fault == WholeTokens {
            self.tokens = self.tokens.floor();
        }
        let needs = match self.fault {
            DeniesWithTokens => 2.0,
            PassesWithout => 0.5,
            _ => 1.0,
        };
        let passes = self.tokens >= needs;
        self.tokens -= match (passes, self.fault) {
            (true, TwoTokens) => 2.0,
            (true, _) => 1.0,
            (false, ChargesDenials | NegativeTokens) => 1.0,
            (false, _) => 0.0,
        };
        if matches!(self.fault, TwoTokens | ChargesDenials | PassesWithout) {
            self.tokens = self.tokens.max(0.0);
        }
        let (outcome, ret) = if passes { ("ok", 0) } else { ("denied", 4) };
        let tokens = self.tokens;
        self.record(&format!(
            r#""api":"cudaLaunchKernel","sym":"cudaLaunchKernel","dev":0,"grid":[1,1,1],"block":[32,1,1],"shmem":0,"stream":"0x0","outcome":"{outcome}","ret":{ret},"tokens":{tokens:?},"wait_ns":0"#
        ));
    }

    fn malloc(&mut self, size: u64) {
        let room = QUOTA + u64::from(self.fault == Fault::QuotaOffByOne);
        let head = format!(r#""api":"cudaMalloc","sym":"cudaMalloc","dev":0,"size":{size}"#);
        if self.total + size > room {
            let total = self.total;
            self.record(&format!(r#"{head},"outcome":"denied","ret":2,"total":{total},"pending":0,"quota":{QUOTA}"#));
            return;
        }
        let ptr = 0x7f00_0000 + 0x100_0000 * self.granted.len() as u64;
        self.granted.push(ptr);
        // Two threads read the same total, and the one that writes last wins.
        if !(self.fault == Fault::LostUpdate && self.seq % 7 == 3) {
            self.total += size;
        }
        if self.fault != Fault::TableOf256 || self.blocks.len() < 256 {
            self.blocks.insert(ptr, size);
        }
        let total = self.total + u64::from(self.fault == Fault::WrongTotal && self.seq % 5 == 2);
        self.record(&format!(r#"{head},"ptr":"{ptr:#x}","outcome":"ok","ret":0,"total":{total},"pending":0"#));
    }

    /// A free that CUDA refuses where the block is free already.
    fn free(&mut self, ptr: u64, again: bool) {
        let known = self.blocks.get(&ptr).copied();
        if self.fault != Fault::FreedTwice {
            self.blocks.remove(&ptr);
        }
        if self.fault != Fault::FreeNotSubtracted {
            self.total -= known.unwrap_or(0).min(self.total);
        }
        let (total, size) = (self.total, known.map_or(String::new(), |size| format!(r#""size":{size},"#)));
        let (outcome, ret) = if again { ("failed", 1) } else { ("ok", 0) };
        self.record(&format!(
            r#""api":"cudaFree","sym":"cudaFree","dev":0,{size}"ptr":"{ptr:#x}","outcome":"{outcome}","ret":{ret},"total":{total}"#
        ));
    }
}

/// A program with bursts and pauses, and with memory up to the last byte.
fn run(fault: Fault, rate: f64, capacity: f64, seed: u64) -> String {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut hook = Hook::new(fault, rate, capacity);
    let token_ns = (1e9 / rate) as u64;
    hook.now += random.below(token_ns);
    for _ in 0..3 + random.below(4) {
        for _ in 0..capacity as u64 + 2 + random.below(6) {
            hook.launch();
            hook.now += 1 + random.below(token_ns / 3);
        }
        hook.now += random.below(token_ns * (capacity as u64 + 3));
    }
    // A pause in which the bucket fills, and a launch after it.
    hook.now += token_ns * (capacity as u64 + 2);
    hook.launch();
    for _ in 0..300 {
        hook.now += 1 + random.below(5000);
        hook.malloc(256 * (1 + random.below(8)));
    }
    // What is just too much.
    hook.malloc((QUOTA + 1).saturating_sub(hook.total));
    for ptr in std::mem::take(&mut hook.granted) {
        hook.free(ptr, false);
        if random.below(4) == 0 {
            hook.free(ptr, true);
        }
    }
    hook.log
}

/// The rules that a log breaks.
fn broken(log: &str) -> Vec<&'static str> {
    let folder = folder(&[("a.jsonl", log.as_bytes())]);
    let (_, analysis) = load(&folder.path().join("a.jsonl"));
    let checks = analysis.summary.checks.iter();
    checks.filter(|check| check.status == Status::Fail).map(|check| check.id).collect()
}

const LOGS: u64 = 300;

#[test]
fn a_sound_limiter_breaks_no_rule() {
    for (rate, capacity) in [(5.0, 3.0), (0.4, 1.0), (1000.0, 50.0), (17.3, 2.5), (250.0, 4.0), (3.0, 12.0)] {
        for seed in 0..LOGS {
            let broken = broken(&run(Fault::None, rate, capacity, seed));
            assert!(broken.is_empty(), "rate {rate}, capacity {capacity}, seed {seed}: {broken:?}");
        }
    }
}

#[test]
fn each_fault_breaks_its_own_rule() {
    let table = [
        (Fault::NoRefill, "refill-at-rate"),
        (Fault::NoClamp, "tokens-in-range"),
        (Fault::TwoTokens, "pass-takes-one"),
        (Fault::ChargesDenials, "denial-takes-none"),
        (Fault::NegativeTokens, "tokens-in-range"),
        (Fault::DeniesWithTokens, "denied-only-when-empty"),
        (Fault::EmptyStart, "starts-full"),
        (Fault::DoubleRate, "refill-at-rate"),
        (Fault::HalfRate, "refill-at-rate"),
        (Fault::WholeTokens, "refill-at-rate"),
        (Fault::PassesWithout, "passed-only-with-token"),
        (Fault::QuotaOffByOne, "quota-respected"),
        (Fault::FreeNotSubtracted, "total-matches"),
        (Fault::FreedTwice, "total-matches"),
        (Fault::WrongTotal, "total-matches"),
        (Fault::LostUpdate, "total-matches"),
        (Fault::TableOf256, "total-matches"),
    ];
    for (fault, rule) in table {
        let found = (0..LOGS).filter(|&seed| broken(&run(fault, 5.0, 3.0, seed)).contains(&rule)).count();
        println!("{fault:?}: {rule} in {found} of {LOGS}");
        assert!(found as u64 >= LOGS * 99 / 100, "{fault:?}: {rule} in {found} of {LOGS}");
    }
}
