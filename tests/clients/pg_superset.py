"""What Apache Superset asks of `sty serve --pg`, by its own engine spec. See README.md.

Superset itself is not started: its application is made, so that its models and engine specs work.
"""

import logging
import os
import sys
import tempfile
import traceback

os.environ["SUPERSET_HOME"] = tempfile.mkdtemp()

from superset.app import create_app  # noqa: E402

URI = f"postgresql+psycopg2://anna@{os.environ['STY_HOST']}:{os.environ['STY_PG_PORT']}/db"
NAMES = ["id", "city", "fare", "day", "at"]
AT = "2024-02-29 12:34:56"
# What the beginning of each span of time is for this moment.
GRAINS = {
    "PT1S": AT, "PT5S": "2024-02-29 12:34:55", "PT30S": "2024-02-29 12:34:30",
    "PT1M": "2024-02-29 12:34:00", "PT5M": "2024-02-29 12:30:00", "PT10M": "2024-02-29 12:30:00",
    "PT15M": "2024-02-29 12:30:00", "PT30M": "2024-02-29 12:30:00", "PT1H": "2024-02-29 12:00:00",
    "P1D": "2024-02-29 00:00:00", "P1W": "2024-02-26 00:00:00", "P1M": "2024-02-01 00:00:00",
    "P3M": "2024-01-01 00:00:00", "P1Y": "2024-01-01 00:00:00",
}  # fmt: skip


def same(found, expected):
    assert found == expected, f"expected {expected!r}, got {found!r}"


def tables(database, spec):
    with database.get_inspector() as about:
        assert "public" in spec.get_schema_names(about), spec.get_schema_names(about)
        found = spec.get_table_names(database, about, "public")
        assert "trips" in found and "superset_view" not in found, found
        assert "superset_view" in spec.get_view_names(database, about, "public")
        assert "db" in spec.get_catalog_names(database, about)
    same(database.get_default_schema(None), "public")


def columns(database, spec):
    with database.get_inspector() as about:
        found = spec.get_columns(about, Table("trips", "public"))
        same([it["column_name"] for it in found], NAMES)
        kinds = ["BIGINT", "TEXT", "DOUBLE_PRECISION", "DATE", "TIMESTAMP"]
        same([str(it["type"]) for it in found], kinds)
        generic = [spec.get_column_spec(str(it["type"])).is_dttm for it in found]
        same(generic, [False, False, False, True, True])
        same(spec.get_table_comment(about, Table("trips", "public")), None)


def indexes(database, spec):
    with database.get_inspector() as about:
        same(spec.get_indexes(database, about, Table("trips", "public")), [])


def keys(database, spec):
    found = database.get_pk_constraint(Table("trips", "public"))
    assert not found.get("constrained_columns"), found
    same(database.get_foreign_keys(Table("trips", "public")), [])


def frames(database, spec):
    frame = database.get_df("SELECT * FROM trips ORDER BY id")
    same((list(frame.columns), frame["fare"].sum()), (NAMES, 12.75))
    same(frame["city"].tolist(), ["Oslo", 'it\'s "Bergen"', None])
    frame = database.get_df("SELECT city, count(*) AS n FROM trips GROUP BY city ORDER BY 1")
    same(frame["n"].tolist(), [1, 1, 1])


def grains(database, spec):
    import sqlalchemy

    known = spec.get_time_grain_expressions()
    wrong = [grain for grain in known if grain and grain not in GRAINS]
    for grain, expected in GRAINS.items():
        column = sqlalchemy.literal_column("at")
        sql = str(spec.get_timestamp_expr(column, None, grain))
        query = f"SELECT {sql} AS t, count(*) AS n FROM (SELECT TIMESTAMP '{AT}' AS at) AS x"
        try:
            frame = database.get_df(f"{query} GROUP BY {sql} ORDER BY n DESC")
            same((str(frame["t"][0]), frame["n"].tolist()), (expected, [1]))
        except Exception as failed:
            wrong.append(f"{grain}: {failed}")
    assert not wrong, wrong


app = create_app()
# It has no database to log events in.
logging.disable(logging.CRITICAL)
failed = []
with app.app_context():
    from superset.models.core import Database
    from superset.sql.parse import Table

    database = Database(database_name="sty", sqlalchemy_uri=URI)
    with database.get_raw_connection() as connection:
        cursor = connection.cursor()
        cursor.execute("DROP VIEW IF EXISTS superset_view")
        cursor.execute("CREATE VIEW superset_view AS SELECT id FROM trips")
        connection.commit()
    for check in (tables, columns, indexes, keys, frames, grains):
        try:
            check(database, database.db_engine_spec)
        except Exception:
            print(f"{check.__name__}:", file=sys.stderr)
            traceback.print_exc(limit=-1)
            failed.append(check.__name__)
    with database.get_raw_connection() as connection:
        connection.cursor().execute("DROP VIEW superset_view")
        connection.commit()
print("failed: " + ", ".join(failed) if failed else "ok")
sys.exit(bool(failed))
