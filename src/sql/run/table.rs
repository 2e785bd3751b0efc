//! One generation of a table, as scans, fragments and their planners know it.

use std::sync::OnceLock;

use arrow_schema::SchemaRef;

use crate::sql::keys::partition_keys::PartitionKeys;
use crate::store::Snapshot;

/// One generation of a table.
#[derive(Debug)]
pub(crate) struct StoreTable {
    snapshot: Snapshot,
    schema: SchemaRef,
    partition_keys: OnceLock<PartitionKeys>,
}

impl StoreTable {
    pub(crate) fn new(snapshot: Snapshot) -> Self {
        StoreTable {
            schema: snapshot.schema().to_arrow(),
            snapshot,
            partition_keys: OnceLock::new(),
        }
    }

    /// What it is partitioned by.
    pub(crate) fn partition_keys(&self) -> &PartitionKeys {
        let keys = &self.snapshot.root().arrangement.partition_by;
        self.partition_keys.get_or_init(|| PartitionKeys::new(keys, self.snapshot.schema()))
    }

    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The columns as queries see them.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}
