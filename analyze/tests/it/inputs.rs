//! Whatever a log went through on its way here: archives, encodings, folders, pipes, damage.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flate2::Compression;
use flate2::write::GzEncoder;
use hook_analyze::analysis::summary::Summary;
use hook_analyze::events::Events;
use hook_analyze::parse::{self, Pace};

use crate::common::{data, folder, lab, load, of_text, run, text};
use crate::every_way::assert_same_events;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    // As the command does; without it a changed letter would go unseen.
    encoder.include_checksum(true).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A long log: the lab's, again and again, between other programs' lines.
fn long(times: usize) -> String {
    (0..times).map(|i| format!("step {i}\n{}", lab())).collect()
}

/// The figures are the plain log's, whatever the accounts of lines.
fn assert_same_figures(summary: &Summary, plain: &Summary, what: &str) {
    assert_eq!(summary.apis, plain.apis, "{what}");
    assert_eq!(summary.memory, plain.memory, "{what}");
    assert_eq!(summary.tokens, plain.tokens, "{what}");
    assert_eq!(summary.dims, plain.dims, "{what}");
}

#[test]
fn archives_are_told_by_their_content_and_may_have_several_members() {
    let plain = of_text(long(20)).1.summary;
    let (first, second) = (long(10), (10..20).map(|i| format!("step {i}\n{}", lab())).collect::<String>());
    let members = |pack: fn(&[u8]) -> Vec<u8>| [pack(first.as_bytes()), pack(second.as_bytes())].concat();
    for (name, bytes) in [
        ("a.log", gzip(long(20).as_bytes())),
        ("a.log.zst", gzip(long(20).as_bytes())),
        ("a.log", zstd(long(20).as_bytes())),
        ("a.log.gz", long(20).into_bytes()),
        ("a.gz", members(gzip)),
        ("a.zst", members(zstd)),
    ] {
        let folder = folder(&[(name, &bytes)]);
        let summary = load(&folder.path().join(name)).1.summary;
        assert_same_figures(&summary, &plain, name);
        assert_eq!((summary.inputs[0].lines, summary.inputs[0].other_lines), (20 * 28, 20));
        assert!(summary.notes.is_empty(), "{:?}", summary.notes);
    }
}

#[test]
fn of_a_damaged_archive_what_can_be_read_is_and_it_is_said() {
    // Lines that don't repeat, so that half of the archive is about half of the log.
    let log: String = (0..20_000u64)
        .map(|i| format!("[HOOK] cudaMalloc({}) DENIED | total: 0.0 / 1.0 MB\n", i.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
        .collect();
    for (packed, word) in [(gzip(log.as_bytes()), "gzip"), (zstd(log.as_bytes()), "zstd")] {
        let mut flipped = packed.clone();
        let middle = flipped.len() / 2;
        flipped[middle..middle + 64].fill(0xff);
        for (bytes, what) in [(&packed[..middle], "cut off"), (&flipped, "damaged")] {
            let folder = folder(&[("a.log.gz", bytes)]);
            let (events, analysis) = load(&folder.path().join("a.log.gz"));
            let read = events.calls.len();
            // zstd gives out a block at a time.
            assert!(read < 20_000 && (read > 1000 || word == "zstd"), "{word} {what}: {read}");
            let note = &analysis.summary.notes[0].en;
            assert!(note.contains(word) && note.contains("a.log.gz"), "{note}");
            assert!(note.contains(what) || what == "damaged", "{note}");
        }
    }
    let folder = folder(&[("a.log", &[&gzip(lab().as_bytes())[..], b"something else"].concat())]);
    let (events, analysis) = load(&folder.path().join("a.log"));
    assert_eq!(events.calls.len(), 25);
    assert!(analysis.summary.notes[0].en.contains("damaged"), "{:?}", analysis.summary.notes);
}

#[test]
fn what_cannot_be_unpacked_is_named_with_what_to_do() {
    for (bytes, word) in [(&b"\xfd7zXZ\0"[..], "xz -dc"), (b"BZh9", "bzip2 -dc"), (b"PK\x03\x04", "unzip -p")] {
        let folder = folder(&[("a.log", bytes)]);
        let error = parse::read(&[folder.path().join("a.log")], None).unwrap_err().to_string();
        assert!(error.contains(word) && error.contains("a.log"), "{error}");
    }
}

#[test]
fn encodings_line_ends_and_zeros_do_not_matter() {
    let plain = of_text(lab()).1.summary;
    let utf16 = |to_bytes: fn(u16) -> [u8; 2]| {
        std::iter::once(0xfeff).chain(lab().encode_utf16()).flat_map(to_bytes).collect::<Vec<u8>>()
    };
    let course = lab();
    let (gbk, _, unmapped) = encoding_rs::GBK.encode(&course);
    assert!(!unmapped);
    let zeros = [&[0; 3000][..], lab().as_bytes()].concat();
    let spread = lab().replace('\n', "\0\n").into_bytes();
    for (bytes, what) in [
        (utf16(u16::to_le_bytes), "UTF-16 LE"),
        (utf16(u16::to_be_bytes), "UTF-16 BE"),
        (gbk.into_owned(), "GBK"),
        (lab().replace('\n', "\r").into_bytes(), "carriage returns alone"),
        (lab().replace('\n', "\r\r\n").into_bytes(), "carriage returns twice"),
        (gzip(&utf16(u16::to_le_bytes)), "UTF-16 in gzip"),
        (zeros, "zeros before the first line"),
        (spread, "zeros after each line"),
    ] {
        let summary = of_text(&bytes).1.summary;
        assert_same_figures(&summary, &plain, what);
        assert_eq!((summary.inputs[0].lines, summary.inputs[0].events), (27, 27), "{what}");
        assert_eq!(summary.config.quota_bytes, Some(128 << 20), "{what}");
    }
    // A progress bar's lines and a record share a line.
    let bar = lab().lines().map(|line| format!("10 %\r20 %\r{line}\n")).collect::<String>();
    let summary = of_text(bar).1.summary;
    assert_same_figures(&summary, &plain, "progress bar");
    assert_eq!((summary.inputs[0].lines, summary.inputs[0].events), (27, 27));
}

#[test]
fn zeros_within_a_file_hide_no_line_however_many_they_are() {
    const LIMIT: usize = 1 << 20;
    for zeros in [LIMIT - 60, LIMIT - 20, LIMIT, LIMIT + 1, LIMIT + 100_000, LIMIT + 262_144, 3 * LIMIT] {
        let log = [lab().as_bytes(), &vec![0; zeros], lab().as_bytes()].concat();
        let (events, analysis) = of_text(log);
        let input = &analysis.summary.inputs[0];
        assert_eq!((input.lines, input.events, input.oversized_lines), (54, 54, 0), "{zeros}");
        assert_eq!(events.processes.len(), 2, "{zeros}");
    }
}

#[test]
fn a_huge_line_is_a_class_of_its_own_and_the_next_one_counts() {
    let huge = "x".repeat(5 << 20);
    let text = format!("{}{huge}[HOOK] cudaFree(0x7f00) -> 0\n{}", lab(), lab());
    let summary = of_text(text).1.summary;
    let input = &summary.inputs[0];
    assert_eq!((input.lines, input.events, input.oversized_lines, input.other_lines), (55, 54, 1, 0));
    assert_eq!(summary.apis[0].calls, 36);
    // Without an end, and just as long as is still looked into.
    let input = &of_text(format!("{}{huge}", lab())).1.summary.inputs[0].clone();
    assert_eq!((input.lines, input.oversized_lines, input.cut_lines), (28, 1, 0));
    for (extra, oversized) in [(0, 0), (1, 1)] {
        let line = "x".repeat(hook_analyze::input::pieces::LIMIT + extra);
        let input = &of_text(format!("{}{line}\n{}", lab(), lab())).1.summary.inputs[0].clone();
        assert_eq!((input.oversized_lines, input.other_lines, input.events), (oversized, 1 - oversized, 54));
    }
    // Zeros of a sparse file are no line of their own.
    let sparse = [&vec![0; 5 << 20][..], lab().as_bytes()].concat();
    assert_eq!(of_text(sparse).1.summary.inputs[0].events, 27);
}

#[test]
fn a_tail_cut_in_the_middle_is_no_damage() {
    let plain = of_text(lab()).1.summary;
    for tail in ["[HOOK] cudaMalloc(671", "[HOO", "{\"ev\":\"call\",\"seq\":1"] {
        let summary = of_text(format!("{}{tail}", lab())).1.summary;
        assert_same_figures(&summary, &plain, tail);
        let input = &summary.inputs[0];
        assert_eq!((input.lines, input.events, input.cut_lines, input.bad_lines), (28, 27, 1, 0), "{tail}");
    }
}

#[test]
fn times_before_lines_are_the_calls_wall_times() {
    let stamped = lab().lines().map(|line| format!("gpu-job_1  | 2026-07-01T12:00:00.5Z {line}\n")).collect::<String>();
    let (events, _) = of_text(stamped);
    assert!(events.calls.wall_ns.iter().all(|&ns| ns == Some(1_782_907_200_500_000_000)));
    let prefixed = std::fs::read_to_string(data("sim_lab.jsonl")).unwrap();
    let prefixed = prefixed.lines().map(|line| format!("[1,0]<stderr>:{line}\n")).collect::<String>();
    assert_eq!(of_text(prefixed).0.calls.len(), 25);
}

#[test]
fn folders_and_patterns_stand_for_the_logs_in_them() {
    let sidecar = std::fs::read(data("sim_lab.jsonl")).unwrap();
    let log = std::fs::read(data("sim_lab.log")).unwrap();
    let folder =
        folder(&[("b.log", lab().as_bytes()), ("a.log", &log), ("a.jsonl", &sidecar), ("notes.txt", b"[HOOK]")]);
    let names = |events: &Events| {
        let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
        events.sources.iter().map(|source| name(&source.path)).collect::<Vec<_>>()
    };
    let events = parse::read(&[folder.path().to_owned()], None).unwrap();
    assert_eq!((names(&events), events.calls.len()), (vec!["a.jsonl".into(), "a.log".into(), "b.log".into()], 50));
    let events = parse::read(&[folder.path().join("?.log")], None).unwrap();
    assert_eq!(names(&events)[..2], ["a.log", "b.log"]);
    // A file whose name is a pattern is that file.
    std::fs::write(folder.path().join("[ab].log"), lab()).unwrap();
    let events = parse::read(&[folder.path().join("[ab].log")], None).unwrap();
    assert_eq!(names(&events), ["[ab].log"]);
    let none = parse::read(&[folder.path().join("x*.log")], None).unwrap_err();
    assert!(none.to_string().contains("x*.log"), "{none}");
    let empty = tempfile::tempdir().unwrap();
    let none = parse::read(&[empty.path().to_owned()], None).unwrap_err().to_string();
    assert!(none.contains("a folder without any *.log"), "{none}");
}

#[test]
fn packed_logs_in_a_folder_count_unless_they_are_copies() {
    let packed = gzip(lab().as_bytes());
    let folder = folder(&[
        ("a.log", lab().as_bytes()),
        ("a.log.gz", &packed),
        ("b.log.gz", &packed),
        ("c.jsonl.zst", &zstd(&std::fs::read(data("sim_lab.jsonl")).unwrap())),
        ("data.gz", &packed),
    ]);
    let output = run(folder.path(), &[".", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let paths: Vec<&str> =
        json["inputs"].as_array().unwrap().iter().map(|input| input["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["./a.log", "./b.log.gz", "./c.jsonl.zst"]);
}

#[test]
fn a_damaged_archive_without_calls_is_named_and_not_taken_for_an_empty_log() {
    let packed = gzip(lab().as_bytes());
    let folder = folder(&[("学号.log", &packed[..12]), ("b.log", b"x\n")]);
    for (arguments, said) in [
        (&["学号.log", "--lang", "en"][..], ["no intercepted call in `学号.log`", "the gzip data is cut off"]),
        (&["学号.log"], ["`学号.log` 中没有任何被拦截的调用", "字节后不完整"]),
        (&["学号.log", "b.log", "--lang", "en"], ["in 2 logs", "`学号.log`: the gzip data is cut off"]),
    ] {
        let output = run(folder.path(), arguments);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2));
        assert!(said.iter().all(|said| message.contains(said)), "{message}");
    }
}

#[test]
fn pipes_are_read_like_files() {
    let folder = folder(&[("a.log", long(2000).as_bytes())]);
    let direct = text(&run(folder.path(), &["a.log", "--json"]).stdout);
    for shell in ["cat a.log | $A - --json", "$A /dev/stdin --json < a.log", "$A <(cat a.log) --json"] {
        let shell = shell.replace("$A", env!("CARGO_BIN_EXE_hook-analyze"));
        let output = Command::new("bash").args(["-c", &shell]).current_dir(folder.path()).output().unwrap();
        let piped: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let mut direct: serde_json::Value = serde_json::from_str(&direct).unwrap();
        direct["inputs"][0]["path"] = piped["inputs"][0]["path"].clone();
        assert_eq!(piped, direct, "{shell}");
    }
    let mut child = Command::new(env!("CARGO_BIN_EXE_hook-analyze"))
        .args(["-", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // In bits that end anywhere.
    let mut stdin = child.stdin.take().unwrap();
    for bit in lab().as_bytes().chunks(7) {
        stdin.write_all(bit).unwrap();
        stdin.flush().unwrap();
    }
    drop(stdin);
    let json: serde_json::Value = serde_json::from_slice(&child.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!((&json["apis"][0]["denied"], &json["inputs"][0]["lines"]), (&12.into(), &27.into()));
}

#[test]
fn the_fast_and_the_obvious_reader_read_every_file_alike_on_any_number_of_threads() {
    let mut all = Vec::new();
    let mut files: Vec<PathBuf> = std::fs::read_dir(data("")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.is_file());
    files.sort();
    for path in &files {
        all.extend(std::fs::read(path).unwrap());
    }
    // Long enough for several threads, with pieces that end anywhere.
    let mixed = [&all[..], long(3000).as_bytes(), &all].concat();
    let folder = folder(&[("mixed.log", &mixed)]);
    files.push(folder.path().join("mixed.log"));
    for path in &files {
        let read = |threads, fast| {
            parse::read_at(std::slice::from_ref(path), None, Pace { threads, fast, ..Pace::default() }).unwrap()
        };
        let obvious = read(1, false);
        for (threads, fast) in [(1, true), (2, true), (5, true), (3, false)] {
            assert_same_events(&read(threads, fast), &obvious, &format!("{} {threads} {fast}", path.display()));
        }
    }
}

#[test]
fn a_missing_file_is_one_sentence() {
    let error = parse::read(&[Path::new("no/such.log").to_owned()], None).unwrap_err();
    assert_eq!(error.to_string(), "cannot read `no/such.log`");
}
