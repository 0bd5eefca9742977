#!/usr/bin/env python3
"""One table of every benchmark, beside its peers: bench.py [FOLDER] (`make bench`, in build)

Runs `make bench-hook`, `make bench-analyze` and, where there is a GPU, `make bench-gpu`; sizes and rounds are theirs (LINES=,
RECORDS=, ROUNDS=, HAMI_CORE=). They append a line for each figure to FOLDER/bench.jsonl, which BENCH_ROWS names to them:

  {"what": thing, "how": tool or way, "unit": unit, "values": [one a run], "baseline": how, "ratios": [...], "failed": runs}
  {"what": thing, "how": tool or way, "left_out": why}

(baseline, ratios, failed may be missing). Out: FOLDER/bench.md, printed too, and FOLDER/bench.txt, what the benchmarks said.
Exit: 0 all measured or left out for a reason, 1 a benchmark failed.
"""

import datetime
import json
import math
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time

HAMI_HOW = "HAMi-core"
HAMI_WHERE = "`make bench HAMI_CORE=PATH`, with a clone of https://github.com/Project-HAMi/HAMi-core"
HEADINGS = ["what", "how", "median", "middle half", "ratio (middle half)", "to", "runs"]
NOTE = """\
Median and middle half (between the quartiles, interpolated where fewer than five runs) of all runs. A ratio is taken between runs
made side by side, to what stands under `to`: below 1 is quicker than that; `no hook` on a GPU is held against the runs before and
after it, which shows what chance does. What ran once has no spread. What each benchmark says itself: build/bench.txt."""


def said(*command):
    """First line that a command prints; nothing where it can't be run."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = done.stdout.decode(errors="replace").strip().splitlines()
    return lines[0].strip() if lines and not done.returncode else ""


# Rows.

def problem(row):
    """What is wrong with a row; nothing where it is well."""
    if not isinstance(row, dict) or not all(isinstance(row.get(key), str) for key in ("what", "how")):
        return "no `what` and `how`"
    if "left_out" in row:
        return None
    numbers = [row.get("values"), row.get("ratios", [])]
    if not all(isinstance(some, list) and all(type(one) in (int, float) and math.isfinite(one) for one in some) for some in numbers):
        return "`values` and `ratios` must be lists of numbers"
    if not numbers[0] or "unit" not in row:
        return "no values, or none with a unit"
    return "ratios, but no `baseline`" if numbers[1] and "baseline" not in row else None


def read(path):
    """Rows of a file; ValueError names the line that is none."""
    rows = []
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                row = json.loads(line)
            except ValueError:
                raise ValueError(f"{path}:{number}: no JSON: {line.strip()[:80]}") from None
            wrong = problem(row)
            if wrong:
                raise ValueError(f"{path}:{number}: {wrong}: {line.strip()[:80]}")
            rows.append(row)
    return rows


def number(value, like):
    """With three digits of `like` that count, none of them behind an E."""
    places = 2 - math.floor(math.log10(abs(like))) if like else 0
    return f"{value:.{max(0, places)}f}"


def quartiles(values):
    """Lower quartile, median, upper quartile."""
    return statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3


def spread(values):
    """The middle half; nothing of one run."""
    low, median, high = quartiles(values)
    return f"{number(low, median)} to {number(high, median)}" if len(values) > 1 else ""


def ratio(row):
    """A row's cells `ratio` and `to`."""
    ratios, how = row.get("ratios", []), row.get("baseline", "")
    if not ratios:
        return ["–", "–"]
    if row["how"] == how and set(ratios) == {1}:
        return ["1", "(is the baseline)"]
    median, half = number(quartiles(ratios)[1], quartiles(ratios)[1]), spread(ratios)
    return [f"{median} ({half})" if half else median, how]


def cells(row):
    """A row's texts, in the order of the headings."""
    if "left_out" in row:
        return [row["what"], row["how"], "left out: " + row["left_out"], "", "", "", ""]
    median, failed = quartiles(row["values"])[1], row.get("failed", 0)
    return [row["what"], row["how"], f"{number(median, median)} {row['unit']}", spread(row["values"]) or "–", *ratio(row),
            f"{len(row['values'])}" + (f", {failed} more failed" if failed else "")]


def table(rows):
    """The rows as Markdown that reads well unrendered too."""
    texts = [[cell.replace("|", "\\|").replace("\n", " ") for cell in cells(row)] for row in rows]
    # A reason is longer than any figure: it doesn't widen its column.
    full = [HEADINGS] + [text for row, text in zip(rows, texts) if "left_out" not in row]
    widths = [max(len(text[at]) for text in full + (texts if at < 2 else [])) for at in range(len(HEADINGS))]
    ruler = ["-" * width for width in widths]
    return "\n".join("| " + " | ".join(map(str.ljust, text, widths)) + " |" for text in [HEADINGS, ruler, *texts]) + "\n"


# Machine.

def gpu():
    """Name and driver of the first GPU."""
    return said("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")


def machine(python):
    """What the figures depend on, a line each."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            about = dict(line.split(":", 1) for line in lines if ":" in line)
    except OSError:
        about = {}
    about = {key.strip(): value.strip() for key, value in about.items()}
    virtual = " of a virtual machine" if "hypervisor" in about.get("flags", "").split() else ""
    tools = [("rustc", "rustc", "-V"), ("gcc", "gcc", "-dumpfullversion"), ("ripgrep", "rg", "--version"), ("grep", "grep", "--version"),
             ("jq", "jq", "--version")]
    versions = [f"{name} {text.split()[1] if ' ' in text and name != 'grep' else text.split()[-1]}"
                for name, *command in tools if (text := said(*command))]
    versions += [said(python, "-c", "import platform; print('Python', platform.python_version())")]
    versions += [said(python, "-c", f"import {name}; print('{name}', {name}.__version__)") for name in ("pandas", "polars", "duckdb")]
    source = os.environ.get("HAMI_CORE", "")
    if source:
        versions += ["HAMi-core " + (said("cat", os.path.join(source, "COMMIT")) or said("git", "-C", source, "rev-parse", "--short", "HEAD"))]
    load, processors = os.getloadavg()[0], len(os.sched_getaffinity(0))
    return [f"CPU: {about.get('model name', platform.machine())}, {processors} core{'s' * (processors != 1)}{virtual}",
            f"GPU: {gpu() or 'none'}",
            f"kernel: {platform.system()} {platform.release()}, {' '.join(platform.libc_ver())}",
            f"load at the start: {load:.2f} (other programs at work slow what is measured)",
            f"versions: {', '.join(filter(None, versions))}"]


def commit():
    """The commit, and whether the files are those of it."""
    name = said("git", "rev-parse", "--short", "HEAD")
    return f"commit {name or 'unknown'}" + (" with changes" if said("git", "status", "--porcelain", "--untracked-files=no") else "")


# Benchmarks.

def lacks(target):
    """What a benchmark would need and isn't there; nothing where it can run."""
    if target != "bench-gpu":
        cargo = os.environ.get("CARGO", "cargo")
        return None if shutil.which(cargo) else "cargo is not installed (https://rustup.rs)"
    if not gpu():
        return "nvidia-smi finds no GPU: `make bench` on a machine with one measures it"
    done = subprocess.run(["make", "-s", "gpu-there"], stderr=subprocess.PIPE, check=False)
    return done.stderr.decode(errors="replace").strip().splitlines()[0] if done.returncode else None


PARTS = [
    ("bench-hook", "the hook's costs on the stand-in"),
    ("bench-analyze", "the analyser's speed"),
    ("bench-gpu", "the hook's costs on a GPU"),
]


def measure(folder, rows):
    """Runs the benchmarks; rows of those that couldn't be run, and whether any failed."""
    missing, failed = [], False
    environment = os.environ | {"BENCH_ROWS": os.path.abspath(rows)}
    spoken = os.path.join(folder, "bench.txt")
    with open(spoken, "wb"):
        pass
    for place, (target, title) in enumerate(PARTS, 1):
        why = lacks(target)
        print(f"[{place} of {len(PARTS)}] make {target}: {title}{', left out: ' + why if why else ''}", file=sys.stderr)
        if not why:
            with open(spoken, "ab") as out:
                done = subprocess.run(["make", "-s", target], env=environment, stdout=out, stderr=out, check=False)
            if done.returncode:
                failed = True
                with open(spoken, encoding="utf-8", errors="replace") as text:
                    last = text.read().strip().splitlines()[-12:]
                print("\n".join(last), file=sys.stderr)
                why = f"`make {target}` failed, {spoken} says why"
        if why:
            missing.append({"what": title, "how": "all", "left_out": why})
    return missing, failed


def without_hami(rows):
    """Why HAMi-core isn't beside the hook; nothing where it is."""
    if any(row["how"].startswith(HAMI_HOW) for row in rows):
        return []
    source = os.environ.get("HAMI_CORE", "")
    if not gpu():
        why = f"it needs a GPU, and its source: {HAMI_WHERE}"
    elif source:
        why = f"{source} was not built or does not run: build/hami-build.txt, build/bench.txt"
    else:
        why = f"it needs its source: {HAMI_WHERE}"
    return [{"what": PARTS[2][1], "how": HAMI_HOW, "left_out": why}]


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "build"
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "bench.jsonl")
    with open(path, "wb"):
        pass
    python = os.path.join("build", "bench", "venv", "bin", "python")
    given = "".join(f" {name}={os.environ[name]}" for name in ("LINES", "RECORDS", "ROUNDS", "GROWTH", "HAMI_CORE") if name in os.environ)
    when, begun, first = datetime.datetime.now(datetime.timezone.utc), time.monotonic(), machine(python)[3]
    missing, failed = measure(folder, path)
    rows = read(path) + missing
    about = machine(python)
    about[3] = first
    head = [f"# `make bench`: {when:%Y-%m-%d %H:%M} UTC, {commit()}", "",
            f"Made by `make bench{given}` in {time.monotonic() - begun:.0f} s.", "",
            *(f"- {line}" for line in about), "", NOTE, "", ""]
    text = "\n".join(head) + table(rows + without_hami(rows))
    with open(os.path.join(folder, "bench.md"), "w", encoding="utf-8") as file:
        file.write(text)
    print(text, end="")
    sys.exit(failed)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
    except ValueError as wrong:
        sys.exit(str(wrong))
