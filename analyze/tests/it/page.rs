//! The page of `--html`: whole, small, nothing loaded, hostile names text; drawn by a real browser where there is one.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{data, folder, lab, run};

fn page(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, &[arguments, &["--html", "p.html"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::read_to_string(folder.join("p.html")).unwrap()
}

/// What stands in the page as data.
fn embedded(page: &str) -> serde_json::Value {
    let (_, rest) = page.split_once("<script type=\"application/json\" id=\"data\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

/// Nothing in it asks for anything from elsewhere, and only its own two scripts may run.
fn assert_alone(page: &str) {
    let lower = page.to_ascii_lowercase();
    for asks in [
        "src=",
        "href=",
        "url(",
        "@import",
        "fetch(",
        "xmlhttprequest",
        "import(",
        "<link",
        "<img",
        "<iframe",
        "innerhtml",
    ] {
        assert!(!lower.contains(asks), "{asks}");
    }
    assert!(page.contains("default-src 'none'; script-src 'sha256-") && !page.contains("unsafe-inline"));
    assert_eq!(lower.matches("<script").count(), 3);
    assert_eq!(lower.matches("</script").count(), 3);
    assert_eq!(lower.matches("<style").count(), 2);
}

/// Debian's, or what CHROMIUM names.
fn browser() -> Option<PathBuf> {
    let named = std::env::var_os("CHROMIUM").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = || {
        let names = ["chromium", "chromium-browser", "google-chrome"];
        std::env::split_paths(&path)
            .find_map(|folder| names.map(|name| folder.join(name)).into_iter().find(|p| p.is_file()))
    };
    let browser = named.or_else(found);
    if browser.is_none() {
        eprintln!("no Chromium on the PATH (Debian: `apt-get install chromium`): the page is not drawn in this test");
    }
    browser
}

/// The page as it stands after its scripts ran, and what the browser asked of the network.
fn drawn(browser: &Path, folder: &Path, width: u32) -> (String, String) {
    let log = folder.join("net.json");
    let mut child = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"])
        .args(["--disable-component-update", "--disable-sync", "--disable-default-apps", "--disable-extensions"])
        // Its own calls home find nobody.
        .arg("--host-resolver-rules=MAP * ~NOTFOUND")
        .args(["--virtual-time-budget=3000", "--dump-dom", &format!("--window-size={width},900")])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg(format!("--log-net-log={}", log.display()))
        .arg(format!("file://{}", folder.join("p.html").display()))
        .stdout(std::fs::File::create(folder.join("dom.html")).unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let end = Instant::now() + Duration::from_secs(120);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > end {
            let _ = child.kill();
            panic!("the browser did not end");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    (read("dom.html"), read("net.json"))
}

/// The first tag, where the script says what it drew.
fn root(dom: &str) -> &str {
    dom.split("<head>").next().unwrap()
}

/// Addresses of requests in a network log, the browser's own aside: those come from no page.
fn requests(log: &str) -> Vec<String> {
    let log: serde_json::Value = serde_json::from_str(log).unwrap();
    let text = |event: &serde_json::Value, key: &str| event["params"][key].as_str().map(str::to_owned);
    let of_a_page = |event: &&serde_json::Value| text(event, "initiator").is_some_and(|from| from != "not an origin");
    log["events"].as_array().unwrap().iter().filter(of_a_page).filter_map(|event| text(event, "url")).collect()
}

#[test]
fn the_pages_of_all_logs_are_whole_and_alone() {
    for entry in std::fs::read_dir(data("")).unwrap() {
        let log = entry.unwrap().path();
        let name = log.to_string_lossy().into_owned();
        if log.is_dir() || name.ends_with(".md") || name.ends_with(".txt") {
            continue;
        }
        for lang in ["zh", "en"] {
            let folder = folder(&[]);
            let page = page(folder.path(), &[&name, "--lang", lang]);
            assert_alone(&page);
            for left in ["{{", "{%", ">none<", ">undefined<", "NaN"] {
                assert!(!page.replace("isNaN", "").contains(left) || left == "NaN", "{left} in the page of {name}");
            }
            let data = embedded(&page);
            assert!(!data["processes"].as_array().unwrap().is_empty() || name.contains("hami"), "{name}");
        }
    }
}

#[test]
fn the_labs_page_has_the_labs_figures() {
    let folder = folder(&[("a.log", lab().as_bytes())]);
    let page = page(folder.path(), &["a.log", "--lang", "en"]);
    let data = embedded(&page);
    let process = &data["processes"][0];
    let length = |key: &str| process[key].as_array().unwrap().len();
    assert_eq!((length("passed"), length("denied"), length("failed"), length("refused")), (6, 12, 0, 1));
    assert_eq!(process["refused"][0][2], 2112.0 * 1024.0 * 1024.0);
    assert_eq!(data["denials"]["all"], 13);
    assert_eq!(data["denials"]["rows"].as_array().unwrap().len(), 13);
    assert_eq!(data["launches"]["all"], data["launches"]["drawn"]);
    for bars in data["outcomes"].as_array().unwrap() {
        let sums = bars["counts"]
            .as_array()
            .unwrap()
            .iter()
            .fold([0, 0, 0], |sum: [u64; 3], bar| std::array::from_fn(|i| sum[i] + bar[i].as_u64().unwrap()));
        assert_eq!(sums, [6, 12, 0]);
    }
    assert!(data["axes"]["time"].as_str().unwrap().contains("a lower bound"));
    assert!(
        page.contains("<td>cudaLaunchKernel</td><td class=\"n\">18</td><td class=\"n\">6</td><td class=\"n\">12</td>")
    );
}

#[test]
fn a_hostile_name_is_text_in_the_page() {
    let hostile = "</script><script>document.documentElement.dataset.owned=1</script><img src=x onerror=alert(1)>&lt;\\u2028\\u202e\\u001b";
    let jsonl = std::fs::read_to_string(data("sim_lab.jsonl"))
        .unwrap()
        .replace("\"host\":\"vm\"", &format!("\"host\":\"{hostile}\""))
        .replace("\"shmem\":", &format!("\"kernel\":\"{hostile}\",\"shmem\":"))
        .replace("\"api\":\"cudaMalloc\"", &format!("\"api\":\"cudaMalloc{hostile}\""));
    let folder = folder(&[("a<b>&'\"'.jsonl", jsonl.as_bytes())]);
    let page = page(folder.path(), &["a<b>&'\"'.jsonl"]);
    assert_eq!(page.to_ascii_lowercase().matches("<script").count(), 3);
    assert!(!page.contains("<img") && !page.contains('\u{202e}') && !page.contains('\u{1b}'));
    assert!(page.contains("a&lt;b&gt;&amp;&#39;&quot;&#39;.jsonl"));
    let names = embedded(&page)["denials"]["names"].to_string();
    assert!(names.contains("<img src=x"), "{names}");
    assert!(page.contains("<td>&lt;/script&gt;&lt;script&gt;document"), "the kernel's row");
    if let Some(browser) = browser() {
        let (dom, log) = drawn(&browser, folder.path(), 1200);
        let root = root(&dom);
        assert!(root.contains("data-drawn=\"tokens memory outcomes\"") && !root.contains("data-fault"), "{root}");
        assert!(!root.contains("data-owned") && !dom.contains("<img"), "{root}");
        assert_eq!(requests(&log), [""; 0]);
    }
}

#[test]
fn a_browser_draws_the_page_and_asks_for_nothing() {
    let Some(browser) = browser() else { return };
    let only_memory: String =
        lab().lines().filter(|line| !line.contains("Launch")).fold(String::new(), |mut all, line| {
            let _ = writeln!(all, "{line}");
            all
        });
    let lab = lab();
    let cases: [(&[u8], &str, &str, u32); 5] = [
        (&std::fs::read(data("sim_lab.jsonl")).unwrap(), "a.jsonl", "tokens memory outcomes", 1200),
        (lab.as_bytes(), "a.log", "tokens memory outcomes", 390),
        (&std::fs::read(data("torch_launches_denied_h200.log")).unwrap(), "a.log", "tokens memory outcomes", 1200),
        (only_memory.as_bytes(), "a.log", "memory", 1200),
        (&std::fs::read(data("hami_core_default_h200.log")).unwrap(), "a.log", "", 390),
    ];
    for (text, name, charts, width) in cases {
        let folder = folder(&[(name, text)]);
        page(folder.path(), &[name, "--lang", "en"]);
        let (dom, log) = drawn(&browser, folder.path(), width);
        let root = root(&dom);
        assert!(
            root.contains(&format!("data-drawn=\"{charts}\"")) && !root.contains("data-fault"),
            "{charts} in {root}"
        );
        assert_eq!(dom.matches("<canvas").count(), charts.split_whitespace().count());
        assert_eq!(requests(&log), [""; 0]);
    }
}

#[test]
fn a_page_that_asks_is_found_out() {
    let Some(browser) = browser() else { return };
    let folder =
        folder(&[("p.html", b"<!DOCTYPE html><html><head></head><img src=\"http://127.0.0.1:9/x.png\"></html>")]);
    let (_, log) = drawn(&browser, folder.path(), 400);
    assert_eq!(requests(&log), ["http://127.0.0.1:9/x.png"]);
}

#[test]
fn a_million_launches_make_a_page_of_less_than_3_mb() {
    // Every third launch is denied, one of the passes leaves a level that none other leaves.
    let mut log = String::from("[HOOK] 显存配额: 无限制 (仅记录)\n[HOOK] 算力限速: 1000 tokens/s, burst 1000\n");
    for i in 0..1_000_000_u32 {
        let level = f64::from((i * 7919) % 9000) / 10.0 + 50.0;
        let _ = match (i, i % 3) {
            (500_001, _) => writeln!(log, "[HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) -> 0 | tokens=7.5"),
            (_, 0) => writeln!(log, "[HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) DENIED | tokens=0.5"),
            _ => writeln!(log, "[HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) -> 0 | tokens={level:.1}"),
        };
    }
    let folder = folder(&[("a.log", log.as_bytes())]);
    let page = page(folder.path(), &["a.log"]);
    assert!(page.len() < 3_000_000, "{}", page.len());
    let data = embedded(&page);
    let process = &data["processes"][0];
    let passed = process["passed"].as_array().unwrap();
    assert!(passed.iter().any(|mark| mark[2] == 7.5), "the lowest pass is drawn");
    assert!(process["level"][1][1].as_array().unwrap().iter().any(|level| *level == 0.5));
    let denied = process["denied"].as_array().unwrap();
    // Denials lie everywhere along the axis: in each hundredth of it one is drawn.
    for part in 0..100 {
        let (from, to) = (f64::from(part) * 1e4, f64::from(part + 1) * 1e4);
        assert!(denied.iter().any(|mark| (from..to).contains(&mark[1].as_f64().unwrap())), "{part}");
    }
    assert_eq!(data["launches"]["all"], 1_000_000);
    assert!(data["launches"]["drawn"].as_u64().unwrap() > 1000);
    assert_eq!(data["denials"]["all"], 333_333);
    assert_eq!(data["denials"]["rows"].as_array().unwrap().len(), 5000);
}

#[test]
fn the_pages_time_axis_names_its_base_and_is_broken_where_more_may_have_passed() {
    let bare = lab();
    let stamped: String =
        (0..).zip(bare.lines()).map(|(i, line)| format!("2026-11-30T07:00:00.{i:03}Z {line}\n")).collect();
    let records = std::fs::read(data("sim_lab.jsonl")).unwrap();
    let folder = folder(&[("bare.log", bare.as_bytes()), ("wall.log", stamped.as_bytes()), ("a.jsonl", &records)]);
    let axes =
        [("bare.log", "inferred from", 1), ("wall.log", "the times before the lines", 0), ("a.jsonl", "monotonic", 0)];
    for (log, base, breaks) in axes {
        let data = embedded(&page(folder.path(), &[log, "--lang", "en"]));
        let axis = data["axes"]["time"].as_str().unwrap();
        assert!(axis.contains(base), "{log}: {axis}");
        assert_eq!(data["processes"][0]["breaks"].as_array().unwrap().len(), breaks, "{log}");
        assert_eq!(axis.contains('≥'), breaks > 0, "{log}: {axis}");
    }
}
