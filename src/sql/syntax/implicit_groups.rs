//! LocustDB's dialect: `SELECT a, count(0) FROM t` groups by `a`, and a word in double quotes is a
//! text.
//!
//! Where this stands on the road of a query: just before planning, under `SET sty.dialect =
//! 'locustdb'`.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Ident, Select, SelectItem, Value, VisitorMut,
};
use datafusion::sql::sqlparser::tokenizer::Span;

use crate::sql::syntax::sql_of;
use crate::sql::walks::{visit_expressions, visit_mut};

/// Groups every SELECT with an aggregate by all that is none.
pub(in crate::sql) fn group(statement: &mut Statement, is_aggregate: &dyn Fn(&str) -> bool) {
    if let Some(sql) = sql_of(statement) {
        let _ = visit_mut(sql, &mut Groups { is_aggregate });
    }
}

struct Groups<'a> {
    is_aggregate: &'a dyn Fn(&str) -> bool,
}

impl VisitorMut for Groups<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        // Names of ours have no place in the text.
        if let Expr::Identifier(Ident { value, quote_style: Some('"'), span }) = &*expr
            && *span != Span::empty()
        {
            *expr = Expr::value(Value::SingleQuotedString(value.clone()));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let is_without = matches!(
            &select.group_by,
            GroupByExpr::Expressions(keys, modifiers) if keys.is_empty() && modifiers.is_empty()
        );
        if is_without && select.distinct.is_none() {
            let aggregates: Vec<bool> =
                select.projection.iter().map(|item| self.is_aggregated(item)).collect();
            if aggregates.contains(&true) && aggregates.contains(&false) {
                select.group_by = GroupByExpr::All(Vec::new());
            }
        }
        ControlFlow::Continue(())
    }
}

impl Groups<'_> {
    fn is_aggregated(&self, item: &SelectItem) -> bool {
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
            return false;
        };
        visit_expressions(expr, |part| match part {
            Expr::Function(call)
                if call.over.is_none()
                    && (self.is_aggregate)(&call.name.to_string().to_ascii_lowercase()) =>
            {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        })
        .is_break()
    }
}
