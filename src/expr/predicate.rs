//! Predicates: the conditions that zone maps can decide and that kernels run on encoded data.
//!
//! `sql/convert/predicate.rs` makes them, `query::prune` judges them by statistics, and
//! `query::filter` has forms for some of them. [`Predicate::Unknown`] is always safe.

use std::sync::Arc;

use crate::expr::{IntegerSet, Outcome, Pattern, Sample};
use crate::model::{Column, ColumnId, DataType, Scalar};

/// The most constants, or parts, of a predicate that is written out.
const MANY: usize = 64;
/// The longest text that is.
const LONG: usize = 1024;

/// How a value is compared with a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl Comparison {
    /// The comparison with its sides exchanged: `5 < x` is `x > 5`.
    #[must_use]
    pub fn flipped(self) -> Self {
        match self {
            Comparison::Less => Comparison::Greater,
            Comparison::LessOrEqual => Comparison::GreaterOrEqual,
            Comparison::Greater => Comparison::Less,
            Comparison::GreaterOrEqual => Comparison::LessOrEqual,
            same => same,
        }
    }
}

/// A column in a predicate, whose values are widened without loss, or by a cast that keeps order,
/// to the type of the comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Operand {
    /// The column.
    pub column: ColumnId,
    /// The type of the comparison; constants are scalars of this type.
    pub data_type: DataType,
}

impl Operand {
    /// A column as it is: UUIDs are compared as the texts that they are.
    pub fn of(column: &Column) -> Self {
        let data_type = match &column.data_type {
            of if of.is_text() => DataType::Utf8,
            of => of.clone(),
        };
        Operand { column: column.id, data_type }
    }

    /// Whether it is this column, not cast.
    pub(crate) fn is(&self, column: &Column) -> bool {
        *self == Operand::of(column)
    }
}

/// A condition on one row, in SQL's three-valued logic.
///
/// Floats compare as in DataFusion: by IEEE 754 `totalOrder`, after −0.0 is replaced by 0.0.
#[derive(Clone, Debug, PartialEq)]
pub enum Predicate {
    /// The same for every row.
    Constant(Outcome),
    /// A condition that is not expressible here; it may have any outcome.
    Unknown,
    /// Whether a row is one of a sample, which its place tells. Only a condition as a whole is one.
    Sampled(Arc<Sample>),
    /// A column compared with a constant that is not null.
    Compare {
        /// Left side.
        operand: Operand,
        /// Operator.
        comparison: Comparison,
        /// Right side.
        value: Scalar,
    },
    /// A column in a list of constants that are not null (`IN (…, NULL)` is `… OR NULL`).
    In {
        /// Left side.
        operand: Operand,
        /// The list.
        values: Vec<Scalar>,
    },
    /// A column of whole numbers in a set of them.
    InSet {
        /// Left side.
        operand: Operand,
        /// The set.
        set: Arc<IntegerSet>,
    },
    /// Text that matches a pattern: `LIKE`, `starts_with`.
    Like {
        /// Left side.
        operand: Operand,
        /// Right side.
        pattern: Pattern,
    },
    /// `IS NULL` of a column.
    IsNull(ColumnId),
    /// `IS TRUE`, `IS FALSE`, `IS UNKNOWN` of a condition.
    Is(Box<Predicate>, Outcome),
    /// NOT.
    Not(Box<Predicate>),
    /// AND of all; true if there are none.
    And(Vec<Predicate>),
    /// OR of all; false if there are none.
    Or(Vec<Predicate>),
}

impl Predicate {
    /// Calls `f` with every column of the predicate.
    pub fn for_each_column(&self, f: &mut impl FnMut(ColumnId)) {
        match self {
            Predicate::Constant(_) | Predicate::Unknown | Predicate::Sampled(_) => {}
            Predicate::Compare { operand, .. }
            | Predicate::In { operand, .. }
            | Predicate::InSet { operand, .. }
            | Predicate::Like { operand, .. } => f(operand.column),
            Predicate::IsNull(column) => f(*column),
            Predicate::Is(inner, _) | Predicate::Not(inner) => inner.for_each_column(f),
            Predicate::And(all) | Predicate::Or(all) => {
                all.iter().for_each(|p| p.for_each_column(f))
            }
        }
    }

    /// A text that no predicate has which holds for other rows; `None` if it does not say all
    /// itself, or much. It is what `Debug` shows, so that all parts of a predicate have to show all
    /// that they are, and nothing else: NaN, whose sign counts, does not.
    pub(crate) fn complete_text(&self) -> Option<String> {
        self.is_complete().then(|| format!("{self:?}"))
    }

    fn is_complete(&self) -> bool {
        let is_told = |value: &Scalar| match value {
            Scalar::Float(value) => !value.is_nan(),
            Scalar::Bytes(bytes) => bytes.len() <= LONG,
            Scalar::Int(_) => true,
        };
        match self {
            Predicate::Unknown | Predicate::Sampled(_) | Predicate::InSet { .. } => false,
            Predicate::In { values, .. } => values.len() <= MANY && values.iter().all(is_told),
            Predicate::Compare { value, .. } => is_told(value),
            Predicate::Constant(_) | Predicate::Like { .. } | Predicate::IsNull(_) => true,
            Predicate::Is(inner, _) | Predicate::Not(inner) => inner.is_complete(),
            Predicate::And(all) | Predicate::Or(all) => {
                all.len() <= MANY && all.iter().all(Predicate::is_complete)
            }
        }
    }

    /// Whether no statistics can decide it.
    pub fn is_opaque(&self) -> bool {
        let mut columns = 0;
        self.for_each_column(&mut |_| columns += 1);
        columns == 0 && !matches!(self, Predicate::Constant(_))
    }
}
