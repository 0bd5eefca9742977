//! `--explain`: which line is meant, and what is printed of it.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::args::Args;
use crate::analysis::{Check, explain};
use crate::error::Error;
use crate::events::{Events, Source};
use crate::parse::look;
use crate::render;

/// `12` or `hook.log:12`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    file: Option<String>,
    /// From 1.
    line: u64,
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Place, String> {
        let (file, line) = match text.rsplit_once(':') {
            Some((file, line)) => (Some(file), line),
            None => (None, text),
        };
        let line = line.parse().ok().filter(|&line| line > 0 && file != Some(""));
        let line = line.ok_or_else(|| format!("`{text}` is no line: write its number, from 1, or `FILE:LINE`"))?;
        Ok(Place { file: file.map(str::to_owned), line })
    }
}

/// What is printed of the line at `place`.
///
/// # Errors
/// There is no such line, or it is not clear in which file it is meant.
pub(super) fn text(place: &Place, args: &Args, events: &Events, checks: &[Check]) -> Result<String, Error> {
    let source = source(place, &args.logs, &events.sources)?;
    let Source { path, lines, .. } = &events.sources[source];
    if place.line > *lines {
        return Err(Error::NoSuchLine { path: path.clone(), line: place.line, lines: *lines });
    }
    // Standard input and pipes are gone.
    let looked = if path.is_file() { look::look(path, place.line)? } else { None };
    let explanation = explain::line(events, source, place.line, looked, checks);
    if args.json {
        let json = serde_json::to_string_pretty(&explanation);
        return Ok(json.map_err(|why| Error::Render { what: "the JSON", why: why.to_string() })? + "\n");
    }
    Ok(render::explain::text(&explanation, args.lang))
}

/// The file that is meant, as an index in `sources`.
fn source(place: &Place, logs: &[PathBuf], sources: &[Source]) -> Result<usize, Error> {
    let which = |named| Error::WhichFile { named, there: sources.iter().map(|source| source.path.clone()).collect() };
    let Some(file) = &place.file else {
        // An event file that was taken in beside the only log is not meant.
        let only = logs.len() == 1 && sources.iter().filter(|source| logs.contains(&source.path)).count() == 1;
        return if only || sources.len() == 1 { Ok(0) } else { Err(which(None)) };
    };
    let is_named = |source: &Source| source.path == Path::new(file);
    let ends_so = |source: &Source| source.path.ends_with(file);
    let all = |is: &dyn Fn(&Source) -> bool| {
        sources.iter().enumerate().filter(|(_, source)| is(source)).map(|(i, _)| i).collect::<Vec<_>>()
    };
    match (&all(&is_named)[..], &all(&ends_so)[..]) {
        ([one, ..], _) | ([], [one]) => Ok(*one),
        ([], _) => Err(which(Some(file.clone()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_line_and_perhaps_a_file() {
        let place = |text: &str| text.parse::<Place>().map(|place| (place.file, place.line));
        assert_eq!(place("12"), Ok((None, 12)));
        assert_eq!(place("a:b.log:3"), Ok((Some("a:b.log".to_owned()), 3)));
        for wrong in ["", "0", "x", "a.log:", ":3", "a.log:0", "-1", "1.5"] {
            assert!(place(wrong).unwrap_err().contains("write its number, from 1"), "{wrong}");
        }
    }
}
