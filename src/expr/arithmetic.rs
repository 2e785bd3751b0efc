//! Arithmetic over doubles, or over whole numbers of 64 bits that wrap, as a list of steps: a few
//! hundred rows at a time go through all of them while they are in the first cache (Boncz,
//! Zukowski, Nes: "MonetDB/X100", 2005), and no array is made in between. It never fails.

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

/// What a step does with two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// Their sum.
    Add,
    /// The left one less the right one.
    Subtract,
    /// Their product.
    Multiply,
    /// The left one by the right one; of whole numbers by a positive literal only, since others may
    /// fail.
    Divide,
    /// What remains of the left one, divided by the right one: of whole numbers, and as there.
    Remainder,
}

/// Where a step takes a number from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Source<T> {
    /// An input of the expression, by its place among them.
    Input(usize),
    /// The same for all rows.
    Literal(T),
    /// A step before.
    Step(usize),
}

impl<T: Number> Source<T> {
    /// Whether both give the same numbers, bit for bit.
    fn is(self, other: Source<T>) -> bool {
        match (self, other) {
            (Source::Literal(a), Source::Literal(b)) => a.bits() == b.bits(),
            (a, b) => a == b,
        }
    }
}

/// Steps, of which the last gives the result.
#[derive(Clone, Debug, PartialEq)]
pub struct Steps<T>(Vec<(Operator, Source<T>, Source<T>)>);

/// Arithmetic over one type. Inputs of other types of numbers are converted to it.
#[derive(Clone, Debug, PartialEq)]
pub enum Arithmetic {
    /// Over doubles.
    Floats(Steps<f64>),
    /// Over whole numbers.
    Ints(Steps<i64>),
}

/// The results of some rows; what null rows hold is arbitrary.
#[derive(Debug)]
pub enum Computed {
    /// Of doubles.
    Floats(Vec<f64>),
    /// Of whole numbers.
    Ints(Vec<i64>),
}

/// A number that steps compute with.
pub trait Number: Copy + Default + PartialEq {
    /// Its bits: there are two zeros among doubles.
    fn bits(self) -> u64;
    /// What an operator makes of two.
    fn apply(operator: Operator, left: Self, right: Self) -> Self;
    /// Applies a division to many numbers at once, by one; false if there is no better way than
    /// each by itself.
    fn divide(_operator: Operator, _left: &[Self], _right: Self, _to: &mut [Self]) -> bool {
        false
    }
    /// The values of an array of numbers that this type takes in, whatever null rows hold; `None`
    /// of another.
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
                Some(array.as_primitive::<Float32Type>().values().iter().map(|v| f64::from(*v)).collect())
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

/// Numbers of a piece, or the one that all of them are.
#[derive(Clone, Copy)]
enum Operand<'a, T> {
    Each(&'a [T]),
    All(T),
}

impl<T: Number> Steps<T> {
    /// No steps.
    pub fn new() -> Self {
        Steps(Vec::new())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a step, unless it is there, and gives its result.
    pub fn push(&mut self, operator: Operator, left: Source<T>, right: Source<T>) -> Source<T> {
        let step = (operator, left, right);
        let known = self
            .0
            .iter()
            .position(|known| known.0 == operator && left.is(known.1) && right.is(known.2));
        Source::Step(known.unwrap_or_else(|| {
            self.0.push(step);
            self.0.len() - 1
        }))
    }

    fn run(&self, inputs: &[ArrayRef], rows: usize) -> Result<Vec<T>> {
        let inputs: Option<Vec<_>> = inputs.iter().map(T::values).collect();
        let inputs = inputs
            .ok_or_else(|| Error::InvalidInput("arithmetic over what is no number".into()))?;
        let mut results = vec![T::default(); rows];
        let mut room = vec![T::default(); self.0.len().saturating_sub(1) * PIECE];
        for (piece, result) in results.chunks_mut(PIECE).enumerate() {
            let (start, len) = (piece * PIECE, result.len());
            for (at, (operator, left, right)) in self.0.iter().enumerate() {
                // The last step's numbers go where they are wanted.
                let (before, to) = match room.split_at_mut_checked(at * PIECE) {
                    Some((before, behind)) if !behind.is_empty() => (before, behind.get_mut(..len)),
                    Some((before, _)) => (before, Some(&mut *result)),
                    None => continue,
                };
                let operand = |source: &Source<T>| match source {
                    Source::Input(input) => {
                        let rows =
                            inputs.get(*input).and_then(|input| input.get(start..start + len));
                        Operand::Each(rows.unwrap_or_default())
                    }
                    Source::Literal(value) => Operand::All(*value),
                    Source::Step(step) => Operand::Each(
                        before.get(step * PIECE..step * PIECE + len).unwrap_or_default(),
                    ),
                };
                let (left, right) = (operand(left), operand(right));
                apply(*operator, left, right, to.unwrap_or_default());
            }
        }
        Ok(results)
    }
}

impl<T: Number> Default for Steps<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// One step of a piece.
fn apply<T: Number>(operator: Operator, left: Operand<'_, T>, right: Operand<'_, T>, to: &mut [T]) {
    macro_rules! each {
        ($operator:path) => {
            simd(
                #[inline(always)]
                || each(left, right, to, |a, b| T::apply($operator, a, b)),
            )
        };
    }
    if let (Operator::Divide | Operator::Remainder, Operand::Each(left), Operand::All(right)) =
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
    left: Operand<'_, T>,
    right: Operand<'_, T>,
    to: &mut [T],
    apply: impl Fn(T, T) -> T,
) {
    match (left, right) {
        (Operand::Each(left), Operand::Each(right)) => {
            to.iter_mut()
                .zip(left)
                .zip(right)
                .for_each(|((to, left), right)| *to = apply(*left, *right));
        }
        (Operand::Each(left), Operand::All(right)) => {
            to.iter_mut().zip(left).for_each(|(to, left)| *to = apply(*left, right));
        }
        (Operand::All(left), Operand::Each(right)) => {
            to.iter_mut().zip(right).for_each(|(to, right)| *to = apply(left, *right));
        }
        (Operand::All(left), Operand::All(right)) => to.fill(apply(left, right)),
    }
}

impl Arithmetic {
    /// The results for `rows` rows, of whose inputs these are the values, and which of them are not
    /// null.
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
            Arithmetic::Ints(steps) => Computed::Ints(steps.run(inputs, rows)?),
        };
        Ok((computed, nulls))
    }
}

impl Function for Arithmetic {
    fn evaluate(&self, inputs: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
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
            let difference = steps.push(Operator::Subtract, Source::Input(0), Source::Input(1));
            let square = steps.push(Operator::Multiply, difference, difference);
            let halved = steps.push(Operator::Divide, Source::Literal(1.0), square);
            assert_eq!(
                steps.push(Operator::Subtract, Source::Input(0), Source::Input(1)),
                difference
            );
            assert!(!Source::Literal(0.0).is(Source::Literal(-0.0)));
            steps.push(Operator::Add, halved, Source::Literal(2.0));
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
    fn whole_numbers_wrap() {
        let mut steps = Steps::new();
        let triple = steps.push(Operator::Multiply, Source::Input(0), Source::Literal(3));
        steps.push(Operator::Add, Source::Input(0), triple);
        let values = [i64::MAX, i64::MIN, -1, 5];
        let inputs: [ArrayRef; 1] = [Arc::new(Int64Array::from(values.to_vec()))];
        let found = Arithmetic::Ints(steps).evaluate(&inputs, 4).unwrap();
        let expected = values.map(|v| v.wrapping_add(v.wrapping_mul(3)));
        assert_eq!(found.as_primitive::<Int64Type>().values()[..], expected);
    }
}
