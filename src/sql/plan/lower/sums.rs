//! Sums of `x`, `x + 1`, `x * 2`, `3 - x` and the like over one integer expression: each is a
//! multiple of `sum(x)` and a multiple of `count(x)`. The fragment computes these two once, and a
//! projection above it the answers.
//!
//! Sums are shared only where the type of `x` shows that no value of the expressions wraps around,
//! so that the answers are those of each sum by itself. The projection computes in 38 digits, and
//! fails where a sum does not fit into 64 bits. Doubles are rounded value by value, and stay as
//! they are.

use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::common::Column;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::logical_expr::expr::{AggregateFunction as Call, AggregateFunctionParams};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, Projection, cast,
    logical_plan::Aggregate,
};
use datafusion::scalar::ScalarValue;

use super::source::without_alias;

/// How many literals around an expression are looked for.
const MAX_DEPTH: usize = 16;

/// An aggregate in which each sum over an expression is there once.
pub(super) struct Shared {
    /// The aggregate, with fewer sums.
    pub(super) aggregate: Aggregate,
    /// What the original one has, in terms of that.
    outputs: Vec<Expr>,
    original: Aggregate,
}

/// A sum of `factor · of + offset`.
struct Sum {
    of: Expr,
    factor: i64,
    offset: i64,
    filter: Option<Box<Expr>>,
}

/// Where an aggregate comes from: the column of its own, or of the sum that it shares.
struct Place<'s> {
    at: usize,
    /// The sum, and the column of the count.
    shared: Option<(&'s Sum, usize)>,
}

/// The same aggregate with shared sums; `None` if no two sums are over the same expression.
pub(super) fn shared(original: &Aggregate) -> Option<Shared> {
    let sums: Vec<Option<Sum>> =
        original.aggr_expr.iter().map(|call| sum(call, &original.input)).collect();
    let is_shared = |sum: &Sum| {
        let others = sums.iter().flatten();
        others.filter(|other| other.of == sum.of && other.filter == sum.filter).count() > 1
    };
    if !sums.iter().flatten().any(is_shared) {
        return None;
    }
    let keys = original.group_expr.len();
    // Grouping sets have more columns.
    if original.schema.fields().len() != keys + sums.len() {
        return None;
    }
    // Casts do not show in names, so a shared call may have that of another one: its own name says
    // where it stands.
    let mut calls: Vec<Expr> = Vec::new();
    let mut place = |call: Expr, is_shared: bool| {
        let known = calls.iter().position(|known| is_shared && *without_alias(known) == call);
        keys + known.unwrap_or_else(|| {
            let at = calls.len();
            calls.push(if is_shared { call.alias(format!("#shared {at}")) } else { call });
            at
        })
    };
    let places: Vec<Place<'_>> = original
        .aggr_expr
        .iter()
        .zip(&sums)
        .map(|(call, sum)| match sum.as_ref().filter(|sum| is_shared(sum)) {
            Some(shared) => {
                let [sum, count] = shared.calls(call)?;
                let sum = place(sum, true);
                let count = if shared.offset == 0 { sum } else { place(count, true) };
                Some(Place { at: sum, shared: Some((shared, count)) })
            }
            None => Some(Place { at: place(call.clone(), false), shared: None }),
        })
        .collect::<Option<_>>()?;
    let aggregate =
        Aggregate::try_new(Arc::clone(&original.input), original.group_expr.clone(), calls).ok()?;
    let column = |at: usize| Expr::Column(Column::from(aggregate.schema.qualified_field(at)));
    let output = |(number, place): (usize, &Place<'_>)| {
        let name = original.schema.field(keys + number).name();
        match place.shared {
            Some((sum, count)) => sum.output(column(place.at), column(count)).alias(name),
            None => column(place.at),
        }
    };
    let outputs =
        (0..keys).map(column).chain(places.iter().enumerate().map(output)).collect::<Vec<_>>();
    Some(Shared { aggregate, outputs, original: original.clone() })
}

impl Shared {
    /// The original aggregate, over what stands for the one with shared sums.
    pub(super) fn over(self, lowered: LogicalPlan) -> Option<LogicalPlan> {
        let (input, schema) = (Arc::new(lowered), self.original.schema);
        Projection::try_new_with_schema(self.outputs, input, schema)
            .map(LogicalPlan::Projection)
            .ok()
    }
}

impl Sum {
    /// The calls of `sum` and `count` for the expression; `call` is the original one.
    fn calls(&self, call: &Expr) -> Option<[Expr; 2]> {
        let Expr::AggregateFunction(Call { func, .. }) = without_alias(call) else { return None };
        Some([Arc::clone(func), count_udaf()].map(|func| {
            let params = AggregateFunctionParams {
                args: vec![self.of.clone()],
                distinct: false,
                filter: self.filter.clone(),
                order_by: Vec::new(),
                null_treatment: None,
            };
            Expr::AggregateFunction(Call { func, params })
        }))
    }

    /// The sum from the sum and the count of the expression.
    fn output(&self, sum: Expr, count: Expr) -> Expr {
        if (self.factor, self.offset) == (1, 0) {
            return sum;
        }
        let times = |factor: i64, of: Expr| match factor {
            1 => cast(of, INTEGERS),
            factor => binary(literal(factor), Operator::Multiply, cast(of, INTEGERS)),
        };
        let sum = times(self.factor, sum);
        let sum = match self.offset {
            0 => sum,
            offset => binary(sum, Operator::Plus, times(offset, count)),
        };
        cast(sum, DataType::Int64)
    }
}

/// An aggregate as a sum over integers, if it is one.
fn sum(call: &Expr, input: &LogicalPlan) -> Option<Sum> {
    let Expr::AggregateFunction(Call { func, params }) = without_alias(call) else { return None };
    let AggregateFunctionParams { args, distinct, filter, order_by, null_treatment } = params;
    let [argument] = args.as_slice() else { return None };
    let plain = func.name() == "sum"
        && !distinct
        && order_by.is_empty()
        && null_treatment.is_none()
        && argument.get_type(input.schema().as_ref()).ok()? == DataType::Int64;
    let (of, factor, offset) = linear(argument, 0);
    let fits = is_narrow(of, input)? && never_wraps(factor, offset);
    (plain && fits).then(|| Sum { of: of.clone(), factor, offset, filter: filter.clone() })
}

/// Whether an expression is an integer of up to 32 bits, cast to one of 64, perhaps below a
/// projection, where the planner puts what several expressions have in common.
fn is_narrow(of: &Expr, input: &LogicalPlan) -> Option<bool> {
    if let (Expr::Column(column), LogicalPlan::Projection(below)) = (of, input) {
        let at = below.schema.maybe_index_of_column(column)?;
        return is_narrow(without_alias(below.expr.get(at)?), &below.input);
    }
    let Expr::Cast(to) = of else { return Some(false) };
    let from = to.expr.get_type(input.schema().as_ref()).ok()?;
    let is_narrow = from.is_integer() && from.primitive_width()? <= size_of::<u32>();
    Some(is_narrow && *to.field.data_type() == DataType::Int64)
}

/// Whether `factor · x + offset` fits into 64 bits for each `x` of 32 bits.
fn never_wraps(factor: i64, offset: i64) -> bool {
    let most = u128::from(factor.unsigned_abs()) * (1 << 32) + u128::from(offset.unsigned_abs());
    most <= i64::MAX.unsigned_abs().into()
}

/// An expression of 64-bit integers as `factor · of + offset`.
fn linear(expr: &Expr, depth: usize) -> (&Expr, i64, i64) {
    let expr = without_alias(expr);
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return (expr, 1, 0) };
    let (inner, number, first) = match (integer(left), integer(right)) {
        (Some(number), None) => (right, number, true),
        (None, Some(number)) => (left, number, false),
        _ => return (expr, 1, 0),
    };
    if depth == MAX_DEPTH {
        return (expr, 1, 0);
    }
    let (of, factor, offset) = linear(inner, depth + 1);
    let linear = match op {
        Operator::Plus => Some(factor).zip(offset.checked_add(number)),
        Operator::Minus if first => factor.checked_neg().zip(number.checked_sub(offset)),
        Operator::Minus => Some(factor).zip(offset.checked_sub(number)),
        Operator::Multiply => factor.checked_mul(number).zip(offset.checked_mul(number)),
        _ => None,
    };
    linear.map_or((expr, 1, 0), |(factor, offset)| (of, factor, offset))
}

fn integer(expr: &Expr) -> Option<i64> {
    match without_alias(expr) {
        Expr::Literal(ScalarValue::Int64(value), _) => *value,
        _ => None,
    }
}

/// The type of 64-bit integers as decimals. A product of two of them has 38 digits.
const INTEGERS: DataType = DataType::Decimal128(19, 0);

fn literal(value: i64) -> Expr {
    Expr::Literal(ScalarValue::Decimal128(Some(value.into()), 19, 0), None)
}

fn binary(left: Expr, op: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
}
