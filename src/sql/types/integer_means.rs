//! `avg` of integers: their exact sum, divided once.
//!
//! Where this stands on the road of a query: an analyzer rule, after types are coerced, and the
//! function that it puts in place of `avg`. Coercion casts the integers to doubles, and DataFusion
//! (55.2) adds these in the order of the rows: the average of 9223372036854775807,
//! -9223372036854775807 and 3 is 0. Integers that the user casts to doubles are summed exactly,
//! too, because the sum differs only by rounding. `avg(DISTINCT …)` stays as it is.

use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, Decimal128Array, Float64Array, UInt64Array};
use arrow_schema::{DataType, Field, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue, exec_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::WindowFunctionDefinition;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, Expr, ExprSchemable, GroupsAccumulator,
    LogicalPlan, Signature, TypeSignature, Volatility, cast,
};
use datafusion::optimizer::AnalyzerRule;

use crate::query::mean;
use crate::sql::walks::{any_expression, rewrite_plan, rewrite_up, rewrite_where};

/// The type of sums, which holds more than 2^63 values.
const SUM_TYPE: DataType = DataType::Decimal128(38, 0);
/// The type to which unsigned 64-bit integers are cast.
const UNSIGNED_TYPE: DataType = DataType::Decimal128(20, 0);

/// The rule of this module.
#[derive(Debug)]
pub(in crate::sql) struct ExactMeans;

impl AnalyzerRule for ExactMeans {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        if !any_expression(&plan, is_candidate) {
            return Ok(plan);
        }
        let rewrite = |node: LogicalPlan| {
            rewrite_where(node, is_candidate, |expr, schema| {
                rewrite_up(expr, |expr| Ok(exact_mean(expr, schema)))
            })
        };
        Ok(rewrite_plan(plan, rewrite)?.data)
    }

    fn name(&self) -> &'static str {
        "exact_means"
    }
}

fn is_candidate(expr: &Expr) -> bool {
    match expr {
        Expr::AggregateFunction(call) => is_mean(&call.func) && !call.params.distinct,
        Expr::WindowFunction(call) => match &call.fun {
            WindowFunctionDefinition::AggregateUDF(function) => {
                is_mean(function) && !call.params.distinct
            }
            WindowFunctionDefinition::WindowUDF(_) => false,
        },
        _ => false,
    }
}

fn is_mean(function: &AggregateUDF) -> bool {
    function.name() == NAME
}

/// Replaces `avg` of integers with the function of this module.
fn exact_mean(mut expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    if !is_candidate(&expr) {
        return Transformed::no(expr);
    }
    let args = match &expr {
        Expr::AggregateFunction(call) => &call.params.args,
        Expr::WindowFunction(call) => &call.params.args,
        _ => return Transformed::no(expr),
    };
    let [argument] = args.as_slice() else { return Transformed::no(expr) };
    let Some(integers) = integers(argument, schema) else { return Transformed::no(expr) };
    match &mut expr {
        Expr::AggregateFunction(call) => {
            call.func = Arc::clone(&MEAN);
            call.params.args = vec![integers];
        }
        Expr::WindowFunction(call) => {
            call.fun = WindowFunctionDefinition::AggregateUDF(Arc::clone(&MEAN));
            call.params.args = vec![integers];
        }
        _ => {}
    }
    Transformed::yes(expr)
}

/// The integers below a cast to doubles, in a type that the function takes.
fn integers(argument: &Expr, schema: &DFSchema) -> Option<Expr> {
    let Expr::Cast(to) = argument else { return None };
    if *to.field.data_type() != DataType::Float64 {
        return None;
    }
    let integers = to.expr.as_ref().clone();
    Some(match integers.get_type(schema).ok()? {
        DataType::Int64 => integers,
        DataType::UInt64 => cast(integers, UNSIGNED_TYPE),
        other if other.is_integer() => cast(integers, DataType::Int64),
        _ => return None,
    })
}

const NAME: &str = "avg";
static MEAN: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| {
    let types =
        [DataType::Int64, UNSIGNED_TYPE].map(|data_type| TypeSignature::Exact(vec![data_type]));
    let signature = Signature::one_of(types.into(), Volatility::Immutable);
    Arc::new(AggregateUDF::from(Mean { signature }))
});

/// The function of this module. Its name is that of DataFusion's.
#[cfg(feature = "cluster")]
pub(in crate::sql) fn exact_mean_function() -> &'static Arc<AggregateUDF> {
    &MEAN
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Mean {
    signature: Signature,
}

impl AggregateUDFImpl for Mean {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DataFusionResult<DataType> {
        Ok(DataType::Float64)
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> DataFusionResult<Vec<FieldRef>> {
        let field =
            |name, of| Arc::new(Field::new(format_state_name(arguments.name, name), of, true));
        Ok(vec![field("count", DataType::UInt64), field("sum", SUM_TYPE)])
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> DataFusionResult<Box<dyn Accumulator>> {
        Ok(Box::new(MeanAccumulator::default()))
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs<'_>) -> bool {
        !arguments.is_distinct
    }

    fn create_groups_accumulator(
        &self,
        _: AccumulatorArgs<'_>,
    ) -> DataFusionResult<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(MeanGroupsAccumulator::default()))
    }
}

/// Calls `add` with each row that passes the filter and is not null, and its value.
fn for_each(
    values: Option<&ArrayRef>,
    filter: Option<&BooleanArray>,
    mut add: impl FnMut(usize, i128),
) -> DataFusionResult<()> {
    let Some(values) = values else { return exec_err!("an average without values") };
    let is_kept =
        |row: usize| filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
    match values.data_type() {
        DataType::Int64 => {
            let values = values.as_primitive::<Int64Type>().iter().enumerate();
            let kept = values.filter(|(row, _)| is_kept(*row));
            kept.for_each(|(row, value)| {
                value.into_iter().for_each(|value| add(row, value.into()))
            });
        }
        DataType::Decimal128(..) => {
            let values = values.as_primitive::<Decimal128Type>().iter().enumerate();
            let kept = values.filter(|(row, _)| is_kept(*row));
            kept.for_each(|(row, value)| value.into_iter().for_each(|value| add(row, value)));
        }
        other => return exec_err!("an average of integers that are {other}"),
    }
    Ok(())
}

/// Counts and sums as the columns of a state.
fn state_columns(counts: Vec<u64>, sums: Vec<i128>) -> Vec<ArrayRef> {
    let sums = Decimal128Array::from(sums).with_data_type(SUM_TYPE);
    vec![Arc::new(UInt64Array::from(counts)), Arc::new(sums)]
}

/// Calls `add` with each row of a state, its count and its sum.
fn for_each_state(
    states: &[ArrayRef],
    mut add: impl FnMut(usize, u64, i128),
) -> DataFusionResult<()> {
    let [counts, sums] = states else {
        return exec_err!("an average in other parts than a count and a sum");
    };
    let pairs =
        counts.as_primitive::<UInt64Type>().iter().zip(sums.as_primitive::<Decimal128Type>());
    for (row, (count, sum)) in pairs.enumerate() {
        add(row, count.unwrap_or_default(), sum.unwrap_or_default());
    }
    Ok(())
}

/// The mean of all rows, or of those in a frame.
#[derive(Debug, Default)]
struct MeanAccumulator {
    count: u64,
    sum: i128,
}

impl Accumulator for MeanAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DataFusionResult<()> {
        for_each(values.first(), None, |_, value| {
            self.count += 1;
            self.sum += value;
        })
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> DataFusionResult<()> {
        for_each(values.first(), None, |_, value| {
            self.count -= 1;
            self.sum -= value;
        })
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> DataFusionResult<ScalarValue> {
        Ok(ScalarValue::Float64((self.count > 0).then(|| mean(self.sum, self.count))))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> DataFusionResult<Vec<ScalarValue>> {
        let DataType::Decimal128(precision, scale) = SUM_TYPE else {
            return exec_err!("a sum without digits");
        };
        Ok(vec![self.count.into(), ScalarValue::Decimal128(Some(self.sum), precision, scale)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DataFusionResult<()> {
        for_each_state(states, |_, count, sum| {
            self.count += count;
            self.sum += sum;
        })
    }
}

/// The mean of each group.
#[derive(Debug, Default)]
struct MeanGroupsAccumulator {
    counts: Vec<u64>,
    sums: Vec<i128>,
}

impl MeanGroupsAccumulator {
    fn grow(&mut self, groups: usize) {
        self.counts.resize(groups, 0);
        self.sums.resize(groups, 0);
    }

    fn add(&mut self, group: Option<&usize>, count: u64, sum: i128) {
        let group = group.copied().unwrap_or(usize::MAX);
        if let (Some(counts), Some(sums)) = (self.counts.get_mut(group), self.sums.get_mut(group)) {
            *counts += count;
            *sums += sum;
        }
    }
}

impl GroupsAccumulator for MeanGroupsAccumulator {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> DataFusionResult<()> {
        self.grow(total);
        for_each(values.first(), filter, |row, value| self.add(groups.get(row), 1, value))
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        groups: &[usize],
        total: usize,
    ) -> DataFusionResult<()> {
        self.grow(total);
        for_each_state(states, |row, count, sum| self.add(groups.get(row), count, sum))
    }

    fn evaluate(&mut self, emit: EmitTo) -> DataFusionResult<ArrayRef> {
        let (counts, sums) = (emit.take_needed(&mut self.counts), emit.take_needed(&mut self.sums));
        let means =
            counts.into_iter().zip(sums).map(|(count, sum)| (count > 0).then(|| mean(sum, count)));
        Ok(Arc::new(means.collect::<Float64Array>()))
    }

    fn state(&mut self, emit: EmitTo) -> DataFusionResult<Vec<ArrayRef>> {
        Ok(state_columns(emit.take_needed(&mut self.counts), emit.take_needed(&mut self.sums)))
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> DataFusionResult<Vec<ArrayRef>> {
        let rows = values.first().map_or(0, |values| values.len());
        let mut states = MeanGroupsAccumulator::default();
        states.grow(rows);
        for_each(values.first(), filter, |row, value| states.add(Some(&row), 1, value))?;
        Ok(state_columns(states.counts, states.sums))
    }

    fn size(&self) -> usize {
        self.counts.capacity() * size_of::<u64>() + self.sums.capacity() * size_of::<i128>()
    }
}
