//! A log → everything that is shown of it: never a panic, no number that is none, and no control character of the log's.
#![no_main]

mod scratch;

use hook_analyze::analysis::diff::Diff;
use hook_analyze::analysis::limit::Limit;
use hook_analyze::analysis::summary::{Analysis, analyse};
use hook_analyze::analysis::whatif::{Arrivals, Settings};
use hook_analyze::analysis::{explain, findings, lab, series};
use hook_analyze::events::Events;
use hook_analyze::figures;
use hook_analyze::machine::Machine;
use hook_analyze::parse::{self, Pace, look};
use hook_analyze::render::chart::{self, Chart, Style, Theme, png};
use hook_analyze::render::report::{self, Image, Input, Made};
use hook_analyze::render::{self, Lang, html, terminal, trace};
use libfuzzer_sys::fuzz_target;

/// Lines that are explained of each log.
const EXPLAINED: u64 = 8;

fuzz_target!(|bytes: &[u8]| {
    let log = scratch::file(bytes);
    let Ok(events) = parse::read_at(std::slice::from_ref(&log), None, Pace { told: true, ..Pace::default() }) else {
        return;
    };
    let mut analysis = analyse(&events);
    analysis.summary.lab = Some(lab::of(&events, &analysis));
    let lang = if bytes.len() % 2 == 0 { Lang::Zh } else { Lang::En };
    tables(&analysis, lang);
    papers(&events, &analysis, lang);
    charts(&events, &analysis, lang, bytes.len() % 16 == 0);
    a_trace(&events, &analysis);
    for line in 1..=EXPLAINED.min(events.sources[0].lines) {
        let looked = look::look(&log, line).expect("the log is still there");
        let explanation = explain::line(&events, 0, line, looked);
        sound(&render::explain::text(&explanation, lang));
        serde_json::to_string(&explanation).expect("an explanation as JSON");
    }
    what_if(&events);
    if let Ok(figures) = figures::read_at(&[log], None, Pace { workload: true, ..Pace::default() }) {
        let limits: [Limit; 1] = ["denial_rate=+0%".parse().expect("a limit")];
        // A log without launches or requests has no rate to limit.
        if let Ok(diff) = Diff::of(&figures, &figures, &limits) {
            assert!(diff.same && !diff.is_exceeded(), "a log differs from itself");
            sound(&render::diff::diff(&diff, lang));
        }
    }
});

/// What a terminal shows, and the same as JSON.
fn tables(analysis: &Analysis, lang: Lang) {
    let summary = &analysis.summary;
    sound(&terminal::summary(summary, lang));
    sound(&terminal::checks(summary, lang));
    sound(&terminal::brief(summary, 0, lang));
    sound(&render::lab::table(summary.lab.as_ref().expect("the evidence"), lang));
    serde_json::to_string(summary).expect("figures as JSON");
}

fn papers(events: &Events, analysis: &Analysis, lang: Lang) {
    let text = String::from;
    let charts = ["tokens", "memory"].map(|name| (name, Image { file: text(name), title: text(name) })).into();
    let inputs = events.sources.iter().map(|_| Input::default()).collect();
    let made = Made { command: text("hook-analyze"), version: text("0"), date: text("today"), inputs };
    let machine = Machine::default();
    sound(&report::report(events, analysis, (&charts, &made, &machine), None, lang).unwrap());
    sound(&html::page(events, analysis, &series::of(events, analysis), (&made, &machine), lang).unwrap());
    findings::phases(events, analysis);
    findings::refused(events, analysis);
}

fn charts(events: &Events, analysis: &Analysis, lang: Lang, as_pictures: bool) {
    let series = series::of(events, analysis);
    for chart in Chart::ALL {
        let svg = chart::svg(&series, chart, "a log", Style { lang, theme: Theme::Light }).unwrap();
        sound(&svg);
        assert!(!svg.contains("\"NaN") && !svg.contains("\"inf"), "{svg}");
        if as_pictures {
            png::render(&svg).unwrap();
        }
    }
}

/// A slice for each call, an instant for each denial, and no time before the beginning.
fn a_trace(events: &Events, analysis: &Analysis) {
    // By a name of its own: it is written beside, and then put in its place.
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.json");
    trace::write(events, analysis, &path).unwrap();
    let text = std::fs::read(&path).expect("the trace");
    let trace: serde_json::Value = serde_json::from_slice(&text).expect("a trace is JSON");
    let all = trace["traceEvents"].as_array().expect("events");
    let of = |category: &str| all.iter().filter(|event| event["cat"] == category).count();
    let denied = events.calls.outcome.iter().filter(|outcome| **outcome == hook_event::Outcome::Denied).count();
    assert_eq!((of("call"), of("denial")), (events.calls.len(), denied));
    let negative = |key: &str| all.iter().filter_map(|event| event[key].as_f64()).any(|number| number < 0.0);
    assert!(!negative("ts") && !negative("dur"));
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

fn sound(text: &str) {
    assert!(!text.contains(|c: char| c.is_control() && c != '\n' && c != '\t'), "{text:?}");
}
