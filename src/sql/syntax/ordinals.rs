//! `GROUP BY ROLLUP (1, 2)`: numbers in ROLLUP, CUBE and GROUPING SETS are positions in the SELECT
//! list, as in a plain GROUP BY.
//!
//! Where this stands on the road of a query: after parsing. DataFusion (55.2) takes them for
//! constants.

use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Select, SelectItem, Value, ValueWithSpan,
};

/// Replaces positions with the selected expressions.
pub(in crate::sql) fn resolve(select: &mut Select) {
    let GroupByExpr::Expressions(keys, _) = &mut select.group_by else { return };
    for key in keys {
        let (Expr::Rollup(sets) | Expr::Cube(sets) | Expr::GroupingSets(sets)) = key else {
            continue;
        };
        for part in sets.iter_mut().flatten() {
            if let Some(selected) =
                number(part).and_then(|number| selected(&select.projection, number))
            {
                *part = selected;
            }
        }
    }
}

fn number(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) => digits.parse().ok(),
        _ => None,
    }
}

/// The expression at a position, which is known if there is no `*` before it.
fn selected(items: &[SelectItem], number: usize) -> Option<Expr> {
    let before = items.get(..number)?;
    let expressions = before.iter().map(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    });
    expressions.collect::<Option<Vec<_>>>()?.last().map(|expr| (*expr).clone())
}
