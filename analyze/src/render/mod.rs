//! Figures → what people and programs read. Nothing here computes.

pub mod chart;
pub mod export;
pub mod grades;
pub mod lab;
pub mod markdown;
pub mod partition;
pub mod terminal;
pub mod text;

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
