//! How far a statement is, for whoever looks on from another thread: the leaves of its plan, and
//! what they count anyway.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::MetricsSet;

use crate::query::Recorder;
use crate::sql::run::exec::FragmentExec;
use crate::sql::run::scan::ScanExec;

/// Metrics of a leaf that reads files: bytes read of them, and how many there are in all.
pub(in crate::sql) const FILE_BYTES_READ: &str = "file_bytes_read";
pub(in crate::sql) const FILE_BYTES: &str = "file_bytes";
/// The metric of all leaves that read text: bytes, decompressed.
pub(in crate::sql) const TEXT_BYTES_READ: &str = "bytes_read";

/// How far a statement is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadSoFar {
    /// Rows that were read or left out.
    pub rows: u64,
    /// How many there are to be read in all; `None` if not only tables of a store are read.
    pub total_rows: Option<u64>,
    /// Bytes of files that were read, and of how many, compressed as they are; `None` if not only
    /// files of known size are read.
    pub bytes: Option<(u64, u64)>,
}

/// Tells how far the statement of a session is that runs just now.
#[derive(Clone, Debug, Default)]
pub struct StatementProgress(Arc<Mutex<Sources>>);

#[derive(Debug, Default)]
enum Sources {
    #[default]
    None,
    /// The leaves of a plan.
    Leaves(Vec<Arc<dyn ExecutionPlan>>),
    /// The walk of a DELETE or UPDATE.
    Walk(Arc<Recorder>),
}

impl StatementProgress {
    fn lock(&self) -> MutexGuard<'_, Sources> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A plan starts to run.
    pub(in crate::sql) fn begin(&self, plan: &Arc<dyn ExecutionPlan>) {
        let mut leaves = Vec::new();
        // A walk fails only where its visitor does.
        let _ = plan.apply(|node| {
            if node.children().is_empty() {
                leaves.push(Arc::clone(node));
            }
            Ok(TreeNodeRecursion::Continue)
        });
        *self.lock() = Sources::Leaves(leaves);
    }

    /// A DELETE or UPDATE starts to run, and counts what it looks at here.
    pub(in crate::sql) fn begin_walk(&self, recorder: Arc<Recorder>) {
        *self.lock() = Sources::Walk(recorder);
    }

    /// Nothing runs any more. Nobody else holds what is dropped then.
    pub(in crate::sql) fn end(&self) {
        *self.lock() = Sources::None;
    }

    /// How far it is; `None` if nothing runs, or what runs reads nothing.
    pub fn now(&self) -> Option<ReadSoFar> {
        let leaves: Vec<Leaf> = match &*self.lock() {
            Sources::None => return None,
            Sources::Leaves(leaves) => leaves.iter().filter_map(Leaf::of).collect(),
            Sources::Walk(recorder) => {
                recorder.progress().map(|(done, all)| Leaf::Table(done, all)).into_iter().collect()
            }
        };
        Some(sum(&leaves))
    }
}

/// What all leaves together have read.
fn sum(leaves: &[Leaf]) -> ReadSoFar {
    let (mut rows, mut total_rows, mut bytes) = (0, Some(0), Some((0, 0)));
    for leaf in leaves {
        match *leaf {
            Leaf::Table(done, all) => {
                rows += done;
                (total_rows, bytes) = (total_rows.map(|total| total + all), None);
            }
            Leaf::File { rows: more, bytes: read } => {
                rows += more;
                let add = |(done, all)| Some((done + read?.0, all + read?.1));
                (total_rows, bytes) = (None, bytes.and_then(add));
            }
            Leaf::Made(more) => rows += more,
        }
    }
    // Of rows that are made, nobody knows how many there will be.
    let total_rows =
        total_rows.filter(|_| leaves.iter().any(|leaf| !matches!(leaf, Leaf::Made(_))));
    let bytes = bytes.filter(|(_, all)| *all > 0);
    ReadSoFar { rows, total_rows, bytes }
}

/// What a leaf has read.
enum Leaf {
    /// Rows, and of how many.
    Table(u64, u64),
    File {
        rows: u64,
        /// Of how many, where that is known.
        bytes: Option<(u64, u64)>,
    },
    /// Rows that were made, such as those of a series.
    Made(u64),
}

impl Leaf {
    /// `None` if nothing is known of it.
    fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<Leaf> {
        if let Some(fragment) = plan.downcast_ref::<FragmentExec>() {
            let (done, all) = fragment.progress();
            return Some(Leaf::Table(done, all));
        }
        if let Some(scan) = plan.downcast_ref::<ScanExec>() {
            let (done, all) = scan.progress();
            return Some(Leaf::Table(done, all));
        }
        let metrics = plan.metrics()?;
        let rows = metrics.output_rows().unwrap_or(0) as u64;
        let source = plan.downcast_ref::<DataSourceExec>();
        let in_memory = |source: &DataSourceExec| source.data_source().is::<MemorySourceConfig>();
        let bytes = bytes(&metrics, FILE_BYTES_READ).zip(bytes(&metrics, FILE_BYTES));
        let is_file = match source {
            Some(source) => !in_memory(source),
            None => bytes.is_some() || metrics.sum_by_name(TEXT_BYTES_READ).is_some(),
        };
        Some(if is_file { Leaf::File { rows, bytes } } else { Leaf::Made(rows) })
    }
}

fn bytes(metrics: &MetricsSet, name: &str) -> Option<u64> {
    Some(metrics.sum_by_name(name)?.as_usize() as u64)
}
