"""Runs summary.sql over Parquet files in DuckDB and in Spark and holds the answers against `hook-analyze --json`:
`check.py PARQUET_FOLDER FIGURES.json`."""

import json
import math
import re
import sys
from pathlib import Path


def queries():
    text = Path(__file__).with_name("summary.sql").read_text(encoding="utf-8")
    parts = re.split(r"^-- name: (\w+)\n", text, flags=re.M)[1:]
    return {name: body.strip().rstrip(";") for name, body in zip(parts[::2], parts[1::2])}


def duckdb_answers(folder):
    import duckdb

    database = duckdb.connect()
    database.execute(f"CREATE VIEW calls AS SELECT * FROM read_parquet('{folder}/**/*.parquet', hive_partitioning = true)")
    for name, query in (queries() | EXTRA).items():
        result = database.execute(query)
        columns = [column[0] for column in result.description]
        yield name, [dict(zip(columns, row)) for row in result.fetchall()]


def spark_answers(folder):
    from pyspark.sql import SparkSession

    spark = (SparkSession.builder.master("local[2]").appName("check-scale").config("spark.ui.enabled", "false")
             .config("spark.ui.showConsoleProgress", "false")
             .config("spark.sql.shuffle.partitions", "4").config("spark.sql.session.timeZone", "UTC").getOrCreate())
    spark.sparkContext.setLogLevel("ERROR")
    spark.read.parquet(folder).createOrReplaceTempView("calls")
    for name, query in (queries() | EXTRA).items():
        yield name, [row.asDict() for row in spark.sql(query).collect()]
    spark.stop()


# What the folders' names must say.
EXTRA = {"hosts": "SELECT host, COUNT(DISTINCT process) AS processes FROM calls GROUP BY host ORDER BY host",
         "dates": "SELECT CAST(date AS VARCHAR(10)) AS date, COUNT(*) AS calls FROM calls GROUP BY date ORDER BY date"}


def expected(figures):
    """The same answers from `--json`."""
    dims = [dict(zip(("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"), shape["grid"] + shape["block"]),
                 **{key: shape[key] for key in ("calls", "denied", "failed")}) for shape in figures["dims"]]
    dims.sort(key=lambda shape: [-shape["calls"], *list(shape.values())[:6]])
    return {
        "apis": figures["apis"],
        "memory": [{key: figures["memory"][key] for key in ("peak_bytes", "live_bytes", "allocated_bytes", "freed_bytes")}],
        "tokens": [{"min": figures["tokens"]["min"], "max": figures["tokens"]["max"]}],
        "denial_streaks": figures["tokens"]["denial_streaks"],
        "dims": dims,
        "processes": [{"process": number, "pid": process["pid"], "calls": process["calls"], "denied": process["denied"],
                       "peak_bytes": process["memory"]["peak_bytes"], "duration_s": process["time"]["duration_s"]}
                      for number, process in enumerate(figures["processes"])],
    }


def same(a, b):
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) or isinstance(b, float):
        return math.isclose(float(a), float(b), rel_tol=1e-12, abs_tol=1e-12)
    return a == b


def main(folder, figures):
    figures = json.loads(Path(figures).read_text(encoding="utf-8"))
    want = expected(figures)
    streaks = want["denial_streaks"]
    assert len(streaks) > 100 and len(want["processes"]) > 100, "the logs are too tame to show anything"
    wrong, answers = 0, {}
    for engine, answer in (("DuckDB", duckdb_answers), ("Spark", spark_answers)):
        answers[engine] = dict(answer(folder))
        for name, rows in want.items():
            # Streaks are listed up to a thousand.
            got, count = answers[engine][name], len(rows)
            if name == "denial_streaks":
                got, count = got[:count], figures["tokens"]["denial_streak_count"]
            if same(got, rows) and len(answers[engine][name]) == count:
                print(f"{engine} {name}: {count} rows, the same")
            else:
                wrong += 1
                pairs = [pair for pair in zip(got, rows) if not same(*pair)][:1] or [(len(got), len(rows))]
                print(f"{engine} {name}: differs, e.g. {pairs[0][0]}, hook-analyze: {pairs[0][1]}")
    for name in EXTRA:
        a, b = answers["DuckDB"][name], answers["Spark"][name]
        print(f"{name}: {[tuple(row.values()) for row in a]}")
        if not same(a, b) or sum(row.get("calls", 0) for row in a) not in (0, sum(api["calls"] for api in want["apis"])):
            wrong += 1
            print(f"{name}: DuckDB and Spark differ: {b}")
    sys.exit(1 if wrong else 0)


main(*sys.argv[1:])
