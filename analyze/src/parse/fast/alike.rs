//! What a fast reader takes, the obvious one reads the same: the tests say so of lines that they make, the fuzzer of
//! many in a row.

use hook_event::Kind;
use hook_event::course::Line;

use super::{course as lines, json as records};
use crate::classes::Class;
use crate::events::{NameId, Names};
use crate::parse::classify::{self, Found};
use crate::parse::course::api;
use crate::step::{Shape, ShapeId, Shapes};

/// What the obvious reader finds on a line, as text; `None` if it is not exactly one record.
pub(super) fn obvious(raw: &[u8]) -> Option<String> {
    let mut found = Vec::new();
    let class = classify::line(raw, false, |one| found.push(shown(&one)));
    (class == (Class::Event, 1)).then(|| found.remove(0))
}

fn shown(found: &Found<'_>) -> String {
    match found {
        Found::Line(line, text, wall_ns) => format!("{line:?} {text} {wall_ns:?}"),
        other => format!("{other:?}"),
    }
}

/// The fast readers, and what they remember of the lines before.
#[derive(Default)]
pub(in crate::parse) struct Fast {
    heads: lines::Heads,
    names: Names,
    shapes: Shapes,
    seen: records::Seen,
}

impl Fast {
    /// Reads the line that `bytes` begin with: what is taken of it is what the obvious reader reads, and all of it.
    /// Whether it was taken.
    pub(in crate::parse) fn agrees(&mut self, bytes: &[u8]) -> bool {
        let end = memchr::memchr(b'\n', bytes);
        let taken = self.course(bytes).or_else(|| self.json(bytes));
        if let Some((taken, length)) = &taken {
            assert_eq!(Some(*length), end.map(|end| end + 1), "a line ends at its line feed");
            let obvious = obvious(&bytes[..length - 1]);
            assert_eq!(taken.as_ref(), obvious.as_ref(), "{}", String::from_utf8_lossy(&bytes[..*length]));
        }
        taken.is_some()
    }

    fn course(&mut self, bytes: &[u8]) -> Option<(Option<String>, usize)> {
        let mut found = None;
        let length =
            lines::line(bytes, &mut self.heads, &mut self.names, &mut self.shapes, Show { bytes, found: &mut found })?;
        let Taken { text, name, api, shape } = found?;
        assert_eq!(self.names.text(api), name, "a beginning is its own API's");
        assert_eq!(shape.map(|(_, id)| self.shapes.all()[id as usize]), shape.map(|(shape, _)| shape));
        Some((Some(text), length))
    }

    /// Of a record that lacks something, which is left out afterwards, no text.
    fn json(&mut self, bytes: &[u8]) -> Option<(Option<String>, usize)> {
        let records::Found { call, api, shape, length } =
            records::call(bytes, &mut self.seen, &mut self.names, &mut self.shapes)?;
        assert_eq!(self.names.text(api.id).as_bytes(), call.api);
        assert_eq!(shape.map(|id| self.shapes.all()[id as usize]), call.grid.zip(call.block));
        let sound = call.is_sound(Kind::of(std::str::from_utf8(call.api).unwrap()));
        Some((sound.then(|| shown(&Found::Call(call))), length))
    }
}

/// What is shown of a line that is taken.
struct Taken {
    text: String,
    name: String,
    api: NameId,
    shape: Option<(Shape, ShapeId)>,
}

/// Shows the line that is taken.
struct Show<'a> {
    bytes: &'a [u8],
    found: &'a mut Option<Taken>,
}

impl lines::Take for Show<'_> {
    fn take(&mut self, line: &Line<'_>, head: &lines::Head, length: usize) -> Option<()> {
        let text = std::str::from_utf8(&self.bytes[..length]).unwrap().trim_end();
        let text = shown(&Found::Line(line.clone(), text, None));
        let name = api(line).unwrap_or_default().to_owned();
        *self.found = Some(Taken { text, name, api: head.api.id, shape: head.shape });
        Some(())
    }
}
