//! Names of a WITH that a WITH around it has, too.
//!
//! Where this stands on the road of a query: after parsing. In SQL, the inner name hides the outer
//! one; DataFusion (55.2) refuses it ("specified more than once"). Here the inner one gets another
//! name, and is called by its own where it is read.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Ident, ObjectNamePart, Query, Statement, TableAlias, TableFactor, VisitMut, VisitorMut,
};

use crate::sql::syntax::folded;
use crate::sql::walks::visit_mut;

/// Gives such names of a statement others.
pub(in crate::sql) fn rename(statement: &mut Statement) {
    let _ = visit_mut(statement, &mut Shadows::default());
}

#[derive(Default)]
struct Shadows {
    /// The names of each WITH around a place, from the outermost.
    around: Vec<Vec<String>>,
    /// How many have got another name.
    renamed: usize,
}

impl VisitorMut for Shadows {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.around.push(names(query));
        ControlFlow::Continue(())
    }

    /// The queries within this one have no such names any more.
    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.around.pop();
        for (at, name) in names(query).into_iter().enumerate() {
            if !self.around.iter().flatten().any(|outer| *outer == name) {
                continue;
            }
            self.renamed += 1;
            let new = format!("sty__with_{}_{name}", self.renamed);
            let Some(with) = &mut query.with else { continue };
            let recursive = with.recursive;
            if let Some(table) = with.cte_tables.get_mut(at) {
                table.alias.name = Ident::with_quote('"', new.as_str());
            }
            let mut reads = Reads { name, new };
            // Its own query reads the outer one of this name, unless it is recursive.
            for table in with.cte_tables.iter_mut().skip(if recursive { at } else { at + 1 }) {
                reads.rename_in(&mut table.query);
            }
            let with = query.with.take();
            reads.rename_in(query);
            query.with = with;
        }
        ControlFlow::Continue(())
    }
}

fn names(query: &Query) -> Vec<String> {
    let tables = query.with.iter().flat_map(|with| &with.cte_tables);
    tables.map(|table| folded(&table.alias.name)).collect()
}

/// Gives a table another name where it is read.
struct Reads {
    name: String,
    new: String,
}

impl Reads {
    fn rename_in(&mut self, tree: &mut impl VisitMut) {
        let _ = visit_mut(tree, self);
    }
}

impl VisitorMut for Reads {
    type Break = ();

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, alias, args: None, .. } = table
            && let [ObjectNamePart::Identifier(one)] = name.0.as_mut_slice()
            && folded(one) == self.name
        {
            let old = std::mem::replace(one, Ident::with_quote('"', self.new.as_str()));
            alias.get_or_insert_with(|| TableAlias {
                explicit: true,
                name: old,
                columns: Vec::new(),
                at: None,
            });
        }
        ControlFlow::Continue(())
    }
}
