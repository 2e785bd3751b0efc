"""What adbc-driver-flightsql and pyarrow.flight do with `sty serve --flight`. See README.md."""

import os
import threading
import time

import adbc_driver_flightsql.dbapi as flightsql
import adbc_driver_manager
import pyarrow
import pyarrow.flight
import pandas

URL = f"grpc://{os.environ['STY_HOST']}:{os.environ['STY_FLIGHT_PORT']}"


def fails(error, what, work):
    """Work must fail with an error of this kind, whose text has these words."""
    try:
        work()
    except error as failed:
        assert what in str(failed), failed
    else:
        raise AssertionError(f"{what}: did not fail")


def queries(connection):
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM trips ORDER BY id")
        rows = cursor.fetchall()
        assert rows[0][:3] == (1, "Oslo", 12.5), rows
        assert rows[1][1:] == ('it\'s "Bergen"', None, None, None), rows
        assert [column[0] for column in cursor.description] == ["id", "city", "fare", "day", "at"]
        cursor.execute("SELECT city FROM trips WHERE id = ? OR fare = ? ORDER BY id", (1, 0.25))
        assert cursor.fetchall() == [("Oslo",), (None,)]
        cursor.execute("SELECT city FROM trips WHERE id = $1 + 1", (1,))
        assert cursor.fetchone() == ('it\'s "Bergen"',)
        cursor.execute("SELECT ['a', NULL] AS l, {x: 1, y: 'z'} AS s, 1.50::DECIMAL(5, 2) AS d")
        table = cursor.fetch_arrow_table()
        assert table.to_pylist()[0]["l"] == ["a", None], table
        assert table.to_pylist()[0]["s"] == {"x": 1, "y": "z"}, table
        assert str(table.to_pylist()[0]["d"]) == "1.50", table
        assert table.schema.field("l").type == pyarrow.list_(pyarrow.string()), table.schema
        cursor.execute("SELECT value AS v, 'r' || value AS r FROM generate_series(1, 3000000)")
        count = sum(batch.num_rows for batch in cursor.fetch_record_batch())
        assert count == 3_000_000, count
        cursor.execute("SELECT fare FROM trips ORDER BY id")
        frame = cursor.fetch_df()
        assert isinstance(frame, pandas.DataFrame) and frame["fare"].sum() == 12.75
        assert cursor.adbc_execute_schema("SELECT id FROM trips").field(0).type == pyarrow.int64()
        fails(Exception, "no table nope", lambda: cursor.execute("SELECT * FROM nope"))
        fails(Exception, "no column nope", lambda: cursor.execute("SELECT nope FROM trips"))


def updates(connection):
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE u (a BIGINT, b VARCHAR)")
        cursor.executemany("INSERT INTO u VALUES (?, ?)", [(at, f"n{at}") for at in range(5000)])
        assert cursor.rowcount == 5000, cursor.rowcount
        cursor.executemany("DELETE FROM u WHERE a < ?", [(10,), (20,)])
        assert cursor.rowcount == 20, cursor.rowcount
        cursor.execute("SELECT count(*), min(b) FROM u")
        assert cursor.fetchone() == (4980, "n100")
        # A statement that is prepared once and runs often.
        cursor.adbc_prepare("SELECT b FROM u WHERE a = ?")
        for at in (20, 21, 22):
            cursor.execute("SELECT b FROM u WHERE a = ?", (at,))
            assert cursor.fetchone() == (f"n{at}",)


def ingests(connection):
    rows = pyarrow.table({
        "id": pyarrow.array(range(1_000_000)),
        "name": pyarrow.array([f"name {at % 1000}" for at in range(1_000_000)]),
        "code": pyarrow.array([str(at % 10) for at in range(1_000_000)]).dictionary_encode(),
        "at": pyarrow.array([1_700_000_000_000_000] * 1_000_000, pyarrow.timestamp("us", "UTC")),
    })
    with connection.cursor() as cursor:
        # The driver sends no message of more than 16 MiB unless it is told otherwise.
        reader = rows.to_reader(max_chunksize=100_000)
        assert cursor.adbc_ingest("many", reader, mode="create") == 1_000_000
        few = rows.slice(0, 10)
        fails(Exception, "already", lambda: cursor.adbc_ingest("many", few, mode="create"))
        reader = rows.slice(0, 100_000).to_reader(max_chunksize=1000)
        assert cursor.adbc_ingest("many", reader, mode="append") == 100_000
        cursor.execute("SELECT count(*), count(DISTINCT code), max(at)::VARCHAR FROM many")
        count, codes, latest = cursor.fetchone()
        assert (count, codes) == (1_100_000, 10) and latest.startswith("2023-11-14 22:13:20"), latest
        assert cursor.adbc_ingest("many", rows.slice(0, 7), mode="replace") == 7
        assert cursor.adbc_ingest("many", rows.slice(0, 3), mode="create_append") == 3
        fails(Exception, "no table", lambda: cursor.adbc_ingest("nope", few, mode="append"))
        wrong = pyarrow.table({"id": ["x"]})
        fails(Exception, "", lambda: cursor.adbc_ingest("many", wrong, mode="append"))
        cursor.execute("SELECT count(*) FROM many")
        assert cursor.fetchone() == (10,)


def metadata(connection):
    info = connection.adbc_get_info()
    assert info["vendor_name"] == "Stylobate", info
    assert "TABLE" in connection.adbc_get_table_types()
    found = connection.adbc_get_objects(table_name_filter="tri%").read_all().to_pylist()
    (catalog,) = found
    (schema,) = catalog["catalog_db_schemas"]
    (table,) = schema["db_schema_tables"]
    assert (catalog["catalog_name"], schema["db_schema_name"]) == ("stylobate", "public"), found
    columns = [column["column_name"] for column in table["table_columns"]]
    assert columns == ["id", "city", "fare", "day", "at"], columns
    assert connection.adbc_get_table_schema("trips").field("id").type == pyarrow.int64()


def cancelling(connection):
    endless = "SELECT a.value FROM generate_series(1, 100000000) a, generate_series(1, 1000) b"
    with connection.cursor() as cursor:
        cursor.execute(endless)
        reader = cursor.fetch_record_batch()
        reader.read_next_batch()
        threading.Timer(0.3, cursor.adbc_cancel).start()
        since = time.monotonic()
        fails(Exception, "", lambda: [None for _ in reader])
        assert time.monotonic() - since < 10


def plain_flight():
    client = pyarrow.flight.connect(URL)
    names = [info.descriptor.path[0] for info in client.list_flights()]
    assert b"trips" in names, names
    info = client.get_flight_info(pyarrow.flight.FlightDescriptor.for_path("trips"))
    assert info.schema.names == ["id", "city", "fare", "day", "at"], info.schema
    table = client.do_get(info.endpoints[0].ticket).read_all()
    assert table.num_rows == 3, table
    rows = pyarrow.table({"a": [1, 2, 3]})
    for count in (3, 6):
        path = pyarrow.flight.FlightDescriptor.for_path("put")
        writer, reader = client.do_put(path, rows.schema)
        writer.write_table(rows)
        writer.done_writing()
        reader.read()
        writer.close()
        info_of = client.get_flight_info(path)
        assert client.do_get(info_of.endpoints[0].ticket).read_all().num_rows == count
    actions = {action.type for action in client.list_actions()}
    assert {"CreatePreparedStatement", "CancelFlightInfo"} <= actions, actions
    nonsense = pyarrow.flight.Ticket(b"nonsense")
    fails(pyarrow.ArrowInvalid, "", lambda: client.do_get(nonsense).read_all())
    token = client.authenticate_basic_token(b"anna", b"secret")
    options = pyarrow.flight.FlightCallOptions(headers=[token])
    assert client.do_get(info.endpoints[0].ticket, options).read_all().num_rows == 3
    client.close()


with flightsql.connect(URL, autocommit=True) as connection:
    queries(connection)
    updates(connection)
    ingests(connection)
    metadata(connection)
    cancelling(connection)
plain_flight()
print("ok")
