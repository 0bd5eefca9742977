//! `make fuzz-analyze`: damages the logs of `tests/data` at random and reads them in every way, until the time is up.
//!
//! A plain loop, for it runs on the stable compiler with what is built already; `make fuzz-guided`, where coverage leads,
//! needs a nightly one and all of polars built once more. What fails is kept in `tests/data/crashes/readers`, where
//! an ordinary test replays it.

// A failed comparison is a panic, as in a test.
#![allow(clippy::unwrap_used)]

#[path = "../tests/it/every_way.rs"]
mod every_way;

use std::panic::catch_unwind;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use every_way::{Random, read_every_way};

fn main() -> ExitCode {
    let seconds = std::env::var("SECONDS_TO_RUN").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    let seed = std::env::var("SEED").ok().and_then(|text| text.parse().ok());
    let seed =
        seed.unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |now| now.as_nanos() as u64));
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut files: Vec<_> = std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "log" || ending == "jsonl"));
    files.sort();
    let logs: Vec<Vec<u8>> = files.iter().map(|path| std::fs::read(path).unwrap()).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.log");
    let (mut random, begin, mut rounds) = (Random(seed | 1), Instant::now(), 0u64);
    println!("seed {seed}, {seconds} s");
    while begin.elapsed() < Duration::from_secs(seconds) {
        let mut bytes = logs[random.below(logs.len())].clone();
        let from = random.below(bytes.len());
        bytes.truncate((from + 200 + random.below(6000)).min(bytes.len()));
        bytes.drain(..from);
        if random.below(3) == 0 {
            let other = &logs[random.below(logs.len())];
            let from = random.below(other.len());
            bytes.extend_from_slice(&other[from..(from + 3000).min(other.len())]);
        }
        random.damage(&mut bytes);
        std::fs::write(&path, &bytes).unwrap();
        if catch_unwind(|| read_every_way(&path, "fuzz")).is_err() {
            let crashes = data.join("crashes/readers");
            std::fs::create_dir_all(&crashes).unwrap();
            let kept = crashes.join(format!("{seed}-{rounds}.log"));
            std::fs::write(&kept, &bytes).unwrap();
            println!("kept as {}", kept.display());
            return ExitCode::FAILURE;
        }
        rounds += 1;
    }
    println!("{rounds} logs, nothing found");
    ExitCode::SUCCESS
}
