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
use datafusion::sql::sqlparser::ast::{
    CreateTable, Ident, ObjectName, ObjectType, Statement as SqlStatement, TableObject,
};

use crate::error::{Error, Result};
use crate::sql::convert::listed;
use crate::sql::names::{CATALOG, SCHEMA};
use crate::sql::run::provider::StoreProvider;
use crate::sql::session::planned::{Dropped, Planned};
use crate::sql::session::refused::refuse;
use crate::sql::session::statement::StatementPlanner;
use crate::sql::syntax::named_tables::NamedTable;
use crate::sql::syntax::show::parsed;
use crate::sql::syntax::{folded, sql_in, sql_of};
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
        let temporary = parsed.is_some_and(|parsed| parsed.temporary);
        if temporary {
            self.check_temporary(name, parsed, in_cluster)?;
        }
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
        let is_replaced = replaces && (!temporary || !self.tables.is_view(name));
        if (self.tables.in_session(name) && !(temporary && is_replaced))
            || (is_stored && (temporary || !replaces))
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
        let write = Box::new(Write {
            table: name.to_owned(),
            create: Some(how),
            base,
            columns,
            rows,
            has_values: false,
        });
        Ok(if temporary { Planned::KeepRows(write) } else { Planned::Write(write) })
    }

    /// Refuses temporary tables that would not be what they are meant for.
    fn check_temporary(
        &self,
        name: &str,
        parsed: Option<&CreateTable>,
        in_cluster: bool,
    ) -> Result<()> {
        if in_cluster {
            return refuse(
                "CREATE TEMP TABLE over a cluster",
                "CREATE TEMP VIEW gives a query a name",
            );
        }
        if parsed.is_none_or(|parsed| parsed.query.is_none()) {
            return refuse(
                &format!("CREATE TEMP TABLE {name} without a query: no rows could be added to it"),
                &format!("CREATE TEMP TABLE {name} AS SELECT … makes one with its rows"),
            );
        }
        Ok(())
    }

    /// The columns that a CREATE TABLE declares, without its query.
    async fn declared(&self, parsed: &CreateTable) -> Result<ArrowSchema> {
        let alone = SqlStatement::CreateTable(CreateTable {
            query: None,
            temporary: false,
            ..parsed.clone()
        });
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
                return refuse(
                    "MERGE is not supported",
                    "UPDATE … FROM, DELETE … USING and INSERT INTO … SELECT … WHERE NOT EXISTS do \
                     the same",
                );
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
                "{name} is not a table of the store: no rows can be added to it{}",
                match self.tables.in_session(name) && !self.tables.is_view(name) {
                    true => "; CREATE OR REPLACE TEMP TABLE … AS SELECT makes a temporary one anew",
                    false => "",
                }
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

    /// `INSERT INTO t DEFAULT VALUES` as a row of null, because no column has a default.
    pub(super) async fn with_default_row(
        &self,
        changed: Option<Statement>,
        statement: &Statement,
    ) -> Result<Option<Statement>> {
        let Some(SqlStatement::Insert(insert)) = sql_in(changed.as_ref().unwrap_or(statement))
        else {
            return Ok(changed);
        };
        let is_default = insert.source.is_none()
            && insert.columns.is_empty()
            && insert.assignments.is_empty()
            && insert.format_clause.is_none();
        let TableObject::TableName(name) = &insert.table else { return Ok(changed) };
        let Some(named) = NamedTable::new(name, None).filter(|_| is_default) else {
            return Ok(changed);
        };
        let Some(table) = self.tables.find_in(named.schema.as_deref(), &named.table).await? else {
            return Err(self.tables.missing(&named.table));
        };
        let schema = table.schema();
        let first = schema.fields().first().map(|field| Ident::with_quote('"', field.name()));
        let Some(SqlStatement::Query(row)) = parsed("VALUES (NULL)") else { return Ok(changed) };
        let mut next = changed.unwrap_or_else(|| statement.clone());
        if let Some(SqlStatement::Insert(insert)) = sql_of(&mut next) {
            insert.columns = first.into_iter().map(ObjectName::from).collect();
            insert.source = Some(row);
        }
        Ok(Some(next))
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

    /// What a DROP of several tables or views does, which are all there unless it says IF EXISTS;
    /// `None` for other statements.
    pub(super) fn drop_several(&self, statement: &Statement) -> Result<Option<Planned>> {
        let Statement::Statement(sql) = statement else { return Ok(None) };
        let SqlStatement::Drop { object_type, if_exists, names, .. } = sql.as_ref() else {
            return Ok(None);
        };
        let views = match object_type {
            ObjectType::Table => false,
            ObjectType::View => true,
            _ => return Ok(None),
        };
        if names.len() < 2 {
            return Ok(None);
        }
        if self.tables.has_cluster() {
            let what = "DROP of several tables or views over a cluster";
            return refuse(what, "drop one after the other");
        }
        let mut dropped: Vec<Dropped> = Vec::with_capacity(names.len());
        for name in names {
            let parts = name.0.iter().map(|part| part.as_ident().map(folded).unwrap_or_default());
            let name = match parts.collect::<Vec<_>>().as_slice() {
                [table] => TableReference::bare(table.as_str()),
                [schema, table] => TableReference::partial(schema.as_str(), table.as_str()),
                [catalog, schema, table] => {
                    TableReference::full(catalog.as_str(), schema.as_str(), table.as_str())
                }
                _ => return Err(Error::InvalidInput(format!("{name} is no name of a table"))),
            };
            let name = self.own_name(&name)?;
            let found = match views {
                true => self.view_to_drop(name)?,
                false => self.table_to_drop(name)?,
            };
            match found {
                Some(found) if dropped.contains(&found) => {}
                Some(found) => dropped.push(found),
                None if *if_exists => {}
                None if views => return Err(Error::NotFound(format!("no view {name}"))),
                None => return Err(self.tables.missing(name)),
            }
        }
        Ok(Some(Planned::DropAll(dropped)))
    }

    fn table_to_drop(&self, name: &str) -> Result<Option<Dropped>> {
        if self.tables.means_view(name)? {
            return refuse(&format!("{name} is a view, not a table"), &format!("DROP VIEW {name}"));
        }
        if self.tables.in_session(name) {
            return Ok(Some(Dropped::OfSession(name.to_owned())));
        }
        Ok(self.tables.stored_name(name)?.map(Dropped::Table))
    }

    fn view_to_drop(&self, name: &str) -> Result<Option<Dropped>> {
        if self.tables.is_view(name) {
            return Ok(Some(Dropped::OfSession(name.to_owned())));
        }
        if self.tables.in_session(name) || self.tables.stored_name(name)?.is_some() {
            let what = format!("{name} is a table, not a view");
            return refuse(&what, &format!("DROP TABLE {name}"));
        }
        Ok(self.tables.stored_view_name(name)?.map(Dropped::View))
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
