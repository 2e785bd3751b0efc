//! Slices: some thousand rows of a block under work, and which of them are selected, as a list or
//! as a mask.
//!
//! Where this stands on the road of a query: `walk` cuts blocks into slices, `filter` leaves fewer
//! rows selected, and `group`, `aggregate` and `order` fetch columns of those that are left, each
//! decoded once.
//!
//! **Where many rows pass, the selection stays a mask**: a byte for each row, under which sums take
//! whole slices and count the others as 0; arithmetic does so while the selected rows are the
//! majority. A list of rows is made only for those who ask for one. Where a vector has many
//! selected rows, it is decoded whole before they are picked, and patches are put in without asking
//! who wants them. Min and max of one group look at the zone map first: most blocks have nothing
//! beyond what was found.

use std::cell::{OnceCell, RefCell};
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, UInt32Array};
use arrow_buffer::NullBuffer;

use super::open::OpenBlock;
use crate::block::{CHARGED_BUFFER, Stream, Validity};
use crate::budget::Charge;
use crate::error::{ArrowResult, Error, Result};
use crate::expr::Expression;
use crate::expr::arithmetic::Arithmetic;
use crate::model::{DataType, Physical};
use crate::segment::Column;

/// A dictionary is read where at least one row in this many is selected.
const MANY: usize = 4;

/// Rows of a slice: its decoded columns stay in the second-level cache.
pub(crate) const SLICE_ROWS: usize = 8192;
/// The most stored bytes of a slice of more than one vector. Long texts are stored in about half of
/// their bytes.
pub(crate) const SLICE_BYTES: usize = 2 << 20;
/// About the most values that are read of a slice of more than one vector.
pub(crate) const SLICE_VALUES: usize = 1 << 20;

/// Rows of a block under work, some of them selected.
pub(crate) struct Slice<'b, 'a> {
    pub(crate) block: &'b OpenBlock<'a>,
    /// Rows of the block.
    pub(crate) range: Range<usize>,
    selection: Selection,
    /// The selected rows, once somebody has asked a mask for them.
    listed: OnceCell<Vec<u32>>,
    /// The selected values of each column, then those of decimals as integers.
    arrays: RefCell<Vec<Option<ArrayRef>>>,
    /// Of the arrays, as long as they are kept here.
    charge: RefCell<Charge>,
}

/// The rows that count, from the start of the range.
enum Selection {
    All,
    /// These, rising.
    Rows(Vec<u32>),
    /// The rows whose byte is 1, and how many there are.
    Mask(Vec<u8>, usize),
}

impl<'b, 'a> Slice<'b, 'a> {
    pub(crate) fn new(block: &'b OpenBlock<'a>, range: Range<usize>) -> Self {
        let arrays = RefCell::new(vec![None; 2 * block.columns()]);
        let (selection, listed) = (Selection::All, OnceCell::new());
        Slice { block, range, selection, listed, arrays, charge: RefCell::default() }
    }

    /// How many rows are selected.
    pub(crate) fn len(&self) -> usize {
        match &self.selection {
            Selection::All => self.range.len(),
            Selection::Rows(rows) => rows.len(),
            Selection::Mask(_, count) => *count,
        }
    }

    /// Whether enough rows are selected to make reading a whole dictionary worthwhile.
    pub(crate) fn selects_many(&self) -> bool {
        self.len() * MANY >= self.range.len()
    }

    /// The selected rows, rising, counted from the start of the range; `None` for all.
    pub(crate) fn selected(&self) -> Option<&[u32]> {
        match &self.selection {
            Selection::All => None,
            Selection::Rows(rows) => Some(rows),
            Selection::Mask(mask, _) => Some(self.listed.get_or_init(|| {
                let mut rows = Vec::new();
                list(mask, &mut rows);
                rows
            })),
        }
    }

    /// The selected rows as a byte for each row, where many are.
    pub(crate) fn mask(&self) -> Option<&[u8]> {
        match &self.selection {
            Selection::Mask(mask, _) => Some(mask),
            Selection::All | Selection::Rows(_) => None,
        }
    }

    /// Goes on with fewer rows, counted from the start of the range.
    pub(crate) fn select(&mut self, rows: Vec<u32>) {
        self.set(if rows.len() == self.range.len() {
            Selection::All
        } else {
            Selection::Rows(rows)
        });
    }

    /// Selects the `count` rows whose byte is 1.
    pub(crate) fn select_mask(&mut self, mask: &[u8], count: usize) {
        self.set(if count == self.range.len() {
            Selection::All
        } else {
            Selection::Mask(mask.to_vec(), count)
        });
    }

    fn set(&mut self, selection: Selection) {
        self.arrays.borrow_mut().fill(None);
        self.charge.borrow_mut().clear();
        self.listed = OnceCell::new();
        self.selection = selection;
    }

    /// The selected values of a column in the table's type.
    pub(crate) fn array(&self, at: usize) -> Result<ArrayRef> {
        self.values(at, at, self.block.table_type(at)?)
    }

    /// [`Slice::array`], but decimals are the integers that the block stores, all of which fit 64
    /// bits ([`OpenBlock::integer_bounds`]).
    pub(crate) fn integers(&self, at: usize) -> Result<ArrayRef> {
        match self.block.table_type(at)? {
            DataType::Decimal { .. } => {
                self.values(at, self.block.columns() + at, &DataType::Int64)
            }
            _ => self.array(at),
        }
    }

    fn values(&self, at: usize, place: usize, data_type: &DataType) -> Result<ArrayRef> {
        if let Some(Some(known)) = self.arrays.borrow().get(place) {
            return Ok(Arc::clone(known));
        }
        let array = match self.selected() {
            None => self.block.decode_as(at, self.range.clone(), data_type)?,
            Some(rows) if rows.len() * self.block.rows_per_fetch(at)? < self.range.len() => {
                let rows: Vec<u32> = rows.iter().map(|row| row + self.range.start as u32).collect();
                self.block.gather(at, &rows, data_type)?
            }
            Some(rows) => {
                let all = self.block.decode_as(at, self.range.clone(), data_type)?;
                take(&all, rows)?
            }
        };
        self.count(at, &array)?;
        if let Some(slot) = self.arrays.borrow_mut().get_mut(place) {
            *slot = Some(Arc::clone(&array));
        }
        Ok(array)
    }

    /// Charges a decoded column; larger ones have charges of their own.
    fn count(&self, at: usize, array: &ArrayRef) -> Result<()> {
        let bytes = match self.block.is_view(at, array) {
            true => array.len() * size_of::<u128>(),
            false => array.get_buffer_memory_size(),
        };
        let mut charge = self.charge.borrow_mut();
        if bytes >= CHARGED_BUFFER {
            return Ok(());
        }
        if charge.bytes() == 0 {
            *charge = self.block.segment.segment.budget().charge(0)?;
        }
        charge.grow(bytes)
    }

    /// The values of an expression for the selected rows. A function of texts is evaluated once for
    /// each text of a segment's dictionary, where many rows have them.
    pub(crate) fn evaluate(&self, expression: &Expression) -> Result<ArrayRef> {
        if expression.traits.byte_length
            && self.selects_many()
            && let Some(at) = expression.only_input()
            && let Some(lengths) = self.byte_lengths(at)?
        {
            return arrow_cast::cast(&lengths, &expression.data_type).or_corrupt();
        }
        if let (Some(at), Some(_)) = (expression.only_input(), &expression.function)
            && self.selects_many()
            && let Some((codes, values)) = self.text_codes(at)?
            && values as u64 * 2 <= self.block.segment.segment.rows()
            && let Some(dictionary) = self.block.stored(at).map(Column::dictionary).transpose()?
            && let Some(dictionary) = dictionary
            && let Some(results) = self.block.segment.evaluated(expression, &dictionary)
        {
            return take(&results, &codes);
        }
        expression.evaluate(&self.inputs(expression)?, self.len())
    }

    /// The numbers of bytes of a column's texts for the selected rows, where they are stored beside
    /// the texts.
    fn byte_lengths(&self, at: usize) -> Result<Option<ArrayRef>> {
        let Some(block) = self.block.column(at)? else { return Ok(None) };
        let strings = match (block.reader().stream(), block.column().data_type()) {
            (Stream::Bytes(strings), of) if of.is_text() => strings,
            (Stream::Codes(_), of) if of.is_text() => return self.lengths_of_codes(at),
            _ => return Ok(None),
        };
        let valid = match block.reader().validity() {
            Validity::AllValid => None,
            Validity::Stream(bools) => Some(NullBuffer::new(bools.decode(self.range.clone())?)),
            Validity::AllNull | Validity::ByCode => return Ok(None),
        };
        let mut lengths = Vec::with_capacity(self.range.len());
        if !strings.lengths(self.range.clone(), &mut lengths)? {
            return Ok(None);
        }
        let all: ArrayRef = Arc::new(UInt32Array::new(lengths.into(), valid));
        Ok(Some(match self.selected() {
            None => all,
            Some(rows) => take(&all, rows)?,
        }))
    }

    /// The same by the dictionary of the column.
    fn lengths_of_codes(&self, at: usize) -> Result<Option<ArrayRef>> {
        let lengths = self.block.stored(at).map(Column::dictionary_lengths).transpose()?;
        let Some(lengths) = lengths.flatten() else { return Ok(None) };
        let Some((codes, _)) = self.text_codes(at)? else { return Ok(None) };
        let length = |code: &u32| lengths.get(*code as usize).copied().unwrap_or(0);
        let valid = NullBuffer::from_iter(codes.iter().map(|code| *code > 0));
        let valid = Some(valid).filter(|valid| valid.null_count() > 0);
        Ok(Some(Arc::new(UInt32Array::new(codes.iter().map(length).collect(), valid))))
    }

    /// The native form of an expression, if it cannot fail for any row of the block.
    pub(crate) fn arithmetic<'e>(&self, expression: &'e Expression) -> Option<&'e Arithmetic> {
        let arithmetic = expression.as_arithmetic()?;
        if let Arithmetic::Decimals { steps, .. } = arithmetic {
            let bounds = expression.inputs.iter().map(|at| self.block.integer_bounds(*at));
            return steps.fit(&bounds.collect::<Option<Vec<_>>>()?).then_some(arithmetic);
        }
        Some(arithmetic)
    }

    /// The codes of the selected rows of a column of texts or bytes, and how many codes their
    /// segment's dictionary has, null's among them; `None` where there is none.
    pub(crate) fn text_codes(&self, at: usize) -> Result<Option<(Vec<u32>, usize)>> {
        let Some(block) = self.block.column(at)? else { return Ok(None) };
        let Stream::Codes(stored) = block.reader().stream() else { return Ok(None) };
        if block.column().data_type().physical() != Physical::Bytes {
            return Ok(None);
        }
        let Some(dictionary) = block.column().record().dictionary else { return Ok(None) };
        let values = dictionary.values as usize + 1;
        let mut codes: Vec<u32> = Vec::with_capacity(self.range.len());
        stored.decode(self.range.clone(), &mut codes)?;
        block.reader().validity().blank(&mut codes, self.range.clone())?;
        if let Some(selected) = self.selected() {
            codes = selected.iter().filter_map(|row| codes.get(*row as usize).copied()).collect();
        }
        if codes.iter().any(|code| *code as usize >= values) {
            return Err(Error::corrupt(0, "a code that its dictionary does not have"));
        }
        Ok(Some((codes, values)))
    }

    /// The selected values of the columns that an expression reads.
    pub(crate) fn inputs(&self, expression: &Expression) -> Result<Vec<ArrayRef>> {
        expression.inputs.iter().map(|at| self.array(*at)).collect()
    }
}

/// The values of an array at some rows.
pub(crate) fn take(array: &ArrayRef, rows: &[u32]) -> Result<ArrayRef> {
    let rows = UInt32Array::new(rows.to_vec().into(), None);
    arrow_select::take::take(array, &rows, None).or_corrupt()
}

/// The rows whose byte is 1.
pub(crate) fn list(mask: &[u8], rows: &mut Vec<u32>) {
    rows.clear();
    let (chunks, rest) = mask.as_chunks::<64>();
    for (start, chunk) in (0u32..).step_by(64).zip(chunks) {
        // Of few rows, most chunks have none.
        if *chunk == [0; 64] {
            continue;
        }
        let mut set = 0u64;
        for (at, eight) in chunk.as_chunks::<8>().0.iter().enumerate() {
            // The lowest bit of each byte, brought together in the top byte by the multiplication.
            let bits = u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
            set |= bits << (8 * at);
        }
        while set != 0 {
            rows.push(start + set.trailing_zeros());
            set &= set - 1;
        }
    }
    let start = (mask.len() - rest.len()) as u32;
    rows.extend((start..).zip(rest).filter(|(_, byte)| **byte != 0).map(|(row, _)| row));
}
