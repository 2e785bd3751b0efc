//! Guesses about an input from its first rows, which are reported to the user.

use std::cmp::Reverse;
use std::fmt;

use crate::ingest::text::layout::DateOrder;

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
    /// The first row was taken for data, although it may be names.
    NoHeader(Vec<String>),
    /// The first row is data, so columns have numbers for names; how many there are.
    Unnamed(usize),
    /// The delimiter, if it is not a comma.
    Delimiter(u8),
    /// Backslashes before quotes make them text.
    Escape,
    /// Blanks before fields, also those before quotes, are no part of the fields.
    InitialSpace,
    /// Columns of text of which all values begin with a blank, which is a part of them.
    BlanksBefore(Vec<String>),
    /// Words that stand for null, in these columns.
    Nulls(Vec<&'static str>, Vec<String>),
    /// Columns that are text because day and month cannot be told apart.
    DayOrMonth(Vec<String>),
    /// Columns of dates that would have another order of day and month just as well.
    Order(DateOrder, Vec<String>),
    /// Two words that are false and true, in these columns.
    Booleans([&'static str; 2], Vec<String>),
}

impl fmt::Display for Guess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Guess::Header(names) => write!(
                f,
                "the first row was taken for column names ({}); say --no-header if it is data",
                first_ones(names)
            ),
            Guess::NoHeader(fields) => write!(
                f,
                "the first row was taken for data ({}); say --header if it has the column names",
                first_ones(fields)
            ),
            Guess::Unnamed(1) => f.write_str(
                "there is no header, and the column is called column0; name it with --names NAME",
            ),
            Guess::Unnamed(columns) => write!(
                f,
                "there is no header, and columns are called column0 to column{}; name them with \
                 --names A,B,…",
                columns.saturating_sub(1)
            ),
            Guess::Escape => f.write_str(
                "the first rows have backslashes before quotes, which were taken for text; if they \
                 are none, say --escape none",
            ),
            Guess::InitialSpace => f.write_str(
                "the first rows have quotes after blanks, and blanks before fields were left out; \
                 if they are text, say --skip-initial-space=false",
            ),
            Guess::BlanksBefore(columns) => write!(
                f,
                "all first values of {} begin with a blank, which is a part of them; say \
                 --skip-initial-space to leave it out",
                and_more(columns)
            ),
            Guess::Nulls(words, columns) => {
                let (are, keep) = if words.len() == 1 { ("is", "it") } else { ("are", "them") };
                let options: Vec<String> =
                    words.iter().map(|word| format!("--null {}", in_shell(word))).collect();
                write!(
                    f,
                    "{} {are} null in {}; say {} to have it so in all columns, or --null '' to keep \
                     {keep} as text",
                    words.join(", "),
                    and_more(columns),
                    options.join(" ")
                )
            }
            Guess::DayOrMonth(columns) => write!(
                f,
                "dates in {} may have the day or the month first, and are text; say --date-order \
                 dmy or --date-order mdy",
                and_more(columns)
            ),
            Guess::Order(order, columns) => {
                let (first, other) = match order {
                    DateOrder::DayFirst => ("day", "mdy"),
                    DateOrder::MonthFirst => ("month", "dmy"),
                };
                write!(
                    f,
                    "dates in {} were read with the {first} first; say --date-order {other} if it \
                     is not",
                    and_more(columns)
                )
            }
            Guess::Booleans([no, yes], columns) => write!(
                f,
                "{yes} and {no} were taken for true and false in {}; say --schema {}:utf8 to keep \
                 them as text",
                and_more(columns),
                columns.first().map_or("", String::as_str)
            ),
            Guess::Delimiter(byte) => write!(
                f,
                "there is no comma in the first row, and {:?} was taken for the delimiter; if it \
                 is none, say --delimiter ,",
                char::from(*byte)
            ),
        }
    }
}

/// The first names of a list.
fn first_ones(names: &[String]) -> String {
    let shown: Vec<&str> = names.iter().take(SHOWN).map(String::as_str).collect();
    format!("{}{}", shown.join(", "), if names.len() > SHOWN { ", …" } else { "" })
}

/// The first names of a list, and how many there are besides.
fn and_more(names: &[String]) -> String {
    let shown: Vec<&str> = names.iter().take(SHOWN).map(String::as_str).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// A word as a shell takes it.
pub(super) fn in_shell(word: &str) -> String {
    let is_plain = word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-".contains(&byte));
    if is_plain { word.to_owned() } else { format!("'{word}'") }
}

/// Detects the delimiter from the beginning of a text, or from the `whole` text.
pub(super) fn find_delimiter(text: &[u8], whole: bool, quote: u8, comment: Option<u8>) -> u8 {
    let rows = count_separators(text, whole, quote, comment);
    let Some([0, others @ ..]) = rows.first() else { return COMMA };
    let constant = |at: usize, count: usize| rows.iter().all(|row| row.get(at + 1) == Some(&count));
    let found = OTHERS.iter().zip(others).enumerate();
    let found = found
        .filter(|(at, (byte, count))| **count > 0 && **byte != quote && constant(*at, **count));
    found
        .max_by_key(|(at, (_, count))| (**count, Reverse(*at)))
        .map_or(COMMA, |(_, (byte, _))| *byte)
}

/// Counts each separator outside quotes in the first rows; empty lines and comments do not count as
/// rows.
fn count_separators(text: &[u8], whole: bool, quote: u8, comment: Option<u8>) -> Vec<[usize; 4]> {
    let (mut rows, mut counts, mut blank) = (Vec::new(), [0; 4], true);
    let (mut inside, mut before) = (false, b'\n');
    let mut bytes = text.iter().copied().peekable();
    let mut is_comment = false;
    while let Some(byte) = bytes.next() {
        is_comment =
            byte != b'\n' && (is_comment || !inside && before == b'\n' && Some(byte) == comment);
        if is_comment {
            before = byte;
            continue;
        }
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
            assert_eq!(
                char::from(find_delimiter(text.as_bytes(), true, b'"', None)),
                found,
                "{text:?}"
            );
        }
        assert_eq!(
            find_delimiter(b"a|b|c;d\n", true, b'|', None),
            b';',
            "the quote is no delimiter"
        );
        assert_eq!(
            find_delimiter(b"a;b\nc", false, b'"', None),
            b';',
            "a row that is cut off has no say"
        );
        assert_eq!(find_delimiter(b"a;b", false, b'"', None), b',');
        let comments = b"# a, b\na;b\n#\n1;2\n";
        assert_eq!(find_delimiter(comments, true, b'"', Some(b'#')), b';');
        let long = format!("{}x\n", "a;b\n".repeat(10));
        assert_eq!(
            find_delimiter(long.as_bytes(), true, b'"', None),
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
