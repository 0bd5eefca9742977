#!/usr/bin/env python3
"""Puts programs under the hook through faults, and counts: `make fault-campaign` (TRIES=3).

Every program runs on the stand-in runtime, with the hook and without it. A try survives when the hooked run ends as the
one without the hook does: the same exit status, the same standard output where that is the same each time, within a
minute. Records are lost when calls that returned to the program are not in the event file; where a fault leaves no place
for them that is as it must be, and the table says so. Writes FOLDER/README.md; exits with 1 when a try did not survive,
or a record was lost that had a place.
"""

import datetime
import os
import pathlib
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIM = ROOT / "build/sim"
BUILT = ROOT / "build/faults"
HOOK = ROOT / "libcuda_hook.so"
PROGRAMS = ROOT / "hook/tests/it/programs"
PATIENCE = 60
LIBRARIES = pathlib.Path("/usr/lib/x86_64-linux-gnu")

PYTHON_POOL = """
import ctypes, multiprocessing, sys

def work(n):
    # Through the global scope, as a program that is linked to it: the hook's is found first.
    ctypes.CDLL('libcudart.so.13', ctypes.RTLD_GLOBAL)
    here = ctypes.CDLL(None)
    here.cudaMalloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    here.cudaFree.argtypes = [ctypes.c_void_p]
    p = ctypes.c_void_p()
    codes = []
    for _ in range(n):
        codes += [here.cudaMalloc(ctypes.byref(p), 1 << 20), here.cudaFree(p)]
    return codes

if __name__ == '__main__':
    ctypes.CDLL('libcudart.so.13', ctypes.RTLD_GLOBAL)
    context = multiprocessing.get_context(sys.argv[1])
    with context.Pool(4) as pool:
        # Left to itself a pool ends its workers by a signal; these go by themselves.
        done = pool.map(work, [25] * 8, chunksize=2)
        pool.close()
        pool.join()
    print(sum(map(len, done)), sum(map(sum, done)))
"""


class Fault:
    """One fault: what is run, what is done to it, what must be seen."""

    def __init__(self, name, command, calls=None, place=True, output=True, tries=1.0, **options):
        self.name = name
        self.command = command
        # Counted calls that return to the program: a number, or a function of its standard output.
        self.calls = calls
        # Whether there is a place for every record.
        self.place = place
        # Whether standard output is the same each time.
        self.output = output
        # A part of TRIES.
        self.tries = tries
        self.env = options.get("env", {})
        self.prepare = options.get("prepare", lambda folder: None)
        self.during = options.get("during", lambda folder, process: None)
        self.after = options.get("after", lambda folder: None)
        # Where to look for records, in the folder.
        self.events = options.get("events", "hook.jsonl")
        self.preload = options.get("preload", "{hook}")
        self.unhooked_preload = options.get("unhooked_preload", "")
        self.needs = options.get("needs", [])
        self.stderr = options.get("stderr")


def compile_programs():
    """The programs of the hook's own tests, some once more with AddressSanitizer."""
    subprocess.run(["make", "-s", "-C", ROOT, "libcuda_hook.so", "build/sim/libcudart.so.13"], check=True)
    BUILT.mkdir(parents=True, exist_ok=True)
    base = ["gcc", "-std=c11", "-O2", "-pthread", f"-I{ROOT}/cuda/sim/include"]
    linked = ["-Wl,--no-as-needed", f"-L{SIM}", "-lcudart"]
    linked_names = ["calls", "churn", "forks", "cancel", "batch", "ends", "launchers", "rush"]
    jobs = [(base, name, name, linked) for name in linked_names]
    jobs += [(base, "plugin_host", "plugin_host", [])]
    jobs += [(base + ["-fPIC", "-shared"], name, f"lib{name}.so", linked) for name in ["plugin", "neighbour"]]
    jobs += [(base + ["-fsanitize=address", "-g"], name, f"{name}_asan", linked) for name in ["calls", "churn", "batch"]]
    for options, source, out, rest in jobs:
        subprocess.run([*options, PROGRAMS / f"{source}.c", *rest, "-o", BUILT / out], check=True)
    (BUILT / "pool.py").write_text(PYTHON_POOL)
    shutil.copy(HOOK, BUILT / "libcuda_hook_copy.so")


def mounted(options):
    """A small file system at FOLDER/small."""
    def prepare(folder):
        (folder / "small").mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", folder / "small"], check=True)
        if "size" not in options:
            subprocess.run(["mount", "-o", "remount,ro", folder / "small"], check=True)
    return prepare


def unmount(folder):
    subprocess.run(["umount", "-l", folder / "small"], check=False)


def can_mount():
    with tempfile.TemporaryDirectory() as folder:
        ok = subprocess.run(["mount", "-t", "tmpfs", "none", folder], capture_output=True).returncode == 0
        if ok:
            subprocess.run(["umount", folder], check=True)
        return ok


def vanish(folder, _process):
    time.sleep(0.1)
    shutil.rmtree(folder / "gone", ignore_errors=True)


def stop_and_go(_folder, process):
    for _ in range(20):
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.002)
        process.send_signal(signal.SIGCONT)
        time.sleep(0.005)


def shell(script, program, *arguments):
    return ["/bin/sh", "-c", script, program, *arguments]


def faults():
    b = lambda name: str(BUILT / name)
    calls = b("calls")
    some = ["malloc a 1M", "200x launch", "free a", "launches"]
    batched = "5000x launch"
    small_events = {"CUDA_HOOK_EVENTS": "small/hook.jsonl", "CUDA_HOOK_LOG": "small/hook.log"}
    first = lambda out: int(out.split()[0])
    libasan = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True).stdout.strip()
    asan = {"preload": libasan + ":{hook}", "unhooked_preload": libasan, "env": {"ASAN_OPTIONS": "detect_leaks=0"}, "tries": 0.5}
    # In the stand-in's usual 8 GB of address space valgrind takes a minute to start.
    slow = {"needs": ["valgrind"], "tries": 0.5, "env": {"CUDA_SIM_MEM_MB": "256"}}
    valgrind = ["valgrind", "-q", "--error-exitcode=99"]
    yield Fault("nothing (to compare)", [calls, *some], 202)
    # --- Where records and lines go
    yield Fault("disk full (tmpfs of 16 KB)", [calls, *some], 202, place=False, needs=["mount"],
                env=small_events, prepare=mounted("size=16k"), after=unmount, events="small/hook.jsonl")
    yield Fault("disk full, in batches", [calls, batched, "launches"], 5000, place=False, needs=["mount"],
                env=small_events, prepare=mounted("size=64k"), after=unmount, events="small/hook.jsonl")
    yield Fault("folder read-only", [calls, *some], 202, place=False, needs=["mount"],
                env=small_events, prepare=mounted("mode=755"), after=unmount, events="small/hook.jsonl")
    yield Fault("`ulimit -f 8`", shell('ulimit -f 8; exec "$0" "$@"', calls, *some), 202, place=False)
    yield Fault("`ulimit -f 8`, in batches", shell('ulimit -f 8; exec "$0" "$@"', calls, batched, "launches"), 5000, place=False)
    yield Fault("events to /dev/full", [calls, *some], 202, place=False, env={"CUDA_HOOK_EVENTS": "/dev/full"})
    yield Fault("lines to /dev/full", [calls, *some], 202, env={"CUDA_HOOK_LOG": "/dev/full"})
    yield Fault("stderr is /dev/full", shell('exec "$0" "$@" 2>/dev/full', calls, *some), 202)
    yield Fault("folder of the events vanishes before the first call", [calls, "sleep 400", *some], 202, place=False,
                env={"CUDA_HOOK_EVENTS": "gone/hook.jsonl"}, prepare=lambda f: (f / "gone").mkdir(), during=vanish)
    yield Fault("event file deleted at work", [calls, "10x launch", "sleep 400", *some], 212, place=False,
                env={"CUDA_HOOK_EVENTS": "gone/hook.jsonl"}, prepare=lambda f: (f / "gone").mkdir(), during=vanish)
    yield Fault("working folder deleted", shell('mkdir d; cd d; rmdir ../d; exec "$0" "$@"', calls, *some), 202, place=False)
    yield Fault("stderr closed", shell('exec "$0" "$@" 2>&-', calls, *some), 202)
    yield Fault("stderr closed and its number reused", shell('exec "$0" "open data" "$@" 2>&-; cat data', calls, *some), 202)
    yield Fault("stdin, stdout, stderr closed", shell('exec "$0" "$@" <&- >&- 2>&-', calls, *some), 202)
    yield Fault("stderr a pipe whose reader has gone", shell('"$0" "$@" 2>&1 >out | true; cat out', calls, *some), 202)
    yield Fault("`ulimit -n 6`", shell('ulimit -n 6; exec "$0" "$@"', calls, *some), 202)
    yield Fault("`ulimit -s 64`", shell('ulimit -s 64; exec "$0" "$@"', calls, *some), 202)
    yield Fault("all descriptors closed at work (`ends descriptors`)", [b("ends"), "descriptors"], place=False)
    # --- Processes
    yield Fault("fork storm: 400 forks beside 8 threads", [b("forks"), "8", "400"], tries=0.3)
    yield Fault("forks in batches", [b("batch"), "fork", "5000", "20"], tries=0.5)
    yield Fault("forks in signal handlers", [b("ends"), "fork-inside"], output=False, tries=0.3)
    yield Fault("exec", [calls, "50x launch", "exec", "50x launch"], 100)
    yield Fault("exec, in batches", [calls, batched, "exec", batched], 10000)
    yield Fault("`_exit`", [calls, *some, "_exit 3"], 202)
    yield Fault("`_exit`, in batches", [calls, batched, "_exit 3"], 5000)
    yield Fault("SIGKILL of itself", [calls, *some, "kill"], 202)
    yield Fault("SIGKILL of itself, in batches (20 ms may be lost)", [calls, batched, "kill"], 5000, place=False)
    for how in ["return", "quick_exit", "_Exit", "vfork", "handler", "alone"]:
        yield Fault(f"leaving by {how}, in batches", [b("batch"), "leave", how, "5000"], tries=0.5)
    for how in ["exit", "_exit"]:
        yield Fault(f"{how} in a signal handler inside a call", [b("ends"), "inside", how], output=False,
                    env={"CUDA_SIM_MALLOC_US": "200000"}, tries=0.5)
    yield Fault("four threads exit at once", [b("ends"), "together", "exit"], output=False)
    yield Fault("stopped and continued, again and again", [b("batch"), "mixed", "4", "20000"], output=False, during=stop_and_go, tries=0.5)
    yield Fault("Python multiprocessing: fork", [sys.executable, b("pool.py"), "fork"], first, tries=0.5)
    yield Fault("Python multiprocessing: spawn", [sys.executable, b("pool.py"), "spawn"], first, tries=0.5)
    yield Fault("Python multiprocessing: forkserver", [sys.executable, b("pool.py"), "forkserver"], first, tries=0.5)
    # --- Threads
    yield Fault("pthread_cancel of a waiting launch", [b("cancel")], env={"CUDA_CORE_POLICY": "wait", "CUDA_CORE_RATE": "1", "CUDA_CORE_CAPACITY": "1"}, tries=0.5, output=False)
    yield Fault("pthread_cancel of 8 threads, in batches", [b("batch"), "cancel", "8"], output=False)
    yield Fault("the first thread leaves by pthread_exit", [b("ends"), "alone"], output=False, tries=0.5)
    yield Fault("thousands of short threads", [b("batch"), "short", "1000", "20"], output=False, tries=0.3)
    # --- Other libraries and tools
    # The hook keeps the library that it calls loaded, and the program's last call finds it: that output differs rightly.
    for extra, environment in [("", {}), (", LD_BIND_NOW", {"LD_BIND_NOW": "1"})]:
        yield Fault(f"dlclose of what brought the CUDA library{extra}", [b("plugin_host"), str(BUILT / "libplugin.so")], 4,
                    env=environment, output=False)
    yield Fault("LD_BIND_NOW", [calls, *some], 202, env={"LD_BIND_NOW": "1"})
    yield Fault("the hook twice by one name", [calls, *some], 202, preload="{hook}:{hook}")
    yield Fault("the hook twice, as two files", [calls, *some], 202, preload="{hook}:" + str(BUILT / "libcuda_hook_copy.so"),
                place=False)
    yield Fault("another dlsym user, behind", [calls, *some], 202, preload="{hook}:" + b("libneighbour.so"),
                unhooked_preload=b("libneighbour.so"))
    yield Fault("another dlsym user, before", [calls, *some], 202, preload=b("libneighbour.so") + ":{hook}",
                unhooked_preload=b("libneighbour.so"))
    for library in ["libjemalloc.so.2", "libtcmalloc_minimal.so.4"]:
        path = str(LIBRARIES / library)
        for order, preload in [("before", path + ":{hook}"), ("behind", "{hook}:" + path)]:
            where = {"preload": preload, "unhooked_preload": path, "needs": [path]}
            yield Fault(f"{library} {order}", [calls, batched, "launches"], 5000, **where, tries=0.5)
            yield Fault(f"{library} {order}, fork storm", [b("forks"), "8", "200"], **where, tries=0.3)
    yield Fault("AddressSanitizer: calls", [b("calls_asan"), *some], 202, **asan)
    yield Fault("AddressSanitizer: threads", [b("churn_asan"), "8", "500"], **asan)
    yield Fault("AddressSanitizer: in batches, forks", [b("batch_asan"), "fork", "5000", "5"], **asan)
    # Under valgrind loading the driver changes errno, which `calls` prints; the hook gives the program its own back.
    yield Fault("valgrind: calls", [*valgrind, calls, *some], 202, output=False, **slow)
    yield Fault("valgrind: threads", [*valgrind, b("churn"), "4", "200"], **slow)
    yield Fault("valgrind: in batches", [*valgrind, calls, batched, "launches"], 5000, **slow)


def missing(fault):
    """What the fault needs and is not here."""
    for need in fault.needs:
        if need == "mount":
            if not can_mount():
                return "the right to mount"
        elif not (os.path.exists(need) if "/" in need else shutil.which(need)):
            return need
    return None


def ended(fault, hooked):
    """One run: exit status, standard output, its counted calls that were recorded."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="fault-"))
    try:
        fault.prepare(folder)
        environment = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": str(SIM), "HOME": str(folder), **fault.env}
        preload = fault.preload.format(hook=HOOK) if hooked else fault.unhooked_preload
        # Set within the shell that is replaced by the program, so that the tools of this script are not hooked.
        if preload:
            environment["LD_PRELOAD"] = preload
        with open(folder / "stderr", "wb") as stderr:
            process = subprocess.Popen(fault.command, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=stderr, text=True, start_new_session=True)
            fault.during(folder, process)
            try:
                output, _ = process.communicate(timeout=PATIENCE)
                status = process.returncode
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                output, _ = process.communicate()
                status = "hangs"
        events = folder / fault.events
        text = events.read_text(errors="replace") if events.is_file() else ""
        complete = [line for line in text.splitlines() if line.startswith('{"ev":"call"') and line.endswith("}")]
        said = (folder / "stderr").read_text(errors="replace")
        return status, output, len(complete), said
    finally:
        fault.after(folder)
        shutil.rmtree(folder, ignore_errors=True)


def campaign(tries):
    rows, bad = [], []
    for fault in faults():
        lacking = missing(fault)
        if lacking:
            rows.append((fault.name, "left out: needs " + lacking, "", "", "", ""))
            continue
        status, output, _, _ = ended(fault, hooked=False)
        count = max(1, round(tries * fault.tries))
        survived, made, lost, statuses = 0, 0, 0, set()
        for number in range(count):
            hooked_status, hooked_output, records, said = ended(fault, hooked=True)
            statuses.add(str(hooked_status))
            same = hooked_status == status and (not fault.output or hooked_output == output)
            survived += same
            if not same:
                bad.append(f"{fault.name}, try {number + 1}: status {hooked_status} (without the hook {status})\n"
                           f"stdout {hooked_output[:400]!r}, without the hook {output[:400]!r}\nstderr {said[-1500:]}")
            if fault.calls is not None:
                calls = fault.calls(hooked_output) if callable(fault.calls) else fault.calls
                made += calls
                lost += max(0, calls - records)
                if fault.place and records != calls:
                    bad.append(f"{fault.name}, try {number + 1}: {calls} calls, {records} records\nstderr {said[-800:]}")
        place = "" if fault.calls is None else ("0 allowed" if fault.place else "no place for all")
        rows.append((fault.name, count, survived, f"{status} / {', '.join(sorted(statuses))}", made or "", f"{lost} ({place})" if place else ""))
        print(*rows[-1], sep=" | ", flush=True)
    return rows, bad


def version(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, cwd=ROOT).stdout.strip().splitlines()[0]
    except (OSError, IndexError):
        return "not there"


def report(folder, rows, bad, tries, seconds):
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    ran = [row for row in rows if isinstance(row[1], int)]
    lines = [
        "# Faults",
        "",
        f"`make fault-campaign TRIES={tries}`, {datetime.date.today()}, {seconds:.0f} s, commit {version('git', 'rev-parse', '--short', 'HEAD')}.",
        f"{os.cpu_count()} cores ({cpu.group(1) if cpu else 'unknown'}), {platform.system()} {platform.release()}, "
        f"{version('ldd', '--version')}; {version('gcc', '--version')}; {version('valgrind', '--version')}; Python {platform.python_version()}; {version('rustc', '--version')}.",
        "",
        f"{len(ran)} faults, {sum(row[1] for row in ran)} tries, {sum(row[2] for row in ran)} survived, {len(rows) - len(ran)} faults left out.",
        "",
        "A try survives when the program on the stand-in runtime ends under the hook as it does without it: the same exit",
        "status, the same standard output where that is the same each time, within a minute. Lost are records of calls that had",
        "returned and are not in the event file; \"no place for all\": the fault takes their place away, or they are among those",
        "that `hook/README.md` says a kill may take.",
        "",
        "| fault | tries | survived | status without / with the hook | calls | lost records |",
        "|---|---|---|---|---|---|",
        *("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows),
        "",
    ]
    if bad:
        lines += ["## Did not come out as they must", "", "```text", *bad, "```", ""]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "README.md").write_text("\n".join(lines))


def main():
    folder = pathlib.Path(sys.argv[1])
    tries = int(os.environ.get("TRIES", "3"))
    began = time.monotonic()
    compile_programs()
    rows, bad = campaign(tries)
    report(folder, rows, bad, tries, time.monotonic() - began)
    for text in bad:
        print("\n" + text, file=sys.stderr)
    print(f"\n{folder}/README.md: {'all as they must be' if not bad else f'{len(bad)} not as they must be'}")
    sys.exit(1 if bad else 0)


main()
