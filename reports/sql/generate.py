"""Writes event files as the hook writes them: `generate.py FOLDER COUNT`. Several hosts, days and processes; allocations,
frees, launches, some of each denied, some failed in CUDA, one process without any limit. The same numbers every time."""

import json
import random
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

QUOTA, RATE, CAPACITY = 256 << 20, 12.0, 5.0
SHAPES = [([1, 1, 1], [32, 1, 1]), ([16, 1, 1], [256, 1, 1]), ([2, 2, 2], [64, 1, 1]), ([128, 4, 1], [8, 8, 8])]


def log(random_, number):
    host = f"gpu{number % 5:02}" if number % 11 else "gpu 05, 机房=2"
    # Some logs cross midnight.
    began = datetime(2026, 11, 28 + number % 3, 23, 59, 58, tzinfo=timezone.utc)
    ns0 = 10**12 + number * 10**9
    lines = []
    for process in range(1 + number % 3):
        pid = 1000 + 10 * number + process
        limited = number % 7 != 0
        stamp = lambda ns: (began + timedelta(microseconds=ns // 1000)).strftime("%Y-%m-%dT%H:%M:%S.%f") + f"{ns % 1000:03}Z"
        start = {"v": 1, "ev": "start", "run": f"{number:x}", "ts": stamp(0), "mono_ns": ns0, "pid": pid, "ppid": 1,
                 "exe": "/bin/train", "cmd": ["train"], "host": host, "hook": "0.1.0"}
        if limited:
            start |= {"quota_bytes": QUOTA, "rate": RATE, "capacity": CAPACITY}
        lines.append(start | {"policy": "deny"})
        now, tokens, filled, total, live, counts = 0, CAPACITY, 0, 0, {}, {}
        for seq in range(1, random_.randint(80, 200)):
            now += random_.randint(1_000, 60_000_000)
            call = {"ev": "call", "seq": seq, "ts": stamp(now), "mono_ns": ns0 + now, "pid": pid, "tid": pid}
            kind = random_.choices(["alloc", "free", "launch"], [2, 1 if live else 0, 6])[0]
            failed = random_.random() < 0.02
            if kind == "alloc":
                size, api = random_.randint(1, 64 << 20), random_.choice(["cudaMalloc", "cudaMallocAsync", "cuMemAlloc_v2"])
                call |= {"api": api, "sym": api, "dev": 0, "size": size}
                if limited and total + size > QUOTA:
                    call |= {"outcome": "denied", "ret": 2, "total": total, "pending": 0, "quota": QUOTA}
                elif failed:
                    call |= {"outcome": "failed", "ret": 2, "total": total, "pending": 0}
                else:
                    ptr = 0x7F0000000000 + (seq << 26)
                    live[ptr], total = size, total + size
                    call |= {"ptr": hex(ptr), "outcome": "ok", "ret": 0, "total": total, "pending": 0}
            elif kind == "free":
                ptr = random_.choice(sorted(live))
                size = live.pop(ptr)
                total -= size
                call |= {"api": "cudaFree", "sym": "cudaFree", "dev": 0, "size": size, "ptr": hex(ptr), "outcome": "ok",
                         "ret": 0, "total": total}
            else:
                tokens, filled = min(CAPACITY, tokens + (now - filled) * RATE / 1e9), now
                passes = not limited or tokens >= 1
                tokens -= 1 if passes and limited else 0
                grid, block = random_.choice(SHAPES)
                call |= {"api": "cudaLaunchKernel", "sym": "__cudaLaunchKernel", "dev": 0, "grid": grid, "block": block,
                         "shmem": 0, "stream": "0x0", "kernel": "_Z5trainPf",
                         "outcome": "denied" if not passes else "failed" if failed else "ok",
                         "ret": 4 if not passes else 98 if failed else 0}
                if limited:
                    call["tokens"] = tokens
                call["wait_ns"] = 0
            call |= {"real_ns": 0 if call["outcome"] == "denied" else 5000, "hook_ns": 200}
            counts.setdefault(call["api"], {"ok": 0, "denied": 0, "failed": 0})[call["outcome"]] += 1
            lines.append(call)
        lines.append({"ev": "end", "ts": stamp(now), "mono_ns": ns0 + now, "pid": pid, "calls": counts, "lost": 0})
    return "".join(json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n" for line in lines)


def main(folder, count):
    Path(folder).mkdir(parents=True, exist_ok=True)
    random_ = random.Random(61)
    for number in range(int(count)):
        (Path(folder) / f"run{number:04}.jsonl").write_text(log(random_, number), encoding="utf-8")


main(*sys.argv[1:])
