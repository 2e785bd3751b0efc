//! Aggregate functions in place of DataFusion's (55.2), each with one part of it put right and the
//! rest as it is.
//!
//! Where this stands on the road of a query: a session registers them under the names of those
//! whose place they take. What is put right is in `extremes`, `percentiles` and `sliding`.
//!
//! Here is also what rows in the opposite order need: where two windows of a query differ in
//! nothing but that, DataFusion computes one of them backwards, and `string_agg` and `array_agg`
//! then gave their values backwards, too.

use std::sync::Arc;

use arrow_schema::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result as DataFusionResult;
use datafusion::functions_aggregate::array_agg::array_agg_udaf;
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::functions_aggregate::bit_and_or_xor::{bit_and_udaf, bit_or_udaf, bit_xor_udaf};
use datafusion::functions_aggregate::bool_and_or::{bool_and_udaf, bool_or_udaf};
use datafusion::functions_aggregate::correlation::corr_udaf;
use datafusion::functions_aggregate::covariance::{covar_pop_udaf, covar_samp_udaf};
use datafusion::functions_aggregate::median::median_udaf;
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::functions_aggregate::percentile_cont::percentile_cont_udaf;
use datafusion::functions_aggregate::regr::{
    regr_avgx_udaf, regr_avgy_udaf, regr_intercept_udaf, regr_r2_udaf, regr_slope_udaf,
    regr_sxx_udaf, regr_sxy_udaf, regr_syy_udaf,
};
use datafusion::functions_aggregate::stddev::{stddev_pop_udaf, stddev_udaf};
use datafusion::functions_aggregate::string_agg::string_agg_udaf;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::functions_aggregate::variance::{var_pop_udaf, var_samp_udaf};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::function::{
    AccumulatorArgs, AggregateFunctionSimplification, StateFieldsArgs,
};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, Expr, GroupsAccumulator, Operator,
    ReversedUDAF, SetMonotonicity, Signature, StatisticsArgs,
};

use crate::sql::functions::extremes;
use crate::sql::functions::percentiles;
use crate::sql::functions::sliding;
use crate::sql::functions::sliding::{Moment, Total};

/// All of them.
pub(in crate::sql) fn all() -> impl Iterator<Item = AggregateUDF> {
    let functions = [
        (max_udaf(), Kind::Extreme { greatest: true }),
        (min_udaf(), Kind::Extreme { greatest: false }),
        (percentile_cont_udaf(), Kind::Percentile),
        (median_udaf(), Kind::Percentile),
        (sum_udaf(), Kind::Total(Total::Sum)),
        (avg_udaf(), Kind::Total(Total::Mean)),
        (stddev_udaf(), Kind::Moment(Moment::Deviation { sample: true })),
        (stddev_pop_udaf(), Kind::Moment(Moment::Deviation { sample: false })),
        (var_samp_udaf(), Kind::Moment(Moment::Variance { sample: true })),
        (var_pop_udaf(), Kind::Moment(Moment::Variance { sample: false })),
        (covar_samp_udaf(), Kind::Moment(Moment::Covariance { sample: true })),
        (covar_pop_udaf(), Kind::Moment(Moment::Covariance { sample: false })),
        (corr_udaf(), Kind::Moment(Moment::Correlation)),
        (regr_slope_udaf(), Kind::Moment(Moment::Slope)),
        (regr_intercept_udaf(), Kind::Moment(Moment::Intercept)),
        (regr_r2_udaf(), Kind::Moment(Moment::R2)),
        (regr_avgx_udaf(), Kind::Moment(Moment::MeanX)),
        (regr_avgy_udaf(), Kind::Moment(Moment::MeanY)),
        (regr_sxx_udaf(), Kind::Moment(Moment::SquaresX)),
        (regr_syy_udaf(), Kind::Moment(Moment::SquaresY)),
        (regr_sxy_udaf(), Kind::Moment(Moment::Products)),
        (bit_and_udaf(), Kind::Mergeable),
        (bit_or_udaf(), Kind::Mergeable),
        (bit_xor_udaf(), Kind::Mergeable),
        (bool_and_udaf(), Kind::Mergeable),
        (bool_or_udaf(), Kind::Mergeable),
        (string_agg_udaf(), Kind::Sequence),
        (array_agg_udaf(), Kind::Sequence),
    ];
    functions.into_iter().map(|(of, kind)| AggregateUDF::from(Ours { of, kind }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Ours {
    of: Arc<AggregateUDF>,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Extreme {
        greatest: bool,
    },
    Percentile,
    /// Of floats, and of other numbers, too: those are exact, and DataFusion's.
    Total(Total),
    /// Of floats.
    Moment(Moment),
    /// Of a small state, which can be told of two parts of the rows and united, in any order.
    Mergeable,
    /// All values, in the order in which they come.
    Sequence,
}

impl AggregateUDFImpl for Ours {
    fn name(&self) -> &str {
        self.of.name()
    }

    fn aliases(&self) -> &[String] {
        self.of.aliases()
    }

    fn signature(&self) -> &Signature {
        self.of.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> DataFusionResult<DataType> {
        self.of.return_type(arguments)
    }

    fn return_field(&self, arguments: &[FieldRef]) -> DataFusionResult<FieldRef> {
        self.of.return_field(arguments)
    }

    fn is_nullable(&self) -> bool {
        self.of.is_nullable()
    }

    fn accumulator(
        &self,
        arguments: AccumulatorArgs<'_>,
    ) -> DataFusionResult<Box<dyn Accumulator>> {
        match self.kind {
            Kind::Percentile => percentiles::accumulator(&self.of, arguments),
            // An aggregate has an order of its own if its rows come backwards, a window has none.
            Kind::Sequence if arguments.is_reversed && arguments.order_bys.is_empty() => {
                Ok(sliding::recomputed(&self.of, arguments))
            }
            _ => self.of.accumulator(arguments),
        }
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> DataFusionResult<Vec<FieldRef>> {
        self.of.state_fields(arguments)
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs<'_>) -> bool {
        self.of.groups_accumulator_supported(arguments)
    }

    fn create_groups_accumulator(
        &self,
        arguments: AccumulatorArgs<'_>,
    ) -> DataFusionResult<Box<dyn GroupsAccumulator>> {
        match self.kind {
            Kind::Extreme { greatest } => {
                extremes::groups_accumulator(&self.of, greatest, arguments)
            }
            Kind::Percentile => percentiles::groups_accumulator(&self.of, arguments),
            _ => self.of.create_groups_accumulator(arguments),
        }
    }

    fn create_sliding_accumulator(
        &self,
        arguments: AccumulatorArgs<'_>,
    ) -> DataFusionResult<Box<dyn Accumulator>> {
        match self.kind {
            Kind::Percentile => return percentiles::accumulator(&self.of, arguments),
            Kind::Total(of) if is_of_floats(&arguments) => return Ok(sliding::totals(of)),
            Kind::Moment(of) if is_of_floats(&arguments) => return Ok(sliding::moments(of)),
            Kind::Mergeable if !arguments.is_distinct => {
                return sliding::merged(&self.of, arguments);
            }
            Kind::Mergeable => {}
            Kind::Sequence if arguments.is_reversed => {}
            Kind::Extreme { .. } | Kind::Total(_) | Kind::Moment(_) | Kind::Sequence => {
                let of = self.of.create_sliding_accumulator(arguments.clone());
                if of.as_ref().is_ok_and(|of| of.supports_retract_batch()) {
                    return of;
                }
            }
        }
        Ok(sliding::recomputed(&self.of, arguments))
    }

    fn with_beneficial_ordering(
        self: Arc<Self>,
        beneficial: bool,
    ) -> DataFusionResult<Option<Arc<dyn AggregateUDFImpl>>> {
        let of = self.of.as_ref().clone().with_beneficial_ordering(beneficial)?;
        Ok(of.map(|of| {
            Arc::new(Ours { of: Arc::new(of), kind: self.kind }) as Arc<dyn AggregateUDFImpl>
        }))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.of.order_sensitivity()
    }

    /// The percentiles 0 and 1 are `min` and `max`, which become ours.
    fn simplify(&self) -> Option<AggregateFunctionSimplification> {
        let simplify = self.of.simplify()?;
        Some(Box::new(move |function, context| {
            let mut simple = simplify(function, context)?;
            if let Expr::AggregateFunction(function) = &mut simple {
                let greatest = function.func.name() == max_udaf().name();
                if greatest || function.func.name() == min_udaf().name() {
                    let ours =
                        Ours { of: Arc::clone(&function.func), kind: Kind::Extreme { greatest } };
                    function.func = Arc::new(AggregateUDF::from(ours));
                }
            }
            Ok(simple)
        }))
    }

    fn simplify_expr_op_literal(
        &self,
        function: &AggregateFunction,
        argument: &Expr,
        operator: Operator,
        literal: &Expr,
        argument_is_left: bool,
    ) -> DataFusionResult<Option<Expr>> {
        self.of.inner().simplify_expr_op_literal(
            function,
            argument,
            operator,
            literal,
            argument_is_left,
        )
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        match self.of.reverse_udf() {
            ReversedUDAF::Reversed(of) => {
                ReversedUDAF::Reversed(Arc::new(AggregateUDF::from(Ours { of, kind: self.kind })))
            }
            other => other,
        }
    }

    fn coerce_types(&self, arguments: &[DataType]) -> DataFusionResult<Vec<DataType>> {
        self.of.coerce_types(arguments)
    }

    fn is_descending(&self) -> Option<bool> {
        self.of.is_descending()
    }

    fn value_from_stats(&self, arguments: &StatisticsArgs<'_>) -> Option<ScalarValue> {
        self.of.value_from_stats(arguments)
    }

    fn default_value(&self, data_type: &DataType) -> DataFusionResult<ScalarValue> {
        self.of.default_value(data_type)
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.of.supports_null_handling_clause()
    }

    fn supports_within_group_clause(&self) -> bool {
        self.of.supports_within_group_clause()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.of.documentation()
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.of.inner().set_monotonicity(data_type)
    }
}

fn is_of_floats(arguments: &AccumulatorArgs<'_>) -> bool {
    !arguments.is_distinct
        && arguments.expr_fields.iter().all(|value| *value.data_type() == DataType::Float64)
}
