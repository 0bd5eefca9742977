//! A log → everything that is shown of it: never a panic, no number that is none, no control character of the log's, no line
//! wider than a terminal, nothing of the log's that a reader of Markdown or HTML would take for its own. A second part is
//! another log, to compare it with; a third one a template of the report.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use hook_analyze::analysis::diff::Diff;
use hook_analyze::analysis::limit::Limit;
use hook_analyze::analysis::summary::{Analysis, analyse};
use hook_analyze::analysis::whatif::{Arrivals, Settings};
use hook_analyze::analysis::{explain, findings, lab, narrow, series};
use hook_analyze::error::Error;
use hook_analyze::events::Events;
use hook_analyze::figures::{self, Figures};
use hook_analyze::filter::Filter;
use hook_analyze::frame;
use hook_analyze::machine::Machine;
use hook_analyze::parse::{self, Pace, look};
use hook_analyze::render::chart::{self, Chart, Style, Theme, png};
use hook_analyze::render::report::{self, Image, Input, Made, Template};
use hook_analyze::render::{self, Lang, export, html, page, partition, terminal, trace};
use hook_event::Outcome;
use pulldown_cmark::{Event, Options, Parser, Tag};
use unicode_width::UnicodeWidthStr;

use super::{parts, scratch};

/// Lines that are explained of each log.
const EXPLAINED: u64 = 8;

/// One input in so many takes what is slow: pictures, and files of the dataframe's.
const RARELY: usize = 32;

pub(crate) fn target(bytes: &[u8]) {
    let [log, other, template] = parts(bytes);
    let path = scratch::file(0, log.unwrap_or(b""));
    let Ok(events) = parse::read_at(std::slice::from_ref(&path), None, Pace { told: true, ..Pace::default() }) else {
        return;
    };
    let mut analysis = analyse(&events);
    analysis.summary.lab = Some(lab::of(&events, &analysis));
    let lang = if bytes.len().is_multiple_of(2) { Lang::Zh } else { Lang::En };
    tables(&analysis, lang);
    let template = template.map(|template| Template::read(&scratch::file(2, template)));
    papers(&events, &analysis, template.and_then(Result::ok).as_ref(), lang);
    charts(&events, &analysis, lang, bytes.len().is_multiple_of(RARELY));
    files(&events, &analysis, bytes.len() % RARELY == 1);
    explained(&path, &events, &analysis, lang);
    what_if(&events);
    chosen(&events, lang);
    compared(&path, other.map(|other| scratch::file(1, other)), lang);
}

/// What a terminal shows, and the same as JSON.
fn tables(analysis: &Analysis, lang: Lang) {
    let summary = &analysis.summary;
    for text in [terminal::summary(summary, lang), terminal::checks(summary, lang)] {
        fits(&text);
        let coloured = page::paint(&text);
        let plain = ["31", "32", "33", "36", "2", "0"]
            .iter()
            .fold(coloured, |text, colour| text.replace(&format!("\x1b[{colour}m"), ""));
        assert_eq!(plain, text, "colours change nothing else");
    }
    sound(&terminal::brief(summary, 0, lang));
    sound(&render::lab::table(summary.lab.as_ref().expect("the evidence"), lang));
    serde_json::to_string(summary).expect("figures as JSON");
}

fn papers(events: &Events, analysis: &Analysis, template: Option<&Template>, lang: Lang) {
    let text = String::from;
    let charts = ["tokens", "memory"].map(|name| (name, Image { file: text(name), title: text(name) })).into();
    let inputs = events.sources.iter().map(|_| Input::default()).collect();
    let made = Made { command: text("hook-analyze"), version: text("0"), date: text("today"), inputs };
    let machine = Machine::default();
    let report = |template| report::report(events, analysis, (&charts, &made, &machine), template, lang);
    markdown(&report(None).unwrap());
    // Such a template may print what it likes, and need not be one.
    match template.map(|template| report(Some(template))) {
        None | Some(Ok(_)) => {}
        Some(Err(Error::Template { line, what, .. })) => assert!(!what.is_empty(), "in line {line}"),
        Some(Err(other)) => panic!("{other}"),
    }
    let page = html::page(events, analysis, &series::of(events, analysis), (&made, &machine), lang).unwrap();
    sound(&page);
    static OF_NOTHING: OnceLock<usize> = OnceLock::new();
    let of_nothing = *OF_NOTHING.get_or_init(|| {
        let (events, made) = (Events::default(), Made { inputs: Vec::new(), ..made.clone() });
        let analysis = analyse(&events);
        tags(&html::page(&events, &analysis, &series::of(&events, &analysis), (&made, &machine), lang).unwrap())
    });
    assert_eq!(tags(&page), of_nothing, "scripts of the page");
    findings::phases(events, analysis);
    findings::refused(events, analysis);
}

/// Beginnings and ends of scripts.
fn tags(page: &str) -> usize {
    let page = page.to_ascii_lowercase();
    ["<script", "</script", "<!--"].iter().map(|tag| page.matches(tag).count()).sum()
}

/// As GitHub reads it: no HTML, and links to where the template links alone.
fn markdown(report: &str) {
    sound(report);
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_GFM;
    for event in Parser::new_ext(report, options) {
        match event {
            Event::Html(html) | Event::InlineHtml(html) => panic!("`{html}` is HTML in\n{report}"),
            Event::Start(Tag::Image { dest_url, .. }) => {
                assert!(["tokens", "memory"].contains(&&*dest_url), "{dest_url}")
            }
            Event::Start(Tag::Link { dest_url, .. }) => {
                let known = ["nvidia.com/", "github.com/", "man7.org/"];
                assert!(known.iter().any(|host| dest_url.contains(host)), "a link to {dest_url} in\n{report}");
            }
            _ => {}
        }
    }
    let mut width = 0;
    for line in report.lines() {
        let cells = if line.starts_with('|') { line.replace("\\|", "").matches('|').count() } else { 0 };
        assert!(cells == 0 || width == 0 || cells == width, "a row of {cells} where {width} are due: {line}");
        width = cells;
    }
}

fn charts(events: &Events, analysis: &Analysis, lang: Lang, as_pictures: bool) {
    let series = series::of(events, analysis);
    let theme = if as_pictures { Theme::Dark } else { Theme::Light };
    for chart in Chart::ALL {
        let svg = chart::svg(&series, chart, "a log", Style { lang, theme }).unwrap();
        sound(&svg);
        assert!(!svg.contains("\"NaN") && !svg.contains("\"inf"), "{svg}");
        if as_pictures {
            png::render(&svg).unwrap();
        }
    }
}

/// A slice for each call, an instant for each denial, and no time before the beginning. A row of a table for each call.
fn files(events: &Events, analysis: &Analysis, as_tables: bool) {
    // By names of their own: they are written beside, and then put in their places.
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    trace::write(events, analysis, &path("trace.json")).unwrap();
    let trace: serde_json::Value = serde_json::from_slice(&read(&path("trace.json"))).expect("a trace is JSON");
    let all = trace["traceEvents"].as_array().expect("events");
    let of = |category: &str| all.iter().filter(|event| event["cat"] == category).count();
    let denied = events.calls.outcome.iter().filter(|outcome| **outcome == Outcome::Denied).count();
    assert_eq!((of("call"), of("denial")), (events.calls.len(), denied));
    let negative = |key: &str| all.iter().filter_map(|event| event[key].as_f64()).any(|number| number < 0.0);
    assert!(!negative("ts") && !negative("dur"));
    if !as_tables {
        return;
    }
    let mut frame = frame::dataframe(events).unwrap();
    assert_eq!(frame.height(), events.calls.len());
    export::ndjson(&frame, &path("a.ndjson")).unwrap();
    let lines = serde_json::Deserializer::from_slice(&read(&path("a.ndjson"))).into_iter::<serde_json::Value>().count();
    assert_eq!(lines, frame.height());
    export::csv(&mut frame, &path("a.csv")).unwrap();
    export::arrow(&mut frame, &path("a.arrow")).unwrap();
    let keys = [partition::Key::Date, partition::Key::Host];
    partition::parquet(&frame, 0..events.calls.len(), events, &keys, &path("parquet")).unwrap();
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).expect("what was written")
}

fn explained(log: &Path, events: &Events, analysis: &Analysis, lang: Lang) {
    let checks = &analysis.summary.checks;
    // The first lines, and those of the rules that are broken.
    let lines = 1..=EXPLAINED.min(events.sources[0].lines);
    for line in lines.chain(checks.iter().filter_map(|check| check.line)) {
        let looked = look::look(log, line).expect("the log is still there");
        assert!(looked.is_some(), "line {line} is there");
        let explanation = explain::line(events, 0, line, looked, checks);
        sound(&render::explain::text(&explanation, lang));
        serde_json::to_string(&explanation).expect("an explanation as JSON");
    }
}

fn what_if(events: &Events) {
    for arrivals in Arrivals::all(events) {
        let what_if = arrivals.replay(arrivals.recorded().unwrap_or(Settings { rate: 5.0, capacity: 3.0 }));
        assert_eq!(what_if.passed + what_if.denied, what_if.launches);
        if let Some(sized) = arrivals.size_for(0.1, 2.0) {
            assert!(sized.denial_rate() <= 0.1, "{sized:?}");
        }
    }
}

/// What is shown of some of the calls.
fn chosen(events: &Events, lang: Lang) {
    let filter = Filter { outcomes: vec![Outcome::Denied], ..Filter::default() };
    let mut analysis = analyse(events);
    narrow::narrow(&mut analysis, events, &filter).unwrap();
    let calls: u64 = analysis.summary.apis.iter().map(|api| api.calls).sum();
    let denied = events.calls.outcome.iter().filter(|outcome| **outcome == Outcome::Denied).count();
    assert_eq!(calls, denied as u64, "the chosen calls");
    fits(&terminal::summary(&analysis.summary, lang));
}

/// A log has no difference from itself; from another it has the same ones either way.
fn compared(log: &Path, other: Option<PathBuf>, lang: Lang) {
    let read = |log: &Path| figures::read_at(&[log.to_owned()], None, Pace { workload: true, ..Pace::default() });
    let Ok(figures) = read(log) else { return };
    let limits: [Limit; 1] = ["denial_rate=+0%".parse().expect("a limit")];
    // A log without launches or requests has no rate to limit.
    if let Ok(diff) = Diff::of(&figures, &figures, &limits) {
        assert!(!diff.is_exceeded());
    }
    let diff = |a: &Figures, b: &Figures| {
        let diff = Diff::of(a, b, &[]).unwrap();
        fits(&render::diff::diff(&diff, lang));
        serde_json::to_string(&diff).expect("differences as JSON");
        diff.same
    };
    assert!(diff(&figures, &figures), "a log differs from itself");
    if let Some(Ok(other)) = other.map(|other| read(&other)) {
        assert_eq!(diff(&figures, &other), diff(&other, &figures));
    }
}

/// Lines of a terminal.
fn fits(text: &str) {
    sound(text);
    for line in text.lines() {
        assert!(line.width() <= page::WIDTH, "{} columns: {line}", line.width());
    }
}

fn sound(text: &str) {
    assert!(!text.contains(|c: char| c.is_control() && c != '\n' && c != '\t'), "{text:?}");
}
