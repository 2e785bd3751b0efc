//! What is decoded of stored data counts against the session's memory: the budget of the store
//! takes its bytes from the pool that DataFusion's operators and the fragments share.

use std::sync::Arc;

use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};

use crate::budget::Pool;
use crate::error::Result;
use crate::sql::session::pool::STORED_DATA;
use crate::store::Store;

/// The share of stored data in a session's pool.
#[derive(Debug)]
struct DecodedData(MemoryReservation);

impl Pool for DecodedData {
    fn take(&self, bytes: usize) -> Result<()> {
        Ok(self.0.try_grow(bytes)?)
    }

    fn give_back(&self, bytes: usize) {
        self.0.shrink(bytes);
    }
}

/// From now on, what is decoded of a store is taken from the pool of a session with this limit.
pub(super) fn count(store: &Store, limit: u64, pool: &Arc<dyn MemoryPool>) {
    let reservation = MemoryConsumer::new(STORED_DATA).register(pool);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    store.budget().connect(limit, Some(Arc::new(DecodedData(reservation))));
    store.keep_known_rows_within(limit);
}
