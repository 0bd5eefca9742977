"""HAMi-core's own test programs under the hook: hami_tests.py SOURCE FOLDER

In: SOURCE, HAMi-core's source (its test/*.c and *.cu are built with NVCC; NVML_INCLUDE: where nvml.h is, if not beside the
toolkit's headers); HOOK. Each runs without a hook, recorded, and under limits (a quota larger than the programs need at one
time but for what they only try, and a rate that is not reached). What holds: the exit without a hook is the exit with it.
Out: FOLDER/hami_tests.md, .json and the programs' output. Two never end by themselves or take two GPUs: left out by name.
"""

import json
import os
import subprocess
import sys

LEFT_OUT = {"test_alloc_hold": "runs for ever", "test_multi_gpu_utilization": "two GPUs"}
SETTINGS = {
    "none": {},
    "record": {},
    "limited": {"CUDA_MEM_QUOTA_MB": "6144", "CUDA_CORE_RATE": "100000", "CUDA_CORE_CAPACITY": "1000"},
}
OURS = ("CUDA_HOOK_", "CUDA_MEM_QUOTA", "CUDA_CORE_", "LD_PRELOAD")


def build(source, name, target):
    """None, or why it could not be built."""
    include = os.environ.get("NVML_INCLUDE")
    # The programs use functions whose headers they don't name, as the compilers of their time allowed.
    loose = ["-Xcompiler", "-w,-Wno-error,-fpermissive" if name.endswith(".cu") else "-w,-Wno-implicit-function-declaration"]
    command = [os.environ.get("NVCC", "nvcc"), "--cudart=shared", os.path.join(source, "test", name), "-o", target,
               "-I", os.path.join(source, "src"), "-DTEST_DEVICE_ID=0", "-Lbuild/gpu/lib", "-lcuda", "-lnvidia-ml", *loose]
    command += ["-I", include] if include else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else (done.stderr.strip().splitlines() or ["?"])[0]


def run(target, setting, base):
    """Exit status, denials that the hook counted."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(OURS)} | SETTINGS[setting]
    events = base + ".jsonl"
    if setting != "none":
        env |= {"LD_PRELOAD": os.environ["HOOK"], "CUDA_HOOK_LOG": base + ".log", "CUDA_HOOK_EVENTS": events}
    with open(base + ".out", "wb") as out:
        try:
            code = subprocess.run([target], env=env, stdout=out, stderr=out, timeout=60, check=False).returncode
        except subprocess.TimeoutExpired:
            code = "hung"
    calls = denied = 0
    if os.path.exists(events):
        with open(events, encoding="utf-8") as file:
            for line in file:
                record = json.loads(line)
                calls += record["ev"] == "call"
                denied += record.get("outcome") == "denied"
    return {"exit": code, "calls": calls, "denied": denied}


def main():
    source, folder = sys.argv[1:3]
    os.makedirs(folder, exist_ok=True)
    rows = []
    for file in sorted(os.listdir(os.path.join(source, "test"))):
        name, ending = os.path.splitext(file)
        if ending not in (".c", ".cu"):
            continue
        row = {"program": name}
        rows.append(row)
        if name in LEFT_OUT:
            row["left_out"] = LEFT_OUT[name]
            continue
        target = os.path.abspath(os.path.join("build", "gpu", "hami_" + name))
        if why := build(source, file, target):
            row["left_out"] = "not built: " + why
            continue
        row |= {setting: run(target, setting, os.path.join(folder, f"{name}.{setting}")) for setting in SETTINGS}
        row["verdict"] = "pass" if len({row[setting]["exit"] for setting in SETTINGS}) == 1 else "FAIL"
    lines = ["| program | exit without a hook | recorded | limited | calls | denied | verdict |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        if "left_out" in row:
            lines.append(f"| {row['program']} | | | | | | left out: {row['left_out'][:100]} |")
            continue
        limited = row["limited"]
        lines.append(f"| {row['program']} | {row['none']['exit']} | {row['record']['exit']} | {limited['exit']} "
                     f"| {row['record']['calls']} | {limited['denied']} | {row['verdict']} |")
    with open(os.path.join(folder, "hami_tests.md"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    with open(os.path.join(folder, "hami_tests.json"), "w", encoding="utf-8") as file:
        json.dump(rows, file, indent=1)
    print("\n".join(lines))
    sys.exit(any(row.get("verdict") == "FAIL" for row in rows))


main()
