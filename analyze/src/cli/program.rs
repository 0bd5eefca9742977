//! The program to start: where it lies, and whether the loader will take a preloaded library into it. Read from its
//! file; nothing is run.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use memchr::memmem;

use crate::error::Shown;
use crate::render::text::printable;

/// Scripts that name scripts: Linux follows four.
const SCRIPTS: usize = 4;
/// Bytes of a script's first line that Linux reads.
const FIRST_LINE: usize = 255;
/// A table of a program's file that is larger than this is damage.
const TABLE: u64 = 1 << 24;
/// Where a search for a text in a program ends, bytes.
const SEARCHED: u64 = 1 << 30;

/// Why a program can't be started under the hook; each says what to do.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unfit {
    #[error("there is no program `{0}` {1}")]
    Missing(String, &'static str),
    #[error("{} is a folder; name a program in it", Shown(.0))]
    Folder(PathBuf),
    #[error("{} is not executable; `chmod +x` it, or name its interpreter first (`python3 train.py`)", Shown(.0))]
    NotExecutable(PathBuf),
    #[error("cannot read {}: {}", Shown(.0), .1)]
    Read(PathBuf, io::Error),
    #[error(
        "{} is neither a program (ELF) nor a script that names its interpreter (`#!/bin/sh` on its first line); name \
         the interpreter first: `sh {}`",
        Shown(.0), printable(&.0.to_string_lossy())
    )]
    Neither(PathBuf),
    #[error("{} is damaged: {}; build it anew", Shown(.0), .1)]
    Damaged(PathBuf, &'static str),
    #[error("{} is made for another machine than the hook ({program} and {hook}); build both for one", Shown(.path))]
    OtherMachine { path: PathBuf, program: String, hook: String },
    #[error(
        "{} is linked statically, and no library can be preloaded into it; link it without `-static` (a static CUDA \
         runtime alone is no trouble)",
        Shown(.0)
    )]
    Static(PathBuf),
    #[error(
        "{} is {}, and no library is preloaded into such a program; run a copy of it (`cp` leaves the bit away), or as its \
         owner",
        Shown(.0), .1
    )]
    Privileged(PathBuf, &'static str),
}

/// A program that the hook can be loaded into.
#[derive(Debug, PartialEq)]
pub(super) struct Program {
    /// Its file.
    pub(super) path: PathBuf,
    /// Whether the CUDA runtime is linked into it, so that the hook sees what that asks of the driver.
    pub(super) static_runtime: bool,
}

/// The program that `name` starts, looked for as a shell does.
///
/// # Errors
/// There is none, or the hook, which is a library for `machine`, can't be loaded into it.
pub(super) fn find(name: &OsStr, machine: &Machine) -> Result<Program, Unfit> {
    let path = locate(name)?;
    let static_runtime = check(&path, machine, SCRIPTS)?;
    Ok(Program { path, static_runtime })
}

fn locate(name: &OsStr) -> Result<PathBuf, Unfit> {
    let shown = || printable(&name.to_string_lossy());
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return if path.exists() { Ok(path) } else { Err(Unfit::Missing(shown(), "there")) };
    }
    let folders = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&folders).map(|folder| folder.join(name));
    if let Some(path) = found.into_iter().find(|path| executable(path)) {
        return Ok(path);
    }
    let advice = if name.as_bytes().starts_with(b"-") {
        "on the PATH, and no such flag; `hook-analyze run --help` lists them"
    } else if Path::new(name).exists() {
        "on the PATH; the one in this folder is `./` and its name"
    } else {
        "on the PATH"
    };
    Err(Unfit::Missing(shown(), advice))
}

fn executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.mode() & 0o111 != 0)
}

/// Whether the runtime is linked into the program at `path`, which may be a script.
fn check(path: &Path, machine: &Machine, scripts: usize) -> Result<bool, Unfit> {
    let read = |error| Unfit::Read(path.to_owned(), error);
    let meta = fs::metadata(path).map_err(read)?;
    if meta.is_dir() {
        return Err(Unfit::Folder(path.to_owned()));
    }
    if !executable(path) {
        return Err(Unfit::NotExecutable(path.to_owned()));
    }
    let mut file = match File::open(path) {
        Ok(file) => file,
        // What may be run need not be readable; the loader will see.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(false),
        Err(error) => return Err(read(error)),
    };
    let mut start = Vec::new();
    (&mut file).take(FIRST_LINE as u64).read_to_end(&mut start).map_err(read)?;
    if let Some(line) = start.strip_prefix(b"#!") {
        let Some(next) = interpreter(line).filter(|_| scripts > 0) else { return Err(Unfit::Neither(path.to_owned())) };
        // What a script's interpreter has linked in says nothing of what the script loads.
        return check(&locate(&next)?, machine, scripts - 1).map(|_| false);
    }
    let elf = match Elf::read(&file) {
        Ok(elf) => elf,
        Err(Unreadable::NoElf) => return Err(Unfit::Neither(path.to_owned())),
        Err(Unreadable::Damaged(why)) => return Err(Unfit::Damaged(path.to_owned(), why)),
        Err(Unreadable::Io(error)) => return Err(read(error)),
    };
    if elf.machine != *machine {
        let (program, hook) = (elf.machine.name(), machine.name());
        return Err(Unfit::OtherMachine { path: path.to_owned(), program, hook });
    }
    if !elf.has_loader {
        return Err(Unfit::Static(path.to_owned()));
    }
    // The kernel makes a process "secure" when it is to run as somebody else.
    let me = fs::metadata("/proc/self").map_err(read)?;
    if meta.mode() & 0o4000 != 0 && meta.uid() != me.uid() {
        return Err(Unfit::Privileged(path.to_owned(), "setuid"));
    }
    if meta.mode() & 0o2000 != 0 && meta.gid() != me.gid() {
        return Err(Unfit::Privileged(path.to_owned(), "setgid"));
    }
    if elf.needed.iter().any(|name| name.starts_with(b"libcudart.so")) {
        return Ok(false);
    }
    // The runtime opens the driver by name, and has the names of its own errors or functions in it, stripped or not.
    let marks = [&b"libcuda.so.1\0"[..], b"cudaErrorMemoryAllocation", b"cudaMalloc"];
    let [driver, errors, functions] = contains(&mut file, marks).map_err(read)?;
    Ok(driver && (errors || functions))
}

/// The interpreter that a script's first line (without `#!`) names; the one that `env` would look for in its place.
fn interpreter(line: &[u8]) -> Option<std::ffi::OsString> {
    let line = line.split(|&byte| byte == b'\n').next()?;
    let mut words = line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let first = Path::new(OsStr::from_bytes(words.next()?));
    let next = words.next().filter(|word| !word.starts_with(b"-") && !word.contains(&b'='));
    let through_env = first.file_name() == Some(OsStr::new("env"));
    Some(
        next.filter(|_| through_env)
            .map_or_else(|| first.as_os_str().to_owned(), |word| OsStr::from_bytes(word).into()),
    )
}

/// Which of the texts are in the file.
fn contains<const N: usize>(file: &mut File, texts: [&[u8]; N]) -> io::Result<[bool; N]> {
    const PIECE: usize = 1 << 20;
    let overlap = texts.iter().map(|text| text.len()).max().unwrap_or_default();
    let mut found = [false; N];
    let mut piece = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    let mut rest = file.take(SEARCHED);
    while (&mut rest).take(PIECE as u64).read_to_end(&mut piece)? > 0 {
        for (found, text) in found.iter_mut().zip(texts) {
            *found = *found || memmem::find(&piece, text).is_some();
        }
        piece.drain(..piece.len().saturating_sub(overlap));
    }
    Ok(found)
}

/// What a program or a library is made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Machine {
    bits: u8,
    number: u16,
}

impl Machine {
    /// Of a library.
    ///
    /// # Errors
    /// It can't be read, or is none.
    pub(super) fn of_library(path: &Path) -> Result<Machine, Unfit> {
        let read = |error| Unfit::Read(path.to_owned(), error);
        let file = File::open(path).map_err(read)?;
        match Elf::read(&file) {
            Ok(elf) => Ok(elf.machine),
            Err(Unreadable::Io(error)) => Err(read(error)),
            Err(Unreadable::NoElf) => Err(Unfit::Damaged(path.to_owned(), "it is no shared library")),
            Err(Unreadable::Damaged(why)) => Err(Unfit::Damaged(path.to_owned(), why)),
        }
    }

    fn name(&self) -> String {
        let name = match self.number {
            3 => "x86",
            40 => "ARM",
            62 => "x86-64",
            183 => "AArch64",
            243 => "RISC-V",
            other => return format!("{} bits, machine {other}", self.bits),
        };
        format!("{name}, {} bits", self.bits)
    }
}

/// Why a file gives no [`Elf`].
enum Unreadable {
    NoElf,
    Damaged(&'static str),
    Io(io::Error),
}

impl From<io::Error> for Unreadable {
    fn from(error: io::Error) -> Unreadable {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Unreadable::Damaged("it ends before its tables do"),
            _ => Unreadable::Io(error),
        }
    }
}

/// What is asked of a program's file. The few fields that this takes are read by hand: a crate for all of ELF would be
/// larger than what uses it.
struct Elf {
    machine: Machine,
    /// Whether it names a loader; without one nothing can be preloaded.
    has_loader: bool,
    /// The libraries that it is linked to.
    needed: Vec<Vec<u8>>,
}

/// A segment: its type, place in the file, address and size.
struct Segment {
    kind: u64,
    offset: u64,
    address: u64,
    size: u64,
}

impl Elf {
    fn read(file: &File) -> Result<Elf, Unreadable> {
        const LOAD: u64 = 1;
        const DYNAMIC: u64 = 2;
        const INTERPRETER: u64 = 3;
        let mut start = [0; 20];
        match file.read_exact_at(&mut start, 0) {
            Ok(()) if start.starts_with(b"\x7fELF") => {}
            Ok(()) => return Err(Unreadable::NoElf),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(Unreadable::NoElf),
            Err(error) => return Err(error.into()),
        }
        let bits = match start[4] {
            1 => 32,
            2 => 64,
            _ => return Err(Unreadable::Damaged("its header names no word size")),
        };
        let machine = Machine { bits, number: u16::from_le_bytes([start[18], start[19]]) };
        // The hook is 64-bit and little-endian, as all machines with CUDA are; of others the machine is all that counts.
        if bits != 64 || start[5] != 1 {
            return Ok(Elf { machine, has_loader: true, needed: Vec::new() });
        }
        let table = number(file, 32, 8)?;
        let (entry, count) = (number(file, 54, 2)?, number(file, 56, 2)?);
        let mut segments = Vec::new();
        for index in 0..count {
            let at = table.checked_add(index * entry).ok_or(Unreadable::Damaged("its segments lie nowhere"))?;
            segments.push(Segment {
                kind: number(file, at, 4)?,
                offset: number(file, at.saturating_add(8), 8)?,
                address: number(file, at.saturating_add(16), 8)?,
                size: number(file, at.saturating_add(32), 8)?,
            });
        }
        let has_loader = segments.iter().any(|segment| segment.kind == INTERPRETER);
        let mut needed = Vec::new();
        if let Some(dynamic) = segments.iter().find(|segment| segment.kind == DYNAMIC) {
            let entries = bytes(file, dynamic.offset, dynamic.size)?;
            let entries: Vec<(u64, u64)> = entries
                .chunks_exact(16)
                .map(|entry| (little_endian(&entry[..8]), little_endian(&entry[8..])))
                .take_while(|&(tag, _)| tag != 0)
                .collect();
            let value = |wanted: u64| entries.iter().find(|(tag, _)| *tag == wanted).map(|(_, value)| *value);
            const NEEDED: u64 = 1;
            const STRINGS: u64 = 5;
            const STRINGS_SIZE: u64 = 10;
            if let (Some(address), Some(size)) = (value(STRINGS), value(STRINGS_SIZE)) {
                let within =
                    |s: &&Segment| s.kind == LOAD && address.checked_sub(s.address).is_some_and(|d| d < s.size);
                let segment = segments.iter().find(within).ok_or(Unreadable::Damaged("its strings lie nowhere"))?;
                let strings = bytes(file, segment.offset.saturating_add(address - segment.address), size)?;
                for (_, at) in entries.iter().filter(|(tag, _)| *tag == NEEDED) {
                    let name = strings.get(usize::try_from(*at).unwrap_or(usize::MAX)..).unwrap_or_default();
                    needed.push(name.split(|&byte| byte == 0).next().unwrap_or_default().to_vec());
                }
            }
        }
        Ok(Elf { machine, has_loader, needed })
    }
}

fn bytes(file: &File, at: u64, size: u64) -> Result<Vec<u8>, Unreadable> {
    if size > TABLE {
        return Err(Unreadable::Damaged("one of its tables has no sensible size"));
    }
    let mut bytes = vec![0; size as usize];
    file.read_exact_at(&mut bytes, at)?;
    Ok(bytes)
}

fn number(file: &File, at: u64, size: u64) -> Result<u64, Unreadable> {
    Ok(little_endian(&bytes(file, at, size)?))
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_names_its_interpreter() {
        let of = |line: &str| interpreter(line.as_bytes()).map(|name| name.into_string().unwrap());
        assert_eq!(of("/bin/sh -e\nls").as_deref(), Some("/bin/sh"));
        assert_eq!(of(" /usr/bin/env python3\n").as_deref(), Some("python3"));
        assert_eq!(of("/usr/bin/env -S python3 -u").as_deref(), Some("/usr/bin/env"));
        assert_eq!(of("\n"), None);
    }

    #[test]
    fn a_damaged_program_is_named_and_never_a_panic() {
        let folder = tempfile::tempdir().unwrap();
        let this = fs::read(env::current_exe().unwrap()).unwrap();
        let machine = Machine::of_library(&env::current_exe().unwrap()).unwrap();
        let path = folder.path().join("program");
        let damaged = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            check_executable(&path, &machine)
        };
        for length in [0, 3, 19] {
            assert!(matches!(damaged(&this[..length]), Err(Unfit::Neither(_))), "{length}");
        }
        assert!(matches!(damaged(&this[..200]), Err(Unfit::Damaged(..))));
        for at in 4..64 {
            let mut bytes = this[..4096].to_vec();
            bytes[at] ^= 0xff;
            let _ = damaged(&bytes);
        }
    }

    fn check_executable(path: &Path, machine: &Machine) -> Result<bool, Unfit> {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        check(path, machine, SCRIPTS)
    }

    #[test]
    fn a_text_is_found_across_two_pieces() {
        let mut file = tempfile::tempfile().unwrap();
        let mut bytes = vec![b'.'; (1 << 20) - 3];
        bytes.extend(b"needle");
        io::Write::write_all(&mut file, &bytes).unwrap();
        assert_eq!(contains(&mut file, [b"needle", b"thread"]).unwrap(), [true, false]);
    }
}
