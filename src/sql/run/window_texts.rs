//! Which texts pass running windows as bytes of their own.
//!
//! Where this stands on the road of a query: the last step of planning. DataFusion's operator of
//! running windows (55.2) puts the rows that it still needs and those of the next batch together.
//! Of texts that are views, the result holds the buffers of both, whatever is left of them: in the
//! end those of the whole table. So texts reach it as arrays of their own bytes, of which it copies
//! what it needs, and become views again above it. Arguments of window functions stay views,
//! because the types of their results are known.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use datafusion::error::Result as DataFusionResult;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::windows::BoundedWindowAggExec;
use datafusion::physical_plan::{ExecutionPlan, PlanProperties};

/// The schema in which rows reach a running window, if it is another one than that of its input.
pub(super) fn layout_below(node: &Arc<dyn ExecutionPlan>) -> Option<SchemaRef> {
    let window = node.downcast_ref::<BoundedWindowAggExec>()?;
    let schema = window.input().schema();
    let mut read = HashSet::new();
    for expression in window.window_expr() {
        let orders = expression.order_by().iter().map(|key| &key.expr);
        let keys = expression.partition_by().iter().chain(orders);
        // Keys are compared; what is computed of them is computed of views.
        let computed = keys.filter(|key| !key.is::<Column>()).map(Arc::clone);
        let computed: Vec<Arc<dyn PhysicalExpr>> =
            expression.expressions().into_iter().chain(computed).collect();
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
    let columns = columns.map(|(column, data_type)| match column.data_type() == data_type {
        true => Ok(Arc::clone(column)),
        false => arrow_cast::cast(column, data_type),
    });
    Ok(RecordBatch::try_new(Arc::clone(layout), columns.collect::<Result<_, _>>()?)?)
}
