//! Sums in 128 bits: of decimals, which are exact or an error, and of integers and decimals to be
//! divided for their mean.

use std::sync::Arc;

use arrow_array::types::{Decimal128Type, DecimalType};
use arrow_array::{ArrayRef, Decimal128Array, Float64Array};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType as ArrowType};

use super::columns::{GroupMap, GroupStorage, SlotColumn};
use super::input::Values;
use super::kernels::{Groups, add_checked, add_fitting, add_wide, fold};
use super::kind::{Batch, StateKind, wrong_kind_error};
use super::totals::{Numbers, Totals};
use crate::error::{Error, Result};

#[derive(Debug)]
pub(super) struct WideSum {
    sums: SlotColumn<i128>,
    answer: Answer,
    /// Whether fewer than 10¹⁰ values may leave 128 bits.
    checked: bool,
}

/// What comes of a sum.
#[derive(Debug)]
enum Answer {
    /// Itself, in its type.
    Sum(ArrowType),
    /// Its quotient by the count, as a double.
    Mean,
    /// The quotient as a decimal with more digits behind the point, cut off.
    DecimalMean { factor: i128, precision: u8, scale: i8 },
}

/// DataFusion (55.2) sums decimals of more digits for their mean in 256 bits.
const MOST_DIGITS: u8 = DECIMAL128_MAX_PRECISION - 13;

impl WideSum {
    /// The sum, of a type, of decimals of `of_digits` digits.
    pub(super) fn sum(of_digits: u8, data_type: ArrowType) -> Self {
        let checked = of_digits > DECIMAL128_MAX_PRECISION - 10;
        WideSum { checked, ..WideSum::new(Answer::Sum(data_type)) }
    }

    fn new(answer: Answer) -> Self {
        WideSum { sums: SlotColumn::new(0), answer, checked: false }
    }

    /// The mean of integers.
    pub(super) fn mean() -> Self {
        WideSum::new(Answer::Mean)
    }

    /// The mean of decimals of some digits and scale, as a decimal of others; `None` if the sum may
    /// need more bits.
    pub(super) fn decimal_mean(of: (u8, i8), (precision, scale): (u8, i8)) -> Option<Self> {
        let more = scale.checked_sub(of.1).filter(|_| of.0 <= MOST_DIGITS && of.1 >= 0)?;
        let factor = 10i128.checked_pow(u32::try_from(more).ok()?)?;
        let answer = Answer::DecimalMean { factor, precision, scale };
        Some(WideSum::new(answer))
    }
}

impl StateKind for WideSum {
    fn only_adds(&self) -> bool {
        true
    }

    fn is_unbounded(&self) -> bool {
        false
    }

    fn storage(&self) -> &dyn GroupStorage {
        &self.sums
    }

    fn storage_mut(&mut self) -> &mut dyn GroupStorage {
        &mut self.sums
    }

    fn update(
        &mut self,
        groups: Groups<'_>,
        values: &Values,
        valid: Option<&NullBuffer>,
    ) -> Result<()> {
        let slots = &mut self.sums.slots;
        match values {
            Values::Words(values) if self.checked => {
                add_wide(groups, values, valid, slots, add_checked)
            }
            Values::Words(values) => add_wide(groups, values, valid, slots, add_fitting),
            Values::Wide(values) if self.checked => fold(groups, values, valid, slots, add_checked),
            Values::Wide(values) => fold(groups, values, valid, slots, add_fitting),
            Values::Floats(_) | Values::Decimals(_) | Values::Codes(_) | Values::Array(_) => {
                return Err(wrong_kind_error());
            }
        }
        Ok(())
    }

    fn takes(&self, totals: &Totals) -> bool {
        totals.numbers.is_some()
    }

    fn add_totals(&mut self, group: usize, numbers: &Numbers) {
        if let Some(sum) = self.sums.slots.get_mut(group) {
            add_checked(sum, numbers.sum);
        }
    }

    fn merge(&mut self, others: &Self, map: GroupMap<'_>) {
        self.sums.merge(&others.sums, map, add_checked);
    }

    fn append(&mut self, others: &Self, at: &[u32]) {
        self.sums.append(&others.sums, at);
    }

    fn finish(&self, batch: &Batch<'_>) -> Result<ArrayRef> {
        let sums = batch.pick(&self.sums.slots);
        Ok(match &self.answer {
            Answer::Sum(data_type) => {
                let ArrowType::Decimal128(precision, _) = data_type else {
                    return Err(wrong_kind_error());
                };
                let fits =
                    |sum: &i128| Decimal128Type::is_valid_decimal_precision(*sum, *precision);
                if !sums.iter().all(fits) {
                    return Err(Error::InvalidInput(sum_overflow(data_type)));
                }
                let array = Decimal128Array::new(sums.into(), batch.nulls());
                Arc::new(array.with_data_type(data_type.clone()))
            }
            Answer::DecimalMean { factor, precision, scale } => {
                let mean = |(sum, count): (&i128, &u64)| {
                    let sum = sum.checked_mul(*factor)?;
                    let mean = sum.checked_div(i128::from(*count)).unwrap_or_default();
                    Decimal128Type::is_valid_decimal_precision(mean, *precision).then_some(mean)
                };
                let means = sums.iter().zip(batch.counts).map(mean).collect::<Option<Vec<_>>>();
                let overflow = || "Arithmetic Overflow in AvgAccumulator".into();
                let means = means.ok_or_else(|| Error::InvalidInput(overflow()))?;
                let array = Decimal128Array::new(means.into(), batch.nulls());
                Arc::new(array.with_data_type(ArrowType::Decimal128(*precision, *scale)))
            }
            Answer::Mean => {
                let means = sums.iter().zip(batch.counts).map(|(sum, count)| mean(*sum, *count));
                Arc::new(Float64Array::new(means.collect::<ScalarBuffer<f64>>(), batch.nulls()))
            }
        })
    }
}

/// What is said of a sum for which its type has no room.
pub(crate) fn sum_overflow(data_type: &ArrowType) -> String {
    let (room, other) = match data_type {
        ArrowType::Decimal128(digits, _) => (format!("{digits} digits"), "x::double"),
        ArrowType::UInt64 => ("UBIGINT".into(), "x::decimal(38, 0) or x::double"),
        _ => ("BIGINT".into(), "x::decimal(38, 0) or x::double"),
    };
    format!("a sum does not fit into {room}: sum {other} instead")
}

/// The mean of `count` integers whose sum is `sum`.
pub(crate) fn mean(sum: i128, count: u64) -> f64 {
    sum as f64 / count as f64
}
