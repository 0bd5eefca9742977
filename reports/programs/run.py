#!/usr/bin/env python3
"""Runs every program in every setting and keeps what came of it: run.py FOLDER

In: the built programs in build/gpu, HOOK (path of libcuda_hook.so), ANALYZE (path of hook-analyze, may be empty),
DEADLINE (seconds since 1970 after which nothing new is started), JOBS (how many run at a time).
Out, in FOLDER/runs: NAME.SETTING.stdout, .stderr, .log (course lines), .jsonl (events), .analysis.json; large ones as .gz.
In FOLDER: runs.json, how each ended. Whether that is right, report.py says.
"""

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import matrix

TIMEOUT_S = 60
COMPRESSED_FROM = 64 << 10
# What a run must not inherit from the shell that starts this.
OURS = ("CUDA_HOOK_", "CUDA_MEM_QUOTA", "CUDA_CORE_", "LD_PRELOAD")


def compress(path):
    if os.path.exists(path) and os.path.getsize(path) >= COMPRESSED_FROM:
        with open(path, "rb") as plain, gzip.open(path + ".gz", "wb") as packed:
            shutil.copyfileobj(plain, packed)
        os.unlink(path)


def analyze(path, events, log):
    """hook-analyze's figures of one run; its complaint instead, where it has one."""
    if not path or not os.path.exists(log):
        return
    command = [path, log, "--json"] + (["--events", events] if os.path.exists(events) else [])
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        text = done.stdout if done.returncode == 0 else json.dumps({"error": done.stderr.strip()})
    except (OSError, subprocess.TimeoutExpired) as error:
        text = json.dumps({"error": str(error)})
    with open(log.removesuffix(".log") + ".analysis.json", "w", encoding="utf-8") as file:
        file.write(text)


def run(program, setting, folder):
    """One run: a record of how it ended."""
    record = {"program": program.name, "setting": setting, "status": "run"}
    if time.time() > float(os.environ.get("DEADLINE", "inf")):
        return record | {"status": "out of time"}
    if program.argv[0].startswith(matrix.BUILD) and not os.path.exists(program.argv[0]):
        return record | {"status": "not built"}
    base = os.path.join(folder, f"{program.name}.{setting}")
    log, events = base + ".log", base + ".jsonl"
    hook = matrix.hook_environment(program, setting, os.environ.get("HOOK", ""), log, events)
    env = {k: v for k, v in os.environ.items() if not k.startswith(OURS)}
    with tempfile.TemporaryDirectory(prefix="gpu-programs-") as caches:
        # Compiled kernels go to a fresh folder: compilers then run as children under the hook too.
        env |= {"TRITON_CACHE_DIR": caches, "CUPY_CACHE_DIR": caches, "CUDA_CACHE_PATH": os.path.join(caches, "nv"),
                "PYTHONFAULTHANDLER": "1"}
        env |= program.env | hook
        record["env"] = program.env | hook
        begun = time.monotonic()
        with open(base + ".stdout", "wb") as out, open(base + ".stderr", "wb") as err:
            process = subprocess.Popen(program.argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env,
                                       start_new_session=True)
            try:
                record["exit"] = process.wait(TIMEOUT_S)
            except subprocess.TimeoutExpired:
                record["status"] = "hung"
                # The session is this run's own, and its leader is not yet reaped: no other process can have the id.
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        record["seconds"] = round(time.monotonic() - begun, 2)
        record["pid"] = process.pid
    analyze(os.environ.get("ANALYZE", ""), events, log)
    for suffix in (".stdout", ".stderr", ".log", ".jsonl"):
        compress(base + suffix)
    print(f"{program.name} {setting}: {record['status']}, exit {record.get('exit')}, {record['seconds']} s", flush=True)
    return record


def main(out):
    folder = os.path.join(os.path.abspath(out), "runs")
    os.makedirs(folder)  # fails where there is one: logs are appended to
    # Setting by setting: a deadline then cuts the last settings of all programs, not all of the last programs.
    wanted = [(p, s) for s in matrix.SETTINGS for p in matrix.PROGRAMS if s in p.settings]
    with ThreadPoolExecutor(int(os.environ.get("JOBS", "4"))) as pool:
        records = list(pool.map(lambda one: run(*one, folder), wanted))
    with open(os.path.join(out, "runs.json"), "w", encoding="utf-8") as file:
        json.dump({"schema": 1, "timeout_s": TIMEOUT_S, "runs": records}, file, indent=1)


if __name__ == "__main__":
    main(sys.argv[1])
