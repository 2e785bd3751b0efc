//! Lowers expressions that consist of arithmetic alone to steps of our own.
//!
//! Decimals become integers: a sum's operands are multiplied up to the same scale, a product's
//! scale is the sum of theirs, as in Arrow. Precisions do not matter, because Arrow checks only
//! that 128 bits suffice.

use arrow_schema::DataType as ArrowType;
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator as PlanOperator};
use datafusion::scalar::ScalarValue;

use crate::expr::arithmetic::{Argument, Arithmetic, Number, Operator, Steps};
use crate::model::{DataType, Schema};

/// How deep an expression is searched.
const MAX_DEPTH: usize = 64;
/// Expressions with more steps are left to DataFusion.
const MAX_STEPS: usize = 128;

/// The steps of an expression over a table of this schema, whose inputs are the columns at
/// `inputs`; `None` unless all of it is arithmetic over doubles or over 64-bit integers.
pub(crate) fn to_arithmetic(expr: &Expr, schema: &Schema, inputs: &[usize]) -> Option<Arithmetic> {
    let inputs = Inputs { schema, inputs };
    // A column or a literal alone needs no arithmetic.
    let (Expr::BinaryExpr(_) | Expr::Cast(_)) = without_alias(expr) else { return None };
    let mut floats = Steps::new();
    if inputs.source(expr, &mut floats, &DataType::Float64, float, 0).is_some() {
        return Some(Arithmetic::Floats(floats));
    }
    let mut ints = Steps::new();
    inputs.source(expr, &mut ints, &DataType::Int64, int, 0)?;
    Some(Arithmetic::Ints(ints))
}

/// The steps of an expression with a result of this type over the integers that stand for decimals;
/// `None` unless all of it is sums, differences and products of decimals.
pub(crate) fn to_decimal_steps(
    expr: &Expr,
    data_type: &ArrowType,
    schema: &Schema,
    inputs: &[usize],
) -> Option<Steps<i64>> {
    let (Expr::BinaryExpr(_), ArrowType::Decimal128(_, scale)) = (without_alias(expr), data_type)
    else {
        return None;
    };
    let mut steps = Steps::new();
    let (_, found) = Inputs { schema, inputs }.decimal(expr, &mut steps, 0)?;
    (found == *scale).then_some(steps)
}

fn without_alias(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => without_alias(&alias.expr),
        _ => expr,
    }
}

fn float(value: &ScalarValue) -> Option<f64> {
    if let ScalarValue::Float64(Some(value)) = value { Some(*value) } else { None }
}

fn int(value: &ScalarValue) -> Option<i64> {
    if let ScalarValue::Int64(Some(value)) = value { Some(*value) } else { None }
}

struct Inputs<'a> {
    schema: &'a Schema,
    inputs: &'a [usize],
}

impl Inputs<'_> {
    /// The source of the value of an expression of this type. Adds the steps that compute it.
    fn source<T: Number>(
        &self,
        expr: &Expr,
        steps: &mut Steps<T>,
        data_type: &DataType,
        literal: fn(&ScalarValue) -> Option<T>,
        depth: usize,
    ) -> Option<Argument<T>> {
        if depth > MAX_DEPTH || steps.len() > MAX_STEPS {
            return None;
        }
        match without_alias(expr) {
            Expr::Literal(value, _) => literal(value).map(Argument::Literal),
            Expr::Column(name) => self.input(&name.name, |stored| stored == data_type),
            Expr::Cast(Cast { expr, field })
                if DataType::from_arrow(field.data_type()).as_ref() == Some(data_type) =>
            {
                match without_alias(expr) {
                    Expr::Column(name) => {
                        self.input(&name.name, |stored| converts_like_cast(stored, data_type))
                    }
                    _ => None,
                }
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                let operator = match op {
                    PlanOperator::Plus => Operator::Add,
                    PlanOperator::Minus => Operator::Subtract,
                    PlanOperator::Multiply => Operator::Multiply,
                    PlanOperator::Divide if *data_type == DataType::Float64 => Operator::Divide,
                    PlanOperator::Divide if is_divisor(right) => Operator::Divide,
                    PlanOperator::Modulo if *data_type == DataType::Int64 && is_divisor(right) => {
                        Operator::Remainder
                    }
                    _ => return None,
                };
                let left = self.source(left, steps, data_type, literal, depth + 1)?;
                let right = self.source(right, steps, data_type, literal, depth + 1)?;
                Some(steps.push(operator, left, right))
            }
            _ => None,
        }
    }

    /// The source of a decimal as an integer, and its scale.
    fn decimal(
        &self,
        expr: &Expr,
        steps: &mut Steps<i64>,
        depth: usize,
    ) -> Option<(Argument<i64>, i8)> {
        if depth > MAX_DEPTH || steps.len() > MAX_STEPS {
            return None;
        }
        match without_alias(expr) {
            Expr::Literal(ScalarValue::Decimal128(Some(value), _, scale), _) => {
                Some((Argument::Literal(i64::try_from(*value).ok()?), *scale))
            }
            Expr::Column(name) => {
                let position = self.schema.position(&name.name)?;
                match self.schema.columns().get(position)?.data_type {
                    DataType::Decimal { scale, .. } if scale >= 0 => {
                        Some((self.input(&name.name, |_| true)?, scale))
                    }
                    _ => None,
                }
            }
            Expr::Cast(Cast { expr, field }) => match (without_alias(expr), field.data_type()) {
                (Expr::Column(name), ArrowType::Decimal128(digits, 0)) => {
                    Some((self.input(&name.name, |stored| fits_digits(stored, *digits))?, 0))
                }
                _ => None,
            },
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                let (left, left_scale) = self.decimal(left, steps, depth + 1)?;
                let (right, right_scale) = self.decimal(right, steps, depth + 1)?;
                let scale = left_scale.max(right_scale);
                let operator = match op {
                    PlanOperator::Plus => Operator::Add,
                    PlanOperator::Minus => Operator::Subtract,
                    PlanOperator::Multiply => {
                        let product = steps.push(Operator::Multiply, left, right);
                        return Some((product, left_scale.checked_add(right_scale)?));
                    }
                    _ => return None,
                };
                let left = multiplied(left, scale - left_scale, steps)?;
                let right = multiplied(right, scale - right_scale, steps)?;
                Some((steps.push(operator, left, right), scale))
            }
            _ => None,
        }
    }

    fn input<T>(&self, name: &str, fits: impl Fn(&DataType) -> bool) -> Option<Argument<T>> {
        let position = self.schema.position(name)?;
        let column = self.schema.columns().get(position)?;
        let input = self.inputs.iter().position(|input| *input == position)?;
        fits(&column.data_type).then_some(Argument::Input(input))
    }
}

/// A number times a power of ten.
fn multiplied(
    number: Argument<i64>,
    exponent: i8,
    steps: &mut Steps<i64>,
) -> Option<Argument<i64>> {
    let factor = 10i64.checked_pow(u32::try_from(exponent).ok()?)?;
    Some(match number {
        number if exponent == 0 => number,
        Argument::Literal(value) => Argument::Literal(value.checked_mul(factor)?),
        number => steps.push(Operator::Multiply, number, Argument::Literal(factor)),
    })
}

/// Whether all integers of a type have at most so many digits.
fn fits_digits(data_type: &DataType, digits: u8) -> bool {
    digits
        >= match data_type {
            DataType::Int8 | DataType::UInt8 => 3,
            DataType::Int16 | DataType::UInt16 => 5,
            DataType::Int32 | DataType::UInt32 => 10,
            DataType::Int64 => 19,
            _ => return false,
        }
}

/// Whether any integer can be divided by it without an error.
fn is_divisor(expr: &Expr) -> bool {
    let Expr::Literal(value, _) = without_alias(expr) else { return false };
    int(value).is_some_and(|value| value > 0)
}

/// Whether our conversion between these types gives what a cast gives, and no value fails.
fn converts_like_cast(from: &DataType, to: &DataType) -> bool {
    let is_integer = matches!(
        from,
        DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::UInt8
            | DataType::UInt16
            | DataType::UInt32
    );
    is_integer
        || (*to == DataType::Float64 && matches!(from, DataType::Float32 | DataType::Float64))
}
