#!/usr/bin/env python3
"""What the hook costs on a GPU, beside no hook, a plain hook in C and HAMi-core: gpu-cost.py FOLDER

In: build/gpu/cost (cuda/cost.cu), HOOK (path of libcuda_hook.so), PLAIN (path of a plain hook, hook/benches/programs/plain_hook.c;
may be empty), HAMI (path of HAMi-core's libvgpu.so; may be empty), ROUNDS (12), DEADLINE (seconds since 1970).
Out: FOLDER/cost.md and FOLDER/cost.json. In each round every variant runs once, the order turned round from one to the next;
ratios are taken within a round, to the run without a hook. `no hook, again` is what chance does.
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


def variants(folder):
    """Name, and what it adds to the environment; those whose library is not here are left out."""
    hook, plain, hami = (os.environ.get(name, "") for name in ("HOOK", "PLAIN", "HAMI"))
    log, events = os.path.join(folder, "log"), os.path.join(folder, "events")
    ours = {"LD_PRELOAD": hook}
    shared = {"LD_PRELOAD": hami, "CUDA_DEVICE_MEMORY_SHARED_CACHE": os.path.join(folder, "vgpu.cache")}
    all_of = {
        "no hook": {},
        "no hook, again": {},
        "ours, lines and JSONL": ours | {"CUDA_HOOK_LOG": log, "CUDA_HOOK_EVENTS": events},
        "ours, limited, lines and JSONL": ours | {
            "CUDA_HOOK_LOG": log, "CUDA_HOOK_EVENTS": events, "CUDA_MEM_QUOTA_MB": "100000",
            "CUDA_CORE_RATE": "1000000000", "CUDA_CORE_CAPACITY": "1000000000"},
        "ours, nothing recorded": ours | {"CUDA_HOOK_LOG": "off", "CUDA_HOOK_EVENTS": "off"},
        "plain hook, fprintf": {"LD_PRELOAD": plain, "COST_LOG": log} if plain else None,
        "HAMi-core": shared | {"LIBCUDA_LOG_LEVEL": "0"} if hami else None,
        "HAMi-core, log level 4": shared | {"LIBCUDA_LOG_LEVEL": "4"} if hami else None,
    }
    return {name: env for name, env in all_of.items() if env is not None}


def programs():
    """Title, unit, command, divisor of ns, variants that don't see its calls."""
    cost = os.path.join("build", "gpu", "cost")
    yield "cudaLaunchKernel, empty kernel", "ns", [cost, "launch", "200", "500"], 1, ()
    yield "kernel<<<1, 32>>>()", "ns", [cost, "chevron", "200", "500"], 1, ("plain hook, fprintf",)
    yield "cudaMalloc + cudaFree", "ns", [cost, "pairs", "40", "200"], 1, ("plain hook, fprintf",)
    yield "PyTorch training step", "µs", [os.environ.get("PYTHON", sys.executable), STEP, "200"], 1000, (
        "plain hook, fprintf", "ours, nothing recorded", "HAMi-core, log level 4")


def once(command, add):
    """The figure that a run prints; None where it fails."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(OURS)} | add
    with tempfile.TemporaryFile() as err:
        done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=err, timeout=120, check=False)
    if done.returncode:
        return None
    # HAMi-core logs to standard output as well at times: the figure is the last line.
    return float(done.stdout.decode(errors="replace").strip().splitlines()[-1].split()[0])


def measure(command, left_out, rounds):
    """Figures by variant, a round each."""
    taken = {}
    for number in range(rounds):
        if time.time() > float(os.environ.get("DEADLINE", "inf")):
            break
        with tempfile.TemporaryDirectory(prefix="gpu-cost-") as folder:
            order = [item for item in variants(folder).items() if item[0] not in left_out]
            for name, env in order[::-1] if number % 2 else order:
                taken.setdefault(name, []).append(once(command, env))
                for left in os.listdir(folder):
                    if left in ("log", "events"):
                        os.unlink(os.path.join(folder, left))
    return taken


def quarters(values):
    """Lower quarter, median, upper quarter."""
    if len(values) < 2:
        return [values[0]] * 3 if values else [None] * 3
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return [low, middle, high]


def table(title, unit, divisor, taken):
    """Rows of a variant's figures, and its ratio to the run without a hook of the same round."""
    rows = []
    for name, values in taken.items():
        both = [(one, base) for one, base in zip(values, taken["no hook"]) if one and base]
        figures = [one / divisor for one, _ in both]
        rows.append({"variant": name, "runs": len(values), "failed": sum(one is None for one in values),
                     "quarters": quarters(figures), "ratio": quarters([one / base for one, base in both])})
    return {"what": title, "unit": unit, "variants": rows}


def text(tables):
    """The same as Markdown."""
    lines = []
    for one in tables:
        lines += [f"### {one['what']}", "", f"| variant | {one['unit']}, median (middle half) | ratio to no hook, median (middle half) | runs | failed |",
                  "|---|---|---|---|---|"]
        for row in one["variants"]:
            if row["quarters"][1] is None:
                lines.append(f"| {row['variant']} | | | {row['runs']} | {row['failed']} |")
                continue
            (low, middle, high), (less, ratio, more) = row["quarters"], row["ratio"]
            lines.append(f"| {row['variant']} | {middle:.1f} ({low:.1f} to {high:.1f}) | {ratio:.3f} ({less:.3f} to {more:.3f}) "
                         f"| {row['runs']} | {row['failed']} |")
        lines.append("")
    return "\n".join(lines)


def main():
    folder, rounds = sys.argv[1], int(os.environ.get("ROUNDS", "12"))
    os.makedirs(folder, exist_ok=True)
    tables = [table(title, unit, divisor, measure(command, left_out, rounds))
              for title, unit, command, divisor, left_out in programs()]
    tables = [one for one in tables if one["variants"]]
    with open(os.path.join(folder, "cost.json"), "w", encoding="utf-8") as file:
        json.dump(tables, file, indent=1, ensure_ascii=False)
    with open(os.path.join(folder, "cost.md"), "w", encoding="utf-8") as file:
        file.write(text(tables))
    print(text(tables))


main()
