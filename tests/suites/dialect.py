"""The SQL that both engines read, for sqlglot: DuckDB's, with NULL last in ascending order and first in descending."""

from sqlglot.dialects.duckdb import DuckDB


class Plain(DuckDB):
    NULL_ORDERING = "nulls_are_large"
