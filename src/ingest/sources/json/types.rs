//! Which values a column accepts, and the common type of values.

use super::fields::Entry;
use super::schema::JsonSchema;
use super::value::Kind;
use crate::ingest::infer::TypeCandidates;
use crate::ingest::sources::csv::column::ColumnBuilder;
use crate::ingest::sources::csv::rules::FieldRules;
use crate::ingest::text::Text;
use crate::model::DataType;

impl JsonSchema {
    /// The type of a column that has none yet: the table's type if all values fit it, else their
    /// common type. Where bad rows are left out, a type that they cannot widen is kept.
    pub(super) fn type_of(&self, name: &str, text: &[u8], entries: &[Entry]) -> DataType {
        let mut candidates = TypeCandidates::default();
        entries.iter().for_each(|entry| add_entry(text, *entry, &mut candidates));
        let found = candidates.data_type();
        let prior = self.prior.get(name).filter(|prior| **prior != DataType::Null);
        let keeps = |prior: &DataType| {
            // A value that is not a UUID is an error, which names its line.
            fits(prior, text, entries)
                || *prior == DataType::Uuid
                || self.skip_bad_rows && prior.join(&found).is_none()
        };
        match prior.filter(|prior| **prior != found && keeps(prior)) {
            Some(prior) => prior.clone(),
            None => found,
        }
    }

    /// Whether the table has a float column of this name, which accepts the texts of
    /// [`is_float_text`].
    pub(super) fn is_float(&self, name: &str) -> bool {
        self.prior.get(name).is_some_and(is_float)
    }
}

/// Adds a value to its column's type candidates.
pub(super) fn add_entry(text: &[u8], entry: Entry, candidates: &mut TypeCandidates) {
    let field = entry.field();
    let value = Text::new(text.get(field.start..).unwrap_or_default(), field.len);
    match entry.kind() {
        Kind::Null => {}
        Kind::Bool => candidates.add(value),
        Kind::Number => candidates.add_number(value),
        Kind::String => candidates.add_string(value),
        Kind::Nested => candidates.add_text_only(),
    }
}

/// The type of one value alone.
pub(super) fn type_alone(text: &[u8], entry: Entry) -> DataType {
    let mut candidates = TypeCandidates::default();
    add_entry(text, entry, &mut candidates);
    candidates.data_type()
}

/// The type that holds the values of two types that a column should not have been given: integers
/// beyond 64 bits come as decimals, and strings may look like dates for a while.
pub(crate) fn needed_type(guessed: &DataType, found: &DataType) -> Option<DataType> {
    const WIDE: DataType = DataType::Decimal { precision: 38, scale: 0 };
    let is_integer = |data_type: &DataType| data_type.is_integer() || *data_type == WIDE;
    if is_integer(guessed) && is_integer(found) {
        return Some(WIDE);
    }
    let is_string = |data_type: &DataType| {
        matches!(
            data_type,
            DataType::Date | DataType::Timestamp { .. } | DataType::Time { .. } | DataType::Utf8
        )
    };
    (is_string(guessed) && is_string(found) && *guessed != DataType::Utf8).then_some(DataType::Utf8)
}

pub(super) fn is_float(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Float32 | DataType::Float64)
}

/// Whether an entry is one of the texts that an export writes for floats that JSON numbers cannot
/// express.
pub(super) fn is_float_text(text: &[u8], entry: Entry) -> bool {
    let field = entry.field();
    let value = text.get(field.start..field.start.saturating_add(field.len)).unwrap_or_default();
    entry.kind() == Kind::String && matches!(value, b"NaN" | b"Infinity" | b"-Infinity")
}

/// The field rules of JSON: null is an unquoted empty field.
pub(super) fn rules() -> FieldRules {
    FieldRules { quote: b'"', nulls: Vec::new(), empty_is_null: true, trims: false }
}

/// The kinds of values that a type accepts; a type that the user has named also accepts strings
/// that spell its values.
pub(super) fn accepted(data_type: &DataType, fixed: bool) -> &'static [Kind] {
    use Kind::{Bool, Nested, Null, Number, String};
    match data_type {
        DataType::Utf8 => &[Null, Bool, Number, String, Nested],
        DataType::Null => &[Null],
        _ if fixed => &[Null, Bool, Number, String],
        DataType::Bool => &[Null, Bool],
        DataType::Date
        | DataType::Timestamp { .. }
        | DataType::Time { .. }
        | DataType::Binary
        | DataType::Uuid
        | DataType::Interval => &[Null, String],
        _ => &[Null, Number],
    }
}

/// Whether a column of this type accepts all entries.
pub(super) fn fits(data_type: &DataType, text: &[u8], entries: &[Entry]) -> bool {
    let candidates = accepted(data_type, false);
    let fields = entries.iter().map(Entry::field);
    let is_float = is_float(data_type);
    let takes = |entry: &Entry| {
        candidates.contains(&entry.kind()) || is_float && is_float_text(text, *entry)
    };
    entries.iter().all(takes)
        && ColumnBuilder::new(data_type, false).push_fields(text, fields, &rules()).is_ok()
}
