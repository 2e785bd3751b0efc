//! Parses the values of columns: zones of timestamps, other layouts of dates, epochs, and numbers
//! that are not plain.

use crate::ingest::text::layout::Layout;
use crate::ingest::text::number_format::{NumberFormat, without_plus};
use crate::ingest::text::time::Instant;
use crate::ingest::text::{Text, number, time};
use crate::model::TimeUnit;

/// Whether the text of a timestamp names a zone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Zone {
    /// It must not: local time.
    Absent,
    /// It must.
    Needed,
    /// It may; without one it is UTC.
    Optional,
}

impl Zone {
    pub(super) fn expected(zone: Option<&str>, lenient: bool) -> Self {
        match zone {
            None => Zone::Absent,
            Some("UTC" | "utc" | "Z" | "+00:00" | "Etc/UTC") if lenient => Zone::Optional,
            Some(_) => Zone::Needed,
        }
    }
}

impl Zone {
    /// The ticks of an instant, if it names a zone as it should.
    #[inline]
    fn ticks(self, instant: Instant, unit: TimeUnit) -> Option<i64> {
        let allowed = match self {
            Zone::Absent => !instant.zoned,
            Zone::Needed => instant.zoned,
            Zone::Optional => true,
        };
        if allowed { instant.ticks(unit) } else { None }
    }
}

#[inline]
pub(super) fn timestamp(text: Text<'_>, unit: TimeUnit, zone: Zone) -> Option<i64> {
    match time::instant(text) {
        Some(instant) => zone.ticks(instant, unit),
        None if zone == Zone::Needed => None,
        None => i64::from(time::date(text)?).checked_mul(86_400)?.checked_mul(unit.per_second()),
    }
}

pub(super) fn laid_out_timestamp(
    text: Text<'_>,
    layout: Layout,
    unit: TimeUnit,
    zone: Zone,
) -> Option<i64> {
    let moment = layout.moment(text.bytes())?;
    if !moment.has_time && zone == Zone::Needed {
        return None;
    }
    zone.ticks(moment.instant, unit)
}

pub(super) fn laid_out_date(text: Text<'_>, layout: Layout) -> Option<i32> {
    let moment = layout.moment(text.bytes()).filter(|moment| !moment.has_time)?;
    i32::try_from(moment.instant.seconds / 86_400).ok()
}

/// Ticks since 1970 in another unit, if that is exact.
pub(super) fn epoch(text: Text<'_>, from: TimeUnit, to: TimeUnit) -> Option<i64> {
    let ticks = i128::from(number::int64(text)?) * i128::from(to.per_second());
    let from = i128::from(from.per_second());
    if ticks % from == 0 { i64::try_from(ticks / from).ok() } else { None }
}

/// How numbers are spelled.
pub(super) trait Spelling: Copy {
    /// Calls `parse` with the plain number.
    fn read<T>(self, text: Text<'_>, parse: impl FnOnce(Text<'_>) -> Option<T>) -> Option<T>;
}

/// Numbers are plain.
#[derive(Clone, Copy)]
pub(super) struct AsIs;

impl Spelling for AsIs {
    #[inline]
    fn read<T>(self, text: Text<'_>, parse: impl FnOnce(Text<'_>) -> Option<T>) -> Option<T> {
        parse(text)
    }
}

impl Spelling for NumberFormat {
    #[inline]
    fn read<T>(self, text: Text<'_>, parse: impl FnOnce(Text<'_>) -> Option<T>) -> Option<T> {
        self.parse(text, parse)
    }
}

/// An integer that is not plain: `+5` and `-0`, and if `lenient`, what a person may write.
#[cold]
pub(super) fn loose_int(text: Text<'_>, lenient: bool) -> Option<i64> {
    if lenient {
        return i64::try_from(number::int128_lenient(text)?).ok();
    }
    match text.bytes() {
        b"-0" => Some(0),
        _ => number::int64(without_plus(text)?),
    }
}

#[cold]
pub(super) fn loose_uint(text: Text<'_>, lenient: bool) -> Option<u64> {
    if lenient {
        return u64::try_from(number::int128_lenient(text)?).ok();
    }
    number::uint64(without_plus(text)?)
}

#[cold]
pub(super) fn loose_float(text: Text<'_>, lenient: bool) -> Option<f64> {
    if lenient { number::float64_lenient(text) } else { number::float64(without_plus(text)?) }
}
