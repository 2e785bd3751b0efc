//! The rows of a shared part: computed by whoever asks first, kept until all have read them.
//!
//! The first reader to be polled starts a task for each partition of the part; the others wait. The
//! rows are complete before anyone gets the first of them, so that no reader waits for another one,
//! however slowly that one reads and wherever it stops. They are kept in memory, up to a share of
//! the memory limit, and beyond that in temporary files.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::RecordBatch;
use datafusion::common::runtime::JoinSet;
use datafusion::common::utils::memory::RecordBatchMemoryCounter;
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};
use datafusion::execution::spill_file::SpillFile;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, SpillMetrics};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, SpillManager};
use futures::future::{BoxFuture, FutureExt, Shared, WeakShared};
use futures::stream::{self, StreamExt};

/// The share of the memory limit that the rows of one part may take.
const MEMORY_SHARE: usize = 8;

type Plan = Arc<dyn ExecutionPlan>;
type Filling = BoxFuture<'static, Result<Arc<Kept>, Arc<DataFusionError>>>;

/// A shared part of a plan, and its rows while somebody needs them.
pub(crate) struct SharedRows {
    pub(super) number: usize,
    pub(super) plan: Plan,
    /// How many operators read it.
    pub(super) readers: AtomicUsize,
    /// Whether EXPLAIN shows the part already.
    pub(super) shown: AtomicBool,
    /// What was spilled.
    pub(super) metrics: ExecutionPlanMetricsSet,
    now: Arc<Mutex<Now>>,
}

#[derive(Default)]
struct Now {
    /// How often the part was started.
    started: usize,
    /// How many streams of readers have ended since then.
    ended: usize,
    /// Ends when the last reader that waits for it does.
    filling: Option<WeakShared<Filling>>,
    kept: Option<Arc<Kept>>,
}

/// All rows of a part, by partition.
struct Kept {
    partitions: Vec<Partition>,
    spills: SpillManager,
    /// Given back with the rows.
    _memory: Arc<Memory>,
}

#[derive(Default)]
struct Partition {
    batches: Vec<RecordBatch>,
    /// The rows after those.
    file: Option<Arc<dyn SpillFile>>,
}

impl SharedRows {
    pub(super) fn new(number: usize, plan: Plan) -> Self {
        SharedRows {
            number,
            plan,
            readers: AtomicUsize::new(0),
            shown: AtomicBool::new(false),
            metrics: ExecutionPlanMetricsSet::new(),
            now: Arc::default(),
        }
    }

    /// Takes part in the reading of a partition.
    pub(super) fn read(&self, context: &Arc<TaskContext>) -> DataFusionResult<Reading> {
        let partitions = self.plan.output_partitioning().partition_count();
        let streams = self.readers.load(Ordering::Relaxed).saturating_mul(partitions);
        let mut now = lock(&self.now);
        let kept = now.kept.clone().map(|kept| futures::future::ready(Ok(kept)).boxed().shared());
        let running = kept.or_else(|| now.filling.as_ref().and_then(WeakShared::upgrade));
        let filling = match running {
            Some(filling) => filling,
            None => {
                // Operators may run once only.
                let plan = match now.started {
                    0 => Arc::clone(&self.plan),
                    _ => reset_plan_states(Arc::clone(&self.plan))?,
                };
                let spills = self.spills(context);
                let (context, known) = (Arc::clone(context), Arc::clone(&self.now));
                let filling = async move {
                    let kept = Arc::new(fill(plan, context, spills).await.map_err(Arc::new)?);
                    lock(&known).kept = Some(Arc::clone(&kept));
                    Ok(kept)
                };
                let filling = filling.boxed().shared();
                (now.started, now.ended) = (now.started + 1, 0);
                now.filling = filling.downgrade();
                filling
            }
        };
        Ok(Reading { filling, _end: End { now: Arc::clone(&self.now), streams } })
    }

    fn spills(&self, context: &TaskContext) -> SpillManager {
        let metrics = SpillMetrics::new(&self.metrics, 0);
        SpillManager::new(context.runtime_env(), metrics, self.plan.schema())
            .with_compression_type(context.session_config().spill_compression())
    }
}

impl fmt::Debug for SharedRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedRows")
            .field("number", &self.number)
            .field("plan", &self.plan)
            .finish()
    }
}

fn lock(now: &Mutex<Now>) -> MutexGuard<'_, Now> {
    now.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The reading of one partition by one reader.
pub(super) struct Reading {
    filling: Shared<Filling>,
    _end: End,
}

impl Reading {
    /// The rows of a partition, once there are all.
    pub(super) async fn rows(&self, partition: usize) -> DataFusionResult<Rows> {
        let kept = self.filling.clone().await.map_err(DataFusionError::Shared)?;
        let Some(found) = kept.partitions.get(partition) else {
            return Ok(stream::empty().boxed());
        };
        let batches = stream::iter(found.batches.clone()).map(Ok);
        Ok(match &found.file {
            None => batches.boxed(),
            Some(file) => {
                batches.chain(kept.spills.read_spill_as_stream(Arc::clone(file), None)?).boxed()
            }
        })
    }
}

/// The batches of a partition.
pub(super) type Rows = stream::BoxStream<'static, DataFusionResult<RecordBatch>>;

/// Tells when a stream of a reader has ended. After the last one, nobody needs the rows any more;
/// if a reader does begin once more, they are computed once more.
struct End {
    now: Arc<Mutex<Now>>,
    /// How many streams there are in all.
    streams: usize,
}

impl Drop for End {
    fn drop(&mut self) {
        let mut now = lock(&self.now);
        now.ended += 1;
        if now.ended >= self.streams {
            now.kept = None;
        }
    }
}

/// Runs all partitions of a plan to their end.
async fn fill(
    plan: Plan,
    context: Arc<TaskContext>,
    spills: SpillManager,
) -> DataFusionResult<Kept> {
    let memory = Arc::new(Memory::new(&context));
    let partitions = plan.output_partitioning().partition_count();
    let mut tasks = JoinSet::new();
    for partition in 0..partitions {
        let rows = plan.execute(partition, Arc::clone(&context))?;
        let (memory, spills) = (Arc::clone(&memory), spills.clone());
        tasks.spawn(async move { Ok((partition, collect(rows, &memory, &spills).await?)) });
    }
    let mut kept: Vec<Partition> = (0..partitions).map(|_| Partition::default()).collect();
    while let Some(done) = tasks.join_next().await {
        let done: DataFusionResult<(usize, Partition)> =
            done.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?;
        let (partition, rows) = done?;
        if let Some(place) = kept.get_mut(partition) {
            *place = rows;
        }
    }
    Ok(Kept { partitions: kept, spills, _memory: memory })
}

async fn collect(
    mut rows: SendableRecordBatchStream,
    memory: &Memory,
    spills: &SpillManager,
) -> DataFusionResult<Partition> {
    let (mut kept, mut file) = (Partition::default(), None);
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        if batch.num_rows() == 0 {
            continue;
        }
        if file.is_none() && memory.take(&batch) {
            kept.batches.push(batch);
            continue;
        }
        if file.is_none() {
            file = Some(spills.create_in_progress_file("SharedExec")?);
        }
        if let Some(file) = &mut file {
            file.append_batch(&batch)?;
        }
    }
    kept.file = file.map(|mut file| file.finish()).transpose()?.flatten();
    Ok(kept)
}

/// The memory of the rows of a part.
struct Memory {
    most: usize,
    /// The buffers that are counted; `None` once there was too little.
    counted: Mutex<Option<RecordBatchMemoryCounter>>,
    reservation: MemoryReservation,
}

impl Memory {
    fn new(context: &TaskContext) -> Self {
        let pool = context.memory_pool();
        let most = match pool.memory_limit() {
            MemoryLimit::Finite(bytes) => bytes / MEMORY_SHARE,
            MemoryLimit::Infinite | MemoryLimit::Unknown => usize::MAX,
        };
        let reservation = MemoryConsumer::new("SharedExec").register(pool);
        Memory { most, counted: Mutex::new(Some(RecordBatchMemoryCounter::new())), reservation }
    }

    /// Reserves what a batch takes. After the first one that does not fit, none does: the buffers
    /// of a batch that is not kept are counted, too.
    fn take(&self, batch: &RecordBatch) -> bool {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(counter) = counted.as_mut() else { return false };
        let more = counter.count_batch(batch);
        let fits = counter.memory_usage() <= self.most && self.reservation.try_grow(more).is_ok();
        if !fits {
            *counted = None;
        }
        fits
    }
}
