//! Walks over syntax trees, plans and expressions, each compiled once for all its callers.
//!
//! sqlparser and DataFusion write their walks as generic functions, so every visitor and every
//! closure would get code of its own for each kind of node: a hundred to four hundred kilobytes a
//! visitor. Dozens of such copies made the program a fifth larger, and a short statement mostly
//! waits for code that is not in the caches. Here the visitor is called through a pointer. Rules of
//! ours walk with these functions, and rewrite what they find with them.

use std::ops::ControlFlow;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DFSchemaRef};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, Operator};
use datafusion::sql::sqlparser::ast;

/// A changed expression or plan, and whether it was changed.
pub(super) type Rewritten<T> = DataFusionResult<Transformed<T>>;

/// Rewrites an expression, its parts before itself.
pub(super) fn rewrite_up(
    expr: Expr,
    mut rewrite: impl FnMut(Expr) -> Rewritten<Expr>,
) -> Rewritten<Expr> {
    let rewrite: &mut dyn FnMut(Expr) -> Rewritten<Expr> = &mut rewrite;
    expr.transform_up(rewrite)
}

/// Rewrites an expression, itself before its parts.
pub(super) fn rewrite_down(
    expr: Expr,
    mut rewrite: impl FnMut(Expr) -> Rewritten<Expr>,
) -> Rewritten<Expr> {
    let rewrite: &mut dyn FnMut(Expr) -> Rewritten<Expr> = &mut rewrite;
    expr.transform_down(rewrite)
}

/// Rewrites the nodes of a plan and of its subqueries, inputs before what reads them.
pub(super) fn rewrite_plan(
    plan: LogicalPlan,
    mut rewrite: impl FnMut(LogicalPlan) -> Rewritten<LogicalPlan>,
) -> Rewritten<LogicalPlan> {
    let rewrite: &mut dyn FnMut(LogicalPlan) -> Rewritten<LogicalPlan> = &mut rewrite;
    plan.transform_up_with_subqueries(rewrite)
}

/// Rewrites the nodes of a plan without its subqueries, inputs before what reads them.
pub(super) fn rewrite_nodes(
    plan: LogicalPlan,
    mut rewrite: impl FnMut(LogicalPlan) -> Rewritten<LogicalPlan>,
) -> Rewritten<LogicalPlan> {
    let rewrite: &mut dyn FnMut(LogicalPlan) -> Rewritten<LogicalPlan> = &mut rewrite;
    plan.transform_up(rewrite)
}

/// Rewrites the expressions of one node, of each the outermost part alone.
pub(super) fn map_expressions(
    node: LogicalPlan,
    mut rewrite: impl FnMut(Expr) -> Rewritten<Expr>,
) -> Rewritten<LogicalPlan> {
    let rewrite: &mut dyn FnMut(Expr) -> Rewritten<Expr> = &mut rewrite;
    node.map_expressions(rewrite)
}

/// Rewrites what an expression is directly made of.
pub(super) fn map_parts(
    expr: Expr,
    mut rewrite: impl FnMut(Expr) -> Rewritten<Expr>,
) -> Rewritten<Expr> {
    let rewrite: &mut dyn FnMut(Expr) -> Rewritten<Expr> = &mut rewrite;
    expr.map_children(rewrite)
}

/// Whether an expression or a part of it passes a test. Subqueries are not entered.
pub(super) fn has_part(expr: &Expr, test: impl Fn(&Expr) -> bool) -> bool {
    let mut found = false;
    visit_parts(expr, |part| {
        found = test(part);
        if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue }
    });
    found
}

/// Visits an expression and its parts, itself before its parts. Subqueries are not entered.
pub(super) fn visit_parts<'e>(
    expr: &'e Expr,
    mut visit: impl FnMut(&'e Expr) -> TreeNodeRecursion,
) {
    let visit: &mut dyn FnMut(&'e Expr) -> TreeNodeRecursion = &mut visit;
    // A walk fails only where its visitor does.
    let _ = expr.apply(|part| Ok(visit(part)));
}

/// Whether an expression of a node, or a part of one, passes a test.
pub(super) fn node_has_part(node: &LogicalPlan, test: impl Fn(&Expr) -> bool) -> bool {
    let test: &dyn Fn(&Expr) -> bool = &test;
    let mut found = false;
    let _ = node.apply_expressions(|expr| {
        found = has_part(expr, test);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found
}

/// Whether some expression of a plan and its subqueries has a part that passes a test: to ask is
/// cheaper than to rewrite.
pub(super) fn any_expression(plan: &LogicalPlan, test: impl Fn(&Expr) -> bool) -> bool {
    let test: &dyn Fn(&Expr) -> bool = &test;
    any_node(plan, |node| node_has_part(node, test))
}

/// Whether some node of a plan and its subqueries passes a test.
pub(super) fn any_node(plan: &LogicalPlan, test: impl Fn(&LogicalPlan) -> bool) -> bool {
    let test: &dyn Fn(&LogicalPlan) -> bool = &test;
    let mut found = false;
    let _ = plan.apply_with_subqueries(|node| {
        found = test(node);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found
}

/// Whether an operator compares two values.
pub(super) fn is_comparison(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// The columns that the expressions of a node read: those of all its inputs.
fn columns_below(node: &LogicalPlan) -> DFSchemaRef {
    match node.inputs().as_slice() {
        [] => DFSchemaRef::new(DFSchema::empty()),
        [input] => DFSchemaRef::clone(input.schema()),
        [first, others @ ..] => {
            let mut schema = first.schema().as_ref().clone();
            others.iter().for_each(|input| schema.merge(input.schema()));
            schema.into()
        }
    }
}

/// A node with its expressions rewritten if a part of one is of concern; any other is left as it
/// is.
pub(super) fn rewrite_where(
    node: LogicalPlan,
    concerns: impl Fn(&Expr) -> bool,
    rewrite: impl FnMut(Expr, &DFSchema) -> Rewritten<Expr>,
) -> Rewritten<LogicalPlan> {
    match node_has_part(&node, concerns) {
        true => rewrite_expressions(node, rewrite),
        false => Ok(Transformed::no(node)),
    }
}

/// A node with its expressions rewritten, each under the name that it had.
pub(super) fn rewrite_expressions(
    node: LogicalPlan,
    mut rewrite: impl FnMut(Expr, &DFSchema) -> Rewritten<Expr>,
) -> Rewritten<LogicalPlan> {
    let schema = columns_below(&node);
    let names = NamePreserver::new(&node);
    let mut under_its_name = |expr: Expr| {
        let name = names.save(&expr);
        Ok(rewrite(expr, &schema)?.update_data(|expr| name.restore(expr)))
    };
    map_expressions(node, |expr| match expr {
        // Keys have names, a set of them has none.
        Expr::GroupingSet(_) => map_parts(expr, &mut under_its_name),
        other => under_its_name(other),
    })
}

/// Visits a syntax tree.
pub(super) fn visit<B>(
    tree: &impl ast::Visit,
    visitor: &mut dyn ast::Visitor<Break = B>,
) -> ControlFlow<B> {
    tree.visit(&mut Pointed(visitor))
}

/// Visits a syntax tree and may change it.
pub(super) fn visit_mut<B>(
    tree: &mut impl ast::VisitMut,
    visitor: &mut dyn ast::VisitorMut<Break = B>,
) -> ControlFlow<B> {
    tree.visit(&mut Pointed(visitor))
}

/// Visits the expressions of a syntax tree, those in subqueries too, each before its parts.
pub(super) fn visit_expressions<B>(
    tree: &impl ast::Visit,
    mut visit_one: impl FnMut(&ast::Expr) -> ControlFlow<B>,
) -> ControlFlow<B> {
    visit(tree, &mut EachExpression(&mut visit_one))
}

struct EachExpression<'v, B>(&'v mut dyn FnMut(&ast::Expr) -> ControlFlow<B>);

impl<B> ast::Visitor for EachExpression<'_, B> {
    type Break = B;

    fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<B> {
        (self.0)(expr)
    }
}

/// A visitor behind a pointer.
struct Pointed<'v, V: ?Sized>(&'v mut V);

/// Hands each node to the visitor behind the pointer.
macro_rules! hand_over {
    ($($method:ident($node:ty)),* $(,)?) => {
        impl<B> ast::Visitor for Pointed<'_, dyn ast::Visitor<Break = B> + '_> {
            type Break = B;
            $(fn $method(&mut self, node: &$node) -> ControlFlow<B> {
                self.0.$method(node)
            })*
        }
        impl<B> ast::VisitorMut for Pointed<'_, dyn ast::VisitorMut<Break = B> + '_> {
            type Break = B;
            $(fn $method(&mut self, node: &mut $node) -> ControlFlow<B> {
                self.0.$method(node)
            })*
        }
    };
}

hand_over! {
    pre_visit_query(ast::Query),
    post_visit_query(ast::Query),
    pre_visit_select(ast::Select),
    post_visit_select(ast::Select),
    pre_visit_relation(ast::ObjectName),
    post_visit_relation(ast::ObjectName),
    pre_visit_table_factor(ast::TableFactor),
    post_visit_table_factor(ast::TableFactor),
    pre_visit_expr(ast::Expr),
    post_visit_expr(ast::Expr),
    pre_visit_statement(ast::Statement),
    post_visit_statement(ast::Statement),
    pre_visit_value(ast::ValueWithSpan),
    post_visit_value(ast::ValueWithSpan),
}
