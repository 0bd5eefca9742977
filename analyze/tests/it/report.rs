//! Reports and charts: whole tables, existing images, every call drawn, hostile names shown as text.

use std::path::Path;

use pulldown_cmark::{Event, Options, Parser, Tag};

use crate::common::{data, folder, lab, run};

fn made(log: &Path, lang: &str) -> (tempfile::TempDir, String) {
    let folder = folder(&[]);
    let output =
        run(folder.path(), &[log.to_str().unwrap(), "--report", "report.md", "--plot", "t.svg", "--lang", lang]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report = std::fs::read_to_string(folder.path().join("report.md")).unwrap();
    (folder, report)
}

/// Reads a report as GitHub does. Each row of each table has as many cells as its head, each image is there, and nothing in
/// it is HTML or a link but those that the template has.
fn assert_sound(folder: &Path, report: &str) {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_GFM;
    let (mut tables, mut images) = (0, 0);
    for event in Parser::new_ext(report, options) {
        match event {
            Event::Html(html) | Event::InlineHtml(html) => panic!("`{html}` is HTML in\n{report}"),
            Event::Start(Tag::Table(_)) => tables += 1,
            Event::Start(Tag::Image { dest_url, .. }) => {
                images += 1;
                assert!(folder.join(unquoted(&dest_url)).is_file(), "{dest_url} is not there");
            }
            Event::Start(Tag::Link { dest_url, .. }) => {
                let known = ["nvidia.com", "github.com", "man7.org"].map(|host| format!("{host}/"));
                assert!(known.iter().any(|host| dest_url.contains(host)), "a link to {dest_url}");
            }
            _ => {}
        }
    }
    assert!(tables >= 5 && images <= 6, "{tables} tables, {images} images in\n{report}");
    // The parser fills rows that are short and cuts those that are long: they are counted as they stand.
    let mut width = 0;
    for line in report.lines() {
        let cells = if line.starts_with('|') { line.replace("\\|", "").matches('|').count() } else { 0 };
        assert!(cells == 0 || width == 0 || cells == width, "a row of {cells} where {width} are due: {line}");
        assert!(cells == 0 || line.ends_with('|'), "{line}");
        width = cells;
    }
    // Tables that the parser found are all that look like one.
    let heads = report.lines().filter(|line| line.starts_with("|---") || line.starts_with("|:")).count();
    assert_eq!(heads, tables, "tables in\n{report}");
    for left in ["{{", "{%", "{#", "#}", "None", "NaN", "inf ", "undefined", "none)"] {
        assert!(!report.contains(left), "{left} in\n{report}");
    }
}

/// A link's target as a file's name.
fn unquoted(link: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = link;
    while let Some((before, after)) = rest.split_once('%') {
        bytes.extend(before.bytes());
        bytes.push(u8::from_str_radix(&after[..2], 16).unwrap());
        rest = &after[2..];
    }
    bytes.extend(rest.bytes());
    String::from_utf8(bytes).unwrap()
}

#[test]
fn the_report_has_the_courses_sections_and_its_images_exist() {
    for (lang, headings) in [
        (
            "zh",
            [
                "## 1 概述",
                "## 2 架构设计",
                "## 3 实现细节",
                "## 4 实验与分析",
                "### 4.1 实验环境",
                "### 4.2 实验一",
                "### 4.5 综合讨论",
                "## 5 遇到的问题与解决方案",
                "## 6 总结与反思",
                "## 7 参考资料",
                "## 附录: 代码运行说明",
            ],
        ),
        (
            "en",
            [
                "## 1 Overview",
                "## 2 Architecture",
                "## 3 Implementation",
                "## 4 Experiments",
                "### 4.1 Environment",
                "### 4.2 Experiment 1",
                "### 4.5 Discussion",
                "## 5 Problems",
                "## 6 Summary",
                "## 7 References",
                "## Appendix",
            ],
        ),
    ] {
        for log in ["course_h200_cuda13.log", "sim_lab.log", "torch_quota_h200.log", "torch_launches_denied_h200.log"] {
            let (folder, report) = made(&data(log), lang);
            let mut rest = report.as_str();
            for heading in headings {
                let at =
                    rest.find(heading).unwrap_or_else(|| panic!("{heading} is missing or out of order in\n{report}"));
                rest = &rest[at..];
            }
            assert_sound(folder.path(), &report);
            assert!(report.contains(if lang == "zh" { "**[待填写: " } else { "**[to fill in: " }));
        }
    }
}

#[test]
fn the_labs_report_tells_what_happened() {
    let (_folder, report) = made(&data("sim_lab.log"), "en");
    for said in [
        "**25** calls were intercepted, **13** of them denied by the hook (52.0 %)",
        "| cudaLaunchKernel | 18 | 6 | 12 | 0 | 66.7 % |",
        "| 4 | 2048 MB (2147483648 bytes) | 64 MB | 2112 MB | 128 MB |",
        "| 1 | 5 | passed | 3 | 2.0 → 0.0 |",
        "| 2 | 8 | denied | 7 | 0.0 → 0.0 |",
        "gains one every 200 ms",
        "the first 3 launches passed in a row",
        "3 launches passed again",
        "| (2,2,2) | (64,1,1) | 1 | 1 | 0 |",
        "monotonic clock of the event records, 1.5",
        "it gained 5 tokens a second; it was set to 5",
        "from 0.0 to 3.0 tokens, in 1.5 s; that is a full bucket",
        "never exceeds 128 MB; its peak is 64 MB (50.0 %)",
        "`cudaErrorLaunchFailure` is 719",
        "| cudaLaunchKernel | 6 | 6 | ",
    ] {
        assert!(report.contains(said), "`{said}` is not in\n{report}");
    }
}

#[test]
fn a_report_says_only_what_its_log_shows() {
    let report = |text: &str| {
        let folder = folder(&[("a.log", text.as_bytes())]);
        let (made, report) = made(&folder.path().join("a.log"), "en");
        assert_sound(made.path(), &report);
        report
    };
    // Two runs: the second one's full bucket is no recovery of the first.
    let run = "[HOOK] 显存配额: 无限制 (仅记录)\n[HOOK] 算力限速: 5 tokens/s, burst 1\n\
               [HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) -> 0 | tokens=0.0\n\
               [HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) DENIED | tokens=0.0\n";
    let twice = report(&run.repeat(2));
    assert!(twice.contains("no recovery after a denial") && !twice.contains("passed again"), "{twice}");
    assert!(twice.contains("| process | phase |"), "{twice}");
    // A denial with tokens left.
    let wrong = report(&run.replace("DENIED | tokens=0.0", "DENIED | tokens=1.5"));
    assert!(wrong.contains("denied with 1.5 tokens left") && !wrong.contains("found less than one token"), "{wrong}");
    // A hook that does not subtract, and one that prints no total.
    let malloc = "[HOOK] cudaMalloc(1048576) -> 0x7f00 | total: 1.0 MB\n";
    for free in ["[HOOK] cudaFree(0x7f00) -> 0 | total: 1.0 MB\n", "[HOOK] cudaFree(0x8f00) -> 0\n"] {
        let text = report(&format!("{malloc}{free}"));
        assert!(!text.contains("subtracted exactly"), "{text}");
    }
    assert!(report(malloc).contains("holds no `cudaFree`"));
    // Another program than the lab's, another hook than ours.
    assert!(twice.contains("**[to fill in: how your program launches kernels]**"));
    assert!(twice.contains("the log does not say how the hook works"));
}

#[test]
fn launches_that_waited_are_told_of() {
    let text = "[HOOK] 显存配额: 无限制 (仅记录)\n[HOOK] 算力限速: 5 tokens/s, burst 1\n\
                [HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) -> 0 | tokens=0.0\n\
                [HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) -> 0 | tokens=0.0 | waited: 200.1 ms\n";
    let folder = folder(&[("a.log", text.as_bytes())]);
    let report = made(&folder.path().join("a.log"), "en").1;
    assert!(report.contains("1 launches waited for their token, 200.1 ms in the median"), "{report}");
}

#[test]
fn the_chart_draws_every_launch_with_its_outcome() {
    let (folder, _) = made(&data("course_h200_cuda13.log"), "zh");
    let svg = std::fs::read_to_string(folder.path().join("t.svg")).unwrap();
    // Call by call, each of the 6 passes is a circle of its own; over time three of each burst fall on one place, and
    // there is one in each legend. 6 + 2 × 3 + 2.
    assert_eq!(svg.matches("<circle").count(), 14);
    for said in
        ["令牌数: 随时间", "令牌数: 逐次调用", "显存 (MB): 逐次调用", "2048 MB ↑", "由令牌增长推算, 桶满处为下界"]
    {
        assert!(svg.contains(said), "{said}");
    }
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
}

#[test]
fn a_log_of_thousands_of_launches_makes_a_small_chart() {
    let launch = "[HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) -> 0 | tokens=2.0\n\
                  [HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) DENIED | tokens=0.5\n";
    let log =
        format!("[HOOK] 显存配额: 无限制 (仅记录)\n[HOOK] 算力限速: 5 tokens/s, burst 3\n{}", launch.repeat(20_000));
    let folder = folder(&[("a.log", log.as_bytes())]);
    assert!(run(folder.path(), &["a.log", "--plot", "t.svg"]).status.success());
    let size = std::fs::metadata(folder.path().join("t.svg")).unwrap().len();
    assert!(size < 1_000_000, "{size}");
}

#[test]
fn hostile_names_are_shown_and_not_run() {
    let hostile = "<script>alert(1)</script>|`x`\\u001b[2J";
    let jsonl = std::fs::read_to_string(data("sim_lab.jsonl"))
        .unwrap()
        .replace("\"host\":\"vm\"", &format!("\"host\":\"{hostile}\""));
    let folder = folder(&[("<b>&\"x.jsonl", jsonl.as_bytes())]);
    let output = run(folder.path(), &["<b>&\"x.jsonl", "--report", "r.md", "--plot", "t.svg"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report = std::fs::read_to_string(folder.path().join("r.md")).unwrap();
    assert!(report.contains("&lt;script&gt;") && !report.contains("<script>") && !report.contains('\u{1b}'));
    assert_sound(folder.path(), &report);
    let svg = std::fs::read_to_string(folder.path().join("t.svg")).unwrap();
    assert!(svg.contains("&lt;b&gt;&amp;") && !svg.contains("<b>"));
}

#[test]
fn without_launches_or_allocations_the_outputs_say_so() {
    let only_memory: String =
        lab().lines().filter(|line| !line.contains("Launch")).map(|line| format!("{line}\n")).collect();
    let only_launches: String = lab()
        .lines()
        .filter(|line| !line.contains("Malloc(") && !line.contains("Free("))
        .map(|line| format!("{line}\n"))
        .collect();
    for (log, said) in [(only_memory, "The log holds no launch."), (only_launches, "The log holds no allocation.")] {
        let folder = folder(&[("a.log", log.as_bytes())]);
        let (made, report) = made(&folder.path().join("a.log"), "en");
        assert!(report.contains(said), "{report}");
        assert_sound(made.path(), &report);
    }
}

#[test]
fn reports_of_all_logs_are_sound_in_both_languages() {
    for entry in std::fs::read_dir(data("")).unwrap() {
        let log = entry.unwrap().path();
        if log.extension().is_none_or(|ending| ending == "md")
            || log.to_string_lossy().ends_with(".txt")
            || log.is_dir()
        {
            continue;
        }
        for lang in ["zh", "en"] {
            let (folder, report) = made(&log, lang);
            assert_sound(folder.path(), &report);
        }
    }
}

/// Names that want to be something else, in every place where a log can put one.
#[test]
fn nothing_that_a_log_names_becomes_markdown() {
    let hostile = [
        "<script>alert(1)</script>",
        "a|b||c",
        "`x` ``y`` ```",
        "![i](x.png) [l](http://a.b)",
        "http://evil.example/x www.evil.example",
        "a\\u000a\\u000a# heading\\u000a| a |\\u000a|---|",
        "- item",
        "{{ figures }} {% if x %}",
        "\\u001b[2J\\u202e",
    ];
    let jsonl = std::fs::read_to_string(data("sim_lab.jsonl")).unwrap();
    for name in hostile {
        let name = name.replace("{{", "{ {").replace("{%", "{ %");
        let text = jsonl
            .replace("\"host\":\"vm\"", &format!("\"host\":\"{name}\""))
            .replace("\"shmem\":", &format!("\"kernel\":\"{name}\",\"shmem\":"))
            .replace("\"api\":\"cudaFree\"", &format!("\"api\":\"{name}\""))
            + &format!("[HOOK] {name}\n");
        assert_ne!(text, jsonl);
        for lang in ["zh", "en"] {
            let folder = folder(&[("a.jsonl", text.as_bytes())]);
            let output = run(folder.path(), &["a.jsonl", "--report", "r.md", "--lang", lang]);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let report = std::fs::read_to_string(folder.path().join("r.md")).unwrap();
            assert_sound(folder.path(), &report);
            assert!(report.contains("| kernel |"), "{report}");
            assert!(!report.contains('\u{1b}') && !report.contains('\u{202e}'));
        }
    }
}

#[test]
fn launches_that_only_waited_are_no_denials() {
    let (_folder, report) = {
        let text = "[HOOK] 显存配额: 无限制 (仅记录)\n[HOOK] 算力限速: 5 tokens/s, burst 1\n\
                    [HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) -> 0 | tokens=0.0\n\
                    [HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) -> 0 | tokens=0.0 | waited: 200.1 ms\n";
        let folder = folder(&[("a.log", text.as_bytes())]);
        made(&folder.path().join("a.log"), "zh")
    };
    assert!(report.contains("这种方式推迟启动而不拒绝") && !report.contains("次拒绝就是例子"), "{report}");
}

#[test]
fn a_report_names_its_inputs_by_their_digest() {
    let folder = folder(&[("a.log", lab().as_bytes())]);
    let output = run(folder.path(), &["a.log", "--report", "r.md", "--lang", "en"]);
    assert!(output.status.success());
    let report = std::fs::read_to_string(folder.path().join("r.md")).unwrap();
    let sum = std::process::Command::new("sha256sum").arg(folder.path().join("a.log")).output().unwrap();
    let sum = String::from_utf8(sum.stdout).unwrap();
    let digest = sum.split(' ').next().unwrap();
    assert!(digest.len() == 64 && report.contains(digest), "{digest} is not in\n{report}");
    assert!(report.contains("hook-analyze a.log --report r.md --lang en\n```"));
}

#[test]
fn a_template_of_ones_own_is_filled_in() {
    let template = "# {{ figures.apis[0].api }}: {{ figures.apis|length }}\n\
                    {% for p in processes %}\n* {{ p.host }} {{ p.exe }}\n{% endfor %}\n\
                    {% if figures.filter %}\nfiltered\n{% endif %}\n\
                    ![t]({{ charts.tokens.file|safe }}) {{ made.inputs[0].sha256|length }} {{ machine.none_such is undefined }}\n";
    let folder = folder(&[("a.jsonl", &std::fs::read(data("sim_lab.jsonl")).unwrap()), ("t.md", template.as_bytes())]);
    let output = run(folder.path(), &["a.jsonl", "--report", "r.md", "--template", "t.md"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report = std::fs::read_to_string(folder.path().join("r.md")).unwrap();
    assert!(report.starts_with("# cudaLaunchKernel: 3\n* vm "), "{report}");
    assert!(
        report.ends_with("![t](r-tokens.svg) 64 True\n") || report.ends_with("![t](r-tokens.svg) 64 True"),
        "{report}"
    );
    // The built-in one, brought as one's own, makes the same report.
    for lang in ["zh", "en"] {
        let printed = run(folder.path(), &["--print-template", "--lang", lang]);
        assert!(printed.status.success());
        std::fs::write(folder.path().join("own.md"), &printed.stdout).unwrap();
        let made = |rest: &[&str]| {
            let output = run(folder.path(), &[&["a.jsonl", "--report", "r.md", "--lang", lang], rest].concat());
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let report = std::fs::read_to_string(folder.path().join("r.md")).unwrap();
            // The date may have turned, and the command differs.
            report
                .lines()
                .filter(|line| !line.contains("hook-analyze"))
                .map(|line| format!("{line}\n"))
                .collect::<String>()
        };
        assert_eq!(made(&[]), made(&["--template", "own.md"]));
    }
}

#[test]
fn a_template_that_is_wrong_is_named_with_the_line() {
    for (template, line, why) in [
        ("a\n\n{{ figures.apis[0].name }}\n", 3, "undefined"),
        ("{{ nothing }}\n", 1, "undefined"),
        ("a\n{% for x in apis %}\n", 2, "unexpected end of input"),
        ("a\n{{ calls|nosuch }}\n", 2, "nosuch"),
        ("{% if calls %}\n{% endfor %}\n", 2, "endfor"),
    ] {
        let folder = folder(&[("a.log", lab().as_bytes()), ("t.md", template.as_bytes())]);
        let output = run(folder.path(), &["a.log", "--report", "r.md", "--template", "t.md"]);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(&format!("`t.md` line {line}")) && message.contains(why), "{message}");
        assert!(!folder.path().join("r.md").exists());
    }
    let folder = folder(&[("a.log", lab().as_bytes())]);
    for arguments in [&["a.log", "--report", "r.md", "--template", "none.md"][..], &["a.log", "--template", "a.log"]] {
        assert_eq!(run(folder.path(), arguments).status.code(), Some(2));
    }
    let over = run(folder.path(), &["a.log", "--report", "a.md", "--template", "a.md"]);
    assert_eq!(over.status.code(), Some(2));
}

#[test]
fn what_other_limiters_do_not_tell_is_not_denied() {
    // Launches without dimensions, in processes with buckets of their own.
    let (_folder, report) = made(&data("nogpu_token_bucket.log"), "en");
    assert!(report.contains("- process 2: "), "{report}");
    assert!(report.contains("The log tells no dimensions of launches."), "{report}");
    assert!(report.contains("Each denied launch found less than one token."), "{report}");
    // Launches that are counted, and nothing else.
    let (_folder, report) = made(&data("hami_core_level4_h200.log"), "en");
    assert!(!report.contains("The log holds no launch."), "{report}");
    assert!(report.contains("no launch of which it tells the outcome"), "{report}");
}

#[test]
fn the_labs_third_test_is_called_denied_only_where_it_was() {
    let (_folder, report) = made(&data("course_h200_cuda13.log"), "en");
    assert!(report.contains("Experiment 3 follows"), "{report}");
    let passed = lab().replace("block=256,1,1) DENIED | tokens=0.0", "block=256,1,1) -> 0 | tokens=0.0");
    assert_ne!(passed, lab());
    let folder = folder(&[("a.log", passed.as_bytes())]);
    let (_made, report) = made(&folder.path().join("a.log"), "en");
    assert!(!report.contains("Experiment 3 follows"), "{report}");
}
