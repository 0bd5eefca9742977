//! The driver API, however a program comes to it: linked, by `dlsym`, by `cuGetProcAddress` of CUDA 12 and of CUDA 11, or
//! through a runtime library that is a part of the program.

use hook_event::Outcome;

use crate::common::{Done, Job, calls, job, lines_match_records};

const WAYS: [&str; 4] = ["link", "dlsym", "proc", "proc1"];

fn driver(way: &str, commands: &[&str]) -> Job {
    // Nothing loads libcuda for the program before it does so itself, but where it is linked to it.
    let program = if way == "link" { "driver" } else { "driver_unlinked" };
    job(program, &[&[way], commands].concat())
}

/// Everything that holds for any run of one thread.
fn checked(done: Done) -> Done {
    assert_eq!(done.errno_changes(), [""; 0]);
    lines_match_records(&done);
    done.process().replay();
    done
}

#[test]
fn every_allocation_function_is_charged_and_refused_whichever_way_it_is_found() {
    for way in WAYS {
        for (take, free, symbol, freed) in [
            ("alloc", "free", "cuMemAlloc_v2", "cuMemFree_v2"),
            ("managed", "free", "cuMemAllocManaged", "cuMemFree_v2"),
            ("async", "free-async", "cuMemAllocAsync", "cuMemFreeAsync"),
            ("async-ptsz", "free-async-ptsz", "cuMemAllocAsync_ptsz", "cuMemFreeAsync_ptsz"),
            ("pool", "free", "cuMemAllocFromPoolAsync", "cuMemFree_v2"),
            ("pool-ptsz", "free-async", "cuMemAllocFromPoolAsync_ptsz", "cuMemFreeAsync"),
        ] {
            let (a, b, free) = (format!("{take}:100M:a"), format!("{take}:100M:b"), format!("{free}:a"));
            let done = checked(driver(way, &[&a, &b, "is-null:b", "live", &free, &b]).quota("128").run().ok());
            assert_eq!(done.codes(), [0, 2, 1, 100 << 20, 0, 0], "{way} {symbol}");
            let process = done.process();
            assert_eq!(process.outcomes(symbol.trim_end_matches("_ptsz")), (2, 1, 0), "{way} {symbol}");
            let symbols: Vec<_> = process.calls.iter().filter_map(|call| call.sym.as_deref()).collect();
            assert_eq!(symbols, [symbol, symbol, freed, symbol], "{way}");
            assert!(process.calls.iter().all(|call| call.dev == Some(0)), "{way} {symbol}");
        }
    }
}

#[test]
fn a_size_near_the_end_of_64_bits_is_denied() {
    let done = driver("proc", &["alloc:100M", "alloc:max-32M:b", "free"]).quota("128").run().ok();
    assert_eq!(checked(done).codes(), [0, 2, 0]);
}

#[test]
fn what_the_driver_refuses_gives_its_reservation_back() {
    let commands = ["alloc:100M", "alloc:100M", "free", "free", "alloc:128M:b"];
    let job = driver("dlsym", &commands).quota("128").env("CUDA_SIM_MALLOC_FAIL", "1").env("CUDA_SIM_FREE_FAIL", "1");
    let done = checked(job.run().ok());
    assert_eq!(done.codes(), [2, 0, 700, 0, 0]);
    assert_eq!(done.process().outcomes("cuMemAlloc_v2"), (2, 0, 1));
    assert_eq!(done.process().outcomes("cuMemFree_v2"), (1, 0, 1));
}

#[test]
fn padding_and_texels_are_charged() {
    let commands = [
        "pitch:100,1000:a",
        "array:64,64:b",
        "array3:8,8,8:c",
        "mip:8,8,4:d",
        "free:a",
        "free-array:b",
        "free-array:c",
    ];
    let commands = [&commands[..], &["free-mip:d"]].concat();
    let done = checked(driver("proc", &commands).run().ok());
    assert_eq!(done.codes(), [0; 8]);
    let sizes: Vec<_> = done.process().calls.iter().filter_map(|call| call.size).collect();
    // Rows of 512; 16 bytes a texel; four levels of 64, 16, 4 and 1 texels.
    assert_eq!(sizes[..4], [512_000, 65_536, 8192, 16 * 85]);
    assert_eq!(sizes[4..], sizes[..4]);
    let commands =
        ["pitch:100,250000", "is-null", "live", "array:4096,4096:b", "array3:4096,4096,2:c", "mip:4096,4096,2:d"];
    let done = checked(driver("proc", &commands).quota("100").run().ok());
    assert_eq!(done.codes(), [2, 1, 0, 2, 2, 2]);
}

#[test]
fn launches_of_every_kind_take_tokens_and_are_refused_as_the_driver_would() {
    const KINDS: [(&str, &str); 8] = [
        ("launch", "cuLaunchKernel"),
        ("launch-ptsz", "cuLaunchKernel_ptsz"),
        ("launch-ex", "cuLaunchKernelEx"),
        ("launch-ex-ptsz", "cuLaunchKernelEx_ptsz"),
        ("launch-coop", "cuLaunchCooperativeKernel"),
        ("launch-coop-ptsz", "cuLaunchCooperativeKernel_ptsz"),
        ("graph", "cuGraphLaunch"),
        ("graph-ptsz", "cuGraphLaunch_ptsz"),
    ];
    for way in WAYS {
        for (kind, symbol) in KINDS {
            let done = checked(driver(way, &[kind, kind, kind, "launches"]).bucket("0.001", "2").run().ok());
            assert_eq!(done.codes(), [0, 0, 719, 2], "{way} {symbol}");
            let process = done.process();
            assert_eq!(process.outcomes(symbol.trim_end_matches("_ptsz")), (2, 1, 0), "{way} {symbol}");
            assert!(process.calls.iter().all(|call| call.sym.as_deref() == Some(symbol)), "{way} {symbol}");
        }
    }
    let done = driver("proc", &["2x launch".replace(' ', "").as_str(), "launch:7,2,3:64,2,1:16"]);
    let done = checked(done.bucket("0.001", "1").env("CUDA_CORE_DENY_ERROR", "701").run().ok());
    assert_eq!(done.codes(), [0, 701, 701]);
    let last = done.process().calls.pop().unwrap();
    assert_eq!((last.grid, last.block, last.shmem), (Some([7, 2, 3]), Some([64, 2, 1]), Some(16)));
    assert_eq!(last.outcome, Outcome::Denied);
}

#[test]
fn a_launch_without_a_configuration_is_the_drivers_to_judge() {
    let done = driver("proc", &["launch-ex-null", "launch"]).bucket("0.001", "1").run().ok();
    assert_eq!(done.codes(), [1, 0]);
    assert_eq!(done.process().calls.len(), 1);
}

#[test]
fn a_launch_waits_for_its_token() {
    let done = driver("proc", &["3xlaunch"]).bucket("20", "1").env("CUDA_CORE_POLICY", "wait").run().ok();
    let done = checked(done);
    assert_eq!(done.codes(), [0; 3]);
    let waited: Vec<u64> = done.process().calls.iter().filter_map(|call| call.wait_ns).collect();
    assert!(waited[0] == 0 && waited[1..].iter().all(|&ns| ns > 20_000_000), "{waited:?}");
}

#[test]
fn kernels_are_named_by_the_driver() {
    for way in ["link", "proc"] {
        for choice in ["function:_Z3addPfi", "kernel:_Z3addPfi", "kernel-function:_Z3addPfi"] {
            let done = driver(way, &[choice, "launch", "launch-ex"]).run().ok();
            let names: Vec<_> = done.process().calls.into_iter().map(|call| call.kernel).collect();
            assert_eq!(names, [Some("_Z3addPfi".to_owned()), Some("_Z3addPfi".to_owned())], "{way} {choice}");
        }
    }
}

#[test]
fn physical_memory_is_charged_until_its_last_handle_and_its_last_mapping_are_gone() {
    for way in WAYS {
        // Handle first, then the mapping; the other way round; kept by a second handle.
        let commands = ["reserve:64M", "create:64M", "map", "create:96M:b", "release", "info", "unmap", "info"];
        let done = checked(driver(way, &commands).quota("128").run().ok());
        assert_eq!(done.codes(), [0, 0, 0, 2, 0, 64, 0, 128], "{way}");
        let freed: Vec<_> = done.process().calls.iter().map(|call| (call.api.clone(), call.size)).collect();
        assert_eq!(freed[2], ("cuMemUnmap".to_owned(), Some(64 << 20)), "{way}");
        assert_eq!(freed.len(), 3, "{way}: what gives nothing back is not recorded");

        let commands =
            ["reserve:64M", "create:64M", "map", "retain", "unmap", "info", "release", "info", "release", "info"];
        let done = checked(driver(way, &commands).quota("128").run().ok());
        assert_eq!(done.codes(), [0, 0, 0, 0, 0, 64, 0, 64, 0, 128], "{way}");
        assert_eq!(done.process().calls.last().unwrap().api, "cuMemRelease", "{way}");

        // As often as one likes.
        let done =
            checked(driver(way, &["vmm:128M", "unvmm", "vmm:128M", "unvmm", "vmm:130M"]).quota("128").run().ok());
        assert_eq!(done.codes(), [0, 0, 0, 0, 2], "{way}");
    }
}

#[test]
fn a_release_that_fails_frees_nothing() {
    let done = driver("proc", &["create:64M", "release", "release", "create:128M:b"]).quota("128").run().ok();
    assert_eq!(done.codes()[..2], [0, 0]);
    assert_ne!(done.codes()[2], 0);
    assert_eq!(done.codes()[3], 0);
    done.process().replay();
}

#[test]
fn host_memory_is_recorded_and_not_counted() {
    let commands = ["host:500M", "info", "free-host", "alloc:100M"];
    let done = checked(driver("proc", &commands).quota("128").run().ok());
    assert_eq!(done.codes(), [0, 128, 0, 0]);
    let process = done.process();
    assert_eq!(process.outcomes("cuMemHostAlloc"), (1, 0, 0));
    assert_eq!(process.calls[0].size, Some(500 << 20));
    assert_eq!(process.calls[0].total, Some(0));
    let done = calls(&["host a 500M", "free-mb", "free-host a", "malloc a 100M"]).quota("128").run().ok();
    assert_eq!(done.codes(), [0, 128, 0, 0]);
    lines_match_records(&done);
    assert_eq!(done.process().outcomes("cudaHostAlloc"), (1, 0, 0));
    assert_eq!(done.process().outcomes("cudaFreeHost"), (1, 0, 0));
    done.process().replay();
}

#[test]
fn free_and_total_memory_are_told_within_the_quota() {
    for way in WAYS {
        let done = driver(way, &["total", "info", "alloc:100M", "info", "alloc:28M:b", "info"]).quota("128").run().ok();
        assert_eq!(checked(done).codes(), [128, 128, 0, 28, 0, 0], "{way}");
    }
}

#[test]
fn what_a_context_held_goes_with_it() {
    for way in WAYS {
        // The context made here, current until it is destroyed; the block before it stays.
        let commands =
            ["alloc:20M:a", "ctx-create", "alloc:100M:b", "ctx-destroy", "info", "device:0", "free:a", "info"];
        let done = driver(way, &commands).quota("128").run().ok();
        assert_eq!(done.codes(), [0, 0, 0, 0, 108, 0, 0, 128], "{way}");
        let process = done.process();
        let gone = process.calls.iter().find(|call| call.api == "cuCtxDestroy_v2").expect("its record");
        assert_eq!(gone.size, Some(100 << 20), "{way}");
        process.replay();

        let done = driver(way, &["alloc:100M", "reset", "device:0", "info"]).quota("128").run().ok();
        assert_eq!(done.codes(), [0, 0, 0, 128], "{way}");
        done.process().replay();

        // What comes from a pool belongs to no context,
        let done = driver(way, &["async:64M:a", "alloc:32M:b", "reset", "device:0", "info", "free:a", "info"]);
        let done = done.quota("128").run().ok();
        assert_eq!(done.codes(), [0, 0, 0, 0, 64, 0, 128], "{way}");
        done.process().replay();

        // nor does physical memory made by itself.
        let done = driver(way, &["create:64M", "alloc:32M:b", "reset", "device:0", "info", "release", "info"]);
        let done = done.quota("128").run().ok();
        assert_eq!(done.codes(), [0, 0, 0, 0, 64, 0, 128], "{way}");
        done.process().replay();

        // The last holder; and one that is not.
        let done = driver(way, &["alloc:100M", "device:0", "release-ctx", "info"]).quota("128").run().ok();
        assert_eq!(done.codes(), [0, 0, 0, 28], "{way}");
        assert_eq!(done.process().calls.len(), 1, "{way}");
        let done = driver(way, &["alloc:100M", "release-ctx", "device:0", "info"]).quota("128").run().ok();
        assert_eq!(done.codes(), [0, 0, 0, 128], "{way}");
        done.process().replay();
    }
}

#[test]
fn a_forked_child_starts_with_empty_accounts() {
    let done = driver("link", &["alloc:100M", "fork", "device:0", "info", "done", "alloc:100M:b"]).quota("128").run();
    assert!(done.stdout.contains("info = 128\n"), "the child has all of the quota: {}", done.stdout);
    let processes = done.log();
    assert_eq!(processes.len(), 1, "the child made no call that is recorded");
    assert_eq!(processes[0].outcomes("cuMemAlloc_v2"), (1, 1, 0));
}

#[test]
fn calls_that_the_shared_runtime_makes_for_a_counted_one_are_not_counted_again() {
    let commands = ["malloc a 64M", "take cudaMallocAsync b 16M", "launch", "graph", "free-async b", "free a", "live"];
    let done = calls(&commands).lab().run().ok();
    assert_eq!(done.codes(), [0; 7]);
    let process = done.process();
    assert!(process.calls.iter().all(|call| call.api.starts_with("cuda")), "{:?}", process.calls);
    assert_eq!(process.calls.len(), 6);
    process.replay();
}

#[test]
fn a_static_runtime_is_seen_at_the_driver() {
    let commands = ["malloc a 100M", "malloc b 100M", "last", "launch", "launch", "last", "free a", "total-mb"];
    let done = job("calls_static", &commands).quota("128").bucket("0.001", "1").run().ok();
    // The runtime itself remembers what the driver, that is the hook, refused.
    assert_eq!(done.codes(), [0, 2, 2, 0, 719, 719, 0, 128]);
    let process = done.process();
    assert_eq!(process.outcomes("cuMemAlloc_v2"), (1, 1, 0));
    assert_eq!(process.outcomes("cuLaunchKernel"), (1, 1, 0));
    assert_eq!(process.outcomes("cuMemFree_v2"), (1, 0, 0));
    process.replay();
}

#[test]
fn the_driver_can_be_left_alone() {
    for way in WAYS {
        let commands = ["alloc:100M", "alloc:100M:b", "2xlaunch", "info", "vmm:100M:c", "unvmm:c"];
        let job = driver(way, &commands).quota("128").bucket("0.001", "1").env("CUDA_HOOK_LEVEL", "runtime");
        let done = job.run().ok();
        let codes = done.codes();
        assert_eq!(codes[..4], [0; 4], "{way}");
        assert!(codes[4] > 1024, "{way}: {codes:?}");
        assert_eq!((done.call_lines().len(), done.files().len()), (0, 0), "{way}");
    }
    let done = calls(&["malloc a 100M", "malloc b 100M"]).quota("128").env("CUDA_HOOK_LEVEL", "runtime").run().ok();
    assert_eq!(done.codes(), [0, 2]);
    assert_eq!(done.process().end.unwrap().uncounted, None, "of what is not watched nothing is said");
}

#[test]
fn what_goes_past_is_counted_and_told_at_the_end() {
    for way in ["dlsym", "proc", "proc1"] {
        let done = driver(way, &["alloc:1M", "3xregister"]).run().ok();
        assert_eq!(done.codes(), [0; 4], "{way}");
        let uncounted = done.process().end.unwrap().uncounted.unwrap();
        assert_eq!(uncounted.into_iter().collect::<Vec<_>>(), [("cuMemHostRegister_v2".to_owned(), 3)], "{way}");
    }
    let done = driver("proc", &["alloc:1M"]).run().ok();
    assert!(done.process().end.unwrap().uncounted.unwrap().is_empty());
}

#[test]
fn a_childs_end_tells_of_its_own_calls_alone() {
    let commands = ["alloc:1M", "3xregister", "fork", "device:0", "alloc:1M:b", "register", "done"];
    let done = driver("dlsym", &commands).run().ok();
    let told: Vec<u64> =
        done.log().iter().map(|p| p.end.as_ref().unwrap().uncounted.as_ref().unwrap().values().sum()).collect();
    assert_eq!(told, [3, 1]);
}

/// A lock of the hook's that another thread held at the fork made the child spin for 20 s, one time in 50.
#[test]
fn a_child_of_a_program_whose_threads_launch_is_not_held_up() {
    let done = job("fork_unload", &["2", "150"]).env("CUDA_HOOK_LOG", "off").run().ok();
    let worst: u64 = done.stdout.trim().parse().unwrap();
    assert!(worst < 1000, "{worst} ms");
}

#[test]
fn a_name_is_answered_as_the_driver_answers_it() {
    let questions = [
        "address:cuMemAlloc:3020",
        "address:cuMemAlloc:2000",
        "address:cuLaunchKernel:7000:2",
        "address:cuNoSuch:12000",
        "address:cuLaunchKernel:3999",
        "address:cuGetProcAddress:12000",
        "address:cuMemHostRegister:12000",
    ];
    let hooked = driver("proc", &questions).run().ok();
    let alone = driver("proc", &questions).unhooked().run().ok();
    assert_eq!(hooked.stdout, alone.stdout);
}

#[test]
fn where_no_driver_is_found_nothing_is_done() {
    let done = driver("dlsym", &["bare", "alloc:1M"]).env("LD_LIBRARY_PATH", "/nowhere").run();
    assert_eq!(done.signal, None);
    assert_eq!(done.files(), [""; 0]);
}
