//! Macros of any number of arguments, and those that look at their arguments.

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    Array, CaseWhen, Expr, Function, FunctionArgumentClause, FunctionArguments, UnaryOperator,
    Value, ValueWithSpan,
};

use crate::error::{Error, Result};
use crate::sql::convert::listed;
use crate::sql::functions::list_aggregates::AGGREGATES;
use crate::sql::functions::templates::as_strptime;
use crate::sql::walks::function_call;

use super::calls::{arguments, parsed, substitute};

/// Their names.
pub(super) const NAMES: [&str; 15] = [
    "list_aggr",
    "list_aggregate",
    "list_first",
    "list_last",
    "list_pack",
    "list_value",
    "multiIf",
    "quantile",
    "quantileExact",
    "quantiles",
    "quantilesExact",
    "quantile_cont",
    "time_bucket",
    "toStartOfInterval",
    "topK",
];

/// Other names of them, and of functions that stand for themselves unless their arguments are of
/// another kind.
const OTHERS: [&str; 12] = [
    "any_value",
    "array_aggr",
    "array_aggregate",
    "array_first",
    "array_last",
    "log",
    "mode",
    "percentile_disc",
    "quantile_disc",
    "strftime",
    "to_date",
    "to_timestamp",
];

/// What a call stands for; `None` if it is not one of these, or stands for itself.
pub(super) fn expanded(name: &str, call: &Function) -> Result<Option<Expr>> {
    let mut known = NAMES.iter().chain(&OTHERS);
    let is_parametric = matches!(call.parameters, FunctionArguments::List(_));
    if !is_parametric && !known.any(|known| known.eq_ignore_ascii_case(name)) {
        return Ok(None);
    }
    let Some(given) = arguments(call) else { return Ok(None) };
    if let FunctionArguments::List(list) = &call.parameters {
        let alone = Function { args: FunctionArguments::List(list.clone()), ..call.clone() };
        let parameters = arguments(&alone).unwrap_or_default();
        return parametric(name, &parameters, &given).map(Some);
    }
    match (name.to_ascii_lowercase().as_str(), given.as_slice()) {
        // DataFusion's takes no notice of an order.
        ("any_value", [value]) if has_order(call) => {
            let mut first = parsed("first_value(x) FILTER (WHERE x IS NOT NULL)")?;
            substitute(&mut first, &["x"], std::slice::from_ref(value));
            Ok(Some(first))
        }
        ("mode", []) => match call.within_group.as_slice() {
            [key] => Ok(Some(function_call("mode", vec![key.expr.clone()]))),
            _ => Ok(None),
        },
        ("percentile_disc", [fraction]) => match call.within_group.as_slice() {
            [key] => {
                let descending = key.options.asc == Some(false);
                Ok(Some(all_discrete(&key.expr, fraction, descending)))
            }
            _ => Err(Error::InvalidInput(
                "write percentile_disc(0.5) WITHIN GROUP (ORDER BY x)".into(),
            )),
        },
        ("list_value" | "list_pack", _) => Ok(Some(function_call("make_array", given))),
        ("multiif", _) => choice(given).map(Some),
        (
            "list_aggregate" | "list_aggr" | "array_aggregate" | "array_aggr",
            [list, function, rest @ ..],
        ) => of_list(list, function, rest).map(Some),
        ("list_first" | "array_first", [list]) => Ok(Some(element(list, "1"))),
        ("list_last" | "array_last", [list]) => Ok(Some(element(list, "-1"))),
        // DuckDB takes the format first, too.
        ("strftime", [format @ Expr::Value(_), time]) if !matches!(time, Expr::Value(_)) => {
            Ok(Some(function_call("strftime", vec![time.clone(), format.clone()])))
        }
        ("to_date" | "to_timestamp", [text, Expr::Value(ValueWithSpan { value, .. })]) => {
            by_template(name, text, value)
        }
        ("log", [number]) => Ok(Some(function_call("log10", vec![number.clone()]))),
        ("time_bucket", [width, time]) => time_bucket(width, time).map(Some),
        ("time_bucket", [width, time, origin]) => {
            let origin = match is_in_months(width) {
                true => {
                    let month = Expr::value(Value::SingleQuotedString("month".into()));
                    function_call("date_trunc", vec![month, origin.clone()])
                }
                false => origin.clone(),
            };
            Ok(Some(function_call("date_bin", vec![width.clone(), time.clone(), origin])))
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

/// What `quantile_disc(x, p ORDER BY x DESC)` stands for, and the call without its order.
pub(super) fn in_own_order(name: &str, call: &Function) -> Option<(Expr, Function)> {
    if !["quantile_disc", "quantile"].iter().any(|known| known.eq_ignore_ascii_case(name)) {
        return None;
    }
    let given = arguments(call)?;
    let [values, fraction] = given.as_slice() else { return None };
    let mut call = call.clone();
    let FunctionArguments::List(list) = &mut call.args else { return None };
    let own_order = |clause: &FunctionArgumentClause| match clause {
        FunctionArgumentClause::OrderBy(keys) => match keys.as_slice() {
            [key] if key.expr == *values => Some(key.options.asc == Some(false)),
            _ => None,
        },
        _ => None,
    };
    let descending = list.clauses.iter().find_map(own_order)?;
    list.clauses.retain(|clause| own_order(clause).is_none());
    Some((all_discrete(values, fraction, descending), call))
}

/// A percentile that is one of the values, or a list of them.
fn all_discrete(values: &Expr, fraction: &Expr, descending: bool) -> Expr {
    let one = |fraction: &Expr| discrete(values, fraction, descending);
    match fraction {
        Expr::Array(all) => {
            Expr::Array(Array { elem: all.elem.iter().map(one).collect(), named: false })
        }
        fraction => one(fraction),
    }
}

/// A percentile that is one of the values; a negative one counts from the greatest value on.
fn discrete(values: &Expr, fraction: &Expr, descending: bool) -> Expr {
    let is_zero = match fraction {
        Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) => {
            digits.parse() == Ok(0.0)
        }
        _ => false,
    };
    let fraction = match descending {
        true if is_zero => return function_call("max", vec![values.clone()]),
        true => {
            let fraction = Box::new(Expr::Nested(Box::new(fraction.clone())));
            Expr::UnaryOp { op: UnaryOperator::Minus, expr: fraction }
        }
        false => fraction.clone(),
    };
    function_call("quantile_disc", vec![values.clone(), fraction])
}

/// Whether a call says in which order it takes its rows.
fn has_order(call: &Function) -> bool {
    let FunctionArguments::List(list) = &call.args else { return false };
    let orders =
        |clause: &FunctionArgumentClause| matches!(clause, FunctionArgumentClause::OrderBy(_));
    list.clauses.iter().any(orders)
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
fn of_list(list: &Expr, function: &Expr, rest: &[Expr]) -> Result<Expr> {
    let wanted = match function {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(name), .. }) => {
            name.to_ascii_lowercase()
        }
        _ => String::new(),
    };
    match (wanted.as_str(), rest) {
        ("first", []) => Ok(element(list, "1")),
        ("last", []) => Ok(element(list, "-1")),
        ("any_value", []) => Ok(function_call("array_any_value", vec![list.clone()])),
        ("product", []) => Ok(function_call("array_product", vec![list.clone()])),
        ("string_agg", []) => {
            let comma = Expr::value(Value::SingleQuotedString(",".into()));
            of_list(list, function, &[comma])
        }
        ("string_agg", [separator]) => {
            let text = "CASE WHEN list_count(l) > 0 THEN array_to_string(l, separator) END";
            let mut joined = parsed(text)?;
            substitute(&mut joined, &["l", "separator"], &[list.clone(), separator.clone()]);
            Ok(joined)
        }
        (name, []) if AGGREGATES.iter().any(|(known, _)| *known == name) => {
            Ok(function_call(&format!("list_{name}"), vec![list.clone()]))
        }
        _ => Err(Error::InvalidInput(format!(
            "list_aggregate takes the name of one of any_value, first, last, product, string_agg, \
             {}, not {function}",
            listed(AGGREGATES.iter().map(|(name, _)| *name))
        ))),
    }
}

/// An element of a list by its position.
fn element(list: &Expr, position: &str) -> Expr {
    let position = Expr::value(Value::Number(position.into(), false));
    function_call("array_element", vec![list.clone(), position])
}

/// Whether buckets are months or longer: DuckDB counts them from the beginning of a month on.
fn is_in_months(width: &Expr) -> bool {
    let text = width.to_string().to_ascii_lowercase();
    ["mon", "quarter", "year", "decade", "century"].iter().any(|unit| text.contains(unit))
}

/// DuckDB's buckets: of months from 2000 on, all others from its first Monday on.
fn time_bucket(width: &Expr, time: &Expr) -> Result<Expr> {
    let origin = match is_in_months(width) {
        true => "2000-01-01",
        false => "2000-01-03",
    };
    let mut expr = parsed(&format!("date_bin(w, t, TIMESTAMP '{origin}')"))?;
    substitute(&mut expr, &["t", "w"], &[time.clone(), width.clone()]);
    Ok(expr)
}

/// `to_date(s, 'DD Mon YYYY')` by a template of PostgreSQL; a format of `strftime` has a `%`.
fn by_template(name: &str, text: &Expr, template: &Value) -> Result<Option<Expr>> {
    let Value::SingleQuotedString(template) = template else { return Ok(None) };
    if template.contains('%') {
        return Ok(None);
    }
    let format = Expr::value(Value::SingleQuotedString(as_strptime(template)?));
    let mut read = parsed(match name.eq_ignore_ascii_case("to_date") {
        true => "CAST(strptime(s, format) AS DATE)",
        false => "strptime(s, format)",
    })?;
    substitute(&mut read, &["s", "format"], &[text.clone(), format]);
    Ok(Some(read))
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
