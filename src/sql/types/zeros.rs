//! One zero and one NaN: -0.0 and 0.0 are equal, in lists and sets, too, and there is a single NaN,
//! which is the greatest value.
//!
//! DataFusion's comparisons (55.2) treat the zeros as equal, but it looks values up in longer lists
//! by their bits, and compares bits in some other places. Here a list with one of the zeros gets
//! the other one, too; 0.0 is added to the keys of windows and to the arguments of a count of
//! distinct values, which gives the same for both zeros (within lists and structs, `nested_zeros`
//! does); CASE with an operand and `nullif` become
//! comparisons. A NaN with its sign bit set, which 0/0, `-x` and ln(-1) give, sorts first in the
//! total order and is not equal to the other NaN: the sign is removed from the results of
//! quotients, remainders, negations and functions of floats. Sums, differences and products stay as
//! they are, because they are NaN only for infinities (infinity - infinity, infinity * 0), and so
//! do aggregates.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_schema::DataType;
#[cfg(feature = "cluster")]
use arrow_schema::Schema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue, internal_datafusion_err, internal_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::{Case, ScalarFunction};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Distinct, DistinctOn, Expr, ExprSchemable, LogicalPlan, Operator,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Sort, SortExpr, Volatility, lit, when,
};
use datafusion::optimizer::AnalyzerRule;
#[cfg(feature = "cluster")]
use datafusion::physical_expr::{
    LexOrdering, ScalarFunctionExpr,
    expressions::{BinaryExpr as PhysicalSum, Literal},
};

use super::nested_keys;
use super::nested_zeros::{self, plus_zero, with_one_zero};
use super::{nested_order, nested_sorts};
use crate::sql::walks::{any_expression, any_node, rewrite_plan, rewrite_up, rewrite_where};

/// Adds the other zero to lists that have one.
pub(in crate::sql) fn both_zeros(node: LogicalPlan) -> DataFusionResult<Transformed<LogicalPlan>> {
    let lacks_zero =
        |expr: &Expr| matches!(expr, Expr::InList(list) if missing_zero(&list.list).is_some());
    rewrite_where(node, lacks_zero, |expr, _| add_missing_zeros(expr))
}

/// An order that takes both zeros for equal, and all NaNs, as the executor does.
#[cfg(feature = "cluster")]
pub(in crate::sql) fn one_zero_in_order(
    order: LexOrdering,
    schema: &Schema,
) -> DataFusionResult<LexOrdering> {
    let mut keys = order.to_vec();
    for key in &mut keys {
        let zero = match key.expr.data_type(schema)? {
            DataType::Float64 => ScalarValue::Float64(Some(0.0)),
            DataType::Float32 => ScalarValue::Float32(Some(0.0)),
            _ => continue,
        };
        let (value, options) = (Arc::clone(&key.expr), Arc::new(ConfigOptions::default()));
        let value = ScalarFunctionExpr::try_new(one_nan().into(), vec![value], schema, options)?;
        let zero = Arc::new(Literal::new(zero));
        key.expr = Arc::new(PhysicalSum::new(Arc::new(value), Operator::Plus, zero));
    }
    Ok(LexOrdering::new(keys).unwrap_or(order))
}

/// Makes DataFusion compare values where it would compare bits.
#[derive(Debug)]
pub(in crate::sql) struct OneZero;

impl AnalyzerRule for OneZero {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        let is_distinct_on =
            |node: &LogicalPlan| matches!(node, LogicalPlan::Distinct(Distinct::On(_)));
        let plan = match nested_zeros::are_in(&plan) {
            true => nested_zeros::made_one(plan)?,
            false => plan,
        };
        let plan = match nested_keys::are_in(&plan) {
            true => nested_keys::found_by_row(plan)?,
            false => plan,
        };
        let plan = match nested_order::is_in(&plan) {
            true => nested_order::made_last(plan)?,
            false => plan,
        };
        let plan = match nested_sorts::are_in(&plan) {
            true => nested_sorts::by_nulls_first(plan)?,
            false => plan,
        };
        if !any_expression(&plan, compares_bits) && !any_node(&plan, is_distinct_on) {
            return Ok(plan);
        }
        let rewrite = |node: LogicalPlan| {
            if let LogicalPlan::Distinct(Distinct::On(on)) = node {
                return distinct_on(on);
            }
            rewrite_where(node, compares_bits, compare_values)
        };
        Ok(rewrite_plan(plan, rewrite)?.data)
    }

    fn name(&self) -> &'static str {
        "one_zero"
    }
}

/// Makes the comparisons in an expression compare values.
pub(in crate::sql) fn compare_values(
    expr: Expr,
    schema: &DFSchema,
) -> DataFusionResult<Transformed<Expr>> {
    rewrite_up(expr, |expr| rewrite_expr(expr, schema))
}

fn compares_bits(expr: &Expr) -> bool {
    match expr {
        _ if may_make_nan(expr) => true,
        Expr::Case(case) => case.expr.is_some(),
        Expr::ScalarFunction(function) => function.func.name() == "nullif",
        Expr::AggregateFunction(function) => function.params.order_by.len() > 1,
        Expr::WindowFunction(window) => {
            let params = &window.params;
            params.distinct || !params.partition_by.is_empty() || !params.order_by.is_empty()
        }
        _ => false,
    }
}

fn rewrite_expr(expr: Expr, schema: &DFSchema) -> DataFusionResult<Transformed<Expr>> {
    let is_float =
        |expr: &Expr| expr.get_type(schema).is_ok_and(|data_type| data_type.is_floating());
    match expr {
        expr if may_make_nan(&expr) && is_float(&expr) => Ok(Transformed::yes(canonical_nan(expr))),
        Expr::Case(Case { expr: Some(operand), when_then_expr, else_expr })
            if is_float(&operand) =>
        {
            let when = |when: Box<Expr>| Box::new(operand.as_ref().clone().eq(*when));
            let when_then_expr =
                when_then_expr.into_iter().map(|(value, then)| (when(value), then)).collect();
            Ok(Transformed::yes(Expr::Case(Case { expr: None, when_then_expr, else_expr })))
        }
        Expr::ScalarFunction(function) if function.func.name() == "nullif" => {
            match function.args.as_slice() {
                [value, other] if is_float(value) => {
                    let null = lit(ScalarValue::try_from(&value.get_type(schema)?)?);
                    let case =
                        when(value.clone().eq(other.clone()), null).otherwise(value.clone())?;
                    Ok(Transformed::yes(case))
                }
                _ => Ok(Transformed::no(Expr::ScalarFunction(function))),
            }
        }
        Expr::AggregateFunction(mut function) => {
            let changed = one_zero_before_last(&mut function.params.order_by, schema)?;
            Ok(Transformed::new_transformed(Expr::AggregateFunction(function), changed))
        }
        Expr::WindowFunction(mut window) => {
            let mut changed = false;
            let params = &mut window.params;
            let keys = params
                .partition_by
                .iter_mut()
                .chain(params.order_by.iter_mut().map(|key| &mut key.expr))
                .chain(params.args.iter_mut().filter(|_| params.distinct));
            for key in keys {
                let one = plus_zero(key.clone(), schema)?;
                changed |= one != *key;
                *key = one;
            }
            Ok(Transformed::new_transformed(Expr::WindowFunction(window), changed))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Makes both zeros equal in all keys of a sort but the last, so that later keys order rows whose
/// zeros differ.
pub(in crate::sql) fn one_zero_in_sort(mut sort: Sort) -> DataFusionResult<Transformed<Sort>> {
    let schema = Arc::clone(sort.input.schema());
    let changed = one_zero_before_last(&mut sort.expr, &schema)?;
    Ok(Transformed::new_transformed(sort, changed))
}

/// The same for some keys. Returns whether one has changed.
pub(in crate::sql) fn one_zero_before_last(
    keys: &mut [SortExpr],
    schema: &DFSchema,
) -> DataFusionResult<bool> {
    let earlier = keys.len().saturating_sub(1);
    let mut changed = false;
    for key in keys.iter_mut().take(earlier) {
        let expr = plus_zero(key.expr.clone(), schema)?;
        changed |= expr != key.expr;
        key.expr = expr;
    }
    Ok(changed)
}

/// The keys of DISTINCT ON are also those of its ORDER BY, and must stay equal to them. Without an
/// ORDER BY, only lists and structs need it.
fn distinct_on(mut on: DistinctOn) -> DataFusionResult<Transformed<LogicalPlan>> {
    let schema = Arc::clone(on.input.schema());
    let Some(sort) = on.sort_expr.take() else {
        let keys = on.on_expr.into_iter().map(|key| with_one_zero(key, &schema)).collect();
        let on = DistinctOn::try_new(keys, on.select_expr, None, on.input)?;
        return Ok(Transformed::yes(LogicalPlan::Distinct(Distinct::On(on))));
    };
    let normalise = |expr: Expr| plus_zero(expr, &schema);
    let keys = on.on_expr.into_iter().map(normalise).collect::<DataFusionResult<_>>()?;
    let sort = sort.into_iter().map(|key| Ok(SortExpr { expr: normalise(key.expr)?, ..key }));
    let sort = sort.collect::<DataFusionResult<_>>()?;
    let on = DistinctOn::try_new(keys, on.select_expr, Some(sort), on.input)?;
    Ok(Transformed::yes(LogicalPlan::Distinct(Distinct::On(on))))
}

/// Functions that are not defined for all numbers.
const PARTIAL_FUNCTIONS: [&str; 14] = [
    "acos", "acosh", "asin", "atanh", "cos", "cot", "ln", "log", "log10", "log2", "power", "sin",
    "sqrt", "tan",
];

/// Whether an expression can be a NaN with a sign although its operands are not.
fn may_make_nan(expr: &Expr) -> bool {
    let is_nonzero_literal =
        |expr: &Expr| matches!(expr, Expr::Literal(value, _) if !is_zero(value));
    match expr {
        Expr::Negative(operand) => !matches!(operand.as_ref(), Expr::Literal(..)),
        Expr::BinaryExpr(BinaryExpr { op: Operator::Divide | Operator::Modulo, right, .. }) => {
            !is_nonzero_literal(right)
        }
        Expr::ScalarFunction(function) => PARTIAL_FUNCTIONS.contains(&function.name()),
        _ => false,
    }
}

fn is_zero(value: &ScalarValue) -> bool {
    value.is_null() || ScalarValue::new_zero(&value.data_type()).is_ok_and(|zero| zero == *value)
}

/// Removes the sign of a NaN.
fn canonical_nan(expr: Expr) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(one_nan().into(), vec![expr]))
}

/// The function that removes the sign of a NaN.
pub(in crate::sql) fn one_nan() -> ScalarUDF {
    ScalarUDF::from(OneNan { signature: Signature::any(1, Volatility::Immutable) })
}

/// Returns its argument, but a NaN without its sign.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OneNan {
    signature: Signature,
}

impl ScalarUDFImpl for OneNan {
    fn name(&self) -> &'static str {
        "one_nan"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> DataFusionResult<DataType> {
        arguments
            .first()
            .cloned()
            .ok_or_else(|| internal_datafusion_err!("{} has no argument", self.name()))
    }

    fn invoke_with_args(&self, given: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        match given.args.into_iter().next() {
            Some(ColumnarValue::Array(values)) => Ok(ColumnarValue::Array(without_sign(&values))),
            Some(ColumnarValue::Scalar(value)) => {
                let unsigned = without_sign(&value.to_array()?);
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&unsigned, 0)?))
            }
            None => internal_err!("{} has no argument", self.name()),
        }
    }
}

/// Removes the signs of NaNs from arrays of floats.
fn without_sign(values: &ArrayRef) -> ArrayRef {
    if let Some(floats) = values.as_primitive_opt::<Float64Type>() {
        return Arc::new(
            floats.unary::<_, Float64Type>(|value| if value.is_nan() { f64::NAN } else { value }),
        );
    }
    match values.as_primitive_opt::<Float32Type>() {
        Some(floats) => Arc::new(
            floats.unary::<_, Float32Type>(|value| if value.is_nan() { f32::NAN } else { value }),
        ),
        None => Arc::clone(values),
    }
}

/// Makes aggregates of distinct floats take both zeros for one.
pub(in crate::sql) fn one_zero_in_distinct(
    expr: Expr,
    schema: &DFSchema,
) -> DataFusionResult<Expr> {
    let name = expr.schema_name().to_string();
    let rewritten = rewrite_up(expr, |expr| match expr {
        Expr::AggregateFunction(mut function) if function.params.distinct => {
            let args = function.params.args.into_iter().map(|arg| plus_zero(arg, schema));
            function.params.args = args.collect::<DataFusionResult<_>>()?;
            // DataFusion takes no order but that of the argument.
            for key in &mut function.params.order_by {
                key.expr = plus_zero(std::mem::take(&mut key.expr), schema)?;
            }
            Ok(Transformed::yes(Expr::AggregateFunction(function)))
        }
        other => Ok(Transformed::no(other)),
    })?;
    let renamed = rewritten.data.schema_name().to_string() != name;
    Ok(if renamed { rewritten.data.alias(name) } else { rewritten.data })
}

/// Adds the other zero to lists that have only one.
pub(in crate::sql) fn add_missing_zeros(expr: Expr) -> DataFusionResult<Transformed<Expr>> {
    rewrite_up(expr, |expr| match expr {
        Expr::InList(mut list) => match missing_zero(&list.list) {
            Some(zero) => {
                list.list.push(zero);
                Ok(Transformed::yes(Expr::InList(list)))
            }
            None => Ok(Transformed::no(Expr::InList(list))),
        },
        other => Ok(Transformed::no(other)),
    })
}

/// The zero that a list lacks if it has the other one.
fn missing_zero(list: &[Expr]) -> Option<Expr> {
    let other = list.iter().find_map(|value| match value {
        Expr::Literal(ScalarValue::Float64(Some(zero)), _) if *zero == 0.0 => Some(lit(-zero)),
        Expr::Literal(ScalarValue::Float32(Some(zero)), _) if *zero == 0.0 => Some(lit(-zero)),
        _ => None,
    })?;
    (!list.contains(&other)).then_some(other)
}
