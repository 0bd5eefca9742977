//! A course line from bytes.

use hook_event::course::Line;
use hook_event::{Dim3, Outcome};

use crate::parse::number::Cursor;

/// The line that `bytes` begin with, and its length with the line feed.
#[inline(always)]
pub(in crate::parse) fn line(bytes: &[u8]) -> Option<(Line<'_>, usize)> {
    let mut c = Cursor::new(bytes);
    c.tag(b"[HOOK] ")?;
    let name = c.while_in(|byte| byte != b'(' && is_name(byte))?;
    if name[0].is_ascii_digit() {
        return None;
    }
    let api = std::str::from_utf8(name).ok()?;
    c.tag(b"(")?;
    let line = if c.has(b"grid=") {
        launch(&mut c, api)?
    } else if c.peek() == b'0' || c.peek() == b'(' {
        let mut number = c;
        if c.peek() == b'0' && number.number().is_some() && number.peek() == b')' {
            alloc(&mut c, api)?
        } else {
            free(&mut c, api)?
        }
    } else if c.has(b"graph=") {
        graph(&mut c, api)?
    } else {
        alloc(&mut c, api)?
    };
    Some((line, c.line_end()?))
}

#[inline(always)]
fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[inline(always)]
fn launch<'a>(c: &mut Cursor<'a>, api: &'a str) -> Option<Line<'a>> {
    let grid = dim(c)?;
    c.tag(b" block=")?;
    let block = dim(c)?;
    let (outcome, ret, tokens, waited_ms) = decision(c)?;
    Some(Line::Launch { api, grid, block, outcome, ret, tokens, waited_ms })
}

#[inline(always)]
fn graph<'a>(c: &mut Cursor<'a>, api: &'a str) -> Option<Line<'a>> {
    let graph = pointer(c)?;
    let (outcome, ret, tokens, waited_ms) = decision(c)?;
    Some(Line::Graph { api, graph, outcome, ret, tokens, waited_ms })
}

type Decision = (Outcome, Option<i32>, f64, Option<f64>);

/// What a launch's line ends in.
#[inline(always)]
fn decision(c: &mut Cursor<'_>) -> Option<Decision> {
    let (outcome, ret) = if c.has(b") -> ") {
        match c.signed()? {
            0 => (Outcome::Ok, Some(0)),
            ret => (Outcome::Failed, Some(ret)),
        }
    } else {
        c.tag(b") DENIED")?;
        (Outcome::Denied, None)
    };
    c.tag(b" | tokens=")?;
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
fn alloc<'a>(c: &mut Cursor<'a>, api: &'a str) -> Option<Line<'a>> {
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
fn free<'a>(c: &mut Cursor<'a>, api: &'a str) -> Option<Line<'a>> {
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
    is_free(api).then_some(Line::Free { api, ptr, ret, freed, total_mb })
}

/// Whether a name is that of a free: one of these words, no digit before it.
fn is_free(api: &str) -> bool {
    api == "cudaFree"
        || ["Free", "free", "Release", "Unmap", "Destroy"]
            .iter()
            .any(|word| api.find(word).is_some_and(|at| !api.as_bytes()[..at].iter().any(u8::is_ascii_digit)))
}

#[inline(always)]
fn pointer(c: &mut Cursor<'_>) -> Option<u64> {
    if c.has(b"(nil)") { Some(0) } else { c.address() }
}

#[inline(always)]
fn dim(c: &mut Cursor<'_>) -> Option<Dim3> {
    let x = u32::try_from(c.number()?).ok()?;
    c.tag(b",")?;
    let y = u32::try_from(c.number()?).ok()?;
    c.tag(b",")?;
    let z = u32::try_from(c.number()?).ok()?;
    Some(Dim3 { x, y, z })
}
