//! Figures → what people and programs read. Nothing here computes.

pub mod chart;
pub mod diff;
pub mod explain;
pub mod export;
pub mod grades;
pub mod html;
pub mod lab;
pub mod page;
pub mod partition;
pub mod report;
pub mod terminal;
pub mod text;
pub mod trace;

/// Language of what people read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Lang {
    /// Chinese, the course's language.
    #[default]
    Zh,
    /// English.
    En,
}

impl Lang {
    /// The text in this language.
    pub fn pick<'a>(self, zh: &'a str, en: &'a str) -> &'a str {
        match self {
            Lang::Zh => zh,
            Lang::En => en,
        }
    }
}
