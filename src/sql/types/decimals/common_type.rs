//! The common type of decimals and numbers with a point in CASE, `coalesce`, comparisons, UNION and
//! the like.
//!
//! Where this stands on the road of a query: an analyzer rule, before types are coerced. DataFusion
//! (55.2) would coerce a double and a decimal to DECIMAL(…, 15), in which large decimals have too
//! many digits before the point. If all other expressions of a group are decimals and integers, a
//! number becomes the exact decimal, and the common type holds them all. Beside doubles, a number
//! with more digits than a double keeps becomes a double again, and so do decimals.

use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, DFSchemaRef, ScalarValue};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::{ScalarFunction, WindowFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Distinct, Expr, ExprSchemable, LogicalPlan, Projection, Union, cast, lit,
};
use datafusion::optimizer::AnalyzerRule;

use super::arithmetic::{exact_literal, is_exact_literal, lossy_digits, to_double};
use super::comparison::is_comparison;
use super::number::{MAX_DIGITS, Number};
use crate::sql::walks::{any_expression, any_node, rewrite_plan, rewrite_up, rewrite_where};

/// The rule of this module.
#[derive(Debug)]
pub(in crate::sql) struct NumbersBesideDecimals;

impl AnalyzerRule for NumbersBesideDecimals {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        let has_decimals = any_node(&plan, has_decimals) || any_expression(&plan, makes_decimal);
        if !has_decimals && !any_expression(&plan, compares_numbers) {
            return Ok(plan);
        }
        let in_groups = any_expression(&plan, is_candidate);
        let in_unions = any_node(&plan, |node| matches!(node, LogicalPlan::Union(_)));
        if !in_groups && !in_unions {
            return Ok(plan);
        }
        let rewrite = |node: LogicalPlan| match node {
            LogicalPlan::Union(union) => rewrite_union(union),
            node if in_groups => rewrite_where(node, is_candidate, unify_numbers),
            node => Ok(Transformed::no(node)),
        };
        Ok(rewrite_plan(plan, rewrite)?.data)
    }

    fn name(&self) -> &'static str {
        "numbers_beside_decimals"
    }
}

/// Whether a node has an output column of decimals.
fn has_decimals(node: &LogicalPlan) -> bool {
    node.schema().fields().iter().any(|field| field.data_type().is_decimal())
}

/// Whether an expression may be a decimal although none of its parts is.
fn makes_decimal(expr: &Expr) -> bool {
    match expr {
        Expr::Cast(cast) => cast.field.data_type().is_decimal(),
        Expr::TryCast(cast) => cast.field.data_type().is_decimal(),
        Expr::Literal(value, _) => value.data_type().is_decimal(),
        Expr::ScalarFunction(call) => matches!(call.func.name(), "arrow_cast" | "arrow_try_cast"),
        _ => false,
    }
}

/// Whether an expression compares a number with a point with two others, or with a large one.
fn compares_numbers(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(binary) => {
            let is_large = |expr: &Expr| {
                is_exact_literal(expr)
                    && Number::from_expr(expr).is_some_and(Number::is_beyond_doubles)
            };
            is_comparison(binary.op) && (is_large(&binary.left) || is_large(&binary.right))
        }
        Expr::Between(between) => [&between.expr, &between.low, &between.high]
            .into_iter()
            .any(|expr| is_exact_literal(expr)),
        Expr::InList(list) => list.list.iter().chain([list.expr.as_ref()]).any(is_exact_literal),
        Expr::Case(case) => {
            let values = case.when_then_expr.iter().map(|(value, _)| value.as_ref());
            case.expr
                .as_deref()
                .is_some_and(|operand| values.chain([operand]).any(is_exact_literal))
        }
        _ => false,
    }
}

/// Functions whose arguments must have the same type.
const UNIFORM_FUNCTIONS: [&str; 6] = ["coalesce", "greatest", "ifnull", "least", "nullif", "nvl"];

/// Whether the arguments of a function must have the same type.
pub(super) fn has_uniform_arguments(name: &str) -> bool {
    UNIFORM_FUNCTIONS.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// Whether an expression has groups that may mix decimals and doubles, or compares a number with a
/// point.
fn is_candidate(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(binary) => {
            is_comparison(binary.op)
                && (is_exact_literal(&binary.left) || is_exact_literal(&binary.right))
        }
        Expr::Between(_) => true,
        Expr::InList(list) => {
            is_exact_literal(&list.expr)
                || list.list.iter().any(|value| is_exact_literal(value) || !is_literal(value))
        }
        Expr::ScalarFunction(call) => {
            round_places(call).is_some() || has_uniform_arguments(call.func.name())
        }
        Expr::WindowFunction(call) => is_shift(call),
        Expr::Case(_) => true,
        _ => false,
    }
}

/// Whether a window is `lag` or `lead` with a default.
fn is_shift(call: &WindowFunction) -> bool {
    matches!(call.fun.name(), "lag" | "lead") && call.params.args.len() == 3
}

fn is_literal(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(..))
}

/// Makes the numbers beside decimals in an expression decimals.
pub(in crate::sql) fn unify_numbers(
    expr: Expr,
    schema: &DFSchema,
) -> DataFusionResult<Transformed<Expr>> {
    rewrite_up(expr, |mut expr| {
        if !is_candidate(&expr) {
            return Ok(Transformed::no(expr));
        }
        let changed = match &mut expr {
            Expr::BinaryExpr(binary) => {
                unify_group_numbers(&mut [&mut binary.left, &mut binary.right], true, schema)
            }
            Expr::Between(between) => unify_compared(
                &mut [&mut between.expr, &mut between.low, &mut between.high],
                schema,
            ),
            Expr::InList(list) => {
                let mut group: Vec<&mut Expr> = list.list.iter_mut().collect();
                group.push(&mut list.expr);
                unify_compared(&mut group, schema)
            }
            Expr::ScalarFunction(call) if call.func.name() == "round" => {
                coerce_round_places(call, schema)
            }
            Expr::WindowFunction(call) => match call.params.args.as_mut_slice() {
                [value, _, default] => unify_group(&mut [value, default], schema),
                _ => false,
            },
            Expr::ScalarFunction(call) => {
                unify_group(&mut call.args.iter_mut().collect::<Vec<_>>(), schema)
            }
            Expr::Case(case) => {
                let (mut compared, mut results): (Vec<&mut Expr>, Vec<&mut Expr>) =
                    (Vec::new(), Vec::new());
                let is_compared = case.expr.is_some();
                for (when, then) in &mut case.when_then_expr {
                    if is_compared {
                        compared.push(when);
                    }
                    results.push(then);
                }
                compared.extend(case.expr.as_deref_mut());
                results.extend(case.else_expr.as_deref_mut());
                let changed = unify_group_numbers(&mut compared, true, schema)
                    | make_doubles(&mut compared, schema);
                unify_group(&mut results, schema) || changed
            }
            _ => false,
        };
        Ok(Transformed::new_transformed(expr, changed))
    })
}

/// The second argument of `round(x, 2)`.
fn round_places(call: &ScalarFunction) -> Option<i32> {
    match call.args.as_slice() {
        [_, Expr::Literal(ScalarValue::Int64(Some(places)), _)] if call.func.name() == "round" => {
            i32::try_from(*places).ok()
        }
        _ => None,
    }
}

/// Gives the second argument of `round()` the type that coercion would cast it to. Such a cast is
/// not a literal, so `round()` of a decimal would have one scale while types are coerced and
/// another one when it is computed, and comparisons with it would fail. Returns whether it did.
fn coerce_round_places(call: &mut ScalarFunction, schema: &DFSchema) -> bool {
    let Some(places) = round_places(call) else { return false };
    let [rounded, digits] = call.args.as_mut_slice() else { return false };
    let is_decimal = rounded.get_type(schema).is_ok_and(|data_type| data_type.is_decimal());
    if is_decimal {
        *digits = lit(places);
    }
    is_decimal
}

/// Makes the numbers of a group decimals if everything else in it is decimals and integers, and
/// doubles if anything else is a double. Where they are compared, they become decimals beside
/// integers that doubles would confuse, too. Returns whether it changed something.
fn unify_group_numbers(group: &mut [&mut Expr], compared: bool, schema: &DFSchema) -> bool {
    let numbers: Vec<_> = group.iter().map(|expr| exact_literal(expr)).collect();
    let mut others = group
        .iter()
        .zip(&numbers)
        .filter(|(expr, number)| number.is_none() || lossy_digits(expr).is_some());
    let types: Option<Vec<DataType>> = others.try_fold(Vec::new(), |mut types, (expr, _)| {
        types.push(expr.get_type(schema).ok()?);
        Some(types)
    });
    let Some(types) = types else { return false };
    let kind = Kind::from_other_types(&types);
    let kind = kind
        .or_else(|| (compared && are_confused_by_doubles(group, &types)).then_some(Kind::Decimals));
    let Some(mut kind) = kind else { return false };
    if !have_room(&types, numbers.iter().flatten()) {
        kind = Kind::Doubles;
    }
    let mut changed = false;
    for (expr, number) in group.iter_mut().zip(numbers) {
        if let Some(number) = number {
            **expr = kind.convert(expr, number);
            changed = true;
        }
    }
    changed
}

/// Whether the others than the numbers with a point are integers, 64-bit ones among them, and may
/// be compared with each other or with an integer that is too large for a double.
fn are_confused_by_doubles(group: &[&mut Expr], types: &[DataType]) -> bool {
    let is_long = |data_type: &DataType| matches!(data_type, DataType::Int64 | DataType::UInt64);
    let numbers = group.iter().map(|expr| Number::from_expr(expr));
    let is_large = |number: Number| number.is_beyond_doubles();
    types.iter().all(|data_type| data_type.is_integer() || data_type.is_null())
        && types.iter().any(is_long)
        && (numbers.clone().filter(Option::is_none).count() > 1 || numbers.flatten().any(is_large))
}

/// Whether a decimal with the places of all these types and numbers holds the numbers: 1e30 and
/// nine places are too many digits.
fn have_room<'a>(
    types: &[DataType],
    numbers: impl Iterator<Item = &'a ScalarValue> + Clone,
) -> bool {
    let digits = |of: &DataType| match of {
        DataType::Decimal128(precision, scale) => (i32::from(*precision), i32::from(*scale)),
        _ => (0, 0),
    };
    let numbers = numbers.map(|number| digits(&number.data_type()));
    let scales = types.iter().map(|of| digits(of).1).chain(numbers.clone().map(|number| number.1));
    let places = scales.max().unwrap_or(0);
    numbers
        .map(|(precision, scale)| precision - scale + places)
        .all(|needed| usize::try_from(needed).is_ok_and(|needed| needed <= MAX_DIGITS))
}

/// The same, and makes decimals among doubles doubles: with more than two values, coercion would
/// make decimals of them all.
fn unify_group(group: &mut [&mut Expr], schema: &DFSchema) -> bool {
    let changed = unify_group_numbers(group, false, schema);
    make_doubles(group, schema) || changed
}

/// The same for values that are compared, where decimals stay beside numbers: these are compared
/// exactly later.
fn unify_compared(group: &mut [&mut Expr], schema: &DFSchema) -> bool {
    let changed = unify_group_numbers(group, true, schema);
    let is_float = |expr: &Expr| expr.get_type(schema).is_ok_and(|of| of.is_floating());
    let all_are_numbers = group.iter().all(|expr| !is_float(expr) || is_exact_literal(expr));
    !all_are_numbers && make_doubles(group, schema) || changed
}

/// Makes decimals among doubles doubles. Returns whether there are both.
fn make_doubles(group: &mut [&mut Expr], schema: &DFSchema) -> bool {
    let types: Option<Vec<DataType>> =
        group.iter().map(|expr| expr.get_type(schema).ok()).collect();
    let Some(types) = types.filter(|types| are_mixed(types)) else { return false };
    for (expr, data_type) in group.iter_mut().zip(types) {
        if data_type.is_decimal() {
            **expr = cast(expr.clone(), DataType::Float64);
        }
    }
    true
}

/// Whether these are all numbers, and both decimals and doubles are among them.
fn are_mixed(types: &[DataType]) -> bool {
    types.iter().any(DataType::is_decimal)
        && types.iter().any(DataType::is_floating)
        && types.iter().all(|data_type| data_type.is_numeric() || data_type.is_null())
}

/// What the numbers of a group become.
#[derive(Clone, Copy)]
enum Kind {
    Decimals,
    Doubles,
}

impl Kind {
    /// What numbers become beside values of these types; `None` if they stay as they are.
    fn from_other_types(types: &[DataType]) -> Option<Kind> {
        let is_exact = |data_type: &DataType| {
            data_type.is_decimal() || data_type.is_integer() || data_type.is_null()
        };
        if types.iter().any(DataType::is_floating) {
            return Some(Kind::Doubles);
        }
        (types.iter().all(is_exact) && types.iter().any(DataType::is_decimal))
            .then_some(Kind::Decimals)
    }

    fn convert(self, expr: &Expr, exact: ScalarValue) -> Expr {
        match self {
            Kind::Decimals => Expr::Literal(exact, None),
            Kind::Doubles => to_double(expr.clone()),
        }
    }
}

/// Makes selected numbers decimals in the columns of a UNION that are decimals otherwise, and makes
/// mixed columns of decimals and doubles doubles.
fn rewrite_union(union: Union) -> DataFusionResult<Transformed<LogicalPlan>> {
    let mut branches = Vec::new();
    union.inputs.iter().for_each(|input| collect_branches(input, &mut branches));
    let kind = |column: usize| {
        let is_number = |branch: &&LogicalPlan| {
            selected(branch, column).is_some_and(|expr| exact_literal(expr).is_some())
        };
        let is_typed = |expr: &Expr| exact_literal(expr).is_none() || lossy_digits(expr).is_some();
        let others = branches.iter().filter(|branch| selected(branch, column).is_none_or(is_typed));
        let types: Vec<DataType> =
            others.map(|branch| branch.schema().field(column).data_type().clone()).collect();
        Kind::from_other_types(&types)
            .filter(|_| branches.iter().any(is_number) || are_mixed(&types))
    };
    let columns: Vec<(usize, Kind)> = (0..union.schema.fields().len())
        .filter_map(|column| Some((column, kind(column)?)))
        .collect();
    let plan = LogicalPlan::Union(union);
    if columns.is_empty() {
        return Ok(Transformed::no(plan));
    }
    with_kinds(&plan, &columns).map(Transformed::yes)
}

/// The plans whose rows a UNION combines.
fn collect_branches<'a>(plan: &'a LogicalPlan, branches: &mut Vec<&'a LogicalPlan>) {
    match plan {
        LogicalPlan::Union(union) => {
            union.inputs.iter().for_each(|input| collect_branches(input, branches))
        }
        LogicalPlan::Distinct(Distinct::All(input)) => collect_branches(input, branches),
        other => branches.push(other),
    }
}

/// The expression that a branch selects as a column.
fn selected(branch: &LogicalPlan, column: usize) -> Option<&Expr> {
    let LogicalPlan::Projection(projection) = branch else { return None };
    match projection.expr.get(column)? {
        Expr::Alias(alias) => Some(&alias.expr),
        other => Some(other),
    }
}

/// The schema with the types of a plan, which is where coercion starts.
fn with_types_of(
    schema: &DFSchemaRef,
    plan: Option<&Arc<LogicalPlan>>,
) -> DataFusionResult<DFSchemaRef> {
    let Some(plan) = plan else { return Ok(Arc::clone(schema)) };
    let fields = schema.iter().zip(plan.schema().fields()).map(|((qualifier, field), of)| {
        (
            qualifier.cloned(),
            Arc::new(field.as_ref().clone().with_data_type(of.data_type().clone())),
        )
    });
    Ok(Arc::new(DFSchema::new_with_metadata(fields.collect(), schema.metadata().clone())?))
}

/// Converts the numbers and decimals that the branches of a plan select in these columns.
fn with_kinds(plan: &LogicalPlan, columns: &[(usize, Kind)]) -> DataFusionResult<LogicalPlan> {
    match plan {
        LogicalPlan::Union(union) => {
            let inputs = union.inputs.iter().map(|input| with_kinds(input, columns).map(Arc::new));
            let inputs = inputs.collect::<DataFusionResult<Vec<_>>>()?;
            let schema = with_types_of(&union.schema, inputs.first())?;
            Ok(LogicalPlan::Union(Union { inputs, schema }))
        }
        LogicalPlan::Distinct(Distinct::All(input)) => {
            Ok(LogicalPlan::Distinct(Distinct::All(Arc::new(with_kinds(input, columns)?))))
        }
        branch => {
            let convert = |(column, kind): &(usize, Kind)| match (
                selected(branch, *column).and_then(exact_literal),
                kind,
            ) {
                (Some(number), _) => {
                    selected(branch, *column).map(|expr| (*column, kind.convert(expr, number)))
                }
                (None, Kind::Doubles)
                    if branch.schema().field(*column).data_type().is_decimal() =>
                {
                    let expr = selected(branch, *column).cloned();
                    let expr = expr
                        .unwrap_or_else(|| Expr::from(branch.schema().qualified_field(*column)));
                    Some((*column, cast(expr, DataType::Float64)))
                }
                _ => None,
            };
            let changed: Vec<(usize, Expr)> = columns.iter().filter_map(convert).collect();
            if changed.is_empty() {
                return Ok(branch.clone());
            }
            let (mut exprs, input) = match branch {
                LogicalPlan::Projection(projection) => {
                    (projection.expr.clone(), Arc::clone(&projection.input))
                }
                other => (other.schema().iter().map(Expr::from).collect(), Arc::new(other.clone())),
            };
            let names = NamePreserver::new_for_projection();
            for (column, value) in changed {
                if let Some(expr) = exprs.get_mut(column) {
                    *expr = names.save(expr).restore(value);
                }
            }
            Projection::try_new(exprs, input).map(LogicalPlan::Projection)
        }
    }
}
