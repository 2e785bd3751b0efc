//! Unites the IN lists that several conditions hold against one expression, before DataFusion does
//! it wrongly.
//!
//! Where this stands on the road of a query: an analyzer rule, before DataFusion's logical rules.
//! Those (55.2, `expr_simplifier.rs`) make one list of `x IN (…) AND x IN (…)` and the like by
//! comparing the members as expressions. They forget that the result is null where x is null (`NOT
//! (x IN (1) AND x IN (2))`), that a list may contain a null, and that two different columns in a
//! list can have equal values. Here, members that are not constants become comparisons of their
//! own, and lists of constants over one expression are united correctly.
//!
//! Many inequalities of one expression become a list, too: DataFusion compares each with all others.

use std::collections::HashMap;

use datafusion::common::ScalarValue;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator, lit};
use datafusion::optimizer::AnalyzerRule;
use indexmap::{IndexMap, IndexSet};

use crate::sql::rules::literal_sides::with_one_zero;
use crate::sql::syntax::chains::joined;
use crate::sql::walks::{any_expression, rewrite_down, rewrite_plan, rewrite_where};

/// So many inequalities of one expression stay as they are.
const MANY: usize = 16;

#[derive(Debug)]
pub(in crate::sql) struct UniteLists;

impl AnalyzerRule for UniteLists {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        if !any_expression(&plan, may_be_list) {
            return Ok(plan);
        }
        let rewrite = |node| rewrite_where(node, may_be_list, |expr, _| unite(expr));
        Ok(rewrite_plan(plan, rewrite)?.data)
    }

    fn name(&self) -> &'static str {
        "unite_lists"
    }
}

fn may_be_list(expr: &Expr) -> bool {
    use Operator::{NotEq, Or};
    matches!(expr, Expr::InList(_) | Expr::BinaryExpr(BinaryExpr { op: Or | NotEq, .. }))
}

/// Unites lists in an expression until it has none left that DataFusion would unite.
pub(in crate::sql) fn unite(expr: Expr) -> DataFusionResult<Transformed<Expr>> {
    rewrite_down(expr, |expr| {
        Ok(match expr {
            Expr::Not(inner) => match *inner {
                Expr::InList(list) => split_list(InList { negated: !list.negated, ..list }),
                other => Transformed::no(Expr::Not(other.into())),
            },
            Expr::InList(list) => split_list(list),
            Expr::BinaryExpr(chain) if matches!(chain.op, Operator::And | Operator::Or) => {
                let op = chain.op;
                let parts = flattened(chain).into_iter().map(|part| Ok(unite(part)?.data));
                let parts = unite_lists(op, parts.collect::<DataFusionResult<Vec<Expr>>>()?);
                let whole = combined(op, parts).unwrap_or_else(|| lit(op == Operator::And));
                Transformed::new(whole, true, TreeNodeRecursion::Jump)
            }
            other => Transformed::no(other),
        })
    })
}

/// Splits a list into a list of its constants and comparisons with its other members.
fn split_list(list: InList) -> Transformed<Expr> {
    let is_constant = |member: &Expr| matches!(member, Expr::Literal(value, _) if !value.is_null());
    if list.list.iter().all(is_constant)
        || list.expr.is_volatile()
        || list.list.iter().any(Expr::is_volatile)
    {
        return Transformed::no(Expr::InList(list));
    }
    let InList { expr, list, negated } = list;
    let (constants, others): (Vec<Expr>, Vec<Expr>) = list.into_iter().partition(is_constant);
    let compare = |member: Expr| match member {
        Expr::Literal(value, _) if value.is_null() => lit(ScalarValue::Boolean(None)),
        member if negated => expr.as_ref().clone().not_eq(member),
        member => expr.as_ref().clone().eq(member),
    };
    let constants = (!constants.is_empty())
        .then(|| Expr::InList(InList { expr: expr.clone(), list: constants, negated }));
    let parts = constants.into_iter().chain(others.into_iter().map(compare));
    let op = if negated { Operator::And } else { Operator::Or };
    let whole = combined(op, parts.collect()).unwrap_or_else(|| lit(negated));
    Transformed::new(whole, true, TreeNodeRecursion::Jump)
}

/// The lists over one expression in a chain of AND or of OR.
#[derive(Default)]
struct ExprLists {
    /// The values that the expression may have; `None` means any.
    allowed: Option<IndexSet<Expr>>,
    /// The values that it may not have; `None` if no part of the chain excludes any.
    excluded: Option<IndexSet<Expr>>,
    count: usize,
}

/// Unites the lists among the parts of a chain, so that each expression has one list, at the place
/// of the first: what is before it may keep it from failing.
fn unite_lists(op: Operator, parts: Vec<Expr>) -> Vec<Expr> {
    let parts = if op == Operator::And { with_many_excluded(parts) } else { parts };
    let subject_of =
        |part| list_subject(part).filter(|_| op == Operator::And || is_negated_list(part));
    let exprs: Vec<Option<&Expr>> = parts.iter().map(subject_of).collect();
    let mut counts: HashMap<&Expr, usize> = HashMap::new();
    exprs.iter().flatten().for_each(|expr| *counts.entry(expr).or_default() += 1);
    let list = |(part, expr): (&Expr, &Option<&Expr>)| {
        expr.filter(|expr| counts.get(expr).is_some_and(|count| *count > 1))
            .and_then(|_| as_list(part))
            .filter(has_comparable_members)
    };
    let lists: Vec<Option<InList>> = parts.iter().zip(&exprs).map(list).collect();
    let mut all: IndexMap<Expr, ExprLists> = IndexMap::new();
    for list in lists.iter().flatten() {
        all.entry((*list.expr).clone()).or_default().add(op, list.clone());
    }
    all.retain(|_, lists| lists.count > 1);
    if all.is_empty() {
        return parts;
    }
    let mut united: HashMap<Expr, Option<ExprLists>> =
        all.into_iter().map(|(expr, lists)| (expr, Some(lists))).collect();
    let kept = |(part, list): (Expr, Option<InList>)| match list
        .and_then(|list| Some((united.get_mut(&*list.expr)?.take(), *list.expr)))
    {
        Some((lists, expr)) => lists.map(|lists| lists.condition(expr, op)),
        None => Some(part),
    };
    parts.into_iter().zip(lists).filter_map(kept).collect()
}

/// Makes lists of one member of the parts `x <> constant` if there are many for the same `x`.
fn with_many_excluded(parts: Vec<Expr>) -> Vec<Expr> {
    if parts.len() <= MANY {
        return parts;
    }
    let mut counts: HashMap<&Expr, usize> = HashMap::new();
    let subjects = parts.iter().filter_map(excluded);
    subjects.for_each(|(expr, _)| *counts.entry(expr).or_default() += 1);
    let list = |part: &Expr| {
        let (expr, value) = excluded(part).filter(|(expr, _)| counts.get(expr) > Some(&MANY))?;
        Some(Expr::InList(InList::new(expr.clone().into(), vec![value.clone()], true)))
    };
    let lists: Vec<Option<Expr>> = parts.iter().map(list).collect();
    parts.into_iter().zip(lists).map(|(part, list)| list.unwrap_or(part)).collect()
}

/// The expression and the constant that it must not equal.
fn excluded(expr: &Expr) -> Option<(&Expr, &Expr)> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::NotEq, right }) = expr else {
        return None;
    };
    match (left.as_ref(), right.as_ref()) {
        (Expr::Literal(..), Expr::Literal(..)) => None,
        (expr, value @ Expr::Literal(scalar, _)) | (value @ Expr::Literal(scalar, _), expr) => {
            (!scalar.is_null()).then_some((expr, value))
        }
        _ => None,
    }
}

impl ExprLists {
    fn add(&mut self, op: Operator, list: InList) {
        self.count += 1;
        let members: IndexSet<Expr> = list.list.into_iter().map(with_one_zero).collect();
        let known = if list.negated { &mut self.excluded } else { &mut self.allowed };
        // In an AND, IN lists are intersected and NOT IN lists are united; in an OR it is the other
        // way round.
        let common = list.negated == (op == Operator::Or);
        match known {
            None => *known = Some(members),
            Some(known) if common => known.retain(|member| members.contains(member)),
            Some(known) => known.extend(members),
        }
    }

    /// What the lists say of the expression together.
    fn condition(self, expr: Expr, op: Operator) -> Expr {
        let ExprLists { allowed, excluded, .. } = self;
        let list = |members: IndexSet<Expr>, negated: bool| {
            let list = members.into_iter().collect();
            Expr::InList(InList { expr: expr.clone().into(), list, negated })
        };
        let unknown = || lit(ScalarValue::Boolean(None));
        match (allowed, excluded) {
            (Some(allowed), excluded) => {
                let excluded = excluded.unwrap_or_default();
                let mut rest = allowed;
                rest.retain(|member| !excluded.contains(member));
                // False, but null where the expression is null.
                if rest.is_empty() { expr.is_null().and(unknown()) } else { list(rest, false) }
            }
            (None, Some(excluded)) if excluded.is_empty() && op == Operator::Or => {
                expr.is_not_null().or(unknown())
            }
            (None, excluded) => list(excluded.unwrap_or_default(), true),
        }
    }
}

/// The expression that a list tests, or a chain of equalities with constants, which DataFusion
/// takes for a list.
fn list_subject(expr: &Expr) -> Option<&Expr> {
    if let Expr::InList(list) = expr {
        return Some(&list.expr);
    }
    let mut members = members(expr);
    let (first, _) = members.next()??;
    members.all(|member| member.is_some_and(|(expr, _)| expr == first)).then_some(first)
}

/// The list, or the chain of equalities as a list.
fn as_list(expr: &Expr) -> Option<InList> {
    if let Expr::InList(list) = expr {
        return Some(list.clone());
    }
    let subject = list_subject(expr)?;
    let list = members(expr).flatten().flat_map(|(_, values)| values.iter().cloned()).collect();
    Some(InList::new(subject.clone().into(), list, false))
}

fn is_negated_list(expr: &Expr) -> bool {
    matches!(expr, Expr::InList(list) if list.negated)
}

/// The parts of a chain of OR, each as an expression and the constants that it is compared with;
/// `None` for parts of other kinds.
fn members(expr: &Expr) -> impl Iterator<Item = Option<(&Expr, &[Expr])>> {
    let mut left = vec![expr];
    std::iter::from_fn(move || {
        loop {
            match left.pop()? {
                Expr::BinaryExpr(chain) if chain.op == Operator::Or => {
                    left.extend([&*chain.right, &*chain.left])
                }
                Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
                    return Some(match (left.as_ref(), right.as_ref()) {
                        (Expr::Literal(..), Expr::Literal(..)) => None,
                        // A column may be below a cast that is removed later.
                        (expr, value @ Expr::Literal(..)) | (value @ Expr::Literal(..), expr) => {
                            Some((expr, std::slice::from_ref(value)))
                        }
                        _ => None,
                    });
                }
                Expr::InList(list) if !list.negated => return Some(Some((&list.expr, &list.list))),
                _ => return Some(None),
            }
        }
    })
}

/// Whether the members are constants of one type, which comparing them can tell apart.
fn has_comparable_members(list: &InList) -> bool {
    let mut kinds = list.list.iter().map(|member| match member {
        Expr::Literal(value, _) if !value.is_null() => Some(value.data_type()),
        _ => None,
    });
    let Some(Some(first)) = kinds.next() else { return false };
    !list.expr.is_volatile() && kinds.all(|kind| kind.as_ref() == Some(&first))
}

/// The parts of a chain of one operator, in order.
fn flattened(chain: BinaryExpr) -> Vec<Expr> {
    let op = chain.op;
    let (mut parts, mut left) = (Vec::new(), vec![Expr::BinaryExpr(chain)]);
    while let Some(next) = left.pop() {
        match next {
            Expr::BinaryExpr(chain) if chain.op == op => left.extend([*chain.right, *chain.left]),
            other => parts.push(other),
        }
    }
    parts
}

/// The parts as one condition, in order. Long chains are joined in pairs, as in `syntax::chains`.
fn combined(op: Operator, parts: Vec<Expr>) -> Option<Expr> {
    let join =
        |left: Expr, right: Expr| Expr::BinaryExpr(BinaryExpr::new(left.into(), op, right.into()));
    joined(parts, &join)
}
