//! Keys as numbers in their order: integers, floats, decimals, dates and timestamps in 128 bits.
//!
//! Where this stands on the road of a query: under what compares keys row by row, as `picked` and
//! joins by ranges (`run/range_join`) do.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, Decimal128Array, Float64Array, Int64Array, UInt64Array};
use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType, SortOptions};
use datafusion::error::Result as DataFusionResult;

/// The key of a group without a row, which comes after all others, and those of null keys.
pub(super) const NO_ROW: u128 = u128::MAX;
const NULL_LAST: u128 = u128::MAX - 1;
const NULL_FIRST: u128 = 0;

/// The numbers that values of a type are read as.
#[derive(Clone, Copy, Debug)]
pub(in crate::sql) enum Numbers {
    Signed,
    Unsigned,
    Floats,
    Decimals { scale: i8 },
}

impl Numbers {
    pub(in crate::sql) fn of(data_type: &DataType) -> Option<Numbers> {
        use DataType::*;
        Some(match data_type {
            Int8 | Int16 | Int32 | Int64 | Date32 | Date64 | Timestamp(..) | Time64(_) => {
                Numbers::Signed
            }
            UInt8 | UInt16 | UInt32 | UInt64 => Numbers::Unsigned,
            Float32 | Float64 => Numbers::Floats,
            Decimal32(_, scale) | Decimal64(_, scale) | Decimal128(_, scale) => {
                Numbers::Decimals { scale: *scale }
            }
            _ => return None,
        })
    }

    pub(super) fn data_type(self) -> DataType {
        match self {
            Numbers::Signed => DataType::Int64,
            Numbers::Unsigned => DataType::UInt64,
            Numbers::Floats => DataType::Float64,
            Numbers::Decimals { scale } => DataType::Decimal128(DECIMAL128_MAX_PRECISION, scale),
        }
    }
}

/// How keys become numbers of which the least is that of the row to be picked.
#[derive(Debug)]
pub(in crate::sql) struct KeysAsNumbers {
    pub(super) data_type: DataType,
    pub(super) numbers: Numbers,
    pub(super) options: SortOptions,
    /// Whether the last row in the order is to be picked.
    pub(super) is_last: bool,
}

impl KeysAsNumbers {
    /// Ascending keys of a type; `None` if they are no such numbers.
    pub(in crate::sql) fn ascending(data_type: &DataType) -> Option<KeysAsNumbers> {
        let (numbers, options) = (Numbers::of(data_type)?, SortOptions::default());
        Some(KeysAsNumbers { data_type: data_type.clone(), numbers, options, is_last: false })
    }

    fn is_descending(&self) -> bool {
        self.options.descending != self.is_last
    }

    fn null(&self) -> u128 {
        if self.options.nulls_first != self.is_last { NULL_FIRST } else { NULL_LAST }
    }

    /// A key between those of nulls: neither 64 bits nor a decimal of 38 digits fill 128 bits.
    fn encoded(&self, value: i128) -> u128 {
        let ordered = value as u128 ^ 1 << 127;
        if self.is_descending() { !ordered } else { ordered }
    }

    fn decoded(&self, key: u128) -> i128 {
        let ordered = if self.is_descending() { !key } else { key };
        (ordered ^ 1 << 127) as i128
    }

    /// The keys of rows.
    pub(in crate::sql) fn encode(&self, keys: &ArrayRef) -> DataFusionResult<Vec<u128>> {
        let keys = arrow_cast::cast(keys, &self.numbers.data_type())?;
        let mut numbers: Vec<u128> = match self.numbers {
            Numbers::Signed => {
                let values = keys.as_primitive::<Int64Type>().values().iter();
                values.map(|value| self.encoded((*value).into())).collect()
            }
            Numbers::Unsigned => {
                let values = keys.as_primitive::<UInt64Type>().values().iter();
                values.map(|value| self.encoded((*value).into())).collect()
            }
            Numbers::Floats => {
                let values = keys.as_primitive::<Float64Type>().values().iter();
                // There is one zero.
                let order = |value: &f64| total_order((value + 0.0).to_bits());
                values.map(|value| self.encoded(order(value).into())).collect()
            }
            Numbers::Decimals { .. } => {
                let values = keys.as_primitive::<Decimal128Type>().values().iter();
                values.map(|value| self.encoded(*value)).collect()
            }
        };
        if let Some(nulls) = keys.nulls() {
            for (number, is_valid) in numbers.iter_mut().zip(nulls) {
                if !is_valid {
                    *number = self.null();
                }
            }
        }
        Ok(numbers)
    }

    /// The values of keys, as they are handed on to whoever merges them.
    pub(super) fn decode(&self, keys: &[u128]) -> DataFusionResult<ArrayRef> {
        let values = keys.iter().map(|key| match *key {
            NO_ROW | NULL_LAST | NULL_FIRST => None,
            key => Some(self.decoded(key)),
        });
        let numbers: ArrayRef = match self.numbers {
            Numbers::Signed => {
                Arc::new(values.map(|value| value.map(|it| it as i64)).collect::<Int64Array>())
            }
            Numbers::Unsigned => {
                Arc::new(values.map(|value| value.map(|it| it as u64)).collect::<UInt64Array>())
            }
            Numbers::Floats => {
                let float = |value: i128| f64::from_bits(total_order(value as i64 as u64) as u64);
                Arc::new(values.map(|value| value.map(float)).collect::<Float64Array>())
            }
            Numbers::Decimals { scale } => Arc::new(
                values
                    .collect::<Decimal128Array>()
                    .with_precision_and_scale(DECIMAL128_MAX_PRECISION, scale)?,
            ),
        };
        Ok(arrow_cast::cast(&numbers, &self.data_type)?)
    }
}

/// The bits of a double as an integer of the same order, as `f64::total_cmp` has it, and back.
pub(super) fn total_order(bits: u64) -> i64 {
    let bits = bits as i64;
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}
