//! Rows whose pair of a group and a decimal a thread has seen before, told by a bit for each: most
//! amounts of money and most coordinates repeat, and need not be made doubles, hashed and looked
//! for to be the same again.
//!
//! A bit stands for a whole number under one form to make doubles of such, so that two rows with
//! the same bit have the same double. Whatever has no bit goes on.

use std::ops::Range;
use std::sync::Arc;

use super::mixed_radix::{DigitScratch, MixedRadix};
use crate::block::Stream;
use crate::encoding::floats::Floats;
use crate::encoding::scaled::ScaledInts;
use crate::error::Result;
use crate::expr::Expression;
use crate::model::{DataType, Scalar};
use crate::query::aggregate::{Fetched, ValueUse, Values, WholeNumbers, fetch, grid_words};
use crate::query::context::Context;
use crate::query::memory::Reservation;
use crate::query::open::Survivors;
use crate::query::slice::Slice;

/// Bits of a thread at most: they should stay within its caches.
const MAX_BITS: u64 = 1 << 24;
/// Ways to make doubles of whole numbers that are told apart at most.
const MAX_FORMS: usize = 4;
/// After this many rows, the filter is dropped unless enough of them had been seen before.
const TRIAL: usize = 1 << 17;

/// What is to be told of the values of a column in groups.
#[derive(Debug)]
pub(crate) struct SeenFilter {
    value: Expression,
    at: usize,
    /// `None` of one group.
    groups: Option<Arc<MixedRadix>>,
    /// Least and greatest value.
    range: Range<f64>,
    most: u64,
}

/// How a block makes doubles of whole numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IntegerForm {
    /// Of a dictionary whose decimals have this many places.
    Dictionary(u8),
    /// Of decimals with this many places and these head bits of the scale.
    Decimals(u8, u8),
    /// Of decimals with this many places and multiples between them: twice the integers.
    Grid(u8, (u8, u8)),
}

impl IntegerForm {
    /// ScaledInts numbers between neighbouring ones of a value.
    fn scale(self) -> f64 {
        match self {
            IntegerForm::Dictionary(places) | IntegerForm::Decimals(places, _) => {
                10f64.powi(i32::from(places))
            }
            IntegerForm::Grid(places, _) => 2.0 * 10f64.powi(i32::from(places)),
        }
    }
}

/// What one thread has seen.
pub(crate) struct SeenFilterWorker<'a> {
    filter: Arc<SeenFilter>,
    forms: Vec<(IntegerForm, Seen)>,
    reservation: Reservation<'a>,
    /// Rows that came, and that went on.
    rows: (usize, usize),
    off: bool,
    numbers: Vec<u32>,
    room: DigitScratch,
}

/// Bits of groups and whole numbers.
struct Seen {
    low: i64,
    span: u64,
    bits: Vec<u64>,
}

impl SeenFilter {
    /// `None` where values have no stored decimals, or bounds are unknown.
    pub(crate) fn new(
        value: &Expression,
        groups: Option<Arc<MixedRadix>>,
        survivors: &Survivors,
        context: &Context<'_>,
    ) -> Option<SeenFilter> {
        let at = value.as_column()?;
        let mut range = f64::INFINITY..f64::NEG_INFINITY;
        for stored in survivors.segments.iter().filter_map(|s| s.columns.get(at)?.as_deref()) {
            let stats = stored.stats();
            if stats.nulls == stats.rows {
                continue;
            }
            let bound = |bound: &Option<crate::block::Bound>| match bound.as_ref()?.value {
                Scalar::Float(v) if v.is_finite() && *stored.data_type() == DataType::Float64 => {
                    Some(v)
                }
                _ => None,
            };
            range = range.start.min(bound(&stats.min)?)..range.end.max(bound(&stats.max)?);
        }
        let most = MAX_BITS.min(context.limits.direct);
        let fits =
            range.start <= range.end && groups.as_ref().is_none_or(|groups| groups.product < most);
        fits.then(|| SeenFilter { value: value.clone(), at, groups, range, most })
    }

    /// What the rows of a slice store, if that are whole numbers, and how the block makes doubles
    /// of them.
    fn stored(&self, slice: &Slice<'_, '_>) -> Result<Option<(IntegerForm, WholeNumbers)>> {
        let whole = Slice::new(slice.block, slice.range.clone());
        let head = match slice.block.column(self.at)?.map(|column| column.reader().stream()) {
            Some(Stream::Codes(_)) => None,
            Some(Stream::F64(Floats::Alp(alp))) => Some(alp.head_bits()),
            Some(Stream::F64(Floats::Dyadic(dyadic))) => {
                let form = IntegerForm::Grid(dyadic.exponent(), dyadic.grid());
                return Ok(grid_words(self.at, &whole)?.map(|numbers| (form, numbers)));
            }
            _ => return Ok(None),
        };
        let Fetched { values: Values::Decimals(decimals), valid, .. } =
            fetch(&self.value, &whole, ValueUse { sums: true, decimals: true })?
        else {
            return Ok(None);
        };
        let form = head.map_or(IntegerForm::Dictionary(decimals.exponent), |head| {
            IntegerForm::Decimals(decimals.exponent, head)
        });
        Ok(Some((
            form,
            WholeNumbers { ints: decimals.ints, exceptions: decimals.exceptions, valid },
        )))
    }
}

impl<'a> SeenFilterWorker<'a> {
    pub(crate) fn new(filter: Arc<SeenFilter>, context: &'a Context<'a>) -> Self {
        SeenFilterWorker {
            filter,
            forms: Vec::new(),
            reservation: Reservation::new(context),
            rows: (0, 0),
            off: false,
            numbers: Vec::new(),
            room: DigitScratch::default(),
        }
    }

    /// Reserves what it holds. It is not worth the memory that others need.
    pub(crate) fn account(&mut self) {
        let bytes =
            self.forms.iter().map(|(_, seen)| seen.bits.capacity() * size_of::<u64>()).sum();
        if self.reservation.resize(bytes).is_err() {
            self.turn_off();
        }
    }

    fn turn_off(&mut self) {
        self.off = true;
        self.forms = Vec::new();
        self.reservation.shrink(usize::MAX);
    }

    /// The selected rows of a slice that were not seen before; `None` where it cannot tell.
    pub(crate) fn new_rows(&mut self, slice: &Slice<'_, '_>) -> Result<Option<Vec<u32>>> {
        // Of few rows, all have to be decoded to tell.
        if self.off || slice.len() * 4 < slice.range.len() {
            return Ok(None);
        }
        let Some((form, stored)) = self.filter.stored(slice)? else { return Ok(None) };
        let valid = &stored.valid;
        let Some(place) = self.place(form) else { return Ok(None) };
        self.numbers.clear();
        if let Some(groups) = &self.filter.groups {
            groups.of_block(slice.block)?.numbers(slice, &mut self.numbers, &mut self.room)?;
        }
        let Some((_, seen)) = self.forms.get_mut(place) else { return Ok(None) };
        // Neither null nor an exception is what its whole number says.
        let plain = valid.is_none() && stored.exceptions.is_empty();
        let mut other = vec![false; if plain { 0 } else { slice.range.len() }];
        if let Some(valid) = valid {
            other.iter_mut().zip(valid).for_each(|(other, valid)| *other = !valid);
        }
        for (row, _) in &stored.exceptions {
            if let Some(other) = other.get_mut(*row) {
                *other = true;
            }
        }
        let is_exception = |row: usize| valid.as_ref().is_none_or(|valid| valid.is_valid(row));
        let values = seen.span as usize;
        let rows = match &stored.ints {
            ScaledInts::Narrow(ints) => {
                seen.look(ints, slice.selected(), &self.numbers, &other, is_exception)
            }
            ScaledInts::Wide(ints) => {
                seen.look(ints, slice.selected(), &self.numbers, &other, is_exception)
            }
        };
        self.rows = (self.rows.0 + slice.len(), self.rows.1 + rows.len());
        // Where there may be many values, they cannot repeat before that many rows.
        if self.rows.0 > TRIAL.max(values / 4) && self.rows.1 * 2 > self.rows.0 {
            self.turn_off();
        }
        Ok(Some(rows))
    }

    /// Where the bits of a form are, if there can be such.
    fn place(&mut self, form: IntegerForm) -> Option<usize> {
        if let Some(known) = self.forms.iter().position(|(known, _)| *known == form) {
            return Some(known);
        }
        let scale = form.scale();
        let (low, high) = (
            (self.filter.range.start * scale).floor() - 2.0,
            (self.filter.range.end * scale).ceil() + 2.0,
        );
        let groups = self.filter.groups.as_ref().map_or(1, |groups| groups.product);
        let span = high - low + 1.0;
        let fits = low.abs() < 1e15 && span * groups as f64 <= self.filter.most as f64;
        if !fits || self.forms.len() == MAX_FORMS {
            return None;
        }
        let bits = vec![0; (span as u64 * groups).div_ceil(64) as usize];
        self.forms.push((form, Seen { low: low as i64, span: span as u64, bits }));
        Some(self.forms.len() - 1)
    }
}

impl Seen {
    /// The rows, of those selected, whose bits were not yet set, and the exceptions. `numbers` are
    /// the groups of those selected, none where there is one; `other` rows have no bit, but for
    /// null go on.
    fn look<T: Copy + Into<i64>>(
        &mut self,
        ints: &[T],
        selected: Option<&[u32]>,
        numbers: &[u32],
        other: &[bool],
        is_exception: impl Fn(usize) -> bool,
    ) -> Vec<u32> {
        let mut rows = Vec::new();
        let (low, span) = (self.low, self.span);
        let mut one = |row: usize, group: u32, int: T| {
            if other.get(row).copied().unwrap_or(false) {
                if is_exception(row) {
                    rows.push(row as u32);
                }
                return;
            }
            let place = int.into().wrapping_sub(low) as u64;
            let at = u64::from(group) * span + place;
            let bit = 1u64 << (at % 64);
            match self.bits.get_mut((at / 64) as usize).filter(|_| place < span) {
                Some(word) if *word & bit > 0 => {}
                Some(word) => {
                    *word |= bit;
                    rows.push(row as u32);
                }
                None => rows.push(row as u32),
            }
        };
        let group = |at: usize| numbers.get(at).copied().unwrap_or(0);
        match selected {
            None if numbers.is_empty() => {
                ints.iter().enumerate().for_each(|(row, int)| one(row, 0, *int))
            }
            None => ints
                .iter()
                .zip(numbers)
                .enumerate()
                .for_each(|(row, (int, group))| one(row, *group, *int)),
            Some(selected) => {
                for (at, row) in selected.iter().enumerate() {
                    if let Some(int) = ints.get(*row as usize) {
                        one(*row as usize, group(at), *int);
                    }
                }
            }
        }
        rows
    }
}
