//! The items of an array that is a text by itself, as SQL casts it to a list.

use super::value::{Cursor, Kind, unescape};

/// The items of a JSON array as texts: strings without quotes and escapes, other values as they are
/// spelled; `None` if the text is no JSON array.
pub(crate) fn items(text: &str) -> Option<Vec<Option<String>>> {
    let mut cursor = Cursor::new(text.as_bytes(), 0, false);
    cursor.skip_blanks();
    cursor.expect(b'[', "an array").ok()?;
    cursor.skip_blanks();
    let mut items = Vec::new();
    if cursor.peek() == Some(b']') {
        cursor.at += 1;
    } else {
        loop {
            let value = cursor.value().ok()?;
            let raw = text.get(value.start..value.end)?;
            items.push(match value.kind {
                Kind::Null => None,
                _ if value.escaped => {
                    let mut plain = Vec::with_capacity(raw.len());
                    unescape(raw.as_bytes(), &mut plain);
                    Some(String::from_utf8(plain).ok()?)
                }
                _ => Some(raw.to_owned()),
            });
            cursor.skip_blanks();
            let next = cursor.peek()?;
            cursor.at += 1;
            match next {
                b',' => cursor.skip_blanks(),
                b']' => break,
                _ => return None,
            }
        }
    }
    cursor.skip_blanks();
    cursor.peek().is_none().then_some(items)
}
