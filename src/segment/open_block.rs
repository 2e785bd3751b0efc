//! An open block of a column: its values as they are encoded, or as Arrow arrays.

use std::ops::Range;

use arrow_array::{ArrayRef, UInt32Array};
use arrow_buffer::NullBuffer;
use arrow_cast::CastOptions;
use arrow_schema::DataType as ArrowType;

use super::reader::Column;
use super::record::BlockPlace;
use super::scaled::{self, Decimals};
use crate::block::{self, Validity};
use crate::error::{ArrowResult, Error, Result};
use crate::model::DataType;

/// An open block of a column.
#[derive(Debug)]
pub struct Block<'a> {
    column: &'a Column,
    number: usize,
    place: BlockPlace,
    reader: block::Reader<'a>,
}

impl Column {
    /// Opens block `b` and prefetches all of it; its checksums are verified at the first use.
    pub fn block(&self, b: usize) -> Result<Block<'_>> {
        let (place, reader) = self.open(b)?;
        Ok(Block { column: self, number: b, place, reader })
    }
}

impl Block<'_> {
    /// The offset of the block in its segment.
    pub(super) fn offset(&self) -> u64 {
        self.place.offset
    }

    /// The encoded block, for operators on encoded data and for `sty inspect`.
    pub fn reader(&self) -> &block::Reader<'_> {
        &self.reader
    }

    /// The rows `rows` (starting at a multiple of 1,024) in the stored type.
    pub fn decode(&self, rows: Range<usize>) -> Result<ArrayRef> {
        self.decode_stored(rows, self.column.data_type())
    }

    fn decode_stored(&self, rows: Range<usize>, data_type: &DataType) -> Result<ArrayRef> {
        let dictionary = self.column.dictionary()?;
        self.checked(self.reader.decode(rows, data_type, dictionary.as_ref()))
    }

    /// The type in which values are decoded before they are widened to another.
    fn decoded_type<'t>(&'t self, target: &'t DataType) -> &'t DataType {
        match (self.column.data_type(), target) {
            (DataType::Decimal { .. }, DataType::Int64) => target,
            (stored, _) => stored,
        }
    }

    /// What was decoded, unless the file was cut in the meantime.
    fn checked<T>(&self, decoded: Result<T>) -> Result<T> {
        let decoded = decoded.map_err(|e| self.column.locate(e, self.place.offset));
        self.column.checked(decoded)
    }

    /// [`Block::decode`], but codes stay codes, with the segment's dictionary as their values.
    pub fn decode_coded(&self, rows: Range<usize>) -> Result<ArrayRef> {
        let dictionary = self.column.dictionary()?;
        self.checked(self.reader.decode_coded(rows, self.column.data_type(), dictionary.as_ref()))
    }

    /// [`Block::decode`], widened to the table's type. Decimals may be asked for as the integers of
    /// 64 bits that they are stored as ([`block::Reader::longs`]).
    pub fn decode_as(&self, rows: Range<usize>, target: &DataType) -> Result<ArrayRef> {
        widen(&self.decode_stored(rows, self.decoded_type(target))?, &target.to_arrow())
    }

    /// Single rows, as [`Block::decode_as`] has them.
    pub fn gather(&self, rows: &[u32], target: &DataType) -> Result<ArrayRef> {
        if let Some(found) = self.gather_few(rows)? {
            return widen(&found, &target.to_arrow());
        }
        let (dictionary, stored) = (self.column.dictionary()?, self.decoded_type(target));
        let gathered = self.checked(self.reader.gather(rows, stored, dictionary.as_ref()))?;
        widen(&gathered, &target.to_arrow())
    }

    /// Few texts of a large dictionary, which is not decoded for them; `None` where it is.
    fn gather_few(&self, rows: &[u32]) -> Result<Option<ArrayRef>> {
        let block::Stream::Codes(stored) = self.reader.stream() else { return Ok(None) };
        let by_code = matches!(self.reader.validity(), Validity::ByCode | Validity::AllValid);
        if !by_code || !stored.is_light() || !self.column.are_few_of_dictionary(rows.len()) {
            return Ok(None);
        }
        let code = |row: &u32| self.checked(stored.get(*row as usize));
        let codes: Vec<u32> = rows.iter().map(code).collect::<Result<_>>()?;
        let mut known: Vec<u32> = codes.iter().copied().filter(|code| *code > 0).collect();
        known.sort_unstable();
        known.dedup();
        let values = self.column.dictionary_values(&known)?;
        let place = |code: &u32| known.binary_search(code).ok().map(|at| at as u32);
        let places: UInt32Array = codes.iter().map(place).collect();
        arrow_select::take::take(&values, &places, None).or_corrupt().map(Some)
    }

    /// The column that the block belongs to.
    pub fn column(&self) -> &Column {
        self.column
    }

    /// The decimals of some rows, whose start is a multiple of 1,024, as scaled integers, and which
    /// rows are not null, if not all are; `None` if the block has no such integers.
    pub(crate) fn decimals(
        &self,
        rows: Range<usize>,
    ) -> Result<Option<(Decimals, Option<NullBuffer>)>> {
        let dictionary = self.column.scaled_dictionary()?;
        scaled::decimals(&self.reader, self.column.block_stats(self.number), dictionary, rows)
    }
}

/// Casts a stored array to the table's wider type; the lattice makes this lossless.
fn widen(array: &ArrayRef, target: &ArrowType) -> Result<ArrayRef> {
    if array.data_type() == target {
        return Ok(array.clone());
    }
    // A "safe" cast would turn values that do not fit into nulls.
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    arrow_cast::cast_with_options(array, target, &strict)
        .map_err(|e| Error::corrupt(0, format!("stored values do not widen: {e}")))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::Date32Array;
    use arrow_schema::TimeUnit;

    use super::*;

    #[test]
    fn values_that_do_not_widen_are_errors_not_nulls() {
        let nanoseconds = ArrowType::Timestamp(TimeUnit::Nanosecond, None);
        let dates = |day: i32| -> ArrayRef { Arc::new(Date32Array::from(vec![day])) };
        assert!(widen(&dates(17_000), &nanoseconds).is_ok());
        assert!(widen(&dates(i32::MAX), &nanoseconds).is_err());
    }
}
