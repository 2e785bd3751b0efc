"""clickhouse-connect, with pandas, Arrow and its dialect of SQLAlchemy; run.sh runs it."""

import datetime
import decimal
import os
import threading
import time

import clickhouse_connect
import pandas
import pyarrow
import sqlalchemy
from clickhouse_connect.cc_sqlalchemy.datatypes.sqltypes import DateTime64, Nullable, String, UInt32
from clickhouse_connect.cc_sqlalchemy.ddl.tableengine import MergeTree
from clickhouse_connect.driver.exceptions import DatabaseError, StreamFailureError

HOST, PORT = os.environ["STY_HOST"], int(os.environ["STY_PORT"])
# Queries may run at a time only without the session that a client has by default.
client = clickhouse_connect.get_client(host=HOST, port=PORT, autogenerate_session_id=False)


def fails(code, work):
    """The message of a failure, which must have this code."""
    try:
        work()
    except (DatabaseError, StreamFailureError) as error:
        assert f"Code: {code}." in str(error), error
        return str(error)
    raise AssertionError(f"no failure with code {code}")


assert client.ping()
assert client.query("SELECT 1 AS a, 'x' AS b").result_rows == [(1, "x")]
assert client.command("SELECT count(*) FROM trips") == 3
rows = client.query("SELECT * FROM trips ORDER BY id").result_rows
assert rows[0] == (
    1,
    "Oslo",
    12.5,
    datetime.date(2024, 1, 2),
    datetime.datetime(2024, 1, 2, 3, 4, 5, 678000),
)
assert rows[1] == (2, "it's \"Bergen\"", None, None, None)
assert rows[2][3] == datetime.date(1969, 12, 31)

# Values of parameters, put in by the server and by the client.
found = client.query(
    "SELECT {a:Int32}, {s:String}, {d:Date}", parameters={"a": 5, "s": "it's", "d": rows[0][3]}
)
assert found.result_rows == [(5, "it's", datetime.date(2024, 1, 2))]
found = client.query("SELECT id FROM trips WHERE city = %(c)s", parameters={"c": "it's \"Bergen\""})
assert found.result_rows == [(2,)]
found = client.query("SELECT id FROM trips WHERE id IN %(i)s ORDER BY id", parameters={"i": [1, 3]})
assert found.result_rows == [(1,), (3,)]

# All simple types, both ways.
client.command(
    "CREATE TABLE py (id UInt64, i8 Int8, i16 Int16, i32 Int32, u8 UInt8, f32 Float32, f64 Float64,"
    " ok Bool, s Nullable(String), l LowCardinality(String), d Date32, at DateTime64(3),"
    " dec Decimal(18, 4)) ENGINE = MergeTree ORDER BY id"
)
row = [
    2**63,
    -128,
    -300,
    -70000,
    255,
    0.5,
    0.1,
    True,
    None,
    "low",
    datetime.date(1950, 5, 6),
    datetime.datetime(2024, 1, 2, 3, 4, 5, 678000),
    decimal.Decimal("12.5"),
]
summary = client.insert("py", [row])
assert summary.written_rows == 1
assert list(client.query("SELECT * FROM py").result_rows[0]) == row
client.insert("py", [[1, "text"]], column_names=["id", "s"])
assert client.query("SELECT s, f64 FROM py WHERE id = 1").result_rows == [("text", None)]
assert client.raw_insert("py", ["id", "s"], insert_block="7,q\n8,r\n", fmt="CSV").written_rows == 2

# Data frames and Arrow.
frame = client.query_df("SELECT id, city, fare FROM trips ORDER BY id")
assert list(frame["id"]) == [1, 2, 3] and frame["fare"][0] == 12.5
assert client.insert_df("py", pandas.DataFrame({"id": [20, 21], "s": ["x", "y"]})).written_rows == 2
table = client.query_arrow("SELECT id, city FROM trips ORDER BY id")
assert table.to_pylist()[2] == {"id": 3, "city": None}
assert client.insert_arrow("py", pyarrow.table({"id": [30], "s": ["z"]})).written_rows == 1
with client.query_row_block_stream("SELECT value FROM range(300000)") as stream:
    assert sum(len(block) for block in stream) == 300_000

# Failures: before the reply begins, and behind rows that are there already.
assert "(UNKNOWN_TABLE)" in fails(60, lambda: client.query("SELECT * FROM nothing"))
fails(47, lambda: client.query("SELECT nothing FROM trips"))
fails(46, lambda: client.query("SELECT nothing(1)"))
fails(62, lambda: client.query("SELEC 1"))
fails(57, lambda: client.command("CREATE TABLE py (a INT)"))
fails(81, lambda: clickhouse_connect.get_client(host=HOST, port=PORT, database="nothing"))


def read_on():
    late = "SELECT 10 / (value - 200000) FROM (SELECT value FROM range(300000))"
    with client.query_row_block_stream(late) as stream:
        for _ in stream:
            pass


fails(153, read_on)

# A statement is seen while it runs, ends by KILL, and by its time.
endless = "SELECT count(*) FROM range(100000000000)"
fails(159, lambda: client.query(endless, settings={"max_execution_time": 1}))
ended = []
thread = threading.Thread(
    target=lambda: ended.append(
        fails(394, lambda: client.query(endless, settings={"query_id": "endless"}))
    )
)
thread.start()
running = "SELECT query FROM system.processes WHERE query_id = 'endless'"
for _ in range(100):
    if client.query(running).result_rows:
        break
    time.sleep(0.05)
client.command("KILL QUERY WHERE query_id = 'endless'")
thread.join(10)
assert len(ended) == 1

# SQLAlchemy: what there is, tables that are made, rows of either.
engine = sqlalchemy.create_engine(f"clickhousedb://{HOST}:{PORT}/default")
inspector = sqlalchemy.inspect(engine)
assert inspector.get_schema_names() == ["default", "system"]
assert {"py", "trips"} <= set(inspector.get_table_names())
columns = inspector.get_columns("trips")
assert [column["name"] for column in columns] == ["id", "city", "fare", "day", "at"]
assert [column["nullable"] for column in columns] == [False, True, True, True, True]
metadata = sqlalchemy.MetaData()
trips = sqlalchemy.Table("trips", metadata, autoload_with=engine)
made = sqlalchemy.Table(
    "made",
    metadata,
    sqlalchemy.Column("k", UInt32),
    sqlalchemy.Column("v", Nullable(String)),
    sqlalchemy.Column("at", DateTime64(3)),
    MergeTree(order_by="k"),
)
made.create(engine)
with engine.connect() as connection:
    query = sqlalchemy.select(trips.c.city).where(trips.c.fare > 1)
    assert connection.execute(query).fetchall() == [("Oslo",)]
    at = datetime.datetime(2024, 1, 1, 12)
    values = [{"k": 1, "v": "it's", "at": at}, {"k": 2, "v": None, "at": at}]
    connection.execute(sqlalchemy.insert(made), values)
    found = connection.execute(sqlalchemy.select(made).order_by(made.c.k)).fetchall()
    assert [tuple(row) for row in found] == [(1, "it's", at), (2, None, at)]
assert len(pandas.read_sql("SELECT id FROM trips", engine)) == 3
made.drop(engine)
assert not sqlalchemy.inspect(engine).has_table("made")
client.command("DROP TABLE py")
