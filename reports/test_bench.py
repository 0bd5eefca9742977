"""The table of `make bench` from known rows: python3 -m unittest discover -s reports (`make check-reports`)"""

import contextlib
import io
import json
import os
import tempfile
import unittest
from unittest import mock

import bench

ROWS = [
    {"what": "a launch", "how": "no hook", "unit": "ns", "values": [30, 32, 31, 29], "baseline": "plain hook", "ratios": [0.03, 0.032, 0.031, 0.029]},
    {"what": "a launch", "how": "plain hook", "unit": "ns", "values": [1000, 1000, 1000, 1000], "baseline": "plain hook", "ratios": [1.0, 1.0, 1.0, 1.0]},
    {"what": "a launch", "how": "a|b", "unit": "ns", "values": [1200.0], "baseline": "plain hook", "ratios": [1.2], "failed": 2},
    {"what": "a start", "how": "ours", "unit": "µs", "values": [8.25, 8.75, 9.5]},
    {"what": "a start", "how": "jq", "left_out": "bash: jq: command not found"},
]

TABLE = """\
| what     | how        | median  | middle half  | ratio (middle half)       | to                | runs             |
| -------- | ---------- | ------- | ------------ | ------------------------- | ----------------- | ---------------- |
| a launch | no hook    | 30.5 ns | 29.8 to 31.2 | 0.0305 (0.0297 to 0.0312) | plain hook        | 4                |
| a launch | plain hook | 1000 ns | 1000 to 1000 | 1                         | (is the baseline) | 4                |
| a launch | a\\|b       | 1200 ns | –            | 1.20                      | plain hook        | 1, 2 more failed |
| a start  | ours       | 8.75 µs | 8.50 to 9.12 | –                         | –                 | 3                |
| a start  | jq         | left out: bash: jq: command not found |              |                           |                   |                  |
"""


class Table(unittest.TestCase):
    def test_known_rows(self):
        self.assertEqual(bench.table(ROWS), TABLE)

    def test_runs_without_a_hook_held_against_their_neighbours_are_no_baseline(self):
        row = ROWS[1] | {"ratios": [0.9, 1.0, 1.1]}
        self.assertEqual(bench.cells(row)[4:6], ["1.00 (0.95 to 1.05)", "plain hook"])

    def test_three_digits_of_any_size(self):
        for value, text in [(0.0283, "0.0283"), (0.5, "0.500"), (1.234, "1.23"), (34.54, "34.5"), (101.57, "102"), (50971.2, "50971"), (0, "0")]:
            self.assertEqual(bench.number(value, value), text)


class Rows(unittest.TestCase):
    def read(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rows.jsonl")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            return bench.read(path)

    def test_what_was_written_is_read(self):
        self.assertEqual(self.read("".join(json.dumps(row) + "\n" for row in ROWS)), ROWS)

    def test_a_line_that_is_no_row_is_named(self):
        good = json.dumps(ROWS[0]) + "\n"
        for bad in ["{", "[]", '{"what": "x", "how": "y"}', '{"what": "x", "how": "y", "unit": "ns", "values": []}',
                    '{"what": "x", "how": "y", "unit": "ns", "values": [NaN]}', '{"what": "x", "how": "y", "unit": "ns", "values": [1], "ratios": [1]}']:
            with self.assertRaisesRegex(ValueError, r"rows\.jsonl:2: "):
                self.read(good + bad + "\n")


class Parts(unittest.TestCase):
    """With other commands in place of the benchmarks."""

    def measure(self, makefile, there=""):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(bench, "gpu", lambda: there), \
                mock.patch.dict(os.environ, {"CARGO": "true"}), contextlib.redirect_stderr(io.StringIO()) as said:
            os.environ.pop("MAKEFLAGS", None)
            before = os.getcwd()
            os.chdir(folder)
            try:
                with open("Makefile", "w", encoding="utf-8") as file:
                    file.write(makefile)
                missing, failed = bench.measure(folder, "rows.jsonl")
                rows = bench.read("rows.jsonl") if os.path.exists("rows.jsonl") else []
            finally:
                os.chdir(before)
        return rows, missing, failed, said.getvalue()

    ROW = json.dumps({"what": "w", "how": "h", "unit": "ns", "values": [1]})
    WELL = f"bench-hook bench-analyze bench-gpu:\n\t@echo '{ROW}' >> $$BENCH_ROWS\ngpu-there:\n\t@%s\n"

    def test_without_a_gpu_a_row_says_so(self):
        rows, missing, failed, _ = self.measure(self.WELL % "false")
        self.assertEqual((len(rows), failed), (2, False))
        self.assertIn("nvidia-smi finds no GPU", missing[0]["left_out"])

    def test_with_a_gpu_its_rows_are_there(self):
        rows, missing, failed, _ = self.measure(self.WELL % "true", "H200")
        self.assertEqual((len(rows), missing, failed), (3, [], False))

    def test_a_gpu_without_a_compiler_is_left_out_with_what_is_needed(self):
        rows, missing, failed, _ = self.measure(self.WELL % "echo nvcc is needed >&2; exit 2", "H200")
        self.assertEqual((len(rows), missing[0]["left_out"], failed), (2, "nvcc is needed", False))

    def test_a_benchmark_that_fails_is_told_and_the_rest_is_measured(self):
        rows, missing, failed, said = self.measure("bench-hook:\n\t@echo lost records >&2; exit 1\n" + (self.WELL % "false").replace("bench-hook ", ""))
        self.assertEqual((len(rows), failed), (1, True))
        self.assertIn("`make bench-hook` failed", missing[0]["left_out"])
        self.assertIn("lost records", said)

    def test_hami_core_is_measured_or_left_out_with_how_to_get_it(self):
        with mock.patch.object(bench, "gpu", lambda: ""):
            self.assertIn("HAMI_CORE=PATH", bench.without_hami(ROWS)[0]["left_out"])
        self.assertEqual(bench.without_hami([ROWS[0] | {"how": "HAMi-core, log level 4"}]), [])


if __name__ == "__main__":
    unittest.main()
