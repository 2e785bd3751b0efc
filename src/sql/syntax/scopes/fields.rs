//! Names of three parts and more with that of a table among them, which is not the table that they
//! mean: `r.s.v` where `r` is a table, `s` one of its columns, and `s` another table.
//!
//! DataFusion (55.2) takes `x.s.v` for the column `v` of a table `s` that is named without a
//! schema, whatever `x` is. Here the first part is the schema of the table, or a table itself, or
//! else a column; and what follows a column are its fields, which are written out as `r.s['v']`.

use std::ops::ControlFlow;

use datafusion::execution::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, Ident, Query, Select, Statement as SqlStatement, Subscript, TableAlias,
    TableFactor, TableWithJoins, Value, Visitor, VisitorMut,
};

use crate::sql::syntax::{folded, sql_in, sql_of};
use crate::sql::walks::{visit, visit_mut};

/// The statement with the fields of such columns written out; `None` if it has none.
pub(super) fn written_out(state: &SessionState, statement: &Statement) -> Option<Statement> {
    let catalog = &state.config_options().catalog;
    let own = [catalog.default_catalog.clone(), catalog.default_schema.clone()];
    let sql = sql_in(statement)?;
    let mut found = Found { own: &own, tables: Vec::new(), queries: 0, has_long_names: false };
    let _ = visit(sql, &mut found);
    if !found.has_long_names {
        return None;
    }
    let of_statement = (!matches!(sql, SqlStatement::Query(_))).then_some(found.tables);
    let scopes = of_statement.into_iter().map(Some).collect();
    let mut fields = Fields { own: &own, scopes, has_changed: false };
    let mut changed = statement.clone();
    let _ = visit_mut(sql_of(&mut changed)?, &mut fields);
    fields.has_changed.then_some(changed)
}

/// The parts of a name, if these are more than a table's and a column's.
fn parts_of(expr: &Expr) -> Option<Vec<Ident>> {
    let parts: Vec<Ident> = match expr {
        Expr::CompoundIdentifier(parts) => parts.clone(),
        Expr::CompoundFieldAccess { root, access_chain } => {
            let Expr::Identifier(first) = root.as_ref() else { return None };
            let more = access_chain.iter().map_while(|access| match access {
                AccessExpr::Dot(Expr::Identifier(name)) => Some(name),
                _ => None,
            });
            std::iter::once(first).chain(more).cloned().collect()
        }
        _ => return None,
    };
    (parts.len() > 2).then_some(parts)
}

/// A table of a FROM.
struct Table {
    /// The name by which its columns are qualified.
    name: String,
    /// The catalog and the schema that may stand before it; none if it has an alias.
    path: Vec<String>,
}

impl Table {
    fn new(factor: &TableFactor, own: &[String; 2]) -> Option<Table> {
        let (name, alias) = match factor {
            TableFactor::Table { name, alias, .. } => (Some(name), alias),
            TableFactor::Derived { alias, .. }
            | TableFactor::Function { alias, .. }
            | TableFactor::TableFunction { alias, .. }
            | TableFactor::UNNEST { alias, .. }
            | TableFactor::NestedJoin { alias, .. } => (None, alias),
            _ => return None,
        };
        let parts = name.into_iter().flat_map(|name| &name.0);
        let parts: Option<Vec<String>> = parts.map(|part| part.as_ident().map(folded)).collect();
        let mut path = parts.unwrap_or_default();
        let last = path.pop();
        let name = match (alias, &last) {
            (Some(TableAlias { name, .. }), _) => folded(name),
            (None, Some(last)) => last.clone(),
            (None, None) => return None,
        };
        // A table with its schema has its own name as an alias, from `qualified`.
        let has_path = alias.is_none() || (!path.is_empty() && last.as_ref() == Some(&name));
        let [catalog, schema] = own;
        let path = match (has_path, path.as_slice()) {
            (false, _) => Vec::new(),
            (true, []) => vec![catalog.clone(), schema.clone()],
            (true, [schema]) => vec![catalog.clone(), schema.clone()],
            (true, _) => path,
        };
        Some(Table { name, path })
    }

    /// Whether a name begins with this table and its schema.
    fn is_qualified_in(&self, parts: &[String]) -> bool {
        (1..=2).any(|length| match parts.split_at_checked(length) {
            Some((path, [name, _, ..])) => *name == self.name && self.path.ends_with(path),
            _ => false,
        })
    }
}

/// Adds the tables of a FROM.
fn add_tables(from: &[TableWithJoins], own: &[String; 2], tables: &mut Vec<Table>) {
    for from in from {
        let joined = from.joins.iter().map(|join| &join.relation);
        for factor in std::iter::once(&from.relation).chain(joined) {
            if let TableFactor::NestedJoin { table_with_joins, alias: None } = factor {
                add_tables(std::slice::from_ref(table_with_joins), own, tables);
            }
            tables.extend(Table::new(factor, own));
        }
    }
}

/// What a statement has.
struct Found<'o> {
    own: &'o [String; 2],
    /// Its tables that are in no query of it: those of an UPDATE, say.
    tables: Vec<Table>,
    /// How many queries the walk is in.
    queries: usize,
    has_long_names: bool,
}

impl Visitor for Found<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        if self.queries == 0 {
            self.tables.extend(Table::new(factor, self.own));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.has_long_names |= parts_of(expr).is_some();
        ControlFlow::Continue(())
    }
}

/// Writes fields out.
struct Fields<'o> {
    own: &'o [String; 2],
    /// The tables of each FROM around a place; `None` where those further out are not seen.
    scopes: Vec<Option<Vec<Table>>>,
    has_changed: bool,
}

impl Fields<'_> {
    /// How many parts of a name are a column, whose fields the others are, where DataFusion would
    /// take it for something else.
    fn column_of(&self, parts: &[String]) -> Option<usize> {
        let [first, between @ .., _] = parts else { return None };
        let visible = || self.scopes.iter().rev().map_while(Option::as_ref);
        let is_table = |part: &String| visible().flatten().any(|table| table.name == *part);
        if !between.iter().take(2).any(is_table) {
            return None;
        }
        for tables in visible() {
            if tables.iter().any(|table| table.is_qualified_in(parts)) {
                return None;
            }
            if tables.iter().any(|table| table.name == *first) {
                return Some(2);
            }
        }
        Some(1)
    }
}

/// Writes all parts of a name but the first ones, which are a column, as fields.
fn write_fields(expr: &mut Expr, parts: &[Ident], column: usize) {
    let Some((column, fields)) = parts.split_at_checked(column) else { return };
    let root = match column {
        [column] => Expr::Identifier(column.clone()),
        several => Expr::CompoundIdentifier(several.to_vec()),
    };
    let mut access_chain = Vec::with_capacity(fields.len());
    access_chain.extend(fields.iter().map(|field| {
        let index = Expr::value(Value::SingleQuotedString(folded(field)));
        AccessExpr::Subscript(Subscript::Index { index })
    }));
    if let Expr::CompoundFieldAccess { access_chain: written, .. } = expr {
        access_chain.extend(written.drain(..).skip(parts.len() - 1));
    }
    *expr = Expr::CompoundFieldAccess { root: Box::new(root), access_chain };
}

impl VisitorMut for Fields<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.scopes.push(Some(Vec::new()));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        // Of another SELECT of the query.
        if let Some(of_query) = self.scopes.last_mut() {
            *of_query = Some(Vec::new());
        }
        let mut tables = Vec::new();
        add_tables(&select.from, self.own, &mut tables);
        self.scopes.push(Some(tables));
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<()> {
        // The ORDER BY of the query sees its tables.
        let scope = self.scopes.pop();
        if let (Some(of_query), Some(scope)) = (self.scopes.last_mut(), scope) {
            *of_query = scope;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if matches!(factor, TableFactor::Derived { lateral: false, .. }) {
            self.scopes.push(None);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if matches!(factor, TableFactor::Derived { lateral: false, .. }) {
            self.scopes.pop();
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Some(parts) = parts_of(expr) else { return ControlFlow::Continue(()) };
        let names: Vec<String> = parts.iter().map(folded).collect();
        if let Some(column) = self.column_of(&names) {
            write_fields(expr, &parts, column);
            self.has_changed = true;
        }
        ControlFlow::Continue(())
    }
}
