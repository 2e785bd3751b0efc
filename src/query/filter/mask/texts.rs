//! Tests of texts, stored as they are or in a dictionary.

use arrow_array::cast::AsArray;

use super::{MaskBuilder, State, codes_of};
use crate::block::Stream;
use crate::error::{Error, Result};
use crate::query::filter::texts::TextTest;
use crate::query::slice::{Slice, list};

/// To fetch one text of a dictionary, this many vectors of it may have to be decompressed.
const CHUNK_VECTORS: usize = 8;

impl MaskBuilder {
    /// Rows whose text passes a test, or does not.
    pub(in crate::query::filter) fn texts(
        &mut self,
        slice: &Slice<'_, '_>,
        at: usize,
        test: TextTest<'_>,
        negated: bool,
    ) -> Result<()> {
        let block = slice.block.column(at)?;
        let Some(reader) = block.map(|block| block.reader()) else {
            return self.all(slice, false);
        };
        let Stream::Bytes(strings) = reader.stream() else {
            return Err(Error::InvalidInput("a pattern on what are no texts".into()));
        };
        let start = slice.range.start;
        if self.state == State::Rows {
            let mut failed = Ok(());
            self.rows.retain(|row| match strings.get(start + *row as usize) {
                Ok(text) => test.passes(&text) != negated,
                Err(error) => {
                    failed = Err(error);
                    false
                }
            });
            failed?;
            return self.only_valid(slice, reader.validity());
        }
        self.ensure_mask(slice);
        let MaskBuilder { mask, texts, .. } = self;
        test.mask(strings, start, negated, mask, texts, reader.budget())?;
        self.only_valid(slice, reader.validity())
    }

    /// Whether so few rows are left that fetching their texts from a dictionary is less work than
    /// testing all of it.
    pub(in crate::query::filter) fn has_few_texts(&self, slice: &Slice<'_, '_>, at: usize) -> bool {
        let Some(column) = slice.block.stored(at).filter(|_| self.state == State::Rows) else {
            return false;
        };
        // As if all slices of the segment had as many rows left.
        let slices = slice.block.segment.segment.rows() / slice.range.len().max(1) as u64 + 1;
        let fetched = self.rows.len().saturating_mul(slices as usize * CHUNK_VECTORS);
        column.are_few_of_dictionary(fetched)
    }

    /// Rows whose text in a dictionary passes a test, or does not. Only these texts are fetched.
    pub(in crate::query::filter) fn coded_texts(
        &mut self,
        slice: &Slice<'_, '_>,
        at: usize,
        test: TextTest<'_>,
        negated: bool,
    ) -> Result<()> {
        let (Some(column), Some(codes)) = (slice.block.stored(at), codes_of(slice, at)?) else {
            return self.all(slice, false);
        };
        if self.state != State::Rows {
            self.ensure_mask(slice);
            list(&self.mask, &mut self.rows);
            self.state = State::Rows;
        }
        let start = slice.range.start as u32;
        let rows: Vec<u32> = self.rows.iter().map(|row| start + row).collect();
        let mut of_rows = Vec::with_capacity(rows.len());
        codes.gather(&rows, &mut of_rows)?;
        let mut distinct: Vec<u32> = of_rows.iter().copied().filter(|code| *code > 0).collect();
        distinct.sort_unstable();
        distinct.dedup();
        let values = column.dictionary_values(&distinct)?;
        let Some(texts) = values.as_string_view_opt() else {
            return Err(Error::InvalidInput("a pattern on what are no texts".into()));
        };
        let passes: Vec<bool> = texts
            .iter()
            .map(|text| text.is_some_and(|t| test.passes(t.as_bytes()) != negated))
            .collect();
        let mut of_rows = of_rows.into_iter();
        self.rows.retain(|_| {
            let code = of_rows.next().and_then(|code| distinct.binary_search(&code).ok());
            code.and_then(|code| passes.get(code)).is_some_and(|passes| *passes)
        });
        Ok(())
    }
}
