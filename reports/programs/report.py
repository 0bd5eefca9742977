#!/usr/bin/env python3
"""Judges the runs in a folder and writes run.md and summary.json there: report.py FOLDER

In: what run.py and gpu-programs.sh left. Exit: 0 every run is as expected, 1 one is not or was not made.
"""

import json
import os
import sys

import judge
import matrix
from logs import Run, text
from marks import family


def reasons(program, run, runs):
    if run.status in ("not built", "out of time"):
        return [run.status]
    return judge.judge(program, run, runs.get((program.reference, matrix.NONE)))


def verdict(found):
    return "pass" if not found else "not run" if found[0] in ("not built", "out of time") else "FAIL"


def cell(words):
    """Text for a table: one line, no column ends, not too long."""
    words = " ".join(str(words).replace("|", "\\|").split())
    return words if len(words) <= 240 else words[:239] + "…"


def counts(run):
    """`cudaMalloc 4 (1 denied), …` of the `end` records, launches first."""
    order = ("launch", "alloc", "free", "other")
    parts = []
    for api, outcomes in sorted(run.counts().items(), key=lambda item: (order.index(family(item[0])), item[0])):
        notes = [f"{n} {outcome}" for outcome, n in outcomes.items() if n and outcome != "ok"]
        parts.append(f"{api} {sum(outcomes.values())}" + (f" ({', '.join(notes)})" if notes else ""))
    return ", ".join(parts)


def printed(run):
    """What a reader wants of the program's output: results, the large request, the error."""
    parts = list(run.results().values())
    parts += [f"{key}: {run.said[key]}" for key in ("big", "wrong", "error") if key in run.said]
    return "; ".join(parts)


def checks(run):
    if run.setting == matrix.NONE or run.status != "run":
        return ""
    if not run.analysis:
        return "hook-analyze absent"
    if "error" in run.analysis:
        return "hook-analyze: error"
    status = [check["status"] for check in run.analysis["checks"]]
    return f"{status.count('pass')} pass, {status.count('fail')} fail"


def main(out):
    with open(os.path.join(out, "runs.json"), encoding="utf-8") as file:
        kept = json.load(file)
    runs = [Run(record, os.path.join(out, "runs")) for record in kept["runs"]]
    by_key = {(run.program, run.setting): run for run in runs}
    programs = {program.name: program for program in matrix.PROGRAMS}
    rows = [(programs[run.program], run, reasons(programs[run.program], run, by_key))
            for program in matrix.PROGRAMS for run in runs if run.program == program.name]
    tally = {word: sum(verdict(found) == word for _, _, found in rows) for word in ("pass", "FAIL", "not run")}
    environment = text(os.path.join(out, "environment.txt")) or ""

    with open(os.path.join(out, "summary.json"), "w", encoding="utf-8") as file:
        json.dump({"schema": 1, "environment": environment.splitlines(), "tally": tally, "runs": [
            {"program": run.program, "setting": run.setting, "verdict": verdict(found), "reasons": found,
             "exit": run.exit, "seconds": run.seconds, "calls": run.counts(), "denied": judge.denials(run),
             "printed": run.said, "checks": run.analysis.get("checks", []) if run.analysis else None}
            for _, run, found in rows]}, file, indent=1, ensure_ascii=False)
        file.write("\n")
    with open(os.path.join(out, "run.md"), "w", encoding="utf-8") as file:
        file.write(page(rows, tally, environment, kept["timeout_s"]))
    print(", ".join(f"{n} {word}" for word, n in tally.items()))
    for _, run, found in rows:
        if found:
            print(cell(f"{run.program} {run.setting}: {'; '.join(found)}"))
    return 0 if rows and tally["pass"] == len(rows) else 1


def page(rows, tally, environment, timeout_s):
    lines = ["# Programs under the hook", "",
             "Made by `reports/gpu-programs.sh FOLDER`. Nothing is edited.", "",
             f"{tally['pass']} runs as expected, {tally['FAIL']} not, {tally['not run']} not made.", "",
             "```", environment.rstrip(), "```", "",
             "| setting | what it is |", "|---|---|"]
    lines += [f"| {name} | {meaning} |" for name, meaning in matrix.MEANING.items()]
    lines += ["", f"A run is stopped after {timeout_s} s. Exit 3 is a program that CUDA, or its library, told of an error.",
              "Results must be those without the hook, to the digit, but where launches are denied. Counts are of the `end`",
              "records; what is refused is in brackets. A negative exit is a signal.", "",
              "| program | setting | exit | s | calls | denied | printed | hook-analyze | verdict |",
              "|---|---|---|---|---|---|---|---|---|"]
    for program, run, found in rows:
        why = verdict(found) + (": " + "; ".join(found) if found and verdict(found) == "FAIL" else
                                ": " + found[0] if found else "")
        lines.append("| " + " | ".join(cell(words) for words in (
            f"{run.program}: {program.what}" if run.setting == program.settings[0] else run.program, run.setting,
            "" if run.exit is None else run.exit, "" if run.seconds is None else run.seconds, counts(run),
            judge.denials(run) if run.setting != matrix.NONE else "", printed(run), checks(run), why)) + " |")
    lines += ["", "## Counts held against others", "",
              "Between two marks: what the program launched itself, or what CUPTI saw, and what the hook recorded. CUPTI's",
              "number is of distinct correlation ids of kernels, its names are those of the calls that carry them.", "",
              "| program | setting | what | expected | recorded | names |", "|---|---|---|---|---|---|"]
    for _, run, _ in rows:
        for key, expected in run.said.items():
            what = key.removeprefix("expected.")
            if key == what or "logged." + what not in run.said:
                continue
            names = [f"{side}: {run.said[f'{side}.{what}']}" for side in ("cupti", "hook") if f"{side}.{what}" in run.said]
            lines.append("| " + " | ".join(cell(words) for words in (
                run.program, run.setting, what, expected, run.said["logged." + what], "; ".join(names))) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
