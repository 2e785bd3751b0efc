//! Rows that a program has in its hands, for a table of the store: INSERT without its SQL.

use std::cell::Cell;
use std::sync::Arc;

use arrow_array::{Array as _, RecordBatch};
use arrow_schema::{Field, Schema as ArrowSchema};

use super::Session;
use super::gather::changed;
use crate::block::null_array;
use crate::error::{ArrowResult as _, Error, Result};
use crate::ingest::load::LoadOptions;
use crate::ingest::sources::Input;
use crate::model::Schema;
use crate::sql::names::SCHEMA;
use crate::sql::write::{Create, Write, empty_answer, table_columns, with_table_names};
use crate::store::writer::missing_value;
use crate::store::{Table, check_name, exists};

impl Session {
    /// The name and the columns of the table that a name means, of the store or of the cluster, for
    /// a program that adds rows to it, if the session may. Nothing of it is open in the session
    /// afterwards.
    pub fn columns_to_write(&self, name: &str) -> Result<(String, Schema)> {
        #[cfg(feature = "cluster")]
        if self.tables.has_cluster() {
            return self.columns_in_cluster(name);
        }
        let table = self.table_to_write(name)?;
        let schema = table.snapshot()?.schema().clone();
        Ok((table.name().to_owned(), schema))
    }

    /// The table of the store that a name means, for a program that writes to it, if the session
    /// may. Nothing of it is open in the session afterwards.
    pub fn table_to_write(&self, name: &str) -> Result<Table> {
        if self.tables.has_cluster() {
            let what =
                format!("{name}: the tables of a session over a cluster are of no one store");
            return Err(Error::InvalidInput(what));
        }
        if self.refuses_writes() {
            return Err(Error::InvalidInput(
                "this session is read-only: nothing is written".into(),
            ));
        }
        if let Some(used) = self.tables.used() {
            return Err(Error::InvalidInput(format!(
                "{used}.{name}: {used} is attached to be read; USE {SCHEMA} before rows are inserted"
            )));
        }
        let store = self.tables.store();
        let known = self.tables.stored_name(name)?.filter(|_| !self.tables.in_session(name));
        let (Some(store), Some(name)) = (store, known) else {
            return Err(self.tables.missing(name));
        };
        self.release(&name);
        store.clone().with_wait(self.lock_wait()).table(&name)
    }

    /// From now on, a name means these rows in the session, as that of an external table does.
    pub fn add_table(&self, name: &str, rows: RecordBatch) -> Result<()> {
        self.context.register_batch(name, rows)?;
        Ok(())
    }

    /// Leaves such a table out of what lists the names of tables, as errors and SHOW TABLES do.
    #[doc(hidden)]
    pub fn hide_table(&self, name: &str) {
        self.tables.hide(name);
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
    /// Few rows are stored together with those that other sessions of the engine add meanwhile.
    ///
    /// `columns` are those of the batches by position, or all of the table if there are none. Their
    /// values become those of the table's types as in an INSERT; a column that is not among them is
    /// null.
    pub fn insert(
        &self,
        table: &str,
        columns: &[String],
        batches: impl Iterator<Item = Result<RecordBatch>>,
    ) -> Result<u64> {
        self.memory_used.begin();
        #[cfg(feature = "cluster")]
        if self.tables.has_cluster() {
            let (table, schema) = self.columns_in_cluster(table)?;
            let filled = filled(&schema, columns, &table)?;
            let named = batches.map(|batch| whole_rows(batch?, &filled, &schema));
            return self.rows_over_cluster(&table, &schema, false, named);
        }
        let table = self.table_to_write(table)?;
        let schema = table.snapshot()?.schema().clone();
        let filled = filled(&schema, columns, table.name())?;
        let named = batches.map(|batch| whole_rows(batch?, &filled, &schema));
        let stored = self.store_rows(&table, &schema, named, |it| *it.schema() == schema)?;
        stored.ok_or_else(|| changed(&table))
    }

    /// Makes a table with these columns and rows in one commit, which is on disk when this returns;
    /// returns how many rows there are. If rows fail, there is no table, or the one of before. One
    /// of this name is replaced if `replaces` says so, and is an error otherwise.
    pub fn create_table(
        &self,
        name: &str,
        columns: &ArrowSchema,
        replaces: bool,
        batches: impl Iterator<Item = Result<RecordBatch>>,
    ) -> Result<u64> {
        if self.refuses_writes() {
            return Err(Error::InvalidInput(
                "this session is read-only: nothing is written".into(),
            ));
        }
        check_name(name)?;
        if !self.tables.is_visible(name) {
            let what = format!("this session may not make, change or drop {name}");
            return Err(Error::NotFound(what));
        }
        #[cfg(feature = "cluster")]
        if self.tables.has_cluster() {
            if replaces {
                let what = "a table of a cluster is not replaced: drop it, and make it anew";
                return Err(Error::Unsupported(what.into()));
            }
            if self.tables.in_session(name) {
                return Err(exists(name));
            }
            let columns = table_columns(columns, &[])?;
            let named = batches.map(|batch| with_table_names(&batch?, &columns));
            return self.rows_over_cluster(name, &columns, true, named);
        }
        let store = self.tables.store().ok_or_else(|| self.tables.missing(name))?;
        let store = store.clone().with_wait(self.lock_wait());
        let known = self.tables.stored_name(name)?;
        if self.tables.in_session(name) || (known.is_some() && !replaces) {
            return Err(exists(name));
        }
        let table = known.unwrap_or_else(|| name.to_owned());
        self.release(&table);
        let (options, _memory) = self.load_options()?;
        let options = LoadOptions { cancelled: self.own.canceller.flag(), ..options };
        let rows = Cell::new(0);
        let counted = batches.inspect(|batch| {
            rows.set(rows.get() + batch.as_ref().map_or(0, RecordBatch::num_rows) as u64);
        });
        let create = Create { if_not_exists: false, replaces };
        // The plan stands for the rows, and is not run.
        let write = Write {
            table,
            create: Some(create),
            base: None,
            columns: table_columns(columns, &[])?,
            rows: Some(empty_answer()),
            has_values: false,
        };
        write.run(&store, None, &options, |_| Ok(counted))?;
        Ok(rows.get())
    }
}

/// Rows of the columns that are `filled`, with all columns of their table.
fn whole_rows(batch: RecordBatch, filled: &Schema, schema: &Schema) -> Result<RecordBatch> {
    if batch.num_columns() != filled.columns().len() {
        return Err(Error::InvalidInput(format!(
            "the rows have {} columns, and {} are to be filled",
            batch.num_columns(),
            filled.columns().len()
        )));
    }
    with_all_columns(with_table_names(&batch, filled)?, schema)
}

/// The same rows, with nulls in columns of the table that they lack.
fn with_all_columns(batch: RecordBatch, schema: &Schema) -> Result<RecordBatch> {
    let (mut fields, mut arrays) = (Vec::new(), Vec::new());
    for column in schema.columns() {
        let array = match batch.column_by_name(&column.name) {
            Some(array) => Arc::clone(array),
            None if column.nullable || batch.num_rows() == 0 => {
                null_array(batch.num_rows(), &column.data_type)
            }
            None => return Err(missing_value(&column.name)),
        };
        fields.push(Field::new(&*column.name, array.data_type().clone(), true));
        arrays.push(array);
    }
    RecordBatch::try_new(Arc::new(ArrowSchema::new(fields)), arrays).or_invalid()
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
