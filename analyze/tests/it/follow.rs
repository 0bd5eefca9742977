//! Following a log: figures while it grows, through truncation and rotation, and an ordinary run's at the end.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{data, folder, lab, run, text};

/// Longer than any stall of a busy machine.
const LONG: Duration = Duration::from_secs(60);

/// The program, following `a.log`, and the lines that it prints.
struct Follower {
    child: Child,
    lines: Receiver<String>,
}

impl Follower {
    fn start(folder: &Path, arguments: &[&str]) -> Follower {
        Self::start_with(folder, &[&["a.log"], arguments].concat(), Stdio::null())
    }

    fn start_with(folder: &Path, arguments: &[&str], stdin: Stdio) -> Follower {
        let mut child = Command::new(env!("CARGO_BIN_EXE_hook-analyze"))
            .args(["-f", "--interval", "0.05"])
            .args(arguments)
            .current_dir(folder)
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Follower { child, lines }
    }

    /// The first line that is as wanted.
    fn wait_for(&self, wanted: impl Fn(&str) -> bool) -> String {
        let until = Instant::now() + LONG;
        loop {
            let line = self.lines.recv_timeout(until.saturating_duration_since(Instant::now())).unwrap();
            if wanted(&line) {
                return line;
            }
        }
    }

    /// Interrupts it: its exit status, what it still printed, and what it complained of.
    fn interrupt(mut self) -> (Option<i32>, Vec<String>, String) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        let lines = self.lines.iter().collect();
        let mut complaint = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
        (self.child.wait().unwrap().code(), lines, complaint)
    }
}

fn append(folder: &Path, text: &str) {
    let mut file = File::options().append(true).create(true).open(folder.join("a.log")).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn calls(json: &str) -> u64 {
    let figures: Value = serde_json::from_str(json).unwrap();
    figures["apis"].as_array().unwrap().iter().map(|api| api["calls"].as_u64().unwrap()).sum()
}

#[test]
fn figures_come_as_the_log_grows_and_end_as_an_ordinary_run() {
    let folder = folder(&[("a.log", b"")]);
    let follower = Follower::start(folder.path(), &["--json"]);
    let log = lab();
    let (first, rest) = log.split_at(log.find("[HOOK] cudaFree").unwrap());
    append(folder.path(), first);
    let seen = first.matches("[HOOK] cuda").count() as u64;
    follower.wait_for(|json| calls(json) == seen);
    // In halves of lines, with another program's between.
    let (half, other_half) = rest.split_at(rest.len() / 2 - 3);
    append(folder.path(), half);
    append(folder.path(), other_half);
    append(folder.path(), "some other program\n[HOOK] cudaMal");
    follower.wait_for(|json| calls(json) == 25);
    let (code, lines, complaint) = follower.interrupt();
    assert_eq!((code, complaint.as_str()), (Some(0), ""));
    let last: Value = serde_json::from_str(lines.last().unwrap()).unwrap();
    let offline: Value = serde_json::from_slice(&run(folder.path(), &["a.log", "--json"]).stdout).unwrap();
    assert_eq!(last, offline);
    assert_eq!((&last["inputs"][0]["cut_lines"], &last["inputs"][0]["other_lines"]), (&1.into(), &1.into()));
}

#[test]
fn the_last_summary_takes_the_event_file_in() {
    let log = fs::read(data("sim_lab.log")).unwrap();
    let jsonl = fs::read(data("sim_lab.jsonl")).unwrap();
    let folder = folder(&[("a.log", &log), ("a.jsonl", &jsonl)]);
    let follower = Follower::start(folder.path(), &["--json"]);
    follower.wait_for(|json| calls(json) == 25);
    let (_, lines, _) = follower.interrupt();
    let last: Value = serde_json::from_str(lines.last().unwrap()).unwrap();
    assert_eq!(last["time"]["base"], "monotonic");
}

#[test]
fn without_a_terminal_a_line_comes_with_each_change_and_the_summary_last() {
    let folder = folder(&[("a.log", lab().as_bytes())]);
    let follower = Follower::start(folder.path(), &["--lang", "en"]);
    let line = follower.wait_for(|_| true);
    assert_eq!(line, "calls 25 (+25), denied 13, failed 0; live 0 MB, peak 64 MB; tokens 0");
    append(folder.path(), "[HOOK] cudaMalloc(1048576) -> 0x7f00 | total: 1.0 MB\n");
    let line = follower.wait_for(|_| true);
    assert_eq!(line, "calls 26 (+1), denied 13, failed 0; live 1 MB, peak 64 MB; tokens 0");
    let (code, lines, _) = follower.interrupt();
    let offline = text(&run(folder.path(), &["a.log", "--lang", "en"]).stdout);
    assert_eq!((code, lines), (Some(0), offline.lines().map(str::to_owned).collect()));
}

#[test]
fn truncation_and_rotation_lose_nothing_that_was_read() {
    for rotate in [false, true] {
        let folder = folder(&[("a.log", lab().as_bytes())]);
        let follower = Follower::start(folder.path(), &["--json"]);
        follower.wait_for(|json| calls(json) == 25);
        append(folder.path(), "[HOOK] cudaMalloc(10485");
        if rotate {
            fs::rename(folder.path().join("a.log"), folder.path().join("a.log.1")).unwrap();
        } else {
            // The half line is read before it is gone.
            thread::sleep(Duration::from_millis(400));
            File::create(folder.path().join("a.log")).unwrap();
        }
        append(folder.path(), &lab().lines().take(9).map(|line| format!("{line}\n")).collect::<String>());
        follower.wait_for(|json| calls(json) == 25 + 7);
        let (code, lines, _) = follower.interrupt();
        assert_eq!(code, Some(0));
        let last: Value = serde_json::from_str(lines.last().unwrap()).unwrap();
        let classes = &last["inputs"][0]["classes"];
        // What was read is what was there, before and after: two runs, and the half line between.
        assert_eq!((calls(lines.last().unwrap()), last["processes"].as_array().unwrap().len()), (32, 2));
        if rotate {
            assert_eq!(classes["torn"]["lines"], 1, "{classes}");
        }
        assert_eq!(last["inputs"][0]["bad_lines"], classes["torn"]["lines"]);
    }
}

#[test]
fn a_log_that_is_not_there_yet_is_waited_for_and_an_empty_one_explained() {
    let folder = folder(&[]);
    let follower = Follower::start(folder.path(), &["--json"]);
    thread::sleep(Duration::from_millis(100));
    append(folder.path(), &lab());
    follower.wait_for(|json| calls(json) == 25);
    let (code, _, complaint) = follower.interrupt();
    assert_eq!(code, Some(0));
    assert!(complaint.contains("waiting for `a.log`"), "{complaint}");
    File::create(folder.path().join("a.log")).unwrap();
    let follower = Follower::start(folder.path(), &["--lang", "en"]);
    thread::sleep(Duration::from_millis(300));
    let (code, lines, complaint) = follower.interrupt();
    assert_eq!((code, lines.len()), (Some(2), 0));
    assert!(complaint.contains("no intercepted call"), "{complaint}");
}

#[test]
fn what_does_not_go_with_following_is_refused() {
    let folder = folder(&[("a.log", lab().as_bytes()), ("b.log", lab().as_bytes())]);
    for arguments in [
        &["a.log", "b.log", "-f"][..],
        &["a.log", "-f", "--csv", "c.csv"],
        &["a.log", "-f", "--outcome", "denied"],
        &["a.log", "--interval", "2"],
        &["a.log", "-f", "--interval", "0"],
        &["a.log", "-f", "--interval", "nan"],
    ] {
        let output = run(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(!output.stderr.is_empty());
    }
}

/// A log that holds each call as a line and as a record.
fn both_kinds() -> String {
    let read = |name: &str| fs::read_to_string(data(name)).unwrap();
    let (log, jsonl) = (read("sim_lab.log"), read("sim_lab.jsonl"));
    log.lines().zip(jsonl.lines()).map(|(line, record)| format!("{line}\n{record}\n")).collect()
}

#[test]
fn calls_that_are_lines_and_records_of_one_log_count_once_while_it_grows() {
    let folder = folder(&[("a.log", b"")]);
    let follower = Follower::start(folder.path(), &["--json"]);
    append(folder.path(), &both_kinds());
    // Never more than there are, whatever was read when.
    follower.wait_for(|json| {
        assert!(calls(json) <= 25, "{json}");
        calls(json) == 25
    });
    fs::rename(folder.path().join("a.log"), folder.path().join("a.log.1")).unwrap();
    append(folder.path(), &both_kinds());
    let json = follower.wait_for(|json| json.contains("was cut or replaced"));
    assert!(calls(&json) <= 25, "{json}");
    let (code, lines, _) = follower.interrupt();
    assert_eq!((code, calls(lines.last().unwrap())), (Some(0), 25));
}

#[test]
fn a_pipe_that_holds_calls_as_lines_and_as_records_is_refused() {
    let folder = folder(&[("a.log", both_kinds().as_bytes())]);
    let shell = format!("cat a.log | {} -f - --json", env!("CARGO_BIN_EXE_hook-analyze"));
    let output = Command::new("bash").args(["-c", &shell]).current_dir(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("which may be the same calls; save it to a file"),
        "{}",
        text(&output.stderr)
    );
    assert!(text(&output.stdout).lines().all(|json| calls(json) <= 25));
}

#[test]
fn an_interrupt_ends_a_pipe_whose_writer_lives() {
    let folder = folder(&[]);
    assert!(Command::new("mkfifo").arg(folder.path().join("a.log")).status().unwrap().success());
    // Opened for both, so that no end waits for the other.
    let mut writer = File::options().read(true).write(true).open(folder.path().join("a.log")).unwrap();
    let (from, mut to) = std::io::pipe().unwrap();
    for (stdin, argument, pipe) in
        [(Stdio::null(), "a.log", &mut writer as &mut dyn Write), (Stdio::from(from), "-", &mut to as &mut dyn Write)]
    {
        let follower = Follower::start_with(folder.path(), &[argument, "--json"], stdin);
        pipe.write_all(lab().as_bytes()).unwrap();
        pipe.write_all(b"[HOOK] cudaMal").unwrap();
        follower.wait_for(|json| calls(json) == 25);
        let (code, lines, complaint) = follower.interrupt();
        assert_eq!((code, complaint.as_str()), (Some(0), ""), "{argument}");
        let last: Value = serde_json::from_str(lines.last().unwrap()).unwrap();
        assert_eq!((calls(lines.last().unwrap()), &last["inputs"][0]["cut_lines"]), (25, &1.into()), "{argument}");
    }
}

#[test]
fn an_interrupt_ends_the_wait_for_a_pipes_first_writer() {
    let folder = folder(&[]);
    assert!(Command::new("mkfifo").arg(folder.path().join("a.log")).status().unwrap().success());
    let follower = Follower::start(folder.path(), &["--lang", "en"]);
    // The signal must find its handler in place.
    thread::sleep(Duration::from_millis(500));
    let (code, _, complaint) = follower.interrupt();
    assert_eq!(code, Some(2));
    assert!(complaint.contains("no intercepted call in `a.log`"), "{complaint}");
}

/// `script` of util-linux gives a program a terminal.
#[test]
fn on_a_terminal_the_summary_is_drawn_anew_and_slow_inputs_show_a_bar() {
    let folder = folder(&[("a.log", lab().as_bytes())]);
    let program = env!("CARGO_BIN_EXE_hook-analyze");
    let follow = format!("timeout -s INT 5 {program} a.log -f --interval 0.1 --lang en");
    let screen = |shell: &str| {
        let output = Command::new("script").args(["-qec", shell, "/dev/null"]).current_dir(folder.path()).output();
        text(&output.unwrap().stdout)
    };
    let drawn = screen(&follow);
    assert!(drawn.matches("\x1b[H\x1b[2J").count() >= 2, "{drawn:?}");
    assert!(drawn.contains("cudaLaunchKernel") && drawn.contains("duration: first to last launch ≥ 600 ms"), "{drawn}");
    // The second half comes when a second has passed, and a third after that.
    let slow =
        format!("bash -c '(cat a.log; sleep 1.3; cat a.log; sleep 0.3; cat a.log) | {program} - --json > out.json'");
    let drawn = screen(&slow);
    assert!(drawn.contains("\r\x1b[K-  0 MB") && drawn.ends_with("\r\x1b[K"), "{drawn:?}");
    let figures: Value = serde_json::from_slice(&fs::read(folder.path().join("out.json")).unwrap()).unwrap();
    assert_eq!(figures["inputs"][0]["lines"], 81);
    // Without a terminal there is none.
    let quiet = Command::new("bash").args(["-c", &slow]).current_dir(folder.path()).output().unwrap();
    assert!(quiet.stderr.is_empty() && quiet.stdout.is_empty());
}
