//! A course line from bytes.

use hook_event::course::Line;
use hook_event::{Dim3, Outcome};

use super::Order;
use crate::events::{Api, Names};
use crate::parse::number::Cursor;
use crate::step::{Shape, ShapeId, Shapes};

/// How lines begin, up to the bracket behind the API's name or, of a launch, behind its shape. Few beginnings make up a
/// log, and to compare one is cheaper than to read it.
///
/// The one that is expected is tried before any search.
pub(in crate::parse) struct Heads {
    slots: Vec<Option<Head>>,
    launches: Order,
}

/// Beginnings remembered, each in one of two places; a new one takes the place of the one that came less often.
const SLOTS: usize = 1024;

/// The longest that is remembered, bytes; longer ones are left to the obvious reader.
const LONGEST: usize = 160;

/// What a line begins with.
pub(in crate::parse) struct Head {
    bytes: Box<[u8]>,
    text: Box<str>,
    /// The API.
    pub(in crate::parse) api: Api,
    is_free: bool,
    /// Of a launch.
    pub(in crate::parse) shape: Option<(Shape, ShapeId)>,
}

impl Default for Heads {
    fn default() -> Self {
        Heads { slots: (0..SLOTS).map(|_| None).collect(), launches: Order::default() }
    }
}

impl Heads {
    /// The head of a line, and its length.
    #[inline(always)]
    fn of(&mut self, line: &[u8], names: &mut Names, shapes: &mut Shapes) -> Option<(&Head, usize)> {
        const TAG: usize = b"[HOOK] ".len();
        let expected = self.launches.expected();
        // Of a launch's line a beginning without the shape is not all.
        if let Some(head) = self.slots[expected].as_ref().filter(|head| head.shape.is_some())
            && let Some(bytes) = line.get(..head.bytes.len())
            && equal(&head.bytes, bytes)
        {
            self.launches.comes(expected);
            return self.slots[expected].as_ref().map(|head| (head, head.bytes.len()));
        }
        if line.get(..TAG)? != b"[HOOK] " {
            return None;
        }
        let name = find(line, TAG, b'(')?;
        let end = if line.get(name + 1..name + 6)? == b"grid=" { find(line, name + 6, b')')? } else { name } + 1;
        let bytes = line.get(..end)?;
        let place = place(bytes)?;
        let known =
            |slots: &[Option<Head>], at: usize| slots[at].as_ref().is_some_and(|head| equal(&head.bytes, bytes));
        if !known(&self.slots, place) {
            let other = place ^ 1;
            if !known(&self.slots, other) {
                self.slots[other] = Some(Head::read(bytes, names, shapes)?);
            }
            // The one that comes more often is found at the first look, mostly.
            self.slots.swap(place, other);
        }
        let head = self.slots[place].as_ref()?;
        if head.shape.is_some() {
            self.launches.comes(place);
        }
        Some((head, end))
    }
}

/// Where a beginning is looked for: by its last 32 bytes, which hold a launch's shape, or all of a shorter one.
#[inline(always)]
fn place(bytes: &[u8]) -> Option<usize> {
    const FACTORS: [u64; 4] =
        [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb, 0xd6e8_feb8_6659_fd93];
    let word = |to: usize| {
        let chunk = bytes.get(to.checked_sub(8)?..)?.first_chunk()?;
        Some(u64::from_le_bytes(*chunk))
    };
    let end = bytes.len();
    let mut sum = word(end)?.wrapping_mul(FACTORS[0]).wrapping_add(word(end.min(15))?.wrapping_mul(FACTORS[1]));
    if end >= 32 {
        let (second, third) = (word(end - 8)?, word(end - 16)?);
        sum ^=
            second.wrapping_mul(FACTORS[1]) ^ third.wrapping_mul(FACTORS[2]) ^ word(end - 24)?.wrapping_mul(FACTORS[3]);
    }
    Some((sum >> 32) as usize % SLOTS)
}

/// Whether two texts of eight bytes or more are the same.
#[inline(always)]
fn equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len()
        && a.last_chunk::<8>() == b.last_chunk::<8>()
        && a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0).all(|(a, b)| a == b)
}

impl Head {
    #[cold]
    fn read(bytes: &[u8], names: &mut Names, shapes: &mut Shapes) -> Option<Head> {
        let mut c = Cursor::new(bytes);
        c.tag(b"[HOOK] ")?;
        let name = c.while_in(|byte| byte.is_ascii_alphanumeric() || byte == b'_')?;
        if name[0].is_ascii_digit() {
            return None;
        }
        let text = std::str::from_utf8(name).ok()?;
        c.tag(b"(")?;
        let shape = if c.has(b"grid=") {
            let grid = dim(&mut c)?;
            c.tag(b" block=")?;
            let block = dim(&mut c)?;
            c.tag(b")")?;
            Some((grid, block))
        } else {
            None
        };
        let shape = shape.map(|shape| (shape, shapes.id(shape)));
        Some(Head { bytes: bytes.into(), text: text.into(), api: names.api(name), is_free: is_free(text), shape })
    }
}

/// Where `byte` next is.
#[inline(always)]
fn find(line: &[u8], from: usize, byte: u8) -> Option<usize> {
    let each = |byte: u8| u64::from_le_bytes([byte; 8]);
    let mut at = from;
    while at < LONGEST {
        let word = u64::from_le_bytes(*line.get(at..)?.first_chunk()?) ^ each(byte);
        // The lowest byte that is zero gets its highest bit set; so may those above it.
        let found = word.wrapping_sub(each(1)) & !word & each(0x80);
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    None
}

/// What is done with a line that was read.
pub(in crate::parse) trait Take {
    /// Takes a line, whose beginning is `head` and whose length, with the line feed, this is.
    fn take(&mut self, line: &Line<'_>, head: &Head, length: usize) -> Option<()>;
}

/// Reads the line that `bytes` begin with, and gives its length. `take` stands in every branch, so that of each form
/// only what is kept is ever put together.
#[inline(always)]
pub(in crate::parse) fn line(
    bytes: &[u8],
    heads: &mut Heads,
    names: &mut Names,
    shapes: &mut Shapes,
    mut take: impl Take,
) -> Option<usize> {
    let (head, at) = heads.of(bytes, names, shapes)?;
    let api = &*head.text;
    let mut c = Cursor::new(bytes);
    c.skip(at);
    if let Some(((grid, block), _)) = head.shape {
        let (outcome, ret, tokens, waited_ms) = decision(&mut c)?;
        let end = c.line_end()?;
        take.take(&Line::Launch { api, grid, block, outcome, ret, tokens, waited_ms }, head, end)?;
        return Some(end);
    }
    match c.pair() {
        [b'0', b'x'] | [b'(', b'n'] => {
            let line = free(&mut c, head)?;
            take.take(&line, head, c.line_end()?)?;
        }
        [b'g', _] => {
            c.tag(b"graph=")?;
            let graph = pointer(&mut c)?;
            c.tag(b")")?;
            let (outcome, ret, tokens, waited_ms) = decision(&mut c)?;
            take.take(&Line::Graph { api, graph, outcome, ret, tokens, waited_ms }, head, c.line_end()?)?;
        }
        _ => {
            let line = alloc(&mut c, api)?;
            take.take(&line, head, c.line_end()?)?;
        }
    }
    Some(c.at())
}

type Decision = (Outcome, Option<i32>, f64, Option<f64>);

/// What a launch's line ends in.
#[inline(always)]
fn decision(c: &mut Cursor<'_>) -> Option<Decision> {
    let (outcome, ret) = if c.has(b" -> 0 | tokens=") {
        (Outcome::Ok, Some(0))
    } else if c.has(b" DENIED | tokens=") {
        (Outcome::Denied, None)
    } else {
        c.tag(b" -> ")?;
        let ret = c.signed()?;
        c.tag(b" | tokens=")?;
        (if ret == 0 { Outcome::Ok } else { Outcome::Failed }, Some(ret))
    };
    let negative = c.has(b"-");
    let tokens = c.tenths()?;
    let tokens = if negative { -tokens } else { tokens };
    let waited_ms = if c.has(b" | waited: ") {
        let waited = c.tenths()?;
        c.tag(b" ms")?;
        Some(waited)
    } else {
        None
    };
    Some((outcome, ret, tokens, waited_ms))
}

#[inline(always)]
fn alloc<'a>(c: &mut Cursor<'_>, api: &'a str) -> Option<Line<'a>> {
    let size = c.number()?;
    let (outcome, ptr, ret) = if c.has(b") -> ") {
        (Outcome::Ok, Some(pointer(c)?), Some(0))
    } else if c.has(b") DENIED") {
        (Outcome::Denied, None, None)
    } else {
        c.tag(b") FAILED(")?;
        let ret = c.signed()?;
        c.tag(b")")?;
        (Outcome::Failed, None, Some(ret))
    };
    c.tag(b" | total: ")?;
    let total_mb = c.tenths()?;
    let quota_mb = if c.has(b" / ") { Some(c.tenths()?) } else { None };
    c.tag(b" MB")?;
    Some(Line::Alloc { api, size, ptr, outcome, ret, total_mb, quota_mb })
}

#[inline(always)]
fn free<'a>(c: &mut Cursor<'_>, head: &'a Head) -> Option<Line<'a>> {
    let ptr = pointer(c)?;
    c.tag(b") -> ")?;
    let ret = Some(c.signed()?);
    let freed = if c.has(b" | freed: ") {
        let freed = c.number()?;
        c.tag(b" bytes")?;
        Some(freed)
    } else {
        None
    };
    let total_mb = if c.has(b" | total: ") {
        let total_mb = c.tenths()?;
        c.tag(b" MB")?;
        Some(total_mb)
    } else {
        None
    };
    head.is_free.then_some(Line::Free { api: &head.text, ptr, ret, freed, total_mb })
}

/// Whether a name is that of a free: one of these words, no digit before it.
fn is_free(api: &str) -> bool {
    ["Free", "free", "Release", "Unmap", "Destroy"]
        .iter()
        .any(|word| api.find(word).is_some_and(|at| !api.as_bytes()[..at].iter().any(u8::is_ascii_digit)))
}

#[inline(always)]
fn pointer(c: &mut Cursor<'_>) -> Option<u64> {
    if c.has(b"(nil)") { Some(0) } else { c.address() }
}

fn dim(c: &mut Cursor<'_>) -> Option<Dim3> {
    let x = u32::try_from(c.number()?).ok()?;
    c.tag(b",")?;
    let y = u32::try_from(c.number()?).ok()?;
    c.tag(b",")?;
    let z = u32::try_from(c.number()?).ok()?;
    Some(Dim3 { x, y, z })
}
