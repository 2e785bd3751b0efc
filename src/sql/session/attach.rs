//! ATTACH, DETACH, USE, SHOW DATABASES and SHOW TABLES: the other stores of a session.
//!
//! Where this stands on the road of a query: before planning. An attached store is a schema of the
//! session (`names/attached`) until it is detached. After USE, it is that of names without a
//! schema; views and external tables, which are the session's own, come before it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, StringArray};
use datafusion::catalog::information_schema::INFORMATION_SCHEMA;
use datafusion::catalog::memory::MemorySourceConfig;
use datafusion::common::TableReference;
use datafusion::execution::SessionState;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    AttachDuckDBDatabaseOption, Ident, ObjectName, Statement as SqlStatement, Use,
};

use crate::disk::real::look_up;
use crate::error::{ArrowResult, Error, IoResult, Result};
use crate::sql::names::catalog::files_refused;
use crate::sql::names::{CATALOG, SCHEMA};
use crate::sql::session::decoded;
use crate::sql::session::planned::Planned;
use crate::sql::session::statement::StatementPlanner;
use crate::sql::syntax::{folded, show, sql_of, used_schema};
use crate::sql::write::empty_answer;
use crate::store::Store;
use crate::store::outside::enclosing_table;

impl StatementPlanner<'_> {
    /// Does what a statement about attached stores says; `None` for others.
    pub(super) fn attachment(
        &self,
        statement: &Statement,
        state: &SessionState,
    ) -> Result<Option<Planned>> {
        let Statement::Statement(statement) = statement else { return Ok(None) };
        match statement.as_ref() {
            SqlStatement::AttachDuckDBDatabase {
                if_not_exists,
                database_path,
                database_alias,
                attach_options,
                ..
            } => {
                attach_options.iter().try_for_each(check_option)?;
                let path = &database_path.value;
                if self.tables.refuses_files() {
                    return Err(files_refused(&format!("ATTACH '{path}'")));
                }
                let name = match database_alias {
                    Some(alias) => alias.value.to_lowercase(),
                    None => name_of(Path::new(path))?,
                };
                self.attach(path, &name, *if_not_exists, state)?;
            }
            SqlStatement::DetachDuckDBDatabase { if_exists, database_alias, .. } => {
                let name = database_alias.value.as_str();
                if self.tables.used().is_some_and(|used| used == name.to_lowercase()) {
                    return Err(Error::InvalidInput(format!(
                        "{name} is in use, and cannot be detached; USE {SCHEMA} leaves it"
                    )));
                }
                if !self.tables.detach(name) && !if_exists {
                    return Err(self.tables.not_attached(name));
                }
            }
            SqlStatement::Use(Use::Object(name)) => self.use_schema(name)?,
            SqlStatement::ShowDatabases { .. } => return self.databases().map(Some),
            _ => return Ok(None),
        }
        Ok(Some(Planned::Answer(empty_answer())))
    }

    /// From now on, looks up names without a schema in this one.
    fn use_schema(&self, name: &ObjectName) -> Result<()> {
        let parts = name.0.iter().map(|part| part.as_ident().map(folded));
        let parts: Vec<String> = parts.map(Option::unwrap_or_default).collect();
        let schema = match parts.as_slice() {
            [schema] => schema.to_lowercase(),
            [catalog, schema] if catalog == CATALOG => schema.to_lowercase(),
            _ => {
                return Err(Error::InvalidInput(format!(
                    "USE takes the name of an attached store, or {SCHEMA}, and not {name}"
                )));
            }
        };
        match schema == SCHEMA || self.tables.attached_as(&schema).is_some() {
            true => self.tables.set_used((schema != SCHEMA).then_some(schema)),
            false => return Err(self.tables.not_attached(&schema)),
        }
        Ok(())
    }

    /// The statement with the schema that is in use before the names of tables; `None` if that is
    /// the session's own.
    pub(super) fn in_used_schema(&self, statement: &Statement) -> Result<Option<Statement>> {
        let Some(used) = self.tables.used() else { return Ok(None) };
        let mut statement = statement.clone();
        let Some(sql) = sql_of(&mut statement) else { return Ok(None) };
        let target = used_schema::target(sql).filter(|it| !self.tables.in_session(it));
        let of_session =
            self.view.is_some_and(|view| view.temporary || self.tables.store().is_none())
                || matches!(sql, SqlStatement::CreateTable(create) if create.temporary);
        if let Some(target) = target.filter(|_| !of_session) {
            self.own_name(&TableReference::partial(used.as_str(), target))?;
        }
        let is_there = |name: &str| {
            if self.tables.in_session(name) {
                return Ok(false);
            }
            self.is_in(&used, name)
        };
        used_schema::qualify(sql, &used, None, &is_there)?;
        Ok(Some(statement))
    }

    /// Whether a name without a schema means a table or view of an attached store. An error if it
    /// would mean one of the session's own, which has to be named by its schema.
    pub(super) fn is_in(&self, schema: &str, name: &str) -> Result<bool> {
        let is_there = self.tables.has_attached(schema, name)?;
        let is_own = !is_there
            && (self.tables.stored_name(name)?.is_some()
                || self.tables.stored_view_name(name)?.is_some());
        if is_own { Err(self.tables.missing(name)) } else { Ok(is_there) }
    }

    /// The query that a SHOW TABLES stands for.
    pub(super) fn shown_tables(&self, statement: &Statement) -> Result<Option<Box<Statement>>> {
        let Statement::Statement(statement) = statement else { return Ok(None) };
        let SqlStatement::ShowTables { show_options, .. } = statement.as_ref() else {
            return Ok(None);
        };
        let named = show::schema(show_options);
        let views_of = named.is_none().then_some(SCHEMA);
        let schema = named.or_else(|| self.tables.used()).unwrap_or_else(|| SCHEMA.to_owned());
        let is_known = [SCHEMA, INFORMATION_SCHEMA].contains(&schema.as_str());
        if !is_known && self.tables.attached_as(&schema).is_none() {
            return Err(self.tables.not_attached(&schema));
        }
        let query = show::tables(show_options, &schema, views_of);
        Ok(query.map(|query| Box::new(Statement::Statement(Box::new(query)))))
    }

    fn attach(
        &self,
        path: &str,
        name: &str,
        if_not_exists: bool,
        state: &SessionState,
    ) -> Result<()> {
        if name.is_empty() || [SCHEMA, CATALOG, INFORMATION_SCHEMA].contains(&name) {
            return Err(Error::InvalidInput(format!(
                "no store can be attached as '{name}'; ATTACH '{path}' AS other names it"
            )));
        }
        if let Some(known) = self.tables.attached_as(name) {
            return match if_not_exists {
                true => Ok(()),
                false => Err(Error::InvalidInput(format!(
                    "'{}' is attached as {name} already; DETACH {name}, or ATTACH … AS another name",
                    known.store().path().display()
                ))),
            };
        }
        let store = Store::open(existing(path)?);
        if store.tables()?.is_empty() {
            return Err(Error::NotFound(format!(
                "'{path}' is no store: there are no tables in it"
            )));
        }
        if let Some(io) = self.tables.io {
            store.set_io(io);
        }
        let pool = &state.runtime_env().memory_pool;
        let limit = match pool.memory_limit() {
            MemoryLimit::Finite(bytes) => bytes as u64,
            MemoryLimit::Infinite | MemoryLimit::Unknown => u64::MAX,
        };
        decoded::count(&store, limit, pool);
        self.tables.attach(name, store);
        Ok(())
    }

    /// The stores of the session, with their directories.
    fn databases(&self) -> Result<Planned> {
        let own = self.tables.store().map(|store| store.path().display().to_string());
        let attached = self.tables.attached();
        let names = attached.iter().map(|(name, _)| name.as_str());
        let paths = attached.iter().map(|(_, stored)| stored.store().path().display().to_string());
        let used = self.tables.used();
        let in_use = std::iter::once(used.is_none())
            .chain(attached.iter().map(|(name, _)| used.as_ref() == Some(name)));
        let columns: [(&str, ArrayRef); 3] = [
            (
                "database_name",
                Arc::new(StringArray::from_iter_values(std::iter::once(SCHEMA).chain(names))),
            ),
            (
                "path",
                Arc::new(std::iter::once(own).chain(paths.map(Some)).collect::<StringArray>()),
            ),
            ("in_use", Arc::new(BooleanArray::from(in_use.collect::<Vec<bool>>()))),
        ];
        let batch = RecordBatch::try_from_iter(columns).or_invalid()?;
        let schema = batch.schema();
        Ok(Planned::Answer(MemorySourceConfig::try_new_exec(&[vec![batch]], schema, None)?))
    }
}

/// Attached stores are read, and are stores of ours.
fn check_option(option: &AttachDuckDBDatabaseOption) -> Result<()> {
    match option {
        AttachDuckDBDatabaseOption::ReadOnly(None | Some(true)) => Ok(()),
        AttachDuckDBDatabaseOption::ReadOnly(Some(false)) => Err(Error::Unsupported(
            "attached stores are only read; leave out READ_ONLY false, and write with `sty query` on \
             the store itself"
                .into(),
        )),
        AttachDuckDBDatabaseOption::Type(Ident { value, .. }) => Err(Error::Unsupported(format!(
            "ATTACH takes stores of sty, without a TYPE, and nothing of type {value}"
        ))),
    }
}

/// The name under which a store is attached if the statement says none.
fn name_of(path: &Path) -> Result<String> {
    let whole = std::path::absolute(path).with_path(path)?;
    let name = whole.file_stem().map(|name| name.to_string_lossy().to_lowercase());
    name.ok_or_else(|| {
        let path = path.display();
        Error::InvalidInput(format!("'{path}' says no name: ATTACH '{path}' AS name"))
    })
}

/// The directory of a store, which is there.
fn existing(path: &str) -> Result<PathBuf> {
    let path = Path::new(path);
    let shown = path.display();
    match look_up(path)? {
        None => Err(Error::NotFound(format!("there is no store at '{shown}'"))),
        Some(found) if !found.is_dir() => Err(Error::InvalidInput(format!(
            "'{shown}' is a file, and a store is a directory; a file is named in a FROM: FROM \
             '{shown}'"
        ))),
        Some(_) => match enclosing_table(path)? {
            Some(table) => Err(Error::InvalidInput(format!(
                "'{shown}' is a table or in one; ATTACH takes its store: ATTACH '{}' AS name",
                table.parent().unwrap_or(Path::new(".")).display()
            ))),
            None => Ok(path.to_owned()),
        },
    }
}
