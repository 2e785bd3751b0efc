"""The SQL that both engines read, for sqlglot.

It is DuckDB's, with NULL last in ascending order and first in descending order.
"""

from sqlglot.dialects.duckdb import DuckDB


class Plain(DuckDB):
    NULL_ORDERING = "nulls_are_large"
