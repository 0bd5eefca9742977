//! `--batch`: a row for each submission, whatever is in it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Cursor, Write};
use std::os::unix::fs::symlink;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::common::{data, lab, run, text};

fn zipped(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

/// An archive whose folder `AAAA` is named 作业 in GBK, as Chinese Windows packs it.
fn gbk(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = zipped(files);
    let (new, ..) = encoding_rs::GBK.encode("作业");
    replace(&mut archive, b"AAAA", &new);
    archive
}

fn replace(bytes: &mut [u8], old: &[u8], new: &[u8]) -> usize {
    assert_eq!(old.len(), new.len());
    let mut count = 0;
    for at in 0..=bytes.len() - old.len() {
        if &bytes[at..at + old.len()] == old {
            bytes[at..at + new.len()].copy_from_slice(new);
            count += 1;
        }
    }
    count
}

/// Sets the flag of a password in every header of an archive.
fn locked(mut archive: Vec<u8>) -> Vec<u8> {
    for (signature, flags) in [(b"PK\x03\x04", 6), (b"PK\x01\x02", 8)] {
        for at in 0..archive.len() - 4 {
            if &archive[at..at + 4] == signature {
                archive[at + flags] |= 1;
            }
        }
    }
    archive
}

/// The lab's log as another process would leave it.
fn another(number: usize) -> String {
    let base = 0x7f00_0000_0000u64 + (number as u64) * 0x4_0000_0000;
    let (first, second) = (format!("{base:#x}"), format!("{:#x}", base + 0x2280_0000));
    lab().replace("0x7f2cc6000000", &first).replace("0x7f2ce8800000", &second)
}

/// A small generator of numbers, the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// A run of another program: many launches with chance pauses, so with chance decimals.
fn run_of(seed: u64, address: u64) -> String {
    let mut dice = Dice(seed);
    let mut log = format!(
        "[HOOK] 显存配额: 128 MB (134217728 bytes)\n[HOOK] 算力限速: 5 tokens/s, burst 3\n\
         [HOOK] cudaMalloc(4194304) -> {address:#x} | total: 4.0 MB\n"
    );
    let mut tenths = 30;
    for _ in 0..40 {
        tenths = (tenths + dice.below(12)).min(30);
        let passed = tenths >= 10;
        tenths -= if passed { 10 } else { 0 };
        let how = if passed { "-> 0" } else { "DENIED" };
        let line = format!(
            "[HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) {how} | tokens={}.{}\n",
            tenths / 10,
            tenths % 10
        );
        log += &line;
    }
    log + &format!("[HOOK] cudaFree({address:#x}) -> 0 | freed: 4194304 bytes | total: 0.0 MB\n")
}

/// The rows of a CSV: quoted fields may hold commas, quotes and line feeds.
fn parsed(csv: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut chars = csv.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, quoted) {
            ('"', true) if chars.peek() == Some(&'"') => cell.push(chars.next().unwrap()),
            ('"', _) => quoted = !quoted,
            (',', false) => row.push(std::mem::take(&mut cell)),
            ('\n', false) => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            _ => cell.push(c),
        }
    }
    assert!(!quoted && cell.is_empty() && row.is_empty());
    rows
}

/// The table of a folder: by submission, by column.
fn table(folder: &Path, jobs: &str) -> (String, BTreeMap<String, BTreeMap<String, String>>) {
    let out = tempfile::tempdir().unwrap();
    let csv = out.path().join("grades.csv");
    let arguments =
        ["--batch", folder.to_str().unwrap(), "--csv", csv.to_str().unwrap(), "--lang", "en", "--jobs", jobs];
    let output = run(out.path(), &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let csv = fs::read_to_string(csv).unwrap();
    let mut rows = parsed(&csv).into_iter();
    let head = rows.next().unwrap();
    let by_name = rows.map(|row| {
        assert_eq!(row.len(), head.len(), "{row:?}");
        (row[0].clone(), head.iter().cloned().zip(row).collect())
    });
    let by_name: BTreeMap<String, BTreeMap<String, String>> = by_name.collect();
    (csv, by_name)
}

fn write(folder: &Path, name: &str, bytes: impl AsRef<[u8]>) {
    fs::write(folder.join(name), bytes).unwrap();
}

/// Twelve that can't be taken as they are, each in another way, and what becomes of them.
fn broken(folder: &Path) -> Vec<(&'static str, &'static str)> {
    let log = lab();
    let whole = gzipped(log.repeat(50).as_bytes());
    write(folder, "b01.log.gz", &whole[..whole.len() / 2]);
    let archive = zipped(&[("hook.log", log.as_bytes())]);
    write(folder, "b02.zip", &archive[..archive.len() - 30]);
    let bomb = zipped(&[("hook.log", &vec![b'x'; (256 << 20) + 5])]);
    write(folder, "b03.zip", &bomb);
    // One that says that it is small.
    let mut liar = bomb;
    let size = ((256u32 << 20) + 5).to_le_bytes();
    assert!(replace(&mut liar, &size, &100u32.to_le_bytes()) >= 2);
    write(folder, "b04.zip", liar);
    let mut long = File::create(folder.join("b05.log")).unwrap();
    for _ in 0..200 {
        long.write_all(&[b'x'; 1 << 20]).unwrap();
    }
    write(folder, "b06.log", "");
    symlink("..", folder.join("b07")).unwrap();
    write(folder, "b08.zip", locked(archive.clone()));
    write(folder, "b09.rar", b"Rar!\x1a\x07\x01\x00 and more");
    symlink("nowhere", folder.join("b10.log")).unwrap();
    write(folder, "b11.zip", zipped(&[("src/cuda_hook.c", b"int main;"), ("report.md", log.as_bytes())]));
    let mut flipped = zipped(&[("hook.log", log.as_bytes())]);
    let middle = flipped.len() / 3;
    flipped[middle] ^= 0xff;
    write(folder, "b12.zip", flipped);
    vec![
        ("b01.log.gz", "damaged"),
        ("b02.zip", "damaged"),
        ("b03.zip", "too-large"),
        ("b04.zip", "damaged"),
        ("b05.log", "no-events"),
        ("b06.log", "no-events"),
        ("b07", "unreadable"),
        ("b08.zip", "encrypted"),
        ("b09.rar", "unsupported"),
        ("b10.log", "unreadable"),
        ("b11.zip", "no-log-in-archive"),
        ("b12.zip", "damaged"),
    ]
}

#[test]
fn two_hundred_submissions_are_two_hundred_rows() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let expected = broken(folder);
    for number in 0..200 - expected.len() {
        let log = another(number);
        let bytes = log.as_bytes();
        match number % 6 {
            0 => write(folder, &format!("{number:03}.log"), bytes),
            1 => write(folder, &format!("{number:03}.log.gz"), gzipped(bytes)),
            2 => write(
                folder,
                &format!("2024{number:03}张三.zip"),
                zipped(&[("作业/README.md", b"x"), ("作业/hook.log", bytes)]),
            ),
            3 => write(folder, &format!("{number:03}.zip"), gbk(&[("AAAA/hook.log", bytes)])),
            4 => {
                let inner = folder.join(format!("{number:03}-李四"));
                fs::create_dir_all(inner.join("experiments")).unwrap();
                write(&inner.join("experiments"), "hook.log", bytes);
                symlink("..", inner.join("loop")).unwrap();
            }
            _ => write(folder, &format!("{number:03}.log.zst"), zstd::encode_all(bytes, 1).unwrap()),
        }
    }
    let (csv, rows) = table(folder, "1");
    assert_eq!(rows.len(), 200);
    for (name, status) in &expected {
        assert_eq!(&rows[*name]["status"], status, "{name}: {}", rows[*name]["note"]);
        assert_ne!(rows[*name]["note"], "", "{name}");
    }
    let ok: Vec<_> = rows.iter().filter(|(name, _)| expected.iter().all(|(broken, _)| broken != name)).collect();
    assert_eq!(ok.len(), 200 - expected.len());
    for (name, row) in ok {
        assert_eq!(
            (row["status"].as_str(), row["calls"].as_str(), row["lines"].as_str()),
            ("ok", "25", "27"),
            "{name}"
        );
        let counts =
            ["cudaMalloc_calls", "cudaMalloc_denied", "cudaLaunchKernel_denied", "cudaFree_calls", "launches_passed"];
        assert_eq!(counts.map(|column| row[column].as_str()), ["4", "1", "12", "3", "6"], "{name}");
        let figures = [
            "quota_bytes",
            "rate",
            "capacity",
            "peak_bytes",
            "live_bytes",
            "checks_failed",
            "burst",
            "free-removes-entry",
        ];
        let values = ["134217728", "5", "3", "67108864", "0", "", "shown", "not-evidenced"];
        assert_eq!(figures.map(|column| row[column].as_str()), values, "{name}");
        // Every honest run of the test program is like the others but for addresses.
        assert_eq!(row["similarity"], "weak", "{name}");
    }
    assert!(rows["b03.zip"]["note"].contains("268435461 bytes"), "{}", rows["b03.zip"]["note"]);
    // What could be unpacked counts.
    assert_ne!(rows["b01.log.gz"]["calls"], "0");
    assert_eq!(rows["003.zip"]["file"], "003.zip/作业/hook.log");
    for jobs in ["2", "8"] {
        assert_eq!(table(folder, jobs).0, csv, "with {jobs} jobs");
    }
}

#[test]
fn odd_names_are_cells_and_no_formulas() {
    let folder = tempfile::tempdir().unwrap();
    let names = ["张三,\"2班\".log", "two\nlines.log", "=cmd|'x'!A0.log", "-1.log"];
    for (number, name) in names.iter().enumerate() {
        write(folder.path(), name, another(number));
    }
    let (csv, rows) = table(folder.path(), "1");
    assert_eq!(rows.len(), names.len());
    assert_eq!(rows["张三,\"2班\".log"]["status"], "ok");
    assert_eq!(rows["two\u{fffd}lines.log"]["status"], "ok");
    assert!(csv.contains("\n'=cmd|'x'!A0.log,ok,") && csv.contains("\n'-1.log,ok,"), "{csv}");
}

#[test]
fn the_log_of_a_submission_is_found_and_its_events_are_taken_in() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (log, events) = (fs::read(data("sim_lab.log")).unwrap(), fs::read(data("sim_lab.jsonl")).unwrap());
    let lab = lab();
    write(folder, "both.zip", zipped(&[("a/hook.log", &log), ("a/hook.jsonl", &events)]));
    write(folder, "flat.log", &log);
    write(folder, "flat.jsonl", &events);
    write(folder, "events.jsonl", &events);
    write(folder, "several.zip", zipped(&[("x/hook.log", &log), ("y/hook.log", lab.as_bytes())]));
    write(folder, "copies.zip", zipped(&[("hook.log", &log), ("out/hook.log", &log)]));
    let build =
        zipped(&[("build.log", b"gcc -shared\n"), ("run.log", &log), ("__MACOSX/._run.log", b"junk"), ("b.txt", b"")]);
    write(folder, "build.zip", build);
    write(folder, "banner.log", lab.lines().take(2).map(|line| format!("{line}\n")).collect::<String>());
    fs::create_dir(folder.join("empty")).unwrap();
    write(folder, ".DS_Store", b"\0\0");
    let (_, rows) = table(folder, "2");
    let status: Vec<(&str, &str)> = rows.iter().map(|(name, row)| (name.as_str(), row["status"].as_str())).collect();
    let expected = [
        ("banner.log", "no-events"),
        ("both.zip", "ok"),
        ("build.zip", "ok"),
        ("copies.zip", "ok"),
        ("empty", "no-log"),
        ("events.jsonl", "ok"),
        ("flat.log", "ok"),
        ("several.zip", "several-logs"),
    ];
    assert_eq!(status, expected);
    // The records tell what a refusal returned; lines do not.
    let returns = |name: &str| rows[name]["refusal-returns-2"].as_str();
    assert_eq!(["both.zip", "flat.log", "build.zip"].map(returns), ["shown", "shown", "not-evidenced"]);
    assert_eq!(rows["build.zip"]["file"], "build.zip/run.log");
    assert!(rows["several.zip"]["note"].contains("y/hook.log"));
    assert!(rows["banner.log"]["note"].contains("make test"));
}

#[test]
fn likeness_is_named_by_kind_and_strength() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (one, two) = (0x7f2c_c600_0000u64, 0x7f90_8800_0000);
    write(folder, "copy.log.gz", gzipped(run_of(1, one).replace('\n', "\r\n").as_bytes()));
    write(folder, "original.log", run_of(1, one));
    write(folder, "masked.log", run_of(1, two));
    write(folder, "own.log", run_of(2, 0x7f55_0000_0000));
    write(folder, "edited.log", run_of(1, one).replacen("tokens=0.", "tokens=1.", 1));
    // Below the range that is randomised every run gets the same.
    write(folder, "wsl-a.log", run_of(3, 0x5_0400_0000));
    write(folder, "wsl-b.log", run_of(4, 0x5_0400_0000));
    write(folder, "lab-a.log", another(1));
    write(folder, "lab-b.log", another(2));
    let (_, rows) = table(folder, "1");
    let of = |name: &str| (rows[name]["similar_to"].as_str(), rows[name]["similarity"].as_str());
    let original = "identical: copy.log.gz; same-addresses: edited.log; same-but-addresses: masked.log";
    assert_eq!(of("original.log"), (original, "strong"));
    assert_eq!(of("masked.log"), ("same-but-addresses: copy.log.gz, original.log", "strong"));
    assert_eq!(of("edited.log"), ("same-addresses: copy.log.gz, original.log", "strong"));
    assert_eq!(of("own.log"), ("", ""));
    // Nine logs are 36 pairs: the same addresses are to be expected in one of a thousand such folders.
    assert_eq!(of("wsl-a.log"), ("same-addresses: wsl-b.log", "weak"));
    assert_eq!(of("lab-a.log"), ("same-but-addresses: lab-b.log", "weak"));
}

#[test]
fn a_table_is_printed_and_a_folder_that_is_none_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a.log", lab());
    write(folder.path(), "b.log", "");
    let zh = text(&run(folder.path(), &["--batch", "."]).stdout);
    assert!(
        zh.contains("a.log") && zh.contains("2 份提交: no-events 1, ok 1") && zh.contains("b.log: 文件是空的"),
        "{zh}"
    );
    let en = text(&run(folder.path(), &["--batch", ".", "--lang", "en"]).stdout);
    assert!(en.contains("2 submissions: no-events 1, ok 1"), "{en}");
    let json = run(folder.path(), &["--batch", ".", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((json[0]["figures"]["calls"].as_u64(), json[1]["status"].as_str()), (Some(25), Some("no-events")));
    // The table of the last time is no submission.
    for _ in 0..2 {
        assert_eq!(run(folder.path(), &["--batch", ".", "--csv", "grades.csv"]).status.code(), Some(0));
    }
    let csv = fs::read_to_string(folder.path().join("grades.csv")).unwrap();
    assert_eq!(parsed(&csv).len(), 3);
    fs::create_dir(folder.path().join("empty")).unwrap();
    for arguments in [
        &["--batch", "nowhere"][..],
        &["--batch", "empty"],
        &["--batch", "a.log"],
        &["--batch", ".", "a.log"],
        &["--jobs", "2"],
    ] {
        let output = run(folder.path(), arguments);
        assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(2), true), "{arguments:?}");
    }
}
