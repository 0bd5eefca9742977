//! A call's record from bytes, its keys in the order in which the hook writes them.

use std::hash::Hasher;

use hook_event::{Dim3, Outcome, Refusal, Scope};

use super::Order;
use crate::events::{Api, Names};
use crate::hash;
use crate::parse::json::Call;
use crate::parse::number::{Cursor, Near};
use crate::step::{ShapeId, Shapes};

/// What was read before and may come again.
#[derive(Default)]
pub(in crate::parse) struct Seen {
    clock: Clock,
    mono: Near,
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
    let mono_ns = Some(c.json_near(&mut seen.mono)?);
    let rest = c.rest();
    let middle = seen.middles.of(rest, names, shapes)?;
    c.skip(middle.len);
    let at = |(from, to): Span| rest.get(from..to);
    // What a launch that was let through says, most of a log; else field by field.
    let (outcome, ret, account, bypass, tokens) = if c.has(b"ok\",\"ret\":0,\"tokens\":") {
        (Outcome::Ok, Some(0), Account::default(), false, Some(c.json_decimal()?))
    } else {
        let (outcome, ret) = outcome(&mut c)?;
        // No launch has one.
        let account = if middle.grid.is_none() { Account::read(&mut c)? } else { Account::default() };
        let bypass = c.has(b",\"bypass\":true");
        let tokens = if c.has(b",\"tokens\":") { Some(c.json_decimal()?) } else { None };
        (outcome, ret, account, bypass, tokens)
    };
    let Account { total, pending, quota, refusal } = account;
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
        api: at(name)?,
        sym: sym.and_then(at),
        dev,
        size,
        ptr,
        grid,
        block,
        graph,
        shmem,
        stream,
        kernel: kernel.and_then(at),
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

/// How a call ended, and what it returned.
#[inline(always)]
fn outcome(c: &mut Cursor<'_>) -> Option<(Outcome, Option<i32>)> {
    let outcome = if c.has(b"ok\",\"ret\":") {
        Outcome::Ok
    } else if c.has(b"denied\",\"ret\":") {
        Outcome::Denied
    } else {
        c.tag(b"failed\",\"ret\":")?;
        Outcome::Failed
    };
    Some((outcome, Some(c.json_signed()?)))
}

/// What a record tells of accounts.
#[derive(Default)]
struct Account {
    total: Option<u64>,
    pending: Option<u64>,
    quota: Option<u64>,
    refusal: Option<Refusal>,
}

impl Account {
    #[inline(always)]
    fn read(c: &mut Cursor<'_>) -> Option<Account> {
        let total = if c.has(b",\"total\":") { Some(c.json_number()?) } else { None };
        let pending = if c.has(b",\"pending\":") { Some(c.json_number()?) } else { None };
        let quota = if c.has(b",\"quota\":") { Some(c.json_number()?) } else { None };
        let refusal = match quota {
            Some(quota) => Some(refusal(c, quota, total, pending)?),
            None => None,
        };
        Some(Account { total, pending, quota, refusal })
    }
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
    /// Behind its head.
    #[inline(always)]
    fn read(bytes: &[u8], head: &Head, shapes: &mut Shapes) -> Option<Middle> {
        let &Head { len, pid, tid, name, api, sym, dev } = head;
        let mut c = Cursor::new(bytes);
        c.skip(len);
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
        let shape = grid.zip(block).map(|shape| shapes.id(shape));
        Some(Middle { len, pid, tid, name, api, sym, dev, size, ptr, graph, grid, block, shape, shmem, stream, kernel })
    }
}

/// The beginning of a middle that a process's calls of an API have in common.
#[derive(Clone, Copy)]
struct Head {
    /// Its length, up to a comma.
    len: usize,
    pid: u32,
    tid: Option<u64>,
    name: Span,
    api: Api,
    sym: Option<Span>,
    dev: Option<i32>,
}

impl Head {
    fn read(bytes: &[u8], names: &mut Names) -> Option<Head> {
        let mut c = Cursor::new(bytes);
        c.tag(b",\"pid\":")?;
        let pid = u32::try_from(c.json_number()?).ok()?;
        c.tag(b",\"tid\":")?;
        let tid = Some(u64::from(u32::try_from(c.json_number()?).ok()?));
        c.tag(b",\"api\":\"")?;
        let name = text(&mut c)?;
        c.tag(b",\"sym\":\"")?;
        let sym = Some(text(&mut c)?);
        let dev = if c.has(b",\"dev\":") { Some(c.json_signed()?) } else { None };
        let len = c.at();
        let api = names.api(bytes.get(name.0..name.1)?);
        Some(Head { len, pid, tid, name, api, sym, dev })
    }
}

/// Where a text lies that is next.
#[inline(always)]
fn text(c: &mut Cursor<'_>) -> Option<Span> {
    let from = c.at();
    let text = c.plain_text()?;
    Some((from, from + text.len()))
}

/// The last heads, each with the comma behind it, so that none is the beginning of another.
struct Heads {
    known: [Option<(Box<[u8]>, Head)>; HEADS],
    /// Which of them came last, and so on.
    order: [u8; HEADS],
}

impl Default for Heads {
    fn default() -> Self {
        Heads { known: [const { None }; HEADS], order: std::array::from_fn(|place| place as u8) }
    }
}

/// Heads remembered: each thread has some.
const HEADS: usize = 4;

impl Heads {
    #[inline(always)]
    fn of(&mut self, bytes: &[u8], names: &mut Names) -> Option<Head> {
        for place in 0..HEADS {
            if let Some((text, head)) = &self.known[usize::from(self.order[place])]
                && bytes.starts_with(text)
            {
                self.order.swap(0, place);
                return Some(*head);
            }
        }
        self.learn(bytes, names)
    }

    #[inline(never)]
    fn learn(&mut self, bytes: &[u8], names: &mut Names) -> Option<Head> {
        let head = Head::read(bytes, names)?;
        let text = bytes.get(..=head.len).filter(|text| text.ends_with(b",") && text.len() <= LONGEST)?;
        self.order.rotate_right(1);
        self.known[usize::from(self.order[0])] = Some((text.into(), head));
        Some(head)
    }
}

/// Middles of launches. The one that is expected is tried; any other is read, which costs little more than to look for
/// it.
struct Middles {
    slots: Vec<Option<(Box<[u8]>, Middle)>>,
    launches: Order,
    heads: Heads,
    /// Of the last one that was read.
    read: Option<Middle>,
}

/// Middles remembered; one that finds its place taken takes it over.
const SLOTS: usize = 1024;

/// The longest that is remembered, bytes.
const LONGEST: usize = 512;

impl Default for Middles {
    fn default() -> Self {
        let slots = (0..SLOTS).map(|_| None).collect();
        Middles { slots, launches: Order::default(), heads: Heads::default(), read: None }
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
        let head = self.heads.of(bytes, names)?;
        let middle = Middle::read(bytes, &head, shapes)?;
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
