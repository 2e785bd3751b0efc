//! Values as bits, by which equal ones are known without their text.

use super::{Cells, Values};

impl Cells<'_> {
    /// Bits that are the same only for values of the same text; `None` where they would not be
    /// cheaper than the text.
    pub(in crate::printers) fn bits(&self, row: usize) -> Option<u128> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            // No value of up to 64 bits is that, and no view: its lowest 32 bits are a length.
            return Some(u128::MAX);
        }
        Some(match &self.values {
            Values::Int8(values) => u128::from(values[row] as u64),
            Values::Int16(values) => u128::from(values[row] as u64),
            Values::Int32(values) | Values::Date(values) | Values::Time32 { values, .. } => {
                u128::from(values[row] as u64)
            }
            Values::Int64(values)
            | Values::DateMillis(values)
            | Values::Timestamp { values, .. }
            | Values::Time64 { values, .. } => u128::from(values[row] as u64),
            Values::UInt8(values) => u128::from(values[row]),
            Values::UInt16(values) => u128::from(values[row]),
            Values::UInt32(values) => u128::from(values[row]),
            Values::UInt64(values) => u128::from(values[row]),
            Values::Float32(values) => u128::from(values[row].to_bits()),
            Values::Float64(values) => u128::from(values[row].to_bits()),
            Values::Utf8View(values) => values.views()[row],
            Values::BinaryView(values) => values.views()[row],
            Values::Dictionary { keys, .. } => u128::from(keys[row] as u64),
            _ => return None,
        })
    }
}
