#!/usr/bin/env python3
"""Any tables and statements beside DuckDB: TPC-H, TPC-DS, or Parquet files with a file of SQL.

    python3 benches/versus/suites.py tpch --scale 1
    python3 benches/versus/suites.py files --tables hits=DIR/*.parquet --sql clickbench.sql

See README.md. Both engines get the same texts, turn by turn; the machine's load is looked at before
each pass, and a figure is marked where the passes differ by more than a fifth.
"""

import glob
import json
import math
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from common import common_options, machine, parse, sty_version

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/suites"))
TPC = ("tpch", "tpcds")
# Two passes agree if the slower is at most this many times the faster.
AGREE = 1.2


def tables_and_texts(options):
    """Name of a table → its files, and number of a statement → its text."""
    if options.suite in TPC:
        from tpc_data import Data, queries
        data = Data(options.suite, options.scale, options.work)
        data.make()
        return {name: [str(data.file(name))] for name in data.tables()}, queries(options.suite)
    named = (table.split("=", 1) for table in options.tables)
    files = {name: sorted(glob.glob(pattern)) for name, pattern in named}
    statements = re.sub(r"--.*", "", options.sql.read_text()).split(";")
    texts = [text.strip() for text in statements if text.strip()]
    return files, dict(enumerate(texts, 1))


def fill(options, tables):
    """Both stores, filled where they are missing."""
    import duckdb
    name = options.suite if options.suite not in TPC else f"{options.suite}-{options.scale:g}"
    folder = options.work / f"suite-{name}"
    store, file = options.sty_store or folder / "sty", options.duckdb or folder / "tables.duckdb"
    folder.mkdir(parents=True, exist_ok=True)
    for table, files in tables.items():
        if not (store / table).exists():
            print(f"filling {store / table}", file=sys.stderr)
            subprocess.run([options.sty, "ingest", store / table, *files, "--quiet"], check=True)
    if not file.exists():
        print(f"filling {file}", file=sys.stderr)
        part = file.with_suffix(".part")
        part.unlink(missing_ok=True)
        with duckdb.connect(str(part)) as connection:
            for table, files in tables.items():
                connection.execute(f"CREATE TABLE {table} AS SELECT * FROM read_parquet({files})")
        part.rename(file)
    return store, file


def run_sty(options, store, text):
    command = [options.sty, "bench", store, text, "--threads", options.threads, "--warm-up", 1]
    command = [*command, "--runs", options.runs, "--format", "json"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{text}\n{done.stderr}")
    found = json.loads(done.stdout)["statements"]
    return sum(statement["min_ms"] for statement in found), max(s["rows"] for s in found)


def run_duckdb(connection, options, text):
    best, rows = math.inf, 0
    for _ in range(options.runs + 1):
        started = time.perf_counter()
        rows = connection.execute(text).to_arrow_table().num_rows
        best = min(best, (time.perf_counter() - started) * 1e3)
    return best, rows


def one_pass(options, texts, store, file):
    """Number → times in ms of `sty` and DuckDB, which take turns statement by statement."""
    import duckdb
    load = os.getloadavg()[0]
    print(f"load before this pass: {load:.2f}", file=sys.stderr)
    connection = duckdb.connect(str(file), read_only=True, config={"threads": options.threads})
    times = {}
    for number, text in texts.items():
        theirs, their_rows = run_duckdb(connection, options, text)
        ours, rows = run_sty(options, store, text)
        if rows != their_rows:
            print(f"{number}: {rows} rows, DuckDB has {their_rows}", file=sys.stderr)
        times[number] = (ours, theirs)
    return times, load


def report(passes):
    """A table of the best of all passes, and the geometric mean of DuckDB's time by ours."""
    lines = ["| statement | `sty` ms | DuckDB ms | DuckDB / `sty` | |", "| ---: | ---: | ---: | ---: | --- |"]
    ratios = []
    for number in passes[0]:
        ours, theirs = ([times[number][at] for times in passes] for at in (0, 1))
        ratios.append(min(theirs) / min(ours))
        unsteady = any(max(figures) > AGREE * min(figures) for figures in (ours, theirs))
        note = "passes differ" if unsteady else ""
        lines.append(f"| {number} | {min(ours):.1f} | {min(theirs):.1f} | {ratios[-1]:.2f} | {note} |")
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    slow = sum(ratio < 0.5 for ratio in ratios)
    lines += ["", f"Geometric mean of DuckDB / `sty`: {mean:.2f}; {sum(r > 1 for r in ratios)} of "
              f"{len(ratios)} faster, {slow} slower than twice DuckDB's time."]
    return "\n".join(lines)


def main():
    parser = common_options(__doc__.splitlines()[0], "suites-*.json and .md", 0, 0)
    parser.add_argument("suite", choices=[*TPC, "files"])
    parser.add_argument("--scale", type=float, default=1, help="of TPC")
    parser.add_argument("--tables", nargs="+", default=[], metavar="NAME=PATTERN")
    parser.add_argument("--sql", type=Path, help="statements, separated by semicolons")
    parser.add_argument("--sty-store", type=Path, help="an existing store")
    parser.add_argument("--duckdb", type=Path, help="an existing file of DuckDB")
    parser.add_argument("--only", type=lambda text: set(text.split(",")))
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    options = parse(parser)
    if options.suite == "files" and not (options.tables and options.sql):
        parser.error("files needs --tables and --sql")
    tables, texts = tables_and_texts(options)
    if options.only:
        texts = {number: text for number, text in texts.items() if str(number) in options.only}
    store, file = fill(options, tables)
    done = [one_pass(options, texts, store, file) for _ in range(options.passes)]
    text = report([times for times, _ in done])
    print(text)
    options.out.mkdir(parents=True, exist_ok=True)
    name = options.out / f"suites-{options.suite}"
    name.with_suffix(".md").write_text(text + "\n")
    name.with_suffix(".json").write_text(json.dumps({
        "machine": machine(), "sty": sty_version(options), "passes": done,
    }, indent=1))


if __name__ == "__main__":
    main()
