//! Expressions that are nothing but arithmetic as steps of our own.

use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator as Theirs};
use datafusion::scalar::ScalarValue;

use crate::expr::arithmetic::{Argument, Arithmetic, Number, Operator, Steps};
use crate::model::{DataType, Schema};

/// The most nodes down that are looked at.
const MAX_DEPTH: usize = 64;
/// Expressions of more steps are left to DataFusion.
const MAX_STEPS: usize = 128;

/// The steps of an expression over a table of this schema, whose inputs are the columns at
/// `inputs`; `None` unless all of it is arithmetic over doubles or over whole numbers of 64 bits.
pub(crate) fn to_arithmetic(expr: &Expr, schema: &Schema, inputs: &[usize]) -> Option<Arithmetic> {
    let inputs = Inputs { schema, inputs };
    // A column or a literal alone takes no steps.
    let Expr::BinaryExpr(_) = plain(expr) else { return None };
    let mut floats = Steps::new();
    if inputs.source(expr, &mut floats, &DataType::Float64, float, 0).is_some() {
        return Some(Arithmetic::Floats(floats));
    }
    let mut ints = Steps::new();
    inputs.source(expr, &mut ints, &DataType::Int64, int, 0)?;
    Some(Arithmetic::Ints(ints))
}

fn plain(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => plain(&alias.expr),
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
    /// Where the number of an expression of this type comes from, its steps added to those that are
    /// there.
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
        match plain(expr) {
            Expr::Literal(value, _) => literal(value).map(Argument::Literal),
            Expr::Column(name) => self.input(&name.name, |stored| stored == data_type),
            Expr::Cast(Cast { expr, field })
                if DataType::from_arrow(field.data_type()).as_ref() == Some(data_type) =>
            {
                match plain(expr) {
                    Expr::Column(name) => {
                        self.input(&name.name, |stored| takes_in(data_type, stored))
                    }
                    _ => None,
                }
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                let operator = match op {
                    Theirs::Plus => Operator::Add,
                    Theirs::Minus => Operator::Subtract,
                    Theirs::Multiply => Operator::Multiply,
                    Theirs::Divide if *data_type == DataType::Float64 => Operator::Divide,
                    Theirs::Divide if is_divisor(right) => Operator::Divide,
                    Theirs::Modulo if *data_type == DataType::Int64 && is_divisor(right) => {
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

    fn input<T>(&self, name: &str, fits: impl Fn(&DataType) -> bool) -> Option<Argument<T>> {
        let position = self.schema.position(name)?;
        let column = self.schema.columns().get(position)?;
        let input = self.inputs.iter().position(|input| *input == position)?;
        fits(&column.data_type).then_some(Argument::Input(input))
    }
}

/// Whether every whole number can be divided by it.
fn is_divisor(expr: &Expr) -> bool {
    matches!(plain(expr), Expr::Literal(value, _) if int(value).is_some_and(|value| value > 0))
}

/// Whether a number becomes one of the wider type as a cast makes it, and without fail.
fn takes_in(wide: &DataType, narrow: &DataType) -> bool {
    let words = matches!(
        narrow,
        DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::UInt8
            | DataType::UInt16
            | DataType::UInt32
    );
    words || (*wide == DataType::Float64 && matches!(narrow, DataType::Float32 | DataType::Float64))
}
