#!/usr/bin/env python3
"""Fuzzes every target for a time, and counts: `make fuzz-campaign` (SECONDS=60 for each, JOBS=1 at once).

Each target of `make fuzz-guided` runs as that runs it, and `make fuzz-analyze` beside them; what libFuzzer says of itself at
the end is put together. Writes FOLDER/fuzz.md and FOLDER/summary.json; what a target printed lies in build/fuzz. Exits with 1
when something was found.
"""

import concurrent.futures
import datetime
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PRINTED = ROOT / "build/fuzz"
DAMAGE = "fuzz-analyze"
TITLES = {
    "readers": "a log, or two with a merge: every way of reading gives the same calls and figures, followed ones too",
    "records": "lines: what a fast reader takes the obvious one reads the same",
    "inputs": "gzip, zstd, UTF-16, GBK, long lines: whole lines of bounded size, the same however packed",
    "reports": "all that is shown: terminal, JSON, charts, report and templates, page, trace, exports, explanations, evidence, "
    "differences, what-if",
    "submissions": "ZIP archives and other submissions of `--batch`: a row whatever it is, the same however handed in",
    "settings": "the hook's settings and its token bucket: every limit within its bounds",
    DAMAGE: "no coverage: real logs, damaged at random, read in every way",
}


def make(target, *variables):
    """A make of its own, whatever started this one."""
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    return subprocess.Popen(["make", "-s", "-C", ROOT, target, *variables], env=environment, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def run(target, seconds):
    """One target for so long: its row."""
    began = time.monotonic()
    process = make(DAMAGE if target == DAMAGE else f"fuzz-target-{target}", f"SECONDS={seconds}")
    # What was found may hold any bytes.
    said = process.communicate()[0].decode(errors="replace")
    clock = time.monotonic() - began
    (PRINTED / f"{target}.txt").write_text(said)
    row = {"target": target, "covers": TITLES.get(target, ""), "status": process.returncode, "finding": None}
    row |= damage(said, seconds) if target == DAMAGE else guided(said, clock, target)
    if process.returncode != 0:
        row["finding"] = finding(said, process.returncode)
    rate = row["executions"] / row["seconds"] if row["executions"] and row["seconds"] else None
    print(f"{target}: {row['executions']} in {row['seconds']:.0f} s ({rate or 0:.0f} a second): {row['finding'] or 'nothing found'}",
          flush=True)
    return row


def last(pattern, text):
    found = re.findall(pattern, text)
    return found[-1] if found else None


def number(text):
    return None if text is None else int(text)


def guided(said, clock, target):
    """What libFuzzer counts. It tells its time only where it ends by itself."""
    stat = lambda name: number(last(rf"stat::{name}:\s+(\d+)", said))
    done = last(r"Done \d+ runs in (\d+) second", said)
    # What a target's inputs are at the end: of coverage, and files on disk.
    reached = last(r"cov: (\d+) ft: (\d+) corp: (\d+)/", said) or (None, None, None)
    corpus = ROOT / "fuzz/corpus" / target
    return {
        "seconds": float(done) if done else clock,
        "executions": stat("number_of_executed_units"),
        "new_units": stat("new_units_added"),
        "slowest_s": stat("slowest_unit_time_sec"),
        "peak_rss_mb": stat("peak_rss_mb"),
        "edges": number(reached[0]),
        "corpus": number(reached[2]),
        "corpus_files": len(list(corpus.iterdir())) if corpus.is_dir() else 0,
    }


def damage(said, seconds):
    return {
        "seconds": float(last(r"in (\d+) s", said) or seconds),
        "executions": number(last(r"(\d+) logs", said)),
        "seed": last(r"seed (\d+)", said),
    }


def finding(said, status):
    """What a target failed with, and where its input lies."""
    panic = re.search(r"panicked at ([^\n]*):\n([^\n]*)", said)
    error = re.search(r"ERROR: libFuzzer: ([^\n]*)", said)
    kept = last(r"Test unit written to (\S+)", said) or last(r"kept as (\S+)", said)
    what = f"{panic[1]}: {panic[2]}" if panic else error[1] if error else f"ended with {status}: {said.strip()[-200:]}"
    printable = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in what)
    return printable[:300] + (f" ({pathlib.Path(kept).name})" if kept else "")


def version(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, cwd=ROOT).stdout.strip().splitlines()[0]
    except (OSError, IndexError):
        return "not there"


def machine():
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    changed = version("git", "status", "--porcelain", "--untracked-files=no") != "not there"
    return {
        "date": str(datetime.date.today()),
        "commit": version("git", "rev-parse", "--short", "HEAD") + (" and changes" if changed else ""),
        "machine": f"{os.cpu_count()} cores ({cpu[1] if cpu else 'unknown'}), {platform.system()} {platform.release()}",
        "rustc": version("rustc", "+nightly", "--version"),
        "cargo_fuzz": version("cargo", "+nightly", "fuzz", "--version"),
        "stable": version("rustc", "--version"),
    }


def hours(seconds):
    return f"{seconds / 3600:.2f}"


def grouped(value):
    return "" if value is None else f"{value:,}"


def cells(row):
    executions, seconds = row["executions"], row["seconds"]
    rate = f"{executions / seconds:,.0f}" if executions is not None and seconds else ""
    found = row["finding"].replace("|", "\\|") if row["finding"] else "none"
    counts = [grouped(row.get(name)) for name in ("corpus", "new_units", "edges", "peak_rss_mb")]
    return [f"`{row['target']}`", row["covers"], hours(seconds), grouped(executions), rate, *counts, found]


def report(folder, about, rows, seconds, jobs, clock):
    spent = sum(row["seconds"] for row in rows)
    executions = sum(row["executions"] or 0 for row in rows)
    findings = [row for row in rows if row["finding"]]
    led = [row for row in rows if row["target"] != DAMAGE]
    summary = about | {"seconds_each": seconds, "jobs": jobs, "clock_s": round(clock), "fuzzing_s": round(spent),
                       "executions": executions, "findings": len(findings), "targets": rows}
    result = f"{len(findings)} of {len(rows)} targets found something" if findings else "nothing found"
    lines = [
        "# Fuzzing",
        "",
        f"`make fuzz-campaign SECONDS={seconds} JOBS={jobs}`, {about['date']}, commit {about['commit']}.",
        f"{about['machine']}; {about['rustc']}; {about['cargo_fuzz']}; `{DAMAGE}` by {about['stable']}.",
        "",
        f"**{hours(spent)} hours of fuzzing, {executions:,} executions: {result}.** {clock / 60:.1f} minutes by the clock, {jobs} at "
        f"once; {hours(sum(row['seconds'] for row in led))} hours were led by coverage.",
        "",
        "| target | what must hold | hours | executions | a second | corpus | new units | edges | peak MB | findings |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---|",
        *("| " + " | ".join(cells(row)) + " |" for row in rows),
        f"| all | | {hours(spent)} | {executions:,} | | | | | | {len(findings)} |",
        "",
        "An execution is one input, whole. Corpus: inputs kept because each reaches something that the others don't; new units: those",
        "that this run added; edges: places in the code, of all crates, that the corpus reaches. The corpus begins with the logs of the",
        "tests, hand-made seeds and what was ever found, and with what earlier runs left in `fuzz/corpus`. A target ends with its first",
        "finding; its time is then that until there.",
        "",
        "What this is not:",
        "",
        "- No sanitizer: what is found are panics, failed comparisons, integer overflows (debug assertions are on), 20 s for one input,",
        "  1 GB of memory. Wrong memory accesses show only where they crash; the analyser has no unsafe code (`make check-unsafe`).",
        "- Inputs of 8 KB at most: what takes longer logs (many processes, full windows, bounded memory) is for tests and benchmarks.",
        f"- {os.cpu_count()} cores, and no service that goes on for weeks. That nothing was found in {hours(spent)} hours says no more than that.",
        "- Of the hook only the settings and the bucket: the rest of it is loaded into programs (`make fault-campaign`,",
        "  `make check-model`).",
        "",
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "fuzz.md").write_text("\n".join(lines))
    (folder / "summary.json").write_text(json.dumps(summary, indent=1, ensure_ascii=False) + "\n")
    return findings


def main():
    folder = pathlib.Path(sys.argv[1])
    seconds, jobs = int(os.environ["SECONDS_TO_RUN"]), int(os.environ["JOBS"])
    targets = [*os.environ["FUZZ_TARGETS"].split(), DAMAGE]
    PRINTED.mkdir(parents=True, exist_ok=True)
    # Built before the clock runs.
    subprocess.run(["cargo", "build", "-q", "--release", "-p", "hook-analyze", "--example", "fuzz"], check=True, cwd=ROOT)
    about, began = machine(), time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(max_workers=jobs) as pool:
        rows = list(pool.map(lambda target: run(target, seconds), targets))
    findings = report(folder, about, rows, seconds, jobs, time.monotonic() - began)
    for row in findings:
        print(f"\n{row['target']}: {row['finding']}\nall that it printed: {PRINTED / row['target']}.txt", file=sys.stderr)
    print(f"\n{folder}/fuzz.md: {f'{len(findings)} targets found something' if findings else 'nothing found'}")
    sys.exit(1 if findings else 0)


main()
