"""What the Python programs here share: how they print, how they fail, and how they read what the hook logged of them.

A program prints `key=value` lines. `expected.X` is what it knows it did, or CUPTI saw, between two marks; `logged.X` what
the hook's event file says of the same stretch, absent without the hook. Exit: 0 all ran, 3 the library raised an error,
1 a result is wrong and nothing had said so.
"""

import json
import os
import re
import sys


def say(key, value):
    """One line, whatever line ends the value has."""
    print(f"{key}={' '.join(str(value).split())}", flush=True)


def family(api):
    """`launch`, `alloc`, `free`, or `other`: what an API name is about. Host memory is `other`."""
    if "Host" in api:
        return "other"
    if "Launch" in api:
        return "launch"
    if re.search(r"Malloc|MemAlloc|MemCreate|ArrayCreate|Array3DCreate", api):
        return "alloc"
    if re.search(r"Free|MemRelease|ArrayDestroy", api):
        return "free"
    return "other"


class Window:
    """The hook's records of this process between the beginning and the end of a `with`.

    Needs CUDA_HOOK_SYNC=1, so that the records are in the file when the calls have returned. Without a hook `calls` is
    None.
    """

    def __enter__(self):
        path = os.environ.get("CUDA_HOOK_EVENTS", "")
        self.path = path if os.path.isabs(path) else None
        self.start = self._size()
        self.calls = None
        return self

    def __exit__(self, *exception):
        if self.path is None:
            return
        lines = []
        if os.path.exists(self.path):
            with open(self.path, "rb") as events:
                events.seek(self.start)
                lines = events.read().splitlines()
        records = [json.loads(line) for line in lines]
        self.calls = [r for r in records if r["ev"] == "call" and r["pid"] == os.getpid()]

    def _size(self):
        return os.path.getsize(self.path) if self.path and os.path.exists(self.path) else 0

    def count(self, kind):
        """How many records are of this family, or None without a hook."""
        return None if self.calls is None else sum(family(r["api"]) == kind for r in self.calls)

    def apis(self, kind):
        """Their number by API name, as text."""
        return counted(r["api"] for r in self.calls or () if family(r["api"]) == kind)

    def tell(self, what, expected, kind="launch"):
        """Says what was expected of this stretch and, under the hook, what was logged."""
        say(f"expected.{what}", expected)
        if self.calls is not None:
            say(f"logged.{what}", self.count(kind))


def counted(names):
    """`a 3, b 1`: names with how often they came, the most frequent first."""
    numbers = {}
    for name in names:
        numbers[name] = numbers.get(name, 0) + 1
    return ", ".join(f"{name} {n}" for name, n in sorted(numbers.items(), key=lambda item: (-item[1], item[0])))


def big(request, refusals):
    """Asks for more than a quota of 2 GiB: `request()`, and the exceptions that a library may refuse it with."""
    try:
        request()
        say("big", "granted")
    except refusals as refusal:
        say("big", f"refused {type(refusal).__name__}: {refusal}")


class Wrong(Exception):
    """A result is not what it must be, though no call had failed."""


def main(program):
    """Runs `program`. An exception is what a user of the library sees: it is printed, and the exit code is 3."""
    try:
        program()
    except Wrong as wrong:
        say("wrong", wrong)
        sys.exit(1)
    except Exception as exception:  # noqa: BLE001, any kind is an answer here
        say("error", f"{type(exception).__name__}: {exception}")
        sys.exit(3)
