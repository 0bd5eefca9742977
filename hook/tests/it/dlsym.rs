//! The dynamic linker's answers with the hook in the process: its own library stays the one that asks.

use std::path::Path;

use crate::common::{Job, built, calls, hook, job};

/// Two libraries, in the order of the loader.
fn preloaded(job: Job, libraries: [&Path; 2]) -> Job {
    let [first, second] = libraries.map(|library| library.display().to_string());
    job.env("LD_PRELOAD", &format!("{first}:{second}"))
}

#[test]
fn other_preloaded_libraries_find_what_is_behind_them() {
    let neighbour = built().join("libneighbour.so");
    for order in [[&*neighbour, hook()], [hook(), &*neighbour]] {
        let commands = ["malloc a 100M", "malloc b 100M", "free a", "malloc b 100M"];
        let done = preloaded(calls(&commands).quota("128"), order).run().ok();
        // A refused call does not come to a neighbour behind the hook.
        let seen = if order[0] == neighbour { 3 } else { 2 };
        assert_eq!(done.codes(), [0, 2, 0, 0, seen], "{order:?}");
        assert_eq!(done.process().outcomes("cudaMalloc"), (2, 1, 0));
        done.process().replay();
    }
}

#[test]
fn other_preloaded_libraries_find_the_driver_itself() {
    let neighbour = built().join("libneighbour.so");
    for order in [[&*neighbour, hook()], [hook(), &*neighbour]] {
        for (program, way, seen) in
            [("driver", "link", 3), ("driver_unlinked", "dlsym", 0), ("driver_unlinked", "proc", 0)]
        {
            let commands = [way, "alloc:100M", "alloc:100M:b", "free", "alloc:100M:b"];
            let done = preloaded(job(program, &commands).quota("128"), order).run().ok();
            // A neighbour in front sees the refused call too; one that the program does not come to sees none.
            let seen = if order[0] == neighbour { seen } else { seen.min(2) };
            assert_eq!(done.codes(), [0, 2, 0, 0, seen], "{way} {order:?}");
            assert_eq!(done.process().outcomes("cuMemAlloc_v2"), (2, 1, 0), "{way} {order:?}");
            done.process().replay();
        }
    }
}

#[test]
fn the_linkers_answers_are_those_without_the_hook() {
    let alone = job("lookups", &[]).unhooked().run().ok();
    let done = job("lookups", &[]).run().ok();
    assert_eq!(done.stdout, alone.stdout);
    assert!(alone.stdout.contains("math cos: found"), "{}", alone.stdout);
    assert_eq!(done.files(), [""; 0], "asking makes no event file");
}

#[test]
fn preloaded_twice_it_counts_once() {
    let copy = tempfile::tempdir().unwrap();
    let second = copy.path().join("libcuda_hook_2.so");
    std::fs::copy(hook(), &second).unwrap();
    let done = preloaded(calls(&["malloc a 64M", "launch", "free a"]), [hook(), &second]);
    let done = done.env("CUDA_HOOK_EVENTS", "off").run().ok();
    assert_eq!(done.codes(), [0, 0, 0]);
    // The same file twice is one library to the loader; a copy is another hook, which says so by its own banner.
    let done = preloaded(calls(&["malloc a 64M", "launch", "free a"]), [hook(), hook()]).run().ok();
    assert_eq!(done.codes(), [0, 0, 0]);
    assert_eq!(done.process().outcomes("cudaMalloc"), (1, 0, 0));
}
