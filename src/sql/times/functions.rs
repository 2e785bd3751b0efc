//! `now()` in microseconds, and `generate_series` and `range` in a FROM with timestamps of any unit.
//!
//! DataFusion's (55.2) `now()` has nanoseconds, which end in 2262: no date after that could be compared with it. Its series
//! are of nanoseconds, and take no others.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, TimeUnit};
use datafusion::catalog::{TableFunction, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{ScalarValue, exec_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit,
};

/// `now()` and `current_timestamp`.
pub(in crate::sql) fn now() -> ScalarUDF {
    ScalarUDF::from(Now::in_zone(None))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Now {
    signature: Signature,
    aliases: Vec<String>,
    zone: Option<Arc<str>>,
}

impl Now {
    fn in_zone(zone: Option<Arc<str>>) -> Now {
        let aliases = vec!["current_timestamp".to_owned()];
        Now { signature: Signature::nullary(Volatility::Stable), aliases, zone }
    }
}

impl ScalarUDFImpl for Now {
    fn name(&self) -> &'static str {
        "now"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        let zone = config.execution.time_zone.as_deref().map(Arc::from);
        Some(ScalarUDF::from(Now::in_zone(zone)))
    }

    fn return_type(&self, _: &[DataType]) -> DataFusionResult<DataType> {
        Ok(DataType::Timestamp(TimeUnit::Microsecond, self.zone.clone()))
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> DataFusionResult<FieldRef> {
        Ok(Arc::new(Field::new(self.name(), self.return_type(&[])?, false)))
    }

    fn simplify(&self, args: Vec<Expr>, context: &SimplifyContext) -> DataFusionResult<ExprSimplifyResult> {
        let Some(begun) = context.query_execution_start_time() else {
            return Ok(ExprSimplifyResult::Original(args));
        };
        let value = ScalarValue::TimestampMicrosecond(Some(begun.timestamp_micros()), self.zone.clone());
        Ok(ExprSimplifyResult::Simplified(lit(value)))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        exec_err!("{}() was not simplified", self.name())
    }
}

/// The table functions that make series, around those of DataFusion.
pub(in crate::sql) fn series(
    known: &HashMap<String, Arc<TableFunction>>,
) -> Vec<(&'static str, Arc<dyn TableFunctionImpl>)> {
    let around = |name: &'static str| {
        let function: Arc<dyn TableFunctionImpl> = Arc::new(Series(Arc::clone(known.get(name)?.function())));
        Some((name, function))
    };
    ["generate_series", "range"].into_iter().filter_map(around).collect()
}

#[derive(Debug)]
struct Series(Arc<dyn TableFunctionImpl>);

impl TableFunctionImpl for Series {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> DataFusionResult<Arc<dyn TableProvider>> {
        let exprs: Vec<Expr> = args.exprs().iter().map(in_nanoseconds).collect::<DataFusionResult<_>>()?;
        self.0.call_with_args(TableFunctionArgs::new(&exprs, args.session()))
    }
}

fn in_nanoseconds(arg: &Expr) -> DataFusionResult<Expr> {
    match arg {
        Expr::Literal(value, _) => match value.data_type() {
            DataType::Timestamp(_, zone) => {
                Ok(lit(value.cast_to(&DataType::Timestamp(TimeUnit::Nanosecond, zone))?))
            }
            _ => Ok(arg.clone()),
        },
        _ => Ok(arg.clone()),
    }
}
