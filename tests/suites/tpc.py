#!/usr/bin/env python3
"""TPC-H and TPC-DS: all 22 and 99 queries, answered by `sty` and by DuckDB over the same rows.

    python3 tests/suites/tpc.py --sty target/release/sty --scale 1

Each query runs with the native executor on and off, over the tables as they are and over tables
with columns without prefixes (`l_orderkey` is `orderkey`), so that nearly all tables share column
names. `--datafusion` also asks DataFusion over Parquet, which tells a fault of the store from one
of DataFusion. The exit code is 1 if an answer was wrong.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import pyarrow
import pyarrow.parquet as parquet

from rewrite import bare, without_prefixes
from sty import Sty
from tpc_answers import Right
from tpc_data import KINDS, Data, queries

# Orders and partitions that people might choose, for `--sorted` and `--partitioned`.
SORTED = {
    "tpch": {"lineitem": "l_shipdate", "orders": "o_orderdate", "customer": "c_nationkey"},
    "tpcds": {"store_sales": "ss_sold_date_sk", "catalog_sales": "cs_sold_date_sk", "web_sales": "ws_sold_date_sk",
              "store_returns": "sr_returned_date_sk", "inventory": "inv_date_sk,inv_item_sk", "item": "i_category,i_class",
              "date_dim": "d_date DESC"},
}
PARTITIONED = {
    "tpch": {"lineitem": "year(l_shipdate) AS year", "orders": "o_orderpriority"},
    "tpcds": {"store_sales": "ss_store_sk", "catalog_sales": "cs_ship_mode_sk", "web_sales": "ws_web_site_sk",
              "date_dim": "d_year", "item": "i_category"},
}


# TPC-DS 66 sums quotients of decimals, each of which is truncated to six digits, and 58 and 61
# multiply them by 100. An answer may differ by this number of units of the last digit.
QUOTIENTS = {("tpcds", 58): 100, ("tpcds", 61): 100, ("tpcds", 66): 100}


class Suite:
    def __init__(self, kind, options):
        self.kind, self.options = kind, options
        self.data = Data(kind, options.scale, options.work)
        self.data.make()
        self.columns, self.texts = self.data.columns(), queries(kind)
        if options.only:
            self.texts = {number: text for number, text in self.texts.items() if number in options.only}
        self.right = {number: Right(*found) for number, found in self.data.answers(queries(kind)).items()}
        self.counts, self.seconds, self.wrong = Counter(), {}, []

    # ---- stores

    def store(self, sty):
        """The store of these options, with prefixes, made once; and its twin without."""
        shape = self.options
        name = f"db-{shape.profile or 'default'}-{'sorted' if shape.sorted else 'plain'}-{'parts' if shape.partitioned else 'one'}-{shape.segments}"
        folder = self.data.folder / name
        if not (folder / "made").exists():
            shutil.rmtree(folder, ignore_errors=True)
            for table in self.data.tables():
                self.ingest(sty, folder / "db", table)
            shutil.copytree(folder / "db", folder / "bare")
            for table, columns in self.columns.items():
                for column in columns:
                    sty.must("alter", folder / "bare" / table, "rename", column, bare(column), "-q")
            (folder / "made").touch()
        return folder / "db", folder / "bare"

    def ingest(self, sty, store, table):
        options = ["--profile", self.options.profile] if self.options.profile else []
        order, partitions = SORTED[self.kind].get(table), PARTITIONED[self.kind].get(table)
        if self.options.sorted and order:
            options += ["--sort-by", order]
        if self.options.partitioned and partitions:
            options += ["--partition-by", partitions]
        pieces = [self.data.file(table)]
        with tempfile.TemporaryDirectory(dir=self.data.folder) as folder:
            if self.options.segments > 1:
                pieces = self.pieces(table, Path(folder))
            for at, piece in enumerate(pieces):
                sty.must("ingest", store / table, piece, "-q", *(options if at == 0 else []))

    def pieces(self, table, folder):
        rows = parquet.read_table(self.data.file(table))
        step = -(-len(rows) // self.options.segments) or 1
        for at in range(0, max(1, len(rows)), step):
            parquet.write_table(rows.slice(at, step), folder / f"{at}.parquet")
            yield folder / f"{at}.parquet"

    # ---- queries

    def ask(self, sty, store, text, native):
        """An Arrow table, or a message, and the seconds that the process took."""
        file = self.data.folder / "answer.arrow"
        sql = ("" if native else "SET sty.native = off;\n") + text
        started = time.time()
        done = sty.run("query", store, "--format", "arrow", "-o", file, "--force", "-q", "--timeout", f"{sty.timeout}s", *sty.options, text=sql)
        seconds = time.time() - started
        if done.returncode != 0:
            return None, f"exit {done.returncode}: {done.stderr.strip()}", seconds
        return read(file), None, seconds

    def judge(self, how, number, table, message):
        """Counts an answer; prints what is not right."""
        if message:
            self.counts[how, "refused"] += 1
            print(f"REFUSED {self.kind} {number}, {how}: {message[:500]}", flush=True)
            return
        bad = self.right[number].judge(table, QUOTIENTS.get((self.kind, number), 1))
        self.counts[how, bad[0] if bad else "right"] += 1
        if bad and bad[0] == "wrong":
            print(f"WRONG {self.kind} {number}, {how}: {bad[1]}", flush=True)
            self.wrong.append((number, how))

    def run(self):
        options = self.options
        for threads in options.threads:
            sty = Sty(options.sty, threads, options.memory_limit, timeout=options.timeout)
            with_prefixes, without = self.store(sty)
            for number, text in self.texts.items():
                for native in [True, False] if options.native == "both" else [options.native == "on"]:
                    how = f"native {'on' if native else 'off'}, {threads or 'all'} threads"
                    table, message, seconds = self.ask(sty, with_prefixes, text, native)
                    self.seconds.setdefault(number, seconds)
                    self.judge(how, number, table, message)
                    if options.prefixes == "both":
                        other = without_prefixes(text, self.columns)
                        table, message, _ = self.ask(sty, without, other, native)
                        self.judge(how + ", no prefixes", number, table, message)
        if options.datafusion:
            self.run_datafusion()
        return self.tell()

    def run_datafusion(self):
        import datafusion

        context = datafusion.SessionContext()
        for table in self.data.tables():
            context.register_parquet(table, str(self.data.file(table)))
        for number, text in self.texts.items():
            try:
                table, message = context.sql(text.strip().rstrip(";")).to_arrow_table(), None
            except Exception as error:
                table, message = None, str(error)
            self.judge("DataFusion over Parquet", number, table, message)

    def tell(self):
        for how in dict.fromkeys(how for how, _ in self.counts):
            counts = {kind: self.counts[how, kind] for kind in ("right", "scale", "refused", "wrong")}
            print(f"{self.kind} at scale {self.options.scale:g}, {how}: {counts['right']} right, {counts['scale']} right to a decimal's scale, "
                  f"{counts['refused']} refused, {counts['wrong']} wrong")
        if self.options.times:
            for number, seconds in self.seconds.items():
                print(f"{self.kind} {number}: sty {seconds:.3f} s from start to exit, DuckDB {self.right[number].seconds:.3f} s in memory")
        print(f"{self.kind}: sty {sum(self.seconds.values()):.1f} s for all, DuckDB {sum(self.right[n].seconds for n in self.seconds):.1f} s", flush=True)
        return [(self.kind, *which) for which in self.wrong]


def read(file):
    with pyarrow.memory_map(str(file)) as source:
        try:
            return pyarrow.ipc.open_file(source).read_all()
        except pyarrow.ArrowInvalid:
            source.seek(0)
            return pyarrow.ipc.open_stream(source).read_all()


def arguments():
    numbers = lambda text: [int(part) for part in text.split(",")]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sty", default="target/release/sty")
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=list(KINDS), help="tpch,tpcds")
    parser.add_argument("--only", type=numbers, help="numbers of queries")
    parser.add_argument("--native", choices=["both", "on", "off"], default="both")
    parser.add_argument("--prefixes", choices=["both", "kept"], default="both")
    parser.add_argument("--threads", type=numbers, default=[None], help="one run for each, such as 1,2,4")
    parser.add_argument("--memory-limit")
    parser.add_argument("--timeout", type=int, default=300, help="seconds for a query")
    parser.add_argument("--profile", choices=["fast", "balanced", "small"])
    parser.add_argument("--sorted", action="store_true", help="tables sorted by dates and the like")
    parser.add_argument("--partitioned", action="store_true", help="tables in partitions")
    parser.add_argument("--segments", type=int, default=1, help="ingests of each table")
    parser.add_argument("--datafusion", action="store_true", help="ask DataFusion over Parquet too")
    parser.add_argument("--times", action="store_true", help="print the seconds of each query")
    parser.add_argument("--work", help="a directory for data and stores, kept for the next run [a temporary one]")
    return parser


def main(given=None):
    options = arguments().parse_args(given)
    with tempfile.TemporaryDirectory() as temporary:
        options.work = Path(options.work or temporary)
        wrong = [which for kind in options.kinds for which in Suite(kind, options).run()]
    print(f"tpc: {len(wrong)} wrong answers" + "".join(f"\n  {kind} {number}, {how}" for kind, number, how in wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
