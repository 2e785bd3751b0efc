//! Calls that make JSON texts. `json_group_array(x)` is made of `array_agg`, with the text of each
//! value; and a value of which the statement says that it is JSON becomes one with a mark: the
//! functions of `functions::json_out` mark what they return, but operators and CASE do not.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgOperator,
    FunctionArguments, SelectItem, SetExpr, Value,
};

use super::calls::{parsed, substitute};
use crate::error::{Error, Result};
use crate::sql::walks::function_call;

/// The aggregates: a list of values, and an object.
const LISTS: [&str; 3] = ["json_group_array", "json_agg", "jsonb_agg"];
const OBJECTS: [&str; 3] = ["json_group_object", "json_object_agg", "jsonb_object_agg"];

/// The functions that take values.
const OF_VALUES: [&str; 10] = [
    "array_to_json",
    "json_array",
    "json_build_array",
    "json_build_object",
    "json_object",
    "jsonb_build_array",
    "jsonb_build_object",
    "row_to_json",
    "to_json",
    "to_jsonb",
];

/// Other functions that return JSON texts.
const OTHERS: [&str; 4] = ["json", "json_get_json", "sty__json_elements", "sty__json_members"];

/// The names of the aggregates.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    LISTS.into_iter().chain(OBJECTS)
}

/// Whether a function makes a JSON text of one value, which may be a whole row.
pub(in crate::sql) fn takes_rows(name: &str) -> bool {
    // `json_agg` has become the last one.
    let known = ["row_to_json", "to_json", "to_jsonb", "sty__json_element"];
    known.iter().any(|known| is_called(known, name))
}

fn is_called(known: &str, name: &str) -> bool {
    known.eq_ignore_ascii_case(name)
}

/// What a call stands for; `None` if it is not one of these, or stands for itself.
pub(super) fn expanded(name: &str, call: &Function) -> Result<Option<Expr>> {
    let is_one_of = |names: &[&str]| names.iter().any(|known| is_called(known, name));
    let (text, parameters): (_, &[&str]) = match () {
        () if is_one_of(&LISTS) => ("sty__json_elements(array_agg(sty__json_element(x)))", &["x"]),
        () if is_one_of(&OBJECTS) => {
            ("sty__json_members(array_agg(sty__json_member(k, x)))", &["k", "x"])
        }
        () if is_one_of(&OF_VALUES) => ("", &[]),
        () => return Ok(None),
    };
    let Some(given) = arguments(call) else { return Ok(None) };
    let marked: Vec<Expr> = given.iter().map(marked).collect();
    if text.is_empty() {
        let is_same = !has_names(call) && marked == given;
        return Ok((!is_same).then(|| function_call(&name.to_ascii_lowercase(), marked)));
    }
    if marked.len() != parameters.len() {
        return Err(Error::InvalidInput(match parameters.len() {
            1 => format!("{name} takes one value: {name}(x)"),
            _ => format!("{name} takes a key and a value: {name}(k, v)"),
        }));
    }
    let mut expr = parsed(text)?;
    substitute(&mut expr, parameters, &marked);
    Ok(Some(expr))
}

/// The arguments of a call; `json_object('a' VALUE 1)` is `json_object('a', 1)`.
fn arguments(call: &Function) -> Option<Vec<Expr>> {
    let FunctionArguments::List(list) = &call.args else { return None };
    let mut all = Vec::new();
    for argument in &list.args {
        match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => all.push(value.clone()),
            FunctionArg::Named {
                name,
                arg: FunctionArgExpr::Expr(value),
                operator: FunctionArgOperator::Value,
            } => {
                let key = match name.quote_style {
                    Some('\'') => Expr::value(Value::SingleQuotedString(name.value.clone())),
                    _ => Expr::Identifier(name.clone()),
                };
                all.extend([key, value.clone()]);
            }
            _ => return None,
        }
    }
    list.clauses.iter().all(|clause| !clause.to_string().contains(" ON NULL")).then_some(all)
}

fn has_names(call: &Function) -> bool {
    let FunctionArguments::List(list) = &call.args else { return false };
    list.args.iter().any(|argument| matches!(argument, FunctionArg::Named { .. }))
}

/// `json(x)` of an `x` that is JSON without a mark.
fn marked(value: &Expr) -> Expr {
    match is_json(value) && !makes_json(value) {
        true => function_call("json", vec![value.clone()]),
        false => value.clone(),
    }
}

/// Whether a value is a JSON text by its own words.
fn is_json(value: &Expr) -> bool {
    match value {
        Expr::Nested(inner) => is_json(inner),
        Expr::Cast { data_type: DataType::JSON | DataType::JSONB, .. } => true,
        Expr::TypedString(typed) => matches!(typed.data_type, DataType::JSON | DataType::JSONB),
        Expr::BinaryOp { op: BinaryOperator::Arrow | BinaryOperator::HashArrow, .. } => true,
        Expr::Case { conditions, else_result, .. } => {
            conditions.iter().any(|one| is_json(&one.result))
                || else_result.as_ref().is_some_and(|value| is_json(value))
        }
        Expr::Function(call) => {
            let is_coalesce = is_called("coalesce", &call.name.to_string());
            makes_json(value)
                || (is_coalesce && arguments(call).is_some_and(|all| all.iter().any(is_json)))
        }
        Expr::Subquery(query) => match query.body.as_ref() {
            SetExpr::Select(select) => match select.projection.as_slice() {
                [SelectItem::UnnamedExpr(one) | SelectItem::ExprWithAlias { expr: one, .. }] => {
                    is_json(one)
                }
                _ => false,
            },
            _ => false,
        },
        _ => false,
    }
}

/// Whether a value is a call of a function whose results have the mark, or `json_get_json`.
fn makes_json(value: &Expr) -> bool {
    let Expr::Function(call) = value else { return false };
    let name = call.name.to_string();
    OF_VALUES.iter().chain(&OTHERS).any(|known| is_called(known, &name))
}
