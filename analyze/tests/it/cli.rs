//! What a user does with the command: exit codes, messages, files.

use std::process::{Command, Stdio};

use crate::common::{data, folder, lab, run, text};

#[test]
fn the_default_log_is_hook_log_in_this_folder() {
    let folder = folder(&[("hook.log", lab().as_bytes())]);
    let output = run(folder.path(), &[]);
    assert_eq!(output.status.code(), Some(0));
    let summary = text(&output.stdout);
    assert!(summary.contains("cudaLaunchKernel    18     6    12          0  66.7 %"), "{summary}");
    assert!(summary.contains("第 8 次调用起 7 次; 第 18 次调用起 5 次"), "{summary}");
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
}

#[test]
fn a_report_of_another_kind_and_a_bare_number_for_a_part_are_refused_with_what_to_write() {
    let folder = folder(&[("hook.log", lab().as_bytes())]);
    for (arguments, said) in [
        (["--report", "report.docx"], "name a file that ends in `.md`"),
        (["--report", "report.PDF"], "name a file that ends in `.md`"),
        (["--size-for", "1"], "write `1%` or `0.01`"),
    ] {
        let output = run(folder.path(), &arguments);
        assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(2), true), "{arguments:?}");
        assert!(text(&output.stderr).contains(said), "{}", text(&output.stderr));
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn the_summary_fits_80_columns_and_is_there_in_english() {
    let folder = folder(&[("hook.log", lab().as_bytes())]);
    for lang in ["zh", "en"] {
        let summary = text(&run(folder.path(), &["--lang", lang]).stdout);
        for line in summary.lines() {
            assert!(unicode_width::UnicodeWidthStr::width(line) <= 80, "{line}");
        }
    }
    assert!(text(&run(folder.path(), &["--lang", "en"]).stdout).contains("7 from call 8; 5 from call 18"));
}

#[test]
fn standard_input_is_read_and_json_is_json() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_hook-analyze"))
        .args(["-", "--json"])
        .stdin(Stdio::from(std::fs::File::open(data("course_h200_cuda13.log")).unwrap()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let json: serde_json::Value = serde_json::from_reader(child.stdout.take().unwrap()).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(json["inputs"][0]["path"], "-");
    assert_eq!(json["apis"][0]["denied"], 12);
}

#[test]
fn a_log_without_calls_ends_with_2_and_the_next_thing_to_try() {
    let banners: String = lab().lines().take(2).map(|line| format!("{line}\n")).collect();
    for (log, lang, said) in [
        ("", "zh", "文件是空的"),
        ("", "en", "the file is empty"),
        ("\n", "en", "no [HOOK] line. The log goes to stderr"),
        ("hello\nworld\n", "zh", "第 2 行: world"),
        ("[HOOK] malloc(5) → 0x7f00\n", "zh", "有 hook 的行, 但格式不认识"),
        (banners.as_str(), "zh", "nvcc --cudart=shared"),
        (banners.as_str(), "en", "__cudaLaunchKernel"),
    ] {
        let folder = folder(&[("hook.log", log.as_bytes())]);
        let output = run(folder.path(), &["--lang", lang, "--json"]);
        assert_eq!(output.status.code(), Some(2), "{log}");
        assert!(text(&output.stderr).contains(said), "{}", text(&output.stderr));
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn what_cannot_be_read_or_written_is_named() {
    let folder = folder(&[("hook.log", lab().as_bytes())]);
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    for (arguments, said) in [
        (&["missing.log"][..], "cannot read `missing.log`: No such file or directory"),
        (&["empty"], "`empty` is a folder without any *.log or *.jsonl"),
        (&["--plot", "no/such/t.svg"], "cannot write `no/such/t.svg`"),
        (&["--plot", "t.jpg"], "name a file that ends in `.svg` or `.png`"),
        (&["--plot", "timeline"], "name a file that ends in `.svg`"),
        (&["--csv", "hook.log"], "`hook.log` is also an input"),
        (&["--events", "missing.jsonl"], "cannot read `missing.jsonl`"),
        (&["--csv", "both", "--parquet", "both"], "two outputs are named `both`"),
        (&["--csv", "both", "--parquet", "./both"], "two outputs are named `./both`"),
        (&["--csv", "empty/both", "--rejects", "empty/../empty/both"], "two outputs are named"),
        (&["--report", "r.md", "--plot", "r-tokens.svg"], "two outputs are named `r-tokens.svg`"),
        (&["--csv", "-"], "`-` is no output"),
        (&["--csv", "/dev/full"], "cannot write `/dev/full`: No space left on device"),
        (&["--parquet", "/dev/full"], "cannot write `/dev/full`: "),
        (&["--ndjson", "/dev/full"], "cannot write `/dev/full`: No space left on device"),
        (&["--arrow", "/dev/full"], "cannot write `/dev/full`: No space left on device"),
        (&["--report", "/dev/stdout"], "a report needs a file of its own"),
        (&["--nonsense"], "--nonsense"),
    ] {
        let output = run(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(said), "{arguments:?}: {}", text(&output.stderr));
    }
    assert_eq!(std::fs::read_to_string(folder.path().join("hook.log")).unwrap(), lab());
    let mut names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["empty", "hook.log"], "nothing half-written stays");
}

#[test]
fn a_log_that_is_not_there_is_answered_with_those_that_are() {
    let folder = folder(&[("two.log", lab().as_bytes()), ("notes.txt", b"")]);
    std::fs::create_dir(folder.path().join("out")).unwrap();
    std::fs::write(folder.path().join("out/hook.jsonl"), b"").unwrap();
    std::fs::create_dir(folder.path().join("none")).unwrap();
    let near = "\n  logs near: `two.log`, `out/hook.jsonl`\n";
    for (arguments, said) in [
        (&[][..], near),
        (&["tow.log"], near),
        (&["*.lgo"], near),
        (&["out/hook.log"], "\n  logs near: `out/hook.jsonl`, `two.log`\n"),
        (&["--events", "missing.jsonl", "two.log"], near),
        (&["help"], "\n  `hook-analyze --help` tells"),
        (&["--lang", "en", "run", "--", "./app"], "\n  `run` comes before everything else"),
    ] {
        let output = run(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(said), "{arguments:?}: {}", text(&output.stderr));
    }
    let output = run(&folder.path().join("none"), &["a.log"]);
    assert!(!text(&output.stderr).contains("near"), "{}", text(&output.stderr));
}

#[test]
fn the_event_file_beside_the_log_is_not_overwritten() {
    let (log, jsonl) = (std::fs::read(data("sim_lab.log")).unwrap(), std::fs::read(data("sim_lab.jsonl")).unwrap());
    let folder = folder(&[("hook.log", &log), ("hook.jsonl", &jsonl)]);
    let output = run(folder.path(), &["--csv", "hook.jsonl"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("`hook.jsonl` is also an input"), "{}", text(&output.stderr));
    assert_eq!(std::fs::read(folder.path().join("hook.jsonl")).unwrap(), jsonl);
}

#[test]
fn without_a_log_the_next_step_is_named() {
    let output = run(folder(&[]).path(), &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("make test-sim 2> hook.log"), "{}", text(&output.stderr));
}

#[test]
fn csv_and_parquet_have_a_row_a_call() {
    let folder = folder(&[("hook.log", lab().as_bytes())]);
    assert!(run(folder.path(), &["--csv", "calls.csv", "--parquet", "calls.parquet"]).status.success());
    let csv = std::fs::read_to_string(folder.path().join("calls.csv")).unwrap();
    assert_eq!(csv.lines().count(), 26);
    assert!(csv.lines().nth(2).unwrap().contains("cudaMalloc,,alloc,denied,,,2147483648"), "{csv}");
    let parquet = std::fs::read(folder.path().join("calls.parquet")).unwrap();
    assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let shell =
        format!("{} {} --json | head -1", env!("CARGO_BIN_EXE_hook-analyze"), data("course_h200_cuda13.log").display());
    let output = Command::new("bash").args(["-o", "pipefail", "-c", &shell]).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
}

#[test]
fn short_help_fits_a_screen() {
    let folder = folder(&[]);
    let output = run(folder.path(), &["-h"]);
    assert!(output.status.success());
    let help = text(&output.stdout);
    assert!(help.lines().count() <= 58, "{help}");
    assert!(help.contains("Examples:") && help.contains("Exit status"));
}

#[test]
fn figures_are_the_same_in_any_time_zone() {
    let folder = folder(&[
        ("a.log", &std::fs::read(data("sim_lab.log")).unwrap()),
        ("a.jsonl", &std::fs::read(data("sim_lab.jsonl")).unwrap()),
    ]);
    let json = |zone: &str| {
        Command::new(env!("CARGO_BIN_EXE_hook-analyze"))
            .args(["a.log", "--json"])
            .current_dir(folder.path())
            .env("TZ", zone)
            .output()
            .unwrap()
            .stdout
    };
    assert_eq!(json("UTC"), json("Asia/Shanghai"));
}
