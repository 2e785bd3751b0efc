//! `lead` and `lag`, where nulls are ignored, rows are limited, or the offset is null.
//!
//! DataFusion's (55.2) take a partition row by row as it comes. A `lead` that ignores nulls loses
//! count there: a null that comes into reach is never counted, and an offset of 0 gives the default
//! for a null. Over a whole partition they are right, and such a `lead` has to wait for the end of
//! its partition anyway. So does a `lag` by a negative offset, or one over rows that come in the
//! opposite order, which is a `lead`.
//!
//! They also tell the rule that takes a LIMIT below a window how many rows more they need, but know
//! neither of nulls, nor of negative offsets, nor of the opposite order: here, a limit passes a
//! `lag` that looks back, and nothing else. And an offset that is null is taken for 0: here, its
//! answer is null. All else is DataFusion's.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::FieldRef;
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::functions_window::lead_lag::{lag_udwf, lead_udwf};
use datafusion::logical_expr::function::{
    ExpressionArgs, PartitionEvaluatorArgs, WindowUDFFieldArgs,
};
use datafusion::logical_expr::{
    Documentation, LimitEffect, PartitionEvaluator, ReversedUDWF, Signature, WindowUDF,
    WindowUDFImpl,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Literal, lit};

/// Both functions.
pub(in crate::sql) fn all() -> [WindowUDF; 2] {
    [lead_udwf(), lag_udwf()].map(|of| WindowUDF::from(Shift { of, reversed: false }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Shift {
    of: Arc<WindowUDF>,
    /// Whether rows come in the opposite order.
    reversed: bool,
}

impl Shift {
    /// Whether no row needs one that comes later, with or without nulls.
    fn looks_back(&self, arguments: &[Arc<dyn PhysicalExpr>]) -> bool {
        let forward = arguments.get(1).is_none_or(|offset| match literal(offset) {
            Some(ScalarValue::Int64(Some(offset))) => *offset >= 0,
            _ => false,
        });
        self.of.name() == "lag" && !self.reversed && forward
    }
}

impl WindowUDFImpl for Shift {
    fn name(&self) -> &str {
        self.of.name()
    }

    fn signature(&self) -> &Signature {
        self.of.signature()
    }

    fn expressions(&self, arguments: ExpressionArgs<'_>) -> Vec<Arc<dyn PhysicalExpr>> {
        self.of.expressions(arguments)
    }

    fn partition_evaluator(
        &self,
        arguments: PartitionEvaluatorArgs<'_>,
    ) -> DataFusionResult<Box<dyn PartitionEvaluator>> {
        let ignore_nulls = arguments.ignore_nulls();
        let of = match arguments.input_exprs() {
            [value, offset, ..] if literal(offset).is_some_and(ScalarValue::is_null) => {
                nothing(&self.of, value, arguments)?
            }
            _ => self.of.partition_evaluator_factory(arguments)?,
        };
        Ok(if ignore_nulls && !of.is_causal() { Box::new(AtOnce { of, answer: None }) } else { of })
    }

    fn field(&self, arguments: WindowUDFFieldArgs<'_>) -> DataFusionResult<FieldRef> {
        self.of.field(arguments)
    }

    fn reverse_expr(&self) -> ReversedUDWF {
        let reversed = Shift { of: Arc::clone(&self.of), reversed: !self.reversed };
        ReversedUDWF::Reversed(Arc::new(WindowUDF::from(reversed)))
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.of.documentation()
    }

    fn limit_effect(&self, arguments: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        if self.looks_back(arguments) { LimitEffect::None } else { LimitEffect::Unknown }
    }
}

fn literal(expr: &Arc<dyn PhysicalExpr>) -> Option<&ScalarValue> {
    expr.downcast_ref::<Literal>().map(Literal::value)
}

/// What gives null for every row: no partition reaches as far, and the default is a null of its
/// type.
fn nothing(
    of: &WindowUDF,
    value: &Arc<dyn PhysicalExpr>,
    arguments: PartitionEvaluatorArgs<'_>,
) -> DataFusionResult<Box<dyn PartitionEvaluator>> {
    let fields = arguments.input_fields();
    let mut exprs = vec![Arc::clone(value), lit(i64::MAX)];
    if let Some(default) = fields.get(2) {
        exprs.push(lit(ScalarValue::try_from(default.data_type())?));
    }
    of.partition_evaluator_factory(PartitionEvaluatorArgs::new(
        &exprs,
        fields,
        arguments.is_reversed(),
        arguments.ignore_nulls(),
    ))
}

/// Answers all rows of a partition at once, once it is complete.
#[derive(Debug)]
struct AtOnce {
    of: Box<dyn PartitionEvaluator>,
    /// Of all rows, where they are asked for one by one.
    answer: Option<ArrayRef>,
}

impl PartitionEvaluator for AtOnce {
    /// The range ends with the partition, so that DataFusion waits for all rows and drops none
    /// early.
    fn get_range(&self, row: usize, rows: usize) -> DataFusionResult<Range<usize>> {
        Ok(row..rows)
    }

    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> DataFusionResult<ArrayRef> {
        self.of.evaluate_all(values, rows)
    }

    fn evaluate(
        &mut self,
        values: &[ArrayRef],
        range: &Range<usize>,
    ) -> DataFusionResult<ScalarValue> {
        let answer = match self.answer.take() {
            Some(answer) => answer,
            None => self.of.evaluate_all(values, range.end)?,
        };
        if range.start >= answer.len() {
            return Err(DataFusionError::Internal(
                "a partition has grown after its end".to_owned(),
            ));
        }
        let value = ScalarValue::try_from_array(&answer, range.start);
        self.answer = Some(answer);
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

    /// By definition: the `offset`-th value after a row, or before it, that is not null.
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

    /// Every way in which nulls can lie in seven rows.
    #[test]
    fn ignores_nulls() {
        let [lead, lag] = all();
        for nulls in 0..1_u32 << 7 {
            let values: Vec<_> =
                (0..7_i64).map(|row| (nulls >> row & 1 == 0).then_some(row)).collect();
            let array: ArrayRef = Arc::new(Int64Array::from(values.clone()));
            for offset in -3..=3 {
                for (function, sign) in [(&lead, 1), (&lag, -1)] {
                    let of = |value| ScalarValue::Int64(value);
                    let arguments = [of(None), of(Some(offset)), of(Some(-1))];
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
    fn null_offsets_give_null() {
        let [lead, lag] = all();
        let array: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        for function in [&lead, &lag] {
            let arguments =
                [ScalarValue::Int64(None), ScalarValue::Int64(None), ScalarValue::Int64(Some(7))];
            let answer = row_by_row(evaluator(function, &arguments).as_mut(), &array);
            assert_eq!(answer, [None; 3]);
        }
    }

    #[test]
    fn limits_pass_what_looks_back() {
        let [lead, lag] = all();
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
