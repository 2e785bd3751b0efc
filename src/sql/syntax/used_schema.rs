//! `USE o`: names of tables that have no schema are looked up in an attached store.
//!
//! Where this stands on the road of a query: before planning, since it is a statement before this
//! one that says USE. `FROM t` becomes `FROM o.t`, and gets its alias by `qualified`, so that a
//! view or a prepared statement means the same table after the next USE.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    FromTable, Ident, ObjectName, ObjectNamePart, ObjectType, Query, SetExpr, Statement,
    TableFactor, TableObject, TableWithJoins, VisitorMut,
};

use crate::error::{Error, Result};
use crate::sql::syntax::{folded, qualified};
use crate::sql::walks::visit_mut;

/// Gives the tables that a statement reads the name of a schema, if `is_there` finds them in it;
/// also those of the schema `alias`, if the statement has that name for it.
pub(in crate::sql) fn qualify(
    statement: &mut Statement,
    schema: &str,
    alias: Option<&str>,
    is_there: &dyn Fn(&str) -> Result<bool>,
) -> Result<()> {
    let mut names = Names { schema, alias, is_there, around: Vec::new() };
    if let ControlFlow::Break(error) = visit_mut(statement, &mut names) {
        return Err(error);
    }
    if let Statement::ExplainTable { table_name, .. } = statement
        && let Some(name) = alone(table_name)
        && is_there(&name)?
    {
        add_schema(table_name, schema);
    }
    qualified::alias(statement)
}

/// The name of the table or view that a statement makes, writes or drops, if it has no schema.
pub(in crate::sql) fn target(statement: &Statement) -> Option<String> {
    let of_table = |table: &TableWithJoins| match &table.relation {
        TableFactor::Table { name, .. } => alone(name),
        _ => None,
    };
    match statement {
        Statement::Insert(insert) => match &insert.table {
            TableObject::TableName(name) => alone(name),
            _ => None,
        },
        Statement::Update(update) => of_table(&update.table),
        Statement::Delete(delete) => match &delete.from {
            FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from) => {
                from.first().and_then(of_table)
            }
        },
        Statement::CreateTable(create) => alone(&create.name),
        Statement::CreateView(create) => alone(&create.name),
        Statement::Drop { object_type: ObjectType::Table | ObjectType::View, names, .. } => {
            names.iter().find_map(alone)
        }
        Statement::Query(query) => match query.body.as_ref() {
            SetExpr::Select(select) => alone(&select.into.as_ref()?.name),
            _ => None,
        },
        _ => None,
    }
}

/// A name without a schema, as SQL reads it.
fn alone(name: &ObjectName) -> Option<String> {
    match name.0.as_slice() {
        [part] => part.as_ident().map(folded),
        _ => None,
    }
}

struct Names<'a> {
    schema: &'a str,
    alias: Option<&'a str>,
    is_there: &'a dyn Fn(&str) -> Result<bool>,
    /// The queries around a place, the outermost first.
    around: Vec<Around>,
}

/// What a query around a place knows of the queries of its WITH.
#[derive(Default)]
struct Around {
    /// The name under which the query around this one has it in its WITH.
    name: Option<String>,
    known: Vec<String>,
    /// Those that come later, in their order.
    later: VecDeque<String>,
    is_recursive: bool,
}

impl Names<'_> {
    fn is_query(&self, name: &str) -> bool {
        self.around.iter().any(|query| query.known.iter().any(|known| known == name))
    }
}

fn add_schema(name: &mut ObjectName, schema: &str) {
    name.0.insert(0, ObjectNamePart::Identifier(Ident::with_quote('"', schema)));
}

impl VisitorMut for Names<'_> {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        // The queries of a WITH are visited before the others of their query.
        let mut name = None;
        if let Some(around) = self.around.last_mut() {
            name = around.later.pop_front();
            if around.is_recursive {
                around.known.extend(name.clone());
            }
        }
        let with = query.with.as_ref();
        let tables = with.iter().flat_map(|with| &with.cte_tables);
        self.around.push(Around {
            name,
            known: Vec::new(),
            later: tables.map(|table| folded(&table.alias.name)).collect(),
            is_recursive: with.is_some_and(|with| with.recursive),
        });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Error> {
        let done = self.around.pop();
        if let (Some(around), Some(done)) = (self.around.last_mut(), done) {
            around.known.extend(done.name);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<Error> {
        let TableFactor::Table { name, args: None, .. } = table else {
            return ControlFlow::Continue(());
        };
        if let [.., schema, ObjectNamePart::Identifier(_)] = name.0.as_mut_slice()
            && schema.as_ident().is_some_and(|it| Some(folded(it).as_str()) == self.alias)
        {
            *schema = ObjectNamePart::Identifier(Ident::with_quote('"', self.schema));
        }
        let Some(read) = alone(name).filter(|read| !self.is_query(read)) else {
            return ControlFlow::Continue(());
        };
        match (self.is_there)(&read) {
            Ok(true) => add_schema(name, self.schema),
            Ok(false) => {}
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;
    use crate::sql::syntax::dialect::StylobateDialect;

    fn parsed(sql: &str) -> Statement {
        let dialect = StylobateDialect::new(sql.len());
        Parser::parse_sql(&dialect, sql).unwrap().remove(0)
    }

    #[test]
    fn tables_are_those_of_the_schema_unless_they_are_queries() {
        for (sql, expected) in [
            (
                "SELECT t.a FROM t, v, public.u",
                r#"SELECT t.a FROM "o".t AS "t", v, public.u AS "u""#,
            ),
            ("SELECT x.a FROM T AS x", r#"SELECT x.a FROM "o".T AS x"#),
            ("WITH t AS (SELECT 1) SELECT * FROM t", "WITH t AS (SELECT 1) SELECT * FROM t"),
            (
                "WITH t AS (SELECT * FROM t), s AS (SELECT * FROM t) SELECT * FROM s, t",
                "WITH t AS (SELECT * FROM \"o\".t AS \"o_t\"), s AS (SELECT * FROM t) SELECT * \
                 FROM s, t",
            ),
            (
                "WITH RECURSIVE t AS (SELECT 1 UNION SELECT * FROM t) SELECT * FROM t",
                "WITH RECURSIVE t AS (SELECT 1 UNION SELECT * FROM t) SELECT * FROM t",
            ),
            (
                "SELECT (WITH t AS (SELECT 1) SELECT * FROM t) FROM t",
                r#"SELECT (WITH t AS (SELECT 1) SELECT * FROM t) FROM "o".t AS "o_t""#,
            ),
            ("DESCRIBE t", r#"DESCRIBE "o".t"#),
            (
                "INSERT INTO public.t SELECT * FROM t",
                r#"INSERT INTO public.t SELECT * FROM "o".t AS "t""#,
            ),
        ] {
            let mut statement = parsed(sql);
            qualify(&mut statement, "o", None, &|name| Ok(name == "t")).unwrap();
            assert_eq!(statement.to_string(), expected, "{sql}");
        }
        let mut statement = parsed("SELECT 1 FROM public.u, stylobate.public.v, s.w, t");
        qualify(&mut statement, "o", Some("public"), &|name| Ok(name == "t")).unwrap();
        let from = statement.to_string();
        assert!(from.contains(r#"FROM "o".u"#) && from.contains(r#"stylobate."o".v"#), "{from}");
        assert!(from.contains("s.w") && from.contains(r#""o".t"#), "{from}");
    }

    #[test]
    fn what_is_written_is_known() {
        for (sql, expected) in [
            ("INSERT INTO t VALUES (1)", Some("t")),
            ("INSERT INTO public.t VALUES (1)", None),
            ("UPDATE T SET a = 1", Some("t")),
            ("DELETE FROM \"T\" AS x WHERE x.a = 1", Some("T")),
            ("CREATE TABLE t AS SELECT 1", Some("t")),
            ("DROP TABLE IF EXISTS t", Some("t")),
            ("SELECT 1 AS a INTO t", Some("t")),
            ("CREATE VIEW t AS SELECT 1", Some("t")),
            ("DROP VIEW t", Some("t")),
            ("SELECT 1 FROM t", None),
        ] {
            assert_eq!(target(&parsed(sql)).as_deref(), expected, "{sql}");
        }
    }
}
