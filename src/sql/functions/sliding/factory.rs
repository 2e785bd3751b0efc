//! Creates accumulators of DataFusion's.

use std::sync::Arc;

use arrow_schema::{FieldRef, Schema};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{Accumulator, AggregateUDF};
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};

/// An aggregate function and an owned copy of the arguments of its accumulators.
#[derive(Debug)]
pub(super) struct AccumulatorFactory {
    function: Arc<AggregateUDF>,
    return_field: FieldRef,
    schema: Schema,
    ignore_nulls: bool,
    order_bys: Vec<PhysicalSortExpr>,
    is_reversed: bool,
    name: String,
    is_distinct: bool,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    expr_fields: Vec<FieldRef>,
}

impl AccumulatorFactory {
    pub(super) fn new(
        function: &Arc<AggregateUDF>,
        arguments: AccumulatorArgs<'_>,
    ) -> AccumulatorFactory {
        AccumulatorFactory {
            function: Arc::clone(function),
            return_field: arguments.return_field,
            schema: arguments.schema.clone(),
            ignore_nulls: arguments.ignore_nulls,
            order_bys: arguments.order_bys.to_vec(),
            is_reversed: arguments.is_reversed,
            name: arguments.name.to_owned(),
            is_distinct: arguments.is_distinct,
            exprs: arguments.exprs.to_vec(),
            expr_fields: arguments.expr_fields.to_vec(),
        }
    }

    /// Whether rows come in the opposite order.
    pub(super) fn is_reversed(&self) -> bool {
        self.is_reversed
    }

    pub(super) fn create(&self) -> DataFusionResult<Box<dyn Accumulator>> {
        self.function.accumulator(AccumulatorArgs {
            return_field: Arc::clone(&self.return_field),
            schema: &self.schema,
            ignore_nulls: self.ignore_nulls,
            order_bys: &self.order_bys,
            is_reversed: self.is_reversed,
            name: &self.name,
            is_distinct: self.is_distinct,
            exprs: &self.exprs,
            expr_fields: &self.expr_fields,
        })
    }
}
