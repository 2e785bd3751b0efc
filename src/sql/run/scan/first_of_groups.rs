//! Rows that a scan leaves out because others of their group come before them, as long as there is
//! memory for what is known of groups.

use arrow_schema::SortOptions;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};
use datafusion::physical_expr::PhysicalSortExpr;
use datafusion::physical_expr::expressions::Column as Key;

use super::queue::Work;
use super::request::Scan;
use crate::error::Result;
use crate::expr::Expression;
use crate::query::OrderBy;
use crate::query::group_bounds::GroupBounds;
use crate::query::open::OpenBlock;
use crate::query::slice::Slice;

/// The share of the memory limit that the partitions of a scan may take together.
const MEMORY_SHARE: usize = 16;

/// A key of an order that is a column of the scan.
pub(super) fn order_by(scan: &Scan, key: &PhysicalSortExpr) -> Option<OrderBy> {
    let at = key.expr.downcast_ref::<Key>()?.index();
    let SortOptions { descending, nulls_first } = key.options;
    let expression = Expression::column(at, scan.columns.get(at)?);
    Some(OrderBy { expression, descending, nulls_first })
}

/// What one partition leaves out: nothing where all rows are wanted, and once it is of no use.
#[derive(Debug)]
pub(super) struct LeftOut(Option<Known>);

#[derive(Debug)]
struct Known {
    bounds: GroupBounds,
    /// Whether rows come from the last to the first.
    backwards: bool,
    memory: MemoryReservation,
    /// The bytes that it may have.
    most: usize,
}

impl LeftOut {
    pub(super) fn new(scan: &Scan, partitions: usize, context: &TaskContext) -> Result<Self> {
        let Some(asked) = &scan.first else { return Ok(LeftOut(None)) };
        let pool = context.memory_pool();
        let most = match pool.memory_limit() {
            MemoryLimit::Finite(bytes) => bytes / MEMORY_SHARE / partitions.max(1),
            MemoryLimit::Infinite | MemoryLimit::Unknown => usize::MAX,
        };
        let bounds = GroupBounds::new(asked, &scan.columns)?;
        let memory = MemoryConsumer::new("StoreScan").register(pool);
        let backwards = scan.order.is_backwards();
        Ok(LeftOut(Some(Known { bounds, backwards, memory, most })))
    }

    /// Whether no row of a block is wanted: asked before each.
    pub(super) fn skips(&mut self, work: &Work, block: &OpenBlock<'_>) -> Result<bool> {
        let Some(Known { bounds, memory, most, .. }) = &mut self.0 else { return Ok(false) };
        bounds.enter(&work.segment)?;
        let bytes = bounds.memory();
        if bounds.helps() && bytes <= *most && memory.try_resize(bytes).is_ok() {
            return bounds.skips(block);
        }
        self.0 = None;
        Ok(false)
    }

    /// Leaves those rows of a slice selected that may be wanted.
    pub(super) fn narrow(&mut self, slice: &mut Slice<'_, '_>) -> Result<()> {
        let Some(Known { bounds, backwards, .. }) = &mut self.0 else { return Ok(()) };
        bounds.narrow(slice, *backwards)
    }

    /// Forgets what it knows, because rows that it has seen come once more.
    pub(super) fn forget(&mut self) {
        if let Some(known) = &mut self.0 {
            known.bounds.forget();
        }
    }
}
