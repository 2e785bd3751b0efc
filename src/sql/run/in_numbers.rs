//! Whether a column's value is one of some numbers: what a scan is told of a key of a join.
//!
//! `key_sets` makes these filters, and `dynamic` turns them into conditions on stored columns.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow_array::{Array, BooleanArray, RecordBatch};
use arrow_buffer::BooleanBufferBuilder;
use arrow_schema::{DataType as ArrowType, Schema};
use datafusion::common::{HashSet, ScalarValue, internal_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;

use crate::expr::IntegerSet;
use crate::query::words::{from_words, to_words};

/// The most numbers from the least value to the greatest of a set that has a bit for each.
const MAX_BITS: u64 = 1 << 26;

/// And how many of them there may be for each value.
const BITS_OF_VALUE: u64 = 1 << 12;

/// What a number of a set takes whose numbers are far from each other.
const BYTES_OF_SPARSE: usize = 4 * size_of::<i64>();

/// So many values are listed beside the set, for partitions and zone maps.
const MAX_LIST: usize = 256;

/// The numbers that a key has.
#[derive(Debug)]
pub(super) struct Numbers {
    pub(super) least: i64,
    pub(super) greatest: i64,
    /// All of them, if they are few.
    pub(super) few: Option<Vec<i64>>,
    pub(super) set: NumberSet,
}

#[derive(Debug)]
pub(super) enum NumberSet {
    Bits(Arc<IntegerSet>),
    /// Numbers that are far from each other.
    Sparse(HashSet<i64>),
    /// Most of the numbers between the least and the greatest, which say enough.
    Range,
}

impl Numbers {
    pub(super) fn bytes(&self) -> usize {
        match &self.set {
            NumberSet::Bits(_) => (self.greatest.abs_diff(self.least) / 8) as usize,
            NumberSet::Sparse(values) => values.len() * BYTES_OF_SPARSE,
            NumberSet::Range => 0,
        }
    }

    pub(super) fn has(&self, number: i64) -> bool {
        match &self.set {
            NumberSet::Bits(set) => set.at(set.place(number)) == 1,
            NumberSet::Sparse(values) => values.contains(&number),
            NumberSet::Range => (self.least..=self.greatest).contains(&number),
        }
    }
}

/// How the values of a key are to be kept.
pub(super) struct Form {
    least: i64,
    greatest: i64,
    /// The bits of a set that has one for each number between them, if that is worth it.
    bits: Option<u64>,
    values: usize,
}

impl Form {
    pub(super) fn of(least: i64, greatest: i64, values: usize) -> Form {
        let bits = greatest.abs_diff(least).saturating_add(1);
        let most = (values.max(MAX_LIST) as u64).saturating_mul(BITS_OF_VALUE);
        let bits = Some(bits).filter(|bits| *bits <= most.min(MAX_BITS));
        Form { least, greatest, bits, values }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bits.map_or(self.values * BYTES_OF_SPARSE, |bits| (bits / 8) as usize + 1)
    }

    pub(super) fn numbers(self, mut values: Vec<i64>) -> Numbers {
        let Form { least, greatest, bits, .. } = self;
        let few = (values.len() <= MAX_LIST).then(|| {
            values.sort_unstable();
            values.dedup();
            values.clone()
        });
        let Some(bits) = bits else {
            let set = NumberSet::Sparse(values.into_iter().collect());
            return Numbers { least, greatest, few, set };
        };
        let mut holds = BooleanBufferBuilder::new(bits as usize);
        holds.append_n(bits as usize, false);
        values.iter().for_each(|value| holds.set_bit(value.abs_diff(least) as usize, true));
        let set = IntegerSet::new(least, holds);
        // One in eight numbers must be missing.
        let set = match set.len() * 8 > bits * 7 {
            true => NumberSet::Range,
            false => NumberSet::Bits(Arc::new(set)),
        };
        Numbers { least, greatest, few, set }
    }
}

/// Whether a column's value is one of some numbers.
#[derive(Debug)]
pub(super) struct InNumbers {
    pub(super) column: Arc<dyn PhysicalExpr>,
    pub(super) data_type: ArrowType,
    pub(super) numbers: Arc<Numbers>,
    /// For the numbers.
    pub(super) memory: Arc<MemoryReservation>,
}

impl InNumbers {
    /// A number as a value of the column.
    pub(super) fn scalar(&self, number: i64) -> Option<ScalarValue> {
        let value = from_words(vec![number], None, &self.data_type).ok()?;
        ScalarValue::try_from_array(&value, 0).ok()
    }
}

impl fmt::Display for InNumbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Numbers { least, greatest, .. } = *self.numbers;
        write!(f, "{} IN (keys from {least} to {greatest})", self.column)
    }
}

impl PartialEq for InNumbers {
    fn eq(&self, other: &InNumbers) -> bool {
        self.column.eq(&other.column) && Arc::ptr_eq(&self.numbers, &other.numbers)
    }
}

impl Eq for InNumbers {}

impl Hash for InNumbers {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.column.hash(state);
        Arc::as_ptr(&self.numbers).hash(state);
    }
}

impl PhysicalExpr for InNumbers {
    fn data_type(&self, _: &Schema) -> DataFusionResult<ArrowType> {
        Ok(ArrowType::Boolean)
    }

    fn nullable(&self, schema: &Schema) -> DataFusionResult<bool> {
        self.column.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> DataFusionResult<ColumnarValue> {
        let values = self.column.evaluate(batch)?.into_array(batch.num_rows())?;
        let Some(words) = to_words(&values) else {
            return internal_err!("{self} of {}", values.data_type());
        };
        let holds = words.iter().map(|word| self.numbers.has(*word)).collect();
        let nulls = values.logical_nulls();
        Ok(ColumnarValue::Array(Arc::new(BooleanArray::new(holds, nulls))))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.column]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> DataFusionResult<Arc<dyn PhysicalExpr>> {
        let Some(column) = children.pop() else { return internal_err!("{self} without a column") };
        Ok(Arc::new(InNumbers {
            column,
            data_type: self.data_type.clone(),
            numbers: Arc::clone(&self.numbers),
            memory: Arc::clone(&self.memory),
        }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn numbers_of(values: Vec<i64>) -> Numbers {
        let (least, greatest) = (*values.iter().min().unwrap(), *values.iter().max().unwrap());
        Form::of(least, greatest, values.len()).numbers(values)
    }

    #[test]
    fn numbers_are_what_was_noted() {
        let sparse = i64::MIN + 5;
        for values in [vec![7, -3, 7, 5], vec![1, 5], vec![sparse, 9, i64::MAX], vec![4]] {
            let numbers = numbers_of(values.clone());
            let tried = (-10..10).chain([i64::MIN, sparse - 1, sparse, i64::MAX - 1, i64::MAX]);
            tried
                .for_each(|n| assert_eq!(numbers.has(n), values.contains(&n), "{n} in {values:?}"));
        }
        let dense = numbers_of((0..100).filter(|n| *n != 50).collect());
        assert!(matches!(dense.set, NumberSet::Range) && dense.has(50) && !dense.has(100));
    }
}
