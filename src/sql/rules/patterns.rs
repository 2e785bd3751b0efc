//! Limits what patterns cost.
//!
//! Where this stands on the road of a query: after the analyzer, for patterns that are written
//! down, and last among the logical rules, for those that are computed. A pattern of LIKE with
//! several wildcards becomes a regex, and the library of regexes takes hundreds of bytes of memory
//! for each of a pattern's while it parses, before its own limit says no.
//!
//! Patterns that come from rows are looked at when they are there: operators of regular expressions
//! become functions, and a pattern of LIKE goes through a function that looks at its length
//! (`functions/patterns.rs`). So do operators whose pattern is a constant that DataFusion (55.2)
//! simplifies wrongly, or one that is not computed yet: the function puts such a pattern right.

use datafusion::common::ScalarValue;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result as DataFusionResult;
use datafusion::functions::regex::regexp_like;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, Like, LogicalPlan, Operator, lit};
use datafusion::optimizer::AnalyzerRule;

use crate::sql::functions::patterns::{
    CHECKED, MAX_BYTES, check_length, checked, in_pieces, is_constant, misread,
};
use crate::sql::walks::{Rewritten, any_expression, rewrite_plan, rewrite_up, rewrite_where};

/// Refuses long patterns in a plan as it is written, and bounds those that come from rows.
#[derive(Debug)]
pub(in crate::sql) struct BoundPatterns;

impl AnalyzerRule for BoundPatterns {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        let plan = refuse_long(plan)?.data;
        if !any_expression(&plan, is_unbounded) {
            return Ok(plan);
        }
        let rewrite = |node| {
            rewrite_where(node, is_unbounded, |expr, _| rewrite_up(expr, |expr| Ok(bounded(expr))))
        };
        Ok(rewrite_plan(plan, rewrite)?.data)
    }

    fn name(&self) -> &'static str {
        "bound_patterns"
    }
}

/// Refuses long patterns in a plan.
pub(in crate::sql) fn refuse_long(plan: LogicalPlan) -> Rewritten<LogicalPlan> {
    if any_expression(&plan, has_long_pattern) {
        check_length(usize::MAX)?;
    }
    Ok(Transformed::no(plan))
}

/// Whether an expression has a pattern that comes from rows, or a regex that is no literal, or one
/// that DataFusion would simplify wrongly.
fn is_unbounded(expr: &Expr) -> bool {
    match expr {
        Expr::Like(Like { pattern, .. }) => !is_constant(pattern) && !is_checked(pattern),
        Expr::BinaryExpr(binary) if is_regex_match(binary.op) => match binary.right.as_ref() {
            Expr::Literal(regex, _) => misread(regex).is_some(),
            _ => true,
        },
        _ => false,
    }
}

fn is_checked(pattern: &Expr) -> bool {
    matches!(pattern, Expr::ScalarFunction(call) if call.func.name() == CHECKED)
}

fn is_regex_match(op: Operator) -> bool {
    use Operator::{RegexIMatch, RegexMatch, RegexNotIMatch, RegexNotMatch};
    matches!(op, RegexMatch | RegexIMatch | RegexNotMatch | RegexNotIMatch)
}

/// The same expression with its pattern bounded, if it is not.
fn bounded(expr: Expr) -> Transformed<Expr> {
    if !is_unbounded(&expr) {
        return Transformed::no(expr);
    }
    Transformed::yes(match expr {
        Expr::Like(like) => {
            let pattern = Box::new(checked().call(vec![*like.pattern]));
            Expr::Like(Like { pattern, ..like })
        }
        Expr::BinaryExpr(binary) => {
            let mut arguments = vec![*binary.left, *binary.right];
            if matches!(binary.op, Operator::RegexIMatch | Operator::RegexNotIMatch) {
                arguments.push(lit("i"));
            }
            let negated = matches!(binary.op, Operator::RegexNotMatch | Operator::RegexNotIMatch);
            let matches = in_pieces(regexp_like()).call(arguments);
            if negated { Expr::Not(Box::new(matches)) } else { matches }
        }
        other => other,
    })
}

fn has_long_pattern(expr: &Expr) -> bool {
    match expr {
        Expr::Like(Like { pattern, .. }) | Expr::SimilarTo(Like { pattern, .. }) => {
            is_long(pattern)
        }
        Expr::BinaryExpr(binary) => is_match(binary.op) && is_long(&binary.right),
        Expr::ScalarFunction(ScalarFunction { func, args }) => {
            func.name().starts_with("regexp_") && args.get(1).is_some_and(is_long)
        }
        _ => false,
    }
}

fn is_match(op: Operator) -> bool {
    use Operator::{ILikeMatch, LikeMatch, NotILikeMatch, NotLikeMatch};
    is_regex_match(op) || matches!(op, LikeMatch | ILikeMatch | NotLikeMatch | NotILikeMatch)
}

/// Whether a pattern is a constant that is too long, whatever its type is cast to.
fn is_long(pattern: &Expr) -> bool {
    match pattern {
        Expr::Literal(value, _) => bytes(value) > MAX_BYTES,
        Expr::Cast(cast) => is_long(&cast.expr),
        Expr::Alias(alias) => is_long(&alias.expr),
        _ => false,
    }
}

fn bytes(value: &ScalarValue) -> usize {
    match value {
        ScalarValue::Utf8(Some(text))
        | ScalarValue::LargeUtf8(Some(text))
        | ScalarValue::Utf8View(Some(text)) => text.len(),
        _ => 0,
    }
}
