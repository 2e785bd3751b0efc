//! INSERTs that read nothing of their table: VALUES, and rows that a program has or feeds.
//!
//! Where this stands on the road of a byte: before an ingest. Such rows are collected before the
//! writer's lock is taken, so that a client that is slow keeps nobody from writing. If they are
//! few, they are stored together with those of other sessions (`write::group`); if not, what has
//! been collected and the rest take the road of an ingest under a lock of their own.

use std::sync::Arc;

use arrow_array::RecordBatch;
use datafusion::execution::memory_pool::MemoryConsumer;

use super::Session;
use super::execution::{Run, no_store};
use crate::disk::LockWait;
use crate::error::{Error, Result};
use crate::ingest::arrange::Arrange;
use crate::ingest::load::{LoadOptions, load_batches};
use crate::model::Schema;
use crate::sql::keys::expressions::SqlExpressions;
use crate::sql::run::stream::BatchStream;
use crate::sql::work::cancel::Canceller;
use crate::sql::write::base::Base;
use crate::sql::write::group::SmallInsert;
use crate::sql::write::{Write, row_count_answer, with_table_names};
use crate::store::{Table, TableWriter};

impl Session {
    /// Whether a statement's rows are collected before its table is locked.
    pub(super) fn gathers(&self, write: &Write) -> bool {
        let is_insert = write.create.is_none() && write.rows.is_some();
        is_insert
            && write.base.as_ref().is_some_and(Base::reads_nothing)
            && (write.has_values || self.tables.is_fed())
    }

    /// Runs an INSERT whose rows are collected. `None` if the table has changed since it was
    /// planned: it is to be planned once more.
    pub(super) fn gather(
        &self,
        write: Write,
        run: &Run,
        wait: &LockWait,
    ) -> Result<Option<BatchStream>> {
        let Write { table, base: Some(base), columns, rows: Some(plan), .. } = write else {
            return Err(Error::Unsupported("an INSERT without rows".into()));
        };
        let pins = self.tables.pins();
        self.release(&table);
        let store = self.tables.store().ok_or_else(no_store)?;
        let table = store.clone().with_wait(wait.clone()).table(&table)?;
        let rows = self.answer(plan, pins, run)?;
        let rows = rows.map(|batch| with_table_names(&batch?, &columns));
        let Some(stored) = self.store_rows(&table, &columns, rows, |it| base.holds(it))? else {
            return match self.tables.is_fed() {
                // They cannot be read twice.
                true => Err(changed(&table)),
                false => Ok(None),
            };
        };
        // The answer about committed rows is delivered even if the session has been cancelled.
        let answer = self.start(row_count_answer(stored)?, &Canceller::default(), run)?;
        Ok(Some(answer.of_committed()))
    }

    /// Stores rows in one commit, perhaps with those of other sessions; returns how many. They have
    /// all columns of the table, `schema`, in its types. `None` if the table is not what they were
    /// made for any more, which `holds` tells.
    pub(super) fn store_rows(
        &self,
        table: &Table,
        schema: &Schema,
        mut rows: impl Iterator<Item = Result<RecordBatch>>,
        holds: impl Fn(&TableWriter) -> bool,
    ) -> Result<Option<u64>> {
        let pool = &self.context.runtime_env().memory_pool;
        let memory = MemoryConsumer::new("Insert").register(pool);
        let mut first = SmallInsert::new(schema.clone());
        let mut is_all = true;
        while is_all && let Some(batch) = rows.next() {
            first.push(batch?);
            is_all = !first.is_large() && memory.try_resize(first.bytes).is_ok();
        }
        if is_all {
            // The statement reads no table any more.
            drop(rows);
            if first.rows == 0 {
                return Ok(Some(0));
            }
            if self.store_with_others(table, first.clone())? {
                return Ok(Some(first.rows as u64));
            }
            drop(memory);
            return self.store_alone(table, first, std::iter::empty(), holds);
        }
        drop(memory);
        self.store_alone(table, first, rows, holds)
    }

    fn store_with_others(&self, table: &Table, insert: SmallInsert) -> Result<bool> {
        let load = |writer: TableWriter, batches: Vec<RecordBatch>| {
            let (options, _memory) = self.load_options()?;
            // The rows of others do not end with this session's statement.
            let compile = Some(Arc::new(SqlExpressions::default()) as _);
            let arrange = Arrange { compile, ..options.arrange };
            let options = LoadOptions { arrange, ..options };
            load_batches(writer, together(batches).into_iter().map(Ok), &options).map(drop)
        };
        let wait = table.wait();
        self.groups.store(table.name(), insert, wait, || table.writer(None), load)
    }

    fn store_alone(
        &self,
        table: &Table,
        first: SmallInsert,
        rest: impl Iterator<Item = Result<RecordBatch>>,
        holds: impl Fn(&TableWriter) -> bool,
    ) -> Result<Option<u64>> {
        let writer = table.writer(None)?;
        if !holds(&writer) {
            return Ok(None);
        }
        let (options, _memory) = self.load_options()?;
        let options = LoadOptions { cancelled: self.own.canceller.flag(), ..options };
        let rows = first.batches.into_iter().map(Ok).chain(rest);
        Ok(Some(load_batches(writer, rows, &options)?.rows_stored))
    }
}

/// The error for rows that are gone, and a table that is not what they were made for.
pub(super) fn changed(table: &Table) -> Error {
    Error::InvalidInput(format!(
        "the columns of table '{}' have changed meanwhile; try again",
        table.name()
    ))
}

/// The same rows in one batch, if they have the same types.
fn together(batches: Vec<RecordBatch>) -> Vec<RecordBatch> {
    let Some(schema) = batches.first().map(RecordBatch::schema) else { return batches };
    if batches.iter().any(|batch| *batch.schema_ref() != schema) {
        return batches;
    }
    match arrow_select::concat::concat_batches(&schema, &batches) {
        Ok(one) => vec![one],
        Err(_) => batches,
    }
}
