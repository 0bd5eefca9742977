//! What is handed in or passed on: the report with its charts, and the page.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::args::Args;
use crate::analysis::series;
use crate::analysis::summary::Analysis;
use crate::digest;
use crate::error::Error;
use crate::events::{Events, Source};
use crate::machine::Machine;
use crate::render::chart::{self, Chart};
use crate::render::report::{self, Charts, Image, Input, Made, Template};
use crate::render::text::printable;
use crate::render::{export, html};

/// The charts of a report, where the log has something for them; the first two stand with their experiments.
const CHARTS: [Chart; 6] =
    [Chart::Tokens, Chart::Memory, Chart::Allocations, Chart::Outcomes, Chart::Kernels, Chart::Overhead];

/// The page, and the report's template.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct PaperArgs {
    /// Write a page for the browser, with charts to zoom.
    ///
    /// One file with charts, tables and the denials to filter; it loads nothing from outside.
    #[arg(long, value_name = "FILE.html")]
    pub html: Option<PathBuf>,

    /// Make the report by this template (default: the built-in one of the language).
    ///
    /// A template is Markdown with figures left open, in the syntax of Jinja; `--print-template` prints the built-in one,
    /// which begins with what can be filled in.
    #[arg(long, value_name = "FILE", requires = "report", hide_short_help = true)]
    pub template: Option<PathBuf>,

    /// Print the built-in template of the report and do nothing else.
    #[arg(long, hide_short_help = true)]
    pub print_template: bool,
}

impl PaperArgs {
    /// The template that was named.
    ///
    /// # Errors
    /// It can't be read.
    pub(super) fn read_template(&self) -> Result<Option<Template>, Error> {
        self.template.as_deref().map(Template::read).transpose()
    }
}

/// Writes what of it was asked for.
pub(super) fn write(
    args: &Args,
    arguments: &[OsString],
    (events, analysis): (&Events, &Analysis),
    template: Option<&Template>,
    charts: &[PathBuf],
) -> Result<(), Error> {
    if args.report.is_none() && args.paper.html.is_none() {
        return Ok(());
    }
    let (lang, made, machine) = (args.lang, made(arguments, events), Machine::this());
    let series = series::of(events, analysis);
    if let Some(path) = &args.report {
        let mut images = Charts::new();
        for (chart, path) in CHARTS.into_iter().zip(charts) {
            // One kernel alone is a bar beside nothing.
            let lone = chart == Chart::Kernels && series.census.kernels.len() < 2;
            if lone || chart.lacks(&series, lang).is_some() {
                continue;
            }
            let title = chart.title(lang).to_owned();
            let svg = chart::svg(&series, chart, &format!("{title} · {}", args.first_log()), args.plot.style(lang))?;
            export::text(path, &svg)?;
            images.insert(chart.name(), Image { file: link(path), title });
        }
        let text = report::report(events, analysis, (&images, &made, &machine), template, lang)?;
        export::text(path, &text)?;
    }
    if let Some(path) = &args.paper.html {
        export::text(path, &html::page(events, analysis, &series, (&made, &machine), lang)?)?;
    }
    Ok(())
}

/// `report.md` → `report-tokens.svg`, `report-memory.svg`, in the order of [`CHARTS`].
pub(super) fn chart_paths(report: &Path) -> Vec<PathBuf> {
    let stem = report.file_stem().unwrap_or_default();
    let beside = |chart: Chart| {
        let mut file = stem.to_owned();
        file.push(format!("-{}.svg", chart.name()));
        report.with_file_name(file)
    };
    CHARTS.map(beside).to_vec()
}

/// A file of the report's own folder as a Markdown link's target.
fn link(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut target = String::new();
    for c in name.chars() {
        // A colon would make a scheme of what stands before it.
        if " ()<>%#?\\[]:&\"'`".contains(c) || c.is_control() {
            target.push_str(&format!("%{:02X}", u32::from(c)));
        } else {
            target.push(c);
        }
    }
    target
}

fn made(arguments: &[OsString], events: &Events) -> Made {
    let plain = |c: char| c.is_alphanumeric() || "-_./=,:@%+".contains(c);
    let quote = |text: &str| {
        if !text.is_empty() && text.chars().all(plain) {
            text.to_owned()
        } else {
            format!("'{}'", text.replace('\'', "'\\''"))
        }
    };
    let rest = arguments.iter().skip(1).map(|argument| quote(&argument.to_string_lossy()));
    let command: Vec<String> = std::iter::once("hook-analyze".to_owned()).chain(rest).collect();
    Made {
        command: printable(&command.join(" ")),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        date: chrono::Local::now().format("%Y-%m-%d %H:%M").to_string(),
        inputs: events.sources.iter().map(input).collect(),
    }
}

/// A file as it is now. A pipe was read and is gone.
fn input(source: &Source) -> Input {
    let file = fs::metadata(&source.path).ok().filter(fs::Metadata::is_file);
    Input { bytes: file.as_ref().map(fs::Metadata::len), sha256: file.and_then(|_| digest::file(&source.path).ok()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_lie_beside_the_report_and_links_survive_odd_names() {
        let paths = chart_paths(Path::new("out/学号 (1).md"));
        assert_eq!(paths[0], Path::new("out/学号 (1)-tokens.svg"));
        assert_eq!(link(&paths[1]), "学号%20%281%29-memory.svg");
        assert_eq!(link(Path::new("a:b&c.svg")), "a%3Ab%26c.svg");
    }

    #[test]
    fn the_command_in_a_report_can_be_pasted() {
        let arguments: Vec<OsString> = ["/x/hook-analyze", "my log", "it's", "--json"].map(OsString::from).to_vec();
        let made = made(&arguments, &Events::default());
        assert_eq!(made.command, r"hook-analyze 'my log' 'it'\''s' --json");
    }
}
