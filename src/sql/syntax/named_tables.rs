//! The tables that a statement names.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, TableFactor, Visitor};

use crate::sql::syntax::{folded, sql_in};
use crate::sql::walks::visit;

/// A table that a statement names, and the name by which its columns are qualified there.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::sql) struct NamedTable {
    pub(in crate::sql) schema: Option<String>,
    pub(in crate::sql) table: String,
    pub(in crate::sql) qualifier: String,
}

impl NamedTable {
    pub(in crate::sql) fn new(name: &ObjectName, alias: Option<&Ident>) -> Option<NamedTable> {
        let mut parts = name.0.iter().rev().map_while(|part| part.as_ident().map(folded));
        let table = parts.next()?;
        let qualifier = alias.map_or_else(|| table.clone(), folded);
        Some(NamedTable { schema: parts.next(), table, qualifier })
    }
}

/// The tables that a statement names.
pub(in crate::sql) fn named_tables(statement: &Statement) -> Vec<NamedTable> {
    let mut tables = NamedTables(Vec::new());
    if let Some(inner) = sql_in(statement) {
        let _ = visit(inner, &mut tables);
    }
    tables.0
}

struct NamedTables(Vec<NamedTable>);

impl NamedTables {
    fn add(&mut self, name: &ObjectName, alias: Option<&Ident>) {
        let Some(named) = NamedTable::new(name, alias) else { return };
        if !self.0.contains(&named) {
            self.0.push(named);
        }
    }
}

impl Visitor for NamedTables {
    type Break = ();

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        self.add(relation, None);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, alias: Some(alias), .. } = factor {
            self.add(name, Some(&alias.name));
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use datafusion::common::config::Dialect;

    use super::*;
    use crate::sql::syntax::parse;

    #[test]
    fn tables_are_those_of_all_queries() {
        let sql = "SELECT 1 FROM a, O.c, \"B\" AS x WHERE EXISTS (SELECT 1 FROM 'f.csv')";
        let parsed = parse::statements(sql, Dialect::DuckDB, 1 << 30).unwrap().remove(0);
        let tables = named_tables(&parsed.statement);
        let of_schema = |table: &NamedTable| table.schema.as_deref() == Some("o");
        assert!(tables.iter().any(|table| of_schema(table) && table.table == "c"));
        let named = |table: &str, qualifier: &str| NamedTable {
            schema: None,
            table: table.to_owned(),
            qualifier: qualifier.to_owned(),
        };
        for table in [named("a", "a"), named("B", "x"), named("f.csv", "f.csv")] {
            assert!(tables.contains(&table), "{tables:?}");
        }
    }
}
