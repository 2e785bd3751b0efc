//! Aggregates that hold the values of a group, as sorts, windows and groups, which spill.
//!
//! Where this stands on the road of a query: a statement that ran out of memory is planned once
//! more (`session/frugal`), and `lower` asks here for what else computes an aggregate that no
//! fragment does. DataFusion's accumulators (55.2) of `median`, `quantile_cont`, `quantile_disc`,
//! `mode` and DISTINCT hold all values of a group, and a table of few groups cannot spill them.
//!
//! - A function of distinct values is the same one over a group of each value.
//! - A quantile needs one or two rows: in the order of the values they are numbered, and the number
//!   of values says which ones.
//! - The mode is the first of the values in the order of their counts.
//!
//! Several such functions, and others beside them, are computed each by itself, and their rows are
//! joined by the keys of the groups.

use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::common::{Column, DFSchema, JoinType, NullEquality, ScalarValue, internal_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::functions_aggregate::count::{count, count_udaf};
use datafusion::functions_window::row_number::row_number;
use datafusion::logical_expr::expr::{
    AggregateFunction as Call, AggregateFunctionParams, Sort as SortKey, WindowFunction,
};
use datafusion::logical_expr::logical_plan::Aggregate;
use datafusion::logical_expr::{
    Distinct, Expr, ExprFunctionExt, ExprSchemable, LogicalPlan, LogicalPlanBuilder, WindowFrame,
    WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition, cast, lit, when,
};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;

use super::source::without_alias;
use crate::sql::functions::percentiles;
use crate::sql::types::nested_zeros::plus_zero;
use crate::sql::types::zeros::one_nan;
use crate::sql::walks::{any_expression, any_node};

/// Functions that take no nulls, and whose DISTINCT may be a group.
const OF_DISTINCT: [&str; 23] = [
    "avg",
    "bit_xor",
    "corr",
    "count",
    "covar_pop",
    "covar_samp",
    "median",
    "percentile_cont",
    "regr_avgx",
    "regr_avgy",
    "regr_count",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "regr_sxx",
    "regr_sxy",
    "regr_syy",
    "stddev",
    "stddev_pop",
    "string_agg",
    "sum",
    "var",
    "var_pop",
];

/// Functions whose result depends on the order of rows that nothing orders.
const OF_ORDER: [&str; 5] = ["array_agg", "first_value", "last_value", "nth_value", "string_agg"];

/// Functions that hold the values of a group, with those that `quantiles` makes of several.
const HOLDING: [&str; 6] =
    ["median", "mode", "percentile_cont", "percentiles_cont", "quantile_disc", "quantiles_disc"];

/// The number of a row in the order of values.
const RANK: &str = "#rank";
/// How many values a group has, or how many rows a value has.
const COUNT: &str = "#count";

/// Whether an aggregate of a plan holds values that it need not hold.
pub(in crate::sql) fn holds_values(call: &AggregateFunctionExpr) -> bool {
    let name = call.fun().name();
    match call.is_distinct() {
        true => OF_DISTINCT.contains(&name) && call.order_bys().is_empty(),
        false => HOLDING.contains(&name),
    }
}

/// The rows of an aggregate with the names of its columns, from a plan that spills; `None` if the
/// aggregate holds no values, or if it must hold them.
pub(super) fn rewritten(aggregate: &Aggregate) -> DataFusionResult<Option<LogicalPlan>> {
    let is_done = aggregate.input.schema().fields().iter().any(|field| field.name() == RANK);
    let has_sets = aggregate.group_expr.iter().any(|key| matches!(key, Expr::GroupingSet(_)));
    if is_done || has_sets {
        return Ok(None);
    }
    // Which calls are computed together, and how.
    let mut parts: Vec<(Strategy, Vec<usize>)> = Vec::new();
    for (at, call) in aggregate.aggr_expr.iter().enumerate() {
        let strategy = Strategy::of(call, aggregate.input.schema())?;
        match parts.iter_mut().find(|(known, _)| strategy.takes_others() && *known == strategy) {
            Some((_, calls)) => calls.push(at),
            None => parts.push((strategy, vec![at])),
        }
    }
    let holds = parts.iter().any(|(strategy, _)| *strategy != Strategy::Plain);
    if !holds || parts.len() > 1 && !(is_repeatable(&aggregate.input) && has_plain_keys(aggregate))
    {
        return Ok(None);
    }
    let mut joined: Option<LogicalPlanBuilder> = None;
    for (number, (strategy, calls)) in parts.iter().enumerate() {
        let part = Part { aggregate, number, calls }.plan(strategy)?;
        joined = Some(match joined {
            Some(joined) => join(joined, part, aggregate.group_expr.len(), number)?,
            None => LogicalPlanBuilder::from(part),
        });
    }
    let Some(joined) = joined else { return Ok(None) };
    let keys = aggregate.group_expr.len();
    let outputs = aggregate.schema.iter().enumerate().map(|(at, (qualifier, field))| {
        let column = match at.checked_sub(keys) {
            None => named(&key_name(0, at)),
            Some(call) => named(&call_name(call)),
        };
        column.alias_qualified(qualifier.cloned(), field.name())
    });
    Ok(Some(joined.project(outputs.collect::<Vec<_>>())?.build()?))
}

/// How a call is computed.
#[derive(Clone, Debug, PartialEq)]
enum Strategy {
    /// As it is.
    Plain,
    /// Over the distinct rows of these values.
    Once(Vec<Expr>),
    Median(Expr),
    /// Between two values, at this fraction of the way from the first to the last.
    Between {
        value: Expr,
        fraction: f64,
        descending: bool,
    },
    /// A value, at this fraction of the way.
    At {
        value: Expr,
        fraction: f64,
    },
    Mode(Expr),
}

impl Strategy {
    fn of(call: &Expr, schema: &DFSchema) -> DataFusionResult<Strategy> {
        let Expr::AggregateFunction(Call { func, params }) = without_alias(call) else {
            return Ok(Strategy::Plain);
        };
        let AggregateFunctionParams { args, distinct, filter, order_by, null_treatment } = params;
        let value = |value: &Expr| -> DataFusionResult<Expr> {
            let value = without_alias(value).clone();
            match filter {
                // None of these functions takes nulls.
                Some(filter) => when(filter.as_ref().clone(), value).end(),
                None => Ok(value),
            }
        };
        let (Some(first), None) = (args.first(), null_treatment) else {
            return Ok(Strategy::Plain);
        };
        let name = func.name();
        if *distinct {
            if !OF_DISTINCT.contains(&name) || !order_by.is_empty() {
                return Ok(Strategy::Plain);
            }
            let values = args.iter().filter(|argument| literal(argument).is_none());
            let values = values.map(|argument| plus_zero(value(argument)?, schema));
            let values = values.collect::<DataFusionResult<Vec<_>>>()?;
            return Ok(if values.is_empty() { Strategy::Plain } else { Strategy::Once(values) });
        }
        let fraction = args.get(1).and_then(literal).and_then(number);
        let of = first.get_type(schema)?;
        Ok(match (name, fraction) {
            ("median", None) if args.len() == 1 && order_by.is_empty() => {
                Strategy::Median(value(first)?)
            }
            ("percentile_cont", Some(fraction))
                if of == DataType::Float64
                    && (0.0..=1.0).contains(&fraction)
                    && order_by.len() <= 1 =>
            {
                let descending = order_by.first().is_some_and(|key| !key.asc);
                Strategy::Between { value: value(first)?, fraction, descending }
            }
            ("quantile_disc", Some(fraction))
                if (-1.0..=1.0).contains(&fraction) && order_by.is_empty() =>
            {
                Strategy::At { value: with_one_zero(value(first)?, schema)?, fraction }
            }
            ("mode", None) if args.len() == 1 && order_by.is_empty() => {
                Strategy::Mode(with_one_zero(value(first)?, schema)?)
            }
            _ => Strategy::Plain,
        })
    }

    /// Whether calls of one strategy are computed from the same rows.
    fn takes_others(&self) -> bool {
        matches!(self, Strategy::Plain | Strategy::Once(_))
    }
}

fn literal(argument: &Expr) -> Option<&ScalarValue> {
    match without_alias(argument) {
        Expr::Literal(value, _) => Some(value),
        _ => None,
    }
}

fn number(value: &ScalarValue) -> Option<f64> {
    match value.cast_to(&DataType::Float64) {
        Ok(ScalarValue::Float64(number)) => number,
        _ => None,
    }
}

/// Equal floats as equal bytes, as `mode` and `quantile_disc` have them.
fn with_one_zero(value: Expr, schema: &DFSchema) -> DataFusionResult<Expr> {
    match value.get_type(schema)?.is_floating() {
        true => Ok(one_nan().call(vec![plus_zero(value, schema)?])),
        false => Ok(value),
    }
}

/// Some calls of an aggregate, which are computed from the same rows.
struct Part<'a> {
    aggregate: &'a Aggregate,
    number: usize,
    calls: &'a [usize],
}

impl Part<'_> {
    /// The keys of the groups, and the results of the calls, by names of their own. Each part has
    /// all groups.
    fn plan(&self, strategy: &Strategy) -> DataFusionResult<LogicalPlan> {
        match strategy {
            Strategy::Plain => self.plain(),
            Strategy::Once(values) => self.once(values),
            Strategy::Mode(value) => self.mode(value),
            Strategy::Median(value) => self.median(value),
            Strategy::Between { value, fraction, descending } => {
                self.between(value, *fraction, *descending)
            }
            Strategy::At { value, fraction } => self.at(value, *fraction),
        }
    }

    fn plain(&self) -> DataFusionResult<LogicalPlan> {
        let keys = self.aggregate.group_expr.len();
        let calls = self.calls.iter().filter_map(|call| {
            let expr = self.aggregate.aggr_expr.get(*call)?;
            Some(without_alias(expr).clone().alias(call_name(*call)))
        });
        let input = Arc::clone(&self.aggregate.input);
        let group = self.aggregate.group_expr.clone();
        let plan = LogicalPlan::Aggregate(Aggregate::try_new(input, group, calls.collect())?);
        let outputs = plan.schema().columns().into_iter().enumerate().map(|(at, column)| {
            let column = Expr::Column(column);
            if at < keys { column.alias(key_name(self.number, at)) } else { column }
        });
        let outputs: Vec<Expr> = outputs.collect();
        LogicalPlanBuilder::from(plan).project(outputs)?.build()
    }

    fn once(&self, values: &[Expr]) -> DataFusionResult<LogicalPlan> {
        let rows = self.rows(values)?;
        let columns = rows.schema().columns().into_iter().map(Expr::Column).collect();
        let rows = LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(rows), columns, vec![])?);
        let calls = self.calls.iter().map(|call| self.call(*call, None));
        let calls = calls.collect::<DataFusionResult<_>>()?;
        self.grouped(rows, calls)
    }

    fn median(&self, value: &Expr) -> DataFusionResult<LogicalPlan> {
        let twice = cast(named(RANK), DataType::Int64) * lit(2_i64);
        let count = named(COUNT);
        let is_middle = twice.clone().gt_eq(count.clone()).and(twice.lt_eq(count + lit(2_i64)));
        let median = self.calls.iter().map(|call| self.call(*call, Some(is_middle.clone())));
        let median = median.collect::<DataFusionResult<_>>()?;
        self.grouped(self.ranked(value, false)?, median)
    }

    fn between(
        &self,
        value: &Expr,
        fraction: f64,
        descending: bool,
    ) -> DataFusionResult<LogicalPlan> {
        let place = cast(named(COUNT) - lit(1_i64), DataType::Float64) * lit(fraction);
        let rank = cast(named(RANK), DataType::Int64);
        // The value whose number from 0 on is the floor of the place, and the one after it.
        let is_at = |before: i64| {
            let from = cast(rank.clone() - lit(before + 1), DataType::Float64);
            let to = cast(rank.clone() - lit(before), DataType::Float64);
            from.lt_eq(place.clone()).and(place.clone().lt(to))
        };
        let mut calls = Vec::new();
        for call in self.calls {
            calls.push(self.call(*call, Some(is_at(0)))?.unalias().alias("#low"));
            calls.push(self.call(*call, Some(is_at(1)))?.unalias().alias("#high"));
        }
        calls.push(count(named(&value_name(0))).alias(COUNT));
        let ends = self.grouped(self.ranked(value, descending)?, calls)?;
        let between = percentiles::between();
        let arguments = vec![named("#low"), named("#high"), named(COUNT), lit(fraction)];
        self.with_result(ends, between.call(arguments))
    }

    fn at(&self, value: &Expr, fraction: f64) -> DataFusionResult<LogicalPlan> {
        let count = cast(named(COUNT), DataType::Float64);
        let rest = count.clone() - count.clone() * lit(fraction.abs());
        // The number is the count less the floor of the rest, and at least 1.
        let rank = cast(named(RANK), DataType::Int64);
        let after = cast(named(COUNT) - rank.clone(), DataType::Float64);
        let before = cast(named(COUNT) - rank.clone() + lit(1_i64), DataType::Float64);
        let is_found = after.lt_eq(rest.clone()).and(rest.clone().lt(before));
        let is_first = rank.eq(lit(1_i64)).and(rest.gt_eq(count));
        self.picked(self.ranked(value, fraction < 0.0)?, is_found.or(is_first))
    }

    fn mode(&self, value: &Expr) -> DataFusionResult<LogicalPlan> {
        let rows = self.rows(std::slice::from_ref(value))?;
        let columns = rows.schema().columns().into_iter().map(Expr::Column).collect();
        let times = vec![count(named(&value_name(0))).alias(COUNT)];
        let rows = LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(rows), columns, times)?);
        let order = vec![named(COUNT).sort(false, false), named(&value_name(0)).sort(true, false)];
        let rank = self.rank(order)?;
        let rows = LogicalPlanBuilder::from(rows).window([rank])?.build()?;
        self.picked(rows, cast(named(RANK), DataType::Int64).eq(lit(1_i64)))
    }

    /// The keys of the groups, and values.
    fn rows(&self, values: &[Expr]) -> DataFusionResult<LogicalPlan> {
        let keys = self.aggregate.group_expr.iter().enumerate();
        let keys =
            keys.map(|(at, key)| without_alias(key).clone().alias(key_name(self.number, at)));
        let values = values.iter().enumerate();
        let values = values.map(|(at, value)| value.clone().alias(value_name(at)));
        let columns: Vec<Expr> = keys.chain(values).collect();
        LogicalPlanBuilder::from(self.aggregate.input.as_ref().clone()).project(columns)?.build()
    }

    /// Rows with the number of each in the order of a value, and with the count of values.
    fn ranked(&self, value: &Expr, descending: bool) -> DataFusionResult<LogicalPlan> {
        let order = vec![named(&value_name(0)).sort(!descending, false)];
        let count = WindowFunctionDefinition::AggregateUDF(count_udaf());
        let count = Expr::from(WindowFunction::new(count, vec![named(&value_name(0))]))
            .partition_by(self.keys())
            .order_by(order.clone())
            .window_frame(from_first(WindowFrameBound::Following(ScalarValue::UInt64(None))))
            .build()?
            .alias(COUNT);
        let rank = self.rank(order)?;
        let rows = self.rows(std::slice::from_ref(value))?;
        LogicalPlanBuilder::from(rows).window([count, rank])?.build()
    }

    fn rank(&self, order: Vec<SortKey>) -> DataFusionResult<Expr> {
        let frame = from_first(WindowFrameBound::CurrentRow);
        let rank = row_number().partition_by(self.keys()).order_by(order).window_frame(frame);
        Ok(rank.build()?.alias(RANK))
    }

    /// The only value of each group that passes a filter. Without keys there is a result for no
    /// rows, too.
    fn picked(&self, rows: LogicalPlan, filter: Expr) -> DataFusionResult<LogicalPlan> {
        if self.aggregate.group_expr.is_empty() {
            let calls = self.calls.iter().map(|call| self.call(*call, Some(filter.clone())));
            let calls = calls.collect::<DataFusionResult<_>>()?;
            return self.grouped(rows, calls);
        }
        let rows = LogicalPlanBuilder::from(rows).filter(filter)?.build()?;
        // As the result of a call, it may be null for all that is known.
        let value = when(named(RANK).is_not_null(), named(&value_name(0))).end()?;
        self.with_result(rows, value)
    }

    fn grouped(&self, rows: LogicalPlan, calls: Vec<Expr>) -> DataFusionResult<LogicalPlan> {
        Ok(LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(rows), self.keys(), calls)?))
    }

    fn with_result(&self, rows: LogicalPlan, result: Expr) -> DataFusionResult<LogicalPlan> {
        let results = self.calls.iter().map(|call| result.clone().alias(call_name(*call)));
        let columns: Vec<Expr> = self.keys().into_iter().chain(results).collect();
        LogicalPlanBuilder::from(rows).project(columns)?.build()
    }

    fn keys(&self) -> Vec<Expr> {
        let keys = 0..self.aggregate.group_expr.len();
        keys.map(|at| named(&key_name(self.number, at))).collect()
    }

    /// A call over the values of rows, without DISTINCT, of the rows that pass a filter.
    fn call(&self, number: usize, filter: Option<Expr>) -> DataFusionResult<Expr> {
        let call = self.aggregate.aggr_expr.get(number).map(without_alias);
        let Some(Expr::AggregateFunction(Call { func, params })) = call else {
            return internal_err!("an aggregate without a call");
        };
        let mut values = 0..;
        let args = params.args.iter().map(|argument| match literal(argument) {
            Some(_) => without_alias(argument).clone(),
            None => named(&value_name(values.next().unwrap_or_default())),
        });
        let call = Call::new_udf(
            Arc::clone(func),
            args.collect(),
            false,
            filter.map(Box::new),
            vec![],
            None,
        );
        Ok(Expr::AggregateFunction(call).alias(call_name(number)))
    }
}

fn join(
    joined: LogicalPlanBuilder,
    part: LogicalPlan,
    keys: usize,
    number: usize,
) -> DataFusionResult<LogicalPlanBuilder> {
    if keys == 0 {
        return joined.cross_join(part);
    }
    let keys = |part| (0..keys).map(move |at| Column::new_unqualified(key_name(part, at)));
    let keys: (Vec<Column>, Vec<Column>) = (keys(0).collect(), keys(number).collect());
    joined.join_detailed(part, JoinType::Inner, keys, None, NullEquality::NullEqualsNull)
}

/// A frame of rows from the first one of the partition on.
fn from_first(end: WindowFrameBound) -> WindowFrame {
    let start = WindowFrameBound::Preceding(ScalarValue::UInt64(None));
    WindowFrame::new_bounds(WindowFrameUnits::Rows, start, end)
}

fn named(name: &str) -> Expr {
    Expr::Column(Column::new_unqualified(name))
}

fn key_name(part: usize, at: usize) -> String {
    format!("#key {part} {at}")
}

fn value_name(at: usize) -> String {
    format!("#value {at}")
}

fn call_name(at: usize) -> String {
    format!("#call {at}")
}

/// Whether a plan that is run twice gives the same rows.
fn is_repeatable(plan: &LogicalPlan) -> bool {
    let depends_on_order = |expr: &Expr| match expr {
        Expr::AggregateFunction(call) => OF_ORDER.contains(&call.func.name()),
        other => other.is_volatile_node(),
    };
    let chooses = |node: &LogicalPlan| match node {
        LogicalPlan::Sort(sort) => sort.fetch.is_some(),
        LogicalPlan::TableScan(scan) => scan.fetch.is_some(),
        LogicalPlan::Distinct(Distinct::On(_))
        | LogicalPlan::Extension(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::RecursiveQuery(_)
        | LogicalPlan::Window(_) => true,
        _ => false,
    };
    !any_node(plan, chooses) && !any_expression(plan, depends_on_order)
}

/// Whether keys are equal in a join where they are in a group.
fn has_plain_keys(aggregate: &Aggregate) -> bool {
    let schema = aggregate.input.schema();
    aggregate.group_expr.iter().all(|key| {
        key.get_type(schema).is_ok_and(|of| !of.is_floating() && !of.is_nested() && !of.is_null())
    })
}
