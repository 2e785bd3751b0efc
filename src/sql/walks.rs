//! Walks over syntax trees, plans and expressions, each compiled once for all its callers.
//!
//! The walks of sqlparser and DataFusion are generic functions, so that every visitor and every
//! closure would get its own code for each kind of node: 100 to 400 KB per visitor. Dozens of such
//! copies made the program a fifth larger, and a short statement mostly waits for code that is not
//! in the caches. Here the visitor is called through a pointer. Our rules walk and rewrite with
//! these functions.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DFSchemaRef};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, Operator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::sql::sqlparser::ast;

/// An expression or plan after a rewrite, and whether it was changed.
pub(super) type Rewritten<T> = DataFusionResult<Transformed<T>>;

/// Hands over each SELECT of a query: its body, or the arms of its set operations, but none of
/// the queries within them.
pub(super) fn for_each_select(body: &mut ast::SetExpr, with: &mut dyn FnMut(&mut ast::Select)) {
    match body {
        ast::SetExpr::Select(select) => with(select),
        ast::SetExpr::SetOperation { left, right, .. } => {
            for_each_select(left, with);
            for_each_select(right, with);
        }
        _ => {}
    }
}

/// Rewrites an expression bottom-up.
pub(super) fn rewrite_up(
    expr: Expr,
    mut rewrite: impl FnMut(Expr) -> Rewritten<Expr>,
) -> Rewritten<Expr> {
    let rewrite: &mut dyn FnMut(Expr) -> Rewritten<Expr> = &mut rewrite;
    expr.transform_up(rewrite)
}

/// Rewrites an expression top-down.
pub(super) fn rewrite_down(
    expr: Expr,
    mut rewrite: impl FnMut(Expr) -> Rewritten<Expr>,
) -> Rewritten<Expr> {
    let rewrite: &mut dyn FnMut(Expr) -> Rewritten<Expr> = &mut rewrite;
    expr.transform_down(rewrite)
}

/// Replaces the columns of a physical expression by others; `None` if a column has no replacement.
pub(super) fn replaced(
    expr: &Arc<dyn PhysicalExpr>,
    replacement: impl Fn(&Column) -> Option<Arc<dyn PhysicalExpr>>,
) -> DataFusionResult<Option<Arc<dyn PhysicalExpr>>> {
    let mut found = true;
    let rewritten = Arc::clone(expr).transform_down(|expr| {
        let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
        match replacement(column) {
            Some(replacement) => Ok(Transformed::new(replacement, true, TreeNodeRecursion::Jump)),
            None => {
                found = false;
                Ok(Transformed::new(expr, false, TreeNodeRecursion::Stop))
            }
        }
    })?;
    Ok(found.then_some(rewritten.data))
}

/// Rewrites the nodes of a plan and of its subqueries, bottom-up.
pub(super) fn rewrite_plan(
    plan: LogicalPlan,
    mut rewrite: impl FnMut(LogicalPlan) -> Rewritten<LogicalPlan>,
) -> Rewritten<LogicalPlan> {
    let rewrite: &mut dyn FnMut(LogicalPlan) -> Rewritten<LogicalPlan> = &mut rewrite;
    plan.transform_up_with_subqueries(rewrite)
}

/// Rewrites the nodes of a plan and of its subqueries, top-down.
pub(super) fn replace_nodes(
    plan: LogicalPlan,
    mut replace: impl FnMut(LogicalPlan) -> Rewritten<LogicalPlan>,
) -> Rewritten<LogicalPlan> {
    let replace: &mut dyn FnMut(LogicalPlan) -> Rewritten<LogicalPlan> = &mut replace;
    plan.transform_down_with_subqueries(replace)
}

/// Rewrites the nodes of a plan without its subqueries, bottom-up.
pub(super) fn rewrite_nodes(
    plan: LogicalPlan,
    mut rewrite: impl FnMut(LogicalPlan) -> Rewritten<LogicalPlan>,
) -> Rewritten<LogicalPlan> {
    let rewrite: &mut dyn FnMut(LogicalPlan) -> Rewritten<LogicalPlan> = &mut rewrite;
    plan.transform_up(rewrite)
}

/// Rewrites the expressions of one node, without descending into them.
pub(super) fn map_expressions(
    node: LogicalPlan,
    mut rewrite: impl FnMut(Expr) -> Rewritten<Expr>,
) -> Rewritten<LogicalPlan> {
    let rewrite: &mut dyn FnMut(Expr) -> Rewritten<Expr> = &mut rewrite;
    node.map_expressions(rewrite)
}

/// Rewrites the direct children of an expression.
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

/// Visits an expression and its parts top-down. Subqueries are not entered.
pub(super) fn visit_parts<'e>(
    expr: &'e Expr,
    mut visit: impl FnMut(&'e Expr) -> TreeNodeRecursion,
) {
    let visit: &mut dyn FnMut(&'e Expr) -> TreeNodeRecursion = &mut visit;
    // A walk fails only where its visitor does.
    let _ = expr.apply(|part| Ok(visit(part)));
}

/// Visits the direct children of an expression.
pub(super) fn visit_children<'e>(expr: &'e Expr, mut visit: impl FnMut(&'e Expr)) {
    let visit: &mut dyn FnMut(&'e Expr) = &mut visit;
    let _ = expr.apply_children(|part| {
        visit(part);
        Ok(TreeNodeRecursion::Continue)
    });
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

/// Whether some expression of a plan and its subqueries has a part that passes a test. Asking is
/// cheaper than rewriting.
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

/// The columns that the expressions of a node can read: those of all its inputs.
pub(super) fn input_schema(node: &LogicalPlan) -> DFSchemaRef {
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

/// Rewrites the expressions of a node if a part of one is a candidate.
pub(super) fn rewrite_where(
    node: LogicalPlan,
    is_candidate: impl Fn(&Expr) -> bool,
    rewrite: impl FnMut(Expr, &DFSchema) -> Rewritten<Expr>,
) -> Rewritten<LogicalPlan> {
    match node_has_part(&node, is_candidate) {
        true => rewrite_expressions(node, rewrite),
        false => Ok(Transformed::no(node)),
    }
}

/// Rewrites the expressions of a node, and keeps their names.
pub(super) fn rewrite_expressions(
    node: LogicalPlan,
    mut rewrite: impl FnMut(Expr, &DFSchema) -> Rewritten<Expr>,
) -> Rewritten<LogicalPlan> {
    let schema = input_schema(&node);
    let names = NamePreserver::new(&node);
    let mut keep_name = |expr: Expr| {
        let name = names.save(&expr);
        Ok(rewrite(expr, &schema)?.update_data(|expr| name.restore(expr)))
    };
    map_expressions(node, |expr| match expr {
        // The keys in a grouping set have names; the set has none.
        Expr::GroupingSet(_) => map_parts(expr, &mut keep_name),
        other => keep_name(other),
    })
}

/// Visits a syntax tree.
pub(super) fn visit<B>(
    tree: &impl ast::Visit,
    visitor: &mut dyn ast::Visitor<Break = B>,
) -> ControlFlow<B> {
    tree.visit(&mut Pointed(visitor))
}

/// Visits a syntax tree, and may change it.
pub(super) fn visit_mut<B>(
    tree: &mut impl ast::VisitMut,
    visitor: &mut dyn ast::VisitorMut<Break = B>,
) -> ControlFlow<B> {
    tree.visit(&mut Pointed(visitor))
}

/// Visits the expressions of a syntax tree top-down, those in subqueries too.
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

/// Visits the expressions of a syntax tree bottom-up, those in subqueries too, and may change them.
pub(super) fn visit_expressions_mut<B>(
    tree: &mut impl ast::VisitMut,
    mut visit_one: impl FnMut(&mut ast::Expr) -> ControlFlow<B>,
) -> ControlFlow<B> {
    let visit_one = &mut visit_one;
    visit_mut(tree, &mut EachExpressionMut { visit_one, in_subqueries: true, depth: 0 })
}

/// Visits the expressions of a syntax tree bottom-up, but not those in subqueries, and may change
/// them.
pub(super) fn visit_outer_expressions_mut<B>(
    tree: &mut impl ast::VisitMut,
    mut visit_one: impl FnMut(&mut ast::Expr) -> ControlFlow<B>,
) -> ControlFlow<B> {
    let visit_one = &mut visit_one;
    visit_mut(tree, &mut EachExpressionMut { visit_one, in_subqueries: false, depth: 0 })
}

struct EachExpressionMut<'v, B> {
    visit_one: &'v mut dyn FnMut(&mut ast::Expr) -> ControlFlow<B>,
    in_subqueries: bool,
    /// How many queries the walk is in.
    depth: usize,
}

impl<B> ast::VisitorMut for EachExpressionMut<'_, B> {
    type Break = B;

    fn pre_visit_query(&mut self, _: &mut ast::Query) -> ControlFlow<B> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut ast::Query) -> ControlFlow<B> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<B> {
        match self.in_subqueries || self.depth == 0 {
            true => (self.visit_one)(expr),
            false => ControlFlow::Continue(()),
        }
    }
}

/// A call in a syntax tree of a function that takes its arguments by position.
pub(super) fn function_call(name: &str, arguments: Vec<ast::Expr>) -> ast::Expr {
    let unnamed = |argument| ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(argument));
    let arguments = ast::FunctionArgumentList {
        duplicate_treatment: None,
        args: arguments.into_iter().map(unnamed).collect(),
        clauses: Vec::new(),
    };
    ast::Expr::Function(ast::Function {
        name: ast::ObjectName::from(vec![ast::Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: ast::FunctionArguments::None,
        args: ast::FunctionArguments::List(arguments),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// A visitor behind a pointer.
struct Pointed<'v, V: ?Sized>(&'v mut V);

/// Passes each node on to the visitor behind the pointer.
macro_rules! pass_on {
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

pass_on! {
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
