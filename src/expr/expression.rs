//! Scalar expressions: what a fragment computes of a row, as a function of the values of some
//! columns.
//!
//! The engine above hands whole expression trees in as one [`Function`] over Arrow arrays, so that
//! every function it knows works here, with its semantics. What makes expressions fast is what is
//! known *about* them: which columns they read (one column: evaluate once per dictionary value),
//! whether they keep order (fold a block whose minimum and maximum give one result), and for
//! arithmetic, a native form.

use std::fmt::Debug;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::DataType as ArrowType;

use super::arithmetic::Arithmetic;
use crate::error::Result;
use crate::model::Column;

/// A pure function of the values of one row, evaluated over many.
pub trait Function: Debug + Send + Sync {
    /// The results for `rows` rows, of whose columns `inputs` are the values in the types of the
    /// table. An error may be due to a single row.
    fn evaluate(&self, inputs: &[ArrayRef], rows: usize) -> Result<ArrayRef>;

    /// The whole number that it gives for all inputs from one whole number to another, if it is
    /// known to give one.
    fn steady(&self, _least: i64, _greatest: i64) -> Option<i64> {
        None
    }

    /// The steps that it consists of, if it is nothing but arithmetic.
    fn arithmetic(&self) -> Option<&Arithmetic> {
        None
    }
}

/// What is known about a function besides how to evaluate it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traits {
    /// The result never falls as the only input rises, is null exactly where the input is, and
    /// never fails for values between two for which it does not fail.
    pub monotone: bool,
    /// The result is a float without a fraction: of `round`, `floor`, `ceil`, `trunc`.
    pub integral: bool,
    /// The result is the only input's number in a type that has all numbers of the input's: to
    /// compare, group or sum the inputs is to do so with the results.
    pub widening: bool,
    /// Results that are not null lie between these whole numbers. Null comes of null alone.
    pub bounds: Option<(i64, i64)>,
}

/// An expression as a choice between few values.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The number of the value, never null; it is 0 where the only input is null.
    pub number: Expression,
    /// The values, all different.
    pub values: ArrayRef,
}

/// A computed or stored value.
#[derive(Clone, Debug)]
pub struct Expression {
    /// The columns it reads, as positions in the fragment's list, in the order in which the
    /// function takes them.
    pub inputs: Vec<usize>,
    /// What it computes of them; `None` for the value of the only input as it is.
    pub function: Option<Arc<dyn Function>>,
    /// The type of the result.
    pub data_type: ArrowType,
    /// What is known about the function.
    pub traits: Traits,
    /// The same as a choice, if it is one.
    pub choice: Option<Arc<Choice>>,
    /// How EXPLAIN shows it.
    pub text: Box<str>,
}

impl Expression {
    /// A column as it is, by its position in the fragment's list.
    pub fn column(at: usize, column: &Column) -> Self {
        Expression {
            inputs: vec![at],
            function: None,
            data_type: column.data_type.to_arrow(),
            traits: Traits { monotone: true, ..Traits::default() },
            choice: None,
            text: column.name.as_ref().into(),
        }
    }

    /// The column itself, if that is all.
    pub fn as_column(&self) -> Option<usize> {
        match (self.inputs.as_slice(), &self.function) {
            ([only], None) => Some(*only),
            _ => None,
        }
    }

    /// The arithmetic that it is, if that is all: it never fails.
    pub fn as_arithmetic(&self) -> Option<&Arithmetic> {
        self.function.as_ref()?.arithmetic()
    }

    /// Whether both are the same function, the very same object, of the same columns.
    pub fn is_same(&self, other: &Expression) -> bool {
        let same = match (&self.function, &other.function) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (None, None) => true,
            _ => false,
        };
        same && self.inputs == other.inputs
    }

    /// The only column that it reads.
    pub fn only_input(&self) -> Option<usize> {
        match self.inputs.as_slice() {
            [only] => Some(*only),
            _ => None,
        }
    }

    /// The values for `rows` rows of its inputs.
    pub fn evaluate(&self, inputs: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        match (&self.function, inputs) {
            (Some(function), _) => function.evaluate(inputs, rows),
            (None, [only]) => Ok(Arc::clone(only)),
            (None, _) => Err(crate::Error::InvalidInput(
                "an expression without a function has one input".into(),
            )),
        }
    }
}
