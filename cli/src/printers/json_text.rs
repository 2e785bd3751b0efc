//! JSON strings.

use super::scan::first_that;

/// Appends `text` as a JSON string, and escapes only what must be escaped.
pub(super) fn string(text: &str, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut rest = text.as_bytes();
    out.push(b'"');
    while let Some(at) = first_that(rest, |byte| byte < 0x20 || byte == b'"' || byte == b'\\') {
        let (plain, escaped) = rest.split_at(at);
        out.extend_from_slice(plain);
        match escaped[0] {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            byte => {
                let digits = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&digits);
            }
        }
        rest = &escaped[1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    #[test]
    fn any_text_reads_back() {
        let all: String =
            (0..0x300).filter_map(char::from_u32).chain("\u{1f600}\u{ffff}".chars()).collect();
        let mut out = Vec::new();
        super::string(&all, &mut out);
        assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), all);
    }
}
