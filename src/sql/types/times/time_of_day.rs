//! Times of day: `current_time` in microseconds, and comparisons of times of several units.
//!
//! TIME has microseconds (see `types::names`), as in files. In DataFusion (55.2) it has
//! nanoseconds, as does `current_time`, and times of two units have no common type: it refuses to
//! compare them. Here they are cast to the finest unit, which holds every time of a day.

use arrow_array::timezone::Tz;
use arrow_schema::{DataType, TimeUnit};
use chrono::{TimeZone, Timelike};
use datafusion::common::{DFSchema, ScalarValue, exec_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    Case, ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility, cast, lit,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::units::nanoseconds;
use crate::sql::types::zones::UTC;

pub(super) fn is_time(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Time32(_) | DataType::Time64(_))
}

/// The type of times of day with the finest unit among these types.
pub(super) fn finest<'t>(types: impl Iterator<Item = &'t DataType>) -> Option<&'t DataType> {
    let length = |data_type: &DataType| match data_type {
        DataType::Time32(unit) | DataType::Time64(unit) => nanoseconds(*unit),
        _ => i128::MAX,
    };
    types.filter(|data_type| is_time(data_type)).min_by_key(|data_type| length(data_type))
}

/// Casts times of day to the finest of their types, if they have several. Returns whether it did.
pub(super) fn unify_units(sides: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    let types: Vec<Option<DataType>> =
        sides.iter().map(|side| side.get_type(schema).ok()).collect();
    let Some(finest) = finest(types.iter().flatten()) else { return false };
    let mut changed = false;
    for (side, data_type) in sides.into_iter().zip(&types) {
        if data_type.as_ref().is_some_and(|own| is_time(own) && own != finest) {
            *side = cast(std::mem::take(side), finest.clone());
            changed = true;
        }
    }
    changed
}

/// The same for the results of a CASE.
pub(super) fn unify_results(choice: &mut Case, schema: &DFSchema) -> bool {
    let results = choice.when_then_expr.iter_mut().map(|(_, then)| &mut **then);
    unify_units(results.chain(choice.else_expr.as_deref_mut()).collect(), schema)
}

/// Plans comparisons of times of two units, because their type is needed before any rule runs.
#[derive(Debug)]
pub(in crate::sql) struct TimeOfDayComparison;

impl ExprPlanner for TimeOfDayComparison {
    fn plan_binary_op(
        &self,
        operation: RawBinaryExpr,
        schema: &DFSchema,
    ) -> DataFusionResult<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
        let RawBinaryExpr { op, mut left, mut right } = operation;
        let compares = matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq);
        if compares && right.get_type(schema).is_ok_and(|data_type| is_time(&data_type)) {
            unify_units(vec![&mut left, &mut right], schema);
        }
        Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
    }
}

/// Whether the arguments of a function must have the same type.
pub(super) fn has_uniform_arguments(function: &ScalarFunction) -> bool {
    matches!(function.func.name(), "coalesce" | "nullif" | "greatest" | "least" | "nvl")
}

/// `current_time`, and `localtime`.
pub(super) fn current_time() -> ScalarUDF {
    let signature = Signature::nullary(Volatility::Stable);
    ScalarUDF::from(CurrentTime { signature, aliases: vec!["localtime".to_owned()] })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct CurrentTime {
    signature: Signature,
    aliases: Vec<String>,
}

impl ScalarUDFImpl for CurrentTime {
    fn name(&self) -> &'static str {
        "current_time"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DataFusionResult<DataType> {
        Ok(DataType::Time64(TimeUnit::Microsecond))
    }

    fn simplify(
        &self,
        args: Vec<Expr>,
        context: &SimplifyContext,
    ) -> DataFusionResult<ExprSimplifyResult> {
        let zone = context.config_options().execution.time_zone.as_deref().unwrap_or(UTC);
        let (Some(start), Ok(zone)) = (context.query_execution_start_time(), zone.parse::<Tz>())
        else {
            return Ok(ExprSimplifyResult::Original(args));
        };
        let local = zone.from_utc_datetime(&start.naive_utc()).time();
        let micros = i64::from(local.num_seconds_from_midnight()) * 1_000_000
            + i64::from(local.nanosecond() / 1_000);
        Ok(ExprSimplifyResult::Simplified(lit(ScalarValue::Time64Microsecond(Some(micros)))))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        exec_err!("{}() was not simplified", self.name())
    }
}
