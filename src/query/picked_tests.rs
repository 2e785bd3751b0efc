//! Values of the first and last rows of orders, against the same found row by row.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{ArrayRef, BooleanArray};
use arrow_schema::DataType as ArrowType;

use super::tests::{Row, aggregate, answer, column, computed, rows, shown, store};
use super::*;
use crate::expr::{Expression, Traits};

/// The value of one column in the first row by another one, perhaps descending.
pub(super) fn picked(of: usize, by: Option<(usize, bool)>, last: bool) -> Aggregate {
    let function = AggregateFunction::Picked { ignore_nulls: false, ignore_null_keys: false, last };
    let order = by.map(|(by, descending)| OrderBy {
        expression: column(by),
        descending,
        nulls_first: descending,
    });
    Aggregate { order, ..aggregate(function, Some(of)) }
}

fn is_even(inputs: &[ArrayRef]) -> ArrayRef {
    let values = inputs[0].as_primitive::<Int64Type>();
    Arc::new(values.iter().map(|v| v.map(|v| v % 2 == 0)).collect::<BooleanArray>())
}

/// Doubles without their fractions, of which many are equal, and both zeros.
fn whole(inputs: &[ArrayRef]) -> ArrayRef {
    let values = inputs[0].as_primitive::<Float64Type>();
    Arc::new(values.unary::<_, Float64Type>(|v| (v / 4.0).trunc()))
}

/// What decides of two rows, and whether a row counts.
struct Case {
    aggregate: Aggregate,
    value: fn(&Row) -> String,
    order: fn(&Row, &Row) -> Ordering,
    counts: fn(&Row) -> bool,
}

fn text(row: &Row) -> String {
    row.text.map_or("null".into(), str::to_owned)
}

fn decimal(row: &Row) -> String {
    row.decimal.map_or("null".into(), |v| format!("{v:?}"))
}

/// Nulls are last, as in an order that ascends.
fn by_decimal(a: &Row, b: &Row) -> Ordering {
    let (is_null, key) =
        (|row: &Row| row.decimal.is_none(), |row: &Row| row.decimal.unwrap_or(0.0));
    is_null(a).cmp(&is_null(b)).then(key(a).total_cmp(&key(b)))
}

fn by_whole(a: &Row, b: &Row) -> Ordering {
    let key = |row: &Row| row.decimal.map(|v| (v / 4.0).trunc() as i64);
    key(a).is_none().cmp(&key(b).is_none()).then(key(a).cmp(&key(b)))
}

fn cases() -> Vec<Case> {
    let any = |_: &Row| true;
    let case = |aggregate, value, order| Case { aggregate, value, order, counts: any };
    let rising = |row: &Row| row.rising.to_string();
    let of_whole = |aggregate: Aggregate| {
        let expression = computed(vec![2], ArrowType::Float64, Traits::default(), whole);
        let order = OrderBy { expression, descending: false, nulls_first: false };
        Aggregate { order: Some(order), ..aggregate }
    };
    let ignoring = |aggregate: Aggregate, ignore_nulls, ignore_null_keys| {
        let function = AggregateFunction::Picked { ignore_nulls, ignore_null_keys, last: false };
        Aggregate { function, ..aggregate }
    };
    let even = computed(vec![3], ArrowType::Boolean, Traits::default(), is_even);
    vec![
        case(picked(3, Some((2, false)), false), rising, by_decimal),
        case(picked(3, Some((2, true)), false), rising, |a, b| by_decimal(b, a)),
        case(picked(1, Some((3, true)), false), text, |a, b| b.rising.cmp(&a.rising)),
        case(picked(2, Some((3, false)), false), decimal, |a, b| a.rising.cmp(&b.rising)),
        case(of_whole(picked(3, None, false)), rising, by_whole),
        case(of_whole(picked(1, None, true)), text, |a, b| {
            by_whole(a, b).then(b.rising.cmp(&a.rising))
        }),
        case(picked(1, None, false), text, |_, _| Ordering::Equal),
        case(picked(2, None, true), decimal, |a, b| b.rising.cmp(&a.rising)),
        Case {
            counts: |row| row.decimal.is_some(),
            ..case(ignoring(picked(3, Some((2, true)), false), false, true), rising, |a, b| {
                by_decimal(b, a)
            })
        },
        Case {
            counts: |row| row.text.is_some() && row.rising % 2 == 0,
            ..case(
                Aggregate {
                    filter: Some(even),
                    ..ignoring(picked(1, Some((3, true)), false), true, false)
                },
                text,
                |a, b| b.rising.cmp(&a.rising),
            )
        },
    ]
}

#[test]
fn the_first_row_of_each_group_gives_the_value() {
    let dir = tempfile::tempdir().unwrap();
    // Numbers rise with the rows of the table.
    let parts = [rows(30_000, 0), rows(30_000, 1), rows(30_000, 2)];
    let all: Vec<Row> = parts.concat();
    let snapshot = store(dir.path(), &parts);
    for keys in [vec![], vec![column(1)], vec![column(2)], vec![column(1), column(2)]] {
        let of = |row: &Row| {
            let key = |key: &Expression| if key.inputs == [1] { text(row) } else { decimal(row) };
            keys.iter().map(key).collect::<Vec<_>>()
        };
        let mut groups: BTreeMap<Vec<String>, Vec<&Row>> = BTreeMap::new();
        all.iter().for_each(|row| groups.entry(of(row)).or_default().push(row));
        let value = |rows: &[&Row], case: &Case| {
            let mut rows: Vec<&&Row> = rows.iter().filter(|row| (case.counts)(row)).collect();
            rows.sort_by(|a, b| (case.order)(a, b));
            rows.first().map_or("null".into(), |row| (case.value)(row))
        };
        let line = |(mut line, rows): (Vec<String>, Vec<&Row>)| {
            line.extend(cases().iter().map(|case| value(&rows, case)));
            line.join("|")
        };
        let mut expected: Vec<String> = groups.into_iter().map(line).collect();
        expected.sort();
        let aggregates = cases().into_iter().map(|case| case.aggregate).collect();
        let output = Output::Aggregate { keys: keys.clone(), aggregates, first: None };
        assert!(shown(&answer(&snapshot, vec![], output)) == expected, "{keys:?}");
    }
}
