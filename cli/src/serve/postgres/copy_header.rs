//! The header of a COPY from the client: it is passed over, and with HEADER MATCH, it has to name
//! the columns in their order.

use std::io::{self, BufRead};

use super::errors::PgError;
use super::own::Options;

/// The most bytes of a header.
const MOST_BYTES: usize = 16 << 20;

/// Reads the first row of CSV; also how many lines it has.
pub(super) fn read_csv(
    rows: &mut impl BufRead,
    options: &Options,
) -> Result<(Vec<Vec<u8>>, u64), PgError> {
    let failed = |error: io::Error| PgError::of("57014", error.to_string());
    let (mut values, mut value, mut is_quoted) = (Vec::new(), Vec::new(), false);
    let (mut read, mut lines) = (0, 1);
    while let Some(byte) = next(rows).map_err(failed)? {
        rows.consume(1);
        read += 1;
        if read > MOST_BYTES {
            let what = format!("the header has more than {MOST_BYTES} bytes");
            return Err(PgError::of("54000", what));
        }
        let escaped = match is_quoted && byte == options.escape {
            true => next(rows).map_err(failed)?,
            false => None,
        };
        match byte {
            _ if let Some(escaped) =
                escaped.filter(|it| [options.escape, options.quote].contains(it)) =>
            {
                value.push(escaped);
                rows.consume(1);
            }
            byte if byte == options.quote => is_quoted = !is_quoted,
            byte if is_quoted => {
                lines += u64::from(byte == b'\n');
                value.push(byte);
            }
            byte if byte == options.delimiter => values.push(std::mem::take(&mut value)),
            b'\n' => break,
            b'\r' => {
                if next(rows).map_err(failed)? == Some(b'\n') {
                    rows.consume(1);
                }
                break;
            }
            byte => value.push(byte),
        }
    }
    values.push(value);
    Ok((values, lines))
}

/// The next byte, which is not taken.
fn next(rows: &mut impl BufRead) -> io::Result<Option<u8>> {
    rows.fill_buf().map(|bytes| bytes.first().copied())
}

/// Refuses a header that does not name the columns.
pub(super) fn check(header: &[Vec<u8>], columns: &[String]) -> Result<(), PgError> {
    let wrong = |what: String| Err(PgError::of("22P04", what));
    if header.len() != columns.len() {
        let (got, expected) = (header.len(), columns.len());
        return wrong(format!("the header has {got} fields, and there are {expected} columns"));
    }
    for (at, (got, expected)) in header.iter().zip(columns).enumerate() {
        if got != expected.as_bytes() {
            let got = String::from_utf8_lossy(got.get(..got.len().min(100)).unwrap_or_default());
            return wrong(format!(
                "field {} of the header is \"{got}\", and the column is \"{expected}\"",
                at + 1
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::own::Format;
    use super::*;

    fn header(text: &str, escape: u8) -> (Vec<String>, String) {
        let options = Options {
            format: Format::Csv,
            delimiter: b',',
            null: String::new(),
            has_header: true,
            matches_header: true,
            quote: b'"',
            escape,
            quotes_all: false,
        };
        let mut rest = text.as_bytes();
        let (values, lines) = read_csv(&mut rest, &options).unwrap();
        assert_eq!(lines, 1 + u64::from(text.contains(",\nc")));
        let values = values.into_iter().map(|value| String::from_utf8(value).unwrap());
        (values.collect(), String::from_utf8(rest.to_vec()).unwrap())
    }

    #[test]
    fn the_first_row_is_read_and_no_more() {
        for (text, escape, values, rest) in [
            ("a,b\n1,2\n", b'"', &["a", "b"][..], "1,2\n"),
            ("\"a\"\"b,\nc\",d\r\n1", b'"', &["a\"b,\nc", "d"], "1"),
            ("\"a\\\"b\\n\",\\d\rx", b'\\', &["a\"b\\n", "\\d"], "x"),
            ("", b'"', &[""], ""),
            ("a,\"b", b'"', &["a", "b"], ""),
        ] {
            let (read, left) = header(text, escape);
            assert_eq!((read.iter().map(String::as_str).collect::<Vec<_>>(), &*left), {
                (values.to_vec(), rest)
            });
        }
    }

    #[test]
    fn a_header_names_the_columns_in_their_order() {
        let columns = ["a", "b"].map(str::to_owned);
        let names = |names: &[&str]| names.iter().map(|it| it.as_bytes().to_vec()).collect();
        let of = |header: Vec<Vec<u8>>| check(&header, &columns).map_err(|error| error.code);
        assert_eq!(of(names(&["a", "b"])), Ok(()));
        for other in [&["b", "a"][..], &["a"], &["a", "b", "c"], &["A", "b"]] {
            assert_eq!(of(names(other)), Err("22P04"), "{other:?}");
        }
    }
}
