//! A table of the store under DataFusion: schema, filters that zone maps can judge, statistics, scans.

use std::sync::{Arc, OnceLock};

use arrow_schema::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;

use super::convert::to_predicate;
use super::scan::{Scan, ScanExec};
use crate::error::{Error, Result};
use crate::expr::Predicate;
use crate::segment::Segment;
use crate::store::{SegmentEntry, Snapshot};

/// Up to so many segments stay open from one scan to the next, with what has been verified of them.
const KEEP_OPEN: usize = 4096;

/// One generation of a table.
#[derive(Debug)]
pub(crate) struct StoreTable {
    snapshot: Snapshot,
    schema: SchemaRef,
    open: OnceLock<Vec<OnceLock<Arc<Segment>>>>,
}

impl StoreTable {
    pub(crate) fn new(snapshot: Snapshot) -> Self {
        StoreTable { schema: snapshot.schema().to_arrow(), snapshot, open: OnceLock::new() }
    }

    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Segment number `at` of the snapshot, mapped.
    pub(crate) fn segment(&self, at: usize, entry: &SegmentEntry) -> Result<Arc<Segment>> {
        let total = self.snapshot.segments()?.len();
        let slots = self.open.get_or_init(|| {
            let keep = if total <= KEEP_OPEN { total } else { 0 };
            (0..keep).map(|_| OnceLock::new()).collect()
        });
        if let Some(open) = slots.get(at).and_then(OnceLock::get) {
            return Ok(Arc::clone(open));
        }
        let path = self.snapshot.path(entry);
        let segment = Segment::open(self.snapshot.map(entry)?, &path, entry.offset, entry.length)?;
        if segment.footer().uuid != entry.uuid || segment.rows() != entry.rows {
            let what = "this is not the segment that the manifest names here";
            return Err(Error::corrupt(entry.offset, what).at(path, 0));
        }
        let segment = Arc::new(segment);
        Ok(match slots.get(at) {
            Some(slot) => Arc::clone(slot.get_or_init(|| segment)),
            None => segment,
        })
    }

    fn predicate(&self, filters: &[Expr]) -> Predicate {
        let parts = filters.iter().map(|filter| to_predicate(filter, self.snapshot.schema()));
        Predicate::And(parts.filter(|part| !part.is_opaque()).collect())
    }
}

/// A provider is one of these, so that all scans of a statement share what the first has opened.
#[derive(Clone, Debug)]
pub(crate) struct StoreProvider(pub(crate) Arc<StoreTable>);

#[async_trait]
impl TableProvider for StoreProvider {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.0.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    /// Zone maps only rule rows out: DataFusion filters what is left.
    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> DataFusionResult<Vec<TableProviderFilterPushDown>> {
        let judge = |filter: &&Expr| match to_predicate(filter, self.0.snapshot.schema()).is_opaque() {
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
        let all = self.0.snapshot.schema().columns();
        let columns: Vec<_> = match projection {
            Some(positions) => positions.iter().filter_map(|position| all.get(*position).cloned()).collect(),
            None => all.to_vec(),
        };
        let schema = match projection {
            Some(positions) => Arc::new(self.0.schema.project(positions)?),
            None => Arc::clone(&self.0.schema),
        };
        let scan = Scan {
            table: Arc::clone(&self.0),
            columns,
            schema,
            predicate: self.0.predicate(filters),
            limit: limit.map(|limit| limit as u64),
        };
        Ok(Arc::new(ScanExec::new(Arc::new(scan), state.config().target_partitions())))
    }
}
