//! Values for the placeholders of a statement: `-p name=value` on the command line, `$name` in SQL.

use std::collections::HashMap;

use arrow_array::Array;
use arrow_schema::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ParamValues};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::type_coercion::binary::type_union_resolution;
use datafusion::logical_expr::{ExprSchemable as _, LogicalPlan, Values, cast};
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::{Expr, Value};

use crate::error::{Error, Result};
use crate::ingest::text::number::decimal;
use crate::sql::types::decimals::is_read_exactly;

/// Named values. Positional placeholders `$1`, `$2` are the names `1`, `2`.
#[derive(Clone, Debug, Default)]
pub struct Parameters {
    values: HashMap<String, ScalarValue>,
}

impl Parameters {
    /// Adds `name=value`. The value's type is read from its text: an integer, a float (a decimal,
    /// where that would not keep all digits), `true` or `false`, `null`, and else text. Quotes make
    /// text of anything: `id="'007'"`. An integer with a leading zero is text, as in ingest.
    pub fn add(&mut self, assignment: &str) -> Result<()> {
        let Some((name, text)) = assignment.split_once('=') else {
            return Err(Error::InvalidInput(format!(
                "parameter '{assignment}' is not of the form name=value"
            )));
        };
        let name = name.trim().trim_start_matches('$');
        let plain = |c: char| c.is_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(plain) {
            return Err(Error::InvalidInput(format!(
                "parameter name '{name}' must be letters, digits and underscores"
            )));
        }
        self.values.insert(name.to_owned(), typed(text));
        Ok(())
    }

    /// Sets the value of a placeholder to the first value of an array, which may be null.
    pub fn set_first_of(&mut self, name: &str, values: &dyn Array) -> Result<()> {
        let value = ScalarValue::try_from_array(values, 0)?;
        self.values.insert(name.to_owned(), value);
        Ok(())
    }

    /// Sets the value of a placeholder.
    pub(in crate::sql) fn set(&mut self, name: &str, value: ScalarValue) {
        self.values.insert(name.to_owned(), value);
    }

    /// Adds a value under a name of ours, and returns its placeholder.
    pub(in crate::sql) fn add_value(&mut self, value: ScalarValue) -> Expr {
        let name = format!("sty__{}", self.values.len());
        let placeholder = Expr::value(Value::Placeholder(format!("${name}")));
        self.values.insert(name, value);
        placeholder
    }

    /// Whether there are no parameters.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Whether these are the same values of the same types. DataFusion takes timestamps of
    /// different zones for equal.
    pub(in crate::sql) fn are_same(&self, others: &Parameters) -> bool {
        let same = |(name, value): (&String, &ScalarValue)| {
            let other = others.values.get(name);
            other.is_some_and(|other| other == value && other.data_type() == value.data_type())
        };
        self.values.len() == others.values.len() && self.values.iter().all(same)
    }

    /// About how many bytes they take.
    pub(in crate::sql) fn bytes(&self) -> usize {
        self.values.iter().map(|(name, value)| name.len() + value.size()).sum()
    }

    /// A plan with the values in place of its placeholders.
    pub(crate) fn bind(&self, plan: LogicalPlan) -> DataFusionResult<LogicalPlan> {
        let bound = plan.with_param_values(ParamValues::from(self.values.clone()))?;
        let bound = bound.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Values(values) => one_type_each(values),
            other => Ok(Transformed::no(other)),
        });
        Ok(bound?.data)
    }
}

/// Gives the values of a column of VALUES one type: those of parameters have types of their own.
fn one_type_each(mut values: Values) -> DataFusionResult<Transformed<LogicalPlan>> {
    let (none, mut changed) = (DFSchema::empty(), false);
    for (at, field) in values.schema.fields().iter().enumerate() {
        let column = values.values.iter().filter_map(|row| row.get(at));
        let types =
            column.map(|expr| expr.get_type(&none)).collect::<DataFusionResult<Vec<_>>>()?;
        let typed: Vec<DataType> = types.iter().filter(|of| !of.is_null()).cloned().collect();
        if typed.windows(2).all(|pair| pair[0] == pair[1]) {
            continue;
        }
        let Some(target) = Some(field.data_type().clone())
            .filter(|known| !known.is_null())
            .or_else(|| type_union_resolution(&typed))
        else {
            continue;
        };
        for (row, of) in values.values.iter_mut().zip(&types) {
            if let Some(expr) = row.get_mut(at).filter(|_| *of != target) {
                *expr = cast(std::mem::take(expr), target.clone());
                changed = true;
            }
        }
    }
    let plan = LogicalPlan::Values(values);
    Ok(if changed { Transformed::yes(plan) } else { Transformed::no(plan) })
}

fn typed(text: &str) -> ScalarValue {
    let unquoted = text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    if let Some(inner) = unquoted {
        return ScalarValue::Utf8View(Some(inner.replace("''", "'")));
    }
    let digits = text.trim_start_matches(['-', '+']);
    let number = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    let padded = digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0.");
    if number && !padded {
        if let Ok(value) = text.parse::<i64>() {
            return ScalarValue::Int64(Some(value));
        }
        if let Ok(value) = text.parse::<u64>() {
            return ScalarValue::UInt64(Some(value));
        }
        if let Some(value) = exact_decimal(text) {
            return value;
        }
        if let Ok(value) = fast_float2::parse::<f64, _>(text) {
            return ScalarValue::Float64(Some(value));
        }
    }
    match text.to_ascii_lowercase().as_str() {
        "true" => ScalarValue::Boolean(Some(true)),
        "false" => ScalarValue::Boolean(Some(false)),
        "null" => ScalarValue::Null,
        _ => ScalarValue::Utf8View(Some(text.to_owned())),
    }
}

/// A decimal, if the number has more digits than a double keeps.
fn exact_decimal(text: &str) -> Option<ScalarValue> {
    let digits = text.trim_start_matches(['-', '+']);
    if is_read_exactly(digits) {
        return None;
    }
    let count = u8::try_from(digits.bytes().filter(u8::is_ascii_digit).count())
        .ok()
        .filter(|count| *count <= 38)?;
    let scale =
        i8::try_from(digits.split_once('.').map_or(0, |(_, fraction)| fraction.len())).ok()?;
    Some(ScalarValue::Decimal128(Some(decimal(text.into(), count, scale)?), count, scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_read_from_text() {
        let text = |t: &str| ScalarValue::Utf8View(Some(t.to_owned()));
        for (given, expected) in [
            ("5", ScalarValue::Int64(Some(5))),
            ("-5", ScalarValue::Int64(Some(-5))),
            ("18446744073709551615", ScalarValue::UInt64(Some(u64::MAX))),
            (
                "-18446744073709551616",
                ScalarValue::Decimal128(Some(-18_446_744_073_709_551_616), 20, 0),
            ),
            ("1234567890123456.78", ScalarValue::Decimal128(Some(123_456_789_012_345_678), 18, 2)),
            ("1e3", ScalarValue::Float64(Some(1000.0))),
            ("0.5", ScalarValue::Float64(Some(0.5))),
            ("True", ScalarValue::Boolean(Some(true))),
            ("NULL", ScalarValue::Null),
            ("007", text("007")),
            ("'5'", text("5")),
            ("it's", text("it's")),
            ("infinity", text("infinity")),
            ("", text("")),
        ] {
            assert_eq!(typed(given), expected, "{given}");
        }
        let mut parameters = Parameters::default();
        assert!(parameters.add("novalue").is_err());
        assert!(parameters.add("a b=1").is_err());
        parameters.add("$n=a=b").unwrap();
        assert_eq!(parameters.values.get("n"), Some(&text("a=b")));
    }
}
