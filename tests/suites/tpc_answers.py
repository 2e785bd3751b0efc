"""Whether an answer to a TPC query is right: order, limits with ties, and decimals that end after some digits."""

import math
from collections import defaultdict
from decimal import Decimal

import pyarrow

from compare import TOLERANCE, plain


class Right:
    """What the oracle says: all rows without the limit, the rank of each in the order asked for, and how many are wanted."""

    def __init__(self, names, rows, ranks, wanted, seconds):
        self.names, self.wanted, self.seconds = names, wanted, seconds
        self.ordered = ranks is not None
        self.runs = defaultdict(list)
        for row, rank in zip(rows, ranks or [0] * len(rows)):
            self.runs[rank].append(row)

    def judge(self, table, digits=1):
        """None if the Arrow table is right; else (how bad, what): `scale` if only the last of a decimal's digits differ.

        By how much they may differ is `digits`, in units of the last one.
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
        """Walks over the runs of equal rank: our rows there must be among those of the run."""
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
    """The first row that is not in the run, each of whose rows is used once."""
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
    """What must be the same to the last digit: all that is no number, and where NULL stands."""
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
