"""Random steps of maintenance: the command of `sty`, and the same step in the mirror."""

import json
from decimal import Decimal
from urllib.parse import unquote

import duckdb

from expressions import COMPARISONS, Expressions
from rows import TEXT_KINDS, pieces, random_rows, random_value, write

WEIGHTS = {"ingest": 6, "insert": 2, "insert_select": 1, "delete": 5, "update": 5, "compact": 4, "alter_add": 1, "alter_drop": 0.7,
           "alter_rename": 1, "alter_widen": 0.7, "drop_partition": 1.5, "gc": 1, "create_as": 1, "keep": 0.4,
           "grow": 2, "rejecting": 1, "resumed": 1.5}
KINDS = ["int", "int", "float", "text", "date", "timestamp", "bool", "decimal"]


class Conditions(Expressions):
    """Conditions for DELETE and UPDATE, with subqueries that do not read the row.

    `other` is a table that never changes.
    """

    OTHER = [("id", "int"), ("n", "int"), ("x", "float"), ("s", "text"), ("d", "date"), ("m", "decimal")]

    def constant(self, kind):
        if kind == "timestamp":
            return f"TIMESTAMP '2020-01-{self.rng.randint(1, 28):02} 13:07:00'"
        return super().constant(kind)

    def source(self, kind):
        """FROM of a subquery and a column of the kind: over the table itself or the other one."""
        other = self.chance(0.5) or self.column(self.scope, kind) is None
        scope = self.OTHER if other else self.scope
        column = self.column(scope, kind) or self.constant(kind)
        saved, self.budget = self.budget, 0
        where = f" WHERE {self.condition(scope, 1)}" if self.chance(0.6) else ""
        self.budget = saved - 1
        return f"FROM {'other' if other else '{t}'}{where}", column

    def scalar_subquery(self, scope, kind):
        source, column = self.source(kind)
        return f"(SELECT {self.rng.choice(['max', 'min'])}({column}) {source})" if kind != "bool" else f"(SELECT count(*) > 1 {source})"

    def subquery_condition(self, scope):
        kind = self.rng.choice(sorted({kind for _, kind in scope if kind not in ("bool", "decimal")}) or ["int"])
        left = self.column(scope, kind) or self.constant(kind)
        if self.chance(0.3):
            return f"{left} {self.rng.choice(COMPARISONS)} {self.scalar_subquery(scope, kind)}"
        source, column = self.source(kind)
        if self.chance(0.15):
            return f"{self.rng.choice(['', 'NOT '])}EXISTS (SELECT 1 {source})"
        return f"{left} {self.rng.choice(['', '', 'NOT '])}IN (SELECT {column} {source})"

    def whole(self, scope):
        """A WHERE; sometimes one that relies on precedence instead of parentheses."""
        self.scope, self.budget = scope, self.rng.choice([0, 0, 1, 2])
        if self.chance(0.1) and "distinct-from" not in self.without:
            name, kind = self.rng.choice(scope)
            no, join = self.rng.choice(["", "NOT "]), self.rng.choice(["AND", "OR"])
            return f"{name} IS {no}DISTINCT FROM {self.constant(kind)} {join} {self.condition(scope, 1)}"
        return self.condition(scope, self.rng.choice([0, 1, 1, 2]))


class Step:
    """A step: `arguments` of the command, and `mirror`, which does the same to the mirror.

    `done` is called when it has been done. A step that commits on the way has `commits`, the rows
    of each: it goes on with the same command after a kill.
    """

    def __init__(self, kind, arguments, mirror, text=None):
        self.kind, self.arguments, self.mirror, self.text = kind, arguments, mirror, text
        self.new_name, self.done, self.commits = None, lambda: None, None


class Steps:
    def __init__(self, rng, sty, mirror, folder, leave_out=()):
        self.rng, self.sty, self.mirror, self.folder = rng, sty, mirror, folder
        self.conditions = Conditions(rng, leave_out)
        self.name, self.partition, self.files = "t", None, 0
        self.log, self.pending = None, None
        self.largest = rng.choice([5, 100, 100, 1000])

    def table(self):
        return self.folder / "db" / self.name

    def scope(self):
        return list(self.mirror.columns.items())

    def next(self):
        if self.pending:
            step, self.pending = self.pending(), None
            if step:
                return step
        kind = self.rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        return getattr(self, kind)() or self.ingest()

    def done(self, step):
        """Follows a step: a copy replaces the table, and has neither an order nor partitions.

        Nor does it know the files that were loaded.
        """
        step.done()
        if step.new_name:
            self.name, self.partition, self.log = step.new_name, None, None

    def sql(self, kind, sql, mirror=None):
        """A statement over {t}, which is the table's name here and another one in the mirror."""
        mirror = mirror or (lambda: self.mirror.execute(sql))
        return Step(kind, ["query", self.folder / "db", "-q", "-f", "-"], mirror, sql.format(t=self.name))

    # ---- rows in

    def first(self):
        """The ingest that creates the table, perhaps sorted, perhaps partitioned."""
        rng = self.rng
        names = rng.sample(["id", "k", "n", "x", "s", "d", "ts", "b", "m"], rng.randint(2, 7))
        kinds = dict(zip(names, (rng.choice(KINDS) for _ in names)))
        options = ["--profile", rng.choice(["fast", "balanced", "small"])] if rng.random() < 0.3 else []
        if rng.random() < 0.4:
            options += ["--sort-by", ",".join(f"{name}{rng.choice(['', ' DESC'])}" for name in rng.sample(names, rng.randint(1, 2)))]
        if rng.random() < 0.4:
            name = rng.choice(names)
            # A number with many values would make many partitions.
            self.partition = {"int": f"{name} % 4", "date": f"date_part('year', {name})"}.get(kinds[name], name)
            alias = self.partition if self.partition == name else f"{self.partition} AS part"
            if kinds[name] in ("int", "date", "text", "bool"):
                options += ["--partition-by", alias]
            else:
                self.partition = None
        return self.ingest(kinds, options)

    def ingest(self, kinds=None, options=()):
        rng = self.rng
        kinds = dict(kinds or self.arriving())
        rows = random_rows(rng, kinds, rng.randint(1, self.largest))
        formats = ["parquet", "arrow"]
        if all(kind in TEXT_KINDS for kind in kinds.values()):
            formats += ["csv", "csv", "jsonl"]
        self.files += 1
        file = write(rows, rng.choice(formats), self.folder, f"file-{self.files}")
        return Step("ingest", ["ingest", self.table(), file, "-q", *options], lambda: self.mirror.append(rows, kinds))

    def arriving(self):
        """Columns of the next file: most of the table's, sometimes a new or a wider one."""
        rng = self.rng
        kinds = {name: kind for name, kind in self.mirror.columns.items() if rng.random() < 0.85}
        if not kinds:
            kinds = dict(self.mirror.columns)
        for name, kind in kinds.items():
            wider = {"int": "float", "date": "timestamp"}.get(kind)
            if wider and rng.random() < 0.04 and not (self.partition and name in self.partition):
                kinds[name] = wider
        if rng.random() < 0.12:
            kinds[f"new{self.files}"] = rng.choice(KINDS)
        names = list(kinds)
        rng.shuffle(names)
        return {name: kinds[name] for name in names}

    def present(self):
        """Columns that text can hold, as they are in the table."""
        return {name: kind for name, kind in self.mirror.columns.items() if kind in TEXT_KINDS}

    def grow(self):
        """Adds rows to a file of which only the new ones are loaded."""
        rng, columns = self.rng, self.mirror.columns
        if self.log and any(columns.get(name, kind) != kind for name, kind in self.log.kinds.items()):
            self.log = None  # a column of its name has another type by now
        if not self.log:
            kinds = self.present()
            if not kinds:
                return None
            self.files += 1
            self.log = Log(kinds, self.folder / f"log-{self.files}.{rng.choice(['csv', 'jsonl'])}")
        log = self.log
        log.add(random_rows(rng, log.kinds, rng.randint(1, self.largest)))
        waiting = list(log.waiting)

        def mirror():
            for rows in waiting:
                self.mirror.append(rows, log.kinds)
        step = Step("grow", ["ingest", self.table(), log.file, "--if-loaded", "new-rows", "-q"], mirror)
        step.done = log.waiting.clear
        return step

    def rejecting(self):
        """A file with rows that are too long, whose rejects are corrected and loaded after it."""
        rng, kinds = self.rng, self.present()
        if not kinds:
            return None
        self.files += 1
        rows = random_rows(rng, kinds, rng.randint(2, self.largest))
        file, rejects = write(rows, "csv", self.folder, f"file-{self.files}"), self.folder / f"rejects-{self.files}.csv"
        header, *lines = file.read_text().splitlines(keepends=True)
        bad = [at > 0 and rng.random() < 0.3 for at in range(len(lines))]
        file.write_text(header + "".join(line[:-1] + ",~\n" if is_bad else line for line, is_bad in zip(lines, bad)))
        good, left_out = rows.filter([not is_bad for is_bad in bad]), rows.filter(bad)
        step = Step("rejecting", ["ingest", self.table(), file, "--rejects", rejects, "-q"], lambda: self.mirror.append(good, kinds))

        def corrected():
            if not rejects.exists():
                return None  # nothing was bad, or it was killed before the file had its name
            rejects.write_text(rejects.read_text().replace(",~", ""))
            return Step("from_rejects", ["ingest", self.table(), rejects, "--from-rejects", "-q"], lambda: self.mirror.append(left_out, kinds))

        def done():
            self.pending = corrected
        step.done = done
        return step

    def resumed(self):
        """Several files with a commit after each, and between the pieces of one."""
        rng, kinds = self.rng, dict(self.mirror.columns)
        parts = [random_rows(rng, kinds, rng.randint(1, self.largest)) for _ in range(rng.randint(2, 5))]
        formats = ["parquet", "arrow"] + ["csv", "jsonl"] * all(kind in TEXT_KINDS for kind in kinds.values())
        files, commits = [], []
        for rows in parts:
            self.files += 1
            kind = rng.choice(formats)
            files.append(write(rows, kind, self.folder, f"file-{self.files}"))
            commits += pieces(rows, kind)

        def mirror():
            for rows in parts:
                self.mirror.append(rows, kinds)
        step = Step("resumed", ["ingest", self.table(), *files, "--commit-every", "1", "-q"], mirror)
        step.commits = commits
        return step

    def insert(self):
        rng = self.rng
        names = [name for name in self.mirror.columns if rng.random() < 0.8] or list(self.mirror.columns)
        kinds = self.mirror.columns
        row = lambda: "(" + ", ".join("NULL" if rng.random() < 0.2 else literal(random_value(rng, kinds[name], 20), kinds[name])
                                      for name in names) + ")"
        values = ", ".join(row() for _ in range(rng.randint(1, 5)))
        return self.sql("insert", f"INSERT INTO {{t}} ({', '.join(names)}) VALUES {values}")

    def insert_select(self):
        names = list(self.mirror.columns)
        return self.sql("insert_select", f"INSERT INTO {{t}} SELECT {', '.join(names)} FROM {{t}} WHERE {self.where()}")

    def create_as(self):
        """Replaces the table by a copy under another name, without its order and partitions."""
        self.files += 1
        new = f"t{self.files}"
        where = self.where()
        step = self.sql("create_as", f"CREATE TABLE {new} AS SELECT * FROM {{t}} WHERE {where}",
                        lambda: self.mirror.execute(f"DELETE FROM {{t}} WHERE ({where}) IS NOT TRUE"))
        step.new_name = new
        return step

    # ---- rows changed

    def where(self):
        return self.conditions.whole(self.scope())

    def delete(self):
        """A condition, mostly one that leaves half of the rows, so that the table is not emptied.
        """
        for _ in range(6):
            where = self.where()
            try:
                all_rows, gone = self.mirror.ask(f"SELECT count(*), count(*) FILTER (WHERE {where}) FROM {{t}}")[0]
            except duckdb.Error:
                continue
            if gone and gone * 2 <= all_rows or self.rng.random() < 0.1:
                break
        return self.sql("delete", f"DELETE FROM {{t}} WHERE {where}")

    def update(self):
        rng, columns = self.rng, self.mirror.columns
        names = rng.sample(list(columns), min(len(columns), rng.choice([1, 1, 2])))
        where = f" WHERE {self.where()}" if rng.random() < 0.9 else ""
        sets = [f"{name} = {self.new_value(columns[name])}" for name in names]
        return self.sql("update", f"UPDATE {{t}} SET {', '.join(sets)}{where}")

    def new_value(self, kind):
        """The value that UPDATE sets: null, a constant, or an expression over the row."""
        rng = self.rng
        self.conditions.scope, self.conditions.budget = self.scope(), rng.choice([0, 0, 1])
        if rng.random() < 0.4:
            return "NULL" if rng.random() < 0.2 else literal(random_value(rng, kind, 20), kind)
        value = self.conditions.value(self.scope(), kind, 2)
        return self.conditions.value(self.scope(), kind, 2) if value in self.mirror.columns else value

    def drop_partition(self):
        if not self.partition:
            return None
        listed = json.loads(self.sty.must("partitions", self.table(), "--format", "json").stdout)
        if not listed:
            return None
        path = self.rng.choice(listed)["partition"]
        return Step("drop_partition", ["drop-partition", "-q", self.table(), path], lambda: self.drop_rows(path))

    def drop_rows(self, path):
        """Deletes the rows of a partition from the mirror; the value in its path says which."""
        value = path.split("=", 1)[1]
        name = self.partition
        if value == "__HIVE_DEFAULT_PARTITION__":
            self.mirror.execute(f"DELETE FROM {{t}} WHERE ({name}) IS NULL")
        else:
            self.mirror.execute(f"DELETE FROM {{t}} WHERE CAST(({name}) AS VARCHAR) = '{unescaped(value)}'")

    # ---- files and columns

    def compact(self):
        rng = self.rng
        how = rng.choice([[], ["--all"], ["--profile", rng.choice(["fast", "balanced", "small"])], ["--sort-by"], ["--sort-by"]])
        if how == ["--sort-by"]:
            names = rng.sample(list(self.mirror.columns), min(len(self.mirror.columns), rng.randint(1, 2)))
            how = ["--sort-by", ",".join(f"{name}{rng.choice(['', ' DESC'])}" for name in names)]
        return Step("compact", ["compact", self.table(), "-q", *how], lambda: None)

    def gc(self):
        return Step("gc", ["gc", self.table(), "-q", "--keep", "0s"], lambda: None)

    def keep(self):
        return Step("keep", ["alter", "-q", self.table(), "keep", self.rng.choice(["0s", "1h"])], lambda: None)

    def alter_add(self):
        kind, name = self.rng.choice(KINDS), f"added{self.files}"
        if name in self.mirror.columns:
            return None
        of = {"int": "int64", "float": "float64", "text": "utf8", "date": "date", "timestamp": "timestamp(us)", "bool": "bool",
              "decimal": "decimal(9,2)"}[kind]
        return Step("alter_add", ["alter", "-q", self.table(), "add", f"{name}:{of}"], lambda: self.mirror.add(name, kind))

    def alter_drop(self):
        if len(self.mirror.columns) < 3:
            return None
        name = self.rng.choice(list(self.mirror.columns))
        return Step("alter_drop", ["alter", "-q", self.table(), "drop", name], lambda: self.mirror.drop(name))

    def alter_rename(self):
        """Renames a column to a new name, or to one that another column once had."""
        name = self.rng.choice(list(self.mirror.columns))
        to = self.rng.choice(["id", "k", "n", "x", f"renamed{self.files}"])
        if to in self.mirror.columns or self.partition and name in self.partition:
            return None
        return Step("alter_rename", ["alter", "-q", self.table(), "rename", name, to], lambda: self.mirror.rename(name, to))

    def alter_widen(self):
        for name, kind in self.mirror.columns.items():
            wider = {"int": ("float", "float64"), "date": ("timestamp", "timestamp(us)")}.get(kind)
            if wider and not (self.partition and name in self.partition):
                return Step("alter_widen", ["alter", "-q", self.table(), "widen", f"{name}:{wider[1]}"], lambda: self.mirror.widen(name, wider[0]))
        return None


class Log:
    """A file that grows, and the rows of it that are not loaded yet."""

    def __init__(self, kinds, file):
        self.kinds, self.file, self.waiting = kinds, file, []

    def add(self, rows):
        part = write(rows, self.file.suffix[1:], self.file.parent, "part").read_text()
        if self.file.exists() and self.file.suffix == ".csv":
            part = part.split("\n", 1)[1]
        with open(self.file, "a") as file:
            file.write(part)
        self.waiting.append(rows)


def literal(value, kind):
    if isinstance(value, (bool, int, Decimal)):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value!r}::double"
    return f"'{value}'" if kind == "text" else f"{kind.upper()} '{value}'"


def unescaped(value):
    return unquote(value).replace("'", "''")
