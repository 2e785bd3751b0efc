//! Numbers for texts: a text gets one when the first thread meets it, and is a key of 32 bits from
//! then on, beside the other keys of its row.
//!
//! Where a segment has a dictionary, its texts are looked up once for the segment and not for each
//! row, and only those that rows have; a function of a text is evaluated once for each. All texts
//! stay in memory: where they take more than their share of it, grouping starts again with keys of
//! bytes, which can be spilled (`grouping`).

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryViewArray};
use arrow_schema::DataType as ArrowType;

use super::index::Index;
use super::key_column::{Bytes, KeyColumn, hash_bytes};
use crate::block::{Reader, Stream};
use crate::encoding::strings::{Strings, StringsOut};
use crate::error::{ArrowResult, Error, Result};
use crate::expr::Expression;
use crate::query::context::Context;
use crate::query::memory::Reservation;
use crate::query::open::{OpenSegment, PerSegment, Survivors};
use crate::query::slice::Slice;
use crate::segment::{Column, with_null};

/// Bits of a number.
pub(super) const BITS: u32 = u32::BITS;
/// The number of null. Nothing has 0.
pub(super) const NULL: u32 = 1;
/// The least number of a text.
const FIRST: u32 = 2;
/// Where fewer than one row in so many is selected, texts are fetched one by one.
const MANY: usize = 4;
/// Threads that number texts rarely meet in one of so many tables, and many texts of a slice are in
/// each.
const SHARDS: usize = 16;
/// More numbers than texts, for few texts may be in few of the tables.
const SLACK: u64 = 1 << 10;

/// The bytes that the texts of a query may take in memory, and the numbers of dictionaries.
#[derive(Debug)]
pub(crate) struct TextBudget {
    most: usize,
    taken: AtomicUsize,
}

impl TextBudget {
    pub(crate) fn new(most: usize) -> Self {
        TextBudget { most, taken: AtomicUsize::new(0) }
    }

    /// Whether any texts take memory.
    pub(crate) fn is_used(&self) -> bool {
        self.taken.load(Ordering::Relaxed) > 0
    }

    fn take(&self, bytes: usize) -> Result<()> {
        if self.taken.fetch_add(bytes, Ordering::Relaxed) + bytes <= self.most {
            return Ok(());
        }
        Err(Error::LimitExceeded(format!("texts of keys take more than {} bytes", self.most)))
    }
}

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
        self.reservation.resize(budget.taken.load(Ordering::Relaxed) / self.threads)
    }
}

/// A key of texts, or of bytes, as numbers.
#[derive(Debug)]
pub(crate) struct TextKey {
    key: Expression,
    /// The number of each code of a segment's dictionary; 0 if no row had it yet.
    of_codes: PerSegment<Box<[AtomicU32]>>,
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
        is_text.then(|| TextKey {
            key: key.clone(),
            of_codes: PerSegment::new(survivors),
            texts: Texts::new(Arc::clone(budget)),
        })
    }

    /// How many texts have numbers.
    pub(super) fn len(&self) -> usize {
        let shards = self.texts.shards.iter();
        shards.map(|shard| read(shard).texts.len()).sum()
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
        let texts: u64 = survivors.segments.iter().map(most).sum();
        // Tables that numbers are dealt from are not filled quite alike.
        u64::from(FIRST) + texts + texts / 8 + SLACK
    }

    /// Appends the number of each selected row of a slice to `out`, which is empty.
    pub(super) fn write(&self, slice: &Slice<'_, '_>, out: &mut Vec<u64>) -> Result<()> {
        if let Some(at) = self.key.only_input()
            && let Some((codes, values)) = slice.text_codes(at)?
            && let Some(column) = slice.block.stored(at)
        {
            return self.write_codes(slice.block.at.segment, &codes, (column, values), out);
        }
        if let Some(at) = self.key.as_column()
            && slice.selected().is_none_or(|rows| rows.len() * MANY >= slice.range.len())
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
        segment: usize,
        codes: &[u32],
        (column, values): (&Column, usize),
        out: &mut Vec<u64>,
    ) -> Result<()> {
        let mut bytes = 0;
        let make = || {
            bytes = values * size_of::<AtomicU32>();
            (0..values).map(|_| AtomicU32::new(0)).collect()
        };
        let Some(known) = self.of_codes.get_or_init(segment, make) else { return Ok(()) };
        self.texts.budget.take(bytes)?;
        let number = |code: &u32| {
            u64::from(known.get(*code as usize).map_or(0, |number| number.load(Ordering::Relaxed)))
        };
        out.extend(codes.iter().map(number));
        let mut new: Vec<u32> =
            codes.iter().zip(&*out).filter(|(_, n)| **n == 0).map(|(code, _)| *code).collect();
        if new.is_empty() {
            return Ok(());
        }
        new.sort_unstable();
        new.dedup();
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
        out.clear();
        out.extend(codes.iter().map(number));
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

/// Distinct texts, numbered from [`FIRST`], in tables by the high bits of their hashes.
#[derive(Debug)]
struct Texts {
    shards: Vec<RwLock<Shard>>,
    budget: Arc<TextBudget>,
}

#[derive(Debug, Default)]
struct Shard {
    index: Index,
    texts: Bytes,
}

impl Texts {
    fn new(budget: Arc<TextBudget>) -> Self {
        Texts { shards: (0..SHARDS).map(|_| RwLock::default()).collect(), budget }
    }

    /// The number of each text of an array of views.
    fn numbers_of(&self, values: &ArrayRef) -> Result<Vec<u32>> {
        let texts: Vec<Option<&[u8]>> = match values.as_string_view_opt() {
            Some(texts) => texts.iter().map(|text| text.map(str::as_bytes)).collect(),
            None => {
                let bytes = values.as_binary_view_opt().ok_or_else(|| {
                    Error::InvalidInput(format!("a key of {} as texts", values.data_type()))
                })?;
                bytes.iter().collect()
            }
        };
        self.numbers(&texts)
    }

    /// The number of each text, or of null. Those of a table are looked up together.
    fn numbers(&self, texts: &[Option<&[u8]>]) -> Result<Vec<u32>> {
        let mut numbers = vec![NULL; texts.len()];
        let mut hashes = vec![0; texts.len()];
        let mut ends = [0; SHARDS];
        // What is the same as the text before it has its number.
        let is_new = |at: usize| at == 0 || texts[at] != texts[at - 1];
        for (at, text) in texts.iter().enumerate() {
            if let Some(text) = text.filter(|_| is_new(at)) {
                hashes[at] = hash_bytes(text);
                ends[shard_of(hashes[at])] += 1;
            }
        }
        let mut start = 0;
        for end in &mut ends {
            start += std::mem::replace(end, start);
        }
        let mut by_shard = vec![(0, &[][..]); start];
        for (at, text) in texts.iter().enumerate() {
            if let Some(text) = text.filter(|_| is_new(at)) {
                let next = &mut ends[shard_of(hashes[at])];
                by_shard[*next] = (at, text);
                *next += 1;
            }
        }
        let mut start = 0;
        let (mut guesses, mut ranges) = (Vec::new(), Vec::new());
        for (number, (shard, end)) in self.shards.iter().zip(ends).enumerate() {
            let some = &by_shard[std::mem::replace(&mut start, end)..end];
            if some.is_empty() {
                continue;
            }
            let mut shard = shard.write().unwrap_or_else(PoisonError::into_inner);
            let before = shard.memory();
            // Looked up one after the other, each would wait for memory three times; so all wait
            // together.
            guesses.clear();
            guesses.extend(some.iter().map(|(at, _)| shard.index.guess(hashes[*at])));
            ranges.clear();
            ranges.extend(guesses.iter().map(|guess| shard.texts.range(*guess as usize)));
            for (((at, text), guess), range) in some.iter().zip(&guesses).zip(&ranges) {
                let is_it = (*guess as usize) < shard.texts.len()
                    && shard.texts.bytes(range.clone()) == *text;
                let place = if is_it { *guess } else { shard.find(hashes[*at], text)? };
                numbers[*at] = FIRST + place * SHARDS as u32 + number as u32;
            }
            self.budget.take(shard.memory() - before)?;
        }
        for at in 1..texts.len() {
            if texts[at].is_some() && !is_new(at) {
                numbers[at] = numbers[at - 1];
            }
        }
        Ok(numbers)
    }

    /// The texts of numbers; null of those that are none.
    fn values(&self, numbers: impl Iterator<Item = u64>) -> BinaryViewArray {
        let shards: Vec<_> = self.shards.iter().map(read).collect();
        let text = |number: u64| {
            let number = number.checked_sub(u64::from(FIRST))? as usize;
            Some(shards.get(number % SHARDS)?.texts.get(number / SHARDS))
        };
        numbers.map(text).collect()
    }
}

fn read(shard: &RwLock<Shard>) -> RwLockReadGuard<'_, Shard> {
    shard.read().unwrap_or_else(PoisonError::into_inner)
}

fn shard_of(hash: u64) -> usize {
    (hash >> (u64::BITS - SHARDS.ilog2())) as usize
}

impl Shard {
    /// The place of a text, which is new if it was not there.
    #[inline(always)]
    fn find(&mut self, hash: u64, text: &[u8]) -> Result<u32> {
        let next = self.texts.len();
        if next >= (u32::MAX - FIRST) as usize / SHARDS {
            return Err(Error::LimitExceeded("more than 2³² different texts in a key".into()));
        }
        self.index.reserve(next + 1);
        let place = self
            .index
            .find_or_insert(hash, next as u32, |known| self.texts.get(known as usize) == text);
        if place as usize == next {
            self.texts.push(text);
        }
        Ok(place)
    }

    fn memory(&self) -> usize {
        self.index.memory() + self.texts.memory()
    }
}
