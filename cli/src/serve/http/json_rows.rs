//! Rows of JSON that are arrays (`JSONCompactEachRow`) as objects, which the library reads.
//!
//! `[1,"a"]` becomes `{"id":1,"name":"a"}`. Only brackets, commas and quotes are looked at: whether
//! a value is right is found where it is read.

use std::io::{self, BufRead as _, BufReader, Read};
use std::sync::{Arc, OnceLock};

/// The longest row that has names, in bytes.
const MOST_NAMES: usize = 1 << 20;

/// Reads arrays, and gives objects, one a line.
pub(super) struct ObjectsOf<R> {
    input: BufReader<R>,
    /// For each column, its name with the colon behind it.
    keys: Vec<Vec<u8>>,
    heading: Heading,
    place: Place,
    /// The rows before the current one.
    rows: u64,
    wrong: Wrong,
    out: Vec<u8>,
    /// How many of these bytes were handed out.
    given: usize,
}

/// What is wrong with the rows, for those who do not see the error of the reader.
pub(super) type Wrong = Arc<OnceLock<String>>;

/// What the rows before the values say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heading {
    None,
    Names,
    NamesAndTypes,
}

/// Where in a row the reader is.
#[derive(Debug, Default)]
struct Place {
    depth: usize,
    in_text: bool,
    is_escaped: bool,
    /// The commas of the row.
    commas: usize,
    has_value: bool,
    /// The bytes of a row that is no values.
    heading: Vec<u8>,
}

impl<R: Read> ObjectsOf<R> {
    /// Starts before the first row. `names` are those of the columns, unless a heading has them.
    pub(super) fn new(input: R, names: &[String], heading: Heading, wrong: Wrong) -> Self {
        let keys = names.iter().map(|name| key(name)).collect();
        let (input, place) = (BufReader::new(input), Place::default());
        ObjectsOf { input, keys, heading, place, rows: 0, wrong, out: Vec::new(), given: 0 }
    }

    /// Takes what the input has ready; tells whether there was anything.
    fn advance(&mut self) -> io::Result<bool> {
        self.out.clear();
        self.given = 0;
        let taken = self.input.fill_buf()?.to_vec();
        for byte in &taken {
            self.byte(*byte)?;
        }
        self.input.consume(taken.len());
        if taken.is_empty() && self.place.depth > 0 {
            return Err(self.wrong("the body ends within it"));
        }
        Ok(!taken.is_empty())
    }

    fn byte(&mut self, byte: u8) -> io::Result<()> {
        let is_heading = self.heading != Heading::None;
        if is_heading && self.place.heading.len() >= MOST_NAMES {
            return Err(self.wrong("its names are too long"));
        }
        let place = &mut self.place;
        if place.in_text {
            match (place.is_escaped, byte) {
                (true, _) => place.is_escaped = false,
                (false, b'\\') => place.is_escaped = true,
                (false, b'"') => place.in_text = false,
                _ => {}
            }
            place.push(byte, is_heading, &mut self.out);
            return Ok(());
        }
        match byte {
            b'[' if place.depth == 0 => {
                *place = Place { depth: 1, ..Place::default() };
                match is_heading {
                    true => place.heading.push(byte),
                    false => self.out.push(b'{'),
                }
            }
            _ if place.depth == 0 => match byte {
                b',' | b' ' | b'\t' | b'\r' | b'\n' => {}
                _ => return Err(self.wrong("it does not begin with [")),
            },
            b']' if place.depth == 1 => self.end_of_row()?,
            b',' if place.depth == 1 => {
                place.commas += 1;
                match is_heading {
                    true => place.heading.push(byte),
                    false => {
                        self.out.push(b',');
                        place.has_value = false;
                    }
                }
            }
            b' ' | b'\t' | b'\r' | b'\n' => place.push(b' ', is_heading, &mut self.out),
            _ => {
                if !is_heading && !place.has_value {
                    place.has_value = true;
                    match self.keys.get(place.commas) {
                        Some(key) => self.out.extend_from_slice(key),
                        None => return Err(self.wrong_number(self.place.commas + 1)),
                    }
                }
                match byte {
                    b'[' | b'{' => place.depth += 1,
                    b']' | b'}' => place.depth = place.depth.saturating_sub(1),
                    b'"' => place.in_text = true,
                    _ => {}
                }
                place.push(byte, is_heading, &mut self.out);
            }
        }
        Ok(())
    }

    fn end_of_row(&mut self) -> io::Result<()> {
        self.place.depth = 0;
        match self.heading {
            Heading::None => {
                let is_empty = self.place.commas == 0 && !self.place.has_value;
                let values = if is_empty { 0 } else { self.place.commas + 1 };
                if values != self.keys.len() {
                    return Err(self.wrong_number(values));
                }
                self.rows += 1;
                self.out.extend_from_slice(b"}\n");
                return Ok(());
            }
            Heading::Names | Heading::NamesAndTypes if self.rows == 0 => {
                self.place.heading.push(b']');
                let names: Result<Vec<String>, _> = serde_json::from_slice(&self.place.heading);
                let names = names.map_err(|_| self.wrong("it is no list of names"))?;
                self.keys = names.iter().map(|name| key(name)).collect();
            }
            _ => {}
        }
        self.rows += 1;
        self.place.heading = Vec::new();
        let has_types = self.heading == Heading::NamesAndTypes;
        if self.rows > u64::from(has_types) {
            self.heading = Heading::None;
        }
        Ok(())
    }

    fn wrong(&self, what: &str) -> io::Error {
        let message = format!("row {} of the body: {what}", self.rows + 1);
        let _ = self.wrong.set(message.clone());
        io::Error::new(io::ErrorKind::InvalidData, message)
    }

    fn wrong_number(&self, values: usize) -> io::Error {
        self.wrong(&format!("{values} values for {} columns", self.keys.len()))
    }
}

impl Place {
    fn push(&mut self, byte: u8, is_heading: bool, out: &mut Vec<u8>) {
        match is_heading {
            true => self.heading.push(byte),
            false => out.push(byte),
        }
    }
}

/// A name as JSON has it, with its colon.
fn key(name: &str) -> Vec<u8> {
    format!("{}:", serde_json::Value::from(name)).into_bytes()
}

impl<R: Read> Read for ObjectsOf<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.given == self.out.len() {
            if !self.advance()? {
                return Ok(0);
            }
        }
        let rest = self.out.get(self.given..).unwrap_or_default();
        let bytes = rest.len().min(into.len());
        into[..bytes].copy_from_slice(&rest[..bytes]);
        self.given += bytes;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str, heading: Heading) -> io::Result<String> {
        let names = ["a".to_owned(), "b\"c".to_owned()];
        let mut text = String::new();
        // Whatever pieces the body comes in.
        let (first, rest) = body.as_bytes().split_at(body.len() / 2);
        let mut objects = ObjectsOf::new(first.chain(rest), &names, heading, Wrong::default());
        objects.read_to_string(&mut text).map(|_| text)
    }

    #[test]
    fn arrays_become_objects() {
        let rows = "[1, \"],[\\\"\"]\n\n [[2,3], {\"x\": [4,5]}],\n[null,true]";
        let expected = "{\"a\":1, \"b\\\"c\":\"],[\\\"\"}\n{\"a\":[2,3], \"b\\\"c\":{\"x\": [4,5]}}\n\
                        {\"a\":null,\"b\\\"c\":true}\n";
        assert_eq!(
            read(rows, Heading::None).unwrap().replace(", \"b", ",\"b"),
            expected.replace(", \"b", ",\"b")
        );
        assert_eq!(read("", Heading::None).unwrap(), "");
        let named = read("[\"x\"]\n[\"Int8\"]\n[1]\n[2]", Heading::NamesAndTypes).unwrap();
        assert_eq!(named, "{\"x\":1}\n{\"x\":2}\n");
        let named = read("[\"x\", \"y\"]\n[1,2]", Heading::Names).unwrap();
        assert_eq!(named, "{\"x\":1,\"y\":2}\n");
    }

    #[test]
    fn wrong_rows_are_told() {
        for (body, expected) in [
            ("[1]", "row 1 of the body: 1 values for 2 columns"),
            ("[1,2]\n[1,2,3]", "row 2 of the body: 3 values for 2 columns"),
            ("[]", "row 1 of the body: 0 values for 2 columns"),
            ("{\"a\":1}", "row 1 of the body: it does not begin with ["),
            ("[1,2", "row 1 of the body: the body ends within it"),
        ] {
            assert_eq!(read(body, Heading::None).unwrap_err().to_string(), expected);
        }
        assert!(read("[1]", Heading::Names).is_err());
    }
}
