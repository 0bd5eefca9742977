//! A file that is still written to → its bytes as they come, through truncation and rotation, until told to stop.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// How long to wait before looking again.
const PAUSE: Duration = Duration::from_millis(100);

/// What whoever follows and whoever reads share.
#[derive(Clone, Debug, Default)]
pub struct Control {
    /// Set to make the file end where it ends now.
    pub stop: Arc<AtomicBool>,
    /// How often the file was begun anew, cut or replaced: an earlier part of what was read is no longer in it.
    pub restarts: Arc<AtomicU64>,
}

/// A file's bytes and those that are appended. A file that was cut below what was read, or replaced by another of its
/// name, is read from its beginning; a line that was open then ends there.
///
/// Not noticed is a file that was cut and written beyond its old length between two looks.
#[derive(Debug)]
pub(crate) struct Tail {
    path: PathBuf,
    file: Option<File>,
    /// Device and number of the open file.
    id: (u64, u64),
    /// Read of it.
    offset: u64,
    /// Whether the last byte read was no line feed.
    open_line: bool,
    control: Control,
}

impl Tail {
    pub(crate) fn new(path: PathBuf, control: Control) -> Tail {
        Tail { path, file: None, id: (0, 0), offset: 0, open_line: false, control }
    }

    fn open(&mut self) -> io::Result<bool> {
        match File::open(&self.path) {
            Ok(file) => {
                let metadata = file.metadata()?;
                self.id = (metadata.dev(), metadata.ino());
                (self.file, self.offset) = (Some(file), 0);
                Ok(true)
            }
            // Between the old file's renaming and the new one's making there is none.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Bytes of the open file.
    fn more(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(file) = &mut self.file else { return Ok(0) };
        let n = file.read(buffer)?;
        self.offset += n as u64;
        if let Some(last) = n.checked_sub(1).and_then(|last| buffer.get(last)) {
            self.open_line = *last != b'\n';
        }
        Ok(n)
    }

    /// Whether reading begins anew: the file was cut, or there is another of its name.
    fn has_restarted(&mut self) -> io::Result<bool> {
        let Ok(metadata) = fs::metadata(&self.path) else { return Ok(false) };
        if (metadata.dev(), metadata.ino()) != self.id {
            self.file = None;
        } else if metadata.len() < self.offset {
            if let Some(file) = &mut self.file {
                file.seek(SeekFrom::Start(0))?;
            }
            self.offset = 0;
        } else {
            return Ok(false);
        }
        self.control.restarts.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }
}

impl Read for Tail {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            // Asked before the last look, so that what was written until then is read.
            let stop = self.control.stop.load(Ordering::Relaxed);
            if self.file.is_none() && !self.open()? {
                if stop {
                    return Ok(0);
                }
                thread::sleep(PAUSE);
                continue;
            }
            let n = self.more(buffer)?;
            if n > 0 {
                return Ok(n);
            }
            // What was appended to the old file before it was replaced comes first.
            if self.has_restarted()? {
                if let Some(first) = buffer.first_mut().filter(|_| self.open_line) {
                    self.open_line = false;
                    *first = b'\n';
                    return Ok(1);
                }
                continue;
            }
            if stop {
                return Ok(0);
            }
            thread::sleep(PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// Reads what there is at each step of a script on a file.
    struct Script {
        folder: tempfile::TempDir,
        tail: Tail,
    }

    impl Script {
        fn new() -> Script {
            let folder = tempfile::tempdir().unwrap();
            let tail = Tail::new(folder.path().join("a.log"), Control::default());
            Script { folder, tail }
        }

        fn path(&self) -> PathBuf {
            self.folder.path().join("a.log")
        }

        fn append(&self, text: &str) {
            let mut file = File::options().append(true).create(true).open(self.path()).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        }

        fn read(&mut self, length: usize) -> String {
            let mut bytes = vec![0; length];
            self.tail.read_exact(&mut bytes).unwrap();
            String::from_utf8(bytes).unwrap()
        }

        /// What is left when it is told to stop.
        fn rest(&mut self) -> String {
            self.tail.control.stop.store(true, Ordering::Relaxed);
            let mut rest = String::new();
            self.tail.read_to_string(&mut rest).unwrap();
            rest
        }
    }

    #[test]
    fn what_is_appended_comes_in_order() {
        let mut script = Script::new();
        script.append("one\ntw");
        assert_eq!(script.read(6), "one\ntw");
        script.append("o\nthree");
        assert_eq!(script.rest(), "o\nthree");
        assert_eq!(script.tail.control.restarts.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_cut_file_is_read_from_its_beginning_and_an_open_line_ends() {
        let mut script = Script::new();
        script.append("one\ntw");
        script.read(6);
        File::create(script.path()).unwrap();
        script.append("new\n");
        assert_eq!(script.rest(), "\nnew\n");
        assert_eq!(script.tail.control.restarts.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_replaced_file_is_read_to_its_end_first() {
        let mut script = Script::new();
        script.append("one\n");
        script.read(4);
        script.append("last\n");
        fs::rename(script.path(), script.folder.path().join("a.log.1")).unwrap();
        assert_eq!(script.read(5), "last\n");
        script.append("new\n");
        assert_eq!(script.read(4), "new\n");
        assert_eq!(script.rest(), "");
    }

    #[test]
    fn a_file_that_is_not_there_yet_is_waited_for() {
        let mut script = Script::new();
        thread::scope(|scope| {
            let path = script.path();
            scope.spawn(move || {
                thread::sleep(PAUSE);
                fs::write(path, "one\n").unwrap();
            });
            assert_eq!(script.read(4), "one\n");
        });
    }
}
