//! Decimals and integers beside numbers with a point, and beside doubles.
//!
//! Where this stands on the road of a query: an analyzer rule, before types are coerced. DataFusion (55.2) reads `16.78` as a
//! double and brings doubles and decimals to DECIMAL(30, 15), where it is 16.780000000000002: `price = 16.78` finds nothing,
//! and a double of 1e300 is an error. It compares integers with such numbers as doubles, of which large ones are equal that
//! are not.
//!
//! Here a number that is written beside a decimal is the decimal that it says ([`number`]), and is compared with decimals and
//! integers in their own types ([`comparison`]). Any other double or float beside a decimal makes both doubles, as in
//! PostgreSQL and DuckDB. Sums and products of a decimal and a number are decimals, quotients are doubles.

mod comparison;
mod number;

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ScalarValue, plan_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::{Case, InSubquery, ScalarFunction};
use datafusion::logical_expr::{Expr, ExprSchemable, Join, LogicalPlan, Subquery, Union, cast, lit};
use datafusion::optimizer::AnalyzerRule;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType as SqlType, ExactNumberInfo, Expr as SqlExpr, UnaryOperator, Value,
    ValueWithSpan, VisitMut, VisitorMut,
};

use super::assignments::is_kept;
use super::rules::{rewrite_columns, rewrite_expressions};
use number::Number;

/// The rule.
#[derive(Debug)]
pub(super) struct ExactNumbers;

impl AnalyzerRule for ExactNumbers {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        let mut changed = false;
        let rewrite = |node: LogicalPlan| {
            // What is below may have other types now.
            let node = if changed { retyped(node)? } else { node };
            let rewritten = settled(node)?;
            if !rewritten.transformed {
                return Ok(rewritten);
            }
            changed = true;
            rewritten.map_data(retyped)
        };
        Ok(plan.transform_up_with_subqueries(rewrite)?.data)
    }

    fn name(&self) -> &'static str {
        "exact_numbers"
    }
}

/// A node whose columns have the types of its expressions and inputs.
fn retyped(node: LogicalPlan) -> DataFusionResult<LogicalPlan> {
    match node {
        LogicalPlan::Union(union) => Union::try_new_with_loose_types(union.inputs).map(LogicalPlan::Union),
        other => other.recompute_schema(),
    }
}

fn settled(node: LogicalPlan) -> DataFusionResult<Transformed<LogicalPlan>> {
    match node {
        LogicalPlan::Union(union) => united(union),
        LogicalPlan::Join(join) => {
            let joined = keys(join)?;
            let rewritten = rewrite(joined.data)?;
            Ok(Transformed::new_transformed(rewritten.data, rewritten.transformed || joined.transformed))
        }
        other => rewrite(other),
    }
}

fn rewrite(node: LogicalPlan) -> DataFusionResult<Transformed<LogicalPlan>> {
    let mut found = false;
    node.apply_expressions(|expr| {
        found = found || expr.exists(|expr| Ok(may_meet(expr)))?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !found {
        return Ok(Transformed::no(node));
    }
    rewrite_expressions(node, |expr, schema| expr.transform_up(|expr| expression(expr, schema)))
}

/// Whether numbers of several types may meet in an expression.
fn may_meet(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(_) | Expr::Between(_) | Expr::InList(_) | Expr::InSubquery(_) | Expr::Case(_) => true,
        Expr::ScalarFunction(function) => first_of_one_type(function).is_some(),
        Expr::Cast(cast) => cast.field.data_type().is_decimal(),
        _ => false,
    }
}

/// The first of a function's arguments that are brought to one type.
fn first_of_one_type(function: &ScalarFunction) -> Option<usize> {
    match function.func.name() {
        "coalesce" | "nvl" | "nullif" | "greatest" | "least" | "make_array" => Some(0),
        "nvl2" => Some(1),
        _ => None,
    }
}

fn expression(expr: Expr, schema: &DFSchema) -> DataFusionResult<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(binary) => comparison::binary(binary, schema),
        Expr::Between(between) => comparison::between(between, schema),
        Expr::InList(list) => comparison::in_list(list, schema),
        Expr::InSubquery(within) => in_subquery(within, schema),
        Expr::Case(choice) => case(choice, schema),
        Expr::Cast(mut cast) => {
            let decimal = match cast.expr.as_ref() {
                Expr::Literal(ScalarValue::Float64(_), _) if cast.field.data_type().is_decimal() => {
                    Number::of(&cast.expr).and_then(|number| number.decimal())
                }
                _ => None,
            };
            let changed = decimal.is_some();
            if let Some(decimal) = decimal {
                *cast.expr = Expr::Literal(decimal, None);
            }
            Ok(Transformed::new_transformed(Expr::Cast(cast), changed))
        }
        Expr::ScalarFunction(mut function) => {
            let Some(first) = first_of_one_type(&function) else {
                return Ok(Transformed::no(Expr::ScalarFunction(function)));
            };
            let group: Vec<&Expr> = function.args.iter().skip(first).collect();
            let settled = beside(&group, schema)?;
            let changed = settled.is_some();
            if let Some(settled) = settled {
                function.args.truncate(first);
                function.args.extend(settled);
            }
            Ok(Transformed::new_transformed(Expr::ScalarFunction(function), changed))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Expressions that are to have one type, if there are decimals and doubles among them: all doubles are numbers that become
/// decimals, or all decimals become doubles.
fn beside(group: &[&Expr], schema: &DFSchema) -> DataFusionResult<Option<Vec<Expr>>> {
    let types = group.iter().map(|expr| expr.get_type(schema)).collect::<DataFusionResult<Vec<DataType>>>()?;
    if !types.iter().any(DataType::is_decimal) || !types.iter().any(DataType::is_floating) {
        return Ok(None);
    }
    let as_decimal = |(expr, of): (&&Expr, &DataType)| match of.is_floating() {
        true => Number::of(expr)?.decimal().map(|decimal| Expr::Literal(decimal, None)),
        false => Some((*expr).clone()),
    };
    if let Some(decimals) = group.iter().zip(&types).map(as_decimal).collect() {
        return Ok(Some(decimals));
    }
    let as_double = |(expr, of): (&&Expr, &DataType)| match of.is_decimal() {
        true => double(expr),
        false => (*expr).clone(),
    };
    Ok(Some(group.iter().zip(&types).map(as_double).collect()))
}

/// A decimal as a double: the nearest one, where its digits are written.
fn double(expr: &Expr) -> Expr {
    match number::text(expr).and_then(|digits| digits.parse::<f64>().ok()) {
        Some(double) => lit(double),
        None => cast(expr.clone(), DataType::Float64),
    }
}

fn case(case: Case, schema: &DFSchema) -> DataFusionResult<Transformed<Expr>> {
    let Case { expr, when_then_expr, else_expr } = &case;
    let whens = expr.iter().map(AsRef::as_ref).chain(when_then_expr.iter().map(|(when, _)| when.as_ref()));
    let results = when_then_expr.iter().map(|(_, then)| then).chain(else_expr).map(AsRef::as_ref);
    let compared = match expr {
        Some(_) => beside(&whens.collect::<Vec<_>>(), schema)?,
        None => None,
    };
    let results = beside(&results.collect::<Vec<_>>(), schema)?;
    if compared.is_none() && results.is_none() {
        return Ok(Transformed::no(Expr::Case(case)));
    }
    let mut case = case;
    if let Some(compared) = compared {
        let places = case.expr.iter_mut().chain(case.when_then_expr.iter_mut().map(|(when, _)| when));
        places.zip(compared).for_each(|(place, expr)| **place = expr);
    }
    if let Some(results) = results {
        let places = case.when_then_expr.iter_mut().map(|(_, then)| then).chain(&mut case.else_expr);
        places.zip(results).for_each(|(place, expr)| **place = expr);
    }
    Ok(Transformed::yes(Expr::Case(case)))
}

fn in_subquery(within: InSubquery, schema: &DFSchema) -> DataFusionResult<Transformed<Expr>> {
    let value = within.expr.get_type(schema)?;
    let Some(member) = within.subquery.subquery.schema().fields().first().map(|field| field.data_type().clone())
    else {
        return plan_err!("a subquery without columns");
    };
    if value.is_decimal() && member.is_floating() {
        let expr = Box::new(double(&within.expr));
        return Ok(Transformed::yes(Expr::InSubquery(InSubquery { expr, ..within })));
    }
    if !value.is_floating() || !member.is_decimal() {
        return Ok(Transformed::no(Expr::InSubquery(within)));
    }
    if let Some(decimal) = Number::of(&within.expr).and_then(|number| number.decimal()) {
        let expr = Box::new(Expr::Literal(decimal, None));
        return Ok(Transformed::yes(Expr::InSubquery(InSubquery { expr, ..within })));
    }
    let plan = rewrite_columns(within.subquery.subquery.as_ref().clone(), |_, column| Ok(double(&column)))?;
    let subquery = Subquery { subquery: Arc::new(plan), ..within.subquery };
    Ok(Transformed::yes(Expr::InSubquery(InSubquery { subquery, ..within })))
}

/// A join whose keys are compared as doubles where one is a decimal and the other a double.
fn keys(mut join: Join) -> DataFusionResult<Transformed<LogicalPlan>> {
    let mut changed = false;
    if !join.on.is_empty() {
        let mut schema = join.left.schema().as_ref().clone();
        schema.merge(join.right.schema());
        for (left, right) in &mut join.on {
            if let Some([new_left, new_right]) = beside(&[left, right], &schema)?.as_deref() {
                (*left, *right) = (new_left.clone(), new_right.clone());
                changed = true;
            }
        }
    }
    Ok(Transformed::new_transformed(LogicalPlan::Join(join), changed))
}

/// A union whose columns are doubles where one input has decimals and another one doubles.
fn united(union: Union) -> DataFusionResult<Transformed<LogicalPlan>> {
    let columns = union.schema.fields().len();
    let has = |at: usize, is: fn(&DataType) -> bool| {
        union.inputs.iter().any(|input| input.schema().fields().get(at).is_some_and(|field| is(field.data_type())))
    };
    let mixed: Vec<bool> =
        (0..columns).map(|at| has(at, DataType::is_decimal) && has(at, DataType::is_floating)).collect();
    if !mixed.contains(&true) {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let mut inputs = Vec::with_capacity(union.inputs.len());
    for input in union.inputs {
        let schema = Arc::clone(input.schema());
        let is_decimal = |at: usize| schema.field(at).data_type().is_decimal();
        let plan = Arc::unwrap_or_clone(input);
        inputs.push(Arc::new(rewrite_columns(plan, |at, column| {
            Ok(if mixed.get(at) == Some(&true) && is_decimal(at) { double(&column) } else { column })
        })?));
    }
    Union::try_new_with_loose_types(inputs).map(|union| Transformed::yes(LogicalPlan::Union(union)))
}

/// Keeps the digits of numbers that a double would not keep, where they are compared with something.
pub(super) fn keep_digits(statement: &mut Statement) {
    match statement {
        Statement::Statement(statement) => {
            let _ = statement.visit(&mut Digits);
        }
        Statement::Explain(explain) => keep_digits(&mut explain.statement),
        Statement::CreateExternalTable(_) | Statement::CopyTo(_) | Statement::Reset(_) => {}
    }
}

struct Digits;

impl VisitorMut for Digits {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut SqlExpr) -> ControlFlow<()> {
        use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
        match expr {
            SqlExpr::BinaryOp { left, op: Eq | NotEq | Lt | LtEq | Gt | GtEq, right }
            | SqlExpr::IsDistinctFrom(left, right)
            | SqlExpr::IsNotDistinctFrom(left, right) => {
                kept(left);
                kept(right);
            }
            SqlExpr::Between { expr, low, high, .. } => [expr, low, high].into_iter().for_each(|expr| kept(expr)),
            SqlExpr::InList { expr, list, .. } => {
                kept(expr);
                list.iter_mut().for_each(kept);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// A number as a decimal of its digits, if a double would have others.
fn kept(expr: &mut SqlExpr) {
    let (sign, number) = match &*expr {
        SqlExpr::UnaryOp { op: UnaryOperator::Minus, expr } => ("-", expr.as_ref()),
        other => ("", other),
    };
    let SqlExpr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) = number else { return };
    if is_kept(digits) {
        return;
    }
    let scale = digits.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let precision = digits.bytes().filter(u8::is_ascii_digit).count();
    let text = format!("{sign}{digits}");
    let (Ok(precision), Ok(scale), true) = (u64::try_from(precision), i64::try_from(scale), precision <= 38) else {
        return;
    };
    *expr = SqlExpr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(SqlExpr::Value(Value::SingleQuotedString(text).into())),
        data_type: SqlType::Decimal(ExactNumberInfo::PrecisionAndScale(precision, scale)),
        array: false,
        format: None,
    };
}
