//! Reads names of types: in the bodies of INSERT, and of parameters (`{x:UInt8}`).

use std::sync::Arc;

use arrow_array::timezone::Tz;

use super::Type;
use crate::errors::Failure;
use crate::serve::clickhouse::refusals::{invalid, unsupported};

/// Longer names are refused. Enumerations list their values in theirs.
const MOST_BYTES: usize = 64 << 10;
/// Types that are nested deeper are refused.
const MOST_DEPTH: usize = 32;
/// The most bytes of a `FixedString`, as in ClickHouse.
const MOST_FIXED: u32 = 0xFF_FFFF;

/// Types that ClickHouse has and that cannot be read here, by the beginnings of their names.
const REFUSED: [&str; 24] = [
    "Int128",
    "Int256",
    "UInt128",
    "UInt256",
    "BFloat16",
    "IPv4",
    "IPv6",
    "Time",
    "Time64",
    "JSON",
    "Object",
    "Variant",
    "Dynamic",
    "QBit",
    "AggregateFunction",
    "SimpleAggregateFunction",
    "Point",
    "Ring",
    "LineString",
    "MultiLineString",
    "Polygon",
    "MultiPolygon",
    "Geometry",
    "Interval",
];

impl Type {
    /// Reads the name of a type.
    pub(crate) fn parse(name: &str) -> Result<Type, Failure> {
        if name.len() > MOST_BYTES {
            let message = format!("the name of a type has {} bytes", name.len());
            return Err(invalid(message).hint(format!("{MOST_BYTES} are read at most")));
        }
        let mut parser = Parser { name, rest: name };
        let parsed = parser.parse(0)?;
        match parser.peek() {
            None => Ok(parsed),
            Some(_) => Err(parser.unexpected("nothing more")),
        }
    }
}

struct Parser<'a> {
    name: &'a str,
    rest: &'a str,
}

impl Parser<'_> {
    fn parse(&mut self, depth: usize) -> Result<Type, Failure> {
        if depth > MOST_DEPTH {
            let message = format!("the type '{}' is nested too deeply", self.shown());
            return Err(invalid(message).hint(format!("{MOST_DEPTH} levels are read")));
        }
        let word = self.identifier()?;
        Ok(match word.as_str() {
            "Nullable" => self.wrapped(depth, nullable)?,
            "LowCardinality" => self.wrapped(depth, low_cardinality)?,
            "Array" => self.wrapped(depth, |item| Ok(Type::Array(Box::new(item))))?,
            "Tuple" => Type::Tuple(self.elements(depth)?),
            "Nested" => Type::Array(Box::new(Type::Tuple(self.elements(depth)?))),
            "Map" => self.map(depth)?,
            "Enum8" | "Enum16" | "Enum" => self.enumeration(&word)?,
            "FixedString" => {
                let length = self.number_in_brackets()?;
                match u32::try_from(length) {
                    Ok(length @ 1..=MOST_FIXED) => Type::FixedString(length),
                    _ => return Err(invalid(format!("FixedString({length}) has no such length"))),
                }
            }
            "Decimal32" => self.decimal(9)?,
            "Decimal64" => self.decimal(18)?,
            "Decimal128" => self.decimal(38)?,
            "Decimal256" => self.decimal(76)?,
            "DateTime64" => self.date_time_64()?,
            "DateTime" | "DateTime32" => self.date_time()?,
            _ => match scalar(&word) {
                Some(found) => found,
                None => self.other(&word)?,
            },
        })
    }

    /// Names in other languages than ClickHouse's own, in letters of either case.
    fn other(&mut self, word: &str) -> Result<Type, Failure> {
        Ok(match word.to_ascii_lowercase().as_str() {
            "bool" | "boolean" => Type::Bool,
            "tinyint" | "int1" | "byte" => Type::Int8,
            "smallint" => Type::Int16,
            "int" | "integer" | "mediumint" | "signed" => Type::Int32,
            "bigint" => Type::Int64,
            "unsigned" => Type::UInt64,
            "float" | "real" | "single" => Type::Float32,
            "double" => {
                if self
                    .rest
                    .trim_start()
                    .get(..9)
                    .is_some_and(|w| w.eq_ignore_ascii_case("precision"))
                {
                    self.identifier()?;
                }
                Type::Float64
            }
            "string" | "text" | "char" | "varchar" | "character" | "nchar" | "nvarchar"
            | "clob" | "blob" | "tinytext" | "mediumtext" | "longtext" | "tinyblob"
            | "mediumblob" | "longblob" | "binary" | "varbinary" | "bytea" => {
                if self.peek() == Some('(') {
                    self.number_in_brackets()?;
                }
                Type::String
            }
            "date" => Type::Date,
            "date32" => Type::Date32,
            "datetime" | "timestamp" => self.date_time()?,
            "decimal" | "dec" | "numeric" | "fixed" => self.decimal_of_digits()?,
            "uuid" => Type::Uuid,
            _ => {
                let refused = REFUSED.contains(&word) || word.starts_with("Interval");
                return Err(match refused {
                    true => unsupported(format!("ClickHouse's type {word} cannot be read here"))
                        .hint("send the values as a String, a Decimal or a number of 64 bits"),
                    false => invalid(format!("there is no type '{word}'")),
                });
            }
        })
    }

    fn wrapped(
        &mut self,
        depth: usize,
        wrap: impl FnOnce(Type) -> Result<Type, Failure>,
    ) -> Result<Type, Failure> {
        self.expect('(')?;
        let inner = self.parse(depth + 1)?;
        self.expect(')')?;
        wrap(inner)
    }

    fn map(&mut self, depth: usize) -> Result<Type, Failure> {
        self.expect('(')?;
        let key = self.parse(depth + 1)?;
        self.expect(',')?;
        let value = self.parse(depth + 1)?;
        self.expect(')')?;
        if key.is_nullable() {
            return Err(invalid(format!("the keys of a Map cannot be {key}")));
        }
        Ok(Type::Map(Box::new(key), Box::new(value)))
    }

    fn elements(&mut self, depth: usize) -> Result<Vec<(Option<String>, Type)>, Failure> {
        let mut elements = Vec::new();
        self.expect('(')?;
        while self.peek() != Some(')') {
            if !elements.is_empty() {
                self.expect(',')?;
            }
            // An element has a name if its type follows behind it.
            let start = self.rest;
            let name = self.identifier()?;
            let is_name = self.peek().is_some_and(|next| !matches!(next, ',' | ')' | '('));
            if !is_name {
                self.rest = start;
            }
            elements.push((is_name.then_some(name), self.parse(depth + 1)?));
        }
        self.expect(')')?;
        if elements.is_empty() {
            return Err(unsupported("a Tuple without elements cannot be read"));
        }
        Ok(elements)
    }

    fn enumeration(&mut self, word: &str) -> Result<Type, Failure> {
        let mut names: Vec<(String, i16)> = Vec::new();
        self.expect('(')?;
        loop {
            let name = self.quoted('\'')?;
            let value = match self.peek() {
                Some('=') => {
                    self.expect('=')?;
                    self.number()?
                }
                _ => names.last().map_or(1, |(_, last)| i64::from(*last) + 1),
            };
            let Ok(value) = i16::try_from(value) else {
                return Err(invalid(format!("{value} is beyond the numbers of {word}")));
            };
            names.push((name, value));
            match self.peek() {
                Some(',') => self.expect(',')?,
                _ => break,
            }
        }
        self.expect(')')?;
        let is_small = names.iter().all(|(_, value)| i8::try_from(*value).is_ok());
        match (word, is_small) {
            ("Enum8", false) => Err(invalid("a number of an Enum8 has more than 8 bits")),
            ("Enum8", true) | ("Enum", true) => Ok(Type::Enum8(names.into())),
            _ => Ok(Type::Enum16(names.into())),
        }
    }

    fn decimal(&mut self, precision: u8) -> Result<Type, Failure> {
        let scale = self.number_in_brackets()?;
        decimal(i64::from(precision), scale)
    }

    fn decimal_of_digits(&mut self) -> Result<Type, Failure> {
        if self.peek() != Some('(') {
            return decimal(10, 0);
        }
        self.expect('(')?;
        let precision = self.number()?;
        let scale = match self.peek() {
            Some(',') => {
                self.expect(',')?;
                self.number()?
            }
            _ => 0,
        };
        self.expect(')')?;
        decimal(precision, scale)
    }

    fn date_time(&mut self) -> Result<Type, Failure> {
        if self.peek() != Some('(') {
            return Ok(Type::DateTime(None));
        }
        self.expect('(')?;
        let zone = self.zone()?;
        self.expect(')')?;
        Ok(Type::DateTime(Some(zone)))
    }

    fn date_time_64(&mut self) -> Result<Type, Failure> {
        if self.peek() != Some('(') {
            return Ok(Type::DateTime64(3, None));
        }
        self.expect('(')?;
        let digits = self.number()?;
        let zone = match self.peek() {
            Some(',') => {
                self.expect(',')?;
                Some(self.zone()?)
            }
            _ => None,
        };
        self.expect(')')?;
        match u8::try_from(digits) {
            Ok(digits @ 0..=9) => Ok(Type::DateTime64(digits, zone)),
            _ => Err(invalid(format!("DateTime64 has 0 to 9 decimal places, not {digits}"))),
        }
    }

    fn zone(&mut self) -> Result<Arc<str>, Failure> {
        let zone = self.quoted('\'')?;
        match zone.parse::<Tz>() {
            Ok(_) => Ok(zone.into()),
            Err(_) => Err(invalid(format!("there is no time zone '{zone}'"))),
        }
    }

    fn number_in_brackets(&mut self) -> Result<i64, Failure> {
        self.expect('(')?;
        let number = self.number()?;
        self.expect(')')?;
        Ok(number)
    }

    fn number(&mut self) -> Result<i64, Failure> {
        self.skip_space();
        let is_part = |(at, c): (usize, char)| c.is_ascii_digit() || (at == 0 && c == '-');
        let length = self.rest.char_indices().take_while(|part| is_part(*part)).count();
        let (digits, rest) = self.rest.split_at(length);
        let Ok(number) = digits.parse() else { return Err(self.unexpected("a number")) };
        self.rest = rest;
        Ok(number)
    }

    /// A word, or a name in backquotes or double quotes.
    fn identifier(&mut self) -> Result<String, Failure> {
        match self.peek() {
            Some(quote @ ('`' | '"')) => return self.quoted(quote),
            Some(first) if first.is_ascii_alphabetic() || first == '_' => {}
            _ => return Err(self.unexpected("a name")),
        }
        let is_end = |c: char| !c.is_ascii_alphanumeric() && c != '_';
        let end = self.rest.find(is_end).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        Ok(word.to_owned())
    }

    /// A text in quotes. A quote in it is doubled or has a backslash before it.
    fn quoted(&mut self, quote: char) -> Result<String, Failure> {
        self.expect(quote)?;
        let mut text = String::new();
        let mut characters = self.rest.char_indices();
        while let Some((at, c)) = characters.next() {
            match c {
                '\\' => match characters.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, 't')) => text.push('\t'),
                    Some((_, 'r')) => text.push('\r'),
                    Some((_, '0')) => text.push('\0'),
                    Some((_, 'b')) => text.push('\x08'),
                    Some((_, 'f')) => text.push('\x0c'),
                    Some((_, other)) => text.push(other),
                    None => break,
                },
                c if c == quote => {
                    if !self.rest[at + 1..].starts_with(quote) {
                        self.rest = &self.rest[at + 1..];
                        return Ok(text);
                    }
                    characters.next();
                    text.push(quote);
                }
                c => text.push(c),
            }
        }
        Err(self.unexpected("the end of a quoted text"))
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn peek(&mut self) -> Option<char> {
        self.skip_space();
        self.rest.chars().next()
    }

    fn expect(&mut self, wanted: char) -> Result<(), Failure> {
        self.skip_space();
        match self.rest.strip_prefix(wanted) {
            Some(rest) => self.rest = rest,
            None => return Err(self.unexpected(&format!("'{wanted}'"))),
        }
        Ok(())
    }

    fn unexpected(&self, wanted: &str) -> Failure {
        let at = self.name.len() - self.rest.len();
        invalid(format!("the type '{}' should have {wanted} at byte {at}", self.shown()))
    }

    fn shown(&self) -> &str {
        &self.name[..self.name.floor_char_boundary(200)]
    }
}

/// A type that is one word.
fn scalar(word: &str) -> Option<Type> {
    Some(match word {
        "Nothing" => Type::Nothing,
        "Bool" => Type::Bool,
        "Int8" => Type::Int8,
        "Int16" => Type::Int16,
        "Int32" => Type::Int32,
        "Int64" => Type::Int64,
        "UInt8" => Type::UInt8,
        "UInt16" => Type::UInt16,
        "UInt32" => Type::UInt32,
        "UInt64" => Type::UInt64,
        "Float32" => Type::Float32,
        "Float64" => Type::Float64,
        "String" => Type::String,
        "Date" => Type::Date,
        "Date32" => Type::Date32,
        "UUID" => Type::Uuid,
        _ => return None,
    })
}

fn decimal(precision: i64, scale: i64) -> Result<Type, Failure> {
    match (u8::try_from(precision), u8::try_from(scale)) {
        (Ok(precision @ 1..=76), Ok(scale)) if scale <= precision => {
            Ok(Type::Decimal { precision, scale })
        }
        _ => Err(invalid(format!("there is no Decimal({precision}, {scale})"))
            .hint("it has 1 to 76 digits, and no more behind the point than in all")),
    }
}

fn nullable(inner: Type) -> Result<Type, Failure> {
    match inner {
        Type::Array(_)
        | Type::Tuple(_)
        | Type::Map(..)
        | Type::Nullable(_)
        | Type::LowCardinality(_) => {
            Err(invalid(format!("{inner} cannot be inside of Nullable, as in ClickHouse")))
        }
        inner => Ok(Type::Nullable(Box::new(inner))),
    }
}

fn low_cardinality(inner: Type) -> Result<Type, Failure> {
    let plain = match &inner {
        Type::Nullable(plain) => plain.as_ref(),
        plain => plain,
    };
    match plain {
        Type::Array(_)
        | Type::Tuple(_)
        | Type::Map(..)
        | Type::Nullable(_)
        | Type::LowCardinality(_)
        | Type::Nothing
        | Type::Decimal { .. } => {
            Err(invalid(format!("{inner} cannot be inside of LowCardinality, as in ClickHouse")))
        }
        _ => Ok(Type::LowCardinality(Box::new(inner))),
    }
}
