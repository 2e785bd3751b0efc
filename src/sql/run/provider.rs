//! A table of the store as DataFusion sees it: schema, filters that zone maps can judge, scans.

use std::sync::Arc;

use arrow_schema::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::default_table_source::{provider_as_source, source_as_provider};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{Statistics, TableReference};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{
    Expr, TableProviderFilterPushDown, TableScan, TableScanBuilder, TableType,
};
use datafusion::physical_plan::ExecutionPlan;

use crate::expr::Predicate;
use crate::model::Column;
use crate::query::Condition;
use crate::sql::convert::to_predicate;
use crate::sql::run::dynamic::DynamicFilters;
use crate::sql::run::scan::{Scan, ScanExec, ScanOrder};
use crate::sql::run::settings::Settings;
use crate::sql::run::table::StoreTable;

/// The most columns of a table whose nulls are counted.
const MOST_COUNTED: usize = 256;

/// The table as DataFusion sees it: all scans of a statement share one.
#[derive(Clone, Debug)]
pub(crate) struct StoreProvider {
    pub(crate) table: Arc<StoreTable>,
    /// The reason EXPLAIN gives for not running the operators above natively.
    refusal: Option<Arc<str>>,
    /// Conditions that the scan applies.
    conditions: Option<Arc<Conditions>>,
}

/// The filter that a scan has taken over.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    /// The columns that expressions name by position.
    pub(crate) columns: Vec<Column>,
    pub(crate) conditions: Vec<Condition>,
}

impl Conditions {
    /// The conditions over `columns`, to which those that they need are added.
    fn over(&self, columns: &mut Vec<Column>) -> Vec<Condition> {
        let mut place = |column: &Column| {
            columns.iter().position(|known| known.id == column.id).unwrap_or_else(|| {
                columns.push(column.clone());
                columns.len() - 1
            })
        };
        let places: Vec<usize> = self.columns.iter().map(&mut place).collect();
        let mut conditions = self.conditions.clone();
        for condition in &mut conditions {
            for input in &mut condition.expression.inputs {
                *input = places.get(*input).copied().unwrap_or(usize::MAX);
            }
        }
        conditions
    }
}

impl StoreProvider {
    pub(crate) fn new(table: Arc<StoreTable>) -> Self {
        StoreProvider { table, refusal: None, conditions: None }
    }

    /// The same table, for a scan below something that the executor did not take.
    pub(crate) fn refused(self, why: Arc<str>) -> Self {
        StoreProvider { refusal: Some(why), ..self }
    }

    /// The same table without the rows that do not meet the conditions.
    pub(crate) fn filtered(self, conditions: Conditions) -> Self {
        StoreProvider { conditions: Some(Arc::new(conditions)), ..self }
    }

    fn predicates(&self, filters: &[Expr]) -> impl Iterator<Item = Predicate> {
        let schema = self.table.snapshot().schema();
        filters.iter().map(|filter| to_predicate(filter, schema)).filter(|part| !part.is_opaque())
    }

    /// A request for these columns and rows.
    fn request(
        &self,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
        known_rows: bool,
    ) -> DataFusionResult<Scan> {
        let all = self.table.snapshot().schema().columns();
        let mut columns: Vec<_> = match projection {
            Some(positions) => {
                positions.iter().filter_map(|position| all.get(*position).cloned()).collect()
            }
            None => all.to_vec(),
        };
        let schema = match projection {
            Some(positions) => Arc::new(self.table.schema().project(positions)?),
            None => Arc::clone(self.table.schema()),
        };
        let conditions = match &self.conditions {
            Some(all) => all.over(&mut columns),
            None => self.table.sample_condition().into_iter().collect(),
        };
        // Those of a filtered scan are its conditions.
        let all_filters = filters;
        let filters = if self.is_filtered() { &[] } else { filters };
        Ok(Scan {
            table: Arc::clone(&self.table),
            columns,
            schema,
            filters: self.predicates(filters).collect(),
            conditions,
            dynamic: DynamicFilters::default(),
            order: ScanOrder::Stored,
            limit: limit.map(|limit| limit as u64),
            first: None,
            known_rows,
            refusal: self.refusal.clone(),
            logical: match self.table.is_here() {
                true => None,
                false => Some(Arc::new(self.logical(projection, all_filters)?)),
            },
        })
    }

    /// A scan for another machine, in exactly so many partitions.
    #[cfg(feature = "cluster")]
    pub(crate) fn scan_in(
        &self,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<u64>,
        partitions: usize,
    ) -> DataFusionResult<ScanExec> {
        let limit = limit.and_then(|limit| usize::try_from(limit).ok());
        let scan = self.request(projection, filters, limit, true)?;
        Ok(ScanExec::in_partitions(Arc::new(scan), partitions))
    }

    /// A scan as a part of a logical plan.
    fn logical(
        &self,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
    ) -> DataFusionResult<TableScan> {
        let source = provider_as_source(Arc::new(self.clone()));
        let name = TableReference::bare(self.table.name());
        TableScanBuilder::new(name, source)
            .with_projection(projection.cloned())
            .with_filters(filters.to_vec())
            .build()
    }

    /// Whether scans give only some of the rows.
    pub(crate) fn is_filtered(&self) -> bool {
        self.conditions.is_some()
    }
}

#[async_trait]
impl TableProvider for StoreProvider {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.table.schema())
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    /// How many nulls each column has, as far as the manifest tells; `None` of a wide table, for
    /// all columns are looked at.
    fn statistics(&self) -> Option<Statistics> {
        let snapshot = self.table.snapshot();
        let columns = snapshot.schema().columns();
        if columns.len() > MOST_COUNTED {
            return None;
        }
        let nulls_of = |column: &Column| {
            let segments = snapshot.column_stats(column.id).ok()?;
            let nulls = segments.iter().map(|one| Some(one.as_ref()?.stats.nulls));
            usize::try_from(nulls.sum::<Option<u64>>()?).ok()
        };
        let mut statistics = Statistics::new_unknown(self.table.schema());
        for (column, known) in columns.iter().zip(&mut statistics.column_statistics) {
            known.null_count = nulls_of(column).map_or(Precision::Absent, Precision::Exact);
        }
        Some(statistics)
    }

    /// Zone maps only rule rows out: DataFusion filters what is left, but for what has become a
    /// condition of this scan.
    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> DataFusionResult<Vec<TableProviderFilterPushDown>> {
        if self.is_filtered() {
            return Ok(vec![TableProviderFilterPushDown::Exact; filters.len()]);
        }
        let judge = |filter: &&Expr| match to_predicate(filter, self.table.snapshot().schema())
            .is_opaque()
        {
            true => TableProviderFilterPushDown::Unsupported,
            false => TableProviderFilterPushDown::Inexact,
        };
        Ok(filters.iter().map(judge).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let known_rows = Settings::of(state.config_options()).known_rows;
        let scan = self.request(projection, filters, limit, known_rows)?;
        Ok(Arc::new(ScanExec::new(Arc::new(scan), state.config().target_partitions())))
    }
}

/// The stored table that is scanned, if it is one.
pub(in crate::sql) fn store_provider(scan: &TableScan) -> Option<StoreProvider> {
    source_as_provider(&scan.source).ok()?.downcast_ref::<StoreProvider>().cloned()
}
