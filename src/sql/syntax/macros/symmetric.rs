//! `x BETWEEN SYMMETRIC a AND b`, whose bounds are in either order.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::Expr;

use crate::error::{Error, Result};
use crate::sql::syntax::dialect::SYMMETRIC;
use crate::sql::walks::visit_expressions;

use super::calls::{parsed, substitute};

/// What such a test stands for; `None` if an expression is none.
pub(super) fn expanded(expr: &Expr) -> Result<Option<Expr>> {
    let Expr::Between { expr, negated, low, high } = expr else { return Ok(None) };
    let Expr::Prefixed { prefix, value: low } = low.as_ref() else { return Ok(None) };
    if prefix.value != SYMMETRIC {
        return Ok(None);
    }
    if has_more_parts(expr) || has_more_parts(low) || has_more_parts(high) {
        return Err(Error::LimitExceeded(
            "BETWEEN SYMMETRIC takes all that it compares twice, and that is too much here; \
             compute it in a subquery"
                .into(),
        ));
    }
    let mut either = parsed(match negated {
        true => "(NOT (x BETWEEN a AND b OR x BETWEEN b AND a))",
        false => "(x BETWEEN a AND b OR x BETWEEN b AND a)",
    })?;
    let arguments = [expr, low, high].map(|part| part.as_ref().clone());
    substitute(&mut either, &["x", "a", "b"], &arguments);
    Ok(Some(either))
}

/// The most parts of what is compared: tests within each other double them.
const MOST_PARTS: usize = 1 << 14;

fn has_more_parts(expr: &Expr) -> bool {
    let mut parts = 0;
    let counted = visit_expressions(expr, |_| {
        parts += 1;
        match parts > MOST_PARTS {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    counted.is_break()
}
