//! Texts between quotes and behind backslashes.

use crate::printers::scan::first_that;

/// Appends a text with backslashes before what would end a field, a line or a literal.
pub(super) fn backslashes(text: &[u8], out: &mut Vec<u8>) {
    let needs = |byte| matches!(byte, 0 | 8 | b'\t' | b'\n' | 12 | b'\r' | b'\'' | b'\\');
    let mut rest = text;
    while let Some(at) = first_that(rest, needs) {
        let (plain, escaped) = rest.split_at(at);
        out.extend_from_slice(plain);
        out.push(b'\\');
        out.push(match escaped[0] {
            0 => b'0',
            8 => b'b',
            b'\t' => b't',
            b'\n' => b'n',
            12 => b'f',
            b'\r' => b'r',
            other => other,
        });
        rest = &escaped[1..];
    }
    out.extend_from_slice(rest);
}

/// Appends a text as a literal of SQL.
pub(super) fn quoted(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'\'');
    backslashes(text, out);
    out.push(b'\'');
}

/// Appends a text as a field of CSV, always in quotes.
pub(super) fn csv(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for part in text.split_inclusive(|byte| *byte == b'"') {
        out.extend_from_slice(part);
        if part.last() == Some(&b'"') {
            out.push(b'"');
        }
    }
    out.push(b'"');
}

/// Appends a text as a string of JSON. Besides what must be escaped, `/` is, and the two line
/// separators that JavaScript once could not read.
pub(super) fn json(text: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let needs = |byte| byte < 0x20 || matches!(byte, b'"' | b'\\' | b'/' | 0xE2);
    let mut rest = text;
    out.push(b'"');
    while let Some(at) = first_that(rest, needs) {
        let (plain, escaped) = rest.split_at(at);
        out.extend_from_slice(plain);
        let mut taken = 1;
        match escaped[0] {
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            8 => out.extend_from_slice(b"\\b"),
            12 => out.extend_from_slice(b"\\f"),
            byte @ (b'"' | b'\\' | b'/') => out.extend_from_slice(&[b'\\', byte]),
            0xE2 => match escaped.get(1..3) {
                Some([0x80, last @ (0xA8 | 0xA9)]) => {
                    out.extend_from_slice(if *last == 0xA8 { b"\\u2028" } else { b"\\u2029" });
                    taken = 3;
                }
                _ => out.push(0xE2),
            },
            byte => {
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
        }
        rest = &escaped[taken..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(write: impl Fn(&[u8], &mut Vec<u8>), text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        write(text, &mut out);
        out
    }

    /// Bytes of all kinds, as ClickHouse 26.9 writes them.
    #[test]
    fn bytes_are_escaped_as_clickhouse_does() {
        let bytes = b"\x00\x01\x07\x08\t\n\x0b\x0c\r\x1b '\\\"/\x7f\x80\xff\xe2\x80\xa8\xe2\x80";
        assert_eq!(
            shown(backslashes, bytes),
            b"\\0\x01\x07\\b\\t\\n\x0b\\f\\r\x1b \\'\\\\\"/\x7f\x80\xff\xe2\x80\xa8\xe2\x80"
        );
        assert_eq!(
            shown(json, bytes),
            b"\"\\u0000\\u0001\\u0007\\b\\t\\n\\u000B\\f\\r\\u001B '\\\\\\\"\\/\x7f\x80\xff\\u2028\xe2\x80\""
        );
        assert_eq!(shown(csv, b"a\"b\n"), b"\"a\"\"b\n\"");
        assert_eq!(shown(quoted, b"it's"), b"'it\\'s'");
    }

    #[test]
    fn any_text_reads_back_from_json() {
        let all: String = (0..0x2100).filter_map(char::from_u32).collect();
        assert_eq!(serde_json::from_slice::<String>(&shown(json, all.as_bytes())).unwrap(), all);
    }
}
