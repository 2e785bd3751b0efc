use proptest::prelude::*;

use super::*;
use crate::block::{Bound, Order};
use crate::expr::Pattern;

/// One nullable column of each kind that compares differently, with rows drawn from few values so
/// that equality, prefixes and constants happen.
fn column(kind: u8) -> BoxedStrategy<(DataType, Vec<Option<Scalar>>)> {
    let value: BoxedStrategy<Scalar> = scalar(kind);
    let data_type = kind_type(kind);
    proptest::collection::vec(proptest::option::weighted(0.8, value), 1..6)
        .prop_map(move |rows| (data_type.clone(), rows))
        .boxed()
}

fn kind_type(kind: u8) -> DataType {
    match kind {
        0 => DataType::Int32,
        1 => DataType::Float64,
        _ => DataType::Utf8,
    }
}

fn scalar(kind: u8) -> BoxedStrategy<Scalar> {
    match kind {
        0 => (-2_i128..3).prop_map(Scalar::Int).boxed(),
        1 => proptest::sample::select(vec![
            -0.0,
            0.0,
            1.0,
            -1.0,
            f64::NAN,
            -f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
        ])
        .prop_map(Scalar::Float)
        .boxed(),
        _ => proptest::sample::select(vec!["", "a", "ab", "abc", "b", "ac", "\u{10ffff}"])
            .prop_map(|text| Scalar::Bytes(text.as_bytes().into()))
            .boxed(),
    }
}

fn stats(rows: &[Option<Scalar>], loosen: bool) -> Stats {
    let mut values: Vec<Scalar> = rows.iter().flatten().cloned().collect();
    values.sort_by(|a, b| a.total_cmp(b).unwrap());
    let nans = values.iter().filter(|v| matches!(v, Scalar::Float(f) if f.is_nan())).count() as u64;
    let bound = |value: Option<&Scalar>, up: bool| {
        value.cloned().map(|value| match (loosen, value) {
            (true, Scalar::Int(v)) => {
                Bound { value: Scalar::Int(if up { v + 1 } else { v - 1 }), exact: false }
            }
            (true, Scalar::Bytes(v)) if up => {
                Bound { value: Scalar::Bytes([&v[..], b"\0"].concat().into()), exact: false }
            }
            (true, Scalar::Bytes(v)) => {
                Bound { value: Scalar::Bytes(v[..v.len().saturating_sub(1)].into()), exact: false }
            }
            (_, value) => Bound { value, exact: true },
        })
    };
    Stats {
        rows: rows.len() as u64,
        nulls: (rows.len() - values.len()) as u64,
        nans,
        min: bound(values.first(), false),
        max: bound(values.last(), true),
        order: Order::default(),
        ..Stats::default()
    }
}

fn leaf(kind: u8) -> BoxedStrategy<Predicate> {
    use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
    let operand = Operand { column: ColumnId(u32::from(kind)), data_type: kind_type(kind) };
    let (a, b, c) = (operand.clone(), operand.clone(), operand);
    let comparison =
        proptest::sample::select(vec![Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual]);
    let compare = (comparison, scalar(kind)).prop_map(move |(comparison, value)| {
        Predicate::Compare { operand: a.clone(), comparison, value }
    });
    let among = proptest::collection::vec(scalar(kind), 0..3)
        .prop_map(move |values| Predicate::In { operand: b.clone(), values });
    let texts = vec!["", "a", "ab", "b", "\u{10ffff}", "a%", "%", "%b", "a_%", "b%b%"];
    let pattern =
        (proptest::sample::select(texts), any::<bool>()).prop_map(move |(text, starts)| {
            let make = if starts { Pattern::starts_with } else { Pattern::like };
            Predicate::Like { operand: c.clone(), pattern: make(text.as_bytes()) }
        });
    let null = Just(Predicate::IsNull(ColumnId(u32::from(kind))));
    let constant = outcome().prop_map(Predicate::Constant);
    if kind == 2 {
        prop_oneof![4 => compare, 2 => among, 3 => pattern, 1 => null, 1 => constant].boxed()
    } else {
        prop_oneof![4 => compare, 2 => among, 1 => null, 1 => Just(Predicate::Unknown)].boxed()
    }
}

fn outcome() -> impl Strategy<Value = Outcome> {
    proptest::sample::select(vec![Outcome::True, Outcome::False, Outcome::Null])
}

fn predicate() -> impl Strategy<Value = Predicate> {
    (0_u8..3).prop_flat_map(leaf).prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Predicate::And),
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Predicate::Or),
            (inner.clone(), outcome())
                .prop_map(|(p, expected)| Predicate::Is(Box::new(p), expected)),
            inner.prop_map(|p| Predicate::Not(Box::new(p))),
        ]
    })
}

/// The predicate for one row, by the definition. `bitwise` is how IN treats zeros, `unknown` what
/// Unknown comes to.
fn holds(
    predicate: &Predicate,
    row: &[Option<Scalar>; 3],
    bitwise: bool,
    unknown: Outcome,
) -> Outcome {
    let truth = |yes: bool| if yes { Outcome::True } else { Outcome::False };
    let value = |column: ColumnId| row[column.0 as usize].as_ref();
    let recurse = |p: &Predicate| holds(p, row, bitwise, unknown);
    match predicate {
        Predicate::Constant(outcome) => *outcome,
        Predicate::Unknown | Predicate::Sampled(_) => unknown,
        Predicate::Compare { operand, comparison, value: right } => match value(operand.column) {
            None => Outcome::Null,
            Some(left) => {
                let ordering = normal(left.clone()).total_cmp(&normal(right.clone())).unwrap();
                truth(match comparison {
                    Comparison::Equal => ordering.is_eq(),
                    Comparison::NotEqual => ordering.is_ne(),
                    Comparison::Less => ordering.is_lt(),
                    Comparison::LessOrEqual => ordering.is_le(),
                    Comparison::Greater => ordering.is_gt(),
                    Comparison::GreaterOrEqual => ordering.is_ge(),
                })
            }
        },
        Predicate::In { operand, values } => match value(operand.column) {
            None => Outcome::Null,
            Some(left) => truth(values.iter().any(|right| {
                let same = |a: Scalar, b: Scalar| a.total_cmp(&b).unwrap().is_eq();
                if bitwise {
                    same(left.clone(), right.clone())
                } else {
                    same(normal(left.clone()), normal(right.clone()))
                }
            })),
        },
        Predicate::InSet { operand, set } => match value(operand.column) {
            Some(Scalar::Int(number)) => {
                truth(i64::try_from(*number).is_ok_and(|number| set.at(set.place(number)) != 0))
            }
            _ => Outcome::Null,
        },
        Predicate::Like { operand, pattern } => match value(operand.column) {
            Some(Scalar::Bytes(text)) => truth(pattern.matches(text)),
            _ => Outcome::Null,
        },
        Predicate::IsNull(column) => truth(value(*column).is_none()),
        Predicate::Is(inner, expected) => truth(recurse(inner) == *expected),
        Predicate::Not(inner) => recurse(inner).negated(),
        Predicate::And(all) => all.iter().fold(Outcome::True, |sum, p| sum.and(recurse(p))),
        Predicate::Or(all) => all
            .iter()
            .fold(Outcome::False, |sum, p| sum.negated().and(recurse(p).negated()).negated()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn statistics_never_contradict_a_row(
        predicate in predicate(),
        ints in column(0),
        floats in column(1),
        texts in column(2),
        loosen in any::<bool>(),
        blind in any::<bool>(),
    ) {
        let columns = [ints, floats, texts];
        let rows = columns.iter().map(|c| c.1.len()).min().unwrap();
        let known: Vec<Stats> = columns.iter().map(|c| stats(&c.1[..rows], loosen)).collect();
        let mut evidence = |id: ColumnId| {
            let at = id.0 as usize;
            (!blind || at != 1).then(|| Evidence {
                data_type: Cow::Borrowed(&columns[at].0),
                stats: Cow::Borrowed(&known[at]),
            })
        };
        let found = outcomes(&predicate, &mut evidence);
        let said = verdict(&predicate, rows as u64, &mut evidence);
        for at in 0..rows {
            let row = [0, 1, 2].map(|column: usize| columns[column].1[at].clone());
            let unknowns =
                [(false, Outcome::True), (true, Outcome::False), (true, Outcome::Null)];
            for (bitwise, unknown) in unknowns {
                let outcome = holds(&predicate, &row, bitwise, unknown);
                prop_assert!(found.contains(outcome), "{outcome:?} of {row:?} is not in {found:?}");
                match said {
                    Verdict::Never => prop_assert_ne!(outcome, Outcome::True),
                    Verdict::Always => prop_assert_eq!(outcome, Outcome::True),
                    Verdict::Maybe => {}
                }
            }
        }
    }
}

fn judge(data_type: DataType, stats: &Stats, predicate: &Predicate) -> Verdict {
    verdict(predicate, stats.rows, &mut |_| {
        Some(Evidence { data_type: Cow::Borrowed(&data_type), stats: Cow::Borrowed(stats) })
    })
}

#[test]
fn prunes_what_it_should() {
    let exact = |value| Some(Bound { value, exact: true });
    let ints = Stats {
        rows: 9,
        min: exact(Scalar::Int(10)),
        max: exact(Scalar::Int(20)),
        ..Stats::default()
    };
    let compare = |data_type: DataType, comparison, value| Predicate::Compare {
        operand: Operand { column: ColumnId(0), data_type },
        comparison,
        value,
    };
    use Comparison::{Equal, Less};
    let int = |comparison, value| compare(DataType::Int64, comparison, Scalar::Int(value));
    assert_eq!(judge(DataType::Int16, &ints, &int(Less, 10)), Verdict::Never);
    assert_eq!(judge(DataType::Int16, &ints, &int(Less, 21)), Verdict::Always);
    assert_eq!(judge(DataType::Int16, &ints, &int(Equal, 20)), Verdict::Maybe);
    // A segment of dates under a table of timestamps; ten days are 864,000,000 ms.
    let timestamp = DataType::Timestamp { unit: crate::model::TimeUnit::Millisecond, zone: None };
    let at = |ms| compare(timestamp.clone(), Less, Scalar::Int(ms));
    assert_eq!(judge(DataType::Date, &ints, &at(864_000_000)), Verdict::Never);
    assert_eq!(judge(DataType::Date, &ints, &at(864_000_001)), Verdict::Maybe);
    // Integers under a comparison in floats.
    let float = |value| compare(DataType::Float64, Less, Scalar::Float(value));
    assert_eq!(judge(DataType::Int32, &ints, &float(9.5)), Verdict::Never);
    assert_eq!(judge(DataType::Int32, &ints, &float(f64::NAN)), Verdict::Always);
    // A column that the segment does not have.
    let absent = |_| Some(Evidence::absent(4));
    assert_eq!(verdict(&int(Less, 99), 4, &mut { absent }), Verdict::Never);
    assert_eq!(verdict(&Predicate::IsNull(ColumnId(0)), 4, &mut { absent }), Verdict::Always);
}
