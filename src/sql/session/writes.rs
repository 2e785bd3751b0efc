//! Statements that create tables, add rows, or drop: from DataFusion's plan to what is
//! written.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{Field, Schema as ArrowSchema};
use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::{DFSchema, TableReference};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{
    CreateMemoryTable, DdlStatement, DmlStatement, Expr, LogicalPlan, Projection, Values, WriteOp,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{CreateTable, Statement as SqlStatement};

use crate::error::{Error, Result};
use crate::sql::convert::listed;
use crate::sql::names::{CATALOG, SCHEMA};
use crate::sql::run::provider::StoreProvider;
use crate::sql::session::planned::Planned;
use crate::sql::session::refused::refuse;
use crate::sql::session::statement::StatementPlanner;
use crate::sql::write::base::{Base, Reads};
use crate::sql::write::{
    Create, Write, already_exists, assignments, create_table, empty_answer, required_columns,
    table_columns,
};
use crate::store::check_name;

impl StatementPlanner<'_> {
    /// The plan that gives the rows to be stored.
    async fn rows(&self, plan: &LogicalPlan) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self.context.state().create_physical_plan(plan).await?)
    }

    pub(super) async fn create(
        &self,
        create: CreateMemoryTable,
        statement: &Statement,
    ) -> Result<Planned> {
        // A statement without a CREATE TABLE is SELECT … INTO.
        let parsed = create_table(statement);
        let required = parsed.map_or_else(Vec::new, required_columns);
        let name = self.own_name(&create.name)?;
        check_name(name)?;
        let replaces = parsed.is_some_and(|parsed| parsed.or_replace);
        if replaces && create.if_not_exists {
            return Err(Error::InvalidInput(
                "a table is replaced (OR REPLACE) or left as it is (IF NOT EXISTS), not both"
                    .into(),
            ));
        }
        let how = Create { if_not_exists: create.if_not_exists, replaces };
        let in_cluster = self.tables.has_cluster();
        if in_cluster && replaces {
            return refuse(
                "CREATE OR REPLACE TABLE over a cluster",
                "DROP TABLE and then CREATE TABLE; rows that are read from the table itself go to \
                 another one first",
            );
        }
        // Its machines are asked when the statement runs.
        let stored = if in_cluster { None } else { self.tables.stored_name(name)? };
        let is_stored = stored.is_some();
        if self.tables.in_session(name)
            || (is_stored && !replaces)
            || (!is_stored && self.tables.stored_view_name(name)?.is_some())
        {
            return already_exists(name, how).map(|()| Planned::Answer(empty_answer()));
        }
        let has_rows = parsed.is_none_or(|parsed| parsed.query.is_some());
        let rows = if has_rows { Some(self.rows(&create.input).await?) } else { None };
        let columns = match (parsed.filter(|parsed| !parsed.columns.is_empty()), &rows) {
            (Some(declared), Some(_)) => table_columns(&self.declared(declared).await?, &required)?,
            (_, Some(rows)) => table_columns(&rows.schema(), &required)?,
            (_, None) => table_columns(create.input.schema().as_arrow(), &required)?,
        };
        let base = match stored.as_deref() == Some(name) {
            true => Some(Base::of_replaced(Reads::of(&create.input, name)?)),
            false => None,
        };
        Ok(Planned::Write(Box::new(Write {
            table: name.to_owned(),
            create: Some(how),
            base,
            columns,
            rows,
            has_values: false,
        })))
    }

    /// The columns that a CREATE TABLE declares, without its query.
    async fn declared(&self, parsed: &CreateTable) -> Result<ArrowSchema> {
        let alone = SqlStatement::CreateTable(CreateTable { query: None, ..parsed.clone() });
        let plan =
            self.context.state().statement_to_plan(Statement::Statement(Box::new(alone))).await;
        match plan? {
            LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)) => {
                Ok(create.input.schema().as_arrow().clone())
            }
            _ => refuse("CREATE TABLE of this form", "name the columns, or the query alone"),
        }
    }

    pub(super) async fn insert(&self, statement: &DmlStatement) -> Result<Planned> {
        let name = statement.table_name.table();
        match statement.op {
            WriteOp::Insert(InsertOp::Append) => {}
            WriteOp::MergeInto(_) => {
                return refuse("MERGE is not supported", "use UPDATE and INSERT INTO … SELECT");
            }
            WriteOp::Truncate => {
                return refuse(
                    "TRUNCATE of this form is not supported",
                    "TRUNCATE t removes all rows",
                );
            }
            _ => {
                return refuse(
                    "INSERT does not replace rows",
                    "INSERT INTO adds some; UPDATE changes them",
                );
            }
        }
        let provider = source_as_provider(&statement.target)?;
        let Some(provider) = provider.downcast_ref::<StoreProvider>() else {
            return Err(Error::InvalidInput(format!(
                "{name} is not a table of the store: no rows can be added to it"
            )));
        };
        let snapshot = provider.table.snapshot();
        if let Some(note) = position_note(&statement.input) {
            self.tables.note(note);
        }
        let rows = assignments::with_exact_values(&statement.input, snapshot.schema())
            .and_then(|rows| with_nulls(&rows));
        let reads = Reads::of(&statement.input, snapshot.table_name())?;
        Ok(Planned::Write(Box::new(Write {
            table: snapshot.table_name().to_owned(),
            create: None,
            base: Some(Base::of(snapshot, reads)),
            columns: snapshot.schema().clone(),
            rows: Some(self.rows(&rows?).await?),
            has_values: assignments::has_values(&statement.input),
        })))
    }

    pub(super) fn drop_stored(&self, name: &str, if_exists: bool) -> Result<Planned> {
        if self.tables.has_cluster() {
            return Ok(Planned::DropInCluster { name: name.to_owned(), if_exists });
        }
        match self.tables.stored_name(name)? {
            Some(stored) => Ok(Planned::Drop(stored)),
            None if if_exists => Ok(Planned::Answer(empty_answer())),
            None => Err(self.tables.missing(name)),
        }
    }

    /// The name of what is made, changed or dropped, which is in the session's own schema.
    pub(super) fn own_name<'n>(&self, name: &'n TableReference) -> Result<&'n str> {
        match name.schema().filter(|schema| *schema != SCHEMA) {
            Some(schema) if let Some(attached) = self.tables.attached_as(schema) => refuse(
                &format!("{name}: {schema} is attached to be read"),
                &format!(
                    "run the statement on its own store: sty query {} '…'",
                    attached.store().path().display()
                ),
            ),
            None if !self.tables.is_visible(name.table()) => Err(Error::NotFound(format!(
                "this session may not make, change or drop {}",
                name.table()
            ))),
            None if name.catalog().is_none_or(|catalog| catalog == CATALOG) => Ok(name.table()),
            _ => Err(Error::InvalidInput(format!("{name}: a store has one schema, {SCHEMA}"))),
        }
    }
}

/// A note if a query has the names of the columns that it fills, but in another order.
fn position_note(rows: &LogicalPlan) -> Option<String> {
    let LogicalPlan::Projection(projection) = rows else { return None };
    let (mut given, mut filled) = (Vec::new(), Vec::new());
    for (expr, field) in projection.expr.iter().zip(projection.schema.fields()) {
        let Expr::Alias(alias) = expr else { return None };
        if let Expr::Column(column) = alias.expr.as_ref() {
            given.push(column.name.as_str());
            filled.push(field.name().as_str());
        }
    }
    let sorted = |names: &[&str]| {
        let mut names = names.to_vec();
        names.sort_unstable();
        names.join(",")
    };
    if given == filled || sorted(&given) != sorted(&filled) {
        return None;
    }
    Some(format!(
        "INSERT goes by position, not by name: {} get the values of {}; INSERT INTO t (columns) \
         SELECT … says the order",
        listed(filled.iter().copied()),
        listed(given.iter().copied()),
    ))
}

/// Declares VALUES of an INSERT nullable: nulls in a column that is not nullable are refused when
/// they are stored, with the column's name.
fn with_nulls(rows: &LogicalPlan) -> Result<LogicalPlan, DataFusionError> {
    let LogicalPlan::Projection(projection) = rows else { return Ok(rows.clone()) };
    let LogicalPlan::Values(values) = projection.input.as_ref() else { return Ok(rows.clone()) };
    let nullable = |field: &Arc<Field>| field.as_ref().clone().with_nullable(true);
    let fields: Vec<Field> = values.schema.fields().iter().map(nullable).collect();
    let schema = Arc::new(DFSchema::from_unqualified_fields(fields.into(), HashMap::new())?);
    let values = LogicalPlan::Values(Values { schema, values: values.values.clone() });
    Projection::try_new(projection.expr.clone(), Arc::new(values)).map(LogicalPlan::Projection)
}
