//! Elements of the list that an aggregate collects: `(array_agg(x ORDER BY y))[n]`.
//!
//! Where this stands on the road of a query: while expressions are planned, before DataFusion's own
//! planner of `[n]`. That one (55.2) makes `nth_value(x, n ORDER BY y)` of it, which ignores
//! DISTINCT, takes no other `n` than a literal that is not zero, and refuses two different orders
//! beside each other. Here the list is collected, except for the first element of an order.
//! `nth_value(DISTINCT x, n)` becomes the element of a list, too.
//!
//! Where a list is joined with a NULL by `||`, nothing is added to it. `a @> b` and `a <@ b` of
//! lists do not look for nulls (`list_sets`).
//!
//! `s[n]` and `s[a:b]` of a text are characters of it, as in DuckDB.

use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result as DataFusionResult;
use datafusion::functions::unicode::expr_fn::{character_length, substring};
use datafusion::functions_nested::expr_fn::array_element;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::planner::{
    ExprPlanner, PlannerResult, RawAggregateExpr, RawBinaryExpr, RawFieldAccessExpr,
};
use datafusion::logical_expr::{AggregateUDF, Expr, GetFieldAccess, lit, when};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::list_sets::has_all;
use crate::sql::types::intervals::planned_type;

/// Plans elements of collected lists.
#[derive(Debug)]
pub(in crate::sql) struct ElementsOfLists {
    pub(in crate::sql) array_agg: Arc<AggregateUDF>,
    pub(in crate::sql) first_value: Arc<AggregateUDF>,
}

impl ExprPlanner for ElementsOfLists {
    /// A NULL without a type beside a list is a list, as in PostgreSQL: nothing is added.
    /// DataFusion takes it for an element. Its `@>` and `<@` find nulls.
    fn plan_binary_op(
        &self,
        operation: RawBinaryExpr,
        schema: &DFSchema,
    ) -> DataFusionResult<PlannerResult<RawBinaryExpr>> {
        let is_null = |side: &Expr| matches!(side, Expr::Literal(ScalarValue::Null, _));
        let is_list = |side: &Expr| {
            planned_type(side, schema).is_some_and(|of| {
                matches!(
                    of,
                    DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..)
                )
            })
        };
        let RawBinaryExpr { op, left, right } = operation;
        Ok(match op {
            BinaryOperator::StringConcat if is_null(&right) && is_list(&left) => {
                PlannerResult::Planned(left)
            }
            BinaryOperator::StringConcat if is_null(&left) && is_list(&right) => {
                PlannerResult::Planned(right)
            }
            BinaryOperator::StringConcat if is_null(&left) && is_null(&right) => {
                PlannerResult::Planned(lit(ScalarValue::Utf8(None)))
            }
            BinaryOperator::AtArrow if is_list(&left) && is_list(&right) => {
                PlannerResult::Planned(has_all(left, right))
            }
            BinaryOperator::ArrowAt if is_list(&left) && is_list(&right) => {
                PlannerResult::Planned(has_all(right, left))
            }
            op => PlannerResult::Original(RawBinaryExpr { op, left, right }),
        })
    }

    fn plan_field_access(
        &self,
        access: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> DataFusionResult<PlannerResult<RawFieldAccessExpr>> {
        let RawFieldAccessExpr { expr, field_access } = access;
        let is_text = planned_type(&expr, schema).is_some_and(|data_type| data_type.is_string());
        match (expr, field_access) {
            (text, GetFieldAccess::ListIndex { key }) if is_text => {
                Ok(PlannerResult::Planned(characters(text, *key.clone(), *key)?))
            }
            (text, GetFieldAccess::ListRange { start, stop, stride })
                if is_text && *stride == lit(1_i64) =>
            {
                Ok(PlannerResult::Planned(characters(text, *start, *stop)?))
            }
            (Expr::AggregateFunction(collected), GetFieldAccess::ListIndex { key })
                if collected.func.name() == self.array_agg.name() =>
            {
                Ok(PlannerResult::Planned(self.element(collected, *key)))
            }
            (expr, field_access) => {
                Ok(PlannerResult::Original(RawFieldAccessExpr { expr, field_access }))
            }
        }
    }

    fn plan_aggregate(
        &self,
        mut call: RawAggregateExpr,
    ) -> DataFusionResult<PlannerResult<RawAggregateExpr>> {
        if !call.distinct || call.func.name() != "nth_value" || call.args.len() != 2 {
            return Ok(PlannerResult::Original(call));
        }
        let Some(number) = call.args.pop() else { return Ok(PlannerResult::Original(call)) };
        let RawAggregateExpr { args, filter, order_by, null_treatment, .. } = call;
        let list = Arc::clone(&self.array_agg);
        let list = AggregateFunction::new_udf(list, args, true, filter, order_by, null_treatment);
        Ok(PlannerResult::Planned(array_element(Expr::AggregateFunction(list), number)))
    }
}

/// The characters of a text from one place to another; negative places count from its end.
fn characters(text: Expr, first: Expr, last: Expr) -> DataFusionResult<Expr> {
    let place = |place: Expr| match &place {
        Expr::Literal(ScalarValue::Int64(Some(0..)), _) => Ok(place),
        _ => {
            let from_end = character_length(text.clone()) + place.clone() + lit(1_i64);
            when(place.clone().lt(lit(0_i64)), from_end).otherwise(place)
        }
    };
    let (first, last) = (place(first)?, place(last)?);
    let is_empty = last.clone().lt(first.clone());
    let count = last - first.clone() + lit(1_i64);
    // A slice of null is null.
    let none = substring(text.clone(), lit(1_i64), lit(0_i64));
    when(is_empty, none).otherwise(substring(text, first, count))
}

impl ElementsOfLists {
    fn element(&self, mut collected: AggregateFunction, number: Expr) -> Expr {
        let is_first = matches!(number, Expr::Literal(ScalarValue::Int64(Some(1)), _));
        if is_first && !collected.params.distinct && !collected.params.order_by.is_empty() {
            collected.func = Arc::clone(&self.first_value);
            return Expr::AggregateFunction(collected);
        }
        array_element(Expr::AggregateFunction(collected), number)
    }
}
