//! `information_schema` as PostgreSQL has it: its catalog is the database, and columns have the
//! names of PostgreSQL's types. The library has one of its own, whose words are others.

use stylobate::Session;

use super::catalogs::{Row, Value, is_catalog};
use super::known::Known;
use super::oids::Type;
use super::relations;
use super::type_rows::sql_name;
use super::types::PgType;

/// The schema of the session's own tables.
const PUBLIC: &str = "public";

/// The rows of the catalog of this name.
pub(super) fn rows(session: &Session, name: &str, known: &Known) -> Vec<Row> {
    match name {
        "information_schema_catalog_name" => vec![vec![("catalog_name", known.database.into())]],
        "enabled_roles" => vec![vec![("role_name", known.user.into())]],
        "schemata" => {
            let row = |schema: String| -> Row {
                vec![
                    ("catalog_name", known.database.into()),
                    ("schema_name", schema.into()),
                    ("schema_owner", known.user.into()),
                ]
            };
            let system = ["information_schema", "pg_catalog"].map(str::to_owned);
            schemas(session).into_iter().chain(system).map(row).collect()
        }
        "tables" => relations(session, known, |schema, table| {
            let is_stored = session.stored_size(Some(schema), table).is_some();
            let kind = if is_stored { "BASE TABLE" } else { "VIEW" };
            Some(vec![
                ("table_type", kind.into()),
                ("is_insertable_into", yes(is_stored)),
                ("is_typed", yes(false)),
            ])
        }),
        "views" => relations(session, known, |schema, table| {
            let is_stored = session.stored_size(Some(schema), table).is_some();
            (!is_stored).then(|| {
                vec![
                    ("view_definition", relations::definition(session, Some(schema), table).into()),
                    ("check_option", "NONE".into()),
                    ("is_updatable", yes(false)),
                    ("is_insertable_into", yes(false)),
                    ("is_trigger_updatable", yes(false)),
                    ("is_trigger_deletable", yes(false)),
                    ("is_trigger_insertable_into", yes(false)),
                ]
            })
        }),
        "columns" => {
            let mut rows = Vec::new();
            for (schema, table) in tables(session) {
                let is_stored = session.stored_size(Some(&schema), &table).is_some();
                let Some(described) = described(session, Some(&schema), &table) else { continue };
                for (at, field) in described.fields().iter().enumerate() {
                    let mut row = table_row(known, &schema, &table);
                    row.extend(column(known, at + 1, field, is_stored));
                    rows.push(row);
                }
            }
            rows
        }
        _ => Vec::new(),
    }
}

/// The schemas that have tables: the session's own, and attached stores.
fn schemas(session: &Session) -> Vec<String> {
    let attached = session.schemas().into_iter().filter(|schema| schema != PUBLIC);
    std::iter::once(PUBLIC.to_owned()).chain(attached).collect()
}

/// All tables and views, behind their schemas.
fn tables(session: &Session) -> Vec<(String, String)> {
    let of = |schema: String| {
        let names = session.table_names_in(&schema).into_iter();
        names.filter(|table| !is_catalog(table)).map(move |table| (schema.clone(), table))
    };
    schemas(session).into_iter().flat_map(of).collect()
}

/// Makes a row for each table and view; `more` adds the columns beside its name.
fn relations(
    session: &Session,
    known: &Known,
    more: impl Fn(&str, &str) -> Option<Row>,
) -> Vec<Row> {
    let row = |(schema, table): (String, String)| {
        let mut row = table_row(known, &schema, &table);
        row.extend(more(&schema, &table)?);
        Some(row)
    };
    tables(session).into_iter().filter_map(row).collect()
}

fn table_row(known: &Known, schema: &str, table: &str) -> Row {
    vec![
        ("table_catalog", known.database.into()),
        ("table_schema", schema.into()),
        ("table_name", table.into()),
    ]
}

/// The columns of a table or view; none if it cannot be opened.
pub(super) fn described(
    session: &Session,
    schema: Option<&str>,
    table: &str,
) -> Option<arrow_schema::SchemaRef> {
    let schema = schema.map(|schema| format!("{}.", relations::quoted(schema)));
    let from = schema.unwrap_or_default() + &relations::quoted(table);
    let parsed = session.parse(&format!("SELECT * FROM {from}")).ok()?;
    session.describe(parsed.first()?, &[]).ok()?.answer
}

fn column(known: &Known, at: usize, field: &arrow_schema::Field, is_stored: bool) -> Row {
    let of = PgType::of(field.data_type());
    let known_type = Type::from_oid(of.oid).unwrap_or(Type::TEXT);
    let numeric = match known_type {
        Type::INT2 => Some((16, 2, Some(0))),
        Type::INT4 => Some((32, 2, Some(0))),
        Type::INT8 => Some((64, 2, Some(0))),
        Type::FLOAT4 => Some((24, 2, None)),
        Type::FLOAT8 => Some((53, 2, None)),
        Type::NUMERIC if of.modifier >= 4 => {
            let packed = i64::from(of.modifier - 4);
            Some((packed >> 16, 10, Some(packed & 0xffff)))
        }
        _ => None,
    };
    let fraction = match known_type {
        Type::DATE => Some(0),
        Type::TIME | Type::TIMESTAMP | Type::TIMESTAMPTZ | Type::INTERVAL => Some(6),
        _ => None,
    };
    let radix = match known_type {
        Type::NUMERIC => Some(10),
        _ => numeric.map(|(_, radix, _)| radix),
    };
    vec![
        ("column_name", field.name().as_str().into()),
        ("ordinal_position", (at as i64).into()),
        ("is_nullable", yes(field.is_nullable())),
        ("data_type", sql_name(of.oid).unwrap_or("ARRAY").into()),
        ("numeric_precision", numeric.map(|(precision, ..)| precision).into()),
        ("numeric_precision_radix", radix.into()),
        ("numeric_scale", numeric.and_then(|(.., scale)| scale).into()),
        ("datetime_precision", fraction.into()),
        ("udt_catalog", known.database.into()),
        ("udt_schema", "pg_catalog".into()),
        ("udt_name", known_type.to_string().into()),
        ("dtd_identifier", at.to_string().into()),
        ("is_self_referencing", yes(false)),
        ("is_identity", yes(false)),
        ("identity_cycle", yes(false)),
        ("is_generated", "NEVER".into()),
        ("is_updatable", yes(is_stored)),
    ]
}

fn yes(is: bool) -> Value {
    if is { "YES" } else { "NO" }.into()
}

#[cfg(test)]
mod tests {
    use arrow_schema::{DataType, Field};

    use super::super::catalogs;
    use super::super::settings::Settings;
    use super::*;

    #[test]
    fn columns_are_those_of_postgresql() {
        let settings = Settings::default();
        let known = Known { user: "anna", database: "db", number: 7, settings: &settings };
        let of = |data_type| {
            let row = column(&known, 1, &Field::new("a", data_type, true), true);
            assert!(catalogs::fits("information_schema.columns", std::slice::from_ref(&row)));
            let of = |name| match row.iter().find(|(known, _)| *known == name).unwrap().1.clone() {
                Value::Text(text) => text,
                Value::Int(value) => value.to_string(),
                _ => String::new(),
            };
            ["data_type", "udt_name", "numeric_precision", "numeric_scale"].map(of)
        };
        assert_eq!(of(DataType::Decimal128(12, 2)), ["numeric", "numeric", "12", "2"]);
        assert_eq!(of(DataType::Int64), ["bigint", "int8", "64", "0"]);
        assert_eq!(of(DataType::Utf8), ["text", "text", "", ""]);
        let list = DataType::List(Field::new("item", DataType::Int32, true).into());
        assert_eq!(of(list), ["ARRAY", "_int4", "", ""]);
    }
}
