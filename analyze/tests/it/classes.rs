//! Every line has one class; what was not understood can be written out, or made an error.

use hook_analyze::classes::Class;
use serde_json::{Value, json};

use crate::common::{folder, lab, of_text, run, text};

const JUNK: [(&[u8], Class); 7] = [
    (b"[HOOK] something new\n", Class::UnknownHook),
    (b"[HOOK] cudaMalloc(671\n", Class::Torn),
    (b"[HOOK] cudaLaunchKernel(grid=[HOOK] cudaFree(0x7f00) -> 0\n", Class::Torn),
    (b"{\"ev\":\"call\",\"seq\":1\n", Class::Torn),
    (b"\xff\xff\xff junk\n", Class::Undecodable),
    (b"make: *** [Makefile:3: test] Error 1\n", Class::Other),
    (b"[HAMI-core Msg(2013:14053174\n", Class::Torn),
];

/// The lab's log with junk of every class behind it, and a cut last line.
fn mixed() -> Vec<u8> {
    let mut log = lab().into_bytes();
    JUNK.iter().for_each(|(line, _)| log.extend_from_slice(line));
    log.extend_from_slice(&b"x".repeat(3 << 20));
    log.extend_from_slice(b"\n[HOOK] cudaMal");
    log
}

#[test]
fn classes_are_counted_with_their_first_lines_and_add_up() {
    let (events, analysis) = of_text(mixed());
    let input = &analysis.summary.inputs[0];
    let classes = &input.classes;
    let of = |class| (classes.of(class).lines, classes.of(class).first_line());
    assert_eq!(of(Class::Event), (25, Some(3)));
    assert_eq!(of(Class::Banner), (2, Some(1)));
    assert_eq!(of(Class::UnknownHook), (1, Some(28)));
    assert_eq!(of(Class::Torn), (4, Some(29)));
    assert_eq!(of(Class::Undecodable), (1, Some(32)));
    assert_eq!(of(Class::Other), (1, Some(33)));
    assert_eq!(of(Class::Oversized), (1, Some(35)));
    assert_eq!(of(Class::Truncated), (1, Some(36)));
    assert_eq!((classes.lines(), input.lines), (36, 36));
    // The keys that were there before are sums of these.
    assert_eq!((input.other_lines, input.bad_lines, input.oversized_lines, input.cut_lines), (1, 6, 1, 1));
    assert_eq!(events.sources[0].first_fault.as_ref().unwrap().line, 28);
}

#[test]
fn all_classes_are_in_the_json_and_those_that_have_lines_in_summary_and_report() {
    let folder = folder(&[("a.log", &mixed())]);
    let output = run(folder.path(), &["a.log", "--json"]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let classes = json["inputs"][0]["classes"].as_object().unwrap();
    assert_eq!(classes.len(), Class::ALL.len());
    assert!(Class::ALL.iter().all(|class| classes.contains_key(class.name())), "{classes:?}");
    assert_eq!(classes["torn"], json!({"lines": 4, "first_line": 29}));
    // Long lines are broken between words.
    let unbroken = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let summary = unbroken(text(&run(folder.path(), &["a.log", "--lang", "en"]).stdout));
    assert!(summary.contains("25 calls (from line 3), 2 banners (from line 1), 1 unknown [HOOK] (from line 28)"));
    assert!(summary.contains("1 truncated tail (from line 36), 1 oversized (from line 35)"), "{summary}");
    let summary = text(&run(folder.path(), &["a.log"]).stdout).replace([' ', '\n'], "");
    assert!(summary.contains("残缺4(自第29行)"), "{summary}");
    assert!(run(folder.path(), &["a.log", "--report", "r.md", "--lang", "en"]).status.success());
    let report = std::fs::read_to_string(folder.path().join("r.md")).unwrap();
    assert!(report.contains("4 torn (from line 29)"), "{report}");
}

#[test]
fn a_class_that_has_no_line_is_zero_and_null() {
    let folder = folder(&[("a.log", lab().as_bytes())]);
    let json: Value = serde_json::from_slice(&run(folder.path(), &["a.log", "--json"]).stdout).unwrap();
    assert_eq!(json["inputs"][0]["classes"]["torn"], json!({"lines": 0, "first_line": null}));
    assert!(!text(&run(folder.path(), &["a.log", "--lang", "en"]).stdout).contains("torn"));
}

#[test]
fn rejected_lines_are_written_with_their_places() {
    let folder = folder(&[("a.log", &mixed()), ("b.log", b"[HOOK] cudaFree(0x7f00) -> 0\n[HOOK] new\n")]);
    for extra in [&["--json"][..], &["--csv", "c.csv"]] {
        let output = run(folder.path(), &[&["a.log", "b.log", "--rejects", "r.txt"], extra].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        let rejects = std::fs::read_to_string(folder.path().join("r.txt")).unwrap();
        let lines: Vec<&str> = rejects.lines().collect();
        assert_eq!(lines.len(), 1 + 4 + 1 + 1 + 1 + 1);
        assert_eq!((lines[0], lines[1]), ("a.log:28: [HOOK] something new", "a.log:29: [HOOK] cudaMalloc(671"));
        assert!(lines.contains(&"a.log:36: [HOOK] cudaMal") && lines.contains(&"b.log:2: [HOOK] new"), "{rejects}");
        assert!(!rejects.contains("Makefile"));
    }
    let output = run(folder.path(), &["a.log", "--rejects", "a.log"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn strict_names_the_first_line_that_was_not_understood() {
    for (junk, class) in JUNK {
        let log = [lab().as_bytes(), junk].concat();
        let folder = folder(&[("a.log", &log)]);
        let output = run(folder.path(), &["a.log", "--strict"]);
        let message = text(&output.stderr);
        if class == Class::Other {
            assert!(output.status.success(), "{message}");
            continue;
        }
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
        assert!(message.contains("`a.log` line 28") && message.contains(class.texts().1), "{message}");
        assert!(message.contains("--rejects FILE"), "{message}");
        if let Ok(junk) = std::str::from_utf8(junk) {
            assert!(message.contains(junk.trim_end()), "{message}");
        }
    }
    // A log that ends in the middle of a line is what a kill leaves.
    let cut = format!("{}[HOOK] cudaMal", lab());
    assert!(run(folder(&[("a.log", cut.as_bytes())]).path(), &["a.log", "--strict"]).status.success());
}

#[test]
fn a_files_name_is_shown_and_never_obeyed() {
    let name = "学号,a\x1b[31m\nb.log";
    for (log, arguments) in [
        ("[HOOK] new\n", &["--strict"][..]),
        ("\u{feff}PK", &[]),
        ("", &["--csv", "no\x1b/c.csv"]),
        (lab().as_str(), &["--csv", "no\x1b/c.csv"]),
        (lab().as_str(), &["--csv", name]),
        (lab().as_str(), &["--events", "no\nsuch.jsonl"]),
    ] {
        let folder = folder(&[(name, log.as_bytes())]);
        let output = run(folder.path(), &[&[name], arguments].concat());
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{message:?}");
        assert!(
            !message.contains('\x1b') && !message.contains("\nb.log") && !message.contains("\nsuch"),
            "{message:?}"
        );
    }
    let folder = folder(&[(name, b"[HOOK] cudaFree(0x7f00) -> 0\n[HOOK] new\n")]);
    assert!(run(folder.path(), &[name, "--rejects", "r.txt"]).status.success());
    let rejects = std::fs::read_to_string(folder.path().join("r.txt")).unwrap();
    assert_eq!(rejects, "学号,a\u{fffd}[31m\u{fffd}b.log:2: [HOOK] new\n");
}
