//! Decides whether a column of a segment is stored as dictionary codes, and makes the codes.
//!
//! The decision holds for the whole segment, so that a group-by on codes never sees a mixture.
//! Values are sorted, so codes sort in the order of values; code 0 is null.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, UInt32Array};

use crate::block::{self, Gathered, Order, Piece, Stats, Values};
use crate::encoding::dictionary::{
    Dictionary, DictionaryBuilder, DictionaryLimits, WordDictionary, WordDictionaryBuilder,
    WordOrder, content_hash,
};
use crate::encoding::{Encoding, Options, Profile, Word};
use crate::error::{ArrowResult, Result};
use crate::model::{DataType, Physical, WordWidth};

/// A dictionary of strings with this many rows per value is used without comparing sizes.
const SURE_ROWS_PER_VALUE: usize = 64;
/// A dictionary of words with fewer rows per value than this never pays.
const MIN_ROWS_PER_WORD: usize = 2;
/// A dictionary of words must take less than this share of the plain words, since these are already
/// fast to filter and group.
const WORD_SHARE: f64 = 0.95;
/// A dictionary of strings may take this share of the plain strings: filters and groups work on its
/// codes.
const STRING_SHARE: f64 = 1.1;
/// Below this many rows a dictionary of words costs more metadata than it saves, and one of strings
/// must be smaller.
const MIN_WORD_ROWS: usize = 4096;

/// A column as dictionary codes.
#[derive(Debug)]
pub(super) struct CodedColumn {
    /// One code for each row of the segment; 0 is null.
    pub(super) codes: Vec<u32>,
    values: SortedValues,
    /// XXH3-128 of the values.
    pub(super) hash: u128,
}

#[derive(Debug)]
enum SortedValues {
    Bytes(Dictionary),
    Words(Vec<u64>),
}

/// The codes of a column, or `None` if a dictionary does not pay; `blocks` are its rows cut into
/// blocks.
pub(super) fn try_dictionary(
    data_type: &DataType,
    blocks: &[Vec<Piece<'_>>],
    rows: usize,
    options: &Options,
) -> Result<Option<CodedColumn>> {
    let forced = options.force == Some(Encoding::Dictionary);
    if rows == 0 || (options.force.is_some() && !forced) {
        return Ok(None);
    }
    match (data_type.physical(), word_order(data_type.physical())) {
        (Physical::Bytes, _) => bytes(data_type, blocks, rows, options, forced),
        (physical, Some(order)) => words(data_type, physical, order, blocks, rows, options, forced),
        _ => Ok(None),
    }
}

fn word_order(physical: Physical) -> Option<WordOrder> {
    match physical {
        Physical::Word { width: WordWidth::W8, .. } => None,
        Physical::Word { signed: true, .. } => Some(WordOrder::Signed),
        Physical::Word { signed: false, .. } => Some(WordOrder::Unsigned),
        Physical::Float32 => Some(WordOrder::Float32),
        Physical::Float64 => Some(WordOrder::Float64),
        _ => None,
    }
}

fn bytes(
    data_type: &DataType,
    blocks: &[Vec<Piece<'_>>],
    rows: usize,
    options: &Options,
    forced: bool,
) -> Result<Option<CodedColumn>> {
    let mut builder = DictionaryBuilder::new(DictionaryLimits::default());
    let mut ids = Vec::with_capacity(rows);
    let mut known = KnownIds::default();
    for pieces in blocks {
        if !known.add(
            data_type,
            pieces,
            &mut |new, ids| insert_bytes(&mut builder, new, ids),
            &mut ids,
        )? {
            return Ok(None);
        }
        // If nearly all rows so far are distinct, others will be.
        if !forced && builder.len() > 1024 && builder.len() > ids.len() / 10 * 9 {
            return Ok(None);
        }
    }
    // If most rows are distinct, a dictionary only adds a second copy.
    if !forced && builder.len() > 1024 && builder.len() > ids.len() / 4 * 3 {
        return Ok(None);
    }
    if builder.is_empty() {
        return Ok(None); // only nulls
    }
    let sure = forced || builder.len() <= ids.len() / SURE_ROWS_PER_VALUE;
    let dictionary = builder.finish();
    let codes = remap(&ids, &dictionary.remap);
    let hash = dictionary.hash();
    let coded = CodedColumn { codes, values: SortedValues::Bytes(dictionary), hash };
    let keep = sure || coded.is_smaller(data_type, blocks, options, bytes_share(rows, options))?;
    Ok(keep.then_some(coded))
}

fn bytes_share(rows: usize, options: &Options) -> f64 {
    match options.profile {
        Profile::Fast | Profile::Balanced if rows >= MIN_WORD_ROWS => STRING_SHARE,
        _ => 1.0,
    }
}

/// Whether two arrays are the same values in memory; Arrow's kernels make new arrays of them.
fn is_same(a: &ArrayRef, b: &ArrayRef) -> bool {
    Arc::ptr_eq(a, b) || a.to_data().ptr_eq(&b.to_data())
}

/// The provisional ids of values. They start at 1, so that 0 stays null when ids are remapped.
fn insert_bytes(
    builder: &mut DictionaryBuilder,
    gathered: &Gathered<'_>,
    ids: &mut Vec<u32>,
) -> Option<()> {
    let Values::Bytes(values) = &gathered.values else { return None };
    for (i, value) in values.iter().enumerate() {
        ids.push(if gathered.is_valid(i) { builder.insert(value)? + 1 } else { 0 });
    }
    Some(())
}

/// The provisional ids of the values of a dictionary array. Rows that come as codes are not looked
/// up by their values: each value is, when the first row has it.
#[derive(Default)]
struct KnownIds {
    /// The dictionary of the last array.
    values: Option<ArrayRef>,
    /// The id of each of its values, once it has one.
    ids: Vec<Option<u32>>,
}

impl KnownIds {
    /// Appends the ids of some rows. `insert` appends the ids of values, 0 for null, and is `None`
    /// if there are too many; then so does this, by false.
    fn add(
        &mut self,
        data_type: &DataType,
        pieces: &[Piece<'_>],
        insert: &mut impl FnMut(&Gathered<'_>, &mut Vec<u32>) -> Option<()>,
        ids: &mut Vec<u32>,
    ) -> Result<bool> {
        for piece in pieces {
            let Some(coded) = block::coded(piece.array) else {
                if insert(&block::gather(data_type, &[*piece])?, ids).is_none() {
                    return Ok(false);
                }
                continue;
            };
            if self.values.as_ref().is_none_or(|known| !is_same(known, coded.values())) {
                self.ids = vec![None; coded.values().len()];
                self.values = Some(Arc::clone(coded.values()));
            }
            for key in coded.keys().iter().skip(piece.start).take(piece.len) {
                let Some(slot) = key.and_then(|key| self.ids.get_mut(key as usize)) else {
                    ids.push(0);
                    continue;
                };
                if let Some(id) = *slot {
                    ids.push(id);
                    continue;
                }
                let start = key.unwrap_or_default() as usize;
                let value = Piece { array: coded.values(), start, len: 1 };
                if insert(&block::gather(data_type, &[value])?, ids).is_none() {
                    return Ok(false);
                }
                *slot = ids.last().copied();
            }
        }
        Ok(true)
    }
}

fn remap(ids: &[u32], codes: &[u32]) -> Vec<u32> {
    ids.iter().map(|&id| if id == 0 { 0 } else { codes[id as usize - 1] }).collect()
}

fn words(
    data_type: &DataType,
    physical: Physical,
    order: WordOrder,
    blocks: &[Vec<Piece<'_>>],
    rows: usize,
    options: &Options,
    forced: bool,
) -> Result<Option<CodedColumn>> {
    let sample = block::gather(data_type, &blocks[blocks.len() / 2])?;
    if !forced && !words_may_pay(&sample, physical, order, rows, options)? {
        return Ok(None);
    }
    let most = if forced { rows } else { rows / MIN_ROWS_PER_WORD };
    let mut builder = WordDictionaryBuilder::new(most);
    let mut ids = Vec::with_capacity(rows);
    let mut insert = |gathered: &Gathered<'_>, ids: &mut Vec<u32>| {
        each_word(gathered, order, |word| match word {
            None => {
                ids.push(0);
                Some(())
            }
            Some(word) => builder.insert(word).map(|id| ids.push(id + 1)),
        })
    };
    let mut known = KnownIds::default();
    for pieces in blocks {
        if !known.add(data_type, pieces, &mut insert, &mut ids)? {
            return Ok(None);
        }
    }
    if builder.is_empty() {
        return Ok(None);
    }
    let WordDictionary { values, remap: codes } = builder.finish(order);
    let dictionary = WordDictionary { values, remap: Vec::new() };
    let hash = dictionary.hash();
    let values = SortedValues::Words(dictionary.values);
    let coded = CodedColumn { codes: remap(&ids, &codes), values, hash };
    let keep = forced || coded.is_smaller(data_type, blocks, options, WORD_SHARE)?;
    Ok(keep.then_some(coded))
}

/// A cheap test on one block: whether its codes, and its share of a dictionary that has no other
/// values, need fewer bits than its values under the light encodings.
fn words_may_pay(
    sample: &Gathered<'_>,
    physical: Physical,
    order: WordOrder,
    rows: usize,
    options: &Options,
) -> Result<bool> {
    if rows < MIN_WORD_ROWS {
        return Ok(false);
    }
    let mut builder = WordDictionaryBuilder::new(sample.rows / MIN_ROWS_PER_WORD);
    if each_word(sample, order, |word| {
        word.map_or(Some(()), |word| builder.insert(word).map(|_| ()))
    })
    .is_none()
    {
        return Ok(false);
    }
    let light = Options { heavy: false, profile: Profile::Balanced, ..*options };
    let direct = block::encode(sample, physical, &light)?.len() as f64;
    let bits = (builder.len() as f64 + 1.0).log2();
    let bytes = match physical {
        Physical::Word { width: WordWidth::W16, .. } => 2,
        Physical::Word { width: WordWidth::W32, .. } | Physical::Float32 => 4,
        _ => 8,
    };
    let values = builder.len() * bytes * sample.rows / rows;
    Ok(bits * sample.rows as f64 / 8.0 + values as f64 <= direct * WORD_SHARE)
}

/// Calls `each` with every row's word (signed ones sign-extended), `None` for null, until it
/// returns `None`.
fn each_word(
    gathered: &Gathered<'_>,
    order: WordOrder,
    mut each: impl FnMut(Option<u64>) -> Option<()>,
) -> Option<()> {
    let mut row = |i: usize, word: u64| each(gathered.is_valid(i).then_some(word));
    let signed = order == WordOrder::Signed;
    let extend = |zero: u64, sign: i64| if signed { sign as u64 } else { zero };
    match &gathered.values {
        Values::W16(v) => {
            v.iter().enumerate().try_for_each(|(i, &w)| row(i, extend(w.to_u64(), w.to_i64())))
        }
        Values::W32(v) => {
            v.iter().enumerate().try_for_each(|(i, &w)| row(i, extend(w.to_u64(), w.to_i64())))
        }
        Values::W64(v) => v.iter().enumerate().try_for_each(|(i, &w)| row(i, w)),
        Values::F32(v) => {
            v.iter().enumerate().try_for_each(|(i, w)| row(i, u64::from(w.to_bits())))
        }
        Values::F64(v) => v.iter().enumerate().try_for_each(|(i, w)| row(i, w.to_bits())),
        _ => None,
    }
}

impl CodedColumn {
    /// The number of distinct values.
    pub(super) fn distinct(&self) -> usize {
        match &self.values {
            SortedValues::Bytes(dictionary) => dictionary.len(),
            SortedValues::Words(values) => values.len(),
        }
    }

    /// The sorted values, ready to be encoded as a block.
    pub(super) fn values(&self, physical: Physical) -> Gathered<'_> {
        let values = match (&self.values, physical) {
            (SortedValues::Bytes(dictionary), _) => Values::Bytes(dictionary.values()),
            (SortedValues::Words(v), Physical::Word { width: WordWidth::W16, .. }) => {
                Values::W16(v.iter().map(|&w| w as u16).collect())
            }
            (SortedValues::Words(v), Physical::Word { width: WordWidth::W32, .. }) => {
                Values::W32(v.iter().map(|&w| w as u32).collect())
            }
            (SortedValues::Words(v), Physical::Float32) => {
                Values::F32(v.iter().map(|&w| f32::from_bits(w as u32)).collect())
            }
            (SortedValues::Words(v), Physical::Float64) => {
                Values::F64(v.iter().map(|&w| f64::from_bits(w)).collect())
            }
            (SortedValues::Words(v), _) => Values::W64(v.clone()),
        };
        Gathered { rows: self.distinct(), values, validity: None }
    }

    /// Whether codes and dictionary take at most `share` of the size of the plainly encoded values,
    /// extrapolated from the middle block.
    fn is_smaller(
        &self,
        data_type: &DataType,
        blocks: &[Vec<Piece<'_>>],
        options: &Options,
        share: f64,
    ) -> Result<bool> {
        let (middle, physical) = (blocks.len() / 2, data_type.physical());
        let start: usize = blocks[..middle].iter().flatten().map(|p| p.len).sum();
        let gathered = block::gather(data_type, &blocks[middle])?;
        let codes = &self.codes[start..start + gathered.rows];
        let direct = block::encode(&gathered, physical, options)?.len();
        let coded = block::encode_codes(codes, options).len();
        let values = block::encode(&self.values(physical), physical, options)?.len();
        let part = self.codes.len() as f64 / gathered.rows.max(1) as f64;
        Ok(coded as f64 * part + values as f64 <= direct as f64 * part * share)
    }

    /// Statistics of a block of strings from its codes alone, which sort in the order of values.
    pub(super) fn measure_bytes(&self, codes: &[u32]) -> Option<Stats> {
        let SortedValues::Bytes(dictionary) = &self.values else { return None };
        let values = |code: u32| dictionary.value(code);
        let nulls = codes.iter().filter(|&&c| c == 0).count();
        let mut stats = Stats { rows: codes.len() as u64, nulls: nulls as u64, ..Stats::default() };
        let max = codes.iter().copied().max().unwrap_or(0);
        if max == 0 {
            return Some(stats);
        }
        let min = codes.iter().copied().filter(|&c| c > 0).min().unwrap_or(max);
        stats.min = Some(block::stats::lower_bound(values(min)));
        stats.max = block::stats::upper_bound(values(max));
        stats.distinct = Some(u64::from(max - min + 1).min(stats.rows - stats.nulls));
        if nulls == 0 {
            stats.order = Order {
                ascending: codes.is_sorted(),
                descending: codes.is_sorted_by(|a, b| a >= b),
                strict: codes.windows(2).all(|w| w[0] != w[1]),
            };
        }
        Some(stats)
    }
}

/// Prepends null to a dictionary's values, so that code 0 is null.
pub(crate) fn with_null(values: &ArrayRef) -> Result<ArrayRef> {
    let codes: UInt32Array =
        std::iter::once(None).chain((0..values.len() as u32).map(Some)).collect();
    arrow_select::take::take(values, &codes, None).or_corrupt()
}

/// Whether a dictionary's values (without the null) are strictly ascending in the total order.
pub(super) fn is_sorted(values: &ArrayRef, data_type: &DataType) -> Result<bool> {
    let gathered =
        block::gather(data_type, &[Piece { array: values, start: 0, len: values.len() }])?;
    if gathered.nulls() > 0 {
        return Ok(false);
    }
    let order = block::measure(&gathered, data_type.physical()).order;
    // Statistics of booleans have no order; two of them must be false and true.
    let rises = match &gathered.values {
        Values::Null => gathered.rows == 0,
        Values::Bool(bits) => {
            bits.len() < 2 || (bits.len() == 2 && !bits.value(0) && bits.value(1))
        }
        _ => gathered.rows < 2 || (order.ascending && order.strict),
    };
    Ok(rises)
}

/// The content hash of a dictionary's values; `None` for types without dictionaries.
pub(super) fn hash(values: &ArrayRef, data_type: &DataType) -> Result<Option<u128>> {
    let gathered =
        block::gather(data_type, &[Piece { array: values, start: 0, len: values.len() }])?;
    if let Values::Bytes(values) = &gathered.values {
        return Ok(Some(content_hash(values)));
    }
    let Some(order) = word_order(data_type.physical()) else { return Ok(None) };
    let mut words = Vec::with_capacity(gathered.rows);
    let all = each_word(&gathered, order, |word| word.map(|word| words.push(word)));
    Ok(all.map(|()| WordDictionary { values: words, remap: Vec::new() }.hash()))
}
