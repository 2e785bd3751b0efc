//! Counts of distinct values against groups by key and value, counted by hand.

use std::collections::BTreeMap;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};

use super::group_tests::{cases, keys, run_within};
use super::run::refusal;
use super::tests::{aggregate, answer, column, fragment, rows, store, store_as};
use super::*;
use crate::encoding::Encoding;
use crate::expr::Expression;

fn distinct(input: Expression) -> Aggregate {
    Aggregate { input: Some(input), distinct: true, ..aggregate(AggregateFunction::Count, None) }
}

/// How many values each key has in lines of keys and a value.
fn counted(pairs: &[String]) -> BTreeMap<&str, u64> {
    let mut counts = BTreeMap::new();
    for pair in pairs {
        let (key, value) = pair.rsplit_once('|').unwrap_or(("", pair));
        *counts.entry(key).or_default() += u64::from(value != "null");
    }
    counts
}

#[test]
fn distinct_values_are_counted_in_any_memory() {
    let dir = tempfile::tempdir().unwrap();
    let snapshot = store(dir.path(), &[1, 2, 3, 1].map(|seed| rows(1_000, seed)));
    let mut spilled = 0;
    for of in ["none", "slots", "digits", "narrow", "double", "wide", "text", "rows"] {
        let keys = if of == "none" { Vec::new() } else { keys(of) };
        // Few codes, texts, decimals, many numbers, texts without codes, rows of a few bytes.
        let inputs = [
            column(0),
            column(1),
            column(2),
            column(4),
            super::group_tests::keys("text").remove(0),
        ];
        let expected: Vec<Vec<String>> = inputs
            .iter()
            .map(|input| {
                let all = keys.iter().chain([input]).cloned().collect();
                let output = Output::Aggregate { keys: all, aggregates: Vec::new(), first: None };
                run_within(cases()[0], &fragment(&snapshot, vec![], output), &snapshot, dir.path())
                    .unwrap()
                    .0
            })
            .collect();
        let expected: Vec<BTreeMap<&str, u64>> =
            expected.iter().map(|pairs| counted(pairs)).collect();
        let mut aggregates: Vec<Aggregate> = inputs.iter().cloned().map(distinct).collect();
        // The same values twice, and others between.
        aggregates.insert(2, aggregate(AggregateFunction::Count, None));
        aggregates.push(distinct(column(0)));
        let output = Output::Aggregate { keys, aggregates, first: None };
        let fragment = fragment(&snapshot, vec![], output);
        let rows: BTreeMap<String, u64> =
            expected[0].keys().map(|key| ((*key).to_owned(), 0)).collect();
        // In memory by one thread and by several, partitioned, spilled, split.
        for case in cases().into_iter().skip(1).step_by(2) {
            let (shown, bytes, _) = run_within(case, &fragment, &snapshot, dir.path()).unwrap();
            spilled += bytes;
            assert_eq!(shown.len(), rows.len(), "{of} {case:?}");
            let mut total = 0;
            for line in &shown {
                let cells: Vec<&str> = line.split('|').collect();
                let (key, found) = cells.split_at(cells.len() - 7);
                let key = key.join("|");
                let of_key = |at: usize| expected[at][key.as_str()].to_string();
                total += found[2].parse::<u64>().unwrap();
                let found = [found[0], found[1], found[3], found[4], found[5], found[6]];
                let wanted = [0, 1, 2, 3, 4, 0].map(of_key);
                assert_eq!(found, wanted.each_ref().map(String::as_str), "{of} {case:?} {line}");
            }
            assert_eq!(total, 4_000);
        }
    }
    assert!(spilled > 0);
}

/// Segments may hold coordinates as decimals, and as decimals and widened f32 values; they may also
/// hold values that are neither.
#[test]
fn doubles_are_keys_however_segments_store_them() {
    let decimal = |v: f64| (v * 1e6).round() / 1e6 + 0.0;
    let degrees = |v: f64| v / 7.0 + 40.5;
    let forms: [fn(usize) -> u8; 4] = [|_| 0, |_| 1, |at| u8::from(at % 3 > 0), |at| at as u8 % 5];
    let codecs = [None, Some(Encoding::Alp), Some(Encoding::Dyadic), Some(Encoding::Bits)];
    for (one, other) in (0..16).map(|at| (at / 4, at % 4)) {
        let dir = tempfile::tempdir().unwrap();
        let part = |seed: u64, form: fn(usize) -> u8, codec: Option<Encoding>| {
            let mut rows = rows(2_000, seed);
            for (at, row) in rows.iter_mut().enumerate() {
                row.decimal = row.decimal.map(|v| match form(at) {
                    0 => decimal(degrees(v)),
                    1 => f64::from(degrees(v) as f32),
                    2 => -0.0,
                    3 => decimal(degrees(v)) * 10.0,
                    _ => degrees(v),
                });
            }
            (rows, codec)
        };
        // Forms go with encodings in four ways.
        let parts = [part(1, forms[one], codecs[other]), part(2, forms[other], codecs[one])];
        let snapshot = store_as(dir.path(), &parts);
        let mut expected: BTreeMap<Option<u64>, i64> = BTreeMap::new();
        for row in parts.iter().flat_map(|(rows, _)| rows) {
            *expected.entry(row.decimal.map(|v| (v + 0.0).to_bits())).or_default() += 1;
        }
        let count = vec![aggregate(AggregateFunction::Count, None)];
        let groups = Output::Aggregate { keys: vec![column(2)], aggregates: count, first: None };
        let groups = answer(&snapshot, vec![], groups);
        let keys = groups.column(0).as_primitive::<Float64Type>();
        let counts = groups.column(1).as_primitive::<Int64Type>();
        let found: BTreeMap<Option<u64>, i64> =
            keys.iter().zip(counts.values()).map(|(k, n)| (k.map(f64::to_bits), *n)).collect();
        assert_eq!(keys.len(), expected.len());
        assert_eq!(found, expected);
        let values = Output::Aggregate {
            keys: Vec::new(),
            aggregates: vec![distinct(column(2))],
            first: None,
        };
        let values = answer(&snapshot, vec![], values);
        let values = values.column(0).as_primitive::<Int64Type>().value(0);
        assert_eq!(values, expected.keys().flatten().count() as i64);
    }
}

#[test]
fn only_counts_are_of_distinct_values() {
    let sum = Aggregate { distinct: true, ..aggregate(AggregateFunction::Sum, Some(0)) };
    let filtered = Aggregate { filter: Some(column(0)), ..distinct(column(1)) };
    for one in [sum, filtered] {
        let schema = std::sync::Arc::new(arrow_schema::Schema::empty());
        let output = Output::Aggregate { keys: Vec::new(), aggregates: vec![one], first: None };
        let (columns, conditions) = (Vec::new(), Vec::new());
        let fragment = Fragment { columns, conditions, output, schema, states: false };
        assert!(refusal(&fragment).unwrap().contains("distinct values"));
    }
}
