//! Files without a name, in memory, that go away with the process: inputs are read by their paths.

use std::cell::RefCell;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The path of file `number` of this thread, which holds `bytes` until the next call with that number.
pub(crate) fn file(number: usize, bytes: &[u8]) -> PathBuf {
    thread_local! { static FILES: RefCell<Vec<File>> = const { RefCell::new(Vec::new()) } }
    FILES.with_borrow_mut(|files| {
        while files.len() <= number {
            files.push(make());
        }
        fill(&files[number], bytes)
    })
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
