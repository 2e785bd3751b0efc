//! The keys of a join's hash table as filters of the scans of the other side: sets of numbers, one
//! for each key.
//!
//! DataFusion (55) tells those scans whether the hash table has a row's keys, all keys together.
//! Nothing can be said of one of several keys alone: a scan has to decode all, and an aggregate of
//! which only some are group keys lets nothing through. For a correlated subquery that means the
//! groups of the whole table. And a look-up in the hash table costs several times what a bit of a
//! set does. So a join notes the numbers of each key while it reads its left side.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_buffer::BooleanBufferBuilder;
use arrow_schema::{DataType as ArrowType, Schema};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{HashSet, ScalarValue, internal_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, DynamicFilterPhysicalExpr, lit};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures::StreamExt;

use crate::error::{Error, Result};
use crate::expr::IntegerSet;
use crate::model::DataType;
use crate::query::words::{from_words, is_words, to_words};
use crate::sql::run::executions::Executions;
use crate::sql::run::generate::generate;

type Plan = Arc<dyn ExecutionPlan>;

/// The most values of a key that are noted, with those that are there several times.
const MAX_VALUES: usize = 1 << 22;

/// The most numbers from the least value to the greatest of a set that has a bit for each.
const MAX_BITS: u64 = 1 << 26;

/// And how many of them there may be for each value.
const BITS_OF_VALUE: u64 = 1 << 12;

/// What a number of a set takes whose numbers are far from each other.
const BYTES_OF_SPARSE: usize = 4 * size_of::<i64>();

/// The share of the memory limit that the values of a join's keys may take.
const SHARE: usize = 64;

/// So many values are listed beside the set, for partitions and zone maps.
const MAX_LIST: usize = 256;

/// A key of the left side, and the filter on the right side that hears of its values.
#[derive(Clone, Debug)]
pub(in crate::sql) struct Key {
    left: usize,
    right: Arc<dyn PhysicalExpr>,
    data_type: ArrowType,
    filter: Arc<DynamicFilterPhysicalExpr>,
}

impl Key {
    /// What is handed down the right side.
    pub(in crate::sql) fn filter(&self) -> Arc<dyn PhysicalExpr> {
        Arc::clone(&self.filter) as _
    }
}

/// The keys of a join, as far as they are columns of whole numbers.
pub(in crate::sql) fn keys_of(join: &HashJoinExec) -> Vec<Key> {
    let (left, right) = (join.left().schema(), join.right().schema());
    let key = |(of_left, of_right): &(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)| {
        let at = of_left.downcast_ref::<Column>()?.index();
        let there = of_right.downcast_ref::<Column>()?.index();
        let (field, other) = (left.fields().get(at)?, right.fields().get(there)?);
        let data_type = field.data_type();
        // Not those that are stored as another type, such as dictionaries.
        let is_stored = DataType::from_arrow(data_type).map(|t| t.to_arrow());
        if data_type != other.data_type()
            || is_stored.as_ref() != Some(data_type)
            || !is_words(data_type)
            || *data_type == ArrowType::Boolean
        {
            return None;
        }
        let right = Arc::new(Column::new(other.name(), there)) as Arc<dyn PhysicalExpr>;
        let filter = DynamicFilterPhysicalExpr::new(vec![Arc::clone(&right)], lit(true));
        let data_type = data_type.clone();
        Some(Key { left: at, right, data_type, filter: Arc::new(filter) })
    };
    join.on().iter().filter_map(key).collect()
}

/// Passes the rows of a join's left side on, and notes the values of its keys.
#[derive(Debug)]
pub(in crate::sql) struct KeySetsExec {
    input: Plan,
    keys: Arc<[Key]>,
    executions: Executions<Noted>,
}

impl KeySetsExec {
    pub(in crate::sql) fn new(input: Plan, keys: Arc<[Key]>) -> KeySetsExec {
        let executions = Executions::new(input.output_partitioning().partition_count());
        KeySetsExec { input, keys, executions }
    }
}

/// The values that the partitions of one execution have found.
#[derive(Debug)]
struct Noted {
    /// How many partitions are not at their end, and the values of each key in the others.
    running: Mutex<(usize, Vec<Values>)>,
    /// How many values of each key have been noted in all.
    counts: Vec<AtomicUsize>,
    memory: MemoryReservation,
    /// The bytes that it may have.
    most: usize,
}

/// The values of a key; `None` if there are too many.
type Values = Option<Vec<i64>>;

/// What a noted value takes while its vector grows.
const BYTES_OF_VALUE: usize = 2 * size_of::<i64>();

impl DisplayAs for KeySetsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = self.input.schema();
        let name = |key: &Key| schema.fields().get(key.left).map_or("", |field| field.name());
        let names: Vec<&str> = self.keys.iter().map(name).collect();
        write!(f, "{}: keys=[{}]", self.name(), names.join(", "))
    }
}

impl ExecutionPlan for KeySetsExec {
    fn name(&self) -> &'static str {
        "KeySetsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Plan> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DataFusionResult<TreeNodeRecursion>,
    ) -> DataFusionResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Plan>) -> DataFusionResult<Plan> {
        match <[Plan; 1]>::try_from(children) {
            Ok([input]) => Ok(Arc::new(KeySetsExec::new(input, Arc::clone(&self.keys)))),
            Err(children) => internal_err!("{} over {} inputs", self.name(), children.len()),
        }
    }

    /// The scans forget their filters when a plan runs again with other rows.
    fn reset_state(self: Arc<Self>) -> DataFusionResult<Plan> {
        Ok(Arc::new(KeySetsExec::new(Arc::clone(&self.input), Arc::default())))
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> DataFusionResult<SendableRecordBatchStream> {
        let mut rows = self.input.execute(partition, Arc::clone(&context))?;
        if self.keys.is_empty() {
            return Ok(rows);
        }
        let partitions = self.input.output_partitioning().partition_count();
        let keys = Arc::clone(&self.keys);
        let all = self.executions.start(partition, || {
            // What a former execution has found need not be what this one finds. A filter without
            // columns has none that it could lack.
            keys.iter().for_each(|key| drop(key.filter.update(lit(true))));
            Noted::new(partitions, keys.len(), &context)
        });
        Ok(generate(self.schema(), move |output| async move {
            let mut found = vec![Some(Vec::new()); keys.len()];
            while let Some(batch) = rows.next().await {
                let batch = batch?;
                for (number, (values, key)) in found.iter_mut().zip(&*keys).enumerate() {
                    all.note(number, values, batch.column(key.left));
                }
                output.emit(batch).await;
            }
            all.end(found, &keys)
        }))
    }
}

impl Noted {
    fn new(partitions: usize, keys: usize, context: &TaskContext) -> Noted {
        let pool = context.memory_pool();
        Noted {
            running: Mutex::new((partitions, vec![Some(Vec::new()); keys])),
            counts: (0..keys).map(|_| AtomicUsize::new(0)).collect(),
            memory: MemoryConsumer::new("KeySetsExec").register(pool),
            most: match pool.memory_limit() {
                MemoryLimit::Finite(bytes) => bytes / SHARE,
                MemoryLimit::Infinite | MemoryLimit::Unknown => usize::MAX,
            },
        }
    }

    /// Adds the values of a column to those of a key.
    fn note(&self, key: usize, values: &mut Values, column: &ArrayRef) {
        let Some(noted) = values else { return };
        let rows = column.len();
        let before = self.counts.get(key).map_or(0, |n| n.fetch_add(rows, Ordering::Relaxed));
        let words = to_words(column).filter(|_| before + rows <= MAX_VALUES);
        let Some(words) = words.filter(|_| self.reserve(rows * BYTES_OF_VALUE)) else {
            self.give_up(values);
            return;
        };
        let (mut last, mut unused) = (None, 0);
        for (row, word) in words.iter().enumerate() {
            if last != Some(*word) && column.is_valid(row) {
                noted.push(*word);
                last = Some(*word);
            } else {
                unused += 1;
            }
        }
        self.memory.shrink(unused * BYTES_OF_VALUE);
    }

    fn reserve(&self, bytes: usize) -> bool {
        self.memory.size().saturating_add(bytes) <= self.most && self.memory.try_grow(bytes).is_ok()
    }

    fn give_up(&self, values: &mut Values) {
        let noted = values.take().map_or(0, |values| values.len());
        self.memory.shrink(noted * BYTES_OF_VALUE);
    }

    /// Adds what a partition has found; the last one tells the scans.
    fn end(&self, found: Vec<Values>, keys: &[Key]) -> Result<()> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        for (all, mut values) in running.1.iter_mut().zip(found) {
            match (all.as_mut(), values.as_ref()) {
                (Some(all), Some(values)) => all.extend(values),
                _ => {
                    self.give_up(all);
                    self.give_up(&mut values);
                }
            }
        }
        running.0 = running.0.saturating_sub(1);
        if running.0 > 0 {
            return Ok(());
        }
        for (all, key) in running.1.iter_mut().zip(keys) {
            let Some(values) = all.take() else { continue };
            let noted = values.len() * BYTES_OF_VALUE;
            let numbers = Form::of(&values).filter(|form| self.reserve(form.bytes()));
            let numbers = numbers.map(|form| form.numbers(values));
            self.memory.shrink(noted);
            if let Some(numbers) = numbers {
                let memory = self.memory.split(numbers.bytes().min(self.memory.size()));
                let filter = InNumbers {
                    column: Arc::clone(&key.right),
                    data_type: key.data_type.clone(),
                    numbers: Arc::new(numbers),
                    memory: Arc::new(memory),
                };
                key.filter.update(Arc::new(filter)).map_err(Error::from)?;
            }
        }
        self.memory.free();
        Ok(())
    }
}

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
    fn bytes(&self) -> usize {
        match &self.set {
            NumberSet::Bits(_) => (self.greatest.abs_diff(self.least) / 8) as usize,
            NumberSet::Sparse(values) => values.len() * BYTES_OF_SPARSE,
            NumberSet::Range => 0,
        }
    }

    fn has(&self, number: i64) -> bool {
        match &self.set {
            NumberSet::Bits(set) => set.at(set.place(number)) == 1,
            NumberSet::Sparse(values) => values.contains(&number),
            NumberSet::Range => (self.least..=self.greatest).contains(&number),
        }
    }
}

/// How the values of a key are to be kept.
struct Form {
    least: i64,
    greatest: i64,
    /// The bits of a set that has one for each number between them, if that is worth it.
    bits: Option<u64>,
    values: usize,
}

impl Form {
    /// `None` if there are no values.
    fn of(values: &[i64]) -> Option<Form> {
        let (least, greatest) = (*values.iter().min()?, *values.iter().max()?);
        let bits = greatest.abs_diff(least).saturating_add(1);
        let most = (values.len().max(MAX_LIST) as u64).saturating_mul(BITS_OF_VALUE);
        let bits = Some(bits).filter(|bits| *bits <= most.min(MAX_BITS));
        Some(Form { least, greatest, bits, values: values.len() })
    }

    fn bytes(&self) -> usize {
        self.bits.map_or(self.values * BYTES_OF_SPARSE, |bits| (bits / 8) as usize + 1)
    }

    fn numbers(self, mut values: Vec<i64>) -> Numbers {
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
    memory: Arc<MemoryReservation>,
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
    use super::*;

    fn numbers_of(values: Vec<i64>) -> Option<Numbers> {
        Some(Form::of(&values)?.numbers(values))
    }

    #[test]
    fn numbers_are_what_was_noted() {
        let sparse = i64::MIN + 5;
        for values in [vec![7, -3, 7, 5], vec![1, 5], vec![sparse, 9, i64::MAX], vec![4]] {
            let numbers = numbers_of(values.clone()).unwrap();
            let tried = (-10..10).chain([i64::MIN, sparse - 1, sparse, i64::MAX - 1, i64::MAX]);
            tried
                .for_each(|n| assert_eq!(numbers.has(n), values.contains(&n), "{n} in {values:?}"));
        }
        let dense = numbers_of((0..100).filter(|n| *n != 50).collect()).unwrap();
        assert!(matches!(dense.set, NumberSet::Range) && dense.has(50) && !dense.has(100));
        assert!(numbers_of(Vec::new()).is_none());
    }
}
