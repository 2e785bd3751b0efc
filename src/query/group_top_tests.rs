use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, Decimal128Array, Float64Array, Int64Array, StringViewArray};
use arrow_schema::{DataType as ArrowType, SortOptions};
use proptest::prelude::*;

use super::group_top::{GroupTop, Ranking};

/// A group, and the values of three columns.
type Row = (Option<i64>, Option<f64>, Option<String>, Option<i128>);

/// How rows are compared: by these columns, each in a direction.
type Order = Vec<(usize, SortOptions)>;

fn compared(a: &Row, b: &Row, order: &Order) -> Ordering {
    fn by<T>(
        a: &Option<T>,
        b: &Option<T>,
        by: SortOptions,
        of: fn(&T, &T) -> Ordering,
    ) -> Ordering {
        let nulls = a.is_none().cmp(&b.is_none());
        match (a, b) {
            (Some(a), Some(b)) if by.descending => of(b, a),
            (Some(a), Some(b)) => of(a, b),
            _ if by.nulls_first => nulls.reverse(),
            _ => nulls,
        }
    }
    let one = |(column, options): &(usize, SortOptions)| match column {
        0 => by(&a.1, &b.1, *options, f64::total_cmp),
        1 => by(&a.2, &b.2, *options, String::cmp),
        _ => by(&a.3, &b.3, *options, i128::cmp),
    };
    order.iter().map(one).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// The rows, by their places, that have numbers up to a limit.
fn expected(rows: &[Row], order: &Order, ranking: Ranking, limit: usize) -> Vec<usize> {
    let mut groups: BTreeMap<Option<i64>, Vec<usize>> = BTreeMap::new();
    (0..rows.len()).for_each(|at| groups.entry(rows[at].0).or_default().push(at));
    let mut first = Vec::new();
    for mut of in groups.into_values() {
        of.sort_by(|a, b| compared(&rows[*a], &rows[*b], order));
        let equal = |a: usize, b: usize| compared(&rows[a], &rows[b], order).is_eq();
        let (mut rank, mut dense) = (0, 0);
        for (number, at) in of.iter().enumerate() {
            if number == 0 || !equal(of[number - 1], *at) {
                (rank, dense) = (number + 1, dense + 1);
            }
            let number = match ranking {
                Ranking::RowNumber => number + 1,
                Ranking::Rank => rank,
                Ranking::DenseRank => dense,
            };
            first.extend((number <= limit).then_some(*at));
        }
    }
    first.sort_unstable();
    first
}

fn column(rows: &[Row], at: usize) -> ArrayRef {
    match at {
        0 => Arc::new(rows.iter().map(|row| row.1).collect::<Float64Array>()),
        1 => Arc::new(rows.iter().map(|row| row.2.as_deref()).collect::<StringViewArray>()),
        _ => Arc::new(rows.iter().map(|row| row.3).collect::<Decimal128Array>()),
    }
}

/// The same by candidates, which are looked through after each batch and forgotten now and then.
fn found(
    batches: &[Vec<Row>],
    order: &Order,
    (ranking, limit): (Ranking, usize),
    forgets: bool,
) -> Vec<usize> {
    let types = |at: usize| column(&[], at).data_type().clone();
    let by: Vec<(ArrowType, SortOptions)> =
        order.iter().map(|(at, options)| (types(*at), *options)).collect();
    let mut top = GroupTop::new(&[ArrowType::Int64], &by, ranking, limit).unwrap();
    let (mut start, mut held, mut out) = (0, Vec::new(), Vec::new());
    for (number, rows) in batches.iter().enumerate() {
        let keys: ArrayRef = Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>());
        let order: Vec<ArrayRef> = order.iter().map(|(at, _)| column(rows, *at)).collect();
        let places = top.enter(&[keys], &order, rows.len()).unwrap();
        held.extend(places.iter().map(|place| start + *place as usize));
        start += rows.len();
        let stays = top.prune();
        held = stays.set_indices().map(|at| held[at]).collect();
        assert_eq!(held.len(), top.len());
        if forgets && number % 3 == 1 {
            top.forget();
            out.append(&mut held);
        }
    }
    out.append(&mut held);
    out
}

fn rows() -> impl Strategy<Value = Vec<Vec<Row>>> {
    let float =
        prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(0.0), (-3..4i32).prop_map(f64::from)];
    let text = prop_oneof![
        3 => "[ab\u{0}\u{ff}]{0,2}",
        1 => "[ab]{0,2}".prop_map(|end| "http://www.".to_owned() + &end),
    ];
    let decimal = prop_oneof![
        -2..3i128,
        Just(i128::from(i64::MAX)),
        Just(i128::from(i64::MAX) + 1),
        Just(i128::from(i64::MIN) - 5),
    ];
    let row = (
        prop::option::of(-2..3i64),
        prop::option::of(float),
        prop::option::of(text),
        prop::option::of(decimal),
    );
    prop::collection::vec(prop::collection::vec(row, 0..40), 0..8)
}

fn order() -> impl Strategy<Value = Order> {
    let options = (any::<bool>(), any::<bool>())
        .prop_map(|(descending, nulls_first)| SortOptions { descending, nulls_first });
    let columns = prop::sample::subsequence(vec![0, 1, 2], 1..=3).prop_shuffle();
    (columns, prop::collection::vec(options, 3))
        .prop_map(|(columns, options)| columns.into_iter().zip(options).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_first_rows_are_those_of_a_sort(
        batches in rows(),
        order in order(),
        ranking in prop_oneof![
            Just(Ranking::RowNumber), Just(Ranking::Rank), Just(Ranking::DenseRank),
        ],
        limit in 1..5usize,
    ) {
        let rows: Vec<Row> = batches.iter().flatten().cloned().collect();
        let expected = expected(&rows, &order, ranking, limit);
        prop_assert_eq!(&found(&batches, &order, (ranking, limit), false), &expected);
        // What was let go is never missing.
        let more = found(&batches, &order, (ranking, limit), true);
        prop_assert!(expected.iter().all(|row| more.contains(row)));
    }
}

#[test]
fn without_keys_or_an_order_the_first_rows_that_come_are_taken() {
    let mut top = GroupTop::new(&[], &[], Ranking::RowNumber, 3).unwrap();
    assert_eq!(top.enter(&[], &[], 2).unwrap(), [0, 1]);
    assert_eq!(top.enter(&[], &[], 5).unwrap(), [0, 1, 2, 3, 4]);
    let stays = top.prune();
    assert_eq!(stays.set_indices().collect::<Vec<_>>(), [0, 1, 2]);
    assert!(top.enter(&[], &[], 5).unwrap().is_empty());
}

#[test]
fn null_and_the_greatest_integer_are_told_apart() {
    let order = [(ArrowType::Int64, SortOptions { descending: false, nulls_first: false })];
    let mut top = GroupTop::new(&[], &order, Ranking::RowNumber, 1).unwrap();
    let mut enter = |value: Option<i64>| {
        let key: ArrayRef = Arc::new(Int64Array::from(vec![value]));
        let entered = top.enter(&[], &[key], 1).unwrap().len();
        top.prune();
        entered
    };
    assert_eq!([enter(None), enter(Some(i64::MAX)), enter(None)], [1, 1, 0]);
}

#[test]
fn groups_are_told_apart_by_keys_of_any_type() {
    let integers = |n: usize| -> ArrayRef {
        Arc::new((0..n as i64).map(|v| (v % 3 > 0).then_some(v % 5)).collect::<Int64Array>())
    };
    let texts = |n: usize| -> ArrayRef {
        Arc::new(
            (0..n).map(|v| (v % 2 > 0).then(|| format!("{}", v % 7))).collect::<StringViewArray>(),
        )
    };
    let types = [ArrowType::Int64, ArrowType::Int64, ArrowType::Utf8View];
    for (columns, groups) in [(1, 6), (2, 6), (3, 6 * 8)] {
        let mut top = GroupTop::new(&types[..columns], &[], Ranking::RowNumber, 1).unwrap();
        let keys = [integers(1000), integers(1000), texts(1000)];
        top.enter(&keys[..columns], &[], 1000).unwrap();
        assert_eq!(top.prune().count_set_bits(), groups);
        assert_eq!(top.groups(), groups);
    }
}
