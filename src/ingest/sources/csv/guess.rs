//! Guesses about an input from its first rows, which are reported to the user.

use std::cmp::Reverse;
use std::fmt;

/// The default delimiter.
pub(super) const COMMA: u8 = b',';
/// Other delimiters, most likely first.
const OTHERS: [u8; 3] = [b';', b'\t', b'|'];
/// All possible delimiters.
pub(super) const SEPARATORS: [u8; 4] = [COMMA, b';', b'\t', b'|'];
/// How many rows decide the delimiter.
const ROWS: usize = 10;
/// How many names a message shows.
const SHOWN: usize = 5;

/// An assumption about an input that the input does not prove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guess {
    /// The first row was taken for these names because they look like names, although no column
    /// below has another type.
    Header(Vec<String>),
    /// The delimiter, if it is not a comma.
    Delimiter(u8),
}

impl fmt::Display for Guess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Guess::Header(names) => {
                let shown: Vec<&str> = names.iter().take(SHOWN).map(String::as_str).collect();
                let more = if names.len() > SHOWN { ", …" } else { "" };
                write!(
                    f,
                    "the first row was taken for column names ({}{more}); say --no-header if it is \
                     data",
                    shown.join(", ")
                )
            }
            Guess::Delimiter(byte) => write!(
                f,
                "there is no comma in the first row, and {:?} was taken for the delimiter; if it \
                 is none, say --delimiter ,",
                char::from(*byte)
            ),
        }
    }
}

/// Detects the delimiter from the beginning of a text, or from the `whole` text.
pub(super) fn find_delimiter(text: &[u8], whole: bool, quote: u8) -> u8 {
    let rows = count_separators(text, whole, quote);
    let Some([0, others @ ..]) = rows.first() else { return COMMA };
    let constant = |at: usize, count: usize| rows.iter().all(|row| row.get(at + 1) == Some(&count));
    let found = OTHERS.iter().zip(others).enumerate();
    let found = found
        .filter(|(at, (byte, count))| **count > 0 && **byte != quote && constant(*at, **count));
    found
        .max_by_key(|(at, (_, count))| (**count, Reverse(*at)))
        .map_or(COMMA, |(_, (byte, _))| *byte)
}

/// Counts each separator outside quotes in the first rows; empty lines do not count as rows.
fn count_separators(text: &[u8], whole: bool, quote: u8) -> Vec<[usize; 4]> {
    let (mut rows, mut counts, mut blank) = (Vec::new(), [0; 4], true);
    let (mut inside, mut before) = (false, b'\n');
    let mut bytes = text.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if inside {
            // A doubled quote is text.
            inside = byte != quote || bytes.next_if_eq(&quote).is_some();
        } else if byte == b'\n' {
            if !blank {
                rows.push(counts);
            }
            if rows.len() == ROWS {
                return rows;
            }
            (counts, blank) = ([0; 4], true);
        } else {
            inside = byte == quote && (before == b'\n' || SEPARATORS.contains(&before));
            blank &= byte == b'\r';
            for (count, separator) in counts.iter_mut().zip(SEPARATORS) {
                *count += usize::from(byte == separator);
            }
        }
        before = byte;
    }
    if whole && !blank {
        rows.push(counts);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delimiters() {
        for (text, found) in [
            ("", ','),
            ("name\nx\n", ','),
            ("a,b;c\n1,2;3\n", ','),
            ("a;b\n1,5;2,5\n", ';'),
            ("\n\r\na;b\r\n1;2", ';'),
            ("a\tb\tc;d\n1\t2\t3;4\n", '\t'),
            ("a|b\n", '|'),
            ("a|b;c\nd|e\n", '|'),
            ("a;b\nc\n", ','),
            ("a;b|c\n", ';'),
            ("\"a,b\";\"c,\"\"d\"\nx;y\n", ';'),
            ("\"a;b\"\n\"c;d\"\n", ','),
            ("5\" pipe;a\nb;c\n", ';'),
        ] {
            assert_eq!(char::from(find_delimiter(text.as_bytes(), true, b'"')), found, "{text:?}");
        }
        assert_eq!(find_delimiter(b"a|b|c;d\n", true, b'|'), b';', "the quote is no delimiter");
        assert_eq!(
            find_delimiter(b"a;b\nc", false, b'"'),
            b';',
            "a row that is cut off has no say"
        );
        assert_eq!(find_delimiter(b"a;b", false, b'"'), b',');
        let long = format!("{}x\n", "a;b\n".repeat(10));
        assert_eq!(
            find_delimiter(long.as_bytes(), true, b'"'),
            b';',
            "only the first rows have a say"
        );
    }

    #[test]
    fn messages() {
        let header = Guess::Header(["a", "b", "c", "d", "e", "f"].map(String::from).to_vec());
        assert_eq!(
            header.to_string(),
            "the first row was taken for column names (a, b, c, d, e, …); say --no-header if it is \
             data"
        );
        assert!(Guess::Delimiter(b'\t').to_string().contains("'\\t' was taken for the delimiter"));
    }
}
