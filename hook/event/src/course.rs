//! The course's lines: writer, and the obvious reader beside it.
//!
//! Graders run their own regular expressions on these lines, so the forms are frozen by golden tests. `%p` is C's:
//! a null pointer prints as `(nil)`.

use crate::buf::Buf;
use crate::event::{Call, Dim3, Op, Outcome, Refusal};
use crate::units::push_mb;

/// What every line of ours begins with.
pub const TAG: &str = "[HOOK] ";
/// "Device-memory quota: ".
const QUOTA: &str = "[HOOK] 显存配额: ";
/// "Compute rate limit: ".
const RATE: &str = "[HOOK] 算力限速: ";
/// "Shared limits: ".
const SHARED: &str = "[HOOK] 共享限额: ";
/// "unlimited (recording only)".
const UNLIMITED: &str = "无限制 (仅记录)";
/// "Warning: ".
const WARNING: &str = "[HOOK] 警告: ";

/// A buffer that holds every line of ours.
pub type LineBuf = Buf<1024>;

/// First banner line, line feed included. A fractional quota keeps its digits.
pub fn write_quota(out: &mut LineBuf, quota_bytes: Option<u64>) {
    out.push_str(QUOTA);
    match quota_bytes {
        Some(bytes) => {
            push_shortest_mb(out, bytes);
            out.push_str(" MB (");
            out.push_u64(bytes);
            out.push_str(" bytes)\n");
        }
        None => {
            out.push_str(UNLIMITED);
            out.push_byte(b'\n');
        }
    }
}

/// The shortest decimal number of MB that is this many whole bytes: `0.1`, not `0.09999942779541016`.
fn push_shortest_mb(out: &mut LineBuf, bytes: u64) {
    use core::fmt::Write;
    let mb = bytes as f64 / crate::units::MB as f64;
    for digits in 0..12 {
        let mut short = LineBuf::new();
        // Writing into a `Buf` can't fail.
        let _ = write!(short, "{mb:.digits$}");
        let text = core::str::from_utf8(short.as_bytes()).unwrap_or("");
        let read = text.parse::<f64>().map(|mb| mb * crate::units::MB as f64);
        if read.is_ok_and(|read| read >= bytes as f64 && read < bytes as f64 + 1.0) {
            return out.push_str(text);
        }
    }
    out.push_f64(mb);
}

/// Second banner line, line feed included: tokens per second and capacity.
pub fn write_rate(out: &mut LineBuf, bucket: Option<(f64, f64)>) {
    out.push_str(RATE);
    match bucket {
        Some((rate, capacity)) => {
            out.push_f64(rate);
            out.push_str(" tokens/s, burst ");
            out.push_f64(capacity);
            out.push_byte(b'\n');
        }
        None => {
            out.push_str(UNLIMITED);
            out.push_byte(b'\n');
        }
    }
}

/// The line after the banner of a process that shares its limits under `name`, line feed included.
pub fn write_shared(out: &mut LineBuf, name: &str) {
    out.push_str(SHARED);
    out.push_str(name);
    out.push_byte(b'\n');
}

/// A warning for a person, line feed included. `text` must be one line; it is cut if it is long.
pub fn write_warning(out: &mut LineBuf, text: &str) {
    out.push_str(WARNING);
    let room = 900usize.min(text.len());
    let end = (0..=room).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
    out.push_str(text.get(..end).unwrap_or(""));
    out.push_byte(b'\n');
}

/// The line of one call, line feed included.
pub fn write_call(out: &mut LineBuf, call: &Call<'_>) {
    out.push_str(TAG);
    out.push_str(call.api);
    match call.op {
        Op::Alloc { size, ptr, total, refusal, .. } => {
            out.push_byte(b'(');
            out.push_u64(size);
            match call.outcome {
                Outcome::Ok => {
                    out.push_str(") -> ");
                    push_pointer(out, ptr.unwrap_or(0));
                }
                Outcome::Denied => out.push_str(") DENIED"),
                Outcome::Failed => {
                    out.push_str(") FAILED(");
                    out.push_i64(call.ret.into());
                    out.push_byte(b')');
                }
            }
            out.push_str(" | total: ");
            match refusal.filter(|_| call.outcome == Outcome::Denied) {
                Some(Refusal { quota, total, .. }) => {
                    push_mb(out, total);
                    out.push_str(" / ");
                    push_mb(out, quota);
                }
                None => push_mb(out, total),
            }
            out.push_str(" MB\n");
        }
        Op::HostAlloc { size, ptr, total } => {
            out.push_byte(b'(');
            out.push_u64(size);
            if call.outcome == Outcome::Ok {
                out.push_str(") -> ");
                push_pointer(out, ptr.unwrap_or(0));
            } else {
                out.push_str(") FAILED(");
                out.push_i64(call.ret.into());
                out.push_byte(b')');
            }
            out.push_str(" | total: ");
            push_mb(out, total);
            out.push_str(" MB\n");
        }
        Op::HostFree { ptr, total } => {
            out.push_byte(b'(');
            push_pointer(out, ptr);
            out.push_str(") -> ");
            out.push_i64(call.ret.into());
            out.push_str(" | total: ");
            push_mb(out, total);
            out.push_str(" MB\n");
        }
        Op::Free { ptr, size, total } => {
            out.push_byte(b'(');
            push_pointer(out, ptr);
            out.push_str(") -> ");
            out.push_i64(call.ret.into());
            out.push_str(" | freed: ");
            out.push_u64(if call.outcome == Outcome::Ok { size.unwrap_or(0) } else { 0 });
            out.push_str(" bytes | total: ");
            push_mb(out, total);
            out.push_str(" MB\n");
        }
        Op::Reset { size, total } => {
            out.push_str("() -> ");
            out.push_i64(call.ret.into());
            out.push_str(" | freed: ");
            out.push_u64(if call.outcome == Outcome::Ok { size } else { 0 });
            out.push_str(" bytes | total: ");
            push_mb(out, total);
            out.push_str(" MB\n");
        }
        Op::Launch { grid, block, tokens, wait_ns, .. } => {
            out.push_str("(grid=");
            push_dim(out, grid);
            out.push_str(" block=");
            push_dim(out, block);
            push_decision(out, call, tokens, wait_ns);
        }
        Op::Graph { graph, tokens, wait_ns, .. } => {
            out.push_str("(graph=");
            push_pointer(out, graph);
            push_decision(out, call, tokens, wait_ns);
        }
    }
}

/// What a launch's line ends in.
fn push_decision(out: &mut LineBuf, call: &Call<'_>, tokens: Option<f64>, wait_ns: u64) {
    match call.outcome {
        Outcome::Denied => out.push_str(") DENIED"),
        Outcome::Ok | Outcome::Failed => {
            out.push_str(") -> ");
            out.push_i64(call.ret.into());
        }
    }
    out.push_str(" | tokens=");
    out.push_tenths(tokens.unwrap_or(0.0));
    if wait_ns > 0 {
        out.push_str(" | waited: ");
        out.push_tenths(wait_ns as f64 / 1e6);
        out.push_str(" ms");
    }
    out.push_byte(b'\n');
}

fn push_pointer(out: &mut LineBuf, ptr: u64) {
    if ptr == 0 { out.push_str("(nil)") } else { out.push_hex(ptr) }
}

fn push_dim(out: &mut LineBuf, dim: Dim3) {
    out.push_u64(dim.x.into());
    out.push_byte(b',');
    out.push_u64(dim.y.into());
    out.push_byte(b',');
    out.push_u64(dim.z.into());
}

#[cfg(feature = "read")]
pub use read::{LARGEST, Line, read};

#[cfg(feature = "read")]
mod read {
    use std::sync::LazyLock;

    use regex::{Captures, Regex};

    use super::{Dim3, Outcome};

    /// One course line, read. Numbers that the line rounds to one decimal stay what it says.
    #[derive(Clone, Debug, PartialEq)]
    pub enum Line<'a> {
        /// First banner line: the quota in bytes, or none.
        Quota(Option<u64>),
        /// Second banner line: rate (tokens/s) and capacity (tokens), or none.
        Rate(Option<(f64, f64)>),
        /// The name under which the process shares its limits.
        Shared(&'a str),
        /// A warning's text.
        Warning(&'a str),
        /// An allocation.
        Alloc {
            /// API name.
            api: &'a str,
            /// Bytes asked for.
            size: u64,
            /// Address, when granted.
            ptr: Option<u64>,
            /// How it ended.
            outcome: Outcome,
            /// The error in `FAILED(n)`; 0 when granted; unknown for a denial, whose line doesn't say it.
            ret: Option<i32>,
            /// Printed total, MB with one decimal.
            total_mb: f64,
            /// Printed quota of a denial, MB.
            quota_mb: Option<f64>,
        },
        /// A free. The course prescribes no form, so all but the pointer may be missing.
        Free {
            /// API name.
            api: &'a str,
            /// Address.
            ptr: u64,
            /// Return code.
            ret: Option<i32>,
            /// Bytes subtracted.
            freed: Option<u64>,
            /// Printed total, MB.
            total_mb: Option<f64>,
        },
        /// A device reset.
        Reset {
            /// API name.
            api: &'a str,
            /// Return code.
            ret: i32,
            /// Bytes subtracted.
            freed: u64,
            /// Printed total, MB.
            total_mb: f64,
        },
        /// A launch.
        Launch {
            /// API name.
            api: &'a str,
            /// Blocks.
            grid: Dim3,
            /// Threads of a block.
            block: Dim3,
            /// How it ended.
            outcome: Outcome,
            /// Return code; unknown for a denial.
            ret: Option<i32>,
            /// Printed level, tokens with one decimal.
            tokens: f64,
            /// Printed waiting time, ms.
            waited_ms: Option<f64>,
        },
        /// A launch of a whole graph.
        Graph {
            /// API name.
            api: &'a str,
            /// Handle.
            graph: u64,
            /// How it ended.
            outcome: Outcome,
            /// Return code; unknown for a denial.
            ret: Option<i32>,
            /// Printed level, tokens with one decimal.
            tokens: f64,
            /// Printed waiting time, ms.
            waited_ms: Option<f64>,
        },
    }

    /// Largest level, rate, size in MB or time that is taken for one. Beyond it an `f64` no longer tells neighbours apart
    /// by a tenth, and no hook has such values.
    pub const LARGEST: f64 = 1e14;

    /// A decimal number of a line. A host that chose a German locale makes a hook in C print `2,0`.
    fn number(text: &str) -> Option<f64> {
        text.replace(',', ".").parse().ok().filter(|value: &f64| value.abs() <= LARGEST)
    }

    /// A pattern of this module. They are constants, and the tests compile every one of them.
    #[allow(clippy::unwrap_used)]
    fn pattern(text: &str) -> Regex {
        Regex::new(text).unwrap()
    }

    static BANNER_QUOTA: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"^\[HOOK\] 显存配额: (?:[0-9.,]+ MB \(([0-9]+) bytes\)|无限制 \(仅记录\))\s*$"));
    static BANNER_RATE: LazyLock<Regex> = LazyLock::new(|| {
        pattern(
            r"^\[HOOK\] 算力限速: (?:([0-9]+(?:[.,][0-9]+)?) tokens/s, burst ([0-9]+(?:[.,][0-9]+)?)|无限制 \(仅记录\))\s*$",
        )
    });
    static SHARED: LazyLock<Regex> = LazyLock::new(|| pattern(r"^\[HOOK\] 共享限额: ([A-Za-z0-9._-]{1,64})\s*$"));
    static WARNING: LazyLock<Regex> = LazyLock::new(|| pattern(r"^\[HOOK\] 警告: (.*)$"));
    static ALLOC: LazyLock<Regex> = LazyLock::new(|| {
        pattern(
            r"(?x)^\[HOOK\]\x20 ([A-Za-z_][A-Za-z0-9_]*) \( ([0-9]+) \)\x20
              (?: ->\x20 (0[xX][0-9a-fA-F]+|\(nil\)) | (DENIED) | FAILED\( (-?[0-9]+) \) )
              \x20\|\x20 total:\x20 ([0-9]+[.,][0-9]) (?: \x20/\x20 ([0-9]+[.,][0-9]) )? \x20MB \s*$",
        )
    });
    /// The course leaves the wording of a free to its students: a name with "free" in it (or 释放) and the pointer make
    /// one, in brackets or not. A bracket that opens must close, or the line was torn.
    static FREE: LazyLock<Regex> = LazyLock::new(|| {
        pattern(
            r"(?x)^\[HOOK\]\x20 (?: ([A-Za-z_]*(?:[Ff]ree|Release|Unmap|Destroy)[A-Za-z0-9_]*) | 释放 )
              (?: \x20?\( [^()0-9]{0,24} (0[xX][0-9a-fA-F]+|\(nil\)) ( (?: [^0-9a-zA-Z()] [^()]{0,40} )? ) \)
                | [^()0-9]{1,24} (0[xX][0-9a-fA-F]+|\(nil\)) (?:[^0-9a-zA-Z]|$) )
              (.*)$",
        )
    });
    static FREE_RET: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"(?:->\s?(?:ret\s?=\s?)?|FAILED\s?\(|ret\s?[:=]\s?)(-?[0-9]+)"));
    /// Bytes, and the unit if they are none: of `4 MB` it is not known how many.
    static FREE_BYTES: LazyLock<Regex> = LazyLock::new(|| {
        pattern(
            r"(?x) (?:^,|freed|size|bytes|释放) \s?[:=]?\s? ([0-9]+) (\s?[KMGTkmgt]i?[Bb])? (?:$|[^0-9.,]|,(?:$|[^0-9]))
              | ([0-9]+)\x20(?:bytes|字节)",
        )
    });
    static FREE_TOTAL: LazyLock<Regex> = LazyLock::new(|| pattern(r"total[:=]\s?([0-9]+(?:[.,][0-9]+)?) ?MB"));
    static RESET: LazyLock<Regex> = LazyLock::new(|| {
        pattern(
            r"(?x)^\[HOOK\]\x20 ([A-Za-z_]+(?:Reset|PrimaryCtxRelease)[A-Za-z0-9_]*) \(\) \x20->\x20 (-?[0-9]+)
              \x20\|\x20 freed:\x20 ([0-9]+) \x20bytes \x20\|\x20 total:\x20 ([0-9]+[.,][0-9]) \x20MB \s*$",
        )
    });
    static LAUNCH: LazyLock<Regex> = LazyLock::new(|| {
        pattern(
            r"(?x)^\[HOOK\]\x20 ([A-Za-z_][A-Za-z0-9_]*)
              \( (?: grid=([0-9]+),([0-9]+),([0-9]+) \x20 block=([0-9]+),([0-9]+),([0-9]+)
                   | graph=(0[xX][0-9a-fA-F]+|\(nil\)) ) \)\x20
              (?: ->\x20 (-?[0-9]+) | (DENIED) )
              \x20\|\x20 tokens=(-?[0-9]+[.,][0-9]) (?: \x20\|\x20 waited:\x20 ([0-9]+[.,][0-9]) \x20ms )? \s*$",
        )
    });

    /// Reads one line, which must begin with [`super::TAG`]. `None`: not one of our forms, or a number in it is
    /// beyond its type.
    pub fn read(line: &str) -> Option<Line<'_>> {
        if let Some(c) = LAUNCH.captures(line) {
            return launch(&c);
        }
        if let Some(c) = ALLOC.captures(line) {
            return alloc(&c);
        }
        if let Some(c) = FREE.captures(line) {
            return free(&c);
        }
        if let Some(c) = RESET.captures(line) {
            return Some(Line::Reset {
                api: text(&c, 1),
                ret: text(&c, 2).parse().ok()?,
                freed: text(&c, 3).parse().ok()?,
                total_mb: number(text(&c, 4))?,
            });
        }
        if let Some(c) = BANNER_QUOTA.captures(line) {
            let bytes = match c.get(1) {
                Some(bytes) => Some(bytes.as_str().parse().ok()?),
                None => None,
            };
            return Some(Line::Quota(bytes));
        }
        if let Some(c) = BANNER_RATE.captures(line) {
            let bucket = match (c.get(1), c.get(2)) {
                (Some(rate), Some(capacity)) => Some((number(rate.as_str())?, number(capacity.as_str())?)),
                _ => None,
            };
            return Some(Line::Rate(bucket));
        }
        if let Some(c) = SHARED.captures(line) {
            return Some(Line::Shared(text(&c, 1)));
        }
        WARNING.captures(line).map(|c| Line::Warning(text(&c, 1)))
    }

    fn text<'a>(c: &Captures<'a>, group: usize) -> &'a str {
        c.get(group).map_or("", |m| m.as_str())
    }

    fn address(text: &str) -> Option<u64> {
        if text == "(nil)" { Some(0) } else { u64::from_str_radix(text.get(2..)?, 16).ok() }
    }

    /// An optional group: absent is fine, present and not a number of this type is not.
    fn optional<T: std::str::FromStr>(c: &Captures<'_>, group: usize) -> Option<Option<T>> {
        match c.get(group) {
            Some(m) => m.as_str().parse().ok().map(Some),
            None => Some(None),
        }
    }

    fn optional_number(c: &Captures<'_>, group: usize) -> Option<Option<f64>> {
        match c.get(group) {
            Some(m) => number(m.as_str()).map(Some),
            None => Some(None),
        }
    }

    fn alloc<'a>(c: &Captures<'a>) -> Option<Line<'a>> {
        let (outcome, ptr, ret) = match (c.get(3), c.get(4)) {
            (Some(ptr), _) => (Outcome::Ok, Some(address(ptr.as_str())?), Some(0)),
            (_, Some(_)) => (Outcome::Denied, None, None),
            _ => (Outcome::Failed, None, optional(c, 5)?),
        };
        Some(Line::Alloc {
            api: text(c, 1),
            size: text(c, 2).parse().ok()?,
            ptr,
            outcome,
            ret,
            total_mb: number(text(c, 6))?,
            quota_mb: optional_number(c, 7)?,
        })
    }

    fn free<'a>(c: &Captures<'a>) -> Option<Line<'a>> {
        let ptr = c.get(2).or(c.get(4)).map_or("", |m| m.as_str());
        let (within, rest) = (text(c, 3), text(c, 5));
        let find = |pattern: &Regex| pattern.captures(rest)?.get(1).map(|m| m.as_str().to_owned());
        Some(Line::Free {
            api: c.get(1).map_or("cudaFree", |m| m.as_str()),
            ptr: address(ptr)?,
            ret: find(&FREE_RET).map(|ret| ret.parse()).transpose().ok()?,
            freed: freed(within).or_else(|| freed(rest)).map(|bytes| bytes.parse()).transpose().ok()?,
            total_mb: match find(&FREE_TOTAL) {
                Some(mb) => Some(number(&mb)?),
                None => None,
            },
        })
    }

    /// The number of bytes that a text says were freed.
    fn freed(text: &str) -> Option<&str> {
        let c = FREE_BYTES.captures(text)?;
        c.get(1).or(c.get(3)).filter(|_| c.get(2).is_none()).map(|m| m.as_str())
    }

    fn launch<'a>(c: &Captures<'a>) -> Option<Line<'a>> {
        let api = text(c, 1);
        let ret: Option<i32> = optional(c, 9)?;
        let outcome = match ret {
            None => Outcome::Denied,
            Some(0) => Outcome::Ok,
            Some(_) => Outcome::Failed,
        };
        let tokens = number(text(c, 11))?;
        let waited_ms = optional_number(c, 12)?;
        if let Some(graph) = c.get(8) {
            let graph = address(graph.as_str())?;
            return Some(Line::Graph { api, graph, outcome, ret, tokens, waited_ms });
        }
        let dim = |first: usize| {
            Some(Dim3 {
                x: text(c, first).parse().ok()?,
                y: text(c, first + 1).parse().ok()?,
                z: text(c, first + 2).parse().ok()?,
            })
        };
        Some(Line::Launch { api, grid: dim(2)?, block: dim(5)?, outcome, ret, tokens, waited_ms })
    }
}

#[cfg(test)]
mod tests;
