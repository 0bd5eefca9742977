//! The summary on a terminal: what fits, what a curve keeps, and colours.

use std::process::{Command, Stdio};

use hook_analyze::figures;
use hook_analyze::render::{Lang, terminal};
use unicode_width::UnicodeWidthStr;

use crate::common::{data, folder, load, run, text};

fn fits(folder: &std::path::Path, arguments: &[&str]) {
    for lang in ["zh", "en"] {
        let output = run(folder, &[arguments, &["--lang", lang]].concat());
        let shown = text(&output.stdout);
        assert!(!shown.is_empty(), "{arguments:?}: {}", text(&output.stderr));
        for line in shown.lines() {
            assert!(line.width() <= 80, "{arguments:?}: {} columns: {line}", line.width());
            assert!(!line.chars().any(char::is_control), "{arguments:?}: {line:?}");
        }
    }
}

#[test]
fn every_line_fits_80_columns_for_every_real_log() {
    let folder = folder(&[]);
    let logs: Vec<_> = std::fs::read_dir(data("")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let log =
        |name: &std::ffi::OsStr| [".log", ".jsonl", ".gz"].iter().any(|end| name.to_string_lossy().ends_with(end));
    let logs: Vec<_> =
        logs.iter().filter(|path| log(path.file_name().unwrap())).map(|path| path.to_str().unwrap()).collect();
    assert!(logs.len() >= 13);
    for log in &logs {
        fits(folder.path(), &[log]);
        fits(folder.path(), &[log, "--check"]);
        fits(folder.path(), &[log, "--outcome", "denied,ok", "--api", "cuda*,cu*,nvml*,malloc,free"]);
        fits(folder.path(), &["--diff", log, data("sim_lab.jsonl").to_str().unwrap()]);
        fits(folder.path(), &["--diff", data("course_h200_cuda13.log").to_str().unwrap(), log]);
    }
    let lab = data("sim_lab.jsonl");
    fits(folder.path(), &[lab.to_str().unwrap(), "--what-if", "table", "--size-for", "1%"]);
}

#[test]
fn every_line_fits_80_columns_whatever_names_a_log_holds() {
    let names = [
        "cuda".repeat(60),
        "函数名称".repeat(40),
        "👩\u{200d}🔬\u{202e}e\u{301}".repeat(30),
        "a b ".repeat(80),
        "\\u001b[2J\\u0007x".to_owned(),
    ];
    let mut log = String::new();
    for (number, name) in names.iter().enumerate() {
        let pid = number + 1;
        let record = |seq: u64, rest: &str| {
            format!(
                "{{\"ev\":\"call\",\"seq\":{seq},\"mono_ns\":{seq},\"pid\":{pid},\"tid\":1,\"api\":\"{name}\",{rest}}}\n"
            )
        };
        log += &format!(
            "{{\"v\":1,\"ev\":\"start\",\"run\":\"r\",\"mono_ns\":1,\"pid\":{pid},\"exe\":\"{name}\",\"host\":\"{name}\",\"shared\":\"{name}\",\
             \"job\":1,\"quota_bytes\":18446744073709551615,\"rate\":0.001,\"capacity\":1e12}}\n"
        );
        log += &record(
            1,
            "\"grid\":[4294967295,4294967295,4294967295],\"block\":[4294967295,4294967295,4294967295],\"outcome\":\"denied\",\"tokens\":123456789.125",
        );
        log += &record(3, "\"size\":18446744073709551615,\"outcome\":\"failed\"");
        log += &format!(
            "{{\"ev\":\"end\",\"pid\":{pid},\"uncounted\":{{\"{name}\":18446744073709551615}},\"lost\":99}}\n"
        );
    }
    log += &format!("[HOOK] 警告: {}\n[HOOK] {}\n", names[1], names[0]);
    let file = format!("{}.jsonl", "名".repeat(70));
    let folder = folder(&[(&file, log.as_bytes())]);
    fits(folder.path(), &[&file]);
    fits(folder.path(), &[&file, "--check"]);
    fits(folder.path(), &["--diff", &file, data("sim_lab.jsonl").to_str().unwrap()]);
    fits(folder.path(), &["--diff", data("sim_lab.jsonl").to_str().unwrap(), &file]);
}

#[test]
fn curves_are_the_same_without_rows_and_keep_the_one_low_level_of_many() {
    for name in ["sim_lab.jsonl", "nogpu_token_bucket.log", "torch_launches_denied_h200.log", "torch_quota_h200.log"] {
        let (_, analysis) = load(&data(name));
        let folded = figures::read(&[data(name)], None).unwrap();
        for lang in [Lang::Zh, Lang::En] {
            assert_eq!(terminal::summary(&folded.summary, lang), terminal::summary(&analysis.summary, lang), "{name}");
        }
    }
    let launch = |level: &str| format!("[HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) -> 0 | tokens={level}\n");
    let log = "[HOOK] 算力限速: 5 tokens/s, burst 8\n".to_owned()
        + &launch("7.0").repeat(70_000)
        + &launch("0.0")
        + &launch("7.0").repeat(9999);
    let folder = folder(&[("a.log", log.as_bytes())]);
    let shown = text(&run(folder.path(), &["a.log", "--lang", "en"]).stdout);
    let curve = shown.lines().find(|line| line.trim().starts_with('█')).unwrap().trim();
    assert!(shown.contains("the lowest level after 2048 launches, █ is 8"), "{shown}");
    // 70 000 / 2048 = 34.2; 80 000 / 2048 = 39.1.
    assert_eq!(curve, "█".repeat(34) + "▁" + "█████", "{shown}");
}

#[test]
fn colours_are_for_terminals_alone() {
    let log = data("course_h200_cuda13.log");
    let piped = Command::new(env!("CARGO_BIN_EXE_hook-analyze"))
        .arg(&log)
        .env_remove("NO_COLOR")
        .env("TERM", "xterm")
        .stdout(Stdio::piped())
        .output()
        .unwrap();
    assert!(!text(&piped.stdout).contains('\x1b'));
    // `script` of util-linux gives the program a terminal.
    let on_terminal = |variables: &[(&str, &str)]| {
        let command = format!("{} {}", env!("CARGO_BIN_EXE_hook-analyze"), log.display());
        let mut script = Command::new("script");
        script.args(["-qec", &command, "/dev/null"]).env_remove("NO_COLOR").env("TERM", "xterm").stdin(Stdio::null());
        script.envs(variables.iter().copied());
        script.output().ok().map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let Some(coloured) = on_terminal(&[]) else {
        eprintln!("not tested: there is no `script` here");
        return;
    };
    assert!(coloured.contains("\x1b[32m✓\x1b[0m 11 条规则相符"), "{coloured}");
    for variables in [[("NO_COLOR", "1")], [("TERM", "dumb")]] {
        let plain = on_terminal(&variables).unwrap();
        assert!(plain.contains("✓ 11 条规则相符") && !plain.contains('\x1b'), "{plain}");
    }
    assert!(on_terminal(&[("NO_COLOR", "")]).unwrap().contains('\x1b'), "an empty NO_COLOR is none");
}

#[test]
fn of_the_rules_the_summary_shows_broken_ones_and_how_many_are_kept() {
    let lab = std::fs::read_to_string(data("course_h200_cuda13.log")).unwrap();
    let broken = lab.replacen("tokens=2.0", "tokens=3.9", 1);
    let folder = folder(&[("good.log", lab.as_bytes()), ("bad.log", broken.as_bytes())]);
    let rules = |log: &str, flags: &[&str]| {
        let output = run(folder.path(), &[&[log], flags].concat());
        let lines = text(&output.stdout);
        let rules = lines.lines().filter(|line| line.starts_with(['✓', '✗', '–'])).map(str::to_owned);
        rules.collect::<Vec<_>>()
    };
    assert_eq!(rules("good.log", &[]), ["✓ 11 条规则相符 (逐条见 --check)", "– 3 条规则不适用 (原因见 --check)"]);
    let english = ["✓ 11 rules kept (--check lists each)", "– 3 rules not applicable (--check tells why)"];
    assert_eq!(rules("good.log", &["--lang", "en"]), english);
    let bad = rules("bad.log", &[]);
    let all = rules("bad.log", &["--check"]);
    let failed: Vec<&String> = all.iter().filter(|line| line.starts_with('✗')).collect();
    assert!(!failed.is_empty() && bad.iter().take(failed.len()).eq(failed.iter().copied()), "{bad:?} of {all:?}");
    let kept = all.iter().filter(|line| line.starts_with('✓')).count();
    assert_eq!(bad[failed.len()], format!("✓ {kept} 条规则相符 (逐条见 --check)"));
}

#[test]
fn functions_that_are_only_counted_do_not_bury_the_table() {
    let shown = text(
        &run(std::path::Path::new("."), &[data("hami_core_level4_h200.log").to_str().unwrap(), "--lang", "en"]).stdout,
    );
    let rows = shown.lines().filter(|line| line.starts_with("  cu") || line.starts_with("  nvml")).count();
    assert!(
        rows == 11 && shown.contains("  cuMemAlloc_v2 ") && shown.contains("… +7 APIs of untold outcome"),
        "{shown}"
    );
}
