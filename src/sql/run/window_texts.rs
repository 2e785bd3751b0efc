//! Which texts pass running windows as bytes of their own.
//!
//! Where this stands on the road of a query: the last step of planning. DataFusion's operator of
//! running windows (55.2) puts the rows that it still needs and those of the next batch together.
//! Of texts that are views, the result holds the buffers of both, whatever is left of them: in the
//! end those of the whole table. So texts reach it as arrays of their own bytes, of which it copies
//! what it needs, and become views again above it. So do the results of window functions; columns
//! that are their arguments are views for the functions alone. Those of aggregates, and what is
//! computed of columns, stay views.

use std::any::Any;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::window_state::WindowAggState;
use datafusion::logical_expr::{LimitEffect, PartitionEvaluator};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::window::{
    StandardWindowExpr, StandardWindowFunctionExpr, WindowExpr,
};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::windows::BoundedWindowAggExec;
use datafusion::physical_plan::{ExecutionPlan, PlanProperties, replace_children_if_necessary};

/// The schema in which rows reach a running window, if it is another one than that of its input.
pub(super) fn layout_below(node: &Arc<dyn ExecutionPlan>) -> Option<SchemaRef> {
    let window = node.downcast_ref::<BoundedWindowAggExec>()?;
    let schema = window.input().schema();
    let mut read = HashSet::new();
    for expression in window.window_expr() {
        let orders = expression.order_by().iter().map(|key| &key.expr);
        let keys = expression.partition_by().iter().chain(orders);
        // Keys are compared; what is computed of columns is computed of views.
        let is_function = expression.as_any().is::<StandardWindowExpr>();
        let arguments = expression.expressions().into_iter();
        let arguments = arguments.filter(|argument| !is_function || !argument.is::<Column>());
        let computed: Vec<Arc<dyn PhysicalExpr>> =
            keys.filter(|key| !key.is::<Column>()).map(Arc::clone).chain(arguments).collect();
        read.extend(computed.iter().flat_map(collect_columns).map(|column| column.index()));
    }
    let fields = schema.fields().iter().enumerate().map(|(at, field)| {
        let own = own_bytes(field.data_type()).filter(|_| !read.contains(&at));
        own.map_or_else(|| Arc::clone(field), |own| with_type(field, own))
    });
    let layout = Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone());
    (layout != *schema).then(|| Arc::new(layout))
}

fn with_type(field: &Field, data_type: DataType) -> Arc<Field> {
    Arc::new(field.clone().with_data_type(data_type))
}

/// The layout that holds no bytes but those of its values.
fn own_bytes(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Utf8View => Some(DataType::LargeUtf8),
        DataType::BinaryView => Some(DataType::LargeBinary),
        _ => None,
    }
}

/// A running window over an input in its layout, whose results hold their own bytes, too.
pub(super) fn over_layout(
    node: Arc<dyn ExecutionPlan>,
    input: Arc<dyn ExecutionPlan>,
) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
    let Some(window) = node.downcast_ref::<BoundedWindowAggExec>() else {
        return replace_children_if_necessary(node, vec![input]);
    };
    let known = window.input().schema();
    let expressions = window.window_expr().iter().map(|expression| own_results(expression, &known));
    Ok(Arc::new(BoundedWindowAggExec::try_new(
        expressions.collect::<DataFusionResult<_>>()?,
        input,
        window.input_order_mode.clone(),
        !window.partition_keys().is_empty(),
    )?))
}

/// A window function over columns whose types were `known`.
fn own_results(
    expression: &Arc<dyn WindowExpr>,
    known: &SchemaRef,
) -> DataFusionResult<Arc<dyn WindowExpr>> {
    let Some(standard) = expression.as_any().downcast_ref::<StandardWindowExpr>() else {
        return Ok(Arc::clone(expression));
    };
    let inner = Arc::clone(standard.get_standard_func_expr());
    let arguments = inner.expressions();
    let types = arguments.iter().map(|argument| argument.data_type(known));
    let types = types.collect::<DataFusionResult<Vec<_>>>()?;
    if types.iter().all(|data_type| own_bytes(data_type).is_none()) {
        return Ok(Arc::clone(expression));
    }
    Ok(Arc::new(StandardWindowExpr::new(
        Arc::new(OfViews { inner, types }),
        standard.partition_by(),
        standard.order_by(),
        Arc::clone(standard.get_window_frame()),
    )))
}

/// A window function over views, where its columns are none.
#[derive(Debug)]
struct OfViews {
    inner: Arc<dyn StandardWindowFunctionExpr>,
    /// The types of its arguments.
    types: Vec<DataType>,
}

impl StandardWindowFunctionExpr for OfViews {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn field(&self) -> DataFusionResult<FieldRef> {
        let field = self.inner.field()?;
        Ok(own_bytes(field.data_type()).map_or(Arc::clone(&field), |own| with_type(&field, own)))
    }

    fn expressions(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        self.inner.expressions()
    }

    fn name(&self) -> &str {
        self.inner.name()
    }

    fn evaluate_args(&self, batch: &RecordBatch) -> DataFusionResult<Vec<ArrayRef>> {
        let arguments = self.inner.evaluate_args(batch)?.into_iter().zip(&self.types);
        // The views share the bytes.
        let views = arguments.map(|(argument, data_type)| in_type(&argument, data_type));
        views.collect()
    }

    fn create_evaluator(&self) -> DataFusionResult<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(OwnResults(self.inner.create_evaluator()?)))
    }

    fn get_result_ordering(&self, schema: &SchemaRef) -> Option<PhysicalSortExpr> {
        self.inner.get_result_ordering(schema)
    }

    fn limit_effect(&self) -> LimitEffect {
        self.inner.limit_effect()
    }
}

/// Evaluates a window function row by row, as running windows do, to values of types with their
/// own bytes.
#[derive(Debug)]
struct OwnResults(Box<dyn PartitionEvaluator>);

impl PartitionEvaluator for OwnResults {
    fn memoize(&mut self, state: &mut WindowAggState) -> DataFusionResult<()> {
        self.0.memoize(state)
    }

    fn get_range(&self, row: usize, rows: usize) -> DataFusionResult<Range<usize>> {
        self.0.get_range(row, rows)
    }

    fn is_causal(&self) -> bool {
        self.0.is_causal()
    }

    fn evaluate(
        &mut self,
        values: &[ArrayRef],
        range: &Range<usize>,
    ) -> DataFusionResult<ScalarValue> {
        Ok(match self.0.evaluate(values, range)? {
            ScalarValue::Utf8View(text) => ScalarValue::LargeUtf8(text),
            ScalarValue::BinaryView(bytes) => ScalarValue::LargeBinary(bytes),
            other => other,
        })
    }

    fn supports_bounded_execution(&self) -> bool {
        self.0.supports_bounded_execution()
    }

    fn uses_window_frame(&self) -> bool {
        self.0.uses_window_frame()
    }

    fn include_rank(&self) -> bool {
        self.0.include_rank()
    }
}

/// Those of an input whose rows get another layout: in the same orders, with the same columns equal
/// and constant.
pub(super) fn properties(
    input: &Arc<dyn ExecutionPlan>,
    layout: &SchemaRef,
) -> DataFusionResult<PlanProperties> {
    let (known, layout) = (input.properties(), Arc::clone(layout));
    let of_input = known.equivalence_properties();
    let orders = of_input.oeq_class().iter().cloned();
    let mut rows = EquivalenceProperties::new_with_orderings(layout, orders);
    rows.add_equivalence_group(of_input.eq_group().clone())?;
    let partitioning = known.output_partitioning().clone();
    Ok(PlanProperties::new(rows, partitioning, known.emission_type, known.boundedness))
}

/// The rows of a batch in another layout.
pub(super) fn in_layout(batch: &RecordBatch, layout: &SchemaRef) -> DataFusionResult<RecordBatch> {
    let types = layout.fields().iter().map(|field| field.data_type());
    let columns = batch.columns().iter().zip(types);
    let columns = columns.map(|(column, data_type)| in_type(column, data_type));
    Ok(RecordBatch::try_new(Arc::clone(layout), columns.collect::<DataFusionResult<_>>()?)?)
}

fn in_type(column: &ArrayRef, data_type: &DataType) -> DataFusionResult<ArrayRef> {
    match column.data_type() == data_type {
        true => Ok(Arc::clone(column)),
        false => Ok(arrow_cast::cast(column, data_type)?),
    }
}
