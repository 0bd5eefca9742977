#!/usr/bin/env python3
"""What the hook costs on a GPU, beside no hook, a plain hook in C and HAMi-core: gpu-cost.py FOLDER

In: build/gpu/cost (cuda/cost.cu), HOOK (path of libcuda_hook.so), PLAIN (path of a plain hook, made of
hook/benches/programs/plain_hook.c; may be empty), HAMI (path of HAMi-core's libvgpu.so; may be empty), ROUNDS (12), DEADLINE
(seconds since 1970 after which no round is begun). Out: FOLDER/cost.md and FOLDER/cost.json; every figure is appended to the
file that BENCH_ROWS names, if it is set, for the one table of `make bench` (bench.py).

Every run of a variant stands between two runs without a hook, and its ratio is taken to the mean of these two: a GPU's
clocks and a host's neighbours drift. `no hook` itself is held against its two neighbours in the same way: what chance does.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

OURS = ("CUDA_HOOK_", "CUDA_MEM_QUOTA", "CUDA_CORE_", "CUDA_DEVICE_", "LD_PRELOAD", "LIBCUDA_LOG_LEVEL")
STEP = os.path.join(os.path.dirname(__file__), "programs", "step_torch.py")
NONE = "no hook"
LOGGED = "ours, lines and JSONL"
LIMITED = "ours, limits never reached, lines and JSONL"
PLAIN = "plain hook, fprintf"
HAMI = "HAMi-core"
HAMI_LOGGED = "HAMi-core, log level 4"

PROGRAMS = [
    # Command, its figures, variants.
    ([os.path.join("build", "gpu", "cost"), "200", "500"], ["launch", "chevron", "pair"], [LOGGED, LIMITED, PLAIN, HAMI, HAMI_LOGGED]),
    ([os.environ.get("PYTHON", sys.executable), STEP, "200"], ["step"], [LIMITED]),
]
FIGURES = {
    # Title, unit, ns of it, variants that don't see such calls.
    "launch": ("cudaLaunchKernel, empty kernel", "ns", 1, []),
    "chevron": ("kernel<<<1, 32>>>()", "ns", 1, [PLAIN]),
    "pair": ("cudaMalloc + cudaFree, 512 bytes", "ns", 1, [PLAIN]),
    "step": ("PyTorch training step", "µs", 1000, []),
}


def environment(variant, folder):
    """What a variant adds to the environment; None where its library is not here."""
    hook, plain, hami = (os.environ.get(name, "") for name in ("HOOK", "PLAIN", "HAMI"))
    log = os.path.join(folder, "log")
    logged = {"LD_PRELOAD": hook, "CUDA_HOOK_LOG": log, "CUDA_HOOK_EVENTS": os.path.join(folder, "events")}
    quiet = {"LD_PRELOAD": hami, "CUDA_DEVICE_MEMORY_SHARED_CACHE": os.path.join(folder, "vgpu.cache"), "LIBCUDA_LOG_LEVEL": "0"}
    limits = {"CUDA_MEM_QUOTA_MB": "100000", "CUDA_CORE_RATE": "1000000000", "CUDA_CORE_CAPACITY": "1000000000"}
    return {
        NONE: {},
        LOGGED: logged,
        LIMITED: logged | limits,
        PLAIN: {"LD_PRELOAD": plain, "COST_LOG": log} if plain else None,
        HAMI: quiet if hami else None,
        HAMI_LOGGED: quiet | {"LIBCUDA_LOG_LEVEL": "4"} if hami else None,
    }[variant]


def once(command, variant):
    """Figures of a run by name; none where it fails."""
    with tempfile.TemporaryDirectory(prefix="gpu-cost-") as folder, tempfile.TemporaryFile() as err:
        env = {k: v for k, v in os.environ.items() if not k.startswith(OURS)} | environment(variant, folder)
        done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=err, timeout=120, check=False)
    lines = [line.split() for line in done.stdout.decode(errors="replace").splitlines()]
    return {} if done.returncode else {line[0]: float(line[1]) for line in lines if len(line) == 3 and line[0] in FIGURES}


def measure(command, variants, rounds):
    """Runs in the order in which they were made, as (variant, figures)."""
    variants = [one for one in variants if environment(one, "") is not None]
    runs = [(NONE, once(command, NONE))]
    for number in range(rounds if runs[0][1] else 0):
        if time.time() > float(os.environ.get("DEADLINE", "inf")):
            break
        for variant in variants[::-1] if number % 2 else variants:
            runs += [(variant, once(command, variant)), (NONE, once(command, NONE))]
    return runs


def quarters(values):
    """Lower quarter, median, upper quarter."""
    return statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3


def table(name, runs):
    """Rows of a figure: a variant's, and its ratio to the runs without a hook beside it."""
    title, unit, divisor, unseen = FIGURES[name]
    taken, ratios, failed = {}, {}, {}
    for at, (variant, figures) in enumerate(runs):
        if variant in unseen:
            continue
        if name not in figures:
            failed[variant] = failed.get(variant, 0) + 1
            continue
        taken.setdefault(variant, []).append(figures[name] / divisor)
        reach = 2 if variant == NONE else 1
        beside = [runs[other][1].get(name) for other in (at - reach, at + reach) if 0 <= other < len(runs)]
        if len(beside) == 2 and all(beside):
            ratios.setdefault(variant, []).append(figures[name] / statistics.mean(beside))
    rows = [{"variant": variant, "runs": len(values), "failed": failed.get(variant, 0), "quarters": quarters(values),
             "ratio": quarters(ratios.get(variant, [])), "values": values, "ratios": ratios.get(variant, [])}
            for variant, values in taken.items()]
    return {"what": title, "unit": unit, "variants": rows}


def append(rows):
    """Appends rows as bench.py reads them."""
    path = os.environ.get("BENCH_ROWS")
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def append_table(one):
    """The rows of a table."""
    append({"what": one["what"] + ", on a GPU", "how": row["variant"], "unit": one["unit"], "values": row["values"],
            "baseline": NONE, "ratios": row["ratios"], "failed": row["failed"]} for row in one["variants"])


def libraries():
    """Refuses to measure without the hook, which a program would not miss; leaves out others that are not there."""
    if not os.path.isfile(os.environ.get("HOOK", "")):
        sys.exit(f"HOOK: there is no library `{os.environ.get('HOOK', '')}`: `make hook` builds it")
    for name in ("PLAIN", "HAMI"):
        path = os.environ.get(name, "")
        if path and not os.path.isfile(path):
            print(f"{name}: there is no library `{path}`: left out", file=sys.stderr)
            os.environ[name] = ""


def spread(three, digits):
    """Median and middle half."""
    return "{1:.{d}f} ({0:.{d}f} to {2:.{d}f})".format(*three, d=digits) if three else ""


def text(tables):
    """The same as Markdown."""
    lines = []
    for one in tables:
        lines += [f"### {one['what']}", "",
                  f"| variant | {one['unit']}, median (middle half) | ratio to no hook, median (middle half) | runs | failed |",
                  "|---|---|---|---|---|"]
        lines += [f"| {row['variant']} | {spread(row['quarters'], 1)} | {spread(row['ratio'], 3)} | {row['runs']} | {row['failed']} |"
                  for row in one["variants"]] + [""]
    return "\n".join(lines)


def main():
    folder, rounds = sys.argv[1], int(os.environ.get("ROUNDS", "12"))
    libraries()
    os.makedirs(folder, exist_ok=True)
    tables = []
    for command, names, variants in PROGRAMS:
        runs = measure(command, variants, rounds)
        for name in names:
            if any(name in figures for _, figures in runs):
                tables.append(table(name, runs))
                append_table(tables[-1])
            else:
                append([{"what": FIGURES[name][0] + ", on a GPU", "how": "all",
                         "left_out": f"{os.path.basename(command[1] if command[1].endswith('.py') else command[0])} fails without a hook"}])
    with open(os.path.join(folder, "cost.json"), "w", encoding="utf-8") as file:
        json.dump(tables, file, indent=1, ensure_ascii=False)
    with open(os.path.join(folder, "cost.md"), "w", encoding="utf-8") as file:
        file.write(text(tables))
    print(text(tables))
    sys.exit(not tables)


main()
