//! JSON texts: `a -> 'b'` and `a ->> 'b'`, and the functions that look into them.
//!
//! Where this stands on the road of a query: the operators become calls while expressions are
//! planned, one call for a whole chain of them. The functions are those of the crate
//! `datafusion-functions-json`, which reads a text from its start up to the value that is asked
//! for. Nested values of JSON input are stored as such texts. A value that is missing is null, and
//! so is one that stands behind an error of syntax.

use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::common::{DFSchema, plan_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::{Cast, ScalarFunction};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, ScalarUDF, cast, lit};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use datafusion_functions_json::udfs;

/// The functions, without those that return a value of any type, which is a union.
pub(in crate::sql) fn functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    [
        udfs::json_as_text_udf(),
        udfs::json_contains_udf(),
        udfs::json_get_array_udf(),
        udfs::json_get_bool_udf(),
        udfs::json_get_float_udf(),
        udfs::json_get_int_udf(),
        udfs::json_get_json_udf(),
        udfs::json_get_str_udf(),
        udfs::json_length_udf(),
        udfs::json_object_keys_udf(),
    ]
    .into_iter()
}

/// Plans `->` and `->>`, whose right side is a key, the number of an element or a path as
/// `'$.a[0]'`, and `#>` and `#>>`, where it is a path as `'{a,0}'`.
#[derive(Debug)]
pub(in crate::sql) struct JsonOperators;

impl ExprPlanner for JsonOperators {
    fn plan_binary_op(
        &self,
        operation: RawBinaryExpr,
        schema: &DFSchema,
    ) -> DataFusionResult<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator::{Arrow, HashArrow, HashLongArrow, LongArrow};
        let func = match operation.op {
            Arrow | HashArrow => udfs::json_get_json_udf(),
            LongArrow | HashLongArrow => udfs::json_as_text_udf(),
            _ => return Ok(PlannerResult::Original(operation)),
        };
        let RawBinaryExpr { op, left, right } = operation;
        let of = left.get_type(schema)?;
        let is_text = match &of {
            DataType::Dictionary(_, values) => values.is_string(),
            of => of.is_string() || of.is_null(),
        };
        if !is_text {
            let of = of.to_string().to_lowercase();
            return plan_err!("{op} reads JSON texts, and no {of}; cast it: x::text {op} 'key'");
        }
        if let Expr::Cast(Cast { expr: key, field }) = &right
            && literal(key).is_some()
            && !field.data_type().is_string()
        {
            return plan_err!(":: goes before {op}; cast in parentheses: (x {op} 'key')::INT");
        }
        let steps = match literal(&right) {
            Some(path) if matches!(op, HashArrow | HashLongArrow) => keys_in_braces(path)?,
            Some(path) if path == "$" || path.starts_with("$.") || path.starts_with("$[") => {
                steps_of_path(path)?
            }
            _ => match right.get_type(schema)? {
                DataType::Null => vec![cast(right, DataType::Utf8)],
                of if of.is_integer() => vec![cast(right, DataType::Int64)],
                of if of.is_nested() && matches!(op, Arrow | LongArrow) => {
                    return plan_err!("{op} takes one key or path, such as '$.a[0]', and no list");
                }
                _ => vec![right],
            },
        };
        let mut args = match left {
            // The crate takes either one step that is a column, or any number of literals.
            Expr::ScalarFunction(call)
                if call.func.name() == udfs::json_get_json_udf().name()
                    && call.args.iter().skip(1).chain(&steps).all(is_literal) =>
            {
                call.args
            }
            left => vec![left],
        };
        args.extend(steps);
        Ok(PlannerResult::Planned(Expr::ScalarFunction(ScalarFunction { func, args })))
    }
}

fn literal(expr: &Expr) -> Option<&str> {
    let Expr::Literal(value, _) = expr else { return None };
    value.try_as_str()?
}

fn is_literal(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(..) => true,
        Expr::Cast(cast) => is_literal(&cast.expr),
        _ => false,
    }
}

/// The keys of `{a,"b c",0}`, which is how PostgreSQL writes a list.
fn keys_in_braces(path: &str) -> DataFusionResult<Vec<Expr>> {
    let inside = path.trim().strip_prefix('{').and_then(|path| path.strip_suffix('}'));
    let Some(mut rest) = inside.map(str::trim) else {
        return plan_err!("the path {path:?} is no list of keys, such as '{{a,b,0}}'");
    };
    let mut keys = Vec::new();
    while !rest.is_empty() {
        let (key, after) = match rest.strip_prefix('"') {
            Some(quoted) => match quoted_key(quoted, '"') {
                Some((key, after)) => (key, after.trim_start()),
                None => return plan_err!("the path {path:?} has a quote that is not closed"),
            },
            None => {
                let (key, after) = rest.split_at(rest.find(',').unwrap_or(rest.len()));
                if key.trim().is_empty() {
                    return plan_err!("the path {path:?} has no key before {after:?}");
                }
                (key.trim().to_owned(), after)
            }
        };
        keys.push(lit(key));
        rest = match after.strip_prefix(',') {
            Some(after) if after.trim().is_empty() => {
                return plan_err!("the path {path:?} has no key behind its last comma");
            }
            Some(after) => after.trim_start(),
            None if after.is_empty() => after,
            None => return plan_err!("the path {path:?} has no comma before {after:?}"),
        };
    }
    Ok(keys)
}

/// The steps of `$.a."b c"[0]`. Elements count from 0; `[-1]` and `[#-1]` are the last one.
fn steps_of_path(path: &str) -> DataFusionResult<Vec<Expr>> {
    let mut steps = Vec::new();
    let mut rest = path.trim_end().strip_prefix('$').unwrap_or(path);
    while !rest.is_empty() {
        let (step, after) = match step(rest) {
            Some(found) => found,
            None => {
                return plan_err!(
                    "the path {path:?} cannot be read from {rest:?} on; write one as \
                     '$.key.\"other key\"[0]', without wildcards"
                );
            }
        };
        steps.push(step);
        rest = after;
    }
    Ok(steps)
}

/// The first step of a path, and what follows.
fn step(path: &str) -> Option<(Expr, &str)> {
    if let Some(rest) = path.strip_prefix('.') {
        if let Some(quoted) = rest.strip_prefix('"') {
            let (key, after) = quoted_key(quoted, '"')?;
            return Some((lit(key), after));
        }
        let (key, after) = rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len()));
        return (!key.is_empty() && key != "*").then(|| (lit(key), after));
    }
    let rest = path.strip_prefix('[')?;
    if let Some(quote @ ('"' | '\'')) = rest.chars().next() {
        let (key, after) = quoted_key(rest.get(1..)?, quote)?;
        return Some((lit(key), after.strip_prefix(']')?));
    }
    let (index, after) = rest.split_once(']')?;
    let (index, from_end) = match index.strip_prefix('#') {
        Some(index) => (index, true),
        None => (index, false),
    };
    let index = index.parse::<i64>().ok().filter(|index| *index < 0 || !from_end)?;
    Some((lit(index), after))
}

/// The key before this quote, and what follows the quote. A backslash escapes the character behind
/// it.
fn quoted_key(text: &str, quote: char) -> Option<(String, &str)> {
    let mut key = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => key.push(characters.next()?.1),
            _ if character == quote => return Some((key, text.get(at + 1..)?)),
            _ => key.push(character),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_steps() {
        let steps = |path| steps_of_path(path).map_err(|error| error.to_string());
        assert_eq!(steps("$"), Ok(vec![]));
        assert_eq!(steps("$.a.b[0]"), Ok(vec![lit("a"), lit("b"), lit(0_i64)]));
        assert_eq!(steps(r#"$."a.b"['c'][-1]"#), Ok(vec![lit("a.b"), lit("c"), lit(-1_i64)]));
        assert_eq!(steps("$[#-2]"), Ok(vec![lit(-2_i64)]));
        assert_eq!(steps(r#"$."a\"b""#), Ok(vec![lit("a\"b")]));
        for wrong in ["$.", "$.*", "$[*]", "$[#1]", "$[a]", "$[1", "$.a..b", "$[\"a\"", "$x"] {
            assert!(steps(wrong).is_err(), "{wrong}");
        }
        let keys = |path| keys_in_braces(path).map_err(|error| error.to_string());
        assert_eq!(keys("{}"), Ok(vec![]));
        assert_eq!(keys("{a, \"b,c\" ,0}"), Ok(vec![lit("a"), lit("b,c"), lit("0")]));
        for wrong in ["a", "{a", "{a,}", "{a,,b}", "{\"a}", "{\"a\"b}"] {
            assert!(keys(wrong).is_err(), "{wrong}");
        }
    }
}
