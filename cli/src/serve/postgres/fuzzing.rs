//! What reads the messages of PostgreSQL's clients, their statements and values, for fuzzing.

use std::io::Read as _;

use arrow_schema::{DataType, TimeUnit};

use super::compat::{self, MOST_GROWTH};
use super::copy_binary::BinaryRows;
use super::copy_rows::{TextRows, WithoutEnd};
use super::known::Known;
use super::messages::Inbox;
use super::own::{self, Format, Options};
use super::settings::Settings;
use super::{parameters, tags, words};

/// The messages of a connection; the first byte says where they are cut in two.
pub(crate) fn messages(bytes: &[u8]) {
    let [cut, bytes @ ..] = bytes else { return };
    let (one, two) = bytes.split_at(bytes.len() * usize::from(*cut) / 256);
    for is_first in [true, false] {
        let (mut inbox, mut taken) = (Inbox::default(), 0);
        for part in [one, two] {
            inbox.push(part);
            if is_first {
                let _ = inbox.take_first();
            }
            while let Ok(Some(_)) = inbox.take(true) {
                taken += 1;
            }
            let _ = inbox.take(false);
        }
        assert!(taken * 5 + inbox.len() <= bytes.len());
    }
}

/// Statements of a query.
pub(crate) fn statements(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let end = words::tokens(&text).iter().fold(0, |end, token| {
        assert_eq!(token.range.start, end);
        assert!(token.range.end > end && text.is_char_boundary(token.range.end));
        token.range.end
    });
    assert_eq!(end, text.len());
    let settings = Settings::default();
    let known = Known { user: "an'na", database: "db", number: 7, settings: &settings };
    for sql in words::statements(&text).into_iter().take(100) {
        let _ = own::read(sql);
        let _ = (tags::of_change(sql, Some(1)), tags::may_write(sql));
        let _ = tags::is_about_connection(sql);
        let rewritten = compat::rewritten(sql, &known);
        assert!(rewritten.len() <= 32 * sql.len() + MOST_GROWTH + 10_000);
    }
}

/// The rows of a COPY: the first byte says in which form, and of how many columns.
pub(crate) fn copy(bytes: &[u8]) {
    let [kind, rows @ ..] = bytes else { return };
    let columns = usize::from(kind / 4) % 4 + 1;
    let options = Options {
        format: Format::Text,
        delimiter: if kind & 0x80 == 0 { b'\t' } else { b'|' },
        null: "\\N".to_owned(),
        has_header: kind & 0x40 != 0,
        matches_header: false,
        quote: b'"',
        escape: b'"',
        quotes_all: false,
    };
    match kind % 3 {
        0 => {
            let mut read = TextRows::new(rows, &options, columns);
            while let Ok(Some(batch)) = read.next_batch() {
                assert!(batch.num_rows() > 0 && batch.num_columns() == columns);
            }
        }
        1 => {
            let mut rest = Vec::new();
            let read = WithoutEnd::of(rows).read_to_end(&mut rest);
            assert!(read.is_ok() && rows.starts_with(&rest));
        }
        _ => {
            let types = [
                DataType::Int64,
                DataType::Utf8View,
                DataType::Decimal128(20, 4),
                DataType::Timestamp(TimeUnit::Microsecond, None),
            ];
            let types = types.get(..columns).unwrap_or_default();
            let mut read = BinaryRows::new(rows, types);
            while let Ok(Some(batch)) = read.next_batch() {
                assert!(batch.num_rows() > 0 && batch.num_columns() == columns);
            }
        }
    }
}

/// The value of a parameter, behind the number of its type, and its form.
pub(crate) fn value(bytes: &[u8]) {
    let [high, low, format, value @ ..] = bytes else { return };
    let oid = u32::from(u16::from_be_bytes([*high, *low]));
    let Ok(target) = parameters::arrow_type(oid) else { return };
    let targets = [target.clone(), Some(DataType::Int32), Some(DataType::Decimal128(10, 2))];
    for target in &targets {
        if let Ok(read) = parameters::read(oid, target.as_ref(), i16::from(format & 1), Some(value))
        {
            assert_eq!(read.len(), 1);
        }
    }
}
