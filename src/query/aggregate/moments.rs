//! Variances: the sums of x − a and of (x − a)², where a is one of the group's values, the first
//! that a thread meets.
//!
//! Both are kept in two doubles, as sums of floats are, and squares are exact in two doubles, so
//! that what comes out does not depend on which thread saw which rows: changing the value that
//! distances are taken from loses nothing that one double could hold. Rows of a slice are added up
//! in single doubles about their own mean where they are of few groups.
//!
//! Distances from the first value that a thread meets in a group are summed exactly to a hundred
//! bits: no division for each row, no cancellation far from zero.

use super::columns::{GroupMap, GroupStorage, each, gather, read_words, write_words};
use super::float_sum::MAX_PENDING;
use super::kernels::{Groups, count, fold, grow};
use crate::bytes::{Cursor, Writer};
use crate::encoding::kernels::dispatch::simd;
#[cfg(feature = "cluster")]
use crate::error::Error;
use crate::error::Result;
use arrow_buffer::NullBuffer;

/// A number as the sum of a double and what it lacks.
type Two = (f64, f64);

/// What is kept of a group.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    count: u64,
    /// The first value. The others count by their distances from it.
    from: f64,
    distances: Two,
    squares: Two,
    /// Whether some value was infinite or no number; what is not finite without one has overflowed.
    not_finite: bool,
}

/// What is kept of all groups.
#[derive(Debug, Default)]
pub(crate) struct Moments(Vec<Slot>);

impl Moments {
    pub(crate) fn add(&mut self, groups: Groups<'_>, values: &[f64], valid: Option<&NullBuffer>) {
        match (groups, valid.filter(|valid| valid.null_count() > 0)) {
            // Whether groups have codes of a byte depends on memory where they are many, and the
            // last bit must not.
            (groups, valid) if self.0.len() > MAX_PENDING || !all_finite(values) => {
                fold(groups, values, valid, &mut self.0, Slot::add);
            }
            (Groups::Same { group, .. }, None) => self.add_to_one(group, values),
            (Groups::Same { group, .. }, Some(valid)) => {
                self.add_to_one(group, &kept(values, valid))
            }
            (Groups::Bytes { codes, group_of_code }, None) => {
                self.add_to_few(codes, group_of_code, values)
            }
            (Groups::Bytes { codes, group_of_code }, Some(valid)) => {
                self.add_to_few(&kept(codes, valid), group_of_code, &kept(values, valid));
            }
            (groups, valid) => fold(groups, values, valid, &mut self.0, Slot::add),
        }
    }

    /// Adds values of one group, about their own mean.
    fn add_to_one(&mut self, group: usize, values: &[f64]) {
        let (Some(slot), Some(first)) = (self.0.get_mut(group), values.first()) else { return };
        let from = first + sums(values, *first).0 / values.len() as f64;
        let (distances, squares) = sums(values, from);
        let (distances, squares) = ((distances, 0.0), (squares, 0.0));
        slot.join(Slot { count: values.len() as u64, from, distances, squares, not_finite: false });
    }

    /// Adds values of groups with codes of a byte, about the mean of each.
    fn add_to_few(&mut self, codes: &[u8], group_of_code: &[u32], values: &[f64]) {
        match group_of_code.len() {
            0..=16 => self.add_by_code::<8, 16>(codes, group_of_code, values),
            17..=64 => self.add_by_code::<8, 64>(codes, group_of_code, values),
            _ => self.add_by_code::<4, 256>(codes, group_of_code, values),
        }
    }

    fn add_by_code<const SETS: usize, const CODES: usize>(
        &mut self,
        codes: &[u8],
        group_of_code: &[u32],
        values: &[f64],
    ) {
        let (mut counts, mut from) = ([0u64; CODES], [0.0; CODES]);
        let all: [u32; CODES] = std::array::from_fn(|code| code as u32);
        let own = all.get(..group_of_code.len()).unwrap_or(&all);
        count(Groups::Bytes { codes, group_of_code: own }, &mut counts);
        for (code, value) in codes.iter().zip(values) {
            from[usize::from(*code) % CODES] = *value;
        }
        let first = sums_by_code::<SETS, CODES>(codes, values, &from);
        for ((from, (distances, _)), count) in from.iter_mut().zip(first).zip(counts) {
            *from += distances / count.max(1) as f64;
        }
        let about = sums_by_code::<SETS, CODES>(codes, values, &from);
        for (at, group) in group_of_code.iter().enumerate().take(CODES) {
            if let Some(slot) = self.0.get_mut(*group as usize) {
                let (distances, squares) = ((about[at].0, 0.0), (about[at].1, 0.0));
                slot.join(Slot {
                    count: counts[at],
                    from: from[at],
                    distances,
                    squares,
                    not_finite: false,
                });
            }
        }
    }

    pub(crate) fn merge(&mut self, other: &Moments, map: GroupMap<'_>) {
        each(&mut self.0, &other.0, map, |slot, other| {
            // Memory without groups stays untouched.
            if other.count > 0 {
                slot.join(other);
            }
        });
    }

    pub(crate) fn append(&mut self, other: &Moments, at: &[u32]) {
        gather(&mut self.0, &other.0, at);
    }

    /// The variance of a group.
    pub(crate) fn variance(&self, group: usize, sample: bool) -> Option<f64> {
        let slot = self.0.get(group)?;
        let of = slot.count.checked_sub(u64::from(sample)).filter(|of| *of > 0)?;
        let squares = slot.about_the_mean();
        Some(if squares.is_nan() { f64::NAN } else { squares / of as f64 })
    }
}

impl Slot {
    #[inline(always)]
    fn add(&mut self, value: f64) {
        self.count += 1;
        self.not_finite |= !value.is_finite();
        if self.count == 1 {
            self.from = value;
            return;
        }
        let (distance, rest) = difference(value, self.from);
        let (square, lost) = product(distance, distance);
        grow_by(&mut self.distances, distance, rest);
        grow_by(&mut self.squares, square, lost + 2.0 * distance * rest);
    }

    /// Adds the values of another one.
    #[inline(always)]
    fn join(&mut self, mut other: Slot) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = other;
            return;
        }
        other.move_to(self.from);
        self.count += other.count;
        self.not_finite |= other.not_finite;
        grow_by(&mut self.distances, other.distances.0, other.distances.1);
        grow_by(&mut self.squares, other.squares.0, other.squares.1);
    }

    /// Takes distances from another value.
    fn move_to(&mut self, from: f64) {
        let step = difference(self.from, from);
        self.from = from;
        if step == (0.0, 0.0) {
            return;
        }
        // (x + step)² = x² + 2·x·step + step²
        let all = times(step, (self.count as f64, 0.0));
        let twice = times((2.0 * self.distances.0, 2.0 * self.distances.1), step);
        let steps = times(all, step);
        grow_by(&mut self.squares, twice.0, twice.1);
        grow_by(&mut self.squares, steps.0, steps.1);
        grow_by(&mut self.distances, all.0, all.1);
    }

    /// The sum of the squares of the distances from the mean.
    fn about_the_mean(&self) -> f64 {
        if self.not_finite {
            return f64::NAN;
        }
        if ![self.from, self.distances.0, self.squares.0].iter().all(|part| part.is_finite()) {
            return f64::INFINITY;
        }
        let count = self.count as f64;
        let distances = settled(self.distances);
        let square = times(distances, distances);
        let quotient = square.0 / count;
        let (whole, rest) = product(quotient, count);
        let part = (((square.0 - whole) - rest) + square.1) / count;
        let squares = settled(self.squares);
        let (left, lost) = difference(squares.0, quotient);
        match left + (lost + (squares.1 - part)) {
            // Values are finite, but not what came of them on the way.
            found if found.is_nan() => f64::INFINITY,
            found => found.max(0.0),
        }
    }
}

fn all_finite(values: &[f64]) -> bool {
    simd(
        #[inline(always)]
        || values.iter().fold(true, |all, value| all & value.is_finite()),
    )
}

/// Those that are valid.
fn kept<T: Copy + Default>(all: &[T], valid: &NullBuffer) -> Vec<T> {
    let mut kept = vec![T::default(); all.len()];
    let mut next = 0;
    for (value, valid) in all.iter().zip(valid) {
        if let Some(slot) = kept.get_mut(next) {
            *slot = *value;
        }
        next += usize::from(valid);
    }
    kept.truncate(next);
    kept
}

/// The sums of distances and of their squares, several at a time.
fn sums(values: &[f64], from: f64) -> Two {
    let (mut distances, mut squares) = ([0.0; 8], [0.0; 8]);
    let (eights, rest) = values.as_chunks::<8>();
    for eight in eights {
        for lane in 0..8 {
            let distance = eight[lane] - from;
            distances[lane] += distance;
            squares[lane] += distance * distance;
        }
    }
    for value in rest {
        distances[0] += value - from;
        squares[0] += (value - from) * (value - from);
    }
    (distances.iter().sum(), squares.iter().sum())
}

/// The same for each code, from a value for each. Rows take turns between several sets, so that
/// those of one code do not wait for each other.
fn sums_by_code<const SETS: usize, const CODES: usize>(
    codes: &[u8],
    values: &[f64],
    from: &[f64; CODES],
) -> [Two; CODES] {
    let mut sets = [[(0.0, 0.0); CODES]; SETS];
    let add = |set: &mut [Two; CODES], code: u8, value: f64| {
        let code = usize::from(code) % CODES;
        let distance = value - from[code];
        set[code] = (set[code].0 + distance, set[code].1 + distance * distance);
    };
    let ((some_codes, last_codes), (some_values, last_values)) =
        (codes.as_chunks::<SETS>(), values.as_chunks::<SETS>());
    for (codes, values) in some_codes.iter().zip(some_values) {
        for ((set, code), value) in sets.iter_mut().zip(codes).zip(values) {
            add(set, *code, *value);
        }
    }
    for ((set, code), value) in sets.iter_mut().zip(last_codes).zip(last_values) {
        add(set, *code, *value);
    }
    std::array::from_fn(|code| {
        sets.iter().fold((0.0, 0.0), |sum, set| (sum.0 + set[code].0, sum.1 + set[code].1))
    })
}

/// The difference of two doubles, exactly.
#[inline(always)]
fn difference(a: f64, b: f64) -> Two {
    sum(a, -b)
}

/// The sum of two doubles, exactly.
#[inline(always)]
fn sum(a: f64, b: f64) -> Two {
    let sum = a + b;
    let part = sum - a;
    (sum, (a - (sum - part)) + (b - part))
}

/// The product of two doubles, exactly (Dekker), without an instruction that not every processor
/// has.
#[inline(always)]
fn product(a: f64, b: f64) -> Two {
    const SPLIT: f64 = 134_217_729.0;
    let halves = |v: f64| {
        let scaled = SPLIT * v;
        let high = scaled - (scaled - v);
        (high, v - high)
    };
    let (product, (a, a_low), (b, b_low)) = (a * b, halves(a), halves(b));
    (product, ((a * b - product) + a * b_low + a_low * b) + a_low * b_low)
}

fn times(a: Two, b: Two) -> Two {
    let (high, low) = product(a.0, b.0);
    sum(high, low + (a.0 * b.1 + a.1 * b.0))
}

/// Both parts as one number; what was lost of an infinity is no number.
fn settled(of: Two) -> Two {
    if of.1.is_finite() { sum(of.0, of.1) } else { (of.0, 0.0) }
}

#[inline(always)]
fn grow_by(to: &mut Two, value: f64, rest: f64) {
    let (new, lost) = sum(to.0, value);
    *to = (new, to.1 + (lost + rest));
}

impl GroupStorage for Moments {
    fn bytes_a_group(&self) -> usize {
        size_of::<Slot>()
    }

    fn grow(&mut self, groups: usize) {
        grow(&mut self.0, groups, Slot::default());
    }

    fn clear(&mut self) {
        self.0.clear();
    }

    fn memory(&self) -> usize {
        self.0.capacity() * size_of::<Slot>()
    }

    fn write(&self, out: &mut Writer) {
        let part = |part: fn(&Slot) -> u64| self.0.iter().map(part).collect::<Vec<u64>>();
        write_words(&part(|slot| slot.count), out);
        write_words(&part(|slot| slot.from.to_bits()), out);
        write_words(&part(|slot| slot.distances.0.to_bits()), out);
        write_words(&part(|slot| slot.distances.1.to_bits()), out);
        write_words(&part(|slot| slot.squares.0.to_bits()), out);
        write_words(&part(|slot| slot.squares.1.to_bits()), out);
        write_words(&part(|slot| u64::from(slot.not_finite)), out);
    }

    fn read(&mut self, groups: usize, from: &mut Cursor<'_>) -> Result<()> {
        let mut slots = vec![Slot::default(); groups];
        let mut part = |set: fn(&mut Slot, u64)| -> Result<()> {
            let words: Vec<u64> = read_words(groups, from)?;
            slots.iter_mut().zip(words).for_each(|(slot, word)| set(slot, word));
            Ok(())
        };
        part(|slot, word| slot.count = word)?;
        part(|slot, word| slot.from = f64::from_bits(word))?;
        part(|slot, word| slot.distances.0 = f64::from_bits(word))?;
        part(|slot, word| slot.distances.1 = f64::from_bits(word))?;
        part(|slot, word| slot.squares.0 = f64::from_bits(word))?;
        part(|slot, word| slot.squares.1 = f64::from_bits(word))?;
        part(|slot, word| slot.not_finite = word > 0)?;
        self.0 = slots;
        Ok(())
    }

    #[cfg(feature = "cluster")]
    fn write_one(&self, group: usize, out: &mut Writer) {
        let slot = self.0.get(group).copied().unwrap_or_default();
        out.u64(slot.count);
        let ((distance, distance_lost), (square, square_lost)) = (slot.distances, slot.squares);
        for number in [slot.from, distance, distance_lost, square, square_lost] {
            out.u64(number.to_bits());
        }
        out.u8(u8::from(slot.not_finite));
    }

    #[cfg(feature = "cluster")]
    fn read_one(&mut self, from: &mut Cursor<'_>) -> Result<()> {
        let count = from.u64()?;
        let mut number = || Ok::<_, Error>(f64::from_bits(from.u64()?));
        let (start, distances, squares) =
            (number()?, (number()?, number()?), (number()?, number()?));
        let not_finite = from.u8()? > 0;
        self.0.push(Slot { count, from: start, distances, squares, not_finite });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f64]) -> Moments {
        let mut moments = Moments::default();
        moments.grow(1);
        moments.add(Groups::Same { group: 0, rows: values.len() }, values, None);
        moments
    }

    #[test]
    fn variances_are_those_of_exact_sums() {
        assert_eq!(of(&[]).variance(0, false), None);
        assert_eq!(of(&[7.5]).variance(0, false), Some(0.0));
        assert_eq!(of(&[7.5]).variance(0, true), None);
        assert_eq!(of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).variance(0, false), Some(4.0));
        // Far from zero, and all the same.
        let far: Vec<f64> = [1.0, 2.0, 3.0, 4.0].map(|v| v + 1e14).to_vec();
        assert_eq!(of(&far).variance(0, true), Some(5.0 / 3.0));
        assert_eq!(of(&[0.1; 1000]).variance(0, true), Some(0.0));
        assert_eq!(of(&[1e200, -1e200]).variance(0, false), Some(f64::INFINITY));
        assert!(of(&[f64::INFINITY, 1.0]).variance(0, false).is_some_and(f64::is_nan));
        assert!(of(&[1.0, f64::NAN, 1.0]).variance(0, false).is_some_and(f64::is_nan));
    }

    #[test]
    fn order_and_parts_do_not_matter() {
        let values: Vec<f64> = (0..10_000)
            .map(|i| f64::from(i * 7919 % 10_007) / 100.0 * 1e3f64.powi(i % 3))
            .collect();
        let row_by_row = |values: &[f64]| {
            let mut moments = Moments::default();
            moments.grow(1);
            moments.add(Groups::Words(&vec![0; values.len()]), values, None);
            moments
        };
        let whole = row_by_row(&values).variance(0, true);
        let mut turned = values.clone();
        turned.reverse();
        assert_eq!(row_by_row(&turned).variance(0, true), whole);
        let mut parts = Moments::default();
        parts.grow(3);
        for part in turned.chunks(777) {
            parts.merge(&row_by_row(part), GroupMap::To(&[2]));
        }
        // The same slices, in whatever order.
        let in_slices = |slices: &mut dyn Iterator<Item = &[f64]>| {
            let mut moments = Moments::default();
            moments.grow(1);
            slices.for_each(|slice| moments.merge(&of(slice), GroupMap::Same));
            moments.variance(0, true)
        };
        let sliced = in_slices(&mut values.chunks(777));
        assert_eq!(sliced, in_slices(&mut values.chunks(777).rev()));
        assert!((sliced.unwrap() - whole.unwrap()).abs() < 1e-12 * whole.unwrap());
        // By code, with nulls.
        let (codes, valid): (Vec<u8>, NullBuffer) = (
            (0..10_000).map(|i| (i % 3) as u8).collect(),
            (0..10_000).map(|i| i % 7 > 0).collect(),
        );
        let mut few = Moments::default();
        few.grow(9);
        few.add(Groups::Bytes { codes: &codes, group_of_code: &[5, 0, 8] }, &values, Some(&valid));
        for (code, group) in [5, 0, 8].into_iter().enumerate() {
            let of_code = values.iter().enumerate().filter(|(i, _)| i % 3 == code && i % 7 > 0);
            let expected =
                of(&of_code.map(|(_, v)| *v).collect::<Vec<f64>>()).variance(0, false).unwrap();
            assert!((few.variance(group, false).unwrap() - expected).abs() < 1e-12 * expected);
        }
        let mut written = Writer::new();
        parts.write(&mut written);
        let bytes = written.into_vec();
        let mut cursor = Cursor::new(&bytes);
        let mut read = Moments::default();
        read.read(3, &mut cursor).unwrap();
        cursor.finish().unwrap();
        let mut one = Moments::default();
        one.append(&read, &[2, 0]);
        assert_eq!((one.variance(0, true), one.variance(1, true)), (whole, None));
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let plain =
            values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64;
        assert!((whole.unwrap() - plain).abs() < 1e-9 * plain, "{whole:?} {plain}");
    }
}
