//! A file that is still written to → its bytes as they come, through truncation and rotation, until told to stop.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
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

    /// What became of the file since it was opened.
    fn fate(&self) -> Fate {
        match fs::metadata(&self.path) {
            Ok(metadata) if (metadata.dev(), metadata.ino()) != self.id => Fate::Replaced,
            Ok(metadata) if metadata.len() < self.offset => Fate::Cut,
            Ok(_) | Err(_) => Fate::Same,
        }
    }

    /// What comes when the open file has given all that was in it: bytes, 0 of them if it has begun anew; `None` if there
    /// is nothing yet.
    fn behind_end(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let fate = self.fate();
        if fate == Fate::Same {
            return Ok(None);
        }
        if fate == Fate::Replaced {
            // What was appended to it until then comes first.
            let n = self.more(buffer)?;
            if n > 0 {
                return Ok(Some(n));
            }
        }
        self.restart(fate)?;
        match buffer.first_mut().filter(|_| self.open_line) {
            Some(first) => {
                self.open_line = false;
                *first = b'\n';
                Ok(Some(1))
            }
            None => Ok(Some(0)),
        }
    }

    /// Begins anew.
    fn restart(&mut self, fate: Fate) -> io::Result<()> {
        match (fate, &mut self.file) {
            (Fate::Cut, Some(file)) => drop(file.seek(SeekFrom::Start(0))?),
            _ => self.file = None,
        }
        self.offset = 0;
        self.control.restarts.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// What may become of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It is as it was, or longer.
    Same,
    /// It is shorter than what was read of it.
    Cut,
    /// Another has its name.
    Replaced,
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
            match self.behind_end(buffer)? {
                Some(0) => continue,
                Some(n) => return Ok(n),
                None => {}
            }
            if stop {
                return Ok(0);
            }
            thread::sleep(PAUSE);
        }
    }
}

/// What is no plain file, until it ends or is told to: a thread of its own reads it, for nothing wakes one that waits for
/// a pipe's writer.
#[derive(Debug)]
pub(crate) struct Piped {
    chunks: Receiver<io::Result<Vec<u8>>>,
    /// The last one, and how much of it was given.
    chunk: (Vec<u8>, usize),
    control: Control,
}

impl Piped {
    /// Bytes asked for at a time.
    const CHUNK: usize = 64 << 10;

    /// `open` may wait as well.
    pub(crate) fn new(open: impl FnOnce() -> io::Result<File> + Send + 'static, control: Control) -> Piped {
        // A reader that is far ahead waits.
        let (sender, chunks) = mpsc::sync_channel(4);
        // It is not waited for: it may be reading when the program ends.
        thread::spawn(move || {
            let read_on = |file: &mut File| {
                let mut chunk = vec![0; Self::CHUNK];
                let n = file.read(&mut chunk)?;
                chunk.truncate(n);
                Ok(chunk)
            };
            let mut file = open();
            loop {
                let chunk = match &mut file {
                    Ok(file) => read_on(file),
                    Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
                };
                match &chunk {
                    Ok(chunk) if chunk.is_empty() => return,
                    Err(error) if error.kind() == ErrorKind::Interrupted && file.is_ok() => continue,
                    _ => {}
                }
                let ends = chunk.is_err();
                if sender.send(chunk).is_err() || ends {
                    return;
                }
            }
        });
        Piped { chunks, chunk: (Vec::new(), 0), control }
    }
}

impl Read for Piped {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.chunk.1 == self.chunk.0.len() {
            // Asked before the last look, as of a file.
            let stop = self.control.stop.load(Ordering::Relaxed);
            match self.chunks.recv_timeout(PAUSE) {
                Ok(chunk) => self.chunk = (chunk?, 0),
                Err(RecvTimeoutError::Timeout) if !stop => {}
                Err(_) => return Ok(0),
            }
        }
        let (chunk, given) = &mut self.chunk;
        let rest = chunk.get(*given..).unwrap_or(&[]);
        let n = rest.len().min(buffer.len());
        buffer[..n].copy_from_slice(&rest[..n]);
        *given += n;
        Ok(n)
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
    fn what_the_old_file_gets_until_it_is_replaced_is_read() {
        let mut script = Script::new();
        script.append("one\n");
        script.read(4);
        // Between the look that finds no more and the look at the name.
        let mut buffer = [0; 16];
        assert_eq!(script.tail.more(&mut buffer).unwrap(), 0);
        script.append("late\n");
        fs::rename(script.path(), script.folder.path().join("a.log.1")).unwrap();
        script.append("new\n");
        assert_eq!(script.tail.behind_end(&mut buffer).unwrap(), Some(5));
        assert_eq!(&buffer[..5], b"late\n");
        assert_eq!(script.rest(), "new\n");
        assert_eq!(script.tail.control.restarts.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_pipe_ends_when_it_is_told_to_though_its_writer_lives() {
        let (from, mut to) = io::pipe().unwrap();
        let control = Control::default();
        let mut piped = Piped::new(move || Ok(File::from(std::os::fd::OwnedFd::from(from))), control.clone());
        to.write_all(b"one\n").unwrap();
        let mut line = [0; 4];
        piped.read_exact(&mut line).unwrap();
        assert_eq!(&line, b"one\n");
        to.write_all(b"two").unwrap();
        thread::sleep(PAUSE);
        control.stop.store(true, Ordering::Relaxed);
        let mut rest = String::new();
        piped.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "two");
        let mut none = Piped::new(|| Err(ErrorKind::PermissionDenied.into()), Control::default());
        assert_eq!(none.read(&mut [0]).unwrap_err().kind(), ErrorKind::PermissionDenied);
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
