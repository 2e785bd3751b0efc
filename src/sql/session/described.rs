//! The answer of DESCRIBE: names and types of columns, with the names that types have in `sty
//! schema`.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use arrow_schema::Schema as ArrowSchema;
use datafusion::catalog::memory::MemorySourceConfig;
use datafusion::physical_plan::ExecutionPlan;

use crate::error::{ArrowResult, Result};
use crate::sql::convert::field_type_name;

/// A row for each column.
pub(super) fn described(schema: &ArrowSchema) -> Result<Arc<dyn ExecutionPlan>> {
    let fields = schema.fields();
    let names = fields.iter().map(|field| field.name().clone());
    let types = fields.iter().map(|field| field_type_name(field));
    let nullable = fields.iter().map(|field| if field.is_nullable() { "YES" } else { "NO" });
    let columns: [(&str, ArrayRef); 3] = [
        ("column_name", Arc::new(StringArray::from_iter_values(names))),
        ("data_type", Arc::new(StringArray::from_iter_values(types))),
        ("is_nullable", Arc::new(StringArray::from_iter_values(nullable))),
    ];
    let batch = RecordBatch::try_from_iter(columns).or_invalid()?;
    let schema = batch.schema();
    let answer = MemorySourceConfig::try_new_exec(&[vec![batch]], schema, None)?;
    Ok(answer)
}
