//! Decimals and integers beside numbers with a point, and beside doubles.
//!
//! Where this stands on the road of a query: an analyzer rule, after types are coerced. DataFusion
//! (55.2) reads `16.78` as a double and casts doubles and decimals to DECIMAL(30, 15), which turns
//! it into 16.780000000000002: `price = 16.78` finds nothing, and 1e300 overflows. It compares
//! integers with such numbers as doubles, which confuses integers above 2^53.
//!
//! Here a number beside a decimal is the exact decimal: in sums, differences and products
//! ([`arithmetic`]), where expressions need a common type or are compared ([`common_type`]), and
//! where coercion or a cast makes it a decimal ([`number`]). [`literals`] keeps digits that a
//! double would round. Columns of decimals and integers are compared with numbers in their own
//! types ([`comparison`]). If a decimal is compared with any other float, both become doubles
//! ([`doubles`]), as in PostgreSQL and DuckDB, unless the user has cast the float to a decimal
//! ([`user_casts`]). Quotients are computed of doubles. A decimal that becomes a float becomes the
//! nearest one ([`nearest`]).

mod arithmetic;
mod common_type;
mod comparison;
mod doubles;
mod literals;
mod nearest;
mod number;
mod user_casts;

use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::common::DFSchema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{Expr, Join, LogicalPlan, Projection, Subquery};
use datafusion::optimizer::AnalyzerRule;

use self::doubles::{as_doubles, is_float_as_decimal, to_double};
use self::number::{ExactType, Number};
use crate::sql::walks::{rewrite_plan, rewrite_up, rewrite_where};
pub(in crate::sql) use arithmetic::{DecimalArithmetic, exact_literal};
pub(in crate::sql) use common_type::{NumbersBesideDecimals, unify_numbers};
pub(in crate::sql) use literals::keep_digits;
pub(in crate::sql) use nearest::{NearestFloats, double_function, single_function};
pub(in crate::sql) use number::is_read_exactly;
pub(in crate::sql) use user_casts::{UserCasts, mark_user_casts};

/// The rule of this module.
#[derive(Debug)]
pub(in crate::sql) struct ExactNumbers;

impl AnalyzerRule for ExactNumbers {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        let rewrite = |node: LogicalPlan| match node {
            LogicalPlan::Join(join) => {
                let joined = rewrite_join_keys(join)?;
                let rewritten = rewrite_node(joined.data)?;
                Ok(Transformed::new_transformed(
                    rewritten.data,
                    rewritten.transformed || joined.transformed,
                ))
            }
            other => rewrite_node(other),
        };
        user_casts::unmark_plan(rewrite_plan(plan, rewrite)?.data)
    }

    fn name(&self) -> &'static str {
        "exact_numbers"
    }
}

fn rewrite_node(node: LogicalPlan) -> DataFusionResult<Transformed<LogicalPlan>> {
    rewrite_where(node, is_candidate, |expr, schema| {
        rewrite_up(expr, |expr| {
            if !is_candidate(&expr) {
                return Ok(Transformed::no(expr));
            }
            // An expression without a type here, such as a filter of a scan, has been rewritten
            // before or will be refused by DataFusion.
            let original = expr.clone();
            rewrite_expr(expr, schema).or_else(|_| Ok(Transformed::no(original)))
        })
    })
}

/// Makes numbers exact in an expression whose types are coerced.
pub(in crate::sql) fn with_exact_numbers(expr: Expr, schema: &DFSchema) -> DataFusionResult<Expr> {
    let exact = rewrite_up(expr, |expr| rewrite_expr(expr, schema))?.data;
    Ok(user_casts::unmark(exact)?.data)
}

fn is_candidate(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(_)
        | Expr::Between(_)
        | Expr::InList(_)
        | Expr::InSubquery(_)
        | Expr::SetComparison(_) => true,
        Expr::Cast(cast) => cast.field.data_type().is_decimal(),
        Expr::TryCast(cast) => cast.field.data_type().is_decimal(),
        _ => false,
    }
}

fn rewrite_expr(expr: Expr, schema: &DFSchema) -> DataFusionResult<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(binary) => comparison::binary(binary, schema),
        Expr::Between(between) => comparison::between(between, schema),
        Expr::InList(list) => comparison::in_list(list, schema),
        Expr::InSubquery(mut test) => {
            let changed = compare_rows_as_doubles(&mut test.expr, &mut test.subquery, schema)?;
            Ok(Transformed::new_transformed(Expr::InSubquery(test), changed))
        }
        Expr::SetComparison(mut test) => {
            let changed = compare_rows_as_doubles(&mut test.expr, &mut test.subquery, schema)?;
            Ok(Transformed::new_transformed(Expr::SetComparison(test), changed))
        }
        Expr::Cast(mut cast) => {
            let changed = make_exact(&mut cast.expr, cast.field.data_type());
            Ok(Transformed::new_transformed(Expr::Cast(cast), changed))
        }
        Expr::TryCast(mut cast) => {
            let changed = make_exact(&mut cast.expr, cast.field.data_type());
            Ok(Transformed::new_transformed(Expr::TryCast(cast), changed))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Replaces a double that is cast to a decimal with the exact decimal, if it is a literal number
/// that the decimal has room for. Returns whether it did.
fn make_exact(expr: &mut Expr, to: &DataType) -> bool {
    let Some(to) = ExactType::new(to).filter(|_| to.is_decimal()) else { return false };
    let is_double = match &*expr {
        Expr::Literal(value, _) => value.data_type() == DataType::Float64,
        Expr::Negative(_) | Expr::BinaryExpr(_) => true,
        _ => false,
    };
    let number = Number::from_expr(expr).filter(|number| is_double && number.is_within(&to));
    match number.and_then(Number::to_decimal) {
        Some(decimal) => {
            *expr = Expr::Literal(decimal, None);
            true
        }
        None => false,
    }
}

/// Compares a value with the rows of a subquery as doubles, if either is a float. Returns whether
/// they have changed.
fn compare_rows_as_doubles(
    value: &mut Expr,
    subquery: &mut Subquery,
    schema: &DFSchema,
) -> DataFusionResult<bool> {
    let LogicalPlan::Projection(rows) = subquery.subquery.as_ref() else { return Ok(false) };
    let [row] = rows.expr.as_slice() else { return Ok(false) };
    let below = rows.input.schema();
    let (bare, name) = (row.clone().unalias(), row.qualified_name());
    if !is_float_as_decimal(value, schema) && !is_float_as_decimal(&bare, below) {
        return Ok(false);
    }
    let row = to_double(&bare, below)?.alias_qualified(name.0, name.1);
    *value = to_double(value, schema)?;
    let rows = Projection::try_new(vec![row], Arc::clone(&rows.input))?;
    subquery.subquery = Arc::new(LogicalPlan::Projection(rows));
    Ok(true)
}

/// Compares the keys of a join as doubles, where one is a decimal and the other a double.
fn rewrite_join_keys(mut join: Join) -> DataFusionResult<Transformed<LogicalPlan>> {
    let mut changed = false;
    if !join.on.is_empty() {
        let mut schema = join.left.schema().as_ref().clone();
        schema.merge(join.right.schema());
        for (left, right) in &mut join.on {
            if let Some([new_left, new_right]) = as_doubles(&[left, right], &schema)?.as_deref() {
                (*left, *right) = (new_left.clone(), new_right.clone());
                changed = true;
            }
        }
    }
    Ok(Transformed::new_transformed(LogicalPlan::Join(join), changed))
}
