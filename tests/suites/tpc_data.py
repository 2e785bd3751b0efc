"""TPC-H and TPC-DS from DuckDB's extensions: tables as Parquet files, queries, right answers.

None of this is kept in the repository. `pip install duckdb-extension-tpch duckdb-extension-tpcds`,
of the version of `duckdb`, installs the extensions as files, which are loaded from there.
"""

import importlib
import pickle
import time
from pathlib import Path

import duckdb

from rewrite import ranked

KINDS = {"tpch": "dbgen", "tpcds": "dsdgen"}


def connect(kind, **config):
    """DuckDB with the extension of this kind."""
    package = Path(importlib.import_module(f"duckdb_extension_{kind}").__file__).parent
    connection = duckdb.connect(config=config)
    version = connection.execute("SELECT version()").fetchone()[0]
    file = package / "extensions" / version / f"{kind}.duckdb_extension"
    if not file.exists():
        raise SystemExit(f"{file} is missing: install duckdb-extension-{kind}=={duckdb.__version__}")
    connection.execute(f"LOAD '{file}'")
    return connection


def queries(kind):
    """Number → text."""
    return dict(connect(kind).execute(f"SELECT query_nr, query FROM {kind}_queries() ORDER BY 1").fetchall())


class Data:
    """The tables of one benchmark at one scale, made once in a folder."""

    def __init__(self, kind, scale, work):
        self.kind, self.scale = kind, scale
        self.folder = Path(work) / f"{kind}-{scale:g}"

    def make(self):
        if (self.folder / "made").exists():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        connection = connect(self.kind)
        connection.execute(f"CALL {KINDS[self.kind]}(sf = {self.scale})")
        for (table,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall():
            connection.execute(f"COPY {table} TO '{self.folder / table}.parquet' (FORMAT parquet)")
        (self.folder / "made").touch()

    def tables(self):
        return sorted(path.stem for path in self.folder.glob("*.parquet"))

    def file(self, table):
        return self.folder / f"{table}.parquet"

    def columns(self):
        """Table → column → type."""
        connection = duckdb.connect()
        describe = lambda table: connection.execute(f"DESCRIBE SELECT * FROM '{self.file(table)}'").fetchall()
        return {table: {row[0]: row[1] for row in describe(table)} for table in self.tables()}

    def oracle(self):
        """DuckDB with the tables in memory, told to be as DataFusion where both are right.

        NULL comes last in ascending order and first in descending, and the quotient of integers is
        one.
        """
        connection = connect(self.kind)
        connection.execute("SET default_null_order = 'nulls_last_on_asc_first_on_desc'")
        connection.execute("SET integer_division = true")
        for table in self.tables():
            connection.execute(f"CREATE TABLE {table} AS SELECT * FROM '{self.file(table)}'")
        return connection

    def answers(self, texts):
        """Number → (names, rows without the limit, ranks or None, number of wanted rows, seconds).
        """
        file = self.folder / "answers.pickle"
        if file.exists():
            return pickle.loads(file.read_bytes())
        connection, found = self.oracle(), {}
        for number, text in texts.items():
            started = time.time()
            cursor = connection.execute(text)
            names, limited = [part[0] for part in cursor.description], cursor.fetchall()
            seconds = time.time() - started
            found[number] = (names, *self.without_limit(connection, text, names, limited), len(limited), seconds)
        file.write_bytes(pickle.dumps(found))
        return found

    def without_limit(self, connection, text, names, limited):
        """All rows that the answer may have, and the rank of each in its order."""
        for candidate in ranked(text, names):
            try:
                rows = connection.execute(candidate).fetchall()
            except duckdb.Error:
                continue
            return [row[:len(names)] for row in rows], [row[-1] for row in rows]
        return limited, None
