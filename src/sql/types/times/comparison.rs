//! Compares timestamps with literals and with dates, in the unit of the timestamps.

use arrow_schema::DataType;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Between, BinaryExpr, Case, Expr, ExprSchemable, Operator, lit};

use super::timestamps::TimestampType;
use super::units::is_timestamp;

/// `a < b` and the like.
pub(super) fn binary(compared: BinaryExpr, schema: &DFSchema) -> Transformed<Expr> {
    let BinaryExpr { mut left, op, mut right } = compared;
    if let Some(timestamps) = TimestampType::from_expr(&left, schema)
        && let Some(position) = timestamps.position(&right)
    {
        return Transformed::yes(timestamps.compare(*left, op, &position));
    }
    if let Some(timestamps) = TimestampType::from_expr(&right, schema)
        && let Some(position) = timestamps.position(&left)
    {
        // An operator that cannot be swapped is symmetric.
        let op = op.swap().unwrap_or(op);
        return Transformed::yes(timestamps.compare(*right, op, &position));
    }
    let changed = cast_to_timestamps(vec![&mut *left, &mut *right], schema);
    Transformed::new_transformed(Expr::BinaryExpr(BinaryExpr::new(left, op, right)), changed)
}

/// `x BETWEEN a AND b`: becomes two comparisons if the unit does not hold one of the literals.
pub(super) fn between(mut test: Between, schema: &DFSchema) -> Transformed<Expr> {
    if cast_to_timestamps(vec![&mut *test.expr, &mut *test.low, &mut *test.high], schema) {
        return Transformed::yes(Expr::Between(test));
    }
    let (low_op, high_op) = match test.negated {
        false => (Operator::GtEq, Operator::LtEq),
        true => (Operator::Lt, Operator::Gt),
    };
    let compare = |op, bound: &Expr| {
        binary(BinaryExpr::new(test.expr.clone(), op, Box::new(bound.clone())), schema)
    };
    let (low, high) = (compare(low_op, &test.low), compare(high_op, &test.high));
    if !(low.transformed || high.transformed) || test.expr.is_volatile() {
        return Transformed::no(Expr::Between(test));
    }
    Transformed::yes(match test.negated {
        false => low.data.and(high.data),
        true => low.data.or(high.data),
    })
}

/// `x IN (a, …)`: drops the literals that the unit does not hold.
pub(super) fn in_list(mut test: InList, schema: &DFSchema) -> Transformed<Expr> {
    let mut changed = false;
    if let Some(timestamps) = TimestampType::from_expr(&test.expr, schema) {
        let mut members = Vec::with_capacity(test.list.len());
        let mut dropped = None;
        for member in std::mem::take(&mut test.list) {
            match timestamps.position(&member) {
                Some(position) if position.exact => {
                    members.extend(timestamps.literal(position.floor));
                }
                Some(position) => dropped = Some(position),
                None => {
                    members.push(member);
                    continue;
                }
            }
            changed = true;
        }
        if let Some(position) = dropped.filter(|_| members.is_empty()) {
            let op = if test.negated { Operator::NotEq } else { Operator::Eq };
            return Transformed::yes(timestamps.compare(*test.expr, op, &position));
        }
        test.list = members;
    }
    changed |= cast_to_timestamps(
        std::iter::once(&mut *test.expr).chain(&mut test.list).collect(),
        schema,
    );
    Transformed::new_transformed(Expr::InList(test), changed)
}

/// `CASE x WHEN a …`: a literal that the unit does not hold becomes null, which nothing equals.
pub(super) fn case(mut choice: Case, schema: &DFSchema) -> Transformed<Expr> {
    let Some(operand) = choice.expr.as_deref_mut() else {
        return Transformed::no(Expr::Case(choice));
    };
    let mut changed = false;
    if let Some(timestamps) = TimestampType::from_expr(operand, schema) {
        for (when, _) in &mut choice.when_then_expr {
            if let Some(position) = timestamps.position(when) {
                let value = timestamps.literal(position.floor).filter(|_| position.exact);
                **when = value.unwrap_or_else(|| lit(timestamps.scalar(None)));
                changed = true;
            }
        }
    }
    let whens = choice.when_then_expr.iter_mut().map(|(when, _)| &mut **when);
    changed |= cast_to_timestamps(std::iter::once(operand).chain(whens).collect(), schema);
    Transformed::new_transformed(Expr::Case(choice), changed)
}

/// Casts dates and texts to the type of the timestamps that they are compared with. Returns whether
/// it did: all sides must be dates, texts or timestamps, the timestamps must have the same zone,
/// and the finest unit must hold the literals.
fn cast_to_timestamps(sides: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    let types: Option<Vec<DataType>> =
        sides.iter().map(|side| side.get_type(schema).ok()).collect();
    let Some(types) = types else { return false };
    let Some(timestamps) = TimestampType::finest(&types) else { return false };
    let mut changes = Vec::new();
    for (side, data_type) in sides.into_iter().zip(types) {
        if data_type.is_null() || is_timestamp(&data_type) {
            continue;
        }
        let converted = match (timestamps.position(side), &data_type) {
            (Some(position), _) => timestamps.literal(position.floor).filter(|_| position.exact),
            (None, DataType::Date32 | DataType::Date64) => timestamps.cast_dates(side, &data_type),
            _ => None,
        };
        let Some(converted) = converted else { return false };
        changes.push((side, converted));
    }
    let any = !changes.is_empty();
    for (side, converted) in changes {
        *side = converted;
    }
    any
}
