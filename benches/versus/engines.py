#!/usr/bin/env python3
"""Runs a peer engine in a process of its own, which executes the statements that versus.py sends.

    engines.py ENGINE STORE THREADS

It imports the engine, prints {"ready": true}, and then answers each line of stdin, an object, with
a line:

    {"do": "open"}                                         opens the store (or the Parquet files)
    {"do": "run", "sql", "warm_up", "runs", "budget"}      -> {"ms": [...], "rows"}: from SQL text
                                                           to the whole result
    {"do": "answer", "sql", "file"}                        writes the result to a Parquet file

Output that the engine itself prints on stdout goes to stderr.
"""

import glob
import json
import os
import re
import sys
import time

NAMES = ["duckdb", "duckdb-parquet", "chdb", "chdb-lowcardinality", "hyper", "polars", "datafusion"]


def translate(engine, sql):
    """Translates from our own dialect. DuckDB, ClickHouse and Polars write the division of integers
    differently; ClickHouse, Polars and Hyper round halves to even, so round() becomes floor()."""
    if engine.startswith("chdb"):
        sql = re.sub(r"(\w+) / (\w+)", r"intDiv(\1, \2)", sql)
        sql = re.sub(r"date_part\('(\w+)', (\w+)\)",
                     lambda part: f"to{part[1].capitalize()}({part[2]})", sql)
    elif engine.startswith("duckdb") or engine == "polars":
        sql = sql.replace(" / ", " // ")
    if engine in ("polars", "hyper") or engine.startswith("chdb"):
        sql = re.sub(r"round\((\w+)\)", r"floor(\1 + 0.5)", sql)
    return sql


class DuckDB:
    def __init__(self, store, threads):
        import duckdb
        import pyarrow  # noqa: F401, so that the first result does not pay for it

        self.duckdb, self.store, self.threads = duckdb, store, threads

    def open(self):
        files = os.path.isdir(self.store)
        self.connection = self.duckdb.connect(":memory:" if files else self.store,
                                              read_only=not files)
        self.connection.execute(f"SET threads = {self.threads}")
        if files:
            self.connection.execute(
                f"CREATE VIEW trips AS FROM read_parquet('{self.store}/*.parquet')")

    def run(self, sql):
        return self.connection.execute(sql).to_arrow_table()

    rows = staticmethod(len)

    def answer(self, sql, file):
        write(self.run(sql), file)


class ClickHouse:
    SETTINGS = "enable_analyzer = 1, use_query_cache = 0, use_query_condition_cache = 0, " \
               "output_format_arrow_compression_method = 'none'"

    def __init__(self, store, threads):
        import pyarrow
        from chdb import session

        self.pyarrow, self.session, self.store, self.threads = pyarrow, session, store, threads

    def open(self):
        self.connection = self.session.Session(self.store)
        self.connection.query("USE versus")

    def run(self, sql):
        return self.connection.query(
            f"{sql} SETTINGS max_threads = {self.threads}, {self.SETTINGS}", "Arrow")

    def rows(self, result):
        return len(self.table(result))

    def table(self, result):
        return self.pyarrow.ipc.open_file(self.pyarrow.py_buffer(result.bytes())).read_all()

    def answer(self, sql, file):
        write(self.table(self.run(sql)), file)


class Hyper:
    def __init__(self, store, threads):
        import tableauhyperapi

        self.api, self.store = tableauhyperapi, store
        self.process = start_hyper(tableauhyperapi, threads)

    def open(self):
        self.connection = self.api.Connection(self.process.endpoint, self.store)

    def run(self, sql):
        # Fetches the chunks of the result as bytes: making Python values would measure Python.
        rows = 0
        with self.connection.execute_query(sql) as result:
            while result.next_row():
                rows += result._Result__current_chunk_rows
                result._Result__current_row = result._Result__current_chunk_rows
        return rows

    @staticmethod
    def rows(result):
        return result

    def answer(self, sql, file):
        self.connection.execute_command(
            f"COPY ({name_columns(sql)}) TO '{file}' WITH (FORMAT parquet)")


def start_hyper(api, threads):
    """Starts the server with its logs in /tmp and as many threads as the other engines."""
    parameters = {
        "log_config": "", "hard_concurrent_query_thread_limit": str(threads), "log_dir": "/tmp"
    }
    return api.HyperProcess(api.Telemetry.DO_NOT_SEND_USAGE_DATA_TO_TABLEAU,
                            "versus",
                            parameters=parameters)


def name_columns(sql):
    """Names every column, as COPY requires."""
    count = iter(range(100))
    head, tail = sql.split(" FROM ", 1)
    call = r"((?:count|sum|avg)\([^()]*(?:\([^()]*\)[^()]*)*\))(?! AS)"
    return re.sub(call, lambda m: f"{m[1]} AS c{next(count)}", head) \
        + " FROM " + tail


class Polars:
    def __init__(self, store, threads):
        os.environ["POLARS_MAX_THREADS"] = str(threads)
        import polars
        import pyarrow  # noqa: F401

        self.polars, self.store = polars, store

    def open(self):
        self.context = self.polars.SQLContext(
            trips=self.polars.scan_parquet(f"{self.store}/*.parquet"))

    def run(self, sql):
        return self.context.execute(sql).collect(engine="streaming")

    rows = staticmethod(len)

    def answer(self, sql, file):
        write(self.run(sql).to_arrow(), file)


class DataFusion:
    def __init__(self, store, threads):
        os.environ["TOKIO_WORKER_THREADS"] = str(threads)
        import datafusion
        import pyarrow

        self.datafusion, self.pyarrow = datafusion, pyarrow
        self.store, self.threads = store, threads

    def open(self):
        config = self.datafusion.SessionConfig().with_target_partitions(self.threads)
        self.context = self.datafusion.SessionContext(config)
        self.context.register_parquet("trips", self.store)

    def run(self, sql):
        return self.context.sql(sql).collect()

    @staticmethod
    def rows(result):
        return sum(batch.num_rows for batch in result)

    def answer(self, sql, file):
        frame = self.context.sql(sql)
        write(self.pyarrow.Table.from_batches(frame.collect(), frame.schema()), file)


def write(table, file):
    import pyarrow.parquet

    table = table.rename_columns([f"c{number}" for number in range(table.num_columns)])
    pyarrow.parquet.write_table(table, file)


def engine(name, store, threads):
    kinds = {
        "duckdb": DuckDB, "chdb": ClickHouse, "hyper": Hyper, "polars": Polars,
        "datafusion": DataFusion
    }
    return kinds[name.split("-")[0]](store, threads)


def run(engine, command):
    sql, started, times = command["sql"], time.perf_counter(), []
    for _ in range(command["warm_up"]):
        result = engine.run(sql)
        del result
    result = None
    while len(times) < command["runs"] and (not times
                                            or time.perf_counter() - started < command["budget"]):
        del result
        before = time.perf_counter()
        result = engine.run(sql)
        times.append((time.perf_counter() - before) * 1e3)
    return {"ms": times, "rows": engine.rows(result)}


def serve(name, store, threads):
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def reply(message):
        print(json.dumps(message), file=replies, flush=True)

    served = engine(name, store, threads)
    reply({"ready": True})
    for line in sys.stdin:
        command = json.loads(line)
        try:
            before = time.perf_counter()
            if command["do"] == "open":
                served.open()
                reply({"ms": (time.perf_counter() - before) * 1e3})
            elif command["do"] == "run":
                reply(run(served, command))
            elif command["do"] == "answer":
                served.answer(command["sql"], command["file"])
                reply({})
        except Exception as error:
            reply({"error": f"{type(error).__name__}: {str(error).strip()[:300]}"})
    # stdin has ended. Engines that clean up at exit must not delay that.
    if name == "hyper":
        served.process.close()
    os._exit(0)


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2], int(sys.argv[3]))
