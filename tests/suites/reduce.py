"""Reduces a wrong answer: fewer parts of the statement and fewer rows that still differ."""

import tempfile
import time
from pathlib import Path

import duckdb
import pyarrow
import pyarrow.parquet as parquet

from compare import difference
from oracle import Oracle, TooMuch
from statements import SEMI, for_oracle, for_sty
from worlds import SQL

try:
    import sqlglot
    from dialect import Plain
    from sqlglot import exp
except ImportError:
    sqlglot = None

# Tables with more rows are not reduced.
MOST_ROWS = 6_000
SECONDS = 90


class Case:
    """Tables of rows, and whether the answers to a statement over them differ."""

    def __init__(self, sty, work, native, error=None):
        self.sty, self.work, self.native = sty, work, native
        self.until = time.time() + SECONDS
        self.kept, self.error = None, error

    def differ(self, sql, tables, ordered):
        """The difference over these tables, or None.

        They are stored again unless they are those of the last call.
        """
        if time.time() > self.until:
            return None
        key = {name: id(rows) for name, rows in tables.items()}
        if self.kept is None or self.kept[0] != key:
            self.kept = (key, self.stored(tables), tables)
        folder, oracle = self.kept[1]
        try:
            right = oracle.ask(for_oracle(sql))
        except (TooMuch, duckdb.Error):
            return None
        answer = self.sty.answers(f"{folder.name}/db", [for_sty(sql)], self.native)[0]
        if self.error or answer.error:
            return answer.error if self.error and answer.error and self.error in answer.error else None
        return difference(answer.rows, right, ordered)

    def stored(self, tables):
        folder, oracle = tempfile.TemporaryDirectory(dir=self.work), Oracle(seconds=2)
        for name, rows in tables.items():
            if len(rows):
                file = Path(folder.name) / f"{name}.parquet"
                parquet.write_table(rows, file)
                self.sty.must("ingest", f"{folder.name}/db/{name}", file, "-q")
            else:
                self.sty.must("query", f"{folder.name}/db", *definition(name, rows))
            oracle.connection.register("arriving", rows)
            oracle.run(f"CREATE TABLE {name} AS SELECT * FROM arriving")
            oracle.connection.unregister("arriving")
        return folder, oracle


def reproduction(sty, work, world, sql, ordered, native, error=None):
    """A text of statements that show the difference in an empty store, reduced as far as possible.

    `error` is a match in an error that is to be shown instead.
    """
    error = error and error.group()
    case = Case(sty, work, native, error)
    tables = {name: rows for name, rows in world.arrow.items() if f" {name} " in sql + " "}
    if not case.differ(sql, tables, ordered):
        how = "; ".join(f"{name}: {world.how[name]}" for name in tables)
        return f"  not seen over tables of one segment each; stored were {how}"
    if sqlglot:
        sql = smaller_statement(case, sql, tables, ordered)
    tables = smaller_tables(case, sql, tables, ordered)
    if sqlglot:
        sql = smaller_statement(case, sql, tables, ordered)
    case.until = time.time() + 5
    bad = case.differ(sql, tables, ordered)
    made = "\n".join("  " + line for name, rows in tables.items() for line in definition(name, rows))
    other = Case(sty, work, not native, error).differ(sql, tables, ordered)
    also = "wrong" if other else "right"
    return f"  reproduction ({str(bad)[:300]}; native {'off' if native else 'on'} is {also}):\n{made}\n  {for_sty(sql)};"


def definition(name, rows):
    """CREATE TABLE and INSERT; for a large table only its size."""
    if len(rows) > 50:
        return [f"-- {name}: {len(rows)} rows {rows.schema.to_string().replace(chr(10), ', ')}"]
    columns = ", ".join(f"{field.name} {SQL[str(field.type)]}" for field in rows.schema)
    values = ", ".join("(" + ", ".join(map(literal, row.values())) + ")" for row in rows.to_pylist())
    return [f"CREATE TABLE {name} ({columns});" + (f" INSERT INTO {name} VALUES {values};" if values else "")]


def literal(value):
    if value is None:
        return "NULL"
    if isinstance(value, (bool, int)):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value!r}" if value == value else "'NaN'::double"
    return f"'{value}'"


# ---- rows


def smaller_tables(case, sql, tables, ordered):
    for name in tables:
        if len(tables[name]) <= MOST_ROWS:
            tables = smaller_table(case, sql, tables, ordered, name)
    for name in tables:
        for column in tables[name].schema.names:
            if tables[name].num_columns > 1:
                less = tables | {name: tables[name].drop_columns([column])}
                tables = less if case.differ(sql, less, ordered) else tables
    return tables


def smaller_table(case, sql, tables, ordered, name):
    """Removes runs of rows: first half of the table, then shorter ones."""
    step = max(1, len(tables[name]) // 2)
    while True:
        at = 0
        while at < len(tables[name]):
            rows = tables[name]
            less = tables | {name: pyarrow.concat_tables([rows.slice(0, at), rows.slice(at + step)])}
            if case.differ(sql, less, ordered):
                tables = less
            else:
                at += step
        if step == 1:
            return tables
        step //= 2


# ---- statements


def smaller_statement(case, sql, tables, ordered):
    """Removes parts of the statement, one after the other, while the answers differ."""
    tree = sqlglot.parse_one(for_oracle(sql), dialect=Plain)
    text = signed(tree)
    if not case.differ(text, tables, ordered):
        return sql
    again = True
    while again:
        again = False
        for less in smaller_trees(tree):
            shorter = signed(less)
            if len(shorter) < len(text) and case.differ(shorter, tables, ordered and has_order(less)):
                tree, text, again = less, shorter, True
                break
    return text


def has_order(tree):
    return tree.args.get("order") is not None


def signed(tree):
    """SQL for both engines, with semi joins as the placeholders of `statements`."""
    text = tree.sql(dialect=Plain)
    for sign, (name, _) in SEMI.items():
        text = text.replace(f" LEFT {name} ", f" {sign} ").replace(f" {name} ", f" {sign} ")
    return text


def smaller_trees(tree):
    """All trees with one part less, largest parts first."""
    for number, node in enumerate(tree.walk()):
        for change in changes(node):
            copy = tree.copy()
            twin = next(found for at, found in enumerate(copy.walk()) if at == number)
            if change(twin) is not False:
                yield copy if twin is not copy or twin.parent is None and not hasattr(twin, "replaced") else twin.replaced


def changes(node):
    """The ways to reduce this part."""
    if isinstance(node, exp.SetOperation):
        yield lambda twin: swap(twin, twin.this)
        yield lambda twin: swap(twin, twin.expression)
    if isinstance(node, exp.Select):
        for part in ("where", "having", "order", "limit", "offset", "distinct", "group", "with_", "with"):
            if node.args.get(part):
                yield lambda twin, part=part: twin.set(part, None)
        for at in range(len(node.args.get("joins") or [])):
            yield lambda twin, at=at: twin.args["joins"].pop(at)
        if len(node.expressions) > 1:
            for at in range(len(node.expressions)):
                yield lambda twin, at=at: twin.expressions.pop(at)
    if isinstance(node, (exp.Group, exp.Order)) and len(node.expressions) > 1:
        for at in range(len(node.expressions)):
            yield lambda twin, at=at: twin.expressions.pop(at)
    if isinstance(node, exp.Join) and (node.side or node.args.get("method")):
        yield lambda twin: twin.set("side", None)
    if isinstance(node, (exp.And, exp.Or, exp.Binary)):
        yield lambda twin: swap(twin, twin.this)
        yield lambda twin: swap(twin, twin.expression)
    if isinstance(node, (exp.Not, exp.Paren, exp.Neg, exp.Abs, exp.Coalesce, exp.Nullif, exp.Upper, exp.Lower, exp.Filter)):
        yield lambda twin: swap(twin, twin.this)
    if isinstance(node, exp.Case):
        for branch in node.args["ifs"]:
            yield lambda twin: swap(twin, twin.args["ifs"][0].args["true"])
        if node.args.get("default"):
            yield lambda twin: swap(twin, twin.args["default"])
    if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Select) and node.alias and node.this.args.get("from_"):
        yield inline


def swap(twin, other):
    """Replaces a node by a part of it."""
    if twin.parent is None:
        order = twin.args.get("order")
        if order and isinstance(other, exp.Select) and not other.args.get("order"):
            other.set("order", order.copy())
        twin.replaced = other.copy()
        return None
    return twin.replace(other.copy())


def inline(twin):
    """A derived table becomes the first table within it."""
    source = twin.this.args["from_"].this
    if not isinstance(source, exp.Table):
        return False
    other = source.copy()
    other.set("alias", exp.TableAlias(this=exp.to_identifier(twin.alias)))
    twin.replace(other)
    return True
