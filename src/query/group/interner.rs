//! Numbers for distinct values: of any type, by one thread, and of texts, by several.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryViewArray};
use arrow_row::{RowConverter, SortField};
use arrow_schema::DataType as ArrowType;

use super::index::Index;
use super::key_column::{Bytes, KeyColumn, hash_bytes};
use crate::error::{ArrowResult, Error, Result};
use crate::query::slice::take;
use crate::query::words::one_zero;

/// The number of null. Nothing has 0.
pub(super) const NULL: u32 = 1;
/// In place of the number of a text that is the one before it. Nothing has it.
const AS_BEFORE: u32 = 0;
/// The least number of a text.
pub(super) const FIRST: u32 = 2;
/// The number of hash tables of texts, each with its own lock. More would leave each too few texts
/// of a slice; with fewer, threads would wait for each other.
const SHARDS: usize = 16;

/// Numbers distinct values in the order of their first appearance.
pub(crate) struct Interner {
    converter: RowConverter,
    known: Bytes,
    index: Index,
    parts: Vec<ArrayRef>,
}

impl Interner {
    pub(crate) fn new(data_type: &ArrowType) -> Result<Self> {
        let converter = RowConverter::new(vec![SortField::new(data_type.clone())]);
        let converter = converter.or_unsupported()?;
        Ok(Interner {
            converter,
            known: Bytes::default(),
            index: Index::default(),
            parts: Vec::new(),
        })
    }

    /// How many values there are, null among them.
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    pub(crate) fn intern(&mut self, values: &ArrayRef) -> Result<Vec<u32>> {
        let values = &one_zero(values);
        let converted =
            self.converter.convert_columns(std::slice::from_ref(values)).or_invalid()?;
        let mut rows = Bytes::default();
        converted.iter().for_each(|row| rows.push(row.as_ref()));
        let (mut hashes, mut codes) = (Vec::new(), Vec::with_capacity(values.len()));
        rows.hashes(&mut hashes);
        let mut next = self.known.len() as u32;
        self.known.find(&mut self.index, &rows, &hashes, &mut codes)?;
        let mut new = Vec::new();
        for (at, code) in (0u32..).zip(&codes) {
            if *code == next {
                new.push(at);
                next += 1;
            }
        }
        if !new.is_empty() {
            self.parts.push(take(values, &new)?);
        }
        Ok(codes)
    }

    pub(crate) fn values(&self) -> Result<ArrayRef> {
        let parts: Vec<&dyn Array> = self.parts.iter().map(|part| &**part).collect();
        arrow_select::concat::concat(&parts).or_invalid()
    }
}

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
        self.bytes() > 0
    }

    /// Bytes that are taken.
    pub(super) fn bytes(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Takes more; an error if they are too many.
    pub(super) fn take(&self, bytes: usize) -> Result<()> {
        if self.taken.fetch_add(bytes, Ordering::Relaxed) + bytes <= self.most {
            return Ok(());
        }
        Err(Error::LimitExceeded(format!("texts of keys take more than {} bytes", self.most)))
    }
}

/// Distinct texts, numbered from [`FIRST`], in tables by the high bits of their hashes.
#[derive(Debug)]
pub(super) struct Texts {
    shards: Vec<RwLock<Shard>>,
    budget: Arc<TextBudget>,
}

#[derive(Debug, Default)]
struct Shard {
    index: Index,
    texts: Arena,
}

/// Texts in chunks of memory that never move: one run of all texts would be copied, and take fresh
/// memory, each time that it has doubled.
#[derive(Debug, Default)]
struct Arena {
    chunks: Vec<Vec<u8>>,
    places: Vec<Place>,
    /// Bytes of all chunks.
    capacity: usize,
}

/// Where a text is.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    chunk: u32,
    start: u32,
    len: u32,
}

/// Bytes of the smallest and of the largest chunk, but for longer texts.
const CHUNK: (usize, usize) = (1 << 12, 1 << 18);

impl Arena {
    fn len(&self) -> usize {
        self.places.len()
    }

    fn memory(&self) -> usize {
        self.capacity + self.places.capacity() * size_of::<Place>()
    }

    /// Where a text is; nowhere if there is none.
    #[inline(always)]
    fn place(&self, at: usize) -> Place {
        self.places.get(at).copied().unwrap_or_default()
    }

    #[inline(always)]
    fn bytes(&self, place: Place) -> &[u8] {
        let chunk = self.chunks.get(place.chunk as usize).map_or(&[][..], Vec::as_slice);
        chunk
            .get(place.start as usize..)
            .and_then(|rest| rest.get(..place.len as usize))
            .unwrap_or_default()
    }

    #[inline(always)]
    fn get(&self, at: usize) -> &[u8] {
        self.bytes(self.place(at))
    }

    fn push(&mut self, text: &[u8]) -> Result<()> {
        let len = u32::try_from(text.len())
            .map_err(|_| Error::LimitExceeded("a key of more than 4 GiB".into()))?;
        let fits = |chunk: &&mut Vec<u8>| chunk.capacity() - chunk.len() >= text.len();
        let chunk = match self.chunks.last_mut().filter(fits) {
            Some(chunk) => chunk,
            None => {
                let bytes = self.capacity.clamp(CHUNK.0, CHUNK.1).max(text.len());
                self.capacity += bytes;
                self.chunks.push(Vec::with_capacity(bytes));
                let last = self.chunks.len() - 1;
                &mut self.chunks[last]
            }
        };
        let start = chunk.len() as u32;
        chunk.extend_from_slice(text);
        self.places.push(Place { chunk: self.chunks.len() as u32 - 1, start, len });
        Ok(())
    }
}

impl Texts {
    pub(super) fn new(budget: Arc<TextBudget>) -> Self {
        Texts { shards: (0..SHARDS).map(|_| RwLock::default()).collect(), budget }
    }

    pub(super) fn budget(&self) -> &TextBudget {
        &self.budget
    }

    /// How many texts there are.
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| read(shard).texts.len()).sum()
    }

    /// The number of each text of an array of views.
    pub(super) fn numbers_of(&self, values: &ArrayRef) -> Result<Vec<u32>> {
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
    pub(super) fn numbers(&self, texts: &[Option<&[u8]>]) -> Result<Vec<u32>> {
        let mut numbers = vec![NULL; texts.len()];
        let mut hashes = vec![0; texts.len()];
        let mut counts = [0; SHARDS];
        let mut last = None;
        for (at, text) in texts.iter().enumerate() {
            let Some(text) = text else { continue };
            // What is the same as the text before it has its number.
            if last == Some(*text) {
                numbers[at] = AS_BEFORE;
                continue;
            }
            last = Some(*text);
            hashes[at] = hash_bytes(text);
            counts[shard_of(hashes[at])] += 1;
        }
        let mut ends = [0; SHARDS];
        let mut all = 0;
        for (end, count) in ends.iter_mut().zip(counts) {
            *end = all;
            all += count;
        }
        let mut by_shard = vec![(0, &[][..]); all];
        for (at, text) in texts.iter().enumerate() {
            if let Some(text) = text.filter(|_| numbers[at] != AS_BEFORE) {
                let next = &mut ends[shard_of(hashes[at])];
                by_shard[*next] = (at, text);
                *next += 1;
            }
        }
        let (mut guesses, mut places) = (Vec::new(), Vec::new());
        // Threads begin with different tables.
        let first = by_shard.first().map_or(0, |(at, _)| hashes[*at] as usize);
        for number in (first % SHARDS..first % SHARDS + SHARDS).map(|number| number % SHARDS) {
            let some = &by_shard[ends[number] - counts[number]..ends[number]];
            if some.is_empty() {
                continue;
            }
            let mut shard = self.shards[number].write().unwrap_or_else(PoisonError::into_inner);
            let before = shard.memory();
            // Looked up one after the other, each would wait for memory three times; so all wait
            // together.
            guesses.clear();
            guesses.extend(some.iter().map(|(at, _)| shard.index.guess(hashes[*at])));
            places.clear();
            places.extend(guesses.iter().map(|guess| shard.texts.place(*guess as usize)));
            for (((at, text), guess), place) in some.iter().zip(&guesses).zip(&places) {
                let is_it =
                    (*guess as usize) < shard.texts.len() && shard.texts.bytes(*place) == *text;
                let place = if is_it { *guess } else { shard.find(hashes[*at], text)? };
                numbers[*at] = FIRST + place * SHARDS as u32 + number as u32;
            }
            self.budget.take(shard.memory() - before)?;
        }
        let mut last = NULL;
        for number in numbers.iter_mut().filter(|number| **number != NULL) {
            if *number == AS_BEFORE {
                *number = last;
            }
            last = *number;
        }
        Ok(numbers)
    }

    /// The texts of numbers; null of those that are none.
    pub(super) fn values(&self, numbers: impl Iterator<Item = u64>) -> BinaryViewArray {
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
            self.texts.push(text)?;
        }
        Ok(place)
    }

    fn memory(&self) -> usize {
        self.index.memory() + self.texts.memory()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_one_number_each_however_many_there_are() {
        let texts = Texts::new(Arc::new(TextBudget::new(1 << 30)));
        let all: Vec<String> =
            (0..40_000u32).map(|at| format!("{at}-").repeat(at as usize % 30)).collect();
        let long = "x".repeat(1 << 20);
        let all: Vec<Option<&[u8]>> = all
            .iter()
            .map(|text| Some(text.as_bytes()))
            .chain([None, Some(long.as_bytes())])
            .collect();
        let numbers = texts.numbers(&all).unwrap();
        assert_eq!(numbers[40_000], NULL);
        // The other way round, and one by one, they are the same.
        let mut backwards = all.clone();
        backwards.reverse();
        let mut again = texts.numbers(&backwards).unwrap();
        again.reverse();
        assert_eq!(numbers, again);
        assert_eq!(texts.numbers(&all[7..8]).unwrap(), numbers[7..8]);
        let empty = all.iter().filter(|text| text.is_some_and(<[u8]>::is_empty)).count();
        assert_eq!(texts.len(), 40_001 - (empty - 1));
        let values = texts.values(numbers.iter().map(|number| u64::from(*number)));
        assert!(values.iter().eq(all.iter().copied()));
    }

    #[test]
    fn more_texts_than_the_budget_are_an_error() {
        let texts = Texts::new(Arc::new(TextBudget::new(1 << 16)));
        let long = vec![b'x'; 1 << 17];
        assert!(matches!(texts.numbers(&[Some(&long)]), Err(Error::LimitExceeded(_))));
    }
}
