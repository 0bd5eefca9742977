//! Exports hold the same rows in every format.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::process::Command;

use polars::prelude::DataFrame;
use polars_io::SerReader;
use polars_io::ipc::IpcReader;
use polars_io::parquet::read::ParquetReader;
use serde_json::Value;

use crate::common::{data, folder, lab, run, text};

fn parquet(path: &Path) -> DataFrame {
    ParquetReader::new(File::open(path).unwrap()).finish().unwrap()
}

#[test]
fn every_format_has_the_same_rows_and_columns() {
    let jsonl = std::fs::read(data("sim_lab.jsonl")).unwrap();
    let folder = folder(&[("a.jsonl", &jsonl)]);
    let outputs = ["--csv", "c.csv", "--parquet", "c.parquet", "--ndjson", "c.ndjson", "--arrow", "c.arrow"];
    let output = run(folder.path(), &[&["a.jsonl"], &outputs[..]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let path = |name: &str| folder.path().join(name);
    let frame = parquet(&path("c.parquet"));
    assert_eq!(frame.height(), 25);
    let arrow = IpcReader::new(File::open(path("c.arrow")).unwrap()).finish().unwrap();
    assert!(arrow.equals_missing(&frame));
    let csv = std::fs::read_to_string(path("c.csv")).unwrap();
    assert_eq!(csv.lines().count(), 26);
    let names: Vec<String> = csv.lines().next().unwrap().split(',').map(str::to_owned).collect();
    assert_eq!(names, frame.get_column_names().iter().map(|name| name.to_string()).collect::<Vec<_>>());
    let ndjson = std::fs::read_to_string(path("c.ndjson")).unwrap();
    let rows: Vec<BTreeMap<String, Value>> = ndjson.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 25);
    assert!(rows.iter().all(|row| row.len() == names.len()));
    // Values as the records have them: whole numbers whole, levels to the last digit, texts as texts.
    let records: Vec<Value> = std::str::from_utf8(&jsonl)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|record| record["ev"] == "call")
        .collect();
    for (row, record) in rows.iter().zip(&records) {
        for key in
            ["seq", "mono_ns", "pid", "tid", "api", "sym", "outcome", "ret", "dev", "size", "ptr", "total", "tokens"]
        {
            assert_eq!(row[key], *record.get(key).unwrap_or(&Value::Null), "{key} {record}");
        }
        assert_eq!((&row["host"], &row["bypass"]), (&Value::from("vm"), &Value::from(false)));
    }
}

#[test]
fn odd_texts_survive_json_lines() {
    let odd = "quote \\\" back \\\\\\\\ tab \\t 学号, ☃";
    let jsonl = std::fs::read_to_string(data("sim_lab.jsonl"))
        .unwrap()
        .replace("\"host\":\"vm\"", &format!("\"host\":\"{odd}\""));
    let folder = folder(&[("a.jsonl", jsonl.as_bytes())]);
    assert!(run(folder.path(), &["a.jsonl", "--ndjson", "c.ndjson"]).status.success());
    let ndjson = std::fs::read_to_string(folder.path().join("c.ndjson")).unwrap();
    let row: Value = serde_json::from_str(ndjson.lines().next().unwrap()).unwrap();
    let host: String = serde_json::from_str(&format!("\"{odd}\"")).unwrap();
    assert_eq!(row["host"], host);
}

#[test]
fn parts_lie_in_folders_named_by_their_values() {
    let first = std::fs::read_to_string(data("sim_lab.jsonl")).unwrap();
    let day = first.split("\"ts\":\"").nth(1).unwrap()[..10].to_owned();
    let second = first.replace("\"host\":\"vm\"", "\"host\":\"../a=b\"").replace(&day, "2027-01-02");
    let course = std::fs::read(data("torch_quota_h200.log")).unwrap();
    let folder = folder(&[("a.jsonl", first.as_bytes()), ("b.jsonl", second.as_bytes()), ("c.log", &course)]);
    let arguments = ["a.jsonl", "b.jsonl", "c.log", "--parquet", "out", "--partition-by", "date,host"];
    let output = run(folder.path(), &arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let of = |below: &str| parquet(&folder.path().join("out").join(below).join("part-0.parquet"));
    let parts = [
        (format!("date={day}/host=vm"), 25),
        ("date=2027-01-02/host=..%2Fa%3Db".to_owned(), 25),
        ("date=__HIVE_DEFAULT_PARTITION__/host=__HIVE_DEFAULT_PARTITION__".to_owned(), 24),
    ];
    for (below, rows) in parts {
        let part = of(&below);
        assert_eq!(part.height(), rows, "{below}");
        let names: Vec<String> = part.get_column_names().iter().map(|name| name.to_string()).collect();
        assert!(!names.contains(&"host".to_owned()) && names.contains(&"process".to_owned()), "{names:?}");
    }
    // What is there already would be counted with it.
    let again = run(folder.path(), &arguments);
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).contains("is not empty"), "{}", text(&again.stderr));
    // Chosen calls alone.
    let some = ["a.jsonl", "--parquet", "some", "--partition-by", "outcome", "--outcome", "denied"];
    assert!(run(folder.path(), &some).status.success());
    assert_eq!(parquet(&folder.path().join("some/outcome=denied/part-0.parquet")).height(), 13);
    assert!(!folder.path().join("some/outcome=ok").exists());
    // A column that is named twice is one.
    assert!(
        run(folder.path(), &["a.jsonl", "--parquet", "twice", "--partition-by", "outcome,outcome"]).status.success()
    );
    assert_eq!(parquet(&folder.path().join("twice/outcome=denied/part-0.parquet")).height(), 13);
    let alone = run(folder.path(), &["a.jsonl", "--partition-by", "date"]);
    assert_eq!(alone.status.code(), Some(2));
}

#[test]
fn a_level_of_a_process_that_only_records_is_none() {
    let log = "[HOOK] 显存配额: 无限制 (仅记录)\n[HOOK] 算力限速: 无限制 (仅记录)\n\
               [HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) -> 0 | tokens=0.0\n";
    let folder = folder(&[("a.log", log.as_bytes())]);
    assert!(run(folder.path(), &["a.log", "--ndjson", "c.ndjson"]).status.success());
    let ndjson = std::fs::read_to_string(folder.path().join("c.ndjson")).unwrap();
    let row: Value = serde_json::from_str(&ndjson).unwrap();
    assert_eq!((&row["tokens"], &row["grid_x"]), (&Value::Null, &Value::from(1)));
}

#[test]
fn a_reader_that_has_gone_is_no_error() {
    let folder = folder(&[("a.log", lab().repeat(200).as_bytes())]);
    for output in ["--csv", "--ndjson"] {
        let shell = format!(
            "{} a.log {output} /dev/stdout | head -1 > out; exit ${{PIPESTATUS[0]}}",
            env!("CARGO_BIN_EXE_hook-analyze")
        );
        let output = Command::new("bash").args(["-c", &shell]).current_dir(folder.path()).output().unwrap();
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""), "{shell}");
    }
}
