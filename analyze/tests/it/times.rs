//! Times reconstructed from text, against the true ones of the same run; episodes of denial, fairness and overhead.

use std::path::{Path, PathBuf};

use hook_analyze::analysis::TimeBase;
use hook_analyze::analysis::series;
use hook_analyze::analysis::summary::{Analysis, analyse};
use hook_analyze::events::Events;
use hook_analyze::parse;
use hook_event::{Kind, Outcome};

use crate::common::{data, of_text, run, text, unbroken};
use crate::every_way::Random;

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

fn h200(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../reports/2026-11-30-lab-h200").join(name)
}

/// The records alone, in the order of their process.
fn of_records(text: &str) -> (Events, Analysis) {
    let folder = crate::common::folder(&[("a.jsonl", text.as_bytes())]);
    let events = parse::read(&[folder.path().join("a.jsonl")], None).unwrap();
    let analysis = analyse(&events);
    (events, analysis)
}

fn launches(events: &Events) -> Vec<usize> {
    (0..events.calls.len()).filter(|&i| events.calls.kind[i] == Kind::Launch).collect()
}

/// Holds the times of a log's launches against the true ones: within a stretch they differ by 0.1 / rate at most, and
/// the true gap lies in each that is a lower bound. How many launches and how many such gaps there were.
fn holds(log: &str, truth: &[f64], rate: f64, what: &str) -> (usize, usize) {
    let (events, analysis) = of_text(log);
    let timeline = &analysis.timelines[0];
    assert_eq!(timeline.base, TimeBase::Inferred, "{what}");
    let error = timeline.error_s.unwrap();
    assert!((error - 0.1 / rate).abs() < 1e-12, "{what}: {error}");
    let launches = launches(&events);
    assert_eq!(launches.len(), truth.len(), "{what}");
    let slack = error + 1e-6;
    let (mut start, mut gaps) = (0, 0);
    for (place, &i) in launches.iter().enumerate() {
        let at = |place: usize| timeline.at[launches[place]];
        if timeline.breaks.contains(&i) {
            let (told, right) = (at(place) - at(place - 1), truth[place] - truth[place - 1]);
            assert!(right >= told - slack, "{what}: launch {place}: a gap of {right} s, at least {told} was told");
            (start, gaps) = (place, gaps + 1);
        }
        let (told, right) = (at(place) - at(start), truth[place] - truth[start]);
        assert!((told - right).abs() <= slack, "{what}: launch {place}: {right} s, {told} was told, error {error}");
        assert!(place == 0 || at(place) >= at(place - 1), "{what}: time runs backwards");
    }
    let time = &analysis.summary.time;
    assert_eq!((time.lower_bound_gaps, time.lower_bound), (gaps as u64, gaps > 0), "{what}");
    assert_eq!(timeline.breaks.len(), gaps, "{what}");
    let whole = truth.last().unwrap() - truth[0];
    let told = time.duration_s.unwrap();
    // Every gap begins a stretch of its own.
    assert!(told <= whole + slack * (gaps + 1) as f64, "{what}: {told} of {whole}");
    (truth.len(), gaps)
}

/// The true times of a run's launches, by its records.
fn truth(records: &str) -> Vec<f64> {
    let (events, _) = of_records(records);
    let mono = |i: usize| events.calls.mono_ns[i].unwrap();
    let all = launches(&events);
    all.iter().map(|&i| (mono(i) - mono(all[0])) as f64 / 1e9).collect()
}

#[test]
fn real_runs_have_the_times_that_their_text_gives() {
    for (log, records) in [(data("sim_lab.log"), data("sim_lab.jsonl")), (h200("hook.log"), h200("hook.jsonl"))] {
        let (launches, gaps) = holds(&read(&log), &truth(&read(&records)), 5.0, &log.display().to_string());
        assert!(launches >= 10 && gaps == 1, "{}: {launches} {gaps}", log.display());
    }
    let stamps: Vec<f64> = read(&data("course_h200_slow_first_launch.stamps.txt"))
        .lines()
        .map(|line| line.split(' ').next().unwrap().parse().unwrap())
        .collect();
    // They were taken after each launch's work, so the first is late by that launch's own 96 ms: what the next level says.
    let first = stamps[1] - (1.481245 + 1.0 - 2.0) / 5.0;
    let truth: Vec<f64> = std::iter::once(0.0).chain(stamps[1..].iter().map(|at| at - first)).collect();
    let log = read(&data("course_h200_slow_first_launch.log"));
    assert_eq!(holds(&log, &truth, 5.0, "slow first launch"), (18, 1));
}

/// A run of a bucket that does what it should: the log's lines, the records, and the true times.
fn generated(random: &mut Random) -> (String, String, Vec<f64>, f64) {
    let pick = |random: &mut Random, all: &[f64]| all[random.below(all.len())];
    let rate = pick(random, &[0.4, 1.0, 5.0, 7.3, 50.0, 1000.0]);
    let capacity = pick(random, &[1.0, 2.5, 3.0, 10.0, 50.0]);
    let mut log = format!("[HOOK] 显存配额: 无限制 (仅记录)\n[HOOK] 算力限速: {rate} tokens/s, burst {capacity}\n");
    let mut records =
        format!("{{\"v\":1,\"ev\":\"start\",\"pid\":7,\"mono_ns\":1,\"rate\":{rate:?},\"capacity\":{capacity:?}}}\n");
    let (mut level, mut now, mut last, mut truth) = (capacity, 1_000_000_000u64, None, Vec::new());
    let calls = 5 + random.below(120);
    for seq in 1..=calls {
        // From a burst to a pause that fills the bucket.
        let most = pick(random, &[0.01, 0.3, 1.5, 2.0 * capacity]) / rate;
        now += (most * 1e9 * random.below(1000) as f64 / 1000.0) as u64;
        if let Some(last) = last {
            level = f64::min(capacity, level + rate * (now - last) as f64 / 1e9);
        }
        last = Some(now);
        let passes = level >= 1.0;
        level -= if passes { 1.0 } else { 0.0 };
        let shape = "grid=1,1,1 block=32,1,1";
        let fate = if passes { "-> 0" } else { "DENIED" };
        log.push_str(&format!("[HOOK] cudaLaunchKernel({shape}) {fate} | tokens={level:.1}\n"));
        let fate = if passes { "\"ok\",\"ret\":0" } else { "\"denied\",\"ret\":4" };
        records.push_str(&format!(
            "{{\"ev\":\"call\",\"seq\":{seq},\"mono_ns\":{now},\"pid\":7,\"api\":\"cudaLaunchKernel\",\"grid\":[1,1,1],\
             \"block\":[32,1,1],\"outcome\":{fate},\"tokens\":{level:?},\"wait_ns\":0}}\n"
        ));
        truth.push(now as f64 / 1e9 - 1.0);
    }
    let begin = truth[0];
    truth.iter_mut().for_each(|at| *at -= begin);
    (log, records, truth, rate)
}

#[test]
fn four_hundred_generated_runs_have_the_times_that_their_text_gives() {
    let (mut launches, mut gaps) = (0, 0);
    for round in 0..400 {
        let (log, _, truth, rate) = generated(&mut Random(round * 2 + 1));
        let (more, full) = holds(&log, &truth, rate, &format!("round {round}"));
        (launches, gaps) = (launches + more, gaps + full);
    }
    assert!(launches > 10_000 && gaps > 1_000, "{launches} launches, {gaps} gaps");
}

/// The level that a curve has just before a moment: its highest corner there.
fn before(level: &[(f64, f64)], at: f64) -> f64 {
    let there = level.iter().filter(|corner| corner.0 == at);
    there.map(|corner| corner.1).fold(f64::NEG_INFINITY, f64::max)
}

#[test]
fn the_level_before_each_launch_is_what_rate_and_time_give() {
    let mut judged = 0;
    let mut both = |log: &str, records: &str, rate: f64, capacity: f64, what: &str| {
        let (events, analysis) = of_records(records);
        let exact = series::of(&events, &analysis);
        let (events, analysis) = of_text(log);
        let told = series::of(&events, &analysis);
        assert_eq!((exact.error_s, told.error_s), (None, Some(0.1 / rate)), "{what}");
        let (exact, told) = (&exact.processes[0], &told.processes[0]);
        assert_eq!(exact.launches.len(), told.launches.len(), "{what}");
        assert_eq!((exact.breaks.len(), told.breaks.len()), (0, analysis.timelines[0].breaks.len()), "{what}");
        let mut last = None;
        for (launch, printed) in exact.launches.iter().zip(&told.launches) {
            let model = match last {
                None => capacity,
                Some((at, level)) => f64::min(capacity, level + rate * (launch.at - at)),
            };
            let cost = if launch.outcome == Outcome::Denied { 0.0 } else { 1.0 };
            // Corners of launches at one moment stand on one line.
            if last.is_none_or(|(at, _)| at < launch.at) {
                let curve = before(&exact.level, launch.at);
                assert!((curve - model).abs() < 1e-6 * capacity.max(1.0), "{what}: {curve} for {model}");
                judged += 1;
            }
            assert!((printed.tokens + cost - model).abs() <= 0.05 + 1e-6, "{what}: {} for {model}", printed.tokens);
            last = Some((launch.at, launch.tokens));
        }
        for curve in [exact, told] {
            assert!(curve.level.windows(2).all(|pair| pair[0].0 <= pair[1].0), "{what}: the curve runs backwards");
            assert!(curve.level.iter().all(|corner| (-0.05..=capacity + 0.05 + 1e-9).contains(&corner.1)), "{what}");
        }
    };
    both(&read(&data("sim_lab.log")), &read(&data("sim_lab.jsonl")), 5.0, 3.0, "stand-in");
    both(&read(&h200("hook.log")), &read(&h200("hook.jsonl")), 5.0, 3.0, "H200");
    for round in 0..100 {
        let (log, records, _, rate) = generated(&mut Random(round * 2 + 1));
        let capacity = of_text(&log).1.summary.config.capacity.unwrap();
        both(&log, &records, rate, capacity, &format!("round {round}"));
    }
    assert!(judged > 3_000, "{judged}");
}

const BANNER: &str = "[HOOK] 显存配额: 128 MB (134217728 bytes)\n[HOOK] 算力限速: 5 tokens/s, burst 3\n";

fn launch(prefix: &str, fate: &str) -> String {
    format!("{prefix}[HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) {fate}\n")
}

#[test]
fn times_before_the_lines_are_times_however_the_clock_is_set() {
    let stamped = |stamps: &[(&str, &str)]| {
        let lines = stamps.iter().map(|(at, fate)| launch(&format!("gpu-job_1  | 2026-07-01T{at}Z "), fate));
        of_text(format!("{BANNER}{}", lines.collect::<String>())).1
    };
    let plain = stamped(&[
        ("12:00:00.000", "-> 0 | tokens=2.0"),
        ("12:00:00.000", "-> 0 | tokens=1.0"),
        ("12:00:00.250", "DENIED | tokens=0.4"),
        ("12:00:02.000", "-> 0 | tokens=2.0"),
    ]);
    let json = serde_json::to_value(&plain.summary).unwrap();
    assert_eq!(
        json["time"],
        serde_json::json!({"base":"wall","duration_s":2.0,"error_s":0.001,"lower_bound":false,"lower_bound_gaps":0})
    );
    assert_eq!(plain.timelines[0].at, [0.0, 0.0, 0.25, 2.0]);
    assert_eq!((&json["starvation"]["seconds"], &json["starvation"]["base"]), (&1.75.into(), &"wall".into()));
    // Back by an hour, in the middle of an episode; lines of two writers that changed places before that.
    let set = stamped(&[
        ("12:00:00.5", "-> 0 | tokens=2.0"),
        ("12:00:00.4", "DENIED | tokens=0.4"),
        ("11:00:00.0", "DENIED | tokens=0.4"),
        ("11:00:03.0", "-> 0 | tokens=2.0"),
    ]);
    assert_eq!(set.timelines[0].at, [0.0, 0.0, 0.0, 3.0]);
    let json = serde_json::to_value(&set.summary).unwrap();
    let time = &json["time"];
    assert_eq!((&time["duration_s"], &time["lower_bound_gaps"]), (&3.0.into(), &1.into()));
    let episode = &json["episodes"]["longest"][0];
    assert_eq!((&episode["duration_s"], &episode["duration_is_lower_bound"]), (&0.0.into(), &true.into()));
    assert_eq!((&episode["recovery_s"], &episode["recovery_is_lower_bound"]), (&3.0.into(), &true.into()));
}

#[test]
fn episodes_have_calls_lines_and_times() {
    let (_, analysis) = of_records(&read(&h200("hook.jsonl")));
    let json = serde_json::to_value(&analysis.summary).unwrap();
    assert_eq!(json["episodes"]["count"], 2);
    let longest = json["episodes"]["longest"].as_array().unwrap();
    let streaks = json["tokens"]["denial_streaks"].as_array().unwrap();
    for (episode, streak) in longest.iter().zip(streaks) {
        assert_eq!((&episode["first_call"], &episode["length"]), (&streak["first_call"], &streak["length"]));
    }
    // The first ends with a launch that was let through, the second with the log.
    let stamp = |line: &serde_json::Value| {
        let text = read(&h200("hook.jsonl"));
        let record: serde_json::Value =
            serde_json::from_str(text.lines().nth(line.as_u64().unwrap() as usize - 1).unwrap()).unwrap();
        (record["mono_ns"].as_u64().unwrap(), record["outcome"].clone())
    };
    let first = &longest[0];
    let (began, denied) = stamp(&first["first_line"]);
    let (recovered, ok) = stamp(&first["recovered_line"]);
    assert_eq!((denied, ok), ("denied".into(), "ok".into()));
    assert!((first["recovery_s"].as_f64().unwrap() - (recovered - began) as f64 / 1e9).abs() < 1e-9);
    assert_eq!((&longest[1]["recovered_line"], &longest[1]["recovery_s"]), (&().into(), &().into()));
    assert_eq!(json["starvation"]["seconds"], first["recovery_s"]);
    // Without a clock there are lengths and no times.
    let lines = [launch("", "DENIED | tokens=0.4"), launch("", "-> 0 | tokens=0.0")].concat();
    let json = serde_json::to_value(&of_text(lines).1.summary).unwrap();
    assert_eq!((&json["episodes"]["longest"][0]["recovery_s"], &json["starvation"]), (&().into(), &().into()));
    assert_eq!(json["episodes"]["longest"][0]["recovered_line"], 2);
}

#[test]
fn of_many_episodes_the_longest_are_listed_and_all_are_counted() {
    let run = |n: usize| launch("", "DENIED | tokens=0.0").repeat(n) + &launch("", "-> 0 | tokens=0.0");
    // A rate that is told late changes nothing: those before it count as well.
    let many: String = (1..=50).map(|n| run(n % 25 + 1)).collect();
    for log in [format!("{BANNER}{many}"), format!("{many}{BANNER}")] {
        let json = serde_json::to_value(&of_text(log).1.summary).unwrap();
        let longest = json["episodes"]["longest"].as_array().unwrap();
        let lengths: Vec<u64> = longest.iter().map(|episode| episode["length"].as_u64().unwrap()).collect();
        assert_eq!((&json["episodes"]["count"], lengths.len()), (&50.into(), 20));
        assert!(lengths[0] == 25 && lengths[19] == 16 && lengths.is_sorted_by(|a, b| a >= b), "{lengths:?}");
        assert!(longest[0]["first_call"].as_u64() < longest[1]["first_call"].as_u64(), "the first of equals first");
    }
}

/// Two processes of a job: one is let through three times as often, in three times the time.
fn job(shared: &str) -> String {
    let mut log = String::new();
    for (pid, launches) in [(7, 12u64), (8, 4)] {
        log.push_str(&format!(
            "{{\"v\":1,\"ev\":\"start\",\"pid\":{pid},\"host\":\"h\",\"mono_ns\":1,\"rate\":5.0,\"capacity\":3.0{shared}}}\n"
        ));
        for seq in 1..=launches {
            log.push_str(&format!(
                "{{\"ev\":\"call\",\"seq\":{seq},\"mono_ns\":{},\"pid\":{pid},\"api\":\"cudaLaunchKernel\",\"grid\":[1,1,1],\
                 \"block\":[1,1,1],\"outcome\":\"ok\",\"ret\":0,\"tokens\":1.0,\"wait_ns\":0,\"real_ns\":{},\"hook_ns\":{}}}\n",
                seq * 1_000_000_000 * if launches == 4 { 11 } else { 9 } / 9,
                1000 * seq,
                10 * seq,
            ));
        }
    }
    log
}

#[test]
fn fairness_is_between_processes_and_overhead_is_by_api() {
    let both = of_records(&job(",\"shared\":\"train\",\"job\":\"0x7\"")).1;
    let json = serde_json::to_value(&both.summary).unwrap();
    // (12 + 4)² / (2 (144 + 16)).
    assert_eq!((&json["fairness"]["index"], &json["fairness"]["processes"]), (&0.8.into(), &2.into()));
    let shared = &json["fairness"]["shared"][0];
    assert_eq!((&shared["name"], &shared["launches"]["index"]), (&"train".into(), &0.8.into()));
    // 12 in 11 s, 4 in 3.67 s.
    assert!((shared["per_second"]["index"].as_f64().unwrap() - 1.0).abs() < 1e-9, "{shared}");
    let alone = serde_json::to_value(&of_records(&read(&data("sim_lab.jsonl"))).1.summary).unwrap();
    assert_eq!((&alone["fairness"]["index"], &alone["fairness"]["why"]), (&().into(), &"one process alone".into()));

    let api = &json["overhead"]["apis"][0];
    assert_eq!((&api["api"], &api["let_through"], &api["n"]), (&"cudaLaunchKernel".into(), &16.into(), &16.into()));
    assert_eq!(api["hook_ns"], serde_json::json!({"median": 45, "p90": 110, "p99": null, "max": 120}));
    assert_eq!(api["real_ns"]["max"], 12_000);
    assert_eq!(api["why"], "p99 takes 100 calls");
    let text = serde_json::to_value(&of_text(BANNER.to_owned() + &launch("", "-> 0 | tokens=2.0")).1.summary).unwrap();
    assert_eq!(text["overhead"]["apis"], serde_json::json!([]));
    assert!(text["overhead"]["why"].as_str().unwrap().contains("hook_ns"));
}

#[test]
fn the_summary_tells_them_in_both_languages() {
    let folder = crate::common::folder(&[("a.jsonl", job("").as_bytes())]);
    let english = unbroken(&run(folder.path(), &["a.jsonl", "--lang", "en"]).stdout);
    assert!(english.contains("fairness (Jain's index): 0.8 over the launches let through of 2 processes"), "{english}");
    assert!(
        english.contains("hook overhead: cudaLaunchKernel +0.045 µs, the call itself 4.5 µs (medians of 16)"),
        "{english}"
    );
    let output = run(Path::new("."), &[h200("hook.jsonl").to_str().unwrap()]);
    assert!(text(&output.stdout).contains("最长无放行: 第 9 行起 1.5 s, 第 16 行恢复"), "{}", text(&output.stdout));
    let output = run(Path::new("."), &[data("course_h200_cuda13.log").to_str().unwrap(), "--lang", "en"]);
    let english = text(&output.stdout);
    assert!(
        english.contains("duration: first to last launch ≥ 600 ms ± 20 ms (inferred from token growth)"),
        "{english}"
    );
}
