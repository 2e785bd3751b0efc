//! First rows of an order in little memory, against the same computed row by row.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, BooleanArray};
use arrow_schema::DataType as ArrowType;

use super::tests::{Row, all_of, answer, column, fragment, rows, store, store_as};
use super::*;
use crate::encoding::Encoding;
use crate::error::{Error, Result};
use crate::expr::{Comparison, Expression, Function, Operand, Predicate};
use crate::model::{DataType, Scalar};
use crate::store::Snapshot;

/// The numbers of the rows from `skip` to `limit` by text and then by number falling, with the
/// bytes that were spilled and the most that were reserved of `memory`.
fn first(
    snapshot: &Snapshot,
    (skip, limit): (usize, usize),
    memory: usize,
) -> Result<(Vec<i64>, u64, usize)> {
    let by = |at, descending| OrderBy { expression: column(at), descending, nulls_first: false };
    let order = vec![by(1, false), by(3, true)];
    let output = Output::Top { order, limit, skip, expressions: vec![column(3), column(1)] };
    let fragment = fragment(snapshot, vec![], output);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let (held, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let reserve = |bytes: usize| {
        let more = |held: usize| held.checked_add(bytes).filter(|all| *all <= memory);
        let before = held.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more);
        let before = before.map_err(|_| Error::LimitExceeded("no more memory".into()))?;
        most.fetch_max(before + bytes, Ordering::SeqCst);
        Ok(())
    };
    let (directory, recorder) = (std::env::temp_dir(), Recorder::default());
    let context = Context {
        pool: &pool,
        cancelled: &|| false,
        reserve: &reserve,
        release: &|bytes| _ = held.fetch_sub(bytes, Ordering::SeqCst),
        temp_dir: &directory,
        limits: GroupLimits { free: 0, answer: 1 << 16, ..GroupLimits::default() },
        known_rows: true,
        states: false,
        recorder: &recorder,
        timed: false,
    };
    let batch = all_of(&fragment, run(&fragment, snapshot, &context)?)?;
    assert_eq!(held.load(Ordering::SeqCst), 0, "memory is given back");
    let numbers = batch.column(0).as_primitive::<Int64Type>().values().to_vec();
    let counters = recorder.counters();
    assert_eq!(counters.spilled_bytes > 0, counters.spill_files > 0);
    Ok((numbers, counters.spilled_bytes, most.load(Ordering::SeqCst)))
}

#[test]
fn the_first_rows_spill_where_they_do_not_fit() {
    let dir = tempfile::tempdir().unwrap();
    let parts = [rows(70_000, 4), rows(20_000, 5), rows(30_000, 6)];
    let snapshot = store(dir.path(), &parts);
    let mut sorted: Vec<Row> = parts.concat();
    sorted.sort_by(|a, b| {
        let nulls = a.text.is_none().cmp(&b.text.is_none());
        nulls.then(a.text.cmp(&b.text)).then(b.rising.cmp(&a.rising))
    });
    let sorted: Vec<i64> = sorted.iter().map(|row| row.rising).collect();
    for (skip, limit) in [(0, 10), (0, 30_000), (29_990, 30_000), (100_000, 130_000), (200_000, 9)]
    {
        let wanted = sorted.get(skip..limit.min(sorted.len())).unwrap_or_default();
        let (all, spilled, _) = first(&snapshot, (skip, limit), usize::MAX).unwrap();
        assert!(all == wanted && spilled == 0, "{skip} {limit}");
        let memory = 3 << 20;
        let (few, spilled, most) = first(&snapshot, (skip, limit), memory).unwrap();
        assert!(few == wanted, "{skip} {limit}");
        assert_eq!(spilled > 0, limit >= 30_000, "{skip} {limit}");
        assert!(most <= memory);
    }
    assert!(matches!(first(&snapshot, (0, 30_000), 1000), Err(Error::LimitExceeded(_))));
}

/// A column of texts compared with a constant.
#[derive(Debug)]
struct Compared(Comparison, &'static str);

impl Function for Compared {
    fn evaluate(&self, inputs: &[ArrayRef], _: usize) -> Result<ArrayRef> {
        let texts = inputs[0].as_string_view().iter();
        let all: BooleanArray = texts.map(|t| Some(holds(self.0, t?, self.1))).collect();
        Ok(Arc::new(all))
    }
}

fn holds(comparison: Comparison, text: &str, value: &str) -> bool {
    match comparison {
        Comparison::Equal => text == value,
        Comparison::NotEqual => text != value,
        Comparison::Less => text < value,
        Comparison::LessOrEqual => text <= value,
        Comparison::Greater => text > value,
        Comparison::GreaterOrEqual => text >= value,
    }
}

/// Comparisons of texts with a constant, with and without a dictionary, and the first rows of an
/// order by text and by number among those that pass.
#[test]
fn the_first_of_the_rows_whose_texts_compare() {
    for force in [None, Some(Encoding::Plain)] {
        let dir = tempfile::tempdir().unwrap();
        let all = rows(80_000, 9);
        let snapshot = store_as(dir.path(), &[(all.clone(), force)]);
        let id = snapshot.schema().columns()[1].id;
        let operand = Operand { column: id, data_type: DataType::Utf8 };
        for comparison in [
            Comparison::Equal,
            Comparison::NotEqual,
            Comparison::Less,
            Comparison::LessOrEqual,
            Comparison::Greater,
            Comparison::GreaterOrEqual,
        ] {
            for (value, descending) in [("", false), ("aa", true), ("ab", false), ("zz", true)] {
                let predicate = Predicate::Compare {
                    operand: operand.clone(),
                    comparison,
                    value: Scalar::Bytes(value.as_bytes().into()),
                };
                let function: Arc<dyn Function> = Arc::new(Compared(comparison, value));
                let expression = Expression {
                    function: Some(function),
                    data_type: ArrowType::Boolean,
                    ..column(1)
                };
                let mut passing: Vec<&Row> = all.iter().collect();
                passing.retain(|row| row.text.is_some_and(|text| holds(comparison, text, value)));
                for at in [1, 3] {
                    let by = |at, descending| OrderBy {
                        expression: column(at),
                        descending,
                        nulls_first: false,
                    };
                    let output = Output::Top {
                        order: vec![by(at, descending), by(3, false)],
                        limit: 40,
                        skip: 0,
                        expressions: vec![column(3)],
                    };
                    let condition = Condition::new(expression.clone(), predicate.clone());
                    let found = answer(&snapshot, vec![condition], output);
                    passing.sort_by(|a, b| {
                        let first = match at {
                            1 => a.text.cmp(&b.text),
                            _ => a.rising.cmp(&b.rising),
                        };
                        let first = if descending { first.reverse() } else { first };
                        first.then(a.rising.cmp(&b.rising))
                    });
                    let wanted: Vec<i64> = passing.iter().take(40).map(|r| r.rising).collect();
                    let found = found.column(0).as_primitive::<Int64Type>().values();
                    assert_eq!(found.as_ref(), wanted, "{comparison:?} {value} {descending} {at}");
                }
            }
        }
    }
}
