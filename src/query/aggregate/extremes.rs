//! The least or greatest text of each group, as bytes that sort like the values, all in one run of
//! memory.

use crate::bytes::{Cursor, Writer};
use crate::error::Result;

/// Where the bytes of a group are.
#[derive(Clone, Copy, Debug)]
struct Place {
    start: usize,
    /// `u32::MAX` for nothing.
    len: u32,
}

const NOTHING: Place = Place { start: 0, len: u32::MAX };
/// Bytes that no group has any more are left lying up to this many.
const LEFT: usize = 1 << 16;

/// For each group, nothing or bytes.
#[derive(Debug, Default)]
pub(crate) struct Extremes {
    places: Vec<Place>,
    bytes: Vec<u8>,
    /// Bytes that no group has any more.
    unused: usize,
}

impl Extremes {
    pub(crate) fn grow(&mut self, groups: usize) {
        self.places.resize(groups, NOTHING);
    }

    pub(crate) fn clear(&mut self) {
        self.places.clear();
        self.bytes.clear();
        self.unused = 0;
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn memory(&self) -> usize {
        self.places.capacity() * size_of::<Place>() + self.bytes.capacity()
    }

    /// The bytes of a group.
    pub(crate) fn get(&self, group: usize) -> Option<&[u8]> {
        let place = self.places.get(group).filter(|place| place.len != u32::MAX)?;
        self.bytes.get(place.start..place.start + place.len as usize)
    }

    /// Keeps the better of what a group has and `row`.
    pub(crate) fn offer(&mut self, group: usize, row: &[u8], greatest: bool) {
        let better =
            self.get(group).is_none_or(|best| if greatest { row > best } else { row < best });
        let Some(place) = self.places.get_mut(group).filter(|_| better) else { return };
        let Ok(len) = u32::try_from(row.len()) else { return };
        let had = if place.len == u32::MAX { 0 } else { place.len as usize };
        match self.bytes.get_mut(place.start..place.start + row.len()).filter(|_| row.len() <= had)
        {
            Some(room) => {
                room.copy_from_slice(row);
                self.unused += had - row.len();
            }
            None => {
                place.start = self.bytes.len();
                self.bytes.extend_from_slice(row);
                self.unused += had;
            }
        }
        place.len = len;
        if self.unused > LEFT.max(self.bytes.len() / 2) {
            self.tidy();
        }
    }

    /// Moves what groups have together.
    fn tidy(&mut self) {
        let mut bytes = Vec::with_capacity(self.bytes.len() - self.unused.min(self.bytes.len()));
        for place in self.places.iter_mut().filter(|place| place.len != u32::MAX) {
            let start = bytes.len();
            bytes.extend_from_slice(
                self.bytes.get(place.start..place.start + place.len as usize).unwrap_or_default(),
            );
            place.start = start;
        }
        (self.bytes, self.unused) = (bytes, 0);
    }

    /// Appends what some groups of another have, as groups of their own.
    pub(crate) fn append(&mut self, from: &Extremes, at: &[u32]) {
        for group in at {
            self.places.push(NOTHING);
            if let Some(row) = from.get(*group as usize) {
                self.offer(self.places.len() - 1, row, true);
            }
        }
    }

    pub(crate) fn write(&self, out: &mut Writer) {
        for group in 0..self.places.len() {
            match self.get(group) {
                None => out.u32(u32::MAX),
                Some(row) => out.blob(row),
            }
        }
    }

    pub(crate) fn read(groups: usize, from: &mut Cursor<'_>) -> Result<Self> {
        let mut all = Extremes::default();
        for group in 0..groups {
            all.places.push(NOTHING);
            let len = from.u32()?;
            if len != u32::MAX {
                all.offer(group, from.take(len as usize)?, true);
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_of_each_group_survives_growth_and_the_way_through_a_file() {
        let mut all = Extremes::default();
        all.grow(3);
        for round in 0..100_000u32 {
            all.offer((round % 2) as usize, format!("{:07}", round / 2).repeat(2).as_bytes(), true);
        }
        assert!(all.memory() < 1 << 20, "{}", all.memory());
        all.offer(0, b"9", true);
        all.offer(1, b"9000", false);
        let mut more = Extremes::default();
        more.append(&all, &[2, 1, 0, 0]);
        let mut written = Writer::new();
        more.write(&mut written);
        let bytes = written.into_vec();
        let mut cursor = Cursor::new(&bytes);
        let read = Extremes::read(4, &mut cursor).unwrap();
        cursor.finish().unwrap();
        let found: Vec<_> = (0..4).map(|group| read.get(group)).collect();
        assert_eq!(found, [None, Some(b"00499990049999".as_slice()), Some(b"9"), Some(b"9")]);
        assert!(Extremes::read(5, &mut Cursor::new(&bytes)).is_err());
    }
}
