//! Which names are views: those of the session, and those of stores.
//!
//! A view of the session is planned from the statement as it was understood when it was made
//! (`views`). One of a store is planned from its text, once in each statement that names it, and
//! means the same in every session: how a text is read, temporary views and the store that is in
//! use are those of a session in which nothing was set.

use std::collections::HashSet;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use datafusion::catalog::TableProvider;
use datafusion::catalog::view::ViewTable;
use datafusion::common::TableReference;
use datafusion::common::config::Dialect;
use datafusion::logical_expr::TableType;
use datafusion::sql::parser::Statement;
use datafusion::sql::resolve::resolve_table_references;

use crate::error::{Error, Result};
use crate::sql::names::catalog::Tables;
use crate::sql::names::parameters::Parameters;
use crate::sql::names::stored::StoredTables;
use crate::sql::names::views::{Definition, MAX_LEVELS, Outcome, PlanView, ViewKey};
use crate::sql::names::{SCHEMA, lock};
use crate::sql::syntax::parse::{self, Parsed};
use crate::sql::syntax::placeholders;

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

    /// Forgets all views and external tables.
    pub(crate) fn forget_all(&self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
        lock(&self.definitions).clear();
        lock(&self.hidden).clear();
        // They are dropped, and what they keep open is closed, while nobody waits for the lock.
        let dropped = std::mem::take(&mut *lock(&self.session));
        drop(dropped);
        self.end_statement();
    }

    /// Leaves a view or an external table out of lists of names from now on.
    pub(crate) fn hide(&self, name: &str) {
        lock(&self.hidden).insert(name.to_owned());
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

    /// The statement that has made the view that a name means.
    pub(crate) fn view_text(&self, schema: Option<&str>, name: &str) -> Option<String> {
        if schema.is_none()
            && let Some(definition) = lock(&self.definitions).get(name)
        {
            return Some(definition.statement.to_string());
        }
        let view = self.known_view(schema, name).ok()??;
        self.text_of(&view).ok()?
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
    /// `schema`. It is planned once in a statement, after the views that it is made of.
    pub(super) async fn stored_view(
        &self,
        schema: Option<&str>,
        name: &str,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        let Some(view) = self.known_view(schema, name)? else { return Ok(None) };
        if self.outcome(&view).is_none() {
            let text = self.text_of(&view);
            self.plan_views(view.clone(), text).await?;
        }
        match self.outcome(&view) {
            Some(Ok(planned)) => Ok(Some(planned)),
            Some(Err(error)) => Err(in_view(&view.1, again(&error))),
            None => Ok(None),
        }
    }

    /// Plans the text of a view that is not in the store yet, or in place of what is there.
    pub(crate) async fn planned_view(&self, name: &str, text: &str) -> Result<()> {
        // What the statement has found may be made of the view that is replaced.
        lock(&self.stored_views).clear();
        lock(&self.opened).retain(|_, found| found.table_type() != TableType::View);
        let view = (None, name.to_owned());
        self.plan_views(view.clone(), Ok(Some(text.to_owned()))).await?;
        match self.outcome(&view) {
            Some(Err(error)) => Err(again(&error)),
            _ => Ok(()),
        }
    }

    /// Plans a view, and before it those that it is made of: one after the other, however many
    /// stand on top of each other.
    async fn plan_views(&self, view: ViewKey, text: Result<Option<String>>) -> Result<()> {
        let mut open = vec![(view.clone(), self.read(&view, text))];
        while let Some((view, read)) = open.last() {
            let below = match read {
                Ok(read) => read.made_of.iter().find(|below| self.outcome(below).is_none()),
                Err(_) => None,
            };
            let levels = open.len();
            match below.cloned() {
                Some(below) if open.iter().any(|(above, _)| *above == below) => {
                    let what = format!("view {} would be made of itself", below.1);
                    self.set_outcome(view.clone(), Err(Error::InvalidInput(what)));
                    open.pop();
                }
                Some(_) if levels >= MAX_LEVELS => {
                    return Err(Error::LimitExceeded(format!(
                        "more than {MAX_LEVELS} views on top of each other; CREATE TABLE … AS \
                         keeps what one returns"
                    )));
                }
                Some(below) => {
                    let text = self.text_of(&below);
                    open.push((below.clone(), self.read(&below, text)));
                }
                None => {
                    let Some((view, read)) = open.pop() else { break };
                    let planned = match read {
                        Ok(read) => self.plan_view(&view, read).await,
                        Err(error) => Err(error),
                    };
                    self.set_outcome(view, planned);
                }
            }
        }
        Ok(())
    }

    async fn plan_view(&self, view: &ViewKey, read: ReadView) -> Result<Arc<dyn TableProvider>> {
        let Some(plan) = self.view_planner.get() else {
            return Err(Error::Unsupported("this session plans no views of stores".into()));
        };
        let _planning = self.begin_view(view)?;
        let text = read.parsed.text.clone();
        let planned = plan(read.parsed, view.0.clone()).await?;
        Ok(Arc::new(ViewTable::new(planned, Some(text))))
    }

    /// Says that a view of a store is being planned, for as long as the result lives.
    fn begin_view(&self, view: &ViewKey) -> Result<Planning<'_>> {
        let mut planning = lock(&self.planning);
        // Those that a view is made of are planned before it.
        if planning.len() >= MAX_NESTED || planning.contains(view) {
            let what = format!("view {} is made of others in a way that is not seen", view.1);
            return Err(Error::Unsupported(what));
        }
        planning.push(view.clone());
        Ok(Planning(self))
    }

    /// What a text says, if it makes a view.
    fn read(&self, view: &ViewKey, text: Result<Option<String>>) -> Result<ReadView> {
        let no_view = |what: &str| Error::InvalidInput(format!("view {}: {what}", view.1));
        let text = text?.ok_or_else(|| Error::NotFound(format!("no view {}", view.1)))?;
        let mut parsed = parse::statements(&text, Dialect::DuckDB, MOST_MEMORY)?;
        let parsed = match (parsed.pop(), parsed.is_empty()) {
            (Some(parsed), true) if parsed.view.is_some() => parsed,
            _ => return Err(no_view("its text is no CREATE VIEW")),
        };
        if placeholders::are_in(&parsed.statement) {
            return Err(Error::Unsupported(
                "a view of the store has no parameters; CREATE TEMP VIEW makes a view that ends \
                 with the session"
                    .into(),
            ));
        }
        let (named, _) = resolve_table_references(&parsed.statement, true)?;
        let made_of = named.iter().filter_map(|name| {
            let schema = name.schema().filter(|schema| *schema != SCHEMA).or(view.0.as_deref());
            self.known_view(schema, name.table()).ok().flatten()
        });
        Ok(ReadView { made_of: made_of.collect(), parsed })
    }

    fn stored_in_schema(&self, schema: Option<&str>) -> Option<StoredOf<'_>> {
        match schema {
            Some(schema) => self.attached_as(schema).map(StoredOf::Attached),
            None => self.own.as_ref().map(StoredOf::Own),
        }
    }

    /// The view that a name means, unless it means a table.
    fn known_view(&self, schema: Option<&str>, name: &str) -> Result<Option<ViewKey>> {
        let Some(stored) = self.stored_in_schema(schema) else { return Ok(None) };
        match stored.spelled(name)? {
            Some(_) => Ok(None),
            None => {
                let view = stored.spelled_view(name)?;
                Ok(view.map(|view| (schema.map(str::to_lowercase), view)))
            }
        }
    }

    fn text_of(&self, (schema, name): &ViewKey) -> Result<Option<String>> {
        let stored = self.stored_in_schema(schema.as_deref());
        stored.map_or(Ok(None), |stored| stored.store().view(name))
    }

    fn outcome(&self, view: &ViewKey) -> Option<Outcome> {
        lock(&self.stored_views).get(view).cloned()
    }

    fn set_outcome(&self, view: ViewKey, outcome: Result<Arc<dyn TableProvider>>) {
        lock(&self.stored_views).insert(view, outcome.map_err(Arc::new));
    }
}

/// The text of a view, parsed, and the views that it names.
struct ReadView {
    parsed: Parsed,
    made_of: Vec<ViewKey>,
}

/// The tables of a store of the session.
enum StoredOf<'t> {
    Own(&'t StoredTables),
    Attached(Arc<StoredTables>),
}

impl Deref for StoredOf<'_> {
    type Target = StoredTables;

    fn deref(&self) -> &StoredTables {
        match self {
            StoredOf::Own(stored) => stored,
            StoredOf::Attached(stored) => stored,
        }
    }
}

/// What a text may take to be parsed, which the planner of the statement looks at more closely.
const MOST_MEMORY: u64 = 1 << 30;

/// How deeply planning one view may lead to planning another. It does not, where the names of the
/// one tell that it is made of the other.
const MAX_NESTED: usize = 4;

/// An error once more, for another who asks.
fn again(error: &Error) -> Error {
    match error {
        Error::NotFound(what) => Error::NotFound(what.clone()),
        Error::Unsupported(what) => Error::Unsupported(what.clone()),
        Error::LimitExceeded(what) => Error::LimitExceeded(what.clone()),
        Error::Cancelled => Error::Cancelled,
        Error::Corrupt { file, offset, what } => {
            Error::Corrupt { file: file.clone(), offset: *offset, what: what.clone() }
        }
        other => Error::InvalidInput(other.to_string()),
    }
}

/// An error about a view, with its name: of views of views, that of the one where it is. A place is
/// one in the view's text.
fn in_view(view: &str, error: Error) -> Error {
    let said = |what: String| match what.starts_with("view ") {
        true => what,
        false => format!("view {view}: {}", what.replace(" (line ", " (in its text, line ")),
    };
    match error {
        Error::NotFound(what) => Error::NotFound(said(what)),
        Error::InvalidInput(what) => Error::InvalidInput(said(what)),
        Error::Unsupported(what) => Error::Unsupported(said(what)),
        other => other,
    }
}

/// A view of a store that is being planned.
struct Planning<'t>(&'t Tables);

impl Drop for Planning<'_> {
    fn drop(&mut self) {
        lock(&self.0.planning).pop();
    }
}
