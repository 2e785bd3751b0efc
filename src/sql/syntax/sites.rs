//! Finds SELECTs that can only be written out once the columns of their FROM are known, and queries
//! that tell them.
//!
//! Where this stands on the road of a query: just before planning.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Cte, Ident, ObjectName, Query, Select, SelectFlavor, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableWithJoins, Visitor, VisitorMut, With,
};

use crate::sql::syntax::{sql_in, sql_of};
use crate::sql::walks::{visit, visit_mut};

/// The first SELECT for which a test holds. Those in subqueries come before the one around them.
pub(in crate::sql) struct Site {
    /// How many SELECTs end before it.
    index: usize,
    pub(in crate::sql) select: Box<Select>,
    /// The WITHs around it, as far as they are visible in it, the innermost first.
    withs: Vec<With>,
    /// For each query around it that has not been looked at: how many had ended there.
    ended: Vec<usize>,
}

impl Site {
    /// A query in the place of the SELECT.
    pub(in crate::sql) fn query(&self, body: SetExpr) -> Box<Query> {
        self.withs
            .iter()
            .fold(query(None, body), |inner, with| query(Some(with.clone()), SetExpr::Query(inner)))
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

    /// Adds the WITH of the next query around it: the tables before the one that it is in.
    fn within(&mut self, around: &Query) {
        let (Some(ended), Some(with)) = (self.ended.pop(), &around.with) else { return };
        let visible = ended + usize::from(with.recursive);
        let cte_tables: Vec<Cte> = with.cte_tables.iter().take(visible).cloned().collect();
        if !cte_tables.is_empty() {
            self.withs.push(With { cte_tables, ..with.clone() });
        }
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
        if let Some(found) = &mut self.found
            && found.ended.len() == self.ended.len()
        {
            found.within(around);
        }
        self.ended.pop();
        if let Some(ended) = self.ended.last_mut() {
            *ended += 1;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        if self.found.is_none() && (self.test)(select) {
            self.found = Some(Site {
                index: self.selects,
                select: Box::new(select.clone()),
                withs: Vec::new(),
                ended: self.ended.clone(),
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
