//! `hook-analyze run`, with the hook that CUDA_HOOK_SO names and the stand-in runtime in `build/sim` (`make check-test`
//! builds both). Without them the tests that start something say so and pass.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{folder, lab, text};

/// A file of the stand-in, and that there is a hook; or why the test is left out.
fn built(name: &str) -> Option<PathBuf> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../build/sim").join(name);
    let hook = std::env::var_os("CUDA_HOOK_SO").is_some_and(|path| Path::new(&path).is_file());
    if !hook || !file.exists() {
        eprintln!(
            "left out: CUDA_HOOK_SO names no hook, or there is no build/sim/{name} (`make check-test` makes both)"
        );
        return None;
    }
    Some(file.canonicalize().unwrap())
}

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hook-analyze"));
    let sim = Path::new(env!("CARGO_MANIFEST_DIR")).join("../build/sim");
    command.args(["run", "--lang", "en"]).args(arguments).current_dir(folder).env("LD_LIBRARY_PATH", sim);
    command.stdin(Stdio::null());
    command
}

fn start(folder: &Path, arguments: &[&str]) -> Output {
    command(folder, arguments).output().unwrap()
}

/// What was said, a blank between two words.
fn words(output: &Output) -> String {
    text(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A file that may be executed.
fn program(path: &Path, bytes: &[u8]) -> String {
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_mistyped_flag_and_a_folder_as_log_are_told_by_their_names() {
    let Some(_) = built("test_hook") else { return };
    let folder = folder(&[]);
    for (arguments, said) in [
        (&["--qouta", "5", "--", "ls"][..], "there is no program `--qouta` on the PATH, and no such flag"),
        (&["--log", ".", "--", "ls"], &format!("cannot write `{}`", folder.path().display())),
    ] {
        let output = start(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(2));
        assert!(words(&output).contains(said), "{}", words(&output));
    }
}

#[test]
fn the_lab_runs_with_its_log_in_files_and_the_summary_at_the_end() {
    let Some(test_hook) = built("test_hook") else { return };
    let folder = folder(&[("hook.log", lab().as_bytes()), ("hook.jsonl", b"{\"old\":1}\n")]);
    let limits = ["--quota", "128", "--rate", "5", "--capacity", "3", "--"];
    let output = start(folder.path(), &[&limits[..], &[test_hook.to_str().unwrap()]].concat());
    let said = words(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    // Standard output is the program's alone.
    let course = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cuda/expected/test_hook.stdout");
    assert_eq!(text(&output.stdout), fs::read_to_string(course).unwrap());
    assert!(said.contains(" cudaLaunchKernel 18 6 12 ") && said.contains("monotonic"), "{said}");
    assert!(said.contains("hook-analyze hook.log"), "{said}");
    // What lay there was of an earlier run.
    let log = fs::read_to_string(folder.path().join("hook.log")).unwrap();
    assert_eq!(log.lines().count(), 27, "{log}");
    assert!(!fs::read_to_string(folder.path().join("hook.jsonl")).unwrap().contains("old"));
}

#[test]
fn one_of_the_two_files_is_enough_and_they_may_lie_elsewhere() {
    let Some(test_hook) = built("test_hook") else { return };
    let test_hook = test_hook.to_str().unwrap();
    let folder = folder(&[]);
    fs::create_dir(folder.path().join("sub")).unwrap();
    for flags in [["--log", "off"], ["--events", "off"], ["--events", "sub/e.jsonl"]] {
        let output = start(folder.path(), &[&flags[..], &["--quota", "128", test_hook]].concat());
        // Without a bucket the lab's own test of it fails.
        assert_eq!(output.status.code(), Some(1), "{flags:?}");
        let said = words(&output);
        assert!(said.contains(" cudaMalloc 4 3 1 "), "{flags:?}\n{said}");
        assert_eq!(said.contains("monotonic"), flags[0] != "--events" || flags[1] != "off", "{flags:?}\n{said}");
    }
    let output = start(folder.path(), &["--log", "off", "--events", "off", test_hook]);
    assert!(text(&output.stderr).contains("both off"));
    let output = start(folder.path(), &["--log", "a", "--events", "./a", test_hook]);
    assert!(text(&output.stderr).contains("name another file"), "{}", text(&output.stderr));
}

#[test]
fn a_static_runtime_is_told_of_and_logged_by_the_drivers_names() {
    let Some(test) = built("test_cudart_static") else { return };
    let folder = folder(&[]);
    let output = start(folder.path(), &["--", test.to_str().unwrap()]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("linked statically") && said.contains("--cudart=shared"), "{said}");
    assert!(said.contains("cuMemAlloc_v2") && !said.contains("cudaMalloc "), "{said}");
}

#[test]
fn the_exit_status_is_the_programs() {
    let Some(test_hook) = built("test_hook") else { return };
    let folder = folder(&[]);
    let lab = format!("{} >/dev/null;", test_hook.display());
    for (script, code) in [("exit 7", 7), ("kill -SEGV $$", 139), ("kill -KILL $$", 137), ("exit 0", 0)] {
        let output = start(folder.path(), &["--", "sh", "-c", &format!("{lab} {script}")]);
        assert_eq!(output.status.code(), Some(code), "{script}\n{}", text(&output.stderr));
        assert_eq!(text(&output.stderr).contains("(SIG"), code > 128, "{}", text(&output.stderr));
    }
    // Nothing was intercepted: a failure of the program is its own, a success of it none of the run.
    for (script, code) in [("exit 7", 7), ("exit 0", 2)] {
        let output = start(folder.path(), &["--", "sh", "-c", script]);
        assert_eq!(output.status.code(), Some(code));
        assert!(text(&output.stderr).contains("no intercepted call"), "{}", text(&output.stderr));
    }
}

#[test]
fn scripts_run_and_other_preloaded_libraries_stay() {
    if built("libcuda.so.1").is_none() {
        return;
    }
    let folder = folder(&[]);
    for first in ["#!/bin/sh", "#!/usr/bin/env sh"] {
        let script = program(&folder.path().join("script"), format!("{first}\necho \"$LD_PRELOAD\"; cat\n").as_bytes());
        let mut child = command(folder.path(), &[&script])
            .env("LD_PRELOAD", "libm.so.6")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"to standard input").unwrap();
        let printed = text(&child.wait_with_output().unwrap().stdout);
        assert!(printed.contains("libcuda_hook.so:libm.so.6\nto standard input"), "{printed}");
    }
    let script = program(&folder.path().join("script"), b"echo hello\n");
    let output = start(folder.path(), &[&script]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("#!/bin/sh"), "{}", text(&output.stderr));
}

#[test]
fn what_can_not_be_started_under_the_hook_is_named_with_what_to_do() {
    let Some(hook) = std::env::var_os("CUDA_HOOK_SO").filter(|_| built("libcuda.so.1").is_some()) else { return };
    let folder = folder(&[("plain", b"hello"), ("kept.py", b"print()\n")]);
    let path = |name: &str| folder.path().join(name);
    let ls = fs::read("/bin/ls").unwrap();
    let mut arm = ls.clone();
    arm[18] = 183;
    program(&path("arm"), &arm);
    program(&path("cut"), &ls[..100]);
    let source = path("static.c");
    fs::write(&source, "void _start(void) { for (;;) ; }").unwrap();
    let gcc = ["-static", "-nostdlib", "-o", "static", "static.c"];
    assert!(Command::new("gcc").args(gcc).current_dir(folder.path()).status().unwrap().success());
    fs::create_dir(path("a b")).unwrap();
    fs::copy(hook, path("a b/libcuda_hook.so")).unwrap();
    let mut cases: Vec<(&[&str], &str)> = vec![
        (&["nosuch"], "no program `nosuch` on the PATH"),
        (&["arm"], "in this folder is `./` and its name"),
        (&["./nosuch"], "no program `./nosuch` there"),
        (&["."], "no program"),
        (&["./"], "is a folder"),
        (&["./plain"], "chmod +x"),
        (&["./cut"], "is damaged"),
        (&["./arm"], "AArch64, 64 bits and x86-64, 64 bits"),
        (&["./static"], "is linked statically"),
        (&["--hook", "nosuch.so", "ls"], "no libcuda_hook.so in `nosuch.so`"),
        (&["--hook", "plain", "ls"], "it is no shared library"),
        (&["--hook", "a b/libcuda_hook.so", "ls"], "blanks and colons"),
        (&["--log", "kept.py", "ls"], "holds something else than a hook's log"),
        (&["--events", "kept.py", "ls"], "holds something else than a hook's log"),
        (&["--log", "nowhere/hook.log", "ls"], "cannot write `nowhere/hook.log`"),
        (&["--rate", "5", "ls"], "`--capacity` is missing"),
        (&["--capacity", "5", "ls"], "`--rate` is missing"),
        (&["--deny-error", "0", "ls"], "1..=999"),
        (&["--shared", "a b", "ls"], "letters, digits"),
        (&[], "<PROGRAM>"),
    ];
    // Only the superuser can give a file away.
    program(&path("setuid"), &ls);
    if std::os::unix::fs::chown(path("setuid"), Some(65534), None).is_ok() {
        fs::set_permissions(path("setuid"), fs::Permissions::from_mode(0o4755)).unwrap();
        cases.push((&["./setuid"], "is setuid"));
    }
    for (arguments, said) in cases {
        let output = start(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(said), "{arguments:?}\n{}", text(&output.stderr));
    }
    assert_eq!(fs::read(path("kept.py")).unwrap(), b"print()\n");
}

/// What the hook would warn of and leave off is refused, and nothing else is.
#[test]
fn values_are_those_that_the_hook_takes() {
    let Some(hook) = std::env::var_os("CUDA_HOOK_SO").filter(|_| built("libcuda.so.1").is_some()) else { return };
    let folder = folder(&[]);
    let numbers = [
        "0", "1", "0.5", ".5", "5.", "1e3", "1E-3", "1e-10", "1e13", "1e300", "-1", "+1", "inf", "nan", "x", "1 2",
        "0x10", "1e-7", " 7 ", "1_000", "１",
    ];
    let mut cases: Vec<[&str; 3]> = Vec::new();
    for number in numbers {
        cases.push(["--quota", "CUDA_MEM_QUOTA_MB", number]);
        cases.push(["--rate", "CUDA_CORE_RATE", number]);
        cases.push(["--capacity", "CUDA_CORE_CAPACITY", number]);
        cases.push(["--deny-error", "CUDA_CORE_DENY_ERROR", number.trim()]);
    }
    let long = "n".repeat(65);
    for name in ["a", "a.b_c-D9", "a/b", "a b", "ä", &long, &long[1..]] {
        cases.push(["--shared", "CUDA_HOOK_SHARED", name]);
    }
    for policy in ["deny", "wait", "Deny", "block"] {
        cases.push(["--policy", "CUDA_CORE_POLICY", policy]);
    }
    for [flag, variable, value] in cases {
        let other = match flag {
            "--rate" => "CUDA_CORE_CAPACITY",
            "--capacity" => "CUDA_CORE_RATE",
            _ => "UNUSED",
        };
        let mut by_hand = Command::new("true");
        by_hand.env("LD_PRELOAD", &hook).env(variable, value).env(other, "1").current_dir(folder.path());
        let said = text(&by_hand.output().unwrap().stderr);
        let warned = said.contains("无法使用");
        let output = command(folder.path(), &[&format!("{flag}={value}"), "true"]).env(other, "1").output().unwrap();
        let refused = !text(&output.stderr).contains("no intercepted call");
        assert_eq!(refused, warned, "{flag} {value:?}\n{said}\n{}", text(&output.stderr));
    }
}

/// Sends a signal when the program has said that it is ready; the exit status and standard output.
fn interrupted(signal: &str, to_all: bool) -> (Option<i32>, String) {
    let folder = folder(&[]);
    let script = "trap 'echo int; exit 3' INT; trap 'echo term; exit 4' TERM; : > ready; while :; do sleep 0.05; done";
    let mut child = command(folder.path(), &["--", "sh", "-c", script]);
    let child = child.process_group(0).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let patience = Instant::now() + Duration::from_secs(30);
    while !folder.path().join("ready").exists() {
        assert!(Instant::now() < patience, "it never began");
        thread::sleep(Duration::from_millis(5));
    }
    let to = format!("{}{}", if to_all { "-" } else { "" }, child.id());
    assert!(Command::new("kill").args([signal, "--", &to]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    (output.status.code(), text(&output.stdout))
}

#[test]
fn ctrl_c_is_the_programs_and_a_sigterm_is_handed_on() {
    if built("libcuda.so.1").is_none() {
        return;
    }
    // A terminal sends its interrupt to all in the foreground.
    assert_eq!(interrupted("-INT", true), (Some(3), "int\n".to_owned()));
    assert_eq!(interrupted("-TERM", false), (Some(4), "term\n".to_owned()));
}

#[test]
fn a_log_that_is_named_run_is_read_all_the_same() {
    let folder = folder(&[("run", lab().as_bytes())]);
    for arguments in [&["./run"][..], &["--lang", "en", "run"], &["run.nosuch", "run"], &["--", "run"]] {
        let output = crate::common::run(folder.path(), arguments);
        let named = text(&output.stdout).contains("cudaLaunchKernel") || text(&output.stderr).contains("`run.nosuch`");
        assert!(named, "{arguments:?}\n{}", text(&output.stderr));
    }
}

/// The examples of a help text: what stands before two blanks.
fn examples(arguments: &[&str]) -> Vec<String> {
    let help = Command::new(env!("CARGO_BIN_EXE_hook-analyze")).args(arguments).output().unwrap();
    let help = text(&help.stdout);
    let (_, listed) = help.split_once("Examples:\n").unwrap();
    let listed = listed.split("\n\n").next().unwrap();
    let commands = listed.lines().map(|line| line.trim().split("  ").next().unwrap().to_owned());
    commands.filter(|line| line.contains("hook-analyze")).collect()
}

/// Runs a line as a shell would in `folder`, with the command and what lies in `folder` on the PATH.
fn shell(folder: &Path, line: &str) -> Output {
    let this = Path::new(env!("CARGO_BIN_EXE_hook-analyze")).parent().unwrap();
    let path = format!("{}:{}:{}", folder.display(), this.display(), std::env::var("PATH").unwrap());
    let sim = Path::new(env!("CARGO_MANIFEST_DIR")).join("../build/sim");
    let mut command = Command::new("bash");
    command.args(["-o", "pipefail", "-c", line]).current_dir(folder).env("PATH", path).env("LD_LIBRARY_PATH", sim);
    command.output().unwrap()
}

#[test]
fn the_examples_of_the_help_run() {
    let read = |name: &str| fs::read(crate::common::data(name)).unwrap();
    let folder = folder(&[("hook.log", &read("sim_lab.log")), ("hook.jsonl", &read("sim_lab.jsonl"))]);
    // A log from elsewhere comes from this folder.
    program(&folder.path().join("ssh"), b"#!/bin/sh\nshift\nexec \"$@\"\n");
    let lines = examples(&["--help"]);
    assert!(lines.len() >= 8, "{lines:?}");
    for line in lines {
        // Not everybody has jq.
        let without = line.split(" | jq").next().unwrap();
        let line = if shell(folder.path(), "jq --version").status.success() { &line } else { without };
        let output = shell(folder.path(), line);
        assert_eq!(output.status.code(), Some(0), "{line}\n{}", text(&output.stderr));
    }
    for name in ["timeline.svg", "report.md", "d.csv"] {
        assert!(folder.path().join(name).is_file(), "{name}");
    }
}

#[test]
fn the_examples_of_run_run() {
    let Some(test_hook) = built("test_hook") else { return };
    let folder = folder(&[("train.py", b"import subprocess\nsubprocess.run('./test_hook')\n")]);
    fs::copy(test_hook, folder.path().join("test_hook")).unwrap();
    program(&folder.path().join("torchrun"), b"#!/bin/sh\n./test_hook\npython3 \"$@\"\n");
    let lines = examples(&["run", "--help"]);
    assert!(lines.len() >= 3, "{lines:?}");
    for line in lines {
        let name = format!("--shared examples-{} ", std::process::id());
        let output = shell(folder.path(), &line.replace("--shared job ", &name));
        assert_eq!(output.status.code(), Some(0), "{line}\n{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("cudaLaunchKernel"), "{line}\n{}", text(&output.stderr));
    }
    // The account that they shared.
    for file in fs::read_dir("/dev/shm").unwrap().map(|entry| entry.unwrap().path()) {
        if file.to_string_lossy().ends_with(&format!("-examples-{}", std::process::id())) {
            fs::remove_file(file).unwrap();
        }
    }
}
