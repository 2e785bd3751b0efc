//! How the memory of a session is shared out among the operators of DataFusion.
//!
//! Where this stands on the road of a query: what spills (sorts, groups, our fragments) and what
//! cannot (stored data that is decoded, the hash table of a join) ask here before they take memory.
//! DataFusion's `FairSpillPool` lets the former take all of it, and what cannot spill finds none.
//! Here what spills leaves as much to the decoding of stored data as it has had at most.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::common::{DataFusionError, Result, human_readable_size};
use datafusion::execution::cache::cache_manager::CacheManagerConfig;
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};

/// The memory of a session, and where it spills.
pub(super) fn environment(temp_dir: Option<&Path>, memory: u64) -> Result<Arc<RuntimeEnv>> {
    let limit = usize::try_from(memory).unwrap_or(usize::MAX);
    // A list of files that is kept would hide those that come later.
    let caches = CacheManagerConfig { list_files_cache_limit: 0, ..CacheManagerConfig::default() };
    let mut builder = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(SharedPool::new(limit)))
        .with_cache_manager(caches);
    if let Some(directory) = temp_dir {
        builder = builder.with_temp_file_path(directory);
    }
    builder.build_arc()
}

/// The same, of which one statement may use at most `memory` bytes. `used` is told how many it
/// does.
pub(super) fn within(all: &RuntimeEnv, memory: u64, used: &StatementMemory) -> Arc<RuntimeEnv> {
    let limit = usize::try_from(memory).unwrap_or(usize::MAX);
    let within = Some(Arc::clone(&all.memory_pool));
    let pool = SharedPool { within, used: used.clone(), ..SharedPool::new(limit) };
    Arc::new(RuntimeEnv { memory_pool: Arc::new(pool), ..all.clone() })
}

/// Tells how much memory the operators of a session's statement have had, where statements run
/// beside each other. What is decoded of stored data is not among it.
#[derive(Clone, Debug, Default)]
pub struct StatementMemory(Arc<AtomicUsize>);

impl StatementMemory {
    /// The most bytes at a time since the last statement began; `None` if nobody has counted.
    pub fn most(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed) as u64).filter(|bytes| *bytes > 0)
    }

    /// A statement begins.
    pub(super) fn begin(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// The name of the consumer for stored data that is decoded.
pub(super) const STORED_DATA: &str = "StoredData";

/// If several consumers spill, they leave this part of their memory (one in four) to the others.
const KEPT_SHARE: usize = 4;

/// A pool whose spilling consumers have equal shares of what the others leave: of all of it if one
/// spills, and of three quarters if several do.
#[derive(Debug)]
pub(super) struct SharedPool {
    limit: usize,
    taken: Mutex<Taken>,
    /// The pool of which this is a part, and which must have what is taken here.
    within: Option<Arc<dyn MemoryPool>>,
    used: StatementMemory,
}

#[derive(Debug, Default)]
struct Taken {
    /// The number of consumers that spill.
    spilling: usize,
    /// Bytes of those that spill.
    spillable: usize,
    /// Bytes of the others.
    unspillable: usize,
    /// Those of stored data among them, and the most that they have been since something spills.
    stored: usize,
    most_stored: usize,
}

impl SharedPool {
    pub(super) fn new(limit: usize) -> Self {
        let (taken, used) = (Mutex::default(), StatementMemory::default());
        SharedPool { limit, taken, within: None, used }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, taken: &mut Taken, consumer: &MemoryConsumer, bytes: usize) {
        taken.add(consumer, bytes);
        self.used.0.fetch_max(taken.spillable + taken.unspillable, Ordering::Relaxed);
    }
}

impl Taken {
    fn add(&mut self, consumer: &MemoryConsumer, bytes: usize) {
        *self.of(consumer) += bytes;
        if consumer.name() == STORED_DATA {
            self.stored += bytes;
            self.most_stored = self.most_stored.max(self.stored);
        }
    }

    fn take_away(&mut self, consumer: &MemoryConsumer, bytes: usize) {
        *self.of(consumer) -= bytes;
        if consumer.name() == STORED_DATA {
            self.stored -= bytes;
        }
    }

    fn of(&mut self, consumer: &MemoryConsumer) -> &mut usize {
        if consumer.can_spill() { &mut self.spillable } else { &mut self.unspillable }
    }
}

impl fmt::Display for SharedPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a memory limit of {}", human_readable_size(self.limit))
    }
}

impl MemoryPool for SharedPool {
    fn name(&self) -> &'static str {
        "shared"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        let mut taken = self.taken();
        if consumer.can_spill() && taken.spilling == 0 {
            taken.most_stored = taken.stored;
        }
        taken.spilling += usize::from(consumer.can_spill());
        drop(taken);
        self.within.iter().for_each(|all| all.register(consumer));
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.taken().spilling -= usize::from(consumer.can_spill());
        self.within.iter().for_each(|all| all.unregister(consumer));
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.add(&mut self.taken(), reservation.consumer(), additional);
        self.within.iter().for_each(|all| all.grow(reservation, additional));
    }

    fn shrink(&self, reservation: &MemoryReservation, less: usize) {
        self.taken().take_away(reservation.consumer(), less);
        self.within.iter().for_each(|all| all.shrink(reservation, less));
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let (can_spill, has) = (reservation.consumer().can_spill(), reservation.size());
        let mut taken = self.taken();
        let left = if can_spill {
            let spillable = self.limit.saturating_sub(taken.unspillable);
            let again = taken.most_stored.min(self.limit - self.limit / KEPT_SHARE);
            let left = spillable.saturating_sub(again.saturating_sub(taken.stored));
            let share = match taken.spilling {
                0 | 1 => left,
                several => left.min(spillable - spillable / KEPT_SHARE) / several,
            };
            share.saturating_sub(has)
        } else {
            self.limit.saturating_sub(taken.unspillable + taken.spillable)
        };
        if additional > left {
            return Err(DataFusionError::ResourcesExhausted(format!(
                "{} has {}, needs {} more, and {} are left of {self}",
                reservation.consumer().name(),
                human_readable_size(has),
                human_readable_size(additional),
                human_readable_size(left),
            )));
        }
        self.within.iter().try_for_each(|all| all.try_grow(reservation, additional))?;
        self.add(&mut taken, reservation.consumer(), additional);
        Ok(())
    }

    fn reserved(&self) -> usize {
        let taken = self.taken();
        taken.spillable + taken.unspillable
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.limit)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn what_spills_leaves_a_quarter() {
        let pool: Arc<dyn MemoryPool> = Arc::new(SharedPool::new(1000));
        let consumer = |spills| MemoryConsumer::new("test").with_can_spill(spills).register(&pool);
        let (one, fixed) = (consumer(true), consumer(false));
        // Alone, it may have all.
        one.try_grow(1000).unwrap();
        assert!(fixed.try_grow(1).is_err() && one.try_grow(1).is_err());
        one.free();
        let two = consumer(true);
        one.try_grow(375).unwrap();
        two.try_grow(375).unwrap();
        assert!(one.try_grow(1).is_err() && two.try_grow(1).is_err());
        fixed.try_grow(250).unwrap();
        let error = fixed.try_grow(1).unwrap_err().to_string();
        assert!(
            error.contains("test has 250.0 B, needs 1.0 B more, and 0.0 B are left"),
            "{error}"
        );
        drop(two);
        // What others have taken counts.
        one.try_grow(375).unwrap();
        assert!(one.try_grow(1).is_err());
        fixed.free();
        one.try_grow(250).unwrap();
        drop((one, fixed));
        assert_eq!(pool.reserved(), 0);
    }

    #[test]
    fn what_spills_leaves_what_stored_data_has_had() {
        let pool: Arc<dyn MemoryPool> = Arc::new(SharedPool::new(1000));
        let spilling = || MemoryConsumer::new("test").with_can_spill(true).register(&pool);
        // It lives as long as the session.
        let stored = MemoryConsumer::new(STORED_DATA).register(&pool);
        let (one, table) = (spilling(), MemoryConsumer::new("table").register(&pool));
        table.try_grow(500).unwrap();
        stored.try_grow(200).unwrap();
        stored.shrink(150);
        table.free();
        one.try_grow(800).unwrap();
        assert!(one.try_grow(1).is_err());
        stored.try_grow(150).unwrap();
        drop(one);
        // The next statement has no less for it.
        stored.free();
        spilling().try_grow(1000).unwrap();
    }
}
