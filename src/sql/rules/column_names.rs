//! Names for the columns of rewritten plans.

use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::common::TableReference;
use datafusion::logical_expr::Expr;

/// A name that no statement uses.
pub(in crate::sql) fn unique_name(what: &str) -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    format!("__{what}_{}", NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// Gives an expression an alias, unless it has that name already.
pub(in crate::sql) fn with_name(
    expr: Expr,
    qualifier: Option<&TableReference>,
    name: &str,
) -> Expr {
    match &expr {
        Expr::Column(column) if column.relation.as_ref() == qualifier && column.name == name => {
            expr
        }
        Expr::Alias(alias) if alias.relation.as_ref() == qualifier && alias.name == name => expr,
        _ => expr.alias_qualified(qualifier.cloned(), name),
    }
}
