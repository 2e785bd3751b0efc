//! Finds SELECTs that can only be written out once the columns of their FROM are known, and queries
//! that tell them; and queries that are ordered by all of their columns.
//!
//! Where this stands on the road of a query: just before planning.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Cte, Expr, Ident, ObjectName, OrderBy, OrderByExpr, OrderByKind, OrderByOptions, Query, Select,
    SelectFlavor, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableWithJoins, Value,
    Visitor, VisitorMut, With,
};

use crate::sql::syntax::{sql_in, sql_of};
use crate::sql::walks::{visit, visit_mut};

/// The first SELECT for which a test holds. Those in subqueries come before the one around them.
pub(in crate::sql) struct Site {
    /// How many SELECTs end before it.
    index: usize,
    pub(in crate::sql) select: Box<Select>,
    around: Around,
}

/// The first query with ORDER BY ALL. Those in subqueries come before the one around them.
pub(in crate::sql) struct Ordered {
    /// How many queries end before it.
    pub(in crate::sql) index: usize,
    /// What it orders, in a query of its own.
    pub(in crate::sql) rows: Box<Query>,
    /// Whether that is a SELECT.
    pub(in crate::sql) is_select: bool,
    options: OrderByOptions,
}

/// What is visible at a place of a statement.
struct Around {
    /// The WITHs around it, as far as they are visible in it, the innermost first.
    withs: Vec<With>,
    /// For each query around it that has not been looked at: how many had ended there.
    ended: Vec<usize>,
}

impl Around {
    /// A query in that place.
    fn query(&self, body: SetExpr) -> Box<Query> {
        self.withs
            .iter()
            .fold(query(None, body), |inner, with| query(Some(with.clone()), SetExpr::Query(inner)))
    }

    /// Adds the WITH of the next query around it: the tables before the one that it is in.
    fn within(&mut self, around: &Query) {
        let (Some(ended), Some(with)) = (self.ended.pop(), &around.with) else { return };
        let visible = ended + usize::from(with.recursive);
        let cte_tables: Vec<Cte> = with.cte_tables.iter().take(visible).cloned().collect();
        if !cte_tables.is_empty() {
            self.withs.push(With { cte_tables, ..with.clone() });
        }
    }
}

impl Ordered {
    /// Orders the query in its statement by this many columns.
    pub(in crate::sql) fn by_columns(&self, statement: &mut Statement, columns: usize) {
        let order = by_positions(columns, self.options);
        if let Some(sql) = sql_of(statement) {
            let _ = visit_mut(sql, &mut Order { index: self.index, queries: 0, order });
        }
    }
}

/// An ORDER BY of this many columns, by their positions.
pub(in crate::sql) fn by_positions(columns: usize, options: OrderByOptions) -> OrderByKind {
    let key = |position: usize| OrderByExpr {
        expr: Expr::value(Value::Number(position.to_string(), false)),
        options,
        with_fill: None,
    };
    OrderByKind::Expressions((1..=columns).map(key).collect())
}

impl Site {
    /// A query in the place of the SELECT.
    pub(in crate::sql) fn query(&self, body: SetExpr) -> Box<Query> {
        self.around.query(body)
    }

    /// `SELECT *` from what the SELECT selects from.
    pub(in crate::sql) fn all_columns(&self) -> Box<Query> {
        self.query(SetExpr::Select(Box::new(all_of(&self.select, self.select.from.clone()))))
    }

    /// `SELECT t.*` from the same.
    pub(in crate::sql) fn columns_of(&self, table: &Ident) -> Box<Query> {
        let name = ObjectName::from(vec![table.clone()]);
        let kind = SelectItemQualifiedWildcardKind::ObjectName(name);
        let all = SelectItem::QualifiedWildcard(kind, Default::default());
        let select = plain(&self.select, vec![all], self.select.from.clone());
        self.query(SetExpr::Select(Box::new(select)))
    }

    /// Changes the SELECT in its statement.
    pub(in crate::sql) fn change(
        &self,
        statement: &mut Statement,
        change: &mut dyn FnMut(&mut Select),
    ) {
        if let Some(sql) = sql_of(statement) {
            let _ = visit_mut(sql, &mut Change { index: self.index, selects: 0, change });
        }
    }
}

/// Finds the first SELECT for which a test holds.
pub(in crate::sql) fn find(statement: &Statement, test: &dyn Fn(&Select) -> bool) -> Option<Site> {
    let mut search = Search { test, selects: 0, ended: Vec::new(), found: None };
    let _ = visit(sql_in(statement)?, &mut search);
    search.found
}

/// Finds the first query with ORDER BY ALL, from a number of queries on.
pub(in crate::sql) fn find_ordered(statement: &Statement, from: usize) -> Option<Ordered> {
    let mut search = SearchOrdered { from, queries: 0, ended: Vec::new(), found: None };
    let _ = visit(sql_in(statement)?, &mut search);
    let (index, body, options, around) = search.found?;
    let is_select = body.as_select().is_some();
    Some(Ordered { index, rows: around.query(body), is_select, options })
}

struct SearchOrdered {
    from: usize,
    queries: usize,
    ended: Vec<usize>,
    /// Its number, what it orders and how, and what is visible there.
    found: Option<(usize, SetExpr, OrderByOptions, Around)>,
}

impl Visitor for SearchOrdered {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.ended.push(0);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, ordered: &Query) -> ControlFlow<()> {
        if self.found.is_none()
            && self.queries >= self.from
            && let Some(OrderBy { kind: OrderByKind::All(options), .. }) = &ordered.order_by
        {
            let around = Around { withs: Vec::new(), ended: self.ended.clone() };
            self.found = Some((self.queries, ordered.body.as_ref().clone(), *options, around));
        }
        self.queries += 1;
        let around = self.found.as_mut().map(|(.., around)| around);
        leave(ordered, &mut self.ended, around);
        ControlFlow::Continue(())
    }
}

/// A query has been looked at, and something may have been found in it.
fn leave(query: &Query, ended: &mut Vec<usize>, found: Option<&mut Around>) {
    if let Some(found) = found
        && found.ended.len() == ended.len()
    {
        found.within(query);
    }
    ended.pop();
    if let Some(ended) = ended.last_mut() {
        *ended += 1;
    }
}

struct Search<'t> {
    test: &'t dyn Fn(&Select) -> bool,
    selects: usize,
    ended: Vec<usize>,
    found: Option<Site>,
}

impl Visitor for Search<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.ended.push(0);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, around: &Query) -> ControlFlow<()> {
        leave(around, &mut self.ended, self.found.as_mut().map(|found| &mut found.around));
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        if self.found.is_none() && (self.test)(select) {
            self.found = Some(Site {
                index: self.selects,
                select: Box::new(select.clone()),
                around: Around { withs: Vec::new(), ended: self.ended.clone() },
            });
        }
        self.selects += 1;
        ControlFlow::Continue(())
    }
}

struct Change<'c> {
    index: usize,
    selects: usize,
    change: &'c mut dyn FnMut(&mut Select),
}

impl VisitorMut for Change<'_> {
    type Break = ();

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if self.selects == self.index {
            (self.change)(select);
            return ControlFlow::Break(());
        }
        self.selects += 1;
        ControlFlow::Continue(())
    }
}

/// Gives a query another order.
struct Order {
    index: usize,
    queries: usize,
    order: OrderByKind,
}

impl VisitorMut for Order {
    type Break = ();

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if self.queries == self.index
            && let Some(order) = &mut query.order_by
        {
            order.kind = self.order.clone();
            return ControlFlow::Break(());
        }
        self.queries += 1;
        ControlFlow::Continue(())
    }
}

/// A SELECT of all columns of a FROM.
pub(in crate::sql) fn all_of(select: &Select, from: Vec<TableWithJoins>) -> Select {
    plain(select, vec![SelectItem::Wildcard(Default::default())], from)
}

/// A SELECT of these columns, and nothing else.
pub(in crate::sql) fn plain(
    like: &Select,
    projection: Vec<SelectItem>,
    from: Vec<TableWithJoins>,
) -> Select {
    use datafusion::sql::sqlparser::ast::GroupByExpr;
    Select {
        distinct: None,
        projection,
        exclude: None,
        into: None,
        from,
        selection: None,
        group_by: GroupByExpr::Expressions(Vec::new(), Vec::new()),
        having: None,
        named_window: Vec::new(),
        qualify: None,
        flavor: SelectFlavor::Standard,
        ..like.clone()
    }
}

/// A query of this body.
pub(in crate::sql) fn query(with: Option<With>, body: SetExpr) -> Box<Query> {
    Box::new(Query {
        with,
        body: Box::new(body),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    })
}
