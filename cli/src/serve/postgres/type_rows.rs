//! The types of PostgreSQL as its catalogs show them, and by their names in SQL.

use super::catalogs::Row;
use super::oids::Type;
use super::types::size;

/// The schemas, by their numbers.
pub(super) const SCHEMAS: [(i64, &str); 3] =
    [(CATALOG, "pg_catalog"), (2200, "public"), (12, "information_schema")];
/// The schema of the types.
const CATALOG: i64 = 11;

/// The number of a schema.
pub(super) fn schema_oid(name: &str) -> Option<i64> {
    SCHEMAS.iter().find(|(_, known)| *known == name).map(|(oid, _)| *oid)
}

/// Types with their names in SQL and their categories.
const TYPES: [(Type, &str, &str); 23] = [
    (Type::BOOL, "boolean", "B"),
    (Type::BYTEA, "bytea", "U"),
    (Type::CHAR, "\"char\"", "Z"),
    (Type::NAME, "name", "S"),
    (Type::INT8, "bigint", "N"),
    (Type::INT2, "smallint", "N"),
    (Type::INT4, "integer", "N"),
    (Type::TEXT, "text", "S"),
    (Type::OID, "oid", "N"),
    (Type::JSON, "json", "U"),
    (Type::FLOAT4, "real", "N"),
    (Type::FLOAT8, "double precision", "N"),
    (Type::BPCHAR, "character", "S"),
    (Type::VARCHAR, "character varying", "S"),
    (Type::DATE, "date", "D"),
    (Type::TIME, "time without time zone", "D"),
    (Type::TIMESTAMP, "timestamp without time zone", "D"),
    (Type::TIMESTAMPTZ, "timestamp with time zone", "D"),
    (Type::INTERVAL, "interval", "T"),
    (Type::NUMERIC, "numeric", "N"),
    (Type::REGCLASS, "regclass", "N"),
    (Type::UUID, "uuid", "U"),
    (Type::JSONB, "jsonb", "U"),
];

/// Those whose functions have an underscore in their names.
const UNDERSCORED: [Type; 9] = [
    Type::DATE,
    Type::TIME,
    Type::TIMESTAMP,
    Type::TIMESTAMPTZ,
    Type::INTERVAL,
    Type::NUMERIC,
    Type::UUID,
    Type::JSON,
    Type::JSONB,
];

/// Types that PostgreSQL prefers within their categories.
const PREFERRED: [Type; 6] =
    [Type::BOOL, Type::TEXT, Type::OID, Type::FLOAT8, Type::TIMESTAMPTZ, Type::INTERVAL];

/// The name of a type in SQL, which is that of its items for an array.
pub(super) fn sql_name(oid: u32) -> Option<&'static str> {
    TYPES.iter().find(|(of, ..)| of.oid() == oid).map(|(_, name, _)| *name)
}

/// The number of the type that a text names, in SQL or as the catalogs do.
pub(super) fn type_oid(text: &str) -> Option<i64> {
    let text = text.trim().to_ascii_lowercase();
    let (item, is_array) = match (text.strip_suffix("[]"), text.strip_prefix('_')) {
        (Some(item), _) | (None, Some(item)) => (item, true),
        (None, None) => (text.as_str(), false),
    };
    let (of, ..) = TYPES.iter().find(|(of, name, _)| *name == item || of.to_string() == item)?;
    let found = if is_array { of.array()? } else { *of };
    Some(i64::from(found.oid()))
}

/// A CASE that gives the name of the type whose number an expression is. What tells its modifier,
/// if something does, is named three times.
pub(super) fn type_name_of(oid: &str, modifier: Option<&str>) -> String {
    let mut cases = String::new();
    for (of, name, _) in &TYPES {
        let mut name = format!("'{name}'");
        if let Some(modifier) = modifier.filter(|_| *of == Type::NUMERIC) {
            name = format!(
                "CASE WHEN ({modifier}) >= 4 THEN concat('numeric(', (({modifier}) - 4) >> 16, \
                 ',', (({modifier}) - 4) & 65535, ')') ELSE 'numeric' END"
            );
        }
        cases.push_str(&format!(" WHEN {} THEN {name}", of.oid()));
    }
    for (of, name, _) in &TYPES {
        if let Some(array) = of.array() {
            cases.push_str(&format!(" WHEN {} THEN '{name}[]'", array.oid()));
        }
    }
    format!("(CASE {oid}{cases} ELSE '???' END)")
}

/// The rows of pg_type.
pub(super) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for (of, _, category) in &TYPES {
        let (oid, name) = (i64::from(of.oid()), of.to_string());
        let functions = match UNDERSCORED.contains(of) {
            true => format!("{name}_"),
            false => name.clone(),
        };
        let array = of.array().map_or(0, |array| i64::from(array.oid()));
        let mut row = row(oid, &name, &functions, size(*of));
        row.extend([
            ("typcategory", (*category).into()),
            ("typispreferred", PREFERRED.contains(of).into()),
            ("typarray", array.into()),
        ]);
        rows.push(row);
        if array != 0 {
            let mut row = self::row(array, &format!("_{name}"), "array_", -1);
            row.extend([("typcategory", "A".into()), ("typelem", oid.into())]);
            rows.push(row);
        }
    }
    let mut unknown = row(i64::from(Type::UNKNOWN.oid()), "unknown", "unknown", -2);
    unknown.retain(|(column, _)| *column != "typtype");
    unknown.extend([("typcategory", "X".into()), ("typtype", "p".into())]);
    rows.push(unknown);
    rows
}

fn row(oid: i64, name: &str, functions: &str, size: i16) -> Row {
    let align = match size {
        1 | 64 => "c",
        2 => "s",
        8 => "d",
        16 if name == "uuid" => "c",
        16 => "d",
        -2 => "c",
        _ => "i",
    };
    let storage = match size {
        -1 if name == "numeric" => "m",
        -1 => "x",
        _ => "p",
    };
    vec![
        ("oid", oid.into()),
        ("typname", name.into()),
        ("typnamespace", CATALOG.into()),
        ("typowner", 10.into()),
        ("typlen", i64::from(size).into()),
        ("typbyval", matches!(size, 1 | 2 | 4 | 8).into()),
        ("typtype", "b".into()),
        ("typisdefined", true.into()),
        ("typdelim", ",".into()),
        ("typsubscript", "-".into()),
        ("typinput", format!("{functions}in").into()),
        ("typoutput", format!("{functions}out").into()),
        ("typreceive", format!("{functions}recv").into()),
        ("typsend", format!("{functions}send").into()),
        ("typmodin", "-".into()),
        ("typmodout", "-".into()),
        ("typanalyze", "-".into()),
        ("typalign", align.into()),
        ("typstorage", storage.into()),
        ("typtypmod", (-1).into()),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::catalogs::{self, Value};
    use super::*;

    #[test]
    fn types_are_shown_as_postgresql_shows_them() {
        let rows = rows();
        assert!(catalogs::fits("pg_type", &rows));
        let of = |name: &str, column: &str| {
            let is_it = |row: &&Row| matches!(&row[1].1, Value::Text(it) if it == name);
            let row = rows.iter().find(is_it).unwrap();
            match &row.iter().find(|(known, _)| *known == column).unwrap().1 {
                Value::Int(value) => value.to_string(),
                Value::Text(value) => value.clone(),
                other => format!("{other:?}"),
            }
        };
        assert_eq!(of("date", "typsend"), "date_send");
        assert_eq!(of("bool", "typreceive"), "boolrecv");
        assert_eq!(of("_int8", "typinput"), "array_in");
        for (name, size) in
            [("bool", "1"), ("int2", "2"), ("timestamptz", "8"), ("uuid", "16"), ("name", "64")]
        {
            assert_eq!(of(name, "typlen"), size);
        }
        assert!(type_name_of("x", None).contains("WHEN 1016 THEN 'bigint[]'"));
        assert!(type_name_of("x", Some("m")).contains("WHEN 1700 THEN CASE WHEN (m) >= 4"));
        for (text, oid) in [
            ("int8", 20),
            ("BIGINT", 20),
            ("double precision", 701),
            ("_text", 1009),
            ("date[]", 1182),
        ] {
            assert_eq!(type_oid(text), Some(oid), "{text}");
        }
        assert_eq!(type_oid("nope"), None);
        assert_eq!(sql_name(701), Some("double precision"));
    }
}
