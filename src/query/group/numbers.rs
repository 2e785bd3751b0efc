//! Numbers for the distinct keys of rows: of rows that come as Arrow arrays ([`GroupNumbers`]), and
//! of stored ones ([`SliceNumbers`]), by the codes that their keys have in a segment, where these
//! are few, so that each key is looked up once for a segment and not once for a row.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_row::{RowConverter, SortField};
use arrow_schema::DataType as ArrowType;

use super::coding::{CodedKey, CodesOfBlock};
use super::index::Index;
use super::key_column::{Bytes, KeyWord};
use super::keys::{Keys, of_words};
use super::mixed_radix::{DigitScratch, MixedRadix};
use crate::error::{ArrowResult, Error, Result};
use crate::expr::Expression;
use crate::model::{Column, DataType};
use crate::query::open::{OpenBlock, OpenSegment, Survivors};
use crate::query::slice::Slice;
use crate::query::words::{is_words, to_words};

/// The most codes of all keys together for which the numbers of groups are kept.
const MOST_CODES: u64 = 1 << 20;
/// The same by the rows of the segment: more codes than that are filled in for nothing.
const CODES_A_ROW: u64 = 4;

/// The code has no number yet, as far as is known.
const UNKNOWN: u32 = u32::MAX;
/// The code is about to have a number.
const PENDING: u32 = u32::MAX - 1;

/// Numbers distinct keys in the order of their first appearance. Values are the same if their bits
/// are, and null is a value: 0.0 and -0.0 are two.
#[derive(Debug)]
pub(crate) struct GroupNumbers {
    form: Form,
    /// The keys of all groups.
    known: Keys,
    index: Index,
    /// Those of the last rows.
    keys: Keys,
    hashes: Vec<u64>,
}

/// How keys are made of columns.
#[derive(Debug)]
enum Form {
    /// There are no columns, and one group.
    One,
    /// Packs integers of these widths in bits into one number, each after a bit for null.
    Packed(Vec<u32>),
    /// The bytes of all values.
    Rows(RowConverter),
}

impl GroupNumbers {
    pub(crate) fn new(types: &[ArrowType]) -> Result<Self> {
        let widths = types.iter().map(width).collect::<Option<Vec<u32>>>();
        let bits = widths.as_ref().map(|widths| widths.iter().map(|width| width + 1).sum::<u32>());
        let (form, bits) = match (widths, bits.filter(|bits| *bits <= u128::BITS)) {
            _ if types.is_empty() => (Form::One, None),
            (Some(widths), Some(bits)) => (Form::Packed(widths), Some(bits)),
            _ => {
                let fields = types.iter().cloned().map(SortField::new).collect();
                (Form::Rows(RowConverter::new(fields).or_unsupported()?), None)
            }
        };
        let (known, keys) = (Keys::of_bits(bits), Keys::of_bits(bits));
        Ok(GroupNumbers { form, known, index: Index::default(), keys, hashes: Vec::new() })
    }

    /// How many groups there are so far.
    pub(crate) fn len(&self) -> usize {
        match self.form {
            Form::One => 1,
            Form::Packed(_) | Form::Rows(_) => self.known.len(),
        }
    }

    pub(crate) fn memory(&self) -> usize {
        self.known.memory() + self.index.memory()
    }

    /// Appends the group number of each of `rows` rows with these keys to `numbers`.
    pub(crate) fn number(
        &mut self,
        columns: &[ArrayRef],
        rows: usize,
        numbers: &mut Vec<u32>,
    ) -> Result<()> {
        match &self.form {
            Form::One => {
                numbers.resize(numbers.len() + rows, 0);
                return Ok(());
            }
            Form::Packed(widths) => {
                of_words!(&mut self.keys, keys => pack(columns, widths, rows, keys))?;
            }
            Form::Rows(converter) => {
                self.keys.clear();
                let keys: &mut Bytes = (&mut self.keys).try_into()?;
                let converted = converter.convert_columns(columns).or_unsupported()?;
                converted.iter().for_each(|row| keys.push(row.as_ref()));
            }
        }
        self.keys.hashes(&mut self.hashes);
        self.known.find(&mut self.index, &self.keys, &self.hashes, numbers)
    }
}

/// The bits of an integer, a date, a time or a boolean; `None` of other types.
fn width(data_type: &ArrowType) -> Option<u32> {
    match data_type {
        ArrowType::Boolean => Some(1),
        other if is_words(other) || *other == ArrowType::UInt64 => {
            other.primitive_width().map(|bytes| bytes as u32 * 8)
        }
        _ => None,
    }
}

/// Replaces `keys` by the packed number of each row.
fn pack<W: KeyWord>(
    columns: &[ArrayRef],
    widths: &[u32],
    rows: usize,
    keys: &mut Vec<W>,
) -> Result<()> {
    keys.clear();
    keys.resize(rows, W::default());
    for (column, width) in columns.iter().zip(widths) {
        let words = to_words(column).ok_or_else(|| {
            Error::InvalidInput(format!("a key of {} where an integer was", column.data_type()))
        })?;
        let mask = u64::MAX >> (u64::BITS - width);
        let put = |key: &mut W, valid: u64, word: i64| {
            *key = (key.above(1) | W::from(valid)).above(*width) | W::from(word as u64 & mask);
        };
        match column.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => keys.iter_mut().zip(words.iter()).for_each(|(key, word)| put(key, 1, *word)),
            Some(valid) => {
                for ((key, word), valid) in keys.iter_mut().zip(words.iter()).zip(valid) {
                    put(key, u64::from(valid), if valid { *word } else { 0 });
                }
            }
        }
    }
    Ok(())
}

/// Numbers the groups of the rows of slices, the same in all segments, as [`GroupNumbers`] does.
#[derive(Debug)]
pub(crate) struct SliceNumbers {
    keys: Vec<Expression>,
    columns: Vec<Column>,
    numbers: GroupNumbers,
    /// Of the segment at hand, if its keys have codes.
    codes: Option<GroupsOfCodes>,
    /// Its number in the table.
    segment: Option<usize>,
}

impl SliceNumbers {
    /// Groups by some of the columns.
    pub(crate) fn new(keys: Vec<Expression>, columns: &[Column]) -> Result<Self> {
        let types: Vec<_> = keys.iter().map(|key| key.data_type.clone()).collect();
        let numbers = GroupNumbers::new(&types)?;
        Ok(SliceNumbers { keys, columns: columns.to_vec(), numbers, codes: None, segment: None })
    }

    /// How many groups there are so far.
    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }

    pub(crate) fn memory(&self) -> usize {
        let codes = self.codes.as_ref().map_or(0, |codes| codes.groups.capacity());
        self.numbers.memory() + codes * size_of::<u32>()
    }

    /// Goes on with the rows of a segment.
    pub(crate) fn enter(&mut self, segment: &Arc<OpenSegment>) -> Result<()> {
        if self.segment != Some(segment.number) {
            self.codes = GroupsOfCodes::new(&self.keys, &self.columns, segment)?;
            self.segment = Some(segment.number);
        }
        Ok(())
    }

    /// Forgets the codes of the segment at hand, if it was left in the middle of a slice.
    pub(crate) fn leave(&mut self) {
        (self.codes, self.segment) = (None, None);
    }

    /// Replaces `groups` by the number of the group of each selected row of a slice.
    pub(crate) fn number(&mut self, slice: &Slice<'_, '_>, groups: &mut Vec<u32>) -> Result<()> {
        groups.clear();
        if let Some(codes) = &mut self.codes {
            return codes.number(slice, &mut self.numbers, groups);
        }
        let columns = self.keys.iter().map(|key| slice.evaluate(key));
        self.numbers.number(&columns.collect::<Result<Vec<ArrayRef>>>()?, slice.len(), groups)
    }

    /// The groups that the rows of a block may have; `None` if one of them may be new, or not all
    /// are known.
    pub(crate) fn possible(&self, block: &OpenBlock<'_>) -> Result<Option<Vec<u32>>> {
        match (self.keys.as_slice(), &self.codes) {
            ([], _) => Ok(Some(vec![0])),
            ([key], Some(codes)) => codes.possible(key, block),
            _ => Ok(None),
        }
    }
}

/// The groups of the codes of one segment's keys.
#[derive(Debug)]
struct GroupsOfCodes {
    radix: MixedRadix,
    /// For each number that the codes make together.
    groups: Vec<u32>,
    /// How many of them have a group.
    known: usize,
    scratch: DigitScratch,
}

impl GroupsOfCodes {
    /// `None` if a key has no codes, or all together have too many.
    fn new(
        keys: &[Expression],
        columns: &[Column],
        segment: &Arc<OpenSegment>,
    ) -> Result<Option<Self>> {
        // The codes of floats do not tell zeros apart.
        let is_float =
            |column: &Column| matches!(column.data_type, DataType::Float32 | DataType::Float64);
        let of = |key: &Expression| key.as_column().and_then(|at| columns.get(at));
        if !keys.iter().all(|key| of(key).is_some_and(|column| !is_float(column))) {
            return Ok(None);
        }
        let alone = Survivors { segments: vec![Arc::clone(segment)], ..Survivors::default() };
        let coded = keys.iter().map(|key| CodedKey::new(key, columns, &alone, false));
        let Ok(radix) = MixedRadix::new(keys, coded.collect::<Result<Vec<_>>>()?) else {
            return Ok(None);
        };
        let most = MOST_CODES.min(segment.segment.rows().saturating_mul(CODES_A_ROW));
        if radix.product > most {
            return Ok(None);
        }
        let (groups, scratch) = (vec![UNKNOWN; radix.product as usize], DigitScratch::default());
        Ok(Some(GroupsOfCodes { radix, groups, known: 0, scratch }))
    }

    /// Appends the number of the group of each selected row to `out`, which is empty.
    fn number(
        &mut self,
        slice: &Slice<'_, '_>,
        numbers: &mut GroupNumbers,
        out: &mut Vec<u32>,
    ) -> Result<()> {
        let of_block = self.radix.of_block(slice.block)?;
        match of_block.constant() {
            Some(code) => out.resize(slice.len(), code as u32),
            None => of_block.numbers(slice, out, &mut self.scratch)?,
        }
        if self.known < self.groups.len() {
            self.name_new(numbers, out)?;
        }
        for code in out.iter_mut() {
            *code = self.groups.get(*code as usize).copied().unwrap_or(0);
        }
        Ok(())
    }

    /// Looks the groups up of those codes that come for the first time.
    fn name_new(&mut self, numbers: &mut GroupNumbers, codes: &[u32]) -> Result<()> {
        let mut new = Vec::new();
        for code in codes {
            if let Some(group) = self.groups.get_mut(*code as usize)
                && *group == UNKNOWN
            {
                *group = PENDING;
                new.push(u64::from(*code));
            }
        }
        if new.is_empty() {
            return Ok(());
        }
        let (keys, mut found) = (self.radix.keys(&new)?, Vec::with_capacity(new.len()));
        numbers.number(&keys, new.len(), &mut found)?;
        for (code, number) in new.iter().zip(found) {
            if let Some(group) = self.groups.get_mut(*code as usize) {
                *group = number;
            }
        }
        self.known += new.len();
        Ok(())
    }

    /// The groups that the rows of a block may have by the only key.
    fn possible(&self, key: &Expression, block: &OpenBlock<'_>) -> Result<Option<Vec<u32>>> {
        let mut codes: Vec<u64> = match self.radix.possible(block)? {
            Some(CodesOfBlock::Range(first, last)) if last < self.radix.product => {
                (first..=last).collect()
            }
            // That of null comes first.
            Some(CodesOfBlock::Dictionary(codes)) => {
                codes.iter().skip(1).map(|code| u64::from(*code)).collect()
            }
            _ => return Ok(None),
        };
        let stored = key.as_column().and_then(|at| block.stored(at));
        let stats = stored.and_then(|stored| stored.block_stats(block.at.block));
        if stats.is_none_or(|stats| stats.nulls > 0) {
            codes.extend(self.radix.last_null());
        }
        let group = |code: u64| {
            let group = self.groups.get(usize::try_from(code).ok()?).copied();
            group.filter(|group| *group < PENDING)
        };
        Ok(codes.into_iter().map(group).collect())
    }
}
