//! Which logs are alike, and how much that says.
//!
//! The lab's test program makes the same calls each time, so two honest logs of it are often the same but for addresses.
//! What differs between honest runs are the device addresses (drawn anew for each process where addresses are
//! randomised), times, and the decimals of token levels; so only these tell more than that two ran the same program.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use hook_event::{Kind, Outcome};
use serde::Serialize;

use crate::events::{Events, Row};

/// How surely two logs of chance differ in their addresses, bits: of CUDA 13's allocations on an H200 the first lies at a
/// multiple of 32 MB somewhere in the 1 TB that Linux draws from, and the others at fixed distances.
const ADDRESS_BITS: f64 = 15.0;

/// The same of a decimal of a token level, one drawn by chance each time: less than its ten values, for pauses are alike.
const DECIMAL_BITS: f64 = 2.0;

/// The same of times to the nanosecond.
const TIME_BITS: f64 = 40.0;

/// Calls below which nothing is said.
const CALLS: u64 = 4;

/// Device addresses below this are handed out from the same place in each run.
const RANDOMISED: u64 = 1 << 44;

/// What is the same in two logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Likeness {
    /// Everything: calls, addresses, levels, times.
    Identical,
    /// The addresses, in their order, though other things differ.
    SameAddresses,
    /// Calls and levels, with other addresses and times.
    SameButAddresses,
}

impl Likeness {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Likeness::Identical => "identical",
            Likeness::SameAddresses => "same-addresses",
            Likeness::SameButAddresses => "same-but-addresses",
        }
    }
}

/// How much a likeness says, by the number of honest pairs in a folder of this size that are so by chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strength {
    /// At least one is to be expected.
    Weak,
    /// Less than one.
    Notable,
    /// Less than one in twenty such folders.
    Strong,
}

impl Strength {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Strength::Weak => "weak",
            Strength::Notable => "notable",
            Strength::Strong => "strong",
        }
    }

    fn of(pairs: f64, bits: f64) -> Strength {
        match pairs * (-bits).exp2() {
            expected if expected < 0.05 => Strength::Strong,
            expected if expected < 1.0 => Strength::Notable,
            _ => Strength::Weak,
        }
    }
}

/// Logs that are like one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Similar {
    /// In what.
    pub likeness: Likeness,
    /// How much that says in a folder of this size.
    pub strength: Strength,
    /// Which, sorted.
    pub to: Vec<String>,
}

/// What of a log is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    calls: u64,
    whole: u64,
    masked: u64,
    addresses: u64,
    has_addresses: bool,
    /// Addresses are drawn anew for each process.
    randomised: bool,
    /// There are times to the nanosecond.
    times: bool,
    /// Decimals of token levels that were drawn by chance.
    decimals: u32,
}

impl Fingerprint {
    /// Of a log's calls; `None` where there are too few to tell anything.
    pub fn of(events: &Events) -> Option<Fingerprint> {
        let calls = &events.calls;
        let (mut whole, mut masked, mut addresses) = (DefaultHasher::new(), DefaultHasher::new(), DefaultHasher::new());
        let (mut randomised, mut times, mut has_addresses, mut decimals, mut last) = (false, false, false, 0, 0);
        for i in 0..calls.len() {
            let row = calls.row(i);
            let api = events.names.text(row.api);
            (api, row.kernel.map(|kernel| events.names.text(kernel))).hash(&mut whole);
            // Names are numbered as they come; lines shift with what other programs print between.
            let row = Row { source: 0, line: 0, api: 0, sym: None, kernel: None, ..row };
            format!("{row:?}").hash(&mut whole);
            let tenths = row.tokens.map(|level| (level * 10.0).round() as i64);
            (api, row.outcome as u8, row.size, row.grid.map(xyz), row.block.map(xyz), tenths).hash(&mut masked);
            if let (Kind::Alloc, Outcome::Ok, Some(ptr)) = (row.kind, row.outcome, row.ptr) {
                ptr.hash(&mut addresses);
                has_addresses = true;
                randomised |= ptr >= RANDOMISED;
            }
            times |= row.mono_ns.is_some();
            // A level goes on with the decimal of the one before, unless time has passed.
            let decimal = tenths.map_or(last, |tenths| tenths.rem_euclid(10));
            decimals += u32::from(decimal != 0 && decimal != last);
            last = decimal;
        }
        let calls = calls.len() as u64;
        (calls >= CALLS).then(|| Fingerprint {
            calls,
            whole: whole.finish(),
            masked: masked.finish(),
            addresses: addresses.finish(),
            has_addresses,
            randomised,
            times,
            decimals,
        })
    }

    /// How surely another log of chance would differ from it in what is alike.
    fn bits(&self, likeness: Likeness) -> f64 {
        let of = |drawn: bool, bits: f64| if drawn { bits } else { 0.0 };
        let (addresses, decimals) = (of(self.randomised, ADDRESS_BITS), DECIMAL_BITS * f64::from(self.decimals));
        match likeness {
            Likeness::Identical => addresses + decimals + of(self.times, TIME_BITS),
            Likeness::SameAddresses => addresses,
            Likeness::SameButAddresses => decimals,
        }
    }
}

fn xyz(dim: hook_event::Dim3) -> [u32; 3] {
    [dim.x, dim.y, dim.z]
}

/// For each log, named and sorted, the others that are like it.
pub fn all(logs: &[(String, Option<Fingerprint>)]) -> Vec<Vec<Similar>> {
    let group = |key: fn(&Fingerprint) -> u64| {
        let mut groups: HashMap<(u64, u64), Vec<usize>> = HashMap::new();
        for (place, (_, print)) in logs.iter().enumerate() {
            if let Some(print) = print {
                groups.entry((key(print), print.calls)).or_default().push(place);
            }
        }
        groups
    };
    let (whole, masked) = (group(|print| print.whole), group(|print| print.masked));
    let compared = logs.iter().filter(|(_, print)| print.is_some()).count() as f64;
    let pairs = compared * (compared - 1.0) / 2.0;
    // Here the number of calls may differ.
    let mut addresses: HashMap<u64, Vec<usize>> = HashMap::new();
    for (place, (_, print)) in logs.iter().enumerate() {
        if let Some(print) = print.filter(|print| print.has_addresses) {
            addresses.entry(print.addresses).or_default().push(place);
        }
    }
    let of = |(place, (_, print)): (usize, &(String, Option<Fingerprint>))| {
        let Some(print) = print else { return Vec::new() };
        let mut seen = vec![place];
        let mut similar = Vec::new();
        let sets = [
            (Likeness::Identical, whole.get(&(print.whole, print.calls))),
            (Likeness::SameAddresses, addresses.get(&print.addresses).filter(|_| print.has_addresses)),
            (Likeness::SameButAddresses, masked.get(&(print.masked, print.calls))),
        ];
        for (likeness, set) in sets {
            let others: Vec<usize> = set.into_iter().flatten().copied().filter(|other| !seen.contains(other)).collect();
            if !others.is_empty() {
                let to = others.iter().map(|&other| logs[other].0.clone()).collect();
                similar.push(Similar { likeness, strength: Strength::of(pairs, print.bits(likeness)), to });
                seen.extend(others);
            }
        }
        similar
    };
    logs.iter().enumerate().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many logs of the lab's program, the last of which has the first one's addresses.
    fn class(size: u64, decimals: u32) -> Vec<Vec<Similar>> {
        let print = |number: u64| {
            let addresses = number % (size - 1);
            let whole = if decimals > 0 { addresses } else { number };
            Fingerprint {
                calls: 25,
                whole,
                masked: 7,
                addresses,
                has_addresses: true,
                randomised: true,
                times: false,
                decimals,
            }
        };
        all(&(0..size).map(|number| (format!("{number}.log"), Some(print(number)))).collect::<Vec<_>>())
    }

    #[test]
    fn the_larger_a_class_the_less_a_likeness_says() {
        let first = |size, decimals| (class(size, decimals)[0][0].likeness, class(size, decimals)[0][0].strength);
        assert_eq!(first(10, 0), (Likeness::SameAddresses, Strength::Strong));
        assert_eq!(first(200, 0), (Likeness::SameAddresses, Strength::Notable));
        assert_eq!(first(400, 0), (Likeness::SameAddresses, Strength::Weak));
        assert_eq!(first(200, 2), (Likeness::Identical, Strength::Strong));
        let others = &class(200, 0)[1][0];
        assert_eq!(
            (others.likeness, others.strength, others.to.len()),
            (Likeness::SameButAddresses, Strength::Weak, 199)
        );
    }
}
