//! The small part of PostgreSQL's system catalogs that its clients ask for: which tables there are,
//! and which columns they have. They are tables of the session, made when a statement names them;
//! those that would be about what a store does not have (indexes, triggers, rules) are empty.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Float32Array, Int16Array, Int32Array, Int64Array, RecordBatch,
    StringArray, new_null_array,
};
use arrow_schema::{DataType, Field};
use stylobate::Session;

use super::errors::PgError;
use super::oids::Type;
use super::types::PgType;
use super::words::{Kind, tokens};

/// Numbers of what is the same in each store.
const PUBLIC: i64 = 2200;
const CATALOG: i64 = 11;
const OWNER: i64 = 10;
const DATABASE: i64 = 5;
const HEAP: i64 = 2;
/// The first number of a table.
const FIRST_TABLE: u32 = 16_384;

/// The catalogs: their columns, each with its type: `i` int8, `j` int4, `s` int2, `b` bool,
/// `f` float4, `t` text, `a` text[], of which all are null.
const CATALOGS: [(&str, &str); 33] = [
    ("pg_am", "oid:i amname:t amhandler:t amtype:t"),
    ("pg_attrdef", "oid:i adrelid:i adnum:s adbin:t"),
    (
        "pg_attribute",
        "attrelid:i attname:t atttypid:i attstattarget:j attlen:s attnum:s attndims:j \
         attcacheoff:j atttypmod:j attbyval:b attalign:t attstorage:t attcompression:t \
         attnotnull:b atthasdef:b atthasmissing:b attidentity:t attgenerated:t attisdropped:b \
         attislocal:b attinhcount:j attcollation:i attacl:a attoptions:a attfdwoptions:t",
    ),
    ("pg_auth_members", "oid:i roleid:i member:i grantor:i admin_option:b"),
    ("pg_class", PG_CLASS),
    ("pg_collation", "oid:i collname:t collnamespace:i collowner:i collprovider:t"),
    (
        "pg_constraint",
        "oid:i conname:t connamespace:i contype:t condeferrable:b condeferred:b convalidated:b \
         conrelid:i contypid:i conindid:i conparentid:i confrelid:i confupdtype:t confdeltype:t \
         confmatchtype:t conkey:a confkey:a conbin:t",
    ),
    (
        "pg_database",
        "oid:i datname:t datdba:i encoding:j datlocprovider:t datistemplate:b datallowconn:b \
         datconnlimit:j dattablespace:i datcollate:t datctype:t daticulocale:t datacl:a",
    ),
    ("pg_depend", "classid:t objid:i objsubid:j refclassid:t refobjid:i refobjsubid:j deptype:t"),
    ("pg_description", "objoid:i classoid:t objsubid:j description:t"),
    ("pg_enum", "oid:i enumtypid:i enumsortorder:f enumlabel:t"),
    ("pg_extension", "oid:i extname:t extowner:i extnamespace:i extversion:t"),
    ("pg_foreign_server", "oid:i srvname:t"),
    ("pg_foreign_table", "ftrelid:i ftserver:i ftoptions:t"),
    (
        "pg_index",
        "indexrelid:i indrelid:i indnatts:s indnkeyatts:s indisunique:b indisprimary:b \
         indnullsnotdistinct:b indisexclusion:b indimmediate:b indisclustered:b indisvalid:b \
         indisready:b indislive:b indisreplident:b indkey:a indoption:a indexprs:t indpred:t \
         indclass:a",
    ),
    ("pg_inherits", "inhrelid:i inhparent:i inhseqno:j inhdetachpending:b"),
    ("pg_matviews", "schemaname:t matviewname:t matviewowner:t"),
    ("pg_namespace", "oid:i nspname:t nspowner:i nspacl:a"),
    ("pg_opclass", "oid:i opcname:t opcdefault:b"),
    (
        "pg_policy",
        "oid:i polname:t polrelid:i polcmd:t polpermissive:b polroles:t polqual:t polwithcheck:t",
    ),
    (
        "pg_proc",
        "oid:i proname:t pronamespace:i proowner:i prokind:t provariadic:i prorettype:i \
         proargtypes:t proretset:b",
    ),
    ("pg_publication", "oid:i pubname:t puballtables:b"),
    ("pg_publication_namespace", "oid:i pnpubid:i pnnspid:i"),
    ("pg_publication_rel", "oid:i prpubid:i prrelid:i prattrs:a prqual:t"),
    ("pg_range", "rngtypid:i rngsubtype:i rngmultitypid:i"),
    (
        "pg_roles",
        "oid:i rolname:t rolsuper:b rolinherit:b rolcreaterole:b rolcreatedb:b rolcanlogin:b \
         rolreplication:b rolconnlimit:j rolvaliduntil:t rolbypassrls:b",
    ),
    (
        "pg_sequence",
        "seqrelid:i seqtypid:i seqstart:i seqincrement:i seqmax:i seqmin:i seqcache:i seqcycle:b",
    ),
    ("pg_statistic_ext", "oid:i stxrelid:i stxname:t stxnamespace:i stxkind:a stxstattarget:j"),
    (
        "pg_tables",
        "schemaname:t tablename:t tableowner:t tablespace:t hasindexes:b hasrules:b hastriggers:b",
    ),
    ("pg_tablespace", "oid:i spcname:t spcowner:i spcacl:a spcoptions:a"),
    (
        "pg_trigger",
        "oid:i tgrelid:i tgname:t tgenabled:t tgisinternal:b tgconstraint:i tgparentid:i tgtype:s",
    ),
    (
        "pg_type",
        "oid:i typname:t typnamespace:i typowner:i typlen:s typbyval:b typtype:t typcategory:t \
         typisdefined:b typdelim:t typrelid:i typelem:i typarray:i typinput:t typreceive:t \
         typnotnull:b typbasetype:i typtypmod:j typndims:j typcollation:i typdefault:t",
    ),
    ("pg_views", "schemaname:t viewname:t viewowner:t definition:t"),
];

const PG_CLASS: &str = "oid:i relname:t relnamespace:i reltype:i reloftype:i relowner:i relam:i \
                        relfilenode:i reltablespace:i relpages:j reltuples:f relallvisible:j \
                        reltoastrelid:i relhasindex:b relisshared:b relpersistence:t relkind:t \
                        relnatts:s relchecks:s relhasrules:b relhastriggers:b relhassubclass:b \
                        relrowsecurity:b relforcerowsecurity:b relispopulated:b relreplident:t \
                        relispartition:b relacl:a reloptions:a relpartbound:t";

/// The types that columns of a store have, with their names in SQL.
const TYPES: [(Type, &str, &str); 13] = [
    (Type::BOOL, "boolean", "B"),
    (Type::BYTEA, "bytea", "U"),
    (Type::INT8, "bigint", "N"),
    (Type::INT2, "smallint", "N"),
    (Type::INT4, "integer", "N"),
    (Type::TEXT, "text", "S"),
    (Type::FLOAT4, "real", "N"),
    (Type::FLOAT8, "double precision", "N"),
    (Type::DATE, "date", "D"),
    (Type::TIME, "time without time zone", "D"),
    (Type::TIMESTAMP, "timestamp without time zone", "D"),
    (Type::TIMESTAMPTZ, "timestamp with time zone", "D"),
    (Type::INTERVAL, "interval", "T"),
];

/// A value of a catalog.
#[derive(Clone, Debug)]
enum Value {
    Int(i64),
    Text(String),
    Bool(bool),
}

impl From<i64> for Value {
    fn from(value: i64) -> Value {
        Value::Int(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Value {
        Value::Text(value.to_owned())
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value::Bool(value)
    }
}

/// The values of a row by column; others are null, false or 0.
type Row = Vec<(&'static str, Value)>;

/// Whether a name is that of a catalog.
pub(super) fn is_catalog(name: &str) -> bool {
    CATALOGS.iter().any(|(known, _)| *known == name)
}

/// The number of a table, which follows from its name.
pub(super) fn oid_of(table: &str) -> i64 {
    let mix = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let hash = table.bytes().fold(0x811c_9dc5, mix);
    i64::from(hash % (i32::MAX as u32 - FIRST_TABLE) + FIRST_TABLE)
}

/// A CASE that gives the name of the type whose number an expression is.
pub(super) fn type_name_of(oid: &str) -> String {
    let mut cases: String =
        TYPES.iter().map(|(of, name, _)| format!(" WHEN {} THEN '{name}'", of.oid())).collect();
    for (of, name, _) in &TYPES {
        if let Some(array) = of.array() {
            cases.push_str(&format!(" WHEN {} THEN '{name}[]'", array.oid()));
        }
    }
    format!("(CASE {oid}{cases} WHEN 1700 THEN 'numeric' ELSE '???' END)")
}

/// Makes the catalogs that a statement names.
pub(super) fn provide(
    session: &Session,
    sql: &str,
    user: &str,
    database: &str,
) -> Result<(), PgError> {
    if !sql.contains("pg_") {
        return Ok(());
    }
    let words = tokens(sql).into_iter().filter(|token| token.kind != Kind::Text);
    let mut named: Vec<String> = words
        .filter_map(|token| sql.get(token.range))
        .map(|word| word.trim_matches('"').to_ascii_lowercase())
        .filter(|word| is_catalog(word))
        .collect();
    named.sort_unstable();
    named.dedup();
    for name in named {
        let Some((_, columns)) = CATALOGS.iter().find(|(known, _)| *known == name) else {
            continue;
        };
        let rows = rows(session, &name, user, database)?;
        session.add_table(&name, batch(columns, &rows)?)?;
    }
    Ok(())
}

fn rows(session: &Session, name: &str, user: &str, database: &str) -> Result<Vec<Row>, PgError> {
    let tables = || session.table_names().into_iter().filter(|table| !is_catalog(table));
    let namespace = |oid: i64, name: &str| -> Row {
        vec![("oid", oid.into()), ("nspname", name.into()), ("nspowner", OWNER.into())]
    };
    Ok(match name {
        "pg_namespace" => vec![
            namespace(CATALOG, "pg_catalog"),
            namespace(PUBLIC, "public"),
            namespace(CATALOG + 1, "information_schema"),
        ],
        "pg_am" => {
            vec![vec![("oid", HEAP.into()), ("amname", "stylobate".into()), ("amtype", "t".into())]]
        }
        "pg_database" => vec![vec![
            ("oid", DATABASE.into()),
            ("datname", database.into()),
            ("datdba", OWNER.into()),
            ("encoding", 6.into()),
            ("datlocprovider", "c".into()),
            ("datallowconn", true.into()),
            ("datconnlimit", (-1).into()),
            ("datcollate", "C".into()),
            ("datctype", "C.UTF-8".into()),
        ]],
        "pg_roles" => vec![vec![
            ("oid", OWNER.into()),
            ("rolname", user.into()),
            ("rolinherit", true.into()),
            ("rolcanlogin", true.into()),
            ("rolconnlimit", (-1).into()),
        ]],
        "pg_tables" => {
            let row = |table: String| -> Row {
                vec![
                    ("schemaname", "public".into()),
                    ("tablename", table.as_str().into()),
                    ("tableowner", user.into()),
                ]
            };
            tables().map(row).collect()
        }
        "pg_class" => {
            let row = |table: String| -> Row {
                let rows = session.stored_size(None, &table);
                let kind = if rows.is_some() { "r" } else { "v" };
                let (rows, columns) = rows.unwrap_or_default();
                vec![
                    ("oid", oid_of(&table).into()),
                    ("relname", table.as_str().into()),
                    ("relnamespace", PUBLIC.into()),
                    ("relowner", OWNER.into()),
                    ("relam", HEAP.into()),
                    ("relfilenode", oid_of(&table).into()),
                    ("reltuples", (rows as i64).into()),
                    ("relpersistence", "p".into()),
                    ("relkind", kind.into()),
                    ("relnatts", (columns as i64).into()),
                    ("relispopulated", true.into()),
                    ("relreplident", "d".into()),
                ]
            };
            tables().map(row).collect()
        }
        "pg_attribute" => {
            let mut rows = Vec::new();
            for table in tables() {
                attributes(session, &table, &mut rows);
            }
            rows
        }
        "pg_type" => types(),
        _ => Vec::new(),
    })
}

/// The columns of a table; none if it cannot be opened.
fn attributes(session: &Session, table: &str, rows: &mut Vec<Row>) {
    let sql = format!("SELECT * FROM \"{}\"", table.replace('"', "\"\""));
    let Ok(parsed) = session.parse(&sql) else { return };
    let described = parsed.first().and_then(|statement| session.describe(statement, &[]).ok());
    let Some(schema) = described.and_then(|described| described.answer) else { return };
    for (at, field) in schema.fields().iter().enumerate() {
        let of = PgType::of(field.data_type());
        rows.push(vec![
            ("attrelid", oid_of(table).into()),
            ("attname", field.name().as_str().into()),
            ("atttypid", i64::from(of.oid).into()),
            ("attstattarget", (-1).into()),
            ("attlen", i64::from(of.size).into()),
            ("attnum", (at as i64 + 1).into()),
            ("attcacheoff", (-1).into()),
            ("atttypmod", i64::from(of.modifier).into()),
            ("attalign", "i".into()),
            ("attstorage", "p".into()),
            ("attcompression", "".into()),
            ("attnotnull", (!field.is_nullable()).into()),
            ("attidentity", "".into()),
            ("attgenerated", "".into()),
            ("attislocal", true.into()),
        ]);
    }
}

fn types() -> Vec<Row> {
    let numeric = [(Type::NUMERIC, "numeric", "N")];
    let more = [
        (Type::VARCHAR, "character varying", "S"),
        (Type::BPCHAR, "character", "S"),
        (Type::NAME, "name", "S"),
        (Type::OID, "oid", "N"),
        (Type::UUID, "uuid", "U"),
        (Type::JSON, "json", "U"),
        (Type::JSONB, "jsonb", "U"),
        (Type::UNKNOWN, "unknown", "X"),
    ];
    let mut rows = Vec::new();
    for (of, _, category) in TYPES.iter().chain(&numeric).chain(&more) {
        let array = of.array().map_or(0, |array| i64::from(array.oid()));
        let row = |oid: i64, name: &str, category: &str, item: i64, array: i64| -> Row {
            let prefix = if item == 0 { name } else { "array_" };
            vec![
                ("oid", oid.into()),
                ("typname", name.into()),
                ("typnamespace", CATALOG.into()),
                ("typowner", OWNER.into()),
                ("typlen", (-1).into()),
                ("typtype", "b".into()),
                ("typcategory", category.into()),
                ("typisdefined", true.into()),
                ("typdelim", ",".into()),
                ("typelem", item.into()),
                ("typarray", array.into()),
                ("typinput", format!("{prefix}in").as_str().into()),
                ("typreceive", format!("{prefix}recv").as_str().into()),
                ("typtypmod", (-1).into()),
            ]
        };
        let oid = i64::from(of.oid());
        rows.push(row(oid, &of.to_string(), category, 0, array));
        if array != 0 {
            rows.push(row(array, &format!("_{of}"), "A", oid, 0));
        }
    }
    rows
}

/// Rows as a table.
fn batch(columns: &str, rows: &[Row]) -> Result<RecordBatch, PgError> {
    let column = |column: &str| -> (String, ArrayRef, bool) {
        let (name, kind) = column.split_once(':').unwrap_or((column, "t"));
        let of = |row: &Row| row.iter().find(|(known, _)| *known == name).map(|(_, it)| it.clone());
        let ints = rows.iter().map(|row| match of(row) {
            Some(Value::Int(value)) => value,
            _ => 0,
        });
        let array: ArrayRef = match kind {
            "i" => Arc::new(ints.collect::<Int64Array>()),
            "j" => Arc::new(ints.map(|value| value as i32).collect::<Int32Array>()),
            "s" => Arc::new(ints.map(|value| value as i16).collect::<Int16Array>()),
            "f" => Arc::new(ints.map(|value| value as f32).collect::<Float32Array>()),
            "a" => {
                let item = Arc::new(Field::new_list_field(DataType::Utf8, true));
                new_null_array(&DataType::List(item), rows.len())
            }
            "b" => {
                let value = |row| matches!(of(row), Some(Value::Bool(true)));
                Arc::new(rows.iter().map(|row| Some(value(row))).collect::<BooleanArray>())
            }
            _ => {
                let value = |row| match of(row) {
                    Some(Value::Text(text)) => Some(text),
                    _ => None,
                };
                Arc::new(rows.iter().map(value).collect::<StringArray>())
            }
        };
        (name.to_owned(), array, true)
    };
    let made = RecordBatch::try_from_iter_with_nullable(columns.split_whitespace().map(column));
    made.map_err(|error| PgError::of("XX000", error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_catalogs_can_be_made() {
        for (name, columns) in CATALOGS {
            let made = batch(columns, &[]).unwrap();
            assert!(made.num_columns() > 1 && is_catalog(name));
        }
        let rows = types();
        let (_, columns) = CATALOGS.iter().find(|(name, _)| *name == "pg_type").unwrap();
        let made = batch(columns, &rows).unwrap();
        assert_eq!(made.num_rows(), rows.len());
        // Each value stands in a column that there is.
        let known: Vec<&str> =
            columns.split_whitespace().filter_map(|it| it.split(':').next()).collect();
        assert!(rows.iter().flatten().all(|(name, _)| known.contains(name)));
        assert_ne!(oid_of("a"), oid_of("b"));
        assert!(type_name_of("x").contains("WHEN 1016 THEN 'bigint[]'"));
    }
}
