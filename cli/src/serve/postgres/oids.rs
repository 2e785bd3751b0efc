//! The numbers by which PostgreSQL's protocol names types, with the names that its catalog has for
//! them: those of `pg_type.dat` in PostgreSQL's sources, of which a client may ask for none other.

use std::fmt;

/// A type of PostgreSQL that is known here, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Type(u32);

/// Types, their arrays, and names.
macro_rules! types {
    ($($name:ident $oid:literal $text:literal, $array:ident $array_oid:literal;)*) => {
        impl Type {
            $(pub(super) const $name: Type = Type($oid);
            pub(super) const $array: Type = Type($array_oid);)*
        }

        /// A type, its name, and the type of its arrays.
        const KNOWN: &[(Type, &str, Type)] = &[$((Type::$name, $text, Type::$array)),*];
    };
}

types! {
    BOOL 16 "bool", BOOL_ARRAY 1000;
    BYTEA 17 "bytea", BYTEA_ARRAY 1001;
    CHAR 18 "char", CHAR_ARRAY 1002;
    NAME 19 "name", NAME_ARRAY 1003;
    INT8 20 "int8", INT8_ARRAY 1016;
    INT2 21 "int2", INT2_ARRAY 1005;
    INT4 23 "int4", INT4_ARRAY 1007;
    TEXT 25 "text", TEXT_ARRAY 1009;
    OID 26 "oid", OID_ARRAY 1028;
    JSON 114 "json", JSON_ARRAY 199;
    FLOAT4 700 "float4", FLOAT4_ARRAY 1021;
    FLOAT8 701 "float8", FLOAT8_ARRAY 1022;
    BPCHAR 1042 "bpchar", BPCHAR_ARRAY 1014;
    VARCHAR 1043 "varchar", VARCHAR_ARRAY 1015;
    DATE 1082 "date", DATE_ARRAY 1182;
    TIME 1083 "time", TIME_ARRAY 1183;
    TIMESTAMP 1114 "timestamp", TIMESTAMP_ARRAY 1115;
    TIMESTAMPTZ 1184 "timestamptz", TIMESTAMPTZ_ARRAY 1185;
    INTERVAL 1186 "interval", INTERVAL_ARRAY 1187;
    NUMERIC 1700 "numeric", NUMERIC_ARRAY 1231;
    REGCLASS 2205 "regclass", REGCLASS_ARRAY 2210;
    UUID 2950 "uuid", UUID_ARRAY 2951;
    JSONB 3802 "jsonb", JSONB_ARRAY 3807;
}

impl Type {
    /// The type of texts in a statement that have none yet. It has no arrays.
    pub(super) const UNKNOWN: Type = Type(705);

    /// The type of a number, if it is known here.
    pub(super) fn from_oid(oid: u32) -> Option<Type> {
        let known = |&(of, _, array): &(Type, &str, Type)| of.0 == oid || array.0 == oid;
        (oid == Type::UNKNOWN.0 || KNOWN.iter().any(known)).then_some(Type(oid))
    }

    pub(super) const fn oid(self) -> u32 {
        self.0
    }

    /// The type of the items, if it is one of arrays.
    pub(super) fn item(self) -> Option<Type> {
        KNOWN.iter().find(|(.., array)| *array == self).map(|&(of, ..)| of)
    }

    /// The type of arrays of this one.
    pub(super) fn array(self) -> Option<Type> {
        KNOWN.iter().find(|(of, ..)| *of == self).map(|&(_, _, array)| array)
    }
}

/// The name that the catalog has.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (of, name, array) in KNOWN {
            if of == self {
                return f.write_str(name);
            }
            if array == self {
                return write!(f, "_{name}");
            }
        }
        f.write_str("unknown")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_known_by_their_numbers() {
        assert_eq!(Type::from_oid(1016), Some(Type::INT8_ARRAY));
        assert_eq!(Type::from_oid(600), None);
        assert_eq!(Type::UUID.array(), Some(Type::UUID_ARRAY));
        assert_eq!(Type::UNKNOWN.array(), None);
        assert_eq!(
            format!("{} {} {}", Type::INT4, Type::INT4_ARRAY, Type::UNKNOWN),
            "int4 _int4 unknown"
        );
        let mut oids: Vec<u32> = KNOWN.iter().flat_map(|(of, _, array)| [of.0, array.0]).collect();
        oids.sort_unstable();
        oids.dedup();
        assert_eq!(oids.len(), 2 * KNOWN.len());
    }
}
