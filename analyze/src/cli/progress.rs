//! How far reading has come, on a terminal, for inputs that take more than a second.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, OnceLock};
use std::time::{Duration, Instant};

use unicode_width::UnicodeWidthStr;

use crate::render::text::printable;

/// Before this nothing is shown.
const PATIENCE: Duration = Duration::from_secs(1);

/// Between two drawings.
const PAUSE: Duration = Duration::from_millis(100);

/// Cells of the bar.
const BAR: usize = 24;

static BEGAN: OnceLock<Instant> = OnceLock::new();
/// When it was last drawn, ms since the beginning; 0 is never.
static DRAWN: AtomicU64 = AtomicU64::new(0);
static TERMINAL: LazyLock<bool> = LazyLock::new(|| io::stderr().is_terminal());

/// Told that so many bytes of an input were read, of so many where that is known.
pub(super) fn watch(path: &Path, read: u64, of: Option<u64>) {
    if !*TERMINAL {
        return;
    }
    let since = BEGAN.get_or_init(Instant::now).elapsed();
    let drawn = Duration::from_millis(DRAWN.load(Ordering::Relaxed));
    if since >= PATIENCE && since >= drawn + PAUSE {
        DRAWN.store(since.as_millis() as u64, Ordering::Relaxed);
        let _ = write!(io::stderr().lock(), "\r\x1b[K{}", text(path, read, of));
    }
}

/// Takes the bar away, where there is one.
pub(super) fn end() {
    if DRAWN.swap(0, Ordering::Relaxed) > 0 {
        let _ = write!(io::stderr().lock(), "\r\x1b[K");
    }
}

/// `hook.log  [############            ]  50 %`, without a known end `hook.log  123 MB`.
fn text(path: &Path, read: u64, of: Option<u64>) -> String {
    const NAME: usize = 30;
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let mut shown = String::new();
    for c in printable(&name).chars() {
        if shown.width() >= NAME {
            break;
        }
        shown.push(c);
    }
    match of.filter(|of| *of > 0) {
        Some(of) => {
            let done = read.min(of);
            let cells = (done as u128 * BAR as u128 / u128::from(of)) as usize;
            let percent = u128::from(done) * 100 / u128::from(of);
            format!("{shown}  [{}{}] {percent:>3} %", "#".repeat(cells), " ".repeat(BAR - cells))
        }
        None => format!("{shown}  {} MB", read >> 20),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills_and_never_leaves_its_line() {
        let path = Path::new("logs/hook.log");
        assert_eq!(text(path, 50, Some(100)), "hook.log  [############            ]  50 %");
        assert_eq!(text(path, 0, Some(100)), "hook.log  [                        ]   0 %");
        // A file that grew meanwhile.
        assert_eq!(text(path, 300, Some(100)), "hook.log  [########################] 100 %");
        assert_eq!(text(path, 5 << 20, None), "hook.log  5 MB");
        let long = "学号".repeat(40);
        assert!(text(Path::new(&long), u64::MAX, Some(u64::MAX)).width() < 72);
        assert!(!text(Path::new("a\nb\x1b[2J"), 1, None).contains(['\n', '\x1b']));
    }
}
