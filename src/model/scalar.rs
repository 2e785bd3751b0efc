//! A single value without its type, for bounds of zone maps and literals of predicates.

use std::cmp::Ordering;

use arrow_array::{IntervalMonthDayNanoArray, make_array};
use arrow_buffer::Buffer;
use arrow_cast::display::array_value_to_string;
use arrow_data::ArrayData;
use arrow_data::decimal::format_decimal_str;

use super::{DataType, interval};

/// One value; the column's [`DataType`](super::DataType) says how to read it.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar {
    /// Booleans (0, 1), integers, dates, times, timestamps and decimals, as the stored integer.
    Int(i128),
    /// Floats of either width.
    Float(f64),
    /// Text and binary.
    Bytes(Box<[u8]>),
}

impl Scalar {
    /// The total order of stored values: floats by IEEE 754 `totalOrder`, text by bytes. `None` for
    /// values of different variants.
    pub fn total_cmp(&self, other: &Scalar) -> Option<Ordering> {
        Some(match (self, other) {
            (Scalar::Int(a), Scalar::Int(b)) => a.cmp(b),
            (Scalar::Float(a), Scalar::Float(b)) => a.total_cmp(b),
            (Scalar::Bytes(a), Scalar::Bytes(b)) => a.cmp(b),
            _ => return None,
        })
    }
}

impl Scalar {
    /// The value as SQL output shows it in a column of this type; text that is truncated inside a
    /// character ends in �.
    pub fn show(&self, data_type: &DataType) -> String {
        let arrow = data_type.to_arrow();
        match self {
            Scalar::Bytes(bytes) if data_type.is_text() => {
                String::from_utf8_lossy(bytes).into_owned()
            }
            Scalar::Bytes(bytes) => bytes.iter().map(|b| format!("{b:02x}")).collect(),
            Scalar::Float(v) => v.to_string(),
            Scalar::Int(v) if *data_type == DataType::Bool => (*v != 0).to_string(),
            Scalar::Int(v) if *data_type == DataType::Interval => {
                let value = IntervalMonthDayNanoArray::from(vec![interval::from_number(*v)]);
                array_value_to_string(&value, 0).unwrap_or_else(|_| v.to_string())
            }
            Scalar::Int(v) => {
                if let DataType::Decimal { scale, .. } = data_type {
                    // All digits, also more than the type has: statistics may lie.
                    return format_decimal_str(&v.to_string(), usize::MAX, *scale);
                }
                let width = arrow.primitive_width().unwrap_or(16);
                let bytes = v.to_le_bytes()[..width].to_vec();
                let data = ArrayData::builder(arrow)
                    .len(1)
                    .add_buffer(Buffer::from(bytes))
                    .align_buffers(true);
                data.build()
                    .ok()
                    .and_then(|data| array_value_to_string(&make_array(data), 0).ok())
                    .unwrap_or_else(|| v.to_string())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_as_in_answers() {
        let show = |v: i128, t: &str| Scalar::Int(v).show(&t.parse().unwrap());
        assert_eq!(show(-5, "int8"), "-5");
        assert_eq!(show(1, "bool"), "true");
        assert_eq!(show(0, "date"), "1970-01-01");
        assert_eq!(show(-1_234, "decimal(9,2)"), "-12.34");
        assert_eq!(show(-1_234, "decimal(3,2)"), "-12.34");
        let tiny = DataType::Decimal { precision: 10, scale: 38 };
        let digits = Scalar::Int(-i128::MAX).show(&tiny);
        assert_eq!(digits, "-1.70141183460469231731687303715884105727");
        assert_eq!(show(0x1_8000_0002_8000_0000_0000_0000, "interval"), "1 mons 2 days");
        assert_eq!(show(1_500_000, "timestamp(us)"), "1970-01-01T00:00:01.500");
    }
}
