//! `bit_count(n)`, the bits of an integer that are 1, and `hex(x)`, the hexadecimal digits of an
//! integer, a text or bytes, as in DuckDB.
//!
//! Where this stands on the road of a query: a session registers them.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt64Type};
use arrow_array::{ArrayRef, Int64Array, StringArray};
use arrow_cast::cast;
use arrow_schema::DataType;
use datafusion::common::plan_err;
use datafusion::common::utils::take_function_args;
use datafusion::error::Result as DataFusionResult;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::sql::convert::type_name;

/// Both of them.
pub(in crate::sql) fn functions() -> impl Iterator<Item = ScalarUDF> {
    [Function::BitCount, Function::Hex].into_iter().map(|function| {
        let signature = Signature::any(1, Volatility::Immutable);
        ScalarUDF::from(Bits { function, signature })
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Bits {
    function: Function,
    signature: Signature,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Function {
    BitCount,
    Hex,
}

impl ScalarUDFImpl for Bits {
    fn name(&self) -> &str {
        match self.function {
            Function::BitCount => "bit_count",
            Function::Hex => "hex",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> DataFusionResult<DataType> {
        use DataType::{Binary, BinaryView, LargeBinary};
        let [of] = take_function_args(self.name(), arguments)?;
        let is_integer = of.is_integer() || of.is_null();
        match self.function {
            Function::BitCount if is_integer => Ok(DataType::Int64),
            Function::Hex if is_integer || of.is_string() => Ok(DataType::Utf8),
            Function::Hex if matches!(of, Binary | LargeBinary | BinaryView) => Ok(DataType::Utf8),
            Function::BitCount => {
                plan_err!("bit_count() takes an integer, not {}", type_name(of))
            }
            Function::Hex => {
                plan_err!("hex() takes an integer, a text or bytes, not {}", type_name(of))
            }
        }
    }

    fn invoke_with_args(&self, given: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let function = self.function;
        let of_one = move |arguments: &[ArrayRef]| {
            let [values] = take_function_args("hex", arguments)?;
            match function {
                Function::BitCount => bit_counts(values),
                Function::Hex => digits(values),
            }
        };
        make_scalar_function(of_one, vec![])(&given.args)
    }
}

fn bit_counts(values: &ArrayRef) -> DataFusionResult<ArrayRef> {
    let counts: Int64Array = if *values.data_type() == DataType::UInt64 {
        values.as_primitive::<UInt64Type>().unary(|value| i64::from(value.count_ones()))
    } else {
        let width = values.data_type().primitive_width().unwrap_or(8).min(8);
        // A negative number has as many bits as its type.
        let mask = u64::MAX >> (64 - 8 * width.max(1));
        let values = cast(values, &DataType::Int64)?;
        let count = |value: i64| i64::from((value as u64 & mask).count_ones());
        values.as_primitive::<Int64Type>().unary(count)
    };
    Ok(Arc::new(counts))
}

fn digits(values: &ArrayRef) -> DataFusionResult<ArrayRef> {
    let digits: StringArray = match values.data_type() {
        DataType::UInt64 => {
            let values = values.as_primitive::<UInt64Type>().iter();
            values.map(|value| value.map(|value| format!("{value:X}"))).collect()
        }
        of if of.is_integer() || of.is_null() => {
            let values = cast(values, &DataType::Int64)?;
            let values = values.as_primitive::<Int64Type>().iter();
            values.map(|value| value.map(|value| format!("{value:X}"))).collect()
        }
        _ => {
            let values = cast(values, &DataType::Binary)?;
            values.as_binary::<i32>().iter().map(|bytes| bytes.map(of_bytes)).collect()
        }
    };
    Ok(Arc::new(digits))
}

fn of_bytes(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}
