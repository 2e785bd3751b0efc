//! Casts timestamps to the texts as which they are printed: `2024-01-31 10:00:00`.
//!
//! DataFusion (55.2) writes `2024-01-31T10:00:00`, and `Z` for UTC. PostgreSQL and DuckDB do not,
//! and so their `ts::text LIKE '2024-01-31 1%'` finds nothing.
//!
//! Where this stands on the road of a query: an analyzer rule, after types are coerced, because
//! `||`, LIKE and `concat` cast their operands, too. Partition keys keep DataFusion's texts, as
//! their files do.

use std::sync::Arc;

use arrow_cast::display::FormatOptions;
use arrow_schema::DataType;
use datafusion::common::DFSchema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::{Cast, TryCast};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, ScalarUDF, lit};
use datafusion::optimizer::AnalyzerRule;

use crate::sql::walks::{any_expression, rewrite_plan, rewrite_up, rewrite_where};

/// How a timestamp is printed, without a zone and with one.
pub(in crate::sql) const PLAIN: &str = "%Y-%m-%d %H:%M:%S%.f";
const ZONED: &str = "%Y-%m-%d %H:%M:%S%.f%:z";

/// Values as the texts as which they are printed.
pub(in crate::sql) const PRINTED: FormatOptions<'static> =
    FormatOptions::new().with_timestamp_format(Some(PLAIN)).with_timestamp_tz_format(Some(ZONED));

/// The rule of this module, with the function that writes texts.
#[derive(Debug)]
pub(in crate::sql) struct TimestampTexts(pub(in crate::sql) Arc<ScalarUDF>);

impl AnalyzerRule for TimestampTexts {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        if !any_expression(&plan, is_text_cast) {
            return Ok(plan);
        }
        let write = |expr, schema: &DFSchema| write_timestamps(&self.0, expr, schema);
        Ok(rewrite_plan(plan, |node| rewrite_where(node, is_text_cast, write))?.data)
    }

    fn name(&self) -> &'static str {
        "timestamp_texts"
    }
}

fn is_text_cast(expr: &Expr) -> bool {
    match expr {
        Expr::Cast(Cast { field, .. }) | Expr::TryCast(TryCast { field, .. }) => {
            field.data_type().is_string()
        }
        _ => false,
    }
}

fn write_timestamps(
    to_char: &ScalarUDF,
    expr: Expr,
    schema: &DFSchema,
) -> DataFusionResult<Transformed<Expr>> {
    rewrite_up(expr, |mut expr| {
        let value = match &mut expr {
            Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field })
                if field.data_type().is_string() =>
            {
                expr
            }
            _ => return Ok(Transformed::no(expr)),
        };
        let format = match value.get_type(schema) {
            Ok(DataType::Timestamp(_, None)) => PLAIN,
            Ok(DataType::Timestamp(_, Some(_))) => ZONED,
            _ => return Ok(Transformed::no(expr)),
        };
        **value = to_char.call(vec![std::mem::take(&mut **value), lit(format)]);
        Ok(Transformed::yes(expr))
    })
}
