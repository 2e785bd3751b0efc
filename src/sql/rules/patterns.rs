//! Limits how long patterns are.
//!
//! Where this stands on the road of a query: after the analyzer, for patterns that are written
//! down, and last among the logical rules, for those that are computed. A pattern of LIKE with
//! several wildcards becomes a regex, and the library of regexes takes hundreds of bytes of memory
//! for each of a pattern's while it parses, before its own limit says no.

use datafusion::common::ScalarValue;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, Like, LogicalPlan, Operator};
use datafusion::optimizer::AnalyzerRule;

use crate::error::Error;
use crate::sql::walks::{Rewritten, any_expression};

/// The most bytes of a pattern.
const MAX_BYTES: usize = 64 << 10;

/// Refuses long patterns in a plan as it is written.
#[derive(Debug)]
pub(in crate::sql) struct RefuseLongPatterns;

impl AnalyzerRule for RefuseLongPatterns {
    fn analyze(
        &self,
        plan: LogicalPlan,
        _: &ConfigOptions,
    ) -> datafusion::error::Result<LogicalPlan> {
        Ok(refuse_long(plan)?.data)
    }

    fn name(&self) -> &'static str {
        "refuse_long_patterns"
    }
}

/// Refuses long patterns in a plan.
pub(in crate::sql) fn refuse_long(plan: LogicalPlan) -> Rewritten<LogicalPlan> {
    if any_expression(&plan, has_long_pattern) {
        let what = format!(
            "a pattern of LIKE, SIMILAR TO or a regular expression has more than {MAX_BYTES} \
             bytes; values to compare with can be a list (IN) or rows of a table"
        );
        return Err(Error::LimitExceeded(what).into());
    }
    Ok(Transformed::no(plan))
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
    use Operator::{
        ILikeMatch, LikeMatch, NotILikeMatch, NotLikeMatch, RegexIMatch, RegexMatch,
        RegexNotIMatch, RegexNotMatch,
    };
    matches!(op, RegexMatch | RegexIMatch | RegexNotMatch | RegexNotIMatch | LikeMatch | ILikeMatch)
        || matches!(op, NotLikeMatch | NotILikeMatch)
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
