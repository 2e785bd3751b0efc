//! The types of SQL that columns may have, as ODBC and JDBC know them.

use arrow_flight::error::FlightError;
use arrow_flight::sql::metadata::{XdbcTypeInfo, XdbcTypeInfoData, XdbcTypeInfoDataBuilder};
use arrow_flight::sql::{Nullable, Searchable, XdbcDataType, XdbcDatetimeSubcode};

/// How literals of a type are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Literal {
    Bare,
    Quoted(&'static str),
}

/// A type: its name, what it is to a client, digits or length, and whether it is unsigned.
type Known = (&'static str, XdbcDataType, i32, Option<bool>, Literal);

const BARE: Literal = Literal::Bare;
const TEXT: Literal = Literal::Quoted("'");
const ENDLESS: i32 = i32::MAX;

/// In the order of their numbers, as clients expect.
const TYPES: [Known; 16] = [
    ("BOOLEAN", XdbcDataType::XdbcBit, 1, None, BARE),
    ("TINYINT", XdbcDataType::XdbcTinyint, 3, Some(false), BARE),
    ("UTINYINT", XdbcDataType::XdbcTinyint, 3, Some(true), BARE),
    ("BIGINT", XdbcDataType::XdbcBigint, 19, Some(false), BARE),
    ("UBIGINT", XdbcDataType::XdbcBigint, 20, Some(true), BARE),
    ("BYTEA", XdbcDataType::XdbcVarbinary, ENDLESS, None, Literal::Quoted("x'")),
    ("DECIMAL", XdbcDataType::XdbcDecimal, 38, Some(false), BARE),
    ("INTEGER", XdbcDataType::XdbcInteger, 10, Some(false), BARE),
    ("UINTEGER", XdbcDataType::XdbcInteger, 10, Some(true), BARE),
    ("SMALLINT", XdbcDataType::XdbcSmallint, 5, Some(false), BARE),
    ("USMALLINT", XdbcDataType::XdbcSmallint, 5, Some(true), BARE),
    ("REAL", XdbcDataType::XdbcReal, 7, Some(false), BARE),
    ("DOUBLE", XdbcDataType::XdbcDouble, 15, Some(false), BARE),
    ("VARCHAR", XdbcDataType::XdbcVarchar, ENDLESS, None, TEXT),
    ("DATE", XdbcDataType::XdbcDate, 10, None, Literal::Quoted("DATE '")),
    ("TIMESTAMP", XdbcDataType::XdbcTimestamp, 29, None, Literal::Quoted("TIMESTAMP '")),
];

/// All types.
pub(super) fn all() -> Result<XdbcTypeInfoData, FlightError> {
    let mut types = XdbcTypeInfoDataBuilder::new();
    for known in TYPES {
        types.append(described(known));
    }
    types.build()
}

fn described((name, data_type, size, unsigned, literal): Known) -> XdbcTypeInfo {
    let (prefix, suffix) = match literal {
        Literal::Bare => (None, None),
        Literal::Quoted(prefix) => (Some(prefix.to_owned()), Some("'".to_owned())),
    };
    let is_decimal = data_type == XdbcDataType::XdbcDecimal;
    let is_time = matches!(data_type, XdbcDataType::XdbcDate | XdbcDataType::XdbcTimestamp);
    let subcode = match data_type {
        // The number of a date, too.
        XdbcDataType::XdbcDate => Some(XdbcDatetimeSubcode::XdbcSubcodeYear),
        XdbcDataType::XdbcTimestamp => Some(XdbcDatetimeSubcode::XdbcSubcodeTimestamp),
        _ => None,
    };
    XdbcTypeInfo {
        type_name: name.to_owned(),
        data_type,
        column_size: Some(size),
        literal_prefix: prefix,
        literal_suffix: suffix,
        create_params: is_decimal.then(|| vec!["precision".to_owned(), "scale".to_owned()]),
        nullable: Nullable::NullabilityNullable,
        case_sensitive: literal == TEXT,
        searchable: Searchable::Full,
        unsigned_attribute: unsigned,
        fixed_prec_scale: false,
        auto_increment: unsigned.map(|_| false),
        local_type_name: Some(name.to_owned()),
        minimum_scale: is_decimal.then_some(0),
        maximum_scale: is_decimal.then_some(38),
        sql_data_type: if is_time { XdbcDataType::XdbcDatetime } else { data_type },
        datetime_subcode: subcode,
        num_prec_radix: unsigned.map(|_| 10),
        interval_precision: None,
    }
}
