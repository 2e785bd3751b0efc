//! The loops over rows: one addition a row to the slot of its group.

use arrow_buffer::NullBuffer;

use crate::encoding::kernels::dispatch::simd;
use crate::encoding::kernels::occurrences::occurrences;

/// The group of each row of a slice, in the narrowest word that tells them apart.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Groups<'a> {
    /// All rows are of one group.
    Same {
        group: usize,
        rows: usize,
    },
    /// A code for each row, below the length of `group_of_code`.
    Bytes {
        codes: &'a [u8],
        group_of_code: &'a [u32],
    },
    Shorts(&'a [u16]),
    Words(&'a [u32]),
}

impl Groups<'_> {
    /// The group of a row.
    pub(crate) fn at(&self, row: usize) -> usize {
        match self {
            Groups::Same { group, .. } => *group,
            Groups::Bytes { codes, group_of_code } => {
                codes.get(row).map_or(0, |code| group_of(group_of_code, *code))
            }
            Groups::Shorts(groups) => groups.get(row).map_or(0, |group| group.at()),
            Groups::Words(groups) => groups.get(row).map_or(0, |group| group.at()),
        }
    }
}

#[inline(always)]
fn group_of(group_of_code: &[u32], code: u8) -> usize {
    group_of_code.get(usize::from(code)).map_or(usize::MAX, |group| *group as usize)
}

/// A number of a group.
pub(crate) trait Group: Copy {
    fn at(self) -> usize;
}

impl Group for u16 {
    #[inline(always)]
    fn at(self) -> usize {
        usize::from(self)
    }
}

impl Group for u32 {
    #[inline(always)]
    fn at(self) -> usize {
        self as usize
    }
}

/// Slots up to which counting is spread over several tables, so that a group that repeats does not
/// wait for itself.
const SPREAD: usize = 1024;
/// Codes up to which comparing all rows with each beats a table: a register holds many rows, a
/// table takes one.
const FEW_CODES: usize = 16;

/// Adds the rows of each group to its count.
pub(crate) fn count(groups: Groups<'_>, counts: &mut [u64]) {
    match groups {
        Groups::Same { group, rows } => {
            if let Some(count) = counts.get_mut(group) {
                *count += rows as u64;
            }
        }
        Groups::Bytes { codes, group_of_code } if group_of_code.len() <= FEW_CODES => {
            count_few(codes, group_of_code, counts)
        }
        Groups::Bytes { codes, group_of_code } => count_bytes(codes, group_of_code, counts),
        Groups::Shorts(groups) if counts.len() <= SPREAD => count_spread(groups, counts),
        Groups::Shorts(groups) => count_plain(groups, counts),
        Groups::Words(groups) => count_plain(groups, counts),
    }
}

/// How many codes there are of each kind, by comparison: the last kind is what is left.
fn count_few(codes: &[u8], group_of_code: &[u32], counts: &mut [u64]) {
    let mut left = codes.len() as u64;
    for (code, group) in (0u8..).zip(group_of_code) {
        let found = if usize::from(code) + 1 == group_of_code.len() {
            left
        } else {
            occurrences(codes, code)
        };
        left = left.saturating_sub(found);
        if let Some(count) = counts.get_mut(*group as usize) {
            *count += found;
        }
    }
}

fn count_bytes(codes: &[u8], group_of_code: &[u32], counts: &mut [u64]) {
    let mut tables = [[0u32; 256]; 4];
    let (eights, rest) = codes.as_chunks::<8>();
    for eight in eights {
        let word = u64::from_le_bytes(*eight);
        for i in 0..8 {
            tables[i % 4][usize::from((word >> (8 * i)) as u8)] += 1;
        }
    }
    for code in rest {
        tables[0][usize::from(*code)] += 1;
    }
    for (i, group) in group_of_code.iter().enumerate().take(256) {
        if let Some(count) = counts.get_mut(*group as usize) {
            *count += tables.iter().map(|table| u64::from(table[i])).sum::<u64>();
        }
    }
}

fn count_spread<G: Group>(groups: &[G], counts: &mut [u64]) {
    let mut tables = [[0u32; SPREAD]; 2];
    let mut pairs = groups.chunks_exact(2);
    for pair in pairs.by_ref() {
        for (table, group) in tables.iter_mut().zip(pair) {
            table[group.at() % SPREAD] += 1;
        }
    }
    for group in pairs.remainder() {
        tables[0][group.at() % SPREAD] += 1;
    }
    for (i, count) in counts.iter_mut().enumerate().take(SPREAD) {
        *count += u64::from(tables[0][i]) + u64::from(tables[1][i]);
    }
}

fn count_plain<G: Group>(groups: &[G], counts: &mut [u64]) {
    for group in groups {
        if let Some(count) = counts.get_mut(group.at()) {
            *count += 1;
        }
    }
}

/// Adds those rows of each group that are not valid to its count.
pub(crate) fn count_missing(groups: Groups<'_>, valid: &NullBuffer, counts: &mut [u64]) {
    if let Groups::Same { group, .. } = groups {
        if let Some(count) = counts.get_mut(group) {
            *count += valid.null_count() as u64;
        }
        return;
    }
    each_missing(valid, |row| {
        if let Some(count) = counts.get_mut(groups.at(row)) {
            *count += 1;
        }
    });
}

/// Calls `found` with each row that is not valid.
fn each_missing(valid: &NullBuffer, mut found: impl FnMut(usize)) {
    let chunks = valid.inner().bit_chunks();
    for (start, bits) in (0..valid.len()).step_by(64).zip(chunks.iter_padded()) {
        let rows = (valid.len() - start).min(64);
        let mut missing = !bits & (u64::MAX >> (64 - rows));
        while missing != 0 {
            found(start + missing.trailing_zeros() as usize);
            missing &= missing - 1;
        }
    }
}

/// The values as words, with `neutral` in the place of those that are not valid; without a branch,
/// for which rows are valid is hard to foretell.
#[inline(always)]
pub(crate) fn neutralised<V: Copy>(
    values: &[V],
    valid: &NullBuffer,
    neutral: u64,
    word: impl Fn(V) -> u64,
) -> Vec<u64> {
    let mut out = vec![0; values.len()];
    let mut bits = valid.inner().bit_chunks().iter_padded();
    let (some_values, last_values) = values.as_chunks::<64>();
    let (some_out, last_out) = out.as_chunks_mut::<64>();
    simd(
        #[inline(always)]
        || {
            let choose = |bits: u64, at: usize, value: V| {
                let mask = 0u64.wrapping_sub(bits >> at & 1);
                (word(value) & mask) | (neutral & !mask)
            };
            for ((values, out), bits) in some_values.iter().zip(some_out).zip(&mut bits) {
                for at in 0..64 {
                    out[at] = choose(bits, at, values[at]);
                }
            }
            let bits = bits.next().unwrap_or_default();
            for (at, (value, out)) in last_values.iter().zip(last_out).enumerate() {
                *out = choose(bits, at, *value);
            }
        },
    );
    out
}

/// Calls `add` with the slot and the value of each valid row.
#[inline(always)]
fn each<G: Copy, S, V: Copy>(
    groups: &[G],
    values: &[V],
    valid: Option<&NullBuffer>,
    slots: &mut [S],
    at: impl Fn(G) -> usize,
    mut add: impl FnMut(&mut S, V),
) {
    match valid.filter(|valid| valid.null_count() > 0) {
        None => {
            for (group, value) in groups.iter().zip(values) {
                if let Some(slot) = slots.get_mut(at(*group)) {
                    add(slot, *value);
                }
            }
        }
        Some(valid) => {
            for ((group, value), valid) in groups.iter().zip(values).zip(valid.iter()) {
                if valid && let Some(slot) = slots.get_mut(at(*group)) {
                    add(slot, *value);
                }
            }
        }
    }
}

/// [`each`] for groups of any width.
#[inline(always)]
pub(crate) fn fold<S, V: Copy>(
    groups: Groups<'_>,
    values: &[V],
    valid: Option<&NullBuffer>,
    slots: &mut [S],
    mut add: impl FnMut(&mut S, V),
) {
    match groups {
        Groups::Same { group, .. } => {
            let Some(slot) = slots.get_mut(group) else { return };
            match valid.filter(|valid| valid.null_count() > 0) {
                None => values.iter().for_each(|value| add(slot, *value)),
                Some(valid) => values
                    .iter()
                    .zip(valid.iter())
                    .filter(|(_, valid)| *valid)
                    .for_each(|(value, _)| add(slot, *value)),
            }
        }
        Groups::Bytes { codes, group_of_code } => {
            each(codes, values, valid, slots, |code| group_of(group_of_code, code), add)
        }
        Groups::Shorts(groups) => each(groups, values, valid, slots, Group::at, add),
        Groups::Words(groups) => each(groups, values, valid, slots, Group::at, add),
    }
}

/// A sum beyond 128 bits, and whatever is added to it. No sum that has room in a decimal is as far
/// from 0.
const OVERFLOWN: i128 = i128::MIN;

/// Adds to a sum, which stays [`OVERFLOWN`] once it is.
#[inline(always)]
pub(crate) fn add_checked(sum: &mut i128, more: i128) {
    *sum = match (*sum, more) {
        (OVERFLOWN, _) | (_, OVERFLOWN) => OVERFLOWN,
        (sum, more) => sum.checked_add(more).unwrap_or(OVERFLOWN),
    };
}

/// Adds to a sum that has room for it.
#[inline(always)]
pub(super) fn add_fitting(sum: &mut i128, more: i128) {
    *sum = sum.wrapping_add(more);
}

/// Adds each row's whole number to the sum of its group by `add`, which is one of the two above.
#[inline(always)]
pub(super) fn add_wide(
    groups: Groups<'_>,
    values: &[i64],
    valid: Option<&NullBuffer>,
    sums: &mut [i128],
    add: impl Fn(&mut i128, i128) + Copy,
) {
    match (groups, valid.filter(|valid| valid.null_count() > 0)) {
        (Groups::Same { group, .. }, None) => {
            if let Some(slot) = sums.get_mut(group) {
                add(slot, values.chunks(1 << 20).map(wide_sum).sum::<i128>());
            }
        }
        (Groups::Bytes { codes, group_of_code }, None) if are_small(values) => fold_bytes(
            codes,
            group_of_code,
            values,
            sums,
            |sum: &mut i64, v| *sum = sum.wrapping_add(v),
            |slot, sum| add(slot, sum.into()),
        ),
        (groups, None) => {
            fold_spread(groups, values, sums, |slot, v| add(slot, v.into()), add);
        }
        (groups, valid) => fold(groups, values, valid, sums, |slot, v| add(slot, v.into())),
    }
}

/// Whether no sum of some of the values leaves 64 bits.
fn are_small(values: &[i64]) -> bool {
    let most = greatest_size(values, true).saturating_mul(values.len() as u64);
    i64::try_from(most).is_ok()
}

/// How far values are from 0 at most: a power of two, or one less.
pub(crate) fn greatest_size(values: &[i64], signed: bool) -> u64 {
    let used = simd(
        #[inline(always)]
        || match signed {
            // Of a negative number, the bits that are not set.
            true => values.iter().fold(0, |used, value| used | (value ^ (value >> 63))),
            false => values.iter().fold(0, |used, value| used | value),
        },
    );
    (used as u64).saturating_add(u64::from(signed))
}

/// The sum of up to 2³² whole numbers: both halves of them by themselves, all made positive.
fn wide_sum(values: &[i64]) -> i128 {
    let (low, high) = simd(
        #[inline(always)]
        || {
            values.iter().fold((0u64, 0u64), |(low, high), value| {
                let word = *value as u64 ^ 1 << 63;
                (low + (word & u64::from(u32::MAX)), high + (word >> 32))
            })
        },
    );
    (i128::from(high) << 32) + i128::from(low) - ((values.len() as i128) << 63)
}

/// Adds each row's value to the slot of its group, where few groups would wait for their own last
/// addition: rows take turns between several sets of slots, which `merge` joins.
#[inline(always)]
pub(crate) fn fold_spread<S: Copy + Default, V: Copy>(
    groups: Groups<'_>,
    values: &[V],
    slots: &mut [S],
    add: impl Fn(&mut S, V),
    merge: impl Fn(&mut S, S),
) {
    match groups {
        Groups::Bytes { codes, group_of_code } => {
            fold_bytes(codes, group_of_code, values, slots, add, merge)
        }
        Groups::Same { group, .. } => {
            let Some(slot) = slots.get_mut(group) else { return };
            let mut lanes = [S::default(); 8];
            let (eights, rest) = values.as_chunks::<8>();
            simd(
                #[inline(always)]
                || fold_eights(eights, &mut lanes, &add),
            );
            rest.iter().for_each(|value| add(&mut lanes[0], *value));
            lanes.iter().for_each(|lane| merge(slot, *lane));
        }
        groups => fold(groups, values, None, slots, add),
    }
}

#[inline(always)]
fn fold_eights<S: Copy, V: Copy>(eights: &[[V; 8]], lanes: &mut [S; 8], add: impl Fn(&mut S, V)) {
    for values in eights {
        lanes.iter_mut().zip(values).for_each(|(lane, value)| add(lane, *value));
    }
}

/// The same for codes of a byte; the sets are of another type than the slots.
#[inline(always)]
fn fold_bytes<P: Copy + Default, S, V: Copy>(
    codes: &[u8],
    group_of_code: &[u32],
    values: &[V],
    slots: &mut [S],
    add: impl Fn(&mut P, V),
    merge: impl Fn(&mut S, P),
) {
    match group_of_code.len() <= 64 {
        true => fold_codes::<_, _, _, 8, 64>(codes, group_of_code, values, slots, add, merge),
        false => fold_codes::<_, _, _, 4, 256>(codes, group_of_code, values, slots, add, merge),
    }
}

/// The same for codes below a power of two: the more that rows of one code wait for each other, the
/// more sets.
#[inline(always)]
fn fold_codes<P: Copy + Default, S, V: Copy, const SETS: usize, const CODES: usize>(
    codes: &[u8],
    group_of_code: &[u32],
    values: &[V],
    slots: &mut [S],
    add: impl Fn(&mut P, V),
    merge: impl Fn(&mut S, P),
) {
    let mut sets = [[P::default(); CODES]; SETS];
    let (some_codes, last_codes) = codes.as_chunks::<SETS>();
    let (some_values, last_values) = values.as_chunks::<SETS>();
    for (codes, values) in some_codes.iter().zip(some_values) {
        for ((set, code), value) in sets.iter_mut().zip(codes).zip(values) {
            add(&mut set[usize::from(*code) % CODES], *value);
        }
    }
    for (code, value) in last_codes.iter().zip(last_values) {
        add(&mut sets[0][usize::from(*code) % CODES], *value);
    }
    for (at, group) in group_of_code.iter().enumerate().take(CODES) {
        if let Some(slot) = slots.get_mut(*group as usize) {
            sets.iter().for_each(|set| merge(slot, set[at]));
        }
    }
}

/// Makes room for `groups` groups. The first room is zero pages of the system, which cost nothing
/// until they are touched.
pub(crate) fn grow<T: Clone>(slots: &mut Vec<T>, groups: usize, empty: T) {
    if slots.is_empty() {
        *slots = vec![empty; groups];
    } else {
        slots.resize(groups, empty);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_sums_are_exact() {
        for values in [
            &[i64::MAX, i64::MAX, i64::MIN, 3, -1][..],
            &[i64::MIN; 9],
            &[i64::MAX; 70],
            &[],
            &[-5],
        ] {
            let sum: i128 = values.iter().copied().map(i128::from).sum();
            let mut sums = [7i128];
            add_wide(
                Groups::Same { group: 0, rows: values.len() },
                values,
                None,
                &mut sums,
                add_checked,
            );
            assert_eq!(sums, [7 + sum]);
            add_wide(Groups::Shorts(&vec![0; values.len()]), values, None, &mut sums, add_checked);
            assert_eq!(sums, [7 + 2 * sum]);
            add_wide(
                Groups::Bytes { codes: &vec![0; values.len()], group_of_code: &[0] },
                values,
                None,
                &mut sums,
                add_checked,
            );
            assert_eq!(sums, [7 + 3 * sum]);
        }
    }

    proptest::proptest! {
        #[test]
        fn counts_are_counts(
            rows in proptest::collection::vec((0u8..200, proptest::bool::ANY), 0..20_000),
            most in 1usize..200,
        ) {
            let codes: Vec<u8> = rows.iter().map(|(code, _)| code % most as u8).collect();
            let valid: NullBuffer = rows.iter().map(|(_, valid)| *valid).collect();
            let group_of_code: Vec<u32> = (0..most as u32).map(|code| code * 3 + 1).collect();
            let groups = Groups::Bytes { codes: &codes, group_of_code: &group_of_code };
            let (mut counts, mut missing) = (vec![0; 3 * most], vec![0; 3 * most]);
            count(groups, &mut counts);
            count_missing(groups, &valid, &mut missing);
            for (code, group) in (0u8..).zip(&group_of_code) {
                let of = |null: bool| {
                    let rows = codes.iter().zip(&valid);
                    rows.filter(|(c, v)| **c == code && (!null || !*v)).count() as u64
                };
                proptest::prop_assert_eq!(counts[*group as usize], of(false));
                proptest::prop_assert_eq!(missing[*group as usize], of(true));
            }
        }
    }
}
