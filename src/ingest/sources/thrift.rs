//! A walk over a structure in Thrift's compact protocol, in which Parquet writes its footer, page
//! headers and page indexes. It tells fields apart by the path of field numbers that leads to
//! them, and allocates nothing.
//!
//! A structure that was walked to its end has as many items in every list, and as many bytes in
//! every text, as it says.

use std::fmt;

use crate::bytes::Cursor;
use crate::error::Result;

/// How deep structures and lists may nest: Parquet's own nest less than ten deep.
const MAX_DEPTH: usize = 32;

/// What is met on the way. The paths are field numbers; an item of a list has the path of its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Met {
    /// A field, or a list that is not empty.
    Field(Kind),
    Integer(i64),
    /// The structure with this path ends.
    End,
}

/// The kind of a value, by Thrift's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Value(u8),
    /// A list of values of this kind. A map with booleans is a list of these, too.
    List(u8),
}

impl Kind {
    /// A letter for what is written alike; a large one for lists.
    pub(super) fn letter(self) -> u8 {
        let (Kind::Value(kind) | Kind::List(kind)) = self;
        let letter = match kind {
            1 | 2 => b'o',
            3 => b'y',
            4..=6 => b'i',
            7 => b'd',
            8 => b'b',
            12 if self == Kind::Value(12) => b'{',
            12 => b's',
            _ => b'?',
        };
        if matches!(self, Kind::List(_)) { letter.to_ascii_uppercase() } else { letter }
    }

    pub(super) fn is_list_of_booleans(self) -> bool {
        matches!(self, Kind::List(1 | 2))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Kind::Value(kind) | Kind::List(kind)) = self;
        let name = match kind {
            1 | 2 => "boolean",
            3 => "byte",
            4..=6 => "integer",
            7 => "double",
            8 => "text",
            9 | 10 => "list",
            11 => "map",
            12 => "structure",
            _ => "value of an unknown kind",
        };
        match self {
            Kind::Value(_) => write!(f, "a {name}"),
            Kind::List(_) => write!(f, "a list, each item a {name}"),
        }
    }
}

/// Walks over the structure at the start of `bytes` and returns its length.
pub(super) fn walk(bytes: &[u8], met: &mut dyn FnMut(&[i16], Met) -> Result<()>) -> Result<usize> {
    let mut walk = Walk { cursor: Cursor::new(bytes), path: [0; MAX_DEPTH], met };
    walk.structure(0, 0)?;
    Ok(walk.cursor.position())
}

struct Walk<'a, 'm> {
    cursor: Cursor<'a>,
    path: [i16; MAX_DEPTH],
    met: &'m mut dyn FnMut(&[i16], Met) -> Result<()>,
}

impl Walk<'_, '_> {
    /// A structure whose path has this length. Its fields' paths are one longer.
    fn structure(&mut self, path: usize, depth: usize) -> Result<()> {
        let mut field = 0_i16;
        loop {
            let head = self.cursor.u8()?;
            if head == 0 {
                return self.meet(path, Met::End);
            }
            field = match head >> 4 {
                0 => self.zigzag()? as i16,
                delta => field.wrapping_add(i16::from(delta)),
            };
            let Some(place) = self.path.get_mut(path) else { return Err(self.too_deep()) };
            *place = field;
            let kind = head & 15;
            if !matches!(kind, 9 | 10) {
                self.meet(path + 1, Met::Field(Kind::Value(kind)))?;
            }
            // The kind of a boolean is its value.
            if !matches!(kind, 1 | 2) {
                self.value(kind, path + 1, depth + 1)?;
            }
        }
    }

    fn value(&mut self, kind: u8, path: usize, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(self.too_deep());
        }
        match kind {
            // Items of lists of booleans, and bytes.
            1..=3 => self.cursor.take(1).map(|_| ()),
            4..=6 => {
                let value = self.zigzag()?;
                let value = match kind {
                    4 => i64::from(value as i16),
                    5 => i64::from(value as i32),
                    _ => value,
                };
                self.meet(path, Met::Integer(value))
            }
            7 => self.cursor.take(8).map(|_| ()),
            8 => {
                let bytes = self.varint()?;
                self.cursor.take(usize::try_from(bytes).unwrap_or(usize::MAX)).map(|_| ())
            }
            9 | 10 => self.list(path, depth),
            11 => self.map(path, depth),
            12 => self.structure(path, depth),
            13 => self.cursor.take(16).map(|_| ()),
            _ => Err(self.cursor.corrupt(format!("a value of the unknown kind {kind}"))),
        }
    }

    fn list(&mut self, path: usize, depth: usize) -> Result<()> {
        let head = self.cursor.u8()?;
        let items = match head >> 4 {
            15 => self.varint()?,
            items => u64::from(items),
        };
        if items > 0 {
            self.meet(path, Met::Field(Kind::List(head & 15)))?;
        }
        self.check_items(items)?;
        (0..items).try_for_each(|_| self.value(head & 15, path, depth + 1))
    }

    fn map(&mut self, path: usize, depth: usize) -> Result<()> {
        let items = self.varint()?;
        if items == 0 {
            return Ok(());
        }
        let kinds = self.cursor.u8()?;
        if let Some(booleans) =
            [kinds >> 4, kinds & 15].into_iter().find(|kind| [1, 2].contains(kind))
        {
            self.meet(path, Met::Field(Kind::List(booleans)))?;
        }
        self.check_items(items)?;
        (0..items).try_for_each(|_| {
            self.value(kinds >> 4, path, depth + 1)?;
            self.value(kinds & 15, path, depth + 1)
        })
    }

    /// Each item has a byte at least.
    fn check_items(&mut self, items: u64) -> Result<()> {
        if items > self.cursor.remaining() as u64 {
            return Err(self.cursor.corrupt(format!("a list claims {items} items")));
        }
        Ok(())
    }

    fn varint(&mut self) -> Result<u64> {
        let (mut value, mut shift) = (0, 0_u32);
        loop {
            let byte = self.cursor.u8()?;
            value |= u64::from(byte & 127).wrapping_shl(shift);
            if byte < 128 {
                return Ok(value);
            }
            shift = shift.wrapping_add(7);
        }
    }

    fn zigzag(&mut self) -> Result<i64> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn meet(&mut self, path: usize, met: Met) -> Result<()> {
        (self.met)(self.path.get(..path).unwrap_or_default(), met)
    }

    #[cold]
    fn too_deep(&self) -> crate::error::Error {
        self.cursor.corrupt("structures nest too deeply")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn met(bytes: &[u8]) -> Result<Vec<(Vec<i16>, Met)>> {
        let mut all = Vec::new();
        let length = walk(bytes, &mut |path, met| {
            if !matches!(met, Met::Field(_)) {
                all.push((path.to_vec(), met));
            }
            Ok(())
        })?;
        assert_eq!(length, bytes.len());
        Ok(all)
    }

    #[test]
    fn integers_have_the_path_of_their_fields() {
        // 1: -3; 4: true; 5: {2: 64}; 6: a list of two structures {1: 1}, {}; 40: text.
        let bytes = [
            0x15, 5, 0x31, 0x1c, 0x25, 0x80, 1, 0, 0x19, 0x2c, 0x15, 2, 0, 0, 0x08, 80, 2, b'a',
            b'b', 0,
        ];
        let integer = |path: &[i16], value| (path.to_vec(), Met::Integer(value));
        let end = |path: &[i16]| (path.to_vec(), Met::End);
        let expected = vec![
            integer(&[1], -3),
            integer(&[5, 2], 64),
            end(&[5]),
            integer(&[6, 1], 1),
            end(&[6]),
            end(&[6]),
            end(&[]),
        ];
        assert_eq!(met(&bytes).unwrap(), expected);
    }

    #[test]
    fn numbers_are_cut_as_the_reader_cuts_them() {
        // 2³² + 1 in a field of 32 bits and in one of 64, and a number in eleven bytes.
        let bytes = [
            0x15, 0x82, 0x80, 0x80, 0x80, 0x20, 0x16, 0x82, 0x80, 0x80, 0x80, 0x20, 0x16, 0x82,
            0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0, 0,
        ];
        let integers: Vec<Met> = met(&bytes).unwrap().into_iter().map(|(_, met)| met).collect();
        let expected = [1, (1 << 32) + 1, 1].map(Met::Integer);
        assert_eq!(integers[..3], expected);
    }

    #[test]
    fn false_lengths_are_refused() {
        // A list of 2^31 structures, a text of 2^63 bytes, a map, a number without end, nesting.
        let deep: Vec<u8> = std::iter::repeat_n(0x1c, 1 << 16).collect();
        let lists: Vec<u8> = [0x19].into_iter().chain(std::iter::repeat_n(0x19, 1 << 16)).collect();
        for bytes in [
            &[0x19, 0xfc, 0x80, 0x80, 0x80, 0x80, 8, 0][..],
            &[0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0],
            &[0x1b, 0xff, 0xff, 0xff, 1, 0x55, 0],
            &[0x15, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0],
            &deep,
            &lists,
        ] {
            assert!(met(bytes).is_err());
        }
    }
}
