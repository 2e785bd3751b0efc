//! Rows that a program has in its hands, for a table of the store: INSERT without its SQL.

use arrow_array::RecordBatch;

use super::Session;
use crate::error::{Error, Result};
use crate::ingest::load::{LoadOptions, load_batches};
use crate::ingest::sources::Input;
use crate::model::Schema;
use crate::sql::write::with_table_names;
use crate::store::Table;

impl Session {
    /// The table of the store that a name means, for a program that writes to it, if the session
    /// may. Nothing of it is open in the session afterwards.
    pub fn table_to_write(&self, name: &str) -> Result<Table> {
        if self.refuses_writes() {
            return Err(Error::InvalidInput(
                "this session is read-only: nothing is written".into(),
            ));
        }
        let store = self.tables.store();
        let known = self.tables.stored_name(name)?.filter(|_| !self.tables.in_session(name));
        let (Some(store), Some(name)) = (store, known) else {
            return Err(self.tables.missing(name));
        };
        self.release(&name);
        store.clone().with_wait(self.wait.clone()).table(&name)
    }

    /// From now on, a name means these rows in the session, as that of an external table does.
    pub fn add_table(&self, name: &str, rows: RecordBatch) -> Result<()> {
        self.context.register_batch(name, rows)?;
        Ok(())
    }

    /// Takes back what [`Session::add_table`] has added.
    pub fn remove_table(&self, name: &str) -> Result<()> {
        self.context.deregister_table(name)?;
        Ok(())
    }

    /// The next statement reads this as its standard input (`FROM stdin`, `read_csv('-')`), also
    /// where files are refused; nothing from then on if it is `None`. It can be read once.
    pub fn feed(&self, input: Option<Input>) {
        self.tables.feed(input);
    }

    /// Adds rows to a table in one commit, which is on disk when this returns; returns how many.
    /// `columns` are those of the batches by position, or all of the table if there are none. Their
    /// values become those of the table's types as in an INSERT; a column that is not among them is
    /// null.
    pub fn insert(
        &self,
        table: &str,
        columns: &[String],
        batches: impl Iterator<Item = Result<RecordBatch>>,
    ) -> Result<u64> {
        let table = self.table_to_write(table)?;
        let writer = table.writer(None)?;
        let filled = filled(writer.schema(), columns, table.name())?;
        let (options, _memory) = self.load_options()?;
        let options = LoadOptions { cancelled: self.own.canceller.flag(), ..options };
        let named = batches.map(|batch| {
            let batch = batch?;
            if batch.num_columns() != filled.columns().len() {
                return Err(Error::InvalidInput(format!(
                    "the rows have {} columns, and {} are to be filled",
                    batch.num_columns(),
                    filled.columns().len()
                )));
            }
            with_table_names(&batch, &filled)
        });
        Ok(load_batches(writer, named, &options)?.rows_stored)
    }
}

/// The columns of a table that rows fill, in the order of the rows.
fn filled(schema: &Schema, columns: &[String], table: &str) -> Result<Schema> {
    if columns.is_empty() {
        return Ok(schema.clone());
    }
    let mut filled = Vec::with_capacity(columns.len());
    for name in columns {
        let exact = schema.columns().iter().find(|column| *column.name == **name);
        let mut alike = schema.columns().iter().filter(|it| it.name.eq_ignore_ascii_case(name));
        let found = exact.or_else(|| alike.next().filter(|_| alike.next().is_none()));
        let found = found.ok_or_else(|| {
            Error::InvalidInput(format!("table {table} has no column '{name}' to fill"))
        })?;
        filled.push((&*found.name, found.data_type.clone(), found.nullable));
    }
    let names = filled.iter().map(|(name, data_type, _)| (*name, data_type.clone()));
    let mut chosen = Schema::from_names(names)?;
    for (position, (.., nullable)) in filled.iter().enumerate() {
        if !nullable {
            chosen.require(position);
        }
    }
    Ok(chosen)
}
