//! Names of types for people: those of a table's schema, `int64[]` for lists.

use arrow_schema::{DataType as ArrowType, Field};

use crate::model::DataType;

/// The name of the type of a field, which may say more than its Arrow type.
pub(in crate::sql) fn field_type_name(field: &Field) -> String {
    match DataType::from_field(field) {
        Some(known) => known.to_string(),
        None => type_name(field.data_type()),
    }
}

/// The name of a type.
pub(in crate::sql) fn type_name(of: &ArrowType) -> String {
    if let Some(known) = DataType::from_arrow(of) {
        return known.to_string();
    }
    match of {
        ArrowType::List(field) | ArrowType::LargeList(field) | ArrowType::ListView(field) => {
            format!("{}[]", type_name(field.data_type()))
        }
        ArrowType::FixedSizeList(field, length) => {
            format!("{}[{length}]", type_name(field.data_type()))
        }
        ArrowType::Struct(fields) => {
            let one = |field: &arrow_schema::FieldRef| {
                format!("{} {}", field.name(), type_name(field.data_type()))
            };
            format!("struct({})", fields.iter().map(one).collect::<Vec<_>>().join(", "))
        }
        ArrowType::Map(entries, _) => match entries.data_type() {
            ArrowType::Struct(fields) => {
                let types = fields.iter().map(|field| type_name(field.data_type()));
                format!("map({})", types.collect::<Vec<_>>().join(", "))
            }
            other => format!("map({})", type_name(other)),
        },
        ArrowType::Interval(_) => "interval".to_owned(),
        ArrowType::Duration(_) => "interval".to_owned(),
        ArrowType::Dictionary(_, values) => type_name(values),
        other => other.to_string().to_lowercase(),
    }
}
