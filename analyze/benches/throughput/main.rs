//! `make bench-analyze`: whole analyses by `hook-analyze` beside what else counts in a log, on the same generated files,
//! turn by turn. Every tool's answer is held against what the generator wrote.
//!
//! Settings (environment): `LINES` and `RECORDS` (sizes), `ROUNDS`, `DIR` (where the files go), `PYTHON` (with pandas,
//! polars and duckdb), `GROWTH=1` (also a tenth and ten times the lines; `GROWTH=only`: nothing else), `BENCH_ROWS` (a file
//! to which every figure is appended, for the one table of `make bench`: reports/bench.py).

mod generate;

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use generate::{Form, Truth};
use serde_json::json;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// A tool that takes longer runs once.
const SLOW: Duration = Duration::from_secs(10);

/// Starts of the program over the lab's log.
const STARTS: usize = 40;

/// A tool under measurement.
struct Tool {
    name: &'static str,
    /// For a shell; `$F` is the file.
    command: String,
    /// Whether it prints our `--json` rather than the number of denied calls.
    ours: bool,
    /// Wall time, s.
    seconds: Vec<f64>,
    /// Processor time, s: what it costs, whoever else is at work.
    cpu: Vec<f64>,
    peak_mib: f64,
    /// Why it was left out.
    skipped: Option<String>,
}

impl Tool {
    fn new(name: &'static str, command: impl Into<String>) -> Tool {
        let command = command.into();
        Tool { name, command, ours: false, seconds: Vec::new(), cpu: Vec::new(), peak_mib: 0.0, skipped: None }
    }

    fn ours(name: &'static str, command: impl Into<String>) -> Tool {
        Tool { ours: true, ..Tool::new(name, command) }
    }

    /// Runs it over `file` and checks its answer.
    fn run(&mut self, file: &Path, truth: Truth) -> Outcome<()> {
        let out = file.with_extension("out");
        let memory = file.with_extension("time");
        let begin = Instant::now();
        // To a file: GNU grep stops at the first match when its output is /dev/null.
        let status = Command::new("/usr/bin/time")
            .args(["-f", "%M %U %S", "-o"])
            .arg(&memory)
            .args(["bash", "-c", &self.command])
            .env("F", file)
            .stdin(Stdio::null())
            .stdout(File::create(&out)?)
            .stderr(Stdio::piped())
            .spawn()?
            .wait_with_output()?;
        let seconds = begin.elapsed().as_secs_f64();
        if !status.status.success() {
            let said = String::from_utf8_lossy(&status.stderr);
            self.skipped = Some(said.trim().lines().last().unwrap_or("failed").chars().take(70).collect());
            return Ok(());
        }
        let denied = denied(&std::fs::read_to_string(&out)?, self.ours)?;
        if denied != truth.denied {
            return Err(format!("{}: {denied} denied calls, the file holds {}", self.name, truth.denied).into());
        }
        self.seconds.push(seconds);
        let used = std::fs::read_to_string(&memory)?;
        let used: Vec<f64> = used.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        self.peak_mib = self.peak_mib.max(used[0] / 1024.0);
        self.cpu.push(used[1] + used[2]);
        Ok(())
    }
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    // The one in the middle, or between the two.
    let (below, above) = (sorted.get(sorted.len().checked_sub(1)? / 2)?, sorted.get(sorted.len() / 2)?);
    Some((below + above) / 2.0)
}

/// Appends a row to the file that `BENCH_ROWS` names, if it names one.
fn append(row: &serde_json::Value) -> Outcome<()> {
    let Some(path) = std::env::var_os("BENCH_ROWS") else { return Ok(()) };
    Ok(OpenOptions::new().append(true).create(true).open(path)?.write_all(format!("{row}\n").as_bytes())?)
}

fn denied(output: &str, ours: bool) -> Outcome<u64> {
    if !ours {
        return Ok(output.trim().parse()?);
    }
    let json: serde_json::Value = serde_json::from_str(output)?;
    let apis = json["apis"].as_array().ok_or("no `apis`")?;
    Ok(apis.iter().filter_map(|api| api["denied"].as_u64()).sum())
}

/// Runs all tools in turn and prints a table; the ratio is to the first, the median over the turns.
fn compare(title: &str, file: &Path, truth: Truth, tools: &mut [Tool], rounds: usize) -> Outcome<()> {
    // Into memory, so that nobody pays for the disk.
    std::io::copy(&mut File::open(file)?, &mut std::io::sink())?;
    for _ in 0..rounds {
        for tool in tools.iter_mut().filter(|tool| tool.skipped.is_none()) {
            if tool.seconds.first().is_none_or(|&first| first < SLOW.as_secs_f64()) {
                tool.run(file, truth)?;
            }
        }
    }
    let bytes = truth.bytes as f64 / 1e6;
    println!("\n### {title}: {} lines, {bytes:.0} MB, {} denied\n", truth.lines, truth.denied);
    println!(
        "| tool | median s | fastest s | ratio | CPU s | ns a line | peak MiB | runs |\n|---|{}",
        "---:|".repeat(7)
    );
    let (baseline, first) = tools.first().map(|tool| (tool.name, tool.seconds.clone())).unwrap_or_default();
    let what = format!("{title}: {} million lines, {bytes:.0} MB", truth.lines as f64 / 1e6);
    // Emphasis belongs to this table.
    let plain = |name: &str| name.replace(['*', '`'], "");
    for tool in tools.iter() {
        let name = tool.name;
        let measured = median(&tool.seconds).zip(median(&tool.cpu)).filter(|_| tool.skipped.is_none());
        let Some((wall, cpu)) = measured else {
            let why = tool.skipped.as_deref().unwrap_or("not run");
            println!("| {name} | left out: {why} | | | | | | |");
            append(&json!({ "what": what, "how": plain(name), "left_out": why }))?;
            continue;
        };
        // Of runs in the same turn: what else the machine does slows both.
        let ratios: Vec<f64> = tool.seconds.iter().zip(&first).map(|(one, first)| one / first).collect();
        println!(
            "| {name} | {wall:.2} | {:.2} | {} | {cpu:.2} | {:.0} | {:.0} | {} |",
            tool.seconds.iter().copied().fold(f64::INFINITY, f64::min),
            median(&ratios).map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}")),
            wall * 1e9 / truth.lines as f64,
            tool.peak_mib,
            tool.seconds.len(),
        );
        let a_line: Vec<f64> = tool.seconds.iter().map(|seconds| seconds * 1e9 / truth.lines as f64).collect();
        append(&json!({
            "what": what, "how": plain(name), "unit": "ns a line", "values": a_line,
            "baseline": plain(baseline), "ratios": ratios,
        }))?;
    }
    Ok(())
}

/// A number from the environment.
fn number(name: &str, default: u64) -> Outcome<u64> {
    std::env::var(name)
        .map_or(Ok(default), |text| text.parse().map_err(|_| format!("{name}: `{text}` is no number").into()))
}

/// Ours beside all others, over lines and over records.
fn compare_with_peers(ours: &str, folder: &Path, rounds: usize) -> Outcome<()> {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/throughput");
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let script = |name: &str, how: &str| format!("'{python}' '{}' {how} \"$F\"", scripts.join(name).display());

    let log = folder.join("lines.log");
    let truth = generate::write(&log, Form::Lines, number("LINES", 10_000_000)?)?;
    let mut tools = [
        Tool::new("`rg -c DENIED`", "rg -c DENIED \"$F\""),
        Tool::ours("**hook-analyze --json**", format!("'{ours}' \"$F\" --json")),
        Tool::ours("hook-analyze, from a pipe", format!("cat \"$F\" | '{ours}' - --json")),
        Tool::new("GNU `grep -c DENIED`", "grep -c DENIED \"$F\""),
        Tool::new("Python, re + dict", script("student.py", "")),
        Tool::new("pandas, str.extract", script("frames.py", "pandas")),
        Tool::new("Python polars, str.extract", script("frames.py", "polars")),
        Tool::new("DuckDB, regexp_extract", script("frames.py", "duckdb")),
    ];
    compare("Course lines", &log, truth, &mut tools, rounds)?;
    std::fs::remove_file(&log)?;

    let records = folder.join("records.jsonl");
    let truth = generate::write(&records, Form::Records, number("RECORDS", 5_000_000)?)?;
    let count = "jq -n 'reduce inputs as $r (0; if $r.outcome == \"denied\" then . + 1 else . end)' \"$F\"";
    let mut tools = [
        Tool::ours("**hook-analyze --json**", format!("'{ours}' \"$F\" --json")),
        Tool::ours("hook-analyze, from a pipe", format!("cat \"$F\" | '{ours}' - --json")),
        Tool::new("Python polars, scan_ndjson", script("frames.py", "polars-json")),
        Tool::new("DuckDB, read_json", script("frames.py", "duckdb-json")),
        Tool::new("jq", count),
    ];
    compare("JSONL records", &records, truth, &mut tools, rounds)?;
    std::fs::remove_file(&records)?;
    Ok(())
}

fn main() -> Outcome<()> {
    // `cargo test` runs benchmarks too, to see that they start.
    if std::env::args().any(|argument| argument == "--test") {
        return Ok(());
    }
    let rounds = number("ROUNDS", 5)? as usize;
    if rounds == 0 {
        return Err("ROUNDS: at least 1".into());
    }
    let folder = PathBuf::from(std::env::var("DIR").unwrap_or_else(|_| "build/bench".to_owned()));
    std::fs::create_dir_all(&folder)?;
    let ours = env!("CARGO_BIN_EXE_hook-analyze");
    let growth = std::env::var("GROWTH").unwrap_or_default();
    if growth != "only" {
        compare_with_peers(ours, &folder, rounds)?;
    }
    if !growth.is_empty() {
        let log = folder.join("lines.log");
        for tenths in [1, 10, 100] {
            let truth = generate::write(&log, Form::Lines, number("LINES", 10_000_000)? * tenths / 10)?;
            let mut tools = [
                Tool::ours("hook-analyze --json", format!("'{ours}' \"$F\" --json")),
                Tool::ours("hook-analyze, from a pipe", format!("cat \"$F\" | '{ours}' - --json")),
            ];
            compare("Growth", &log, truth, &mut tools, rounds)?;
            std::fs::remove_file(&log)?;
        }
    }
    cold_start(ours)
}

/// From start to summary over the lab's log.
fn cold_start(ours: &str) -> Outcome<()> {
    let lab = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/course_h200_cuda13.log");
    let mut milliseconds = Vec::new();
    for _ in 0..STARTS {
        let begin = Instant::now();
        let output = Command::new(ours).arg(&lab).output()?;
        milliseconds.push(begin.elapsed().as_secs_f64() * 1e3);
        if !String::from_utf8_lossy(&output.stdout).contains("66.7 %") {
            return Err("the lab's log: not its figures".into());
        }
    }
    let fastest = milliseconds.iter().copied().fold(f64::INFINITY, f64::min);
    let median = median(&milliseconds).unwrap_or(f64::NAN);
    println!("\nThe lab's log, start to summary: median {median:.1} ms, fastest {fastest:.1} ms of {STARTS} starts");
    append(
        &json!({ "what": "the lab's log, start to summary", "how": "hook-analyze", "unit": "ms", "values": milliseconds }),
    )
}
