//! UUIDs: casts to them, and comparisons with texts.
//!
//! Where this stands on the road of a query: an analyzer rule that runs before types are coerced. A
//! UUID is text in its stored form, in a field that says so (`model::fields`). DataFusion (55.2)
//! has no such type, and a cast to it would leave any text as it is; here a function takes its
//! place that refuses what is no UUID. A literal that is compared with a UUID is written in the
//! stored form, too: `id = 'A0EEBC99-…'` finds what PostgreSQL finds. A literal that is no UUID is
//! left as it is, and equals none.

mod functions;

#[cfg(feature = "cluster")]
pub(in crate::sql) use functions::cast_function;

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::{Cast, TryCast};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, ScalarUDF};
use datafusion::optimizer::AnalyzerRule;

use self::functions::cast_to_uuid;
use crate::model::{DataType, uuid};
use crate::sql::walks::{
    any_expression, any_node, is_comparison, rewrite_plan, rewrite_up, rewrite_where,
};

/// `uuid()` in place of DataFusion's, under both of its names.
pub(in crate::sql) fn function(inner: Arc<ScalarUDF>) -> ScalarUDF {
    functions::random(inner)
}

/// The rule.
#[derive(Debug)]
pub(in crate::sql) struct Uuids;

impl AnalyzerRule for Uuids {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        let has_columns = any_node(&plan, |node| {
            matches!(node, LogicalPlan::TableScan(_))
                && node.schema().fields().iter().any(|field| is_uuid(field))
        });
        let has_casts = any_expression(&plan, is_cast);
        if !has_columns && !has_casts {
            return Ok(plan);
        }
        let concerned = |expr: &Expr| is_cast(expr) || compares(expr);
        Ok(rewrite_plan(plan, |node| rewrite_where(node, concerned, rewrite))?.data)
    }

    fn name(&self) -> &'static str {
        "uuids"
    }
}

fn is_uuid(field: &arrow_schema::Field) -> bool {
    DataType::from_field(field) == Some(DataType::Uuid)
}

/// Whether an expression is a cast to UUID.
fn is_cast(expr: &Expr) -> bool {
    match expr {
        Expr::Cast(Cast { field, .. }) | Expr::TryCast(TryCast { field, .. }) => is_uuid(field),
        _ => false,
    }
}

/// Whether an expression compares values.
fn compares(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(binary) => is_comparison(binary.op),
        Expr::Between(_) | Expr::InList(_) => true,
        Expr::Case(case) => case.expr.is_some(),
        _ => false,
    }
}

fn rewrite(expr: Expr, schema: &DFSchema) -> DataFusionResult<Transformed<Expr>> {
    rewrite_up(expr, |expr| Ok(rewrite_one(expr, schema)))
}

fn rewrite_one(mut expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    if is_cast(&expr) {
        return Transformed::yes(match expr {
            Expr::Cast(Cast { expr, .. }) => cast_to_uuid(*expr, false),
            Expr::TryCast(TryCast { expr, .. }) => cast_to_uuid(*expr, true),
            other => other,
        });
    }
    let sides: Vec<&mut Expr> = match &mut expr {
        Expr::BinaryExpr(binary) if is_comparison(binary.op) => {
            vec![&mut binary.left, &mut binary.right]
        }
        Expr::Between(test) => vec![&mut test.expr, &mut test.low, &mut test.high],
        Expr::InList(test) => {
            std::iter::once(&mut *test.expr).chain(test.list.iter_mut()).collect()
        }
        Expr::Case(case) => {
            let whens = case.when_then_expr.iter_mut().map(|(when, _)| &mut **when);
            case.expr.as_deref_mut().into_iter().chain(whens).collect()
        }
        _ => return Transformed::no(expr),
    };
    let is_of_uuids = |side: &Expr| {
        !matches!(side, Expr::Literal(..))
            && side.to_field(schema).is_ok_and(|(_, field)| is_uuid(&field))
    };
    let mut changed = false;
    if sides.iter().any(|side| stored_form(side).is_some())
        && sides.iter().any(|side| is_of_uuids(side))
    {
        for side in sides {
            if let Some(stored) = stored_form(side) {
                *side = stored;
                changed = true;
            }
        }
    }
    Transformed::new_transformed(expr, changed)
}

/// A literal that is a UUID, but not in the stored form, in that form.
fn stored_form(expr: &Expr) -> Option<Expr> {
    let Expr::Literal(value, metadata) = expr else { return None };
    let text = value.try_as_str()??;
    let stored = uuid::text_of(&uuid::parse(text.as_bytes())?);
    if stored == text {
        return None;
    }
    let value = match value {
        ScalarValue::Utf8View(_) => ScalarValue::Utf8View(Some(stored)),
        ScalarValue::LargeUtf8(_) => ScalarValue::LargeUtf8(Some(stored)),
        _ => ScalarValue::Utf8(Some(stored)),
    };
    Some(Expr::Literal(value, metadata.clone()))
}
