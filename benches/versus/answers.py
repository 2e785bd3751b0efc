"""Compares two answers, given as Parquet files: the same rows in any order?"""

import numpy
import pyarrow
import pyarrow.compute as compute
import pyarrow.parquet as parquet

TOLERANCE = 1e-9


def columns(file):
    """The columns as text or floats: engines differ in integer widths, decimals and time units."""
    return [comparable(column) for column in parquet.read_table(file).columns]


def comparable(column):
    column = column.combine_chunks()
    kind = column.type
    if pyarrow.types.is_dictionary(kind):
        column = column.dictionary_decode()
        kind = column.type
    if pyarrow.types.is_timestamp(kind):
        column = column.cast(pyarrow.timestamp("us", tz=kind.tz)).cast(pyarrow.int64())
    elif pyarrow.types.is_binary(kind) or pyarrow.types.is_large_binary(kind):
        return column.cast(pyarrow.large_utf8())
    elif not is_number(kind):
        return column.cast(pyarrow.large_utf8())
    return column.cast(pyarrow.float64(), safe=False)


def is_number(kind):
    types = pyarrow.types
    return types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(
        kind) or types.is_null(kind)


def rounded(column):
    """Rounds to nine digits, so that sums that differ in the last ones sort alike; -0 becomes 0."""
    if column.type != pyarrow.float64():
        return column
    values = column.to_numpy(zero_copy_only=False)
    with numpy.errstate(all="ignore"):
        scale = 10.0 ** (8 - numpy.floor(numpy.log10(numpy.abs(values))))
        rounded = numpy.where(numpy.isfinite(scale),
                              numpy.round(values * scale) / scale, values) + 0.0
    return pyarrow.array(rounded, mask=compute.is_null(column).to_numpy(zero_copy_only=False))


def sort_rows(found):
    """Sorts the rows: by texts first, then by numbers."""
    table = pyarrow.table({f"c{at}": rounded(column) for at, column in enumerate(found)})
    keys = sorted(range(len(found)), key=lambda at: found[at].type == pyarrow.float64())
    order = compute.sort_indices(table, [(f"c{at}", "ascending") for at in keys])
    return [column.take(order) for column in found]


def without_ties(found):
    """Drops the rows whose last value is the least: a LIMIT may return any of them."""
    last = found[-1]
    keep = compute.greater(last, compute.min(last))
    return [column.filter(keep) for column in found]


def difference(ours, theirs, ties):
    """None, or a description of the first row that differs."""
    ours, theirs = columns(ours), columns(theirs)
    if len(ours) != len(theirs):
        return f"{len(ours)} columns, not {len(theirs)}"
    if len(ours[0]) != len(theirs[0]):
        return f"{len(ours[0])} rows, not {len(theirs[0])}"
    if ties:
        if bad := first_difference(sort_rows(ours[-1:]), sort_rows(theirs[-1:])):
            return bad
        ours, theirs = without_ties(ours), without_ties(theirs)
    return first_difference(sort_rows(ours), sort_rows(theirs))


def first_difference(ours, theirs):
    for number, (a, b) in enumerate(zip(ours, theirs)):
        if a.type != b.type and len(a) != a.null_count and len(b) != b.null_count:
            return f"column {number}: {a.type}, not {b.type}"
        if a.type == pyarrow.float64() and b.type == pyarrow.float64():
            nulls = compute.is_null(a).to_numpy(
                zero_copy_only=False) == compute.is_null(b).to_numpy(zero_copy_only=False)
            x, y = a.to_numpy(zero_copy_only=False), b.to_numpy(zero_copy_only=False)
            same = nulls & numpy.isclose(x, y, rtol=TOLERANCE, atol=1e-9, equal_nan=True)
        else:
            equal = compute.fill_null(compute.equal(a, b),
                                      False) if a.type == b.type else compute.is_null(a)
            both = compute.and_(compute.is_null(a), compute.is_null(b))
            same = compute.or_(equal, both).to_numpy(zero_copy_only=False)
        wrong = numpy.flatnonzero(~same.astype(bool))
        if len(wrong):
            row = lambda found: [column[int(wrong[0])].as_py() for column in found]
            return f"{len(wrong)} rows differ, such as {row(ours)}, not {row(theirs)}"
    return None
