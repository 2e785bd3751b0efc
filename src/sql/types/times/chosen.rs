//! Timestamps of several units, and dates beside them, where CASE and UNION choose among them: all
//! become timestamps of the finest of these units. So do literal texts in a CASE.
//!
//! Where this stands on the road of a query: an analyzer rule of its own, before those that ask for
//! types. Until DataFusion (55.2) coerces types, a CASE has the type of its first result, and a
//! UNION that of its first query, so that other rules would take a literal for one that the unit
//! does not hold. DataFusion also makes nanoseconds of timestamps beside dates, which end in 2262.

use std::sync::Arc;

use arrow_schema::{DataType, TimeUnit};
use datafusion::common::DFSchema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Union, cast};
use datafusion::optimizer::AnalyzerRule;

use super::timestamps::TimestampType;
use super::units::finer;
use crate::sql::walks::{
    any_node, input_schema, node_has_part, rewrite_plan, rewrite_up, rewrite_where,
};

/// The rule of this module.
#[derive(Debug)]
pub(in crate::sql) struct FinestUnits;

impl AnalyzerRule for FinestUnits {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        if !any_node(&plan, mixes) {
            return Ok(plan);
        }
        let rewrite = |node: LogicalPlan| {
            let node = match node {
                LogicalPlan::Union(union) => unified_union(union)?,
                other => rewrite_where(other, is_case, unified_cases)?.data,
            };
            // Nodes above have the new types, too.
            node.recompute_schema().map(Transformed::yes)
        };
        Ok(rewrite_plan(plan, rewrite)?.data)
    }

    fn name(&self) -> &'static str {
        "finest_units"
    }
}

fn is_case(expr: &Expr) -> bool {
    matches!(expr, Expr::Case(_))
}

/// Whether a node chooses among timestamps of several types.
fn mixes(node: &LogicalPlan) -> bool {
    match node {
        LogicalPlan::Union(union) => {
            (0..union.schema.fields().len()).any(|column| type_of_column(union, column).is_some())
        }
        other if node_has_part(other, is_case) => {
            let schema = input_schema(other);
            let has_types = |choice: &Case| type_of_results(choice, &schema).is_some();
            node_has_part(other, |expr| matches!(expr, Expr::Case(choice) if has_types(choice)))
        }
        _ => false,
    }
}

/// The type of timestamps and dates together, if they have several types and one that holds them
/// all without the end in 2262.
fn finest(types: &[DataType]) -> Option<DataType> {
    let timestamp = |data_type: &DataType| match data_type {
        DataType::Timestamp(unit, zone) => Some((*unit, zone.clone())),
        _ => None,
    };
    let (first, zone) = types.iter().find_map(timestamp)?;
    let units = types.iter().filter_map(timestamp).map(|(unit, _)| unit);
    let unit = units.fold(first, finer);
    let finest = DataType::Timestamp(unit, zone.clone());
    let joins = |data_type: &DataType| match data_type {
        DataType::Null => true,
        DataType::Date32 => zone.is_none() && unit != TimeUnit::Nanosecond,
        DataType::Timestamp(_, other) => *other == zone,
        _ => false,
    };
    let differs = types.iter().any(|own| !own.is_null() && *own != finest);
    (differs && types.iter().all(joins)).then_some(finest)
}

fn type_of_column(union: &Union, column: usize) -> Option<DataType> {
    let types = union
        .inputs
        .iter()
        .map(|input| input.schema().fields().get(column).map(|field| field.data_type().clone()));
    finest(&types.collect::<Option<Vec<_>>>()?)
}

/// The type of timestamps that all inputs have by now, if the union has another one.
fn new_type(union: &Union, column: usize) -> Option<DataType> {
    let mut types = union
        .inputs
        .iter()
        .map(|input| input.schema().fields().get(column).map(|field| field.data_type()));
    let first = types.next()??;
    let is_new = union.schema.fields().get(column)?.data_type() != first;
    let is_timestamp = matches!(first, DataType::Timestamp(..));
    (is_new && is_timestamp && types.all(|other| other == Some(first))).then(|| first.clone())
}

/// The type of the results of a CASE. Literal texts beside times are times, too.
fn type_of_results(choice: &Case, schema: &DFSchema) -> Option<DataType> {
    let results = choice.when_then_expr.iter().map(|(_, then)| then).chain(&choice.else_expr);
    let (texts, others): (Vec<&Expr>, Vec<&Expr>) =
        results.map(|result| result.as_ref()).partition(|result| is_text(result));
    let types = others.into_iter().map(|result| result.get_type(schema).ok());
    let types = types.collect::<Option<Vec<_>>>()?;
    let several = finest(&types);
    if texts.is_empty() {
        return several;
    }
    let common = several.or_else(|| only_time(&types))?;
    texts.into_iter().all(|text| holds(&common, text)).then_some(common)
}

fn is_text(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(value, _) if value.try_as_str().is_some())
}

/// The type of timestamps, or of dates, that all have the same.
fn only_time(types: &[DataType]) -> Option<DataType> {
    let mut types = types.iter().filter(|data_type| !data_type.is_null());
    let first = types.next()?;
    let is_time = matches!(first, DataType::Timestamp(..) | DataType::Date32);
    (is_time && types.all(|other| other == first)).then(|| first.clone())
}

/// Whether a type has the value that a text says.
fn holds(data_type: &DataType, text: &Expr) -> bool {
    match (TimestampType::finest(std::slice::from_ref(data_type)), text) {
        (Some(timestamps), _) => timestamps.position(text).is_some_and(|position| position.exact),
        (None, Expr::Literal(value, _)) => value.cast_to(data_type).is_ok(),
        _ => false,
    }
}

fn unified_cases(expr: Expr, schema: &DFSchema) -> DataFusionResult<Transformed<Expr>> {
    rewrite_up(expr, |expr| {
        let Expr::Case(mut choice) = expr else { return Ok(Transformed::no(expr)) };
        let Some(finest) = type_of_results(&choice, schema) else {
            return Ok(Transformed::no(Expr::Case(choice)));
        };
        let results = choice.when_then_expr.iter_mut().map(|(_, then)| then);
        for result in results.chain(&mut choice.else_expr) {
            let own = result.get_type(schema)?;
            if own != finest && !own.is_null() {
                **result = cast(std::mem::take(&mut **result), finest.clone());
            }
        }
        Ok(Transformed::yes(Expr::Case(choice)))
    })
}

fn unified_union(mut union: Union) -> DataFusionResult<LogicalPlan> {
    let columns = 0..union.schema.fields().len();
    let type_of = |column| type_of_column(&union, column).or_else(|| new_type(&union, column));
    let types: Vec<Option<DataType>> = columns.map(type_of).collect();
    if types.iter().all(Option::is_none) {
        return Ok(LogicalPlan::Union(union));
    }
    for input in &mut union.inputs {
        let casts = input.schema().iter().zip(&types).map(|((qualifier, field), to)| {
            let column = Expr::from((qualifier, field));
            match to {
                Some(to) if field.data_type() != to => cast(column, to.clone())
                    .alias_qualified(qualifier.cloned(), field.name().clone()),
                _ => column,
            }
        });
        let casts: Vec<Expr> = casts.collect();
        let rows = LogicalPlanBuilder::from(input.as_ref().clone());
        *input = Arc::new(rows.project(casts)?.build()?);
    }
    let fields = union.schema.iter().zip(&types).map(|((qualifier, field), to)| {
        let field = match to {
            Some(to) => Arc::new(field.as_ref().clone().with_data_type(to.clone())),
            None => Arc::clone(field),
        };
        (qualifier.cloned(), field)
    });
    let metadata = union.schema.metadata().clone();
    union.schema = Arc::new(DFSchema::new_with_metadata(fields.collect(), metadata)?);
    Ok(LogicalPlan::Union(union))
}
