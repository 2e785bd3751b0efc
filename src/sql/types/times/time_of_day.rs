//! Times of day: `current_time` in microseconds, and times of several units side by side.
//!
//! TIME has microseconds (see `types`), as files have them. To DataFusion (55.2) it has
//! nanoseconds, as does its `current_time`, and it knows no type for times of two units: it refuses
//! to compare them. Here they are those of the finest unit, which holds every time of a day.

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

use super::nanoseconds;
use crate::sql::types::zones::UTC;

pub(super) fn is_time(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Time32(_) | DataType::Time64(_))
}

/// The one among these types that holds all of their times of day.
pub(super) fn finest<'t>(types: impl Iterator<Item = &'t DataType>) -> Option<&'t DataType> {
    let length = |of: &DataType| match of {
        DataType::Time32(unit) | DataType::Time64(unit) => nanoseconds(*unit),
        _ => i128::MAX,
    };
    types.filter(|of| is_time(of)).min_by_key(|of| length(of))
}

/// Casts times of day to the finest of their types, if they have several. Says whether it has.
pub(super) fn to_one_type(sides: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    let types: Vec<Option<DataType>> =
        sides.iter().map(|side| side.get_type(schema).ok()).collect();
    let Some(finest) = finest(types.iter().flatten()) else { return false };
    let mut changed = false;
    for (side, of) in sides.into_iter().zip(&types) {
        if of.as_ref().is_some_and(|of| is_time(of) && of != finest) {
            *side = cast(std::mem::take(side), finest.clone());
            changed = true;
        }
    }
    changed
}

/// The same for what a CASE gives.
pub(super) fn chosen_to_one_type(choice: &mut Case, schema: &DFSchema) -> bool {
    let results = choice.when_then_expr.iter_mut().map(|(_, then)| &mut **then);
    to_one_type(results.chain(choice.else_expr.as_deref_mut()).collect(), schema)
}

/// Plans comparisons of times of two units, whose type is asked for before any rule sees them.
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
        if compares && right.get_type(schema).is_ok_and(|of| is_time(&of)) {
            to_one_type(vec![&mut left, &mut right], schema);
        }
        Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
    }
}

/// Whether the arguments of a function have one type.
pub(super) fn takes_one_type(function: &ScalarFunction) -> bool {
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
        let (Some(begun), Ok(zone)) = (context.query_execution_start_time(), zone.parse::<Tz>())
        else {
            return Ok(ExprSimplifyResult::Original(args));
        };
        let shown = zone.from_utc_datetime(&begun.naive_utc()).time();
        let micros = i64::from(shown.num_seconds_from_midnight()) * 1_000_000
            + i64::from(shown.nanosecond() / 1_000);
        Ok(ExprSimplifyResult::Simplified(lit(ScalarValue::Time64Microsecond(Some(micros)))))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        exec_err!("{}() was not simplified", self.name())
    }
}
