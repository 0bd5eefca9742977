//! A log that is still written to: its figures again and again, and at the end those of an ordinary run.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::args::Args;
use crate::error::{Error, Shown};
use crate::figures::{self, Figures};
use crate::input::tail::Control;
use crate::render::terminal;

/// Clears a terminal and goes to its upper left.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Follows `path` until it is interrupted; the figures at the end.
///
/// # Errors
/// The file can't be read, or signals can't be caught.
pub(super) fn run(args: &Args, path: &Path) -> Result<Figures, Error> {
    let control = Control::default();
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // A second one ends the program at once.
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&control.stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&control.stop)))
            .map_err(Error::Signals)?;
    }
    if path != Path::new("-") && !path.exists() {
        super::run::complain(&format!("hook-analyze: waiting for {}", Shown(path)));
    }
    let terminal = io::stdout().is_terminal();
    let mut before = 0;
    let followed = figures::follow(path, &control, Duration::from_secs_f64(args.interval), |figures| {
        let text = if args.json {
            serde_json::to_string(&figures.summary).map_or_else(|_| String::new(), |json| json + "\n")
        } else if terminal {
            format!("{CLEAR}{}", super::run::coloured(terminal::summary(&figures.summary, args.lang)))
        } else {
            terminal::brief(&figures.summary, before, args.lang) + "\n"
        };
        before = figures.summary.apis.iter().map(|api| api.calls).sum();
        let mut out = io::stdout().lock();
        if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
            // Nobody reads on.
            control.stop.store(true, Ordering::Relaxed);
        }
    })?;
    if terminal && !args.json {
        let _ = io::stdout().lock().write_all(CLEAR.as_bytes());
    }
    // What was read is what lies there now: then the figures are those of an ordinary run, event file and all.
    if path != Path::new("-") && path.is_file() && control.restarts.load(Ordering::Relaxed) == 0 {
        return figures::read(&[path.to_owned()], args.events.as_deref());
    }
    Ok(followed)
}
