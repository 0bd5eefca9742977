//! Reports and charts: whole tables, existing images, every call drawn, hostile names shown as text.

use std::path::Path;

use crate::common::{data, folder, lab, run};

fn made(log: &Path, lang: &str) -> (tempfile::TempDir, String) {
    let folder = folder(&[]);
    let output =
        run(folder.path(), &[log.to_str().unwrap(), "--report", "report.md", "--plot", "t.svg", "--lang", lang]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report = std::fs::read_to_string(folder.path().join("report.md")).unwrap();
    (folder, report)
}

/// Cells of a table row: bars that are not escaped.
fn cells(row: &str) -> usize {
    row.replace("\\|", "").matches('|').count()
}

fn assert_whole_tables(report: &str) {
    let rows: Vec<(usize, &str)> = report.lines().enumerate().filter(|(_, line)| line.starts_with('|')).collect();
    assert!(!rows.is_empty());
    for pair in rows.windows(2) {
        if pair[0].0 + 1 == pair[1].0 {
            assert_eq!(cells(pair[0].1), cells(pair[1].1), "{}\n{}", pair[0].1, pair[1].1);
        }
    }
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
            assert_whole_tables(&report);
            for image in report.split("](").skip(1).filter_map(|tail| tail.split(')').next()) {
                assert!(folder.path().join(image).is_file(), "{image}");
            }
            assert!(report.contains(if lang == "zh" { "**[待填写]**" } else { "**[to fill in]**" }));
            for left in ["{{", "{%", "None", "NaN", "inf ", "undefined"] {
                assert!(!report.contains(left), "{left} in\n{report}");
            }
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
        "Overhead: over 6 launches",
    ] {
        assert!(report.contains(said), "`{said}` is not in\n{report}");
    }
}

#[test]
fn a_report_says_only_what_its_log_shows() {
    let report = |text: &str| {
        let folder = folder(&[("a.log", text.as_bytes())]);
        made(&folder.path().join("a.log"), "en").1
    };
    // Two runs: the second one's full bucket is no recovery of the first.
    let run = "[HOOK] 显存配额: 无限制 (仅记录)\n[HOOK] 算力限速: 5 tokens/s, burst 1\n\
               [HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) -> 0 | tokens=0.0\n\
               [HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) DENIED | tokens=0.0\n";
    let twice = report(&run.repeat(2));
    assert!(twice.contains("no recovery after a denial") && !twice.contains("passed again"), "{twice}");
    assert!(twice.contains("| process | phase |"), "{twice}");
    assert_whole_tables(&twice);
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
    assert!(twice.contains("**[to fill in]** How your program launches kernels."));
    assert!(twice.contains("The log does not say how the hook works."));
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
    assert_whole_tables(&report);
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
        let (_made, report) = made(&folder.path().join("a.log"), "en");
        assert!(report.contains(said), "{report}");
        assert_whole_tables(&report);
    }
}
