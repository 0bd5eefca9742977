//! A call's record from bytes, its keys in the order in which the hook writes them.

use std::hash::Hasher;

use hook_event::{Dim3, Outcome, Refusal, Scope};

use super::Order;
use crate::events::{Api, Names};
use crate::hash;
use crate::parse::json::Call;
use crate::parse::number::Cursor;
use crate::step::{ShapeId, Shapes};

/// What was read before and may come again.
#[derive(Default)]
pub(in crate::parse) struct Seen {
    clock: Clock,
    middles: Middles,
}

/// What was read of the last time stamp: of many records in a row only the fraction of the second changes.
#[derive(Default)]
struct Clock {
    /// `2026-11-30T07:42:11.`, and its moment, ns since 1970.
    second: Option<([u8; 20], i64)>,
}

/// A call's record.
pub(in crate::parse) struct Found<'a> {
    pub(in crate::parse) call: Call<'a>,
    pub(in crate::parse) api: Api,
    pub(in crate::parse) shape: Option<ShapeId>,
    /// Of the line, with the line feed.
    pub(in crate::parse) length: usize,
}

/// The record that `bytes` begin with.
#[inline(always)]
pub(in crate::parse) fn call<'a>(
    bytes: &'a [u8],
    seen: &mut Seen,
    names: &mut Names,
    shapes: &mut Shapes,
) -> Option<Found<'a>> {
    let mut c = Cursor::new(bytes);
    c.tag(b"{\"ev\":\"call\",\"seq\":")?;
    let seq = c.json_number()?;
    c.tag(b",\"ts\":\"")?;
    let wall_ns = Some(seen.clock.stamp(&mut c)?);
    c.tag(b"\",\"mono_ns\":")?;
    let mono_ns = Some(c.json_number()?);
    let rest = c.rest();
    let middle = seen.middles.of(rest, names, shapes)?;
    c.skip(middle.len);
    let text = |(from, to): Span| rest.get(from..to);
    let outcome = if c.has(b"ok\",\"ret\":") {
        Outcome::Ok
    } else if c.has(b"denied\",\"ret\":") {
        Outcome::Denied
    } else {
        c.tag(b"failed\",\"ret\":")?;
        Outcome::Failed
    };
    let ret = Some(c.json_signed()?);
    let (mut total, mut pending, mut quota) = (None, None, None);
    // No launch has these.
    if middle.grid.is_none() {
        total = if c.has(b",\"total\":") { Some(c.json_number()?) } else { None };
        pending = if c.has(b",\"pending\":") { Some(c.json_number()?) } else { None };
        quota = if c.has(b",\"quota\":") { Some(c.json_number()?) } else { None };
    }
    let refusal = match quota {
        Some(quota) => Some(refusal(&mut c, quota, total, pending)?),
        None => None,
    };
    let bypass = c.has(b",\"bypass\":true");
    let tokens = if c.has(b",\"tokens\":") { Some(c.json_decimal()?) } else { None };
    let wait_ns = if c.has(b",\"wait_ns\":") { Some(c.json_short()?) } else { None };
    c.tag(b",\"real_ns\":")?;
    let real_ns = Some(c.json_number()?);
    let hook_ns = if c.has(b",\"hook_ns\":") { Some(c.json_number()?) } else { None };
    c.tag(b"}")?;
    let length = c.line_end()?;
    let Middle { len: _, pid, tid, name, api, sym, dev, size, ptr, graph, grid, block, shape, shmem, stream, kernel } =
        *middle;
    let call = Call {
        seq,
        wall_ns,
        mono_ns,
        pid,
        tid,
        api: text(name)?,
        sym: sym.and_then(text),
        dev,
        size,
        ptr,
        grid,
        block,
        graph,
        shmem,
        stream,
        kernel: kernel.and_then(text),
        outcome,
        ret,
        total,
        pending,
        quota,
        refusal,
        tokens,
        bypass,
        wait_ns,
        real_ns,
        hook_ns,
    };
    Some(Found { call, api, shape, length })
}

/// Whose quota it was; `total` and `pending` are the process's own.
#[inline(always)]
fn refusal(c: &mut Cursor<'_>, quota: u64, total: Option<u64>, pending: Option<u64>) -> Option<Refusal> {
    let own = (total.unwrap_or(0), pending.unwrap_or(0));
    let (scope, (total, pending)) = if c.has(b",\"dev_total\":") {
        let total = c.json_number()?;
        c.tag(b",\"dev_pending\":")?;
        (Scope::Device, (total, c.json_number()?))
    } else if c.has(b",\"job_total\":") {
        let total = c.json_number()?;
        c.tag(b",\"job_pending\":")?;
        (Scope::Job, (total, c.json_number()?))
    } else if c.has(b",\"unreachable\":true") {
        (Scope::Unreachable, own)
    } else {
        (Scope::Process, own)
    };
    Some(Refusal { scope, quota, total, pending })
}

/// Where a text lies.
type Span = (usize, usize);

/// The part of a record that a launch has in common with the same launch before: process, thread, API, shape, kernel.
#[derive(Clone, Copy)]
struct Middle {
    /// Its length, up to the quotation mark before the outcome.
    len: usize,
    pid: u32,
    tid: Option<u64>,
    name: Span,
    api: Api,
    sym: Option<Span>,
    dev: Option<i32>,
    size: Option<u64>,
    ptr: Option<u64>,
    graph: Option<u64>,
    grid: Option<Dim3>,
    block: Option<Dim3>,
    shape: Option<ShapeId>,
    shmem: Option<u64>,
    stream: Option<u64>,
    kernel: Option<Span>,
}

impl Middle {
    #[inline(always)]
    fn read(bytes: &[u8], names: &mut Names, shapes: &mut Shapes) -> Option<Middle> {
        let mut c = Cursor::new(bytes);
        let text = |c: &mut Cursor<'_>| {
            let from = c.at();
            let text = c.plain_text()?;
            Some((from, from + text.len()))
        };
        c.tag(b",\"pid\":")?;
        let pid = u32::try_from(c.json_number()?).ok()?;
        c.tag(b",\"tid\":")?;
        let tid = Some(u64::from(u32::try_from(c.json_number()?).ok()?));
        c.tag(b",\"api\":\"")?;
        let name = text(&mut c)?;
        c.tag(b",\"sym\":\"")?;
        let sym = Some(text(&mut c)?);
        let dev = if c.has(b",\"dev\":") { Some(c.json_signed()?) } else { None };
        let size = if c.has(b",\"size\":") { Some(c.json_number()?) } else { None };
        let ptr = if c.has(b",\"ptr\":\"") { Some(address(&mut c)?) } else { None };
        let graph = if c.has(b",\"graph\":\"") { Some(address(&mut c)?) } else { None };
        let (mut grid, mut block, mut shmem) = (None, None, None);
        if c.has(b",\"grid\":[") {
            grid = Some(dim(&mut c)?);
            c.tag(b",\"block\":[")?;
            block = Some(dim(&mut c)?);
            c.tag(b",\"shmem\":")?;
            shmem = Some(c.json_number()?);
        }
        let stream = if c.has(b",\"stream\":\"") { Some(address(&mut c)?) } else { None };
        let kernel = if c.has(b",\"kernel\":\"") { Some(text(&mut c)?) } else { None };
        c.tag(b",\"outcome\":\"")?;
        let len = c.at();
        let api = names.api(bytes.get(name.0..name.1)?);
        let shape = grid.zip(block).map(|shape| shapes.id(shape));
        Some(Middle { len, pid, tid, name, api, sym, dev, size, ptr, graph, grid, block, shape, shmem, stream, kernel })
    }
}

/// Middles of launches. The one that is expected is tried; any other is read, which costs little more than to look for
/// it.
struct Middles {
    slots: Vec<Option<(Box<[u8]>, Middle)>>,
    launches: Order,
    /// Of the last one that was read.
    read: Option<Middle>,
}

/// Middles remembered; one that finds its place taken takes it over.
const SLOTS: usize = 1024;

/// The longest that is remembered, bytes.
const LONGEST: usize = 512;

impl Default for Middles {
    fn default() -> Self {
        Middles { slots: (0..SLOTS).map(|_| None).collect(), launches: Order::default(), read: None }
    }
}

impl Middles {
    #[inline(always)]
    fn of(&mut self, bytes: &[u8], names: &mut Names, shapes: &mut Shapes) -> Option<&Middle> {
        let expected = self.launches.expected();
        if self.slots[expected].as_ref().is_some_and(|(known, _)| bytes.starts_with(known)) {
            self.launches.comes(expected);
            return self.slots[expected].as_ref().map(|(_, middle)| middle);
        }
        let middle = Middle::read(bytes, names, shapes)?;
        if middle.grid.is_some() && middle.len <= LONGEST {
            self.learn(bytes.get(..middle.len)?, middle);
        }
        Some(self.read.insert(middle))
    }

    #[inline(never)]
    fn learn(&mut self, bytes: &[u8], middle: Middle) {
        let mut hash = hash::Folded::default();
        hash.write(bytes);
        let place = hash.finish() as usize % SLOTS;
        if self.slots[place].as_ref().is_none_or(|(known, _)| **known != *bytes) {
            self.slots[place] = Some((bytes.into(), middle));
        }
        self.launches.comes(place);
    }
}

#[inline(always)]
fn address(c: &mut Cursor<'_>) -> Option<u64> {
    let address = c.address()?;
    c.tag(b"\"")?;
    Some(address)
}

#[inline(always)]
fn dim(c: &mut Cursor<'_>) -> Option<Dim3> {
    let x = u32::try_from(c.json_number()?).ok()?;
    c.tag(b",")?;
    let y = u32::try_from(c.json_number()?).ok()?;
    c.tag(b",")?;
    let z = u32::try_from(c.json_number()?).ok()?;
    c.tag(b"]")?;
    Some(Dim3 { x, y, z })
}

impl Clock {
    /// `2026-11-30T07:42:11.123456789Z`, exactly so; ns since 1970.
    #[inline(always)]
    fn stamp(&mut self, c: &mut Cursor<'_>) -> Option<i64> {
        let text = c.take()?;
        let second_ns = match self.second {
            Some((known, ns)) if known == *text => ns,
            _ => self.second.insert((*text, second_ns(text)?)).1,
        };
        let nanos = c.nine()?;
        c.tag(b"Z")?;
        Some(second_ns + nanos as i64)
    }
}

fn two([a, b]: [u8; 2]) -> Option<i64> {
    let (a, b) = (a.wrapping_sub(b'0'), b.wrapping_sub(b'0'));
    (a < 10 && b < 10).then(|| i64::from(a) * 10 + i64::from(b))
}

/// Of the years 1970 to 2261, which ns since 1970 can tell for certain.
#[cold]
fn second_ns(text: &[u8; 20]) -> Option<i64> {
    let [y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1, b'T', h0, h1, b':', n0, n1, b':', s0, s1, b'.'] = *text else {
        return None;
    };
    let year = two([y0, y1])? * 100 + two([y2, y3])?;
    let (month, day, hour, minute) = (two([m0, m1])?, two([d0, d1])?, two([h0, h1])?, two([n0, n1])?);
    let second = two([s0, s1])?;
    // A leap second is left to the obvious reader.
    if !(1970..=2261).contains(&year) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let date = chrono::NaiveDate::from_ymd_opt(year as i32, month as u32, day as u32)?;
    let days = date.signed_duration_since(chrono::NaiveDate::default()).num_days();
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000_000_000)
}
