//! Aggregate functions in place of DataFusion's (55.2): each corrects one part and passes the rest
//! on.
//!
//! Where this stands on the road of a query: a session registers them under the names of the
//! functions that they replace. The corrections are in `extremes`, `nested_extremes`, `r_squared`,
//! `percentiles`, `digests`, `sliding`, `exact_sums`, `collected`, `sequences`, `picked` and
//! `distinct_rows`.
//!
//! One more is here: if two windows of a query differ only in the direction of their order,
//! DataFusion computes one of them backwards, and its `string_agg` and `array_agg` then give their
//! values backwards, too.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::common::types::logical_date;
use datafusion::error::Result as DataFusionResult;
use datafusion::functions_aggregate::approx_percentile_cont::approx_percentile_cont_udaf;
use datafusion::functions_aggregate::array_agg::array_agg_udaf;
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::functions_aggregate::bit_and_or_xor::{bit_and_udaf, bit_or_udaf, bit_xor_udaf};
use datafusion::functions_aggregate::bool_and_or::{bool_and_udaf, bool_or_udaf};
use datafusion::functions_aggregate::correlation::corr_udaf;
use datafusion::functions_aggregate::covariance::{covar_pop_udaf, covar_samp_udaf};
use datafusion::functions_aggregate::first_last::{first_value_udaf, last_value_udaf};
use datafusion::functions_aggregate::median::median_udaf;
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::functions_aggregate::percentile_cont::percentile_cont_udaf;
use datafusion::functions_aggregate::regr::{
    regr_avgx_udaf, regr_avgy_udaf, regr_count_udaf, regr_intercept_udaf, regr_r2_udaf,
    regr_slope_udaf, regr_sxx_udaf, regr_sxy_udaf, regr_syy_udaf,
};
use datafusion::functions_aggregate::stddev::{stddev_pop_udaf, stddev_udaf};
use datafusion::functions_aggregate::string_agg::string_agg_udaf;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::functions_aggregate::variance::{var_pop_udaf, var_samp_udaf};
use datafusion::logical_expr::expr::{AggregateFunction, WindowFunction};
use datafusion::logical_expr::function::{
    AccumulatorArgs, AggregateFunctionSimplification, StateFieldsArgs,
};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Coercion, Documentation, Expr, GroupsAccumulator,
    Operator, ReversedUDAF, SetMonotonicity, Signature, StatisticsArgs, TypeSignature,
    TypeSignatureClass, WindowFunctionDefinition,
};

use crate::sql::functions::collected::{Collected, CollectedGroups, HeldViews, WindowValues};
use crate::sql::functions::digests;
use crate::sql::functions::distinct_rows;
use crate::sql::functions::exact_sums;
use crate::sql::functions::extremes;
use crate::sql::functions::nested_extremes;
use crate::sql::functions::percentiles;
use crate::sql::functions::picked;
use crate::sql::functions::r_squared;
use crate::sql::functions::sequences;
use crate::sql::functions::sliding;
use crate::sql::functions::sliding::{Moment, Total};
use crate::sql::types::times::mean_type;

/// All aggregate functions that replace one of DataFusion's, for a session with this memory limit.
pub(in crate::sql) fn functions(memory: u64) -> impl Iterator<Item = AggregateUDF> {
    let sequence = || Kind::Sequence { memory, window: None };
    let overrides = [
        (max_udaf(), Kind::Extreme { greatest: true }),
        (min_udaf(), Kind::Extreme { greatest: false }),
        (approx_percentile_cont_udaf(), Kind::Estimate),
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
        (regr_count_udaf(), Kind::Counted),
        (bit_and_udaf(), Kind::Mergeable),
        (bit_or_udaf(), Kind::Mergeable),
        (bit_xor_udaf(), Kind::Mergeable),
        (bool_and_udaf(), Kind::Mergeable),
        (bool_or_udaf(), Kind::Mergeable),
        (first_value_udaf(), Kind::Picked),
        (last_value_udaf(), Kind::Picked),
        (string_agg_udaf(), sequence()),
        (array_agg_udaf(), sequence()),
    ];
    overrides.into_iter().map(|(inner, kind)| AggregateUDF::from(Override::new(inner, kind)))
}

/// Gives a function of a window that collects values an account of them, in place of none. Returns
/// whether it did.
pub(in crate::sql) fn count_collected(window: &mut WindowFunction) -> bool {
    let WindowFunctionDefinition::AggregateUDF(function) = &window.fun else { return false };
    let found = function.inner().downcast_ref::<Override>();
    let Some(Override { inner, kind: Kind::Sequence { memory, window: None }, .. }) = found else {
        return false;
    };
    let values = WindowValues::new(*memory);
    let kind = Kind::Sequence { memory: *memory, window: Some(values) };
    let counted = AggregateUDF::from(Override::new(Arc::clone(inner), kind));
    window.fun = WindowFunctionDefinition::AggregateUDF(Arc::new(counted));
    true
}

#[derive(Debug)]
struct Override {
    /// DataFusion's function.
    inner: Arc<AggregateUDF>,
    kind: Kind,
    /// Also those that take times, which a rule makes numbers of (`types::times::means`).
    signature: Signature,
}

impl PartialEq for Override {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
            && (Arc::ptr_eq(&self.inner, &other.inner) || self.inner == other.inner)
    }
}

impl Eq for Override {}

/// By name: DataFusion's function would hash all types that it takes, and the planner asks for the
/// hash of an expression often.
impl Hash for Override {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.name().hash(state);
    }
}

/// What is corrected.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Extreme {
        greatest: bool,
    },
    Percentile,
    /// An estimated percentile.
    Estimate,
    /// Totals: moving ones of floats, and sums of whole numbers and decimals.
    Total(Total),
    /// Moments of floats.
    Moment(Moment),
    /// Right but for DISTINCT.
    Counted,
    /// The state is small, and the states of two parts of the rows can be merged in any order.
    Mergeable,
    /// One value, of the first or the last row of an order.
    Picked,
    /// All values, in the order of the rows, under a limit of memory in bytes.
    Sequence {
        memory: u64,
        /// What the rows of a window get.
        window: Option<WindowValues>,
    },
}

impl AggregateUDFImpl for Override {
    delegate! {
        name() -> &str;
        aliases() -> &[String];
        is_nullable() -> bool;
        coerce_types(arguments: &[DataType]) -> DataFusionResult<Vec<DataType>>;
        is_descending() -> Option<bool>;
        value_from_stats(arguments: &StatisticsArgs<'_>) -> Option<ScalarValue>;
        default_value(data_type: &DataType) -> DataFusionResult<ScalarValue>;
        supports_null_handling_clause() -> bool;
        supports_within_group_clause() -> bool;
        documentation() -> Option<&Documentation>;
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> DataFusionResult<DataType> {
        if let Some(mean) = self.mean_type(arguments.first()) {
            return Ok(mean);
        }
        let own = self.inner.return_type(arguments)?;
        Ok(match self.kind {
            Kind::Percentile => percentiles::result_type(own),
            _ => own,
        })
    }

    fn return_field(&self, arguments: &[FieldRef]) -> DataFusionResult<FieldRef> {
        if let Some(mean) = self.mean_type(arguments.first().map(|of| of.data_type())) {
            return Ok(Arc::new(Field::new(self.name(), mean, true)));
        }
        let own = self.inner.return_field(arguments)?;
        Ok(match self.kind {
            Kind::Percentile => {
                let result = percentiles::result_type(own.data_type().clone());
                Arc::new(own.as_ref().clone().with_data_type(result))
            }
            _ => own,
        })
    }

    /// `string_agg` and `array_agg` sort what they have collected. DataFusion would sort all rows
    /// before the latter, and refuses to group by what has two `string_agg` of different orders.
    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        match self.kind {
            Kind::Sequence { .. } => AggregateOrderSensitivity::Beneficial,
            _ => self.inner.order_sensitivity(),
        }
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> DataFusionResult<Vec<FieldRef>> {
        if self.takes_rows_once(&arguments.return_field, arguments.is_distinct) {
            return Ok(distinct_rows::state_fields(&arguments));
        }
        match self.sums_exactly(&arguments.return_field, arguments.is_distinct) {
            true => Ok(exact_sums::state_fields(&arguments)),
            false => self.inner.state_fields(arguments),
        }
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs<'_>) -> bool {
        if self.takes_rows_once(&arguments.return_field, arguments.is_distinct) {
            return false;
        }
        matches!(self.kind, Kind::Sequence { .. }) && sequences::supports(self.name(), &arguments)
            || self.is_nested_extreme(&arguments.return_field)
            || self.kind == Kind::Estimate && digests::supports(&arguments)
            || self.inner.groups_accumulator_supported(arguments)
    }

    fn accumulator(
        &self,
        arguments: AccumulatorArgs<'_>,
    ) -> DataFusionResult<Box<dyn Accumulator>> {
        match &self.kind {
            _ if self.takes_rows_once(&arguments.return_field, arguments.is_distinct) => {
                distinct_rows::accumulator(&self.shared(), arguments)
            }
            _ if self.sums_exactly(&arguments.return_field, arguments.is_distinct) => {
                Ok(exact_sums::accumulator(&arguments))
            }
            Kind::Extreme { greatest } if self.is_nested_extreme(&arguments.return_field) => {
                nested_extremes::accumulator(*greatest, arguments.return_field.data_type())
            }
            Kind::Moment(Moment::R2) => {
                Ok(r_squared::accumulator(self.inner.accumulator(arguments)?))
            }
            Kind::Percentile => percentiles::accumulator(&self.inner, arguments),
            Kind::Sequence { window, .. } => {
                if window.is_none()
                    && let Some(sequence) = sequences::accumulator(self.name(), &arguments)?
                {
                    return Ok(sequence);
                }
                let views = HeldViews::new(self.name(), &arguments);
                // Only in a window do rows come backwards without an ORDER BY of the aggregate.
                let inner = match arguments.is_reversed && arguments.order_bys.is_empty() {
                    true => sliding::recomputed(&self.inner, arguments),
                    false => self.inner.accumulator(arguments)?,
                };
                Ok(Collected::boxed(inner, window.clone(), views))
            }
            _ => self.inner.accumulator(arguments),
        }
    }

    fn create_groups_accumulator(
        &self,
        arguments: AccumulatorArgs<'_>,
    ) -> DataFusionResult<Box<dyn GroupsAccumulator>> {
        match self.kind {
            _ if self.sums_exactly(&arguments.return_field, arguments.is_distinct) => {
                Ok(exact_sums::groups_accumulator(&arguments))
            }
            Kind::Extreme { greatest } if self.is_nested_extreme(&arguments.return_field) => {
                nested_extremes::groups_accumulator(greatest, arguments.return_field.data_type())
            }
            Kind::Extreme { greatest } => {
                extremes::groups_accumulator(&self.inner, greatest, arguments)
            }
            Kind::Percentile => percentiles::groups_accumulator(&self.inner, arguments),
            Kind::Estimate => digests::groups_accumulator(&self.inner, arguments),
            Kind::Picked => picked::groups_accumulator(&self.inner, arguments),
            Kind::Sequence { .. } => {
                if let Some(sequences) = sequences::groups_accumulator(self.name(), &arguments)? {
                    return Ok(sequences);
                }
                let views = HeldViews::new(self.name(), &arguments);
                Ok(CollectedGroups::boxed(self.inner.create_groups_accumulator(arguments)?, views))
            }
            _ => self.inner.create_groups_accumulator(arguments),
        }
    }

    fn create_sliding_accumulator(
        &self,
        arguments: AccumulatorArgs<'_>,
    ) -> DataFusionResult<Box<dyn Accumulator>> {
        match &self.kind {
            _ if self.takes_rows_once(&arguments.return_field, arguments.is_distinct) => {
                return Ok(sliding::recomputed(&self.shared(), arguments));
            }
            Kind::Percentile => return percentiles::accumulator(&self.inner, arguments),
            _ if self.sums_exactly(&arguments.return_field, arguments.is_distinct) => {
                let sums = exact_sums::accumulator(&arguments);
                if sums.supports_retract_batch() {
                    return Ok(sums);
                }
                return sliding::merged(&self.shared(), arguments);
            }
            Kind::Counted => return self.inner.create_sliding_accumulator(arguments),
            Kind::Total(total) if takes_floats(&arguments) => return Ok(sliding::totals(*total)),
            Kind::Moment(moment) if takes_floats(&arguments) => {
                return Ok(sliding::moments(*moment));
            }
            Kind::Mergeable if !arguments.is_distinct => {
                return sliding::merged(&self.inner, arguments);
            }
            Kind::Mergeable | Kind::Estimate => {}
            Kind::Extreme { .. } if self.is_nested_extreme(&arguments.return_field) => {
                return sliding::merged(&self.shared(), arguments);
            }
            Kind::Picked => return self.inner.create_sliding_accumulator(arguments),
            Kind::Sequence { window, .. } => {
                let views = HeldViews::new(self.name(), &arguments);
                let inner = match arguments.is_reversed {
                    true => None,
                    false => self.inner.create_sliding_accumulator(arguments.clone()).ok(),
                };
                let inner = inner.filter(|inner| inner.supports_retract_batch());
                let inner = inner.unwrap_or_else(|| sliding::recomputed(&self.inner, arguments));
                return Ok(Collected::boxed(inner, window.clone(), views));
            }
            Kind::Extreme { .. } | Kind::Total(_) | Kind::Moment(_) => {
                let inner = self.inner.create_sliding_accumulator(arguments.clone());
                if inner.as_ref().is_ok_and(|inner| inner.supports_retract_batch()) {
                    return inner;
                }
            }
        }
        Ok(sliding::recomputed(&self.inner, arguments))
    }

    fn with_beneficial_ordering(
        self: Arc<Self>,
        beneficial: bool,
    ) -> DataFusionResult<Option<Arc<dyn AggregateUDFImpl>>> {
        let inner = self.inner.as_ref().clone().with_beneficial_ordering(beneficial)?;
        Ok(match inner {
            Some(inner) => {
                let kind = self.kind.clone();
                Some(Arc::new(Override::new(Arc::new(inner), kind)))
            }
            // `string_agg` sorts in any case.
            None if matches!(self.kind, Kind::Sequence { .. }) => Some(self),
            None => None,
        })
    }

    /// DataFusion makes `min` and `max` of the percentiles 0 and 1; they are replaced, too.
    fn simplify(&self) -> Option<AggregateFunctionSimplification> {
        let simplify = self.inner.simplify()?;
        Some(Box::new(move |function, context| {
            let mut simple = simplify(function, context)?;
            if let Expr::AggregateFunction(function) = &mut simple {
                let greatest = function.func.name() == max_udaf().name();
                if greatest || function.func.name() == min_udaf().name() {
                    let inner = Arc::clone(&function.func);
                    let extreme = Override::new(inner, Kind::Extreme { greatest });
                    function.func = Arc::new(AggregateUDF::from(extreme));
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
        // The number of rows is cast to the literal's type, in which it may have no room. Of whole
        // numbers, the executor shares sums without overflow (`plan::lower::sums`).
        let Expr::Literal(value, _) = literal else { return Ok(None) };
        if value.data_type() != DataType::Float64 {
            return Ok(None);
        }
        let simple = self.inner.inner().simplify_expr_op_literal(
            function,
            argument,
            operator,
            literal,
            argument_is_left,
        )?;
        simple.map(exact_sums::without_casts_in_counts).transpose()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        match self.inner.reverse_udf() {
            ReversedUDAF::Reversed(inner) => {
                let reversed = Override::new(inner, self.kind.clone());
                ReversedUDAF::Reversed(Arc::new(AggregateUDF::from(reversed)))
            }
            other => other,
        }
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(data_type)
    }
}

impl Override {
    fn new(inner: Arc<AggregateUDF>, kind: Kind) -> Override {
        let mut signature = inner.signature().clone();
        let known = signature.type_signature.clone();
        if matches!(kind, Kind::Percentile | Kind::Total(Total::Mean)) {
            let rest = match &known {
                TypeSignature::Coercible(types) => types.get(1..).unwrap_or_default(),
                _ => &[],
            };
            let times = [TypeSignatureClass::Timestamp, TypeSignatureClass::Native(logical_date())];
            let of_times = times.map(|time| {
                let first = std::iter::once(Coercion::new_exact(time));
                TypeSignature::Coercible(first.chain(rest.iter().cloned()).collect())
            });
            let mut all = match known {
                TypeSignature::OneOf(all) => all,
                one => vec![one],
            };
            all.extend(of_times);
            signature.type_signature = TypeSignature::OneOf(all);
        }
        Override { inner, kind, signature }
    }

    /// This function, for accumulators that make others of it.
    fn shared(&self) -> Arc<AggregateUDF> {
        let own = Override::new(Arc::clone(&self.inner), self.kind.clone());
        Arc::new(AggregateUDF::from(own))
    }

    /// Whether this is an extreme of lists or structs.
    fn is_nested_extreme(&self, result: &Field) -> bool {
        matches!(self.kind, Kind::Extreme { .. }) && nested_extremes::has(result.data_type())
    }

    /// The type of a mean of times; `None` of anything else.
    fn mean_type(&self, of: Option<&DataType>) -> Option<DataType> {
        match self.kind {
            Kind::Percentile | Kind::Total(Total::Mean) => mean_type(of?),
            _ => None,
        }
    }

    /// Whether this is a sum of integers or decimals.
    fn sums_exactly(&self, result: &Field, is_distinct: bool) -> bool {
        self.kind == Kind::Total(Total::Sum) && exact_sums::handles(result.data_type(), is_distinct)
    }

    /// Whether rows of arguments that are equal count once, which DataFusion's function does not
    /// know, or knows for sums that wrap around only.
    fn takes_rows_once(&self, result: &Field, is_distinct: bool) -> bool {
        let is_unknown = matches!(self.kind, Kind::Moment(_) | Kind::Counted);
        is_distinct && (is_unknown || self.sums_exactly(result, false))
    }
}

fn takes_floats(arguments: &AccumulatorArgs<'_>) -> bool {
    !arguments.is_distinct
        && arguments.expr_fields.iter().all(|value| *value.data_type() == DataType::Float64)
}
