"""Random SELECTs over joins of tables that share their columns' names."""

from expressions import COMPARISONS, Expressions

JOINS = ["JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]
# How a semi or anti join is written: for the oracle, and for us.
SEMI = {"⋉": ("SEMI JOIN", "LEFT SEMI JOIN"), "▷": ("ANTI JOIN", "LEFT ANTI JOIN")}
NAMES = {"int": ["id", "k", "n"], "float": ["x"], "text": ["s"], "date": ["d"], "decimal": ["m"], "bool": ["b"]}


def for_oracle(sql):
    return written(sql, 0)


def for_sty(sql):
    return written(sql, 1)


def written(sql, side):
    for sign, names in SEMI.items():
        sql = sql.replace(sign, names[side])
    return sql


class Relation:
    """A relation in FROM: its SQL, and its columns as (alias, name, kind).

    `merged` are the names of columns that USING merged.
    """

    def __init__(self, sql, columns, merged=()):
        self.sql, self.columns, self.merged = sql, columns, dict(merged)

    def scope(self):
        found = [(f"{alias}.{name}", kind) for alias, name, kind in self.columns]
        return found + [(name, kind) for name, kind in self.merged.items()]

    def names(self):
        return [name for _, name, _ in self.columns]

    def unique(self):
        """Names that are unambiguous without a table."""
        names = self.names()
        return {name for name in names if names.count(name) == 1} | set(self.merged)


class Statements(Expressions):
    """`tables`: name → list of (column, kind)."""

    def __init__(self, rng, tables, large=False, leave_out=()):
        super().__init__(rng, leave_out)
        self.tables, self.large, self.aliases, self.ctes, self.depth = tables, large, 0, {}, 1

    def alias(self):
        self.aliases += 1
        return f"t{self.aliases}"

    # ---- FROM

    def table(self, bare=False):
        """A table under an alias, or under its own name, which an outer query may use too."""
        # In some engines, a table with the name of a column is a struct.
        known = [name for name in self.tables if not bare or name not in sum(NAMES.values(), [])]
        name = self.rng.choice(known + list(self.ctes) * 2)
        columns = self.ctes.get(name) or self.tables[name]
        alias = name if bare else self.alias()
        return Relation(name if bare else f"{name} {alias}", [(alias, column, kind) for column, kind in columns])

    def leaf(self, depth):
        if depth > 0 and self.chance(0.3):
            sql, columns = self.derived(depth - 1)
            alias = self.alias()
            return Relation(f"({sql}) {alias}", [(alias, name, kind) for name, kind in columns])
        return self.table()

    def relation(self, size, depth):
        """A tree of joins with this number of leaves."""
        if size <= 1:
            return self.leaf(depth)
        right_size = self.rng.randint(1, size - 1) if self.chance(0.25) else 1
        left = self.relation(size - right_size, depth)
        if right_size == 1 and self.budget > 0 and not self.large and self.chance(0.1) and "lateral" not in self.without:
            return self.lateral(left)
        right = self.relation(right_size, depth)
        right_sql = f"({right.sql})" if right_size > 1 else right.sql
        return self.joined(left, right, right_sql)

    def joined(self, left, right, right_sql):
        kind = self.rng.choice(JOINS)
        both = left.unique() & right.unique() - set(right.merged) - set(left.merged)
        kinds = {name: of for _, name, of in left.columns}
        common = sorted(name for name in both if kinds[name] == {n: of for _, n, of in right.columns}[name])
        columns = left.columns + right.columns
        # A merged column that the other side has too is ambiguous from here on.
        merged = {name: of for name, of in left.merged.items() if name not in right.names()}
        merged |= {name: of for name, of in right.merged.items() if name not in left.names()}
        if common and self.chance(0.2):
            using = self.rng.sample(common, self.rng.randint(1, min(2, len(common))))
            if "merged" not in self.without:
                merged |= {name: kinds[name] for name in using}
            return Relation(f"{left.sql} {kind} {right_sql} USING ({', '.join(using)})", columns, merged)
        shared = set(left.names()) & set(right.names())
        if shared and shared <= set(common) and self.chance(0.15) and not left.merged and not right.merged:
            if "merged" not in self.without:
                merged |= {name: kinds[name] for name in shared}
            return Relation(f"{left.sql} NATURAL {kind} {right_sql}", columns, merged)
        on = self.on(left, right)
        if self.chance(0.1) and "semi" not in self.without:
            return Relation(f"{left.sql} {self.rng.choice(list(SEMI))} {right_sql} ON {on}", left.columns, left.merged)
        return Relation(f"{left.sql} {kind} {right_sql} ON {on}", columns, merged)

    def lateral(self, left):
        """A join with a LATERAL subquery, which is computed for each row."""
        source, inner = self.subquery_from(left.scope(), True, False)
        kinds = [kind for kind in dict.fromkeys(kind for _, kind in inner) if kind != "bool"] or ["int"]
        kinds = self.rng.sample(kinds, min(len(kinds), 2))
        if self.chance(0.4):
            values = [(f"{self.rng.choice(['max', 'min'])}({self.column(inner, kind) or self.constant(kind)})", kind) for kind in kinds]
            values.append(("count(*)", "int"))
        else:
            values = [(self.column(inner, kind) or self.constant(kind), kind) for kind in kinds]
            if self.chance(0.3) and "windows" not in self.without:
                values.append((self.window(inner, "int", False), "int"))
        names = self.named(values)
        sql = f"SELECT {listed([(value, name) for (value, _), name in zip(values, names)])} {source}"
        if self.chance(0.3):
            sql += f" ORDER BY {', '.join(f'{name} {self.direction()}' for name in names)} LIMIT {self.rng.randint(1, 2)}"
        alias = self.alias()
        columns = left.columns + [(alias, name, kind) for name, (_, kind) in zip(names, values)]
        kind, on = self.rng.choice([("CROSS JOIN", ""), ("LEFT JOIN", " ON true")])
        merged = {name: of for name, of in left.merged.items() if name not in names}
        return Relation(f"{left.sql} {kind} LATERAL ({sql}) {alias}{on}", columns, merged)

    def on(self, left, right):
        rng, parts = self.rng, []
        pairs = [(a, b) for a, kind in left.scope() for b, of in right.scope() if of == kind and kind != "bool"]
        qualified = [(a, b) for a, b in pairs if "." in a and "." in b]
        if qualified and (self.large or self.chance(0.92)):
            same = [(a, b) for a, b in qualified if a.split(".")[1] == b.split(".")[1]]
            parts += [f"{a} = {b}" for a, b in [rng.choice(same if same and self.chance(0.6) else qualified)]]
            if self.chance(0.2):
                a, b = rng.choice(qualified)
                parts.append(rng.choice([f"{a} = {b}", f"{a} {rng.choice(COMPARISONS)} {b}"]))
        scope = [pair for pair in left.scope() + right.scope() if "." in pair[0]]
        if not parts or self.chance(0.2):
            saved, self.budget = self.budget, 0
            parts.append(self.condition(scope, 1))
            self.budget = saved
        return " AND ".join(parts)

    # ---- subqueries

    def subquery_from(self, outer, correlated, equalities_only):
        """FROM and WHERE of a subquery, perhaps correlated to outer rows, and its columns."""
        self.budget -= 1
        relation = self.table(True) if self.chance(0.2) else self.relation(self.rng.choice([1, 1, 1, 2]), 0)
        scope, parts = relation.scope(), []
        outer = [pair for pair in outer if "." in pair[0]]
        if correlated:
            pairs = [(a, b) for a, kind in scope for b, of in outer if of == kind and kind != "bool"]
            if pairs:
                a, b = self.rng.choice(pairs)
                parts.append(f"{a} = {b}")
                if not equalities_only and self.chance(0.4):
                    a, b = self.rng.choice(pairs)
                    parts.append(f"{a} {self.rng.choice(COMPARISONS)} {b}")
        if self.chance(0.5):
            # Columns of the outer row in scope may be used two levels further in.
            further = outer if correlated and not equalities_only and self.chance(0.2) and not self.large else []
            parts.append(self.condition(scope + further, 1))
        where = f" WHERE {' AND '.join(parts)}" if parts else ""
        return f"FROM {relation.sql}{where}", scope

    def scalar_subquery(self, scope, kind):
        source, inner = self.subquery_from(scope, self.chance(0.3), not self.chance(0.1))
        if kind == "int" and self.chance(0.3):
            return f"(SELECT count(*) {source})"
        column = self.column(inner, kind) or self.constant(kind)
        if kind == "bool":
            return f"(SELECT count(*) > 1 {source})"
        return f"(SELECT {self.rng.choice(['max', 'min'])}({column}) {source})"

    def subquery_condition(self, scope):
        rng, no = self.rng, self.rng.choice(["", "", "NOT "])
        if self.chance(0.35):
            source, inner = self.subquery_from(scope, self.chance(0.85), False)
            of_no_rows = [f"SELECT count(*) {source}", f"SELECT max({inner[0][0]}) {source}", f"SELECT 1 {source} HAVING count(*) < 2"]
            return f"{no}EXISTS ({rng.choice(of_no_rows) if self.chance(0.15) else f'SELECT 1 {source}'})"
        kind = rng.choice(sorted({kind for _, kind in scope if kind not in ("bool", "decimal")}) or ["int"])
        left = self.column(scope, kind) or self.constant(kind)
        if self.chance(0.35):
            return f"{left} {rng.choice(COMPARISONS)} {self.scalar_subquery(scope, kind)}"
        source, inner = self.subquery_from(scope, self.chance(0.2), True)
        if self.chance(0.15):
            of = f"{rng.choice(['max', 'min'])}({self.column(inner, kind) or self.constant(kind)})"
            of = rng.choice([of, f"coalesce({of}, {self.constant(kind)})", "count(*)" if kind == "int" else of])
            return f"{left} {no}IN (SELECT {of} {source})"
        if kind == "int" and self.chance(0.1) and "windows" not in self.without:
            return f"{left} {no}IN (SELECT {self.window(inner, kind, False)} {source})"
        if self.chance(0.15):
            test = f"{rng.choice(COMPARISONS)} {rng.choice(['ANY', 'ALL'])}"
            return f"{no}({left} {test} (SELECT {self.column(inner, kind) or self.constant(kind)} {source}))"
        if self.chance(0.15):
            source += f" GROUP BY {inner[0][0]}"
            return f"{left} {no}IN (SELECT max({self.column(inner, kind) or self.constant(kind)}) {source})"
        return f"{left} {no}IN (SELECT {self.value(inner, kind, 1) if self.chance(0.2) else self.column(inner, kind) or self.constant(kind)} {source})"

    # ---- SELECT

    def named(self, values):
        """Names for the columns of a derived table.

        They are names of tables' columns, so that they clash, and may be swapped.
        """
        used, found = set(), []
        for _, kind in values:
            free = [name for name in NAMES[kind] if name not in used and "shared-names" not in self.without]
            name = self.rng.choice(free) if free else f"{NAMES[kind][0]}{self.alias()}"
            used.add(name)
            found.append(name)
        return found

    def derived(self, depth):
        """A subquery for FROM, and its columns."""
        body, values = self.body(depth, self.chance(0.15), self.rng.choice([1, 1, 2]))
        names = self.named(values)
        sql = body([(value, name) for (value, _), name in zip(values, names)])
        return sql, [(name, kind) for name, (_, kind) in zip(names, values)]

    def body(self, depth, set_operation, size, kinds=None):
        """A function from named values to SQL, and the values."""
        if set_operation:
            return self.set_operation(depth, size, kinds)
        relation = self.table(True) if size == 1 and self.chance(0.5) else self.relation(size, depth)
        scope = relation.scope()
        where = f" WHERE {self.condition(scope, self.depth)}" if self.chance(0.55) else ""
        source = f"FROM {relation.sql}{where}"
        if self.chance(0.35):
            return self.aggregated(source, scope, kinds)
        wanted = kinds or [self.rng.choice(scope)[1] for _ in range(self.rng.randint(1, 4))]
        if self.chance(0.12) and not self.large and "windows" not in self.without:
            if self.chance(0.4):
                return self.first_of_groups(source, scope, wanted)
            windows = [(self.window(scope, kind, at == 0) if kind == "int" else self.value(scope, kind, 1), kind)
                       for at, kind in enumerate(wanted)]
            return lambda named: f"SELECT {listed(named)} {source}", windows
        plain = lambda kind: (self.column(scope, kind) if self.chance(0.7) else None) or self.value(scope, kind, 2)
        distinct = "DISTINCT " if self.chance(0.15) else ""
        return lambda named: f"SELECT {distinct}{listed(named)} {source}", [(plain(kind), kind) for kind in wanted]

    def first_of_groups(self, source, scope, wanted):
        """Rows whose rank in their group is small."""
        rng = self.rng
        keys = [sql for sql, kind in scope if kind != "bool"] or ["1"]
        partition = f"PARTITION BY {rng.choice(keys)} " if self.chance(0.8) else ""
        by = ", ".join(f"{sql} {self.direction()}" for sql in rng.sample(keys, min(len(keys), rng.randint(1, 2))))
        place = f"{rng.choice(['rank', 'dense_rank'])}() OVER ({partition}ORDER BY {by})"
        bound = rng.choice(["<= 1", "= 1", "< 3", "<= 4", "BETWEEN 2 AND 3"])
        plain = lambda kind: self.column(scope, kind) or self.value(scope, kind, 1)
        inner = ", ".join(f"{plain(kind)} AS v{at}" for at, kind in enumerate(wanted))
        alias = self.alias()
        source = f"FROM (SELECT {inner}, {place} AS place {source}) AS {alias} WHERE {alias}.place {bound}"
        return lambda named: f"SELECT {listed(named)} {source}", [(f"{alias}.v{at}", kind) for at, kind in enumerate(wanted)]

    def set_operation(self, depth, size, kinds):
        left, values = self.body(depth, False, size, kinds)
        right, others = self.body(depth, False, self.rng.choice([1, 2]), [kind for _, kind in values])
        rare = ["INTERSECT ALL", "EXCEPT ALL"] if "set-all" not in self.without else []
        operator = self.rng.choice(["UNION", "UNION ALL", "INTERSECT", "EXCEPT", *rare])
        right_sql = right([(value, f"c{at}") for at, (value, _) in enumerate(others)])
        return lambda named: f"{left(named)} {operator} {right_sql}", values

    def window(self, scope, kind, first):
        """Row numbers over a total order.

        Equal rows may be numbered in any order, so two numberings might pair them differently.
        """
        rng = self.rng
        # What rows of one number differ in must be among what orders them.
        ordered = all(kind != "bool" for _, kind in scope)
        scope = [pair for pair in scope if pair[1] != "bool"]
        partition = f"PARTITION BY {rng.choice(scope)[0]} " if self.chance(0.6) else ""
        by = ", ".join(f"{sql} {self.direction()}" for sql, _ in rng.sample(scope, min(len(scope), rng.randint(1, 2))))
        number = self.column(scope, "int") or "1"
        # Row numbers are unsigned in DataFusion, which refuses a minus before them.
        ranks = ["rank", "dense_rank", "row_number" if first and ordered else "rank"]
        return rng.choice([
            lambda: f"CAST({rng.choice(ranks[:2])}() OVER ({partition}ORDER BY {by}) AS BIGINT)",
            lambda: f"count(*) OVER ({partition})",
            lambda: f"sum({number}) OVER ({partition}ORDER BY {by})",
            lambda: f"max({number}) OVER ({partition}ORDER BY {by})",
            lambda: f"CAST({ranks[2]}() OVER (ORDER BY {', '.join(f'{sql} {self.direction()}' for sql, _ in scope)}) AS BIGINT)",
        ])()

    def aggregated(self, source, scope, kinds):
        rng = self.rng
        kinds = kinds or [rng.choice(scope)[1] if self.chance(0.5) else "int" for _ in range(rng.randint(1, 4))]
        grouped = self.chance(0.8)
        values, keys = [], []
        for kind in kinds:
            key = (self.column(scope, kind) if self.chance(0.85) else self.value(scope, kind, 1)) if grouped else None
            if key and self.chance(0.5) and any(f"{sql}" in key for sql, _ in scope) and "SELECT" not in key:
                keys.append(key)
                values.append((key, kind))
            else:
                values.append((self.aggregate(scope, kind), kind))
        keys = list(dict.fromkeys(keys)) or ([scope[0][0]] if grouped else [])
        if len(keys) > 1 and self.chance(0.06):
            group = f" GROUP BY {rng.choice(['ROLLUP', 'CUBE'])} ({', '.join(keys)})"
        else:
            group = f" GROUP BY {', '.join(keys)}" if keys else ""
        having = f" HAVING {self.having(scope)}" if self.chance(0.3) else ""
        return lambda named: f"SELECT {listed(named)} {source}{group}{having}", values

    def aggregate(self, scope, kind):
        rng = self.rng
        column = self.column(scope, kind)
        condition = ""
        if self.chance(0.12):
            saved, self.budget = self.budget, 0
            condition = f" FILTER (WHERE {self.condition(scope, 1)})"
            self.budget = saved
        if kind == "int":
            some = rng.choice(scope)[0]
            shape = rng.choice(["count(*)", f"count({some})", f"count(DISTINCT {some})", f"sum({column or 1})", f"max({column or 1})",
                                f"min({column or 1})", f"sum(DISTINCT {column or 1})"])
            return shape + condition
        if kind == "float":
            number = column or self.column(scope, "int") or "1"
            return rng.choice([f"sum({number}::double)", f"avg({number}::double)", f"max({number}::double)",
                               f"min({number}::double)"]) + condition
        if kind == "bool":
            return f"count(*){condition} > 1"
        return f"{rng.choice(['max', 'min'])}({column or self.constant(kind)}){condition}"

    def having(self, scope):
        aggregate = self.aggregate(scope, "int")
        if self.budget > 0 and self.chance(0.25):
            return f"{aggregate} {self.rng.choice(COMPARISONS)} {self.scalar_subquery([], 'int')}"
        return f"{aggregate} {self.rng.choice(COMPARISONS)} {self.rng.randint(0, 4)}"

    def direction(self):
        return self.rng.choice(["ASC", "DESC"]) + self.rng.choice([" NULLS FIRST", " NULLS LAST"])

    def statement(self):
        """A statement, and whether the order of its rows is total."""
        rng = self.rng
        self.aliases, self.ctes, self.budget = 0, {}, rng.choice([0, 1, 2, 2, 3])
        self.depth = rng.choice([0, 0, 1, 2])
        head = ""
        if self.chance(0.15):
            sql, columns = self.derived(1)
            self.ctes = {"q": columns}
            head = f"WITH q AS ({sql}) "
        body, values = self.body(self.depth, self.chance(0.15), rng.choice([1, 2, 2, 2, 3, 3, 4, 5]))
        sql = head + body([(value, f"c{at}") for at, (value, _) in enumerate(values)])
        ordered = self.chance(0.4)
        if ordered:
            keys = [f"c{at}" for at in range(len(values))]
            rng.shuffle(keys)
            sql += " ORDER BY " + ", ".join(f"{key} {self.direction()}" for key in keys)
            sql += f" LIMIT {rng.choice([1, 2, 5, 10, 100])}" if self.chance(0.6) else ""
            sql += f" OFFSET {rng.choice([0, 1, 3])}" if self.chance(0.2) else ""
        return sql, ordered


def listed(named):
    return ", ".join(f"{value} AS {name}" for value, name in named)
