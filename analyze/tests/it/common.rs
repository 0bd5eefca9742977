//! What the tests share.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use hook_analyze::analysis::summary::{Analysis, analyse};
use hook_analyze::events::Events;
use hook_analyze::{figures, parse};

/// A file of `tests/data`.
pub(crate) fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// A folder with these files.
pub(crate) fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    folder
}

/// Reads one log (and what lies beside it) and works out its figures: in both ways, which must agree.
pub(crate) fn load(path: &Path) -> (Events, Analysis) {
    let events = parse::read(&[path.to_owned()], None).unwrap();
    let analysis = analyse(&events);
    let figures = figures::read(&[path.to_owned()], None).unwrap();
    let json = |summary| serde_json::to_string_pretty(summary).unwrap();
    assert_eq!(json(&figures.summary), json(&analysis.summary), "figures are the same without rows");
    (events, analysis)
}

/// The figures of a log with this text, by itself.
pub(crate) fn of_text(text: impl AsRef<[u8]>) -> (Events, Analysis) {
    let folder = folder(&[("a.log", text.as_ref())]);
    load(&folder.path().join("a.log"))
}

/// Runs the command in `folder`.
pub(crate) fn run(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hook-analyze"))
        .args(arguments)
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .output()
        .unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The lab's log.
pub(crate) fn lab() -> String {
    std::fs::read_to_string(data("course_h200_cuda13.log")).unwrap()
}

/// The same with lines as they were before they were broken to fit.
pub(crate) fn unbroken(bytes: &[u8]) -> String {
    text(bytes).replace("\n  ", " ")
}
