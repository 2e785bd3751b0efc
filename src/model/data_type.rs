//! Data types (flat: a row has one value), their physical types, their Arrow counterparts,
//! and the lattice along which a column may widen.

use std::sync::Arc;

use arrow_schema::{DataType as ArrowType, IntervalUnit, TimeUnit as ArrowUnit};

/// The unit in which a time or timestamp counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TimeUnit {
    /// Seconds.
    Second,
    /// 10⁻³ s.
    Millisecond,
    /// 10⁻⁶ s.
    Microsecond,
    /// 10⁻⁹ s.
    Nanosecond,
}

/// The type of a column.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DataType {
    /// The type of a column without values; widens to any type.
    Null,
    /// True or false.
    Bool,
    /// Signed, 8 bits.
    Int8,
    /// Signed, 16 bits.
    Int16,
    /// Signed, 32 bits.
    Int32,
    /// Signed, 64 bits.
    Int64,
    /// Unsigned, 8 bits.
    UInt8,
    /// Unsigned, 16 bits.
    UInt16,
    /// Unsigned, 32 bits.
    UInt32,
    /// Unsigned, 64 bits.
    UInt64,
    /// IEEE 754 binary32.
    Float32,
    /// IEEE 754 binary64.
    Float64,
    /// An exact decimal: `precision` digits (1 to 38), `scale` of them after the point.
    Decimal {
        /// Total digits.
        precision: u8,
        /// Digits after the point.
        scale: i8,
    },
    /// Days since 1970-01-01, 32 bits.
    Date,
    /// Units since 1970-01-01T00:00:00 UTC, 64 bits. With a zone it is an instant, without one a
    /// local time.
    Timestamp {
        /// The unit that is counted.
        unit: TimeUnit,
        /// IANA name or offset.
        zone: Option<Arc<str>>,
    },
    /// Units since midnight.
    Time {
        /// The unit that is counted.
        unit: TimeUnit,
    },
    /// UTF-8 text, ordered by its bytes.
    Utf8,
    /// Bytes.
    Binary,
    /// A universally unique identifier, as its text of 36 characters in lower case.
    Uuid,
    /// Months, days and nanoseconds, ordered by these fields.
    Interval,
}

/// The width of a machine word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordWidth {
    /// 8 bits.
    W8,
    /// 16 bits.
    W16,
    /// 32 bits.
    W32,
    /// 64 bits.
    W64,
}

/// The representation of values in memory; encodings know only this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Physical {
    /// No values.
    Null,
    /// A bitmap.
    Bool,
    /// Two's complement or unsigned words.
    Word {
        /// Width of a value.
        width: WordWidth,
        /// Whether values compare as signed.
        signed: bool,
    },
    /// binary32.
    Float32,
    /// binary64.
    Float64,
    /// Signed 128-bit words.
    Wide,
    /// Byte strings of any length.
    Bytes,
}

impl DataType {
    /// The representation of this type in memory.
    #[doc(hidden)]
    pub fn physical(&self) -> Physical {
        use WordWidth::{W8, W16, W32, W64};
        let word = |width, signed| Physical::Word { width, signed };
        match self {
            DataType::Null => Physical::Null,
            DataType::Bool => Physical::Bool,
            DataType::Int8 => word(W8, true),
            DataType::Int16 => word(W16, true),
            DataType::Int32 | DataType::Date => word(W32, true),
            DataType::Int64 | DataType::Timestamp { .. } => word(W64, true),
            DataType::UInt8 => word(W8, false),
            DataType::UInt16 => word(W16, false),
            DataType::UInt32 => word(W32, false),
            DataType::UInt64 => word(W64, false),
            DataType::Time { unit: TimeUnit::Second | TimeUnit::Millisecond } => word(W32, true),
            DataType::Time { .. } => word(W64, true),
            DataType::Float32 => Physical::Float32,
            DataType::Float64 => Physical::Float64,
            DataType::Decimal { .. } | DataType::Interval => Physical::Wide,
            DataType::Utf8 | DataType::Binary | DataType::Uuid => Physical::Bytes,
        }
    }

    /// The least and the greatest stored number, if the type allows fewer than its physical type: a
    /// time is within a day, and a decimal has no more digits than its precision.
    #[doc(hidden)]
    pub fn bounds(&self) -> Option<(i128, i128)> {
        match self {
            DataType::Time { unit } => Some((0, i128::from(unit.per_second()) * 86_400 - 1)),
            DataType::Decimal { precision, .. } => {
                let beyond = 10i128.checked_pow(u32::from(*precision))?;
                Some((1 - beyond, beyond - 1))
            }
            _ => None,
        }
    }

    /// Whether values are UTF-8 text, and compared as text.
    #[doc(hidden)]
    pub fn is_text(&self) -> bool {
        matches!(self, DataType::Utf8 | DataType::Uuid)
    }

    /// Whether this is an integer type.
    pub fn is_integer(&self) -> bool {
        self.integer_bits().is_some()
    }

    /// (bits, signed) of an integer type.
    pub(super) fn integer_bits(&self) -> Option<(u8, bool)> {
        Some(match self {
            DataType::Int8 => (8, true),
            DataType::Int16 => (16, true),
            DataType::Int32 => (32, true),
            DataType::Int64 => (64, true),
            DataType::UInt8 => (8, false),
            DataType::UInt16 => (16, false),
            DataType::UInt32 => (32, false),
            DataType::UInt64 => (64, false),
            _ => return None,
        })
    }

    fn integer(bits: u8, signed: bool) -> Option<DataType> {
        Some(match (bits, signed) {
            (8, true) => DataType::Int8,
            (16, true) => DataType::Int16,
            (32, true) => DataType::Int32,
            (64, true) => DataType::Int64,
            (8, false) => DataType::UInt8,
            (16, false) => DataType::UInt16,
            (32, false) => DataType::UInt32,
            (64, false) => DataType::UInt64,
            _ => return None,
        })
    }

    /// The narrowest type to which both widen without loss, or `None`.
    ///
    /// null → any type; integer → wider integer; integer and f32 → f64 (for 64-bit integers it
    /// depends on the values: the caller checks [`DataType::widens_exactly_if`]); date → timestamp
    /// without a zone; coarser timestamp → finer. A number never becomes text.
    #[doc(hidden)]
    pub fn join(&self, other: &DataType) -> Option<DataType> {
        use DataType::{Date, Decimal, Float32, Float64, Null, Time, Timestamp};
        if self == other {
            return Some(self.clone());
        }
        if let (Some((a, sa)), Some((b, sb))) = (self.integer_bits(), other.integer_bits()) {
            if sa == sb {
                return DataType::integer(a.max(b), sa);
            }
            let (signed, unsigned) = if sa { (a, b) } else { (b, a) };
            return DataType::integer(signed.max(unsigned.saturating_mul(2)), true);
        }
        match (self, other) {
            (Null, t) | (t, Null) => Some(t.clone()),
            (Float64, t) | (t, Float64) if t.is_integer() || *t == Float32 => Some(Float64),
            (Float32, t) | (t, Float32) if t.is_integer() => {
                let narrow = t.integer_bits().is_some_and(|(bits, _)| bits <= 16);
                Some(if narrow { Float32 } else { Float64 })
            }
            // Which instant midnight in a zone is depends on the zone's rules.
            (Date, t @ Timestamp { zone: None, .. }) | (t @ Timestamp { zone: None, .. }, Date) => {
                Some(t.clone())
            }
            (Timestamp { unit: a, zone: za }, Timestamp { unit: b, zone: zb }) if za == zb => {
                Some(Timestamp { unit: *a.max(b), zone: za.clone() })
            }
            (Time { unit: a }, Time { unit: b }) => Some(Time { unit: *a.max(b) }),
            (Decimal { precision: p, scale: s }, Decimal { precision: q, scale: t }) => {
                let scale = (*s).max(*t);
                let whole = (i16::from(*p) - i16::from(*s)).max(i16::from(*q) - i16::from(*t));
                let precision = u8::try_from(whole + i16::from(scale)).ok().filter(|p| *p <= 38)?;
                Some(Decimal { precision, scale })
            }
            _ => None,
        }
    }

    /// Whether a column of this type may be read as one of type `to`. Where both are of one column
    /// of an input, they need not [join](DataType::join): a UUID is stored as its text, but a text
    /// among UUIDs is a mistake.
    #[doc(hidden)]
    pub fn widens_to(&self, to: &DataType) -> bool {
        self.join(to).as_ref() == Some(to) || (self, to) == (&DataType::Uuid, &DataType::Utf8)
    }

    /// Whether widening `self` to `to` is exact only for some values (a 64-bit integer to f64, a
    /// coarse timestamp to a finer one), so that the caller must check minimum and maximum.
    #[doc(hidden)]
    pub fn widens_exactly_if(&self, to: &DataType) -> bool {
        matches!(
            (self, to),
            (DataType::Int64 | DataType::UInt64, DataType::Float64)
                | (DataType::Timestamp { .. } | DataType::Date, DataType::Timestamp { .. })
        )
    }

    /// The Arrow type of the column in queries: text and bytes are views.
    pub fn to_arrow(&self) -> ArrowType {
        match self {
            DataType::Null => ArrowType::Null,
            DataType::Bool => ArrowType::Boolean,
            DataType::Int8 => ArrowType::Int8,
            DataType::Int16 => ArrowType::Int16,
            DataType::Int32 => ArrowType::Int32,
            DataType::Int64 => ArrowType::Int64,
            DataType::UInt8 => ArrowType::UInt8,
            DataType::UInt16 => ArrowType::UInt16,
            DataType::UInt32 => ArrowType::UInt32,
            DataType::UInt64 => ArrowType::UInt64,
            DataType::Float32 => ArrowType::Float32,
            DataType::Float64 => ArrowType::Float64,
            DataType::Decimal { precision, scale } => ArrowType::Decimal128(*precision, *scale),
            DataType::Date => ArrowType::Date32,
            DataType::Timestamp { unit, zone } => {
                ArrowType::Timestamp(unit.to_arrow(), zone.clone())
            }
            DataType::Time { unit: unit @ (TimeUnit::Second | TimeUnit::Millisecond) } => {
                ArrowType::Time32(unit.to_arrow())
            }
            DataType::Time { unit } => ArrowType::Time64(unit.to_arrow()),
            DataType::Utf8 | DataType::Uuid => ArrowType::Utf8View,
            DataType::Binary => ArrowType::BinaryView,
            DataType::Interval => ArrowType::Interval(IntervalUnit::MonthDayNano),
        }
    }

    /// The stored type of an Arrow column, or `None` if it cannot be stored (nested types, …),
    /// or if only its field tells how ([`DataType::from_field`]).
    pub fn from_arrow(arrow: &ArrowType) -> Option<DataType> {
        Some(match arrow {
            ArrowType::Null => DataType::Null,
            ArrowType::Boolean => DataType::Bool,
            ArrowType::Int8 => DataType::Int8,
            ArrowType::Int16 => DataType::Int16,
            ArrowType::Int32 => DataType::Int32,
            ArrowType::Int64 => DataType::Int64,
            ArrowType::UInt8 => DataType::UInt8,
            ArrowType::UInt16 => DataType::UInt16,
            ArrowType::UInt32 => DataType::UInt32,
            ArrowType::UInt64 => DataType::UInt64,
            ArrowType::Float16 | ArrowType::Float32 => DataType::Float32,
            ArrowType::Float64 => DataType::Float64,
            ArrowType::Decimal32(p, s)
            | ArrowType::Decimal64(p, s)
            | ArrowType::Decimal128(p, s) => DataType::Decimal { precision: *p, scale: *s },
            ArrowType::Date32 => DataType::Date,
            ArrowType::Date64 => DataType::Timestamp { unit: TimeUnit::Millisecond, zone: None },
            ArrowType::Timestamp(unit, zone) => {
                DataType::Timestamp { unit: TimeUnit::from_arrow(*unit), zone: zone.clone() }
            }
            ArrowType::Time32(unit) | ArrowType::Time64(unit) => {
                DataType::Time { unit: TimeUnit::from_arrow(*unit) }
            }
            ArrowType::Interval(IntervalUnit::MonthDayNano) => DataType::Interval,
            ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View => DataType::Utf8,
            ArrowType::Binary
            | ArrowType::LargeBinary
            | ArrowType::BinaryView
            | ArrowType::FixedSizeBinary(_) => DataType::Binary,
            ArrowType::Dictionary(_, value) => return DataType::from_arrow(value),
            _ => return None,
        })
    }
}

impl TimeUnit {
    /// Arrow's unit.
    pub fn to_arrow(self) -> ArrowUnit {
        match self {
            TimeUnit::Second => ArrowUnit::Second,
            TimeUnit::Millisecond => ArrowUnit::Millisecond,
            TimeUnit::Microsecond => ArrowUnit::Microsecond,
            TimeUnit::Nanosecond => ArrowUnit::Nanosecond,
        }
    }

    pub(crate) fn from_arrow(unit: ArrowUnit) -> Self {
        match unit {
            ArrowUnit::Second => TimeUnit::Second,
            ArrowUnit::Millisecond => TimeUnit::Millisecond,
            ArrowUnit::Microsecond => TimeUnit::Microsecond,
            ArrowUnit::Nanosecond => TimeUnit::Nanosecond,
        }
    }

    /// Units in a second.
    #[doc(hidden)]
    pub fn per_second(self) -> i64 {
        match self {
            TimeUnit::Second => 1,
            TimeUnit::Millisecond => 1_000,
            TimeUnit::Microsecond => 1_000_000,
            TimeUnit::Nanosecond => 1_000_000_000,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            TimeUnit::Second => "s",
            TimeUnit::Millisecond => "ms",
            TimeUnit::Microsecond => "us",
            TimeUnit::Nanosecond => "ns",
        }
    }

    pub(super) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "s" => TimeUnit::Second,
            "ms" => TimeUnit::Millisecond,
            "us" => TimeUnit::Microsecond,
            "ns" => TimeUnit::Nanosecond,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lattice_never_makes_text_of_a_number() {
        let join = |a: &str, b: &str| {
            let (a, b): (DataType, DataType) = (a.parse().unwrap(), b.parse().unwrap());
            assert_eq!(a.join(&b), b.join(&a));
            a.join(&b).map(|t| t.to_string())
        };
        assert_eq!(join("int64", "utf8"), None);
        assert_eq!(join("null", "utf8").as_deref(), Some("utf8"));
        assert_eq!(join("int8", "uint8").as_deref(), Some("int16"));
        assert_eq!(join("int8", "uint64"), None);
        assert_eq!(join("int64", "float64").as_deref(), Some("float64"));
        assert_eq!(join("date", "timestamp(us)").as_deref(), Some("timestamp(us)"));
        assert_eq!(join("date", "timestamp(us,UTC)"), None);
        assert_eq!(join("date", "timestamp(s,Europe/Berlin)"), None);
        assert_eq!(join("uuid", "utf8"), None);
        assert!(DataType::Uuid.widens_to(&DataType::Utf8));
        assert!(!DataType::Utf8.widens_to(&DataType::Uuid));
        assert!(!DataType::Uuid.widens_to(&DataType::Binary));
        assert_eq!(join("decimal(10,2)", "decimal(12,4)").as_deref(), Some("decimal(12,4)"));
    }
}
