//! Load, analyse, render, each output where it was asked for.

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;

use super::args::{Args, Command, DEFAULT_LOG};
use super::{advice, follow, manual, progress, start};
use crate::analysis::summary::{self, Analysis};
use crate::analysis::{Status, narrow, series};
use crate::classes::Reject;
use crate::error::Error;
use crate::events::{Events, Source};
use crate::parse::Pace;
use crate::render::chart::{self, Chart};
use crate::render::markdown::{self, Charts, Provenance};
use crate::render::text::printable;
use crate::render::{export, partition, terminal};
use crate::{figures, frame, parse};

/// Done.
const DONE: u8 = 0;
/// A rule is broken.
const BROKEN: u8 = 1;
/// Wrong usage, unreadable input, or no events.
pub(super) const FAILED: u8 = 2;
/// Characters shown of a line in a message.
const FAULT_WIDTH: usize = 200;

/// Runs the program with `arguments` (its name first).
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let args = match Args::try_parse_from(&arguments) {
        Ok(args) => args,
        Err(error) => {
            // Help and version go to stdout with 0, the rest to stderr with 2; a closed pipe is nobody's fault.
            let code = if error.use_stderr() { FAILED } else { DONE };
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    let result: Result<u8, Box<dyn std::error::Error>> = match &args.command {
        Some(Command::Run(args)) => start::run(args).map_err(Into::into),
        None => execute(&args, &arguments).map_err(Into::into),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let mut text = format!("hook-analyze: {error}");
            let mut source = error.source();
            while let Some(cause) = source {
                text.push_str(&format!(": {cause}"));
                source = cause.source();
            }
            complain(&text);
            ExitCode::from(FAILED)
        }
    }
}

fn execute(args: &Args, arguments: &[OsString]) -> Result<u8, Error> {
    if let Some(text) = manual::text(&args.manual)? {
        return print(&text).map(|()| DONE);
    }
    let charts = args.report.as_deref().map(chart_paths);
    let files = [&args.plot, &args.report, &args.csv, &args.parquet, &args.ndjson, &args.arrow, &args.rejects];
    let mut outputs: Vec<&Path> = files.into_iter().flatten().map(PathBuf::as_path).collect();
    if let Some((tokens, memory)) = &charts {
        outputs.extend([tokens.as_path(), memory.as_path()]);
    }
    let inputs: Vec<&Path> = args.logs.iter().chain(&args.events).map(PathBuf::as_path).collect();
    refuse_overwriting(&inputs, &outputs)?;
    refuse_odd_outputs(args, &outputs)?;
    if args.logs == [Path::new(DEFAULT_LOG)] && !Path::new(DEFAULT_LOG).exists() && !args.follow {
        return Err(Error::NoDefaultLog);
    }

    let filter = args.filter.filter();
    let pace = Pace { rejects: args.rejects.is_some(), watch: Some(progress::watch), ..Pace::default() };
    // Files are made from rows, and calls chosen among them; figures alone need none.
    let questions = args.questions();
    let needs_rows = !filter.is_empty()
        || !questions.is_empty()
        || outputs.iter().any(|output| Some(*output) != args.rejects.as_deref());
    let (events, analysis) = if args.follow {
        let [log] = &args.logs[..] else { return Err(Error::FollowsOne) };
        let figures = follow::run(args, log)?;
        (figures.events, Err(figures.summary))
    } else if needs_rows {
        let mut events = parse::read_at(&args.logs, args.events.as_deref(), pace)?;
        filter.choose_processes(&mut events)?;
        let mut analysis = summary::analyse(&events);
        (analysis.summary.what_if, analysis.summary.sizes) = questions.answer(&events);
        if !filter.is_empty() {
            narrow::narrow(&mut analysis, &events, &filter)?;
        }
        (events, Ok(analysis))
    } else {
        let figures = figures::read_at(&args.logs, args.events.as_deref(), pace)?;
        (figures.events, Err(figures.summary))
    };
    progress::end();
    // An event file that lay beside the log is an input too.
    let inputs: Vec<&Path> = events.sources.iter().map(|source| source.path.as_path()).collect();
    refuse_overwriting(&inputs, &outputs)?;
    if let Some(path) = &args.rejects {
        export::text(path, &rejects(&events))?;
    }
    if args.strict
        && let Some(error) = first_fault(&events)
    {
        return Err(error);
    }
    if events.processes.iter().all(|process| process.rows.is_empty() && process.untold.is_empty()) {
        complain(&format!("hook-analyze: {}", advice::no_calls(&events, &args.logs, args.lang)));
        return Ok(FAILED);
    }
    let summary = match analysis {
        Ok(analysis) => {
            write_files(args, arguments, &events, &analysis, charts)?;
            analysis.summary
        }
        Err(summary) => summary,
    };
    if !questions.is_empty() && summary.what_if.is_empty() && summary.sizes.is_empty() {
        return Err(Error::NoArrivals);
    }
    let text = if args.check {
        terminal::checks(&summary, args.lang)
    } else if args.json {
        let json = if args.follow { serde_json::to_string(&summary) } else { serde_json::to_string_pretty(&summary) };
        json.map_err(|why| Error::Render { what: "the JSON", why: why.to_string() })? + "\n"
    } else {
        terminal::summary(&summary, args.lang)
    };
    print(text.as_bytes())?;
    let broken = args.check && summary.checks.iter().any(|check| check.status == Status::Fail);
    Ok(if broken { BROKEN } else { DONE })
}

/// The lines that were not understood.
fn rejects(events: &Events) -> String {
    let line = |(path, reject): (&Path, &Reject)| {
        format!("{}:{}: {}\n", printable(&path.to_string_lossy()), reject.line, reject.text)
    };
    let of = |source: &'_ Source| source.rejects.iter().map(|reject| line((&source.path, reject))).collect::<String>();
    events.sources.iter().map(of).collect()
}

/// The first line that was not understood, as an error.
fn first_fault(events: &Events) -> Option<Error> {
    let source = events.sources.iter().find(|source| source.first_fault.is_some())?;
    let Reject { line, class, text } = source.first_fault.as_ref()?;
    let text = printable(&text.chars().take(FAULT_WIDTH).collect::<String>());
    Some(Error::NotUnderstood { path: source.path.clone(), line: *line, class: class.texts().1, text })
}

fn write_files(
    args: &Args,
    arguments: &[OsString],
    events: &Events,
    analysis: &Analysis,
    charts: Option<(PathBuf, PathBuf)>,
) -> Result<(), Error> {
    let lang = args.lang;
    if [&args.csv, &args.parquet, &args.ndjson, &args.arrow].iter().any(|path| path.is_some()) {
        let mut frame = frame::chosen(events, analysis)?;
        if let Some(path) = &args.csv {
            export::csv(&mut frame, path)?;
        }
        if let Some(path) = &args.parquet {
            if args.partition_by.is_empty() {
                export::parquet(&mut frame, path)?;
            } else {
                let rows = (0..events.calls.len()).filter(|&i| analysis.is_chosen(i));
                partition::parquet(&frame, rows, events, &args.partition_by, path)?;
            }
        }
        if let Some(path) = &args.ndjson {
            export::ndjson(&frame, path)?;
        }
        if let Some(path) = &args.arrow {
            export::arrow(&mut frame, path)?;
        }
    }
    if args.plot.is_none() && args.report.is_none() {
        return Ok(());
    }
    let series = series::of(events, analysis);
    let log = args.logs.first().map(|path| path.display().to_string()).unwrap_or_default();
    if let Some(path) = &args.plot {
        let title = format!("{} · {log}", lang.pick("CUDA hook 时间线", "CUDA hook timeline"));
        export::text(path, &chart::svg(&series, Chart::Timeline, &title, lang)?)?;
    }
    if let (Some(path), Some((tokens, memory))) = (&args.report, charts) {
        export::text(
            &tokens,
            &chart::svg(&series, Chart::Tokens, &format!("{} · {log}", lang.pick("令牌桶", "Token bucket")), lang)?,
        )?;
        export::text(
            &memory,
            &chart::svg(&series, Chart::Memory, &format!("{} · {log}", lang.pick("显存", "Device memory")), lang)?,
        )?;
        let charts = Charts { tokens: link(&tokens), memory: link(&memory) };
        let text = markdown::report(events, analysis, &charts, &provenance(arguments), lang)?;
        export::text(path, &text)?;
    }
    Ok(())
}

/// `report.md` → `report-tokens.svg`, `report-memory.svg`.
fn chart_paths(report: &Path) -> (PathBuf, PathBuf) {
    let stem = report.file_stem().unwrap_or_default();
    let beside = |what: &str| {
        let mut name = stem.to_owned();
        name.push(format!("-{what}.svg"));
        report.with_file_name(name)
    };
    (beside("tokens"), beside("memory"))
}

/// A file of the report's own folder as a Markdown link's target.
fn link(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut target = String::new();
    for c in name.chars() {
        if matches!(c, ' ' | '(' | ')' | '<' | '>' | '%' | '#' | '?' | '\\' | '[' | ']') || c.is_control() {
            target.push_str(&format!("%{:02X}", u32::from(c)));
        } else {
            target.push(c);
        }
    }
    target
}

fn provenance(arguments: &[OsString]) -> Provenance {
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
    Provenance {
        command: printable(&command.join(" ")),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        date: chrono::Local::now().format("%Y-%m-%d %H:%M").to_string(),
    }
}

/// An output that is an input would destroy it.
fn refuse_overwriting(inputs: &[&Path], outputs: &[&Path]) -> Result<(), Error> {
    let real = |path: &Path| fs::canonicalize(path).ok();
    let inputs: Vec<PathBuf> = inputs.iter().filter_map(|path| real(path)).collect();
    match outputs.iter().find(|output| real(output).is_some_and(|path| inputs.contains(&path))) {
        Some(output) => Err(Error::OutputIsInput(output.to_path_buf())),
        None => Ok(()),
    }
}

/// What is written where this is named, whether it is there already or not.
fn target(output: &Path) -> PathBuf {
    fs::canonicalize(output).unwrap_or_else(|_| {
        let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
        folder.join(output.file_name().unwrap_or_default())
    })
}

/// Outputs that would replace each other, or that name no file of a kind that can be made.
fn refuse_odd_outputs(args: &Args, outputs: &[&Path]) -> Result<(), Error> {
    let targets: Vec<PathBuf> = outputs.iter().map(|output| target(output)).collect();
    for (index, output) in outputs.iter().enumerate() {
        if targets[..index].contains(&targets[index]) && output.to_str() != Some("/dev/null") {
            return Err(Error::OutputTwice(output.to_path_buf()));
        }
        if *output == Path::new("-") {
            let advice = "`-` is no output; `/dev/stdout` is the standard output";
            return Err(Error::Ending { path: output.to_path_buf(), advice });
        }
    }
    if let Some(path) = args.plot.as_deref().filter(|path| path.extension().is_none_or(|ext| ext != "svg")) {
        let advice = "this version draws SVG; name a file that ends in `.svg` (`rsvg-convert FILE.svg > FILE.png` makes a PNG of it)";
        return Err(Error::Ending { path: path.to_owned(), advice });
    }
    if let Some(path) = args.report.as_deref().filter(|path| fs::metadata(path).is_ok_and(|meta| !meta.is_file())) {
        let advice = "a report needs a file of its own, for its charts lie beside it";
        return Err(Error::Ending { path: path.to_owned(), advice });
    }
    Ok(())
}

/// Results to stdout. A reader that has gone (`| head`) is no error.
fn print(text: &[u8]) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Error::Write { path: PathBuf::from("standard output"), source: error })
        }
        _ => Ok(()),
    }
}

/// A message to stderr; if nobody can hear it, nothing is left to do.
pub(super) fn complain(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_lie_beside_the_report_and_links_survive_odd_names() {
        let (tokens, memory) = chart_paths(Path::new("out/学号 (1).md"));
        assert_eq!(tokens, Path::new("out/学号 (1)-tokens.svg"));
        assert_eq!(link(&memory), "学号%20%281%29-memory.svg");
    }

    #[test]
    fn the_command_in_a_report_can_be_pasted() {
        let arguments: Vec<OsString> = ["/x/hook-analyze", "my log", "it's", "--json"].map(OsString::from).to_vec();
        assert_eq!(provenance(&arguments).command, r"hook-analyze 'my log' 'it'\''s' --json");
    }
}
