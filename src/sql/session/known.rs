//! What a session knows, for programs that complete names: tables, columns, functions.

use datafusion::logical_expr::Documentation;
use datafusion::sql::sqlparser::keywords::{
    ALL_KEYWORDS, ALL_KEYWORDS_INDEX, RESERVED_FOR_COLUMN_ALIAS,
};

use super::Session;
use crate::error::Result;
use crate::model::DataType;
use crate::sql::names::SCHEMA;
use crate::sql::names::files;
use crate::sql::syntax::macros;
use crate::sql::work::cancel::Canceller;

/// A column by name and type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownColumn {
    /// Its name.
    pub name: String,
    /// Its type, as `sty schema` calls it.
    pub data_type: String,
}

/// A function that statements may call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownFunction {
    /// Its name.
    pub name: String,
    /// How it is called, as in `strpos(str, substr)`.
    pub signature: String,
    /// What it gives.
    pub description: String,
}

impl Session {
    /// The tables of the store that is in use, and the views and external tables of the session.
    #[doc(hidden)]
    pub fn table_names(&self) -> Vec<String> {
        self.tables.short_names()
    }

    /// The schemas of the session's own store and of attached stores. The list is empty if no store
    /// is attached.
    #[doc(hidden)]
    pub fn schemas(&self) -> Vec<String> {
        let attached = self.tables.attached();
        let own = (!attached.is_empty()).then(|| SCHEMA.to_owned());
        own.into_iter().chain(attached.into_iter().map(|(name, _)| name)).collect()
    }

    /// The schema that is in use.
    #[doc(hidden)]
    pub fn schema_in_use(&self) -> String {
        self.tables.used().unwrap_or_else(|| SCHEMA.to_owned())
    }

    /// The tables of a schema; in the session's own, views and external tables, too.
    #[doc(hidden)]
    pub fn table_names_in(&self, schema: &str) -> Vec<String> {
        self.tables.names_in(schema)
    }

    /// The rows and the number of columns of a stored table.
    #[doc(hidden)]
    pub fn stored_size(&self, schema: Option<&str>, table: &str) -> Option<(u64, u64)> {
        let snapshot = self.tables.stored_in(schema, table)?;
        Some((snapshot.rows(), snapshot.schema().columns().len() as u64))
    }

    /// The bytes of a stored table's segments.
    #[doc(hidden)]
    pub fn stored_bytes(&self, schema: Option<&str>, table: &str) -> Option<u64> {
        let segments = self.tables.stored_in(schema, table)?.segments().ok()?;
        Some(segments.iter().map(|segment| segment.length).sum())
    }

    /// The statement that has made a view, of the session or of its store.
    #[doc(hidden)]
    pub fn view_text(&self, schema: Option<&str>, view: &str) -> Option<String> {
        self.tables.view_text(schema.filter(|schema| *schema != SCHEMA), view)
    }

    /// The words that the parser knows, and whether each cannot be the name of a column that is
    /// given without AS.
    #[doc(hidden)]
    pub fn keywords(&self) -> impl Iterator<Item = (&'static str, bool)> + use<> {
        let known = ALL_KEYWORDS.iter().zip(ALL_KEYWORDS_INDEX);
        known.map(|(text, word)| (*text, RESERVED_FOR_COLUMN_ALIAS.contains(word)))
    }

    /// The columns of a table, view or file; `None` if the name means nothing, or a file that takes
    /// long to open. The standard input is not read for it.
    #[doc(hidden)]
    pub fn columns(&self, schema: Option<&str>, table: &str) -> Result<Option<Vec<KnownColumn>>> {
        if files::is_stdin(table) || files::is_slow_to_open(table) {
            return Ok(None);
        }
        let found =
            self.own.workers.run(&Canceller::default(), self.tables.find_named(schema, table));
        let described = found?.map(|found| {
            found.map(|table| {
                let schema = table.schema();
                let column = |field: &arrow_schema::FieldRef| KnownColumn {
                    name: field.name().clone(),
                    data_type: match DataType::from_field(field) {
                        Some(known) => known.to_string(),
                        None => field.data_type().to_string(),
                    },
                };
                schema.fields().iter().map(column).collect()
            })
        });
        // What was opened for this is not what the next statement means, and its notes are said
        // when a statement reads it.
        self.tables.begin_statement();
        self.tables.take_notes();
        described
    }

    /// All functions that statements may call, in the order of their names.
    #[doc(hidden)]
    pub fn functions(&self) -> Vec<KnownFunction> {
        let state = self.context.state_ref();
        let state = state.read();
        let scalar = state.scalar_functions().iter();
        let scalar = scalar.map(|(name, function)| known(name, function.documentation()));
        let aggregates = state.aggregate_functions().iter();
        let aggregates = aggregates.map(|(name, function)| known(name, function.documentation()));
        let windows = state.window_functions().iter();
        let windows = windows.map(|(name, function)| known(name, function.documentation()));
        let tables = state.table_functions().keys().map(|name| known(name, None));
        let macros = macros::calls().map(|(name, signature, text)| KnownFunction {
            name: name.to_owned(),
            signature: signature.to_owned(),
            description: text.to_owned(),
        });
        let mut all: Vec<KnownFunction> =
            scalar.chain(aggregates).chain(windows).chain(tables).chain(macros).collect();
        // Our own markers in plans are no names that anyone types.
        all.retain(|function| {
            function.name.starts_with(|c: char| c.is_ascii_alphabetic())
                && !function.name.starts_with("sty__")
        });
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all.dedup_by(|a, b| a.name == b.name);
        all
    }
}

/// A function by one of its names.
fn known(name: &str, documentation: Option<&Documentation>) -> KnownFunction {
    let arguments = documentation
        .and_then(|known| Some(&known.syntax_example[known.syntax_example.find('(')?..]))
        .unwrap_or("(…)");
    let description = documentation.map(|known| known.description.trim()).unwrap_or_default();
    KnownFunction {
        name: name.to_owned(),
        signature: format!("{name}{arguments}"),
        description: description.lines().next().unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use datafusion::logical_expr::Volatility;

    use crate::sql::session::{Session, SessionOptions};
    use crate::sql::syntax::volatile;

    #[test]
    fn all_functions_that_vary_are_known() {
        let session = Session::new(&SessionOptions::default()).unwrap();
        let state = session.context.state();
        let varies = |name: &&String| {
            let function = state.scalar_functions().get(*name).unwrap();
            function.signature().volatility == Volatility::Volatile && !name.starts_with("sty__")
        };
        let mut varying: Vec<&String> = state.scalar_functions().keys().filter(varies).collect();
        varying.sort();
        assert_eq!(varying, volatile::NAMES);
    }
}
