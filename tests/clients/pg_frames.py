"""What adbc-driver-postgresql and connectorx do with `sty serve --pg`. See README.md."""

import datetime
import decimal
import os
import sys
import traceback

import adbc_driver_postgresql.dbapi as adbc
import connectorx
import pyarrow

URL = f"postgresql://anna@{os.environ['STY_HOST']}:{os.environ['STY_PG_PORT']}/db"
AT = datetime.datetime(2024, 2, 29, 12, 34, 56, 789000)
TRIPS = [
    (1, "Oslo", 12.5, datetime.date(2024, 1, 2), datetime.datetime(2024, 1, 2, 3, 4, 5, 678000)),
    (2, 'it\'s "Bergen"', None, None, None),
    (3, None, 0.25, datetime.date(1969, 12, 31), datetime.datetime(2024, 2, 29, 23, 59, 59)),
]
KINDS = (
    "SELECT 1::BIGINT AS id, -2::INT AS n, 3::SMALLINT AS s, true AS b, 1.5::REAL AS r, "
    "0.1::DOUBLE PRECISION AS d, 'it''s ü' AS t, DATE '1969-12-31' AS day, "
    "TIMESTAMP '2024-02-29 12:34:56.789' AS at, TIMESTAMPTZ '2024-02-29 12:34:56+00' AS zoned"
)


def same(found, expected):
    assert found == expected, f"expected {expected!r}, got {found!r}"


def fails(what, work):
    """Work must fail with an error whose text has these words."""
    try:
        work()
    except Exception as failed:
        assert what in str(failed), failed
    else:
        raise AssertionError(f"{what}: did not fail")


def adbc_reads():
    with adbc.connect(URL) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT * FROM trips ORDER BY id")
        same(cursor.fetchall(), TRIPS)
        cursor.execute(KINDS)
        table = cursor.fetch_arrow_table()
        row = table.to_pylist()[0]
        same([row[it] for it in "id n s b r d".split()], [1, -2, 3, True, 1.5, 0.1])
        same((row["t"], row["day"], row["at"]), ("it's ü", datetime.date(1969, 12, 31), AT))
        same(row["zoned"], datetime.datetime(2024, 2, 29, 12, 34, 56, tzinfo=datetime.timezone.utc))
        types = [str(field.type) for field in table.schema]
        same(types, [
            "int64", "int32", "int16", "bool", "float", "double", "string", "date32[day]",
            "timestamp[us]", "timestamp[us, tz=UTC]",
        ])  # fmt: skip
        cursor.execute("SELECT city FROM trips WHERE id = $1", (1,))
        same(cursor.fetchall(), [("Oslo",)])
        cursor.execute("SELECT g, 'r' || g AS r FROM generate_series(1, 300000) AS t(g)")
        same(sum(batch.num_rows for batch in cursor.fetch_record_batch()), 300000)
        cursor.execute("SELECT 1 WHERE 1 = 0")
        same(cursor.fetchall(), [])
        fails("nope", lambda: cursor.execute("SELECT * FROM nope"))
        connection.rollback()
        cursor.execute("SELECT 5")
        same(cursor.fetchone(), (5,))


def adbc_other_types():
    with adbc.connect(URL, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT '12.50'::NUMERIC(12, 2) AS p, TIME '01:02:03.5' AS clock")
        row = cursor.fetchone()  # Of numeric, this driver makes texts.
        same(decimal.Decimal(row[0]), decimal.Decimal("12.50"))
        same(row[1], datetime.time(1, 2, 3, 500000))
        cursor.execute("SELECT ARRAY[1, NULL]::INT[] AS l, ARRAY['a', NULL] AS u")
        same(cursor.fetchone(), ([1, None], ["a", None]))
        cursor.execute("SELECT y FROM (SELECT decode('00ff41', 'hex') AS y) AS t")
        same(cursor.fetchone(), (b"\x00\xffA",))
        cursor.execute("SELECT INTERVAL '14 months 3 days' AS i")
        (found,) = cursor.fetch_arrow_table().column("i").to_pylist()
        same(found, pyarrow.MonthDayNano([14, 3, 0]))


def adbc_writes():
    with adbc.connect(URL, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS ad")
        cursor.execute("CREATE TABLE ad (id BIGINT, name TEXT)")
        cursor.executemany("INSERT INTO ad VALUES ($1, $2)", [(at, f"n{at}") for at in range(100)])
        cursor.execute("SELECT count(*), max(name) FROM ad")
        same(cursor.fetchone(), (100, "n99"))
        cursor.execute("DROP TABLE ad")


def adbc_ingests():
    rows = pyarrow.table({
        "id": pyarrow.array(range(10000)), "name": [f"n{at}" for at in range(10000)],
        "value": [at * 0.5 for at in range(10000)], "ok": [at % 3 == 0 for at in range(10000)],
        "at": pyarrow.array([AT] * 10000, pyarrow.timestamp("us")),
    })  # fmt: skip
    with adbc.connect(URL, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS ingested")
        same(cursor.adbc_ingest("ingested", rows, mode="create"), 10000)
        same(cursor.adbc_ingest("ingested", rows.slice(0, 5), mode="append"), 5)
        cursor.execute("SELECT count(*), sum(value), max(at) FROM ingested WHERE ok")
        same(cursor.fetchone(), (3336, sum(at * 0.5 for at in range(0, 10000, 3)) + 1.5, AT))
        fails("", lambda: cursor.adbc_ingest("ingested", rows, mode="create"))
        same(cursor.adbc_ingest("ingested", rows.slice(0, 7), mode="replace"), 7)
        same(cursor.adbc_ingest("ingested", rows.slice(0, 3), mode="create_append"), 3)
        cursor.execute("SELECT count(*) FROM ingested")
        same(cursor.fetchone(), (10,))
        cursor.execute("DROP TABLE ingested")


def adbc_info():
    with adbc.connect(URL, autocommit=True) as connection:
        same(connection.adbc_get_info()["vendor_name"], "PostgreSQL")


def adbc_schema():
    with adbc.connect(URL, autocommit=True) as connection:
        schema = connection.adbc_get_table_schema("trips")
        same([(it.name, str(it.type)) for it in schema], [
            ("id", "int64"), ("city", "string"), ("fare", "double"), ("day", "date32[day]"),
            ("at", "timestamp[us]"),
        ])  # fmt: skip


def adbc_objects():
    with adbc.connect(URL, autocommit=True) as connection:
        found = connection.adbc_get_objects(table_name_filter="trips").read_all().to_pylist()
        (catalog,) = [it for it in found if it["catalog_name"] == "db"]
        schemas = {it["db_schema_name"]: it for it in catalog["catalog_db_schemas"]}
        (table,) = schemas["public"]["db_schema_tables"]
        same((table["table_name"], table["table_type"]), ("trips", "table"))
        columns = [column["column_name"] for column in table["table_columns"]]
        same(columns, ["id", "city", "fare", "day", "at"])


def adbc_statistics():
    with adbc.connect(URL, autocommit=True) as connection, connection.cursor() as cursor:
        same(cursor.adbc_execute_schema("SELECT id, city FROM trips").names, ["id", "city"])
        same(sorted(connection.adbc_get_table_types())[-1], "view")


def connectorx_with(protocol):
    def read(sql, **more):
        found = connectorx.read_sql(URL, sql, protocol=protocol, return_type="arrow", **more)
        return pyarrow.table(found)

    found = read("SELECT * FROM trips ORDER BY id").to_pylist()
    same([tuple(row.values())[:3] for row in found], [row[:3] for row in TRIPS])
    same([row["day"] for row in found], [row[3] for row in TRIPS])
    same([row["at"] for row in found], [row[4] for row in TRIPS])
    row = read(KINDS).to_pylist()[0]
    same([row[it] for it in "id n s b r d".split()], [1, -2, 3, True, 1.5, 0.1])
    same((row["t"], row["day"], row["at"]), ("it's ü", datetime.date(1969, 12, 31), AT))
    same(row["zoned"], datetime.datetime(2024, 2, 29, 12, 34, 56, tzinfo=datetime.timezone.utc))
    many = "SELECT g, g * 2 AS twice FROM generate_series(1, 100000) AS t(g)"
    parts = read(many, partition_on="g", partition_num=3)
    same((parts.num_rows, sum(parts["twice"].to_pylist())), (100000, 100000 * 100001))
    frame = connectorx.read_sql(URL, "SELECT id, fare FROM trips", protocol=protocol)
    same(frame["fare"].sum(), 12.75)
    fails("nope", lambda: read("SELECT * FROM nope"))


def connectorx_numbers_with(protocol):
    sql = "SELECT '12.50'::NUMERIC(12, 2) AS p, TIME '01:02:03' AS clock, "
    sql += "ARRAY[1, 2]::BIGINT[] AS l"
    found = connectorx.read_sql(URL, sql, protocol=protocol, return_type="arrow")
    row = pyarrow.table(found).to_pylist()[0]
    same((float(row["p"]), row["clock"], row["l"]), (12.5, datetime.time(1, 2, 3), [1, 2]))


CHECKS = [
    adbc_reads, adbc_other_types, adbc_writes, adbc_ingests, adbc_info, adbc_schema, adbc_objects,
    adbc_statistics,
]  # fmt: skip
WORK = [(check.__name__, check, ()) for check in CHECKS]
for check in (connectorx_with, connectorx_numbers_with):
    WORK += [(f"{check.__name__} {it}", check, (it,)) for it in ("binary", "cursor", "csv")]
failed = []
for name, check, given in WORK:
    try:
        check(*given)
    except BaseException:  # Connectorx panics.
        print(f"{name}:", file=sys.stderr)
        traceback.print_exc(limit=-2)
        failed.append(name)
print("failed: " + ", ".join(failed) if failed else "ok")
sys.exit(bool(failed))
