//! The value of a map by a key that is a list, a struct or computed: `m[[2, 0]]`, `m[k]`.
//!
//! Where this stands on the road of a query: a part of the analyzer rule in `zeros`, after types
//! are coerced. DataFusion's `get_field` (55.2) takes no column for a key, and compares a list or a
//! struct with the first key of the first map only, so that it fails on others. Here `m[k]` becomes
//! `sty__map_value(m, k)`.

use arrow_array::cast::AsArray;
use arrow_array::{Array, UInt64Array};
use arrow_schema::{DataType, SortOptions};
use arrow_select::take::take;
use datafusion::arrow::array::make_comparator;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue, exec_err, plan_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};

use crate::sql::walks::{Rewritten, any_expression, rewrite_plan, rewrite_up, rewrite_where};

/// Whether some expression of a plan may take a value of a map.
pub(super) fn are_in(plan: &LogicalPlan) -> bool {
    any_expression(plan, is_candidate)
}

/// Looks for each key in the map of its own row.
pub(super) fn found_by_row(plan: LogicalPlan) -> DataFusionResult<LogicalPlan> {
    Ok(rewrite_plan(plan, |node| rewrite_where(node, is_candidate, found))?.data)
}

fn is_candidate(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.func.name() == "get_field")
}

fn found(expr: Expr, schema: &DFSchema) -> Rewritten<Expr> {
    rewrite_up(expr, |expr| {
        let Expr::ScalarFunction(mut call) = expr else { return Ok(Transformed::no(expr)) };
        let key_type = match call.args.as_slice() {
            [map, key, ..] if call.func.name() == "get_field" => key_type(map, schema)
                .filter(|of| of.is_nested() || !matches!(key, Expr::Literal(..))),
            _ => None,
        };
        let Some(key_type) = key_type else {
            return Ok(Transformed::no(Expr::ScalarFunction(call)));
        };
        let rest = call.args.split_off(2);
        if let Some(key) = call.args.last_mut() {
            *key = std::mem::take(key).cast_to(&key_type, schema)?;
        }
        let value = ScalarFunction::new_udf(function().into(), call.args);
        let value = Expr::ScalarFunction(value);
        Ok(Transformed::yes(match rest.is_empty() {
            true => value,
            false => call.func.call(std::iter::once(value).chain(rest).collect()),
        }))
    })
}

/// The type of the keys of a map.
fn key_type(map: &Expr, schema: &DFSchema) -> Option<DataType> {
    Some(entry(&map.get_type(schema).ok()?)?.0)
}

/// The types of the keys and the values of a map.
fn entry(map: &DataType) -> Option<(DataType, DataType)> {
    let DataType::Map(entries, _) = map else { return None };
    match entries.data_type() {
        DataType::Struct(fields) => match fields.as_ref() {
            [key, value] => Some((key.data_type().clone(), value.data_type().clone())),
            _ => None,
        },
        _ => None,
    }
}

/// The function that finds the value of a key.
pub(in crate::sql) fn function() -> ScalarUDF {
    ScalarUDF::from(MapValue { signature: Signature::any(2, Volatility::Immutable) })
}

/// The value that a map has for a key; null where it has none.
#[derive(Debug, PartialEq, Eq, Hash)]
struct MapValue {
    signature: Signature,
}

impl ScalarUDFImpl for MapValue {
    fn name(&self) -> &'static str {
        "sty__map_value"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> DataFusionResult<DataType> {
        match arguments.first().and_then(entry) {
            Some((_, value)) => Ok(value),
            None => plan_err!("{} takes a map", self.name()),
        }
    }

    fn invoke_with_args(&self, given: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let [maps, keys] = given.args.as_slice() else {
            return exec_err!("{} takes two arguments", self.name());
        };
        let is_constant = |argument: &ColumnarValue| matches!(argument, ColumnarValue::Scalar(_));
        let are_constant = is_constant(maps) && is_constant(keys);
        let key_step = usize::from(!is_constant(keys));
        let rows = if are_constant { 1 } else { given.number_rows };
        let maps = maps.to_array(rows)?;
        let keys = keys.to_array(if key_step == 0 { 1 } else { rows })?;
        let Some(maps) = maps.as_map_opt() else {
            return exec_err!("{} takes a map", self.name());
        };
        let order = make_comparator(maps.keys(), &keys, SortOptions::default())?;
        let place = |row: usize, ends: &[i32]| {
            let [start, end] = ends else { return None };
            let key = row * key_step;
            if maps.is_null(row) || keys.is_null(key) {
                return None;
            }
            (*start..*end).find(|at| order(*at as usize, key).is_eq()).map(|at| at as u64)
        };
        let ends = maps.value_offsets().windows(2);
        let places: UInt64Array = ends.enumerate().map(|(row, ends)| place(row, ends)).collect();
        let values = take(maps.values(), &places, None)?;
        Ok(match are_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?),
            false => ColumnarValue::Array(values),
        })
    }
}
