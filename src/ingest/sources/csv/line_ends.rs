//! Handles rows that end with a bare carriage return, as old spreadsheets write them: it is
//! replaced by a line feed before anything else reads the text, byte for byte, so that positions
//! stay the same.
//!
//! An input is of this kind if its beginning has carriage returns but no line feeds outside quotes.

use super::guess::SEPARATORS;

/// How the rows of an input end.
#[derive(Debug)]
pub(super) enum LineEnds {
    /// With a line feed; a carriage return before it is handled later.
    LineFeed,
    /// With a carriage return.
    CarriageReturn(QuoteTracker),
}

/// Tracks whether text is quoted, byte by byte.
#[derive(Debug)]
pub(super) struct QuoteTracker {
    delimiter: Option<u8>,
    quote: u8,
    /// The previous byte.
    before: u8,
    inside: bool,
    /// Whether the previous byte closed a field, unless this one makes it a doubled quote.
    closed: bool,
}

impl LineEnds {
    /// Detects the line ends of an input from its beginning. Returns `None` if the text does not
    /// tell, there is `more` input, and the text is not yet `enough` to decide anyway.
    pub(super) fn find(
        text: &[u8],
        more: bool,
        enough: bool,
        delimiter: Option<u8>,
        quote: u8,
    ) -> Option<Self> {
        let start =
            || QuoteTracker { delimiter, quote, before: b'\n', inside: false, closed: false };
        let (mut quotes, mut returns) = (start(), false);
        for (at, byte) in text.iter().enumerate() {
            let is_plain = quotes.pass(*byte);
            if is_plain && *byte == b'\n' {
                return Some(LineEnds::LineFeed);
            }
            // The line feed of the last one may be in the next piece of input.
            returns |= is_plain && *byte == b'\r' && (!more || at + 1 < text.len());
        }
        match (more && !enough, returns) {
            (true, _) => None,
            (false, true) => Some(LineEnds::CarriageReturn(start())),
            (false, false) => Some(LineEnds::LineFeed),
        }
    }

    /// Replaces the carriage returns that end rows in the next piece of text; returns false if
    /// there are line feeds too.
    pub(super) fn make_line_feeds(&mut self, text: &mut [u8]) -> bool {
        let LineEnds::CarriageReturn(quotes) = self else { return true };
        for byte in text {
            match (quotes.pass(*byte), *byte) {
                (true, b'\n') => return false,
                (true, b'\r') => *byte = b'\n',
                _ => {}
            }
        }
        true
    }
}

impl QuoteTracker {
    /// Takes the next byte; returns true if it is outside quotes and not a quote itself.
    fn pass(&mut self, byte: u8) -> bool {
        let outside = !self.inside;
        let is_quote = byte == self.quote;
        let opens = is_quote && outside && (self.closed || self.at_start());
        self.closed = is_quote && self.inside;
        self.inside = if is_quote { opens } else { self.inside };
        self.before = byte;
        outside && !is_quote
    }

    /// Whether a field starts here.
    fn at_start(&self) -> bool {
        let delimits =
            |byte| self.delimiter.map_or(SEPARATORS.contains(&byte), |delimiter| byte == delimiter);
        matches!(self.before, b'\n' | b'\r') || delimits(self.before)
    }
}
