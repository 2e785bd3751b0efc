//! Codes of a key: small numbers for its values, the same in all segments, without a look at every
//! row.
//!
//! * a column with a dictionary: the place in the union of the dictionaries;
//! * whole numbers, dates, times, booleans: the distance from the minimum that zone maps give;
//! * decimals: the distance of the scaled integers that stand for them (see `decimals`);
//! * an expression over one such column of few values, or several: it is evaluated once for each of
//!   them, or each combination;
//! * an expression whose minimum and maximum are known (a part of a date, a remainder, a CASE as
//!   the number of its branch): the distance from the minimum;
//! * an expression that keeps order: the distance from its value at the minimum; a block in which
//!   it has one value (the year of a day's rows) is not decoded at all.
//!
//! Where a key may be null, code 0 is null.

mod codes;
mod column;
mod decimals;
mod map;
mod ranged;
mod tabulated;

use std::borrow::Cow;

use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType as ArrowType;

pub(crate) use self::codes::CodesOfBlock;
use self::codes::{check_domain, compact, narrow, out_of_bounds_error, unknown_code_error};
use self::column::CodedKeyColumn;
use self::decimals::DecimalColumn;
use self::ranged::RangedKey;
use self::tabulated::{MAX_TABULATED, few_combinations, tabulated};
use crate::encoding::Word;
use crate::error::Result;
use crate::expr::Expression;
use crate::model::Column;
use crate::query::open::{OpenBlock, Survivors};
use crate::query::slice::{Slice, take};
use crate::query::words::one_zero;

/// How a key is coded.
#[derive(Debug)]
pub(crate) enum CodedKey {
    /// One value for all rows.
    Constant(ArrayRef),
    /// A stored column.
    Column(CodedKeyColumn),
    /// An expression over a coded column: its code for each code of the column.
    Mapped {
        source: CodedKeyColumn,
        codes: Vec<u32>,
        /// The value of each code.
        values: ArrayRef,
    },
    /// An expression over several coded columns: its code for each combination of their codes, the
    /// last column's next to each other.
    Combined {
        sources: Vec<CodedKeyColumn>,
        codes: Vec<u32>,
        /// The value of each code.
        values: ArrayRef,
    },
    /// Numbers within known bounds: the distance from the least.
    Ranged(RangedKey),
}

impl CodedKey {
    /// How to code `key` over what is to be read; `None` if there is no small code. `all`: every
    /// row is needed.
    pub(crate) fn new(
        key: &Expression,
        columns: &[Column],
        survivors: &Survivors,
        all: bool,
    ) -> Result<Option<CodedKey>> {
        if key.inputs.is_empty() {
            return Ok(Some(CodedKey::Constant(one_zero(&key.evaluate(&[], 1)?))));
        }
        let Some(at) = key.only_input() else {
            if let Some(sources) = few_combinations(key, columns, survivors)?
                && let Some((codes, values)) = tabulated(key, &sources)?
            {
                return Ok(Some(CodedKey::Combined { sources, codes, values }));
            }
            return Ok(RangedKey::bounded(key, survivors).map(CodedKey::Ranged));
        };
        let Some(column) = columns.get(at) else { return Ok(None) };
        let coded = CodedKeyColumn::new(at, column, survivors)?;
        if key.function.is_none() {
            if let Some(coded) = coded {
                return Ok(Some(CodedKey::Column(coded)));
            }
            let decimals = if all { DecimalColumn::new(at, column, survivors)? } else { None };
            let ranged = decimals.map(|decimals| RangedKey::decimals(at, decimals, survivors));
            return Ok(ranged.map(CodedKey::Ranged));
        }
        if let Some(source) = coded
            && !source.loses_sign
            && source.domain <= MAX_TABULATED.min(survivors.rows() / 4)
            && let Some((codes, values)) = tabulated(key, std::slice::from_ref(&source))?
        {
            return Ok(Some(CodedKey::Mapped { source, codes, values }));
        }
        let ranged = RangedKey::monotone(key, at, column, survivors);
        Ok(ranged.or_else(|| RangedKey::bounded(key, survivors)).map(CodedKey::Ranged))
    }

    /// How many codes there may be.
    pub(crate) fn domain(&self) -> u64 {
        match self {
            CodedKey::Constant(_) => 1,
            CodedKey::Column(column) => column.domain,
            CodedKey::Mapped { values, .. } | CodedKey::Combined { values, .. } => {
                values.len() as u64
            }
            CodedKey::Ranged(key) => key.domain,
        }
    }

    /// The code of null, if there is one.
    pub(crate) fn null(&self) -> Option<u64> {
        let among = |values: &ArrayRef| {
            (0..values.len()).find(|at| values.is_null(*at)).map(|at| at as u64)
        };
        match self {
            CodedKey::Constant(value) => among(value),
            CodedKey::Column(column) => column.has_null().then_some(0),
            CodedKey::Mapped { values, .. } | CodedKey::Combined { values, .. } => among(values),
            CodedKey::Ranged(key) => key.null(),
        }
    }

    pub(crate) fn values(&self, codes: &[u64], data_type: &ArrowType) -> Result<ArrayRef> {
        match self {
            CodedKey::Constant(value) => take(value, &vec![0; codes.len()]),
            CodedKey::Column(column) => column.values(codes),
            CodedKey::Mapped { values, .. } | CodedKey::Combined { values, .. } => {
                take(values, &narrow(codes))
            }
            CodedKey::Ranged(key) => key.values(codes, data_type),
        }
    }

    /// The code of all rows of a block, if it shows without a look at them that they have the same.
    pub(crate) fn constant(&self, block: &OpenBlock<'_>) -> Result<Option<u64>> {
        let code = match self {
            CodedKey::Constant(_) => Some(0),
            CodedKey::Column(column) => column.constant(block)?,
            CodedKey::Mapped { source, codes, .. } => {
                let code = source.constant(block)?.and_then(|code| usize::try_from(code).ok());
                code.and_then(|code| codes.get(code)).map(|code| u64::from(*code))
            }
            CodedKey::Combined { sources, codes, .. } => {
                let mut place = Some(0);
                for source in sources {
                    let code = source.constant(block)?.filter(|code| *code < source.domain);
                    place = place.zip(code).map(|(place, code)| place * source.domain + code);
                }
                place
                    .and_then(|place| codes.get(usize::try_from(place).ok()?))
                    .map(|code| u64::from(*code))
            }
            CodedKey::Ranged(key) => key.constant(block),
        };
        match code {
            Some(code) if code >= self.domain() => Err(out_of_bounds_error()),
            code => Ok(code),
        }
    }

    /// The codes that rows of a block may have, null's aside, as far as that shows without a look
    /// at them.
    pub(crate) fn possible(&self, block: &OpenBlock<'_>) -> Result<Option<CodesOfBlock>> {
        Ok(match self {
            CodedKey::Column(column) => column.possible(block),
            CodedKey::Ranged(key) => key.of_dictionary(block)?.map(CodesOfBlock::Dictionary),
            CodedKey::Constant(_) | CodedKey::Mapped { .. } | CodedKey::Combined { .. } => None,
        })
    }

    /// The code of each digit that [`CodedKey::write_digits`] writes for rows of a block; `None` if
    /// these are codes already.
    pub(crate) fn table(&self, block: &OpenBlock<'_>) -> Result<Option<Cow<'_, [u32]>>> {
        Ok(match self {
            CodedKey::Column(column) => column.map_of(block)?.map(Cow::Borrowed),
            CodedKey::Mapped { source, codes, .. } => Some(match source.map_of(block)? {
                None => Cow::Borrowed(codes.as_slice()),
                Some(map) => {
                    let code = |place: &u32| {
                        codes.get(*place as usize).copied().ok_or_else(unknown_code_error)
                    };
                    Cow::Owned(map.iter().map(code).collect::<Result<_>>()?)
                }
            }),
            _ => None,
        })
    }

    /// Appends the digits of a slice's rows to `out`, which is empty: `raw` ones are to be looked
    /// up in the table.
    pub(crate) fn write_digits(
        &self,
        raw: bool,
        slice: &Slice<'_, '_>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        match self {
            CodedKey::Column(column) | CodedKey::Mapped { source: column, .. } if raw => {
                column.write_raw(slice, out)?;
                compact(out, slice);
                Ok(())
            }
            _ => self.write(slice, out),
        }
    }

    /// Appends the codes of a slice's rows, selected or not, to `out`, which is empty. Each is
    /// below the domain.
    pub(crate) fn write<T: Word>(&self, slice: &Slice<'_, '_>, out: &mut Vec<T>) -> Result<()> {
        let rows = slice.range.len();
        match self {
            CodedKey::Constant(_) => out.resize(slice.len(), T::default()),
            CodedKey::Column(column) => {
                column.write(slice.block, slice.range.clone(), out)?;
                compact(out, slice);
            }
            CodedKey::Mapped { source, codes, .. } => {
                let mut raw: Vec<u16> = Vec::with_capacity(rows);
                source.write(slice.block, slice.range.clone(), &mut raw)?;
                compact(&mut raw, slice);
                let code = |c: &u16| {
                    codes.get(usize::from(*c)).map_or(T::default(), |c| T::from_u64(u64::from(*c)))
                };
                out.extend(raw.iter().map(code));
            }
            CodedKey::Combined { sources, codes, .. } => {
                let (mut places, mut raw) = (vec![0u32; rows], Vec::with_capacity(rows));
                for source in sources {
                    raw.clear();
                    source.write::<u16>(slice.block, slice.range.clone(), &mut raw)?;
                    let domain = source.domain as u32;
                    places
                        .iter_mut()
                        .zip(&raw)
                        .for_each(|(place, code)| *place = *place * domain + u32::from(*code));
                }
                compact(&mut places, slice);
                let code = |c: &u32| {
                    codes.get(*c as usize).map_or(T::default(), |c| T::from_u64(u64::from(*c)))
                };
                out.extend(places.iter().map(code));
            }
            CodedKey::Ranged(key) => return key.write(slice, out),
        }
        check_domain(out, self.domain())
    }
}
