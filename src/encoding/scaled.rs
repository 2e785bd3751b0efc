//! The one view of floats that are stored as integers. Filters, keys, sums and distinct values ask
//! for it and work on the integers; which encoding gave them is nobody else's business. Floats of
//! 32 bits come as the doubles that they are; sums leave them alone, because 0.1 of 32 bits is not
//! the decimal 0.1.
//!
//! Where bounds of the integers are known, they sort as the values do. Under some scalings they
//! are decimals too: then sums of integers are sums of values. Rows whose value no integer
//! expresses are exceptions.

use std::ops::{Range, RangeInclusive};

use super::Word;
use super::alp::{POWERS, Scale};
use super::dyadic::Grid;
use super::exceptions::Exceptions;
use super::float::Float;
use super::ints::Ints;
use crate::error::Result;

/// The greatest absolute integer that operators work with. A double is off its decimal by at most
/// 2^-52 of it, and its product with a power of ten by another 2^-53: up to here that is less than
/// half, so the integer comes back by one multiplication and one rounding.
const MAX_INT: f64 = (1u64 << 50) as f64;
/// The same for floats of 32 bits, which are off by at most 2^-24.
const MAX_SINGLE_INT: f64 = (1u64 << 22) as f64;
/// The most decimals for which values are searched one by one.
const MAX_DECIMALS: u8 = 6;

/// Integers in the narrowest words that hold them; who has them knows the [`Scaling`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ScaledInts {
    /// All fit 32 bits.
    Narrow(Vec<i32>),
    /// Some do not.
    Wide(Vec<i64>),
}

impl ScaledInts {
    /// `most` is at least the absolute value of each integer.
    pub(crate) fn new(ints: Vec<i64>, most: u64) -> Self {
        match i32::try_from(most) {
            Ok(_) => ScaledInts::Narrow(ints.into_iter().map(|int| int as i32).collect()),
            Err(_) => ScaledInts::Wide(ints),
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        match self {
            ScaledInts::Narrow(ints) => ints.len(),
            ScaledInts::Wide(ints) => ints.len(),
        }
    }

    /// The integer at a position.
    pub(crate) fn get(&self, at: usize) -> Option<i64> {
        match self {
            ScaledInts::Narrow(ints) => ints.get(at).map(|int| i64::from(*int)),
            ScaledInts::Wide(ints) => ints.get(at).copied(),
        }
    }
}

/// What integers stand for. Under equal scalings, an integer is the same double.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scaling {
    kind: Kind,
    /// Whether values are rounded to 32 bits.
    single: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// The double nearest to `int · 10^-exponent`.
    Quotients(u8),
    /// `int · 10^-exponent` as ALP computes it, which is mostly that double.
    Decimals(Scale),
    /// Half of the integer, rounded down, is a decimal; where the integer is odd, the value is the
    /// multiple of a power of two between that decimal and the next.
    Grid(Grid),
    /// The bits of doubles without a sign.
    Bits,
}

impl Scaling {
    /// Integers that stand for the doubles nearest to `int · 10^-exponent`, or for the floats of 32
    /// bits nearest to those.
    pub(crate) fn quotients(exponent: u8, single: bool) -> Self {
        Scaling { kind: Kind::Quotients(exponent), single }
    }

    /// The smallest number of decimals, at least `from`, that writes the value exactly: the decimal
    /// reads back as the same float.
    pub(crate) fn decimals_of(value: f64, from: u8, single: bool) -> Option<u8> {
        (from..=MAX_DECIMALS)
            .find(|exponent| Scaling::quotients(*exponent, single).int(value).is_some())
    }

    /// Whether the values are floats of 32 bits.
    pub(crate) fn is_single(self) -> bool {
        self.single
    }

    /// The exponent, if the integers are decimals: `int · 10^-exponent`.
    pub(crate) fn exponent(self) -> Option<u8> {
        match self.kind {
            Kind::Quotients(exponent) => Some(exponent),
            Kind::Decimals(scale) => Some(scale.exponent()),
            Kind::Grid(_) | Kind::Bits => None,
        }
    }

    /// Whether the integers are the bits of the floats.
    pub(crate) fn is_bits(self) -> bool {
        self.kind == Kind::Bits
    }

    /// The value of an integer.
    #[inline(always)]
    pub(crate) fn value(self, int: i64) -> f64 {
        let value = match self.kind {
            Kind::Quotients(exponent) => int as f64 / power(exponent),
            Kind::Decimals(scale) => scale.decode(int as u64),
            Kind::Grid(grid) => grid.decode(int as u64),
            Kind::Bits if self.single => f32::from_bits(int as u32).into(),
            Kind::Bits => f64::from_bits(int as u64),
        };
        if self.single { f64::from(value as f32) } else { value }
    }

    /// The integer that has exactly this value, of decimals.
    pub(crate) fn int(self, value: f64) -> Option<i64> {
        let int = self.nearest(value, self.exponent()?)?;
        (self.value(int).to_bits() == value.to_bits()).then_some(int)
    }

    /// Bounds of the integers of values from `min` to `max`; `None` if they may be too large for
    /// what operators do with them, or a value may be NaN, which hides the others.
    pub(crate) fn bounds(self, min: f64, max: f64) -> Option<RangeInclusive<i64>> {
        let nearest = |value, exponent| self.nearest(value, exponent);
        match self.kind {
            Kind::Quotients(exponent) => Some(nearest(min, exponent)?..=nearest(max, exponent)?),
            Kind::Decimals(scale) => {
                Some(nearest(min, scale.exponent())?..=nearest(max, scale.exponent())?)
            }
            Kind::Grid(grid) => {
                let exponent = grid.exponent();
                Some((nearest(min, exponent)? - 1) << 1..=(nearest(max, exponent)? + 1) << 1)
            }
            Kind::Bits => {
                let bits = |v: f64| match self.single {
                    true => i64::from((v as f32).to_bits()),
                    false => v.to_bits() as i64,
                };
                let bits = |v: f64| v.is_sign_positive().then(|| bits(v));
                Some(bits(min)?..=bits(max)?)
            }
        }
    }

    /// The integer nearest to a value times a power of ten, unless that is too large.
    fn nearest(self, value: f64, exponent: u8) -> Option<i64> {
        let int = (value * power(exponent)).round();
        let most = if self.single { MAX_SINGLE_INT } else { MAX_INT };
        (int.abs() <= most).then_some(int as i64)
    }

    /// Of integers within bounds, the last whose value is below `value` and the first whose value
    /// is above it; where there is none, the one beside the bounds.
    pub(crate) fn around(self, value: f64, bounds: &RangeInclusive<i64>) -> (i128, i128) {
        // One zero.
        let value = value + 0.0;
        // Mostly both are beside the integer of the value itself.
        let near = self.bounds(value, value);
        let near = near.map(|near| (i128::from(*near.start()) - 1, i128::from(*near.end()) + 1));
        let below = self.first(bounds, near, |v| v.total_cmp(&value).is_ge()) - 1;
        (below, self.first(bounds, near, |v| v.total_cmp(&value).is_gt()))
    }

    /// The first integer within the bounds for which `holds` is true, by bisection, for which
    /// `near` is a guess. It is true for all integers after it, too.
    fn first(
        self,
        bounds: &RangeInclusive<i64>,
        near: Option<(i128, i128)>,
        holds: impl Fn(f64) -> bool,
    ) -> i128 {
        let (mut low, mut high) = (i128::from(*bounds.start()), i128::from(*bounds.end()) + 1);
        let holds = |int: i128| holds(self.rising(int as i64));
        if let Some((from, to)) = near {
            if (low..high).contains(&from) && !holds(from) {
                low = from + 1;
            }
            if (low..high).contains(&to) && holds(to) {
                high = to;
            }
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if holds(middle) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }

    /// The value of an integer, or of one that no row has, a number between its neighbours.
    fn rising(self, int: i64) -> f64 {
        match self.kind {
            // Between two decimals there need not be a multiple.
            Kind::Grid(_) if int & 1 == 1 => self.value(int).min(self.value(int + 1)),
            _ => self.value(int),
        }
    }

    /// Whether all integers of a range stand for the doubles nearest to their decimals.
    pub(crate) fn is_nearest(self, mut ints: RangeInclusive<i64>) -> bool {
        let Some(exponent) = self.exponent() else { return false };
        let nearest = Scaling::quotients(exponent, self.single);
        self == nearest || ints.all(|int| self.value(int).to_bits() == nearest.value(int).to_bits())
    }
}

/// The power of ten of an exponent, which is exact.
#[inline(always)]
fn power(exponent: u8) -> f64 {
    POWERS.get(usize::from(exponent)).copied().unwrap_or(f64::NAN)
}

/// An encoded stream of floats as integers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scaled<'b, 'a> {
    /// What the integers stand for.
    pub(crate) scaling: Scaling,
    /// The integers, signed; of an exception, any.
    pub(crate) ints: StoredInts<'b, 'a>,
    exceptions: StoredExceptions<'b, 'a>,
}

/// The integers of floats of 32 or 64 bits, in words of their size.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StoredInts<'b, 'a> {
    Singles(&'b Ints<'a, u32>),
    Doubles(&'b Ints<'a, u64>),
}

/// The exceptions of such floats, or none.
#[derive(Clone, Copy, Debug)]
pub(super) enum StoredExceptions<'b, 'a> {
    None,
    Singles(&'b Exceptions<'a, u32>),
    Doubles(&'b Exceptions<'a, u64>),
}

impl<'b, 'a> Scaled<'b, 'a> {
    fn new(kind: Kind, ints: StoredInts<'b, 'a>, exceptions: StoredExceptions<'b, 'a>) -> Self {
        let single = matches!(ints, StoredInts::Singles(_));
        Scaled { scaling: Scaling { kind, single }, ints, exceptions }
    }

    pub(super) fn decimals(
        scale: Scale,
        ints: StoredInts<'b, 'a>,
        exceptions: StoredExceptions<'b, 'a>,
    ) -> Self {
        Scaled::new(Kind::Decimals(scale), ints, exceptions)
    }

    pub(super) fn grid(
        grid: Grid,
        ints: &'b Ints<'a, u64>,
        exceptions: &'b Exceptions<'a, u64>,
    ) -> Self {
        let exceptions = StoredExceptions::Doubles(exceptions);
        Scaled::new(Kind::Grid(grid), StoredInts::Doubles(ints), exceptions)
    }

    pub(super) fn bits(ints: StoredInts<'b, 'a>) -> Self {
        Scaled::new(Kind::Bits, ints, StoredExceptions::None)
    }

    /// How many rows are exceptions.
    pub(crate) fn exceptions(&self) -> usize {
        match self.exceptions {
            StoredExceptions::None => 0,
            StoredExceptions::Singles(all) => all.len(),
            StoredExceptions::Doubles(all) => all.len(),
        }
    }

    /// Calls `put` with the index in `rows` and the value of each exception there.
    pub(crate) fn each_exception(
        &self,
        rows: &Range<usize>,
        mut put: impl FnMut(usize, f64),
    ) -> Result<()> {
        match self.exceptions {
            StoredExceptions::None => Ok(()),
            StoredExceptions::Singles(all) => {
                all.apply(rows, |at, bits| put(at, f32::from_word(bits).into()))
            }
            StoredExceptions::Doubles(all) => {
                all.apply(rows, |at, bits| put(at, f64::from_word(bits)))
            }
        }
    }

    /// Appends the integers of `rows`, less `bias`, in words of any width: exact where they fit,
    /// else modulo the word's size.
    pub(crate) fn decode<T: Word>(
        &self,
        rows: Range<usize>,
        bias: i64,
        out: &mut Vec<T>,
    ) -> Result<()> {
        match self.ints {
            StoredInts::Singles(ints) => ints.decode_narrow(rows, bias as u64, true, out),
            StoredInts::Doubles(ints) => ints.decode_narrow(rows, bias as u64, true, out),
        }
    }
}
