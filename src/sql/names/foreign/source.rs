//! The source of a scan: DataFusion's, which decides what is read, with guarded steps of reading.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::ParquetFileReaderFactory;
use datafusion::datasource::physical_plan::{
    FileOpener, FileScanConfig, FileSource, ParquetSource,
};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::Result;
use datafusion::object_store::ObjectStore;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::filter_pushdown::FilterPushdownPropagation;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{DisplayFormatType, SortOrderPushdownResult};
use datafusion_datasource::morsel::Morselizer;

use super::Kind;
use super::arrow;
use super::morsels::{GuardedMorselizer, StreamMorselizer};
use super::parquet::CheckedReaders;

#[derive(Clone)]
pub(super) struct ForeignSource {
    inner: Arc<dyn FileSource>,
    kind: Kind,
    memory: u64,
}

impl ForeignSource {
    pub(super) fn new(inner: Arc<dyn FileSource>, kind: Kind, memory: u64) -> Self {
        let checked = inner.downcast_ref::<ParquetSource>().and_then(|parquet| {
            let readers = Arc::clone(parquet.parquet_file_reader_factory()?);
            let readers: Arc<dyn ParquetFileReaderFactory> =
                Arc::new(CheckedReaders { inner: readers, memory });
            Some(parquet.clone().with_parquet_file_reader_factory(readers))
        });
        let inner = checked.map_or(inner, |parquet| Arc::new(parquet) as Arc<dyn FileSource>);
        ForeignSource { inner, kind, memory }
    }

    /// The same around another source of DataFusion's.
    fn around(&self, inner: Arc<dyn FileSource>) -> Arc<dyn FileSource> {
        Arc::new(ForeignSource { inner, ..self.clone() })
    }
}

impl FileSource for ForeignSource {
    fn create_file_opener(
        &self,
        store: Arc<dyn ObjectStore>,
        config: &FileScanConfig,
        partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        match self.kind {
            Kind::Parquet => self.inner.create_file_opener(store, config, partition),
            Kind::Arrow => arrow::opener(store, self.inner.as_ref(), self.memory),
        }
    }

    fn create_morselizer(
        &self,
        store: Arc<dyn ObjectStore>,
        config: &FileScanConfig,
        partition: usize,
    ) -> Result<Box<dyn Morselizer>> {
        let inner: Box<dyn Morselizer> = match self.kind {
            Kind::Parquet => self.inner.create_morselizer(store, config, partition)?,
            Kind::Arrow => {
                Box::new(StreamMorselizer::new(self.create_file_opener(store, config, partition)?))
            }
        };
        Ok(Box::new(GuardedMorselizer::new(inner, self.kind)))
    }

    fn table_schema(&self) -> &TableSchema {
        self.inner.table_schema()
    }

    fn with_batch_size(&self, batch_size: usize) -> Arc<dyn FileSource> {
        self.around(self.inner.with_batch_size(batch_size))
    }

    fn filter(&self) -> Option<Arc<dyn PhysicalExpr>> {
        self.inner.filter()
    }

    fn projection(&self) -> Option<&ProjectionExprs> {
        self.inner.projection()
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        self.inner.metrics()
    }

    fn file_type(&self) -> &str {
        self.inner.file_type()
    }

    fn fmt_extra(&self, kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_extra(kind, f)
    }

    fn supports_repartitioning(&self) -> bool {
        self.inner.supports_repartitioning()
    }

    fn repartitioned(
        &self,
        target_partitions: usize,
        repartition_file_min_size: usize,
        output_ordering: Option<LexOrdering>,
        config: &FileScanConfig,
    ) -> Result<Option<FileScanConfig>> {
        let min_size = repartition_file_min_size;
        self.inner.repartitioned(target_partitions, min_size, output_ordering, config)
    }

    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn FileSource>>> {
        let pushed = self.inner.try_pushdown_filters(filters, config)?;
        Ok(FilterPushdownPropagation {
            filters: pushed.filters,
            updated_node: pushed.updated_node.map(|inner| self.around(inner)),
        })
    }

    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
        properties: &EquivalenceProperties,
    ) -> Result<SortOrderPushdownResult<Arc<dyn FileSource>>> {
        let pushed = self.inner.try_pushdown_sort(order, properties)?;
        Ok(pushed.map(|inner| self.around(inner)))
    }

    fn reorder_files(&self, files: Vec<PartitionedFile>) -> Vec<PartitionedFile> {
        self.inner.reorder_files(files)
    }

    fn try_pushdown_projection(
        &self,
        projection: &ProjectionExprs,
    ) -> Result<Option<Arc<dyn FileSource>>> {
        let pushed = self.inner.try_pushdown_projection(projection)?;
        Ok(pushed.map(|inner| self.around(inner)))
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.inner.apply_expressions(f)
    }
}
