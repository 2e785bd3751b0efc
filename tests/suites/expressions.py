"""Random SQL values and conditions over the columns in scope.

A column in scope is a pair (its SQL, its kind); kinds are int, float, decimal, text, date and bool.
Everything is deterministic: sums of floats are exact, because all floats are multiples of a
quarter, and nothing depends on the order of rows.
"""

NUMBERS = ("int", "float", "decimal")
TEXTS = ["''", "'a'", "'b'", "'ab'", "'ä'", "'zz'", "'A'"]
# Features that statements can leave out, to look for faults besides the known ones.
LEFT_OUT = ["distinct-from", "lateral", "mark-joins", "merged", "negative-zero", "semi", "set-all", "shared-names", "windows"]
COMPARISONS = ["=", "=", "<>", "<", "<=", ">", ">="]


class Expressions:
    """Values and conditions.

    `Statements` builds on it, and adds what reads tables (subqueries).
    """

    def __init__(self, rng, leave_out=()):
        self.rng, self.budget, self.without = rng, 0, set(leave_out)

    def chance(self, share):
        return self.rng.random() < share

    def constant(self, kind):
        rng = self.rng
        if kind == "int":
            return str(rng.choice([0, 1, 1, 2, 2, 3, 4, 5, 7, 10, 50, -1]))
        if kind == "float":
            return rng.choice(["0.0", "0.5", "1.0", "2.25", "-1.5", "10.0"]) + "::double"
        if kind == "decimal":
            # Some are no double, and some lie between two values of a column.
            return rng.choice(["0.00", "1.00", "2.50", "-3.75", "10.00", "16.78", "0.07", "4.35", "12345.67", "16.785", "2.5"])
        if kind == "text":
            return rng.choice(TEXTS)
        if kind == "date":
            return f"DATE '2020-01-{rng.randint(1, 28):02}'"
        return rng.choice(["true", "false"])

    def column(self, scope, kind):
        """A column of the kind, or of another number kind; None if there is none."""
        same = [sql for sql, of in scope if of == kind]
        return self.rng.choice(same) if same else None

    def value(self, scope, kind, depth=2):
        """A value of exactly this kind."""
        rng = self.rng
        column = self.column(scope, kind)
        if column and (depth <= 0 or self.chance(0.55)):
            return column
        if depth <= 0 or self.chance(0.2):
            return self.constant(kind)
        inner = lambda: self.value(scope, kind, depth - 1)
        shape = rng.randrange(8)
        if shape == 0:
            return f"CASE WHEN {self.below(scope, depth - 1)} THEN {inner()} ELSE {inner()} END"
        if shape == 1:
            return f"CASE WHEN {self.below(scope, depth - 1)} THEN {inner()} END"
        if shape == 2:
            return f"coalesce({inner()}, {inner()})"
        if shape == 3:
            return f"nullif({inner()}, {inner()})"
        if shape == 4 and self.budget > 0:
            return self.scalar_subquery(scope, kind)
        return self.of_kind(scope, kind, depth, inner)

    def of_kind(self, scope, kind, depth, inner):
        rng = self.rng
        if kind in ("int", "float"):
            return rng.choice([
                lambda: f"({inner()} + {inner()})",
                lambda: f"({inner()} - {inner()})",
                lambda: f"({inner()} * {self.constant('int') if kind == 'int' else '2.0::double'})",
                lambda: f"abs({inner()})",
                lambda: f"(- {inner()})" if kind == "int" or "negative-zero" not in self.without else inner(),
            ])()
        if kind == "decimal":
            # The types of decimal sums differ from engine to engine; the values do not.
            return rng.choice([lambda: f"({inner()} + {self.constant(kind)})", lambda: f"abs({inner()})"])()
        if kind == "text":
            return rng.choice([lambda: f"({inner()} || {inner()})", lambda: f"upper({inner()})", lambda: f"lower({inner()})"])()
        if kind == "bool":
            return f"({self.below(scope, depth - 1)})"
        return inner()

    def below(self, scope, depth):
        """A condition that is not a conjunct of a WHERE; subqueries in it become mark joins."""
        if "mark-joins" not in self.without:
            return self.condition(scope, depth)
        saved, self.budget = self.budget, 0
        found = self.condition(scope, depth)
        self.budget = saved
        return found

    def condition(self, scope, depth=2):
        rng = self.rng
        if depth > 0 and self.chance(0.35):
            inner = lambda: self.below(scope, depth - 1)
            return rng.choice([
                lambda: f"({inner()} AND {inner()})",
                lambda: f"({inner()} OR {inner()})",
                lambda: f"({inner()} OR {inner()})",
                lambda: f"NOT ({inner()})",
                lambda: f"({inner()}) IS {rng.choice(['NULL', 'NOT NULL', 'TRUE', 'NOT TRUE', 'NOT FALSE'])}",
            ])()
        if self.budget > 0 and self.chance(0.3):
            return self.subquery_condition(scope)
        return self.simple_condition(scope, depth)

    def simple_condition(self, scope, depth):
        rng = self.rng
        kind = rng.choice(sorted({kind for _, kind in scope if kind != "bool"}) or ["int"])
        left = self.value(scope, kind, min(depth, 1))
        other = rng.choice(NUMBERS) if kind in NUMBERS and self.chance(0.15) else kind
        right = lambda: self.value(scope, other, min(depth, 1)) if self.chance(0.5) else self.constant(other)
        shape = rng.randrange(16)
        if shape == 0:
            return f"{left} IS NULL"
        if shape == 1:
            return f"{left} IS NOT NULL"
        if shape == 2:
            return f"{left} {rng.choice(['', 'NOT '])}BETWEEN {right()} AND {right()}"
        if shape == 3:
            some = [self.constant(other) for _ in range(rng.randint(1, 4))] + (["NULL"] if self.chance(0.15) else [])
            return f"{left} {rng.choice(['', 'NOT '])}IN ({', '.join(some)})"
        if shape == 4 and "distinct-from" not in self.without:
            return f"({left} IS {rng.choice(['', 'NOT '])}DISTINCT FROM {right()})"
        if shape == 5 and kind == "text":
            return f"{left} {rng.choice(['', 'NOT '])}LIKE {rng.choice(['%a%', 'a%', '%b', '_', '%'])!r}"
        return f"{left} {rng.choice(COMPARISONS)} {right()}"

    def scalar_subquery(self, scope, kind):
        raise NotImplementedError

    def subquery_condition(self, scope):
        raise NotImplementedError
