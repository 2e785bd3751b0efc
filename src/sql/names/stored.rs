//! The tables of a store as statements see them: each at the generation that the statement first
//! found, or that the first of several statements did ([`StoredTables::keep`]).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::sql::names::lock;
use crate::sql::run::table::StoreTable;
use crate::store::{Snapshot, Store, check_name};

/// Tables of a store that statements have used, by name; clones share them.
#[derive(Clone, Debug, Default)]
pub(in crate::sql) struct OpenTables(Arc<Mutex<Opened>>);

#[derive(Debug, Default)]
struct Opened {
    newest: HashMap<String, Open>,
    /// Those that are closed here, and that statements may still read.
    closed: HashMap<String, Vec<Weak<StoreTable>>>,
}

impl Opened {
    fn close(&mut self, name: &str, open: Option<&Open>) {
        self.closed.retain(|_, tables| {
            tables.retain(|table| table.strong_count() > 0);
            !tables.is_empty()
        });
        if let Some(open) = open {
            self.closed.entry(name.to_owned()).or_default().push(Arc::downgrade(&open.table));
        }
    }
}

#[derive(Debug)]
struct Open {
    generation: u64,
    table: Arc<StoreTable>,
    /// When a statement has looked it up last.
    used: Instant,
}

impl OpenTables {
    /// Closes those that nobody holds, and that no statement has looked up for this long.
    pub(in crate::sql) fn close_unused(&self, time: Duration) {
        let is_unused = |_: &String, open: &mut Open| {
            Arc::strong_count(&open.table) == 1 && open.used.elapsed() >= time
        };
        let unused: Vec<_> = lock(&self.0).newest.extract_if(is_unused).collect();
        // Files are unmapped while nobody waits for the lock.
        drop(unused);
    }

    /// A table, if it was opened at this generation.
    fn get(&self, name: &str, generation: u64) -> Option<Arc<StoreTable>> {
        let mut tables = lock(&self.0);
        let open = tables.newest.get_mut(name).filter(|open| open.generation == generation)?;
        open.used = Instant::now();
        Some(Arc::clone(&open.table))
    }

    fn insert(&self, name: &str, generation: u64, table: &Arc<StoreTable>) {
        let open = Open { generation, table: Arc::clone(table), used: Instant::now() };
        let mut tables = lock(&self.0);
        let before = tables.newest.insert(name.to_owned(), open);
        tables.close(name, before.as_ref());
        drop(tables);
        drop(before);
    }

    fn close(&self, name: &str) {
        let mut tables = lock(&self.0);
        let open = tables.newest.remove(name);
        tables.close(name, open.as_ref());
        drop(tables);
        drop(open);
    }

    #[cfg(feature = "cluster")]
    /// Lets go of the locks of a table that is closed, whoever still reads it in this process.
    fn let_go(&self, name: &str) {
        let closed = lock(&self.0).closed.remove(name).unwrap_or_default();
        closed.iter().filter_map(Weak::upgrade).for_each(|table| table.snapshot().let_go());
    }
}

/// The tables that a statement has looked up, by name.
pub(super) type Pinned = HashMap<String, Arc<StoreTable>>;

/// The tables of a session's own store, or of an attached one.
pub(crate) struct StoredTables {
    store: Store,
    /// The name of an attached store.
    attached: Option<Arc<str>>,
    open: OpenTables,
    pinned: Mutex<Pinned>,
    /// What statements have looked up since they are to read the same, if they are.
    kept: Mutex<Option<Pinned>>,
    /// Which names there are, for a session that does not see all; set when it is made.
    pub(super) visible: OnceLock<Vec<glob::Pattern>>,
}

/// The rows of a generation that statements see.
type See<'a> = &'a dyn Fn(Snapshot) -> Result<Snapshot>;

impl StoredTables {
    pub(super) fn new(store: Store, attached: Option<&str>, open: &OpenTables) -> StoredTables {
        let (attached, open) = (attached.map(Arc::from), open.clone());
        let (pinned, kept, visible) = (Mutex::default(), Mutex::default(), OnceLock::new());
        StoredTables { store, attached, open, pinned, kept, visible }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// What the statement in progress has looked up.
    pub(super) fn pinned(&self) -> Pinned {
        lock(&self.pinned).clone()
    }

    /// From now on, names mean these tables, and others what they mean when they are looked up.
    pub(super) fn pin(&self, tables: Pinned) {
        *lock(&self.pinned) = tables;
    }

    /// From now on, a name means in all statements what it means in the first that has it; or it
    /// does not any more.
    pub(super) fn keep(&self, yes: bool) {
        let mut kept = lock(&self.kept);
        let closed = match yes {
            true => {
                kept.get_or_insert_default();
                None
            }
            false => kept.take(),
        };
        drop(kept);
        // Files are unmapped while nobody waits for the lock.
        drop(closed);
    }

    /// The generation of this table that one statement has read, and that others are to read, too.
    pub(super) fn kept(&self, table: &str) -> Option<u64> {
        Some(lock(&self.kept).as_ref()?.get(table)?.snapshot().generation())
    }

    /// Whether all statements read the same generations.
    pub(super) fn keeps_any(&self) -> bool {
        lock(&self.kept).is_some()
    }

    /// The next statement that names a table finds its newest generation, and others after it the
    /// same.
    pub(super) fn find_anew(&self, table: &str) {
        let mut kept = lock(&self.kept);
        let closed: Vec<_> = match &mut *kept {
            Some(kept) => kept.extract_if(|_, kept| kept.name() == table).collect(),
            None => Vec::new(),
        };
        drop(kept);
        drop(closed);
    }

    /// What this statement has found by a name, or one before, if it is to stay so. The table may
    /// have been dropped since.
    fn found_before(&self, name: &str) -> Option<Arc<StoreTable>> {
        let kept = lock(&self.kept).as_ref()?.get(name).cloned();
        let mut pinned = lock(&self.pinned);
        if let (None, Some(kept)) = (pinned.get(name), &kept) {
            pinned.insert(name.to_owned(), Arc::clone(kept));
        }
        pinned.get(name).cloned()
    }

    /// Notes what a statement has found by a name, and how the table is spelled.
    fn note_found(&self, name: &str, spelled: &str, table: &Arc<StoreTable>) {
        lock(&self.pinned).insert(spelled.to_owned(), Arc::clone(table));
        if let Some(kept) = &mut *lock(&self.kept) {
            for name in [name, spelled] {
                kept.entry(name.to_owned()).or_insert_with(|| Arc::clone(table));
            }
        }
    }

    /// Closes a table.
    pub(super) fn release(&self, table: &str) {
        self.open.close(table);
    }

    #[cfg(feature = "cluster")]
    pub(super) fn let_go(&self, table: &str) {
        self.open.let_go(table);
    }

    /// The newest generation of a table. It stays the same for the whole statement, and is shared
    /// with earlier statements while it is the newest.
    pub(super) fn find(&self, asked: &str, see: See) -> Result<Option<Arc<StoreTable>>> {
        if let Some(table) = self.found_before(asked) {
            return Ok(Some(table));
        }
        let Some((name, generation)) = self.newest(asked)? else {
            return self.find_older(asked, see);
        };
        let known = lock(&self.pinned).get(&name).cloned();
        if let Some(table) = known.or_else(|| self.found_before(&name)) {
            return Ok(Some(table));
        }
        let table = match self.open.get(&name, generation) {
            Some(table) => table,
            None => {
                let snapshot = see(self.store.table(&name)?.snapshot()?)?;
                let generation = snapshot.generation();
                let table = self.opened(snapshot);
                self.open.insert(&name, generation, &table);
                table
            }
        };
        self.note_found(asked, &name, &table);
        Ok(Some(table))
    }

    /// An older generation that is still kept, named as in `"trips@12"`.
    fn find_older(&self, name: &str, see: See) -> Result<Option<Arc<StoreTable>>> {
        let Some((table, generation)) = self.older(name)? else { return Ok(None) };
        if let Some(known) = lock(&self.pinned).get(name) {
            return Ok(Some(Arc::clone(known)));
        }
        let table = self.opened(see(self.store.table(&table)?.snapshot_at(generation)?)?);
        self.note_found(name, name, &table);
        Ok(Some(table))
    }

    /// The table and the number in the name of an older generation.
    fn older(&self, name: &str) -> Result<Option<(String, u64)>> {
        let parts = name
            .rsplit_once('@')
            .and_then(|(table, number)| Some((table, number.parse::<u64>().ok()?)));
        let Some((table, generation)) = parts else { return Ok(None) };
        Ok(self.spelled(table)?.map(|table| (table, generation)))
    }

    fn opened(&self, snapshot: Snapshot) -> Arc<StoreTable> {
        Arc::new(StoreTable::new(snapshot, self.attached.clone()))
    }

    /// Whether the session may know a table of this name.
    pub(super) fn is_visible(&self, name: &str) -> bool {
        self.visible.get().is_none_or(|known| known.iter().any(|known| known.matches(name)))
    }

    /// The table that a name means: the one of exactly this name, or else the only one that differs
    /// just in case, since SQL folds unquoted names.
    pub(super) fn spelled(&self, name: &str) -> Result<Option<String>> {
        Ok(self.newest(name)?.map(|(name, _)| name))
    }

    /// The same, with the number of its newest generation.
    fn newest(&self, name: &str) -> Result<Option<(String, u64)>> {
        // What is no possible name of a table may be that of a file.
        if check_name(name).is_err() {
            return Ok(None);
        }
        // A damaged table is an error, and not a name that means nothing.
        if self.is_visible(name)
            && let Some(generation) = self.store.table(name)?.generation()?
        {
            return Ok(Some((name.to_owned(), generation)));
        }
        if !self.store.exists()? {
            return Ok(None);
        }
        let mut alike = self.names()?.into_iter().filter(|table| table.to_lowercase() == name);
        let Some(only) = alike.next().filter(|_| alike.next().is_none()) else { return Ok(None) };
        Ok(self.store.table(&only)?.generation()?.map(|generation| (only, generation)))
    }

    /// Whether a name means a table, an older generation of one, or a view.
    pub(super) fn has(&self, name: &str) -> Result<bool> {
        Ok(self.spelled(name)?.is_some()
            || self.spelled_view(name)?.is_some()
            || self.older(name)?.is_some())
    }

    /// The view that a name means, likewise.
    pub(super) fn spelled_view(&self, name: &str) -> Result<Option<String>> {
        if check_name(name).is_err() {
            return Ok(None);
        }
        if self.is_visible(name) && self.store.has_view(name)? {
            return Ok(Some(name.to_owned()));
        }
        let mut alike = self.view_names()?.into_iter().filter(|view| view.to_lowercase() == name);
        Ok(alike.next().filter(|_| alike.next().is_none()))
    }

    /// The names of all views; none if there is no store yet.
    pub(super) fn view_names(&self) -> Result<Vec<String>> {
        let mut names = match self.store.exists() {
            Ok(false) => return Ok(Vec::new()),
            _ => self.store.views()?,
        };
        names.retain(|name| self.is_visible(name));
        Ok(names)
    }

    /// The names of all tables; none if there is no store yet.
    pub(super) fn names(&self) -> Result<Vec<String>> {
        let mut names = match self.store.exists() {
            Ok(false) => return Ok(Vec::new()),
            _ => self.store.tables()?,
        };
        names.retain(|name| self.is_visible(name));
        Ok(names)
    }
}
