//! The least or greatest of anything, as bytes that sort like the values: texts as they are, others
//! as arrow's rows. Those of all groups are in one run of memory.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, BinaryViewArray, UInt32Array};
use arrow_buffer::NullBuffer;
use arrow_row::{RowConverter, SortField};
use arrow_schema::DataType as ArrowType;

use super::columns::{GroupMap, GroupStorage};
use super::input::{Coded, Values};
use super::kernels::Groups;
use super::kind::{Batch, StateKind, wrong_kind_error};
use crate::bytes::{Cursor, Writer};
use crate::error::{ArrowResult, Error, Result};
use crate::model::Scalar;
use crate::query::open::OpenBlock;
use crate::query::words::wordless;

#[derive(Debug)]
pub(super) struct ExtremeRow {
    best: BestRows,
    greatest: bool,
    data_type: ArrowType,
    /// `None` for texts and bytes.
    converter: Option<RowConverter>,
}

impl ExtremeRow {
    pub(super) fn new(greatest: bool, data_type: ArrowType) -> Result<Self> {
        let fields = || vec![SortField::new(data_type.clone())];
        let converter = match data_type {
            ArrowType::Utf8View | ArrowType::BinaryView => None,
            _ => Some(RowConverter::new(fields()).or_unsupported()?),
        };
        Ok(ExtremeRow { best: BestRows::default(), greatest, data_type, converter })
    }

    /// Offers the valid values of an array of texts or bytes.
    fn offer_all<'v>(
        &mut self,
        groups: Groups<'_>,
        values: impl Iterator<Item = Option<&'v [u8]>>,
        valid: Option<&NullBuffer>,
    ) {
        for (at, value) in values.enumerate() {
            if let Some(value) = value.filter(|_| valid.is_none_or(|valid| valid.is_valid(at))) {
                self.best.offer(groups.at(at), value, self.greatest);
            }
        }
    }

    /// Offers the valid ones of some codes. Codes sort like their values, so that a text is looked
    /// at only where its code is beyond those that the group was offered of the same dictionary.
    fn offer_codes(
        &mut self,
        groups: Groups<'_>,
        coded: &Coded,
        valid: Option<&NullBuffer>,
    ) -> Result<()> {
        let texts = coded.dictionary.as_string_view_opt();
        let bytes = coded.dictionary.as_binary_view_opt();
        if texts.is_none() && bytes.is_none() {
            return Err(wrong_kind_error());
        }
        let value = |code: u32| match texts {
            Some(texts) => texts.value(code as usize).as_bytes(),
            None => bytes.map_or(&[][..], |bytes| bytes.value(code as usize)),
        };
        self.best.offered.resize(self.best.ranges.len(), (u32::MAX, 0));
        for (at, code) in coded.codes.iter().enumerate() {
            if valid.is_some_and(|valid| valid.is_null(at)) {
                continue;
            }
            let group = groups.at(at);
            let Some((segment, offered)) = self.best.offered.get_mut(group) else { continue };
            let is_beyond = if self.greatest { *code > *offered } else { *code < *offered };
            if *segment as usize == coded.segment && !is_beyond {
                continue;
            }
            (*segment, *offered) = (coded.segment as u32, *code);
            self.best.offer(group, value(*code), self.greatest);
        }
        Ok(())
    }

    /// What a group has, as a value.
    fn known(&self, group: usize) -> Option<Scalar> {
        let row = self.best.get(group)?;
        let Some(converter) = &self.converter else { return Some(Scalar::Bytes(row.into())) };
        let columns = converter.convert_rows([converter.parser().parse(row)]).ok()?;
        wordless(columns.first()?)?
    }
}

impl StateKind for ExtremeRow {
    fn only_adds(&self) -> bool {
        false
    }

    fn takes_codes(&self) -> bool {
        self.converter.is_none()
    }

    fn is_unbounded(&self) -> bool {
        true
    }

    fn storage(&self) -> &dyn GroupStorage {
        &self.best
    }

    fn storage_mut(&mut self) -> &mut dyn GroupStorage {
        &mut self.best
    }

    fn update(
        &mut self,
        groups: Groups<'_>,
        values: &Values,
        valid: Option<&NullBuffer>,
    ) -> Result<()> {
        if let Values::Codes(coded) = values {
            return self.offer_codes(groups, coded, valid);
        }
        let Values::Array(array) = values else { return Err(wrong_kind_error()) };
        let Some(converter) = &self.converter else {
            if let Some(texts) = array.as_string_view_opt() {
                self.offer_all(groups, texts.iter().map(|text| text.map(str::as_bytes)), valid);
            } else if let Some(bytes) = array.as_binary_view_opt() {
                self.offer_all(groups, bytes.iter(), valid);
            } else {
                return Err(wrong_kind_error());
            }
            return Ok(());
        };
        let rows = converter.convert_columns(&[Arc::clone(array)]).or_unsupported()?;
        for (at, row) in rows.iter().enumerate() {
            if valid.is_none_or(|valid| valid.is_valid(at)) {
                self.best.offer(groups.at(at), row.as_ref(), self.greatest);
            }
        }
        Ok(())
    }

    /// Not if the block has no value beyond what the group has.
    fn improves(&self, group: usize, column: usize, block: &OpenBlock<'_>) -> bool {
        let stored =
            block.stored(column).filter(|stored| stored.data_type().to_arrow() == self.data_type);
        let stats = stored.and_then(|stored| stored.block_stats(block.at.block));
        let bound = stats
            .and_then(|stats| if self.greatest { stats.max.as_ref() } else { stats.min.as_ref() });
        let known = self.known(group);
        // A bound that is no value itself is beyond all values.
        bound.zip(known).is_none_or(|(bound, known)| {
            bound.value.total_cmp(&known).is_none_or(|order| match self.greatest {
                true => order.is_gt(),
                false => order.is_lt(),
            })
        })
    }

    fn merge(&mut self, others: &Self, map: GroupMap<'_>) {
        for group in 0..others.best.ranges.len() {
            if let Some(row) = others.best.get(group) {
                self.best.offer(map.at(group), row, self.greatest);
            }
        }
    }

    fn append(&mut self, others: &Self, at: &[u32]) {
        self.best.append(&others.best, at);
    }

    fn finish(&self, batch: &Batch<'_>) -> Result<ArrayRef> {
        let Some(converter) = &self.converter else {
            let best = |group: &u64| self.best.get(*group as usize);
            let found: BinaryViewArray = batch.groups.iter().map(best).collect();
            return Ok(match self.data_type {
                ArrowType::Utf8View => Arc::new(found.to_string_view().or_corrupt()?),
                _ => Arc::new(found),
            });
        };
        let parser = converter.parser();
        let mut rows = Vec::with_capacity(batch.groups.len());
        let mut places = Vec::with_capacity(batch.groups.len());
        for group in batch.groups {
            let row = self.best.get(*group as usize);
            places.push(row.map(|_| rows.len() as u32));
            rows.extend(row.map(|row| parser.parse(row)));
        }
        let found = converter.convert_rows(rows).or_unsupported()?;
        let values =
            found.first().ok_or_else(|| Error::InvalidInput("no column of extremes".into()))?;
        arrow_select::take::take(values, &UInt32Array::from(places), None).or_unsupported()
    }
}

/// Where the bytes of a group are.
#[derive(Clone, Copy, Debug)]
struct RowRange {
    start: usize,
    /// `u32::MAX` for nothing.
    len: u32,
}

const NOTHING: RowRange = RowRange { start: 0, len: u32::MAX };
/// Bytes that no group has any more are left lying up to this many.
const LEFT: usize = 1 << 16;

/// For each group, nothing or bytes.
#[derive(Debug, Default)]
pub(super) struct BestRows {
    ranges: Vec<RowRange>,
    bytes: Vec<u8>,
    /// Bytes that no group has any more.
    unused: usize,
    /// For each group, the segment whose dictionary's codes it was offered last, and the best of
    /// them. Groups that have moved elsewhere have none.
    offered: Vec<(u32, u32)>,
}

impl BestRows {
    /// The bytes of a group.
    pub(super) fn get(&self, group: usize) -> Option<&[u8]> {
        let range = self.ranges.get(group).filter(|range| range.len != u32::MAX)?;
        self.bytes.get(range.start..range.start + range.len as usize)
    }

    /// Replaces the value of a group by `row` if `row` is better.
    fn offer(&mut self, group: usize, row: &[u8], greatest: bool) {
        if self.get(group).is_none_or(|best| if greatest { row > best } else { row < best }) {
            self.put(group, row);
        }
    }

    /// Replaces the value of a group.
    pub(super) fn put(&mut self, group: usize, row: &[u8]) {
        let Some(range) = self.ranges.get_mut(group) else { return };
        let Ok(len) = u32::try_from(row.len()) else { return };
        let had = if range.len == u32::MAX { 0 } else { range.len as usize };
        match self.bytes.get_mut(range.start..range.start + row.len()).filter(|_| row.len() <= had)
        {
            Some(old) => {
                old.copy_from_slice(row);
                self.unused += had - row.len();
            }
            None => {
                range.start = self.bytes.len();
                self.bytes.extend_from_slice(row);
                self.unused += had;
            }
        }
        range.len = len;
        if self.unused > LEFT.max(self.bytes.len() / 2) {
            self.tidy();
        }
    }

    /// Moves what groups have together.
    fn tidy(&mut self) {
        let mut bytes = Vec::with_capacity(self.bytes.len() - self.unused.min(self.bytes.len()));
        for range in self.ranges.iter_mut().filter(|range| range.len != u32::MAX) {
            let start = bytes.len();
            bytes.extend_from_slice(
                self.bytes.get(range.start..range.start + range.len as usize).unwrap_or_default(),
            );
            range.start = start;
        }
        (self.bytes, self.unused) = (bytes, 0);
    }

    /// Appends what some groups of another have, as groups of their own.
    pub(super) fn append(&mut self, from: &BestRows, at: &[u32]) {
        for group in at {
            self.ranges.push(NOTHING);
            if let Some(row) = from.get(*group as usize) {
                self.offer(self.ranges.len() - 1, row, true);
            }
        }
    }
}

impl BestRows {
    fn write_row(&self, group: usize, out: &mut Writer) {
        match self.get(group) {
            None => out.u32(u32::MAX),
            Some(row) => out.blob(row),
        }
    }

    fn read_row(&mut self, from: &mut Cursor<'_>) -> Result<()> {
        let group = self.ranges.len();
        self.ranges.push(NOTHING);
        let len = from.u32()?;
        if len != u32::MAX {
            self.offer(group, from.take(len as usize)?, true);
        }
        Ok(())
    }
}

impl GroupStorage for BestRows {
    fn bytes_a_group(&self) -> usize {
        size_of::<RowRange>() + size_of::<(u32, u32)>()
    }

    fn grow(&mut self, groups: usize) {
        self.ranges.resize(groups, NOTHING);
    }

    fn clear(&mut self) {
        self.ranges.clear();
        self.bytes.clear();
        self.unused = 0;
        self.offered.clear();
    }

    fn memory(&self) -> usize {
        self.ranges.capacity() * size_of::<RowRange>()
            + self.bytes.capacity()
            + self.offered.capacity() * size_of::<(u32, u32)>()
    }

    fn write(&self, out: &mut Writer) {
        (0..self.ranges.len()).for_each(|group| self.write_row(group, out));
    }

    fn read(&mut self, groups: usize, from: &mut Cursor<'_>) -> Result<()> {
        self.clear();
        (0..groups).try_for_each(|_| self.read_row(from))
    }

    #[cfg(feature = "cluster")]
    fn write_one(&self, group: usize, out: &mut Writer) {
        self.write_row(group, out);
    }

    #[cfg(feature = "cluster")]
    fn read_one(&mut self, from: &mut Cursor<'_>) -> Result<()> {
        self.read_row(from)
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::StringViewArray;

    use super::*;

    #[test]
    fn the_best_of_each_group_survives_growth_and_the_way_through_a_file() {
        let mut all = BestRows::default();
        all.grow(3);
        for round in 0..100_000u32 {
            all.offer((round % 2) as usize, format!("{:07}", round / 2).repeat(2).as_bytes(), true);
        }
        assert!(all.memory() < 1 << 20, "{}", all.memory());
        all.offer(0, b"9", true);
        all.offer(1, b"9000", false);
        let mut more = BestRows::default();
        more.append(&all, &[2, 1, 0, 0]);
        let mut written = Writer::new();
        more.write(&mut written);
        let bytes = written.into_vec();
        let mut cursor = Cursor::new(&bytes);
        let mut read = BestRows::default();
        read.read(4, &mut cursor).unwrap();
        cursor.finish().unwrap();
        let found: Vec<_> = (0..4).map(|group| read.get(group)).collect();
        assert_eq!(found, [None, Some(b"00499990049999".as_slice()), Some(b"9"), Some(b"9")]);
        assert!(read.read(5, &mut Cursor::new(&bytes)).is_err());
    }

    #[test]
    fn codes_of_several_dictionaries_find_the_same_as_their_texts() {
        let dictionaries = [vec!["", "b", "c", "x"], vec!["a", "b", "bb"], vec!["0", "z"]];
        let offered: Vec<(usize, usize, usize)> =
            (0..200).map(|at| (at % 3, at * 7 % 5, at * 11 % 4)).collect();
        for greatest in [false, true] {
            let mut found = ExtremeRow::new(greatest, ArrowType::Utf8View).unwrap();
            found.storage_mut().grow(5);
            let mut expected: [Option<&str>; 5] = [None; 5];
            for (segment, group, code) in &offered {
                let texts = &dictionaries[*segment];
                let code = *code % (texts.len() + 1);
                let with_null: StringViewArray =
                    std::iter::once(None).chain(texts.iter().copied().map(Some)).collect();
                let coded = Coded {
                    codes: vec![code as u32],
                    dictionary: Arc::new(with_null),
                    segment: *segment,
                };
                let valid = NullBuffer::from(vec![code > 0]);
                let groups = [*group as u32];
                found.update(Groups::Words(&groups), &Values::Codes(coded), Some(&valid)).unwrap();
                let Some(text) = code.checked_sub(1).map(|at| texts[at]) else { continue };
                let best = expected[*group].get_or_insert(text);
                *best = if greatest { text.max(*best) } else { text.min(*best) };
            }
            let found: Vec<Option<&[u8]>> = (0..5).map(|group| found.best.get(group)).collect();
            assert_eq!(found, expected.map(|text| text.map(str::as_bytes)));
        }
    }
}
