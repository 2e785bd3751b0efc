//! One generation of a table, as scans, fragments and their planners know it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arrow_schema::SchemaRef;

use crate::error::{Error, Result};
use crate::expr::{Choosing, Predicate, Sample};
use crate::model::{Column, ColumnId};
use crate::query::Condition;
use crate::query::sample::estimated_rows;
use crate::sql::keys::partition_keys::PartitionKeys;
#[cfg(feature = "cluster")]
use crate::sql::run::parts::{Part, Places};
use crate::store::Snapshot;

/// The most samples that a table remembers, and the most bytes of the text of one.
const MAX_SAMPLES: usize = 256;
const MAX_TEXT: usize = 4096;

/// Conditions by their texts, with the columns that they read.
type Asked = Vec<(Box<str>, Vec<ColumnId>)>;

/// One generation of a table.
#[derive(Debug)]
pub(crate) struct StoreTable {
    snapshot: Snapshot,
    /// The name of its store, if that is attached.
    attached: Option<Arc<str>>,
    /// Its name in reports.
    name: Box<str>,
    schema: SchemaRef,
    partition_keys: OnceLock<PartitionKeys>,
    /// About how many rows meet conditions. A statement asks the same of a table for each scan of
    /// it, and the next statement may ask again.
    samples: Mutex<HashMap<Asked, f64>>,
    /// The rows that a statement sees; `None` for all.
    sample: Option<Arc<Sample>>,
    /// Where its parts are, if they are on other machines.
    #[cfg(feature = "cluster")]
    parts: Option<Arc<[Part]>>,
    /// For each partition key, which of them have the rows of which values; `None` where several
    /// have those of one value.
    #[cfg(feature = "cluster")]
    places: Box<[Option<Arc<Places>>]>,
}

impl StoreTable {
    pub(crate) fn new(snapshot: Snapshot, attached: Option<Arc<str>>) -> Self {
        let name = match &attached {
            None => snapshot.table_name().into(),
            Some(store) => format!("{store}.{}", snapshot.table_name()).into(),
        };
        StoreTable {
            schema: snapshot.schema().to_arrow(),
            snapshot,
            attached,
            name,
            partition_keys: OnceLock::new(),
            samples: Mutex::default(),
            sample: None,
            #[cfg(feature = "cluster")]
            parts: None,
            #[cfg(feature = "cluster")]
            places: Box::default(),
        }
    }

    /// A table whose parts are on other machines.
    #[cfg(feature = "cluster")]
    pub(crate) fn of_parts(
        snapshot: Snapshot,
        parts: Vec<Part>,
        places: Box<[Option<Arc<Places>>]>,
    ) -> Self {
        StoreTable { parts: Some(parts.into()), places, ..StoreTable::new(snapshot, None) }
    }

    /// Which parts have the rows of which values, for each partition key.
    #[cfg(feature = "cluster")]
    pub(crate) fn places(&self) -> &[Option<Arc<Places>>] {
        &self.places
    }

    /// Where its parts are, if they are on other machines.
    #[cfg(feature = "cluster")]
    pub(crate) fn parts(&self) -> Option<&Arc<[Part]>> {
        self.parts.as_ref()
    }

    /// Whether its rows are on this machine.
    pub(crate) fn is_here(&self) -> bool {
        self.snapshot.is_here()
    }

    /// A sample of its rows.
    pub(crate) fn sampled(&self, choosing: Choosing, seed: u64, text: &str) -> Result<Self> {
        if !self.is_here() {
            return Err(Error::Unsupported("a sample of a table of a cluster".into()));
        }
        let segments = self.snapshot.segments()?;
        let rows: Vec<u64> = segments.iter().map(|entry| entry.rows).collect();
        let sample = Some(Arc::new(Sample::new(choosing, seed, &rows, text)));
        Ok(StoreTable { sample, ..StoreTable::new(self.snapshot.clone(), self.attached.clone()) })
    }

    /// That a row is one of those that the statement sees.
    pub(crate) fn sample_condition(&self) -> Option<Condition> {
        self.sample.as_ref().map(Condition::sampled)
    }

    /// About how many rows meet all conditions, by a sample.
    pub(crate) fn expected_rows(
        &self,
        columns: &[Column],
        conditions: &[Condition],
    ) -> Result<f64> {
        let share = self.sample.as_ref().map_or(1.0, |sample| sample.share());
        let is_sample = |one: &&Condition| matches!(one.predicate, Predicate::Sampled(_));
        let others: Vec<Condition> =
            conditions.iter().filter(|one| !is_sample(one)).cloned().collect();
        Ok(share * self.rows_of_all(columns, &others)?)
    }

    /// The same of the whole table.
    fn rows_of_all(&self, columns: &[Column], conditions: &[Condition]) -> Result<f64> {
        if conditions.is_empty() {
            return Ok(self.snapshot.rows() as f64);
        }
        let read = |at: &usize| columns.get(*at).map(|column| column.id);
        let asked: Asked = conditions
            .iter()
            .map(|condition| &condition.expression)
            .map(|e| (e.text.clone(), e.inputs.iter().filter_map(read).collect()))
            .collect();
        let samples = || self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rows) = samples().get(&asked) {
            return Ok(*rows);
        }
        let rows = estimated_rows(columns, conditions, &self.snapshot)?;
        if asked.iter().map(|(text, _)| text.len()).sum::<usize>() <= MAX_TEXT {
            let mut samples = samples();
            if samples.len() >= MAX_SAMPLES {
                samples.clear();
            }
            samples.insert(asked, rows);
        }
        Ok(rows)
    }

    /// What it is partitioned by.
    pub(crate) fn partition_keys(&self) -> &PartitionKeys {
        let keys = &self.snapshot.root().arrangement.partition_by;
        self.partition_keys.get_or_init(|| PartitionKeys::new(keys, self.snapshot.schema()))
    }

    /// Its name, with that of its store if the store is attached.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The name of its store, if that is attached.
    pub(crate) fn attached(&self) -> Option<&str> {
        self.attached.as_deref()
    }

    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The columns as queries see them.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}
