//! Memory for what stored bytes unfold to: counted before it is allocated.
//!
//! A few stored bytes can claim gigabytes: a chunk that zstd has made a thousand times smaller, a
//! text that 65,536 rows share, a dictionary for each of a thousand segments. So whatever decoding
//! allocates in proportion to stored bytes is charged to the budget of the open store first:
//! unpacked chunks, decoded texts, dictionaries, runs, patches, the columns of a slice, the entries
//! of a manifest. What decodes to a fixed number of bytes a row is bounded by the rows of a slice.
//!
//! A budget has a limit of its own and, once a session has been opened over the store, takes its
//! bytes from the pool of the last one, in steps, so that one limit holds for both. The first bytes
//! are free (see [`Budget::free`]): operators that spill may fill the pool, and the blocks that
//! they read must still be decoded.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::error::{Error, Result};

/// Bytes are taken from a pool this many at a time.
const STEP: usize = 1 << 20;
/// The least and the most that is free.
const FREE: (usize, usize) = (16 << 20, 128 << 20);

/// Where a budget takes its bytes from.
pub(crate) trait Pool: Debug + Send + Sync {
    /// Takes bytes, or refuses.
    fn take(&self, bytes: usize) -> Result<()>;
    /// Gives bytes back.
    fn give_back(&self, bytes: usize);
}

/// What can be let go, because it can be made again.
pub(crate) trait Reclaim: Debug + Send + Sync {
    /// Lets it go. Who uses it at the moment keeps it until then.
    fn reclaim(&self);
}

/// Counts the bytes that decoding holds, and refuses more than the limit; clones share it. The
/// default counts nothing.
#[derive(Clone, Debug, Default)]
pub struct Budget(Option<Arc<Shared>>);

#[derive(Debug)]
struct Shared {
    limit: AtomicUsize,
    held: AtomicUsize,
    /// How many bytes are kept that can be made again, at most.
    kept_at_most: AtomicUsize,
    /// What the pool has given, and the free bytes: nobody asks it for less.
    covered: AtomicUsize,
    source: Mutex<Source>,
    /// What can be let go and how many bytes each is, the oldest first.
    kept: Mutex<VecDeque<Kept>>,
}

type Kept = (Weak<dyn Reclaim>, usize);

#[derive(Debug, Default)]
struct Source {
    pool: Option<Arc<dyn Pool>>,
    taken: usize,
}

impl Budget {
    /// Counts nothing and refuses nothing.
    pub(crate) const UNLIMITED: &'static Budget = &Budget(None);

    /// A budget of `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Budget(Some(Arc::new(Shared {
            limit: AtomicUsize::new(limit),
            held: AtomicUsize::new(0),
            kept_at_most: AtomicUsize::new(usize::MAX),
            covered: AtomicUsize::new(Budget::free(limit)),
            source: Mutex::default(),
            kept: Mutex::default(),
        })))
    }

    /// How many bytes of a limit are not taken from a pool: a quarter of it, within bounds.
    pub(crate) fn free(limit: usize) -> usize {
        (limit / 4).clamp(FREE.0, FREE.1)
    }

    /// Changes the limit, and the pool from which bytes are taken.
    pub(crate) fn connect(&self, limit: usize, pool: Option<Arc<dyn Pool>>) {
        let Some(shared) = &self.0 else { return };
        let mut source = shared.source();
        let before = std::mem::replace(&mut *source, Source { pool, taken: 0 });
        if let Some(pool) = before.pool {
            pool.give_back(before.taken);
        }
        shared.limit.store(limit, Ordering::Relaxed);
        shared.covered.store(Budget::free(limit), Ordering::Relaxed);
    }

    /// Bytes that are charged.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.0.as_ref().map_or(0, |shared| shared.held.load(Ordering::Relaxed))
    }

    /// Whether more than half of the limit is charged, so that what can be read again should go.
    pub(crate) fn is_tight(&self) -> bool {
        self.0.as_ref().is_some_and(|shared| {
            shared.held.load(Ordering::Relaxed) > shared.limit.load(Ordering::Relaxed) / 2
        })
    }

    /// Of what can be let go, no more than these bytes are kept from now on.
    #[cfg(feature = "sql")]
    pub(crate) fn keep_at_most(&self, bytes: usize) {
        if let Some(shared) = &self.0 {
            shared.kept_at_most.store(bytes, Ordering::Relaxed);
        }
    }

    /// Raises the bound on what is kept by these bytes, because something of that size had to be
    /// made again.
    pub(crate) fn keep_more(&self, bytes: usize) {
        if let Some(shared) = &self.0 {
            let more = |most: usize| Some(most.saturating_add(bytes));
            let _ = shared.kept_at_most.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        }
    }

    /// Notes something of `bytes` bytes that can be let go. Of such things, those that are more
    /// than a quarter of the limit together, or more than are kept, are let go, the oldest first
    /// and the newest never.
    pub(crate) fn keep(&self, kept: Weak<dyn Reclaim>, bytes: usize) {
        let Some(shared) = &self.0 else { return };
        let mut all = shared.kept();
        all.retain(|(other, _)| other.strong_count() > 0);
        all.push_back((kept, bytes));
        let mut sum: usize = all.iter().map(|(_, bytes)| bytes).sum();
        drop(all);
        let most = shared.kept_at_most.load(Ordering::Relaxed);
        let most = most.min(shared.limit.load(Ordering::Relaxed) / 4);
        while sum > most
            && let Some(freed) = shared.reclaim_but(1)
        {
            sum = sum.saturating_sub(freed);
        }
    }

    /// Charges bytes that are about to be allocated, until the charge is dropped.
    pub(crate) fn charge(&self, bytes: usize) -> Result<Charge> {
        let mut charge = Charge { budget: self.clone(), bytes: 0 };
        charge.grow(bytes)?;
        Ok(charge)
    }
}

impl Shared {
    fn source(&self) -> MutexGuard<'_, Source> {
        self.source.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the oldest thing go that can be, but for the last `others`, and returns its bytes;
    /// `None` if there is none.
    fn reclaim_but(&self, others: usize) -> Option<usize> {
        let mut kept = self.kept();
        if kept.len() <= others {
            return None;
        }
        let (oldest, bytes) = kept.pop_front()?;
        drop(kept);
        if let Some(oldest) = oldest.upgrade() {
            oldest.reclaim();
        }
        Some(bytes)
    }

    /// Charges bytes, for which things are let go if that helps.
    fn grow(&self, bytes: usize) -> Result<()> {
        loop {
            match self.try_grow(bytes) {
                Err(_) if self.reclaim_but(0).is_some() => {}
                granted => return granted,
            }
        }
    }

    fn try_grow(&self, bytes: usize) -> Result<()> {
        let limit = self.limit.load(Ordering::Relaxed);
        // What is refused must not be counted for a moment, or smaller charges would be refused.
        let within =
            |held: usize| held.checked_add(bytes).filter(|held| *held <= limit.max(FREE.0));
        let before = self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within);
        let before = before.map_err(|held| {
            Error::LimitExceeded(format!(
                "stored data unfolds to {bytes} more bytes than the {held} that are decoded \
                 already, and the memory limit is {limit} bytes"
            ))
        })?;
        let covered = self.cover(before + bytes);
        if covered.is_err() {
            self.held.fetch_sub(bytes, Ordering::Relaxed);
        }
        covered
    }

    /// Takes what is missing from the pool.
    fn cover(&self, held: usize) -> Result<()> {
        if held <= self.covered.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut source = self.source();
        let Some(pool) = source.pool.clone() else { return Ok(()) };
        let covered = self.covered.load(Ordering::Relaxed);
        let Some(missing) = held.checked_sub(covered).filter(|missing| *missing > 0) else {
            return Ok(());
        };
        let step = missing.next_multiple_of(STEP);
        pool.take(step)?;
        source.taken += step;
        self.covered.fetch_add(step, Ordering::Relaxed);
        Ok(())
    }

    fn shrink(&self, bytes: usize) {
        let held = self.held.fetch_sub(bytes, Ordering::Relaxed).saturating_sub(bytes);
        if held.saturating_add(2 * STEP) >= self.covered.load(Ordering::Relaxed) {
            return;
        }
        let mut source = self.source();
        let spare = self.covered.load(Ordering::Relaxed).saturating_sub(held.saturating_add(STEP));
        let back = spare.min(source.taken) / STEP * STEP;
        if let Some(pool) = source.pool.clone().filter(|_| back > 0) {
            pool.give_back(back);
            source.taken -= back;
            self.covered.fetch_sub(back, Ordering::Relaxed);
        }
    }
}

/// Bytes charged to a budget; given back when it is dropped.
#[derive(Debug, Default)]
pub struct Charge {
    budget: Budget,
    bytes: usize,
}

impl Charge {
    /// Charges more bytes; if that is refused, the charge stays as it was.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<()> {
        if let Some(shared) = &self.budget.0 {
            shared.grow(bytes)?;
        }
        self.bytes = self.bytes.saturating_add(bytes);
        Ok(())
    }

    /// Bytes that are charged.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Gives all bytes back.
    pub(crate) fn clear(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        if let Some(shared) = self.budget.0.as_ref().filter(|_| bytes > 0) {
            shared.shrink(bytes);
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Fixed {
        size: usize,
        taken: AtomicUsize,
    }

    impl Pool for Fixed {
        fn take(&self, bytes: usize) -> Result<()> {
            let taken = self.taken.fetch_add(bytes, Ordering::Relaxed) + bytes;
            if taken > self.size {
                self.taken.fetch_sub(bytes, Ordering::Relaxed);
                return Err(Error::LimitExceeded("the pool is empty".into()));
            }
            Ok(())
        }

        fn give_back(&self, bytes: usize) {
            self.taken.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    #[test]
    fn charges_end_with_their_guard_and_never_exceed_the_limit() {
        let budget = Budget::new(100 << 20);
        let first = budget.charge(60 << 20).unwrap();
        assert!(budget.is_tight());
        let refused = budget.charge(41 << 20).unwrap_err();
        assert!(matches!(refused, Error::LimitExceeded(_)), "{refused}");
        assert_eq!(budget.held(), 60 << 20);
        drop(first);
        assert_eq!(budget.held(), 0);
        assert!(budget.charge(100 << 20).is_ok());
        assert!(Budget::UNLIMITED.charge(usize::MAX).is_ok());
    }

    #[derive(Debug)]
    struct Cache(Mutex<Option<Charge>>);

    impl Reclaim for Cache {
        fn reclaim(&self) {
            *self.0.lock().unwrap() = None;
        }
    }

    #[test]
    #[cfg(feature = "sql")]
    fn what_is_made_again_is_kept_at_last() {
        let budget = Budget::new(1 << 30);
        budget.keep_at_most(10 << 20);
        let caches: Vec<_> = (0..4).map(|_| Arc::new(Cache(Mutex::default()))).collect();
        let mut made = 0;
        for _ in 0..20 {
            for cache in &caches {
                let mut kept = cache.0.lock().unwrap();
                if kept.is_some() {
                    continue;
                }
                *kept = Some(budget.charge(4 << 20).unwrap());
                drop(kept);
                made += 1;
                if made > caches.len() {
                    budget.keep_more(4 << 20);
                }
                budget.keep(Arc::downgrade(cache) as _, 4 << 20);
            }
        }
        assert!((5..=8).contains(&made), "{made}");
    }

    #[test]
    fn what_can_be_made_again_makes_room() {
        let budget = Budget::new(100 << 20);
        let cached = |bytes: usize| {
            let cache = Arc::new(Cache(Mutex::new(Some(budget.charge(bytes).unwrap()))));
            let weak: Weak<dyn Reclaim> = Arc::downgrade(&cache) as _;
            budget.keep(weak, bytes);
            cache
        };
        let is_there = |cache: &Cache| cache.0.lock().unwrap().is_some();
        let all: Vec<_> = (0..5).map(|_| cached(10 << 20)).collect();
        // Together a quarter, and the newest whatever its size.
        assert_eq!(
            all.iter().map(|c| is_there(c)).collect::<Vec<_>>(),
            [false, false, false, true, true]
        );
        let large = cached(60 << 20);
        assert!(is_there(&large) && !is_there(&all[4]));
        // What is held otherwise does not count.
        let charge = budget.charge(30 << 20).unwrap();
        let (small, other) = (cached(1 << 20), cached(1 << 20));
        assert!(!is_there(&large) && is_there(&small) && is_there(&other));
        drop(charge);
        // Others' needs come before.
        let charge = budget.charge(99 << 20).unwrap();
        assert!(!is_there(&small) || !is_there(&other));
        drop(charge);
        let charge = budget.charge(100 << 20).unwrap();
        assert!(!is_there(&large));
        assert!(budget.charge(20 << 20).is_err());
        drop(charge);
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn a_pool_covers_what_is_not_free() {
        let pool = Arc::new(Fixed { size: 50 << 20, taken: AtomicUsize::new(0) });
        let taken = || pool.taken.load(Ordering::Relaxed);
        let budget = Budget::new(1 << 30);
        let free = Budget::free(100 << 20);
        budget.connect(100 << 20, Some(Arc::clone(&pool) as _));
        let small = budget.charge(free).unwrap();
        assert_eq!(taken(), 0);
        let large = budget.charge(20 << 20).unwrap();
        assert_eq!(taken(), 20 << 20);
        assert!(budget.charge(40 << 20).is_err(), "the pool refuses");
        assert_eq!((taken(), budget.held()), (20 << 20, free + (20 << 20)));
        drop((small, large));
        assert_eq!((taken(), budget.held()), (0, 0));
        let held = budget.charge(free + 1).unwrap();
        budget.connect(1 << 30, None);
        assert_eq!(taken(), 0, "the pool before has everything back");
        drop(held);
        assert_eq!((taken(), budget.held()), (0, 0));
    }
}
