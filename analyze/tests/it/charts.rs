//! Charts by their structure: whole documents, every outcome told, labels beside each other, files where they were asked for.

use std::collections::HashSet;
use std::path::Path;

use hook_analyze::analysis::series;
use hook_analyze::render::Lang;
use hook_analyze::render::chart::{self, Chart, Style, Theme, png};
use resvg::tiny_skia::Pixmap;
use resvg::usvg::roxmltree::{Document, Node};

use crate::common::{data, folder, lab, load, of_text, run, text};

const STYLES: [Style; 3] = [
    Style { lang: Lang::Zh, theme: Theme::Light },
    Style { lang: Lang::En, theme: Theme::Light },
    Style { lang: Lang::Zh, theme: Theme::Dark },
];

/// Every chart of a log in every style, applicable or not.
fn all(path: &Path) -> Vec<(Chart, String)> {
    let (events, analysis) = load(path);
    let series = series::of(&events, &analysis);
    let charts = Chart::ALL.into_iter().flat_map(|chart| STYLES.map(|style| (chart, style)));
    charts.map(|(chart, style)| (chart, chart::svg(&series, chart, "实验.log · hook.log", style).unwrap())).collect()
}

fn texts<'a>(document: &'a Document<'_>) -> Vec<(Node<'a, 'a>, String)> {
    let texts = document.descendants().filter(|node| node.has_tag_name("text"));
    texts.map(|node| (node, node.text().unwrap_or_default().trim().to_owned())).collect()
}

fn number(node: Node<'_, '_>, name: &str) -> f64 {
    node.attribute(name).and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name} of {node:?}"))
}

/// Where a text stands: left, right, top, bottom. Narrower than fonts are, so that what meets here overlaps for sure.
fn place((node, text): &(Node<'_, '_>, String)) -> [f64; 4] {
    let size = number(*node, "font-size");
    let wide: f64 = text.chars().map(|c| if c > '\u{2e80}' { 1.0 } else { 0.5 }).sum::<f64>() * size;
    let (x, y) = (number(*node, "x"), number(*node, "y"));
    let left = match node.attribute("text-anchor") {
        Some("middle") => x - wide / 2.0,
        Some("end") => x - wide,
        _ => x,
    };
    [left, left + wide, y - size * 0.4, y + size * 0.4]
}

/// A whole document whose texts lie inside it and beside each other.
fn assert_legible(svg: &str) {
    let document = Document::parse(svg).unwrap_or_else(|why| panic!("{why}\n{svg}"));
    let root = document.root_element();
    let (width, height) = (number(root, "width"), number(root, "height"));
    let texts = texts(&document);
    let places: Vec<[f64; 4]> = texts.iter().map(place).collect();
    for (index, [left, right, top, bottom]) in places.iter().enumerate() {
        let text = &texts[index].1;
        assert!(*left >= 0.0 && *right <= width && *top >= 0.0 && *bottom <= height, "`{text}` leaves the paper");
        for (other, [l, r, t, b]) in places[..index].iter().enumerate() {
            let apart = right <= l || r <= left || bottom <= t || b <= top;
            assert!(apart, "`{text}` lies over `{}`", texts[other].1);
        }
    }
    for odd in ["NaN", "\"inf", "2147483"] {
        assert!(!svg.contains(odd), "{odd} in\n{svg}");
    }
}

/// Lines of the colour of denials: a mark each.
fn denials(svg: &str) -> usize {
    let document = Document::parse(svg).unwrap();
    let is_mark = |node: &Node<'_, '_>| node.has_tag_name("polyline") && node.attribute("stroke") == Some("#D55E00");
    document.descendants().filter(is_mark).count()
}

/// Eight processes that ran at the same time.
fn eight() -> String {
    let mut log = String::new();
    for process in 0..8u64 {
        let (pid, begin) = (100 + process, 1_000_000_000 + process * 50_000_000);
        let ids = |event: &str, at: u64| format!(r#"{{"v":1,"ev":"{event}","run":"r{pid}","mono_ns":{at},"pid":{pid}"#);
        log += &format!(
            "{},\"exe\":\"/p\",\"host\":\"vm\",\"quota_bytes\":134217728,\"rate\":5.0,\"capacity\":3.0}}\n",
            ids("start", begin)
        );
        for seq in 1..=20u64 {
            let at = begin + seq * 10_000_000;
            let (ok, tokens) = (seq <= 3, 3u64.saturating_sub(seq));
            let outcome = if ok { "ok" } else { "denied" };
            log += &format!(
                "{{\"ev\":\"call\",\"seq\":{seq},\"mono_ns\":{at},\"pid\":{pid},\"tid\":{pid},\"api\":\"cudaLaunchKernel\",\"sym\":\"cudaLaunchKernel\",\"dev\":0,\"grid\":[1,1,1],\"block\":[32,1,1],\"shmem\":0,\"stream\":\"0x0\",\"kernel\":\"_Z1kPf\",\"outcome\":\"{outcome}\",\"ret\":0,\"tokens\":{tokens},\"wait_ns\":0,\"real_ns\":10,\"hook_ns\":5}}\n"
            );
        }
    }
    log
}

const BANNERS: &str = "[HOOK] 显存配额: 128 MB (134217728 bytes)\n[HOOK] 算力限速: 5 tokens/s, burst 3\n";
const PASSED: &str = "[HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) -> 0 | tokens=2.0\n";
const DENIED: &str = "[HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) DENIED | tokens=0.0\n";

/// Logs of every kind that charts must bear.
fn odd_logs() -> Vec<(&'static str, String)> {
    let without = |words: [&str; 2]| {
        let keep = |line: &&str| !words.iter().any(|word| line.contains(word));
        lab().lines().filter(keep).map(|line| format!("{line}\n")).collect::<String>()
    };
    let many: String = (0..3_000)
        .map(|size: u64| format!("[HOOK] cudaMalloc({}) DENIED | total: 0.0 / 128.0 MB\n", (size % 37 + 129) << 20))
        .collect();
    vec![
        ("an empty bucket", format!("{BANNERS}{}", DENIED.repeat(20))),
        ("one event", format!("{BANNERS}{PASSED}")),
        ("no launch", without(["Launch", "never"])),
        ("no allocation", without(["Malloc(", "Free("])),
        ("no rate", lab().replace("5 tokens/s, burst 3", "无限制 (仅记录)")),
        ("a rate of almost nothing", lab().replace("5 tokens/s", "0.000000001 tokens/s")),
        ("a huge bucket", lab().replace("burst 3", "burst 1000000000000")),
        ("an empty quota", lab().replace("128 MB (134217728 bytes)", "0 MB (0 bytes)")),
        ("a huge quota", lab().replace("128 MB (134217728 bytes)", "17592186044415 MB (18446744073708503040 bytes)")),
        ("requests for nothing", format!("{BANNERS}[HOOK] cudaMalloc(0) -> 0x0 | total: 0.0 MB\n")),
        ("many refusals", format!("{BANNERS}{many}")),
        ("many runs", lab().repeat(30)),
    ]
}

#[test]
fn every_chart_of_every_log_is_whole_and_legible() {
    let folder = folder(&[]);
    let mut logs: Vec<_> = std::fs::read_dir(data("")).unwrap().map(|entry| entry.unwrap().path()).collect();
    logs.retain(|path| path.extension().is_some_and(|ending| ending == "log" || ending == "jsonl"));
    for (name, text) in odd_logs().into_iter().chain([("eight", eight())]) {
        let path = folder.path().join(format!("{name}.log"));
        std::fs::write(&path, text).unwrap();
        logs.push(path);
    }
    for log in logs {
        println!("{}", log.display());
        for (chart, svg) in all(&log) {
            println!("  {}", chart.name());
            assert_legible(&svg);
        }
    }
}

#[test]
fn the_lab_has_all_its_calls_on_its_charts() {
    let (events, analysis) = load(&data("sim_lab.log"));
    let series = series::of(&events, &analysis);
    let style = Style { lang: Lang::En, theme: Theme::Light };
    for (chart, said) in [
        (Chart::Tokens, &["capacity 3", "passed 6", "denied 12", "burst", "starvation", "monotonic clock"][..]),
        (Chart::Memory, &["quota 128 MB", "2048 MB", "denied request (with its size) 1", "device memory (MB)"]),
        (Chart::Allocations, &["passed 3", "denied 1", "call number"]),
        (Chart::Outcomes, &["passed 6 ↑", "denied 12 ↓", "in every 50 ms"]),
        (Chart::Shapes, &["grid (1,1,1)  block (32,1,1)", "passed 6, denied 9"]),
        (Chart::Overhead, &["cudaLaunchKernel (6 calls)", "cudaFree (3 calls)"]),
    ] {
        assert_eq!(chart.lacks(&series, Lang::En), None, "{}", chart.name());
        let svg = chart::svg(&series, chart, "lab", style).unwrap();
        for said in said {
            assert!(svg.contains(said), "{}: `{said}` is not in\n{svg}", chart.name());
        }
    }
    // Call by call each denial has its mark; so it has where requests are drawn, and both legends have one.
    let svg = chart::svg(&series, Chart::Allocations, "lab", style).unwrap();
    assert_eq!(denials(&svg), 1 + 1);
}

#[test]
fn a_chart_without_anything_to_draw_says_why() {
    for (log, chart, said) in [
        (format!("{BANNERS}{PASSED}"), Chart::Memory, "no allocation in the log"),
        (format!("{BANNERS}{PASSED}"), Chart::Kernels, "no kernel names in the log"),
        (format!("{BANNERS}{PASSED}"), Chart::Overhead, "no durations in the log"),
        (
            std::fs::read_to_string(data("torch_quota_h200.log")).unwrap(),
            Chart::Tokens,
            "no rate-limited launch in the log",
        ),
    ] {
        let (events, analysis) = of_text(log);
        let series = series::of(&events, &analysis);
        let svg = chart::svg(&series, chart, "a", Style { lang: Lang::En, theme: Theme::Light }).unwrap();
        assert!(svg.contains(said), "{}: {svg}", chart.name());
        assert!(chart.lacks(&series, Lang::En).is_some_and(|why| why.starts_with(said)));
    }
}

#[test]
fn of_very_many_launches_no_denial_is_lost_and_the_file_stays_small() {
    let step = |i: u32| if i.is_multiple_of(3) { PASSED } else { DENIED };
    let log: String = BANNERS.to_owned() + &(0..120_000).map(step).collect::<String>();
    let (events, analysis) = of_text(log);
    let series = series::of(&events, &analysis);
    for style in STYLES {
        let svg = chart::svg(&series, Chart::Timeline, "many", style).unwrap();
        assert!(svg.len() < 1_000_000, "{}", svg.len());
        let told = style.lang.pick("被拒绝 80,000 (画出 ", "denied 80,000 (drawn ");
        let drawn: Vec<usize> = svg
            .split(told)
            .skip(1)
            .map(|rest| rest.split(')').next().unwrap().replace(',', "").parse().unwrap())
            .collect();
        assert_eq!(drawn.len(), 2, "over time and call by call");
        if style.theme == Theme::Light {
            // What is stated is what is drawn, and a mark in each legend.
            assert_eq!(denials(&svg), drawn.iter().sum::<usize>() + 2);
        }
        // Call by call, denials are everywhere: a mark in every stretch of the width of one.
        let document = Document::parse(&svg).unwrap();
        let colour = if style.theme == Theme::Light { "#D55E00" } else { "#F0A028" };
        let at = |node: Node<'_, '_>| node.attribute("points")?.split(',').next()?.parse::<i32>().ok();
        let marks = document.descendants().filter(|node| node.attribute("stroke") == Some(colour)).filter_map(at);
        let columns: HashSet<i32> = marks.map(|x| x / 10).collect();
        assert!((9..69).all(|column| columns.contains(&column)), "{columns:?}");
    }
}

#[test]
fn processes_that_ran_at_once_have_a_lane_each() {
    let (events, analysis) = of_text(eight());
    let series = series::of(&events, &analysis);
    assert!(series.one_clock);
    let svg = chart::svg(&series, Chart::Tokens, "eight", Style::default()).unwrap();
    for process in 1..=8 {
        assert!(svg.contains(&format!("进程 {process} (pid {}): 通过 3, 被拒绝 17", 99 + process)), "{process}\n{svg}");
    }
    assert!(svg.contains("通过 24") && svg.contains("被拒绝 136"));
    let svg = chart::svg(&series, Chart::Kernels, "eight", Style::default()).unwrap();
    assert!(svg.contains("_Z1kPf") && svg.contains("通过 24, 被拒绝 136"));
}

#[test]
fn the_carried_font_has_every_character_of_the_programs_own() {
    let mut characters: HashSet<char> = (' '..='~').collect();
    for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/render/chart")).unwrap() {
        characters.extend(std::fs::read_to_string(entry.unwrap().path()).unwrap().chars());
    }
    for log in ["sim_lab.jsonl", "torch_launches_denied_h200.log"] {
        for (_, svg) in all(&data(log)) {
            characters.extend(
                texts(&Document::parse(&svg).unwrap())
                    .into_iter()
                    .flat_map(|(_, text)| text.chars().collect::<Vec<_>>()),
            );
        }
    }
    let one = |c: char| format!("<text y=\"20\">&#{};</text>", u32::from(c));
    let all: String = characters.into_iter().filter(|c| !c.is_control()).map(one).collect();
    let svg = format!("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"40\" height=\"40\">{all}</svg>");
    let foreign = png::render(&svg).unwrap().foreign;
    assert_eq!(foreign, [], "`make font` takes new characters in");
}

#[test]
fn characters_of_others_fall_back_and_break_nothing() {
    let (events, analysis) = load(&data("sim_lab.log"));
    let series = series::of(&events, &analysis);
    let svg = chart::svg(&series, Chart::Memory, "龘.log 🦀 \u{7}", Style::default()).unwrap();
    let picture = png::render(&svg).unwrap();
    assert!(picture.foreign.contains(&'龘') && !picture.foreign.contains(&'显'), "{:?}", picture.foreign);
    assert!(Pixmap::decode_png(&picture.png).is_ok());
}

#[test]
fn a_png_is_the_same_picture() {
    let folder = folder(&[("hook.log", lab().as_bytes())]);
    for theme in ["light", "dark"] {
        let output = run(folder.path(), &["--plot", "t.png", "--theme", theme]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(run(folder.path(), &["--plot", "t.svg", "--theme", theme]).status.success());
        let png = Pixmap::decode_png(&std::fs::read(folder.path().join("t.png")).unwrap()).unwrap();
        let svg = std::fs::read_to_string(folder.path().join("t.svg")).unwrap();
        let document = Document::parse(&svg).unwrap();
        let size = |name: &str| number(document.root_element(), name) as u32 * 2;
        assert_eq!((png.width(), png.height()), (size("width"), size("height")));
        let of =
            |[r, g, b]: [u8; 3]| png.pixels().iter().filter(|p| [p.red(), p.green(), p.blue()] == [r, g, b]).count();
        let (ground, denied) = if theme == "light" { ([255; 3], [213, 94, 0]) } else { ([24, 26, 31], [240, 160, 40]) };
        assert!(of(ground) > png.pixels().len() / 2, "{theme}");
        assert!(of(denied) > 500, "{theme}: {}", of(denied));
    }
}

#[test]
fn files_are_where_they_were_asked_for() {
    let events = std::fs::read(data("sim_lab.jsonl")).unwrap();
    let folder =
        folder(&[("hook.jsonl", &events), ("torch.log", &std::fs::read(data("torch_quota_h200.log")).unwrap())]);
    std::fs::create_dir(folder.path().join("out")).unwrap();
    let there = |name: &str| folder.path().join(name).is_file();
    let output = run(folder.path(), &["hook.jsonl", "--plot", "all"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for chart in Chart::ALL {
        // The stand-in's events have no kernel names.
        assert_eq!(there(&format!("hook-{}.svg", chart.name())), chart != Chart::Kernels, "{}", chart.name());
    }
    assert!(text(&output.stderr).contains("7 张图"), "{}", text(&output.stderr));
    // Those that there is nothing for are told of.
    let output = run(folder.path(), &["torch.log", "--plot", "out/t.png", "--chart", "all", "--lang", "en"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(there("out/t-memory.png") && there("out/t-allocations.png") && !there("out/t-kernels.png"));
    assert!(text(&output.stderr).contains("nothing to draw for `kernels`"), "{}", text(&output.stderr));
    // Asked for by name, a chart is made, and says it too.
    let output = run(folder.path(), &["torch.log", "--plot", "k.svg", "--chart", "kernels", "--lang", "en"]);
    assert!(output.status.success() && there("k.svg"));
    assert!(text(&output.stderr).contains("nothing to draw for `kernels`"), "{}", text(&output.stderr));
    assert!(run(folder.path(), &["hook.jsonl", "--plot", "two.svg", "--chart", "memory,shapes"]).status.success());
    assert!(there("two-memory.svg") && there("two-shapes.svg") && !there("two.svg") && !there("two-tokens.svg"));
}

#[test]
fn a_chart_never_replaces_an_input() {
    let log = lab();
    let folder = folder(&[("a-memory.svg", log.as_bytes()), ("a.log", log.as_bytes())]);
    for arguments in
        [&["a.log", "a-memory.svg", "--plot", "all"][..], &["a-memory.svg", "--plot", "a.svg", "--chart", "all"]]
    {
        let output = run(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains("is also an input"), "{}", text(&output.stderr));
    }
    assert_eq!(std::fs::read_to_string(folder.path().join("a-memory.svg")).unwrap(), log);
    let output = run(folder.path(), &["a.log", "--chart", "memory"]);
    assert!(output.status.code() == Some(2) && text(&output.stderr).contains("--plot"), "{}", text(&output.stderr));
}

#[test]
fn the_chart_of_overhead_tells_the_medians_of_the_figures() {
    let (events, analysis) = load(&data("sim_lab.jsonl"));
    let series = series::of(&events, &analysis);
    let svg = chart::svg(&series, Chart::Overhead, "a", STYLES[1]).unwrap();
    let document = Document::parse(&svg).unwrap();
    let told: Vec<String> = texts(&document).into_iter().map(|(_, text)| text).collect();
    let apis = &analysis.summary.overhead.apis;
    assert!(!apis.is_empty());
    for api in apis {
        let name = format!("{} ({} calls)", api.api, api.measured.n);
        let at = told.iter().position(|text| *text == name).unwrap_or_else(|| panic!("{name} in {told:?}"));
        let median =
            |ns: Option<u64>| ns.map_or("—".to_owned(), |ns| hook_analyze::render::text::seconds(ns as f64 / 1e9));
        let want = [median(api.measured.hook_ns.median), median(api.measured.real_ns.median)];
        assert_eq!(told[at + 1..at + 3], want, "{name}");
    }
}

#[test]
fn in_low_plots_too_what_is_refused_stands_above_the_quota() {
    let one = std::fs::read_to_string(data("sim_lab.jsonl")).unwrap();
    let pid = one.split("\"pid\":").nth(1).unwrap().split(',').next().unwrap();
    let run = one.split("\"run\":\"").nth(1).unwrap().split('"').next().unwrap();
    let other = one.replace(&format!("\"pid\":{pid}"), "\"pid\":77").replace(run, "another");
    let (events, analysis) = of_text(one.clone() + &other);
    let series = series::of(&events, &analysis);
    assert!(series.one_clock && series.processes.len() == 2);
    let svg = chart::svg(&series, Chart::Memory, "a", STYLES[1]).unwrap();
    let document = Document::parse(&svg).unwrap();
    let lines = |colour: &str| {
        let is_one = |node: &Node<'_, '_>| node.has_tag_name("polyline") && node.attribute("stroke") == Some(colour);
        let points = document.descendants().filter(is_one).map(|node| {
            let points = node.attribute("points").unwrap().split_whitespace();
            points.map(|point| point.split_once(',').unwrap().1.parse().unwrap()).collect::<Vec<f64>>()
        });
        points.collect::<Vec<_>>()
    };
    let quota = texts(&document).into_iter().find(|(_, text)| text.starts_with("quota")).unwrap().0;
    let key = number(quota, "y");
    let middle = |points: &Vec<f64>| points.iter().sum::<f64>() / points.len() as f64;
    let marks: Vec<f64> = lines("#D55E00").iter().map(middle).filter(|y| (y - key).abs() > 10.0).collect();
    let level: Vec<f64> = lines("#606060").iter().filter(|p| p.iter().all(|y| *y == p[0])).map(|p| p[0]).collect();
    assert!(marks.len() >= 2, "{svg}");
    for mark in marks {
        assert!(level.iter().any(|quota| (mark..mark + 20.0).contains(quota)), "{mark} of {level:?}");
    }
}

#[test]
fn a_quota_above_all_requests_is_within_the_axis() {
    let log = "[HOOK] 显存配额: 128 MB (134217728 bytes)\n[HOOK] cudaMalloc(67108864) -> 0x1 | total: 64.0 MB\n";
    let (events, analysis) = of_text(log);
    let svg = chart::svg(&series::of(&events, &analysis), Chart::Allocations, "a", STYLES[1]).unwrap();
    let document = Document::parse(&svg).unwrap();
    let told: Vec<String> = texts(&document).into_iter().map(|(_, text)| text).collect();
    assert!(told.iter().any(|text| text == "quota 128 MB") && told.iter().any(|text| text == "100"), "{told:?}");
}
