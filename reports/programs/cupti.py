"""What CUPTI, NVIDIA's own tracer, saw of a stretch of PyTorch: the measure that the hook's records are held against."""

import json
import os
import tempfile

import torch
from torch.profiler import ProfilerActivity, profile

from marks import Window, counted, say


def trace(prof):
    """The profile's events as its Chrome trace has them, a list of objects with `cat`, `name` and `args`."""
    handle, path = tempfile.mkstemp(suffix=".json")
    os.close(handle)
    try:
        prof.export_chrome_trace(path)
        with open(path, encoding="utf-8") as file:
            return json.load(file)["traceEvents"]
    finally:
        os.unlink(path)


def launches(events):
    """Launches that CUPTI saw: (number, API names by frequency, kernels).

    A launch is a correlation id that at least one kernel carries; the host call that carries the same id is the API,
    whatever CUPTI calls it. (A graph's kernels share one id, as they share one launch.) Where runtime and driver both
    reported a call under one id, the runtime's name counts.
    """
    def correlation(event):
        return event.get("args", {}).get("correlation")

    kernels = [e for e in events if e.get("cat") == "kernel"]
    ids = {correlation(e) for e in kernels}
    names = {}
    for category in ("cuda_driver", "cuda_runtime"):
        names.update({correlation(e): e["name"] for e in events if e.get("cat") == category and correlation(e) in ids})
    return len(ids), counted(names.get(i, "no API event") for i in ids), len(kernels)


def compare(work, allocate=None):
    """Runs `work` and then `allocate` between marks under CUPTI, and says both sides' counts."""
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=activities):  # the first profile sets CUPTI up
        work()
        torch.cuda.synchronize()
    with profile(activities=activities) as prof:
        torch.cuda.synchronize()
        with Window() as window:
            work()
            torch.cuda.synchronize()
            if allocate:
                allocate()
    events = trace(prof)
    number, names, kernels = launches(events)
    window.tell("launches", number)
    say("cupti.launches", names)
    say("cupti.kernels", kernels)
    if window.calls is not None:
        say("hook.launches", window.apis("launch"))
    if allocate:
        mallocs = [e["name"] for e in events if e.get("cat") == "cuda_runtime" and e["name"].startswith("cudaMalloc")]
        window.tell("allocs", len(mallocs), "alloc")
        say("cupti.allocs", counted(mallocs))
