"""What psycopg 3, psycopg2 and asyncpg do with `sty serve --pg`. See README.md."""

import asyncio
import datetime
import decimal
import io
import os
import re
import sys
import threading
import time
import traceback

import asyncpg
import psycopg
import psycopg2
import psycopg2.extras

PLACE = {"host": os.environ["STY_HOST"], "port": int(os.environ["STY_PG_PORT"]), "user": "anna"}
UTC = datetime.timezone.utc
KINDS = (
    "id BIGINT, n INTEGER, s SMALLINT, b BOOLEAN, r REAL, d DOUBLE PRECISION, p NUMERIC(12, 2), "
    "t TEXT, y BYTEA, day DATE, clock TIME, at TIMESTAMP, zoned TIMESTAMPTZ"
)
NAMES = ["id", "n", "s", "b", "r", "d", "p", "t", "y", "day", "clock", "at", "zoned"]
ROW = (
    7, -2, 3, True, 1.5, 0.1, decimal.Decimal("-1234567.05"), "it's\t\\ \"ü\"\n", b"\x00\xff'\\",
    datetime.date(1969, 12, 31), datetime.time(1, 2, 3, 500000),
    datetime.datetime(2024, 2, 29, 12, 34, 56, 789000),
    datetime.datetime(2024, 2, 29, 12, 34, 56, 1, UTC),
)  # fmt: skip
MORE = (8, *[None] * 5, decimal.Decimal("0.50"), *[None] * 6)
DEAR = (9, *[None] * 5, decimal.Decimal("9999999999.99"), "", b"", *[None] * 4)
ROWS = [ROW, MORE, DEAR]
ENDLESS = "SELECT count(*) FROM generate_series(1, 100000000) a, generate_series(1, 100000) b"
DAY = datetime.timedelta(days=1, hours=2, minutes=3, seconds=4.5)
# Statements, the values of their parameters in order, and the one value that is the answer.
QUESTIONS = [
    ("SELECT $1::BIGINT", (2**40,), 2**40),
    ("SELECT $1::INT + $2::INT", (5, -7), -2),
    ("SELECT $1::BOOLEAN", (True,), True),
    ("SELECT $1::TEXT", (ROW[7],), ROW[7]),
    ("SELECT $1::TEXT", (None,), None),
    ("SELECT $1::BYTEA", (bytes(range(256)),), bytes(range(256))),
    ("SELECT $1::DOUBLE PRECISION", (-1.5e300,), -1.5e300),
    ("SELECT $1::DOUBLE PRECISION", (float("inf"),), float("inf")),
    ("SELECT $1::NUMERIC(30, 10)", (decimal.Decimal("-0.0000000001"),), decimal.Decimal("-1E-10")),
    ("SELECT $1::NUMERIC(9, 3)", (decimal.Decimal("10000"),), decimal.Decimal("10000")),
    ("SELECT $1::DATE + 1", (ROW[9],), datetime.date(1970, 1, 1)),
    ("SELECT $1::TIME", (ROW[10],), ROW[10]),
    ("SELECT $1::TIMESTAMP + INTERVAL '1 day'", (ROW[11],), ROW[11] + datetime.timedelta(days=1)),
    ("SELECT $1::TIMESTAMPTZ", (ROW[12],), ROW[12]),
    ("SELECT $1::INTERVAL", (DAY,), DAY),
    ("SELECT $1::INTERVAL", (datetime.timedelta(days=-1, hours=1),), datetime.timedelta(hours=-23)),
    ("SELECT INTERVAL '1 day 02:03:04.5'", (), DAY),
    ("SELECT INTERVAL '-90 minutes'", (), datetime.timedelta(minutes=-90)),
    ("SELECT $1::TIMESTAMP - $2::TIMESTAMP", (ROW[11], ROW[11] - DAY), DAY),
    ("SELECT $1::TEXT[]", (["a", None, 'b"{},\\', ""],), ["a", None, 'b"{},\\', ""]),
    ("SELECT $1::INT[]", ([1, None, -2],), [1, None, -2]),
    ("SELECT $1::BIGINT[]", ([],), []),
    ("SELECT $1::DATE[]", ([ROW[9], None],), [ROW[9], None]),
    ("SELECT $1::NUMERIC(5, 2)[]", ([decimal.Decimal("1.50")],), [decimal.Decimal("1.50")]),
    ("SELECT $1::TIMESTAMP[]", ([ROW[11]],), [ROW[11]]),
    ("SELECT $1::BOOLEAN[]", ([True, None],), [True, None]),
    ("SELECT ($1::INT[])[2]", ([1, 5],), 5),
    ("SELECT count(*) FROM trips WHERE id = ANY($1)", ([1, 3, 1000],), 2),
    ("SELECT count(*) FROM trips WHERE city = ANY($1::TEXT[])", (["Oslo", "x"],), 1),
    ("SELECT count(*) FROM trips WHERE city LIKE $1", ("O%",), 1),
    ("SELECT count(*) FROM trips WHERE at >= $1 AND day > $2", (ROW[11], ROW[9]), 0),
    ("SELECT count(*) FROM trips WHERE at <= $1 AND day >= $2", (ROW[11], ROW[9]), 1),
    ("SELECT id FROM trips WHERE fare > $1 ORDER BY id LIMIT $2 OFFSET $3", (0.1, 1, 1), 3),
    ("SELECT coalesce($1, 'x')", (None,), "x"),
    ("SELECT CASE WHEN $1::INT = 1 THEN 'one' ELSE $2::TEXT END", (2, "two"), "two"),
    ("SELECT date_trunc('month', $1::TIMESTAMP)", (ROW[11],), datetime.datetime(2024, 2, 1)),
    ("SELECT extract(year FROM $1::DATE)::INT", (ROW[9],), 1969),
    ("SELECT to_char($1::TIMESTAMP, 'YYYY-MM-DD HH24:MI')", (ROW[11],), "2024-02-29 12:34"),
    ("SELECT string_agg(t, ',' ORDER BY t) FROM unnest($1::TEXT[]) AS u(t)", (["b", "a"],), "a,b"),
]  # fmt: skip


def same(found, expected):
    assert found == expected, f"expected {expected!r}, got {found!r}"


def fails(code, work):
    """Work must fail with an error of this code."""
    try:
        work()
    except (psycopg.Error, psycopg2.Error) as failed:
        found = getattr(failed, "sqlstate", None) or getattr(failed, "pgcode", None)
        assert found == code, f"expected {code}, got {found}: {failed}"
    else:
        raise AssertionError(f"{code}: did not fail")


def psycopg3():
    return psycopg.connect(**PLACE, dbname="db")


def fresh(cursor, name):
    cursor.execute(f"DROP TABLE IF EXISTS {name}")
    cursor.execute(f"CREATE TABLE {name} ({KINDS})")


def each(ask):
    """Asks all questions that have parameters, and then tells of all wrong answers."""
    wrong = []
    for sql, values, expected in QUESTIONS:
        try:
            found = ask(sql, values)
            assert found == expected, f"expected {expected!r}, got {found!r}"
        except Exception as failed:
            wrong.append(f"{sql} {values}: {failed}")
    assert not wrong, "\n".join(wrong)


def psycopg3_values():
    marks = ", ".join(["%s"] * len(ROW))
    with psycopg3() as connection:
        connection.autocommit = True
        with connection.cursor(binary=True) as cursor:
            fresh(cursor, "p3")
            cursor.execute(f"INSERT INTO p3 VALUES ({marks})", ROW)
            cursor.executemany(f"INSERT INTO p3 VALUES ({marks})", [MORE, DEAR])
            same(cursor.rowcount, 2)
        for binary in (False, True):
            with connection.cursor(binary=binary) as cursor:
                for _ in range(8):  # Prepared by name from the sixth time on.
                    cursor.execute("SELECT * FROM p3 WHERE id >= %s ORDER BY id", (7,))
                    same(cursor.fetchall(), ROWS)
                same([it.name for it in cursor.description], NAMES)
                price = cursor.description[6]
                same((price.precision, price.scale), (12, 2))
                same(len(cursor.execute("SELECT * FROM p3 WHERE y = %s", (ROW[8],)).fetchall()), 1)
                cursor.execute("SELECT count(*) FROM p3 WHERE id = ANY(%s)", ([7, 9, 1000],))
                same(cursor.fetchone(), (2,))


def psycopg3_questions():
    with psycopg3() as connection:
        connection.autocommit = True
        ask = psycopg.RawCursor(connection)
        each(lambda sql, values: ask.execute(sql, values).fetchone()[0])


def psycopg3_questions_with_literals():
    with psycopg3() as connection:
        connection.autocommit = True
        ask = psycopg.ClientCursor(connection)
        named = re.compile(r"\$(\d)")
        each(lambda sql, values: ask.execute(named.sub(r"%(p\1)s", sql), {
            f"p{at + 1}": value for at, value in enumerate(values)
        }).fetchone()[0])


def psycopg3_copy():
    with psycopg3() as connection, connection.cursor() as cursor:
        fresh(cursor, "p3")
        types = "int8 int4 int2 bool float4 float8 numeric text bytea date time timestamp "
        types += "timestamptz"
        for form in ("", " (FORMAT binary)"):
            cursor.execute("TRUNCATE p3")
            with cursor.copy(f"COPY p3 FROM STDIN{form}") as copy:
                if form:
                    copy.set_types(types.split())
                for row in ROWS:
                    copy.write_row(row)
            same(cursor.rowcount, 3)
            with cursor.copy(f"COPY (SELECT * FROM p3 ORDER BY id) TO STDOUT{form}") as copy:
                copy.set_types(types.split())
                same(list(copy.rows()), ROWS)
        connection.rollback()
        many = "SELECT g FROM generate_series(1, 200000) AS t(g)"
        with cursor.copy(f"COPY ({many}) TO STDOUT") as copy:
            same(sum(int(line) for data in copy for line in bytes(data).split()), 20000100000)


def psycopg3_pipelines_and_cursors():
    with psycopg3() as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            fresh(cursor, "p3")
        with connection.pipeline():
            found = [connection.execute("SELECT %s::INT * 2", (at,)) for at in range(100)]
            for at in range(20):
                connection.execute("INSERT INTO p3 (id, n) VALUES (%s, %s)", (at, at * at))
        same([it.fetchone()[0] for it in found], [at * 2 for at in range(100)])
        same(connection.execute("SELECT count(*), sum(n)::INT FROM p3").fetchone(), (20, 2470))
        with connection.transaction():
            with connection.cursor("named") as cursor:
                cursor.itersize = 777
                cursor.execute("SELECT g FROM generate_series(1, 10000) AS t(g) ORDER BY g")
                same(cursor.fetchone(), (1,))
                same(cursor.fetchmany(3), [(2,), (3,), (4,)])
                same(sum(row[0] for row in cursor), 10000 * 10001 // 2 - 10)
        with connection.cursor() as cursor:
            rows = cursor.stream("SELECT g FROM generate_series(1, 100000) AS t(g)")
            same(sum(row[0] for row in rows), 100000 * 100001 // 2)
        # A failure within a pipeline, and what comes after it.
        try:
            with connection.pipeline():
                connection.execute("SELECT 1 / 0")
                connection.execute("SELECT 1")
        except psycopg.errors.DivisionByZero:
            pass
        else:
            raise AssertionError("a pipeline did not fail")
        same(connection.execute("SELECT 2").fetchone(), (2,))


def psycopg3_failures():
    with psycopg3() as connection:
        connection.autocommit = True
        fails("42P01", lambda: connection.execute("SELECT * FROM nope"))
        fails("42703", lambda: connection.execute("SELECT nope FROM trips"))
        fails("42601", lambda: connection.execute("SELEC 1"))
        fails("22012", lambda: connection.execute("SELECT 1 / %s::INT", (0,)))
        fails("22P02", lambda: connection.execute("SELECT 'x'::INT"))
        with connection.transaction():
            connection.execute("SELECT 1")
        connection.autocommit = False
        fails("42P01", lambda: connection.execute("SELECT * FROM nope"))
        fails("25P02", lambda: connection.execute("SELECT 1"))
        connection.rollback()
        same(connection.execute("SELECT 1").fetchone(), (1,))
        connection.rollback()
        connection.read_only = True
        fails("25006", lambda: connection.execute("CREATE TABLE never (a INT)"))
        connection.rollback()
        connection.read_only = None
        threading.Timer(0.3, connection.cancel_safe).start()
        since = time.monotonic()
        fails("57014", lambda: connection.execute(ENDLESS))
        assert time.monotonic() - since < 10
        connection.rollback()
        connection.execute("DROP TABLE IF EXISTS p3")
        connection.execute("SET statement_timeout = 200")
        fails("57014", lambda: connection.execute(ENDLESS))
        connection.rollback()


def psycopg2_all():
    connection = psycopg2.connect(**PLACE, dbname="db")
    cursor = connection.cursor()
    fresh(cursor, "p2")
    marks = ", ".join(["%s"] * len(ROW))
    for row in ROWS:
        cursor.execute(f"INSERT INTO p2 VALUES ({marks})", row)
        same(cursor.rowcount, 1)
    connection.commit()
    cursor.execute("SELECT * FROM p2 ORDER BY id")
    found = [list(row) for row in cursor]
    bytes_of = [row.pop(8) for row in found]
    same(found, [[*row[:8], *row[9:]] for row in ROWS])
    rows = [(at, f"n{at}") for at in range(100, 1100)]
    psycopg2.extras.execute_values(cursor, "INSERT INTO p2 (id, t) VALUES %s", rows)
    psycopg2.extras.execute_batch(cursor, "INSERT INTO p2 (id, t) VALUES (%s, %s)", rows[:50])
    cursor.execute("SELECT count(*), count(DISTINCT t) FROM p2 WHERE id >= 100")
    same(cursor.fetchone(), (1050, 1000))
    cursor.execute("SELECT id FROM p2 WHERE id IN %s ORDER BY id", ((7, 9, 100),))
    same(cursor.fetchall(), [(7,), (9,), (100,), (100,)])
    cursor.execute("SELECT %s, %s", ([1, 2], "it's"))
    same(cursor.fetchone(), ([1, 2], "it's"))
    cursor.copy_expert("COPY p2 (id, t) FROM STDIN WITH CSV", io.StringIO('5000,"a,b"\n5001,\n'))
    same(cursor.rowcount, 2)
    out = io.StringIO()
    cursor.copy_expert("COPY (SELECT id, t FROM p2 WHERE id >= 5000 ORDER BY id) TO STDOUT", out)
    same(out.getvalue(), "5000\ta,b\n5001\t\\N\n")
    cursor.copy_from(io.StringIO("6000\tx\n"), "p2", columns=("id", "t"))
    with connection.cursor("named") as named:
        named.itersize = 100
        named.execute("SELECT id FROM p2 WHERE t LIKE 'n%' ORDER BY id")
        same(sum(row[0] for row in named), sum(it[0] for it in rows + rows[:50]))
    with connection.cursor(cursor_factory=psycopg2.extras.RealDictCursor) as named:
        named.execute("SELECT id, city FROM trips WHERE id = 1")
        same(named.fetchone(), {"id": 1, "city": "Oslo"})
    fails("42P01", lambda: cursor.execute("SELECT * FROM nope"))
    fails("25P02", lambda: cursor.execute("SELECT 1"))
    connection.rollback()
    cursor.execute("SELECT 1")
    connection.rollback()
    connection.set_session(readonly=True, autocommit=True)
    fails("25006", lambda: cursor.execute("INSERT INTO p2 (id) VALUES (1)"))
    connection.set_session(readonly=False, autocommit=True)
    cursor.execute("DROP TABLE p2")
    connection.close()
    same([it and bytes(it) for it in bytes_of], [ROW[8], None, b""])


async def asyncpg_values():
    connection = await asyncpg.connect(**PLACE, database="db")
    await connection.execute("DROP TABLE IF EXISTS ap")
    await connection.execute(f"CREATE TABLE ap ({KINDS})")
    marks = ", ".join(f"${at + 1}" for at in range(len(ROW)))
    same(await connection.execute(f"INSERT INTO ap VALUES ({marks})", *ROW), "INSERT 0 1")
    await connection.executemany(f"INSERT INTO ap VALUES ({marks})", [MORE, DEAR])
    for _ in range(3):
        found = await connection.fetch("SELECT * FROM ap WHERE id >= $1 ORDER BY id", 7)
        same([tuple(row) for row in found], ROWS)
    found = await connection.fetchval("SELECT t FROM ap WHERE at = $1 AND y = $2", ROW[11], ROW[8])
    same(found, ROW[7])
    statement = await connection.prepare("SELECT id, p, day FROM ap WHERE t = $1 AND id < $2")
    same([it.name for it in statement.get_parameters()], ["text", "int8"])
    same([(it.name, it.type.name) for it in statement.get_attributes()],
         [("id", "int8"), ("p", "numeric"), ("day", "date")])
    same(tuple(await statement.fetchrow(ROW[7], 100)), (ROW[0], ROW[6], ROW[9]))
    await connection.close()


async def asyncpg_questions():
    connection = await asyncpg.connect(**PLACE, database="db")
    wrong = []
    for sql, values, expected in QUESTIONS:
        try:
            found = await connection.fetchval(sql, *values)
            assert found == expected, f"expected {expected!r}, got {found!r}"
        except Exception as failed:
            wrong.append(f"{sql} {values}: {failed}")
    await connection.close()
    assert not wrong, "\n".join(wrong)


async def asyncpg_copy():
    connection = await asyncpg.connect(**PLACE, database="db")
    await connection.execute("DROP TABLE IF EXISTS ap")
    await connection.execute(f"CREATE TABLE ap ({KINDS})")
    same(await connection.copy_records_to_table("ap", records=ROWS), "COPY 3")
    found = await connection.fetch("SELECT * FROM ap ORDER BY id")
    same([tuple(row) for row in found], ROWS)
    out = io.BytesIO()
    query = "SELECT id, t FROM ap WHERE id > $1 ORDER BY id"
    same(await connection.copy_from_query(query, 7, output=out, format="csv"), "COPY 2")
    same(out.getvalue(), b'8,\n9,""\n')
    await connection.close()


async def asyncpg_blocks():
    connection = await asyncpg.connect(**PLACE, database="db")
    await connection.execute("DROP TABLE IF EXISTS ap")
    await connection.execute(f"CREATE TABLE ap ({KINDS})")
    await connection.execute("INSERT INTO ap (id) VALUES (7), (8), (9)")
    out = io.BytesIO(b"70\tx\n71\t\\N\n")
    same(await connection.copy_to_table("ap", source=out, columns=["id", "t"]), "COPY 2")
    async with connection.transaction():
        series = "SELECT g FROM generate_series(1, 1000) AS t(g) ORDER BY g"
        cursor = await connection.cursor(series)
        same([row[0] for row in await cursor.fetch(3)], [1, 2, 3])
        same(await cursor.forward(10), 10)
        same((await cursor.fetchrow())[0], 14)
        total = 0
        async for row in connection.cursor("SELECT id FROM ap", prefetch=2):
            total += row["id"]
        same(total, 7 + 8 + 9 + 70 + 71)
    try:
        async with connection.transaction(readonly=True):
            await connection.execute("INSERT INTO ap (id) VALUES (1)")
    except asyncpg.ReadOnlySQLTransactionError:
        pass
    else:
        raise AssertionError("a block that is read-only wrote")
    try:
        await connection.fetch(ENDLESS, timeout=0.3)
    except asyncio.TimeoutError:
        pass
    else:
        raise AssertionError("a time-out did not end the statement")
    same(await connection.fetchval("SELECT 5"), 5)
    for code, sql in [("42P01", "SELECT * FROM nope"), ("42703", "SELECT nope FROM ap")]:
        try:
            await connection.fetch(sql)
        except asyncpg.PostgresError as failed:
            same(failed.sqlstate, code)
        else:
            raise AssertionError(f"{sql}: did not fail")
    await connection.close()
    async with asyncpg.create_pool(**PLACE, database="db", min_size=2, max_size=4) as pool:
        found = await asyncio.gather(*[pool.fetchval("SELECT $1::INT", at) for at in range(40)])
        same(found, list(range(40)))
        same(await pool.execute("DROP TABLE ap"), "DROP TABLE")


CHECKS = [
    psycopg3_values, psycopg3_questions, psycopg3_questions_with_literals,
    psycopg3_copy, psycopg3_pipelines_and_cursors, psycopg3_failures, psycopg2_all,
    asyncpg_values, asyncpg_questions, asyncpg_copy, asyncpg_blocks,
]  # fmt: skip
failed = []
for check in CHECKS:
    try:
        asyncio.run(check()) if asyncio.iscoroutinefunction(check) else check()
    except Exception:
        traceback.print_exc(limit=-1)
        failed.append(check.__name__)
print("failed: " + ", ".join(failed) if failed else "ok")
sys.exit(bool(failed))
