//! Makes inner joins of outer ones whose padded rows are dropped further up.
//!
//! Where this stands on the road of a query: a logical rule after DataFusion's
//! `eliminate_outer_join` (55.2), which looks at a filter directly over a join alone. In
//! `a LEFT JOIN b ON … JOIN c ON b.x = c.x` the second join drops every row that the first has
//! padded, as a null is equal to nothing. An inner join can be reordered, and its keys filter both
//! sides. (Galindo-Legaria and Rosenthal, "Outerjoin simplification and reordering", 1997.)

use std::collections::HashSet;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, JoinType, NullEquality};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Distinct, Expr, Join, LogicalPlan, Operator};

use crate::sql::walks::{Rewritten, any_node, is_comparison};

/// Columns of a plan's output. Rows in which one of them is null are dropped further up.
type Needed = HashSet<Column>;

pub(in crate::sql) fn inner_where_padded_rows_go(plan: LogicalPlan) -> Rewritten<LogicalPlan> {
    let pads = |node: &LogicalPlan| {
        use JoinType::{Full, Left, Right};
        matches!(node, LogicalPlan::Join(join) if matches!(join.join_type, Left | Right | Full))
    };
    match any_node(&plan, pads) {
        true => visit(plan, &Needed::new()),
        false => Ok(Transformed::no(plan)),
    }
}

fn visit(plan: LogicalPlan, needed: &Needed) -> Rewritten<LogicalPlan> {
    let (plan, changed) = match plan {
        LogicalPlan::Join(join) => {
            let join_type = without_padding(&join, needed);
            let changed = join_type != join.join_type;
            (LogicalPlan::Join(Join { join_type, ..join }), changed)
        }
        plan => (plan, false),
    };
    let mut passed = needed_below(&plan, needed).into_iter();
    let below = plan.map_children(|child| visit(child, &passed.next().unwrap_or_default()))?;
    Ok(Transformed { transformed: below.transformed || changed, ..below })
}

/// What a join is if rows with nulls in some columns are dropped.
fn without_padding(join: &Join, needed: &Needed) -> JoinType {
    let (left, right) = (join.left.schema(), join.right.schema());
    let of = |side: &DFSchema, other: &DFSchema| {
        needed.iter().any(|column| side.has_column(column) && !other.has_column(column))
    };
    match (join.join_type, of(left, right), of(right, left)) {
        (JoinType::Left | JoinType::Full, true, true)
        | (JoinType::Left, _, true)
        | (JoinType::Right, true, _) => JoinType::Inner,
        (JoinType::Full, true, false) => JoinType::Left,
        (JoinType::Full, false, true) => JoinType::Right,
        (as_it_was, ..) => as_it_was,
    }
}

/// What is needed of each input of a node; nothing of those that are not listed.
fn needed_below(plan: &LogicalPlan, needed: &Needed) -> Vec<Needed> {
    match plan {
        LogicalPlan::Filter(filter) => {
            let mut below = needed.clone();
            add_tested(&filter.predicate, &mut below);
            vec![below]
        }
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => vec![needed.clone()],
        LogicalPlan::Distinct(Distinct::All(_)) => vec![needed.clone()],
        LogicalPlan::SubqueryAlias(alias) => {
            vec![at_places(needed, plan.schema(), |at| field(alias.input.schema(), at))]
        }
        LogicalPlan::Projection(projection) => {
            let read = |at: usize| projection.expr.get(at).and_then(strict_column);
            vec![at_places(needed, plan.schema(), |at| read(at).cloned())]
        }
        LogicalPlan::Aggregate(aggregate) => {
            let sets = aggregate.group_expr.iter().any(|key| matches!(key, Expr::GroupingSet(_)));
            let key = |at: usize| aggregate.group_expr.get(at).and_then(strict_column);
            vec![at_places(needed, plan.schema(), |at| key(at).filter(|_| !sets).cloned())]
        }
        LogicalPlan::Union(union) => union
            .inputs
            .iter()
            .map(|input| at_places(needed, plan.schema(), |at| field(input.schema(), at)))
            .collect(),
        LogicalPlan::Join(join) => needed_by_join(join, needed),
        _ => Vec::new(),
    }
}

/// Rows without a partner may be dropped before, on the sides that keep none.
fn needed_by_join(join: &Join, needed: &Needed) -> Vec<Needed> {
    use JoinType::{Inner, Left, LeftSemi, Right, RightSemi};
    let mut tested = Needed::new();
    if join.null_equality == NullEquality::NullEqualsNothing {
        let keys = join.on.iter().flat_map(|(left, right)| [left, right]);
        tested.extend(keys.filter_map(strict_column).cloned());
    }
    if let Some(filter) = &join.filter {
        add_tested(filter, &mut tested);
    }
    let side = |schema: &DFSchema, other: &DFSchema, kept: bool, drops: bool| {
        let from = |column: &&Column| schema.has_column(column) && !other.has_column(column);
        let above = needed.iter().filter(from).filter(|_| kept);
        let here = tested.iter().filter(from).filter(|_| drops);
        above.chain(here).cloned().collect()
    };
    let (left, right) = (join.left.schema(), join.right.schema());
    // Which sides' columns come out unpadded, and whose rows without a partner do not.
    let (of_left, of_right) = match join.join_type {
        Inner => ((true, true), (true, true)),
        Left => ((true, false), (false, true)),
        Right => ((false, true), (true, false)),
        LeftSemi => ((true, true), (false, true)),
        RightSemi => ((false, true), (true, true)),
        _ => return Vec::new(),
    };
    vec![side(left, right, of_left.0, of_left.1), side(right, left, of_right.0, of_right.1)]
}

/// Adds the columns that are not null in any row which passes a condition.
fn add_tested(condition: &Expr, needed: &mut Needed) {
    for part in split_conjunction(condition) {
        match part {
            Expr::BinaryExpr(binary) if is_strict(binary.op) => {
                let sides = [&*binary.left, &*binary.right];
                needed.extend(sides.into_iter().filter_map(strict_column).cloned());
            }
            Expr::IsNotNull(tested) => needed.extend(strict_column(tested).cloned()),
            _ => {}
        }
    }
}

/// Whether a comparison with null is null.
fn is_strict(op: Operator) -> bool {
    is_comparison(op) && !matches!(op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom)
}

/// The column by whose nulls an expression is null.
fn strict_column(expr: &Expr) -> Option<&Column> {
    match expr {
        Expr::Column(column) => Some(column),
        Expr::Alias(alias) => strict_column(&alias.expr),
        Expr::Cast(cast) => strict_column(&cast.expr),
        _ => None,
    }
}

/// The columns below from which those that are needed come.
fn at_places(
    needed: &Needed,
    schema: &DFSchema,
    below: impl Fn(usize) -> Option<Column>,
) -> Needed {
    let places = needed.iter().filter_map(|column| schema.maybe_index_of_column(column));
    places.filter_map(below).collect()
}

fn field(schema: &DFSchema, at: usize) -> Option<Column> {
    (at < schema.fields().len()).then(|| Column::from(schema.qualified_field(at)))
}
