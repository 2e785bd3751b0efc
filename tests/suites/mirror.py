"""The table in DuckDB: its present rows, and beside them the expected result of a step."""

import duckdb

# Kind → DuckDB's type. Whole numbers are as wide as they can become, so that widening changes
# nothing here.
TYPES = {"int": "BIGINT", "float": "DOUBLE", "text": "VARCHAR", "date": "DATE", "timestamp": "TIMESTAMP", "bool": "BOOLEAN",
         "decimal": "DECIMAL(18,2)"}


class Mirror:
    """`columns`: name → kind, of the present table `t`.

    A step changes `after`, which then becomes `t` or is dropped.
    """

    def __init__(self):
        self.connection = duckdb.connect(config={"threads": 1})
        self.connection.execute("SET default_null_order = 'nulls_last_on_asc_first_on_desc'")
        self.connection.execute("SET integer_division = true")
        # Over a column of nulls, DuckDB 1.5 takes `x IS DISTINCT FROM 0 OR x = 5` for false here.
        self.connection.execute("SET disabled_optimizers = 'filter_pushdown'")
        self.columns, self.columns_after, self.exists = {}, {}, False

    def begin(self):
        self.connection.execute("DROP TABLE IF EXISTS after")
        if self.exists:
            self.connection.execute("CREATE TABLE after AS SELECT * FROM t")
        self.columns_after = dict(self.columns)

    def commit(self):
        self.connection.execute("DROP TABLE IF EXISTS t")
        self.connection.execute("ALTER TABLE after RENAME TO t")
        self.columns, self.exists = self.columns_after, True

    def execute(self, sql):
        """A statement with {t} for the table."""
        self.connection.execute(sql.format(t="after"))

    def ask(self, sql, table="t"):
        return self.connection.execute(sql.format(t=table)).fetchall()

    # ---- what a step does to `after`

    def append(self, rows, kinds):
        """Adds rows of an Arrow table, columns by name.

        Unknown columns are new, and those of a wider kind are widened.
        """
        if not self.columns_after:
            listed = ", ".join(f'"{name}" {TYPES[kind]}' for name, kind in kinds.items())
            self.connection.execute(f"CREATE TABLE after ({listed})")
            self.columns_after = dict(kinds)
        for name, kind in kinds.items():
            if name not in self.columns_after:
                self.add(name, kind)
            elif (self.columns_after[name], kind) in (("int", "float"), ("date", "timestamp")):
                self.widen(name, kind)
        self.connection.register("arriving", rows)
        self.connection.execute("INSERT INTO after BY NAME SELECT * FROM arriving")
        self.connection.unregister("arriving")

    def widen(self, name, kind):
        self.connection.execute(f'ALTER TABLE after ALTER COLUMN "{name}" TYPE {TYPES[kind]}')
        self.columns_after[name] = kind

    def add(self, name, kind):
        self.connection.execute(f'ALTER TABLE after ADD COLUMN "{name}" {TYPES[kind]}')
        self.columns_after[name] = kind

    def drop(self, name):
        self.connection.execute(f'ALTER TABLE after DROP COLUMN "{name}"')
        del self.columns_after[name]

    def rename(self, name, to):
        self.connection.execute(f'ALTER TABLE after RENAME COLUMN "{name}" TO "{to}"')
        self.columns_after = {to if old == name else old: kind for old, kind in self.columns_after.items()}
