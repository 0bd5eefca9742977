"""Calls and denials per API by a dataframe library or a database. Prints the number of denied calls."""
import sys

how, path = sys.argv[1:]
PATTERN = r"^\[HOOK\] (\w+)\(.*?\) (->|DENIED)"

if how == "pandas":
    import pandas as pd

    lines = pd.Series(open(path, encoding="utf-8", errors="replace").read().splitlines())
    calls = lines.str.extract(PATTERN)
    counts = calls.groupby([0, 1]).size()
    print(counts[:, "DENIED"].sum())
elif how == "polars":
    import polars as pl

    # A separator that no line holds: each line is one value.
    lines = pl.scan_csv(path, has_header=False, separator="\x01", quote_char=None, new_columns=["line"])
    calls = lines.select(
        api=pl.col("line").str.extract(PATTERN, 1),
        decision=pl.col("line").str.extract(PATTERN, 2),
    )
    counts = calls.drop_nulls().group_by("api", "decision").len().collect()
    print(counts.filter(pl.col("decision") == "DENIED")["len"].sum())
elif how == "polars-json":
    import polars as pl

    schema = {"api": pl.String, "outcome": pl.String}
    counts = pl.scan_ndjson(path, schema=schema).group_by("api", "outcome").len().collect()
    print(counts.filter(pl.col("outcome") == "denied")["len"].sum())
elif how == "duckdb":
    import duckdb

    counts = duckdb.execute(
        "SELECT m.api, m.decision, count(*) FROM (SELECT regexp_extract(line, ?, ['api', 'decision']) AS m FROM "
        "read_csv(?, columns={'line': 'VARCHAR'}, header=false, delim='\x01', quote='', escape='', auto_detect=false)) "
        "GROUP BY ALL",
        [PATTERN, path],
    ).fetchall()
    print(sum(n for _, decision, n in counts if decision == "DENIED"))
elif how == "duckdb-json":
    import duckdb

    counts = duckdb.execute(
        "SELECT api, outcome, count(*) FROM read_json(?, format='newline_delimited', "
        "columns={'api': 'VARCHAR', 'outcome': 'VARCHAR'}) GROUP BY ALL",
        [path],
    ).fetchall()
    print(sum(n for _, outcome, n in counts if outcome == "denied"))
