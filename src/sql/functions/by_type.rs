//! Functions whose meaning depends on the types of their arguments, as expressions of others.
//!
//! - `len(x)`, `length(x)` (DuckDB): the characters of a text, the elements of a list.
//! - `epoch_ms(t)`, `epoch_us(t)`, `epoch_ns(t)` (DuckDB): what a time counts since 1970; of an
//!   integer, the timestamp that counts so much.
//! - `intDiv(a, b)` (ClickHouse): the quotient without its fraction.
//! - `xbar(n, x)` (kdb+): the greatest multiple of n that is not above x; of a timestamp, for an
//!   interval.
//! - `typeof(x)` (DuckDB): the name of a type, as `DESCRIBE` has it.
//!
//! Where this stands on the road of a query: a session registers them. Simplification replaces
//! them, so that nothing further down the road knows them.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Decimal256Type;
use arrow_array::{ArrayRef, Int64Array};
use arrow_buffer::i256;
use arrow_schema::{ArrowError, DECIMAL256_MAX_PRECISION};
use datafusion::arrow::compute::kernels::arity::try_binary;
use datafusion::arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{DFSchema, ScalarValue, exec_err, plan_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::functions::datetime::date_bin;
use datafusion::functions::math::{floor, trunc};
use datafusion::functions::unicode::character_length;
use datafusion::functions::utils::make_scalar_function;
use datafusion::functions_nested::expr_fn::array_length;
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, cast, ident, lit,
};
use datafusion::physical_expr::create_physical_expr;

use crate::sql::convert::{field_type_name, type_name};

/// All of them.
pub(in crate::sql) fn functions() -> impl Iterator<Item = ScalarUDF> {
    use Function::{Epoch, IntDiv, Len, TypeOf, Xbar};
    let all = [
        Len,
        Epoch(TimeUnit::Millisecond),
        Epoch(TimeUnit::Microsecond),
        Epoch(TimeUnit::Nanosecond),
        IntDiv,
        Xbar,
        TypeOf,
    ];
    all.into_iter().map(|function| {
        let signature = Signature::any(function.arguments(), Volatility::Immutable);
        ScalarUDF::from(ByType { function, signature })
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ByType {
    function: Function,
    signature: Signature,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Function {
    Len,
    Epoch(TimeUnit),
    IntDiv,
    Xbar,
    TypeOf,
}

impl Function {
    fn name(self) -> &'static str {
        match self {
            Function::Len => "len",
            Function::Epoch(TimeUnit::Millisecond) => "epoch_ms",
            Function::Epoch(TimeUnit::Nanosecond) => "epoch_ns",
            Function::Epoch(_) => "epoch_us",
            Function::IntDiv => "intdiv",
            Function::Xbar => "xbar",
            Function::TypeOf => "typeof",
        }
    }

    fn arguments(self) -> usize {
        match self {
            Function::IntDiv | Function::Xbar => 2,
            _ => 1,
        }
    }

    fn return_type(self, arguments: &[DataType]) -> DataFusionResult<DataType> {
        use DataType as T;
        match (self, arguments) {
            (Function::Len, [T::Dictionary(_, of)]) => self.return_type(&[of.as_ref().clone()]),
            (Function::Len, [text]) if text.is_string() || text.is_null() => Ok(T::Int64),
            (Function::Len, [T::List(_) | T::LargeList(_) | T::FixedSizeList(..)]) => Ok(T::Int64),
            (Function::Len, [other]) => {
                plan_err!(
                    "len() takes a text or a list, not {}; cast it: len(x::text)",
                    type_name(other)
                )
            }
            (Function::Epoch(_), [T::Timestamp(..) | T::Date32 | T::Date64 | T::Null]) => {
                Ok(T::Int64)
            }
            (Function::Epoch(unit), [integer]) if integer.is_integer() => {
                Ok(T::Timestamp(timestamp_unit(unit), None))
            }
            (Function::Epoch(_), [other]) => {
                plan_err!("{}() takes a date or a timestamp, not {}", self.name(), type_name(other))
            }
            (Function::IntDiv, [a, b]) if is_number(a) && is_number(b) => Ok(quotient_type(a, b)),
            (Function::Xbar, [T::Interval(_) | T::Duration(_), time @ T::Timestamp(..)]) => {
                Ok(time.clone())
            }
            (Function::Xbar, [T::Interval(_) | T::Duration(_), T::Date32]) => {
                Ok(T::Timestamp(TimeUnit::Microsecond, None))
            }
            (Function::Xbar, [n, x]) if is_number(n) && is_number(x) => {
                Ok(if is_integer(n) && is_integer(x) { T::Int64 } else { T::Float64 })
            }
            (Function::Xbar, [_, _]) => plan_err!(
                "xbar() takes a width and a number, or an interval and a timestamp: xbar(5, x), \
                 xbar(INTERVAL '5 minutes', t)"
            ),
            (Function::TypeOf, [_]) => Ok(T::Utf8),
            _ => plan_err!("{}() takes other arguments; see docs/sql.md", self.name()),
        }
    }

    fn expression(self, arguments: &[Expr], types: &[DataType]) -> Option<Expr> {
        use DataType as T;
        match (self, arguments, types) {
            (Function::Len, _, [T::Null]) => Some(lit(ScalarValue::Int64(None))),
            (Function::Len, [text], [T::Dictionary(_, of)]) => {
                let plain = cast(text.clone(), of.as_ref().clone());
                self.expression(&[plain], &[of.as_ref().clone()])
            }
            (Function::Len, [text], [of]) if of.is_string() => {
                Some(cast(character_length().call(vec![text.clone()]), T::Int64))
            }
            (Function::Len, [list], _) => Some(cast(array_length(list.clone()), T::Int64)),
            (Function::Epoch(unit), [count], [of]) if of.is_integer() => {
                let counted = cast(cast(count.clone(), T::Int64), T::Timestamp(unit, None));
                Some(cast(counted, T::Timestamp(timestamp_unit(unit), None)))
            }
            (Function::Epoch(unit), [time], [of]) => {
                let zone = match of {
                    T::Timestamp(_, zone) => zone.clone(),
                    _ => None,
                };
                Some(cast(cast(time.clone(), T::Timestamp(unit, zone)), T::Int64))
            }
            // `whole_quotients` computes it.
            (Function::IntDiv, _, [of_a, of_b]) if is_decimal_quotient(of_a, of_b) => None,
            (Function::IntDiv, [a, b], [of_a, of_b]) => {
                let result = quotient_type(of_a, of_b);
                let (whole, by) =
                    (cast(a.clone(), result.clone()), cast(b.clone(), result.clone()));
                if result.is_decimal() {
                    // A quotient of decimals has a fraction, which might be rounded.
                    let quotient = (whole.clone() - whole % by.clone()) / by;
                    return Some(cast(quotient, result));
                }
                if is_integer(of_a) && is_integer(of_b) {
                    return Some(whole / by);
                }
                let quotient = cast(a.clone(), T::Float64) / cast(b.clone(), T::Float64);
                Some(cast(trunc().call(vec![quotient]), T::Int64))
            }
            (Function::Xbar, [n, x], [T::Interval(_) | T::Duration(_), of]) => {
                let time = match of {
                    T::Date32 => cast(x.clone(), T::Timestamp(TimeUnit::Microsecond, None)),
                    _ => x.clone(),
                };
                Some(date_bin().call(vec![n.clone(), time]))
            }
            (Function::Xbar, [n, x], [of_n, of_x]) => {
                if is_integer(of_n) && is_integer(of_x) {
                    let (n, x) = (cast(n.clone(), T::Int64), cast(x.clone(), T::Int64));
                    let above = ((x.clone() % n.clone()) + n.clone()) % n;
                    return Some(x - above);
                }
                let (n, x) = (cast(n.clone(), T::Float64), cast(x.clone(), T::Float64));
                Some(n.clone() * floor().call(vec![x / n]))
            }
            (Function::TypeOf, _, [of]) => Some(lit(type_name(of))),
            _ => None,
        }
    }
}

/// The type of a quotient without its fraction: of 64 bits, but where a number of 64 bits without a
/// sign meets one with a sign.
fn quotient_type(a: &DataType, b: &DataType) -> DataType {
    let is_unsigned = |of: &DataType| of.is_unsigned_integer() || of.is_null();
    let has_large = [a, b].contains(&&DataType::UInt64);
    match (is_integer(a) && is_integer(b) && has_large, is_unsigned(a) && is_unsigned(b)) {
        (true, true) => DataType::UInt64,
        (true, false) => DataType::Decimal128(20, 0),
        (false, _) => DataType::Int64,
    }
}

/// Whether one of two types is a decimal, and the other one a decimal or an integer.
fn is_decimal_quotient(a: &DataType, b: &DataType) -> bool {
    (a.is_decimal() || b.is_decimal()) && [a, b].iter().all(|of| of.is_decimal() || is_integer(of))
}

/// The quotients of decimals without their fractions.
fn whole_quotients(a: &ArrayRef, b: &ArrayRef) -> DataFusionResult<ArrayRef> {
    let scale = |values: &ArrayRef| match values.data_type() {
        DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale) => *scale,
        _ => 0,
    };
    // Wide enough for the digits of both.
    let wide = DataType::Decimal256(DECIMAL256_MAX_PRECISION, scale(a).max(scale(b)));
    let (a, b) = (arrow_cast::cast(a, &wide)?, arrow_cast::cast(b, &wide)?);
    let quotient = |a: i256, b: i256| {
        let quotient = a.checked_div(b).ok_or(ArrowError::DivideByZero)?;
        let quotient = quotient.to_i128().and_then(|quotient| i64::try_from(quotient).ok());
        quotient
            .ok_or_else(|| ArrowError::ArithmeticOverflow("a quotient of // is no BIGINT".into()))
    };
    let (a, b) = (a.as_primitive::<Decimal256Type>(), b.as_primitive::<Decimal256Type>());
    let quotients: Int64Array = try_binary(a, b, quotient)?;
    Ok(Arc::new(quotients))
}

/// Milliseconds become microseconds, as TIMESTAMP has them.
fn timestamp_unit(unit: TimeUnit) -> TimeUnit {
    if unit == TimeUnit::Nanosecond { unit } else { TimeUnit::Microsecond }
}

fn is_integer(of: &DataType) -> bool {
    of.is_integer() || of.is_null()
}

fn is_number(of: &DataType) -> bool {
    of.is_numeric() || of.is_null()
}

impl ScalarUDFImpl for ByType {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> DataFusionResult<DataType> {
        self.function.return_type(arguments)
    }

    fn simplify(
        &self,
        arguments: Vec<Expr>,
        context: &SimplifyContext,
    ) -> DataFusionResult<ExprSimplifyResult> {
        let types = arguments.iter().map(|argument| context.get_data_type(argument));
        let types = types.collect::<DataFusionResult<Vec<_>>>()?;
        if let (Function::TypeOf, [argument]) = (self.function, arguments.as_slice()) {
            let (_, field) = argument.to_field(context.schema().as_ref())?;
            return Ok(ExprSimplifyResult::Simplified(lit(field_type_name(&field))));
        }
        let repeats = matches!(self.function, Function::IntDiv | Function::Xbar);
        if repeats && arguments.iter().any(Expr::is_volatile) {
            return Ok(ExprSimplifyResult::Original(arguments));
        }
        Ok(match self.function.expression(&arguments, &types) {
            Some(expression) => ExprSimplifyResult::Simplified(expression),
            None => ExprSimplifyResult::Original(arguments),
        })
    }

    /// Quotients of decimals; others only where all arguments are constants, or where one varies,
    /// so that its value must not be asked for twice.
    fn invoke_with_args(&self, given: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        if let (Function::TypeOf, [field]) = (self.function, given.arg_fields.as_slice()) {
            return Ok(ColumnarValue::Scalar(ScalarValue::from(field_type_name(field))));
        }
        let types: Vec<DataType> = given.args.iter().map(ColumnarValue::data_type).collect();
        if let (Function::IntDiv, [of_a, of_b]) = (self.function, types.as_slice())
            && is_decimal_quotient(of_a, of_b)
        {
            return make_scalar_function(
                |arguments| match arguments {
                    [a, b] => whole_quotients(a, b),
                    _ => exec_err!("intdiv() takes two numbers"),
                },
                vec![],
            )(&given.args);
        }
        let fields =
            (0..).zip(&types).map(|(at, of)| Field::new(format!("a{at}"), of.clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let arguments: Vec<Expr> =
            schema.fields().iter().map(|field| ident(field.name())).collect();
        let Some(expression) = self.function.expression(&arguments, &types) else {
            return exec_err!("{}() was not simplified", self.name());
        };
        let columns = given.args.iter().map(|value| value.to_array(given.number_rows));
        let columns = columns.collect::<DataFusionResult<Vec<_>>>()?;
        let rows = RecordBatch::try_new(Arc::clone(&schema), columns)?;
        let known = DFSchema::try_from(schema)?;
        let context = PhysicalPlanningContext::default();
        create_physical_expr(&expression, &known, &ExecutionProps::new(), &context)?.evaluate(&rows)
    }
}
