//! Tables with the name of their schema, such as `o.trips` of an attached store, get an alias.
//!
//! Where this stands on the road of a query: after parsing, once the columns of the answer have
//! their names. DataFusion (55.2) takes `trips.id` for the first column of `o.trips` as well as of
//! `trips`, so that `FROM o.trips JOIN trips ON o.trips.id = trips.id` compared a column with
//! itself. Here `o.trips` is `o.trips AS trips`, or `o.trips AS o_trips` where the statement gives
//! the other name to something else, too; and `o.trips.id` is the column of that alias. Then
//! `trips.id` means the table that is written `trips`; in a FROM that has only `o.trips`, it means
//! that, unless the name may also be that of a `trips` around it, which is an error.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, Query,
    Select, SelectItem, SelectItemQualifiedWildcardKind, Statement, TableAlias, TableFactor,
    TableWithJoins, Visitor, VisitorMut,
};
use datafusion::sql::sqlparser::tokenizer::Span;

use crate::error::{Error, Result};
use crate::sql::syntax::folded;
use crate::sql::walks::{visit, visit_mut};

/// The schema whose tables keep their names.
const INFORMATION_SCHEMA: &str = "information_schema";

/// Gives such tables their aliases.
pub(in crate::sql) fn alias(statement: &mut Statement) -> Result<()> {
    // The table that is changed keeps its name.
    let changes = matches!(statement, Statement::Update(_) | Statement::Delete(_));
    let mut found = Found { changes, ..Found::default() };
    let _ = visit(statement, &mut found);
    if found.qualified.is_empty() {
        return Ok(());
    }
    let aliased = found.aliased();
    let scopes = vec![Some(found.target.into_iter().collect())];
    match visit_mut(statement, &mut Aliases { changes, aliased, scopes }) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// The parts of a name as SQL reads them.
fn parts(name: &ObjectName) -> Option<Vec<String>> {
    name.0.iter().map(|part| part.as_ident().map(folded)).collect()
}

/// The parts of the name of a table that has no alias.
fn unaliased(table: &TableFactor) -> Option<Vec<String>> {
    match table {
        TableFactor::Table { name, alias: None, args: None, .. } => parts(name),
        _ => None,
    }
}

/// Whether a name has a schema, which is not that of the catalog.
fn is_qualified(parts: &[String]) -> bool {
    matches!(parts, [.., schema, _] if schema != INFORMATION_SCHEMA)
}

/// Whether DataFusion takes an alias as it is: it parses its text once more, as a name.
fn is_plain(name: &str) -> bool {
    plain(name) == name && !name.starts_with(|first: char| first.is_ascii_digit())
}

/// The name in characters of which that holds.
fn plain(name: &str) -> String {
    let replaced = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    name.chars().map(replaced).collect()
}

/// The tables of a statement.
#[derive(Default)]
struct Found {
    /// Whether the first table is that which is changed; then its name.
    changes: bool,
    target: Option<String>,
    /// Those with a schema and without an alias, by the parts of their names.
    qualified: Vec<Vec<String>>,
    /// The names of others, and of queries.
    others: Vec<String>,
}

impl Found {
    /// The tables with a schema, and the alias of each.
    fn aliased(&self) -> Vec<(Vec<String>, String)> {
        let mut aliased: Vec<(Vec<String>, String)> = Vec::with_capacity(self.qualified.len());
        for name in &self.qualified {
            let last = name.last().cloned().unwrap_or_default();
            let alike = self.qualified.iter().filter(|other| other.last() == Some(&last)).count();
            let alias = match alike > 1 || self.others.contains(&last) || !is_plain(&last) {
                true => {
                    let mut alias = plain(&name.join("_"));
                    if !is_plain(&alias) {
                        alias.insert(0, '_');
                    }
                    while self.others.contains(&alias)
                        || self.qualified.iter().any(|name| name.last() == Some(&alias))
                        || aliased.iter().any(|(_, other)| *other == alias)
                    {
                        alias.push('_');
                    }
                    alias
                }
                false => last,
            };
            aliased.push((name.clone(), alias));
        }
        aliased
    }
}

impl Visitor for Found {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let named = query.with.iter().flat_map(|with| &with.cte_tables);
        self.others.extend(named.map(|named| folded(&named.alias.name)));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<()> {
        if std::mem::take(&mut self.changes) {
            self.target = name_of(table);
            self.others.extend(self.target.clone());
            return ControlFlow::Continue(());
        }
        match unaliased(table) {
            Some(name) if is_qualified(&name) => {
                if !self.qualified.contains(&name) {
                    self.qualified.push(name);
                }
            }
            _ => self.others.extend(name_of(table)),
        }
        ControlFlow::Continue(())
    }
}

/// The name by which the columns of a table are qualified.
fn name_of(table: &TableFactor) -> Option<String> {
    match table {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. }
        | TableFactor::TableFunction { alias: Some(alias), .. }
        | TableFactor::UNNEST { alias: Some(alias), .. }
        | TableFactor::NestedJoin { alias: Some(alias), .. } => Some(folded(&alias.name)),
        TableFactor::Table { name, .. } => name.0.last()?.as_ident().map(folded),
        _ => None,
    }
}

/// Writes aliases in the places of names.
struct Aliases {
    /// Whether the first table is that which is changed.
    changes: bool,
    /// The tables with a schema, and the alias of each.
    aliased: Vec<(Vec<String>, String)>,
    /// The names of the tables of each FROM around a place; `None` where those further out are not
    /// seen.
    scopes: Vec<Option<Vec<String>>>,
}

impl Aliases {
    fn alias_of(&self, table: &TableFactor) -> Option<&String> {
        let name = unaliased(table)?;
        self.aliased.iter().find(|(known, _)| *known == name).map(|(_, alias)| alias)
    }

    /// Adds the names of the tables of a FROM.
    fn add_names(&self, from: &[TableWithJoins], names: &mut Vec<String>) {
        for from in from {
            let joined = from.joins.iter().map(|join| &join.relation);
            for table in std::iter::once(&from.relation).chain(joined) {
                if let TableFactor::NestedJoin { table_with_joins, alias: None } = table {
                    self.add_names(std::slice::from_ref(table_with_joins), names);
                }
                names.extend(self.alias_of(table).cloned().or_else(|| name_of(table)));
            }
        }
    }

    /// The alias that is meant by a table's name alone, if that is another name.
    fn meant(&self, table: &str) -> Result<Option<String>> {
        let has_name = |(name, alias): &&(Vec<String>, String)| {
            alias != table && name.last().is_some_and(|last| last == table)
        };
        let alike: Vec<&(Vec<String>, String)> = self.aliased.iter().filter(has_name).collect();
        let seen = self.scopes.iter().rev().map_while(Option::as_ref);
        let mut meant: Option<&(Vec<String>, String)> = None;
        for names in seen.filter(|_| !alike.is_empty()) {
            let is_here = names.iter().any(|name| name == table);
            let mut others = alike.iter().copied().filter(|(_, alias)| names.contains(alias));
            match (meant, is_here, others.next(), others.next()) {
                (None, true, ..) => return Ok(None),
                (None, false, Some(one), None) => meant = Some(one),
                (None, false, Some((name, _)), Some(_)) | (Some((name, _)), true, ..) => {
                    let shown = name.join(".");
                    return Err(Error::InvalidInput(format!(
                        "{table} may be {shown} or another {table} here; write {shown}, or give one \
                         of them another name: FROM {shown} AS x"
                    )));
                }
                _ => {}
            }
        }
        Ok(meant.map(|(_, alias)| alias.clone()))
    }

    /// Replaces the name of a table, with its schema or without, at the start of a name that has
    /// `more` parts after it at least.
    fn replace(&self, name: &mut Vec<Ident>, more: usize) -> Result<()> {
        let folded: Vec<String> = name.iter().map(folded).collect();
        let at_start = |(known, _): &&(Vec<String>, String)| {
            known.len() + more <= folded.len() && folded.starts_with(known)
        };
        let (parts, alias) = match (self.aliased.iter().find(at_start), folded.first()) {
            (Some((known, alias)), _) => (known.len(), alias.clone()),
            (None, Some(first)) if folded.len() > more => match self.meant(first)? {
                Some(alias) => (1, alias),
                None => return Ok(()),
            },
            _ => return Ok(()),
        };
        let span = name.first().map_or(Span::empty(), |first| first.span);
        name.splice(..parts, [Ident { value: alias, quote_style: Some('"'), span }]);
        Ok(())
    }

    /// The same for the table of a `*`.
    fn replace_table(&self, name: &mut ObjectName) -> Result<()> {
        let idents = name.0.iter().map(|part| part.as_ident().cloned());
        let Some(mut idents) = idents.collect::<Option<Vec<Ident>>>() else { return Ok(()) };
        self.replace(&mut idents, 0)?;
        *name = ObjectName::from(idents);
        Ok(())
    }
}

/// What a visitor does after a step.
fn after(done: Result<()>) -> ControlFlow<Error> {
    done.map_or_else(ControlFlow::Break, ControlFlow::Continue)
}

impl VisitorMut for Aliases {
    type Break = Error;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<Error> {
        self.scopes.push(Some(Vec::new()));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Error> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        // Of another SELECT of the query.
        if let Some(of_query) = self.scopes.last_mut() {
            *of_query = Some(Vec::new());
        }
        let mut names = Vec::new();
        self.add_names(&select.from, &mut names);
        self.scopes.push(Some(names));
        after(select.projection.iter_mut().try_for_each(|item| match item {
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                self.replace_table(name)
            }
            _ => Ok(()),
        }))
    }

    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<Error> {
        // The ORDER BY of the query sees its tables.
        let scope = self.scopes.pop();
        if let (Some(of_query), Some(scope)) = (self.scopes.last_mut(), scope) {
            *of_query = scope;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<Error> {
        if std::mem::take(&mut self.changes) {
            return ControlFlow::Continue(());
        }
        let given = self.alias_of(table).cloned();
        match (table, given) {
            (TableFactor::Derived { lateral: false, .. }, _) => self.scopes.push(None),
            (TableFactor::Table { alias, .. }, Some(given)) => {
                let name = Ident::with_quote('"', given);
                *alias = Some(TableAlias { explicit: true, name, columns: vec![], at: None });
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<Error> {
        if matches!(table, TableFactor::Derived { lateral: false, .. }) {
            self.scopes.pop();
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        after(match expr {
            Expr::CompoundIdentifier(name) => self.replace(name, 1),
            Expr::QualifiedWildcard(name, _) => self.replace_table(name),
            Expr::Function(Function { args: FunctionArguments::List(list), .. }) => {
                list.args.iter_mut().try_for_each(|argument| match argument {
                    FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(name)) => {
                        self.replace_table(name)
                    }
                    _ => Ok(()),
                })
            }
            _ => Ok(()),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;
    use crate::sql::syntax::dialect::StylobateDialect;

    fn aliased(sql: &str) -> Result<String> {
        let dialect = StylobateDialect::new(sql.len());
        let mut statement = Parser::parse_sql(&dialect, sql).unwrap().remove(0);
        alias(&mut statement)?;
        Ok(statement.to_string())
    }

    #[test]
    fn tables_of_schemas_get_aliases() {
        for (sql, expected) in [
            ("SELECT t.a FROM t", "SELECT t.a FROM t"),
            (
                "SELECT O.T.a, t.b, o.t.*, count(o.t.*) FROM o.t ORDER BY o.t.c",
                r#"SELECT "t".a, t.b, "t".*, count("t".*) FROM o.t AS "t" ORDER BY "t".c"#,
            ),
            ("SELECT o.t.a FROM o.t AS x", "SELECT o.t.a FROM o.t AS x"),
            (
                "SELECT o.t.a, t.a FROM o.t JOIN t ON o.t.id = t.id",
                r#"SELECT "o_t".a, t.a FROM o.t AS "o_t" JOIN t ON "o_t".id = t.id"#,
            ),
            ("SELECT p.t.a FROM o.t, p.t", r#"SELECT "p_t".a FROM o.t AS "o_t", p.t AS "p_t""#),
            (
                "WITH t AS (SELECT t.a FROM o.t) SELECT t.a FROM t",
                r#"WITH t AS (SELECT "o_t".a FROM o.t AS "o_t") SELECT t.a FROM t"#,
            ),
            (
                "SELECT 1 FROM t JOIN (SELECT t.a FROM o.t ORDER BY t.b) x ON 1",
                r#"SELECT 1 FROM t JOIN (SELECT "o_t".a FROM o.t AS "o_t" ORDER BY "o_t".b) x ON 1"#,
            ),
            (
                "SELECT t.a FROM t UNION SELECT t.a FROM o.t ORDER BY a",
                r#"SELECT t.a FROM t UNION SELECT "o_t".a FROM o.t AS "o_t" ORDER BY a"#,
            ),
            (
                "SELECT 1 FROM t WHERE EXISTS (SELECT 1 FROM o.t, u WHERE o.t.id = 1)",
                r#"SELECT 1 FROM t WHERE EXISTS (SELECT 1 FROM o.t AS "o_t", u WHERE "o_t".id = 1)"#,
            ),
            (
                "UPDATE t SET a = o.t.a FROM o.t WHERE o.t.id = t.id",
                r#"UPDATE t SET a = "o_t".a FROM o.t AS "o_t" WHERE "o_t".id = t.id"#,
            ),
            (
                "DELETE FROM public.t WHERE public.t.a = 1",
                "DELETE FROM public.t WHERE public.t.a = 1",
            ),
            (
                "SELECT tables.a FROM information_schema.tables",
                "SELECT tables.a FROM information_schema.tables",
            ),
        ] {
            assert_eq!(aliased(sql).unwrap(), expected, "{sql}");
        }
    }

    #[test]
    fn what_may_be_two_tables_is_refused() {
        for sql in [
            "DELETE FROM t WHERE EXISTS (SELECT 1 FROM o.t WHERE o.t.id = t.id)",
            "SELECT 1 FROM t WHERE EXISTS (SELECT 1 FROM o.t WHERE o.t.id = t.id)",
            "SELECT t.a FROM o.t, p.t",
        ] {
            let error = aliased(sql).unwrap_err().to_string();
            assert!(error.contains("t may be o.t or another t here"), "{sql}: {error}");
        }
    }
}
