"""One run as its files have it: what the program printed, what the hook recorded, what hook-analyze said."""

import gzip
import json
import os
from collections import Counter

from marks import family


def text(path):
    """A file's text, packed or not; None where there is none."""
    if os.path.exists(path):
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    if os.path.exists(path + ".gz"):
        with gzip.open(path + ".gz", "rt", encoding="utf-8", errors="replace") as file:
            return file.read()
    return None


class Run:
    """A run's record (see run.py) and its files, in the folder where they lie."""

    def __init__(self, record, folder):
        self.program, self.setting, self.status = record["program"], record["setting"], record["status"]
        self.exit, self.seconds = record.get("exit"), record.get("seconds")
        base = os.path.join(folder, f"{self.program}.{self.setting}")
        self.stderr = text(base + ".stderr") or ""
        self.banners = (text(base + ".log") or "").count("[HOOK] 显存配额: ")
        lines = (text(base + ".stdout") or "").splitlines()
        # The values that the program printed, by key.
        self.said = dict(line.split("=", 1) for line in lines if "=" in line)
        self.calls, self.ends, self.unreadable = [], [], 0
        for line in (text(base + ".jsonl") or "").splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                self.unreadable += 1
                continue
            if record["ev"] == "call":
                self.calls.append(record)
            elif record["ev"] == "end":
                self.ends.append(record)
        analysis = text(base + ".analysis.json")
        try:
            self.analysis = analysis and json.loads(analysis)
        except ValueError:
            self.analysis = {"error": "no JSON: " + analysis[:80]}

    def counts(self):
        """Calls by API name as the `end` records sum them: {api: {"ok", "denied", "failed"}}."""
        sums = {}
        for end in self.ends:
            for api, outcomes in end["calls"].items():
                sums.setdefault(api, Counter()).update(outcomes)
        return {api: dict(outcomes) for api, outcomes in sums.items()}

    def count(self, kind, *outcomes):
        """Calls of a family (see marks.family) with these outcomes, or with any."""
        return sum(n for api, by_outcome in self.counts().items() if family(api) == kind
                   for outcome, n in by_outcome.items() if not outcomes or outcome in outcomes)

    def launches(self):
        """The records of launches in the order of their numbers."""
        return sorted((c for c in self.calls if family(c["api"]) == "launch"), key=lambda c: (c["pid"], c["seq"]))

    def results(self):
        return {key: value for key, value in self.said.items() if key.split(".")[0] == "result"}
