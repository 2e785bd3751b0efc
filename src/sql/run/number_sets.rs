//! Hints on a column of whole numbers as sets of numbers.
//!
//! The filter of a join is a list of keys or a look-up in its hash table. Asked of each row, it
//! costs more than all else that a scan does. Where a column has few possible values by the side of
//! the rows of its table, the hint is asked once of each value.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, new_null_array};
use arrow_buffer::BooleanBufferBuilder;
use arrow_schema::{DataType as ArrowType, Schema};
use datafusion::error::Result as DataFusionResult;

use crate::error::Result;
use crate::expr::{Comparison, Expression, Function, IntegerSet, Operand, Predicate, Traits};
use crate::model::{Column, Scalar};
use crate::query::Condition;
use crate::query::metadata::whole;
use crate::query::slice::SLICE_ROWS;
use crate::query::words::{from_words, is_words, truth};
use crate::sql::run::table::StoreTable;

/// The most numbers that are tried: a set takes an eighth of this in bytes.
const MAX_NUMBERS: u64 = 1 << 23;

/// Rows of the table for each number that is tried.
const ROWS_OF_NUMBER: u64 = 4;

/// Of a table of more segments, the bounds of a column are not looked up.
const MAX_SEGMENTS: usize = 1 << 12;

/// Conditions on the same column as one that it is in a set, where that is worth it.
pub(super) fn as_set(
    parts: &[Condition],
    table: &StoreTable,
    schema: &Schema,
) -> DataFusionResult<Option<Condition>> {
    let Some(at) = parts.first().and_then(|part| part.expression.only_input()) else {
        return Ok(None);
    };
    // Comparisons are as quick.
    let compares = |part: &Condition| matches!(part.predicate, Predicate::Compare { .. });
    let field = schema.field(at);
    if parts.iter().all(compares)
        || !is_words(field.data_type())
        || *field.data_type() == ArrowType::Boolean
    {
        return Ok(None);
    }
    let stored = table.snapshot().schema();
    let column = stored.position(field.name()).and_then(|at| stored.columns().get(at));
    let Some(column) = column.filter(|column| column.data_type.to_arrow() == *field.data_type())
    else {
        return Ok(None);
    };
    // What a list of rows has for null is not in the set.
    let all = All(parts.iter().map(|part| part.expression.clone()).collect());
    let null = new_null_array(field.data_type(), 1);
    if !matches!(all.evaluate(&[null], 1), Ok(null) if truth(&null).null_count() == 1) {
        return Ok(None);
    }
    let Some((least, greatest)) = bounds(parts, column, table)? else { return Ok(None) };
    let numbers = greatest.abs_diff(least).saturating_add(1);
    let most = MAX_NUMBERS.min(table.snapshot().rows() / ROWS_OF_NUMBER);
    if least > greatest || numbers > most {
        return Ok(None);
    }
    let Ok(set) = tried(&all, least, greatest, field.data_type()) else { return Ok(None) };
    let operand = Operand::of(column);
    let texts: Vec<&str> = parts.iter().map(|part| &*part.expression.text).collect();
    let expression = Expression {
        inputs: vec![at],
        data_type: ArrowType::Boolean,
        text: texts.join(" AND ").into(),
        function: Some(Arc::new(all)),
        traits: Traits::default(),
        choice: None,
    };
    let predicate = Predicate::InSet { operand, set: Arc::new(set) };
    let partitions = Predicate::And(parts.iter().map(|part| part.partitions.clone()).collect());
    Ok(Some(Condition { partitions, ..Condition::new(expression, predicate) }))
}

/// All of some conditions on the same column.
#[derive(Debug)]
struct All(Vec<Expression>);

impl Function for All {
    fn evaluate(&self, inputs: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let mut holds = BooleanBufferBuilder::new(rows);
        holds.append_n(rows, true);
        let mut holds = holds.finish();
        for part in &self.0 {
            holds = &holds & truth(&part.evaluate(inputs, rows)?).inner();
        }
        Ok(Arc::new(BooleanArray::new(holds, None)))
    }
}

/// Between what values those are that may pass.
fn bounds(
    parts: &[Condition],
    column: &Column,
    table: &StoreTable,
) -> DataFusionResult<Option<(i64, i64)>> {
    let snapshot = table.snapshot();
    let (mut least, mut greatest) = (i128::MIN, i128::MAX);
    if snapshot.segments()?.len() <= MAX_SEGMENTS {
        let known = whole(snapshot, column)?;
        if let Some(Scalar::Int(min)) = known.min.map(|bound| bound.value) {
            least = min;
        }
        if let Some(Scalar::Int(max)) = known.max.map(|bound| bound.value) {
            greatest = max;
        }
    }
    for part in parts {
        let Predicate::Compare { operand, comparison, value: Scalar::Int(value) } = &part.predicate
        else {
            continue;
        };
        if !operand.is(column) {
            continue;
        }
        match comparison {
            Comparison::Equal => {
                (least, greatest) = (least.max(*value), greatest.min(*value));
            }
            Comparison::Greater | Comparison::GreaterOrEqual => least = least.max(*value),
            Comparison::Less | Comparison::LessOrEqual => greatest = greatest.min(*value),
            Comparison::NotEqual => {}
        }
    }
    Ok(i64::try_from(least).ok().zip(i64::try_from(greatest).ok()))
}

/// The numbers of a range that pass.
fn tried(all: &All, least: i64, greatest: i64, data_type: &ArrowType) -> Result<IntegerSet> {
    let mut holds = BooleanBufferBuilder::new(0);
    let mut next = Some(least);
    while let Some(start) = next.filter(|start| *start <= greatest) {
        let last = start.saturating_add(SLICE_ROWS as i64 - 1).min(greatest);
        let numbers: Vec<i64> = (start..=last).collect();
        let rows = numbers.len();
        let found = all.evaluate(&[from_words(numbers, None, data_type)?], rows)?;
        holds.append_buffer(truth(&found).inner());
        next = last.checked_add(1);
    }
    Ok(IntegerSet::new(least, holds))
}
