//! Numbers for texts: a text gets one when the first thread meets it, and is a key of 32 bits from
//! then on, beside the other keys of its row.
//!
//! Where a segment has a dictionary, its texts are looked up once for the segment and not for each
//! row, and a function of a text is evaluated once for each. Where most of them are needed, all get
//! their numbers in the order of the dictionary, from the threads that come along; else only those
//! that rows have. Where texts with numbers are counted (`sets`), only those of selected rows get
//! one. All texts stay in memory: where they take more than their share of it, grouping starts
//! again with keys of bytes, which can be spilled (`grouping`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType as ArrowType;

use super::interner::{FIRST, TextBudget, Texts};
use crate::block::{Reader, Stream};
use crate::encoding::strings::{Strings, StringsOut};
use crate::error::{ArrowResult, Error, Result};
use crate::expr::Expression;
use crate::query::context::Context;
use crate::query::memory::Reservation;
use crate::query::open::{OpenBlock, OpenSegment, PerSegment, Survivors};
use crate::query::slice::Slice;
use crate::segment::{Column, with_null};

/// Bits of a number.
pub(super) const BITS: u32 = u32::BITS;
/// Codes of a dictionary whose texts get numbers together.
const AHEAD: usize = 1 << 14;
/// More numbers than texts, for few texts may be in few of the tables.
const SLACK: u64 = 1 << 10;

/// What one of several threads reserves for the texts of all.
pub(crate) struct TextShare<'a> {
    budget: Option<Arc<TextBudget>>,
    threads: usize,
    pub(super) reservation: Reservation<'a>,
}

impl<'a> TextShare<'a> {
    pub(super) fn new(budget: Option<&Arc<TextBudget>>, context: &'a Context<'a>) -> Self {
        let threads = context.pool.current_num_threads().max(1);
        TextShare { budget: budget.cloned(), threads, reservation: Reservation::new(context) }
    }

    /// Reserves what the texts take by now.
    pub(super) fn account(&mut self) -> Result<()> {
        let Some(budget) = &self.budget else { return Ok(()) };
        self.reservation.resize(budget.bytes() / self.threads)
    }
}

/// Numbers of the codes of a segment's dictionary.
#[derive(Debug)]
struct OfCodes {
    /// The number of each code; 0 as long as nobody has asked for it.
    numbers: Box<[AtomicU32]>,
    /// The first code that no thread has begun with to give numbers to all. Null is left to rows.
    next: AtomicUsize,
}

/// A key of texts, or of bytes, as numbers.
#[derive(Debug)]
pub(crate) struct TextKey {
    key: Expression,
    /// Rows of each segment in the blocks that survive.
    rows: Vec<u64>,
    /// Only texts of selected rows may have numbers: how many have, is the answer.
    only_selected: AtomicBool,
    of_codes: PerSegment<OfCodes>,
    texts: Texts,
}

impl TextKey {
    /// `None` for a key of another type.
    pub(super) fn new(
        key: &Expression,
        survivors: &Survivors,
        budget: &Arc<TextBudget>,
    ) -> Option<TextKey> {
        let is_text = matches!(key.data_type, ArrowType::Utf8View | ArrowType::BinaryView);
        let mut rows = vec![0; survivors.segments.len()];
        for at in survivors.blocks.iter().filter(|_| is_text) {
            if let (Some(rows), Some(open)) =
                (rows.get_mut(at.segment), survivors.segments.get(at.segment))
            {
                let range = open.segment.block_range(at.block);
                *rows += range.end - range.start;
            }
        }
        is_text.then(|| TextKey {
            key: key.clone(),
            rows,
            only_selected: AtomicBool::new(false),
            of_codes: PerSegment::new(survivors),
            texts: Texts::new(Arc::clone(budget)),
        })
    }

    /// Gives numbers to no texts but those of selected rows, so that these can be counted.
    pub(super) fn number_only_selected(&self) {
        self.only_selected.store(true, Ordering::Relaxed);
    }

    /// How many texts have numbers.
    pub(super) fn len(&self) -> usize {
        self.texts.len()
    }

    /// About how many numbers there are at most: each value of a dictionary may have one, and each
    /// row beside such.
    pub(super) fn most(&self, survivors: &Survivors) -> u64 {
        let most = |open: &OpenSegment| {
            let rows = open.segment.rows();
            let column = self.key.only_input().and_then(|at| open.columns.get(at)?.as_deref());
            let dictionary = column.and_then(|column| column.record().dictionary);
            dictionary.map_or(rows, |dictionary| rows.min(u64::from(dictionary.values)))
        };
        let texts: u64 = survivors.segments.iter().map(|open| most(open)).sum();
        // Tables that numbers are dealt from are not filled quite alike.
        u64::from(FIRST) + texts + texts / 8 + SLACK
    }

    /// Gives numbers to all texts of the dictionary of a block's segment, or leaves that to other
    /// threads that are at it; false if it has none.
    pub(super) fn number_dictionary(&self, block: &OpenBlock<'_>) -> Result<bool> {
        let column = self.key.as_column().and_then(|at| block.stored(at));
        let Some(column) = column else { return Ok(false) };
        let Some(dictionary) = column.record().dictionary else { return Ok(false) };
        let Some(known) = self.of_codes(block.at.segment, dictionary.values as usize + 1)? else {
            return Ok(false);
        };
        self.number_ahead(known, column)?;
        Ok(true)
    }

    /// The numbers of a segment's codes. The first caller takes the memory for `values` of them.
    fn of_codes(&self, segment: usize, values: usize) -> Result<Option<&OfCodes>> {
        let mut bytes = 0;
        let make = || {
            bytes = values * size_of::<AtomicU32>();
            let numbers = (0..values).map(|_| AtomicU32::new(0)).collect();
            OfCodes { numbers, next: AtomicUsize::new(1) }
        };
        let known = self.of_codes.get_or_init(segment, make);
        self.texts.budget().take(bytes)?;
        Ok(known)
    }

    /// Gives numbers to texts of a dictionary that no thread has begun with. In their order they
    /// are read several times as fast as in that of rows. Where a function fails, perhaps for a
    /// text that no selected row has, the texts of rows are left to these.
    fn number_ahead(&self, known: &OfCodes, column: &Column) -> Result<()> {
        let all = known.numbers.len();
        if known.next.load(Ordering::Relaxed) >= all {
            return Ok(());
        }
        let dictionary = column.dictionary()?.ok_or_else(without_dictionary_error)?;
        loop {
            let start = known.next.fetch_add(AHEAD, Ordering::Relaxed);
            let Some(numbers) = known.numbers.get(start..) else { return Ok(()) };
            let rows = AHEAD.min(dictionary.len().saturating_sub(start));
            if rows == 0 {
                return Ok(());
            }
            let mut texts = dictionary.slice(start, rows);
            if self.key.function.is_some() {
                let Ok(made) = self.key.evaluate(&[texts], rows) else {
                    known.next.store(all, Ordering::Relaxed);
                    return Ok(());
                };
                texts = made;
            }
            for (known, number) in numbers.iter().zip(self.texts.numbers_of(&texts)?) {
                known.store(number, Ordering::Relaxed);
            }
        }
    }

    /// Appends the number of each selected row of a slice to `out`, which is empty.
    pub(super) fn write(&self, slice: &Slice<'_, '_>, out: &mut Vec<u64>) -> Result<()> {
        if let Some(at) = self.key.only_input()
            && let Some((codes, values)) = slice.text_codes(at)?
            && let Some(column) = slice.block.stored(at)
        {
            return self.write_codes(slice, &codes, (column, values), out);
        }
        if let Some(at) = self.key.as_column()
            && slice.selects_many()
            && let Some(block) = slice.block.column(at)?
            && let Stream::Bytes(stored) = block.reader().stream()
        {
            return self.write_stored(stored, block.reader(), slice, out);
        }
        let numbers = self.texts.numbers_of(&slice.evaluate(&self.key)?)?;
        out.extend(numbers.into_iter().map(u64::from));
        Ok(())
    }

    /// The same of a stored column without a dictionary, whose texts are not made into an array.
    fn write_stored(
        &self,
        stored: &Strings<'_>,
        reader: &Reader<'_>,
        slice: &Slice<'_, '_>,
        out: &mut Vec<u64>,
    ) -> Result<()> {
        let mut decoded = StringsOut::new();
        decoded.charge_to(reader.budget())?;
        stored.decode(slice.range.clone(), &mut decoded)?;
        let texts: Vec<Option<&[u8]>> = match slice.selected() {
            None => decoded.iter().map(Some).collect(),
            Some(rows) => rows.iter().map(|row| Some(decoded.value(*row as usize))).collect(),
        };
        let mut valid = vec![1u8; slice.range.len()];
        reader.validity().blank(&mut valid, slice.range.clone())?;
        let valid = |at: usize| {
            let row =
                slice.selected().map_or(Some(at), |rows| rows.get(at).map(|row| *row as usize));
            row.and_then(|row| valid.get(row)).is_some_and(|valid| *valid == 1)
        };
        let texts: Vec<Option<&[u8]>> =
            texts.into_iter().enumerate().map(|(at, text)| text.filter(|_| valid(at))).collect();
        out.extend(self.texts.numbers(&texts)?.into_iter().map(u64::from));
        Ok(())
    }

    /// The same for rows that have these codes of a segment's dictionary, each of which it has.
    fn write_codes(
        &self,
        slice: &Slice<'_, '_>,
        codes: &[u32],
        (column, values): (&Column, usize),
        out: &mut Vec<u64>,
    ) -> Result<()> {
        let at = slice.block.at.segment;
        let Some(known) = self.of_codes(at, values)? else { return Ok(()) };
        // Of as many rows as there are values, most have one of their own.
        let rows = self.rows.get(at).copied().unwrap_or(0);
        let are_needed = codes.len() as u64 * rows >= (values * slice.range.len()) as u64;
        if are_needed && !self.only_selected.load(Ordering::Relaxed) {
            self.number_ahead(known, column)?;
        }
        let known = &known.numbers;
        let number = |code: &u32| {
            u64::from(known.get(*code as usize).map_or(0, |number| number.load(Ordering::Relaxed)))
        };
        out.extend(codes.iter().map(number));
        if !out.contains(&0) {
            return Ok(());
        }
        let new = without_number(codes, out, values);
        let has_null = new.first() == Some(&0);
        let values =
            column.dictionary_values(new.get(usize::from(has_null)..).unwrap_or_default())?;
        let values = match has_null {
            true => with_null(&values)?,
            false => values,
        };
        let values = match self.key.function {
            None => values,
            Some(_) => self.key.evaluate(&[values], new.len())?,
        };
        for (code, number) in new.iter().zip(self.texts.numbers_of(&values)?) {
            if let Some(known) = known.get(*code as usize) {
                known.store(number, Ordering::Relaxed);
            }
        }
        for (code, number_of_row) in codes.iter().zip(out).filter(|(_, known)| **known == 0) {
            *number_of_row = number(code);
        }
        Ok(())
    }

    /// The values of numbers.
    pub(super) fn values(&self, numbers: impl Iterator<Item = u64>) -> Result<ArrayRef> {
        let values = self.texts.values(numbers);
        if self.key.data_type == ArrowType::BinaryView {
            return Ok(Arc::new(values));
        }
        Ok(Arc::new(values.to_string_view().or_corrupt()?))
    }
}

/// The codes, rising, of rows whose number is 0; all are below `values`.
fn without_number(codes: &[u32], numbers: &[u64], values: usize) -> Vec<u32> {
    let mut are_new = vec![0u64; values.div_ceil(64)];
    for (code, _) in codes.iter().zip(numbers).filter(|(_, number)| **number == 0) {
        if let Some(word) = are_new.get_mut(*code as usize / 64) {
            *word |= 1 << (code % 64);
        }
    }
    let mut new = Vec::new();
    for (start, mut word) in (0u32..).step_by(64).zip(are_new) {
        while word != 0 {
            new.push(start + word.trailing_zeros());
            word &= word - 1;
        }
    }
    new
}

fn without_dictionary_error() -> Error {
    Error::corrupt(0, "codes of a column without a dictionary")
}
