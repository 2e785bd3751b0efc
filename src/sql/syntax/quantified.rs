//! `x = ANY(array)`, and `x <> ALL(array)` of a list that is written out.
//!
//! Where this stands on the road of a query: after parsing. DataFusion (55.2) makes `array_has` of
//! `= ANY`, which is false where no element is equal, although one is null, and null of an empty
//! array and a null. Of a list that is written out, it is `x IN (…)`; of any other array, what
//! corrects this stands beside it, so that an array that is constant is a list of DataFusion's
//! still. `x <> ALL(array)` is planned rightly, but as a CASE: of a list that is written out, `x
//! NOT IN (…)` is plainer.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Array, BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Ident, ObjectName, Value, VisitMut, VisitorMut,
};

use crate::sql::walks::visit_mut;

/// Rewrites such comparisons in an expression, or whatever has some.
pub(in crate::sql) fn as_lists(tree: &mut impl VisitMut) {
    let _ = visit_mut(tree, &mut AsLists);
}

struct AsLists;

impl VisitorMut for AsLists {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let rewritten = match &*expr {
            Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => {
                in_list(left, right, false).or_else(|| with_nulls(expr, right))
            }
            Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } => {
                in_list(left, right, true)
            }
            _ => None,
        };
        if let Some(rewritten) = rewritten {
            *expr = Expr::Nested(Box::new(rewritten));
        }
        ControlFlow::Continue(())
    }
}

/// `(x = ANY(a) OR (array_position(a, NULL) IS NOT NULL AND NULL)) AND cardinality(a) IS DISTINCT
/// FROM 0`.
fn with_nulls(any_equal: &Expr, array: &Expr) -> Option<Expr> {
    use BinaryOperator::{And, Or};
    if matches!(plain(array), Expr::Subquery(_)) {
        return None;
    }
    let value = |value: Value| Expr::Value(value.into());
    let has_null = call("array_position", [array.clone(), value(Value::Null)]);
    let null_if_one = both(Expr::IsNotNull(has_null.into()), And, value(Value::Null));
    let count = call("cardinality", [array.clone()]);
    let not_empty =
        Expr::IsDistinctFrom(count.into(), value(Value::Number("0".into(), false)).into());
    Some(both(both(any_equal.clone(), Or, null_if_one), And, not_empty))
}

fn both(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::Nested(Box::new(Expr::BinaryOp { left: left.into(), op, right: right.into() }))
}

fn call<const N: usize>(name: &str, args: [Expr; N]) -> Expr {
    let args = args.map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))).into();
    let args = FunctionArgumentList { duplicate_treatment: None, args, clauses: Vec::new() };
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(args),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

fn in_list(left: &Expr, array: &Expr, negated: bool) -> Option<Expr> {
    let list = elements(plain(array))?;
    // An empty list is not compared with anything, not even with null.
    (!list.is_empty()).then(|| Expr::InList { expr: left.clone().into(), list, negated })
}

/// The elements of an array that is written out, as `[…]` or by `make_array`.
fn elements(array: &Expr) -> Option<Vec<Expr>> {
    match array {
        Expr::Array(Array { elem, .. }) => Some(elem.clone()),
        Expr::Function(Function { name, args: FunctionArguments::List(list), .. })
            if name.to_string().eq_ignore_ascii_case("make_array") =>
        {
            let element = |arg: &FunctionArg| match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(element)) => Some(element.clone()),
                _ => None,
            };
            list.args.iter().map(element).collect()
        }
        _ => None,
    }
}

fn plain(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => plain(inner),
        other => other,
    }
}
