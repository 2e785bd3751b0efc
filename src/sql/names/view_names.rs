//! Which names are views: those of the session, and those of stores.
//!
//! A view of the session is planned from the statement as it was understood when it was made
//! (`views`). One of a store is planned from its text, once in each statement that names it, and
//! means the same in every session: settings, temporary views and the store that is in use are left
//! aside.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use datafusion::catalog::TableProvider;
use datafusion::catalog::view::ViewTable;
use datafusion::common::TableReference;
use datafusion::logical_expr::TableType;
use datafusion::sql::parser::Statement;

use crate::error::{Error, Result};
use crate::sql::names::catalog::Tables;
use crate::sql::names::parameters::Parameters;
use crate::sql::names::views::{Definition, MAX_LEVELS, PlanView};
use crate::sql::names::{SCHEMA, lock};

impl Tables {
    /// Remembers what a view was made from.
    pub(crate) fn define(
        &self,
        name: &str,
        statement: Statement,
        parameters: &Parameters,
        names: Vec<TableReference>,
    ) {
        let changes = self.changes.load(Ordering::Relaxed);
        let definition = Definition { statement, parameters: parameters.clone(), names, changes };
        lock(&self.definitions).insert(name.to_owned(), definition);
    }

    /// Refuses a view that would name itself, be it through others.
    pub(crate) fn check_acyclic(&self, view: &str, names: &[TableReference]) -> Result<()> {
        let definitions = lock(&self.definitions);
        let (mut ahead, mut seen) = (names.to_vec(), HashSet::new());
        while let Some(name) = ahead.pop() {
            if name.schema().is_some_and(|schema| schema != SCHEMA) {
                continue;
            }
            let name = name.table();
            if name == view {
                return Err(Error::InvalidInput(format!("view {view} would be made of itself")));
            }
            if let Some(definition) = definitions.get(name).filter(|_| seen.insert(name.to_owned()))
            {
                ahead.extend_from_slice(&definition.names);
            }
        }
        Ok(())
    }

    /// Drops a view, even one that can no longer be planned; `false` if there is none of this name.
    pub(crate) fn drop_view(&self, name: &str) -> bool {
        let is_view = self.is_view(name);
        if is_view {
            self.forget(name);
        }
        is_view
    }

    /// Whether `name` is a view.
    pub(crate) fn is_view(&self, name: &str) -> bool {
        lock(&self.definitions).contains_key(name)
    }

    /// Whether a name means a view, of the session or of its store.
    pub(crate) fn means_view(&self, name: &str) -> Result<bool> {
        Ok(self.is_view(name)
            || !self.in_session(name)
                && self.stored_name(name)?.is_none()
                && self.stored_view_name(name)?.is_some())
    }

    /// The view of the session's own store that a name means, as it is spelled there.
    pub(crate) fn stored_view_name(&self, name: &str) -> Result<Option<String>> {
        self.own.as_ref().map_or(Ok(None), |own| own.spelled_view(name))
    }

    /// Sets how to plan the views of stores.
    pub(crate) fn set_view_planner(&self, plan: PlanView) {
        // Set once, when the session is made; a second time changes nothing.
        let _ = self.view_planner.set(plan);
    }

    /// Whether what is looked up now is a part of a view of a store.
    pub(super) fn plans_view(&self) -> bool {
        !lock(&self.planning).is_empty()
    }

    /// The view that a name means in the session's own store, or in the one that is attached as
    /// `schema`.
    pub(super) async fn stored_view(
        &self,
        schema: Option<&str>,
        name: &str,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        let attached = schema.map(|schema| self.attached_as(schema));
        let stored = match &attached {
            Some(attached) => attached.as_deref(),
            None => self.own.as_ref(),
        };
        let Some(stored) = stored else { return Ok(None) };
        let Some(name) = stored.spelled_view(name)? else { return Ok(None) };
        let Some(text) = stored.store().view(&name)? else { return Ok(None) };
        let in_view = |what| format!("view {name}: {what}");
        match self.planned_view(schema, &name, text).await {
            Ok(view) => Ok(Some(view)),
            Err(Error::NotFound(what)) => Err(Error::NotFound(in_view(what))),
            Err(Error::InvalidInput(what)) => Err(Error::InvalidInput(in_view(what))),
            Err(Error::Unsupported(what)) => Err(Error::Unsupported(in_view(what))),
            Err(error) => Err(error),
        }
    }

    /// Views that the statement in progress has found are planned anew.
    pub(crate) fn forget_found_views(&self) {
        lock(&self.opened).retain(|_, found| found.table_type() != TableType::View);
    }

    /// Plans the text of a view of a store.
    pub(crate) async fn planned_view(
        &self,
        schema: Option<&str>,
        name: &str,
        text: String,
    ) -> Result<Arc<dyn TableProvider>> {
        let Some(plan) = self.view_planner.get() else {
            return Err(Error::Unsupported("this session plans no views of stores".into()));
        };
        let _planning = self.begin_view(schema, name)?;
        let planned = plan(text.clone(), schema.map(str::to_owned)).await?;
        Ok(Arc::new(ViewTable::new(planned, Some(text))))
    }

    /// Says that a view of a store is being planned, for as long as the result lives. An error if
    /// it is already.
    fn begin_view(&self, schema: Option<&str>, name: &str) -> Result<Planning<'_>> {
        let key = format!("{}.{name}", schema.unwrap_or(SCHEMA));
        let mut planning = lock(&self.planning);
        if planning.contains(&key) {
            return Err(Error::InvalidInput(format!("view {name} would be made of itself")));
        }
        if planning.len() >= MAX_LEVELS {
            return Err(Error::LimitExceeded(format!(
                "more than {MAX_LEVELS} views on top of each other; CREATE TABLE … AS keeps what one \
                 returns"
            )));
        }
        planning.push(key);
        Ok(Planning(self))
    }
}

/// A view of a store that is being planned.
struct Planning<'t>(&'t Tables);

impl Drop for Planning<'_> {
    fn drop(&mut self) {
        lock(&self.0.planning).pop();
    }
}
