//! `ASOF JOIN`: rows with the last one before them, such as trades with the quote that was valid.
//!
//! Where this stands on the road of a query: an analyzer rule, before subqueries are taken out.
//! `syntax::join_words` has written an ASOF JOIN as a plain one, over a right side with a marked
//! condition, so that the types of what is compared are unified as in any other join. Here it
//! becomes a node of its own, through which no rule of DataFusion moves filters.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, JoinType, plan_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Extension, Filter, Join, LogicalPlan, LogicalPlanBuilder,
    Operator, Projection, SubqueryAlias,
};
use datafusion::optimizer::AnalyzerRule;

use crate::sql::run::asof::{AsofNode, Match};
use crate::sql::syntax::marks;
use crate::sql::types::nested_zeros::plus_zero;
use crate::sql::walks::{any_node, has_part, rewrite_plan};

#[derive(Debug)]
pub(in crate::sql) struct AsofJoins;

impl AnalyzerRule for AsofJoins {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        if !any_node(&plan, is_marked) {
            return Ok(plan);
        }
        let rewrite = |node: LogicalPlan| match node {
            LogicalPlan::Join(join) => match without_mark(&join.right)? {
                Some((right, is_using)) => Ok(Transformed::yes(as_node(&join, right, is_using)?)),
                None => Ok(Transformed::no(LogicalPlan::Join(join))),
            },
            other => Ok(Transformed::no(other)),
        };
        let plan = rewrite_plan(plan, rewrite)?.data;
        match any_node(&plan, is_marked) {
            true => plan_err!("an ASOF JOIN cannot stand at this place"),
            false => Ok(plan),
        }
    }

    fn name(&self) -> &'static str {
        "asof_joins"
    }
}

fn is_marked(node: &LogicalPlan) -> bool {
    matches!(node, LogicalPlan::Filter(filter) if marks::asof(&filter.predicate).is_some())
}

/// The right side of an ASOF JOIN without its mark, and whether that is one of USING; `None` if
/// there is none.
fn without_mark(plan: &LogicalPlan) -> DataFusionResult<Option<(LogicalPlan, bool)>> {
    match plan {
        LogicalPlan::Filter(Filter { input, predicate, .. }) => {
            Ok(marks::asof(predicate).map(|is_using| (input.as_ref().clone(), is_using)))
        }
        LogicalPlan::SubqueryAlias(alias) => without_mark(&alias.input)?
            .map(|(input, is_using)| {
                let alias = SubqueryAlias::try_new(Arc::new(input), alias.alias.clone())?;
                Ok((LogicalPlan::SubqueryAlias(alias), is_using))
            })
            .transpose(),
        LogicalPlan::Projection(projection) => without_mark(&projection.input)?
            .map(|(input, is_using)| {
                let exprs = projection.expr.clone();
                let projection = Projection::try_new(exprs, Arc::new(input))?;
                Ok((LogicalPlan::Projection(projection), is_using))
            })
            .transpose(),
        _ => Ok(None),
    }
}

const CONDITIONS: &str = "an ASOF JOIN compares columns of both sides: equal ones, and one by <, \
     <=, > or >=, as in ON a.k = b.k AND a.t >= b.t, or USING (k, t); test other conditions in \
     WHERE, or in a subquery of one side";

fn as_node(join: &Join, right: LogicalPlan, is_using: bool) -> DataFusionResult<LogicalPlan> {
    let Conditions { mut equal, time: (of_left, of_right, which) } =
        Conditions::of(join, is_using)?;
    equal.push((of_left, of_right));
    let (of_left, of_right): (Vec<_>, Vec<_>) = equal.into_iter().unzip();
    let (left, left_columns) = with_columns(join.left.as_ref().clone(), of_left, "left")?;
    let (right, right_columns) = with_columns(right, of_right, "right")?;
    // Nothing is joined with a row whose values are null.
    let known = right_columns.iter().cloned().map(Expr::is_not_null).reduce(Expr::and);
    let mut right = LogicalPlanBuilder::from(right);
    if let Some(known) = known {
        right = right.filter(known)?;
    }
    let compared = left_columns.into_iter().zip(right_columns).collect();
    let is_outer = join.join_type == JoinType::Left;
    let node = AsofNode::new(left, right.build()?, compared, which, is_outer)?;
    let plan = LogicalPlan::Extension(Extension { node: Arc::new(node) });
    // Without the columns that are there to be compared.
    LogicalPlanBuilder::from(plan).project(join.schema.iter().map(Expr::from))?.build()
}

/// What an ASOF JOIN compares, on both sides.
struct Conditions {
    equal: Vec<(Expr, Expr)>,
    time: (Expr, Expr, Match),
}

impl Conditions {
    fn of(join: &Join, is_using: bool) -> DataFusionResult<Conditions> {
        if !matches!(join.join_type, JoinType::Inner | JoinType::Left) {
            return plan_err!("an ASOF JOIN is an inner or a LEFT one");
        }
        let mut equal = join.on.clone();
        let mut times = Vec::new();
        let sides = (join.left.schema().as_ref(), join.right.schema().as_ref());
        for condition in join.filter.iter().flat_map(split_conjunction) {
            let Some((left, op, right)) = comparison(condition, sides) else {
                return plan_err!("{CONDITIONS}");
            };
            match op {
                Operator::Eq => equal.push((left, right)),
                Operator::GtEq => times.push((left, right, Match::NotLater)),
                Operator::Gt => times.push((left, right, Match::Earlier)),
                Operator::LtEq => times.push((left, right, Match::NotEarlier)),
                Operator::Lt => times.push((left, right, Match::Later)),
                _ => return plan_err!("{CONDITIONS}"),
            }
        }
        // The last column of USING is the time.
        if is_using {
            times.extend(equal.pop().map(|(left, right)| (left, right, Match::NotLater)));
        }
        match <[_; 1]>::try_from(times) {
            Ok([time]) => Ok(Conditions { equal, time }),
            Err(_) => plan_err!("{CONDITIONS}"),
        }
    }
}

/// A comparison of a value of the left side with one of the right side.
fn comparison(
    condition: &Expr,
    (left, right): (&DFSchema, &DFSchema),
) -> Option<(Expr, Operator, Expr)> {
    let Expr::BinaryExpr(BinaryExpr { left: first, op, right: second }) = condition else {
        return None;
    };
    let (first, second) = (first.as_ref(), second.as_ref());
    if is_of(first, left) && is_of(second, right) {
        return Some((first.clone(), *op, second.clone()));
    }
    let is_swapped = is_of(first, right) && is_of(second, left);
    is_swapped.then(|| Some((second.clone(), op.swap()?, first.clone()))).flatten()
}

/// Whether an expression has columns, all of one side.
fn is_of(expr: &Expr, side: &DFSchema) -> bool {
    let columns = expr.column_refs();
    let is_other = |part: &Expr| {
        matches!(
            part,
            Expr::OuterReferenceColumn(..)
                | Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
        )
    };
    !columns.is_empty()
        && columns.iter().all(|column| side.has_column(column))
        && !has_part(expr, is_other)
        && !expr.is_volatile()
}

/// A side with these expressions as columns. Both zeros are one.
fn with_columns(
    side: LogicalPlan,
    exprs: Vec<Expr>,
    of: &str,
) -> DataFusionResult<(LogicalPlan, Vec<Expr>)> {
    let schema = Arc::clone(side.schema());
    let mut all: Vec<Expr> = schema.iter().map(Expr::from).collect();
    let mut columns = Vec::with_capacity(exprs.len());
    for expr in exprs {
        let data_type = expr.get_type(&schema)?;
        let is_plain = !data_type.is_floating() && !data_type.is_nested();
        columns.push(match expr {
            Expr::Column(_) if is_plain => expr,
            other => {
                let name = format!("sty__{of}_{}", all.len());
                all.push(plus_zero(other, &schema)?.alias(&name));
                Expr::Column(Column::new_unqualified(name))
            }
        });
    }
    let plan = match all.len() > schema.fields().len() {
        true => LogicalPlanBuilder::from(side).project(all)?.build()?,
        false => side,
    };
    Ok((plan, columns))
}
