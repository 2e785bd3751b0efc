//! Characters and encodings of text files.

use stylobate::{CsvOptions, TextEncoding};

pub(crate) fn parse_byte(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        _ if text.eq_ignore_ascii_case("tab") || text == "\\t" => Ok(b'\t'),
        [byte] if !matches!(byte, b'\n' | b'\r') => Ok(*byte),
        _ => Err("one ASCII character is needed; `tab` for a tab".to_owned()),
    }
}

pub(crate) fn parse_quote(text: &str) -> Result<u8, String> {
    match text {
        "none" => Ok(CsvOptions::NO_QUOTE),
        text => parse_byte(text).map_err(|error| format!("{error}; `none` for no quotes")),
    }
}

pub(crate) fn parse_escape(text: &str) -> Result<u8, String> {
    match text {
        "none" => Ok(CsvOptions::NO_ESCAPE),
        text => parse_byte(text).map_err(|error| format!("{error}; `none` for no escapes")),
    }
}

/// Parses any of the names of an encoding.
pub(crate) fn parse_encoding(text: &str) -> Result<TextEncoding, String> {
    text.parse().map_err(|error: stylobate::Error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delimiters() {
        assert_eq!(parse_byte("tab"), Ok(b'\t'));
        assert_eq!(parse_byte("\\t"), Ok(b'\t'));
        assert_eq!(parse_byte("|"), Ok(b'|'));
        for bad in ["", "ab", "é", "\n"] {
            assert!(parse_byte(bad).is_err(), "{bad}");
        }
        assert_eq!((parse_quote("none"), parse_quote("'")), (Ok(CsvOptions::NO_QUOTE), Ok(b'\'')));
    }
}
