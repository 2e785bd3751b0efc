//! Scalar expressions: functions of the values of some columns of a row.
//!
//! The engine above passes whole expression trees as one [`Function`] over Arrow arrays, so that
//! all its functions work here, with its semantics. Properties of expressions make them fast: which
//! columns they read (with one column, evaluate once per dictionary value), whether they are
//! monotone (a block whose minimum and maximum give the same result is constant), and for
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
    /// The results for `rows` rows; `inputs` are the values of its columns in the table's types. An
    /// error may be due to a single row.
    fn evaluate(&self, inputs: &[ArrayRef], rows: usize) -> Result<ArrayRef>;

    /// The integer that is the result for all inputs in a range of integers, if the function is
    /// known to be constant there.
    fn constant_over(&self, _least: i64, _greatest: i64) -> Option<i64> {
        None
    }

    /// Its native form, if it is pure arithmetic.
    fn arithmetic(&self) -> Option<&Arithmetic> {
        None
    }
}

/// Known properties of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traits {
    /// The result does not decrease as the only input increases, is null exactly where the input
    /// is, and does not fail between two inputs for which it does not fail.
    pub monotone: bool,
    /// The result is a float without a fraction: of `round`, `floor`, `ceil`, `trunc`.
    pub integral: bool,
    /// The result is the only input's number in a wider type: comparing, grouping or summing the
    /// inputs is the same as doing so with the results.
    pub widening: bool,
    /// Results that are not null are between these integers, and null results only from null.
    pub bounds: Option<(i64, i64)>,
}

/// An expression with few possible values, as an index into a list of them.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Computes the index of the value; never null, and 0 where the only input is null.
    pub number: Expression,
    /// The values, all different.
    pub values: ArrayRef,
}

/// A computed or stored value.
#[derive(Clone, Debug)]
pub struct Expression {
    /// The columns that it reads, as positions in the fragment's list, in the order of the
    /// function's parameters.
    pub inputs: Vec<usize>,
    /// The function of these columns; `None` stands for the only input itself.
    pub function: Option<Arc<dyn Function>>,
    /// The type of the result.
    pub data_type: ArrowType,
    /// Properties of the function.
    pub traits: Traits,
    /// The expression as a choice, if it is one.
    pub choice: Option<Arc<Choice>>,
    /// Its text in EXPLAIN.
    pub text: Box<str>,
}

impl Expression {
    /// A plain column, by its position in the fragment's list.
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

    /// The column, if the expression is a plain column.
    pub fn as_column(&self) -> Option<usize> {
        match (self.inputs.as_slice(), &self.function) {
            ([only], None) => Some(*only),
            _ => None,
        }
    }

    /// The native form, if the expression is pure arithmetic, which never fails; of decimals, where
    /// its steps fit.
    pub fn as_arithmetic(&self) -> Option<&Arithmetic> {
        self.function.as_ref()?.arithmetic()
    }

    /// Whether both are the same function object of the same columns.
    pub fn is_same(&self, other: &Expression) -> bool {
        let same = match (&self.function, &other.function) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (None, None) => true,
            _ => false,
        };
        same && self.inputs == other.inputs
    }

    /// The column that it reads, if it is only one.
    pub fn only_input(&self) -> Option<usize> {
        match self.inputs.as_slice() {
            [only] => Some(*only),
            _ => None,
        }
    }

    /// The results for `rows` rows of its inputs.
    pub fn evaluate(&self, inputs: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        match (&self.function, inputs) {
            (Some(function), _) => function.evaluate(inputs, rows),
            (None, [only]) => Ok(Arc::clone(only)),
            (None, _) => Err(crate::Error::InvalidInput(
                "an expression without a function must have one input".into(),
            )),
        }
    }
}
