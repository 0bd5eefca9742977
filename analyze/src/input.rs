//! Paths and standard input → bytes, with a word for what is no log.

use std::io::{self, Read};
use std::path::Path;

use crate::error::Error;

/// Everything in `path`; `-` is standard input.
///
/// # Errors
/// The file can't be read, is a directory, or is compressed or UTF-16 (by its first bytes, whatever its name says).
pub fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let fail = |source| Error::Read { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        io::stdin().lock().read_to_end(&mut bytes).map_err(fail)?;
    } else {
        if path.is_dir() {
            return Err(Error::NotALog { path: path.to_owned(), what: "a directory", advice: "name the log in it" });
        }
        std::fs::File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)).map_err(fail)?;
    }
    let foreign = |what, advice| Error::NotALog { path: path.to_owned(), what, advice };
    match bytes.as_slice() {
        [0x1f, 0x8b, ..] => {
            Err(foreign("gzip data", "this version reads plain text: `gunzip -c FILE | hook-analyze -`"))
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            Err(foreign("zstd data", "this version reads plain text: `zstd -dc FILE | hook-analyze -`"))
        }
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            Err(foreign("UTF-16 text", "this version reads UTF-8: `iconv -f UTF-16 -t UTF-8 FILE | hook-analyze -`"))
        }
        _ => Ok(bytes),
    }
}
