//! The names of types, spelled as ClickHouse spells them.

use std::fmt::{self, Display, Formatter, Write as _};

use super::Type;

impl Display for Type {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Type::Nothing => f.write_str("Nothing"),
            Type::Bool => f.write_str("Bool"),
            Type::Int8 => f.write_str("Int8"),
            Type::Int16 => f.write_str("Int16"),
            Type::Int32 => f.write_str("Int32"),
            Type::Int64 => f.write_str("Int64"),
            Type::UInt8 => f.write_str("UInt8"),
            Type::UInt16 => f.write_str("UInt16"),
            Type::UInt32 => f.write_str("UInt32"),
            Type::UInt64 => f.write_str("UInt64"),
            Type::Float32 => f.write_str("Float32"),
            Type::Float64 => f.write_str("Float64"),
            Type::Decimal { precision, scale } => write!(f, "Decimal({precision}, {scale})"),
            Type::String => f.write_str("String"),
            Type::FixedString(length) => write!(f, "FixedString({length})"),
            Type::Date => f.write_str("Date"),
            Type::Date32 => f.write_str("Date32"),
            Type::DateTime(None) => f.write_str("DateTime"),
            Type::DateTime(Some(zone)) => {
                f.write_str("DateTime(")?;
                quoted(f, zone, '\'')?;
                f.write_char(')')
            }
            Type::DateTime64(digits, None) => write!(f, "DateTime64({digits})"),
            Type::DateTime64(digits, Some(zone)) => {
                write!(f, "DateTime64({digits}, ")?;
                quoted(f, zone, '\'')?;
                f.write_char(')')
            }
            Type::Enum8(names) => enumeration(f, "Enum8", names),
            Type::Enum16(names) => enumeration(f, "Enum16", names),
            Type::Uuid => f.write_str("UUID"),
            Type::Nullable(inner) => write!(f, "Nullable({inner})"),
            Type::LowCardinality(inner) => write!(f, "LowCardinality({inner})"),
            Type::Array(item) => write!(f, "Array({item})"),
            Type::Tuple(elements) => tuple(f, elements),
            Type::Map(key, value) => write!(f, "Map({key}, {value})"),
        }
    }
}

fn enumeration(f: &mut Formatter<'_>, kind: &str, names: &[(String, i16)]) -> fmt::Result {
    write!(f, "{kind}(")?;
    for (at, (name, value)) in names.iter().enumerate() {
        if at > 0 {
            f.write_str(", ")?;
        }
        quoted(f, name, '\'')?;
        write!(f, " = {value}")?;
    }
    f.write_char(')')
}

fn tuple(f: &mut Formatter<'_>, elements: &[(Option<String>, Type)]) -> fmt::Result {
    f.write_str("Tuple(")?;
    for (at, (name, element)) in elements.iter().enumerate() {
        if at > 0 {
            f.write_str(", ")?;
        }
        if let Some(name) = name {
            if is_identifier(name) {
                f.write_str(name)?;
            } else {
                quoted(f, name, '`')?;
            }
            f.write_char(' ')?;
        }
        write!(f, "{element}")?;
    }
    f.write_char(')')
}

/// Whether a name needs no quotes. `NULL` and a few others would be read as something else.
fn is_identifier(name: &str) -> bool {
    const RESERVED: [&str; 6] = ["null", "distinct", "all", "table", "select", "from"];
    let mut characters = name.chars();
    characters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && characters.all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !RESERVED.iter().any(|word| word.eq_ignore_ascii_case(name))
}

/// A text in quotes, with backslashes before what would end it.
fn quoted(f: &mut Formatter<'_>, text: &str, quote: char) -> fmt::Result {
    f.write_char(quote)?;
    for c in text.chars() {
        match c {
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            '\t' => f.write_str("\\t")?,
            '\r' => f.write_str("\\r")?,
            '\0' => f.write_str("\\0")?,
            '\x08' => f.write_str("\\b")?,
            '\x0c' => f.write_str("\\f")?,
            c if c == quote => write!(f, "\\{c}")?,
            c => f.write_char(c)?,
        }
    }
    f.write_char(quote)
}
