//! Calls with named arguments: `struct_pack(a := 1)` of DuckDB, `make_interval(days => 1)` of
//! PostgreSQL.

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Value,
};

use super::calls::{parsed, substitute};
use crate::error::{Error, Result};
use crate::sql::syntax::folded;
use crate::sql::walks::function_call;

/// Their names.
pub(super) const NAMES: [&str; 2] = ["make_interval", "struct_pack"];

/// The parameters of `make_interval`, in their order, with an interval of each.
const PARTS: [(&str, &str); 7] = [
    ("years", "INTERVAL '1 year'"),
    ("months", "INTERVAL '1 month'"),
    ("weeks", "INTERVAL '7 days'"),
    ("days", "INTERVAL '1 day'"),
    ("hours", "INTERVAL '1 hour'"),
    ("mins", "INTERVAL '1 minute'"),
    ("secs", "INTERVAL '1 second'"),
];

/// What a call stands for; `None` if it is not one of these.
pub(super) fn expanded(name: &str, call: &Function) -> Result<Option<Expr>> {
    let is_called = |known: &str| known.eq_ignore_ascii_case(name);
    if !NAMES.into_iter().any(is_called) {
        return Ok(None);
    }
    let Some(given) = arguments(call) else { return Ok(None) };
    match is_called("struct_pack") {
        true => structure(given).map(Some),
        false => interval(given).map(Some),
    }
}

/// The arguments of a call, with their names.
fn arguments(call: &Function) -> Option<Vec<(Option<&Ident>, &Expr)>> {
    let FunctionArguments::List(list) = &call.args else { return None };
    list.args.iter().map(argument).collect()
}

fn argument(argument: &FunctionArg) -> Option<(Option<&Ident>, &Expr)> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some((None, value)),
        FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => {
            Some((Some(name), value))
        }
        FunctionArg::ExprNamed {
            name: Expr::Identifier(name),
            arg: FunctionArgExpr::Expr(value),
            ..
        } => Some((Some(name), value)),
        _ => None,
    }
}

fn structure(given: Vec<(Option<&Ident>, &Expr)>) -> Result<Expr> {
    let mut parts = Vec::with_capacity(2 * given.len());
    for (name, value) in given {
        let Some(name) = name else {
            return Err(Error::InvalidInput(format!(
                "struct_pack takes values with names: struct_pack(a := {value})"
            )));
        };
        let name = Expr::value(Value::SingleQuotedString(name.value.clone()));
        parts.extend([name, value.clone()]);
    }
    Ok(function_call("named_struct", parts))
}

fn interval(given: Vec<(Option<&Ident>, &Expr)>) -> Result<Expr> {
    let mut values: [Option<&Expr>; PARTS.len()] = [None; PARTS.len()];
    for (at, (name, value)) in given.into_iter().enumerate() {
        let place = match name {
            None => Some(at),
            Some(name) => PARTS.iter().position(|(part, _)| *part == folded(name)),
        };
        match place.and_then(|place| values.get_mut(place)) {
            Some(free @ None) => *free = Some(value),
            Some(Some(_)) => {
                return Err(Error::InvalidInput("make_interval has a part twice".into()));
            }
            None => {
                return Err(Error::InvalidInput(
                    "make_interval takes years, months, weeks, days, hours, mins and secs, in this \
                     order or by name: make_interval(days => 1, hours => 2)"
                        .into(),
                ));
            }
        }
    }
    let parts = PARTS.iter().zip(values).filter_map(|((_, one), value)| Some((*one, value?)));
    let (units, values): (Vec<&str>, Vec<Expr>) =
        parts.map(|(unit, value)| (unit, value.clone())).unzip();
    if values.is_empty() {
        return parsed("INTERVAL '0 days'");
    }
    let names: Vec<String> = (0..units.len()).map(|at| format!("part{at}")).collect();
    let terms = names.iter().zip(units).map(|(name, unit)| format!("{name} * {unit}"));
    let mut sum = parsed(&format!("({})", terms.collect::<Vec<_>>().join(" + ")))?;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    substitute(&mut sum, &names, &values);
    Ok(sum)
}
