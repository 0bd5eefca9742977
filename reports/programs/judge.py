"""What each run must have shown. Every rule adds a sentence where it is broken; no sentence is a pass."""

from matrix import DENY, DENY_ERROR, NONE, QUOTA, RECORD, WAIT

MIB = 1 << 20


def judge(program, run, reference):
    """The faults of one run. `reference` is the run without the hook that has the right results, or None."""
    if run.status == "hung":
        return ["hung: killed after the time limit"]
    faults = list(ended(run))
    faults += results(run, reference)
    if run.setting == NONE:
        return faults
    faults += records(run)
    if run.exit is not None and run.exit >= 0:
        faults += expectations(run)
    faults += analysis(run)
    faults += {RECORD: unlimited, QUOTA: quota, DENY: deny, WAIT: wait}[run.setting](program, run)
    return faults


def ended(run):
    """Not by a signal; 0, or 3 where launches are denied, which the program must be told."""
    wanted = 3 if run.setting == DENY else 0
    if run.exit is not None and run.exit < 0:
        yield f"ended by signal {-run.exit}"
    elif run.exit == 1 and (run.results() or "wrong" in run.said):
        yield f"a wrong result, and no call had failed: {run.said.get('wrong') or run.results()}"
    elif run.exit != wanted:
        last = (run.stderr.strip().splitlines() or [""])[-1]
        yield f"exit {run.exit}, expected {wanted}: {run.said.get('error') or last or 'said nothing'}"
    elif run.setting != DENY and "error" in run.said:
        yield f"an error: {run.said['error'][:200]}"


def results(run, reference):
    """The unhooked run's, to the digit, unless launches are denied."""
    if run.setting == DENY:
        return
    if not run.results():
        yield "printed no result"
    elif reference is None or not reference.results():
        yield "there is no run without the hook to compare with"
    elif run.results() != reference.results():
        yield f"results {run.results()} differ from {reference.results()} without the hook"


def records(run):
    """The hook was there, saw something, and its records and sums agree."""
    if not run.banners:
        yield "the hook was not loaded"
    if not run.calls:
        yield "the hook recorded no call"
        return
    if run.unreadable:
        yield f"{run.unreadable} lines of the event file are no JSON"
    for pid in sorted({call["pid"] for call in run.calls}):
        ends = [end for end in run.ends if end["pid"] == pid]
        if len(ends) != 1:
            yield f"process {pid} has {len(ends)} end records"
            continue
        written = [call["seq"] for call in run.calls if call["pid"] == pid]
        summed = sum(sum(outcomes.values()) for outcomes in ends[0]["calls"].values())
        if ends[0]["lost"] or len(written) != summed:
            yield f"{len(written)} records of {summed} calls, {ends[0]['lost']} lost"
        if sorted(written) != list(range(1, len(written) + 1)):
            yield f"the numbers of process {pid}'s records have gaps"


def expectations(run):
    """What the program, or CUPTI, counted is what the hook counted."""
    said = run.said
    for kind in ("launch", "alloc", "free"):
        called = said.get({"launch": "calls.launches", "alloc": "calls.allocs", "free": "calls.frees"}[kind])
        if called is not None and int(called) != run.count(kind):
            yield f"the program made {called} calls of kind {kind}, the hook counted {run.count(kind)}"
    for kind, key in (("launch", "errors.launches"), ("alloc", "errors.allocs")):
        refused = run.count(kind, "denied", "failed")
        if key in said and int(said[key]) != refused:
            yield f"the program saw {said[key]} refusals of kind {kind}, the hook counted {refused}"
    for key in said:
        if not key.startswith("expected."):
            continue
        what = key.removeprefix("expected.")
        if said[key] == "0":
            yield f"{what}: nothing was expected, so nothing was compared"
        elif said[key] != said.get("logged." + what):
            yield f"{what}: {said[key]} expected, {said.get('logged.' + what)} logged"


def analysis(run):
    """Every rule of hook-analyze is kept. Without hook-analyze there is nothing to say; the table says so."""
    if not run.analysis:
        return
    if "error" in run.analysis:
        yield run.analysis["error"].split("\n")[0]
    for check in run.analysis.get("checks", []):
        if check["status"] == "fail":
            yield f"hook-analyze, {check['id']}: {check['detail']}"


def denials(run):
    return sum(outcomes["denied"] for outcomes in run.counts().values())


def unlimited(program, run):
    if denials(run):
        yield f"{denials(run)} denials without a limit"
    if run.said.get("big") != "granted":
        yield f"the large request: {run.said.get('big')}"


def quota(program, run):
    """The large request is refused as CUDA refuses, and the device looks as large as the quota."""
    said = run.said
    big = said.get("big", "")
    if not big.startswith("refused") or program.refusal.lower() not in big.lower():
        yield f"the large request should be refused with `{program.refusal}`: {big or 'not made'}"
    if not program.keeps_within and not run.count("alloc", "denied"):
        yield "no allocation was denied"
    if run.count("launch", "denied"):
        yield f"{run.count('launch', 'denied')} launches denied without a rate"
    if "memory.total_mb" in said and int(said["memory.total_mb"]) != program.quota_mb:
        yield f"the program is told of {said['memory.total_mb']} MB, the quota is {program.quota_mb}"
    for end in run.ends:
        if end["peak_bytes"] > program.quota_mb * MIB:
            yield f"{end['peak_bytes']} bytes were live at once, above the quota"


def deny(program, run):
    """Launches were denied, no more passed than the bucket had, and the program was told by the code asked for."""
    launches = run.launches()
    if not run.count("launch", "denied"):
        yield "no launch was denied"
    if any(call["ret"] != DENY_ERROR for call in launches if call["outcome"] == "denied"):
        yield f"a denial's code is not {DENY_ERROR}"
    if not run.said.get("error"):
        yield "the program was told of no error"
    for pid in sorted({call["pid"] for call in launches}):
        own = [call for call in launches if call["pid"] == pid]
        passed = sum(call["outcome"] != "denied" for call in own)
        room = program.capacity + program.rate * (own[-1]["mono_ns"] - own[0]["mono_ns"]) / 1e9
        if passed > room + 1e-3:
            yield f"{passed} launches passed, the bucket had {room:.2f} tokens"


def wait(program, run):
    """Nothing was denied, and the launches took the time that their tokens take to come."""
    if denials(run):
        yield f"{denials(run)} denials under wait"
    if not any(call.get("wait_ns", 0) for call in run.calls):
        yield "no launch waited"
    for end in run.ends:
        own = [call for call in run.launches() if call["pid"] == end["pid"]]
        if not own:
            continue
        least = (len(own) - program.capacity) / program.rate
        took = (end["mono_ns"] - own[0]["mono_ns"]) / 1e9
        if took < least - 0.01:
            yield f"{len(own)} launches within {took:.2f} s, their tokens take {least:.2f} s"
