//! Names that functions have in other databases: `mod(a, b)` is `a % b`, `sign` is `signum`,
//! `every` is `bool_and`, `grouping_id` is `grouping`, `strlen`, which counts bytes, is
//! `octet_length`, and `localtimestamp` is `now()` without a zone. The order of values that are
//! collected may stand behind the call, too.
//! Nulls are left out of lists that are joined: DataFusion (55.2) refuses a null without a type
//! there.
//!
//! Where this stands on the road of a query: after parsing.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentClause, FunctionArguments, Ident, ObjectName, ObjectNamePart, TimezoneInfo,
    Value, VisitMut,
};

use crate::sql::walks::{function_call, visit_expressions_mut};

/// Translates function names to DataFusion's, in an expression or in anything that contains
/// expressions.
pub(in crate::sql) fn translate(tree: &mut impl VisitMut) {
    let _ = visit_expressions_mut(tree, |expr| {
        translate_one(expr);
        ControlFlow::<()>::Continue(())
    });
}

fn translate_one(expr: &mut Expr) {
    let Expr::Function(function) = expr else { return };
    let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else { return };
    if ["array_agg", "group_concat", "list", "listagg", "string_agg"]
        .iter()
        .any(|collecting| name.value.eq_ignore_ascii_case(collecting))
    {
        order_within_parentheses(function);
        return;
    }
    match name.value.to_ascii_lowercase().as_str() {
        "grouping_id" => function.name = object_name("grouping"),
        "sign" => function.name = object_name("signum"),
        "localtimestamp" if matches!(function.args, FunctionArguments::None) => {
            *expr = local_timestamp();
        }
        "json_extract_path" => function.name = object_name("json_get_json"),
        "json_extract_path_text" => function.name = object_name("json_as_text"),
        "strlen" => function.name = object_name("octet_length"),
        "array_cat" | "array_concat" | "list_cat" | "list_concat" => leave_nulls_out(function),
        "every" => function.name = object_name("bool_and"),
        "mod" => {
            if let Some(remainder) = remainder(function) {
                *expr = remainder;
            }
        }
        _ => {}
    }
}

/// `now()` on the wall clock.
fn local_timestamp() -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(function_call("now", Vec::new())),
        data_type: DataType::Timestamp(None, TimezoneInfo::None),
        array: false,
        format: None,
    }
}

/// `list_concat([1], NULL)` is `list_concat([1])`.
fn leave_nulls_out(function: &mut Function) {
    let FunctionArguments::List(list) = &mut function.args else { return };
    let is_null = |argument: &FunctionArg| {
        matches!(argument, FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))
            if value.value == Value::Null)
    };
    if !list.args.iter().all(is_null) {
        list.args.retain(|argument| !is_null(argument));
    }
}

/// `listagg(s, ',') WITHIN GROUP (ORDER BY s)` is `listagg(s, ',' ORDER BY s)`.
fn order_within_parentheses(function: &mut Function) {
    if let FunctionArguments::List(list) = &mut function.args
        && !function.within_group.is_empty()
    {
        let order = std::mem::take(&mut function.within_group);
        list.clauses.push(FunctionArgumentClause::OrderBy(order));
    }
}

fn object_name(name: &str) -> ObjectName {
    ObjectName::from(vec![Ident::new(name)])
}

/// `((a) % (b))` for two arguments.
fn remainder(function: &Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let [
        FunctionArg::Unnamed(FunctionArgExpr::Expr(left)),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(right)),
    ] = list.args.as_slice()
    else {
        return None;
    };
    let nested = |expr: &Expr| Box::new(Expr::Nested(Box::new(expr.clone())));
    let remainder =
        Expr::BinaryOp { left: nested(left), op: BinaryOperator::Modulo, right: nested(right) };
    Some(Expr::Nested(Box::new(remainder)))
}
