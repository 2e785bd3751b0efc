//! Parquet and Arrow files in directories called `key=value`: a table of DataFusion's over the
//! files, with the columns of their paths behind those of the files.
//!
//! DataFusion's own columns of directories begin at one directory and are never null. These are
//! found in the paths as they are given, as those of an ingest are, so that a query over files and
//! one over the table made from them see the same columns.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::Array as _;
use arrow_schema::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::listing::{ListingTable, ListingTableUrl, PartitionedFile};
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::object_store::path::Path;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion_datasource::compute_all_files_statistics;

use super::ForeignFormat;
use crate::error::{ArrowResult, Error, Result};
use crate::ingest::sources::{Input, path_columns};
use crate::model::DataType;
use crate::sql::names::text::TextOptions;

/// A table over files of these schemas, with the columns that the options ask for of the names that
/// they were asked for by, if they have names.
pub(in crate::sql::names) fn with_path_columns(
    files: ListingTable,
    format: Arc<ForeignFormat>,
    schemas: &[Schema],
    names: &[PathBuf],
    options: &TextOptions,
) -> Result<Arc<dyn TableProvider>> {
    let inputs: Vec<Input> = names.iter().map(Input::path).collect();
    let (with_keys, filename) = (!options.without_path_columns, options.filename_column.as_deref());
    let found = path_columns(&inputs, with_keys, filename, &[], &[])?;
    let file_schema = files.schema();
    let mut fields = Vec::new();
    let mut values: HashMap<Path, Vec<ScalarValue>> = HashMap::new();
    for ((url, own_schema), columns) in files.table_paths().iter().zip(schemas).zip(&found) {
        let own = values.entry(url.prefix().clone()).or_default();
        own.clear();
        fields.clear();
        for (field, array) in columns.values() {
            let name = field.name();
            if file_schema.index_of(name).is_ok() {
                if own_schema.index_of(name).is_err() && array.logical_null_count() == 0 {
                    return Err(Error::Unsupported(format!(
                        "column '{name}' is in some files, and in the path of others; \
                         partition_columns => false leaves out those of paths"
                    )));
                }
                continue;
            }
            let shown = DataType::from_field(field).unwrap_or(DataType::Utf8).to_arrow();
            let array = arrow_cast::cast(array, &shown).or_invalid()?;
            own.push(ScalarValue::try_from_array(&array, 0)?);
            fields.push(Arc::new(Field::new(name, shown, true)));
        }
    }
    if fields.is_empty() {
        return Ok(Arc::new(files));
    }
    let schema = TableSchema::builder(file_schema).with_table_partition_cols(fields).build();
    Ok(Arc::new(DirectoryTable { files, format, schema, values }))
}

#[derive(Debug)]
struct DirectoryTable {
    files: ListingTable,
    format: Arc<ForeignFormat>,
    /// The columns of the files and of their paths.
    schema: TableSchema,
    /// The values of the columns of paths, by file.
    values: HashMap<Path, Vec<ScalarValue>>,
}

impl DirectoryTable {
    /// A file with the values of its path, which are in its statistics, too.
    fn with_values(&self, mut file: PartitionedFile) -> PartitionedFile {
        let values = self.values.get(&file.object_meta.location).cloned().unwrap_or_default();
        if let Some(known) = file.statistics.take() {
            let mut known = Arc::unwrap_or_clone(known);
            let bounds: Vec<_> = values.iter().map(|value| bounds(value, &known)).collect();
            known.column_statistics.extend(bounds);
            file.statistics = Some(Arc::new(known));
        }
        file.partition_values = values;
        file
    }
}

/// What is known of a column that has one value in all rows of a file, if there are any. NaN is
/// outside of bounds.
fn bounds(value: &ScalarValue, file: &Statistics) -> ColumnStatistics {
    let mut known = ColumnStatistics::new_unknown();
    if value.is_null() {
        known.null_count = file.num_rows;
        return known;
    }
    known.null_count = Precision::Exact(0);
    if !value.data_type().is_floating() {
        let bound = match file.num_rows {
            Precision::Exact(1..) => Precision::Exact(value.clone()),
            _ => Precision::Inexact(value.clone()),
        };
        (known.min_value, known.max_value) = (bound.clone(), bound);
    }
    known
}

#[async_trait]
impl TableProvider for DirectoryTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.schema.table_schema())
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    /// Files are passed over by their values when they are opened.
    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> DataFusionResult<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let listed = self.files.list_files_for_scan(state, &[], None).await?;
        let with_values = |group: FileGroup| {
            let files = group.into_inner().into_iter().map(|file| self.with_values(file));
            FileGroup::new(files.collect())
        };
        let groups: Vec<FileGroup> = listed.file_groups.into_iter().map(with_values).collect();
        let url = self.files.table_paths().first().map(ListingTableUrl::object_store);
        let Some(url) = url.filter(|_| !groups.is_empty()) else {
            let schema = self.schema();
            let schema = match projection {
                Some(columns) => Arc::new(schema.project(columns)?),
                None => schema,
            };
            return Ok(Arc::new(EmptyExec::new(schema)));
        };
        let collect = state.config().collect_statistics();
        let (groups, statistics) =
            compute_all_files_statistics(groups, self.schema(), collect, false)?;
        let source = self.format.file_source(self.schema.clone());
        let config = FileScanConfigBuilder::new(url, source)
            .with_file_groups(groups)
            .with_statistics(statistics)
            .with_projection_indices(projection.cloned())?
            .with_limit(limit)
            .build();
        self.format.create_physical_plan(state, config).await
    }
}
