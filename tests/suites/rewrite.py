"""Statements rewritten with sqlglot: with ranks for ordered rows, and without column prefixes."""

import sqlglot
from sqlglot import exp
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import traverse_scope

from dialect import Plain

RANK = "~rank"


def ranked(text, names):
    """The statement without its limit, with the rank of each row as the last column; several
    versions.

    `names` are those of the answer's columns.
    """
    tree = sqlglot.parse_one(text, dialect=Plain)
    order = tree.args.get("order")
    for part in ("order", "limit", "offset"):
        tree.set(part, None)
    if order is None:
        yield f'SELECT *, 0 AS "{RANK}" FROM ({tree.sql(dialect=Plain)}) q'
        return
    for appended in (False, True):
        body, keys = tree.copy(), []
        for at, ordered in enumerate(order.copy().expressions):
            key = ordered.this
            if isinstance(key, exp.Literal) and not key.is_string:
                ordered.set("this", exp.column(names[int(key.this) - 1], quoted=True))
            elif appended and isinstance(body, exp.Select) and key.sql() not in names:
                body.select(exp.alias_(key.copy(), f"~key{at}", quoted=True), copy=False)
                ordered.set("this", exp.column(f"~key{at}", quoted=True))
            keys.append(ordered.sql(dialect=Plain))
        yield (f'SELECT *, dense_rank() OVER (ORDER BY {", ".join(keys)}) AS "{RANK}" '
               f'FROM ({body.sql(dialect=Plain)}) q ORDER BY "{RANK}"')


def bare(column):
    """A column's name without the prefix of its table: `l_orderkey` becomes `orderkey`."""
    return column.split("_", 1)[1]


def without_prefixes(text, columns):
    """The statement over tables whose columns have no prefixes; the answer's columns keep their
    names.

    Unqualified names would be ambiguous, so every column first gets the alias of its table.
    `columns`: table → column → type.
    """
    tree = qualify(sqlglot.parse_one(text, dialect=Plain), schema=columns, dialect=Plain, quote_identifiers=False,
                   validate_qualify_columns=False)
    renames = []
    for scope in traverse_scope(tree):
        for column in scope.columns:
            source = source_of(scope, column.table)
            if isinstance(source, exp.Table) and source.name in columns and column.name in columns[source.name]:
                renames.append(column)
    for column in {id(column): column for column in renames}.values():
        column.set("this", exp.to_identifier(bare(column.name), quoted=True))
    return tree.sql(dialect=Plain)


def source_of(scope, alias):
    """What an alias means, here or in an outer query."""
    while scope is not None:
        if alias in scope.sources:
            return scope.sources[alias]
        scope = scope.parent
    return None
