"""Compares the rows of two engines: numbers by value, floats to nine digits, all else exactly."""

import datetime
import math
from collections import Counter
from decimal import Decimal

TOLERANCE = 1e-9


def plain(value):
    """A value that is equal and hashes alike in all engines.

    Whole numbers are ints, other numbers floats to ten digits.
    """
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, Decimal):
        if value.is_finite() and value == value.to_integral_value():
            return int(value)
        return plain(float(value))
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        if value == int(value) and abs(value) < 1e15:
            return int(value)
        return float(f"{value:.10e}")
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray)):
        return "\\x" + value.hex()
    if isinstance(value, (list, tuple)):
        return tuple(plain(part) for part in value)
    return value


def plain_rows(rows):
    return [tuple(plain(value) for value in row) for row in rows]


def order(row):
    """A key by which rows of any types can be sorted."""
    return tuple((value is not None, str(type(value)) if isinstance(value, (str, tuple)) else "", value if value is not None else 0)
                 for value in row)


def difference(ours, theirs, ordered=False):
    """None, or a text that says how the rows differ. `theirs` are right."""
    ours, theirs = plain_rows(ours), plain_rows(theirs)
    if ordered and ours == theirs or not ordered and Counter(ours) == Counter(theirs):
        return None
    if len(ours) == len(theirs):
        pairs = zip(ours, theirs) if ordered else zip(sorted(ours, key=order), sorted(theirs, key=order))
        if all(close(a, b) for a, b in pairs):
            return None
    missing, extra = Counter(theirs) - Counter(ours), Counter(ours) - Counter(theirs)
    if not missing and not extra:
        return "the rows are right, their order is not"
    return (f"{len(ours)} rows, not {len(theirs)}; {sum(missing.values())} missing, such as {first(missing)}; "
            f"{sum(extra.values())} too many, such as {first(extra)}")


def first(rows):
    return next(iter(rows), "none")


def close(ours, theirs):
    """Whether two rows are equal, floats to nine digits."""
    return len(ours) == len(theirs) and all(map(close_values, ours, theirs))


def close_values(a, b):
    if a == b and isinstance(a, bool) == isinstance(b, bool):
        return True
    numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in (a, b))
    return numbers and math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=1e-12)
