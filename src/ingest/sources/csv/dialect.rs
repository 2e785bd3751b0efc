//! Other dialects of CSV: comment lines, backslashes before quotes, and blanks before fields. Their
//! text is rewritten to the grammar of [`super`] before anything else reads it, so that whoever
//! splits text knows one grammar. Where there is nothing to rewrite, nothing is done.
//!
//! A comment line is left out with its line end; who counts lines asks where
//! ([`Rewriter::left_out`]). In quoted fields, `\"` becomes a doubled quote and `\\` a backslash; a backslash before anything
//! else is text. Blanks before a field and after a closing quote are left out.
//!
//! **Guesses.** A dialect is taken for granted only if the first rows cannot be split as they are,
//! or have quotes after blanks, and all of them can be split in it, into equally many fields.
//!
//! Where bad rows are left out, a stray quote hides the comment lines up to the next quote: they
//! are rows then.

use memchr::memmem;

use super::options::{CsvOptions, is_usable};
use super::rows::Rows;
use super::split::Fault;

/// What is looked at for a guess.
const SAMPLE_BYTES: usize = 256 << 10;

/// How text differs from the grammar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Dialect {
    /// Starts a comment line.
    pub(super) comment: Option<u8>,
    /// Makes the quote after it text.
    pub(super) escape: Option<u8>,
    /// Whether blanks before fields are left out.
    pub(super) skip_space: bool,
}

/// Rewrites text, piece by piece.
#[derive(Debug)]
pub(super) struct Rewriter {
    dialect: Dialect,
    delimiter: u8,
    quote: u8,
    state: State,
    /// Positions in the text before which comment lines have been left out, each with their number
    /// up to there.
    left_out: Vec<(usize, u64)>,
    /// Whether a quote has opened a field after a blank.
    quote_after_blank: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// At the start of a line, outside of quotes.
    Line,
    Comment,
    /// At the start of a field.
    Field,
    /// After blanks at the start of a field.
    Blanks,
    Plain,
    Quoted,
    /// After an escape in a quoted field.
    Escaped,
    /// After a quote in a quoted field.
    Quote,
    /// After blanks behind such a quote.
    QuoteBlanks,
}

impl Rewriter {
    pub(super) fn new(dialect: Dialect, delimiter: u8, quote: u8) -> Self {
        let (state, left_out, quote_after_blank) = (State::Line, Vec::new(), false);
        Rewriter { dialect, delimiter, quote, state, left_out, quote_after_blank }
    }

    /// Rewrites the text from `from` on, which continues what was rewritten before.
    pub(super) fn rewrite(&mut self, text: &mut Vec<u8>, from: usize) {
        let mut to = from;
        let mut begin = from;
        if self.state == State::Escaped {
            // The place of the escape that the piece before ended with.
            text.insert(from, b'\\');
            begin += 1;
        }
        for at in begin..text.len() {
            let Some(byte) = text.get(at).copied() else { break };
            let (first, second) = self.step(byte, to);
            for byte in [first, second].into_iter().flatten() {
                // There are never more bytes than have been read.
                if let Some(place) = text.get_mut(to) {
                    *place = byte;
                }
                to += 1;
            }
        }
        text.truncate(to);
    }

    /// Takes a byte, and returns what stands in its place.
    fn step(&mut self, byte: u8, to: usize) -> (Option<u8>, Option<u8>) {
        let Dialect { comment, escape, skip_space } = self.dialect;
        let is_blank = skip_space && byte == b' ' && self.delimiter != b' ';
        let state = match self.state {
            State::Comment if byte == b'\n' => {
                let lines = self.left_out.last().map_or(0, |(_, lines)| *lines) + 1;
                match self.left_out.last_mut() {
                    Some((place, known)) if *place == to => *known = lines,
                    _ => self.left_out.push((to, lines)),
                }
                self.state = State::Line;
                return (None, None);
            }
            State::Comment => return (None, None),
            State::Line if Some(byte) == comment => {
                self.state = State::Comment;
                return (None, None);
            }
            State::Line | State::Field | State::Blanks if is_blank => {
                self.state = State::Blanks;
                return (None, None);
            }
            before @ (State::Line | State::Field | State::Blanks) if byte == self.quote => {
                self.quote_after_blank |= before == State::Blanks;
                State::Quoted
            }
            State::Quoted if Some(byte) == escape => {
                self.state = State::Escaped;
                return (None, None);
            }
            State::Quoted if byte == self.quote => State::Quote,
            State::Quoted => State::Quoted,
            State::Escaped => {
                self.state = State::Quoted;
                return match byte {
                    byte if byte == self.quote => (Some(byte), Some(byte)),
                    byte if Some(byte) == escape => (Some(byte), None),
                    byte => (escape, Some(byte)),
                };
            }
            State::Quote if byte == self.quote => State::Quoted,
            State::Quote | State::QuoteBlanks if is_blank => {
                self.state = State::QuoteBlanks;
                return (None, None);
            }
            // Text after a closing quote, which the blank keeps apart from it.
            State::QuoteBlanks if byte != self.delimiter && byte != b'\n' && byte != b'\r' => {
                self.state = State::Plain;
                return (Some(b' '), Some(byte));
            }
            _ if byte == self.delimiter => State::Field,
            _ if byte == b'\n' => State::Line,
            _ => State::Plain,
        };
        self.state = state;
        (Some(byte), None)
    }

    /// Where comment lines were left out of the first `length` bytes; what is behind them keeps its
    /// own places, from the new start of the text.
    pub(super) fn left_out(&mut self, length: usize) -> Vec<(usize, u64)> {
        let count = self.left_out.partition_point(|(at, _)| *at < length);
        let rest = self.left_out.split_off(count);
        let before = self.left_out.last().map_or(0, |(_, lines)| *lines);
        let rest = rest.into_iter().map(|(at, lines)| (at - length, lines - before));
        std::mem::replace(&mut self.left_out, rest.collect())
    }
}

impl Dialect {
    pub(super) fn is_plain(self) -> bool {
        self == Dialect::default()
    }

    /// The dialect that the options name.
    pub(super) fn of(options: &CsvOptions) -> Self {
        Dialect {
            comment: options.comment,
            // A quote is escaped by another one anyway.
            escape: options
                .escape
                .filter(|escape| *escape != CsvOptions::NO_ESCAPE && *escape != options.quote),
            skip_space: options.skip_initial_space == Some(true),
        }
    }

    /// Adds to the dialect what the options leave open, by the first rows of a text, or of the
    /// `whole` text.
    pub(super) fn guess(
        self,
        options: &CsvOptions,
        text: &[u8],
        whole: bool,
        delimiter: u8,
    ) -> Self {
        let quote = options.quote;
        let whole = whole && text.len() <= SAMPLE_BYTES;
        let text = text.get(..SAMPLE_BYTES).unwrap_or(text);
        let has = |pair: [u8; 2]| memmem::find(text, &pair).is_some();
        let may_escape = options.escape.is_none() && quote != b'\\' && has([b'\\', quote]);
        let may_skip = options.skip_initial_space.is_none() && has([b' ', quote]);
        if quote == CsvOptions::NO_QUOTE || !(may_escape || may_skip) {
            return self;
        }
        let try_as = |dialect: Dialect| {
            let mut rewriter = Rewriter::new(dialect, delimiter, quote);
            let mut rewritten = text.to_vec();
            rewriter.rewrite(&mut rewritten, 0);
            (is_regular(&rewritten, whole, delimiter, quote), rewriter.quote_after_blank)
        };
        let (is_plain, _) = try_as(self);
        let escaped = Dialect { escape: Some(b'\\'), ..self };
        if may_escape && !is_plain && try_as(escaped).0 {
            return escaped;
        }
        let skipping = Dialect { skip_space: true, ..self };
        if may_skip && try_as(skipping) == (true, true) {
            return skipping;
        }
        let both = Dialect { skip_space: true, ..escaped };
        if may_escape && may_skip && !is_plain && try_as(both) == (true, true) {
            return both;
        }
        self
    }
}

/// Whether all rows can be split, into equally many fields; a last row that is cut off has no say.
fn is_regular(text: &[u8], whole: bool, delimiter: u8, quote: u8) -> bool {
    let last = memchr::memrchr(b'\n', text).map_or(0, |at| at + 1);
    let text = if whole { text } else { text.get(..last).unwrap_or_default() };
    let mut common = None;
    // No row has so many fields, so each has a fault that says how many it has.
    for row in Rows::new(text, 0, usize::MAX, delimiter, quote) {
        match row.fault {
            Some(Fault::Fields { found, .. }) if *common.get_or_insert(found) == found => {}
            Some(Fault::Unterminated { .. }) if !whole => break,
            _ => return false,
        }
    }
    common.is_some()
}

/// The delimiter that a first line names, `sep=;` as Excel writes it, and the line's length;
/// within, `None` if the text is too short to tell.
pub(super) fn named_delimiter(text: &[u8], quote: u8) -> Option<Option<(u8, usize)>> {
    let start = text.get(..4).unwrap_or(text);
    if !b"sep=".get(..start.len())?.eq_ignore_ascii_case(start) {
        return None;
    }
    let usable = |byte: &u8| is_usable(*byte) && *byte != quote;
    if text.get(4).is_some_and(|delimiter| !usable(delimiter)) {
        return None;
    }
    match text.get(4..) {
        Some([delimiter, b'\n', ..]) => Some(Some((*delimiter, 6))),
        Some([delimiter, b'\r', b'\n', ..]) => Some(Some((*delimiter, 7))),
        None | Some([] | [_] | [_, b'\r']) => Some(None),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(dialect: Dialect, text: &str) -> (String, Vec<usize>) {
        let whole = rewritten_by(dialect, text, usize::MAX);
        for size in [1, 2, 3, 5] {
            assert_eq!(rewritten_by(dialect, text, size), whole, "{text:?} by {size}");
        }
        whole
    }

    fn rewritten_by(dialect: Dialect, text: &str, size: usize) -> (String, Vec<usize>) {
        let mut rewriter = Rewriter::new(dialect, b',', b'"');
        let mut out = Vec::new();
        for piece in text.as_bytes().chunks(size.min(1 << 20)) {
            let from = out.len();
            out.extend_from_slice(piece);
            rewriter.rewrite(&mut out, from);
        }
        let mut places = Vec::new();
        for (place, lines) in rewriter.left_out(usize::MAX) {
            places.resize(lines as usize, place);
        }
        (String::from_utf8(out).unwrap(), places)
    }

    #[test]
    fn comments() {
        let dialect = Dialect { comment: Some(b'#'), ..Dialect::default() };
        for (text, expected, left_out) in [
            ("# x\na,b\n#\n#,\"\n1,#2\n", "a,b\n1,#2\n", &[0, 4, 4][..]),
            ("a,\"b\n# no\n\"\n# yes\n", "a,\"b\n# no\n\"\n", &[12]),
            ("a\r\n#b\r\nc\r\n", "a\r\nc\r\n", &[3]),
            ("a\n #b\n# last", "a\n #b\n", &[]),
        ] {
            assert_eq!(
                rewritten(dialect, text),
                (expected.to_owned(), left_out.to_vec()),
                "{text:?}"
            );
        }
    }

    #[test]
    fn escapes_and_blanks() {
        let escape = Dialect { escape: Some(b'\\'), ..Dialect::default() };
        let space = Dialect { skip_space: true, ..Dialect::default() };
        for (dialect, text, expected) in [
            (escape, r#""a \"b\"",\"c"#, r#""a ""b""",\"c"#),
            (escape, r#""C:\dir\\","""\n""#, r#""C:\dir\","""\n""#),
            (space, "a,  \"b, c\" , d e\n  f", "a,\"b, c\",d e\nf"),
            (space, "\" a\", b c ,\" \"\"d\"", "\" a\",b c ,\" \"\"d\""),
        ] {
            assert_eq!(rewritten(dialect, text).0, expected, "{text}");
        }
    }

    #[test]
    fn guesses_leave_one_reading() {
        let guess = |text: &str| {
            let dialect =
                Dialect::default().guess(&CsvOptions::default(), text.as_bytes(), true, b',');
            (dialect.escape.is_some(), dialect.skip_space)
        };
        for (text, found) in [
            ("a,b\n\"x \\\"y\\\" z\",1\n", (true, false)),
            ("a,b\n\"x\\\", y\",1\n", (true, false)),
            ("a,b\nx, \"b, c\"\n", (false, true)),
            ("a,b\nx, \"b\"\n", (false, true)),
            ("a, b\nx, \"b \\\"c\\\", d\"\n", (true, true)),
            // As they are.
            ("a,b\n\"C:\\\",1\n", (false, false)),
            ("a,b\n\"x\"\"\\\"\"\",1\n", (false, false)),
            ("a,b\nx,b \"c\"\n", (false, false)),
            ("a,b\n\"b \"\"c\"\"\",1\n", (false, false)),
            // No reading is better.
            ("a,b\n\"x\\\"y\",1,2\n", (false, false)),
            ("a,b\nx, \"b\" c\n", (false, false)),
            ("a,b\nx, \"b\", c\n", (false, false)),
        ] {
            assert_eq!(guess(text), found, "{text}");
        }
        let told = CsvOptions {
            escape: Some(CsvOptions::NO_ESCAPE),
            skip_initial_space: Some(false),
            ..CsvOptions::default()
        };
        let text = b"a,b\n\"x \\\"y\\\" z\",1\nx, \"b\"\n";
        assert!(Dialect::default().guess(&told, text, true, b',').is_plain());
    }
}
