//! A bounded cache of opened things: mappings here, segments in `store`.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::Result;

/// Keeps up to a number of values, and drops the least recently used first. Values in use outlive
/// their place in the cache.
#[derive(Debug)]
pub struct Lru<K, V> {
    limit: usize,
    state: Mutex<State<K, V>>,
}

#[derive(Debug)]
struct State<K, V> {
    clock: u64,
    values: HashMap<K, (u64, Arc<V>)>,
}

impl<K: Hash + Eq, V> Lru<K, V> {
    /// A cache of at most `limit` values (at least one).
    pub fn new(limit: usize) -> Self {
        Lru { limit: limit.max(1), state: Mutex::new(State { clock: 0, values: HashMap::new() }) }
    }

    /// The value of a key, opened if it is not in the cache.
    pub fn get_or_open<Q>(&self, key: &Q, open: impl FnOnce() -> Result<V>) -> Result<Arc<V>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        {
            let mut state = self.lock();
            state.clock += 1;
            let now = state.clock;
            if let Some((used, value)) = state.values.get_mut(key) {
                *used = now;
                return Ok(Arc::clone(value));
            }
        }
        // Opened without the lock held: two threads may both do it, and one of the results is
        // dropped.
        let value = Arc::new(open()?);
        let mut state = self.lock();
        let now = state.clock;
        let kept = Arc::clone(&state.values.entry(key.to_owned()).or_insert((now, value)).1);
        if state.values.len() > self.limit {
            state.evict(self.limit);
        }
        Ok(kept)
    }

    /// Whether a value is held.
    pub fn has<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.lock().values.contains_key(key)
    }

    /// Values held now.
    pub fn len(&self) -> usize {
        self.lock().values.len()
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, State<K, V>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Hash + Eq, V> State<K, V> {
    /// Drops the older part, an eighth at once, so that a scan over many files does not search at
    /// every step.
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
