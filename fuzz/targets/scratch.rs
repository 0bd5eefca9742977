//! Files without a name, in memory, that go away with the process: inputs are read by their paths.

use std::cell::OnceCell;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The path of a file that holds `bytes`, until the next call.
pub fn file(bytes: &[u8]) -> PathBuf {
    thread_local! { static FILE: OnceCell<File> = const { OnceCell::new() } }
    FILE.with(|file| fill(file.get_or_init(make), bytes))
}

/// A second one.
#[allow(dead_code)] // not every target needs it
pub fn other(bytes: &[u8]) -> PathBuf {
    thread_local! { static FILE: OnceCell<File> = const { OnceCell::new() } }
    FILE.with(|file| fill(file.get_or_init(make), bytes))
}

fn make() -> File {
    let memory = Path::new("/dev/shm");
    let file = if memory.is_dir() { tempfile::tempfile_in(memory) } else { tempfile::tempfile() };
    file.expect("a temporary file")
}

fn fill(file: &File, bytes: &[u8]) -> PathBuf {
    file.set_len(0).expect("an empty file");
    file.write_all_at(bytes, 0).expect("room for it");
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}
