//! Logs of limits beyond one process's own: shared by a job, on single devices, bypassed.

use hook_analyze::analysis::summary::analyse;
use hook_analyze::analysis::{Status, TimeBase, findings};
use hook_analyze::render::{Lang, terminal};
use hook_analyze::{figures, parse};

use crate::common::{folder, of_text};

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

/// A process may have been at work before its third banner line stands: its calls are judged as what they are.
#[test]
fn a_shared_line_behind_calls_is_still_the_processs() {
    let text = "[HOOK] 显存配额: 128 MB (134217728 bytes)\n\
                [HOOK] 算力限速: 5 tokens/s, burst 3\n\
                [HOOK] cudaMalloc(67108864) -> 0x7f00 | total: 64.0 MB\n\
                [HOOK] cudaMalloc(1) DENIED | total: 128.0 / 128.0 MB\n\
                [HOOK] cudaMalloc(1) DENIED | total: 512.0 / 512.0 MB\n\
                [HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) -> 0 | tokens=8.0\n";
    for id in ["total-matches", "tokens-in-range"] {
        assert_eq!(status(text, id).0, Status::Fail, "{id}");
        assert_eq!(status(&format!("{text}[HOOK] 共享限额: train\n"), id).0, Status::Pass, "{id}");
    }
    let below = text.replace("tokens=8.0", "tokens=-8.0");
    assert_eq!(status(&format!("{below}[HOOK] 共享限额: train\n"), "tokens-in-range").0, Status::Fail);
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

/// What a block, its device and what freed it are is followed per device, however it goes.
#[test]
fn what_a_device_holds_is_followed_through_frees_resets_and_addresses_that_come_again() {
    let on = |dev: &str, record: String| record.replace("\"dev\":0", &format!("\"dev\":{dev}"));
    let reset = |seq: u64, dev: u32, total: u64| {
        format!(
            "{{\"ev\":\"call\",\"seq\":{seq},\"mono_ns\":{seq},\"pid\":1,\"api\":\"cudaDeviceReset\",\"dev\":{dev},\
             \"size\":0,\"outcome\":\"ok\",\"ret\":0,\"total\":{total}}}\n"
        )
    };
    let quotas = ",\"dev_quota_bytes\":{\"10\":500,\"2\":400,\"x\":1}";
    let again = alloc(1, 2, 2, 500, 500).replace("0x200", "0x100");
    for (calls, fault) in [
        // Freed, then as much again.
        (vec![on("2", alloc(1, 1, 1, 400, 400)), free(1, 2, 2, 1, 400, 0), on("2", alloc(1, 3, 3, 400, 400))], None),
        // Another device's reset frees nothing here.
        (vec![on("2", alloc(1, 1, 1, 400, 400)), reset(2, 10, 400), on("2", alloc(1, 3, 3, 1, 401))], Some(4)),
        (vec![on("2", alloc(1, 1, 1, 400, 400)), reset(2, 2, 0), on("2", alloc(1, 3, 3, 400, 400))], None),
        // The address comes again on another device: the block that was there is gone.
        (vec![on("2", alloc(1, 1, 1, 400, 400)), on("10", again.clone()), on("2", alloc(1, 3, 3, 400, 900))], None),
        (vec![on("2", alloc(1, 1, 1, 1, 1)), on("10", again), on("10", alloc(1, 3, 3, 1, 501))], Some(4)),
        // Without a quota of its own, and without a device.
        (vec![on("3", alloc(1, 1, 1, 900, 900)), alloc(1, 2, 2, 100, 1000).replace("\"dev\":0,", "")], None),
    ] {
        let text = [start(1, quotas), calls.concat()].concat();
        let (is, line, detail) = status(&text, "quota-respected");
        assert_eq!((is == Status::Fail, line), (fault.is_some(), fault), "{detail}\n{text}");
        assert_eq!(status(&text, "total-matches").0, Status::Pass, "{text}");
    }
}

/// Processes of a job, each in a file of its own: nothing may depend on the files' order.
#[test]
fn a_jobs_records_may_stand_in_several_files() {
    let first = [shared(1), alloc(1, 1, 10, 600, 600), free(1, 2, 30, 1, 600, 0), end(1, 40, 2)].concat();
    let second = |size| [shared(2), alloc(2, 1, 20, size, size), end(2, 25, 1)].concat();
    for (size, want) in [(400, Status::Pass), (401, Status::Fail)] {
        for swapped in [false, true] {
            let mut files = [("a.jsonl", first.clone()), ("b.jsonl", second(size))];
            if swapped {
                files.reverse();
            }
            let files = files.map(|(name, text)| (name, text.into_bytes()));
            let folder = folder(&files.each_ref().map(|(name, text)| (*name, &text[..])));
            let paths = files.map(|(name, _)| folder.path().join(name));
            let figures = figures::read(&paths, None).unwrap().summary;
            let rows = analyse(&parse::read(&paths, None).unwrap()).summary;
            for checks in [figures.checks, rows.checks] {
                assert_eq!((checks[0].id, checks[0].status), ("quota-respected", want));
                assert_eq!(checks[0].line, (want == Status::Fail).then_some(2));
            }
        }
    }
}

#[test]
fn physical_memory_outlives_a_reset() {
    let call = |seq: u64, api: &str, more: &str| {
        format!(
            "{{\"ev\":\"call\",\"seq\":{seq},\"mono_ns\":{seq},\"pid\":1,\"tid\":1,\"api\":\"{api}\",\"dev\":0,{more},\
             \"outcome\":\"ok\",\"ret\":0"
        )
    };
    let alloc = |seq, api, more| call(seq, api, more);
    let text = [
        start(1, ",\"dev_quota_bytes\":{\"0\":96}"),
        alloc(1, "cuMemCreate", "\"size\":64,\"ptr\":\"0x10\"") + ",\"total\":64,\"pending\":0}\n",
        alloc(2, "cuMemAlloc_v2", "\"size\":32,\"ptr\":\"0x20\"") + ",\"total\":96,\"pending\":0}\n",
        call(3, "cuDevicePrimaryCtxReset_v2", "\"size\":32") + ",\"total\":64}\n",
        call(4, "cuMemRelease", "\"size\":64,\"ptr\":\"0x10\"") + ",\"total\":0}\n",
        end(1, 10, 4),
    ]
    .concat();
    for api in ["cuDevicePrimaryCtxReset_v2", "cudaDeviceReset", "cuDevicePrimaryCtxRelease_v2"] {
        let (_, analysis) = of_text(text.replace("cuDevicePrimaryCtxReset_v2", api));
        let memory = analysis.summary.memory;
        assert_eq!((memory.live_bytes, memory.peak_bytes, memory.freed_bytes, memory.unknown_frees), (0, 96, 96, 0));
        assert_eq!(analysis.memories[0].live_after, [64, 96, 64, 0]);
        for check in analysis.summary.checks.iter().filter(|check| check.status != Status::Pass) {
            assert_eq!(check.status, Status::NotApplicable, "{check:?}");
        }
    }
    // By lines as well.
    let lines = "[HOOK] 显存配额: 128 MB (134217728 bytes)\n\
                 [HOOK] cuMemCreate(67108864) -> 0x10 | total: 64.0 MB\n\
                 [HOOK] cuMemAlloc_v2(33554432) -> 0x20 | total: 96.0 MB\n\
                 [HOOK] cudaDeviceReset() -> 0 | freed: 33554432 bytes | total: 64.0 MB\n\
                 [HOOK] cuMemRelease(0x10) -> 0 | freed: 67108864 bytes | total: 0.0 MB\n";
    assert_eq!(status(lines, "total-matches").0, Status::Pass);
    assert_eq!(of_text(lines).1.summary.memory.live_bytes, 0);
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
