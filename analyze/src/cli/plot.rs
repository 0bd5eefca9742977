//! `--plot`: which charts, in which files.

use std::path::{Path, PathBuf};

use super::run::complain;
use crate::analysis::series::Series;
use crate::error::{Error, Shown};
use crate::render::chart::{self, Chart, Style, Theme, png};
use crate::render::{Lang, export};

/// What `--plot` names for every chart in a file of its own.
const ALL: &str = "all";

/// Charts.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct PlotArgs {
    /// Draw a chart (.svg, .png); `all` that the log has something for
    ///
    /// `all` names them after the log, in this folder: of `logs/hook.log` they are `hook-timeline.svg`, `hook-tokens.svg` and
    /// so on. With `--chart all` the files' name is yours: `--plot out/run.png --chart all` draws `out/run-timeline.png` and
    /// so on.
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,

    /// Which chart (default: timeline); several go into files NAME-CHART
    ///
    /// `timeline` (tokens and memory), `tokens`, `memory`, `allocations` (sizes by call number), `outcomes` (passed and denied
    /// in each interval), `shapes` (grid and block), `kernels`, `overhead` (what the hook and the calls took), or `all`.
    #[arg(
        long,
        value_name = "CHART",
        value_delimiter = ',',
        value_enum,
        requires = "plot",
        hide_possible_values = true
    )]
    pub chart: Vec<Choice>,

    /// Colours of charts
    #[arg(long, value_enum, default_value_t, hide_short_help = true)]
    pub theme: Theme,
}

/// One chart, or all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// This one.
    One(Chart),
    /// Those that the log has something for.
    All,
}

impl clap::ValueEnum for Choice {
    fn value_variants<'a>() -> &'a [Self] {
        const CHOICES: [Choice; Chart::ALL.len() + 1] = {
            let mut choices = [Choice::All; Chart::ALL.len() + 1];
            let mut index = 0;
            while index < Chart::ALL.len() {
                choices[index] = Choice::One(Chart::ALL[index]);
                index += 1;
            }
            choices
        };
        &CHOICES
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        match self {
            Choice::One(chart) => chart.to_possible_value(),
            Choice::All => Some(clap::builder::PossibleValue::new(ALL).help("All that the log has something for")),
        }
    }
}

impl PlotArgs {
    /// How charts look.
    pub fn style(&self, lang: Lang) -> Style {
        Style { lang, theme: self.theme }
    }

    fn is_all(&self) -> bool {
        self.chart.contains(&Choice::All) || (self.chart.is_empty() && self.plot.as_deref() == Some(Path::new(ALL)))
    }

    /// Each chart and its file. Of all charts those are left out later that the log has nothing for.
    ///
    /// # Errors
    /// The file's ending is neither `.svg` nor `.png`.
    pub fn files(&self, logs: &[PathBuf]) -> Result<Vec<(Chart, PathBuf)>, Error> {
        let Some(plot) = &self.plot else { return Ok(Vec::new()) };
        // Named after the log, but where the user is: logs may lie where nobody else may write.
        let path = if plot == Path::new(ALL) { named_after(logs) } else { plot.clone() };
        if kind(&path).is_none() {
            let advice = "a chart is an SVG or a PNG; name a file that ends in `.svg` or `.png`, or `all`";
            return Err(Error::Ending { path, advice });
        }
        let mut charts: Vec<Chart> = if self.is_all() { Chart::ALL.to_vec() } else { Vec::new() };
        for choice in &self.chart {
            match choice {
                Choice::One(chart) if !charts.contains(chart) => charts.push(*chart),
                Choice::One(_) | Choice::All => {}
            }
        }
        if charts.is_empty() {
            charts.push(Chart::Timeline);
        }
        if charts.len() == 1 && plot != Path::new(ALL) {
            return Ok(vec![(charts[0], path)]);
        }
        let beside = |chart: Chart| {
            let mut name = path.file_stem().unwrap_or_default().to_owned();
            name.push(format!("-{}.{}", chart.name(), kind(&path).unwrap_or("svg")));
            (chart, path.with_file_name(name))
        };
        Ok(charts.into_iter().map(beside).collect())
    }

    /// Draws `charts`, and tells which there are where their names are not the user's.
    pub(super) fn draw(
        &self,
        charts: &[(Chart, PathBuf)],
        series: &Series,
        log: &str,
        lang: Lang,
    ) -> Result<(), Error> {
        let mut drawn = Vec::new();
        for (chart, path) in charts {
            let lacks = chart.lacks(series, lang);
            if let Some(why) = lacks {
                complain(&match lang {
                    Lang::Zh => format!("hook-analyze: 图 `{}` 没有内容: {why}", chart.name()),
                    Lang::En => format!("hook-analyze: nothing to draw for `{}`: {why}", chart.name()),
                });
                if self.is_all() {
                    continue;
                }
            }
            let title = format!("{} · {log}", chart.title(lang));
            let svg = chart::svg(series, *chart, &title, self.style(lang))?;
            if kind(path) == Some("png") {
                let picture = png::render(&svg)?;
                export::bytes(path, &picture.png)?;
            } else {
                export::text(path, &svg)?;
            }
            drawn.push(Shown(path).to_string());
        }
        if charts.len() > 1 {
            complain(&match lang {
                Lang::Zh => format!("hook-analyze: {} 张图: {}", drawn.len(), drawn.join(", ")),
                Lang::En => format!("hook-analyze: {} charts: {}", drawn.len(), drawn.join(", ")),
            });
        }
        Ok(())
    }
}

/// What a file's ending makes it.
fn kind(path: &Path) -> Option<&'static str> {
    let ending = path.extension()?.to_str()?;
    ["svg", "png"].into_iter().find(|kind| ending.eq_ignore_ascii_case(kind))
}

/// `hook.svg` of `logs/hook.log` and `logs/hook.log.gz`.
fn named_after(logs: &[PathBuf]) -> PathBuf {
    let name = logs.first().and_then(|log| log.file_name()).unwrap_or_default().to_string_lossy().into_owned();
    let mut name = name.as_str();
    for ending in [".gz", ".zst", ".log", ".jsonl", ".txt"] {
        name = name.strip_suffix(ending).filter(|rest| !rest.is_empty()).unwrap_or(name);
    }
    // Standard input, a folder's `..`, a pattern.
    let odd = |c: char| c.is_control() || "*?[]<>|:\"".contains(c);
    let name = if name.is_empty() || name == "-" || name.chars().any(odd) { "hook" } else { name };
    PathBuf::from(format!("{name}.svg"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(plot: &str, chart: &[Choice], log: &str) -> Vec<String> {
        let args = PlotArgs { plot: Some(plot.into()), chart: chart.to_vec(), theme: Theme::Light };
        let files = args.files(&[log.into()]).unwrap();
        files.into_iter().map(|(_, path)| path.display().to_string()).collect()
    }

    #[test]
    fn files_are_the_users_or_named_after_the_log() {
        use Choice::{All, One};
        assert_eq!(files("t.svg", &[], "hook.log"), ["t.svg"]);
        assert_eq!(files("out/m.PNG", &[One(Chart::Memory)], "hook.log"), ["out/m.PNG"]);
        assert_eq!(
            files("out/m.png", &[One(Chart::Memory), One(Chart::Tokens)], "a"),
            ["out/m-memory.png", "out/m-tokens.png"]
        );
        assert_eq!(files("all", &[One(Chart::Memory)], "/x/run.log.gz"), ["run-memory.svg"]);
        assert_eq!(files("all", &[], "-").first().map(String::as_str), Some("hook-timeline.svg"));
        assert_eq!(files("all", &[], "-").len(), Chart::ALL.len());
        assert_eq!(files("x.svg", &[All], "a.log").last().map(String::as_str), Some("x-overhead.svg"));
    }
}
