//! Functions of which a partition need not be in memory: those that need its number of rows
//! (`ntile`), its rows of the same rank (`percent_rank`, `cume_dist`), or a value of it
//! (`last_value`, `nth_value`).
//!
//! What they need is gathered while the rows come and wait. When all have come, they are read
//! again, for `cume_dist` once more ahead of that, to find where a rank ends.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Float64Array, RecordBatch, UInt32Array, UInt64Array};
use arrow_cast::cast;
use arrow_schema::DataType;
use arrow_select::take::take;
use datafusion::common::ScalarValue;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::window::{StandardWindowExpr, WindowExpr};
use datafusion::physical_plan::windows::WindowUDFExpr;

use super::aggregated::{Aggregated, are_copied};
use super::merge::Merge;
use super::one_value::{frames_are_partitions, function, has_one_value};
use super::rows::Out;
use crate::error::Result;
use crate::sql::run::cut::{Cut, Runs};
use crate::sql::run::generate::Output;
use crate::sql::run::held::{Held, Rows};

type Key = Arc<dyn PhysicalExpr>;

/// A function of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    Ntile(u64),
    PercentRank,
    CumeDist,
    /// The row with this number, or the last one, among those that count.
    Value {
        row: Option<u64>,
        ignores_nulls: bool,
    },
    /// An aggregate of all rows.
    Aggregate,
    /// One of some of them, of batches.
    Merged(Merge),
}

impl Function {
    fn of(window: &Arc<dyn WindowExpr>) -> Option<Function> {
        let field = window.field().ok()?;
        if has_one_value(window) {
            return (!are_copied(field.data_type())).then_some(Function::Aggregate);
        }
        if let Some(aggregate) = function(window) {
            let merge = Merge::of(aggregate).filter(|_| frames_are_partitions(window));
            return merge.filter(|_| !are_copied(field.data_type())).map(Function::Merged);
        }
        let standard = window.as_any().downcast_ref::<StandardWindowExpr>()?;
        let call = standard.get_standard_func_expr().as_any().downcast_ref::<WindowUDFExpr>()?;
        let count = |argument: usize| {
            let literal = call.args().get(argument)?.downcast_ref::<Literal>()?;
            match literal.value().cast_to(&DataType::UInt64).ok()? {
                ScalarValue::UInt64(count) => count.filter(|count| *count > 0),
                _ => None,
            }
        };
        let row = match call.fun().name() {
            "ntile" => return count(0).map(Function::Ntile),
            "percent_rank" => return Some(Function::PercentRank),
            "cume_dist" => return Some(Function::CumeDist),
            "first_value" => Some(1),
            "last_value" => None,
            "nth_value" => Some(count(1)?),
            _ => return None,
        };
        // The last two fields, and there is no other way to see them.
        let described = format!("{call:?}");
        let ends = |flags: &str| described.ends_with(flags);
        let ignores_nulls = ends("is_reversed: false, ignore_nulls: true }");
        let is_forward = ignores_nulls || ends("is_reversed: false, ignore_nulls: false }");
        let fits = is_forward && frames_are_partitions(window) && !are_copied(field.data_type());
        fits.then_some(Function::Value { row, ignores_nulls })
    }

    fn goes_by_rank(self) -> bool {
        matches!(self, Function::PercentRank | Function::CumeDist)
    }
}

/// Windows over the partition whose rows wait.
pub(super) struct Passes {
    windows: Vec<Arc<dyn WindowExpr>>,
    functions: Vec<Function>,
    /// The order of rows within a partition, where a function goes by it.
    order: Vec<Key>,
    /// How many rows have come.
    rows: u64,
    gathered: Vec<Gathered>,
    /// The memory of aggregates.
    state: MemoryReservation,
}

/// What is known of the rows that have come, for one function.
enum Gathered {
    /// Their number is enough.
    Nothing,
    Aggregate(Box<dyn GroupsAccumulator>),
    Value {
        found: Option<ScalarValue>,
        rows: u64,
    },
}

/// The functions of windows, and the order of rows by which some of them go; `None` if others are
/// among them.
fn functions(windows: &[Arc<dyn WindowExpr>]) -> Option<(Vec<Function>, Vec<Key>)> {
    let functions = windows.iter().map(Function::of).collect::<Option<Vec<_>>>()?;
    let order = |window: &Arc<dyn WindowExpr>| {
        let keys = window.order_by().iter().map(|key| Arc::clone(&key.expr));
        keys.collect::<Vec<_>>()
    };
    let both = windows.iter().zip(&functions);
    let mut orders = both.filter(|(_, by)| by.goes_by_rank()).map(|(window, _)| order(window));
    let first = orders.next().unwrap_or_default();
    let is_one = orders.all(|order| order == first);
    is_one.then_some((functions, first))
}

/// Whether all windows have such functions.
pub(super) fn fit(windows: &[Arc<dyn WindowExpr>]) -> bool {
    functions(windows).is_some()
}

impl Passes {
    /// `None` if other functions are among the windows.
    pub(super) fn of(windows: &[Arc<dyn WindowExpr>], context: &TaskContext) -> Option<Passes> {
        let (functions, order) = functions(windows)?;
        let state = Aggregated::state(context);
        let windows = windows.to_vec();
        Some(Passes { windows, functions, order, rows: 0, gathered: Vec::new(), state })
    }

    /// Takes note of rows, and lets them wait.
    pub(super) fn add(&mut self, rows: RecordBatch, held: &mut Held) -> DataFusionResult<()> {
        if self.rows == 0 {
            let gathered = self.windows.iter().zip(&self.functions);
            let gathered = gathered.map(|(window, function)| Gathered::new(window, *function));
            self.gathered = gathered.collect::<DataFusionResult<_>>()?;
        }
        self.rows += rows.num_rows() as u64;
        let mut bytes = 0;
        let functions = self.windows.iter().zip(&self.functions).zip(&mut self.gathered);
        for ((window, function), gathered) in functions {
            bytes += gathered.add(window, *function, &rows)?;
        }
        if self.state.try_resize(bytes).is_err() {
            held.spill()?;
            self.state.try_resize(bytes)?;
        }
        held.push_or_spill(rows)
    }

    /// Emits the rows that wait.
    pub(super) async fn emit(&mut self, held: &mut Held, out: &Out, to: &Output) -> Result<()> {
        let gathered = std::mem::take(&mut self.gathered);
        let values = self.windows.iter().zip(gathered);
        let values = values.map(|(window, gathered)| gathered.value(window));
        let values = values.collect::<DataFusionResult<Vec<_>>>()?;
        self.state.free();
        let mut ranks = Ranks::new(&self.order);
        let ahead = self.functions.contains(&Function::CumeDist);
        let mut ends = ahead.then(|| Ends::new(held.rows(), &self.order));
        let mut row = 0;
        while let Some(batch) = held.next().await? {
            let by_rank = self.functions.iter().any(|function| function.goes_by_rank());
            let of_ranks = if by_rank { ranks.next(&batch, row, &mut ends).await? } else { &[] };
            let rows = row..row + batch.num_rows() as u64;
            let columns = self.windows.iter().zip(&self.functions).zip(&values);
            let columns = columns.map(|((window, function), value)| {
                let column = self.column(*function, value.as_ref(), rows.clone(), of_ranks)?;
                Ok(cast(&column, window.field()?.data_type())?)
            });
            let columns = columns.collect::<DataFusionResult<Vec<_>>>()?;
            out.emit(&batch, columns, to).await?;
            row = rows.end;
        }
        self.rows = 0;
        Ok(())
    }

    /// What a function gives to some rows.
    fn column(
        &self,
        function: Function,
        value: Option<&ArrayRef>,
        rows: Range<u64>,
        ranks: &[Rank],
    ) -> DataFusionResult<ArrayRef> {
        let all = self.rows as f64;
        let by_rank = |of: &dyn Fn(&Rank) -> f64| {
            let values = ranks.iter().flat_map(|rank| std::iter::repeat_n(of(rank), rank.rows));
            Arc::new(Float64Array::from_iter_values(values)) as ArrayRef
        };
        Ok(match (function, value) {
            (Function::Ntile(buckets), _) => {
                let bucket = |row| bucket(row, self.rows, buckets);
                Arc::new(UInt64Array::from_iter_values(rows.map(bucket)))
            }
            (Function::PercentRank, _) => {
                by_rank(&|rank: &Rank| rank.start as f64 / (all - 1.0).max(1.0))
            }
            (Function::CumeDist, _) => by_rank(&|rank: &Rank| rank.end as f64 / all),
            (_, Some(value)) => {
                let copies = UInt32Array::from_value(0, (rows.end - rows.start) as usize);
                take(value, &copies, None)?
            }
            (Function::Value { .. } | Function::Aggregate | Function::Merged(_), None) => {
                return datafusion::common::internal_err!("a window function without a value");
            }
        })
    }
}

/// The bucket of a row: the first buckets have one row more, if they cannot have the same number.
fn bucket(row: u64, rows: u64, buckets: u64) -> u64 {
    let (base, larger) = (rows / buckets, rows % buckets);
    let of_larger = larger * (base + 1);
    match row < of_larger {
        true => row / (base + 1) + 1,
        // There is a row behind the larger buckets only if the others have some.
        false => larger + (row - of_larger) / base.max(1) + 1,
    }
}

impl Gathered {
    fn new(window: &Arc<dyn WindowExpr>, function_of: Function) -> DataFusionResult<Gathered> {
        Ok(match function_of {
            Function::Aggregate => {
                match Aggregated::functions(function(window).into_iter())?.pop() {
                    Some(function) => Gathered::Aggregate(function),
                    None => return datafusion::common::internal_err!("a window of no aggregate"),
                }
            }
            Function::Value { .. } | Function::Merged(_) => {
                Gathered::Value { found: None, rows: 0 }
            }
            Function::Ntile(_) | Function::PercentRank | Function::CumeDist => Gathered::Nothing,
        })
    }

    /// Takes note of more rows. Returns how many bytes it takes.
    fn add(
        &mut self,
        window: &Arc<dyn WindowExpr>,
        function: Function,
        batch: &RecordBatch,
    ) -> DataFusionResult<usize> {
        match (self, function) {
            (Gathered::Aggregate(aggregate), _) => {
                let groups = vec![0; batch.num_rows()];
                aggregate.update_batch(&window.evaluate_args(batch)?, &groups, None, 1)?;
                Ok(aggregate.size())
            }
            (Gathered::Value { found, rows }, Function::Value { row, ignores_nulls }) => {
                if row.is_some() && found.is_some() {
                    return Ok(0);
                }
                let arguments = window.evaluate_args(batch)?;
                let Some(values) = arguments.first() else { return Ok(0) };
                let nulls = if ignores_nulls { values.logical_nulls() } else { None };
                let counts = values.len() - nulls.as_ref().map_or(0, |nulls| nulls.null_count());
                // Which of the rows that count here.
                let at = match row {
                    Some(row) => (row - 1).checked_sub(*rows).map(|at| at as usize),
                    None => counts.checked_sub(1),
                };
                *rows += counts as u64;
                if let Some(at) = at.filter(|at| *at < counts) {
                    let place = match nulls {
                        Some(nulls) => nulls.valid_indices().nth(at),
                        None => Some(at),
                    };
                    let value = place.map(|place| ScalarValue::try_from_array(values, place));
                    *found = value.transpose()?;
                }
                Ok(found.as_ref().map_or(0, ScalarValue::size))
            }
            (Gathered::Value { found, .. }, Function::Merged(merge)) => {
                // All rows have the same value.
                let value = ScalarValue::try_from_array(&window.evaluate(batch)?, 0)?;
                let all = match found.take() {
                    Some(before) => merge.both(before, value)?,
                    None => value,
                };
                Ok(found.insert(all).size())
            }
            _ => Ok(0),
        }
    }

    /// The value that all rows have, if they have one.
    fn value(self, window: &Arc<dyn WindowExpr>) -> DataFusionResult<Option<ArrayRef>> {
        match self {
            Gathered::Nothing => Ok(None),
            Gathered::Aggregate(mut aggregate) => aggregate.evaluate(EmitTo::All).map(Some),
            Gathered::Value { found: Some(value), .. } => value.to_array().map(Some),
            Gathered::Value { found: None, .. } => {
                ScalarValue::try_from(window.field()?.data_type())?.to_array().map(Some)
            }
        }
    }
}

/// Rows of a batch that have the same rank.
struct Rank {
    rows: usize,
    /// The numbers of the first row of the rank and of the first one behind it, in the partition.
    start: u64,
    end: u64,
}

/// Finds the ranks of rows.
struct Ranks {
    cut: Cut,
    of_batch: Vec<Rank>,
}

impl Ranks {
    fn new(order: &[Key]) -> Ranks {
        Ranks { cut: Cut::new(order), of_batch: Vec::new() }
    }

    /// The ranks of the next rows, of which the first has this number.
    async fn next(
        &mut self,
        batch: &RecordBatch,
        first: u64,
        ends: &mut Option<Ends>,
    ) -> DataFusionResult<&[Rank]> {
        let Runs { ranges, goes_on } = self.cut.cut(batch)?;
        let open = self.of_batch.pop().filter(|_| goes_on);
        let mut last = open.map(|rank| (rank.start, rank.end));
        self.of_batch.clear();
        for range in ranges {
            let (start, end) = match (last.take(), &mut *ends) {
                (Some(open), _) => open,
                (None, Some(ends)) => (first + range.start as u64, ends.next().await?),
                (None, None) => (first + range.start as u64, 0),
            };
            self.of_batch.push(Rank { rows: range.len(), start, end });
        }
        Ok(&self.of_batch)
    }
}

/// Finds where ranks end, ahead of who asks.
struct Ends {
    rows: Rows,
    cut: Cut,
    read: u64,
    found: VecDeque<u64>,
}

impl Ends {
    fn new(rows: Rows, order: &[Key]) -> Ends {
        Ends { rows, cut: Cut::new(order), read: 0, found: VecDeque::new() }
    }

    /// The number of the first row behind the next rank.
    async fn next(&mut self) -> DataFusionResult<u64> {
        loop {
            if let Some(end) = self.found.pop_front() {
                return Ok(end);
            }
            let Some(batch) = self.rows.next().await? else { return Ok(self.read) };
            let Runs { ranges, goes_on } = self.cut.cut(&batch)?;
            // A rank ends where another begins.
            let begins = ranges.iter().skip(usize::from(goes_on)).map(|range| range.start as u64);
            self.found.extend(begins.map(|row| self.read + row).filter(|row| *row > 0));
            self.read += batch.num_rows() as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::bucket;

    #[test]
    fn the_first_buckets_are_larger() {
        let buckets = |rows, of| (0..rows).map(|row| bucket(row, rows, of)).collect::<Vec<_>>();
        assert_eq!(buckets(10, 4), [1, 1, 1, 2, 2, 2, 3, 3, 4, 4]);
        assert_eq!(buckets(3, 5), [1, 2, 3]);
        assert_eq!(buckets(4, 2), [1, 1, 2, 2]);
        assert_eq!(buckets(1, u64::MAX), [1]);
    }
}
