//! A bounded cache of opened objects: mappings here, segments in `store`.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::Result;

/// Keeps up to a number of values, and evicts the least recently used. Values in use outlive their
/// eviction.
#[derive(Debug)]
pub(crate) struct Lru<K, V> {
    limit: usize,
    entries: Mutex<Entries<K, V>>,
}

#[derive(Debug)]
struct Entries<K, V> {
    clock: u64,
    values: HashMap<K, (u64, Arc<V>)>,
}

impl<K: Hash + Eq, V> Lru<K, V> {
    /// A cache of at most `limit` values (at least one).
    pub(crate) fn new(limit: usize) -> Self {
        let entries = Entries { clock: 0, values: HashMap::new() };
        Lru { limit: limit.max(1), entries: Mutex::new(entries) }
    }

    /// The value of a key, opened if it is not in the cache.
    pub(crate) fn get_or_open<Q>(&self, key: &Q, open: impl FnOnce() -> Result<V>) -> Result<Arc<V>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        {
            let mut entries = self.lock();
            entries.clock += 1;
            let now = entries.clock;
            if let Some((used, value)) = entries.values.get_mut(key) {
                *used = now;
                return Ok(Arc::clone(value));
            }
        }
        // The lock is not held while opening: two threads may open the same value, and one result
        // is dropped.
        let value = Arc::new(open()?);
        let mut entries = self.lock();
        let now = entries.clock;
        let kept = Arc::clone(&entries.values.entry(key.to_owned()).or_insert((now, value)).1);
        if entries.values.len() > self.limit {
            entries.evict(self.limit);
        }
        Ok(kept)
    }

    /// Whether the cache has a value for a key.
    pub(crate) fn has<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.lock().values.contains_key(key)
    }

    /// Drops all values; those in use live on.
    pub(crate) fn clear(&self) {
        self.lock().values.clear();
    }

    /// The number of values.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.lock().values.len()
    }

    fn lock(&self) -> MutexGuard<'_, Entries<K, V>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Hash + Eq, V> Entries<K, V> {
    /// Evicts the oldest eighth, so that a scan over many files does not search at every step.
    fn evict(&mut self, limit: usize) {
        let keep = (limit - limit / 8).max(1);
        let mut ages: Vec<u64> = self.values.values().map(|(used, _)| *used).collect();
        let drop = ages.len().saturating_sub(keep);
        if drop == 0 {
            return;
        }
        let (_, last_dropped, _) = ages.select_nth_unstable(drop - 1);
        let last_dropped = *last_dropped;
        self.values.retain(|_, (used, _)| *used > last_dropped);
    }
}
