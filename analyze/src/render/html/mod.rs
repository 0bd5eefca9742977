//! The page: one file for a browser, with everything in it and nothing loaded from outside.
//!
//! Tables are there without any script; charts and the list of denials are drawn by `page.js` from data that stand in the page
//! as JSON. A Content-Security-Policy lets these two scripts and styles run and nothing else, so that a name from a log that
//! looks like a script stays a name, and no address is ever asked.

mod data;
mod thin;

use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, Environment};

use super::Lang;
use super::report::{self, Charts, Context, Made, shown};
use crate::analysis::series::Series;
use crate::analysis::summary::Analysis;
use crate::digest;
use crate::error::Error;
use crate::events::Events;
use crate::machine::Machine;

const PAGE: &str = include_str!("../../../templates/page.html");
const STYLE: &str = include_str!("../../../templates/page.css");
const SCRIPT: &str = include_str!("../../../templates/page.js");
/// <https://github.com/leeoniya/uPlot>, MIT; `make uplot` fetches it anew.
const UPLOT: &str = include_str!("../../../assets/uplot/uPlot.iife.min.js");
const UPLOT_STYLE: &str = include_str!("../../../assets/uplot/uPlot.min.css");
const UPLOT_LICENCE: &str = include_str!("../../../assets/uplot/LICENSE");

/// The page.
///
/// # Errors
/// The template does not fit the figures (which means that this code is wrong).
pub fn page(
    events: &Events,
    analysis: &Analysis,
    series: &Series,
    (made, machine): (&Made, &Machine),
    lang: Lang,
) -> Result<String, Error> {
    let data = data::json(events, analysis, series, lang).map_err(|why| unfit(&why))?;
    let mut environment = environment(lang);
    let hashes = |texts: [&str; 2]| texts.map(|text| format!("'sha256-{}'", digest::base64(text))).join(" ");
    let policy = format!(
        "default-src 'none'; script-src {}; style-src {}; base-uri 'none'; form-action 'none'",
        hashes([UPLOT, SCRIPT]),
        hashes([UPLOT_STYLE, STYLE])
    );
    let parts = [
        ("policy", policy.as_str()),
        ("data", &data),
        ("style", STYLE),
        ("script", SCRIPT),
        ("uplot", UPLOT),
        ("uplot_style", UPLOT_STYLE),
        ("uplot_licence", UPLOT_LICENCE),
        ("lang", lang.pick("zh-CN", "en")),
    ];
    for (name, text) in parts {
        environment.add_global(name, Value::from_safe_string(text.to_owned()));
    }
    let charts = Charts::new();
    let context = Context::new(events, analysis, &charts, made, machine, lang);
    environment.render_str(PAGE, Serde(&context)).map_err(|why| unfit(&why))
}

fn environment(lang: Lang) -> Environment<'static> {
    let mut environment = report::environment();
    environment.set_auto_escape_callback(|_| AutoEscape::Custom("html".into()));
    environment.set_formatter(|out, _, value| {
        let written = match value {
            value if value.is_none() => Ok(()),
            value if value.is_safe() || value.is_number() => out.write_str(&value.to_string()),
            value => out.write_str(&escape(&value.to_string())),
        };
        written.map_err(minijinja::Error::from)
    });
    let pick = move |zh: String, en: String| Value::from_safe_string(lang.pick(&zh, &en).to_owned());
    environment.add_function("t", pick);
    environment
}

fn unfit(why: &dyn std::fmt::Display) -> Error {
    Error::Render { what: "the page", why: format!("{why:#}") }
}

/// Text between tags or in a quoted attribute.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(shown(c)),
        }
    }
    out
}
