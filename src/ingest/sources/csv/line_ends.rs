//! Rows that end with a carriage return alone, as old spreadsheets write them: they get a line feed
//! in its place before anything else looks at the text, byte for byte, so that all places stay what
//! they are.
//!
//! An input is of that kind if its beginning has carriage returns and no line feed outside quotes.

use super::guess::SEPARATORS;

/// How the rows of an input end.
#[derive(Debug)]
pub(super) enum LineEnds {
    /// With a line feed; carriage returns in front of it are seen to later.
    LineFeed,
    /// With a carriage return.
    CarriageReturn(QuoteTracker),
}

/// A walk through text that knows what is quoted.
#[derive(Debug)]
pub(super) struct QuoteTracker {
    delimiter: Option<u8>,
    quote: u8,
    /// The byte before.
    before: u8,
    inside: bool,
    /// Whether the byte before closed a field, unless this one is the second of a pair.
    closed: bool,
}

impl LineEnds {
    /// Finds how the rows of an input end, from the `text` that it begins with. Returns `None` if
    /// there is `more` input, the text does not tell, and it is not `enough` to decide without.
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
            // The last one may have its line feed in what is to come.
            returns |= is_plain && *byte == b'\r' && (!more || at + 1 < text.len());
        }
        match (more && !enough, returns) {
            (true, _) => None,
            (false, true) => Some(LineEnds::CarriageReturn(start())),
            (false, false) => Some(LineEnds::LineFeed),
        }
    }

    /// Makes line feeds of the carriage returns that end rows in the next piece of text; false if
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
    /// Takes the next byte; true if it is outside quotes, and no quote.
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
