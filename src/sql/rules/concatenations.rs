//! Puts a function that counts its bytes in place of `||` over texts.
//!
//! Where this stands on the road of a query: after the analyzer, when both sides have one type, and
//! before constants are folded.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, ScalarUDF};
use datafusion::optimizer::AnalyzerRule;

use crate::sql::functions::concatenation::CONCATENATED;
use crate::sql::walks::{Rewritten, any_expression, rewrite_plan, rewrite_up, rewrite_where};

/// The rule, with the function.
#[derive(Debug)]
pub(in crate::sql) struct CountConcatenations(pub(in crate::sql) Arc<ScalarUDF>);

impl AnalyzerRule for CountConcatenations {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        if !any_expression(&plan, is_concatenation) {
            return Ok(plan);
        }
        let rewrite = |node| {
            rewrite_where(node, is_concatenation, |expr, schema| {
                rewrite_up(expr, |part| self.replaced(part, schema))
            })
        };
        Ok(rewrite_plan(plan, rewrite)?.data)
    }

    fn name(&self) -> &'static str {
        "count_concatenations"
    }
}

fn is_concatenation(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryExpr(binary) if binary.op == Operator::StringConcat)
}

impl CountConcatenations {
    fn replaced(&self, expr: Expr, schema: &DFSchema) -> Rewritten<Expr> {
        let Expr::BinaryExpr(BinaryExpr { left, op: Operator::StringConcat, right }) = expr else {
            return Ok(Transformed::no(expr));
        };
        let is_text = |expr: &Expr| {
            let data_type = expr.get_type(schema).ok();
            data_type.filter(|it| {
                matches!(it, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
            })
        };
        let same = is_text(&left).is_some_and(|it| is_text(&right).as_ref() == Some(&it));
        if !same {
            let binary = BinaryExpr { left, op: Operator::StringConcat, right };
            return Ok(Transformed::no(Expr::BinaryExpr(binary)));
        }
        let mut parts = match *left {
            Expr::ScalarFunction(call) if call.func.name() == CONCATENATED => call.args,
            other => vec![other],
        };
        parts.push(*right);
        Ok(Transformed::yes(self.0.call(parts)))
    }
}
