//! The loops over rows: one addition a row to the slot of its group.

use arrow_buffer::NullBuffer;

/// The group of each row of a slice, in the narrowest word that holds all groups.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Groups<'a> {
    /// So many rows of one group.
    One(usize),
    Bytes(&'a [u8]),
    Shorts(&'a [u16]),
    Words(&'a [u32]),
}

/// Runs `$body` with `$groups` as a slice of the right width, or `$one` for a single group.
macro_rules! by_width {
    ($groups:expr, $rows:ident => $one:expr, $slice:ident => $body:expr) => {
        match $groups {
            $crate::query::aggregate::kernels::Groups::One($rows) => $one,
            $crate::query::aggregate::kernels::Groups::Bytes($slice) => $body,
            $crate::query::aggregate::kernels::Groups::Shorts($slice) => $body,
            $crate::query::aggregate::kernels::Groups::Words($slice) => $body,
        }
    };
}

impl Groups<'_> {
    /// The group of a row.
    pub(crate) fn at(&self, row: usize) -> usize {
        by_width!(*self, _rows => 0, groups => groups.get(row).map_or(0, |group| group.at()))
    }
}

/// A number of a group.
pub(crate) trait Group: Copy {
    fn at(self) -> usize;
}

impl Group for u8 {
    #[inline(always)]
    fn at(self) -> usize {
        usize::from(self)
    }
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

/// Slots up to which counting is spread over several tables, so that a group that repeats does not wait for itself.
const SPREAD: usize = 1024;

/// Adds the rows of each group to its count.
pub(crate) fn count(groups: Groups<'_>, counts: &mut [u64]) {
    match groups {
        Groups::One(rows) => {
            if let Some(count) = counts.first_mut() {
                *count += rows as u64;
            }
        }
        Groups::Bytes(groups) => count_bytes(groups, counts),
        Groups::Shorts(groups) if counts.len() <= SPREAD => count_spread(groups, counts),
        Groups::Shorts(groups) => count_plain(groups, counts),
        Groups::Words(groups) => count_plain(groups, counts),
    }
}

fn count_bytes(groups: &[u8], counts: &mut [u64]) {
    let mut tables = [[0u32; 256]; 4];
    let mut quads = groups.chunks_exact(4);
    for quad in quads.by_ref() {
        for (table, group) in tables.iter_mut().zip(quad) {
            table[group.at()] += 1;
        }
    }
    for group in quads.remainder() {
        tables[0][group.at()] += 1;
    }
    for (i, count) in counts.iter_mut().enumerate().take(256) {
        *count += tables.iter().map(|table| u64::from(table[i])).sum::<u64>();
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

/// Adds those rows of each group that are valid to its count.
pub(crate) fn count_valid(groups: Groups<'_>, valid: &NullBuffer, counts: &mut [u64]) {
    by_width!(groups,
        _rows => if let Some(count) = counts.first_mut() {
            *count += (valid.len() - valid.null_count()) as u64;
        },
        groups => for at in valid.valid_indices() {
            if let Some(count) = groups.get(at).and_then(|group| counts.get_mut(group.at())) {
                *count += 1;
            }
        }
    );
}

/// Calls `add` with the slot and the value of each valid row.
#[inline(always)]
pub(crate) fn each<G: Group, S, V: Copy>(
    groups: &[G],
    values: &[V],
    valid: Option<&NullBuffer>,
    slots: &mut [S],
    mut add: impl FnMut(&mut S, V),
) {
    match valid.filter(|valid| valid.null_count() > 0) {
        None => {
            for (group, value) in groups.iter().zip(values) {
                if let Some(slot) = slots.get_mut(group.at()) {
                    add(slot, *value);
                }
            }
        }
        Some(valid) => {
            for ((group, value), valid) in groups.iter().zip(values).zip(valid.iter()) {
                if valid && let Some(slot) = slots.get_mut(group.at()) {
                    add(slot, *value);
                }
            }
        }
    }
}

/// [`each`] for groups of any width; a single group has one slot.
#[inline(always)]
pub(crate) fn fold<S, V: Copy>(
    groups: Groups<'_>,
    values: &[V],
    valid: Option<&NullBuffer>,
    slots: &mut [S],
    mut add: impl FnMut(&mut S, V),
) {
    by_width!(groups,
        _rows => if let Some(slot) = slots.first_mut() {
            match valid.filter(|valid| valid.null_count() > 0) {
                None => values.iter().for_each(|value| add(slot, *value)),
                Some(valid) => values
                    .iter()
                    .zip(valid.iter())
                    .filter(|(_, valid)| *valid)
                    .for_each(|(value, _)| add(slot, *value)),
            }
        },
        groups => each(groups, values, valid, slots, add)
    );
}

/// Groups up to which sums are spread over several slots each.
const FEW: usize = 256;

/// Adds each row's value to the slot of its group, where few groups would wait for their own last addition: rows
/// take turns between four sets of slots, which `merge` joins.
#[inline(always)]
pub(crate) fn fold_spread<S: Copy + Default, V: Copy>(
    groups: Groups<'_>,
    values: &[V],
    slots: &mut [S],
    add: impl Fn(&mut S, V) + Copy,
    merge: impl Fn(&mut S, S),
) {
    match groups {
        Groups::Bytes(groups) if slots.len() <= FEW => {
            let mut lanes = [[S::default(); FEW]; 4];
            let mut rows = groups.chunks_exact(4).zip(values.chunks_exact(4));
            for (groups, values) in rows.by_ref() {
                for ((lane, group), value) in lanes.iter_mut().zip(groups).zip(values) {
                    add(&mut lane[group.at()], *value);
                }
            }
            let done = groups.len().min(values.len()) / 4 * 4;
            for (group, value) in groups.iter().zip(values).skip(done) {
                add(&mut lanes[0][group.at()], *value);
            }
            for (at, slot) in slots.iter_mut().enumerate() {
                lanes.iter().for_each(|lane| merge(slot, lane[at]));
            }
        }
        Groups::One(_) => {
            let Some(slot) = slots.first_mut() else { return };
            let mut lanes = [S::default(); 8];
            let mut rows = values.chunks_exact(8);
            for values in rows.by_ref() {
                lanes.iter_mut().zip(values).for_each(|(lane, value)| add(lane, *value));
            }
            rows.remainder().iter().for_each(|value| add(&mut lanes[0], *value));
            lanes.iter().for_each(|lane| merge(slot, *lane));
        }
        groups => fold(groups, values, None, slots, add),
    }
}

/// Makes room for so many groups. The first room is zero pages of the system, which cost nothing until they are touched.
pub(crate) fn grow<T: Clone>(slots: &mut Vec<T>, groups: usize, empty: T) {
    if slots.is_empty() {
        *slots = vec![empty; groups];
    } else {
        slots.resize(groups, empty);
    }
}
