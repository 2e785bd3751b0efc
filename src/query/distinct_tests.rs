//! Counts of distinct values against groups by key and value, counted by hand.

use std::collections::BTreeMap;

use super::group_tests::{cases, keys, run_within};
use super::run::refusal;
use super::tests::{aggregate, column, fragment, rows, store};
use super::*;
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
                let output = Output::Aggregate { keys: all, aggregates: Vec::new() };
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
        let output = Output::Aggregate { keys, aggregates };
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

#[test]
fn only_counts_are_of_distinct_values() {
    let sum = Aggregate { distinct: true, ..aggregate(AggregateFunction::Sum, Some(0)) };
    let filtered = Aggregate { filter: Some(column(0)), ..distinct(column(1)) };
    for one in [sum, filtered] {
        let schema = std::sync::Arc::new(arrow_schema::Schema::empty());
        let output = Output::Aggregate { keys: Vec::new(), aggregates: vec![one] };
        let fragment = Fragment { columns: Vec::new(), conditions: Vec::new(), output, schema };
        assert!(refusal(&fragment).unwrap().contains("distinct values"));
    }
}
