//! JSON texts: `a -> 'b'` and `a ->> 'b'`, and the functions that look into them.
//!
//! Where this stands on the road of a query: the operators become calls while expressions are
//! planned, one call for a whole chain of them. A path that is not written in the statement, but is
//! that of a column or a parameter, is read while the call is computed, once for each path of a
//! batch. The functions are those of the crate `datafusion-functions-json`, which reads a text from
//! its start up to the value that is asked for. Nested values of JSON input are stored as such
//! texts. A value that is missing is null, and so is one that stands behind an error of syntax.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, UInt64Array, new_empty_array};
use arrow_cast::cast as cast_array;
use arrow_schema::{DataType, Field};
use arrow_select::concat::concat;
use arrow_select::take::take;
use datafusion::common::{DFSchema, ScalarValue, exec_err, plan_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::{Cast, ScalarFunction};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    cast, lit,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use datafusion_functions_json::udfs;
use indexmap::IndexMap;

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
    .chain(by_paths().map(Arc::new))
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
        let reading = match op {
            HashArrow | HashLongArrow => Reading::Keys,
            _ => Reading::Path,
        };
        let steps = match literal(&right) {
            Some(path) if reading.is_path(path) => {
                reading.steps(path)?.into_iter().map(lit).collect()
            }
            Some(_) => vec![right],
            None => match right.get_type(schema)? {
                of if is_varying_text(&right, &of) => {
                    let path = if of.is_null() { cast(right, DataType::Utf8) } else { right };
                    let by_path = ByPath { inner: func, reading }.function();
                    return Ok(PlannerResult::Planned(by_path.call(vec![left, path])));
                }
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

/// Whether an expression is a text, or a parameter that may be one, that is not written out.
fn is_varying_text(expr: &Expr, of: &DataType) -> bool {
    match of {
        DataType::Dictionary(_, values) => values.is_string(),
        DataType::Null => !is_literal(expr),
        of => of.is_string(),
    }
}

/// How a path is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Reading {
    /// As `$.a[0]`; any other text is a key.
    Path,
    /// As `{a,0}`.
    Keys,
}

impl Reading {
    fn is_path(self, text: &str) -> bool {
        self == Reading::Keys || text == "$" || text.starts_with("$.") || text.starts_with("$[")
    }

    fn steps(self, path: &str) -> DataFusionResult<Vec<ScalarValue>> {
        match self {
            Reading::Path => steps_of_path(path),
            Reading::Keys => keys_in_braces(path),
        }
    }
}

/// The functions that read paths which are not written in a statement.
fn by_paths() -> impl Iterator<Item = ScalarUDF> {
    let of = |inner| {
        let readings = [Reading::Path, Reading::Keys].into_iter();
        readings.map(move |reading| ByPath { inner: Arc::clone(&inner), reading }.function())
    };
    of(udfs::json_get_json_udf()).chain(of(udfs::json_as_text_udf()))
}

/// A function of the crate, with a path that differs from row to row.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ByPath {
    inner: Arc<ScalarUDF>,
    reading: Reading,
}

impl ByPath {
    fn function(self) -> ScalarUDF {
        ScalarUDF::from(self)
    }

    /// What the crate's function finds.
    fn found(
        &self,
        given: &ScalarFunctionArgs,
        texts: ColumnarValue,
        steps: Vec<ColumnarValue>,
        number_rows: usize,
    ) -> DataFusionResult<ColumnarValue> {
        let args: Vec<_> = std::iter::once(texts).chain(steps).collect();
        let field = |of: &ColumnarValue| Arc::new(Field::new("argument", of.data_type(), true));
        let arg_fields = args.iter().map(field).collect();
        let given = ScalarFunctionArgs { args, arg_fields, number_rows, ..given.clone() };
        self.inner.invoke_with_args(given)
    }

    fn constants(&self, path: &str) -> DataFusionResult<Vec<ColumnarValue>> {
        Ok(self.reading.steps(path)?.into_iter().map(ColumnarValue::Scalar).collect())
    }
}

impl ScalarUDFImpl for ByPath {
    fn name(&self) -> &str {
        match (self.inner.name() == udfs::json_get_json_udf().name(), self.reading) {
            (true, Reading::Path) => "sty__json_by_path",
            (true, Reading::Keys) => "sty__json_by_keys",
            (false, Reading::Path) => "sty__json_text_by_path",
            (false, Reading::Keys) => "sty__json_text_by_keys",
        }
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> DataFusionResult<DataType> {
        self.inner.return_type(arguments)
    }

    /// Rows of one path are looked up together, and so are those whose path is a key.
    fn invoke_with_args(&self, given: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let [texts, paths] = given.args.as_slice() else {
            return exec_err!("a JSON operator has two sides");
        };
        let paths = match paths {
            ColumnarValue::Array(paths) => cast_array(paths, &DataType::Utf8View)?,
            ColumnarValue::Scalar(path) => {
                let steps = match path.try_as_str().flatten() {
                    Some(path) if self.reading.is_path(path) => self.constants(path)?,
                    _ => vec![ColumnarValue::Scalar(path.clone())],
                };
                return self.found(&given, texts.clone(), steps, given.number_rows);
            }
        };
        let mut rows_of: IndexMap<Option<&str>, Vec<u64>> = IndexMap::new();
        for (row, path) in paths.as_string_view().iter().enumerate() {
            let path = path.filter(|path| self.reading.is_path(path));
            rows_of.entry(path).or_default().push(row as u64);
        }
        let texts = texts.to_array(paths.len())?;
        let (mut results, mut places) = (Vec::new(), vec![0; paths.len()]);
        let mut before = 0;
        for (path, rows) in rows_of {
            for (at, row) in (before..).zip(&rows) {
                if let Some(place) = places.get_mut(*row as usize) {
                    *place = at;
                }
            }
            let count = rows.len();
            before += count as u64;
            let rows = UInt64Array::from(rows);
            let steps = match path {
                Some(path) => self.constants(path)?,
                None => vec![ColumnarValue::Array(take(&paths, &rows, None)?)],
            };
            let texts = ColumnarValue::Array(take(&texts, &rows, None)?);
            results.push(self.found(&given, texts, steps, count)?.into_array(count)?);
        }
        let results: Vec<&dyn Array> = results.iter().map(AsRef::as_ref).collect();
        if results.is_empty() {
            return Ok(ColumnarValue::Array(new_empty_array(given.return_type())));
        }
        let all = concat(&results)?;
        Ok(ColumnarValue::Array(take(&all, &UInt64Array::from(places), None)?))
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
fn keys_in_braces(path: &str) -> DataFusionResult<Vec<ScalarValue>> {
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
        keys.push(ScalarValue::from(key));
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
fn steps_of_path(path: &str) -> DataFusionResult<Vec<ScalarValue>> {
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
fn step(path: &str) -> Option<(ScalarValue, &str)> {
    if let Some(rest) = path.strip_prefix('.') {
        if let Some(quoted) = rest.strip_prefix('"') {
            let (key, after) = quoted_key(quoted, '"')?;
            return Some((ScalarValue::from(key), after));
        }
        let (key, after) = rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len()));
        return (!key.is_empty() && key != "*").then(|| (ScalarValue::from(key), after));
    }
    let rest = path.strip_prefix('[')?;
    if let Some(quote @ ('"' | '\'')) = rest.chars().next() {
        let (key, after) = quoted_key(rest.get(1..)?, quote)?;
        return Some((ScalarValue::from(key), after.strip_prefix(']')?));
    }
    let (index, after) = rest.split_once(']')?;
    let (index, from_end) = match index.strip_prefix('#') {
        Some(index) => (index, true),
        None => (index, false),
    };
    let index = index.parse::<i64>().ok().filter(|index| *index < 0 || !from_end)?;
    Some((ScalarValue::from(index), after))
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
        assert_eq!(
            steps("$.a.b[0]"),
            Ok(vec![ScalarValue::from("a"), ScalarValue::from("b"), ScalarValue::from(0_i64)])
        );
        assert_eq!(
            steps(r#"$."a.b"['c'][-1]"#),
            Ok(vec![ScalarValue::from("a.b"), ScalarValue::from("c"), ScalarValue::from(-1_i64)])
        );
        assert_eq!(steps("$[#-2]"), Ok(vec![ScalarValue::from(-2_i64)]));
        assert_eq!(steps(r#"$."a\"b""#), Ok(vec![ScalarValue::from("a\"b")]));
        for wrong in ["$.", "$.*", "$[*]", "$[#1]", "$[a]", "$[1", "$.a..b", "$[\"a\"", "$x"] {
            assert!(steps(wrong).is_err(), "{wrong}");
        }
        let keys = |path| keys_in_braces(path).map_err(|error| error.to_string());
        assert_eq!(keys("{}"), Ok(vec![]));
        assert_eq!(
            keys("{a, \"b,c\" ,0}"),
            Ok(vec![ScalarValue::from("a"), ScalarValue::from("b,c"), ScalarValue::from("0")])
        );
        for wrong in ["a", "{a", "{a,}", "{a,,b}", "{\"a}", "{\"a\"b}"] {
            assert!(keys(wrong).is_err(), "{wrong}");
        }
    }
}
