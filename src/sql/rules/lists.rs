//! Lists of values that several conditions hold against one expression, united before DataFusion
//! does it wrongly.
//!
//! Where this stands on the road of a query: an analyzer rule, before DataFusion's logical rules.
//! Those (55.2, `expr_simplifier.rs`) make one list of `x IN (…) AND x IN (…)` and the like by
//! comparing the members as expressions. They forget that the result is null where x is (`NOT (x IN
//! (1) AND x IN (2))`), that a list may have a null, and that members which are columns can be
//! equal although they are not the same. Here members that are no constants become comparisons of
//! their own, and lists of constants that meet are united for good.

use datafusion::common::ScalarValue;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator, lit};
use datafusion::optimizer::AnalyzerRule;

use crate::sql::rules::literal_sides::with_one_zero;
use crate::sql::walks::{any_expression, rewrite_down, rewrite_plan, rewrite_where};

/// The rule.
#[derive(Debug)]
pub(in crate::sql) struct UniteLists;

impl AnalyzerRule for UniteLists {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        if !any_expression(&plan, may_be_list) {
            return Ok(plan);
        }
        let rewrite = |node| rewrite_where(node, may_be_list, |expr, _| united(expr));
        Ok(rewrite_plan(plan, rewrite)?.data)
    }

    fn name(&self) -> &'static str {
        "unite_lists"
    }
}

fn may_be_list(expr: &Expr) -> bool {
    matches!(expr, Expr::InList(_) | Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. }))
}

/// An expression in which no two lists meet that DataFusion would unite.
pub(in crate::sql) fn united(expr: Expr) -> DataFusionResult<Transformed<Expr>> {
    rewrite_down(expr, |expr| {
        Ok(match expr {
            Expr::Not(inner) => match *inner {
                Expr::InList(list) => split(InList { negated: !list.negated, ..list }),
                other => Transformed::no(Expr::Not(other.into())),
            },
            Expr::InList(list) => split(list),
            Expr::BinaryExpr(chain) if matches!(chain.op, Operator::And | Operator::Or) => {
                let op = chain.op;
                let parts = flattened(chain).into_iter().map(|part| Ok(united(part)?.data));
                let parts = meet(op, parts.collect::<DataFusionResult<Vec<Expr>>>()?);
                let whole = joined(op, parts).unwrap_or_else(|| lit(op == Operator::And));
                Transformed::new(whole, true, TreeNodeRecursion::Jump)
            }
            other => Transformed::no(other),
        })
    })
}

/// A list of constants, and comparisons with what else was in it.
fn split(list: InList) -> Transformed<Expr> {
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
    let whole = joined(op, parts.collect()).unwrap_or_else(|| lit(negated));
    Transformed::new(whole, true, TreeNodeRecursion::Jump)
}

/// The lists of one expression among the parts of a chain of AND or of OR.
struct Lists {
    expr: Expr,
    /// What it may be; all, where `None`.
    within: Option<Vec<Expr>>,
    /// What it may not be; where `None`, no part says so.
    without: Option<Vec<Expr>>,
    count: usize,
}

/// The parts of a chain, with one list for each expression.
fn meet(op: Operator, parts: Vec<Expr>) -> Vec<Expr> {
    let of = |part| listed(part).filter(|_| op == Operator::And || is_negated_list(part));
    let exprs: Vec<Option<&Expr>> = parts.iter().map(of).collect();
    let meets = |expr: &Expr| exprs.iter().flatten().filter(|known| **known == expr).count() > 1;
    let list = |(part, expr): (&Expr, &Option<&Expr>)| {
        expr.filter(|expr| meets(expr)).and_then(|_| as_list(part)).filter(is_united)
    };
    let lists: Vec<Option<InList>> = parts.iter().zip(&exprs).map(list).collect();
    let mut all: Vec<Lists> = Vec::new();
    for list in lists.iter().flatten() {
        match all.iter_mut().find(|known| known.expr == *list.expr) {
            Some(known) => known.add(op, list.clone()),
            None => {
                let mut lists =
                    Lists { expr: *list.expr.clone(), within: None, without: None, count: 0 };
                lists.add(op, list.clone());
                all.push(lists);
            }
        }
    }
    all.retain(|lists| lists.count > 1);
    if all.is_empty() {
        return parts;
    }
    let met = |list: &InList| all.iter().any(|lists| lists.expr == *list.expr);
    let others = parts.into_iter().zip(lists).filter(|(_, list)| !list.as_ref().is_some_and(met));
    let others: Vec<Expr> = others.map(|(part, _)| part).collect();
    all.into_iter().map(|lists| lists.condition(op)).chain(others).collect()
}

impl Lists {
    fn add(&mut self, op: Operator, list: InList) {
        self.count += 1;
        let members = list.list.into_iter().map(with_one_zero).collect::<Vec<_>>();
        let known = if list.negated { &mut self.without } else { &mut self.within };
        // Of an AND of lists all must hold it, of lists that must not hold it none may; of an OR it
        // is the other way round.
        let common = list.negated == (op == Operator::Or);
        match known {
            None => *known = Some(members),
            Some(known) if common => known.retain(|member| members.contains(member)),
            Some(known) => {
                for member in members {
                    if !known.contains(&member) {
                        known.push(member);
                    }
                }
            }
        }
    }

    fn condition(self, op: Operator) -> Expr {
        let Lists { expr, within, without, .. } = self;
        let list = |list: Vec<Expr>, negated: bool| {
            Expr::InList(InList { expr: expr.clone().into(), list, negated })
        };
        let unknown = || lit(ScalarValue::Boolean(None));
        match (within, without) {
            (Some(within), without) => {
                let without = without.unwrap_or_default();
                let rest: Vec<Expr> =
                    within.into_iter().filter(|member| !without.contains(member)).collect();
                // False, but null for null.
                if rest.is_empty() { expr.is_null().and(unknown()) } else { list(rest, false) }
            }
            (None, Some(without)) if without.is_empty() && op == Operator::Or => {
                expr.is_not_null().or(unknown())
            }
            (None, without) => list(without.unwrap_or_default(), true),
        }
    }
}

/// The expression of a list, or of equalities with constants that DataFusion takes for one.
fn listed(expr: &Expr) -> Option<&Expr> {
    if let Expr::InList(list) = expr {
        return Some(&list.expr);
    }
    let mut members = members(expr);
    let (first, _) = members.next()??;
    members.all(|member| member.is_some_and(|(expr, _)| expr == first)).then_some(first)
}

/// The same as a list.
fn as_list(expr: &Expr) -> Option<InList> {
    if let Expr::InList(list) = expr {
        return Some(list.clone());
    }
    let expr_of = listed(expr)?;
    let list = members(expr).flatten().flat_map(|(_, values)| values.iter().cloned()).collect();
    Some(InList::new(expr_of.clone().into(), list, false))
}

fn is_negated_list(expr: &Expr) -> bool {
    matches!(expr, Expr::InList(list) if list.negated)
}

/// The parts of a chain of OR, each as an expression and constants of which it may be one; `None`
/// for other parts.
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
                        // A column may stand below a cast that is gone later.
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

/// Whether members can be told apart by comparing them.
fn is_united(list: &InList) -> bool {
    let mut kinds = list.list.iter().map(|member| match member {
        Expr::Literal(value, _) if !value.is_null() => Some(value.data_type()),
        _ => None,
    });
    let Some(Some(first)) = kinds.next() else { return false };
    !list.expr.is_volatile() && kinds.all(|kind| kind.as_ref() == Some(&first))
}

/// The parts of a chain of one operator, in their order.
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

fn joined(op: Operator, parts: Vec<Expr>) -> Option<Expr> {
    let join =
        |left: Expr, right: Expr| Expr::BinaryExpr(BinaryExpr::new(left.into(), op, right.into()));
    parts.into_iter().reduce(join)
}
