use std::collections::BTreeMap;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Float64Array, Int64Array, StringArray,
};
use arrow_cast::cast;
use arrow_schema::TimeUnit;
use datafusion::logical_expr::EmitTo;
use proptest::prelude::*;

use super::*;

const GROUPS: usize = 5;
/// From 0 on, negative from the greatest value on.
const FRACTIONS: [f64; 7] = [0.0, 0.25, 0.5, 0.99, 1.0, -0.1, -1.0];

fn types() -> Vec<DataType> {
    vec![
        DataType::Int32,
        DataType::UInt64,
        DataType::Float64,
        DataType::Float32,
        DataType::Decimal128(10, 2),
        DataType::Decimal128(30, 2),
        DataType::Date32,
        DataType::Timestamp(TimeUnit::Microsecond, Some("+01:00".into())),
        DataType::Utf8,
        DataType::Utf8View,
        DataType::Binary,
        DataType::Time32(TimeUnit::Second),
    ]
}

/// Values in the order of their numbers, of which `greatest` is the last one. Zeros may be
/// negative, unless `is_answer`.
fn values(of: &DataType, numbers: &[Option<i64>], greatest: i64, is_answer: bool) -> ArrayRef {
    let float = |(at, number): (usize, &Option<i64>)| match (*number)? {
        0 if at % 2 == 0 && !is_answer => Some(-0.0),
        number if number == greatest => {
            Some(if at % 2 == 0 && !is_answer { -f64::NAN } else { f64::NAN })
        }
        number => Some(number as f64 / 4.0),
    };
    let text = |number: &i64| format!("all of these texts begin alike {number:03}");
    let texts = || numbers.iter().map(|number| number.as_ref().map(text));
    let integers: ArrayRef = Arc::new(Int64Array::from(numbers.to_vec()));
    let given: ArrayRef = match of {
        of if of.is_floating() => {
            Arc::new(numbers.iter().enumerate().map(float).collect::<Float64Array>())
        }
        of if of.is_string() => Arc::new(StringArray::from_iter(texts())),
        DataType::Binary => Arc::new(BinaryArray::from_iter(texts())),
        DataType::Date32 | DataType::Time32(_) => cast(&integers, &DataType::Int32).unwrap(),
        _ => integers,
    };
    cast(&given, of).unwrap()
}

type Counted = BTreeMap<i64, u64>;

fn mode(counted: &Counted) -> Option<i64> {
    let most = counted.values().max()?;
    counted.iter().find(|(_, count)| *count == most).map(|(number, _)| *number)
}

fn quantile(counted: &Counted, fraction: f64) -> Option<i64> {
    let times = |(number, count): (&i64, &u64)| std::iter::repeat_n(*number, *count as usize);
    let all = counted.iter().flat_map(times);
    let mut all: Vec<i64> = all.collect();
    if fraction < 0.0 {
        all.reverse();
    }
    let rows = all.len() as f64;
    let wanted = rows - (rows - fraction.abs() * rows).floor();
    all.get((wanted.max(1.0) as usize) - 1).copied()
}

fn most_frequent(counted: &Counted, count: usize) -> Vec<i64> {
    let mut all: Vec<(&i64, &u64)> = counted.iter().collect();
    all.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    all.into_iter().take(count).map(|(number, _)| *number).collect()
}

/// Whether answers of groups are those of these counts.
fn check(kind: Kind, of: &DataType, greatest: i64, counted: &[Counted], answers: &ArrayRef) {
    let expected = |numbers: Vec<Option<i64>>| values(of, &numbers, greatest, true);
    let flat = |numbers: Vec<Vec<i64>>| {
        let lengths: Vec<usize> = numbers.iter().map(Vec::len).collect();
        (expected(numbers.concat().into_iter().map(Some).collect()), lengths)
    };
    let of_fraction = |fraction: f64| {
        expected(counted.iter().map(|counted| quantile(counted, fraction)).collect())
    };
    match kind {
        Kind::Mode => assert_eq!(answers, &expected(counted.iter().map(mode).collect())),
        Kind::Quantile => assert_eq!(answers, &of_fraction(FRACTIONS[1])),
        Kind::Quantiles => {
            let columns = FRACTIONS.map(of_fraction);
            assert_eq!(answers.as_struct().columns(), columns);
        }
        Kind::TopK => {
            let lists = counted.iter().map(|counted| most_frequent(counted, 3)).collect();
            let (numbers, lengths) = flat(lists);
            let answers = answers.as_list::<i32>();
            assert_eq!(answers.values(), &numbers);
            assert_eq!(answers.offsets().lengths().collect::<Vec<_>>(), lengths);
        }
        Kind::Histogram => {
            let keys = counted.iter().map(|counted| counted.keys().copied().collect()).collect();
            let (keys, lengths) = flat(keys);
            let times: Vec<u64> = counted.iter().flat_map(|it| it.values().copied()).collect();
            let answers = answers.as_map();
            assert_eq!(answers.keys(), &keys);
            assert_eq!(answers.values().as_primitive::<UInt64Type>().values().to_vec(), times);
            assert_eq!(answers.offsets().lengths().collect::<Vec<_>>(), lengths);
            let is_null = |(at, length): (usize, &usize)| answers.is_null(at) == (*length == 0);
            assert!(lengths.iter().enumerate().all(is_null));
        }
    }
}

fn tallies(kind: Kind, is_distinct: bool, of: &DataType) -> Tallies {
    let numbers = match kind {
        Kind::Mode | Kind::Histogram => Vec::new(),
        Kind::TopK => vec![3.0],
        Kind::Quantile => vec![FRACTIONS[1]],
        Kind::Quantiles => FRACTIONS.to_vec(),
    };
    Tallies::new(kind, numbers, is_distinct, of.clone()).unwrap()
}

fn kinds() -> impl Strategy<Value = Kind> {
    let kinds = [Kind::Mode, Kind::Quantile, Kind::Quantiles, Kind::TopK, Kind::Histogram];
    prop::sample::select(kinds.to_vec())
}

/// Some numbers of few or of many.
fn numbers() -> impl Strategy<Value = (i64, Vec<(usize, Option<i64>, bool)>)> {
    prop::sample::select(vec![2_i64, 9, 30, 400]).prop_flat_map(|greatest| {
        let row = (0..GROUPS, prop::option::weighted(0.9, 0..=greatest), prop::bool::weighted(0.9));
        (Just(greatest), prop::collection::vec(row, 0..400))
    })
}

proptest! {
    #[test]
    fn answers_are_those_of_all_rows(
        kind in kinds(),
        (greatest, rows) in numbers(),
        of in prop::sample::select(types()),
        batch in 1usize..90,
        emitted in 0..GROUPS,
        emitted_after in 0usize..400,
        is_distinct in any::<bool>(),
    ) {
        let mut own = tallies(kind, is_distinct, &of);
        own.update_batch(&[values(&of, &[], greatest, false)], &[], None, GROUPS).unwrap();
        let mut counted = vec![Counted::new(); GROUPS];
        let mut gone = 0;
        for (number, rows) in rows.chunks(batch).enumerate() {
            // Once groups are handed out, those behind them have smaller numbers.
            if gone == 0 && number * batch >= emitted_after {
                let answers = own.evaluate(EmitTo::First(emitted)).unwrap();
                let of_gone: Vec<Counted> = counted.drain(..emitted).collect();
                check(kind, &of, greatest, &of_gone, &answers);
                gone = emitted;
            }
            let rows = rows.iter().filter(|(group, _, _)| *group >= gone);
            let rows: Vec<_> = rows.collect();
            for (group, value, passes) in &rows {
                if let (Some(value), true) = (value, passes) {
                    let count = counted[group - gone].entry(*value).or_default();
                    *count = if is_distinct { 1 } else { *count + 1 };
                }
            }
            let groups: Vec<usize> = rows.iter().map(|row| row.0 - gone).collect();
            let of_rows: Vec<Option<i64>> = rows.iter().map(|row| row.1).collect();
            let given = [values(&of, &of_rows, greatest, false)];
            let filter = BooleanArray::from_iter(rows.iter().map(|row| Some(row.2)));
            let total = GROUPS - gone;
            match number % 3 {
                0 => own.update_batch(&given, &groups, Some(&filter), total).unwrap(),
                1 => {
                    let states = own.convert_to_state(&given, Some(&filter)).unwrap();
                    own.merge_batch(&states, &groups, total).unwrap();
                }
                _ => {
                    let mut part = tallies(kind, is_distinct, &of);
                    part.update_batch(&given, &groups, Some(&filter), total).unwrap();
                    let first = part.state(EmitTo::First(total / 2)).unwrap();
                    let groups: Vec<usize> = (0..total / 2).collect();
                    own.merge_batch(&first, &groups, total).unwrap();
                    let rest = part.state(EmitTo::All).unwrap();
                    let groups: Vec<usize> = (total / 2..total).collect();
                    own.merge_batch(&rest, &groups, total).unwrap();
                    assert_eq!(part.counts_size(), 0);
                }
            }
        }
        let answers = own.evaluate(EmitTo::All).unwrap();
        check(kind, &of, greatest, &counted, &answers);
    }

    /// A window goes on after an answer.
    #[test]
    fn one_group_stays(
        kind in kinds(),
        (greatest, rows) in numbers(),
        of in prop::sample::select(types()),
        batch in 1usize..90,
        is_distinct in any::<bool>(),
    ) {
        let mut own = tallies(kind, is_distinct, &of).alone().unwrap();
        let mut merged = tallies(kind, is_distinct, &of).alone().unwrap();
        let mut counted = Counted::new();
        for rows in rows.chunks(batch) {
            let of_rows: Vec<Option<i64>> = rows.iter().map(|row| row.1).collect();
            for number in of_rows.iter().flatten() {
                let count = counted.entry(*number).or_default();
                *count = if is_distinct { 1 } else { *count + 1 };
            }
            own.update_batch(&[values(&of, &of_rows, greatest, false)]).unwrap();
            let answer = own.evaluate().unwrap().to_array().unwrap();
            check(kind, &of, greatest, std::slice::from_ref(&counted), &answer);
            let mut part = tallies(kind, is_distinct, &of).alone().unwrap();
            part.update_batch(&[values(&of, &of_rows, greatest, false)]).unwrap();
            let states = part.state().unwrap();
            let states: Vec<ArrayRef> = states.iter().map(|it| it.to_array().unwrap()).collect();
            merged.merge_batch(&states).unwrap();
        }
        let answer = merged.evaluate().unwrap().to_array().unwrap();
        check(kind, &of, greatest, std::slice::from_ref(&counted), &answer);
    }
}

/// Counts that need more than 32 bits come from merged states.
#[test]
fn counts_have_64_bits() {
    let times = i64::from(u32::MAX) - 1;
    let mut own = tallies(Kind::Histogram, false, &DataType::Utf8);
    for text in ["a", "b", "a"] {
        let mut part = tallies(Kind::Histogram, false, &DataType::Utf8);
        let given: ArrayRef = Arc::new(StringArray::from(vec![text, text]));
        part.update_batch(&[given], &[0, 0], None, 1).unwrap();
        let mut states = part.state(EmitTo::All).unwrap();
        let counts = states[1].as_list::<i32>();
        let many = counts.values().as_primitive::<Int64Type>().unary::<_, Int64Type>(|_| times);
        let (field, offsets, _, nulls) = counts.clone().into_parts();
        let many = arrow_array::ListArray::new(field, offsets, Arc::new(many), nulls);
        states[1] = Arc::new(many);
        own.merge_batch(&states, &[0], 1).unwrap();
    }
    let answer = own.evaluate(EmitTo::All).unwrap();
    let counts = answer.as_map().values().as_primitive::<UInt64Type>().values().to_vec();
    assert_eq!(counts, [2 * times as u64, times as u64]);
}

/// What lists take is known without looking at them.
#[test]
fn memory_is_counted() {
    let mut own = tallies(Kind::Quantile, false, &DataType::Float64);
    for batch in 0..50_i64 {
        let numbers = (0..1000).map(|at| Some((batch * 1000 + at) * 7919 % 50_000));
        let given = values(&DataType::Float64, &numbers.collect::<Vec<_>>(), -1, false);
        let groups: Vec<usize> = (0..1000).map(|at| at % GROUPS).collect();
        own.update_batch(&[given], &groups, None, GROUPS).unwrap();
    }
    assert_eq!(own.counts_size(), own.counts_bytes());
    assert!((400_000..2_000_000).contains(&own.size()), "{}", own.size());
    own.evaluate(EmitTo::First(3)).unwrap();
    assert_eq!(own.counts_size(), own.counts_bytes());
    own.evaluate(EmitTo::All).unwrap();
    assert_eq!(own.size(), 0);
}
