"""Checks an answer to a TPC query: order, limits with ties, and truncated decimals."""

import math
from collections import defaultdict
from decimal import Decimal

import pyarrow

from compare import TOLERANCE, plain


class Right:
    """The oracle's answer: all rows without the limit, their ranks, and the number of wanted rows.
    """

    def __init__(self, names, rows, ranks, wanted, seconds):
        self.names, self.wanted, self.seconds = names, wanted, seconds
        self.ordered = ranks is not None
        self.runs = defaultdict(list)
        for row, rank in zip(rows, ranks or [0] * len(rows)):
            self.runs[rank].append(row)

    def judge(self, table, digits=1):
        """None if the Arrow table is right; else (how bad, what): `scale` if only last digits of
        decimals differ.

        They may differ by `digits` units of the last digit.
        """
        if table.num_rows != self.wanted:
            return "wrong", f"{table.num_rows} rows, not {self.wanted}"
        if table.num_columns != len(self.names):
            return "wrong", f"{table.num_columns} columns, not {len(self.names)}"
        rows = [tuple(row) for row in zip(*(column.to_pylist() for column in table.columns))]
        scales = [digits * 10.0 ** -field.type.scale if pyarrow.types.is_decimal(field.type) else 0.0 for field in table.schema]
        strict = self.compare(rows, [0.0] * len(scales))
        if strict is None:
            return None
        loose = self.compare(rows, scales)
        return ("wrong", loose) if loose else ("scale", strict)

    def compare(self, rows, tolerances):
        """Checks each run of equal ranks: our rows there must be among those of the run."""
        at = 0
        for _, run in sorted(self.runs.items()):
            mine = rows[at:at + len(run)]
            if bad := unmatched(mine, run, tolerances):
                return f"row {at + mine.index(bad)}: {bad} is not among the {len(run)} of its rank, such as {run[0]}"
            at += len(mine)
            if at >= len(rows):
                break
        return None


def unmatched(rows, run, tolerances):
    """The first row that is not in the run; each row of the run can be used once."""
    free = defaultdict(list)
    for row in run:
        free[exact(row)].append(row)
    for row in rows:
        candidates = free[exact(row)]
        twin = next((at for at, other in enumerate(candidates) if alike(row, other, tolerances)), None)
        if twin is None:
            return row
        candidates.pop(twin)
    return None


def exact(row):
    """The parts of a row that must be exactly equal: all but numbers, and the places of NULLs."""
    return tuple("number" if is_number(value) else plain(value) for value in row)


def is_number(value):
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


def alike(ours, theirs, tolerances):
    for a, b, tolerance in zip(ours, theirs, tolerances):
        if is_number(a) and is_number(b) and a != b:
            exactly = not isinstance(a, float) and not isinstance(b, float)
            if exactly and not tolerance or not math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=tolerance):
                return False
    return True
