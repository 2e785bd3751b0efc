//! The keys of a join's hash table as filters of the scans of the other side: sets of numbers, one
//! for each key.
//!
//! DataFusion (55) tells those scans whether the hash table has a row's keys, all keys together.
//! Nothing can be said of one of several keys alone: a scan has to decode all, and an aggregate of
//! which only some are group keys lets nothing through. For a correlated subquery that means the
//! groups of the whole table. And a look-up in the hash table costs several times what a bit of a
//! set does. So a join notes the numbers of each key while it reads its left side.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType as ArrowType;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, DynamicFilterPhysicalExpr, lit};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures::StreamExt;

use crate::error::{Error, Result};
use crate::model::DataType;
use crate::query::words::{is_words, to_words};
use crate::sql::run::coalesce::{MAX_BUFFERS, compact};
use crate::sql::run::executions::Executions;
use crate::sql::run::generate::generate;
use crate::sql::run::in_numbers::{Form, InNumbers, NumberSet, Numbers};
use crate::sql::run::unary::unary_methods;

type Plan = Arc<dyn ExecutionPlan>;

/// The most values of a key that are noted, with those that are there several times.
const MAX_VALUES: usize = 1 << 22;

/// The share of the memory limit that the values of a join's keys may take.
const SHARE: usize = 64;

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
    properties: Arc<PlanProperties>,
}

impl KeySetsExec {
    pub(in crate::sql) fn new(input: Plan, keys: Arc<[Key]>) -> KeySetsExec {
        let executions = Executions::new(input.output_partitioning().partition_count());
        let properties = Arc::clone(input.properties());
        KeySetsExec { input, keys, executions, properties }
    }

    fn over(&self, input: Plan) -> DataFusionResult<KeySetsExec> {
        Ok(KeySetsExec::new(input, Arc::clone(&self.keys)))
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

/// The values of a key.
#[derive(Clone, Debug)]
struct Values {
    /// `None` if there are too many.
    noted: Option<Vec<i64>>,
    least: i64,
    greatest: i64,
}

impl Values {
    fn new() -> Values {
        Values { noted: Some(Vec::new()), least: i64::MAX, greatest: i64::MIN }
    }
}

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

    unary_methods!(no expressions);

    /// The scans forget their filters when a plan runs again with other rows.
    fn reset_state(self: Arc<Self>) -> DataFusionResult<Plan> {
        Ok(Arc::new(KeySetsExec::new(Arc::clone(&self.input), Arc::default())))
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
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
            // What a former execution has found need not be what this one finds. Only a filter with
            // columns could be refused.
            keys.iter().for_each(|key| drop(key.filter.update(lit(true))));
            Noted::new(partitions, keys.len(), &context)
        });
        Ok(generate(self.schema(), move |output| async move {
            let mut found = vec![Values::new(); keys.len()];
            while let Some(batch) = rows.next().await {
                let batch = batch?;
                for (number, (values, key)) in found.iter_mut().zip(&*keys).enumerate() {
                    all.note(number, values, batch.column(key.left))?;
                }
                // A join hands on all buffers of its texts with each batch; a hash table over many
                // such batches would have as many buffers as the product of both.
                output.emit(compact(batch, usize::MAX, MAX_BUFFERS)?).await;
            }
            all.end(found, &keys)
        }))
    }
}

impl Noted {
    fn new(partitions: usize, keys: usize, context: &TaskContext) -> Noted {
        let pool = context.memory_pool();
        Noted {
            running: Mutex::new((partitions, vec![Values::new(); keys])),
            counts: (0..keys).map(|_| AtomicUsize::new(0)).collect(),
            memory: MemoryConsumer::new("KeySetsExec").register(pool),
            most: match pool.memory_limit() {
                MemoryLimit::Finite(bytes) => bytes / SHARE,
                MemoryLimit::Infinite | MemoryLimit::Unknown => usize::MAX,
            },
        }
    }

    /// Adds the values of a column to those of a key.
    fn note(&self, key: usize, values: &mut Values, column: &ArrayRef) -> Result<()> {
        let Some(words) = to_words(column) else {
            return Err(Error::InvalidInput("a key of no whole numbers".into()));
        };
        let rows = words.len();
        let before = self.counts.get(key).map_or(0, |n| n.fetch_add(rows, Ordering::Relaxed));
        let fits = before + rows <= MAX_VALUES && values.noted.is_some();
        if !fits || !self.reserve(rows * BYTES_OF_VALUE) {
            self.give_up(values);
        }
        let (mut last, mut used) = (None, 0);
        for (row, word) in words.iter().enumerate() {
            if last != Some(*word) && column.is_valid(row) {
                values.least = values.least.min(*word);
                values.greatest = values.greatest.max(*word);
                values.noted.iter_mut().for_each(|noted| noted.push(*word));
                (last, used) = (Some(*word), used + 1);
            }
        }
        if values.noted.is_some() {
            self.memory.shrink((rows - used) * BYTES_OF_VALUE);
        }
        Ok(())
    }

    fn reserve(&self, bytes: usize) -> bool {
        self.memory.size().saturating_add(bytes) <= self.most && self.memory.try_grow(bytes).is_ok()
    }

    fn give_up(&self, values: &mut Values) {
        let noted = values.noted.take().map_or(0, |noted| noted.len());
        self.memory.shrink(noted * BYTES_OF_VALUE);
    }

    /// Adds what a partition has found; the last one tells the scans.
    fn end(&self, found: Vec<Values>, keys: &[Key]) -> Result<()> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        for (all, mut values) in running.1.iter_mut().zip(found) {
            all.least = all.least.min(values.least);
            all.greatest = all.greatest.max(values.greatest);
            match (all.noted.as_mut(), values.noted.as_ref()) {
                (Some(all), Some(noted)) => all.extend(noted),
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
            if all.least > all.greatest {
                continue;
            }
            let numbers = self.numbers(all);
            let memory = self.memory.split(numbers.bytes().min(self.memory.size()));
            let filter = InNumbers {
                column: Arc::clone(&key.right),
                data_type: key.data_type.clone(),
                numbers: Arc::new(numbers),
                memory: Arc::new(memory),
            };
            key.filter.update(Arc::new(filter)).map_err(Error::from)?;
        }
        self.memory.free();
        Ok(())
    }

    /// The numbers of all values, or between what numbers they are if there is no room for a set.
    fn numbers(&self, all: &mut Values) -> Numbers {
        let (least, greatest) = (all.least, all.greatest);
        let range = || Numbers { least, greatest, few: None, set: NumberSet::Range };
        let Some(noted) = all.noted.take() else { return range() };
        let bytes = noted.len() * BYTES_OF_VALUE;
        let form = Form::of(least, greatest, noted.len());
        let numbers = match self.reserve(form.bytes()) {
            true => form.numbers(noted),
            false => range(),
        };
        self.memory.shrink(bytes);
        numbers
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use arrow_array::Int64Array;
    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};

    use super::*;

    #[test]
    fn what_is_too_much_is_a_range_and_gives_its_memory_back() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1 << 20));
        let of = |most: usize| Noted {
            running: Mutex::new((2, vec![Values::new()])),
            counts: vec![AtomicUsize::new(0)],
            memory: MemoryConsumer::new("test").register(&pool),
            most,
        };
        let column = Arc::new(Column::new("k", 0)) as Arc<dyn PhysicalExpr>;
        let filter = || DynamicFilterPhysicalExpr::new(vec![Arc::clone(&column)], lit(true));
        for (most, whole) in [(1 << 20, true), (100 * BYTES_OF_VALUE, false)] {
            let (all, mut one, mut two) = (of(most), vec![Values::new()], vec![Values::new()]);
            let few: ArrayRef = Arc::new(Int64Array::from(vec![Some(-7), None, Some(9), Some(9)]));
            let many: ArrayRef = Arc::new(Int64Array::from_iter_values((0..200).map(|n| n * 50)));
            all.note(0, &mut one[0], &few).unwrap();
            all.note(0, &mut two[0], &many).unwrap();
            all.note(0, &mut two[0], &few).unwrap();
            let (right, data_type) = (Arc::clone(&column), ArrowType::Int64);
            let key = Key { left: 0, right, data_type, filter: Arc::new(filter()) };
            all.end(one, std::slice::from_ref(&key)).unwrap();
            assert_eq!(key.filter.current().unwrap().to_string(), "true");
            all.end(two, std::slice::from_ref(&key)).unwrap();
            let current = key.filter.current().unwrap();
            let numbers = &current.downcast_ref::<InNumbers>().unwrap().numbers;
            let passed: Vec<i64> = [-8, -7, 8, 9, 50, 9950, 9951]
                .into_iter()
                .filter(|number| numbers.has(*number))
                .collect();
            let expected: &[i64] = if whole { &[-7, 9, 50, 9950] } else { &[-7, 8, 9, 50, 9950] };
            assert_eq!(passed, expected);
            assert_eq!(pool.reserved(), numbers.bytes());
            drop((current, key));
            assert_eq!(pool.reserved(), 0);
        }
    }
}
