//! One zero in lists and structs: `[0.0] = [-0.0]`, and the two are one group.
//!
//! Where this stands on the road of a query: a part of the analyzer rule in `zeros`. DataFusion
//! (55.2) compares lists and structs by the bytes of their rows, in which the two zeros of floats
//! differ. Here -0.0 becomes 0.0 in what is compared, grouped, made distinct and looked up; and so
//! it is in what DISTINCT, groups, INTERSECT, EXCEPT and `array_distinct` answer.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, FixedSizeListArray, LargeListArray, ListArray, StructArray};
use arrow_schema::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue, internal_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Distinct, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit, when,
};

use crate::sql::walks::{
    Rewritten, any_expression, any_node, has_part, input_schema, is_comparison,
    rewrite_expressions, rewrite_plan, rewrite_up,
};

/// Functions that look values up in lists, or compare the items of lists.
const LOOKUPS: [&str; 9] = [
    "array_distinct",
    "array_except",
    "array_has",
    "array_has_all",
    "array_has_any",
    "array_intersect",
    "array_position",
    "array_positions",
    "array_union",
];

/// Those whose results have items of their first argument that are not equal to the second.
const KEEPERS: [&str; 6] = [
    "array_remove",
    "array_remove_all",
    "array_remove_n",
    "array_replace",
    "array_replace_all",
    "array_replace_n",
];

/// Functions that make lists and structs of values.
const MAKERS: [&str; 4] = ["make_array", "struct", "named_struct", "map"];

/// Whether a plan has lists or structs with floats.
pub(super) fn are_in(plan: &LogicalPlan) -> bool {
    let fields = |node: &LogicalPlan| {
        node.schema().fields().iter().any(|field| has_nested_floats(field.data_type()))
    };
    let makes = |expr: &Expr| match expr {
        Expr::ScalarFunction(function) => MAKERS.contains(&function.name()),
        Expr::Literal(value, _) => has_nested_floats(&value.data_type()),
        _ => false,
    };
    any_expression(plan, makes) || any_node(plan, fields)
}

/// Takes both zeros for one wherever lists and structs of a plan are compared.
pub(super) fn made_one(plan: LogicalPlan) -> DataFusionResult<LogicalPlan> {
    Ok(rewrite_plan(plan, made_one_in)?.data)
}

fn made_one_in(node: LogicalPlan) -> Rewritten<LogicalPlan> {
    let schema = input_schema(&node);
    match node {
        LogicalPlan::Distinct(Distinct::All(input))
            if schema.fields().iter().any(|field| has_nested_floats(field.data_type())) =>
        {
            let rows = LogicalPlanBuilder::from(Arc::unwrap_or_clone(input));
            let rows = rows.project(columns_with_one_zero(&schema))?;
            rows.distinct()?.build().map(Transformed::yes)
        }
        // Those of INTERSECT, EXCEPT and USING; other conditions are not taken apart yet.
        LogicalPlan::Join(mut join) => {
            let (left, right) = (Arc::clone(join.left.schema()), Arc::clone(join.right.schema()));
            for (of_left, of_right) in &mut join.on {
                *of_left = with_one_zero(std::mem::take(of_left), &left);
                *of_right = with_one_zero(std::mem::take(of_right), &right);
            }
            join.filter = match join.filter {
                Some(filter) => Some(compared(filter, &schema)?.data),
                None => None,
            };
            Ok(Transformed::yes(LogicalPlan::Join(join)))
        }
        LogicalPlan::Aggregate(_) => rewrite_expressions(node, |expr, schema| {
            let expr = compared(expr, schema)?;
            let is_key = !has_part(&expr.data, |part| matches!(part, Expr::AggregateFunction(_)));
            Ok(match is_key {
                true => Transformed::yes(with_one_zero(expr.data, schema)),
                false => expr,
            })
        }),
        other => rewrite_expressions(other, compared),
    }
}

/// Takes both zeros for one where an expression compares lists or structs.
fn compared(expr: Expr, schema: &DFSchema) -> Rewritten<Expr> {
    let one = |expr: &mut Expr| *expr = with_one_zero(std::mem::take(expr), schema);
    let is_nested =
        |expr: &Expr| expr.get_type(schema).is_ok_and(|data_type| has_nested_floats(&data_type));
    rewrite_up(expr, |expr| {
        Ok(match expr {
            Expr::BinaryExpr(mut pair)
                if is_comparison(pair.op) && (is_nested(&pair.left) || is_nested(&pair.right)) =>
            {
                one(&mut pair.left);
                one(&mut pair.right);
                Transformed::yes(Expr::BinaryExpr(pair))
            }
            Expr::InList(mut list) if is_nested(&list.expr) => {
                one(&mut list.expr);
                list.list.iter_mut().for_each(one);
                Transformed::yes(Expr::InList(list))
            }
            Expr::InSubquery(mut found) if is_nested(&found.expr) => {
                one(&mut found.expr);
                found.subquery.subquery = with_one_zero_in(&found.subquery.subquery)?;
                Transformed::yes(Expr::InSubquery(found))
            }
            Expr::SetComparison(mut found) if is_nested(&found.expr) => {
                one(&mut found.expr);
                found.subquery.subquery = with_one_zero_in(&found.subquery.subquery)?;
                Transformed::yes(Expr::SetComparison(found))
            }
            Expr::Case(mut case) if case.expr.as_deref().is_some_and(is_nested) => {
                case.expr.as_deref_mut().into_iter().for_each(one);
                case.when_then_expr.iter_mut().for_each(|(value, _)| one(value));
                Transformed::yes(Expr::Case(case))
            }
            Expr::ScalarFunction(function)
                if function.name() == "nullif" && function.args.iter().any(is_nested) =>
            {
                let [value, other] = function.args.as_slice() else {
                    return Ok(Transformed::no(Expr::ScalarFunction(function)));
                };
                let equal =
                    with_one_zero(value.clone(), schema).eq(with_one_zero(other.clone(), schema));
                let null = lit(ScalarValue::try_from(&value.get_type(schema)?)?);
                Transformed::yes(when(equal, null).otherwise(value.clone())?)
            }
            Expr::ScalarFunction(function)
                if KEEPERS.contains(&function.name()) && function.args.iter().any(is_nested) =>
            {
                Transformed::yes(keeping(function, schema)?)
            }
            Expr::ScalarFunction(mut function)
                if LOOKUPS.contains(&function.name()) && function.args.iter().any(is_nested) =>
            {
                for argument in &mut function.args {
                    *argument = plus_zero(std::mem::take(argument), schema)?;
                }
                Transformed::yes(Expr::ScalarFunction(function))
            }
            other => Transformed::no(other),
        })
    })
}

/// `array_remove` and the like: only a zero needs one zero in the list, whose other items stay as
/// they are.
fn keeping(function: ScalarFunction, schema: &DFSchema) -> DataFusionResult<Expr> {
    let mut replaced = function.clone();
    for argument in replaced.args.iter_mut().take(2) {
        *argument = plus_zero(std::mem::take(argument), schema)?;
    }
    let replaced = Expr::ScalarFunction(replaced);
    let as_it_is = |function: ScalarFunction| Expr::ScalarFunction(function);
    let Some(sought) = function.args.get(1).cloned() else { return Ok(as_it_is(function)) };
    let zero = match sought.get_type(schema)? {
        DataType::Float64 => lit(0.0_f64),
        DataType::Float32 => lit(0.0_f32),
        _ => return Ok(replaced),
    };
    when(sought.eq(zero), replaced).otherwise(as_it_is(function))
}

/// A query without -0.0 in the lists and structs of its rows.
fn with_one_zero_in(query: &Arc<LogicalPlan>) -> DataFusionResult<Arc<LogicalPlan>> {
    let schema = query.schema();
    if !schema.fields().iter().any(|field| has_nested_floats(field.data_type())) {
        return Ok(Arc::clone(query));
    }
    let rows = LogicalPlanBuilder::from(query.as_ref().clone());
    rows.project(columns_with_one_zero(schema))?.build().map(Arc::new)
}

/// The columns of a schema under their names, without -0.0 in lists and structs.
fn columns_with_one_zero(schema: &DFSchema) -> Vec<Expr> {
    let one = |column| {
        let expr = Expr::Column(column);
        let (qualifier, name) = expr.qualified_name();
        let one = with_one_zero(expr.clone(), schema);
        if one == expr { one } else { one.alias_qualified(qualifier, name) }
    };
    schema.columns().into_iter().map(one).collect()
}

/// Whether a type is a list or a struct that has floats.
pub(super) fn has_nested_floats(data_type: &DataType) -> bool {
    let has_floats = |data_type: &DataType| data_type.is_floating() || has_nested_floats(data_type);
    match data_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            has_floats(item.data_type())
        }
        DataType::Struct(fields) => fields.iter().any(|field| has_floats(field.data_type())),
        _ => false,
    }
}

/// A list or struct without -0.0; any other expression as it is.
pub(super) fn with_one_zero(expr: Expr, schema: &DFSchema) -> Expr {
    match expr.get_type(schema) {
        Ok(data_type) if has_nested_floats(&data_type) => {
            Expr::ScalarFunction(ScalarFunction::new_udf(function().into(), vec![expr]))
        }
        _ => expr,
    }
}

/// The function that replaces -0.0 within lists and structs.
pub(in crate::sql) fn function() -> ScalarUDF {
    ScalarUDF::from(OneZeroWithin { signature: Signature::any(1, Volatility::Immutable) })
}

/// Replaces -0.0 with 0.0 in the items of lists and structs.
pub(super) fn one_zero_within(values: &ArrayRef) -> ArrayRef {
    let nulls = values.nulls().cloned();
    match values.data_type() {
        data_type if !has_nested_floats(data_type) => Arc::clone(values),
        DataType::List(item) => {
            let list: &ListArray = values.as_list();
            let (offsets, items) = (list.offsets().clone(), one_zero(list.values()));
            Arc::new(ListArray::new(Arc::clone(item), offsets, items, nulls))
        }
        DataType::LargeList(item) => {
            let list: &LargeListArray = values.as_list();
            let (offsets, items) = (list.offsets().clone(), one_zero(list.values()));
            Arc::new(LargeListArray::new(Arc::clone(item), offsets, items, nulls))
        }
        DataType::FixedSizeList(item, length) => {
            let items = one_zero(values.as_fixed_size_list().values());
            Arc::new(FixedSizeListArray::new(Arc::clone(item), *length, items, nulls))
        }
        DataType::Struct(fields) => {
            let columns = values.as_struct().columns().iter().map(one_zero).collect();
            Arc::new(StructArray::new(fields.clone(), columns, nulls))
        }
        _ => Arc::clone(values),
    }
}

/// Returns its argument with 0.0 in place of -0.0.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OneZeroWithin {
    signature: Signature,
}

impl ScalarUDFImpl for OneZeroWithin {
    fn name(&self) -> &'static str {
        "one_zero_within"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> DataFusionResult<DataType> {
        match arguments {
            [data_type] => Ok(data_type.clone()),
            _ => internal_err!("{} takes one argument", self.name()),
        }
    }

    fn invoke_with_args(&self, given: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        match given.args.into_iter().next() {
            Some(ColumnarValue::Array(values)) => {
                Ok(ColumnarValue::Array(one_zero_within(&values)))
            }
            Some(ColumnarValue::Scalar(value)) => {
                let one = one_zero_within(&value.to_array()?);
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&one, 0)?))
            }
            None => internal_err!("{} has no argument", self.name()),
        }
    }
}

/// Adds 0.0 to floats, which makes 0.0 of -0.0, and does so within lists and structs.
pub(in crate::sql) fn plus_zero(expr: Expr, schema: &DFSchema) -> DataFusionResult<Expr> {
    Ok(match expr.get_type(schema)? {
        DataType::Float64 => expr + lit(0.0_f64),
        DataType::Float32 => expr + lit(0.0_f32),
        _ => with_one_zero(expr, schema),
    })
}

/// Replaces -0.0 with 0.0 in floats, those in lists and structs, too.
pub(in crate::sql) fn one_zero(values: &ArrayRef) -> ArrayRef {
    if let Some(floats) = values.as_primitive_opt::<Float64Type>() {
        return Arc::new(floats.unary::<_, Float64Type>(|value| value + 0.0));
    }
    match values.as_primitive_opt::<Float32Type>() {
        Some(floats) => Arc::new(floats.unary::<_, Float32Type>(|value| value + 0.0)),
        None => one_zero_within(values),
    }
}
