//! What the names in a statement mean: tables of the store, views of the session, files.
//!
//! A view is planned for each statement that names it (`views`). Only tables that a statement
//! names are opened, once per statement, so that all its scans of one table see the same
//! generation.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::SessionState;
use datafusion::logical_expr::TableType;

use crate::disk::Io;
use crate::error::{Error, Result};
use crate::ingest::sources::Input;
use crate::maintain::{VerifyOptions, skip_damaged};
use crate::sql::keys::expressions::SqlExpressions;
use crate::sql::names::files;
#[cfg(feature = "cluster")]
use crate::sql::names::remote::InCluster;
use crate::sql::names::stored::{OpenTables, Pinned, StoredTables};
use crate::sql::names::views::{
    Definition, Outcome, PlanView, ViewKey, scans_newest, without_plan,
};
use crate::sql::names::{SCHEMA, lock};
use crate::sql::run::provider::StoreProvider;
use crate::sql::run::table::StoreTable;
use crate::store::{Snapshot, Store};

/// The names of a session.
#[derive(Default)]
pub(crate) struct Tables {
    /// The session's state, which is needed to open files, and which itself holds these names.
    state: OnceLock<StateOf>,
    /// Those of its own store, if it has one.
    pub(super) own: Option<StoredTables>,
    /// Those of attached stores, by the names of these, in lower case.
    pub(super) attached: Mutex<BTreeMap<String, Arc<StoredTables>>>,
    /// The attached store in which names without a schema are looked up, if one is in use.
    pub(super) used: Mutex<Option<String>>,
    /// How data files of stores are read, if anything is said of it.
    pub(crate) io: Option<Io>,
    /// Whether files outside the store are refused.
    pub(crate) no_files: bool,
    /// Temporary views and external tables, which live as long as the session.
    pub(super) session: Mutex<BTreeMap<String, Arc<dyn TableProvider>>>,
    /// Those of them that lists of names leave out.
    pub(super) hidden: Mutex<BTreeSet<String>>,
    /// The definitions of the views among them.
    pub(super) definitions: Mutex<HashMap<String, Definition>>,
    /// How to plan the views of stores.
    pub(super) view_planner: OnceLock<PlanView>,
    /// The views of stores that the statement in progress has planned.
    pub(super) stored_views: Mutex<HashMap<ViewKey, Outcome>>,
    /// Those that are being planned, each for the one before.
    pub(super) planning: Mutex<Vec<ViewKey>>,
    /// How often views and external tables were made or dropped.
    pub(super) changes: AtomicU64,
    /// All that the statement in progress has opened.
    pub(super) opened: Mutex<HashMap<String, Arc<dyn TableProvider>>>,
    /// The standard input, which can be opened once, and the name it was opened by; or why it could
    /// not be opened.
    stdin: Mutex<Option<(String, OpenedOnce)>>,
    /// What the next statement reads as its standard input.
    fed: Mutex<Option<Input>>,
    is_fed: AtomicBool,
    /// Notes for the user.
    notes: Mutex<Vec<String>>,
    /// How to find the tables of a cluster, if the session has one.
    #[cfg(feature = "cluster")]
    pub(crate) cluster: OnceLock<InCluster>,
    /// How to verify tables before they are read, if damaged segments are left out.
    skipping: OnceLock<VerifyOptions>,
}

/// What names mean in a statement: each means the same however often the statement is planned.
#[derive(Clone, Default)]
pub(crate) struct Pins {
    opened: HashMap<String, Arc<dyn TableProvider>>,
    own: Pinned,
    /// Those of attached stores.
    attached: HashMap<String, Pinned>,
}

/// A table that was opened, or why it could not be.
type OpenedOnce = Result<Arc<dyn TableProvider>, String>;

type StateOf = Box<dyn Fn() -> Option<SessionState> + Send + Sync>;

impl Tables {
    /// The names of a store.
    pub(crate) fn new(store: &Store, open: &OpenTables) -> Self {
        Tables { own: Some(StoredTables::new(store.clone(), None, open)), ..Tables::default() }
    }

    /// Sets how to find the session's state.
    pub(crate) fn set_state(
        &self,
        state: impl Fn() -> Option<SessionState> + Send + Sync + 'static,
    ) {
        // Set once, when the session is made; a second time changes nothing.
        let _ = self.state.set(Box::new(state));
    }

    /// From now on, leaves damaged segments out of all tables, and verifies tables on `threads`
    /// threads.
    pub(crate) fn skip_damaged(&self, threads: usize, cancelled: Arc<AtomicBool>) {
        let compile = Arc::new(SqlExpressions::stopped_by(Arc::clone(&cancelled)));
        // Set once, when the session is made.
        let _ =
            self.skipping.set(VerifyOptions { threads, compile, cancelled, done: Arc::default() });
    }

    /// Whether statements may not see all rows.
    pub(crate) fn skips_damaged(&self) -> bool {
        self.skipping.get().is_some()
    }

    /// The rows of a generation that statements see: all, or those of sound segments.
    fn seen(&self, snapshot: Snapshot) -> Result<Snapshot> {
        let Some(options) = self.skipping.get() else { return Ok(snapshot) };
        let (seen, problems) = skip_damaged(&snapshot, options)?;
        problems.iter().for_each(|damage| self.note(format!("damaged: {damage}")));
        let rows = snapshot.rows().saturating_sub(seen.rows());
        if rows > 0 {
            let segments = |snapshot: &Snapshot| {
                snapshot.chunks().iter().map(|chunk| u64::from(chunk.segments)).sum::<u64>()
            };
            self.note(format!(
                "{}: the answer leaves out {rows} rows in {} damaged segments",
                snapshot.table_name(),
                segments(&snapshot).saturating_sub(segments(&seen))
            ));
        }
        Ok(seen)
    }

    /// The store, if the session has one.
    pub(crate) fn store(&self) -> Option<&Store> {
        self.own.as_ref().map(StoredTables::store)
    }

    /// Adds a note for the user, unless it is there already.
    pub(crate) fn note(&self, text: String) {
        let mut notes = lock(&self.notes);
        if !notes.contains(&text) {
            notes.push(text);
        }
    }

    /// Returns the notes so far, and removes them.
    pub(crate) fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.notes))
    }

    /// What names mean in the statement in progress.
    pub(crate) fn pins(&self) -> Pins {
        let attached = lock(&self.attached);
        let attached = attached.iter().map(|(name, stored)| (name.clone(), stored.pinned()));
        Pins {
            opened: lock(&self.opened).clone(),
            own: self.own.as_ref().map(StoredTables::pinned).unwrap_or_default(),
            attached: attached.collect(),
        }
    }

    /// Names mean what they have meant in a statement. Without any pins, a new one begins.
    pub(crate) fn pin(&self, mut pins: Pins) {
        *lock(&self.opened) = pins.opened;
        lock(&self.stored_views).clear();
        self.own.iter().for_each(|own| own.pin(std::mem::take(&mut pins.own)));
        for (name, stored) in lock(&self.attached).iter() {
            stored.pin(pins.attached.remove(name).unwrap_or_default());
        }
    }

    /// A new statement begins, in which the name of a table of the store means this one.
    pub(crate) fn pin_own(&self, table: Arc<StoreTable>) {
        let own = Pinned::from([(table.name().to_owned(), table)]);
        self.pin(Pins { own, ..Pins::default() });
    }

    /// Forgets what the last statement has opened.
    pub(crate) fn begin_statement(&self) {
        self.pin(Pins::default());
    }

    /// Closes what the last statement has opened: a session that waits keeps no table from being
    /// dropped.
    pub(crate) fn end_statement(&self) {
        self.begin_statement();
        self.forget_plans();
    }

    /// Views lose their plans, which keep the tables open that they scan, and are planned again
    /// when they are next used.
    fn forget_plans(&self) {
        for (name, definition) in lock(&self.definitions).iter_mut() {
            if let Some(view) = lock(&self.session).get_mut(name) {
                *view = without_plan(view.as_ref());
                definition.changes = u64::MAX;
            }
        }
    }

    /// Closes a table of the store that is about to change: the commit removes its old files only
    /// if nobody reads them.
    pub(crate) fn release(&self, table: &str) {
        self.find_anew(table);
        self.end_statement();
        // The same store may be attached, too.
        self.own.iter().for_each(|own| own.release(table));
        lock(&self.attached).values().for_each(|stored| stored.release(table));
    }

    /// Lets go of the locks of a released table, so that it can be dropped while a statement of
    /// this process reads it: that ends with an error where it meets a file that is gone.
    #[cfg(feature = "cluster")]
    pub(in crate::sql) fn let_go(&self, table: &str) {
        self.own.iter().for_each(|own| own.let_go(table));
        lock(&self.attached).values().for_each(|stored| stored.let_go(table));
    }

    /// What `name` means, opened at most once in a statement.
    pub(crate) async fn find(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        // Names in a stored view never mean the temporary views of a session.
        let registered = match self.plans_view() {
            true => None,
            false => lock(&self.session).get(name).cloned(),
        };
        if let Some(registered) = registered {
            return self.current(name, registered).await.map(Some);
        }
        let opened = lock(&self.opened).get(name).cloned();
        if opened.is_some() {
            return Ok(opened);
        }
        let stored = match self.in_cluster(name).await? {
            Some(table) => Some(table),
            None => self.stored(name)?,
        };
        let found: Option<Arc<dyn TableProvider>> = match stored {
            Some(table) => Some(Arc::new(StoreProvider::new(table))),
            None if let Some(view) = self.stored_view(None, name).await? => Some(view),
            None if name == "/dev/stdin" => self.file(files::STDIN).await?,
            None => self.file(name).await?,
        };
        if let Some(table) = &found {
            lock(&self.opened).insert(name.to_owned(), Arc::clone(table));
        }
        Ok(found)
    }

    /// The file that `name` means.
    async fn file(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let is_stdin = files::is_stdin(name);
        let known = if is_stdin { lock(&self.stdin).clone() } else { None };
        let is_fed = is_stdin && (known.is_some() || lock(&self.fed).is_some());
        match self.refuses_files() && !is_fed {
            true if files::is_file(name) => return Err(files_refused(name)),
            true => return Ok(None),
            false => {}
        }
        let Some(state) = self.state() else { return Ok(None) };
        let mut note = |text| self.note(text);
        if !is_stdin {
            return files::open(name, &state, &mut note, || None).await;
        }
        if let Some((known, table)) = known {
            return match (known == name, table) {
                (true, Ok(table)) => Ok(Some(table)),
                (_, Err(why)) => Err(Error::InvalidInput(why)),
                (false, _) => Err(Error::InvalidInput(format!(
                    "the standard input has been read as {known} already"
                ))),
            };
        }
        let opened = files::open(name, &state, &mut note, || lock(&self.fed).take()).await;
        let known = match &opened {
            Ok(table) => table.clone().map(Ok),
            Err(error) => Some(Err(error.to_string())),
        };
        *lock(&self.stdin) = known.map(|known| (name.to_owned(), known));
        opened
    }

    /// The next statement reads this as its standard input, once.
    pub(crate) fn feed(&self, input: Option<Input>) {
        self.is_fed.store(input.is_some(), Ordering::Relaxed);
        *lock(&self.stdin) = None;
        *lock(&self.fed) = input;
    }

    /// Whether the standard input is what a program feeds.
    pub(crate) fn is_fed(&self) -> bool {
        self.is_fed.load(Ordering::Relaxed)
    }

    /// Whether the standard input is a table of the session.
    pub(crate) fn reads_stdin(&self) -> bool {
        lock(&self.stdin).is_some()
    }

    pub(super) fn state(&self) -> Option<SessionState> {
        self.state.get().and_then(|state| state())
    }

    /// A view with the newest generations of its tables; an external table as it is.
    async fn current(
        &self,
        name: &str,
        view: Arc<dyn TableProvider>,
    ) -> Result<Arc<dyn TableProvider>> {
        let definition = lock(&self.definitions).get(name).cloned();
        let (Some(mut definition), Some(state)) = (definition, self.state()) else {
            return Ok(view);
        };
        let changes = self.changes.load(Ordering::Relaxed);
        if definition.changes == changes && scans_newest(view.as_ref(), |table| self.newest(table))?
        {
            return Ok(view);
        }
        let view = match definition.plan(&state).await {
            Ok(view) => view,
            Err(error) => return Err(self.broken(name, &definition, error).await),
        };
        definition.changes = changes;
        lock(&self.definitions).insert(name.to_owned(), definition);
        lock(&self.session).insert(name.to_owned(), Arc::clone(&view));
        Ok(view)
    }

    /// Why a view can no longer be planned: if something that it is made of is gone, the error
    /// names that.
    async fn broken(&self, view: &str, definition: &Definition, error: Error) -> Error {
        for name in &definition.names {
            let found = match name.schema().filter(|schema| *schema != SCHEMA) {
                // Through the trait, whose future is boxed: a view may be made of views.
                None => SchemaProvider::table(self, name.table()).await.ok(),
                Some(schema) => Box::pin(self.find_in(Some(schema), name.table())).await.ok(),
            };
            if let Some(None) = found {
                return Error::NotFound(format!(
                    "view {view} is made of {name}, and there is no such table or view"
                ));
            }
        }
        error
    }

    pub(super) fn forget(&self, name: &str) -> Option<Arc<dyn TableProvider>> {
        self.changes.fetch_add(1, Ordering::Relaxed);
        lock(&self.definitions).remove(name);
        lock(&self.session).remove(name)
    }

    /// Whether `name` is a view or an external table.
    pub(crate) fn in_session(&self, name: &str) -> bool {
        lock(&self.session).contains_key(name)
    }

    /// The newest generation of a table of the session's own store.
    pub(super) fn stored(&self, name: &str) -> Result<Option<Arc<StoreTable>>> {
        match &self.own {
            Some(own) => own.find(name, &|snapshot| self.seen(snapshot)),
            None => Ok(None),
        }
    }

    /// The newest generation of a table, if the table still exists.
    fn newest(&self, table: &StoreTable) -> Result<Option<Arc<StoreTable>>> {
        let name = table.snapshot().table_name();
        match table.attached() {
            None => self.stored(name),
            Some(store) => match self.attached_as(store) {
                Some(stored) => stored.find(name, &|snapshot| self.seen(snapshot)),
                None => Ok(None),
            },
        }
    }

    /// The table of the session's own store that a name means, as it is spelled there.
    pub(crate) fn stored_name(&self, name: &str) -> Result<Option<String>> {
        self.own.as_ref().map_or(Ok(None), |own| own.spelled(name))
    }

    /// A table of an attached store.
    pub(super) fn find_stored(
        &self,
        stored: &StoredTables,
        name: &str,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        let found = stored.find(name, &|snapshot| self.seen(snapshot))?;
        Ok(found.map(|table| Arc::new(StoreProvider::new(table)) as _))
    }

    /// What a name with its schema means; nothing in a schema that is not a store's.
    pub(crate) async fn find_in(
        &self,
        schema: Option<&str>,
        name: &str,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        let Some(schema) = schema.filter(|schema| *schema != SCHEMA) else {
            return self.find(name).await;
        };
        let Some(stored) = self.attached_as(schema) else { return Ok(None) };
        match self.find_stored(&stored, name)? {
            Some(table) => Ok(Some(table)),
            None => self.stored_view(Some(schema), name).await,
        }
    }

    /// The names of a store's tables and views; a note if they cannot be told.
    pub(super) fn names_of(&self, stored: &StoredTables) -> Vec<String> {
        let names = stored.names().and_then(|names| Ok([names, stored.view_names()?].concat()));
        names.unwrap_or_else(|error| {
            self.note(error.to_string());
            Vec::new()
        })
    }

    /// All names of the session's own schema but those of files.
    pub(crate) fn names(&self) -> Vec<String> {
        let own = self.own.iter().flat_map(|own| self.names_of(own));
        self.with_views(own.chain(self.cluster_names()))
    }

    /// These names and those of views and external tables.
    pub(super) fn with_views(&self, stored: impl Iterator<Item = String>) -> Vec<String> {
        let hidden = lock(&self.hidden);
        let session = lock(&self.session);
        let shown = session.keys().filter(|name| !hidden.contains(*name));
        let mut names: Vec<String> = stored.chain(shown.cloned()).collect();
        names.sort();
        names.dedup();
        names
    }
}

/// The error for what is outside the store, in a session without files.
pub(in crate::sql) fn files_refused(what: &str) -> Error {
    Error::InvalidInput(format!("{what}: this session reads and writes no files outside its store"))
}

impl std::fmt::Debug for Tables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tables").field("session", &self.session).finish_non_exhaustive()
    }
}

#[async_trait]
impl SchemaProvider for Tables {
    fn table_names(&self) -> Vec<String> {
        self.names()
    }

    async fn table(&self, name: &str) -> DataFusionResult<Option<Arc<dyn TableProvider>>> {
        match self.find(name).await {
            // A list of all columns goes on without it; a statement that names it asks once more
            // what is wrong.
            Err(_) if self.means_view(name)? && !self.is_view(name) => Ok(None),
            Err(_) if self.has_cluster() && self.stored_name(name)?.is_none() => Ok(None),
            found => Ok(found?),
        }
    }

    async fn table_type(&self, name: &str) -> DataFusionResult<Option<TableType>> {
        // Between statements, a view has no plan, and looks like a table.
        Ok(Some(if self.means_view(name)? { TableType::View } else { TableType::Base }))
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> DataFusionResult<Option<Arc<dyn TableProvider>>> {
        self.changes.fetch_add(1, Ordering::Relaxed);
        Ok(lock(&self.session).insert(name, table))
    }

    fn deregister_table(&self, name: &str) -> DataFusionResult<Option<Arc<dyn TableProvider>>> {
        let removed = self.forget(name);
        if removed.is_none() && self.stored_name(name)?.is_some() {
            let what = format!("{name} is a table of the store, not a view");
            return Err(Error::InvalidInput(what).into());
        }
        Ok(removed)
    }

    fn table_exist(&self, name: &str) -> bool {
        lock(&self.session).contains_key(name)
            || self.stored_name(name).is_ok_and(|found| found.is_some())
            || self.stored_view_name(name).is_ok_and(|found| found.is_some())
    }
}
