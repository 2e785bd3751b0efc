//! What is said of names that mean nothing, with those that may be meant.

use crate::error::Error;
use crate::sql::convert::{listed, suggestion};
use crate::sql::names::SCHEMA;
use crate::sql::names::catalog::Tables;
use crate::sql::names::stored::StoredTables;

impl Tables {
    /// The error that there is no such table, with a similar name as a hint.
    pub(crate) fn missing(&self, name: &str) -> Error {
        let names = self.short_names();
        let near = suggestion(name, names.iter().map(String::as_str));
        let is_own = || self.own.as_ref().is_some_and(|own| own.has(name).unwrap_or(false));
        let is_directory = || name.len() > 1 && std::path::Path::new(name).is_dir();
        let hint = match near {
            _ if !self.refuses_files() && is_directory() => {
                format!("the files of the directory are FROM '{}/'", name.trim_end_matches('/'))
            }
            _ if self.used().is_some() && is_own() => did_you_mean(SCHEMA, name),
            Some(near) => did_you_mean("", near),
            None if let Some(attached) = self.attached_with(name) => did_you_mean(&attached, name),
            None if let Some(nodes) = self.cluster_nodes() => {
                format!("it is on none of the nodes {nodes}")
            }
            None if names.is_empty() && self.store().is_none() => {
                "no store is open, only files are: FROM 'x.csv', FROM stdin".to_owned()
            }
            None if names.is_empty() => {
                "there are no tables; make one with `sty ingest` or CREATE TABLE".to_owned()
            }
            None => format!("there are: {}", listed(names.iter().map(String::as_str))),
        };
        Error::NotFound(format!("no table {name}; {hint}"))
    }

    /// The name of an attached store that has such a table.
    fn attached_with(&self, table: &str) -> Option<String> {
        let has = |stored: &StoredTables| stored.has(table).unwrap_or(false);
        self.attached().into_iter().find(|(_, stored)| has(stored)).map(|(name, _)| name)
    }

    /// The error that there is no such table in an attached store, or no such store.
    pub(crate) fn missing_in(&self, schema: &str, name: &str) -> Error {
        let Some(stored) = self.attached_as(schema) else { return self.not_attached(schema) };
        let names = self.names_of(&stored);
        let hint = match suggestion(name, names.iter().map(String::as_str)) {
            Some(near) => did_you_mean(schema, near),
            None => format!("there are: {}", listed(names.iter().map(String::as_str))),
        };
        Error::NotFound(format!("no table {schema}.{name}; {hint}"))
    }

    /// The error that no store is attached under a name.
    pub(crate) fn not_attached(&self, name: &str) -> Error {
        let attached = self.attached();
        let names = || attached.iter().map(|(name, _)| name.as_str());
        let hint = match suggestion(name, names()) {
            Some(near) => format!("did you mean {near}?"),
            None if attached.is_empty() => format!("ATTACH 'path/of/store' AS {name} attaches one"),
            None => format!("there are: {}", listed(names())),
        };
        Error::NotFound(format!("no store is attached as {name}; {hint}"))
    }
}

/// A hint with a name of a schema.
fn did_you_mean(schema: &str, name: &str) -> String {
    let period = if schema.is_empty() { "" } else { "." };
    match name.to_lowercase() == name {
        true => format!("did you mean {schema}{period}{name}?"),
        false => format!(
            "did you mean {schema}{period}\"{name}\"? Names with upper-case letters go in double \
             quotes"
        ),
    }
}
