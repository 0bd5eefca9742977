//! What the user named → open inputs: files, folders, patterns that the shell did not expand, standard input, pipes.
//!
//! An input is read piece by piece ([`pieces`]) through what its content asks for ([`decode`]); nothing is judged by a
//! name. A file can be read again from where it began; of a pipe the first [`HELD`] bytes are kept for that.

pub mod decode;
pub mod pieces;
pub(crate) mod submission;
pub mod tail;

use std::fs::{self, File};
use std::io::{self, Cursor, ErrorKind, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Error;
use pieces::Pieces;
use tail::{Control, Piped, Tail};

/// What is kept of a pipe so that it can be begun again.
pub const HELD: usize = 32 << 20;

/// What a pipe may hold at most where nobody has changed the system's limit, bytes.
const PIPE: usize = 1 << 20;

/// The files behind `logs`: a folder stands for its `*.log` and `*.jsonl`, also packed (`*.log.gz`, `*.log.zst`) unless
/// the log itself lies beside it, sorted; a name that no file has and that
/// holds `*`, `?` or `[` for what matches it, sorted.
///
/// # Errors
/// A folder can't be read or holds no log; nothing matches a pattern.
pub fn expand(logs: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    for log in logs {
        if log.is_dir() {
            files.extend(in_folder(log)?);
            continue;
        }
        let pattern = log.to_str().filter(|text| text.contains(['*', '?', '[']) && fs::symlink_metadata(log).is_err());
        let Some(pattern) = pattern else {
            files.push(log.clone());
            continue;
        };
        // What is no pattern after all is the name of a file that is not there.
        let mut matching: Vec<PathBuf> = glob::glob(pattern)
            .map(|paths| paths.flatten().filter(|path| !path.is_dir()).collect())
            .unwrap_or_default();
        if matching.is_empty() {
            let source = io::Error::new(ErrorKind::NotFound, "no file of this name or pattern");
            return Err(Error::Read { path: log.clone(), source });
        }
        matching.sort();
        files.append(&mut matching);
    }
    Ok(files)
}

/// The logs that lie in a folder.
pub(crate) fn in_folder(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let fail = |source| Error::Read { path: folder.to_owned(), source };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        // A packed copy beside its log holds the same calls.
        let packed = has_ending(&path, &["gz", "zst"]);
        let is_log = if packed {
            let plain = path.with_extension("");
            has_ending(&plain, &LOGS) && !plain.exists()
        } else {
            has_ending(&path, &LOGS)
        };
        if is_log && !path.is_dir() {
            files.push(path);
        }
    }
    if files.is_empty() {
        let what = "a folder without any *.log or *.jsonl, packed or not";
        return Err(Error::NotALog {
            path: folder.to_owned(),
            what,
            advice: "name a log, or the folder that holds it",
        });
    }
    files.sort();
    Ok(files)
}

/// How logs in a folder are named.
const LOGS: [&str; 2] = ["log", "jsonl"];

fn has_ending(path: &Path, endings: &[&str]) -> bool {
    path.extension().is_some_and(|ending| endings.iter().any(|one| ending == *one))
}

/// The lines of a file or a pipe that is still written to, until it is told to end.
///
/// # Errors
/// It can't be read, or is of a kind that is no log.
pub(crate) fn follow(path: &Path, control: &Control) -> Result<Pieces, Error> {
    let (named, control) = (path.to_owned(), control.clone());
    if path == Path::new("-") {
        return decode::open(path, Box::new(Piped::new(standard_input, control)));
    }
    // What is no plain file has an end of its own.
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return decode::open(path, Box::new(Piped::new(|| File::open(named), control)));
    }
    decode::open(path, Box::new(Tail::new(named, control)))
}

fn standard_input() -> io::Result<File> {
    io::stdin().as_fd().try_clone_to_owned().map(File::from)
}

/// A file, or what an archive holds under a name.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    /// Its path; of a part of an archive the archive's, and the name behind it.
    pub(crate) path: PathBuf,
    /// What the archive holds.
    pub(crate) content: Option<Arc<[u8]>>,
}

/// An open input.
pub struct Input {
    /// As it was named; `-` is standard input.
    pub path: PathBuf,
    from: From,
}

/// Where an input comes from.
enum From {
    /// A file, opened when it is read: there may be thousands.
    Path,
    /// A file that was opened by others, and where they left it.
    Open(File, u64),
    /// What an archive holds.
    Memory(Arc<[u8]>),
    /// What can be read once, and what is kept of it.
    Pipe(File, Arc<Mutex<Held>>),
}

/// The beginning of a pipe.
#[derive(Default)]
struct Held {
    bytes: Vec<u8>,
    /// More was read than is kept.
    more: bool,
}

impl Input {
    /// Opens `path`; `-` is standard input.
    ///
    /// # Errors
    /// It can't be opened.
    pub fn open(path: &Path) -> Result<Input, Error> {
        let fail = |source| Error::Read { path: path.to_owned(), source };
        let standard = path == Path::new("-");
        if !standard && fs::metadata(path).map_err(fail)?.is_file() {
            return Ok(Input { path: path.to_owned(), from: From::Path });
        }
        let mut file = if standard { standard_input().map_err(fail)? } else { File::open(path).map_err(fail)? };
        let is_file = file.metadata().map_err(fail)?.is_file();
        let from = match file.stream_position() {
            Ok(start) if is_file => From::Open(file, start),
            _ => {
                widen(&file);
                From::Pipe(file, Arc::default())
            }
        };
        Ok(Input { path: path.to_owned(), from })
    }

    /// Opens a document.
    ///
    /// # Errors
    /// It is a file that can't be opened.
    pub(crate) fn of(document: &Document) -> Result<Input, Error> {
        match &document.content {
            Some(content) => Ok(Input { path: document.path.clone(), from: From::Memory(Arc::clone(content)) }),
            None => Input::open(&document.path),
        }
    }

    /// Its lines from the beginning on.
    ///
    /// # Errors
    /// It can't be read, or is of a kind that is no log.
    pub fn pieces(&self) -> Result<Pieces, Error> {
        let fail = |source| Error::Read { path: self.path.clone(), source };
        let raw: Box<dyn Read + Send> = match &self.from {
            From::Path => Box::new(File::open(&self.path).map_err(fail)?),
            From::Memory(content) => Box::new(Cursor::new(Arc::clone(content))),
            From::Open(file, start) => {
                let mut file = file.try_clone().map_err(fail)?;
                file.seek(SeekFrom::Start(*start)).map_err(fail)?;
                Box::new(file)
            }
            From::Pipe(file, held) => {
                let before = std::mem::take(&mut *lock(held)).bytes;
                let file = file.try_clone().map_err(fail)?;
                Box::new(Tee { from: Cursor::new(before).chain(file), held: Arc::clone(held) })
            }
        };
        decode::open(&self.path, raw)
    }

    /// Its bytes as they lie there, where that is known.
    pub(crate) fn size(&self) -> Option<u64> {
        match &self.from {
            From::Path => fs::metadata(&self.path).ok().map(|metadata| metadata.len()),
            From::Open(file, _) => file.metadata().ok().map(|metadata| metadata.len()),
            From::Memory(content) => Some(content.len() as u64),
            From::Pipe(..) => None,
        }
    }

    /// Whether [`Self::pieces`] can be asked for again without losing anything.
    pub fn can_be_read_again(&self) -> bool {
        match &self.from {
            From::Path | From::Open(..) | From::Memory(_) => true,
            From::Pipe(_, held) => !lock(held).more,
        }
    }
}

/// Lets a pipe hold more, so that its writer waits less often. What is no pipe, or may not, stays as it is.
fn widen(pipe: &File) {
    let _ = rustix::pipe::fcntl_setpipe_size(pipe, PIPE);
}

fn lock(held: &Mutex<Held>) -> std::sync::MutexGuard<'_, Held> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps the beginning of what is read.
struct Tee<R> {
    from: R,
    held: Arc<Mutex<Held>>,
}

impl<R: Read> Read for Tee<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.from.read(buf)?;
        let mut held = lock(&self.held);
        if !held.more {
            held.bytes.extend_from_slice(buf.get(..n).unwrap_or(&[]));
            if held.bytes.len() > HELD {
                *held = Held { bytes: Vec::new(), more: true };
            }
        }
        Ok(n)
    }
}
