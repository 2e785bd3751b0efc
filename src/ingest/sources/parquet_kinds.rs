//! The kinds of the fields in Parquet's footer, page headers and page indexes.
//!
//! The library reads a field that it knows as what the format says, whatever kind the file says it
//! has (parquet 59), and goes on in the middle of another value. There it may meet a list of 2³¹
//! booleans, which it passes over one by one although they have no bytes, in other lists of as
//! many. So a field of a wrong kind is damage, and so is a list of booleans, of which the format
//! has one, or a map with some, of which it has none.

use super::thrift::Kind;
use crate::error::{Error, Result};

/// The fields of a structure, by the path of field numbers that leads to it: a letter for the kind
/// of each field 1, 2, …, a large one for a list of that kind, and `.` for any kind.
type Fields = (&'static [i16], &'static str);

const STATISTICS: &str = "bbiibbooi";
const PAGE: [Fields; 6] = [
    (&[], "iiii{{{{"),
    (&[5], "iiii{"),
    (&[5, 5], STATISTICS),
    (&[7], "iio"),
    (&[8], "iiiiiio{"),
    (&[8, 8], STATISTICS),
];
const FOOTER: [Fields; 24] = [
    (&[], "iSiSSbS{b"),
    (&[2], "iiibiiiii{"),
    (&[2, 10], "{{{{{{{{{{{{{{{{{{"),
    (&[2, 10, 5], "ii"),
    (&[2, 10, 7], "o{"),
    (&[2, 10, 7, 2], "{{{"),
    (&[2, 10, 8], "o{"),
    (&[2, 10, 8, 2], "{{{"),
    (&[2, 10, 10], "yo"),
    (&[2, 10, 16], "y"),
    (&[2, 10, 17], "b"),
    (&[2, 10, 18], "bi"),
    (&[4], "SiiSiii"),
    (&[4, 1], "bi{iiii{b"),
    (&[4, 1, 3], "iIBiiiiSiii{Sii{{"),
    (&[4, 1, 3, 8], "bb"),
    (&[4, 1, 3, 12], STATISTICS),
    (&[4, 1, 3, 13], "iii"),
    (&[4, 1, 3, 16], "iII"),
    (&[4, 1, 3, 17], "{I"),
    (&[4, 1, 3, 17, 1], "dddddddd"),
    (&[4, 4], "ioo"),
    (&[5], "bb"),
    (&[7], "{{"),
];
const COLUMN_INDEX: [Fields; 1] = [(&[], "OBBiIII")];
const OFFSET_INDEX: [Fields; 2] = [(&[], "SI"), (&[1], "iii")];

/// A structure of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Structure {
    PageHeader,
    Footer,
    ColumnIndex,
    OffsetIndex,
}

impl Structure {
    fn fields(self) -> &'static [Fields] {
        match self {
            Structure::PageHeader => &PAGE,
            Structure::Footer => &FOOTER,
            Structure::ColumnIndex => &COLUMN_INDEX,
            Structure::OffsetIndex => &OFFSET_INDEX,
        }
    }

    /// Refuses a field with this path of another kind than it should have.
    pub(super) fn check(self, path: &[i16], kind: Kind) -> Result<()> {
        let expected = path.split_last().and_then(|(field, parent)| {
            let (_, kinds) = self.fields().iter().find(|(path, _)| *path == parent)?;
            kinds.as_bytes().get(usize::try_from(*field).ok()?.checked_sub(1)?).copied()
        });
        let is_right = match expected {
            Some(letter) => letter == b'.' || letter == kind.letter(),
            None => !kind.is_list_of_booleans(),
        };
        if is_right {
            return Ok(());
        }
        Err(Error::corrupt(0, format!("the field {path:?} is {kind}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_their_kinds() {
        let list = |kind| Kind::List(kind);
        let check = |structure: Structure, path: &[i16], kind| structure.check(path, kind).is_ok();
        assert!(check(Structure::PageHeader, &[8], Kind::Value(12)));
        assert!(!check(Structure::PageHeader, &[8], Kind::Value(11)));
        assert!(check(Structure::PageHeader, &[1], Kind::Value(6)));
        assert!(check(Structure::PageHeader, &[9], Kind::Value(11)));
        assert!(!check(Structure::PageHeader, &[9], list(1)));
        assert!(check(Structure::Footer, &[4, 1, 3, 3], list(8)));
        assert!(!check(Structure::Footer, &[4, 1, 3, 3], list(12)));
        assert!(check(Structure::ColumnIndex, &[1], list(2)));
        assert!(!check(Structure::OffsetIndex, &[1], list(2)));
    }
}
