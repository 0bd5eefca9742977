//! A submission → its row, whatever it is. The first byte says what the others are: a file of some name, or logs of which it
//! is made: a log is graded the same by itself, in a folder, and in an archive.

use std::fs;
use std::io::{Cursor, Write};
use std::path::Path;

use hook_analyze::analysis::grade::{Grade, Status};
use hook_analyze::batch;
use hook_analyze::render::{Lang, grades};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::parts;

pub(crate) fn target(bytes: &[u8]) {
    let Some((&how, rest)) = bytes.split_first() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let names = ["a.zip", "a.log", "a.tar.gz", "=a.jsonl"];
    if let Some(name) = names.get(how as usize) {
        fs::write(folder.path().join(name), rest).unwrap();
        rows(folder.path());
        return;
    }
    let [log, beside] = parts(rest);
    let log = log.unwrap_or(b"");
    let files: Vec<(&str, &[u8])> = [("hook.log", Some(log)), ("hook.jsonl", beside)]
        .into_iter()
        .filter_map(|(name, bytes)| Some((name, bytes?)))
        .collect();
    fs::write(folder.path().join("b.zip"), zipped(&files)).unwrap();
    let within = folder.path().join("c");
    fs::create_dir(&within).unwrap();
    for (name, bytes) in &files {
        fs::write(within.join(name), bytes).unwrap();
    }
    // What begins like an archive is one by itself, and no text in another.
    let alone = beside.is_none() && !looks_packed(log);
    if alone {
        fs::write(folder.path().join("a.log"), log).unwrap();
    }
    let rows = rows(folder.path());
    assert_eq!(rows.len(), 2 + usize::from(alone));
    for other in &rows[1..] {
        assert_eq!((other.status, &other.figures), (rows[0].status, &rows[0].figures), "{}", other.submission);
        // A note may name the log, which lies elsewhere.
        let notes = [other, &rows[0]].map(|row| row.note.as_ref().map(|note| unnamed(&note.en, folder.path())));
        assert!(other.figures.is_none() || notes[0] == notes[1], "{notes:?}");
    }
}

/// A text without the folder and the name of a submission in it.
fn unnamed(text: &str, folder: &Path) -> String {
    let mut text = text.replace(&format!("{}/", folder.display()), "");
    for (named, name) in [("b.zip/hook", "c/hook"), ("a.log", "c/hook.log")] {
        text = text.replace(named, name);
    }
    text
}

/// Whether a file of these bytes is an archive, of a kind that is known or not.
fn looks_packed(bytes: &[u8]) -> bool {
    matches!(bytes, [b'P', b'K', ..] | [b'R', b'a', b'r', ..] | [b'7', b'z', ..] | [0xfd, ..] | [b'B', b'Z', ..])
        || bytes.get(257..262) == Some(b"ustar")
}

/// The rows of a folder, as they are shown, too.
fn rows(folder: &Path) -> Vec<Grade> {
    let rows = batch::read(folder, None, 1).expect("the folder is there");
    for lang in [Lang::Zh, Lang::En] {
        let csv = grades::csv(&rows, lang);
        assert_eq!(csv.lines().count(), 1 + rows.len(), "a line for each: {csv}");
        for text in [csv, grades::table(&rows, lang), grades::account(&rows, lang)] {
            assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
        }
    }
    serde_json::to_string(&rows).expect("rows as JSON");
    for row in &rows {
        assert_ne!(row.status, Status::InternalError, "{}", row.submission);
    }
    rows
}

fn zipped(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        zip.start_file(*name, SimpleFileOptions::default()).expect("a file of its own");
        zip.write_all(bytes).expect("room for it");
    }
    zip.finish().expect("an archive").into_inner()
}
