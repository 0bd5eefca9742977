//! Logs of limits beyond one process's own: shared by a job, on single devices, bypassed.

use hook_analyze::analysis::{Status, TimeBase, findings};
use hook_analyze::render::{Lang, terminal};

use crate::common::of_text;

fn start(pid: u32, more: &str) -> String {
    format!(
        "{{\"v\":1,\"ev\":\"start\",\"run\":\"r\",\"mono_ns\":1,\"pid\":{pid},\"host\":\"h\",\"hook\":\"0.1.0\",\
         \"quota_bytes\":1000,\"rate\":5.0,\"capacity\":3.0,\"policy\":\"deny\"{more}}}\n"
    )
}

fn shared(pid: u32) -> String {
    start(pid, ",\"shared\":\"train\",\"job\":\"0x7\"")
}

fn alloc(pid: u32, seq: u64, at: u64, size: u64, total: u64) -> String {
    format!(
        "{{\"ev\":\"call\",\"seq\":{seq},\"mono_ns\":{at},\"pid\":{pid},\"tid\":{pid},\"api\":\"cudaMalloc\",\"dev\":0,\
         \"size\":{size},\"ptr\":\"{:#x}\",\"outcome\":\"ok\",\"ret\":0,\"total\":{total},\"pending\":0}}\n",
        seq * 256
    )
}

fn free(pid: u32, seq: u64, at: u64, of: u64, size: u64, total: u64) -> String {
    format!(
        "{{\"ev\":\"call\",\"seq\":{seq},\"mono_ns\":{at},\"pid\":{pid},\"tid\":{pid},\"api\":\"cudaFree\",\
         \"size\":{size},\"ptr\":\"{:#x}\",\"outcome\":\"ok\",\"ret\":0,\"total\":{total}}}\n",
        of * 256
    )
}

fn end(pid: u32, at: u64, calls: u64) -> String {
    format!(
        "{{\"ev\":\"end\",\"mono_ns\":{at},\"pid\":{pid},\"calls\":{{\"x\":{{\"ok\":{calls},\"denied\":0,\"failed\":0}}}},\
         \"peak_bytes\":0,\"live_bytes\":0,\"lost\":0}}\n"
    )
}

fn status(text: &str, id: &str) -> (Status, Option<u64>, String) {
    let (_, analysis) = of_text(text);
    let check = analysis.summary.checks.iter().find(|check| check.id == id).unwrap();
    (check.status, check.line, check.detail.clone())
}

#[test]
fn a_shared_quota_is_judged_over_all_that_share_it() {
    let kept = [
        shared(1),
        shared(2),
        alloc(1, 1, 10, 600, 600),
        alloc(2, 1, 20, 400, 400),
        free(1, 2, 30, 1, 600, 0),
        // At the same moment: what is given back comes first.
        alloc(2, 2, 30, 600, 1000),
        end(1, 40, 2),
        end(2, 40, 2),
    ];
    let (is, _, detail) = status(&kept.concat(), "quota-respected");
    assert_eq!(is, Status::Pass);
    assert!(detail.contains("1000 of 1000") && detail.contains("train") && detail.contains('2'), "{detail}");
    let mut broken = kept.clone();
    broken[3] = alloc(2, 1, 20, 401, 401);
    broken[5] = alloc(2, 2, 30, 599, 1000);
    let (is, line, _) = status(&broken.concat(), "quota-respected");
    assert_eq!((is, line), (Status::Fail, Some(4)));
}

#[test]
fn the_dead_count_until_their_last_record() {
    let text = [shared(1), alloc(1, 1, 10, 900, 900), shared(2), alloc(2, 1, 20, 1000, 1000), end(2, 30, 1)];
    let (is, _, detail) = status(&text.concat(), "quota-respected");
    assert_eq!(is, Status::NotApplicable, "{detail}");
    // One that ended counts until its end.
    let text =
        [shared(1), alloc(1, 1, 10, 900, 900), shared(2), alloc(2, 1, 20, 101, 101), end(1, 21, 1), end(2, 30, 1)];
    assert_eq!(status(&text.concat(), "quota-respected").0, Status::Fail);
}

#[test]
fn missing_records_of_a_job_are_no_fault() {
    let text = [
        shared(1),
        alloc(1, 1, 10, 600, 600),
        // Its free, number 2, is not here.
        alloc(1, 3, 25, 100, 100),
        end(1, 40, 3),
        shared(2),
        alloc(2, 1, 20, 1000, 1000),
        end(2, 40, 1),
    ];
    assert_eq!(status(&text.concat(), "quota-respected").0, Status::NotApplicable);
}

#[test]
fn jobs_of_the_same_name_are_told_apart() {
    let other = start(2, ",\"shared\":\"train\",\"job\":\"0x8\"");
    let text = [shared(1), alloc(1, 1, 10, 900, 900), other, alloc(2, 1, 20, 900, 900), end(1, 30, 1), end(2, 30, 1)];
    assert_eq!(status(&text.concat(), "quota-respected").0, Status::Pass);
}

/// Lines of a job: what other processes hold and take is in none of them.
#[test]
fn the_lines_of_one_process_of_a_job_raise_no_alarm() {
    let text = "[HOOK] 显存配额: 128 MB (134217728 bytes)\n\
                [HOOK] 算力限速: 5 tokens/s, burst 3\n\
                [HOOK] 共享限额: train\n\
                [HOOK] cudaMalloc(67108864) -> 0x7f00 | total: 64.0 MB\n\
                [HOOK] cudaMalloc(1) DENIED | total: 512.0 / 512.0 MB\n\
                [HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) -> 0 | tokens=8.0\n\
                [HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) -> 0 | tokens=0.3\n\
                [HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) DENIED | tokens=0.0\n\
                [HOOK] cudaFree(0x7f00) -> 0 | freed: 67108864 bytes | total: 0.0 MB\n";
    let (events, analysis) = of_text(text);
    assert_eq!(analysis.summary.inputs[0].bad_lines, 0);
    assert_eq!(events.processes[0].shared.as_deref(), Some("train"));
    for check in &analysis.summary.checks {
        assert_ne!(check.status, Status::Fail, "{check:?}");
    }
    assert_eq!(status(text, "quota-respected").0, Status::NotApplicable);
    assert_eq!(status(text, "total-matches").0, Status::Pass);
    assert_eq!(analysis.timelines[0].base, TimeBase::Sequence);
    assert_eq!(findings::started_full(&events), None);
    let refused = findings::refused(&events, &analysis);
    assert_eq!((refused[0].live, refused[0].quota), (Some(512 << 20), Some(512 << 20)));
    for (lang, word) in [(Lang::Zh, "共享限额: train"), (Lang::En, "shared: train")] {
        assert!(terminal::summary(&analysis.summary, lang).contains(word));
    }
    let json = serde_json::to_value(&analysis.summary).unwrap();
    assert_eq!((&json["shared"][0], &json["processes"][0]["shared"]), (&"train".into(), &"train".into()));
}

#[test]
fn banners_that_mix_each_get_their_shared_line() {
    let banner = "[HOOK] 显存配额: 128 MB (134217728 bytes)\n[HOOK] 算力限速: 5 tokens/s, burst 3\n";
    let shared = "[HOOK] 共享限额: train\n";
    let text = format!("{banner}{banner}{shared}{shared}[HOOK] cudaMalloc(1) -> 0x7f00 | total: 0.0 MB\n");
    let (events, _) = of_text(text);
    assert_eq!(events.processes.len(), 2);
    assert!(events.processes.iter().all(|process| process.shared.as_deref() == Some("train")));
}

#[test]
fn a_devices_refusal_in_lines_is_no_wrong_total() {
    let text = "[HOOK] 显存配额: 256 MB (268435456 bytes)\n\
                [HOOK] cudaMalloc(67108864) -> 0x7f00 | total: 64.0 MB\n\
                [HOOK] cudaMalloc(134217728) -> 0x8f00 | total: 192.0 MB\n\
                [HOOK] cudaMalloc(67108865) DENIED | total: 64.0 / 128.0 MB\n\
                [HOOK] cudaMalloc(67108865) DENIED | total: 192.0 / 256.0 MB\n";
    assert_eq!(status(text, "total-matches").0, Status::Pass);
    let wrong = text.replace("192.0 / 256.0", "64.0 / 256.0");
    assert_eq!(status(&wrong, "total-matches").0, Status::Fail);
    let (events, analysis) = of_text(text);
    let refused = findings::refused(&events, &analysis);
    assert_eq!((refused[0].live, refused[0].quota), (Some(64 << 20), Some(128 << 20)));
}

#[test]
fn a_device_above_its_quota_is_found() {
    let quotas = ",\"dev_quota_bytes\":{\"0\":500,\"1\":400}";
    let text = |size: u64, dev: u32| {
        let second = alloc(1, 2, 20, size, 400 + size).replace("\"dev\":0", &format!("\"dev\":{dev}"));
        [start(1, quotas), alloc(1, 1, 10, 400, 400), second, end(1, 30, 2)].concat()
    };
    assert_eq!(status(&text(100, 0), "quota-respected").0, Status::Pass);
    assert_eq!(status(&text(101, 0), "quota-respected").1, Some(3));
    assert_eq!(status(&text(400, 1), "quota-respected").0, Status::Pass);
    assert_eq!(status(&text(401, 1), "quota-respected").0, Status::Fail);
    let (_, analysis) = of_text(text(100, 0));
    assert!(terminal::summary(&analysis.summary, Lang::En).contains("quota on device 1: "));
}

#[test]
fn a_bypassed_launch_takes_no_token() {
    let launch = |seq: u64, more: &str| {
        format!(
            "{{\"ev\":\"call\",\"seq\":{seq},\"mono_ns\":{},\"pid\":1,\"api\":\"cudaLaunchKernel\",\"grid\":[1,1,1],\
             \"block\":[256,1,1],\"outcome\":\"ok\",\"ret\":0{more},\"wait_ns\":0}}\n",
            10 + seq
        )
    };
    let text = [
        start(1, ""),
        launch(1, ",\"bypass\":true,\"tokens\":3.0"),
        launch(2, ",\"tokens\":2.0"),
        launch(3, ",\"bypass\":true,\"tokens\":2.0"),
        end(1, 30, 3),
    ];
    let (events, analysis) = of_text(text.concat());
    assert_eq!(findings::started_full(&events), Some(true));
    assert!(analysis.summary.checks.iter().all(|check| check.status != Status::Fail));
    let series = hook_analyze::analysis::series::of(&events, &analysis);
    // The curve stays where it was at the first and the last, and falls at the second.
    let levels: Vec<f64> = series.processes[0].level.iter().map(|corner| corner.1).collect();
    assert_eq!(levels.iter().filter(|&&level| level == 2.0).count(), 2, "{levels:?}");
    assert!(levels.iter().all(|&level| level <= 3.0));
}
