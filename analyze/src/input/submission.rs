//! A submission → the logs in it: a file, a folder, or a ZIP archive. Nothing of it is written anywhere, links to folders
//! are not followed, and what would take too much room is refused.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use encoding_rs::GBK;
use zip::ZipArchive;
use zip::result::ZipError;

use super::Document;
use crate::events::Note;

/// What an archive's part may unpack to, bytes: it is held in memory.
pub(crate) const MEMBER: u64 = 256 << 20;

/// Folders within folders that are looked into.
const DEPTH: usize = 16;

/// Files of a submission that are looked at.
const FILES: usize = 20_000;

/// Why nothing can be taken from a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) kind: Kind,
    pub(crate) note: Note,
}

/// The kind of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It can't be read.
    Unreadable,
    /// It is not whole.
    Damaged,
    /// It needs a password.
    Encrypted,
    /// It takes too much room.
    TooLarge,
    /// It is packed in a way that is not known here.
    Unsupported,
}

impl Problem {
    fn new(kind: Kind, en: impl Into<String>, zh: impl Into<String>) -> Problem {
        Problem { kind, note: Note::new(en, zh) }
    }

    fn unreadable(error: &io::Error) -> Problem {
        Problem::new(Kind::Unreadable, format!("cannot be read: {error}"), format!("无法读取: {error}"))
    }
}

/// A submission that was opened.
pub(crate) struct Submission {
    path: PathBuf,
    form: Form,
    /// What is in it, by its path there; of a file nothing.
    files: Vec<PathBuf>,
    /// For each its place in the archive.
    places: Vec<usize>,
}

/// What a submission is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    File,
    Folder,
    Archive,
}

impl Submission {
    /// Opens a submission.
    ///
    /// # Errors
    /// It can't be read, or not by this program.
    pub(crate) fn open(path: &Path) -> Result<Submission, Problem> {
        let link = fs::symlink_metadata(path).map_err(|error| Problem::unreadable(&error))?;
        let metadata = fs::metadata(path).map_err(|error| Problem::unreadable(&error))?;
        let of = |form, files, places| Submission { path: path.to_owned(), form, files, places };
        if metadata.is_dir() {
            if link.is_symlink() {
                return Err(Problem::new(
                    Kind::Unreadable,
                    "a link to a folder, which is not followed",
                    "是指向目录的链接, 不予跟随",
                ));
            }
            return Ok(of(Form::Folder, in_folder(path)?, Vec::new()));
        }
        // A pipe that nobody writes to would be waited for.
        if !metadata.is_file() {
            return Err(Problem::new(Kind::Unreadable, "neither a file nor a folder", "既不是文件也不是目录"));
        }
        let mut head = Vec::new();
        let read = File::open(path).and_then(|file| file.take(300).read_to_end(&mut head));
        read.map_err(|error| Problem::unreadable(&error))?;
        let foreign = match head.as_slice() {
            [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => {
                let (files, places) = in_archive(path)?;
                return Ok(of(Form::Archive, files, places));
            }
            [b'R', b'a', b'r', b'!', 0x1a, 7, ..] => Some("RAR"),
            [b'7', b'z', 0xbc, 0xaf, 0x27, 0x1c, ..] => Some("7z"),
            [0xfd, b'7', b'z', b'X', b'Z', ..] => Some("xz"),
            [b'B', b'Z', b'h', ..] => Some("bzip2"),
            _ if head.get(257..262) == Some(b"ustar") || is_packed_tar(path) => Some("tar"),
            _ => None,
        };
        match foreign {
            Some(what) => Err(Problem::new(
                Kind::Unsupported,
                format!("a {what} archive; unpack it into a folder"),
                format!("{what} 压缩包; 请先解压为目录"),
            )),
            None => Ok(of(Form::File, Vec::new(), Vec::new())),
        }
    }

    /// What it is.
    pub(crate) fn form(&self) -> Form {
        self.form
    }

    /// Its files that may be logs, likeliest kind first: those named `hook.log`, other logs, event files, other texts.
    pub(crate) fn candidates(&self) -> Vec<Vec<usize>> {
        let mut kinds: Vec<Vec<usize>> = vec![Vec::new(); 4];
        for (place, file) in self.files.iter().enumerate() {
            if let Some(kind) = kind_of(file) {
                kinds[kind].push(place);
            }
        }
        for kind in &mut kinds {
            kind.sort_by_key(|&place| (self.files[place].components().count(), &self.files[place]));
        }
        kinds.retain(|kind| !kind.is_empty());
        kinds
    }

    /// The name of a file in it, by which a person finds it.
    pub(crate) fn name(&self, place: usize) -> String {
        self.files.get(place).map_or_else(String::new, |file| file.to_string_lossy().into_owned())
    }

    /// A file of it, and the event files that lie beside it.
    ///
    /// # Errors
    /// The archive is damaged, needs a password, or holds too much.
    pub(crate) fn log(&self, place: usize) -> Result<(Document, Vec<Document>), Problem> {
        let Some(file) = self.files.get(place) else {
            let beside = self.path.with_extension("jsonl");
            let beside = Some(beside).filter(|path| *path != self.path && path.is_file());
            let plain = |path| Document { path, content: None };
            return Ok((plain(self.path.clone()), beside.map(plain).into_iter().collect()));
        };
        let log = self.document(place)?;
        let names = [file.with_extension("jsonl"), file.with_file_name("hook.jsonl")];
        let mut beside = Vec::new();
        for (at, other) in self.files.iter().enumerate() {
            if at != place && names.contains(other) {
                // The log can do without.
                beside.extend(self.document(at));
            }
        }
        Ok((log, beside))
    }

    fn document(&self, place: usize) -> Result<Document, Problem> {
        let path = self.path.join(&self.files[place]);
        let content = match self.places.get(place) {
            Some(&index) => Some(member(&self.path, index)?),
            None => None,
        };
        Ok(Document { path, content })
    }
}

fn is_packed_tar(path: &Path) -> bool {
    let name = path.to_string_lossy().to_ascii_lowercase();
    [".tar.gz", ".tgz", ".tar.zst"].iter().any(|ending| name.ends_with(ending))
}

/// How likely a file is the log, by its name; `None` for what is certainly none.
fn kind_of(file: &Path) -> Option<usize> {
    let name = file.file_name()?.to_string_lossy().to_lowercase();
    let plain = name.strip_suffix(".gz").or(name.strip_suffix(".zst")).unwrap_or(&name);
    let ending = plain.rsplit_once('.').map_or("", |(_, ending)| ending);
    match ending {
        _ if plain == "hook.log" => Some(0),
        "log" => Some(1),
        "jsonl" => Some(2),
        "txt" | "out" | "err" | "stderr" | "" if !matches!(plain, "makefile" | "readme" | "license" | "readme.txt") => {
            Some(3)
        }
        _ => None,
    }
}

/// What packers and systems leave behind.
fn is_litter(path: &Path) -> bool {
    path.components().any(|part| {
        let name = part.as_os_str().to_string_lossy();
        name.starts_with('.') || name == "__MACOSX"
    })
}

fn in_folder(folder: &Path) -> Result<Vec<PathBuf>, Problem> {
    let (mut files, mut open) = (Vec::new(), vec![(PathBuf::new(), 0)]);
    while let Some((within, depth)) = open.pop() {
        let entries = match fs::read_dir(folder.join(&within)) {
            Ok(entries) => entries,
            Err(error) if depth == 0 => return Err(Problem::unreadable(&error)),
            Err(_) => continue,
        };
        for entry in entries.flatten() {
            let path = within.join(entry.file_name());
            // Of the entry itself: a link may lead to a folder above.
            let Ok(kind) = entry.file_type() else { continue };
            if is_litter(&path) {
            } else if kind.is_dir() && depth < DEPTH {
                open.push((path, depth + 1));
            } else if kind.is_file() || kind.is_symlink() && folder.join(&path).is_file() {
                files.push(path);
            }
        }
        if files.len() + open.len() > FILES {
            return Err(Problem::new(
                Kind::TooLarge,
                format!("more than {FILES} files"),
                format!("文件超过 {FILES} 个"),
            ));
        }
    }
    files.sort();
    Ok(files)
}

fn archive(path: &Path) -> Result<ZipArchive<File>, Problem> {
    let file = File::open(path).map_err(|error| Problem::unreadable(&error))?;
    ZipArchive::new(io::BufReader::new(file).into_inner()).map_err(|error| of_zip(&error))
}

/// The files of an archive, and the place of each in it.
fn in_archive(path: &Path) -> Result<(Vec<PathBuf>, Vec<usize>), Problem> {
    let archive = archive(path)?;
    let mut files: Vec<(PathBuf, usize)> = Vec::new();
    for index in 0..archive.len() {
        let entry = archive.by_index_data(index).map_err(|error| of_zip(&error))?;
        let name = PathBuf::from(decoded(entry.name_raw()).replace('\\', "/"));
        if !entry.is_dir() && !is_litter(&name) && files.len() < FILES {
            files.push((name, index));
        }
    }
    files.sort();
    Ok(files.into_iter().unzip())
}

/// A name in an archive: UTF-8, else GBK, as Chinese Windows packs it.
fn decoded(name: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(name) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => GBK
            .decode_without_bom_handling_and_without_replacement(name)
            .unwrap_or_else(|| String::from_utf8_lossy(name)),
    }
}

/// A file of an archive, unpacked.
fn member(path: &Path, index: usize) -> Result<Arc<[u8]>, Problem> {
    let mut archive = archive(path)?;
    let too_large = |size: String, size_zh: String| {
        let most = MEMBER >> 20;
        Problem::new(
            Kind::TooLarge,
            format!("its log unpacks to {size}, at most {most} MB are taken"),
            format!("其中的日志解压后为 {size_zh}, 至多接受 {most} MB"),
        )
    };
    let data = archive.by_index_data(index).map_err(|error| of_zip(&error))?;
    if data.encrypted() {
        return Err(encrypted());
    }
    let size = data.size();
    if size > MEMBER {
        let text = format!("{} MB ({size} bytes)", size >> 20);
        return Err(too_large(text.clone(), text.replace("bytes", "字节")));
    }
    let file = archive.by_index(index).map_err(|error| of_zip(&error))?;
    let mut content = Vec::new();
    // What an archive says of its sizes need not be so.
    match file.take(MEMBER + 1).read_to_end(&mut content) {
        Ok(_) if content.len() as u64 > MEMBER => {
            let most = MEMBER >> 20;
            Err(too_large(
                format!("more than {most} MB though it says {size} bytes"),
                format!("{most} MB 以上 (自称 {size} 字节)"),
            ))
        }
        Ok(_) => Ok(content.into()),
        Err(error) if error.kind() == ErrorKind::OutOfMemory => Err(Problem::unreadable(&error)),
        Err(error) => Err(damaged(&error.to_string())),
    }
}

fn encrypted() -> Problem {
    Problem::new(Kind::Encrypted, "the archive needs a password", "压缩包有密码")
}

fn damaged(why: &str) -> Problem {
    Problem::new(Kind::Damaged, format!("the archive is damaged: {why}"), format!("压缩包已损坏: {why}"))
}

fn of_zip(error: &ZipError) -> Problem {
    match error {
        ZipError::Io(source) if source.kind() == ErrorKind::UnexpectedEof => damaged("it is cut off"),
        ZipError::Io(source) if source.raw_os_error().is_some() => Problem::unreadable(source),
        ZipError::UnsupportedArchive(text) if text.to_lowercase().contains("password") => encrypted(),
        ZipError::InvalidPassword => encrypted(),
        ZipError::UnsupportedArchive(_) | ZipError::CompressionMethodNotSupported(_) => Problem::new(
            Kind::Unsupported,
            format!("a ZIP archive of a kind that is not known here ({error}); unpack it into a folder"),
            format!("不支持的 ZIP 压缩方式 ({error}); 请先解压为目录"),
        ),
        other => damaged(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_how_likely_a_file_is_the_log() {
        for (name, kind) in [
            ("a/hook.log", Some(0)),
            ("Hook.LOG.gz", Some(0)),
            ("run.log", Some(1)),
            ("hook.jsonl", Some(2)),
            ("日志.txt", Some(3)),
            ("hook_output", Some(3)),
            ("Makefile", None),
            ("README.txt", None),
            ("cuda_hook.c", None),
            ("report.md", None),
        ] {
            assert_eq!(kind_of(Path::new(name)), kind, "{name}");
        }
    }

    #[test]
    fn names_of_chinese_windows_are_decoded() {
        assert_eq!(decoded(b"\xd7\xf7\xd2\xb5/hook.log"), "作业/hook.log");
        assert_eq!(decoded("作业/hook.log".as_bytes()), "作业/hook.log");
    }
}
