"""DuckDB as the oracle: its answers, unless one takes too long or has too many rows."""

import threading

import duckdb


class TooMuch(Exception):
    """The oracle gave up, so the statement is left out."""


class Oracle:
    def __init__(self, seconds=5, rows=50_000, threads=1):
        self.connection = duckdb.connect(config={"threads": threads})
        self.seconds, self.rows = seconds, rows
        # NULL comes last in ascending order and first in descending, as in DataFusion and
        # PostgreSQL.
        self.connection.execute("SET default_null_order = 'nulls_last_on_asc_first_on_desc'")

    def run(self, sql):
        self.connection.execute(sql)

    def ask(self, sql):
        """Rows, or an exception: TooMuch, or duckdb.Error if DuckDB refuses the statement."""
        timer = threading.Timer(self.seconds, self.connection.interrupt)
        timer.start()
        try:
            rows = self.connection.execute(sql).fetchmany(self.rows + 1)
        except duckdb.InterruptException:
            raise TooMuch from None
        finally:
            timer.cancel()
        if len(rows) > self.rows:
            raise TooMuch
        return rows
