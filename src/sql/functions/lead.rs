//! `lead` and `lag`, corrected for ignored nulls, LIMIT, offsets that are null, and defaults of
//! another type.
//!
//! DataFusion's functions (55.2) take a partition row by row as it comes. A `lead` that ignores
//! nulls loses count there: a null that comes into reach is never counted, and an offset of 0 gives
//! the default for a null. Over a whole partition their results are right, and such a `lead` has to
//! wait for the end of its partition anyway. The same holds for a `lag` by a negative offset, and
//! for a `lag` over rows in the opposite order, which is a `lead`.
//!
//! They also tell the rule that pushes a LIMIT below a window how many more rows they need, but
//! ignore nulls, negative offsets and the opposite order. Here a limit is pushed only below a `lag`
//! that looks back. DataFusion takes a null offset for 0; here the result is null. Finally, it
//! takes only literals for offsets and defaults; others are computed for each row here
//! (`shifted`).

use std::ops::Range;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType, FieldRef};
use datafusion::common::{ScalarValue, plan_err};
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::functions_window::lead_lag::{lag_udwf, lead_udwf};
use datafusion::logical_expr::function::{
    ExpressionArgs, PartitionEvaluatorArgs, WindowUDFFieldArgs,
};
use datafusion::logical_expr::{
    Documentation, LimitEffect, PartitionEvaluator, ReversedUDWF, Signature, Volatility, WindowUDF,
    WindowUDFImpl,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::lit;

use super::shifted::{self, literal};

/// Both functions.
pub(in crate::sql) fn functions() -> [WindowUDF; 2] {
    [lead_udwf(), lag_udwf()].map(|inner| WindowUDF::from(Shift::new(inner, false)))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Shift {
    /// DataFusion's function.
    inner: Arc<WindowUDF>,
    signature: Signature,
    /// Whether rows come in the opposite order.
    reversed: bool,
}

impl Shift {
    fn new(inner: Arc<WindowUDF>, reversed: bool) -> Shift {
        Shift { inner, signature: Signature::user_defined(Volatility::Immutable), reversed }
    }

    /// Whether no row needs one that comes later, with or without nulls.
    fn looks_back(&self, arguments: &[Arc<dyn PhysicalExpr>]) -> bool {
        let forward = arguments.get(1).is_none_or(|offset| match literal(offset) {
            Some(ScalarValue::Int64(Some(offset))) => *offset >= 0,
            _ => false,
        });
        self.inner.name() == "lag" && !self.reversed && forward
    }
}

impl WindowUDFImpl for Shift {
    delegate! {
        name() -> &str;
        field(arguments: WindowUDFFieldArgs<'_>) -> DataFusionResult<FieldRef>;
        documentation() -> Option<&Documentation>;
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// The value and the default get their common type; DataFusion casts the default to the type of
    /// the value, which cuts its fraction.
    fn coerce_types(&self, arguments: &[DataType]) -> DataFusionResult<Vec<DataType>> {
        let mut types = arguments.to_vec();
        match types.as_mut_slice() {
            [_] | [_, _] => {}
            [value, _, default] => {
                if let Some(common) = common_type(value, default) {
                    (*value, *default) = (common.clone(), common);
                }
            }
            _ => return plan_err!("{}() takes a value, an offset and a default", self.name()),
        }
        Ok(types)
    }

    fn expressions(&self, arguments: ExpressionArgs<'_>) -> Vec<Arc<dyn PhysicalExpr>> {
        match shifted::is_needed(arguments.input_exprs()) {
            true => arguments.input_exprs().to_vec(),
            false => self.inner.expressions(arguments),
        }
    }

    fn partition_evaluator(
        &self,
        arguments: PartitionEvaluatorArgs<'_>,
    ) -> DataFusionResult<Box<dyn PartitionEvaluator>> {
        if shifted::is_needed(arguments.input_exprs()) {
            return shifted::evaluator(self.inner.name() == "lag", &arguments);
        }
        let ignore_nulls = arguments.ignore_nulls();
        let data_type = arguments.input_fields().first().map(|field| field.data_type().clone());
        let inner = match arguments.input_exprs() {
            [value, offset, ..] if literal(offset).is_some_and(ScalarValue::is_null) => {
                always_null(&self.inner, value, arguments)?
            }
            _ => self.inner.partition_evaluator_factory(arguments)?,
        };
        Ok(if ignore_nulls && !inner.is_causal() {
            Box::new(WholePartition { inner, data_type, results: None })
        } else {
            inner
        })
    }

    fn reverse_expr(&self) -> ReversedUDWF {
        let reversed = Shift::new(Arc::clone(&self.inner), !self.reversed);
        ReversedUDWF::Reversed(Arc::new(WindowUDF::from(reversed)))
    }

    fn limit_effect(&self, arguments: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        if self.looks_back(arguments) { LimitEffect::None } else { LimitEffect::Unknown }
    }
}

/// The type that holds both values and defaults, if that of the values does not hold the fractions
/// of the defaults. Whole numbers stay what they are, as literals are wide: a default that does not
/// fit is an error. Beside floats it is a double, as in CASE and `coalesce`. Decimals that would
/// need more than 38 digits lose places of the defaults, never of the values.
fn common_type(value: &DataType, default: &DataType) -> Option<DataType> {
    use DataType::{Date32, Decimal128, Float64, Timestamp};
    match (value, default) {
        (value, default) if default.is_floating() && (value.is_integer() || value.is_decimal()) => {
            Some(Float64)
        }
        (value, Decimal128(digits, scale)) => {
            let (value_digits, value_scale) = match value {
                Decimal128(digits, scale) => (*digits, *scale),
                integer if integer.is_integer() => (INTEGER_DIGITS, 0),
                _ => return None,
            };
            let whole = |digits: u8, scale: i8| i16::from(digits) - i16::from(scale);
            let most = whole(value_digits, value_scale).max(whole(*digits, *scale));
            let most_scale = i16::from(DECIMAL128_MAX_PRECISION) - most;
            let common_scale = value_scale.max(*scale).min(i8::try_from(most_scale).ok()?);
            if common_scale < value_scale {
                return None;
            }
            let needed = u8::try_from(most + i16::from(common_scale)).ok()?;
            (common_scale > value_scale || most > whole(value_digits, value_scale))
                .then_some(Decimal128(needed, common_scale))
        }
        (Date32, Timestamp(..)) => Some(default.clone()),
        _ => None,
    }
}

/// The digits of the decimals that DataFusion makes of integers of 64 bits.
const INTEGER_DIGITS: u8 = 20;

/// An evaluator that gives null for every row: the offset is beyond any partition, and the default
/// is a null of its type.
fn always_null(
    function: &WindowUDF,
    value: &Arc<dyn PhysicalExpr>,
    arguments: PartitionEvaluatorArgs<'_>,
) -> DataFusionResult<Box<dyn PartitionEvaluator>> {
    let fields = arguments.input_fields();
    let mut exprs = vec![Arc::clone(value), lit(i64::MAX)];
    if let Some(default) = fields.get(2) {
        exprs.push(lit(ScalarValue::try_from(default.data_type())?));
    }
    function.partition_evaluator_factory(PartitionEvaluatorArgs::new(
        &exprs,
        fields,
        arguments.is_reversed(),
        arguments.ignore_nulls(),
    ))
}

/// Evaluates all rows of a partition at once, when it is complete.
#[derive(Debug)]
struct WholePartition {
    inner: Box<dyn PartitionEvaluator>,
    /// The type of the values, and of the default. Running windows hand on texts in another layout
    /// (`run/window_texts`).
    data_type: Option<DataType>,
    /// The results for all rows, kept because DataFusion asks for them row by row.
    results: Option<ArrayRef>,
}

impl WholePartition {
    fn typed(&self, values: &[ArrayRef]) -> DataFusionResult<Vec<ArrayRef>> {
        let typed = |array: &ArrayRef| match &self.data_type {
            Some(known) if known != array.data_type() && !known.is_null() => {
                Ok(arrow_cast::cast(array, known)?)
            }
            _ => Ok(Arc::clone(array)),
        };
        values.iter().map(typed).collect()
    }
}

impl PartitionEvaluator for WholePartition {
    /// The range ends with the partition, so that DataFusion waits for all rows and drops none
    /// early.
    fn get_range(&self, row: usize, rows: usize) -> DataFusionResult<Range<usize>> {
        Ok(row..rows)
    }

    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> DataFusionResult<ArrayRef> {
        let values = self.typed(values)?;
        self.inner.evaluate_all(&values, rows)
    }

    fn evaluate(
        &mut self,
        values: &[ArrayRef],
        range: &Range<usize>,
    ) -> DataFusionResult<ScalarValue> {
        let results = match self.results.take() {
            Some(results) => results,
            None => self.evaluate_all(values, range.end)?,
        };
        if range.start >= results.len() {
            return Err(DataFusionError::Internal(
                "a partition has grown after its end".to_owned(),
            ));
        }
        let value = ScalarValue::try_from_array(&results, range.start);
        self.results = Some(results);
        value
    }

    fn supports_bounded_execution(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::Int64Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_schema::Field;

    use super::*;

    fn evaluator(function: &WindowUDF, arguments: &[ScalarValue]) -> Box<dyn PartitionEvaluator> {
        let exprs: Vec<_> = arguments.iter().map(|argument| lit(argument.clone())).collect();
        let field = |argument: &ScalarValue| Arc::new(Field::new("x", argument.data_type(), true));
        let fields: Vec<FieldRef> = arguments.iter().map(field).collect();
        let arguments = PartitionEvaluatorArgs::new(&exprs, &fields, false, true);
        function.partition_evaluator_factory(arguments).unwrap()
    }

    fn row_by_row(evaluator: &mut dyn PartitionEvaluator, values: &ArrayRef) -> Vec<Option<i64>> {
        let rows = values.len();
        let answers = (0..rows).map(|row| {
            let range = evaluator.get_range(row, rows).unwrap();
            evaluator.evaluate(std::slice::from_ref(values), &range).unwrap()
        });
        let answers = ScalarValue::iter_to_array(answers.collect::<Vec<_>>()).unwrap();
        answers.as_primitive::<Int64Type>().iter().collect()
    }

    /// The definition: the `offset`-th value after the row, or before it, that is not null.
    fn expected(values: &[Option<i64>], row: usize, offset: i64) -> Option<i64> {
        let nth = usize::try_from(offset.unsigned_abs()).unwrap().checked_sub(1);
        let Some(nth) = nth else { return values[row] };
        let found = if offset > 0 {
            values[row + 1..].iter().flatten().nth(nth)
        } else {
            values[..row].iter().rev().flatten().nth(nth)
        };
        found.copied().or(Some(-1))
    }

    /// Tries every pattern of nulls in seven rows.
    #[test]
    fn ignores_nulls() {
        let [lead, lag] = functions();
        for nulls in 0..1_u32 << 7 {
            let values: Vec<_> =
                (0..7_i64).map(|row| (nulls >> row & 1 == 0).then_some(row)).collect();
            let array: ArrayRef = Arc::new(Int64Array::from(values.clone()));
            for offset in -3..=3 {
                for (function, sign) in [(&lead, 1), (&lag, -1)] {
                    let arguments = [None, Some(offset), Some(-1)].map(ScalarValue::Int64);
                    let expected: Vec<_> =
                        (0..7).map(|row| expected(&values, row, offset * sign)).collect();
                    let streamed = row_by_row(evaluator(function, &arguments).as_mut(), &array);
                    assert_eq!(
                        streamed,
                        expected,
                        "{} by {offset} over {values:?}",
                        function.name()
                    );
                    let at_once = evaluator(function, &arguments)
                        .evaluate_all(&[Arc::clone(&array)], 7)
                        .unwrap();
                    assert_eq!(
                        at_once.as_primitive::<Int64Type>().iter().collect::<Vec<_>>(),
                        expected
                    );
                }
            }
        }
    }

    #[test]
    fn defaults_keep_their_fractions() {
        use DataType::{Date32, Decimal128, Float64, Int32, Int64, Utf8};
        for (value, default, common) in [
            (Int32, Float64, Some(Float64)),
            (Int64, Decimal128(3, 1), Some(Decimal128(21, 1))),
            (Decimal128(9, 2), Decimal128(2, 1), None),
            (Decimal128(9, 2), Decimal128(4, 3), Some(Decimal128(10, 3))),
            (Decimal128(38, 9), Float64, Some(Float64)),
            (Int32, Int64, None),
            (Decimal128(38, 9), Decimal128(38, 20), None),
            (Decimal128(30, 2), Decimal128(38, 20), Some(Decimal128(38, 10))),
            (Decimal128(38, 9), Decimal128(38, 0), None),
            (Float64, Int64, None),
            (Utf8, Int64, None),
            (Date32, Date32, None),
        ] {
            assert_eq!(common_type(&value, &default), common, "{value} {default}");
        }
    }

    #[test]
    fn null_offsets_give_null() {
        let [lead, lag] = functions();
        let array: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        for function in [&lead, &lag] {
            let arguments =
                [ScalarValue::Int64(None), ScalarValue::Int64(None), ScalarValue::Int64(Some(7))];
            let answer = row_by_row(evaluator(function, &arguments).as_mut(), &array);
            assert_eq!(answer, [None; 3]);
        }
    }

    #[test]
    fn limits_are_pushed_below_what_looks_back() {
        let [lead, lag] = functions();
        let by = |offset: i64| [lit(ScalarValue::Int64(None)), lit(offset)];
        let passes = |function: &WindowUDF, arguments: &[Arc<dyn PhysicalExpr>]| {
            matches!(function.inner().limit_effect(arguments), LimitEffect::None)
        };
        assert!(passes(&lag, &by(2)) && passes(&lag, &by(2)[..1]));
        assert!(!passes(&lag, &by(-1)) && !passes(&lead, &by(1)) && !passes(&lead, &by(1)[..1]));
        let ReversedUDWF::Reversed(reversed) = lag.reverse_expr() else {
            panic!("lag can be reversed")
        };
        assert!(!passes(&reversed, &by(2)));
    }
}
