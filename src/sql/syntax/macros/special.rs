//! Macros of any number of arguments, and those that look at their arguments.

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    Array, CaseWhen, Expr, Function, FunctionArguments, Value, ValueWithSpan,
};

use crate::error::{Error, Result};
use crate::sql::walks::function_call;

use super::calls::{arguments, parsed, substitute};

/// Their names.
pub(super) const NAMES: [&str; 12] = [
    "list_aggr",
    "list_aggregate",
    "list_pack",
    "list_value",
    "multiIf",
    "quantile",
    "quantileExact",
    "quantiles",
    "quantilesExact",
    "quantile_cont",
    "toStartOfInterval",
    "topK",
];

/// What a call stands for; `None` if it is not one of these, or stands for itself.
pub(super) fn expanded(name: &str, call: &Function) -> Result<Option<Expr>> {
    let Some(given) = arguments(call) else { return Ok(None) };
    if let FunctionArguments::List(list) = &call.parameters {
        let alone = Function { args: FunctionArguments::List(list.clone()), ..call.clone() };
        let parameters = arguments(&alone).unwrap_or_default();
        return parametric(name, &parameters, &given).map(Some);
    }
    match (name.to_ascii_lowercase().as_str(), given.as_slice()) {
        ("list_value" | "list_pack", _) => Ok(Some(function_call("make_array", given))),
        ("multiif", _) => choice(given).map(Some),
        ("list_aggregate" | "list_aggr" | "array_aggregate" | "array_aggr", [list, function]) => {
            of_list(list, function).map(Some)
        }
        // DuckDB takes the format first, too.
        ("strftime", [format @ Expr::Value(_), time]) if !matches!(time, Expr::Value(_)) => {
            Ok(Some(function_call("strftime", vec![time.clone(), format.clone()])))
        }
        ("tostartofinterval", [time, width]) => start_of_interval(time, width).map(Some),
        ("quantile_cont" | "quantile_disc" | "quantile", [values, Expr::Array(fractions)]) => {
            let name =
                if name.eq_ignore_ascii_case("quantile_cont") { name } else { "quantile_disc" };
            Ok(Some(each(name, values, &fractions.elem)))
        }
        _ => Ok(None),
    }
}

/// `CASE WHEN … END` of conditions, each with its value, and a value for all others.
fn choice(mut given: Vec<Expr>) -> Result<Expr> {
    if given.len() < 3 || given.len().is_multiple_of(2) {
        return Err(Error::InvalidInput(
            "multiIf takes conditions, each with its value, and a value for all others: \
             multiIf(c1, v1, c2, v2, v)"
                .into(),
        ));
    }
    let else_result = given.pop().map(Box::new);
    let mut conditions = Vec::new();
    let mut given = given.into_iter();
    while let (Some(condition), Some(result)) = (given.next(), given.next()) {
        conditions.push(CaseWhen { condition, result });
    }
    Ok(Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions,
        else_result,
    })
}

/// `list_sum(l)` of `list_aggregate(l, 'sum')`.
fn of_list(list: &Expr, function: &Expr) -> Result<Expr> {
    const KNOWN: [(&str, &str); 7] = [
        ("avg", "list_avg"),
        ("max", "list_max"),
        ("mean", "list_avg"),
        ("min", "list_min"),
        ("product", "list_product"),
        ("string_agg", "list_to_string"),
        ("sum", "list_sum"),
    ];
    let wanted = match function {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(name), .. }) => name.as_str(),
        _ => "",
    };
    match KNOWN.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted)) {
        Some(("string_agg", name)) => {
            let comma = Expr::value(Value::SingleQuotedString(",".into()));
            Ok(function_call(name, vec![list.clone(), comma]))
        }
        Some((_, name)) => Ok(function_call(name, vec![list.clone()])),
        None => Err(Error::InvalidInput(format!(
            "list_aggregate takes the name of one of avg, max, min, product, string_agg and \
             sum, not {function}"
        ))),
    }
}

/// Weeks begin with Mondays, all else in 1970.
fn start_of_interval(time: &Expr, width: &Expr) -> Result<Expr> {
    let in_weeks = width.to_string().to_ascii_lowercase().contains("week");
    let text = match in_weeks {
        true => "date_bin(w, t, TIMESTAMP '1970-01-05')",
        false => "date_bin(w, t)",
    };
    let mut expr = parsed(text)?;
    substitute(&mut expr, &["t", "w"], &[time.clone(), width.clone()]);
    Ok(expr)
}

/// ClickHouse's `quantile(0.9)(x)` and the like.
fn parametric(name: &str, parameters: &[Expr], given: &[Expr]) -> Result<Expr> {
    let wrong = || {
        Err(Error::InvalidInput(format!(
            "{name}(…)(…) is not known; there are quantile(p)(x), quantiles(p, q, …)(x), \
             quantileExact(p)(x), quantilesExact(p, q, …)(x) and topK(n)(x)"
        )))
    };
    let [values] = given else { return wrong() };
    match (name.to_ascii_lowercase().as_str(), parameters) {
        ("quantile" | "quantileexactinclusive" | "quantiletdigest", [fraction]) => {
            Ok(function_call("quantile_cont", vec![values.clone(), fraction.clone()]))
        }
        ("quantileexact", [fraction]) => {
            Ok(function_call("quantile_disc", vec![values.clone(), fraction.clone()]))
        }
        ("quantiles", [_, ..]) => Ok(each("quantile_cont", values, parameters)),
        ("quantilesexact", [_, ..]) => Ok(each("quantile_disc", values, parameters)),
        ("topk", [count]) => Ok(function_call("top_k", vec![values.clone(), count.clone()])),
        _ => wrong(),
    }
}

/// A list of the quantiles of several fractions.
fn each(function: &str, values: &Expr, fractions: &[Expr]) -> Expr {
    let one = |fraction: &Expr| function_call(function, vec![values.clone(), fraction.clone()]);
    Expr::Array(Array { elem: fractions.iter().map(one).collect(), named: false })
}
