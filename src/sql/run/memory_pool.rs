//! The memory that the operators of a session share.
//!
//! Where this stands on the road of a query: a session makes one pool, from which DataFusion's
//! operators, the fragments and decoded data take their bytes. DataFusion's fair pool (55.2) lets
//! operators that can spill fill all of it. A sort that merges what it has spilled cannot spill
//! itself, and found nothing left: `ORDER BY` over 30 million rows ended at 64 MiB and at 256 MiB.
//! Here operators that can spill leave a part to those that cannot.

use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{
    FairSpillPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};

/// The most bytes that are left to operators that cannot spill.
const MOST_LEFT: usize = 128 << 20;

/// A fair pool, of which operators that can spill leave an eighth.
#[derive(Debug)]
pub(in crate::sql) struct SharedPool {
    inner: FairSpillPool,
    /// Bytes of operators that can spill.
    spillable: AtomicUsize,
    /// The most of them.
    most_spillable: usize,
}

impl SharedPool {
    /// A pool of `limit` bytes.
    pub(in crate::sql) fn new(limit: usize) -> Self {
        SharedPool {
            inner: FairSpillPool::new(limit),
            spillable: AtomicUsize::new(0),
            most_spillable: limit - (limit / 8).min(MOST_LEFT),
        }
    }
}

impl std::fmt::Display for SharedPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.fmt(f)
    }
}

impl MemoryPool for SharedPool {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.inner.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.inner.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        if reservation.consumer().can_spill() {
            self.spillable.fetch_add(additional, Ordering::Relaxed);
        }
        self.inner.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        if reservation.consumer().can_spill() {
            self.spillable.fetch_sub(shrink, Ordering::Relaxed);
        }
        self.inner.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        if !reservation.consumer().can_spill() {
            return self.inner.try_grow(reservation, additional);
        }
        let within =
            |held: usize| held.checked_add(additional).filter(|held| *held <= self.most_spillable);
        let before = self.spillable.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within);
        let granted = match before {
            Ok(_) => self.inner.try_grow(reservation, additional),
            Err(held) => {
                return Err(DataFusionError::ResourcesExhausted(format!(
                    "{} wants {additional} more bytes, and operators that can spill have {held} of \
                     {}",
                    reservation.consumer().name(),
                    self.most_spillable
                )));
            }
        };
        if granted.is_err() {
            self.spillable.fetch_sub(additional, Ordering::Relaxed);
        }
        granted
    }

    fn reserved(&self) -> usize {
        self.inner.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.inner.memory_limit()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn what_can_spill_leaves_room() {
        let pool: Arc<dyn MemoryPool> = Arc::new(SharedPool::new(80 << 20));
        let sort = MemoryConsumer::new("sort").with_can_spill(true).register(&pool);
        let merge = MemoryConsumer::new("merge").register(&pool);
        assert!(sort.try_grow(70 << 20).is_ok() && sort.try_grow(1).is_err());
        assert!(merge.try_grow(10 << 20).is_ok() && merge.try_grow(1).is_err());
        sort.shrink(20 << 20);
        assert!(sort.try_grow(20 << 20).is_ok() && sort.try_grow(1).is_err());
        drop((sort, merge));
        assert_eq!(pool.reserved(), 0);
        let merge = MemoryConsumer::new("merge").register(&pool);
        assert!(merge.try_grow(80 << 20).is_ok());
        let sort = MemoryConsumer::new("sort").with_can_spill(true).register(&pool);
        assert!(sort.try_grow(1).is_err(), "the pool is full");
        drop(merge);
        assert!(sort.try_grow(70 << 20).is_ok(), "what was refused is not counted");
    }
}
