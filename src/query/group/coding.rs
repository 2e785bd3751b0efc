//! Codes of a key: small numbers for its values, the same in all segments, without a look at every row.
//!
//! * a column with a dictionary: the place in the union of the dictionaries;
//! * whole numbers, dates, times, booleans: the distance from the minimum that zone maps give;
//! * an expression over one such column of few values: it is evaluated once for each of them;
//! * an expression that keeps order: the distance from its value at the minimum; a block in which it has one value
//!   (the year of a day's rows) is not decoded at all.
//!
//! Where a key may be null, code 0 is null.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, new_null_array};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_row::{RowConverter, SortField};
use arrow_schema::DataType as ArrowType;

use super::code_map;
use crate::block::{Stats, Stream, Validity};
use crate::encoding::bools::Bools;
use crate::encoding::{Ints, Word};
use crate::error::{Error, Result};
use crate::expr::Expression;
use crate::model::{Column, DataType, Physical, Scalar};
use crate::query::scan::{Memo, OpenBlock, Slice, Survivors, take};
use crate::query::words::{blank, from_words, is_words, one_zero, to_words};
use crate::segment;

/// An expression is evaluated in advance for at most this many values of its column.
const MAX_MAPPED: u64 = 1 << 16;
/// Dictionaries are united up to this many values in all.
const MAX_UNITED: u64 = 1 << 20;

/// How a key is coded.
#[derive(Debug)]
pub(crate) enum Coding {
    /// One value for all rows.
    Constant(ArrayRef),
    /// A stored column.
    Column(CodedColumn),
    /// An expression over a coded column: its code for each code of the column.
    Mapped {
        source: CodedColumn,
        codes: Vec<u32>,
        /// The value of each code.
        values: ArrayRef,
    },
    /// An expression that keeps order, of whole numbers: the distance from its least value.
    Ranged { expression: Expression, input: usize, low: i64, nulls: bool, domain: u64 },
}

/// A stored column under codes.
#[derive(Debug)]
pub(crate) struct CodedColumn {
    at: usize,
    data_type: ArrowType,
    /// Whether code 0 is null.
    nulls: bool,
    domain: u64,
    meaning: Meaning,
    /// For each segment with a dictionary: the code of each of its codes.
    maps: Vec<Option<Arc<[u32]>>>,
}

#[derive(Debug)]
enum Meaning {
    /// The least value, sign-extended; the codes count up from it.
    From(i64),
    /// The value of each code.
    Values(ArrayRef),
}

impl Coding {
    /// How to code `key` over what is to be read; `None` if there is no small code.
    pub(crate) fn of(key: &Expression, columns: &[Column], survivors: &Survivors) -> Result<Option<Coding>> {
        if key.inputs.is_empty() {
            return Ok(Some(Coding::Constant(one_zero(&key.evaluate(&[], 1)?))));
        }
        let Some(at) = key.only_input() else { return Ok(None) };
        let Some(column) = columns.get(at) else { return Ok(None) };
        let coded = CodedColumn::of(at, column, survivors)?;
        if key.function.is_none() {
            return Ok(coded.map(Coding::Column));
        }
        let rows: u64 = survivors.segments.iter().map(|s| s.segment.rows()).sum();
        if let Some(source) = coded
            && source.domain <= MAX_MAPPED.min(rows / 4)
            && let Some(mapped) = mapped(key, source)?
        {
            return Ok(Some(mapped));
        }
        ranged(key, at, column, survivors)
    }

    /// How many codes there may be.
    pub(crate) fn domain(&self) -> u64 {
        match self {
            Coding::Constant(_) => 1,
            Coding::Column(column) => column.domain,
            Coding::Mapped { values, .. } => values.len() as u64,
            Coding::Ranged { domain, .. } => *domain,
        }
    }

    /// The values of codes.
    pub(crate) fn values(&self, codes: &[u64], data_type: &ArrowType) -> Result<ArrayRef> {
        match self {
            Coding::Constant(value) => take(value, &vec![0; codes.len()]),
            Coding::Column(column) => column.values(codes),
            Coding::Mapped { values, .. } => take(values, &narrow(codes)),
            Coding::Ranged { low, nulls, expression, .. } => {
                let words = from_codes(codes, *low, *nulls);
                let null = *nulls && codes.contains(&0);
                let nulls = null.then(|| NullBuffer::from_iter(codes.iter().map(|c| *c != 0)));
                match expression.data_type {
                    ArrowType::Float64 => {
                        let floats: ScalarBuffer<f64> = words.iter().map(|w| *w as f64).collect();
                        Ok(Arc::new(arrow_array::Float64Array::new(floats, nulls)))
                    }
                    _ => from_words(words, nulls, data_type),
                }
            }
        }
    }

    /// The code of all rows of a block, if it shows without a look at them that they have the same.
    pub(crate) fn constant(&self, block: &OpenBlock<'_>) -> Result<Option<u64>> {
        let code = match self {
            Coding::Constant(_) => Some(0),
            Coding::Column(column) => column.constant(block)?,
            Coding::Mapped { source, codes, .. } => {
                let code = source.constant(block)?.and_then(|code| usize::try_from(code).ok());
                code.and_then(|code| codes.get(code)).map(|code| u64::from(*code))
            }
            Coding::Ranged { expression, input, low, nulls, .. } => {
                folded(expression, *input, low.wrapping_sub(i64::from(*nulls)), block)
            }
        };
        match code {
            Some(code) if code >= self.domain() => Err(outside()),
            code => Ok(code),
        }
    }

    /// The code of each digit that [`Coding::write_digits`] writes for rows of a block; `None` if these are codes already.
    pub(crate) fn table(&self, block: &OpenBlock<'_>) -> Result<Option<Cow<'_, [u32]>>> {
        Ok(match self {
            Coding::Column(column) => column.map_of(block)?.map(Cow::Borrowed),
            Coding::Mapped { source, codes, .. } => Some(match source.map_of(block)? {
                None => Cow::Borrowed(codes.as_slice()),
                Some(map) => {
                    let code = |place: &u32| codes.get(*place as usize).copied().ok_or_else(unknown);
                    Cow::Owned(map.iter().map(code).collect::<Result<_>>()?)
                }
            }),
            _ => None,
        })
    }

    /// Appends the digits of a slice's rows to `out`, which is empty: `raw` ones are to be looked up in the table.
    pub(crate) fn write_digits(&self, raw: bool, slice: &Slice<'_, '_>, out: &mut Vec<u8>) -> Result<()> {
        match self {
            Coding::Column(column) | Coding::Mapped { source: column, .. } if raw => {
                column.write_raw(slice, out)?;
                compact(out, slice);
                Ok(())
            }
            _ => self.write(slice, out),
        }
    }

    /// Appends the codes of a slice's rows, selected or not, to `out`, which is empty. Each is below the domain.
    pub(crate) fn write<T: Word>(&self, slice: &Slice<'_, '_>, out: &mut Vec<T>) -> Result<()> {
        let rows = slice.range.len();
        match self {
            Coding::Constant(_) => out.resize(slice.len(), T::default()),
            Coding::Column(column) => {
                column.write(slice.block, slice.range.clone(), out)?;
                compact(out, slice);
            }
            Coding::Mapped { source, codes, .. } => {
                let mut raw: Vec<u16> = Vec::with_capacity(rows);
                source.write(slice.block, slice.range.clone(), &mut raw)?;
                compact(&mut raw, slice);
                let code =
                    |c: &u16| codes.get(usize::from(*c)).map_or(T::default(), |c| T::from_u64(u64::from(*c)));
                out.extend(raw.iter().map(code));
            }
            Coding::Ranged { expression, input, low, nulls, domain } => {
                let bias = low.wrapping_sub(i64::from(*nulls));
                if code_map::write(expression, *input, bias, slice, out)? {
                    compact(out, slice);
                    return within(out, *domain);
                }
                let array = slice.evaluate(expression)?;
                let words = words_of(&array).ok_or_else(|| Error::InvalidInput("a key without words".into()))?;
                out.extend(words.iter().map(|w| T::from_u64(w.wrapping_sub(bias) as u64)));
                blank(out, array.nulls());
                // The truncated code can look right where the true one is not.
                let most = (*domain - 1) as i64;
                let is_outside = |w: &i64| !(0..=most).contains(&w.wrapping_sub(bias));
                let bad = match array.nulls() {
                    None => words.iter().any(is_outside),
                    Some(valid) => words.iter().zip(valid).any(|(w, valid)| valid && is_outside(w)),
                };
                if bad {
                    return Err(outside());
                }
            }
        }
        within(out, self.domain())
    }
}

/// Makes the codes of null rows 0.
pub(super) fn blank_unset<T: Word>(codes: &mut [T], valid: &Bools<'_>, rows: Range<usize>) -> Result<()> {
    valid.each_unset(rows, |unset| {
        if let Some(codes) = codes.get_mut(unset) {
            codes.fill(T::default());
        }
    })
}

/// Keeps what is selected.
fn compact<T: Word>(codes: &mut Vec<T>, slice: &Slice<'_, '_>) {
    let Some(selected) = &slice.selected else { return };
    for (to, from) in selected.iter().enumerate() {
        codes[to] = codes[*from as usize];
    }
    codes.truncate(selected.len());
}

/// Damaged or mistaken zone maps must not lead outside of the groups.
fn within<T: Word>(codes: &[T], domain: u64) -> Result<()> {
    let greatest = codes.iter().fold(T::default(), |most, code| most.max(*code));
    if Word::to_u64(greatest) < domain || codes.is_empty() {
        return Ok(());
    }
    Err(outside())
}

fn outside() -> Error {
    Error::corrupt(0, "a value lies outside the bounds of its zone map")
}

fn from_codes(codes: &[u64], low: i64, nulls: bool) -> Vec<i64> {
    let bias = low.wrapping_sub(i64::from(nulls));
    codes.iter().map(|code| bias.wrapping_add(*code as i64)).collect()
}

/// Codes that are positions in an array.
fn narrow(codes: &[u64]) -> Vec<u32> {
    codes.iter().map(|code| u32::try_from(*code).unwrap_or(u32::MAX)).collect()
}

/// Words of an array of whole numbers, or of floats without fractions.
pub(super) fn words_of(array: &ArrayRef) -> Option<ScalarBuffer<i64>> {
    use arrow_array::cast::AsArray;
    match array.data_type() {
        ArrowType::Float64 => {
            let floats = array.as_primitive::<arrow_array::types::Float64Type>();
            Some(floats.values().iter().map(|v| *v as i64).collect())
        }
        _ => to_words(array),
    }
}

impl CodedColumn {
    fn of(at: usize, column: &Column, survivors: &Survivors) -> Result<Option<Self>> {
        let stored: Vec<Option<&segment::Column>> =
            survivors.segments.iter().map(|s| s.columns.get(at).and_then(Option::as_deref)).collect();
        if is_words(&column.data_type.to_arrow()) {
            return Self::of_words(at, column, &stored);
        }
        Self::of_dictionaries(at, column, &stored)
    }

    fn of_words(at: usize, column: &Column, stored: &[Option<&segment::Column>]) -> Result<Option<Self>> {
        let data_type = column.data_type.to_arrow();
        let Some((range, nulls)) = bounds(&column.data_type, stored) else { return Ok(None) };
        let Some(domain) = domain(&range, nulls) else { return Ok(None) };
        // Dictionaries are translated to codes of 32 bits.
        if u32::try_from(domain).is_err() && stored.iter().flatten().any(|c| c.record().dictionary.is_some()) {
            return Self::of_dictionaries(at, column, stored);
        }
        let mut maps = Vec::with_capacity(stored.len());
        for column in stored {
            let dictionary = match column {
                Some(column) => column.dictionary()?,
                None => None,
            };
            maps.push(match dictionary {
                None => None,
                Some(dictionary) => {
                    let Some(words) = to_words(dictionary) else { return Ok(None) };
                    let bias = range.start.wrapping_sub(i64::from(nulls));
                    let code = |w: &i64| u32::try_from(w.wrapping_sub(bias)).unwrap_or(u32::MAX);
                    // Entry 0 is null.
                    Some(std::iter::once(0).chain(words.iter().skip(1).map(code)).collect())
                }
            });
        }
        Ok(Some(CodedColumn { at, data_type, nulls, domain, meaning: Meaning::From(range.start), maps }))
    }

    fn of_dictionaries(at: usize, column: &Column, stored: &[Option<&segment::Column>]) -> Result<Option<Self>> {
        let data_type = column.data_type.to_arrow();
        let has_values = |c: &&segment::Column| c.stats().nulls < c.stats().rows;
        let described: Option<Vec<_>> =
            stored.iter().flatten().copied().filter(has_values).map(|c| c.record().dictionary).collect();
        let Some(described) = described else { return Ok(None) };
        if described.iter().map(|d| u64::from(d.values)).sum::<u64>() > MAX_UNITED {
            return Ok(None);
        }
        let mut union = Interner::new(&data_type)?;
        // Null is code 0 whether it occurs or not.
        union.intern(&new_null_array(&data_type, 1))?;
        let mut known: HashMap<u128, Arc<[u32]>> = HashMap::new();
        let mut maps = Vec::with_capacity(stored.len());
        for column in stored {
            let Some((column, dictionary)) = column.and_then(|c| Some((c, c.record().dictionary?))) else {
                maps.push(None);
                continue;
            };
            if let Some(map) = known.get(&dictionary.hash) {
                maps.push(Some(Arc::clone(map)));
                continue;
            }
            let Some(values) = column.dictionary()? else { return Ok(None) };
            let values = arrow_cast::cast(values, &data_type).map_err(|e| Error::corrupt(0, e.to_string()))?;
            let map: Arc<[u32]> = union.intern(&values)?.into();
            known.insert(dictionary.hash, Arc::clone(&map));
            maps.push(Some(map));
        }
        let values = union.values()?;
        let domain = values.len() as u64;
        Ok(Some(CodedColumn { at, data_type, nulls: true, domain, meaning: Meaning::Values(values), maps }))
    }

    fn values(&self, codes: &[u64]) -> Result<ArrayRef> {
        match &self.meaning {
            Meaning::Values(values) => take(values, &narrow(codes)),
            Meaning::From(low) => {
                let null = self.nulls && codes.contains(&0);
                let nulls = null.then(|| NullBuffer::from_iter(codes.iter().map(|c| *c != 0)));
                from_words(from_codes(codes, *low, self.nulls), nulls, &self.data_type)
            }
        }
    }

    /// The code of all rows of a block that is stored as one value.
    fn constant(&self, block: &OpenBlock<'_>) -> Result<Option<u64>> {
        let reader = match block.column(self.at)? {
            Some(column) if !matches!(column.reader().validity(), Validity::Nothing) => column.reader(),
            _ => return Ok(Some(0)),
        };
        if matches!(reader.validity(), Validity::Stream(_)) {
            return Ok(None);
        }
        let bias = self.bias();
        let signed = block.stored(self.at).is_some_and(|c| is_signed(c.data_type()));
        fn value<W: Word>(ints: &Ints<'_, W>, signed: bool) -> Option<u64> {
            let Ints::Constant(constant) = ints else { return None };
            let value = constant.value();
            Some(if signed { Word::to_i64(value) as u64 } else { Word::to_u64(value) })
        }
        Ok(match reader.stream() {
            Stream::Bool(Bools::Constant { value, .. }) => Some(u64::from(*value).wrapping_sub(bias)),
            Stream::W8(ints) => value(ints, signed).map(|v| v.wrapping_sub(bias)),
            Stream::W16(ints) => value(ints, signed).map(|v| v.wrapping_sub(bias)),
            Stream::W32(ints) => value(ints, signed).map(|v| v.wrapping_sub(bias)),
            Stream::W64(ints) => value(ints, signed).map(|v| v.wrapping_sub(bias)),
            Stream::Codes(ints) => match value(ints, false) {
                Some(code) => Some(u64::from(self.translated(code, block.work.segment)?)),
                None => None,
            },
            _ => None,
        })
    }

    /// What is taken from a stored whole number to make it a code.
    fn bias(&self) -> u64 {
        let low = if let Meaning::From(low) = &self.meaning { *low } else { 0 };
        low.wrapping_sub(i64::from(self.nulls)) as u64
    }

    fn map(&self, segment: usize) -> Result<&[u32]> {
        self.maps.get(segment).and_then(Option::as_deref).ok_or_else(unknown)
    }

    /// The code of each dictionary code of a block, if it has such.
    fn map_of(&self, block: &OpenBlock<'_>) -> Result<Option<&[u32]>> {
        match block.column(self.at)?.map(|column| column.reader().stream()) {
            Some(Stream::Codes(_)) => self.map(block.work.segment).map(Some),
            _ => Ok(None),
        }
    }

    /// The code of a code of a segment's dictionary.
    fn translated(&self, code: u64, segment: usize) -> Result<u32> {
        let map = self.map(segment)?;
        usize::try_from(code).ok().and_then(|code| map.get(code)).copied().ok_or_else(unknown)
    }

    /// Appends the codes of rows of a block.
    fn write<T: Word>(&self, block: &OpenBlock<'_>, rows: Range<usize>, out: &mut Vec<T>) -> Result<()> {
        let len = rows.len();
        let reader = match block.column(self.at)? {
            Some(column) if !matches!(column.reader().validity(), Validity::Nothing) => column.reader(),
            _ => {
                out.resize(len, T::default());
                return Ok(());
            }
        };
        let bias = self.bias();
        let signed = block.stored(self.at).is_some_and(|c| is_signed(c.data_type()));
        match reader.stream() {
            Stream::Null => out.resize(len, T::default()),
            Stream::Bool(bools) => {
                let values = bools.decode(rows.clone())?;
                out.extend(values.iter().map(|v| T::from_u64((u64::from(v)).wrapping_sub(bias))));
            }
            Stream::W8(ints) => ints.decode_narrow(rows.clone(), bias, signed, out)?,
            Stream::W16(ints) => ints.decode_narrow(rows.clone(), bias, signed, out)?,
            Stream::W32(ints) => ints.decode_narrow(rows.clone(), bias, signed, out)?,
            Stream::W64(ints) => ints.decode_narrow(rows.clone(), bias, signed, out)?,
            Stream::Codes(ints) => self.translate(ints, block.work.segment, rows.clone(), out)?,
            _ => return Err(Error::corrupt(0, "a coded column without codes")),
        }
        if let Validity::Stream(valid) = reader.validity() {
            blank_unset(out, valid, rows)?;
        }
        within(out, self.domain)
    }

    /// Appends the dictionary codes of a slice's rows, or the column's codes where the segment has no dictionary.
    fn write_raw(&self, slice: &Slice<'_, '_>, out: &mut Vec<u8>) -> Result<()> {
        let block = slice.block;
        match block.column(self.at)?.map(|column| column.reader().stream()) {
            Some(Stream::Codes(ints)) => {
                ints.decode_narrow(slice.range.clone(), 0, false, out)?;
                within(out, self.map(block.work.segment)?.len() as u64)
            }
            _ => self.write(block, slice.range.clone(), out),
        }
    }

    fn translate<T: Word>(
        &self,
        codes: &Ints<'_, u32>,
        segment: usize,
        rows: Range<usize>,
        out: &mut Vec<T>,
    ) -> Result<()> {
        let map = self.map(segment)?;
        let same = map.iter().enumerate().all(|(i, code)| i == *code as usize);
        if map.len() as u64 - 1 <= u64::MAX >> (64 - T::BITS) {
            codes.decode_narrow(rows, 0, false, out)?;
            within(out, map.len() as u64)?;
            if !same {
                for code in out.iter_mut() {
                    *code = T::from_u64(u64::from(map[Word::to_u64(*code) as usize]));
                }
            }
            return Ok(());
        }
        let mut raw: Vec<u32> = Vec::with_capacity(rows.len());
        codes.decode(rows, &mut raw)?;
        for code in raw {
            out.push(T::from_u64(u64::from(self.translated(u64::from(code), segment)?)));
        }
        Ok(())
    }
}

fn unknown() -> Error {
    Error::corrupt(0, "a code that its dictionary does not have")
}

fn is_signed(data_type: &DataType) -> bool {
    matches!(data_type.physical(), Physical::Word { signed: true, .. })
}

/// Least and greatest value (inclusive, as signed words) of a column over segments, and whether there are nulls; `None`
/// where bounds are unknown or the segments do not store the table's values as they are.
fn bounds(table: &DataType, stored: &[Option<&segment::Column>]) -> Option<(Range<i64>, bool)> {
    let (mut low, mut high, mut nulls) = (i64::MAX, i64::MIN, false);
    for column in stored {
        let Some(column) = column else {
            nulls = true;
            continue;
        };
        let stats = column.stats();
        nulls |= stats.nulls > 0;
        if stats.nulls == stats.rows {
            continue;
        }
        let same = column.data_type() == table || (column.data_type().is_integer() && table.is_integer());
        let (min, max) = limits_of(stats)?;
        if !same {
            return None;
        }
        (low, high) = (low.min(min), high.max(max));
    }
    if low > high {
        // Nothing but nulls.
        return Some((0..0, true));
    }
    Some((low..high, nulls))
}

fn limits_of(stats: &Stats) -> Option<(i64, i64)> {
    let word = |bound: &Option<crate::block::Bound>| match bound.as_ref()?.value {
        Scalar::Int(v) => i64::try_from(v).ok(),
        _ => None,
    };
    word(&stats.min).zip(word(&stats.max))
}

/// How many codes the values of an inclusive range need, unless they are too many to count.
fn domain(range: &Range<i64>, nulls: bool) -> Option<u64> {
    (range.end as u64).wrapping_sub(range.start as u64).checked_add(1 + u64::from(nulls))
}

fn mapped(key: &Expression, source: CodedColumn) -> Result<Option<Coding>> {
    let codes: Vec<u64> = (0..source.domain).collect();
    let inputs = source.values(&codes)?;
    // A value that no row has may fail.
    let Ok(results) = key.evaluate(&[inputs], codes.len()) else { return Ok(None) };
    let mut interner = Interner::new(results.data_type())?;
    let codes = interner.intern(&results)?;
    let values = interner.values()?;
    Ok(Some(Coding::Mapped { source, codes, values }))
}

fn ranged(key: &Expression, at: usize, column: &Column, survivors: &Survivors) -> Result<Option<Coding>> {
    let integral = key.traits.integral && key.data_type == ArrowType::Float64;
    if !key.traits.monotone || !(is_words(&key.data_type) || integral) {
        return Ok(None);
    }
    let (mut low, mut high, mut nulls) = (i64::MAX, i64::MIN, false);
    for segment in &survivors.segments {
        let Some(stored) = segment.columns.get(at).and_then(Option::as_deref) else {
            nulls = true;
            continue;
        };
        nulls |= stored.stats().nulls > 0;
        if stored.stats().nulls == stored.stats().rows {
            continue;
        }
        let Some((min, max)) = at_bounds(key, stored.stats(), stored.data_type(), &column.data_type) else {
            return Ok(None);
        };
        (low, high) = (low.min(min), high.max(max));
    }
    if low > high {
        (low, high, nulls) = (0, 0, true);
    }
    let Some(domain) = domain(&(low..high), nulls).filter(|n| i64::try_from(*n).is_ok()) else { return Ok(None) };
    Ok(Some(Coding::Ranged { expression: key.clone(), input: at, low, nulls, domain }))
}

/// The words of an expression that keeps order at the least and the greatest value.
fn at_bounds(key: &Expression, stats: &Stats, stored: &DataType, table: &DataType) -> Option<(i64, i64)> {
    let inputs = match (stored == table, &stats.min.as_ref()?.value, &stats.max.as_ref()?.value) {
        (true, Scalar::Int(min), Scalar::Int(max)) => {
            let words = vec![i64::try_from(*min).ok()?, i64::try_from(*max).ok()?];
            from_words(words, None, &table.to_arrow()).ok()?
        }
        // −0.0 is below 0.0, and its code would be that of 0.0.
        (true, Scalar::Float(min), Scalar::Float(max)) if *table == DataType::Float64 && min.is_sign_positive() => {
            Arc::new(arrow_array::Float64Array::from(vec![*min, *max])) as ArrayRef
        }
        _ => return None,
    };
    let results = key.evaluate(&[inputs], 2).ok()?;
    if results.null_count() > 0 {
        return None;
    }
    if let Some(floats) = results.as_any().downcast_ref::<arrow_array::Float64Array>()
        && !floats.values().iter().all(|v| v.abs() < 9e15)
    {
        return None;
    }
    let words = words_of(&results)?;
    Some((*words.first()?, *words.get(1)?))
}

/// The code that all rows of a block have, if zone maps prove that there is one.
fn folded(key: &Expression, at: usize, bias: i64, block: &OpenBlock<'_>) -> Option<u64> {
    let Memo::Folded(code) = block.memo(key, Memo::is_folded, || Memo::Folded(fold(key, at, bias, block))) else {
        return None;
    };
    code
}

fn fold(key: &Expression, at: usize, bias: i64, block: &OpenBlock<'_>) -> Option<u64> {
    let Some(column) = block.stored(at) else { return Some(0) };
    let stats = column.block_stats(block.work.block)?;
    if stats.nulls == stats.rows {
        return Some(0);
    }
    if stats.nulls > 0 {
        return None;
    }
    let (min, max) = at_bounds(key, stats, column.data_type(), column.data_type())?;
    (min == max).then_some(min.wrapping_sub(bias) as u64)
}

/// Numbers distinct values in the order of their first appearance.
struct Interner {
    converter: RowConverter,
    rows: HashMap<Box<[u8]>, u32>,
    parts: Vec<ArrayRef>,
}

impl Interner {
    fn new(data_type: &ArrowType) -> Result<Self> {
        let converter = RowConverter::new(vec![SortField::new(data_type.clone())]);
        let converter = converter.map_err(|e| Error::Unsupported(e.to_string()))?;
        Ok(Interner { converter, rows: HashMap::new(), parts: Vec::new() })
    }

    fn intern(&mut self, values: &ArrayRef) -> Result<Vec<u32>> {
        let failed = |e: arrow_schema::ArrowError| Error::InvalidInput(e.to_string());
        let values = &one_zero(values);
        let rows = self.converter.convert_columns(&[Arc::clone(values)]).map_err(failed)?;
        let mut codes = Vec::with_capacity(values.len());
        let mut new = Vec::new();
        for (at, row) in (0u32..).zip(rows.iter()) {
            let next = self.rows.len() as u32;
            let code = match self.rows.get(row.as_ref()) {
                Some(known) => *known,
                None => {
                    self.rows.insert(row.as_ref().into(), next);
                    new.push(at);
                    next
                }
            };
            codes.push(code);
        }
        if !new.is_empty() {
            self.parts.push(take(values, &new)?);
        }
        Ok(codes)
    }

    fn values(&self) -> Result<ArrayRef> {
        let parts: Vec<&dyn Array> = self.parts.iter().map(|part| &**part).collect();
        arrow_select::concat::concat(&parts).map_err(|e| Error::InvalidInput(e.to_string()))
    }
}
