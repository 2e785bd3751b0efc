"""What SQLAlchemy, with psycopg and psycopg2, does with `sty serve --pg`. See README.md."""

import datetime
import decimal
import os
import sys
import traceback

import pandas
import sqlalchemy as sa

PLACE = f"{os.environ['STY_HOST']}:{os.environ['STY_PG_PORT']}/db"
AT = datetime.datetime(2024, 2, 29, 12, 34, 56, 789000)


def same(found, expected):
    assert found == expected, f"expected {expected!r}, got {found!r}"


def made(driver):
    """An engine, and a table of its own with three rows and a view."""
    engine = sa.create_engine(f"postgresql+{driver}://anna@{PLACE}")
    table = sa.Table(
        "alchemy", sa.MetaData(),
        sa.Column("id", sa.BigInteger, nullable=False),
        sa.Column("n", sa.Integer),
        sa.Column("s", sa.SmallInteger),
        sa.Column("b", sa.Boolean),
        sa.Column("r", sa.REAL),
        sa.Column("d", sa.Double),
        sa.Column("p", sa.Numeric(12, 2)),
        sa.Column("t", sa.Text),
        sa.Column("y", sa.LargeBinary),
        sa.Column("day", sa.Date),
        sa.Column("clock", sa.Time),
        sa.Column("at", sa.DateTime),
        sa.Column("zoned", sa.DateTime(timezone=True)),
    )  # fmt: skip
    with engine.begin() as connection:
        connection.execute(sa.text("DROP VIEW IF EXISTS alchemy_view"))
        table.drop(connection, checkfirst=True)
        table.create(connection)
        same(sa.inspect(connection).has_table("alchemy"), True)
        connection.execute(table.insert(), [
            {"id": 1, "n": -2, "b": True, "p": decimal.Decimal("12.50"), "t": "it's", "y": b"\x00'",
             "day": AT.date(), "clock": AT.time(), "at": AT, "d": 0.1},
            {"id": 2, "n": None, "b": False, "p": decimal.Decimal("-0.05"), "t": "%:x", "y": None,
             "day": None, "clock": None, "at": None, "d": None},
            {"id": 3, "n": 7, "b": None, "p": None, "t": None, "y": b"", "day": None, "clock": None,
             "at": None, "d": -1e300},
        ])
        view = "CREATE VIEW alchemy_view AS SELECT id, p FROM alchemy WHERE id < 3"
        connection.execute(sa.text(view))
    return engine, table


def inspects(engine, table):
    about = sa.inspect(engine)
    same(about.default_schema_name, "public")
    assert {"public"} <= set(about.get_schema_names()), about.get_schema_names()
    assert {"alchemy", "trips"} <= set(about.get_table_names()), about.get_table_names()
    assert "alchemy_view" not in about.get_table_names(), about.get_table_names()
    assert "alchemy" in about.get_table_names(schema="public")
    same([name for name in about.get_view_names() if name.startswith("alch")], ["alchemy_view"])
    same(about.has_table("alchemy_view"), True)
    same(about.has_table("nope"), False)
    same([it["name"] for it in about.get_columns("alchemy_view")], ["id", "p"])
    same(about.get_pk_constraint("alchemy")["constrained_columns"], [])
    same(about.get_foreign_keys("alchemy"), [])
    same(about.get_indexes("alchemy"), [])
    same(about.get_unique_constraints("alchemy"), [])
    same(about.get_check_constraints("alchemy"), [])
    same(about.get_table_comment("alchemy"), {"text": None})
    same(about.get_sequence_names(), [])
    same(about.get_temp_table_names(), [])
    same(about.get_materialized_view_names(), [])
    try:
        about.get_columns("nope")
    except sa.exc.NoSuchTableError:
        pass
    else:
        raise AssertionError("a table that is not there has columns")
    found = sa.Table("alchemy", sa.MetaData(), autoload_with=engine)
    same([it.name for it in found.columns], [it.name for it in table.columns])
    everything = sa.MetaData()
    everything.reflect(engine, views=True)
    assert {"alchemy", "alchemy_view", "trips"} <= set(everything.tables), everything.tables


def columns(engine, table):
    columns = sa.inspect(engine).get_columns("alchemy")
    same([(it["name"], str(it["type"]), it["nullable"]) for it in columns], [
        ("id", "BIGINT", False), ("n", "INTEGER", True), ("s", "SMALLINT", True),
        ("b", "BOOLEAN", True), ("r", "REAL", True), ("d", "DOUBLE PRECISION", True),
        ("p", "NUMERIC(12, 2)", True), ("t", "TEXT", True), ("y", "BYTEA", True),
        ("day", "DATE", True), ("clock", "TIME", True), ("at", "TIMESTAMP", True),
        ("zoned", "TIMESTAMP", True),
    ])  # fmt: skip
    same([it["type"].timezone for it in columns[-2:]], [False, True])
    same([it["default"] for it in columns], [None] * 13)


def view_definitions(engine, table):
    text = sa.inspect(engine).get_view_definition("alchemy_view")
    assert text and "select" in text.lower() and "alchemy" in text, text


def core(engine, table):
    with engine.begin() as connection:
        row = connection.execute(sa.select(table).where(table.c.id == 1)).one()
        same(tuple(row)[:8], (1, -2, None, True, None, 0.1, decimal.Decimal("12.50"), "it's"))
        same((row.day, row.clock, row.at), (AT.date(), AT.time(), AT))
        found = connection.execute(sa.select(table.c.id).where(table.c.t == "%:x")).scalars().all()
        same(found, [2])
        total = sa.select(sa.func.count(), sa.func.sum(table.c.p)).select_from(table)
        same(tuple(connection.execute(total).one()), (3, decimal.Decimal("12.45")))
        listed = sa.select(table.c.id).where(table.c.id.in_([1, 3, 9])).order_by(table.c.id.desc())
        same(connection.execute(listed).scalars().all(), [3, 1])
        second = sa.select(table.c.id).order_by(table.c.id).limit(1).offset(1)
        same(connection.execute(second).scalar_one(), 2)
        other = table.alias()
        pairs = sa.select(table.c.id, other.c.id).join(other, table.c.id < other.c.id)
        same(sorted(map(tuple, connection.execute(pairs))), [(1, 2), (1, 3), (2, 3)])
        part = sa.func.row_number().over(order_by=table.c.id.desc())
        same(connection.execute(sa.select(part).order_by(table.c.id)).scalars().all(), [3, 2, 1])
        year = sa.extract("year", table.c.day)
        same(int(connection.execute(sa.select(year).where(table.c.id == 1)).scalar_one()), 2024)
        known = sa.select(table.c.id).where(table.c.at.is_not(None), table.c.at <= AT)
        same(connection.execute(known).scalars().all(), [1])
        similar = sa.select(table.c.id).where(table.c.t.icontains("IT'", autoescape=True))
        same(connection.execute(similar).scalars().all(), [1])
        kind = sa.case((table.c.n < 0, "less"), else_=sa.cast(table.c.n, sa.Text))
        ordered = sa.select(kind).order_by(table.c.id)
        same(connection.execute(ordered).scalars().all(), ["less", None, "7"])
        done = connection.execute(table.update().where(table.c.id == 3).values(n=table.c.n + 1))
        same(done.rowcount, 1)
        done = connection.execute(table.delete().where(table.c.n == 8))
        same(done.rowcount, 1)
        made = [{"id": at, "t": f"n{at}"} for at in range(100, 2600)]
        connection.execute(table.insert(), made)
        same(connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one(), 2502)
        out = connection.execution_options(stream_results=True, yield_per=100)
        found = out.execute(sa.select(table.c.id).where(table.c.id >= 100)).scalars()
        same(sum(found), sum(range(100, 2600)))


def binary(engine, table):
    with engine.connect() as connection:
        found = connection.execute(sa.select(table.c.y).where(table.c.id == 1)).scalar_one()
        same(bytes(found), b"\x00'")


def transactions(engine, table):
    with engine.connect() as connection:
        with connection.begin():
            with connection.begin_nested():
                connection.execute(table.insert(), {"id": 90, "t": "nested"})
        block = connection.begin()
        try:
            connection.execute(sa.text("SELECT * FROM nope"))
        except sa.exc.ProgrammingError as failed:
            same(getattr(failed.orig, "sqlstate", None) or failed.orig.pgcode, "42P01")
        else:
            raise AssertionError("a table that is not there is read")
        block.rollback()
        ask = sa.select(table.c.t).where(table.c.id == 90)
        same(connection.execute(ask).scalar_one(), "nested")
        same(connection.get_isolation_level(), "READ COMMITTED")
    for level in ("AUTOCOMMIT", "SERIALIZABLE", "REPEATABLE READ"):
        with engine.connect().execution_options(isolation_level=level) as connection:
            same(connection.execute(sa.text("SELECT 1")).scalar_one(), 1)
    reads = {"postgresql_readonly": True}
    with engine.connect().execution_options(**reads) as connection:
        try:
            connection.execute(table.insert(), {"id": 91})
        except sa.exc.DBAPIError as failed:
            same(getattr(failed.orig, "sqlstate", None) or failed.orig.pgcode, "25006")
        else:
            raise AssertionError("a block that is read-only wrote")
    with engine.connect() as connection:
        same(connection.execute(ask).scalar_one(), "nested")


def orm(engine, table):
    from sqlalchemy.orm import Session, registry

    class Thing:
        pass

    mapped = registry()
    mapped.map_imperatively(Thing, table, primary_key=[table.c.id])
    with Session(engine) as session:
        thing = Thing()
        thing.id, thing.t, thing.at = 5000, "new", AT
        session.add(thing)
        session.commit()
        thing.t = "changed"
        session.commit()
        found = session.scalars(sa.select(Thing).where(Thing.id == 5000)).one()
        same((found.t, found.at), ("changed", AT))
        session.delete(found)
        session.commit()
        same(session.get(Thing, 5000), None)


def frames(engine, table):
    trips = pandas.read_sql("SELECT * FROM trips ORDER BY id", engine)
    same(list(trips.columns), ["id", "city", "fare", "day", "at"])
    same((str(trips["id"].dtype), trips["fare"].sum()), ("int64", 12.75))
    same(trips["at"][0], pandas.Timestamp("2024-01-02 03:04:05.678"))
    given = sa.text("SELECT city FROM trips WHERE id = :id")
    same(pandas.read_sql(given, engine, params={"id": 1})["city"].tolist(), ["Oslo"])
    same(len(pandas.read_sql_table("trips", engine)), 3)
    parts = pandas.read_sql("SELECT g FROM generate_series(1, 1000) AS t(g)", engine, chunksize=300)
    same([len(part) for part in parts], [300, 300, 300, 100])
    frame = pandas.DataFrame({
        "id": [1, 2, 3], "name": ["x", None, "it's"], "value": [1.5, None, -2.0],
        "at": [datetime.datetime(2024, 1, 1), None, AT],
        "ok": [True, False, True],
    })  # fmt: skip
    for method in (None, "multi"):
        frame.to_sql("frames", engine, if_exists="replace", index=False, method=method)
        frame.to_sql("frames", engine, if_exists="append", index=False, method=method)
        found = pandas.read_sql("SELECT * FROM frames ORDER BY id", engine)
        same((len(found), found["value"].sum(), found["name"].isna().sum()), (6, -1.0, 2))
        same(found["at"].max(), pandas.Timestamp("2024-02-29 12:34:56.789"))
        same(found["ok"].tolist(), [True, True, False, False, True, True])
    with engine.begin() as connection:
        connection.execute(sa.text("DROP TABLE frames"))


failed = []
for driver in ("psycopg", "psycopg2"):
    engine, table = made(driver)
    for check in (inspects, columns, view_definitions, core, binary, transactions, orm, frames):
        try:
            check(engine, table)
        except Exception:
            traceback.print_exc(limit=-2)
            failed.append(f"{check.__name__} with {driver}")
    with engine.begin() as connection:
        connection.execute(sa.text("DROP VIEW alchemy_view"))
        table.drop(connection)
    engine.dispose()
print("failed: " + ", ".join(failed) if failed else "ok")
sys.exit(bool(failed))
