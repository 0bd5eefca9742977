//! Load, analyse, render, each output where it was asked for.

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;

use super::args::{Args, Command, DEFAULT_LOG};
use super::{advice, batch, diff, explain, follow, manual, paper, progress, start};
use crate::analysis::summary::{self, Analysis};
use crate::analysis::{Status, lab, narrow, series};
use crate::classes::Reject;
use crate::error::Error;
use crate::events::{Events, Source};
use crate::parse::Pace;
use crate::render::chart::Chart;
use crate::render::text::printable;
use crate::render::{self, export, page, partition, report, terminal, trace};
use crate::{figures, frame, parse};

/// Done.
pub(super) const DONE: u8 = 0;
/// A rule is broken, or a change too large.
pub(super) const BROKEN: u8 = 1;
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
            text.extend(advice::missing(&*error).map(|advice| format!("\n  {advice}")));
            complain(&text);
            ExitCode::from(FAILED)
        }
    }
}

fn execute(args: &Args, arguments: &[OsString]) -> Result<u8, Error> {
    if let Some(text) = manual::text(&args.manual)? {
        return print(&text).map(|()| DONE);
    }
    if let Some(folder) = &args.grading.batch {
        return batch::run(args, folder);
    }
    if let Some(logs) = &args.diff.diff {
        return diff::compare(args, logs);
    }
    // clap lets a requirement go where what is required conflicts with what is there.
    if !args.diff.fail_on.is_empty() {
        return Err(Error::NothingToLimit);
    }
    if args.paper.print_template {
        print(report::built_in(args.lang))?;
        return Ok(DONE);
    }
    let template = args.paper.read_template()?;
    let charts = args.report.as_deref().map(paper::chart_paths).unwrap_or_default();
    let plots = args.plot.files(&args.logs)?;
    let files = [
        &args.report,
        &args.paper.html,
        &args.csv,
        &args.parquet,
        &args.ndjson,
        &args.arrow,
        &args.trace,
        &args.rejects,
    ];
    let mut outputs: Vec<&Path> = files.into_iter().flatten().map(PathBuf::as_path).collect();
    outputs.extend(plots.iter().map(|(_, path)| path.as_path()));
    outputs.extend(charts.iter().map(PathBuf::as_path));
    let inputs = args.logs.iter().chain(&args.events).chain(&args.paper.template);
    refuse_overwriting(&inputs.map(PathBuf::as_path).collect::<Vec<_>>(), &outputs)?;
    refuse_odd_outputs(args, &outputs)?;
    if args.logs == [Path::new(DEFAULT_LOG)] && !Path::new(DEFAULT_LOG).exists() && !args.follow {
        return Err(Error::NoDefaultLog);
    }

    let filter = args.filter.filter();
    let wants_lab = args.grading.lab;
    let pace =
        Pace { rejects: args.rejects.is_some(), told: wants_lab, watch: Some(progress::watch), ..Pace::default() };
    // Files are made from rows, and calls chosen among them; figures alone need none.
    let questions = args.questions();
    let needs_rows = !filter.is_empty()
        || !questions.is_empty()
        || args.explain.is_some()
        || wants_lab
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
        analysis.summary.lab = wants_lab.then(|| lab::of(&events, &analysis));
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
            write_files(args, &events, &analysis, &plots)?;
            paper::write(args, arguments, (&events, &analysis), template.as_ref(), &charts)?;
            analysis.summary
        }
        Err(summary) => summary,
    };
    if !questions.is_empty() && summary.what_if.is_empty() && summary.sizes.is_empty() {
        return Err(Error::NoArrivals);
    }
    if let Some(place) = &args.explain {
        print(&explain::text(place, args, &events, &summary.checks)?)?;
    } else if args.check {
        print(coloured(terminal::checks(&summary, args.lang)))?;
    } else if args.json {
        print_json(&summary, !args.follow)?;
    } else if let Some(lab) = &summary.lab {
        print(render::lab::table(lab, args.lang))?;
    } else {
        print(coloured(terminal::summary(&summary, args.lang)))?;
    }
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

fn write_files(args: &Args, events: &Events, analysis: &Analysis, plots: &[(Chart, PathBuf)]) -> Result<(), Error> {
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
    if let Some(path) = &args.trace {
        trace::write(events, analysis, path)?;
    }
    if !plots.is_empty() {
        args.plot.draw(plots, &series::of(events, analysis), &args.first_log(), lang)?;
    }
    Ok(())
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
    if let Some(path) = args.report.as_deref().filter(|path| fs::metadata(path).is_ok_and(|meta| !meta.is_file())) {
        let advice = "a report needs a file of its own, for its charts lie beside it";
        return Err(Error::Ending { path: path.to_owned(), advice });
    }
    let other = |path: &&Path| {
        let ending = path.extension().map(|ending| ending.to_ascii_lowercase());
        ending.is_some_and(|ending| ["doc", "docx", "pdf", "html", "htm", "tex"].iter().any(|other| ending == *other))
    };
    if let Some(path) = args.report.as_deref().filter(other) {
        let advice = "a report is Markdown; name a file that ends in `.md` (`pandoc report.md -o report.docx` makes a Word \
                      file of it), or take `--html` for a page";
        return Err(Error::Ending { path: path.to_owned(), advice });
    }
    Ok(())
}

/// The text with colours, on a terminal that knows them, unless the user wants none (<https://no-color.org>).
pub(super) fn coloured(text: String) -> String {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    if unwanted || dumb || !io::stdout().is_terminal() { text } else { page::paint(&text) }
}

/// Results to stdout. A reader that has gone (`| head`) is no error.
pub(super) fn print(text: impl AsRef<[u8]>) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    printed(out.write_all(text.as_ref()).and_then(|()| out.flush()))
}

/// The same of all figures, as they are written: of many processes the text would be large.
pub(super) fn print_json(figures: &impl serde::Serialize, pretty: bool) -> Result<(), Error> {
    let mut out = BufWriter::with_capacity(64 << 10, io::stdout().lock());
    let json =
        if pretty { serde_json::to_writer_pretty(&mut out, figures) } else { serde_json::to_writer(&mut out, figures) };
    let done = json.map_err(io::Error::from).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush());
    // What could not be written is not tried once more.
    let _ = out.into_parts();
    printed(done)
}

fn printed(done: io::Result<()>) -> Result<(), Error> {
    match done {
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
