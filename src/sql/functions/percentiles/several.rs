//! Several percentiles of the same floats, from one state.

use std::sync::{Arc, LazyLock};

use arrow_schema::{DataType, FieldRef};
use datafusion::common::{internal_err, plan_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::functions_aggregate::percentile_cont::percentile_cont_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, Signature, Volatility,
};

use super::{
    Percentile, PercentileAccumulator, PercentileGroupsAccumulator, Wanted, constant, fields,
};

/// `percentile_cont` of floats, of several fractions, of which a rule makes calls of one
/// (`lower::quantiles`): a struct.
pub(in crate::sql) fn several() -> &'static Arc<AggregateUDF> {
    static FUNCTION: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| {
        let signature = Signature::variadic_any(Volatility::Immutable);
        Arc::new(AggregateUDF::from(Several { inner: percentile_cont_udaf(), signature }))
    });
    &FUNCTION
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Several {
    /// `percentile_cont`.
    inner: Arc<AggregateUDF>,
    signature: Signature,
}

impl Several {
    fn wanted(arguments: &AccumulatorArgs<'_>) -> DataFusionResult<Wanted> {
        let fractions = arguments.exprs.get(1..).unwrap_or_default().iter();
        let one = |fraction| Ok(Percentile { fraction: constant(fraction)?, descending: false });
        fractions.map(one).collect::<DataFusionResult<_>>().map(Wanted::Several)
    }
}

/// Those of a call with its first fraction.
fn of_first<'a>(arguments: &AccumulatorArgs<'a>) -> AccumulatorArgs<'a> {
    let mut first = arguments.clone();
    first.exprs = first.exprs.get(..2).unwrap_or(first.exprs);
    first.expr_fields = first.expr_fields.get(..2).unwrap_or(first.expr_fields);
    first
}

impl AggregateUDFImpl for Several {
    fn name(&self) -> &'static str {
        "percentiles_cont"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> DataFusionResult<DataType> {
        match arguments {
            [of, fractions @ ..] if of.is_floating() => {
                Ok(DataType::Struct(fields(of, fractions.len())))
            }
            _ => plan_err!("percentiles_cont() takes a float"),
        }
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> DataFusionResult<Vec<FieldRef>> {
        let Some(of) = arguments.input_fields.first() else {
            return internal_err!("percentiles_cont() has no argument");
        };
        self.inner.state_fields(StateFieldsArgs { return_field: Arc::clone(of), ..arguments })
    }

    fn accumulator(
        &self,
        arguments: AccumulatorArgs<'_>,
    ) -> DataFusionResult<Box<dyn Accumulator>> {
        let inner = self.inner.accumulator(of_first(&arguments))?;
        let percentile = Several::wanted(&arguments)?;
        let state_keeps_values = arguments.is_distinct;
        Ok(Box::new(PercentileAccumulator { inner, percentile, state_keeps_values, taken: None }))
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs<'_>) -> bool {
        self.inner.groups_accumulator_supported(of_first(&arguments))
    }

    fn create_groups_accumulator(
        &self,
        arguments: AccumulatorArgs<'_>,
    ) -> DataFusionResult<Box<dyn GroupsAccumulator>> {
        let inner = self.inner.create_groups_accumulator(of_first(&arguments))?;
        let percentile = Several::wanted(&arguments)?;
        Ok(Box::new(PercentileGroupsAccumulator { inner, percentile }))
    }
}
