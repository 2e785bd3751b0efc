//! Arithmetic over doubles, over wrapping 64-bit integers, or over decimals as 64-bit integers, as
//! a list of steps. A few hundred rows at a time go through all steps while they are in the L1
//! cache (Boncz, Zukowski, Nes: "MonetDB/X100", 2005), without intermediate arrays. It never fails.
//!
//! Because it cannot fail, rows that a mask leaves out may take part. Of decimals, that holds where
//! bounds of the inputs show that no step leaves 64 bits.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, downcast_integer_array};
use arrow_buffer::{ArrowNativeType, NullBuffer};
use arrow_schema::DataType as ArrowType;

use super::division::Divisor;
use super::expression::Function;
use crate::encoding::kernels::dispatch::simd;
use crate::error::{Error, Result};

/// Rows that go through all steps at a time.
const PIECE: usize = 512;

/// The operation of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `left + right`.
    Add,
    /// `left - right`.
    Subtract,
    /// `left * right`.
    Multiply,
    /// `left / right`; of integers only by a positive literal, since other divisors may fail.
    Divide,
    /// `left % right`; of integers only by a positive literal.
    Remainder,
}

/// An argument of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Argument<T> {
    /// An input of the expression, by its index.
    Input(usize),
    /// A literal.
    Literal(T),
    /// The result of an earlier step, by its index.
    Step(usize),
}

impl<T: Number> Argument<T> {
    /// Whether both have the same numbers, bit for bit.
    fn is_identical(self, other: Argument<T>) -> bool {
        match (self, other) {
            (Argument::Literal(a), Argument::Literal(b)) => a.bits() == b.bits(),
            (a, b) => a == b,
        }
    }
}

/// Steps; the last one computes the result. Without any, it is the only input, converted.
#[derive(Clone, Debug, PartialEq)]
pub struct Steps<T>(Vec<(Operator, Argument<T>, Argument<T>)>);

/// Arithmetic over one type, to which inputs of other numeric types are converted.
#[derive(Clone, Debug)]
pub enum Arithmetic {
    /// Over doubles.
    Floats(Steps<f64>),
    /// Over integers.
    Ints(Steps<i64>),
    /// Over decimals, where integers stand for them.
    Decimals {
        /// The steps over these integers; they are the decimals' own where they [fit](Steps::fit).
        steps: Steps<i64>,
        /// The function of the decimals themselves.
        exact: Arc<dyn Function>,
    },
}

/// The results of some rows; those of null rows are arbitrary.
#[derive(Debug)]
pub enum Computed {
    /// Doubles.
    Floats(Vec<f64>),
    /// Integers.
    Ints(Vec<i64>),
}

/// A number that steps compute with.
pub trait Number: Copy + Default + PartialEq {
    /// Its bits, which distinguish the two zeros of doubles.
    fn bits(self) -> u64;
    /// The result of an operator.
    fn apply(operator: Operator, left: Self, right: Self) -> Self;
    /// Divides many numbers by the same one; returns false, with nothing done, if there is no
    /// faster way than one by one.
    fn divide(_operator: Operator, _left: &[Self], _right: Self, _to: &mut [Self]) -> bool {
        false
    }
    /// The values of a numeric array as this type, arbitrary for null rows; `None` for arrays of
    /// other types.
    fn values(array: &ArrayRef) -> Option<Cow<'_, [Self]>>;
}

impl Number for f64 {
    fn bits(self) -> u64 {
        self.to_bits()
    }

    #[inline(always)]
    fn apply(operator: Operator, left: f64, right: f64) -> f64 {
        match operator {
            Operator::Add => left + right,
            Operator::Subtract => left - right,
            Operator::Multiply => left * right,
            Operator::Divide => left / right,
            Operator::Remainder => left % right,
        }
    }

    fn values(array: &ArrayRef) -> Option<Cow<'_, [f64]>> {
        downcast_integer_array! {
            array => Some(array.values().iter().map(|v| *v as f64).collect()),
            ArrowType::Float64 => Some(Cow::Borrowed(array.as_primitive::<Float64Type>().values())),
            ArrowType::Float32 => {
                let values = array.as_primitive::<Float32Type>().values();
                Some(values.iter().map(|v| f64::from(*v)).collect())
            }
            _ => None,
        }
    }
}

impl Number for i64 {
    fn bits(self) -> u64 {
        self as u64
    }

    #[inline(always)]
    fn apply(operator: Operator, left: i64, right: i64) -> i64 {
        match operator {
            Operator::Add => left.wrapping_add(right),
            Operator::Subtract => left.wrapping_sub(right),
            Operator::Multiply => left.wrapping_mul(right),
            Operator::Divide => left.checked_div(right).unwrap_or_default(),
            Operator::Remainder => left.checked_rem(right).unwrap_or_default(),
        }
    }

    fn divide(operator: Operator, left: &[i64], right: i64, to: &mut [i64]) -> bool {
        let Some(by) = Divisor::new(right) else { return false };
        match operator {
            Operator::Divide => {
                to.iter_mut().zip(left).for_each(|(to, left)| *to = by.quotient(*left))
            }
            Operator::Remainder => {
                to.iter_mut().zip(left).for_each(|(to, left)| *to = by.remainder(*left))
            }
            _ => return false,
        }
        true
    }

    fn values(array: &ArrayRef) -> Option<Cow<'_, [i64]>> {
        if let Some(array) = array.as_primitive_opt::<Int64Type>() {
            return Some(Cow::Borrowed(array.values()));
        }
        downcast_integer_array! {
            array => Some(array.values().iter().map(|v| v.to_i64().unwrap_or_default()).collect()),
            _ => None,
        }
    }
}

/// The numbers of a piece, or one number for all rows.
#[derive(Clone, Copy)]
enum Values<'a, T> {
    Each(&'a [T]),
    All(T),
}

impl<T: Number> Steps<T> {
    /// No steps.
    pub fn new() -> Self {
        Steps(Vec::new())
    }

    /// The number of steps.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a step, unless there is an identical one, and returns its result.
    pub fn push(
        &mut self,
        operator: Operator,
        left: Argument<T>,
        right: Argument<T>,
    ) -> Argument<T> {
        let step = (operator, left, right);
        let known = self.0.iter().position(|known| {
            known.0 == operator && left.is_identical(known.1) && right.is_identical(known.2)
        });
        Argument::Step(known.unwrap_or_else(|| {
            self.0.push(step);
            self.0.len() - 1
        }))
    }

    fn run(&self, inputs: &[ArrayRef], rows: usize) -> Result<Vec<T>> {
        let inputs: Option<Vec<_>> = inputs.iter().map(T::values).collect();
        let inputs = inputs.ok_or_else(|| {
            Error::InvalidInput("arithmetic over values that are not numbers".into())
        })?;
        if self.0.is_empty() {
            return Ok(inputs.into_iter().next().map(Cow::into_owned).unwrap_or_default());
        }
        let mut results = vec![T::default(); rows];
        let mut scratch = vec![T::default(); self.0.len().saturating_sub(1) * PIECE];
        for (piece, result) in results.chunks_mut(PIECE).enumerate() {
            let (start, len) = (piece * PIECE, result.len());
            for (at, (operator, left, right)) in self.0.iter().enumerate() {
                // The last step writes to the results, the others to the scratch space.
                let (before, to) = match scratch.split_at_mut_checked(at * PIECE) {
                    Some((before, behind)) if !behind.is_empty() => (before, behind.get_mut(..len)),
                    Some((before, _)) => (before, Some(&mut *result)),
                    None => continue,
                };
                let values = |argument: &Argument<T>| match argument {
                    Argument::Input(input) => {
                        let rows =
                            inputs.get(*input).and_then(|input| input.get(start..start + len));
                        Values::Each(rows.unwrap_or_default())
                    }
                    Argument::Literal(value) => Values::All(*value),
                    Argument::Step(step) => Values::Each(
                        before.get(step * PIECE..step * PIECE + len).unwrap_or_default(),
                    ),
                };
                let (left, right) = (values(left), values(right));
                apply(*operator, left, right, to.unwrap_or_default());
            }
        }
        Ok(results)
    }
}

impl Steps<i64> {
    /// The factor of the only input and what is added to it, if that is all the steps do.
    pub fn linear(&self) -> Option<(i128, i128)> {
        let mut results: Vec<(i128, i128)> = vec![];
        for (operator, left, right) in &self.0 {
            let of = |argument: &Argument<i64>| match argument {
                Argument::Input(0) => Some((1, 0)),
                Argument::Input(_) => None,
                Argument::Literal(value) => Some((0, i128::from(*value))),
                Argument::Step(step) => results.get(*step).copied(),
            };
            let (left, right) = (of(left)?, of(right)?);
            results.push(match operator {
                Operator::Add => (left.0.checked_add(right.0)?, left.1.checked_add(right.1)?),
                Operator::Subtract => (left.0.checked_sub(right.0)?, left.1.checked_sub(right.1)?),
                Operator::Multiply => {
                    let (constant, other) = match (left.0, right.0) {
                        (0, _) => (left.1, right),
                        (_, 0) => (right.1, left),
                        _ => return None,
                    };
                    (constant.checked_mul(other.0)?, constant.checked_mul(other.1)?)
                }
                Operator::Divide | Operator::Remainder => return None,
            });
        }
        Some(results.last().copied().unwrap_or((1, 0)))
    }

    /// Whether no step leaves 64 bits, the inputs being within these bounds.
    pub fn fit(&self, inputs: &[(i64, i64)]) -> bool {
        let mut results: Vec<(i64, i64)> = Vec::with_capacity(self.0.len());
        self.0.iter().all(|(operator, left, right)| {
            let bounds = |argument: &Argument<i64>| match argument {
                Argument::Input(input) => inputs.get(*input).copied(),
                Argument::Literal(value) => Some((*value, *value)),
                Argument::Step(step) => results.get(*step).copied(),
            };
            let result = bounds(left).zip(bounds(right));
            let result = result.and_then(|(left, right)| range(*operator, left, right));
            results.extend(result);
            result.is_some()
        })
    }
}

/// The least and the greatest result for operands from one number to another; `None` if it may
/// leave 64 bits.
fn range(operator: Operator, left: (i64, i64), right: (i64, i64)) -> Option<(i64, i64)> {
    let apply = |left: i64, right: i64| match operator {
        Operator::Add => left.checked_add(right),
        Operator::Subtract => left.checked_sub(right),
        Operator::Multiply => left.checked_mul(right),
        Operator::Divide | Operator::Remainder => None,
    };
    let corners = [
        apply(left.0, right.0)?,
        apply(left.0, right.1)?,
        apply(left.1, right.0)?,
        apply(left.1, right.1)?,
    ];
    Some((corners.into_iter().min()?, corners.into_iter().max()?))
}

impl<T: Number> Default for Steps<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Applies one step to a piece.
fn apply<T: Number>(operator: Operator, left: Values<'_, T>, right: Values<'_, T>, to: &mut [T]) {
    macro_rules! each {
        ($operator:path) => {
            simd(
                #[inline(always)]
                || each(left, right, to, |a, b| T::apply($operator, a, b)),
            )
        };
    }
    if let (Operator::Divide | Operator::Remainder, Values::Each(left), Values::All(right)) =
        (operator, left, right)
        && T::divide(operator, left, right, to)
    {
        return;
    }
    match operator {
        Operator::Add => each!(Operator::Add),
        Operator::Subtract => each!(Operator::Subtract),
        Operator::Multiply => each!(Operator::Multiply),
        Operator::Divide => each!(Operator::Divide),
        Operator::Remainder => each!(Operator::Remainder),
    }
}

#[inline(always)]
fn each<T: Number>(
    left: Values<'_, T>,
    right: Values<'_, T>,
    to: &mut [T],
    apply: impl Fn(T, T) -> T,
) {
    match (left, right) {
        (Values::Each(left), Values::Each(right)) => {
            to.iter_mut()
                .zip(left)
                .zip(right)
                .for_each(|((to, left), right)| *to = apply(*left, *right));
        }
        (Values::Each(left), Values::All(right)) => {
            to.iter_mut().zip(left).for_each(|(to, left)| *to = apply(*left, right));
        }
        (Values::All(left), Values::Each(right)) => {
            to.iter_mut().zip(right).for_each(|(to, right)| *to = apply(left, *right));
        }
        (Values::All(left), Values::All(right)) => to.fill(apply(left, right)),
    }
}

impl Arithmetic {
    /// The results for `rows` rows of these inputs, and their validity. Decimals come and go as
    /// integers.
    pub fn compute(
        &self,
        inputs: &[ArrayRef],
        rows: usize,
    ) -> Result<(Computed, Option<NullBuffer>)> {
        let nulls = inputs
            .iter()
            .fold(None, |nulls, input| NullBuffer::union(nulls.as_ref(), input.nulls()));
        let computed = match self {
            Arithmetic::Floats(steps) => Computed::Floats(steps.run(inputs, rows)?),
            Arithmetic::Ints(steps) | Arithmetic::Decimals { steps, .. } => {
                Computed::Ints(steps.run(inputs, rows)?)
            }
        };
        Ok((computed, nulls))
    }
}

impl Function for Arithmetic {
    fn evaluate(&self, inputs: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        if let Arithmetic::Decimals { exact, .. } = self {
            return exact.evaluate(inputs, rows);
        }
        let (computed, nulls) = self.compute(inputs, rows)?;
        Ok(match computed {
            Computed::Floats(values) => Arc::new(Float64Array::new(values.into(), nulls)),
            Computed::Ints(values) => Arc::new(Int64Array::new(values.into(), nulls)),
        })
    }

    fn arithmetic(&self) -> Option<&Arithmetic> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::Int32Array;

    use super::*;

    #[test]
    fn steps_compute_what_rows_do() {
        for rows in [0, 1, PIECE - 1, PIECE, 3 * PIECE + 7] {
            let a: Vec<f64> = (0..rows).map(|i| i as f64 * 0.25 - 3.0).collect();
            let b: Vec<i32> = (0..rows as i32).map(|i| i % 7 - 3).collect();
            let mut steps = Steps::new();
            let difference = steps.push(Operator::Subtract, Argument::Input(0), Argument::Input(1));
            let square = steps.push(Operator::Multiply, difference, difference);
            let halved = steps.push(Operator::Divide, Argument::Literal(1.0), square);
            assert_eq!(
                steps.push(Operator::Subtract, Argument::Input(0), Argument::Input(1)),
                difference
            );
            assert!(!Argument::Literal(0.0).is_identical(Argument::Literal(-0.0)));
            steps.push(Operator::Add, halved, Argument::Literal(2.0));
            let nulls = NullBuffer::from_iter((0..rows).map(|i| i % 5 > 0));
            let inputs: [ArrayRef; 2] = [
                Arc::new(Float64Array::from(a.clone())),
                Arc::new(Int32Array::new(b.clone().into(), Some(nulls.clone()))),
            ];
            let found = Arithmetic::Floats(steps).evaluate(&inputs, rows).unwrap();
            let found = found.as_primitive::<Float64Type>();
            for at in 0..rows {
                let difference = a[at] - f64::from(b[at]);
                assert_eq!(found.is_null(at), nulls.is_null(at));
                assert!(
                    found.is_null(at) || found.value(at) == 1.0 / (difference * difference) + 2.0
                );
            }
        }
    }

    #[test]
    fn steps_fit_where_no_result_leaves_64_bits() {
        let mut steps = Steps::new();
        let left = steps.push(Operator::Subtract, Argument::Literal(100), Argument::Input(1));
        steps.push(Operator::Multiply, Argument::Input(0), left);
        assert!(steps.fit(&[(-(1 << 50), 1 << 50), (0, 100)]));
        assert!(steps.fit(&[(i64::MIN, i64::MAX), (99, 100)]));
        assert!(!steps.fit(&[(i64::MIN, i64::MAX), (99, 101)]));
        assert!(!steps.fit(&[(0, 1), (i64::MIN, 0)]));
        assert!(!steps.fit(&[(0, 1)]));
    }

    #[test]
    fn steps_are_linear_where_they_multiply_by_literals_only() {
        let (x, two) = (Argument::Input(0), Argument::Literal(2));
        let mut steps = Steps::new();
        assert_eq!(steps.linear(), Some((1, 0)));
        let more = steps.push(Operator::Subtract, Argument::Literal(7), x);
        let twice = steps.push(Operator::Multiply, two, more);
        steps.push(Operator::Add, twice, x);
        assert_eq!(steps.linear(), Some((-1, 14)));
        let mut square = steps.clone();
        square.push(Operator::Multiply, more, x);
        assert_eq!(square.linear(), None);
        for step in [(Operator::Divide, x, two), (Operator::Add, x, Argument::Input(1))] {
            let mut other = steps.clone();
            other.push(step.0, step.1, step.2);
            assert_eq!(other.linear(), None);
        }
        let mut large = Steps::new();
        let mut last = Argument::Literal(i64::MAX);
        for _ in 0..3 {
            last = large.push(Operator::Multiply, last, Argument::Literal(i64::MIN));
        }
        assert_eq!(large.linear(), None, "it does not fit");
    }

    #[test]
    fn integers_wrap() {
        let mut steps = Steps::new();
        let triple = steps.push(Operator::Multiply, Argument::Input(0), Argument::Literal(3));
        steps.push(Operator::Add, Argument::Input(0), triple);
        let values = [i64::MAX, i64::MIN, -1, 5];
        let inputs: [ArrayRef; 1] = [Arc::new(Int64Array::from(values.to_vec()))];
        let found = Arithmetic::Ints(steps).evaluate(&inputs, 4).unwrap();
        let expected = values.map(|v| v.wrapping_add(v.wrapping_mul(3)));
        assert_eq!(found.as_primitive::<Int64Type>().values()[..], expected);
    }
}
