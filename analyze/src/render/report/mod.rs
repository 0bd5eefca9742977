//! The report: a template with the figures filled in, and marked gaps for what only its writer can say.
//!
//! All that a template prints is shown literally, as Markdown understands it, whatever a log holds; what is Markdown already
//! passes the filter `safe`. In a table `code` makes a code span of it, in a code block `line` leaves it as it is.

mod context;
mod escape;
mod rows;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, Environment, ErrorKind, UndefinedBehavior};
use serde::Serialize;

pub(super) use context::Context;
pub(super) use escape::shown;

use super::Lang;
use crate::analysis::summary::Analysis;
use crate::error::Error;
use crate::events::Events;
use crate::machine::Machine;

const ZH: &str = include_str!("../../../templates/report.zh.md");
const EN: &str = include_str!("../../../templates/report.en.md");

/// The report's charts by their names.
pub type Charts = BTreeMap<&'static str, Image>;

/// A chart in a file of its own.
#[derive(Clone, Debug, Serialize)]
pub struct Image {
    /// Where it is, as the report links to it.
    pub file: String,
    /// What it shows.
    pub title: String,
}

/// How the report was made.
#[derive(Clone, Debug, Serialize)]
pub struct Made {
    /// The command line.
    pub command: String,
    /// Version of this program.
    pub version: String,
    /// When, local time.
    pub date: String,
    /// Of what: one for each of [`Events::sources`].
    pub inputs: Vec<Input>,
}

/// What an input was when it was hashed; nothing of a pipe.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Input {
    /// Size, bytes.
    pub bytes: Option<u64>,
    /// SHA-256, hexadecimal.
    pub sha256: Option<String>,
}

/// A template that somebody brought.
#[derive(Clone, Debug)]
pub struct Template {
    path: PathBuf,
    text: String,
}

impl Template {
    /// Reads one.
    ///
    /// # Errors
    /// The file can't be read, or is no text.
    pub fn read(path: &Path) -> Result<Template, Error> {
        let text = std::fs::read_to_string(path);
        Ok(Template {
            path: path.to_owned(),
            text: text.map_err(|source| Error::Read { path: path.to_owned(), source })?,
        })
    }
}

/// The template of a language, to begin one's own from.
pub fn built_in(lang: Lang) -> &'static str {
    lang.pick(ZH, EN)
}

/// The report as Markdown.
///
/// # Errors
/// The template can't be read as one, or asks for what there is not.
pub fn report(
    events: &Events,
    analysis: &Analysis,
    (charts, made, machine): (&Charts, &Made, &Machine),
    template: Option<&Template>,
    lang: Lang,
) -> Result<String, Error> {
    let mut environment = environment();
    if template.is_some() {
        // Keys of `--json` that are there at times may be asked for by `if`.
        environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    }
    environment.set_auto_escape_callback(|_| AutoEscape::Custom("markdown".into()));
    environment.set_formatter(|out, _, value| {
        let written = match value {
            value if value.is_none() || value.is_undefined() => Ok(()),
            value if value.is_safe() || value.is_number() => out.write_str(&value.to_string()),
            value => out.write_str(&escape::markdown(&value.to_string())),
        };
        written.map_err(minijinja::Error::from)
    });
    let text = template.map_or(built_in(lang), |template| &template.text);
    environment.add_filter("code", |value: String| Value::from_safe_string(escape::code(&value)));
    environment.add_filter("line", |value: String| Value::from_safe_string(escape::line(&value)));
    let context = Context::new(events, analysis, charts, made, machine, lang);
    environment.render_str(text, Serde(&context)).map_err(|why| match template {
        Some(template) => unfit(template, &why),
        None => Error::Render { what: "the report", why: format!("{why:#}") },
    })
}

/// Templates as all of ours are: lines that hold a tag alone leave no line, and what there is not is an error.
pub(super) fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    if let Ok(syntax) = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build() {
        environment.set_syntax(syntax);
    }
    environment
}

fn unfit(template: &Template, why: &minijinja::Error) -> Error {
    let line = why.line().unwrap_or(0);
    let mut what = why.kind().to_string();
    if let Some(detail) = why.detail() {
        what = format!("{what}: {detail}");
    }
    let mut cause = std::error::Error::source(why);
    while let Some(inner) = cause {
        what.push_str(&format!(": {inner}"));
        cause = inner.source();
    }
    let advice = match why.kind() {
        ErrorKind::UndefinedError => "`hook-analyze --print-template` begins with all that there is",
        ErrorKind::UnknownFilter | ErrorKind::UnknownTest | ErrorKind::UnknownFunction => {
            "the filters are those of MiniJinja, and `code` and `line`"
        }
        _ => "the syntax is that of Jinja, as MiniJinja reads it",
    };
    let text = template.text.lines().nth(line.saturating_sub(1)).unwrap_or("").trim().chars().take(120).collect();
    Error::Template { path: template.path.clone(), line, what, text, advice }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The names that a template explains at its beginning.
    fn explained(template: &str) -> BTreeSet<String> {
        let (head, _) = template.split_once("#}").unwrap();
        let lines = head.lines().filter_map(|line| line.strip_prefix("  "));
        let names = lines.map(|line| line.split("  ").next().unwrap_or(""));
        names.flat_map(str::split_whitespace).map(str::to_owned).collect()
    }

    #[test]
    fn templates_explain_all_that_there_is_and_nothing_else() {
        let (events, made, machine) = (Events::default(), Made::none(), Machine::default());
        let analysis = crate::analysis::summary::analyse(&events);
        let charts = Charts::new();
        let context = Context::new(&events, &analysis, &charts, &made, &machine, Lang::En);
        let context = serde_json::to_value(&context).unwrap();
        let there: BTreeSet<String> = context.as_object().unwrap().keys().cloned().collect();
        for lang in [Lang::Zh, Lang::En] {
            assert_eq!(explained(built_in(lang)), there);
        }
    }

    impl Made {
        fn none() -> Made {
            Made { command: String::new(), version: String::new(), date: String::new(), inputs: Vec::new() }
        }
    }
}
