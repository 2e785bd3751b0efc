//! Arrow fields of columns whose type the Arrow type alone does not tell: a UUID is text, marked by
//! Arrow's name of an extension type, and so is an interval in a format that has none. Whatever
//! does not know the mark sees text.

use arrow_schema::extension::EXTENSION_TYPE_NAME_KEY;
use arrow_schema::{DataType as ArrowType, Field};

use super::DataType;

/// The name of the extension type of UUIDs as texts, which are in the stored form.
const UUID_TEXT: &str = "stylobate.uuid";
/// The name of the extension type of intervals that are written as texts.
const INTERVAL_TEXT: &str = "stylobate.interval";
/// The name of intervals as Parquet has them: 12 bytes.
const INTERVAL_BYTES: &str = "stylobate.parquet_interval";
/// Arrow's own, of 16 bytes.
const UUID_BYTES: &str = "arrow.uuid";

impl DataType {
    /// The type of the values of an Arrow field, or `None` if they cannot be stored. What comes
    /// from outside may claim to be UUIDs, and is not: see `ingest::assign`.
    pub fn from_field(field: &Field) -> Option<DataType> {
        // Differences of timestamps are intervals, too.
        if matches!(field.data_type(), ArrowType::Interval(_) | ArrowType::Duration(_)) {
            return Some(DataType::Interval);
        }
        let found = DataType::from_arrow(field.data_type())?;
        Some(match (&found, field.extension_type_name()) {
            (DataType::Utf8, Some(UUID_TEXT)) => DataType::Uuid,
            (DataType::Utf8, Some(INTERVAL_TEXT)) => DataType::Interval,
            (DataType::Binary, Some(UUID_BYTES))
                if *field.data_type() == ArrowType::FixedSizeBinary(16) =>
            {
                DataType::Uuid
            }
            (DataType::Binary, Some(INTERVAL_BYTES))
                if *field.data_type() == ArrowType::FixedSizeBinary(12) =>
            {
                DataType::Interval
            }
            _ => found,
        })
    }

    /// The Arrow field of a column of this type in queries.
    pub fn to_field(&self, name: &str, nullable: bool) -> Field {
        self.marked(Field::new(name, self.to_arrow(), nullable))
    }

    /// A field of values of this type, in whichever layout: with the mark of a type that needs one,
    /// and else without any.
    pub(crate) fn marked(&self, field: Field) -> Field {
        let known = field.extension_type_name();
        let mark = match self {
            DataType::Uuid => Some(UUID_TEXT),
            _ => None,
        };
        let is_ours =
            matches!(known, Some(UUID_TEXT | UUID_BYTES | INTERVAL_TEXT | INTERVAL_BYTES));
        if known == mark || (mark.is_none() && !is_ours) {
            return field;
        }
        let mut metadata = field.metadata().clone();
        match mark {
            Some(mark) => metadata.insert(EXTENSION_TYPE_NAME_KEY.to_owned(), mark.to_owned()),
            None => metadata.remove(EXTENSION_TYPE_NAME_KEY),
        };
        field.with_metadata(metadata)
    }
}

/// A field of texts that are intervals, for a format that has none. They are as SQL prints them.
pub fn interval_texts(field: Field) -> Field {
    with_mark(field, INTERVAL_TEXT)
}

/// A field of 16 bytes that are a UUID, as other programs mark it.
pub(crate) fn uuid_bytes(field: Field) -> Field {
    with_mark(field, UUID_BYTES)
}

/// A field of 12 bytes that are an interval of Parquet.
pub(crate) fn interval_bytes(field: Field) -> Field {
    with_mark(field, INTERVAL_BYTES)
}

fn with_mark(field: Field, mark: &str) -> Field {
    let mut metadata = field.metadata().clone();
    metadata.insert(EXTENSION_TYPE_NAME_KEY.to_owned(), mark.to_owned());
    field.with_metadata(metadata)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_tell_types_apart() {
        for name in ["uuid", "utf8", "binary", "int64", "interval"] {
            let data_type: DataType = name.parse().unwrap();
            assert_eq!(DataType::from_field(&data_type.to_field("a", true)), Some(data_type));
        }
        let marked = DataType::Uuid.to_field("a", true);
        assert_eq!(DataType::from_arrow(marked.data_type()), Some(DataType::Utf8));
        let plain = DataType::Utf8.marked(marked.clone());
        assert_eq!(DataType::from_field(&plain), Some(DataType::Utf8));
        assert!(plain.metadata().is_empty());
        let number = marked.with_data_type(ArrowType::Int64);
        assert_eq!(DataType::from_field(&number), Some(DataType::Int64));
        let bytes = uuid_bytes(Field::new("a", ArrowType::FixedSizeBinary(16), true));
        assert_eq!(DataType::from_field(&bytes), Some(DataType::Uuid));
        let short = bytes.with_data_type(ArrowType::FixedSizeBinary(12));
        assert_eq!(DataType::from_field(&short), Some(DataType::Binary));
    }
}
