//! A chart as PNG: the SVG, rendered with a font that the program carries, so that a machine without any draws it too.

use std::sync::{Arc, Mutex, PoisonError};

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{FontResolver, Options, Tree};

use crate::error::Error;

/// A subset of Noto Sans CJK, made by `analyze/fonts/subset.py`.
const FONT: &[u8] = include_bytes!("../../../fonts/chart.otf");

/// Pixels of the picture for one of the SVG: sharp on paper and on the screens of phones.
const SCALE: f32 = 2.0;

/// A picture.
#[derive(Clone, Debug)]
pub struct Picture {
    /// The file.
    pub png: Vec<u8>,
    /// Characters that the carried font lacks. A font of this machine has drawn them, or an empty box stands for each.
    pub foreign: Vec<char>,
}

/// Renders an SVG that [`super::svg`] made.
///
/// # Errors
/// It is none (which means that this code is wrong), or there is no memory for the picture.
pub fn render(svg: &str) -> Result<Picture, Error> {
    let fail = |why: String| Error::Render { what: "the PNG", why };
    let foreign: Mutex<Vec<char>> = Mutex::new(Vec::new());
    let (pixmap, size) = {
        let mut options = Options { font_resolver: resolver(&foreign), ..Options::default() };
        options.fontdb_mut().load_font_data(FONT.to_vec());
        let tree = Tree::from_str(svg, &options).map_err(|why| fail(why.to_string()))?;
        let size = tree.size().to_int_size().scale_by(SCALE).ok_or_else(|| fail("it is too large".to_owned()))?;
        let pixmap = Pixmap::new(size.width(), size.height());
        let mut pixmap = pixmap.ok_or_else(|| fail("it is too large".to_owned()))?;
        resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixmap.as_mut());
        (pixmap, size)
    };
    let png = pixmap.encode_png().map_err(|why| fail(format!("{size:?}: {why}")))?;
    let mut foreign = foreign.into_inner().unwrap_or_else(PoisonError::into_inner);
    foreign.sort_unstable();
    foreign.dedup();
    Ok(Picture { png, foreign })
}

/// The carried font for everything; this machine's fonts, looked for when the first character is lacking, for the rest.
fn resolver(foreign: &Mutex<Vec<char>>) -> FontResolver<'_> {
    let default = FontResolver::default_fallback_selector();
    FontResolver {
        select_font: Box::new(|_, fonts| fonts.faces().next().map(|face| face.id)),
        select_fallback: Box::new(move |char, used, fonts| {
            let mut foreign = foreign.lock().unwrap_or_else(PoisonError::into_inner);
            if foreign.is_empty() {
                Arc::make_mut(fonts).load_system_fonts();
            }
            foreign.push(char);
            default(char, used, fonts)
        }),
    }
}
