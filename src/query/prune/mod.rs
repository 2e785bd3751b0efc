//! Pruning: what statistics say of a predicate before any row is read.
//!
//! A predicate is evaluated over statistics to the set of outcomes that its rows may have
//! ([`Outcomes`]); from that follows the [`Verdict`]. Bounds need not be exact: the true minimum is
//! not below a lower bound. Where a segment stores a narrower type than the predicate compares in,
//! bounds are widened first, by maps that keep order.

pub(crate) mod blocks;
pub(crate) mod partitions;
pub(crate) mod segments;

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::block::Stats;
use crate::expr::{Comparison, IntegerSet, Operand, Outcome, Outcomes, Predicate, SamplePart};
use crate::model::{ColumnId, DataType, Scalar};

/// What is known of one column over the rows in question.
#[derive(Clone, Debug)]
pub(crate) struct Evidence<'a> {
    /// The type in which the statistics are given: that of the segment, which may be narrower than
    /// the table's.
    pub data_type: Cow<'a, DataType>,
    /// The statistics.
    pub stats: Cow<'a, Stats>,
}

impl Evidence<'static> {
    /// Of a column that a segment does not have: every row is null.
    pub(crate) fn absent(rows: u64) -> Self {
        Evidence {
            data_type: Cow::Owned(DataType::Null),
            stats: Cow::Owned(Stats { rows, nulls: rows, ..Stats::default() }),
        }
    }
}

/// Whether rows can match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// No row matches.
    Never,
    /// Some may.
    Maybe,
    /// Every row matches.
    Always,
}

/// Judges `predicate` over `rows` rows. `evidence` gives what is known of a column, `None` if
/// nothing.
pub(crate) fn verdict<'a>(
    predicate: &Predicate,
    rows: u64,
    evidence: &mut dyn FnMut(ColumnId) -> Option<Evidence<'a>>,
) -> Verdict {
    if rows == 0 {
        return Verdict::Never;
    }
    let outcomes = outcomes(predicate, evidence);
    if !outcomes.contains(Outcome::True) {
        Verdict::Never
    } else if outcomes.is_only(Outcome::True) {
        Verdict::Always
    } else {
        Verdict::Maybe
    }
}

/// What showed that no row matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Least and greatest values.
    Bounds,
    /// The numbers of rows and nulls alone.
    Nulls,
}

/// The first part of a conjunction that no row can meet, and what showed it; `None` if some row may
/// meet them all.
pub(crate) fn ruled_out<'a>(
    predicate: &Predicate,
    rows: u64,
    evidence: &mut dyn FnMut(ColumnId) -> Option<Evidence<'a>>,
) -> Option<(usize, Cause)> {
    if rows == 0 {
        return Some((0, Cause::Nulls));
    }
    let parts = match predicate {
        Predicate::And(parts) => parts.as_slice(),
        other => std::slice::from_ref(other),
    };
    let never = |(_, part): &(usize, &Predicate)| !outcomes(part, evidence).contains(Outcome::True);
    let (at, part) = parts.iter().enumerate().find(never)?;
    let mut counts = |column: ColumnId| {
        let known = evidence(column)?;
        let (rows, nulls) = (known.stats.rows, known.stats.nulls);
        let stats = Cow::Owned(Stats { rows, nulls, ..Stats::default() });
        Some(Evidence { data_type: known.data_type, stats })
    };
    let cause = if outcomes(part, &mut counts).contains(Outcome::True) {
        Cause::Bounds
    } else {
        Cause::Nulls
    };
    Some((at, cause))
}

/// The first part of a conjunction that is a sample without any of some rows of a segment.
fn outside_sample(
    predicate: &Predicate,
    segment: usize,
    rows: std::ops::Range<u64>,
) -> Option<usize> {
    let Predicate::And(parts) = predicate else { return None };
    parts.iter().position(|part| match part {
        Predicate::Sampled(sample) => sample.part(segment, rows.clone()) == SamplePart::None,
        _ => false,
    })
}

/// Every outcome that a row may have.
pub(crate) fn outcomes<'a>(
    predicate: &Predicate,
    evidence: &mut dyn FnMut(ColumnId) -> Option<Evidence<'a>>,
) -> Outcomes {
    match predicate {
        Predicate::Constant(outcome) => Outcomes::single(*outcome),
        Predicate::Unknown | Predicate::Sampled(_) => Outcomes::ANY,
        Predicate::Compare { operand, comparison, value } => {
            of_values(operand, evidence, |range| range.compare(*comparison, value))
        }
        Predicate::In { operand, values } => {
            of_values(operand, evidence, |range| range.among(values))
        }
        Predicate::InSet { operand, set } => {
            of_values(operand, evidence, |range| range.within(set))
        }
        Predicate::Like { operand, pattern } => {
            let (prefix, all) = pattern.prefix();
            of_values(operand, evidence, |range| {
                let starts = range.starts_with(prefix);
                // Whether what starts like a match is one, nobody knows.
                if all {
                    starts
                } else {
                    starts.and(Outcomes::single(Outcome::True).with(Outcome::False, true))
                }
            })
        }
        Predicate::IsNull(column) => match evidence(*column) {
            Some(known) => Outcomes::NONE
                .with(Outcome::True, known.stats.nulls > 0)
                .with(Outcome::False, known.stats.nulls < known.stats.rows),
            None => Outcomes::NONE.with(Outcome::True, true).with(Outcome::False, true),
        },
        Predicate::Is(inner, expected) => outcomes(inner, evidence).is(*expected),
        Predicate::Not(inner) => outcomes(inner, evidence).negated(),
        Predicate::And(all) => all
            .iter()
            .fold(Outcomes::single(Outcome::True), |sum, p| sum.and(outcomes(p, evidence))),
        Predicate::Or(all) => all
            .iter()
            .fold(Outcomes::single(Outcome::False), |sum, p| sum.or(outcomes(p, evidence))),
    }
}

/// Outcomes of a condition on one column's values, to which null rows add null.
fn of_values<'a>(
    operand: &Operand,
    evidence: &mut dyn FnMut(ColumnId) -> Option<Evidence<'a>>,
    judge: impl Fn(&Range) -> Outcomes,
) -> Outcomes {
    let Some(known) = evidence(operand.column) else { return Outcomes::ANY };
    let stats = &known.stats;
    let values = if stats.nulls >= stats.rows {
        Outcomes::NONE
    } else {
        judge(&Range::of(stats, &known.data_type, &operand.data_type))
    };
    values.with(Outcome::Null, stats.nulls > 0)
}

/// The bounds between which all values lie, in the type of the comparison; `None` is unbounded.
struct Range {
    min: Option<Scalar>,
    max: Option<Scalar>,
}

impl Range {
    fn of(stats: &Stats, stored: &DataType, compared: &DataType) -> Self {
        let widen = |bound: &Option<crate::block::Bound>| {
            bound.as_ref().and_then(|b| widened(&b.value, stored, compared)).map(normal)
        };
        Range { min: widen(&stats.min), max: widen(&stats.max) }
    }

    /// Lower and upper bound against `value`: `None` where unknown.
    fn sides(&self, value: &Scalar) -> (Option<Ordering>, Option<Ordering>) {
        let against =
            |bound: &Option<Scalar>| bound.as_ref().and_then(|bound| bound.total_cmp(value));
        (against(&self.min), against(&self.max))
    }

    fn compare(&self, comparison: Comparison, value: &Scalar) -> Outcomes {
        let (min, max) = self.sides(&normal(value.clone()));
        // What single values may be to the constant, given that they lie between the bounds.
        let less = min.is_none_or(Ordering::is_lt);
        let greater = max.is_none_or(Ordering::is_gt);
        let equal = min.is_none_or(Ordering::is_le) && max.is_none_or(Ordering::is_ge);
        let (yes, no) = match comparison {
            Comparison::Equal => (equal, less || greater),
            Comparison::NotEqual => (less || greater, equal),
            Comparison::Less => (less, equal || greater),
            Comparison::LessOrEqual => (less || equal, greater),
            Comparison::Greater => (greater, less || equal),
            Comparison::GreaterOrEqual => (greater || equal, less),
        };
        Outcomes::NONE.with(Outcome::True, yes).with(Outcome::False, no)
    }

    /// Long lists are compared bit by bit by some engines, where −0.0 is not 0.0: a zero is never
    /// surely found.
    fn among(&self, values: &[Scalar]) -> Outcomes {
        let zero = |value: &Scalar| matches!(value, Scalar::Float(v) if *v == 0.0);
        let mut possible = false;
        let mut sure = false;
        for value in values {
            let found = self.compare(Comparison::Equal, value);
            possible |= found.contains(Outcome::True);
            sure |= found.is_only(Outcome::True) && !zero(value);
        }
        Outcomes::NONE.with(Outcome::True, possible).with(Outcome::False, !sure)
    }

    fn within(&self, set: &IntegerSet) -> Outcomes {
        let (any, all) = match (&self.min, &self.max) {
            (Some(Scalar::Int(min)), Some(Scalar::Int(max))) => set.among(*min, *max),
            _ => (true, false),
        };
        Outcomes::NONE.with(Outcome::True, any).with(Outcome::False, !all)
    }

    fn starts_with(&self, prefix: &[u8]) -> Outcomes {
        let (Some(Scalar::Bytes(_)) | None, Some(Scalar::Bytes(_)) | None) = (&self.min, &self.max)
        else {
            return Outcomes::ANY;
        };
        // Values with the prefix are those from the prefix itself up to, not including, its
        // successor.
        let (min, max) = self.sides(&Scalar::Bytes(prefix.into()));
        let end = successor(prefix).map(|end| self.sides(&Scalar::Bytes(end)));
        let below = min.is_none_or(Ordering::is_lt);
        let beyond = end.is_some_and(|(_, max)| max.is_none_or(Ordering::is_ge));
        let within = max.is_none_or(Ordering::is_ge)
            && end.is_none_or(|(min, _)| min.is_none_or(Ordering::is_lt));
        Outcomes::NONE.with(Outcome::True, within).with(Outcome::False, below || beyond)
    }
}

/// The least byte string above every one that starts with `prefix`; `None` if there is none.
fn successor(prefix: &[u8]) -> Option<Box<[u8]>> {
    let keep = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut end = prefix.get(..=keep)?.to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    Some(end.into())
}

/// −0.0 and 0.0 compare equal.
fn normal(value: Scalar) -> Scalar {
    match value {
        Scalar::Float(v) if v.to_bits() == (-0.0_f64).to_bits() => Scalar::Float(0.0),
        other => other,
    }
}

/// A value of `from` as one of `to`, by a map that never exchanges the order of two values; `None`
/// where there is no such map or the result does not exist.
pub(crate) fn widened(value: &Scalar, from: &DataType, to: &DataType) -> Option<Scalar> {
    use DataType::{Date, Decimal, Float32, Float64, Time, Timestamp, Utf8, Uuid};
    if from == to {
        return Some(value.clone());
    }
    let times = |value: i128, factor: i128| value.checked_mul(factor).map(Scalar::Int);
    match (from, to, value) {
        (_, _, Scalar::Int(_)) if from.is_integer() && to.is_integer() => Some(value.clone()),
        (_, Float64, Scalar::Int(v)) if from.is_integer() => Some(Scalar::Float(*v as f64)),
        (_, Float32, Scalar::Int(v)) if from.is_integer() => {
            Some(Scalar::Float(f64::from(*v as f32)))
        }
        (Float32, Float64, Scalar::Float(_)) => Some(value.clone()),
        (Uuid, Utf8, Scalar::Bytes(_)) => Some(value.clone()),
        (_, Decimal { scale, .. }, Scalar::Int(v)) if from.is_integer() => {
            times(*v, power_of_ten(0, *scale)?)
        }
        (Decimal { scale: a, .. }, Decimal { scale: b, .. }, Scalar::Int(v)) => {
            times(*v, power_of_ten(*a, *b)?)
        }
        (Date, Timestamp { unit, zone: None }, Scalar::Int(v)) => {
            times(*v, 86_400 * i128::from(unit.per_second()))
        }
        (Timestamp { unit: a, zone: za }, Timestamp { unit: b, zone: zb }, Scalar::Int(v))
            if za.is_some() == zb.is_some() && a <= b =>
        {
            times(*v, i128::from(b.per_second() / a.per_second()))
        }
        (Time { unit: a }, Time { unit: b }, Scalar::Int(v)) if a <= b => {
            times(*v, i128::from(b.per_second() / a.per_second()))
        }
        _ => None,
    }
}

/// Whether every value of `from` has its own in `to`, so that comparing there is comparing here.
pub(crate) fn widens(from: &DataType, to: &DataType) -> bool {
    let zero = match from {
        DataType::Float32 | DataType::Float64 => Scalar::Float(0.0),
        DataType::Utf8 | DataType::Uuid | DataType::Binary => Scalar::Bytes(Box::default()),
        _ => Scalar::Int(0),
    };
    from.widens_to(to) && widened(&zero, from, to).is_some()
}

fn power_of_ten(from: i8, to: i8) -> Option<i128> {
    let digits = u32::try_from(i16::from(to) - i16::from(from)).ok()?;
    10_i128.checked_pow(digits)
}

/// The columns that a predicate names, each once.
fn columns_of(predicate: &Predicate) -> Vec<ColumnId> {
    let mut columns = Vec::new();
    predicate.for_each_column(&mut |column| columns.push(column));
    columns.sort_unstable();
    columns.dedup();
    columns
}

#[cfg(test)]
mod tests;
