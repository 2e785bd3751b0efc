//! What reads the statements and the heads of requests, for fuzzing.

use std::collections::HashMap;
use std::io::Read as _;

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Uri};

use super::encoding::Encoding;
use super::json_envelope::RowsOf;
use super::json_rows::{Heading, ObjectsOf, Wrong};
use super::{dialect, request, statement, words};

/// A statement, behind a byte that says whether it is cut.
pub(crate) fn statement(bytes: &[u8]) {
    let [cut, text @ ..] = bytes else { return };
    let (text, is_cut) = (String::from_utf8_lossy(text), cut & 1 == 1);
    let tokens = words::tokens(&text, is_cut);
    let end = tokens.iter().fold(0, |end, token| {
        assert_eq!(token.range.start, end);
        assert!(token.range.end > end && text.is_char_boundary(token.range.end));
        token.range.end
    });
    // Rows behind an INSERT are no words.
    let inserts = tokens.iter().any(|it| text[it.range.clone()].eq_ignore_ascii_case("insert"));
    assert!(end == text.len() || inserts);
    let values = [("a", "1"), ("b", "it's \\ \"so\""), ("t", "trips"), ("n", "\\N")];
    let values: HashMap<String, String> =
        values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let Ok(rewritten) = dialect::rewrite(&text) else { return };
    assert!(rewritten.len() <= 4 * text.len() + 1000);
    for text in [&*text, &*rewritten] {
        if let Ok(read) = statement::read(text, &values, is_cut) {
            assert!(read.rows_from.is_none_or(|from| from <= text.len()));
            assert!(read.sql.len() <= 8 * text.len() + 1000);
        }
    }
}

/// The head of a request: its URL, and lines of headers.
pub(crate) fn request(bytes: &[u8]) {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let url = lines.next().and_then(|line| std::str::from_utf8(line).ok());
    let Some(Ok(url)) = url.map(str::parse::<Uri>) else { return };
    let mut headers = HeaderMap::new();
    for line in lines.take(100) {
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let name = parts.next().and_then(|name| HeaderName::from_bytes(name).ok());
        let value = parts.next().and_then(|value| HeaderValue::from_bytes(value).ok());
        if let (Some(name), Some(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    let _ = request::read(&Method::POST, &url, &headers);
}

/// The body of a request, behind a byte that says how it is compressed.
pub(crate) fn encoded(bytes: &[u8]) {
    let [kind, body @ ..] = bytes else { return };
    let all = [Encoding::Gzip, Encoding::Deflate, Encoding::Zstd, Encoding::Lz4];
    if let Ok(decoded) = all[usize::from(*kind) % all.len()].decode(body) {
        let _ = decoded.take(16 << 20).read_to_end(&mut Vec::new());
    }
}

/// Rows of JSON that are arrays, alone and in an answer, behind a byte that says what their heading
/// is.
pub(crate) fn json_rows(bytes: &[u8]) {
    let [heading, body @ ..] = bytes else { return };
    let heading = match heading % 3 {
        0 => Heading::None,
        1 => Heading::Names,
        _ => Heading::NamesAndTypes,
    };
    let names = ["id".to_owned(), "na\"me".to_owned()];
    let mut objects = ObjectsOf::new(body, &names, heading, Wrong::default());
    let mut out = Vec::new();
    let _ = objects.read_to_end(&mut out);
    let rows = RowsOf::new(body, heading == Heading::None, Wrong::default());
    let mut objects = ObjectsOf::new(rows, &names, heading, Wrong::default());
    let _ = objects.read_to_end(&mut out);
}
