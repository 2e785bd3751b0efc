//! Codes of several keys as the digits of one number.

use arrow_array::ArrayRef;
use arrow_schema::DataType as ArrowType;

use super::coding::{CodedKey, CodesOfBlock};
use crate::encoding::Word;
use crate::error::Result;
use crate::expr::Expression;
use crate::query::open::OpenBlock;
use crate::query::slice::Slice;

/// How the keys of a query become one number.
#[derive(Debug)]
pub(crate) struct MixedRadix {
    keys: Vec<(CodedKey, ArrowType)>,
    /// The product of all domains: numbers are below it.
    pub(crate) product: u64,
}

impl MixedRadix {
    /// The keys back if one has no codes, or the numbers would not fit 64 bits.
    pub(crate) fn new(
        expressions: &[Expression],
        keys: Vec<Option<CodedKey>>,
    ) -> Result<Self, Vec<Option<CodedKey>>> {
        let product =
            keys.iter().try_fold(1u64, |product, key| product.checked_mul(key.as_ref()?.domain()));
        let Some(product) = product else { return Err(keys) };
        let types = expressions.iter().map(|expression| expression.data_type.clone());
        Ok(MixedRadix { keys: keys.into_iter().flatten().zip(types).collect(), product })
    }

    /// How many keys are digits.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// How many codes the last key has.
    pub(crate) fn last_domain(&self) -> u64 {
        self.keys.last().map_or(1, |(key, _)| key.domain())
    }

    /// The last key's code of null, if it has one.
    pub(crate) fn last_null(&self) -> Option<u64> {
        self.keys.last().and_then(|(key, _)| key.null())
    }

    /// The only key's codes that rows of a block may have, null's aside; `None` where unknown, or
    /// there are more keys.
    pub(crate) fn possible(&self, block: &OpenBlock<'_>) -> Result<Option<CodesOfBlock>> {
        match self.keys.as_slice() {
            [(only, _)] => only.possible(block),
            _ => Ok(None),
        }
    }

    /// Bits that hold every number.
    pub(crate) fn bits(&self) -> u32 {
        u64::BITS - self.product.saturating_sub(1).leading_zeros()
    }

    /// What the numbers of a block's rows have in common.
    pub(crate) fn of_block(&self, block: &OpenBlock<'_>) -> Result<BlockRadix<'_>> {
        let (mut base, mut weight) = (0, 1);
        let mut varying = Vec::with_capacity(self.keys.len());
        for (key, _) in self.keys.iter().rev() {
            match key.constant(block)? {
                Some(code) => base += code * weight,
                None => varying.push((key, weight)),
            }
            weight *= key.domain();
        }
        varying.reverse();
        Ok(BlockRadix { base, varying })
    }

    /// The keys of numbers.
    pub(crate) fn keys(&self, numbers: &[u64]) -> Result<Vec<ArrayRef>> {
        let mut rest = numbers.to_vec();
        let mut arrays = Vec::with_capacity(self.keys.len());
        for (i, (key, data_type)) in self.keys.iter().enumerate().rev() {
            if i == 0 {
                arrays.push(key.values(&rest, data_type)?);
                break;
            }
            let domain = key.domain();
            let codes: Vec<u64> = rest.iter().map(|number| number % domain).collect();
            rest.iter_mut().for_each(|number| *number /= domain);
            arrays.push(key.values(&codes, data_type)?);
        }
        arrays.reverse();
        Ok(arrays)
    }
}

/// The numbers of a block: most digits may be the same in all of its rows.
#[derive(Debug)]
pub(crate) struct BlockRadix<'a> {
    /// What the constant digits amount to.
    base: u64,
    /// The other digits and what each counts, the most significant first.
    varying: Vec<(&'a CodedKey, u64)>,
}

impl BlockRadix<'_> {
    /// The number of all rows, if they have the same.
    pub(crate) fn constant(&self) -> Option<u64> {
        self.varying.is_empty().then_some(self.base)
    }

    /// Codes of a byte that tell the rows of a slice apart, and the number that each of them stands
    /// for; `None` if there are too many.
    pub(crate) fn bytes<'o>(
        &self,
        slice: &Slice<'_, '_>,
        codes: &'o mut Vec<u8>,
        number_of_code: &'o mut Vec<u32>,
        scratch: &mut DigitScratch,
    ) -> Result<Option<(&'o [u8], &'o [u32])>> {
        codes.clear();
        number_of_code.clear();
        number_of_code.push(self.base as u32);
        for (i, (key, weight)) in self.varying.iter().enumerate() {
            let table = key.table(slice.block)?;
            let digits = table.as_ref().map_or(key.domain(), |table| table.len() as u64);
            if digits.saturating_mul(number_of_code.len() as u64) > 1 << u8::BITS {
                return Ok(None);
            }
            if table.as_ref().is_some_and(|t| t.iter().any(|code| u64::from(*code) >= key.domain()))
            {
                // Where statistics are wrong, `numbers` refuses the rows.
                return Ok(None);
            }
            let weighted = |digit: u64| match &table {
                Some(table) => {
                    table.get(digit as usize).map_or(0, |code| (u64::from(*code) * weight) as u32)
                }
                None => (digit * weight) as u32,
            };
            let befores = std::mem::take(number_of_code);
            number_of_code.extend(befores.iter().flat_map(|before| {
                (0..digits).map(|digit| before + weighted(digit)).collect::<Vec<u32>>()
            }));
            let raw = table.is_some();
            if i == 0 {
                key.write_digits(raw, slice, codes)?;
            } else {
                scratch.bytes.clear();
                key.write_digits(raw, slice, &mut scratch.bytes)?;
                for (code, digit) in codes.iter_mut().zip(&scratch.bytes) {
                    *code = code.wrapping_mul(digits as u8).wrapping_add(*digit);
                }
            }
        }
        Ok(Some((codes, number_of_code)))
    }

    /// Appends the number of each row of a slice to `out`, which is empty. `T` holds all numbers.
    pub(crate) fn numbers<T: Word>(
        &self,
        slice: &Slice<'_, '_>,
        out: &mut Vec<T>,
        scratch: &mut DigitScratch,
    ) -> Result<()> {
        weigh(self.varying.iter().rev().copied(), self.base, slice, out, scratch)
    }
}

/// Appends `base` and the weighted digits of each row of a slice to `out`, which is empty.
fn weigh<'c, T: Word>(
    mut digits: impl Iterator<Item = (&'c CodedKey, u64)>,
    base: u64,
    slice: &Slice<'_, '_>,
    out: &mut Vec<T>,
    scratch: &mut DigitScratch,
) -> Result<()> {
    let mut base = T::from_u64(base);
    match digits.next() {
        None => out.resize(slice.len(), T::default()),
        Some((key, weight)) => {
            key.write(slice, out)?;
            if weight != 1 {
                let weight = T::from_u64(weight);
                out.iter_mut().for_each(|number| *number = Word::mul(*number, weight));
            }
        }
    }
    for (key, weight) in digits {
        let weight = T::from_u64(weight);
        match key.domain() {
            0..=0x100 => add(out, read(key, slice, &mut scratch.bytes)?, weight, base),
            0x101..=0x1_0000 => add(out, read(key, slice, &mut scratch.shorts)?, weight, base),
            0x1_0001..=0x1_0000_0000 => {
                add(out, read(key, slice, &mut scratch.words)?, weight, base)
            }
            _ => add(out, read(key, slice, &mut scratch.longs)?, weight, base),
        }
        base = T::default();
    }
    if base != T::default() {
        out.iter_mut().for_each(|number| *number = Word::add(*number, base));
    }
    Ok(())
}

/// Scratch buffers for the digits of one key, each in the narrowest word that holds its codes.
#[derive(Debug, Default)]
pub(crate) struct DigitScratch {
    bytes: Vec<u8>,
    shorts: Vec<u16>,
    words: Vec<u32>,
    longs: Vec<u64>,
}

fn read<'r, D: Word>(
    key: &CodedKey,
    slice: &Slice<'_, '_>,
    scratch: &'r mut Vec<D>,
) -> Result<&'r [D]> {
    scratch.clear();
    key.write(slice, scratch)?;
    Ok(scratch)
}

/// Adds a weighted digit and `base` to each number.
fn add<T: Word, D: Word>(numbers: &mut [T], digits: &[D], weight: T, base: T) {
    for (number, digit) in numbers.iter_mut().zip(digits) {
        let digit = Word::mul(T::from_u64(Word::to_u64(*digit)), weight);
        *number = Word::add(*number, Word::add(digit, base));
    }
}
