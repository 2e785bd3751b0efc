//! The rows of an answer in `JSON` or `JSONCompact`, `{"meta": […], "data": […], …}`, as the body of
//! an INSERT: each on a line of its own, as those of `JSONEachRow` and
//! `JSONCompactEachRowWithNames`, which are read from there on.
//!
//! Rows are not held: only brackets, commas, quotes and the keys of the outermost object are looked
//! at. A body that does not begin with `meta` is rows already, and passes as it is.

use std::io::{self, BufRead as _, BufReader, Read};

use super::json_rows::Wrong;

/// The longest `meta`, in bytes.
const MOST_META: usize = 1 << 20;

/// Reads an answer, and gives its rows.
pub(super) struct RowsOf<R> {
    input: BufReader<R>,
    /// Whether rows are arrays, which a row of names goes before.
    compact: bool,
    part: Part,
    /// The bytes of the current part that were read so far.
    held: Vec<u8>,
    /// Of brackets and braces within the value that is read.
    depth: usize,
    in_text: bool,
    is_escaped: bool,
    wrong: Wrong,
    out: Vec<u8>,
    /// How many of these bytes were handed out.
    given: usize,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// `{` and the first key, which tell an answer from rows.
    Head,
    /// A key of the outermost object, or its end.
    Key,
    /// The value of `meta`.
    Meta,
    /// The value of `data`.
    Data,
    /// Another value.
    Other,
    /// What is behind the outermost object.
    End,
    /// Rows, as they are.
    Rows,
}

impl<R: Read> RowsOf<R> {
    /// Starts before the body.
    pub(super) fn new(input: R, compact: bool, wrong: Wrong) -> Self {
        RowsOf {
            input: BufReader::new(input),
            compact,
            part: Part::Head,
            held: Vec::new(),
            depth: 0,
            in_text: false,
            is_escaped: false,
            wrong,
            out: Vec::new(),
            given: 0,
        }
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
        if taken.is_empty() {
            match self.part {
                Part::Head => self.out.append(&mut self.held),
                Part::End | Part::Rows => {}
                _ => return Err(self.wrong("the body ends within the answer")),
            }
        }
        Ok(!taken.is_empty() || !self.out.is_empty())
    }

    fn byte(&mut self, byte: u8) -> io::Result<()> {
        if self.part == Part::Rows {
            self.out.push(byte);
            return Ok(());
        }
        let was_text = self.in_text;
        match (self.in_text, self.is_escaped, byte) {
            (true, true, _) => self.is_escaped = false,
            (true, false, b'\\') => self.is_escaped = true,
            (_, false, b'"') => self.in_text = !self.in_text,
            _ => {}
        }
        let is_text = was_text || self.in_text;
        match self.part {
            Part::Head => self.head(byte),
            Part::Key => self.key(byte, is_text)?,
            Part::End if !byte.is_ascii_whitespace() => {
                return Err(self.wrong("something follows the answer"));
            }
            Part::End | Part::Rows => {}
            Part::Meta | Part::Data | Part::Other => self.value(byte, is_text)?,
        }
        Ok(())
    }

    /// Holds what comes before the first key's colon.
    fn head(&mut self, byte: u8) {
        self.held.push(byte);
        let mut seen = self.held.iter().copied().filter(|byte| !byte.is_ascii_whitespace());
        let is_answer =
            br#"{"meta":"#.iter().all(|wanted| seen.next().is_none_or(|it| it == *wanted));
        match is_answer {
            false => {
                self.part = Part::Rows;
                self.out.append(&mut self.held);
            }
            true if byte == b':' => {
                self.held.clear();
                (self.part, self.depth) = (Part::Meta, 0);
            }
            true => {}
        }
    }

    fn key(&mut self, byte: u8, is_text: bool) -> io::Result<()> {
        match byte {
            b'}' if !is_text => self.part = Part::End,
            b':' if !is_text => {
                self.part = match self.held.as_slice() {
                    br#""data""# => Part::Data,
                    _ => Part::Other,
                };
                self.held.clear();
                self.depth = 0;
            }
            _ if is_text && self.held.len() < MOST_META => self.held.push(byte),
            b',' | b' ' | b'\t' | b'\r' | b'\n' => {}
            _ => return Err(self.wrong("it is no object of JSON")),
        }
        Ok(())
    }

    /// A byte of a value of the outermost object: one that ends it, or one of its own.
    fn value(&mut self, byte: u8, is_text: bool) -> io::Result<()> {
        let before = self.depth;
        if before == 0 && !is_text && matches!(byte, b',' | b'}') {
            self.part = if byte == b',' { Part::Key } else { Part::End };
            return Ok(());
        }
        match byte {
            b'[' | b'{' if !is_text => self.depth += 1,
            b']' | b'}' if !is_text => self.depth = before.saturating_sub(1),
            _ => {}
        }
        match self.part {
            Part::Meta => {
                self.held.push(byte);
                if self.held.len() > MOST_META {
                    return Err(self.wrong("meta is too long"));
                }
                if (before, self.depth) == (1, 0) {
                    self.names()?;
                }
            }
            Part::Data => self.data(byte, is_text, before)?,
            _ => {}
        }
        Ok(())
    }

    /// Takes a byte of the list of rows: it copies rows, and drops what separates them.
    fn data(&mut self, byte: u8, is_text: bool, before: usize) -> io::Result<()> {
        let is_of_row = before.max(self.depth) > 1;
        match byte {
            b'\n' | b'\r' if is_of_row && !is_text => self.out.push(b' '),
            _ if is_of_row => self.out.push(byte),
            b'[' | b']' if before.max(self.depth) == 1 && !is_text => {}
            b' ' | b'\t' | b'\r' | b'\n' => {}
            b',' if before == 1 => {}
            _ => return Err(self.wrong("data is no list of rows")),
        }
        if (before, self.depth) == (2, 1) {
            self.out.push(b'\n');
        }
        Ok(())
    }

    /// Writes the row of names, of rows that are arrays.
    fn names(&mut self) -> io::Result<()> {
        let columns: Option<Vec<serde_json::Value>> = serde_json::from_slice(&self.held).ok();
        let name = |column: &serde_json::Value| column.get("name").cloned();
        let names = columns.and_then(|columns| columns.iter().map(name).collect());
        let names: Vec<_> = names.ok_or_else(|| self.wrong("meta is no list of columns"))?;
        self.held.clear();
        if self.compact {
            self.out.extend_from_slice(serde_json::Value::from(names).to_string().as_bytes());
            self.out.push(b'\n');
        }
        Ok(())
    }

    fn wrong(&self, what: &str) -> io::Error {
        let _ = self.wrong.set(what.to_owned());
        io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
    }
}

impl<R: Read> Read for RowsOf<R> {
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

    fn read(body: &str, compact: bool) -> Result<String, String> {
        // Whatever pieces the body comes in.
        let whole: Vec<_> = (0..body.len()).filter(|at| body.is_char_boundary(*at)).collect();
        let mut answers = whole.into_iter().map(|at| {
            let (first, rest) = body.as_bytes().split_at(at);
            let mut text = String::new();
            let mut rows = RowsOf::new(first.chain(rest), compact, Wrong::default());
            rows.read_to_string(&mut text).map(|_| text).map_err(|error| error.to_string())
        });
        let one = answers.next().unwrap_or(Ok(String::new()));
        assert!(answers.all(|other| other == one));
        one
    }

    #[test]
    fn answers_become_their_rows() {
        let objects = r#" { "meta":
            [ {"name": "a", "type": "Array(Int8)"}, {"name": "b]\"}", "type": "String"} ],
            "data": [ {"a": [1, 2], "b]\"}": "x, ]}\n"},
                      {"a": [], "b]\"}": null} ],
            "rows": 2, "statistics": {"elapsed": [0.1, {"x": "}"}]} } "#;
        let rows = read(objects, false).unwrap();
        assert_eq!(
            rows,
            "{\"a\": [1, 2], \"b]\\\"}\": \"x, ]}\\n\"}\n{\"a\": [], \"b]\\\"}\": null}\n"
        );
        let arrays = r#"{"meta":[{"name":"a"},{"name":"b"}],"data":[[1,[2,3]],[4,[]]],"rows":2}"#;
        assert_eq!(read(arrays, true).unwrap(), "[\"a\",\"b\"]\n[1,[2,3]]\n[4,[]]\n");
        assert_eq!(read(r#"{"meta":[],"data":[]}"#, false).unwrap(), "");
    }

    #[test]
    fn rows_pass_as_they_are() {
        for rows in ["", "{\"metal\":1}\n{\"metal\":2}", "[1,2]\n[3,4]", "{ \"data\": [1] }", "{"] {
            assert_eq!(read(rows, false).unwrap(), rows);
        }
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (body, expected) in [
            ("{\"meta\":[],\"data\":[{\"a\":1}", "the body ends within the answer"),
            ("{\"meta\":[],\"data\":[1,2]}", "data is no list of rows"),
            ("{\"meta\":[],\"data\":{\"a\":1}}", "data is no list of rows"),
            ("{\"meta\":[1],\"data\":[]}", "meta is no list of columns"),
            ("{\"meta\":[],5}", "it is no object of JSON"),
            ("{\"meta\":[]} {}", "something follows the answer"),
        ] {
            assert_eq!(read(body, false).unwrap_err(), expected, "{body}");
        }
    }
}
