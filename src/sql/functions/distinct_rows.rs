//! Aggregates over distinct rows of their arguments: `corr(DISTINCT x, y)`, `stddev(DISTINCT x)`,
//! `count(DISTINCT (a, b))`.
//!
//! Where this stands on the road of a query: accumulators of `aggregates`. DataFusion (55.2)
//! ignores DISTINCT in aggregates of two arguments, and refuses it in those of one that are
//! computed from moments. Here its accumulator gets each row of arguments once. Its count of
//! distinct lists and structs makes a value of its own of each, which takes kilobytes, and adds up
//! their sizes for each batch. [`count_rows`] puts the one here in its place, once a plan is
//! lowered.

use std::hash::BuildHasher;
use std::mem::size_of_val;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, ListArray, UInt32Array};
use arrow_buffer::OffsetBuffer;
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::{DataType, Field, FieldRef};
use arrow_select::take::take_arrays;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue, exec_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::logical_plan::Aggregate;
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Expr, ExprSchemable, GroupsAccumulator, Signature,
};
use hashbrown::{DefaultHashBuilder, HashTable};

use crate::sql::types::nested_zeros;
use crate::sql::walks::rewrite_up;

/// The state: the distinct values of each argument, row by row.
pub(super) fn state_fields(arguments: &StateFieldsArgs<'_>) -> Vec<FieldRef> {
    let field = |(at, input): (usize, &FieldRef)| {
        let name = format_state_name(arguments.name, &format!("distinct {at}"));
        Arc::new(Field::new(name, DataType::List(item(input.data_type())), true))
    };
    arguments.input_fields.iter().enumerate().map(field).collect()
}

/// An accumulator of a function that takes each row of its arguments once.
pub(super) fn accumulator(
    function: &Arc<AggregateUDF>,
    arguments: AccumulatorArgs<'_>,
) -> DataFusionResult<Box<dyn Accumulator>> {
    let types = arguments.expr_fields.iter().map(|field| field.data_type().clone());
    let converter = RowConverter::new(types.map(SortField::new).collect())?;
    Ok(Box::new(DistinctRows {
        rows: converter.empty_rows(0, 0),
        converter,
        places: HashTable::new(),
        hasher: DefaultHashBuilder::default(),
        inner: function.accumulator(AccumulatorArgs { is_distinct: false, ..arguments })?,
    }))
}

/// Lets counts of distinct values that DataFusion would keep one by one be counted as rows.
pub(in crate::sql) fn count_rows(
    mut aggregate: Aggregate,
) -> DataFusionResult<Transformed<Aggregate>> {
    let schema = Arc::clone(aggregate.input.schema());
    let mut any = false;
    for call in &mut aggregate.aggr_expr {
        let counted = rewrite_up(std::mem::take(call), |expr| match expr {
            Expr::AggregateFunction(mut count)
                if count.func.name() == "count"
                    && count.params.distinct
                    && count.params.args.iter().all(|of| is_kept_by_value(of, &schema)) =>
            {
                let inner = count_udaf();
                count.func = Arc::new(AggregateUDF::from(CountOfRows { inner }));
                Ok(Transformed::yes(Expr::AggregateFunction(count)))
            }
            other => Ok(Transformed::no(other)),
        })?;
        any |= counted.transformed;
        *call = counted.data;
    }
    Ok(Transformed::new_transformed(aggregate, any))
}

fn is_kept_by_value(expr: &Expr, schema: &DFSchema) -> bool {
    use DataType::{Duration, FixedSizeBinary, Interval};
    let of = expr.get_type(schema);
    let is_kept = |of: &DataType| {
        of.is_nested() || matches!(of, Duration(_) | FixedSizeBinary(_) | Interval(_))
    };
    of.is_ok_and(|of| is_kept(&of) && RowConverter::supports_fields(&[SortField::new(of)]))
}

/// `count`, of distinct lists, structs and the like.
#[derive(Debug, PartialEq, Eq, Hash)]
struct CountOfRows {
    /// DataFusion's.
    inner: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for CountOfRows {
    delegate! {
        name() -> &str;
        signature() -> &Signature;
        return_type(arguments: &[DataType]) -> DataFusionResult<DataType>;
        is_nullable() -> bool;
        state_fields(arguments: StateFieldsArgs<'_>) -> DataFusionResult<Vec<FieldRef>>;
        default_value(data_type: &DataType) -> DataFusionResult<ScalarValue>;
        create_groups_accumulator(arguments: AccumulatorArgs<'_>)
            -> DataFusionResult<Box<dyn GroupsAccumulator>>;
    }

    fn accumulator(
        &self,
        arguments: AccumulatorArgs<'_>,
    ) -> DataFusionResult<Box<dyn Accumulator>> {
        match arguments.is_distinct {
            true => accumulator(&self.inner, arguments),
            false => self.inner.accumulator(arguments),
        }
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs<'_>) -> bool {
        !arguments.is_distinct && self.inner.groups_accumulator_supported(arguments)
    }
}

#[derive(Debug)]
struct DistinctRows {
    converter: RowConverter,
    /// The distinct rows of arguments so far.
    rows: Rows,
    /// The places of these rows, by their hashes.
    places: HashTable<u32>,
    hasher: DefaultHashBuilder,
    /// The function's own accumulator, which has seen these rows.
    inner: Box<dyn Accumulator>,
}

impl Accumulator for DistinctRows {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DataFusionResult<()> {
        let values: Vec<ArrayRef> = values.iter().map(nested_zeros::one_zero).collect();
        let given = self.converter.convert_columns(&values)?;
        let DistinctRows { rows, places, hasher, .. } = self;
        let mut new = Vec::new();
        for (at, row) in (0_u32..).zip(given.iter()) {
            let hash = hasher.hash_one(row.as_ref());
            if places.find(hash, |known| rows.row(*known as usize) == row).is_some() {
                continue;
            }
            let Ok(place) = u32::try_from(rows.num_rows()) else {
                return exec_err!("an aggregate of more than 2³² distinct rows");
            };
            rows.push(row);
            let hash_of = |place: &u32| hasher.hash_one(rows.row(*place as usize).as_ref());
            places.insert_unique(hash, place, hash_of);
            new.push(at);
        }
        match new.len() {
            0 => Ok(()),
            _ => self.inner.update_batch(&take_arrays(&values, &UInt32Array::from(new), None)?),
        }
    }

    fn evaluate(&mut self) -> DataFusionResult<ScalarValue> {
        self.inner.evaluate()
    }

    fn size(&self) -> usize {
        let hashes = self.places.capacity() * (size_of::<u32>() + 1);
        size_of_val(self) + self.converter.size() + self.rows.size() + hashes + self.inner.size()
    }

    fn state(&mut self) -> DataFusionResult<Vec<ScalarValue>> {
        let columns = self.converter.convert_rows(self.rows.iter())?;
        let list = |values: ArrayRef| {
            let lengths = OffsetBuffer::from_lengths([values.len()]);
            let list = ListArray::try_new(item(values.data_type()), lengths, values, None)?;
            Ok(ScalarValue::List(Arc::new(list)))
        };
        columns.into_iter().map(list).collect()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DataFusionResult<()> {
        let lists: Option<Vec<&ListArray>> =
            states.iter().map(|state| state.as_any().downcast_ref::<ListArray>()).collect();
        let Some(lists) = lists else { return exec_err!("the state of an aggregate is no list") };
        for row in 0..lists.first().map_or(0, |list| list.len()) {
            let values: Vec<ArrayRef> = lists.iter().map(|list| list.value(row)).collect();
            self.update_batch(&values)?;
        }
        Ok(())
    }
}

fn item(data_type: &DataType) -> FieldRef {
    Arc::new(Field::new_list_field(data_type.clone(), true))
}
