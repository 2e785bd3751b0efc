//! Numbers with a point that stand beside decimals in CASE, `coalesce`, comparisons, UNION and the
//! like, as decimals.
//!
//! Where this stands on the road of a query: an analyzer rule, before types are coerced. DataFusion
//! (55.2) would bring a double and a decimal to DECIMAL(…, 15), for which large decimals have too
//! many digits before the point. Where all others of a group are decimals and integers, a number is
//! the decimal that it says, and the common type holds it and them. Beside doubles, a number of
//! more digits than they keep is a double again, and so is a decimal where one of them is given
//! out.

use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, DFSchemaRef, ScalarValue};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Distinct, Expr, ExprSchemable, LogicalPlan, Projection, Union, cast, lit,
};
use datafusion::optimizer::AnalyzerRule;

use super::arithmetic::{as_double, digits, exact_literal, is_written};
use super::comparison::is_comparison;
use crate::sql::walks::{any_expression, any_node, rewrite_plan, rewrite_up, rewrite_where};

/// The rule.
#[derive(Debug)]
pub(in crate::sql) struct NumbersBesideDecimals;

impl AnalyzerRule for NumbersBesideDecimals {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        if !any_node(&plan, has_decimals) && !any_expression(&plan, makes_decimal) {
            return Ok(plan);
        }
        let in_groups = any_expression(&plan, concerns);
        let in_unions = any_node(&plan, |node| matches!(node, LogicalPlan::Union(_)));
        if !in_groups && !in_unions {
            return Ok(plan);
        }
        let rewrite = |node: LogicalPlan| match node {
            LogicalPlan::Union(union) => united(union),
            node if in_groups => rewrite_where(node, concerns, unify_numbers),
            node => Ok(Transformed::no(node)),
        };
        Ok(rewrite_plan(plan, rewrite)?.data)
    }

    fn name(&self) -> &'static str {
        "numbers_beside_decimals"
    }
}

/// Whether a node gives out decimals.
fn has_decimals(node: &LogicalPlan) -> bool {
    node.schema().fields().iter().any(|field| field.data_type().is_decimal())
}

/// Whether an expression is a decimal though none of its parts might be.
fn makes_decimal(expr: &Expr) -> bool {
    match expr {
        Expr::Cast(cast) => cast.field.data_type().is_decimal(),
        Expr::TryCast(cast) => cast.field.data_type().is_decimal(),
        Expr::Literal(value, _) => value.data_type().is_decimal(),
        Expr::ScalarFunction(call) => matches!(call.func.name(), "arrow_cast" | "arrow_try_cast"),
        _ => false,
    }
}

/// Functions whose arguments have one type.
const OF_ONE_TYPE: [&str; 6] = ["coalesce", "greatest", "ifnull", "least", "nullif", "nvl"];

/// Whether a function is one of those.
pub(super) fn has_one_type(name: &str) -> bool {
    OF_ONE_TYPE.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// Whether an expression has groups that may mix decimals with doubles, or compares a number with a
/// point.
fn concerns(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(binary) => {
            is_comparison(binary.op) && (is_written(&binary.left) || is_written(&binary.right))
        }
        Expr::Between(_) => true,
        Expr::InList(list) => {
            is_written(&list.expr)
                || list.list.iter().any(|value| is_written(value) || !is_literal(value))
        }
        Expr::ScalarFunction(call) => places(call).is_some() || has_one_type(call.func.name()),
        Expr::Case(_) => true,
        _ => false,
    }
}

fn is_literal(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(..))
}

/// An expression whose numbers beside decimals are decimals.
pub(in crate::sql) fn unify_numbers(
    expr: Expr,
    schema: &DFSchema,
) -> DataFusionResult<Transformed<Expr>> {
    rewrite_up(expr, |mut expr| {
        if !concerns(&expr) {
            return Ok(Transformed::no(expr));
        }
        let changed = match &mut expr {
            Expr::BinaryExpr(binary) => {
                as_decimals(&mut [&mut binary.left, &mut binary.right], schema)
            }
            Expr::Between(between) => {
                as_doubles(&mut [&mut between.expr, &mut between.low, &mut between.high], schema)
            }
            Expr::InList(list) => {
                let mut group: Vec<&mut Expr> = list.list.iter_mut().collect();
                group.push(&mut list.expr);
                as_doubles(&mut group, schema)
            }
            Expr::ScalarFunction(call) if call.func.name() == "round" => with_scale(call, schema),
            Expr::ScalarFunction(call) => {
                as_doubles(&mut call.args.iter_mut().collect::<Vec<_>>(), schema)
            }
            Expr::Case(case) => {
                let (mut compared, mut given): (Vec<&mut Expr>, Vec<&mut Expr>) =
                    (Vec::new(), Vec::new());
                let is_compared = case.expr.is_some();
                for (when, then) in &mut case.when_then_expr {
                    if is_compared {
                        compared.push(when);
                    }
                    given.push(then);
                }
                compared.extend(case.expr.as_deref_mut());
                given.extend(case.else_expr.as_deref_mut());
                as_doubles(&mut compared, schema) | as_doubles(&mut given, schema)
            }
            _ => false,
        };
        Ok(Transformed::new_transformed(expr, changed))
    })
}

/// The places of `round(x, 2)`.
fn places(call: &ScalarFunction) -> Option<i32> {
    match call.args.as_slice() {
        [_, Expr::Literal(ScalarValue::Int64(Some(places)), _)] if call.func.name() == "round" => {
            i32::try_from(*places).ok()
        }
        _ => None,
    }
}

/// Coercion puts a cast around the places, so that `round()` of a decimal has one scale while types
/// are coerced, and another one when it is computed: comparisons with it fail. Here they are of the
/// right type before.
fn with_scale(call: &mut ScalarFunction, schema: &DFSchema) -> bool {
    let Some(places) = places(call) else { return false };
    let [rounded, given] = call.args.as_mut_slice() else { return false };
    let is_decimal = rounded.get_type(schema).is_ok_and(|of| of.is_decimal());
    if is_decimal {
        *given = lit(places);
    }
    is_decimal
}

/// Makes the numbers of a group decimals, if all else in it is decimals and integers, and doubles,
/// if any of that is a double. Says whether it has.
fn as_decimals(group: &mut [&mut Expr], schema: &DFSchema) -> bool {
    let numbers: Vec<_> = group.iter().map(|expr| exact_literal(expr)).collect();
    let mut others = group
        .iter()
        .zip(&numbers)
        .filter(|(expr, number)| number.is_none() || digits(expr).is_some());
    let types: Option<Vec<DataType>> = others.try_fold(Vec::new(), |mut types, (expr, _)| {
        types.push(expr.get_type(schema).ok()?);
        Some(types)
    });
    let Some(kind) = types.and_then(|types| Kind::of(&types)) else { return false };
    let mut changed = false;
    for (expr, number) in group.iter_mut().zip(numbers) {
        if let Some(number) = number {
            **expr = kind.number(expr, number);
            changed = true;
        }
    }
    changed
}

/// The same, with decimals among doubles as doubles: of more than two values, coercion would make
/// decimals.
fn as_doubles(group: &mut [&mut Expr], schema: &DFSchema) -> bool {
    let changed = as_decimals(group, schema);
    let types: Option<Vec<DataType>> =
        group.iter().map(|expr| expr.get_type(schema).ok()).collect();
    let Some(types) = types.filter(|types| are_mixed(types)) else { return changed };
    for (expr, of) in group.iter_mut().zip(types) {
        if of.is_decimal() {
            **expr = cast(expr.clone(), DataType::Float64);
        }
    }
    true
}

/// Whether these are numbers, some of them decimals and some doubles.
fn are_mixed(types: &[DataType]) -> bool {
    types.iter().any(DataType::is_decimal)
        && types.iter().any(DataType::is_floating)
        && types.iter().all(|of| of.is_numeric() || of.is_null())
}

/// What numbers become.
#[derive(Clone, Copy)]
enum Kind {
    Decimals,
    Doubles,
}

impl Kind {
    /// Beside values of these types; `None` where numbers stay what they are.
    fn of(types: &[DataType]) -> Option<Kind> {
        let is_exact = |of: &DataType| of.is_decimal() || of.is_integer() || of.is_null();
        if types.iter().any(DataType::is_floating) {
            return Some(Kind::Doubles);
        }
        (types.iter().all(is_exact) && types.iter().any(DataType::is_decimal))
            .then_some(Kind::Decimals)
    }

    fn number(self, expr: &Expr, exact: ScalarValue) -> Expr {
        match self {
            Kind::Decimals => Expr::Literal(exact, None),
            Kind::Doubles => as_double(expr.clone()),
        }
    }
}

/// A UNION in whose columns of decimals numbers that are selected are decimals, and whose columns
/// of decimals and doubles are doubles.
fn united(union: Union) -> DataFusionResult<Transformed<LogicalPlan>> {
    let mut branches = Vec::new();
    union.inputs.iter().for_each(|input| collect_branches(input, &mut branches));
    let kind = |at: usize| {
        let is_number = |branch: &&LogicalPlan| {
            selected(branch, at).is_some_and(|expr| exact_literal(expr).is_some())
        };
        let is_typed = |expr: &Expr| exact_literal(expr).is_none() || digits(expr).is_some();
        let others = branches.iter().filter(|branch| selected(branch, at).is_none_or(is_typed));
        let types: Vec<DataType> =
            others.map(|branch| branch.schema().field(at).data_type().clone()).collect();
        Kind::of(&types).filter(|_| branches.iter().any(is_number) || are_mixed(&types))
    };
    let columns: Vec<(usize, Kind)> =
        (0..union.schema.fields().len()).filter_map(|at| Some((at, kind(at)?))).collect();
    let plan = LogicalPlan::Union(union);
    if columns.is_empty() {
        return Ok(Transformed::no(plan));
    }
    with_kinds(&plan, &columns).map(Transformed::yes)
}

/// The plans whose rows a UNION puts together.
fn collect_branches<'a>(plan: &'a LogicalPlan, branches: &mut Vec<&'a LogicalPlan>) {
    match plan {
        LogicalPlan::Union(union) => {
            union.inputs.iter().for_each(|input| collect_branches(input, branches))
        }
        LogicalPlan::Distinct(Distinct::All(input)) => collect_branches(input, branches),
        other => branches.push(other),
    }
}

/// What a branch selects as a column.
fn selected(branch: &LogicalPlan, at: usize) -> Option<&Expr> {
    let LogicalPlan::Projection(projection) = branch else { return None };
    match projection.expr.get(at)? {
        Expr::Alias(alias) => Some(&alias.expr),
        other => Some(other),
    }
}

/// A schema with the types of a plan, from which coercion begins.
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

/// The same plan with numbers and decimals of these kinds where its branches select some as these
/// columns.
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
            let of_kind = |(at, kind): &(usize, Kind)| match (
                selected(branch, *at).and_then(exact_literal),
                kind,
            ) {
                (Some(number), _) => {
                    selected(branch, *at).map(|expr| (*at, kind.number(expr, number)))
                }
                (None, Kind::Doubles) if branch.schema().field(*at).data_type().is_decimal() => {
                    let given = selected(branch, *at).cloned();
                    let given =
                        given.unwrap_or_else(|| Expr::from(branch.schema().qualified_field(*at)));
                    Some((*at, cast(given, DataType::Float64)))
                }
                _ => None,
            };
            let changed: Vec<(usize, Expr)> = columns.iter().filter_map(of_kind).collect();
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
            for (at, value) in changed {
                if let Some(expr) = exprs.get_mut(at) {
                    *expr = names.save(expr).restore(value);
                }
            }
            Projection::try_new(exprs, input).map(LogicalPlan::Projection)
        }
    }
}
