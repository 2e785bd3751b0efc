//! Statistics measured anew from decoded values, and where stored ones contradict them.
//!
//! The writer measures a block while it has all its values (`block/measure`). Verification decodes
//! a few vectors at a time and keeps no more than that, so what it measures is added up here. A
//! column with a dictionary is counted by its codes, once for each row, and its values are looked
//! at once each.

use std::cmp::Ordering;

use arrow_array::{Array, ArrayRef};
use hashbrown::HashSet;

use crate::block::{self, Bound, Gathered, Order, Piece, Stats, Values};
use crate::error::Result;
use crate::model::{DataType, Physical};

/// What is true of the values seen so far.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    /// Without a sum where the type has none; `distinct` stays unknown unless it was counted.
    pub(super) stats: Stats,
    /// Whether there is a greatest value for which no bound of limited length exists.
    unbounded: bool,
    /// The first and the last row.
    first: Option<ArrayRef>,
    last: Option<ArrayRef>,
    /// Hashes of the distinct values, up to one more than a number that was claimed.
    seen: Option<(usize, HashSet<u64, foldhash::fast::FixedState>)>,
}

impl Tally {
    /// Nothing seen yet. With `distinct`, different values are counted up to one more than that.
    pub(super) fn new(distinct: Option<u64>) -> Tally {
        let order = Order { ascending: true, descending: true, strict: true };
        let limit = distinct.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
        Tally {
            stats: Stats { order, ..Stats::default() },
            unbounded: false,
            first: None,
            last: None,
            seen: limit.map(|limit| (limit, HashSet::default())),
        }
    }

    /// Adds the rows that follow.
    pub(super) fn add(&mut self, values: &ArrayRef, data_type: &DataType) -> Result<()> {
        if values.is_empty() {
            return Ok(());
        }
        let physical = data_type.physical();
        let all = [Piece { array: values, start: 0, len: values.len() }];
        let gathered = block::gather(data_type, &all)?;
        let mut found = measure(&gathered, physical);
        found.order = both(found.order, self.order_at_edge(Some(values), data_type)?);
        if let Some((limit, seen)) = &mut self.seen {
            insert_hashes(&gathered, *limit, seen);
        }
        self.merge(&found);
        self.first.get_or_insert_with(|| values.slice(0, 1));
        self.last = Some(values.slice(values.len() - 1, 1));
        Ok(())
    }

    /// Adds rows that follow and have been measured. Their distinct values are not among those that
    /// are counted here: [`Tally::count`] adds them.
    pub(super) fn append(&mut self, next: &Tally, data_type: &DataType) -> Result<()> {
        let edge = self.order_at_edge(next.first.as_ref(), data_type)?;
        self.merge(&Stats { order: both(next.stats.order, edge), ..next.stats.clone() });
        self.first = self.first.take().or_else(|| next.first.clone());
        self.last = next.last.clone().or_else(|| self.last.take());
        Ok(())
    }

    /// Counts distinct values, if they are to be counted.
    pub(super) fn count(&mut self, values: &ArrayRef, data_type: &DataType) -> Result<()> {
        if let Some((limit, seen)) = &mut self.seen {
            let all = [Piece { array: values, start: 0, len: values.len() }];
            insert_hashes(&block::gather(data_type, &all)?, *limit, seen);
        }
        Ok(())
    }

    /// The order of the last row here and the first of those that follow.
    fn order_at_edge(&self, next: Option<&ArrayRef>, data_type: &DataType) -> Result<Order> {
        let (Some(last), Some(next)) = (&self.last, next) else {
            return Ok(Order { ascending: true, descending: true, strict: true });
        };
        let edge =
            [Piece { array: last, start: 0, len: 1 }, Piece { array: next, start: 0, len: 1 }];
        Ok(measure(&block::gather(data_type, &edge)?, data_type.physical()).order)
    }

    /// Adds what was measured of rows that follow; their order includes that at the boundary.
    pub(super) fn merge(&mut self, next: &Stats) {
        let stats = &mut self.stats;
        self.unbounded |= next.min.is_some() && next.max.is_none();
        stats.rows += next.rows;
        stats.nulls += next.nulls;
        stats.nans += next.nans;
        stats.min = nearest(stats.min.take(), next.min.clone(), Ordering::Less);
        stats.max = nearest(stats.max.take(), next.max.clone(), Ordering::Greater);
        if self.unbounded {
            stats.max = None;
        }
        stats.sum = match (stats.sum, next.sum) {
            (Some(a), Some(b)) => Some(a.wrapping_add(b)),
            (a, b) => a.or(b),
        };
        stats.order = both(stats.order, next.order);
    }

    /// The statistics, with the number of distinct values if it was counted.
    pub(super) fn finish(self) -> Stats {
        let distinct = self.seen.map(|(_, seen)| seen.len() as u64).or(self.stats.distinct);
        Stats { distinct, ..self.stats }
    }
}

/// Statistics of gathered values as the writer measures them, but with an order of booleans, and
/// sums modulo 2¹²⁸.
fn measure(gathered: &Gathered<'_>, physical: Physical) -> Stats {
    let mut stats = block::measure(gathered, physical);
    match &gathered.values {
        Values::Bool(bits) if stats.nulls == 0 => {
            let bits = || bits.iter();
            stats.order = Order {
                ascending: bits().is_sorted(),
                descending: bits().is_sorted_by(|a, b| a >= b),
                strict: bits().is_sorted_by(|a, b| a != b),
            };
        }
        Values::Wide(values) => {
            let valid = values.iter().enumerate().filter(|(at, _)| gathered.is_valid(*at));
            stats.sum = Some(valid.fold(0i128, |sum, (_, value)| sum.wrapping_add(*value)));
        }
        _ => {}
    }
    if stats.nulls > 0 {
        stats.order = Order::default();
    }
    stats
}

fn both(a: Order, b: Order) -> Order {
    Order {
        ascending: a.ascending && b.ascending,
        descending: a.descending && b.descending,
        strict: a.strict && b.strict,
    }
}

/// The one of two bounds that is `wanted` compared with the other.
fn nearest(a: Option<Bound>, b: Option<Bound>, wanted: Ordering) -> Option<Bound> {
    let (Some(a), Some(b)) = (&a, &b) else { return a.or(b) };
    let keep_first = match a.value.total_cmp(&b.value) {
        // Where both round to the same bytes, the inexact one is the one further out.
        Some(Ordering::Equal) => !a.exact || b.exact,
        Some(order) => order == wanted,
        None => true,
    };
    Some(if keep_first { a.clone() } else { b.clone() })
}

fn insert_hashes(
    gathered: &Gathered<'_>,
    limit: usize,
    seen: &mut HashSet<u64, foldhash::fast::FixedState>,
) {
    let mix = |word: u64| word.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29) ^ word;
    let mut add = |at: usize, hash: u64| {
        if gathered.is_valid(at) && seen.len() <= limit {
            seen.insert(hash);
        }
    };
    match &gathered.values {
        Values::Null => {}
        Values::Bool(bits) => bits.iter().enumerate().for_each(|(i, v)| add(i, u64::from(v))),
        Values::W8(v) => v.iter().enumerate().for_each(|(i, v)| add(i, u64::from(*v))),
        Values::W16(v) => v.iter().enumerate().for_each(|(i, v)| add(i, u64::from(*v))),
        Values::W32(v) => v.iter().enumerate().for_each(|(i, v)| add(i, u64::from(*v))),
        Values::W64(v) => v.iter().enumerate().for_each(|(i, v)| add(i, *v)),
        Values::F32(v) => v.iter().enumerate().for_each(|(i, v)| add(i, u64::from(v.to_bits()))),
        Values::F64(v) => v.iter().enumerate().for_each(|(i, v)| add(i, v.to_bits())),
        Values::Wide(v) => {
            let fold = |v: i128| (v as u64) ^ mix((v >> 64) as u64);
            v.iter().enumerate().for_each(|(i, v)| add(i, fold(*v)));
        }
        Values::Bytes(v) => {
            let hash = |v: &[u8]| twox_hash::XxHash3_128::oneshot(v) as u64;
            v.iter().enumerate().for_each(|(i, v)| add(i, hash(v)));
        }
    }
}

/// Counts the rows of each code of a column with a dictionary; code 0 is null.
#[derive(Clone, Debug)]
pub(super) struct CodeTally {
    counts: Vec<u32>,
    order: Order,
    last: Option<u32>,
}

impl CodeTally {
    /// Nothing counted yet, of a dictionary of `values` values.
    pub(super) fn new(values: usize) -> CodeTally {
        let order = Order { ascending: true, descending: true, strict: true };
        CodeTally { counts: vec![0; values + 1], order, last: None }
    }

    /// Adds the rows that follow; returns the first code that no value has.
    pub(super) fn add(&mut self, codes: &[u32]) -> Option<u32> {
        let mut last = self.last;
        for &code in codes {
            let Some(count) = self.counts.get_mut(code as usize) else { return Some(code) };
            *count = count.saturating_add(1);
            if let Some(before) = last {
                self.order.ascending &= before <= code;
                self.order.descending &= before >= code;
                self.order.strict &= before != code;
            }
            last = Some(code);
        }
        self.last = last;
        None
    }

    /// Adds the counts of the rows that follow.
    pub(super) fn merge(&mut self, next: &CodeTally, first: Option<u32>) {
        for (count, more) in self.counts.iter_mut().zip(&next.counts) {
            *count = count.saturating_add(*more);
        }
        self.order = both(self.order, next.order);
        if let (Some(before), Some(code)) = (self.last, first) {
            self.order.ascending &= before <= code;
            self.order.descending &= before >= code;
            self.order.strict &= before != code;
        }
        self.last = next.last.or(self.last);
    }

    /// Whether every value has a row.
    pub(super) fn all_used(&self) -> bool {
        self.counts.iter().skip(1).all(|count| *count > 0)
    }

    /// The statistics of the counted rows; `values` are those of the dictionary, without null.
    pub(super) fn stats(&self, values: &ArrayRef, data_type: &DataType) -> Result<Stats> {
        let nulls = self.counts.first().copied().unwrap_or(0);
        let rows = self.counts.iter().map(|count| u64::from(*count)).sum();
        let mut stats = Stats { rows, nulls: u64::from(nulls), ..Stats::default() };
        let used = |count: &u32| *count > 0;
        let counts = self.counts.get(1..).unwrap_or_default();
        let ends = counts.iter().position(used).zip(counts.iter().rposition(used));
        let Some((least, greatest)) = ends else { return Ok(stats) };
        let ends = [least, greatest].map(|start| Piece { array: values, start, len: 1 });
        let physical = data_type.physical();
        let bounds = block::measure(&block::gather(data_type, &ends)?, physical);
        (stats.min, stats.max) = (bounds.min, bounds.max);
        stats.distinct = Some(counts.iter().filter(|count| used(count)).count() as u64);
        let all = [Piece { array: values, start: 0, len: values.len() }];
        if matches!(physical, Physical::Word { .. } | Physical::Wide) {
            stats.sum = Some(sum(&block::gather(data_type, &all)?, counts, physical));
        } else if matches!(physical, Physical::Float32 | Physical::Float64) {
            stats.nans = nans(&block::gather(data_type, &all)?, counts);
        }
        if nulls == 0 {
            stats.order = self.order;
        }
        Ok(stats)
    }
}

/// The sum of values, each as often as it is counted, modulo 2¹²⁸.
fn sum(values: &Gathered<'_>, counts: &[u32], physical: Physical) -> i128 {
    let signed = matches!(physical, Physical::Word { signed: true, .. });
    let word = |plain: u64, extended: i64| match signed {
        true => i128::from(extended),
        false => i128::from(plain),
    };
    let weighted = |values: &mut dyn Iterator<Item = i128>| {
        let each = values.zip(counts).map(|(value, n)| value.wrapping_mul(i128::from(*n)));
        each.fold(0i128, i128::wrapping_add)
    };
    match &values.values {
        Values::W8(v) => weighted(&mut v.iter().map(|v| word((*v).into(), (*v as i8).into()))),
        Values::W16(v) => weighted(&mut v.iter().map(|v| word((*v).into(), (*v as i16).into()))),
        Values::W32(v) => weighted(&mut v.iter().map(|v| word((*v).into(), (*v as i32).into()))),
        Values::W64(v) => weighted(&mut v.iter().map(|v| word(*v, *v as i64))),
        Values::Wide(v) => weighted(&mut v.iter().copied()),
        _ => 0,
    }
}

fn nans(values: &Gathered<'_>, counts: &[u32]) -> u64 {
    let count = |is_nan: &mut dyn Iterator<Item = bool>| {
        is_nan.zip(counts).filter(|(nan, _)| *nan).map(|(_, n)| u64::from(*n)).sum()
    };
    match &values.values {
        Values::F32(v) => count(&mut v.iter().map(|v| v.is_nan())),
        Values::F64(v) => count(&mut v.iter().map(|v| v.is_nan())),
        _ => 0,
    }
}

/// What stored statistics say that is not so, given those of the values. A statistic that is not
/// claimed is never wrong.
pub(crate) fn contradictions(claimed: &Stats, truth: &Stats, data_type: &DataType) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut differ = |what: &str, says: u64, is: u64| {
        if says != is {
            wrong.push(format!("{what} are said to be {says}, but are {is}"));
        }
    };
    differ("rows", claimed.rows, truth.rows);
    differ("nulls", claimed.nulls, truth.nulls);
    differ("NaN", claimed.nans, truth.nans);
    let has_values = truth.nulls < truth.rows;
    let bounds = [
        ("minimum", &claimed.min, &truth.min, Ordering::Greater),
        ("maximum", &claimed.max, &truth.max, Ordering::Less),
    ];
    for (name, says, is, inside) in bounds {
        let Some(says) = says else { continue };
        let Some(is) = is else {
            if !has_values && says.exact {
                wrong.push(format!("there is an exact {name}, but no value"));
            }
            continue;
        };
        let order = says.value.total_cmp(&is.value);
        let holds = match says.exact {
            true => is.exact && order == Some(Ordering::Equal),
            false => order.is_some_and(|order| order != inside),
        };
        if !holds {
            let kind = if says.exact { "exact" } else { "inexact" };
            let (says, is) = (says.value.show(data_type), is.value.show(data_type));
            wrong.push(format!("the {kind} {name} is said to be {says}, but is {is}"));
        }
    }
    let summed = matches!(data_type.physical(), Physical::Word { .. } | Physical::Wide);
    match (claimed.sum, truth.sum) {
        (Some(_), _) if !summed => wrong.push(format!("{data_type} has a sum")),
        (Some(says), is) if says != is.unwrap_or(0) => {
            wrong.push(format!("the sum is said to be {says}, but is {}", is.unwrap_or(0)));
        }
        _ => {}
    }
    if let (Some(says), Some(is)) = (claimed.distinct, truth.distinct)
        && says < is
    {
        wrong.push(format!("at most {says} distinct values are said to be, but there are more"));
    }
    let orders = [
        ("ascending", claimed.order.ascending, truth.order.ascending),
        ("descending", claimed.order.descending, truth.order.descending),
        ("strictly ordered", claimed.order.strict, truth.order.strict),
    ];
    for (name, says, is) in orders {
        if says && !is {
            wrong.push(format!("values are said to be {name}, and are not"));
        }
    }
    wrong
}
