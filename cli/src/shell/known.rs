//! Tables, columns and functions of a session, read when they are first needed and kept until a
//! statement has run: it, or another program, may have changed them.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use stylobate::Session;
use stylobate::internal::sql::{KnownColumn, KnownFunction};

/// What names can be completed with.
pub(super) trait Names {
    /// Tables and views that need no schema.
    fn tables(&mut self) -> Arc<Vec<String>>;
    /// The schemas, if there are attached stores.
    fn schemas(&self) -> Vec<String>;
    /// The schema of tables that need none.
    fn schema_in_use(&self) -> String;
    /// The tables of a schema.
    fn tables_in(&self, schema: &str) -> Vec<String>;
    /// The columns of a table or file; none if there is no such thing.
    fn columns(
        &mut self,
        schema: Option<&str>,
        table: &str,
        is_quoted: bool,
    ) -> Arc<Vec<KnownColumn>>;
    /// All functions, in the order of their names.
    fn functions(&self) -> &[KnownFunction];
    /// The formats of `.mode`.
    fn formats(&self) -> Vec<String> {
        super::dot::formats().collect()
    }
}

/// The names of a session.
pub(super) struct Known {
    session: Arc<Session>,
    tables: Option<Arc<Vec<String>>>,
    columns: HashMap<(Option<String>, String), Arc<Vec<KnownColumn>>>,
    functions: OnceLock<Vec<KnownFunction>>,
}

impl Known {
    pub(super) fn new(session: Arc<Session>) -> Known {
        Known { session, tables: None, columns: HashMap::new(), functions: OnceLock::new() }
    }

    /// Forgets what a statement may have changed. Functions stay.
    pub(super) fn forget(&mut self) {
        self.tables = None;
        self.columns.clear();
    }
}

impl Names for Known {
    fn tables(&mut self) -> Arc<Vec<String>> {
        let read = || Arc::new(self.session.table_names());
        Arc::clone(self.tables.get_or_insert_with(read))
    }

    fn schemas(&self) -> Vec<String> {
        self.session.schemas()
    }

    fn schema_in_use(&self) -> String {
        self.session.schema_in_use()
    }

    fn tables_in(&self, schema: &str) -> Vec<String> {
        self.session.table_names_in(schema)
    }

    fn columns(
        &mut self,
        schema: Option<&str>,
        table: &str,
        is_quoted: bool,
    ) -> Arc<Vec<KnownColumn>> {
        let name = if is_quoted { table.to_owned() } else { table.to_lowercase() };
        let key = (schema.map(str::to_owned), name);
        if let Some(columns) = self.columns.get(&key) {
            return Arc::clone(columns);
        }
        // What cannot be read has no columns to offer; the statement will say why.
        let columns = self.session.columns(schema, &key.1).ok().flatten();
        let columns = Arc::new(columns.unwrap_or_default());
        self.columns.insert(key, Arc::clone(&columns));
        columns
    }

    fn functions(&self) -> &[KnownFunction] {
        self.functions.get_or_init(|| self.session.functions())
    }
}
