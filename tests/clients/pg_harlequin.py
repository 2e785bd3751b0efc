"""What harlequin does with `sty serve --pg`, by its adapter for PostgreSQL. See README.md."""

import os
import sys
import traceback

from harlequin_postgres import HarlequinPostgresAdapter
from harlequin.exception import HarlequinQueryError

PLACE = {"host": os.environ["STY_HOST"], "port": os.environ["STY_PG_PORT"], "user": "anna"}


def same(found, expected):
    assert found == expected, f"expected {expected!r}, got {found!r}"


def connected(**more):
    return HarlequinPostgresAdapter(conn_str=(), **PLACE, dbname="db", **more).connect()


def rows(connection, sql, limit=None):
    cursor = connection.execute(sql)
    if limit is not None:
        cursor.set_limit(limit)
    return [tuple(row) for row in cursor.fetchall()]


def statements():
    connection = connected()
    cursor = connection.execute("SELECT * FROM trips ORDER BY id")
    kinds = [("id", "##"), ("city", "s"), ("fare", "#.#"), ("day", "d"), ("at", "ts")]
    same(cursor.columns(), kinds)
    same([tuple(row)[:3] for row in cursor.fetchall()],
         [(1, "Oslo", 12.5), (2, 'it\'s "Bergen"', None), (3, None, 0.25)])
    many = "SELECT g FROM generate_series(1, 1000) AS t(g) ORDER BY g"
    same(rows(connection, many, 3), [(1,), (2,), (3,)])
    same(connection.execute("DROP TABLE IF EXISTS harlequin_table"), None)
    same(connection.execute("CREATE TABLE harlequin_table (a INT, b NUMERIC(5, 2))"), None)
    connection.execute("INSERT INTO harlequin_table VALUES (1, 1.50), (2, NULL)")
    same(rows(connection, "SELECT count(*), sum(a)::INT FROM harlequin_table"), [(2, 3)])
    for sql, words in [("SELECT * FROM nope", "nope"), ("SELEC 1", "SELEC")]:
        try:
            connection.execute(sql)
        except HarlequinQueryError as failed:
            assert words in failed.msg, failed.msg
        else:
            raise AssertionError(f"{sql}: did not fail")
    connection.toggle_transaction_mode()
    same(connection.transaction_mode.label, "Manual")
    same(rows(connection, "SELECT 5::INT"), [(5,)])
    connection.transaction_mode.commit()
    connection.close()


def walked(items):
    """What the tree of the catalog has, with all that unfolds."""
    for item in items:
        has_more = not item.children and hasattr(item, "fetch_children")
        children = item.fetch_children() if has_more else item.children
        yield item.qualified_identifier, item.type_label, [child.label for child in children]
        yield from walked(children)


def catalog():
    connection = connected()
    tree = connection.get_catalog()
    found = {name: (kind, children) for name, kind, children in walked(tree.items)}
    assert '"db"."public"' in found or '"public"' in found, sorted(found)
    (trips,) = [it for name, it in found.items() if name.endswith('"public"."trips"')]
    same(trips, ("t", ["id", "city", "fare", "day", "at"]))
    (column,) = [it for name, it in found.items() if name.endswith('"trips"."id"')]
    same(column[0], "##")
    connection.close()


def completions():
    connection = connected()
    assert len(connection.get_completions()) > 100
    connection.close()


def searches():
    connection = connected()
    for kind in ("relations", "columns", "all"):
        found = connection.search_catalog("rip" if kind != "columns" else "fare", kind=kind)
        assert "trips" in str(found), (kind, found)
    connection.close()


def read_only():
    connection = connected(read_only=True)
    try:
        connection.execute("CREATE TABLE harlequin_never (a INT)")
    except HarlequinQueryError:
        pass
    else:
        raise AssertionError("a connection that is read-only wrote")
    connection.close()


failed = []
for check in (statements, catalog, completions, searches, read_only):
    try:
        check()
    except Exception as wrong:
        traceback.print_exc(limit=-2)
        print(getattr(wrong, "msg", ""), file=sys.stderr)
        failed.append(check.__name__)
connected().execute("DROP TABLE harlequin_table")
print("failed: " + ", ".join(failed) if failed else "ok")
sys.exit(bool(failed))
