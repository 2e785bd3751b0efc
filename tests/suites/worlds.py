"""Random tables that share column names, in a store of `sty` and in DuckDB."""

import datetime
import decimal
import math

import pyarrow
import pyarrow.parquet as parquet

from expressions import TEXTS

ARROW = {"float": pyarrow.float64(), "text": pyarrow.string(), "date": pyarrow.date32(), "decimal": pyarrow.decimal128(9, 2),
         "bool": pyarrow.bool_()}
SQL = {"int16": "SMALLINT", "int32": "INT", "int64": "BIGINT", "double": "DOUBLE", "string": "TEXT", "date32[day]": "DATE",
       "decimal128(9, 2)": "DECIMAL(9,2)", "bool": "BOOLEAN"}
COLUMNS = {"id": "int", "k": "int", "n": "int", "x": "float", "s": "text", "d": "date", "m": "decimal", "b": "bool"}
# The probability that a table has a column.
SHARES = {"id": 0.9, "k": 0.9, "n": 0.7, "x": 0.5, "s": 0.6, "d": 0.25, "m": 0.25, "b": 0.2}
SIZES = {"tiny": [0, 1, 2, 3, 5, 8, 12], "small": [0, 1, 10, 50, 100, 300], "medium": [0, 30, 500, 2000, 5000],
         "large": [10, 1000, 5000, 150_000, 150_000]}


class World:
    """Tables, in a store and in DuckDB.

    `tables`: name → list of (column, kind); `arrow`: name → rows; `how`: name → how it is stored.
    """

    def __init__(self, rng, floats=False, unique=False):
        self.rng, self.floats, self.unique = rng, floats, unique
        self.size = rng.choices(list(SIZES), [10, 5, 3, 2])[0]
        self.tables, self.arrow, self.how = {}, {}, {}
        for at in range(rng.randint(3, 6)):
            self.make("abcdefgh"[at])

    def make(self, name):
        rng = self.rng
        columns = [column for column, share in SHARES.items() if rng.random() < share]
        if len(columns) < 2:
            columns = ["id", "k"]
        rng.shuffle(columns)
        rows = rng.choice(SIZES[self.size])
        arrays = [self.column(COLUMNS[column], rows, column == "id") for column in columns]
        names = [f"{column}_{name}" if self.unique else column for column in columns]
        self.tables[name] = [(named, COLUMNS[column]) for named, column in zip(names, columns)]
        self.arrow[name] = pyarrow.table(dict(zip(names, arrays)))

    def column(self, kind, rows, key):
        rng = self.rng
        nulls = rng.choice([0, 0, 0.1, 0.1, 0.4] if rows < 1_000_000 else [0])
        few = rng.choice([3, 8, max(3, rows // 3), max(4, rows * 2)]) if rows <= 300 else rng.choice([rows // 3, rows, rows * 2])
        if self.size in ("medium", "large") and rng.random() < 0.25 and kind != "int":
            few = 8
        if key and rng.random() < 0.5:
            numbers = list(range(rows))
            if rng.random() < 0.5:
                rng.shuffle(numbers)
        else:
            numbers = [rng.randrange(few) for _ in range(rows)]
        values = [None if rng.random() < nulls else self.value(kind, number) for number in numbers]
        types = {"int": rng.choice([pyarrow.int32(), pyarrow.int32(), pyarrow.int64(), pyarrow.int64(), pyarrow.int16()])}
        of = types.get(kind) or ARROW[kind]
        if of == pyarrow.int16() and max(numbers, default=0) > 10_000:
            of = pyarrow.int32()
        return pyarrow.array(values, of)

    def value(self, kind, number):
        if kind == "int":
            return number - 2 if self.size == "tiny" else number
        if kind == "float":
            if self.floats and number % 7 == 5:
                return math.nan
            if self.floats and number % 7 in (3, 4):
                return 0.0 if number % 7 == 3 else -0.0
            return (number - 3) / 4
        if kind == "text":
            return TEXTS[number % len(TEXTS)].strip("'") if number < 10 else f"word {number}"
        if kind == "date":
            return datetime.date(2020, 1, 1) + datetime.timedelta(days=number % 20_000)
        if kind == "decimal":
            # Quarters are equal to floats; the other values are not.
            cents = (number - 4) * 25 if number % 3 else [1678, 7, 435, 29, 115, 1234567][number // 3 % 6]
            return decimal.Decimal(cents).scaleb(-2)
        return number % 2 == 0

    def store(self, sty, folder):
        """Loads each table in one to five ingests, some sorted, some partitioned."""
        rng = self.rng
        for name, rows in self.arrow.items():
            pieces = rng.choice([1, 1, 2, 3, 5]) if len(rows) > 1 else 1
            options = ["--profile", rng.choice(["fast", "balanced", "small"])] if rng.random() < 0.4 else []
            names = rows.schema.names
            if rng.random() < 0.3:
                options += ["--sort-by", rng.choice(names) + rng.choice(["", " DESC"])]
            if rng.random() < 0.15 and len(rows) <= 300 and "k" in names:
                options += ["--partition-by", "k"]
            self.how[name] = f"{len(rows)} rows in {pieces} ingests {' '.join(options)}"
            if not len(rows):
                self.create(sty, folder, name)
                continue
            step = max(1, math.ceil(len(rows) / pieces))
            for at in range(pieces):
                file = folder / f"{name}-{at}.parquet"
                parquet.write_table(rows.slice(at * step, step), file)
                sty.must("ingest", folder / "db" / name, file, "-q", "--if-loaded", "again", *(options if at == 0 else []))

    def create(self, sty, folder, name):
        """A table without rows."""
        columns = ", ".join(f"{field.name} {SQL[str(field.type)]}" for field in self.arrow[name].schema)
        sty.must("query", folder / "db", f"CREATE TABLE {name} ({columns})")

    def load(self, oracle):
        for name, rows in self.arrow.items():
            oracle.connection.register("arriving", rows)
            oracle.run(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM arriving")
            oracle.connection.unregister("arriving")
