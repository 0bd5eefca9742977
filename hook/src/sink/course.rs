//! Course lines: whole lines in each `write`, to stderr or a file.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use hook_event::Call;
use hook_event::course::{LineBuf, write_call, write_warning};

use super::chunk::Chunk;
use crate::config::Target;
use crate::ffi::os;
use crate::ffi::output::Output;

pub(super) struct CourseSink {
    target: Target,
    output: OnceLock<Option<Output>>,
}

/// The log is broken and stderr has been told. The banner's sink and the calls' share it, and so do forked children.
static TOLD: AtomicBool = AtomicBool::new(false);

impl CourseSink {
    pub(super) fn new(target: &Target) -> Self {
        CourseSink { target: target.clone(), output: OnceLock::new() }
    }

    pub(super) fn is_on(&self) -> bool {
        self.target != Target::Off
    }

    /// The line of a call.
    pub(super) fn call(&self, call: &Call<'_>) {
        self.line(|out| write_call(out, call));
    }

    /// A line for a person, where the others go; none when they are off.
    pub(super) fn warn(&self, text: &str) {
        self.line(|out| write_warning(out, text));
    }

    /// Writes the line that `format` makes.
    pub(super) fn line(&self, format: impl FnOnce(&mut LineBuf)) {
        let Some(output) = self.output() else { return };
        let mut line = LineBuf::new();
        format(&mut line);
        if output.write(line.as_bytes()).is_err() && !output.is_stderr() {
            self.tell("写日志失败");
        }
    }

    /// How much one write takes.
    pub(super) fn chunk(&self) -> usize {
        self.output().map_or(0, Output::chunk)
    }

    /// Adds a line to those that are to be written.
    pub(super) fn put(&self, chunk: &mut Chunk, line: &[u8]) {
        if !chunk.fits(line.len()) {
            self.flush(chunk);
        }
        chunk.push(line);
    }

    /// Writes them.
    pub(super) fn flush(&self, chunk: &mut Chunk) {
        if let Some(text) = chunk.text()
            && let Some(output) = self.output()
            && output.write(text).is_err()
            && !output.is_stderr()
        {
            self.tell("写日志失败");
        }
        chunk.clear();
    }

    /// In a forked child.
    pub(super) fn disown(&self) {
        self.output.get().into_iter().flatten().for_each(Output::disown);
    }

    /// Gives the file back; for the banner, whose sink does not live on.
    pub(super) fn close(self) {
        if let Some(Some(output)) = self.output.into_inner() {
            output.close();
        }
    }

    fn output(&self) -> Option<&Output> {
        let open = || match &self.target {
            Target::Off => None,
            Target::Stderr => Some(Output::stderr()),
            Target::File(path) => {
                let output = Output::append(path);
                if output.is_none() {
                    self.tell("打不开日志文件");
                }
                output
            }
        };
        self.output.get_or_init(open).as_ref()
    }

    fn tell(&self, what: &str) {
        if let Target::File(path) = &self.target
            && !TOLD.swap(true, Ordering::Relaxed)
        {
            let mut line = LineBuf::new();
            let path = String::from_utf8_lossy(path);
            write_warning(
                &mut line,
                &format!("CUDA_HOOK_LOG={path}: {what} ({}); 之后的日志行会丢失", os::last_error()),
            );
            // If stderr fails too there is nobody left to tell.
            let _ = Output::stderr().write(line.as_bytes());
        }
    }
}
