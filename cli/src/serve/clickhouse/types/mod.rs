//! ClickHouse's types: which one an Arrow type is in an answer, and which Arrow type a value has
//! that arrives as one. Names are written in `names`, and read in `parse`.
//!
//! What ClickHouse lacks (times of day, intervals, durations, unions) is a `String`, in the form in
//! which `sty` prints it. `Array`, `Tuple` and `Map` cannot be null there: a null list or map is an
//! empty one, and of a null struct every field that may be is null.

mod names;
mod parse;
mod zones;

#[cfg(test)]
mod tests;

use std::sync::Arc;

pub(super) use zones::named as named_zone;

use arrow_schema::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Field, Fields, TimeUnit,
};

/// A type of ClickHouse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    /// The type of `NULL`, which has no values.
    Nothing,
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    Float32,
    Float64,
    /// Up to 9, 18, 38 and 76 digits in 32, 64, 128 and 256 bits.
    Decimal {
        precision: u8,
        scale: u8,
    },
    /// Bytes, which most often are text.
    String,
    /// A number of bytes; zeros fill what the text leaves free.
    FixedString(u32),
    /// Days from 1970 on in 16 bits.
    Date,
    /// Days in 32 bits.
    Date32,
    /// Seconds in 32 bits, shown in a time zone.
    DateTime(Option<Arc<str>>),
    /// Ticks of this many decimal places in 64 bits, shown in a time zone.
    DateTime64(u8, Option<Arc<str>>),
    /// Names for numbers of 8 bits.
    Enum8(Arc<[(String, i16)]>),
    /// Names for numbers of 16 bits.
    Enum16(Arc<[(String, i16)]>),
    Uuid,
    Nullable(Box<Type>),
    /// The same values, with a dictionary of them.
    LowCardinality(Box<Type>),
    Array(Box<Type>),
    /// Elements, with names or without.
    Tuple(Vec<(Option<String>, Type)>),
    Map(Box<Type>, Box<Type>),
}

impl Type {
    /// The type of a column of an answer.
    pub(crate) fn of_field(field: &Field) -> Type {
        Type::of(field.data_type(), field.is_nullable())
    }

    /// The type of values of an Arrow type, of which some may be null.
    pub(crate) fn of(data_type: &DataType, nullable: bool) -> Type {
        let plain = match data_type {
            DataType::Null => return Type::Nullable(Box::new(Type::Nothing)),
            DataType::Boolean => Type::Bool,
            DataType::Int8 => Type::Int8,
            DataType::Int16 => Type::Int16,
            DataType::Int32 => Type::Int32,
            DataType::Int64 => Type::Int64,
            DataType::UInt8 => Type::UInt8,
            DataType::UInt16 => Type::UInt16,
            DataType::UInt32 => Type::UInt32,
            DataType::UInt64 => Type::UInt64,
            DataType::Float16 | DataType::Float32 => Type::Float32,
            DataType::Float64 => Type::Float64,
            DataType::Decimal32(precision, scale)
            | DataType::Decimal64(precision, scale)
            | DataType::Decimal128(precision, scale)
            | DataType::Decimal256(precision, scale) => decimal(*precision, *scale),
            DataType::Date32 => Type::Date32,
            DataType::Date64 => Type::DateTime64(3, None),
            DataType::Timestamp(unit, zone) => {
                Type::DateTime64(digits(*unit), zone.as_deref().map(zones::named))
            }
            DataType::Dictionary(_, values) => return Type::of(values, nullable),
            DataType::RunEndEncoded(_, values) => return Type::of(values.data_type(), nullable),
            DataType::List(item)
            | DataType::LargeList(item)
            | DataType::FixedSizeList(item, _)
            | DataType::ListView(item)
            | DataType::LargeListView(item) => return Type::Array(Box::new(Type::of_field(item))),
            DataType::Struct(fields) => return tuple(fields, nullable),
            DataType::Map(entries, _) => return map(entries),
            _ => Type::String,
        };
        if nullable { Type::Nullable(Box::new(plain)) } else { plain }
    }

    /// The Arrow type of its values, as the readers of bodies make them.
    pub(crate) fn arrow(&self) -> DataType {
        match self {
            Type::Nothing => DataType::Null,
            Type::Bool => DataType::Boolean,
            Type::Int8 => DataType::Int8,
            Type::Int16 => DataType::Int16,
            Type::Int32 => DataType::Int32,
            Type::Int64 => DataType::Int64,
            Type::UInt8 => DataType::UInt8,
            Type::UInt16 => DataType::UInt16,
            Type::UInt32 => DataType::UInt32,
            Type::UInt64 => DataType::UInt64,
            Type::Float32 => DataType::Float32,
            Type::Float64 => DataType::Float64,
            Type::Decimal { precision, scale } if *precision <= DECIMAL128_MAX_PRECISION => {
                DataType::Decimal128(*precision, *scale as i8)
            }
            Type::Decimal { precision, scale } => DataType::Decimal256(*precision, *scale as i8),
            Type::String | Type::FixedString(_) | Type::Enum8(_) | Type::Enum16(_) | Type::Uuid => {
                DataType::Utf8
            }
            Type::Date | Type::Date32 => DataType::Date32,
            Type::DateTime(zone) => DataType::Timestamp(TimeUnit::Second, zone.clone()),
            Type::DateTime64(digits, zone) => DataType::Timestamp(unit(*digits), zone.clone()),
            Type::Nullable(inner) | Type::LowCardinality(inner) => inner.arrow(),
            Type::Array(item) => DataType::List(item.field("item")),
            Type::Tuple(elements) => DataType::Struct(fields(elements)),
            Type::Map(key, value) => {
                let key = Arc::new(Field::new("keys", key.arrow(), false));
                let entries = DataType::Struct(Fields::from(vec![key, value.field("values")]));
                DataType::Map(Arc::new(Field::new("entries", entries, false)), false)
            }
        }
    }

    /// A field of this type.
    pub(crate) fn field(&self, name: &str) -> Arc<Field> {
        Arc::new(Field::new(name, self.arrow(), self.is_nullable()))
    }

    /// Whether a value may be null.
    pub(crate) fn is_nullable(&self) -> bool {
        match self {
            Type::Nothing | Type::Nullable(_) => true,
            Type::LowCardinality(inner) => inner.is_nullable(),
            _ => false,
        }
    }

    /// Whether the binary formats have the same bytes for the values, but for what says that there
    /// may be nulls.
    pub(super) fn has_bytes_of(&self, other: &Type) -> bool {
        match (self, other) {
            (Type::Nullable(inner), other) | (other, Type::Nullable(inner)) => {
                inner.has_bytes_of(other)
            }
            (Type::Array(item), Type::Array(other)) => item.has_bytes_of(other),
            (Type::Tuple(elements), Type::Tuple(others)) => {
                let mut pairs = elements.iter().zip(others);
                elements.len() == others.len()
                    && pairs.all(|((_, element), (_, other))| element.has_bytes_of(other))
            }
            (Type::Map(key, value), Type::Map(other_key, other_value)) => {
                key.has_bytes_of(other_key) && value.has_bytes_of(other_value)
            }
            (Type::DateTime64(digits, _), Type::DateTime64(others, _)) => digits == others,
            (one, other) => one == other,
        }
    }

    /// Whether tables for people show it flush right.
    pub(crate) fn is_flush_right(&self) -> bool {
        match self {
            Type::Bool
            | Type::String
            | Type::FixedString(_)
            | Type::Enum8(_)
            | Type::Enum16(_)
            | Type::Uuid
            | Type::Nothing
            | Type::Array(_)
            | Type::Tuple(_)
            | Type::Map(..) => false,
            Type::Nullable(inner) | Type::LowCardinality(inner) => inner.is_flush_right(),
            _ => true,
        }
    }
}

/// The fields of a tuple. Elements without a name are called by their position.
fn fields(elements: &[(Option<String>, Type)]) -> Fields {
    let field = |(at, (name, element)): (usize, &(Option<String>, Type))| match name {
        Some(name) => element.field(name),
        None => element.field(&(at + 1).to_string()),
    };
    elements.iter().enumerate().map(field).collect()
}

fn decimal(precision: u8, scale: i8) -> Type {
    let (precision, scale) = match u8::try_from(scale) {
        Ok(scale) => (precision.max(scale), scale),
        // Tens, hundreds and so on are whole numbers of more digits.
        Err(_) => (precision.saturating_add(scale.unsigned_abs()), 0),
    };
    Type::Decimal { precision: precision.clamp(1, DECIMAL256_MAX_PRECISION), scale }
}

fn tuple(fields: &Fields, nullable: bool) -> Type {
    let names: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
    let is_position = |(at, name): (usize, &&str)| *name == (at + 1).to_string();
    let mut distinct = names.clone();
    distinct.sort_unstable();
    distinct.dedup();
    let named = !names.iter().enumerate().all(is_position)
        && distinct.len() == names.len()
        && !names.contains(&"");
    let element = |field: &Arc<Field>| {
        let name = named.then(|| field.name().clone());
        (name, Type::of(field.data_type(), nullable || field.is_nullable()))
    };
    Type::Tuple(fields.iter().map(element).collect())
}

fn map(entries: &Field) -> Type {
    match entries.data_type() {
        DataType::Struct(fields) if fields.len() == 2 => {
            let key = Type::of(fields[0].data_type(), false);
            Type::Map(Box::new(key), Box::new(Type::of_field(&fields[1])))
        }
        _ => Type::String,
    }
}

/// The decimal places of a unit of time.
fn digits(unit: TimeUnit) -> u8 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    }
}

/// The coarsest unit that has this many decimal places.
fn unit(digits: u8) -> TimeUnit {
    match digits {
        0 => TimeUnit::Second,
        1..=3 => TimeUnit::Millisecond,
        4..=6 => TimeUnit::Microsecond,
        _ => TimeUnit::Nanosecond,
    }
}
