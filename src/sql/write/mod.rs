//! Statements that write to the store: CREATE TABLE, CREATE TABLE … AS, INSERT.
//!
//! Where this stands on the road of a query, and of a byte: DataFusion plans the query that gives
//! the rows. They come out of that plan batch by batch, in its order, as any answer does, then take
//! the road of an ingest (`ingest::load`), and one commit makes all of them visible. Small inserts
//! of several sessions share a commit (`group`). A statement that fails has stored nothing.

pub(in crate::sql) mod assignments;
pub(in crate::sql) mod base;
pub(in crate::sql) mod group;
pub(in crate::sql) mod joined;
pub(in crate::sql) mod joining;
pub(in crate::sql) mod matched;
pub(in crate::sql) mod matches;
pub(in crate::sql) mod modify;
pub(in crate::sql) mod row_answers;
pub(in crate::sql) mod subqueries;
pub(in crate::sql) mod value_set;

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, UInt64Array};
use arrow_schema::{Field, Schema as ArrowSchema, SchemaRef};
use datafusion::catalog::memory::MemorySourceConfig;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    ColumnDef, ColumnOption, CreateTable, Statement as SqlStatement,
};

use crate::error::{ArrowResult, Error, Result};
use crate::ingest::assign::assign;
use crate::ingest::load::{LoadOptions, load_batches};
use crate::maintain::{abandon, replace_table, replacement, restore_replaced};
use crate::model::{Column, DataType, Schema};
use crate::sql::convert::type_name;
use crate::sql::write::base::Base;
use crate::store::writer::missing_value;
use crate::store::{Store, Table, TableOptions, TableWriter, exists};

/// A statement that stores rows in a table.
#[derive(Debug)]
pub(in crate::sql) struct Write {
    /// The table's name in the store.
    pub(in crate::sql) table: String,
    /// How the table is created, if it is.
    pub(in crate::sql) create: Option<Create>,
    /// What it was planned on, of a table that was there.
    pub(in crate::sql) base: Option<Base>,
    /// The columns of the rows, in order, with their names in the table.
    pub(in crate::sql) columns: Schema,
    /// The plan that gives the rows; `None` for a table without any.
    pub(in crate::sql) rows: Option<Arc<dyn ExecutionPlan>>,
    /// Whether the rows are VALUES.
    pub(in crate::sql) has_values: bool,
}

/// How a table is created.
#[derive(Clone, Copy, Debug)]
pub(in crate::sql) struct Create {
    /// A table that exists is left as it is.
    pub(in crate::sql) if_not_exists: bool,
    /// A table that exists goes once the new one is complete.
    pub(in crate::sql) replaces: bool,
}

impl Write {
    /// Runs the statement. `held` is the writer of the table that was there, `start` runs the plan
    /// of the rows. Returns the plan of the statement's answer.
    pub(in crate::sql) fn run<I: Iterator<Item = Result<RecordBatch>>>(
        self,
        store: &Store,
        held: Option<TableWriter>,
        options: &LoadOptions,
        start: impl FnOnce(Arc<dyn ExecutionPlan>) -> Result<I>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let new_store = !store.exists()?;
        let create = self.create;
        let written = self.write(store, held, options, start);
        if written.is_err() && new_store {
            store.remove_empty();
        }
        let rows = written?;
        if create.is_some() { Ok(empty_answer()) } else { row_count_answer(rows) }
    }

    fn write<I: Iterator<Item = Result<RecordBatch>>>(
        self,
        store: &Store,
        held: Option<TableWriter>,
        options: &LoadOptions,
        start: impl FnOnce(Arc<dyn ExecutionPlan>) -> Result<I>,
    ) -> Result<u64> {
        if self.create.is_some() {
            restore_replaced(store)?;
        }
        let table = match self.create {
            Some(Create { replaces: true, .. }) if store.has_table(&self.table)? => {
                let old = store.table(&self.table)?;
                let writer = held.map_or_else(|| old.writer(None), Ok)?;
                let new = replacement(store, &old);
                let create = Some(Create { if_not_exists: false, replaces: false });
                let stored = Write { create, ..self }.write_to(&new, None, options, start);
                let replaced = stored.and_then(|_| replace_table(store, &old, writer, &new));
                return replaced.map(|()| 0).inspect_err(|_| abandon(&new));
            }
            _ => store.table(&self.table)?,
        };
        self.write_to(&table, held, options, start)
    }

    fn write_to<I: Iterator<Item = Result<RecordBatch>>>(
        self,
        table: &Table,
        held: Option<TableWriter>,
        options: &LoadOptions,
        start: impl FnOnce(Arc<dyn ExecutionPlan>) -> Result<I>,
    ) -> Result<u64> {
        let created = self.create.map(|_| (self.columns.clone(), TableOptions::default()));
        let writer = held.map_or_else(|| table.writer(created), Ok)?;
        match self.create {
            // Another process has created the table in the meantime.
            Some(create) if !writer.is_new() => {
                return already_exists(&self.table, create).map(|()| 0);
            }
            _ => {}
        }
        self.store(writer, options, start)
    }

    /// Stores the rows in the table of a writer; returns how many.
    pub(in crate::sql) fn store<I: Iterator<Item = Result<RecordBatch>>>(
        self,
        mut writer: TableWriter,
        options: &LoadOptions,
        start: impl FnOnce(Arc<dyn ExecutionPlan>) -> Result<I>,
    ) -> Result<u64> {
        match self.rows {
            Some(plan) => append(writer, start(plan)?, &self.columns, options),
            None => writer.commit(self.columns, Vec::new()).map(|_| 0),
        }
    }
}

/// The outcome if a table to be created exists.
pub(in crate::sql) fn already_exists(name: &str, create: Create) -> Result<()> {
    if create.if_not_exists {
        return Ok(());
    }
    Err(exists(name))
}

/// Adds the rows of `batches`, whose columns are `columns` by position.
fn append(
    writer: TableWriter,
    batches: impl Iterator<Item = Result<RecordBatch>>,
    columns: &Schema,
    options: &LoadOptions,
) -> Result<u64> {
    let named = batches.map(|batch| with_table_names(&batch?, columns));
    let rows = load_batches(writer, named, options)?.rows_stored;
    Ok(rows)
}

/// The batch with the names of the table's columns, and its values in the table's types.
pub(in crate::sql) fn with_table_names(
    batch: &RecordBatch,
    columns: &Schema,
) -> Result<RecordBatch> {
    let mut fields = Vec::with_capacity(batch.num_columns());
    let mut arrays = Vec::with_capacity(batch.num_columns());
    for (column, array) in columns.columns().iter().zip(batch.columns()) {
        let array = assign(column, array)?;
        // The commit checks this too, but only after all rows are written.
        if !column.nullable && array.logical_null_count() > 0 {
            return Err(missing_value(&column.name));
        }
        let field = Field::new(&*column.name, array.data_type().clone(), true);
        fields.push(column.data_type.marked(field));
        arrays.push(array);
    }
    RecordBatch::try_new(Arc::new(ArrowSchema::new(fields)), arrays).or_invalid()
}

/// The same batch, in the types that queries of the table see.
pub(in crate::sql) fn in_memory(batch: &RecordBatch, columns: &Schema) -> Result<RecordBatch> {
    let batch = with_table_names(batch, columns)?;
    let cast = |(column, array): (&Column, &ArrayRef)| {
        arrow_cast::cast(array, &column.data_type.to_arrow()).or_invalid()
    };
    let arrays = columns.columns().iter().zip(batch.columns()).map(cast);
    RecordBatch::try_new(columns.to_arrow(), arrays.collect::<Result<_>>()?).or_invalid()
}

/// The columns of a new table, from those of a plan; `required` says by position which are NOT
/// NULL.
pub(in crate::sql) fn table_columns(arrow: &ArrowSchema, required: &[bool]) -> Result<Schema> {
    let mut columns = Vec::with_capacity(arrow.fields().len());
    for field in arrow.fields() {
        let name = field.name().as_str();
        match DataType::from_field(field) {
            Some(DataType::Null) => {
                return Err(Error::InvalidInput(format!(
                    "column '{name}' has no type, because all its values are NULL; give it one, \
                     as in NULL::bigint"
                )));
            }
            Some(data_type) => columns.push((name, data_type)),
            None => {
                return Err(Error::Unsupported(format!(
                    "column '{name}' has type {}, which a table cannot hold yet",
                    type_name(field.data_type())
                )));
            }
        }
    }
    if columns.is_empty() {
        return Err(Error::InvalidInput("a table has at least one column".into()));
    }
    let mut schema = Schema::from_names(columns)?;
    for (position, _) in required.iter().enumerate().filter(|(_, required)| **required) {
        schema.require(position);
    }
    Ok(schema)
}

/// Which columns of a CREATE TABLE are NOT NULL, by position.
pub(in crate::sql) fn required_columns(statement: &CreateTable) -> Vec<bool> {
    let is_required = |column: &ColumnDef| {
        column.options.iter().any(|option| matches!(option.option, ColumnOption::NotNull))
    };
    statement.columns.iter().map(is_required).collect()
}

/// The CREATE TABLE, if a statement is one.
pub(in crate::sql) fn create_table(statement: &Statement) -> Option<&CreateTable> {
    match statement {
        Statement::Statement(statement) => match statement.as_ref() {
            SqlStatement::CreateTable(create) => Some(create),
            _ => None,
        },
        _ => None,
    }
}

/// The empty answer of a statement that gives no rows.
pub(in crate::sql) fn empty_answer() -> Arc<dyn ExecutionPlan> {
    Arc::new(EmptyExec::new(Arc::new(ArrowSchema::empty())))
}

/// The number of rows that were added or changed, under DataFusion's name for such an answer.
pub(in crate::sql) fn row_count_answer(rows: u64) -> Result<Arc<dyn ExecutionPlan>> {
    let counts: ArrayRef = Arc::new(UInt64Array::from(vec![rows]));
    let schema: SchemaRef =
        Arc::new(ArrowSchema::new(vec![Field::new("count", counts.data_type().clone(), false)]));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![counts]).or_invalid()?;
    let source = MemorySourceConfig::try_new_exec(&[vec![batch]], schema, None)?;
    Ok(source)
}
