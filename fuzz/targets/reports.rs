//! A log → everything that is shown of it: never a panic, no number that is none, and no control character of the log's.
#![no_main]

mod scratch;

use hook_analyze::analysis::summary::analyse;
use hook_analyze::analysis::whatif::{Arrivals, Settings};
use hook_analyze::analysis::{findings, series};
use hook_analyze::machine::Machine;
use hook_analyze::parse;
use hook_analyze::render::chart::{self, Chart, Style, Theme};
use hook_analyze::render::report::{self, Image, Input, Made};
use hook_analyze::render::{Lang, html, terminal};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(events) = parse::read(&[scratch::file(bytes)], None) else { return };
    let analysis = analyse(&events);
    let series = series::of(&events, &analysis);
    let text = String::from;
    let charts = ["tokens", "memory"].map(|name| (name, Image { file: text(name), title: text(name) })).into();
    let inputs = events.sources.iter().map(|_| Input::default()).collect();
    let made = Made { command: text("hook-analyze"), version: text("0"), date: text("today"), inputs };
    let machine = Machine::default();
    let lang = if bytes.len() % 2 == 0 { Lang::Zh } else { Lang::En };
    sound(&terminal::summary(&analysis.summary, lang));
    sound(&terminal::brief(&analysis.summary, 0, lang));
    sound(&report::report(&events, &analysis, (&charts, &made, &machine), None, lang).unwrap());
    sound(&html::page(&events, &analysis, &series, (&made, &machine), lang).unwrap());
    for chart in Chart::ALL {
        let svg = chart::svg(&series, chart, "a log", Style { lang, theme: Theme::Light }).unwrap();
        sound(&svg);
        assert!(!svg.contains("\"NaN") && !svg.contains("\"inf"), "{svg}");
    }
    findings::phases(&events, &analysis);
    findings::refused(&events, &analysis);
    for arrivals in Arrivals::all(&events) {
        let what_if = arrivals.replay(arrivals.recorded().unwrap_or(Settings { rate: 5.0, capacity: 3.0 }));
        assert_eq!(what_if.passed + what_if.denied, what_if.launches);
        if let Some(sized) = arrivals.size_for(0.1, 2.0) {
            assert!(sized.denial_rate() <= 0.1, "{sized:?}");
        }
    }
});

fn sound(text: &str) {
    assert!(!text.contains(|c: char| c.is_control() && c != '\n' && c != '\t'), "{text:?}");
}
