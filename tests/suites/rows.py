"""Random rows for the maintenance suite, as Arrow tables and as files of every input format."""

import csv
import datetime
import json
import math
from decimal import Decimal

import pyarrow
import pyarrow.parquet as parquet

from expressions import TEXTS

ARROW = {"int": pyarrow.int64(), "float": pyarrow.float64(), "text": pyarrow.string(), "date": pyarrow.date32(),
         "timestamp": pyarrow.timestamp("us"), "bool": pyarrow.bool_(), "decimal": pyarrow.decimal128(9, 2)}
# CSV and JSON cannot tell decimals from floats, so decimals come by Parquet, Arrow and SQL only.
TEXT_KINDS = ("int", "float", "text", "date", "timestamp", "bool")


def random_value(rng, kind, few):
    number = rng.randrange(few)
    if kind == "int":
        return number - 3
    if kind == "float":
        return (number - 3) / 4
    if kind == "text":
        return TEXTS[number].strip("'") if number < len(TEXTS) else f"word {number}"
    if kind == "date":
        return datetime.date(2020, 1, 1) + datetime.timedelta(days=number % 800)
    if kind == "timestamp":
        return datetime.datetime(2020, 1, 1, 13) + datetime.timedelta(minutes=number * 7)
    if kind == "decimal":
        return Decimal((number - 4) * 25).scaleb(-2)
    return number % 2 == 0


def random_rows(rng, kinds, count, nulls=0.15):
    """An Arrow table; its first row has no nulls, so that types can be inferred from text."""
    columns = {}
    for name, kind in kinds.items():
        few, share = rng.choice([3, 10, 200, 5000]), rng.choice([0, nulls, nulls, 0.6])
        values = [None if at and rng.random() < share else random_value(rng, kind, few) for at in range(count)]
        if kind in ("float", "text", "timestamp") and values:
            # Values that look like a narrower type are avoided: `1.0` is 1, an empty text null,
            # midnight a day.
            values[0] = {"float": 0.25, "text": "word", "timestamp": datetime.datetime(2020, 1, 1, 13, 7)}[kind]
        columns[name] = pyarrow.array(values, ARROW[kind])
    return pyarrow.table(columns)


def piece_rows(rows, kind):
    """Rows of a row group or batch of such a file."""
    return max(1, len(rows) // {"parquet": 2, "arrow": 3}.get(kind, 1))


def pieces(rows, kind):
    """How many rows the pieces of such a file have, between which a load may commit."""
    step = piece_rows(rows, kind)
    return [min(step, len(rows) - at) for at in range(0, len(rows), step)]


def write(rows, kind, folder, name):
    """The rows as a file of this format."""
    file = folder / f"{name}.{kind}"
    if kind == "parquet":
        parquet.write_table(rows, file, row_group_size=piece_rows(rows, kind))
    elif kind == "arrow":
        with pyarrow.ipc.new_file(file, rows.schema) as writer:
            writer.write_table(rows, max_chunksize=piece_rows(rows, kind))
    elif kind == "jsonl":
        file.write_text("".join(json.dumps({key: jsonable(value) for key, value in row.items()}) + "\n" for row in rows.to_pylist()))
    else:
        with open(file, "w", newline="") as out:
            writer = csv.writer(out)
            writer.writerow(rows.schema.names)
            out.write("".join(",".join(map(cell, row.values())) + "\n" for row in rows.to_pylist()))
    return file


def jsonable(value):
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ")
    return value.isoformat() if isinstance(value, datetime.date) else value


def cell(value):
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + value.replace('"', '""') + '"'
    return str(jsonable(value)) if not isinstance(value, float) or math.isfinite(value) else "NaN"
